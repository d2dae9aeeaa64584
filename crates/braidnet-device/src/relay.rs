//! Two devices joined: what arrives at one leaves by the other, both ways, on the thread that asks for it.
//!
//! A relay adds nothing to packets and looks at none. What is to happen to them on the way the devices do: put an
//! [`Impairment`](crate::impair::Impairment) around one of them, and it stands between the two. Devices that offload what the other does not must
//! [decline](crate::Device::decline_offloads) before they are opened.
//!
//! ```
//! use braidnet_device::relay::Relay;
//! use braidnet_device::{Capabilities, Device, memory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, left) = memory::wire(Capabilities::ip(1500), 256);
//! let (there, right) = memory::wire(Capabilities::ip(1500), 256);
//! let [left, right] = [left, right].map(|end| Box::new(end).open().map(|mut queues| queues.remove(0)));
//! let mut relay = Relay::new(left?, right?, 64 << 20);
//! assert_eq!(relay.turn(), 0);
//! # let _ = (here, there);
//! # Ok(())
//! # }
//! ```

use crate::{Alarm, Counters, DropReason, QueuePair};
use braidnet_message::{Arena, Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};
use core::num::NonZeroU64;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use std::io;
use std::os::fd::BorrowedFd;

/// Packets that are taken from a device at once.
const BATCH: usize = 64;

/// Turns that have found something after which it is looked whether to stop.
const LOOK_EVERY: u32 = 16;

/// How long after a device was full it is offered more.
const RETRY: Duration = Duration::from_micros(200);

/// Two queues, each of a device of its own, and what lies between them.
pub struct Relay {
    pool: Pool,
    forward: Way,
    back: Way,
}

/// One direction.
struct Way {
    from: Box<dyn crate::Receiver>,
    alarm: Option<Alarm>,
    to: Box<dyn crate::Transmitter>,
    /// What the device that it is for could not take yet.
    run: Run,
}

impl Way {
    /// Carries on; how many packets were taken.
    fn turn(&mut self, pool: &mut Pool) -> usize {
        // What waits for a full device waits in order, and what comes behind it in the other device.
        let taken = match self.run.is_empty() {
            true => self.from.receive(pool, &mut self.run, BATCH),
            false => 0,
        };
        if !self.run.is_empty() {
            self.to.transmit(&mut self.run);
        }
        taken
    }

    /// When it is to be turned at the latest.
    fn due(&self, now: Instant) -> Option<Instant> {
        let alarm = self.alarm.as_ref().and_then(Alarm::next);
        let retry = (!self.run.is_empty()).then(|| now + RETRY);
        alarm.into_iter().chain(retry).min()
    }
}

/// Why a relay came to an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// The first device was removed, or its other end closed.
    FromGone,
    /// The second was.
    ToGone,
}

impl Relay {
    /// Joins two queues. Packets under way lie in at most `memory_bytes` of memory; what finds none waits in its device.
    pub fn new(from: QueuePair, to: QueuePair, memory_bytes: usize) -> Relay {
        let way = |receiver: Box<dyn crate::Receiver>, transmitter| Way {
            alarm: receiver.alarm(),
            from: receiver,
            to: transmitter,
            run: Run::with_capacity(BATCH),
        };
        Relay {
            pool: Pool::new(&Arena::new(memory_bytes)),
            forward: way(from.receiver, to.transmitter),
            back: way(to.receiver, from.transmitter),
        }
    }

    /// Carries on what has come, at most a batch each way, without waiting; how many packets were taken.
    pub fn turn(&mut self) -> usize {
        self.forward.turn(&mut self.pool) + self.back.turn(&mut self.pool)
    }

