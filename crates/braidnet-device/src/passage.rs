//! How packets pass a device whose packets have a [description](crate::vnet) in front of them, or might have: what is said of those that leave, and what is made of those
//! that arrive.

use crate::overflow::Overflow;
use crate::vnet::{Described, VnetHeader};
use crate::{Capabilities, DropReason, Medium, Offloads};
use braidnet_message::{Message, Pool};
use rustix::io::Errno;

/// What passes.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// The longest packet of the wire, link header included.
    pub packet_max: usize,
    /// Bytes of link header in front of each.
    pub header_len: usize,
    pub offloads: Offloads,
}

/// A packet as it was read.
pub struct Arrival {
    /// As much of it as fits in front of what overflows.
    pub front: Message,
    /// All its bytes.
    pub length: usize,
    /// What is said of it, if anything is.
    pub header: Option<VnetHeader>,
}

impl Passage {
    /// That of a device which can do so much.
    pub fn of(capabilities: &Capabilities) -> Passage {
        Passage {
            packet_max: capabilities.packet_max(),
            header_len: match capabilities.medium {
                Medium::Ip => 0,
                Medium::Ethernet { .. } => braidnet_wire::ethernet::HEADER_LEN,
            },
            offloads: capabilities.offloads,
        }
    }

    /// What is to be said of a packet that leaves; the reason why it cannot.
    pub fn leaving(&self, message: &Message) -> Result<VnetHeader, DropReason> {
        let is_train = message.segment_bytes() != 0;
        // No segment of a train is longer than the first.
        let longest = if is_train {
            message.len()
        } else {
            message.total_len()
        };
        if longest == 0 {
            return Err(DropReason::TransmitEmpty);
        }
        if longest > self.packet_max {
            return Err(DropReason::TransmitOversize);
        }
        let described = VnetHeader::describing(
            message.bytes(),
            self.header_len,
            message.segment_bytes(),
            message.checksum(),
        );
        // A partial checksum is the device's to finish only where it says so, and a train to cut.
        described
            .filter(|described| self.takes(*described))
            .ok_or(DropReason::TransmitMalformed)
    }

    /// Whether packets of which this is said may pass.
    pub fn takes(&self, header: VnetHeader) -> bool {
        let Offloads {
            checksum,
            segments,
            datagrams,
        } = self.offloads;
        if header.is_train_of_datagrams() {
            datagrams
        } else if header.is_train() {
            header.is_train_of_v4() && segments
        } else {
            checksum || header == VnetHeader::default()
        }
    }

    /// Makes a packet of what was read: what of it is not in the front lies in `overflow`. Or why that cannot be, and for how many packets.
    pub fn arrived(
        &self,
        arrival: Arrival,
        overflow: Option<&mut Overflow>,
        pool: &mut Pool,
    ) -> Result<Message, (DropReason, usize)> {
        let Arrival {
            front: mut message,
            length,
            header,
        } = arrival;
        let described = match header {
            Some(header) => {
                let front = &message.bytes()[..length.min(message.len())];
                header
                    .of(front, self.header_len, length)
                    .map_err(|reason| (reason, 1))?
            }
            None => Described::default(),
        };
        let first = match described.train {
            None => length,
            Some(train) => train.header_len + train.segment_bytes,
        };
        if first > self.packet_max {
            return Err((DropReason::ReceiveOversize, 1));
        }
        if let Some(train) = described.train {
            // None of another kind was asked for.
            let was_asked_for = header.is_some_and(|header| self.takes(header));
            let Some(overflow) = overflow.filter(|_| was_asked_for) else {
                return Err((DropReason::ReceiveOffloadMalformed, 1));
            };
            let packets = (length - train.header_len).div_ceil(train.segment_bytes);
            let rest = overflow.rest(&message, first, length, pool);
            let rest = rest.ok_or((DropReason::ReceiveNoBuffer, packets))?;
            message.truncate(first);
            message.push_continuation(rest);
            message.set_segment_bytes(train.segment_bytes as u32);
        } else {
            message.truncate(length);
        }
        message.set_checksum(described.checksum);
        Ok(message)
    }
}

/// Calls again what a signal has interrupted.
pub fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
