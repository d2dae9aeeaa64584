//! The way in of an interface.

use super::ring::{Ring, Waiting};
use super::socket::PacketSocket;
use crate::overflow::Overflow;
use crate::passage::{Arrival, Passage, retry};
use crate::vnet::{self, VnetHeader};
use crate::{Alarm, Counters, DropReason, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_wire::checksum::Sum;
use braidnet_wire::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};

/// Every so many looks that find nothing ask whether the interface is still there: the socket becomes readable when it is not, and stays so until it is asked.
const LOOKS: u32 = 32;

/// How often an interface that is down is looked after: nobody says of one that was down before when it is removed.
const GLANCE: Duration = Duration::from_millis(100);

/// The VLAN's number in a tag: 0 is none, but a priority (IEEE 802.1Q).
const VLAN: u16 = 0x0fff;

/// The way in: packets are copied out of the ring into a pool's buffers.
pub struct PacketReceiver {
    socket: PacketSocket,
    ring: Ring,
    passage: Passage,
    /// For packets that are too long for the ring.
    overflow: Overflow,
    /// The interface's index.
    interface: u32,
    looks: u32,
    is_down: bool,
    /// Whether the interface went down while packets were read from the socket: reading takes the socket's error along, of which [`look`](PacketReceiver::look) is to hear.
    went_down: bool,
    alarm: Alarm,
    gone: bool,
    counters: Counters,
}

/// What became of the packet that waits longest.
enum Taken {
    Packet(Message),
    Dropped(DropReason, usize),
    /// There is no buffer for it now.
    Later,
}

impl PacketReceiver {
    pub fn new(
        socket: PacketSocket,
        ring: Ring,
        passage: Passage,
        interface: u32,
    ) -> PacketReceiver {
        PacketReceiver {
            overflow: Overflow::behind(ring.slot_bytes()),
            socket,
            ring,
            passage,
            interface,
            looks: 0,
            is_down: false,
            went_down: false,
            alarm: Alarm::new(),
            gone: false,
            counters: Counters::default(),
        }
    }

    /// Nothing waits: looks after the interface from time to time.
    fn look(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if !self.is_down && !self.went_down && !self.looks.is_multiple_of(LOOKS) {
            return;
        }
        let says_down = matches!(socket_error(&self.socket), Ok(Err(Errno::NETDOWN)));
        self.is_down |= says_down || core::mem::take(&mut self.went_down);
        if self.is_down {
            self.gone = self.socket.interface().ok() != i32::try_from(self.interface).ok();
            let again = || Instant::from_nanos(Clock::shared().now_nanos()) + GLANCE;
            self.alarm.set((!self.gone).then(again));
        }
    }
}

/// What is made of a packet in the ring.
struct Reading<'a> {
    socket: &'a PacketSocket,
    passage: Passage,
    overflow: &'a mut Overflow,
    /// Bytes in front of what overflows.
    room: usize,
    went_down: &'a mut bool,
}

/// What became of a packet that is too long for the ring.
enum Copied {
    /// Its front; the rest is in the overflow.
    Front(Message),
    /// What the socket had is not this packet.
    Other,
    /// There is no buffer for it now.
    Later,
}