    /// Carries packets until `stop` is readable or a device is gone, and sleeps while there are none: until something arrives or a
    /// packet that is held back is due, to some microseconds (the thread's timer slack is taken away).
    ///
    /// Devices without an fd do not wake it: turn them by hand.
    ///
    /// # Errors
    ///
    /// What the system says if it cannot be slept.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<Ended> {
        // Without it held packets leave some 50 us late: that is no reason not to start.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let clock = Clock::shared();
        let mut busy = 0;
        loop {
            let taken = self.turn();
            busy = if taken > 0 { busy + 1 } else { 0 };
            if taken > 0 && busy % LOOK_EVERY != 0 {
                continue;
            }
            if let Some(ended) = self.gone() {
                return Ok(ended);
            }
            let now = Instant::from_nanos(clock.now_nanos());
            let at_most = match taken {
                0 => self.due(now).map(|due| due.since(now)),
                _ => Some(Duration::ZERO),
            };
            if self.sleep(stop, at_most)? {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// Packets and bytes that were taken: from the first device, from the second.
    pub fn taken(&self) -> [(u64, u64); 2] {
        [&self.forward, &self.back].map(|way| {
            let counters = way.from.counters();
            (counters.packets, counters.bytes)
        })
    }

    /// What the devices have dropped, by name; with an impairment around one of them what that has, too.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        let mut all = Counters::default();
        for way in [&self.forward, &self.back] {
            all.add(&way.from.counters());
            all.add(&way.to.counters());
        }
        DropReason::ALL
            .into_iter()
            .map(move |reason| (reason, all.dropped(reason)))
            .filter(|(_, count)| *count > 0)
    }

    fn gone(&self) -> Option<Ended> {
        match (self.forward.from.is_gone(), self.back.from.is_gone()) {
            (true, _) => Some(Ended::FromGone),
            (_, true) => Some(Ended::ToGone),
            _ => None,
        }
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        let ways = [&self.forward, &self.back];
        ways.iter().filter_map(|way| way.due(now)).min()
    }

    /// Sleeps until there is something to do; whether that is to stop.
    fn sleep(&self, stop: BorrowedFd<'_>, at_most: Option<Duration>) -> io::Result<bool> {
        let mut fds = Vec::with_capacity(3);
        fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        for way in [&self.forward, &self.back] {
            // One whose packets wait for a full device is not asked for more.
            if let (true, Some(fd)) = (way.run.is_empty(), way.from.fd()) {
                fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            }
        }
        let timeout = at_most.and_then(|at_most| Timespec::try_from(at_most).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {
                Ok(fds.first().is_some_and(|stop| !stop.revents().is_empty()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::Impairment;
    use crate::{Capabilities, Device, Receiver, Transmitter, memory};
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn open(device: impl Device) -> QueuePair {
        Box::new(device).open().unwrap().remove(0)
    }

    fn send(to: &mut dyn Transmitter, pool: &mut Pool, numbers: std::ops::Range<u8>) {
        let mut run: Run = numbers
            .map(|number| pool.copy_from_slice(0, &[number]).unwrap())
            .collect();
        to.transmit(&mut run);
        assert!(run.is_empty());
    }

    fn got(from: &mut dyn Receiver, pool: &mut Pool) -> Vec<u8> {
        let mut run = Run::new();
        from.receive(pool, &mut run, 1000);
        run.iter().map(|packet| packet.bytes()[0]).collect()
    }

    #[test]
    fn packets_go_both_ways_through_what_stands_between() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let (out, back) = ("delay=2ms".parse().unwrap(), "delay=1ms".parse().unwrap());
        let impairment = Impairment::with_clock(&out, &back, move || {
            Instant::from_nanos(clock.load(Ordering::Relaxed))
        });
        let (here, left) = memory::wire(Capabilities::ip(1500), 256);
        let (there, right) = memory::wire(Capabilities::ip(1500), 256);
        let (mut here, mut there) = (open(here), open(there));
        let mut relay = Relay::new(open(left), open(impairment.around(right)), 1 << 20);
        let mut pool = Pool::new(&Arena::new(1 << 20));
        send(&mut *here.transmitter, &mut pool, 0..3);
        send(&mut *there.transmitter, &mut pool, 10..13);
        assert_eq!(relay.turn(), 3);
        let due = |relay: &Relay| relay.due(Instant::ZERO).map(|due| due.nanos());
        assert_eq!(due(&relay), Some(1_000_000));
        time.store(1_000_000, Ordering::Relaxed);
        relay.turn();
        assert_eq!(got(&mut *here.receiver, &mut pool), [10, 11, 12]);
        assert_eq!(due(&relay), Some(2_000_000));
        time.store(2_000_000, Ordering::Relaxed);
        relay.turn();
        assert_eq!(got(&mut *there.receiver, &mut pool), [0, 1, 2]);
        assert_eq!(due(&relay), None);
    }

    #[test]
    fn what_a_full_device_cannot_take_waits_in_order() {
        let (here, left) = memory::wire(Capabilities::ip(1500), 256);
        let (there, right) = memory::wire(Capabilities::ip(1500), 4);
        let (mut here, mut there) = (open(here), open(there));
        let mut relay = Relay::new(open(left), open(right), 1 << 20);
        let mut pool = Pool::new(&Arena::new(1 << 20));
        send(&mut *here.transmitter, &mut pool, 0..6);
        assert_eq!((relay.turn(), relay.turn()), (6, 0));
        send(&mut *here.transmitter, &mut pool, 6..8);
        assert!(relay.due(Instant::ZERO).is_some());
        assert_eq!(got(&mut *there.receiver, &mut pool), [0, 1, 2, 3]);
        assert_eq!((relay.turn(), relay.turn()), (0, 2));
        assert_eq!(got(&mut *there.receiver, &mut pool), [4, 5, 6, 7]);
    }

    #[test]
    fn it_runs_until_it_is_told_to_stop_or_an_end_is_gone() {
        let (here, left) = memory::wire(Capabilities::ip(1500), 256);
        let (there, right) = memory::wire(Capabilities::ip(1500), 256);
        let (mut here, mut there) = (open(here), open(there));
        let mut relay = Relay::new(open(left), open(right), 1 << 20);
        let mut pool = Pool::new(&Arena::new(1 << 20));
        send(&mut *here.transmitter, &mut pool, 0..200);
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"x").unwrap();
        // What was there is carried first.
        assert_eq!(relay.run(reader.as_fd()).unwrap(), Ended::Stopped);
        assert_eq!(got(&mut *there.receiver, &mut pool).len(), 200);
        drop(there);
        assert_eq!(relay.run(reader.as_fd()).unwrap(), Ended::ToGone);
        drop(here);
        assert_eq!(relay.run(reader.as_fd()).unwrap(), Ended::FromGone);
    }
}
