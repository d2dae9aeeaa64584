//! The way in of an open TUN or TAP device.

use super::link::{Link, retry};
use super::overflow::Overflow;
use super::vnet::{self, Described, VnetHeader};
use crate::{Counters, DropReason, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Message, Pool, Run};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

/// The way in: one `readv` per packet, straight into a pool's buffers.
pub struct TunReceiver {
    link: Link,
    /// For packets that stand for many segments, where such come.
    overflow: Option<Overflow>,
    gone: bool,
    counters: Counters,
}

/// What one `readv` gave.
enum Read {
    Packet(Message),
    Dropped,
    Nothing,
}

impl TunReceiver {
    pub fn new(link: Link) -> Self {
        // The system cuts what does not fit without a word: one byte more than can be shows it.
        let room = link.packet_max + 1;
        TunReceiver {
            overflow: link.offloads.segments.then(|| Overflow::behind(room)),
            link,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn read(&mut self, pool: &mut Pool) -> Read {
        let room = self.link.packet_max + 1;
        let is_ready = match &mut self.overflow {
            Some(overflow) => overflow.is_ready(pool),
            None => true,
        };
        let Some(mut message) = pool.allocate(RECEIVE_HEADROOM, room).filter(|_| is_ready) else {
            return Read::Nothing;
        };
        let Some(buffer) = message.append(room) else {
            return Read::Nothing;
        };
        let mut header = [0; vnet::LEN];
        let behind = self.overflow.as_mut().map(Overflow::buffer);
        let mut slices = [
            IoSliceMut::new(&mut header[..self.link.vnet_len()]),
            IoSliceMut::new(buffer),
            IoSliceMut::new(behind.unwrap_or_default()),
        ];
        match retry(|| rustix::io::readv(self.link.fd(), &mut slices)) {
            Ok(read) => match self.take(message, header, read, pool) {
                Ok(message) => {
                    let packets = message.segments();
                    self.counters.count_packets(packets, message.total_len());
                    Read::Packet(message)
                }
                Err((reason, packets)) => {
                    self.counters.count_drops(reason, packets as u64);
                    Read::Dropped
                }
            },
            Err(Errno::BADFD | Errno::BADF | Errno::NODEV) => {
                self.gone = true;
                Read::Nothing
            }
            // EAGAIN: nothing waits. Anything else passes (the interface is down, memory is short) and loses nothing.
            Err(_) => Read::Nothing,
        }
    }

    /// Makes a packet of what was `read`: `header`, the packet's bytes in `message`, and the rest in what overflows. Or why that cannot be, and for how
    /// many packets.
    fn take(
        &mut self,
        mut message: Message,
        header: [u8; vnet::LEN],
        read: usize,
        pool: &mut Pool,
    ) -> Result<Message, (DropReason, usize)> {
        let length = read.saturating_sub(self.link.vnet_len());
        let described = if self.link.has_vnet {
            let front = &message.bytes()[..length.min(message.len())];
            VnetHeader::from_bytes(&header)
                .of(front, self.link.header_len, length)
                .map_err(|reason| (reason, 1))?
        } else {
            Described::default()
        };
        let first = match described.train {
            None => length,
            Some(train) => train.header_len + train.segment_bytes,
        };
        if first > self.link.packet_max {
            return Err((DropReason::ReceiveOversize, 1));
        }
        if let Some(train) = described.train {
            // None but those of IPv4 were asked for.
            let Some(overflow) = self.overflow.as_mut().filter(|_| train.is_v4) else {
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

impl Receiver for TunReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        // What is dropped counts, too: a call ends, whatever arrives.
        for _ in 0..max {
            match self.read(pool) {
                Read::Packet(message) => {
                    into.push(message);
                    taken += 1;
                }
                Read::Dropped => {}
                Read::Nothing => break,
            }
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.fd())
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offloads;
    use crate::tun::attachment::Attachment;
    use braidnet_message::Arena;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;

    #[test]
    fn what_is_dropped_counts_towards_what_a_call_looks_at() {
        // A socket of datagrams reads as a device does.
        let (ours, peers) = UnixDatagram::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        let attachment = Attachment {
            interface: None,
            name: "none".to_owned(),
            queues: vec![ours.into()],
            has_vnet: false,
        };
        let mut receiver = TunReceiver::new(Link {
            attachment: Arc::new(attachment),
            queue: 0,
            packet_max: 100,
            header_len: 0,
            has_vnet: false,
            offloads: Offloads::NONE,
        });
        for length in [101, 101, 101, 60] {
            peers.send(&[0x45; 101][..length]).expect("room");
        }
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut run = Run::new();
        for (taken, dropped) in [(0, 2), (1, 3), (0, 3)] {
            assert_eq!(receiver.receive(&mut pool, &mut run, 2), taken);
            let counters = receiver.counters();
            assert_eq!(counters.dropped(DropReason::ReceiveOversize), dropped);
        }
        assert_eq!(run.len(), 1);
    }
}
