//! Packets under way.

use crate::link::{Arrival, Dropped, Fate, Link};
use crate::{Damage, Impairments};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Packets under way, each with its time of arrival; those with the same time in the order in which they were offered.
///
/// Several lines may have one [`Link`] in front of them, as the queues of a device have one wire behind them.
#[derive(Debug)]
pub struct Line<P> {
    /// Those that arrive in the order in which they were offered.
    in_order: VecDeque<Entry<P>>,
    /// Those that arrive before one that was offered earlier.
    others: BinaryHeap<Reverse<Entry<P>>>,
    limit: usize,
    /// Packets offered so far, copies counted.
    number: u64,
}

/// A packet that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery<P> {
    /// The packet as it was offered.
    pub packet: P,
    /// When it arrived.
    pub at: u64,
    /// The bit of it that is to be changed.
    pub damage: Option<Damage>,
    /// Whether it is to be marked.
    pub marked: bool,
}

#[derive(Debug)]
struct Entry<P> {
    arrival: Arrival,
    number: u64,
    packet: P,
}

impl<P> Entry<P> {
    fn key(&self) -> (u64, u64) {
        (self.arrival.at, self.number)
    }
}

impl<P> PartialEq for Entry<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Entry<P> {}

impl<P> PartialOrd for Entry<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Entry<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<P> Line<P> {
    /// An empty one that keeps at most `limit` packets, copies counted; see
    /// [`limit_packets`](crate::Impairments::limit_packets).
    pub fn new(limit: usize) -> Line<P> {
        Line {
            in_order: VecDeque::new(),
            others: BinaryHeap::new(),
            limit,
            number: 0,
        }
    }

    /// At most so many are kept from now on. Where there are more, they arrive all the same.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Offers a packet of so many bytes to the link now, and keeps it until it arrives. `copy` is asked for a second one where it
    /// arrives twice; without one it arrives once.
    ///
    /// # Errors
    ///
    /// Why it will not arrive; then it is gone. The link has counted it.
    pub fn offer(
        &mut self,
        link: &mut Link,
        (now, bytes): (u64, usize),
        packet: P,
        copy: impl FnOnce(&P) -> Option<P>,
    ) -> Result<(), Dropped> {
        if self.len() >= self.limit {
            let tally = link.tally_mut();
            tally.offered += 1;
            tally.count_drop(Dropped::TooMany);
            return Err(Dropped::TooMany);
        }
        match link.offer(now, bytes) {
            Fate::Dropped(dropped) => Err(dropped),
            Fate::Arrives(first, None) => {
                self.push(first, packet);
                Ok(())
            }
            Fate::Arrives(first, Some(again)) => {
                let second = copy(&packet).filter(|_| self.len() + 1 < self.limit);
                self.push(first, packet);
                match second {
                    Some(second) => self.push(again, second),
                    None => link.tally_mut().duplicated -= 1,
                }
                Ok(())
            }
        }
    }

    fn push(&mut self, arrival: Arrival, packet: P) {
        let entry = Entry {
            arrival,
            number: self.number,
            packet,
        };
        self.number += 1;
        let overtakes = self
            .in_order
            .back()
            .is_some_and(|last| last.arrival.at > arrival.at);
        match overtakes {
            false => self.in_order.push_back(entry),
            true => self.others.push(Reverse(entry)),
        }
    }

    /// When the next packet arrives.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let first = self.in_order.front().map(|entry| entry.arrival.at);
        let other = self.others.peek().map(|Reverse(entry)| entry.arrival.at);
        match (first, other) {
            (Some(first), Some(other)) => Some(first.min(other)),
            (first, other) => first.or(other),
        }
    }

    /// The next packet, if it has arrived by now.
    pub fn take(&mut self, now: u64) -> Option<Delivery<P>> {
        if self.next()? > now {
            return None;
        }
        let first = self.in_order.front().map(Entry::key);
        let other = self.others.peek().map(|Reverse(entry)| entry.key());
        let is_other = other.is_some_and(|other| first.is_none_or(|first| other < first));
        let entry = match is_other {
            true => self.others.pop().map(|Reverse(entry)| entry),
            false => self.in_order.pop_front(),
        }?;
        Some(Delivery {
            packet: entry.packet,
            at: entry.arrival.at,
            damage: entry.arrival.damage,
            marked: entry.arrival.marked,
        })
    }

    /// Packets under way.
    #[inline]
    pub fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    /// Whether none is under way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<P> Default for Line<P> {
    fn default() -> Line<P> {
        Line::new(Impairments::LIMIT_PACKETS)
    }
}

#[cfg(test)]
mod tests;