impl Reading<'_> {
    fn take(&mut self, waiting: &Waiting<'_>, pool: &mut Pool) -> Taken {
        let header = VnetHeader::from_bytes(&waiting.description).without_congestion();
        let has_tag = waiting.status & libc::TP_STATUS_VLAN_VALID != 0 && waiting.tag & VLAN != 0;
        let is_copied = waiting.status & libc::TP_STATUS_COPY != 0;
        let reason = if waiting.bytes.is_empty() {
            Some(DropReason::ReceiveOffloadMalformed)
        } else if has_tag {
            Some(DropReason::ReceiveVlanTagged)
        } else if header.is_train() && !self.passage.takes(header) {
            Some(DropReason::ReceiveOffloadUnsupported)
        } else if waiting.length > waiting.bytes.len() && !is_copied {
            // Too many such wait already.
            Some(DropReason::ReceiveRingFull)
        } else {
            None
        };
        if let Some(reason) = reason {
            if is_copied {
                self.skip();
            }
            let link_len = self.passage.header_len;
            let packets = header.segments(waiting.bytes, link_len, waiting.length);
            return Taken::Dropped(reason, packets);
        }
        let front = if is_copied {
            self.read(waiting, pool)
        } else {
            let front = pool.copy_from_slice(RECEIVE_HEADROOM, waiting.bytes);
            front.map_or(Copied::Later, Copied::Front)
        };
        let front = match front {
            Copied::Front(front) => front,
            Copied::Other => return Taken::Dropped(DropReason::ReceiveOffloadMalformed, 1),
            Copied::Later => return Taken::Later,
        };
        let arrival = Arrival {
            front,
            length: waiting.length,
            header: Some(header),
        };
        match self.passage.arrived(arrival, Some(self.overflow), pool) {
            Ok(mut message) => {
                if !self.passage.offloads.checksum {
                    finish(&mut message, header);
                }
                Taken::Packet(message)
            }
            Err((reason, packets)) => Taken::Dropped(reason, packets),
        }
    }

    /// The packet that is too long for the ring, from the socket. One is taken from there for each that the ring tells of, so that the two keep step.
    fn read(&mut self, waiting: &Waiting<'_>, pool: &mut Pool) -> Copied {
        if !self.overflow.is_ready(pool) {
            return Copied::Later;
        }
        let Some(mut front) = pool.allocate(RECEIVE_HEADROOM, self.room) else {
            return Copied::Later;
        };
        let mut described = [0; vnet::LEN];
        let mut slices = [
            IoSliceMut::new(&mut described),
            IoSliceMut::new(front.append(self.room).unwrap_or_default()),
            IoSliceMut::new(self.overflow.buffer()),
        ];
        let read = next_copy(self.went_down, || {
            rustix::io::readv(self.socket, &mut slices)
        });
        if read == Ok(vnet::LEN + waiting.length) && is_same(&described, &waiting.description) {
            Copied::Front(front)
        } else {
            Copied::Other
        }
    }

    /// Takes such a packet from the socket, and lets it be.
    fn skip(&mut self) {
        let _ = next_copy(self.went_down, || {
            rustix::io::read(self.socket, &mut [0u8; vnet::LEN + 1])
        });
    }
}

/// Reads the packet that waits longest in the socket: the system puts it there before the ring tells of it. An error of the socket's comes first, once.
fn next_copy(
    went_down: &mut bool,
    mut read: impl FnMut() -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    loop {
        match retry(&mut read) {
            Err(Errno::NETDOWN) => *went_down = true,
            other => return other,
        }
    }
}

/// Whether the same is said of a packet, but for the length of its headers, which is a hint.
fn is_same(one: &[u8; vnet::LEN], other: &[u8; vnet::LEN]) -> bool {
    let [one, other] = [one, other].map(|described| VnetHeader {
        header_len: 0,
        ..VnetHeader::from_bytes(described)
    });
    one == other
}

/// Makes the checksum that whoever sent this has left to others, where nobody above expects that.
fn finish(message: &mut Message, header: VnetHeader) {
    if message.checksum() != braidnet_message::Checksum::Partial {
        return;
    }
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    // All of it lies in one block, and where it says, or it would not have been taken.
    let Some(bytes) = message.bytes_mut() else {
        return;
    };
    let sum = Sum::of(bytes.get(start..).unwrap_or_default()).finish_bytes();
    if let Some(place) = bytes.get_mut(at..at + 2) {
        // UDP's 0 would mean that there is none (RFC 768).
        let none = [0, 0];
        place.copy_from_slice(if sum == none { &[0xff; 2] } else { &sum });
    }
    message.set_checksum(braidnet_message::Checksum::Verified);
}

impl Receiver for PacketReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        let mut has_asked = false;
        for _ in 0..max {
            let Some(waiting) = self.ring.front() else {
                self.look();
                break;
            };
            // All packets say so that came in between a loss and this question.
            if waiting.status & libc::TP_STATUS_LOSING != 0 && !has_asked {
                has_asked = true;
                let lost = self.socket.lost();
                self.counters.count_drops(DropReason::ReceiveRingFull, lost);
            }
            let mut reading = Reading {
                socket: &self.socket,
                passage: self.passage,
                overflow: &mut self.overflow,
                room: self.ring.slot_bytes(),
                went_down: &mut self.went_down,
            };
            match reading.take(&waiting, pool) {
                Taken::Packet(message) => {
                    let packets = message.segments();
                    self.counters.count_packets(packets, message.total_len());
                    into.push(message);
                    taken += 1;
                }
                Taken::Dropped(reason, packets) => {
                    self.counters.count_drops(reason, packets as u64);
                }
                Taken::Later => break,
            }
            self.ring.release();
            if self.is_down {
                self.is_down = false;
                self.alarm.set(None);
            }
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn has_waiting(&self) -> bool {
        self.ring.is_waiting()
    }

    fn alarm(&self) -> Option<Alarm> {
        Some(self.alarm.clone())
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
