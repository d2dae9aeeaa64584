//! Two ends joined in memory: a device whose packets go to another stack in the same process.
//!
//! ```
//! use braidnet_device::{Capabilities, Device, memory};
//! use braidnet_message::{Arena, Pool, Run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = memory::wire(Capabilities::ip(Capabilities::FDDI_MTU), 256);
//! let mut near = Box::new(near).open()?.remove(0);
//! let mut far = Box::new(far).open()?.remove(0);
//!
//! let mut pool = Pool::new(&Arena::new(1 << 20));
//! let mut run = Run::new();
//! run.extend(pool.copy_from_slice(64, b"a packet"));
//! near.transmitter.transmit(&mut run);
//! assert!(run.is_empty());
//! assert_eq!(far.receiver.receive(&mut pool, &mut run, 32), 1);
//! assert_eq!(run.as_slice()[0].bytes(), b"a packet");
//! # Ok(())
//! # }
//! ```
//!
//! # Copies
//!
//! The papers' pseudo-device ran in loop-back mode with a single copy: a packet was copied once, from the sender's buffer
//! into one of the receiver's. [`WireEnd::copying`] does the same: the packet is copied once, on the receiving
//! processor, into a buffer of its pool, with [`RECEIVE_HEADROOM`] in front and in one block. That is what a real device
//! does, and what to measure with where figures are compared with the papers'.
//!
//! Without it a wire passes the pointer and copies nothing: it is the cheapest way to turn two stacks. The receiver then
//! finds the blocks as the sender left them, several where it sent several, with the headroom that its headers left, and
//! not [unique](Message::is_unique) where the sender keeps the payload to send it again. They return to the sender's
//! pool when they are dropped. Of the message's metadata nothing passes, and no known sum: like any device's, packets
//! come without recommendation, and the receiver has to verify them itself.
//!
//! # Queues
//!
//! A wire of several queues is as many independent pairs of rings: what is sent on a queue arrives on the queue of the
//! same number. Which queue a packet takes is the sender's choice of transmitter; the wire reads no headers.
//!
//! # Who may touch what
//!
//! Each direction of a queue is one bounded ring with one producer and one consumer. The consumer is the receiver's own.
//! The producer is the transmitter's own as long as there is one transmitter; [`Transmitter::another`] moves it behind a
//! lock that its transmitters share from then on, so that packets of several processors keep the order in which they
//! were given to the device.

mod bell;
mod copying;
mod side;
#[cfg(test)]
mod tests;

use crate::device::station_beside;
use crate::{Capabilities, Device, DeviceError, Medium, QueuePair};
use copying::CopyingReceiver;
use side::{MemoryReceiver, MemoryTransmitter};
#[cfg(doc)]
use {
    crate::{RECEIVE_HEADROOM, Transmitter},
    braidnet_message::Message,
};

/// Joins two ends in memory. Each direction of each queue holds exactly `depth` packets (0 counts as 1); what does not
/// fit stays in the sender's run. Every ring takes its memory now: 8 bytes per packet, rounded up to a power of two.
///
/// Both ends have these capabilities; on Ethernet the second answers to an address of its own, which differs from the
/// first's in the last bit.
pub fn wire(capabilities: Capabilities, depth: usize) -> (WireEnd, WireEnd) {
    let packet_max = capabilities.packet_max();
    let mut near = WireEnd {
        capabilities,
        copying: false,
        sides: Vec::new(),
    };
    let mut far = WireEnd {
        capabilities: beside(capabilities),
        copying: false,
        sides: Vec::new(),
    };
    for _ in 0..capabilities.queues.max(1) {
        let (to_far, from_near) = side::direction(depth, packet_max);
        let (to_near, from_far) = side::direction(depth, packet_max);
        near.sides.push((from_far, to_far));
        far.sides.push((from_near, to_near));
    }
    (near, far)
}

/// What the other end is.
fn beside(capabilities: Capabilities) -> Capabilities {
    let medium = match capabilities.medium {
        Medium::Ip => Medium::Ip,
        Medium::Ethernet { address } => Medium::Ethernet {
            address: station_beside(address),
        },
    };
    Capabilities {
        medium,
        ..capabilities
    }
}

/// One end of a [`wire`].
pub struct WireEnd {
    capabilities: Capabilities,
    copying: bool,
    sides: Vec<(MemoryReceiver, MemoryTransmitter)>,
}

impl WireEnd {
    /// The same end, which copies every packet that it receives into a buffer of the receiving pool.
    pub fn copying(self) -> Self {
        WireEnd {
            copying: true,
            ..self
        }
    }

    /// The same end, which sends packets of up to so many bytes, whatever the other end may send: an MTU is how much one sends, and says
    /// nothing of what one is ready to take.
    pub fn sending(mut self, packet_max: usize) -> Self {
        for (_, transmitter) in &mut self.sides {
            transmitter.set_packet_max(packet_max);
        }
        self
    }
}

impl Device for WireEnd {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let copying = self.copying;
        let pair = |(receiver, transmitter): (MemoryReceiver, MemoryTransmitter)| QueuePair {
            receiver: match copying {
                true => Box::new(CopyingReceiver::new(receiver)),
                false => Box::new(receiver),
            },
            transmitter: Box::new(transmitter),
        };
        Ok(self.sides.into_iter().map(pair).collect())
    }
}
