//! The way in of an open TUN or TAP device.

use super::link::Link;
use crate::overflow::Overflow;
use crate::passage::{Arrival, retry};
use crate::vnet::{self, VnetHeader};
use crate::{Counters, RECEIVE_HEADROOM, Receiver};
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
        let room = link.passage.packet_max + 1;
        TunReceiver {
            overflow: link
                .passage
                .offloads
                .segments
                .then(|| Overflow::behind(room)),
            link,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn read(&mut self, pool: &mut Pool) -> Read {
        let room = self.link.passage.packet_max + 1;
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
            Ok(read) => {
                let arrival = Arrival {
                    front: message,
                    length: read.saturating_sub(self.link.vnet_len()),
                    header: (self.link.has_vnet).then(|| VnetHeader::from_bytes(&header)),
                };
                let overflow = self.overflow.as_mut();
                match self.link.passage.arrived(arrival, overflow, pool) {
                    Ok(message) => {
                        let packets = message.segments();
                        self.counters.count_packets(packets, message.total_len());
                        Read::Packet(message)
                    }
                    Err((reason, packets)) => {
                        self.counters.count_drops(reason, packets as u64);
                        Read::Dropped
                    }
                }
            }
            Err(Errno::BADFD | Errno::BADF | Errno::NODEV) => {
                self.gone = true;
                Read::Nothing
            }
            // EAGAIN: nothing waits. Anything else passes (the interface is down, memory is short) and loses nothing.
            Err(_) => Read::Nothing,
        }
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
    use crate::passage::Passage;
    use crate::tun::attachment::Attachment;
    use crate::{DropReason, Offloads};
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
            has_vnet: false,
            passage: Passage {
                packet_max: 100,
                header_len: 0,
                offloads: Offloads::NONE,
            },
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
