//! The order in which messages leave a queue: high priority, then the bands from the highest down, each first in first out.

use braidnet_message::{Kind, Message, Run};
use std::collections::VecDeque;

/// A message in a queue, with the bytes that it counts for, so that nobody looks into it when it leaves.
pub(super) struct Entry {
    pub(super) message: Message,
    pub(super) bytes: usize,
}

impl Entry {
    #[inline]
    pub(super) fn new(message: Message) -> Entry {
        let bytes = message.total_len().max(1);
        Entry { message, bytes }
    }
}

/// Messages in their order. Nearly all are plain: band 0, not of high priority. They have a queue of their own, and the
/// others are looked at only while there are any.
#[derive(Default)]
pub(super) struct Bands {
    plain: VecDeque<Entry>,
    /// A rank above that of plain messages and its queue, highest rank first. There are at most 256; a queue once
    /// needed stays.
    urgent: Vec<(u16, VecDeque<Entry>)>,
    urgent_len: usize,
}

/// The rank of messages of high priority, above that of every band.
const HIGH: u16 = 256;

#[inline]
fn rank(message: &Message) -> u16 {
    if message.kind() == Kind::HighPriority {
        HIGH
    } else {
        message.band().into()
    }
}

impl Bands {
    /// Empty, with room for so many plain messages.
    pub(super) fn with_capacity(messages: usize) -> Bands {
        Bands {
            plain: VecDeque::with_capacity(messages),
            ..Bands::default()
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.plain.len() + self.urgent_len
    }

    #[inline]
    pub(super) fn push_back(&mut self, entry: Entry) {
        match rank(&entry.message) {
            0 => self.plain.push_back(entry),
            rank => self.urgent(rank).push_back(entry),
        }
    }

    #[inline]
    pub(super) fn push_front(&mut self, entry: Entry) {
        match rank(&entry.message) {
            0 => self.plain.push_front(entry),
            rank => self.urgent(rank).push_front(entry),
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        if self.urgent_len > 0 {
            self.pop_urgent()
        } else {
            self.plain.pop_front()
        }
    }

    /// Moves the first messages, at most `max`, to the end of `run`; returns for how many bytes they counted.
    #[inline]
    pub(super) fn pop_run(&mut self, run: &mut Run, max: usize) -> usize {
        let mut bytes = 0;
        let mut left = max;
        while left > 0
            && let Some(entry) = self.pop_urgent()
        {
            bytes += entry.bytes;
            left -= 1;
            run.push(entry.message);
        }
        let plain = self.plain.len().min(left);
        run.extend(self.plain.drain(..plain).map(|entry| {
            bytes += entry.bytes;
            entry.message
        }));
        bytes
    }

    fn pop_urgent(&mut self) -> Option<Entry> {
        if self.urgent_len == 0 {
            return None;
        }
        let first = self
            .urgent
            .iter_mut()
            .find_map(|(_, queue)| queue.pop_front());
        self.urgent_len -= usize::from(first.is_some());
        first
    }

    /// The queue of a rank above 0, for one more message.
    #[cold]
    fn urgent(&mut self, rank: u16) -> &mut VecDeque<Entry> {
        self.urgent_len += 1;
        let place = self.urgent.partition_point(|(other, _)| *other > rank);
        if self
            .urgent
            .get(place)
            .is_none_or(|(other, _)| *other != rank)
        {
            self.urgent.insert(place, (rank, VecDeque::new()));
        }
        &mut self.urgent[place].1
    }
}
