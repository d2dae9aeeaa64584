//! Workers that share a device's queue, turned by hand.

mod migration;
mod rig;

use braidnet_message::Pool;
use braidnet_process::Architecture;
use braidnet_stream::{Direction, Next, Parcel, Processor};
use braidnet_wire::time::{Duration, Instant};
use rig::{BATCH, Device, workers};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const NOW: Instant = Instant::ZERO;
const BUDGET: usize = 256;

#[test]
fn mail_that_comes_during_a_poll_is_not_slept_over() {
    let device = Device::default();
    let mut rig = workers(Architecture::Connection, 2, vec![device.queue(None)]).unwrap();
    let worker = &mut rig.workers[0];
    let mut mailboxes = worker[0].mailboxes();
    let mut pool = Pool::new(&rig.arena);
    let mut mail = pool.copy_from_slice(0, &[0, 1, 0, 0, 0, 7]);
    mail.as_mut().unwrap().set_bucket(1);
    let (stream, module) = (rig.stream.clone(), rig.module);
    *device.meanwhile.lock().unwrap() = Some(Box::new(move || {
        if let Some(mail) = mail.take() {
            mailboxes.send(Parcel::new(&stream, module, Direction::Down, mail));
        }
    }));
    assert!(
        worker.turn(NOW, BUDGET) == Next::Again || worker.has_work(),
        "the wake-up came while the worker was awake: nobody tells it again"
    );
    worker.turn(NOW, BUDGET);
    assert_eq!(*rig.noted.lock().unwrap(), [(1, 7)]);
    assert!(!worker.has_work());
}

#[test]
fn a_packet_that_comes_while_all_look_for_the_last_time_is_not_slept_over() {
    let device = Device::default();
    let mut rig = workers(Architecture::Connection, 2, vec![device.queue(None)]).unwrap();
    for worker in &mut rig.workers {
        while worker.turn(NOW, BUDGET) == Next::Again {}
    }
    let [one, other] = <[_; 2]>::try_from(rig.workers).ok().unwrap();
    let (bringing, other) = (device.clone(), Arc::new(Mutex::new((other, true))));
    let woken = other.clone();
    // The one has looked, and is still at the queue; the packet wakes the other, which finds somebody there.
    *device.looked.lock().unwrap() = Some(Box::new(move || {
        bringing.bring([(1, 7)]);
        let (worker, has_work) = &mut *woken.lock().unwrap();
        *has_work = worker.turn(NOW, BUDGET) == Next::Again || worker.has_work();
    }));
    let has_work = one.has_work();
    assert!(has_work || other.lock().unwrap().1, "both sleep");
}

/// Microseconds at which workers are turned.
fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

#[test]
fn who_may_enter_takes_what_a_queue_keeps_however_much_that_is() {
    const PACKETS: u32 = 3_000;
    for helper in [0, 1] {
        let device = Device::default();
        let mut rig = workers(Architecture::Braid, 3, vec![device.queue(None)]).unwrap();
        let mut brought = 0;
        let mut bring = |count| {
            device.bring((brought..brought + count).map(|number| (1, number)));
            brought += count;
        };
        // The first is behind; the second asks, and is let in.
        for turn in 0..40 {
            bring(BATCH as u32);
            rig.workers[0].turn(at(turn), BUDGET);
            rig.workers[1].turn(at(turn), BUDGET);
        }
        while !device.packets.lock().unwrap().is_empty() || rig.workers[0].has_work() {
            rig.workers[0].turn(at(40), BUDGET);
        }
        let home = rig.workers[0][0].cluster();
        let admitted = home.counters().value(home.stream(), "shared", "admitted");
        assert_eq!(admitted, 1);
        // The third may not enter, and the home is held up.
        bring(PACKETS);
        let mut left = PACKETS as usize + 1;
        while device.packets.lock().unwrap().len() < left {
            left = device.packets.lock().unwrap().len();
            rig.workers[2].turn(at(40), BUDGET);
        }
        assert!((1..PACKETS as usize).contains(&left), "{left} wait");
        for _ in 0..PACKETS {
            rig.workers[helper].turn(at(40), BUDGET);
        }
        let noted = rig.noted.lock().unwrap();
        let expected: Vec<_> = (0..brought).map(|number| (1, number)).collect();
        assert!(*noted == expected, "{} by {helper}", noted.len());
    }
}

