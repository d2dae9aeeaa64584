//! The sums that messages carry, so that no byte is read twice for its checksum.
//!
//! A node knows the sum of one range of its block: what was copied in and summed in one pass. Headers that are prepended, and
//! bytes that are appended otherwise, leave it alone; whatever cuts into the range or may write it forgets it.

use braidnet_wire::checksum::{Sum, copy_and_sum};

use crate::message::Message;
use crate::node::Node;

impl Message {
    /// The sum of the first block's bytes, if it is known for exactly these without reading them; that of no bytes always
    /// is.
    #[inline]
    pub fn sum(&self) -> Option<Sum> {
        let node = self.node();
        if self.is_empty() {
            return Some(Sum::ZERO);
        }
        let known =
            node.sum_start.get() == node.start.get() && node.sum_end.get() == node.end.get();
        known.then(|| Sum(node.sum.get()))
    }

    /// Sets the sum of the first block's bytes, made by the caller, or forgets it.
    #[inline]
    pub fn set_sum(&mut self, sum: Option<Sum>) {
        let node = self.node();
        match sum {
            Some(sum) => node.set_sum(sum, node.start.get(), node.end.get()),
            None => node.clear_sum(),
        }
    }

    /// The sum of the first block's bytes. Those whose sum is known are not read.
    #[inline]
    pub fn block_sum(&self) -> Sum {
        self.node().block_sum()
    }

    /// The sum of the whole message's bytes. Those whose sum is known are not read.
    pub fn total_sum(&self) -> Sum {
        let mut total = Sum::ZERO;
        let mut len = 0;
        for node in self.nodes() {
            total = total.then(node.block_sum(), len);
            len += node.len();
        }
        total
    }

    /// Copies bytes from `from` behind the first block's, as many as fit, and returns how many; the sum of what was
    /// copied is made in the same pass and kept.
    ///
    /// 0 if the block is not unique.
    pub fn extend_from_slice_summed(&mut self, from: &[u8]) -> usize {
        let n = from.len().min(self.tailroom());
        let Some(to) = self.append(n) else {
            return 0;
        };
        let copied = copy_and_sum(to, &from[..n]);
        let node = self.node();
        let end = node.end.get();
        let start = end - n as u32;
        let (known_start, known_end) = (node.sum_start.get(), node.sum_end.get());
        if known_start == known_end {
            node.set_sum(copied, start, end);
        } else if known_end == start {
            let known = Sum(node.sum.get());
            node.set_sum(
                known.then(copied, (known_end - known_start) as usize),
                known_start,
                end,
            );
        }
        n
    }
}

impl Node {
    pub(crate) fn set_sum(&self, sum: Sum, start: u32, end: u32) {
        self.sum.set(sum.0);
        self.sum_start.set(start);
        self.sum_end.set(end);
    }

    /// The sum of the bytes seen.
    #[inline]
    fn block_sum(&self) -> Sum {
        let (start, end) = (self.start.get(), self.end.get());
        if start != end && self.sum_start.get() == start && self.sum_end.get() == end {
            return Sum(self.sum.get());
        }
        self.read_sum()
    }

    /// The sum that is known, and those of the bytes in front of it and behind.
    #[inline(never)]
    fn read_sum(&self) -> Sum {
        let bytes = self.bytes();
        let (known_start, known_end) = (self.sum_start.get(), self.sum_end.get());
        if known_start == known_end {
            return Sum::of(bytes);
        }
        let front = (known_start - self.start.get()) as usize;
        let behind = (known_end - self.start.get()) as usize;
        Sum::of(&bytes[..front])
            .then(Sum(self.sum.get()), front)
            .then(Sum::of(&bytes[behind..]), behind)
    }
}
