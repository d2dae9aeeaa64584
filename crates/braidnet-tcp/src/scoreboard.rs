//! What the peer has selectively acknowledged (RFC 6675 §3), as the sender keeps it.
//!
//! Ranges, sorted, disjoint and not touching, all above SND.UNA. Their number is bounded: information that finds no
//! room is forgotten, which costs at worst a needless retransmission.

use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;

/// Most ranges kept for one connection.
const MAX_RANGES: usize = 128;
/// DupThresh (RFC 6675 §2).
pub(crate) const DUP_THRESH: u32 = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<SackBlock>,
    /// Bytes in all ranges.
    bytes: u32,
}

impl Scoreboard {
    /// Empty, with memory for so many ranges, and for no more than are kept.
    pub(crate) fn with_capacity(ranges: usize) -> Scoreboard {
        Scoreboard {
            ranges: Vec::with_capacity(ranges.min(MAX_RANGES)),
            bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes selectively acknowledged.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes a block that lies between SND.UNA and SND.NXT; says whether anything in it was news.
    pub(crate) fn add(&mut self, block: SackBlock) -> bool {
        // Ranges from `first` up to `last` overlap or touch the block.
        let first = self
            .ranges
            .partition_point(|range| range.right.is_before(block.left));
        let last = first
            + self.ranges[first..].partition_point(|range| range.left.is_at_or_before(block.right));
        if first == last {
            if self.ranges.len() == MAX_RANGES {
                return false;
            }
            self.ranges.insert(first, block);
            self.bytes += block.right - block.left;
            return true;
        }
        let merged = SackBlock {
            left: self.ranges[first].left.earliest(block.left),
            right: self.ranges[last - 1].right.latest(block.right),
        };
        let held: u32 = self.ranges[first..last].iter().map(len).sum();
        self.ranges.drain(first + 1..last);
        self.ranges[first] = merged;
        self.bytes += len(&merged) - held;
        len(&merged) > held
    }

    /// Forgets everything before `una`.
    pub(crate) fn remove_before(&mut self, una: SeqNumber) {
        let gone = self
            .ranges
            .partition_point(|range| range.right.is_at_or_before(una));
        for range in self.ranges.drain(..gone) {
            self.bytes -= len(&range);
        }
        if let Some(range) = self.ranges.first_mut()
            && range.left.is_before(una)
        {
            self.bytes -= una - range.left;
            range.left = una;
        }
    }

    /// Forgets everything: the peer has taken it back (RFC 2018 §8).
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }

    /// Whether the byte at `seq` is selectively acknowledged.
    pub(crate) fn contains(&self, seq: SeqNumber) -> bool {
        let at = self
            .ranges
            .partition_point(|range| range.right.is_at_or_before(seq));
        self.ranges
            .get(at)
            .is_some_and(|range| range.left.is_at_or_before(seq))
    }

    /// The sequence number after the highest byte selectively acknowledged.
    pub(crate) fn highest(&self) -> Option<SeqNumber> {
        self.ranges.last().map(|range| range.right)
    }

    /// What is not selectively acknowledged before this is lost (`IsLost` of RFC 6675 §4), or `None`: nothing is.
    pub(crate) fn lost_before(&self, smss: u32) -> Option<SeqNumber> {
        let (mut bytes, mut count) = (0, 0);
        for range in self.ranges.iter().rev() {
            bytes += len(range);
            count += 1;
            if count >= DUP_THRESH || bytes > (DUP_THRESH - 1) * smss {
                return Some(range.left);
            }
        }
        None
    }

    /// The first range at or above `seq` that is not selectively acknowledged: its start, and where it ends if a range
    /// follows.
    pub(crate) fn hole_from(&self, seq: SeqNumber) -> (SeqNumber, Option<SeqNumber>) {
        let at = self
            .ranges
            .partition_point(|range| range.right.is_at_or_before(seq));
        match self.ranges.get(at) {
            None => (seq, None),
            Some(range) if seq.is_before(range.left) => (seq, Some(range.left)),
            Some(range) => (range.right, self.ranges.get(at + 1).map(|next| next.left)),
        }
    }

    /// Bytes selectively acknowledged below `seq`.
    pub(crate) fn bytes_before(&self, seq: SeqNumber) -> u32 {
        self.ranges
            .iter()
            .take_while(|range| range.left.is_before(seq))
            .map(|range| range.right.earliest(seq) - range.left)
            .sum()
    }
}

fn len(range: &SackBlock) -> u32 {
    range.right - range.left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u32 = u32::MAX - 50;

    fn seq(offset: u32) -> SeqNumber {
        SeqNumber::new(START) + offset
    }

    fn block(left: u32, right: u32) -> SackBlock {
        SackBlock {
            left: seq(left),
            right: seq(right),
        }
    }

    fn board(blocks: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(left, right) in blocks {
            board.add(block(left, right));
        }
        board
    }

    /// Ranges, segment size, everything before this offset is lost.
    type Row = (&'static [(u32, u32)], u32, Option<u32>);

    #[test]
    fn is_lost_by_count_or_by_bytes() {
        // RFC 6675 §4.
        let table: [Row; 6] = [
            (&[], 10, None),
            (&[(10, 30)], 10, None),
            (&[(10, 31)], 10, Some(10)),
            (&[(10, 11), (20, 21)], 10, None),
            (&[(10, 11), (20, 21), (30, 31)], 10, Some(10)),
            (&[(10, 11), (20, 21), (30, 31), (40, 61)], 10, Some(40)),
        ];
        for (blocks, smss, edge) in table {
            assert_eq!(board(blocks).lost_before(smss), edge.map(seq), "{blocks:?}");
        }
    }

    #[test]
    fn holes() {
        let board = board(&[(10, 20), (30, 40)]);
        let table = [
            (0, 0, Some(10)),
            (10, 20, Some(30)),
            (19, 20, Some(30)),
            (25, 25, Some(30)),
            (35, 40, None),
            (50, 50, None),
        ];
        for (from, start, end) in table {
            assert_eq!(
                board.hole_from(seq(from)),
                (seq(start), end.map(seq)),
                "{from}"
            );
        }
    }

    #[test]
    fn ranges_are_bounded() {
        let mut board = Scoreboard::default();
        for at in 0..1000 {
            board.add(block(at * 2 + 1, at * 2 + 2));
        }
        assert_eq!(
            (board.ranges.len(), board.bytes()),
            (MAX_RANGES, MAX_RANGES as u32)
        );
        assert!(board.add(block(0, 3)), "what merges needs no room");
    }

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn as_a_set(blocks in prop::collection::vec((0u32..200, 1u32..30), 0..40), una in 0u32..230) {
            let mut board = Scoreboard::default();
            let mut set = [false; 256];
            for (left, len) in blocks {
                let covered = &mut set[left as usize..(left + len) as usize];
                let news = covered.contains(&false);
                covered.fill(true);
                prop_assert_eq!(board.add(block(left, left + len)), news);
            }
            board.remove_before(seq(una));
            set[..una as usize].fill(false);
            for at in 0..256u32 {
                prop_assert_eq!(board.contains(seq(at)), set[at as usize]);
                let before = set[..at as usize].iter().filter(|held| **held).count() as u32;
                prop_assert_eq!(board.bytes_before(seq(at)), before);
                let (hole, _) = board.hole_from(seq(at));
                let model = (at..256).find(|at| !set[*at as usize]);
                prop_assert_eq!(Some(hole), model.map(seq));
            }
            prop_assert_eq!(board.bytes(), set.iter().filter(|held| **held).count() as u32);
            let apart = board.ranges.windows(2).all(|pair| pair[0].right.is_before(pair[1].left));
            prop_assert!(apart);
        }
    }
}
