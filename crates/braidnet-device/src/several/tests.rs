//! What several devices bring, where packets leave, who is waited for.

use super::*;
use crate::{Counters, DropReason, memory};
use braidnet_message::{Arena, Pool, Run};

fn pool() -> Pool {
    Pool::new(&Arena::new(1 << 20))
}

fn packet(pool: &mut Pool, byte: u8, device: u8) -> braidnet_message::Message {
    let mut message = pool.copy_from_slice(0, &[byte]).unwrap();
    message.set_device(device);
    message
}

/// The first byte of each, and its device.
fn seen(run: &Run) -> Vec<(u8, u8)> {
    let seen = |message: &braidnet_message::Message| (message.bytes()[0], message.device());
    run.iter().map(seen).collect()
}

/// Devices with so many queues each, and for each the far ends of its queues.
fn wires(queues: &[usize], depth: usize) -> (Vec<memory::WireEnd>, Vec<Vec<QueuePair>>) {
    let wires = queues
        .iter()
        .map(|queues| memory::wire(Capabilities::ip(1500).with_queues(*queues), depth));
    let (near, far): (Vec<_>, Vec<_>) = wires.unzip();
    let far = far.into_iter().map(|far| Box::new(far).open().unwrap());
    (near, far.collect())
}

fn joined(near: Vec<memory::WireEnd>) -> Several {
    let mut near = near.into_iter();
    let first = Several::of(near.next().unwrap());
    near.fold(first, Several::and)
}

#[test]
fn packets_say_where_they_came_from_and_leave_where_they_are_to() {
    let mut pool = pool();
    let (near, mut far) = wires(&[1, 1, 1], 64);
    let mut pair = Box::new(joined(near)).open().unwrap().remove(0);
    for (device, far) in far.iter_mut().enumerate() {
        let mut run: Run = (0..3)
            .map(|number| packet(&mut pool, 10 * device as u8 + number, 9))
            .collect();
        far[0].transmitter.transmit(&mut run);
    }
    // Nobody is starved: each call begins with the next.
    let mut run = Run::new();
    for (max, expected) in [
        (4, &[(0, 0), (1, 0), (2, 0), (10, 1)][..]),
        (3, &[(11, 1), (12, 1), (20, 2)]),
        (64, &[(21, 2), (22, 2)]),
        (64, &[]),
    ] {
        run.clear();
        assert_eq!(
            pair.receiver.receive(&mut pool, &mut run, max),
            expected.len()
        );
        assert_eq!(seen(&run), expected);
    }
    for devices in [&[2, 2, 2][..], &[0, 1, 0, 2, 1], &[1]] {
        let mut run: Run = (0..)
            .zip(devices)
            .map(|(number, device)| packet(&mut pool, number, *device))
            .collect();
        pair.transmitter.transmit(&mut run);
        assert!(run.is_empty());
        for (device, far) in far.iter_mut().enumerate() {
            far[0].receiver.receive(&mut pool, &mut run, 64);
            let numbers = seen(&run).into_iter().map(|(number, _)| number);
            let sent = (0..)
                .zip(devices)
                .filter(|(_, to)| usize::from(**to) == device);
            assert!(numbers.eq(sent.map(|(number, _)| number)), "{devices:?}");
            run.clear();
        }
    }
    assert_eq!(pair.receiver.counters().packets, 9);
    assert_eq!(pair.transmitter.counters().packets, 9);
}

#[test]
fn a_device_that_is_full_holds_up_no_other() {
    let mut pool = pool();
    let (near, mut far) = wires(&[1, 1], 2);
    let mut pair = Box::new(joined(near)).open().unwrap().remove(0);
    let mut came = Run::new();
    // To where each goes, how many find no room, and what comes by the first device and by the second before the next.
    for (devices, full, first, second) in [
        (&[0, 0, 0, 1, 0, 1][..], 2, 0, &[3, 5][..]),
        (&[0, 0], 2, 1, &[]),
        (&[0, 1, 0], 1, 2, &[1]),
        (&[0, 0], 0, 2, &[]),
    ] {
        let before = pair.transmitter.counters();
        let mut run: Run = (0..)
            .zip(devices)
            .map(|(number, device)| packet(&mut pool, number, *device))
            .collect();
        pair.transmitter.transmit(&mut run);
        assert!(run.is_empty(), "{devices:?}");
        let after = pair.transmitter.counters();
        let dropped = |counters: &Counters| counters.dropped(DropReason::TransmitFull);
        assert_eq!(dropped(&after) - dropped(&before), full, "{devices:?}");
        let sent = devices.len() as u64 - full;
        assert_eq!(after.packets - before.packets, sent, "{devices:?}");
        for (far, max) in far.iter_mut().zip([first, 64]) {
            came.clear();
            far[0].receiver.receive(&mut pool, &mut came, max);
        }
        let numbers = seen(&came).into_iter().map(|(number, _)| number);
        assert!(numbers.eq(second.iter().copied()), "{devices:?}");
    }
}

