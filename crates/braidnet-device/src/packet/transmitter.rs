//! The way out of an interface.

use super::socket::PacketSocket;
use crate::passage::Passage;
use crate::vnet;
use crate::{Counters, DeviceError, DropReason, Transmitter};
use arrayvec::ArrayVec;
use braidnet_message::{Message, Run};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Packets that go with one call.
const BATCH: usize = 32;

/// Parts of packets that go with one call: those of several of the longest trains of Ethernet's segments.
const PARTS: usize = 256;

/// The way out: one `sendmmsg` for a batch of packets, without copying their blocks together.
pub struct PacketTransmitter {
    outlet: Arc<PacketSocket>,
    passage: Passage,
    /// Where messages of more than [`PARTS`] blocks are put together.
    gathered: Vec<u8>,
    counters: Counters,
}

/// What became of the first packets.
enum Sent {
    /// So many left.
    Some(usize),
    /// The first cannot leave.
    Dropped(DropReason),
    /// None can leave now.
    Later,
}

impl PacketTransmitter {
    pub fn new(outlet: Arc<PacketSocket>, passage: Passage) -> PacketTransmitter {
        PacketTransmitter {
            outlet,
            passage,
            gathered: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Sends the first of `messages`, of which there is at least one.
    fn send(&mut self, messages: &[Message]) -> Sent {
        let mut headers = [[0; vnet::LEN]; BATCH];
        let mut ready = 0;
        let mut parts = 0;
        for (message, header) in messages.iter().zip(&mut headers) {
            match self.passage.leaving(message) {
                Ok(described) => *header = described.to_bytes(),
                Err(reason) if ready == 0 => return Sent::Dropped(reason),
                Err(_) => break,
            }
            parts += 1 + message.blocks().count();
            if parts > PARTS {
                break;
            }
            ready += 1;
        }
        if ready == 0 {
            return self.send_gathered(&messages[0], &headers[0]);
        }
        let mut slices = [IoSlice::new(&[]); PARTS];
        let mut free = slices.iter_mut();
        let mut counts = [0; BATCH];
        for ((message, header), count) in messages[..ready].iter().zip(&headers).zip(&mut counts) {
            let parts = core::iter::once(&header[..]).chain(message.blocks());
            for (part, slice) in parts.zip(&mut free) {
                *slice = IoSlice::new(part);
                *count += 1;
            }
        }
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] = Default::default();
        let mut rest = &slices[..];
        let mut batch: ArrayVec<MMsgHdr<'_>, BATCH> = ArrayVec::new();
        for (count, control) in counts[..ready].iter().zip(&mut controls) {
            let (these, others) = rest.split_at(*count);
            batch.push(MMsgHdr::new(these, control));
            rest = others;
        }
        outcome(sendmmsg(&*self.outlet, &mut batch, SendFlags::DONTWAIT))
    }

    fn send_gathered(&mut self, message: &Message, header: &[u8]) -> Sent {
        self.gathered.clear();
        self.gathered.extend_from_slice(header);
        for block in message.blocks() {
            self.gathered.extend_from_slice(block);
        }
        outcome(rustix::io::write(&*self.outlet, &self.gathered).map(|_| 1))
    }
}

/// What the system means by its errors (`packet_snd`).
fn outcome(result: rustix::io::Result<usize>) -> Sent {
    let reason = match result {
        Ok(count) => return Sent::Some(count),
        Err(Errno::INTR) => return Sent::Some(0),
        Err(Errno::AGAIN | Errno::NOMEM) => return Sent::Later,
        // The interface's own queue was full, and the packet is lost there.
        Err(Errno::NOBUFS) => DropReason::TransmitFull,
        Err(Errno::NETDOWN) => DropReason::InterfaceDown,
        Err(Errno::NXIO | Errno::NODEV | Errno::BADF) => DropReason::DeviceGone,
        Err(Errno::INVAL) => DropReason::TransmitMalformed,
        Err(Errno::MSGSIZE) => DropReason::TransmitOversize,
        Err(_) => DropReason::TransmitRefused,
    };
    Sent::Dropped(reason)
}

impl Transmitter for PacketTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let mut taken = 0;
        while let Some(left) = run.as_slice().get(taken..).filter(|left| !left.is_empty()) {
            match self.send(left) {
                Sent::Some(count) => {
                    for message in &left[..count] {
                        let packets = message.segments();
                        self.counters.count_packets(packets, message.total_len());
                    }
                    taken += count;
                }
                Sent::Dropped(reason) => {
                    let packets = left[0].segments() as u64;
                    self.counters.count_drops(reason, packets);
                    taken += 1;
                }
                Sent::Later => break,
            }
        }
        run.drain_front(taken);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let outlet = self.outlet.clone();
        Ok(Box::new(PacketTransmitter::new(outlet, self.passage)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.outlet.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_system_has_a_name() {
        let rows = [
            (Errno::NOBUFS, DropReason::TransmitFull),
            (Errno::NETDOWN, DropReason::InterfaceDown),
            (Errno::NXIO, DropReason::DeviceGone),
            (Errno::INVAL, DropReason::TransmitMalformed),
            (Errno::MSGSIZE, DropReason::TransmitOversize),
            (Errno::PERM, DropReason::TransmitRefused),
        ];
        for (error, expected) in rows {
            assert!(matches!(outcome(Err(error)), Sent::Dropped(reason) if reason == expected));
        }
        assert!(matches!(outcome(Err(Errno::AGAIN)), Sent::Later));
        assert!(matches!(outcome(Err(Errno::INTR)), Sent::Some(0)));
    }
}