#[test]
fn a_mailbox_that_a_worker_does_not_empty_holds_up_the_queue() {
    const PACKETS: u32 = 50_000;
    /// What a mailbox holds, what is on its way to it, and some.
    const WAITING: usize = 4096 + 4 * BATCH;
    let device = Device::default();
    let mut rig = workers(Architecture::Connection, 2, vec![device.queue(None)]).unwrap();
    device.bring((0..PACKETS).map(|number| (2, number)));
    device.full.store(true, Ordering::Relaxed);
    let mut turn_both = || {
        for worker in &mut rig.workers {
            worker.turn(NOW, BUDGET);
        }
    };
    for _ in 0..PACKETS {
        turn_both();
    }
    let taken = PACKETS as usize - device.packets.lock().unwrap().len();
    assert!(
        (4096..WAITING).contains(&taken),
        "{taken} packets left the device while their worker was held up"
    );
    device.full.store(false, Ordering::Relaxed);
    while !device.packets.lock().unwrap().is_empty() {
        turn_both();
    }
    for _ in 0..WAITING {
        turn_both();
    }
    let expected: Vec<_> = (0..PACKETS).map(|number| (2, number)).collect();
    assert!(*rig.noted.lock().unwrap() == expected, "out of order");
    assert!(rig.workers.iter().all(|worker| !worker.has_work()));
}

#[test]
fn each_gets_its_own_packets_in_the_order_of_the_queue_whoever_polls() {
    let device = Device::default();
    let mut rig = workers(Architecture::Connection, 2, vec![device.queue(None)]).unwrap();
    let mut number = 0;
    // Who polls, and how often in a row.
    for (worker, turns) in [(0, 3), (1, 1), (1, 2), (0, 1), (1, 4), (0, 2)].repeat(50) {
        for _ in 0..turns {
            device.bring((number..number + 5).map(|number| (1 + (number % 3 / 2) as u16, number)));
            number += 5;
            rig.workers[worker].turn(NOW, BUDGET);
        }
    }
    while rig.workers.iter().any(|worker| worker.has_work())
        || !device.packets.lock().unwrap().is_empty()
    {
        for worker in &mut rig.workers {
            worker.turn(NOW, BUDGET);
        }
    }
    let noted = rig.noted.lock().unwrap();
    for bucket in [1, 2] {
        let of_one: Vec<u32> = noted
            .iter()
            .filter(|(of, _)| *of == bucket)
            .map(|(_, number)| *number)
            .collect();
        assert!(of_one.is_sorted(), "{bucket}: {of_one:?}");
    }
    assert_eq!(noted.len(), number as usize);
}

#[test]
fn a_device_that_is_gone_is_not_waited_for() {
    for (architecture, processors) in [
        (Architecture::Connection, 1),
        (Architecture::Connection, 2),
        (Architecture::Message, 2),
    ] {
        let device = Device::default();
        let (reader, _writer) = std::io::pipe().unwrap();
        let queues = vec![device.queue(Some(reader))];
        let mut rig = workers(architecture, processors, queues).unwrap();
        let gone = rig.workers[0][0].gone().clone();
        rig.workers[0].turn(NOW, BUDGET);
        assert!(rig.workers[0].fd().is_some());
        assert!(!gone.load(Ordering::Relaxed));
        device.gone.store(true, Ordering::Relaxed);
        for worker in &mut rig.workers {
            worker.turn(NOW, BUDGET);
            assert!(worker.fd().is_none(), "{architecture:?}: ready for ever");
        }
        assert!(gone.load(Ordering::Relaxed));
    }
}
