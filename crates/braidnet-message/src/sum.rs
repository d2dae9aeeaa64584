//! The sums that messages carry, so that no byte is read twice for its checksum.
//!
//! A node knows the sum of one range of its block: what was copied in and summed in one pass. Headers that are prepended, and
//! bytes that are appended otherwise, leave it alone; whatever cuts into the range or may write it forgets it.

use braidnet_wire::checksum::Sum;

use crate::message::Message;
use crate::node::Node;

impl Message {
    /// The sum of the first block's bytes, if it is known for exactly these without reading them.
    #[inline]
    pub fn sum(&self) -> Option<Sum> {
        let node = self.node();
        let known =
            node.sum_start.get() == node.start.get() && node.sum_end.get() == node.end.get();
        known.then(|| Sum(node.sum.get()))
    }

    /// Sets the sum of the first block's bytes, made by the caller, or forgets it.
    #[inline]
    pub fn set_sum(&mut self, sum: Option<Sum>) {
        let node = self.node();
        match sum {
            Some(Sum(sum)) => node.set_sum(sum, node.start.get(), node.end.get()),
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
        let mut total = Piece::default();
        for node in self.nodes() {
            total.add(node.block_sum(), node.len());
        }
        total.sum
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
        let copied = copy_and_sum(&from[..n], to);
        let node = self.node();
        let end = node.end.get();
        let start = end - n as u32;
        let (known_start, known_end) = (node.sum_start.get(), node.sum_end.get());
        if known_start == known_end {
            node.set_sum(copied.0, start, end);
        } else if known_end == start {
            let mut known = Piece {
                sum: Sum(node.sum.get()),
                odd: (known_end - known_start) % 2 == 1,
            };
            known.add(copied, n);
            node.set_sum(known.sum.0, known_start, end);
        }
        n
    }
}

impl Node {
    fn set_sum(&self, sum: u16, start: u32, end: u32) {
        self.sum.set(sum);
        self.sum_start.set(start);
        self.sum_end.set(end);
    }

    /// The sum of the bytes seen: that which is known, and those of the bytes in front of it and behind.
    fn block_sum(&self) -> Sum {
        let bytes = self.bytes();
        let (known_start, known_end) = (self.sum_start.get(), self.sum_end.get());
        if known_start == known_end {
            return sum_of(bytes);
        }
        let front = (known_start - self.start.get()) as usize;
        let known = (known_end - known_start) as usize;
        let mut total = Piece::default();
        total.add(sum_of(&bytes[..front]), front);
        total.add(Sum(self.sum.get()), known);
        total.add(sum_of(&bytes[front + known..]), 0);
        total.sum
    }
}

/// A sum, and whether it is of an odd number of bytes: then what follows adds with its bytes swapped (RFC 1071 §2A).
#[derive(Default)]
struct Piece {
    sum: Sum,
    odd: bool,
}

impl Piece {
    fn add(&mut self, next: Sum, len: usize) {
        let next = if self.odd {
            next.0.swap_bytes()
        } else {
            next.0
        };
        let (sum, carry) = self.sum.0.overflowing_add(next);
        self.sum = Sum(sum + u16::from(carry));
        self.odd ^= len % 2 == 1;
    }
}

/// The sum of `bytes`.
fn sum_of(bytes: &[u8]) -> Sum {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut total: u64 = words
        .iter()
        .map(|word| u64::from(u16::from_ne_bytes(*word)))
        .sum();
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    while total > u64::from(u16::MAX) {
        total = (total & 0xffff) + (total >> 16);
    }
    Sum(total as u16)
}

/// Copies `from` to `to`, as long, and sums it.
fn copy_and_sum(from: &[u8], to: &mut [u8]) -> Sum {
    to.copy_from_slice(from);
    sum_of(from)
}