#[test]
fn what_is_for_no_device_is_dropped_by_name() {
    let mut pool = pool();
    let (near, mut far) = wires(&[1, 1], 64);
    let mut pair = Box::new(joined(near)).open().unwrap().remove(0);
    for (devices, none, sent) in [(&[2][..], 1, [0, 0]), (&[0, 255, 1, 2], 2, [1, 1])] {
        let before = pair.transmitter.counters();
        let mut run: Run = devices
            .iter()
            .map(|device| packet(&mut pool, 7, *device))
            .collect();
        pair.transmitter.transmit(&mut run);
        assert!(run.is_empty(), "{devices:?}");
        let after = pair.transmitter.counters();
        let dropped = |counters: &Counters| counters.dropped(DropReason::TransmitNoDevice);
        assert_eq!(dropped(&after) - dropped(&before), none, "{devices:?}");
        for (far, sent) in far.iter_mut().zip(sent) {
            let mut came = Run::new();
            far[0].receiver.receive(&mut pool, &mut came, 64);
            assert_eq!(came.len(), sent, "{devices:?}");
        }
    }
}

#[test]
fn queues_are_shared_or_apart() {
    /// The queues of each device, whether they are apart, and the devices that each pair takes from.
    type Row = (&'static [usize], bool, &'static [&'static [u8]]);
    let rows: [Row; 5] = [
        (&[1, 1], false, &[&[0, 1]]),
        (&[2, 1], false, &[&[0, 1], &[0]]),
        (&[2, 2], false, &[&[0, 1], &[0, 1]]),
        (&[1, 1], true, &[&[0], &[1]]),
        (&[2, 1, 2], true, &[&[0], &[0], &[1], &[2], &[2]]),
    ];
    for (queues, is_apart, expected) in rows {
        let mut pool = pool();
        let (near, mut far) = wires(queues, 64);
        let several = joined(near);
        let several = if is_apart { several.apart() } else { several };
        assert_eq!(several.capabilities().queues, expected.len());
        let mut pairs = Box::new(several).open().unwrap();
        assert_eq!(pairs.len(), expected.len(), "{queues:?}");
        for far in far.iter_mut().flatten() {
            let mut run: Run = [packet(&mut pool, 7, 0)].into_iter().collect();
            far.transmitter.transmit(&mut run);
        }
        for (pair, expected) in pairs.iter_mut().zip(expected) {
            let mut run = Run::new();
            pair.receiver.receive(&mut pool, &mut run, 64);
            let devices: Vec<u8> = run.iter().map(|message| message.device()).collect();
            assert_eq!(devices, *expected, "{queues:?}");
            // Whoever has it sends by all devices.
            let mut run: Run = (0..queues.len() as u8)
                .map(|device| packet(&mut pool, 7, device))
                .collect();
            pair.transmitter.transmit(&mut run);
            assert!(run.is_empty());
        }
        for far in &mut far {
            let mut run = Run::new();
            for far in far {
                far.receiver.receive(&mut pool, &mut run, 64);
            }
            assert_eq!(run.len(), expected.len(), "{queues:?}");
        }
    }
}

/// One that could offload so much, and does not where it is asked not to.
struct Offloading(memory::WireEnd, Capabilities);

impl Offloading {
    fn new(offloads: Offloads) -> Offloading {
        let end = memory::wire(Capabilities::ip(1500), 8).0;
        let capabilities = Capabilities {
            offloads,
            ..*end.capabilities()
        };
        Offloading(end, capabilities)
    }
}

impl Device for Offloading {
    fn capabilities(&self) -> &Capabilities {
        &self.1
    }

    fn decline_offloads(&mut self) {
        self.1.offloads = Offloads::NONE;
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        Box::new(self.0).open()
    }
}

#[test]
fn each_offloads_what_it_does() {
    let (all, none) = (Offloads::ALL, Offloads::NONE);
    let segments = Offloads {
        datagrams: false,
        ..all
    };
    let checksum = Offloads {
        checksum: true,
        ..none
    };
    let rows = [
        ([all, all], all),
        ([all, segments], segments),
        ([segments, checksum], checksum),
        ([all, none], none),
        ([none, all], none),
    ];
    let of = |several: &Several| Vec::from_iter(several.devices().iter().map(|one| one.offloads));
    for (members, of_both) in rows {
        let [one, two] = members.map(Offloading::new);
        let both = Several::of(one).and(two);
        assert_eq!(both.capabilities().offloads, of_both, "{members:?}");
        assert_eq!(of(&both), members);
        // Whoever is put around one of them may have it decline.
        let mut wrapped = both.wrapped(|number, mut device| {
            if number == 1 {
                device.decline_offloads();
            }
            device
        });
        assert_eq!(wrapped.capabilities().offloads, none);
        assert_eq!(of(&wrapped), [members[0], none]);
        wrapped.decline_offloads();
        assert_eq!(of(&wrapped), [none, none]);
    }
}
