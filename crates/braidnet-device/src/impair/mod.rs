//! A bad network around any device: packets are lost, repeated, damaged, delayed, reordered and queued for a slow line, in
//! both directions, as a seed decides.
//!
//! What happens to a packet is [`braidnet_impair`]'s to say; here are the packets. An [`Impairment`] wraps a device as
//! [`Capture`](crate::capture::Capture) does, and says what it has done.
//!
//! ```
//! use braidnet_device::impair::Impairment;
//! use braidnet_device::{Capabilities, Device, memory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = memory::wire(Capabilities::ip(1500), 256);
//! let impairment = Impairment::new(&"loss=1%,delay=20ms".parse()?, &"delay=20ms".parse()?);
//! let queues = Box::new(impairment.around(near)).open()?;
//! assert_eq!(impairment.outgoing().lost, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! Whoever turns the queue carries held packets, too: with every run in either direction those that are due go on. Where nothing
//! else happens the receiver's [`Alarm`](crate::Alarm) says when the next one is due.
//!
//! # Who may touch what
//!
//! A device has one link for each direction, however many queues it has. Packets under way belong to the queue that they came by:
//! inbound ones to its receiver, outbound ones to its *way out*, which its transmitters and its receiver share under a lock, with
//! the device's own transmitter behind it. A link's lock is taken inside of that, and none inside of the link's. The alarm is set under the
//! way's lock.
//!
//! # What it costs
//!
//! The processors that turn the device do all this: some hundred nanoseconds for each packet. What is held back holds buffers: inbound packets
//! the receiving pool's, outbound ones the sender's. Copies are made where a packet is damaged or marked, from up to 16 MiB for outbound
//! ones ([`Impairment::set_copies_bytes`]); where there is no buffer for one, the packet is dropped by name.

mod change;
mod queue;
#[cfg(test)]
mod tests;

pub use braidnet_impair::{ImpairmentError, Impairments, Tally};

use crate::{Capabilities, Device, DeviceError, Medium, QueuePair};
use braidnet_impair::Link;
use braidnet_message::Arena;
use braidnet_sync::clock::Clock;
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicUsize, Ordering};
use parking_lot::Mutex;
use std::sync::Arc;

/// Most memory for copies of outbound packets, unless it is set otherwise.
const COPIES_BYTES: usize = 16 << 20;

/// What is done to packets of one device, and how often it has been. Handles are cheap to clone.
#[derive(Clone)]
pub struct Impairment {
    shared: Arc<Shared>,
}

/// What the queues of a device share.
struct Shared {
    out: Direction,
    back: Direction,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    copies: Arc<Arena>,
}

/// One direction of the device's link.
struct Direction {
    link: Mutex<Link>,
    /// Packets under way in one queue.
    limit: AtomicUsize,
}

impl Direction {
    fn new(impairments: &Impairments, number: u64) -> Direction {
        Direction {
            link: Mutex::new(Link::new(impairments, number)),
            limit: AtomicUsize::new(impairments.limit_packets),
        }
    }

    fn limit(&self) -> usize {
        // Relaxed: a number that nothing else hangs on.
        self.limit.load(Ordering::Relaxed)
    }
}

impl Impairment {
    /// Does `out` to what is sent and `back` to what is received, by the clock that processors are turned by.
    pub fn new(out: &Impairments, back: &Impairments) -> Impairment {
        let clock = Clock::shared();
        Impairment::with_clock(out, back, move || Instant::from_nanos(clock.now_nanos()))
    }

    /// The same by another clock: that of whoever turns the device, which never goes back.
    pub fn with_clock(
        out: &Impairments,
        back: &Impairments,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Impairment {
        Impairment {
            shared: Arc::new(Shared {
                out: Direction::new(out, 0),
                back: Direction::new(back, 1),
                clock: Box::new(clock),
                copies: Arena::new(COPIES_BYTES),
            }),
        }
    }

    /// Wraps a device, which does without offloads then: what befalls a packet befalls one of the wire's. One impairment is one link: several devices around
    /// which it is put share that.
    pub fn around<D: Device>(&self, mut device: D) -> Impaired<D> {
        device.decline_offloads();
        Impaired {
            inner: device,
            impairment: self.clone(),
        }
    }

    /// At most so many packets are under way in each queue from now on, of those that are sent and of those that are received, in place of what
    /// the [impairments](Impairments::limit_packets) say. Those that are under way arrive all the same; what comes is dropped while there are as many.
    pub fn set_limit_packets(&self, out: usize, back: usize) {
        self.shared.out.limit.store(out, Ordering::Relaxed);
        self.shared.back.limit.store(back, Ordering::Relaxed);
    }

    /// So much memory may be taken for copies of packets that are sent from now on. What was taken is used again and again; a packet that is to be
    /// damaged or marked and finds none is dropped.
    pub fn set_copies_bytes(&self, bytes: usize) {
        self.shared.copies.set_limit_bytes(bytes);
    }

    /// What has been done to packets that were sent.
    pub fn outgoing(&self) -> Tally {
        *self.shared.out.link.lock().tally()
    }

    /// What has been done to packets that were received.
    pub fn incoming(&self) -> Tally {
        *self.shared.back.link.lock().tally()
    }
}

impl Shared {
    fn now(&self) -> Instant {
        (self.clock)()
    }
}

/// A device with a bad network around it.
pub struct Impaired<D> {
    inner: D,
    impairment: Impairment,
}

impl<D: Device> Device for Impaired<D> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn devices(&self) -> Vec<Capabilities> {
        self.inner.devices()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let Impaired { inner, impairment } = *self;
        let medium: Medium = inner.capabilities().medium;
        let queues = Box::new(inner).open()?;
        let wrap = |pair| queue::impaired(pair, &impairment.shared, medium);
        Ok(queues.into_iter().map(wrap).collect())
    }
}
