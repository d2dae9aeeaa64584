//! Simulated far ends: devices that play the other host of every connection themselves (PLP §2.3).
//!
//! A far end has no thread and no stack. The *simulated sender* makes segments as fast as they are asked for, the *simulated
//! receiver* takes segments and acknowledges every other one; both set up their connections themselves and keep to the
//! advertised window. Their work is done inside `receive` and `transmit`, on the processor that calls: the driver borrows the
//! calling thread.
//!
//! # Who touches what
//!
//! What the stack has said of a connection stands in its [`Line`](line::Line): atomics that any processor's transmitter
//! writes and the receiver of the connection's queue reads. What the far end has said stands in the receiver, which one processor
//! turns at a time. Payload lies in blocks that are written once and then only viewed: for each segment a small header message
//! is made, and a view of the payload behind it.
//!
//! Segments carry right checksums. They are put together from sums that are kept beside the payload, so that sending does not
//! read it; whoever receives does.

mod datagrams;
mod frame;
mod line;
mod mix;
mod payload;
mod receiver;
mod tcp;
#[cfg(test)]
mod tests;

use crate::config::{Direction, Transport, TtcpConfig};
use crate::content::Content;
use crate::tally::Scope;
use braidnet_device::{Capabilities, Device, DeviceError, QueuePair};
use braidnet_wire::address::Tuple;
use core::sync::atomic::{AtomicU64, Ordering};
use datagrams::{DatagramReceiver, DatagramTransmitter};
use line::Lines;
use mix::Mix;
use receiver::TcpReceiver;
use std::collections::BTreeMap;
use std::sync::Arc;
use tcp::TcpTransmitter;

/// The far end of a measurement: every connection's other host.
pub(crate) struct FarEnd {
    shared: Arc<Shared>,
    queues: usize,
}

/// What all queues of a far end share.
pub(crate) struct Shared {
    lines: Lines,
    role: Role,
    content: Arc<Content>,
    scope: Scope,
    /// Bytes of data in a full segment or in a datagram.
    mss: usize,
    mtu: usize,
    window_bytes: u32,
    checksum: bool,
    mix: Option<Mix>,
    counts: Counts,
}

/// Which part a far end plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The simulated sender.
    Sender,
    /// The simulated receiver.
    Receiver,
}

/// What far ends count; rare, or once for each call.
#[derive(Default)]
pub(crate) struct Counts {
    /// Data segments and datagrams made.
    made: AtomicU64,
    /// Of these, those of the connection that has a share of its own.
    favoured: AtomicU64,
    /// Acknowledgments made.
    acknowledged: AtomicU64,
    /// Data segments and datagrams taken.
    taken: AtomicU64,
    /// Of these, those that were not the next.
    out_of_order: AtomicU64,
    /// Bytes of data taken in order.
    bytes: AtomicU64,
    /// Times that a connection went back to what is acknowledged, after duplicate acknowledgments or silence.
    went_back: AtomicU64,
    /// Packets with a wrong checksum.
    bad_checksum: AtomicU64,
    /// Packets for no connection, or none that can be read.
    unknown: AtomicU64,
    /// Connections that the stack has reset.
    reset: AtomicU64,
    /// Calls that ended early for want of a buffer.
    no_buffer: AtomicU64,
    hash: AtomicU64,
    samples: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64, by: u64) {
        if by > 0 {
            counter.fetch_add(by, Ordering::Relaxed);
        }
    }
}

impl FarEnd {
    /// The far end of these connections (seen from the stack), the `n`-th of which is on device queue `queue_of[n]`.
    pub(crate) fn new(
        config: &TtcpConfig,
        content: Arc<Content>,
        scope: Scope,
        lines: &[Tuple],
        queue_of: Vec<usize>,
    ) -> FarEnd {
        let role = match config.direction {
            Direction::Send => Role::Receiver,
            Direction::Receive | Direction::Both => Role::Sender,
        };
        let mss = match config.transport {
            Transport::Tcp => crate::content::segment_bytes(config.mtu),
            Transport::Udp => config.size,
        };
        let shared = Shared {
            lines: Lines::new(lines, queue_of),
            role,
            content,
            scope,
            mss,
            mtu: config.mtu,
            window_bytes: config.window_bytes,
            checksum: config.checksum,
            mix: Mix::of(config, mss),
            counts: Counts::default(),
        };
        FarEnd {
            shared: Arc::new(shared),
            queues: config.device_queues,
        }
    }

    /// What it counts, readable at any time.
    pub(crate) fn watch(&self) -> FarWatch {
        FarWatch(self.shared.clone())
    }

    /// The device, for connections of this transport.
    pub(crate) fn device(self, transport: Transport) -> FarDevice {
        let capabilities = Capabilities::ip(self.shared.mtu).with_queues(self.queues);
        FarDevice {
            shared: self.shared,
            capabilities,
            transport,
        }
    }
}

/// A far end, as a device.
pub(crate) struct FarDevice {
    shared: Arc<Shared>,
    capabilities: Capabilities,
    transport: Transport,
}

impl Device for FarDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let pair = |queue| match self.transport {
            Transport::Tcp => QueuePair {
                receiver: Box::new(TcpReceiver::new(self.shared.clone(), queue)),
                transmitter: Box::new(TcpTransmitter::new(self.shared.clone())),
            },
            Transport::Udp => QueuePair {
                receiver: Box::new(DatagramReceiver::new(self.shared.clone(), queue)),
                transmitter: Box::new(DatagramTransmitter::new(self.shared.clone())),
            },
        };
        Ok((0..self.capabilities.queues).map(pair).collect())
    }
}

/// Reads what a far end counts.
#[derive(Clone)]
pub(crate) struct FarWatch(Arc<Shared>);

impl FarWatch {
    /// Bytes of data that it has taken in order, all connections together.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.counts.bytes.load(Ordering::Relaxed)
    }

    /// The hash of what it has taken, and how many samples are in it.
    pub(crate) fn tally(&self) -> (u64, u64) {
        // Whoever adds to both adds samples last.
        let samples = self.0.counts.samples.load(Ordering::Acquire);
        (self.0.counts.hash.load(Ordering::Relaxed), samples)
    }

    /// Data segments taken, and those of them that were out of order.
    pub(crate) fn order(&self) -> (u64, u64) {
        let counts = &self.0.counts;
        (
            counts.taken.load(Ordering::Relaxed),
            counts.out_of_order.load(Ordering::Relaxed),
        )
    }

    /// Adds every counter that is not zero.
    pub(crate) fn collect(&self, into: &mut BTreeMap<String, u64>) {
        let counts = &self.0.counts;
        let named = [
            ("far.made", &counts.made),
            ("far.favoured", &counts.favoured),
            ("far.acknowledged", &counts.acknowledged),
            ("far.taken", &counts.taken),
            ("far.out_of_order", &counts.out_of_order),
            ("far.bytes", &counts.bytes),
            ("far.went_back", &counts.went_back),
            ("far.bad_checksum", &counts.bad_checksum),
            ("far.unknown", &counts.unknown),
            ("far.reset", &counts.reset),
            ("far.no_buffer", &counts.no_buffer),
        ];
        for (name, counter) in named {
            let value = counter.load(Ordering::Relaxed);
            if value > 0 {
                into.insert(name.to_owned(), value);
            }
        }
    }
}
