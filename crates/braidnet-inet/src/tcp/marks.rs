//! Marks of what has come, in a store that nobody who comes can make grow.
//!
//! A mark is a word with most of the keyed hash of what it is about, which names one of many lines, so that nobody can choose it. A new one
//! pushes out the eldest of its line. Processors write without asking each other: a mark may get lost, and who keeps them has to bear that.

use arc_swap::ArcSwapOption;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Marks in a line, which fill a cache line.
const LINE: usize = 8;
/// The bits that a mark has of the hash of what it is about, and that name its line.
const HASH: u64 = 0x7fff_ffff_ffff_0000;

/// The marks that were made last. Takes 8 bytes for each that may be kept when the first is made.
///
/// Where another number may be kept than before, all move with the next that is made; those that others make at that moment may be lost.
#[derive(Default)]
pub(super) struct Marks {
    lines: ArcSwapOption<Vec<Line>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl Marks {
    /// Makes a mark, which is not 0; at most so many are kept, in whole lines.
    pub(super) fn make(&self, mark: u64, most: usize) {
        let count = most.div_ceil(LINE).max(1);
        if !has_lines(&self.lines.load(), count) {
            self.lines.rcu(|lines| match has_lines(lines, count) {
                true => lines.clone(),
                false => Some(Arc::new(moved(lines.as_deref(), count))),
            });
        }
        if let Some(lines) = &*self.lines.load() {
            line_of(lines, mark).push(mark);
        }
    }

    /// Does something with the youngest mark about what has this hash, if there is one.
    pub(super) fn find<R>(
        &self,
        hash: u64,
        is_it: impl Fn(u64) -> bool,
        act: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let lines = self.lines.load();
        let Line(marks) = line_of(lines.as_deref()?, hash);
        let mut marks = marks.iter();
        let found = marks.find(|mark| is_it(mark.load(Ordering::Relaxed)));
        found.map(act)
    }

    /// Whether there is a mark about what has this hash.
    pub(super) fn has(&self, hash: u64, is_it: impl Fn(u64) -> bool) -> bool {
        self.find(hash, is_it, |_| ()).is_some()
    }
}

impl Line {
    fn push(&self, mark: u64) {
        let Line(marks) = self;
        // Nothing else hangs on a mark.
        for at in (1..LINE).rev() {
            let younger = marks[at - 1].load(Ordering::Relaxed);
            marks[at].store(younger, Ordering::Relaxed);
        }
        marks[0].store(mark, Ordering::Relaxed);
    }
}

fn line_of(lines: &[Line], hash: u64) -> &Line {
    let hash = (hash & HASH) >> HASH.trailing_zeros();
    &lines[hash as usize % lines.len()]
}

fn has_lines(lines: &Option<Arc<Vec<Line>>>, count: usize) -> bool {
    lines.as_ref().is_some_and(|lines| lines.len() == count)
}

/// So many lines with the marks that are in `before`, the eldest of each line first, so that the youngest stay.
fn moved(before: Option<&Vec<Line>>, count: usize) -> Vec<Line> {
    let lines: Vec<Line> = (0..count).map(|_| Line::default()).collect();
    let before = before.map_or(&[][..], Vec::as_slice);
    for age in (0..LINE).rev() {
        for Line(marks) in before {
            match marks[age].load(Ordering::Relaxed) {
                0 => {}
                mark => line_of(&lines, mark).push(mark),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_the_last_eight() {
        let marks = Marks::default();
        let mark = |number: u64| (number * 100) << 16;
        let has = |number: u64| marks.has(mark(number), |found| found == mark(number));
        assert!(!has(1), "none is made yet");
        for number in 1..20 {
            marks.make(mark(number), 100 * LINE);
            let kept: Vec<u64> = (1..20).filter(|number| has(*number)).collect();
            let expected: Vec<u64> = (number.saturating_sub(7).max(1)..=number).collect();
            assert_eq!(kept, expected);
        }
        assert!(marks.has(mark(1), |_| true));
        assert!(
            marks.has(1 << 16, |found| found == 0),
            "nothing stands in another line"
        );
    }

    #[test]
    fn other_lines_keep_the_youngest() {
        let marks = Marks::default();
        let mark = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let has = |number: u64| marks.has(mark(number), |found| found == mark(number));
        let kept = |of: u64| (1..=of).filter(|number| has(*number)).count();
        for number in 1..=10_000 {
            marks.make(mark(number), 65_536);
        }
        assert_eq!(kept(10_000), 10_000);
        // More lines hold all of them, fewer as many as fit, and the last one in any case.
        marks.make(mark(10_001), 200_000);
        assert_eq!(kept(10_001), 10_001);
        marks.make(mark(10_002), 1001);
        let few = kept(10_002);
        assert!((900..=1008).contains(&few), "{few}");
        assert!(has(10_002));
        marks.make(mark(10_003), 0);
        assert_eq!(kept(10_003), LINE);
        assert!(has(10_003));
        marks.make(mark(10_004), 65_536);
        assert_eq!(kept(10_004), LINE + 1);
    }
}
