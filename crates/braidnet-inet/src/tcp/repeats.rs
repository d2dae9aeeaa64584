//! Which SYNs have come before: what tells honest hosts from a flood that is forged anew with each.
//!
//! Where more ask than may be answered (RFC 4987 §3.6 leaves open how many), nothing in a first SYN says whom it is worth to answer. A host that
//! got no answer sends its SYN again after a second (RFC 6298 §2.1); who forges sources has nothing to gain from that. So of the SYNs
//! that went without an answer marks are kept for a while, and those that come again are served before all others.
//!
//! The marks are bits in two fields of fixed size (a Bloom filter whose every element lies in one cache line): the younger is
//! written, both are read, and after a [while](GENERATION) the older is wiped and becomes the younger. A SYN is told again for at least one such while
//! and at most two. Of half a million SYNs a second, two in a hundred are told by mistake.
//! Processors write without asking each other: a mark may get lost, and then a host waits for its next try.

use braidnet_wire::time::{Duration, Instant};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// How long a field is the younger one: longer than the first timeout of a SYN, a second.
const GENERATION: Duration = Duration::from_millis(1250);
/// Words of a line, and lines of a field: 1 MiB each.
const LINE: usize = 8;
const LINES: usize = 1 << 14;
/// Bits of a mark.
const BITS: u32 = 4;

/// The SYNs of the last seconds that were not answered, for all listeners of a stack. Takes 2 MiB when the first is noted.
#[derive(Default)]
pub(super) struct Repeats {
    fields: OnceLock<[Box<[Line]>; 2]>,
    /// When the younger field became that, in nanoseconds; its number is in [`turns`](Self::turns).
    turned_at: AtomicU64,
    turns: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl Repeats {
    /// Notes a SYN by its keyed hash; whether it has come before.
    pub fn note(&self, syn: u64, now: Instant) -> bool {
        let fields = self.fields.get_or_init(|| [empty(), empty()]);
        let younger = self.turn(fields, now);
        let at = syn as usize % LINES;
        let mark = Mark(syn >> LINES.trailing_zeros());
        let known = fields.iter().any(|field| mark.is_in(&field[at]));
        mark.put(&fields[younger][at]);
        known
    }

    /// Which field is the younger one at this time; the first who finds it too old wipes the other and has them change places.
    fn turn(&self, fields: &[Box<[Line]>; 2], now: Instant) -> usize {
        let since = self.turned_at.load(Ordering::Relaxed);
        let turns = self.turns.load(Ordering::Relaxed) as usize;
        if now.nanos().saturating_sub(since) < GENERATION.as_nanos() as u64 {
            return turns % 2;
        }
        let ours = self.turned_at.compare_exchange(
            since,
            now.nanos(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if ours.is_err() {
            return turns % 2;
        }
        let older = (turns + 1) % 2;
        wipe(&fields[older]);
        if now.nanos().saturating_sub(since) >= 2 * GENERATION.as_nanos() as u64 {
            // Nobody has asked for so long that the other's time is over as well.
            wipe(&fields[turns % 2]);
        }
        self.turns.store(turns as u64 + 1, Ordering::Relaxed);
        older
    }
}

fn empty() -> Box<[Line]> {
    (0..LINES).map(|_| Line::default()).collect()
}

fn wipe(field: &[Line]) {
    let words = field.iter().flat_map(|line| &line.0);
    words.for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Where in its line a SYN leaves its bits: nine bits of the hash for each.
struct Mark(u64);

impl Mark {
    fn bits(&self) -> impl Iterator<Item = (usize, u64)> {
        let places = (0..BITS).map(|bit| (self.0 >> (9 * bit)) as usize % (64 * LINE));
        places.map(|place| (place / 64, 1 << (place % 64)))
    }

    fn is_in(&self, line: &Line) -> bool {
        self.bits()
            .all(|(word, bit)| line.0[word].load(Ordering::Relaxed) & bit != 0)
    }

    fn put(&self, line: &Line) {
        for (word, bit) in self.bits() {
            let word = &line.0[word];
            word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash as good as the keyed one.
    fn hash(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32
    }

    fn after(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(10_000 + millis)
    }

    #[test]
    fn a_syn_is_known_again_for_as_long_as_honest_hosts_take() {
        // Wherever in a generation the first one falls.
        for first in [0, 600, 1249] {
            for (later, known) in [(0, true), (1000, true), (1249, true), (2500, false)] {
                let repeats = Repeats::default();
                repeats.note(hash(1), after(0));
                assert!(!repeats.note(hash(7), after(first)));
                // Somebody else's, so that fields turn on time.
                for at in (first..first + later).step_by(10) {
                    repeats.note(hash(2), after(at));
                }
                assert_eq!(
                    repeats.note(hash(7), after(first + later)),
                    known,
                    "{first} {later}"
                );
            }
        }
    }

    #[test]
    fn a_syn_is_forgotten_where_nobody_else_asks() {
        for (later, known) in [(1249, true), (1250, true), (2499, true), (2500, false)] {
            let repeats = Repeats::default();
            repeats.note(hash(1), after(0));
            repeats.note(hash(7), after(0));
            assert_eq!(repeats.note(hash(7), after(later)), known, "{later}");
        }
    }

    #[test]
    fn of_half_a_million_a_second_few_are_known_by_mistake() {
        let repeats = Repeats::default();
        let mut mistaken = 0;
        for second in 0..4 {
            for number in 0..500_000 {
                let now = after(second * 1000 + number / 500);
                mistaken += u32::from(repeats.note(hash(second * 500_000 + number), now));
            }
        }
        assert!(mistaken < 40_000, "{mistaken} of 2,000,000");
        assert!(mistaken > 0, "fields of a size make some mistakes");
    }

    #[test]
    fn a_clock_that_stands_or_steps_back_turns_nothing() {
        let repeats = Repeats::default();
        repeats.note(hash(1), after(5000));
        assert!(repeats.note(hash(1), after(0)));
        assert!(repeats.note(hash(1), after(5000)));
    }
}
