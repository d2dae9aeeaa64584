//! The link: where packets are lost, repeated, changed, held up and queued.

use crate::case::{Path, SECOND};
use crate::random::Random;
use braidnet_wire::address::Address;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The addresses of the two hosts, for the pseudo header.
pub const ADDRESSES: [Address; 2] = [Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2])];

/// A TCP segment as it stands on the wire.
pub type Packet = Vec<u8>;

/// Bytes of the headers below TCP, which take time on the line too.
const LOWER_HEADERS: u64 = 34;

/// Packets under way, each with its time of arrival.
pub struct Link {
    paths: [Path; 2],
    /// When the line of each direction has sent all that waits.
    free_at: [u64; 2],
    under_way: BinaryHeap<Reverse<(u64, u64, usize, Packet)>>,
    /// Packets taken so far: tells apart those that arrive at the same time, in the order in which they were sent.
    number: u64,
    random: Random,
    pub tally: Tally,
}

/// What became of packets.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub sent: u64,
    pub lost: u64,
    pub repeated: u64,
    pub corrupted: u64,
    pub held_up: u64,
    pub overflowed: u64,
}

impl Link {
    pub fn new(paths: &[Path; 2], random: Random) -> Link {
        Link {
            paths: paths.clone(),
            free_at: [0; 2],
            under_way: BinaryHeap::new(),
            number: 0,
            random,
            tally: Tally::default(),
        }
    }

    /// Takes a packet for host `to`.
    pub fn send(&mut self, now: u64, to: usize, mut packet: Packet) {
        let path = self.paths[1 - to].clone();
        self.tally.sent += 1;
        let Some(sent_at) = self.pass_queue(now, to, &path, packet.len() as u64) else {
            self.tally.overflowed += 1;
            return;
        };
        if self.random.chance(path.loss) {
            self.tally.lost += 1;
            return;
        }
        let repeated = self.random.chance(path.duplication);
        if repeated {
            self.tally.repeated += 1;
            self.deliver(sent_at, to, &path, packet.clone());
        }
        if self.random.chance(path.corruption) {
            self.tally.corrupted += 1;
            corrupt(&mut packet, &mut self.random);
        }
        self.deliver(sent_at, to, &path, packet);
    }

    /// When a packet has left the queue and the line; `None` if it finds the queue full. An empty queue takes any.
    fn pass_queue(&mut self, now: u64, to: usize, path: &Path, bytes: u64) -> Option<u64> {
        if path.rate == 0 {
            return Some(now);
        }
        let free_at = &mut self.free_at[to];
        let start = now.max(*free_at);
        let waiting = (start - now) * path.rate / SECOND;
        if waiting > 0 && waiting + bytes > path.queue_bytes {
            return None;
        }
        *free_at = start + (bytes + LOWER_HEADERS) * SECOND / path.rate;
        Some(*free_at)
    }

    fn deliver(&mut self, sent_at: u64, to: usize, path: &Path, packet: Packet) {
        let mut at = sent_at + path.delay;
        if self.random.chance(path.reordering) {
            self.tally.held_up += 1;
            at += self.random.below(path.jitter);
        }
        self.number += 1;
        self.under_way.push(Reverse((at, self.number, to, packet)));
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next packet that has arrived, and for whom.
    pub fn arrived(&mut self, now: u64) -> Option<(usize, Packet)> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, _, to, packet)) = self.under_way.pop()?;
        Some((to, packet))
    }
}

/// Changes one 16-bit word, in any way but from all zeros to all ones or back, the one that the checksum cannot see.
fn corrupt(packet: &mut Packet, random: &mut Random) {
    let mask = (random.between(1, 0xfffe) as u16).to_be_bytes();
    let at = 2 * random.below(packet.len() as u64 / 2) as usize;
    for (byte, mask) in packet[at..at + 2].iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
