//! The way out of an open TUN or TAP device.

use super::link::Link;
use crate::passage::retry;
use crate::{Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// Blocks of one message that go to the system without being gathered first: those of the longest train of Ethernet's segments, and more.
const BLOCKS_MAX: usize = 64;

/// A way out: one `writev` per packet, without copying its blocks together.
pub struct TunTransmitter {
    link: Link,
    /// Where messages of more than [`BLOCKS_MAX`] blocks are put together.
    gathered: Vec<u8>,
    counters: Counters,
}

/// What became of one packet.
enum Written {
    Sent,
    Dropped(DropReason),
    Later,
}

impl TunTransmitter {
    pub fn new(link: Link) -> Self {
        TunTransmitter {
            link,
            gathered: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn write(&mut self, message: &Message) -> Written {
        let header = match self.link.passage.leaving(message) {
            Ok(header) => header.to_bytes(),
            Err(reason) => return Written::Dropped(reason),
        };
        let header = &header[..self.link.vnet_len()];
        let mut slices = [IoSlice::new(&[]); 1 + BLOCKS_MAX];
        slices[0] = IoSlice::new(header);
        let mut count = 1;
        for block in message.blocks() {
            if let Some(slice) = slices.get_mut(count) {
                *slice = IoSlice::new(block);
            }
            count += 1;
        }
        let result = match slices.get(..count) {
            Some(slices) => retry(|| rustix::io::writev(self.link.fd(), slices)),
            None => {
                self.gathered.clear();
                self.gathered.extend_from_slice(header);
                message
                    .blocks()
                    .for_each(|block| self.gathered.extend_from_slice(block));
                retry(|| rustix::io::write(self.link.fd(), &self.gathered))
            }
        };
        match result {
            Ok(_) => Written::Sent,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Written::Later,
            Err(error) => Written::Dropped(reason(error)),
        }
    }
}

/// What the driver means by its errors (`tun_get_user`).
fn reason(error: Errno) -> DropReason {
    match error {
        Errno::IO => DropReason::InterfaceDown,
        Errno::BADFD | Errno::BADF | Errno::NODEV => DropReason::DeviceGone,
        Errno::INVAL => DropReason::TransmitMalformed,
        Errno::MSGSIZE | Errno::TOOBIG => DropReason::TransmitOversize,
        _ => DropReason::TransmitRefused,
    }
}

impl Transmitter for TunTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let mut taken = 0;
        for message in run.iter() {
            match self.write(message) {
                Written::Sent => {
                    let packets = message.segments();
                    self.counters.count_packets(packets, message.total_len());
                }
                Written::Dropped(reason) => {
                    let packets = message.segments() as u64;
                    self.counters.count_drops(reason, packets);
                }
                Written::Later => break,
            }
            taken += 1;
        }
        run.drain_front(taken);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(TunTransmitter::new(self.link.clone())))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_driver_has_a_name() {
        let rows = [
            (Errno::IO, DropReason::InterfaceDown),
            (Errno::BADFD, DropReason::DeviceGone),
            (Errno::INVAL, DropReason::TransmitMalformed),
            (Errno::MSGSIZE, DropReason::TransmitOversize),
            (Errno::PERM, DropReason::TransmitRefused),
        ];
        for (error, expected) in rows {
            assert_eq!(reason(error), expected);
        }
    }
}
