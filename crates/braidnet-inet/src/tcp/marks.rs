//! Marks of what has come, in a store of fixed size that nobody can make grow.
//!
//! A mark is a word that stands in one of many lines, which a keyed hash of what it is about names, so that nobody can choose it. A new one
//! pushes out the eldest of its line. Processors write without asking each other: a mark may get lost, and who keeps them has to bear that.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Marks in a line, which fill a cache line.
const LINE: usize = 8;
/// Lines.
const LINES: usize = 1 << 13;

/// The marks that were made last, 65,536 at most. Takes 512 KiB when the first is made.
#[derive(Default)]
pub(super) struct Marks {
    lines: OnceLock<Box<[Line]>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl Marks {
    /// Makes a mark, which is not 0, about what has this hash.
    pub(super) fn make(&self, hash: u64, mark: u64) {
        let lines = self
            .lines
            .get_or_init(|| (0..LINES).map(|_| Line::default()).collect());
        let Line(marks) = &lines[hash as usize % LINES];
        // Nothing else hangs on a mark.
        for at in (1..LINE).rev() {
            let younger = marks[at - 1].load(Ordering::Relaxed);
            marks[at].store(younger, Ordering::Relaxed);
        }
        marks[0].store(mark, Ordering::Relaxed);
    }

    /// Where the youngest mark is about what has this hash, if there is one.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u64) -> bool) -> Option<&AtomicU64> {
        let lines = self.lines.get()?;
        let Line(marks) = &lines[hash as usize % LINES];
        marks
            .iter()
            .find(|mark| is_it(mark.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_the_last_eight() {
        let marks = Marks::default();
        let has = |number: u64| {
            let hash = number * LINES as u64 + 7;
            marks.find(hash, |mark| mark == number).is_some()
        };
        assert!(!has(0), "none is made yet");
        for number in 1..20 {
            marks.make(number * LINES as u64 + 7, number);
            let kept: Vec<u64> = (1..20).filter(|number| has(*number)).collect();
            let expected: Vec<u64> = (number.saturating_sub(7).max(1)..=number).collect();
            assert_eq!(kept, expected);
        }
        assert!(marks.find(8, |_| true).is_some_and(|mark| {
            // Another line, where nothing stands yet.
            mark.load(Ordering::Relaxed) == 0
        }));
    }
}
