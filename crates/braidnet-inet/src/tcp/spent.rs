//! Which SYN cookies have opened a connection: one that comes again is no answer to anything any more.
//!
//! A cookie is good for two to three minutes, and nothing is kept of it meanwhile (RFC 4987 §3.6). An old ACK that comes late, or twice, would bring
//! it back when its connection is over, and open another that the peer knows nothing of; what three steps of a handshake are there to
//! prevent (RFC 9293 §3.5). So marks of those that were brought back are kept, in lines of fixed size: a new one pushes out the eldest of
//! its line. Nobody can forge an address to get there, who brings a cookie back having been sent it. With fewer than 30,000 connections in three minutes
//! hardly a line runs over; a cookie whose mark is gone is good once more, as if nothing were kept.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Marks in a line, which fill a cache line.
const LINE: usize = 8;
/// Lines.
const LINES: usize = 1 << 13;

/// The cookies that were brought back last, for all listeners of a stack, 65,536 at most. Takes 512 KiB when the first is noted.
///
/// Processors write without asking each other, but all that one pair of ends sends is seen by one at a time.
#[derive(Default)]
pub(super) struct Spent {
    lines: OnceLock<Box<[Line]>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl Spent {
    /// Notes by its keyed hash a cookie that has opened a connection.
    pub(super) fn note(&self, cookie: u64) {
        let lines = self
            .lines
            .get_or_init(|| (0..LINES).map(|_| Line::default()).collect());
        let Line(marks) = &lines[cookie as usize % LINES];
        // Nothing else hangs on a mark.
        for at in (1..LINE).rev() {
            let younger = marks[at - 1].load(Ordering::Relaxed);
            marks[at].store(younger, Ordering::Relaxed);
        }
        marks[0].store(mark(cookie), Ordering::Relaxed);
    }

    /// Whether it is among those that were noted last.
    pub(super) fn has(&self, cookie: u64) -> bool {
        let Some(lines) = self.lines.get() else {
            return false;
        };
        let Line(marks) = &lines[cookie as usize % LINES];
        let is_it = |noted: &AtomicU64| noted.load(Ordering::Relaxed) == mark(cookie);
        marks.iter().any(is_it)
    }
}

/// 0 is no mark: it is what a line holds at first.
fn mark(cookie: u64) -> u64 {
    cookie.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_the_last_eight() {
        let spent = Spent::default();
        assert!(!spent.has(0), "nothing is noted yet");
        let cookie = |number: u64| number * LINES as u64;
        for number in 0..20 {
            spent.note(cookie(number));
            let kept = (0..20).filter(|number| spent.has(cookie(*number)));
            let expected = (number.saturating_sub(7)..=number).collect::<Vec<_>>();
            assert_eq!(kept.collect::<Vec<_>>(), expected);
        }
        assert!(!spent.has(cookie(19) + 1), "another line");
    }
}
