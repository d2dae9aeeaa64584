//! One queue of an impaired device.

use super::change::changed;
use super::{Direction, Shared};
use crate::{Alarm, Counters, DeviceError, DropReason, Medium, QueuePair, Receiver, Transmitter};
use braidnet_impair::{Dropped, Line};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::parker::Unparker;
use braidnet_wire::time::{Duration, Instant};
use parking_lot::Mutex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How long after a device was full it is offered more.
const RETRY: Duration = Duration::from_micros(200);

/// Wraps both ends of a queue.
pub fn impaired(pair: QueuePair, shared: &Arc<Shared>, medium: Medium) -> QueuePair {
    let QueuePair {
        receiver,
        transmitter,
    } = pair;
    let alarm = Alarm::new();
    let way = Arc::new(Way {
        writable: transmitter.fd().and_then(|fd| fd.try_clone_to_owned().ok()),
        medium,
        alarm: alarm.clone(),
        out: Mutex::new(WayOut {
            line: Line::new(shared.out.limit()),
            inner: transmitter,
            due: Run::new(),
            pool: Pool::new(&shared.copies),
            dropped: Counters::default(),
            inbound: None,
        }),
    });
    QueuePair {
        receiver: Box::new(ImpairedReceiver {
            inner: receiver,
            line: Line::new(shared.back.limit()),
            arrived: Run::new(),
            shared: shared.clone(),
            way: way.clone(),
            counters: Counters::default(),
        }),
        transmitter: Box::new(ImpairedTransmitter {
            shared: shared.clone(),
            way,
            counters: Counters::default(),
        }),
    }
}

/// A queue's way out.
struct Way {
    /// The device's own, to wait on.
    writable: Option<OwnedFd>,
    medium: Medium,
    alarm: Alarm,
    out: Mutex<WayOut>,
}

struct WayOut {
    line: Line<Message>,
    inner: Box<dyn Transmitter>,
    /// What should have left and finds the device full.
    due: Run,
    /// For copies.
    pool: Pool,
    /// What was dropped on behalf of transmitters that have not heard of it yet.
    dropped: Counters,
    /// When the receiver's next packet is due.
    inbound: Option<u64>,
}

impl WayOut {
    /// Gives the device what is due.
    fn release(&mut self, now: Instant, medium: Medium) {
        while let Some(delivery) = self.line.take(now.nanos()) {
            match changed(delivery, medium, &mut self.pool) {
                Some(packet) => self.due.push(packet),
                None => self.dropped.count_drop(DropReason::ImpairedNoBuffer),
            }
        }
        if self.due.is_empty() {
            return;
        }
        let before = self.inner.counters();
        self.inner.transmit(&mut self.due);
        let after = self.inner.counters();
        for (reason, count) in after.drops() {
            let more = count.wrapping_sub(before.dropped(reason));
            self.dropped.count_drops(reason, more);
        }
    }

    /// Says when the queue is to be turned again.
    fn set(&self, alarm: &Alarm, now: Instant) {
        let outbound = self.line.next().map(Instant::from_nanos);
        let retry = (!self.due.is_empty()).then(|| now + RETRY);
        let inbound = self.inbound.map(Instant::from_nanos);
        alarm.set([outbound, retry, inbound].into_iter().flatten().min());
    }
}

/// Offers a packet to a direction's link; counts it if it will not arrive.
fn offer(
    line: &mut Line<Message>,
    direction: &Direction,
    now: Instant,
    packet: Message,
    pool: &mut Pool,
) -> Result<(), DropReason> {
    let bytes = packet.total_len();
    line.set_limit(direction.limit());
    let mut link = direction.link.lock();
    let copy = |packet: &Message| packet.share(pool);
    line.offer(&mut link, (now.nanos(), bytes), packet, copy)
        .map_err(|dropped| match dropped {
            Dropped::Lost => DropReason::ImpairedLost,
            Dropped::LostInBurst => DropReason::ImpairedLostInBurst,
            Dropped::QueueFull => DropReason::ImpairedQueueFull,
            Dropped::TooMany => DropReason::ImpairedTooMany,
        })
}

struct ImpairedReceiver {
    inner: Box<dyn Receiver>,
    line: Line<Message>,
    /// What the device has just given. Empty between calls, kept for its memory.
    arrived: Run,
    shared: Arc<Shared>,
    way: Arc<Way>,
    counters: Counters,
}

impl ImpairedReceiver {
    /// Passes on what has arrived by now.
    fn deliver(&mut self, now: Instant, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut delivered = 0;
        while delivered < max
            && let Some(delivery) = self.line.take(now.nanos())
        {
            match changed(delivery, self.way.medium, pool) {
                Some(packet) => {
                    self.counters.count_packet(packet.total_len());
                    into.push(packet);
                    delivered += 1;
                }
                None => self.counters.count_drop(DropReason::ImpairedNoBuffer),
            }
        }
        delivered
    }
}

impl Receiver for ImpairedReceiver {
    /// May return less than `max` though more waits in the device: that has been given to the link, and is not due yet.
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let now = self.shared.now();
        self.inner.receive(pool, &mut self.arrived, max);
        for packet in self.arrived.drain() {
            if let Err(reason) = offer(&mut self.line, &self.shared.back, now, packet, pool) {
                self.counters.count_drop(reason);
            }
        }
        let delivered = self.deliver(now, pool, into, max);
        let mut out = self.way.out.lock();
        out.release(now, self.way.medium);
        out.inbound = self.line.next();
        out.set(&self.way.alarm, now);
        delivered
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn has_waiting(&self) -> bool {
        self.inner.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.inner.wake_with(unparker)
    }

    fn alarm(&self) -> Option<Alarm> {
        let own = self.way.alarm.clone();
        Alarm::soonest(self.inner.alarm().into_iter().chain([own]).collect())
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone() && self.line.is_empty()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters;
        for (reason, count) in self.inner.counters().drops() {
            counters.count_drops(reason, count);
        }
        counters
    }
}

struct ImpairedTransmitter {
    shared: Arc<Shared>,
    way: Arc<Way>,
    counters: Counters,
}

impl Transmitter for ImpairedTransmitter {
    /// Takes everything: there is a queue here, and what is full drops.
    fn transmit(&mut self, run: &mut Run) {
        let now = self.shared.now();
        let mut out = self.way.out.lock();
        let WayOut { line, pool, .. } = &mut *out;
        for packet in run.drain() {
            let bytes = packet.total_len();
            match offer(line, &self.shared.out, now, packet, pool) {
                Ok(()) => self.counters.count_packet(bytes),
                Err(reason) => self.counters.count_drop(reason),
            }
        }
        out.release(now, self.way.medium);
        out.set(&self.way.alarm, now);
        self.counters.add(&std::mem::take(&mut out.dropped));
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(ImpairedTransmitter {
            shared: self.shared.clone(),
            way: self.way.clone(),
            counters: Counters::default(),
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.way.writable.as_ref().map(AsFd::as_fd)
    }

    /// What the link has let pass counts as carried, and is counted as dropped as well where the device drops it later.
    fn counters(&self) -> Counters {
        self.counters
    }
}
