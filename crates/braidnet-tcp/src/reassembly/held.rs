//! What one connection holds: pieces, the ranges that they cover, and what came last.

use crate::{Allowance, DropReason, Payload};
use arrayvec::ArrayVec;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pieces that are kept however small they are.
const FREE_PIECES: usize = 64;
/// Beyond those, pieces must be this long on average, in bytes.
const MIN_AVERAGE_BYTES: usize = 256;

struct Piece<P> {
    seq: SeqNumber,
    payload: P,
    /// What it takes of the allowance.
    footprint: usize,
}

pub(super) struct Held<P> {
    /// Sorted, disjoint, all above RCV.NXT.
    pieces: VecDeque<Piece<P>>,
    /// What `pieces` cover: sorted, disjoint and not touching.
    ranges: Vec<SackBlock>,
    /// Bytes in all pieces.
    bytes: usize,
    max_pieces: usize,
    /// Where data last arrived, latest first: the order in which SACK blocks are sent (RFC 2018 §4).
    recent: ArrayVec<SeqNumber, 4>,
    /// What all connections share, if they do.
    pub(super) allowance: Option<Arc<Allowance>>,
}

impl<P: Payload> Held<P> {
    /// At most `max_pieces`, with memory for `reserve` of them; only what `allowance` has room for.
    pub(super) fn new(max_pieces: u32, reserve: u32, allowance: Option<Arc<Allowance>>) -> Held<P> {
        let reserve = reserve.min(max_pieces) as usize;
        Held {
            pieces: VecDeque::with_capacity(reserve),
            // Pieces that do not touch have others missing between them.
            ranges: Vec::with_capacity(reserve / 2),
            bytes: 0,
            max_pieces: max_pieces as usize,
            recent: ArrayVec::new(),
            allowance,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Segments in which they came.
    pub(super) fn segments(&self) -> usize {
        self.pieces.len()
    }

    /// Where the first piece begins.
    pub(super) fn first(&self) -> Option<SeqNumber> {
        self.pieces.front().map(|piece| piece.seq)
    }

    /// Keeps a segment that lies above RCV.NXT and inside the window.
    ///
    /// An error says why all or part of it was not kept.
    pub(super) fn insert(&mut self, mut seq: SeqNumber, mut payload: P) -> Result<(), DropReason> {
        let mut partly = Ok(());
        let end = seq + payload.len() as u32;
        if let Some(held) = self.range_of(seq) {
            self.remember(seq);
            if held.right.is_at_or_after(end) {
                return Err(DropReason::Overlap);
            }
            payload.trim_front((held.right - seq) as usize);
            seq = held.right;
            partly = Err(DropReason::Overlap);
        }
        let at = self
            .pieces
            .partition_point(|piece| piece.seq.is_before(seq));
        let inside = self.inside(at, end);
        if let Some(after) = self.pieces.get(inside.end)
            && after.seq.is_before(end)
        {
            payload.truncate((after.seq - seq) as usize);
            partly = Err(DropReason::Overlap);
        }
        if inside.is_empty() && !self.has_room() {
            return Err(DropReason::ReassemblyFull);
        }
        let footprint = payload.footprint();
        if let Some(allowance) = &self.allowance
            && !allowance.take(footprint)
        {
            return Err(DropReason::AllowanceUsedUp);
        }
        let len = payload.len();
        debug_assert!(len > 0, "an empty segment is not kept");
        if !inside.is_empty() {
            self.let_go(inside);
            partly = Err(DropReason::Overlap);
        }
        self.bytes += len;
        self.cover(SackBlock {
            left: seq,
            right: seq + len as u32,
        });
        self.remember(seq);
        let piece = Piece {
            seq,
            payload,
            footprint,
        };
        self.pieces.insert(at, piece);
        partly
    }

    /// Makes way for data in order that ends at `end`: what lies inside it is let go of. Where it has to stop, if something
    /// that is held begins before its end, and does not end before it.
    pub(super) fn give_way(&mut self, end: SeqNumber) -> Option<SeqNumber> {
        let inside = self.inside(0, end);
        self.let_go(inside);
        let stop = self.first().filter(|first| first.is_before(end));
        let next = stop.unwrap_or(end);
        self.ranges.retain(|range| range.right.is_after(next));
        if let Some(range) = self.ranges.first_mut() {
            range.left = range.left.latest(next);
        }
        stop
    }

    /// Which pieces, from that one on, end before `end`.
    fn inside(&self, from: usize, end: SeqNumber) -> Range<usize> {
        let ends_before =
            |piece: &Piece<P>| (piece.seq + piece.payload.len() as u32).is_before(end);
        from..self.pieces.partition_point(ends_before).max(from)
    }

    /// Drops these pieces; the ranges still have them.
    fn let_go(&mut self, pieces: Range<usize>) {
        let (mut bytes, mut footprint) = (0, 0);
        for piece in self.pieces.drain(pieces) {
            bytes += piece.payload.len();
            footprint += piece.footprint;
        }
        self.bytes -= bytes;
        self.give_back(footprint);
    }

    /// The first piece, if it begins at `rcv_nxt`.
    pub(super) fn take_at(&mut self, rcv_nxt: SeqNumber) -> Option<P> {
        self.first().filter(|first| *first == rcv_nxt)?;
        let piece = self.pieces.pop_front()?;
        self.give_back(piece.footprint);
        let len = piece.payload.len();
        self.bytes -= len;
        if let Some(range) = self.ranges.first_mut() {
            range.left = piece.seq + len as u32;
            if range.left == range.right {
                self.ranges.remove(0);
            }
        }
        if self.pieces.is_empty() {
            self.recent.clear();
        }
        Some(piece.payload)
    }

    /// Lets go of what lies at or after `end`; whether there was anything.
    pub(super) fn cut(&mut self, end: SeqNumber) -> bool {
        let before = self.bytes;
        while let Some(last) = self.pieces.back_mut()
            && (last.seq + last.payload.len() as u32).is_after(end)
        {
            let len = last.payload.len();
            if last.seq.is_before(end) {
                last.payload.truncate((end - last.seq) as usize);
                self.bytes -= len - last.payload.len();
                break;
            }
            self.bytes -= len;
            let footprint = last.footprint;
            self.pieces.pop_back();
            self.give_back(footprint);
        }
        self.ranges.retain(|range| range.left.is_before(end));
        if let Some(range) = self.ranges.last_mut() {
            range.right = range.right.earliest(end);
        }
        // What came latest into a range that is cut counts for the rest of it.
        for seq in &mut self.recent {
            *seq = seq.earliest(end - 1);
        }
        self.bytes != before
    }

    /// The blocks of a SACK option, at most `max` (RFC 2018 §4): the one that holds the latest arrival first, then those
    /// reported before, then any others.
    pub(super) fn sack_blocks(&self, max: usize) -> ArrayVec<SackBlock, 4> {
        let mut blocks = ArrayVec::<SackBlock, 4>::new();
        let recent = self.recent.iter().filter_map(|seq| self.range_of(*seq));
        for block in recent.chain(self.ranges.iter().copied()) {
            if blocks.len() == max.min(4) {
                break;
            }
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks
    }

    fn has_room(&self) -> bool {
        let pieces = self.pieces.len();
        pieces < self.max_pieces && pieces < FREE_PIECES + self.bytes / MIN_AVERAGE_BYTES
    }

    /// What is held in one piece around `seq`.
    pub(super) fn range_of(&self, seq: SeqNumber) -> Option<SackBlock> {
        let range = self.first_range_behind(seq)?;
        range.left.is_at_or_before(seq).then_some(range)
    }

    /// The first piece that is held and ends behind `seq`.
    pub(super) fn first_range_behind(&self, seq: SeqNumber) -> Option<SackBlock> {
        let at = self
            .ranges
            .partition_point(|range| range.right.is_at_or_before(seq));
        self.ranges.get(at).copied()
    }

    /// Puts `seq` in front of the recent arrivals; others of the same range give way.
    fn remember(&mut self, seq: SeqNumber) {
        if let Some(range) = self.range_of(seq) {
            let inside = |other: &SeqNumber| {
                range.left.is_at_or_before(*other) && other.is_before(range.right)
            };
            self.recent.retain(|other| !inside(other));
        }
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, seq);
    }

    /// Adds a block to `ranges`, which those that it overlaps or touches become part of.
    fn cover(&mut self, block: SackBlock) {
        let from = self
            .ranges
            .partition_point(|range| range.right.is_before(block.left));
        let to = self
            .ranges
            .partition_point(|range| range.left.is_at_or_before(block.right));
        let joined = self.ranges[from..to]
            .iter()
            .fold(block, |all, range| SackBlock {
                left: all.left.earliest(range.left),
                right: all.right.latest(range.right),
            });
        self.ranges.splice(from..to, [joined]);
    }
}

impl<P> Held<P> {
    /// What all pieces take of the allowance.
    fn held(&self) -> usize {
        self.pieces.iter().map(|piece| piece.footprint).sum()
    }

    fn give_back(&self, bytes: usize) {
        if let Some(allowance) = &self.allowance {
            allowance.give_back(bytes);
        }
    }
}

impl<P> Drop for Held<P> {
    fn drop(&mut self) {
        self.give_back(self.held());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bytes;
    use proptest::prelude::*;

    const START: u32 = u32::MAX - 100;

    fn seq(offset: u32) -> SeqNumber {
        SeqNumber::new(START) + offset
    }

    fn bytes(from: u32, to: u32, mark: u8) -> Bytes {
        Bytes(vec![mark; (to - from) as usize])
    }

    fn blocks(reassembly: &Held<Bytes>, max: usize) -> Vec<(u32, u32)> {
        let offset = |seq: SeqNumber| seq.value().wrapping_sub(START);
        reassembly
            .sack_blocks(max)
            .iter()
            .map(|b| (offset(b.left), offset(b.right)))
            .collect()
    }

    #[test]
    fn what_several_keep_is_bounded_together() {
        let allowance = Arc::new(Allowance::new(100));
        let [mut one, mut two] = [0, 1].map(|_| Held::new(100, 0, Some(allowance.clone())));
        assert_eq!(one.insert(seq(10), bytes(10, 70, 0)), Ok(()));
        assert_eq!(two.insert(seq(10), bytes(10, 40, 0)), Ok(()));
        let refused = Err(DropReason::AllowanceUsedUp);
        assert_eq!(two.insert(seq(50), bytes(50, 61, 0)), refused);
        assert_eq!(two.insert(seq(50), bytes(50, 60, 0)), Ok(()));
        assert_eq!(allowance.used_bytes(), 100);
        // What is made whole, given up or gone makes room.
        assert!(two.take_at(seq(10)).is_some());
        assert_eq!(allowance.used_bytes(), 70);
        drop(one);
        assert_eq!(allowance.used_bytes(), 10);
        drop(two);
        assert_eq!(allowance.used_bytes(), 0);
    }

    /// Held, arriving, verdict, what is held afterwards (as marks by place).
    type Row = (
        &'static [(u32, u32)],
        (u32, u32),
        Result<(), DropReason>,
        &'static str,
    );

    #[test]
    fn what_came_first_stays_but_for_what_lies_inside() {
        let table: [Row; 11] = [
            (&[(2, 4)], (5, 7), Ok(()), "..11.99"),
            (&[(2, 4)], (4, 6), Ok(()), "..1199"),
            (&[(2, 4)], (1, 2), Ok(()), ".911"),
            (&[(2, 4)], (2, 4), Err(DropReason::Overlap), "..11"),
            (&[(2, 4)], (3, 6), Err(DropReason::Overlap), "..1199"),
            (&[(2, 4)], (1, 3), Err(DropReason::Overlap), ".911"),
            (&[(2, 4)], (1, 4), Err(DropReason::Overlap), ".911"),
            (&[(2, 4)], (1, 6), Err(DropReason::Overlap), ".99999"),
            (
                &[(2, 4), (5, 7)],
                (3, 9),
                Err(DropReason::Overlap),
                "..1199999",
            ),
            (
                &[(2, 4), (5, 7)],
                (1, 6),
                Err(DropReason::Overlap),
                ".999911",
            ),
            (
                &[(2, 4), (5, 7), (8, 9)],
                (4, 9),
                Err(DropReason::Overlap),
                "..1199991",
            ),
        ];
        for (held, (from, to), verdict, expected) in table {
            let mut reassembly = Held::new(100, 0, None);
            for &(from, to) in held {
                reassembly.insert(seq(from), bytes(from, to, b'1')).unwrap();
            }
            let got = reassembly.insert(seq(from), bytes(from, to, b'9'));
            assert_eq!(got, verdict, "{held:?} {from}..{to}");
            let mut places = String::new();
            for piece in &reassembly.pieces {
                let at = (piece.seq - seq(0)) as usize;
                places += &".".repeat(at - places.len());
                places += core::str::from_utf8(&piece.payload.0).unwrap();
            }
            assert_eq!(places, expected, "{held:?} {from}..{to}");
        }
    }

    #[test]
    fn sack_blocks_name_the_latest_first() {
        let mut reassembly = Held::new(100, 0, None);
        for at in [10, 20, 30, 40, 50] {
            reassembly.insert(seq(at), bytes(at, at + 5, 0)).unwrap();
        }
        assert_eq!(
            blocks(&reassembly, 3),
            [(50, 55), (40, 45), (30, 35)],
            "RFC 2018 §4"
        );
        reassembly.insert(seq(25), bytes(25, 28, 0)).unwrap();
        assert_eq!(blocks(&reassembly, 3), [(20, 28), (50, 55), (40, 45)]);
        reassembly.insert(seq(20), bytes(20, 25, 0)).unwrap_err();
        assert_eq!(
            blocks(&reassembly, 4),
            [(20, 28), (50, 55), (40, 45), (30, 35)]
        );
        reassembly.insert(seq(15), bytes(15, 20, 0)).unwrap();
        assert_eq!(
            blocks(&reassembly, 4),
            [(10, 28), (50, 55), (40, 45), (30, 35)]
        );
    }

    #[test]
    fn what_is_cut_is_still_named_in_order() {
        let mut reassembly = Held::new(100, 0, None);
        for (from, to) in [(20, 25), (10, 12), (25, 30)] {
            reassembly.insert(seq(from), bytes(from, to, 0)).unwrap();
        }
        assert!(reassembly.cut(seq(24)));
        assert_eq!(blocks(&reassembly, 4), [(20, 24), (10, 12)]);
        assert!(reassembly.cut(seq(15)));
        assert_eq!(blocks(&reassembly, 4), [(10, 12)]);
    }

    /// HOSTILE-INPUT 16.
    #[test]
    fn a_flood_of_single_bytes_is_bounded() {
        let mut reassembly = Held::new(8192, 0, None);
        let mut refused = 0;
        for at in 0..1000 {
            let verdict = reassembly.insert(seq(at * 2 + 1), bytes(0, 1, 0));
            refused += u32::from(verdict == Err(DropReason::ReassemblyFull));
        }
        assert_eq!(
            (reassembly.pieces.len(), refused),
            (FREE_PIECES, 1000 - FREE_PIECES as u32)
        );
    }

    #[test]
    fn full_segments_are_bounded_by_count_only() {
        let mut reassembly = Held::new(500, 0, None);
        for at in 0..500 {
            assert_eq!(
                reassembly.insert(seq(at * 2000 + 1), bytes(0, 1000, 0)),
                Ok(())
            );
        }
        let verdict = reassembly.insert(seq(500 * 2000), bytes(0, 1000, 0));
        assert_eq!(verdict, Err(DropReason::ReassemblyFull));
    }

    #[test]
    fn what_is_cut_off_is_held_no_more() {
        // Where it is cut, what is held then.
        let rows: [(u32, &[(u32, u32)]); 7] = [
            (5, &[]),
            (10, &[]),
            (12, &[(10, 12)]),
            (15, &[(10, 15)]),
            (20, &[(10, 20)]),
            (35, &[(10, 20), (30, 35)]),
            (40, &[(10, 20), (30, 40)]),
        ];
        for (end, expected) in rows {
            let allowance = Arc::new(Allowance::new(100));
            let mut reassembly = Held::new(100, 0, Some(allowance.clone()));
            for (from, to) in [(10, 15), (15, 20), (30, 40)] {
                reassembly.insert(seq(from), bytes(from, to, 0)).unwrap();
            }
            assert_eq!(reassembly.cut(seq(end)), end < 40, "{end}");
            let mut held = blocks(&reassembly, 4);
            held.sort();
            assert_eq!(held, expected, "{end}");
            let lens = expected.iter().map(|(from, to)| (to - from) as usize);
            assert_eq!(reassembly.bytes, lens.sum::<usize>(), "{end}");
            drop(reassembly);
            assert_eq!(allowance.used_bytes(), 0, "{end}");
        }
    }

    proptest! {
        /// Whatever comes in whatever order, what comes out is the stream, in order, and what lay inside a later segment is that one's.
        #[test]
        fn as_an_array(segments in prop::collection::vec((0u32..80, 1u32..20), 1..40)) {
            let mut reassembly = Held::new(8192, 0, None);
            let mut model = [None; 100];
            for (mark, (from, len)) in segments.into_iter().enumerate() {
                let mark = mark as u8;
                let _ = reassembly.insert(seq(from), bytes(from, from + len, mark));
                let (from, to) = (from as usize, (from + len) as usize);
                let mut place = (from..to).find(|at| model[*at].is_none()).unwrap_or(to);
                while place < to {
                    let held = model[place];
                    let end = (place..100).find(|at| model[*at] != held).unwrap_or(100);
                    if held.is_some() && end >= to {
                        break;
                    }
                    let end = end.min(to);
                    model[place..end].fill(Some(mark));
                    place = end;
                }
                let covered: u32 = reassembly.ranges.iter().map(|range| range.right - range.left).sum();
                prop_assert_eq!(covered as usize, reassembly.bytes);
                let apart = reassembly.ranges.windows(2).all(|pair| pair[0].right.is_before(pair[1].left));
                prop_assert!(apart);
            }
            for (at, place) in model.iter().enumerate() {
                let held = reassembly.range_of(seq(at as u32)).is_some();
                prop_assert_eq!(held, place.is_some());
            }
            let mut at = reassembly.first().unwrap();
            while let Some(payload) = reassembly.take_at(at) {
                for byte in payload.0 {
                    prop_assert_eq!(model[(at - seq(0)) as usize], Some(byte));
                    at += 1;
                }
            }
            prop_assert!(reassembly.first().is_none_or(|first| first.is_after(at)));
        }
    }
}
