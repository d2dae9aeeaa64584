//! HyStart++: slow start that ends before the queue at the bottleneck overflows (RFC 9406).
//!
//! Where the shortest round trip of a round is longer than that of the round before, a queue is building up: the window then grows
//! at a quarter of the pace for up to five rounds, and slow start is over unless the round trip shrinks again meanwhile.
//! Only a connection's first slow start goes by it (RFC 9406 §4.3): later ones know their `ssthresh`.

use braidnet_wire::seq::SeqNumber;

/// MIN_RTT_THRESH and MAX_RTT_THRESH, in nanoseconds (RFC 9406 §4.3).
const LEAST_RISE: u64 = 4_000_000;
const MOST_RISE: u64 = 16_000_000;
/// MIN_RTT_DIVISOR.
const RISE_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const ROUNDS: u8 = 5;

/// An acknowledgment in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    /// How long ago the last of what is acknowledged had left, in nanoseconds; `None` if it is not known.
    pub(crate) rtt: Option<u64>,
    /// SND.UNA, moved already.
    pub(crate) snd_una: SeqNumber,
    pub(crate) snd_nxt: SeqNumber,
    /// What the clock cannot tell apart, in nanoseconds.
    pub(crate) granularity: u64,
}

#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    /// `windowEnd`: the round is over once SND.UNA gets there. `None` before the first one.
    round_end: Option<SeqNumber>,
    /// `currentRoundMinRTT` and `lastRoundMinRTT`, in nanoseconds; `u64::MAX` where nothing was measured.
    shortest: u64,
    shortest_before: u64,
    /// `rttSampleCount`, as far as it matters.
    samples: u8,
    caution: Option<Caution>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Caution {
    /// `cssBaselineMinRtt`.
    baseline: u64,
    /// Rounds of it that are left, the one in which it began included.
    rounds_left: u8,
}

/// How the window is to grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// By so many bytes.
    By(u32),
    /// As in congestion avoidance from now on: slow start is over.
    Over,
}

impl SlowStart {
    pub(super) fn new() -> SlowStart {
        SlowStart {
            round_end: None,
            shortest: u64::MAX,
            shortest_before: u64::MAX,
            samples: 0,
            caution: None,
        }
    }

    /// Takes an acknowledgment of `bytes` (RFC 9406 §4.2).
    pub(super) fn on_ack(&mut self, echo: Echo, bytes: u32) -> Growth {
        if self
            .round_end
            .is_none_or(|end| echo.snd_una.is_at_or_after(end))
            && !self.turn(echo)
        {
            return Growth::Over;
        }
        if let Some(rtt) = echo.rtt {
            self.shortest = self.shortest.min(rtt);
            self.samples = self.samples.saturating_add(1);
            if self.samples >= SAMPLES {
                self.judge(echo.granularity);
            }
        }
        match self.caution {
            Some(_) => Growth::By(bytes / GROWTH_DIVISOR),
            None => Growth::By(bytes),
        }
    }

    /// Begins another round, unless the last cautious one is over.
    fn turn(&mut self, echo: Echo) -> bool {
        let first = self.round_end.is_none();
        self.round_end = Some(echo.snd_nxt);
        self.shortest_before = core::mem::replace(&mut self.shortest, u64::MAX);
        self.samples = 0;
        if first {
            return true;
        }
        match &mut self.caution {
            Some(caution) => {
                caution.rounds_left = caution.rounds_left.saturating_sub(1);
                caution.rounds_left > 0
            }
            None => true,
        }
    }

    /// Whether the round trip has become longer, or what had made it so was none of ours.
    fn judge(&mut self, granularity: u64) {
        match self.caution {
            Some(Caution { baseline, .. }) if self.shortest < baseline => self.caution = None,
            Some(_) => {}
            None if self.shortest_before == u64::MAX => {}
            None => {
                // Two times that a clock gives may be a step off each, in either direction.
                let rise = (self.shortest_before / RISE_DIVISOR)
                    .clamp(LEAST_RISE, MOST_RISE)
                    .max(granularity.saturating_mul(2));
                if self.shortest >= self.shortest_before.saturating_add(rise) {
                    self.caution = Some(Caution {
                        baseline: self.shortest,
                        rounds_left: ROUNDS,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Rounds of so many acknowledgments of 1000 bytes, with these round trips; what the window grew by in each.
    fn rounds(granularity: u64, samples: u32, round_trips: &[u64]) -> Vec<Option<u32>> {
        let mut slow_start = SlowStart::new();
        let mut snd_una = SeqNumber::new(u32::MAX - 5000);
        let mut grown = Vec::new();
        for rtt in round_trips {
            let mut sum = Some(0);
            for _ in 0..samples {
                snd_una += 1000;
                let echo = Echo {
                    rtt: Some(*rtt),
                    snd_una,
                    snd_nxt: snd_una + (samples * 1000),
                    granularity,
                };
                match slow_start.on_ack(echo, 1000) {
                    Growth::By(bytes) => sum = sum.map(|sum| sum + bytes),
                    Growth::Over => sum = None,
                }
                if sum.is_none() {
                    break;
                }
            }
            grown.push(sum);
            if sum.is_none() {
                break;
            }
        }
        grown
    }

    #[test]
    fn a_longer_round_trip_ends_slow_start() {
        let full = Some(10_000);
        // The eighth acknowledgment of the third round tells: it, and those that follow, count a quarter.
        let third = Some(7 * 1000 + 3 * 250);
        let slow = Some(2500);
        let (short, long) = (100 * MS, 113 * MS);
        // RFC 9406 §4.2: at most five rounds, the one in which it began included.
        assert_eq!(
            rounds(1, 10, &[short, short, long, long, long, long, long, long]),
            [full, full, third, slow, slow, slow, slow, None]
        );
    }

    #[test]
    fn what_is_no_rise() {
        let full = Some(10_000);
        for (what, granularity, samples, before, after, rises) in [
            ("an eighth", 1, 10, 100, 113, true),
            ("less than an eighth", 1, 10, 100, 112, false),
            ("MIN_RTT_THRESH", 1, 10, 10, 14, true),
            ("less than it", 1, 10, 10, 13, false),
            ("MAX_RTT_THRESH", 1, 10, 400, 416, true),
            ("less than it", 1, 10, 400, 415, false),
            ("too few samples", 1, 7, 100, 200, false),
            ("two steps of the clock", 10 * MS, 10, 10, 29, false),
            ("three", 10 * MS, 10, 10, 30, true),
        ] {
            let grown = rounds(
                granularity,
                samples,
                &[before * MS, before * MS, after * MS],
            );
            let expected = full.filter(|_| samples == 10).or(Some(samples * 1000));
            assert_eq!(grown[..2], [expected; 2], "{what}, {before} ms");
            assert_eq!(
                grown[2] != expected,
                rises,
                "{what}, {before} to {after} ms"
            );
        }
    }

    #[test]
    fn what_was_only_jitter_leads_back() {
        let full = Some(10_000);
        let grown = rounds(1, 10, &[100 * MS, 100 * MS, 120 * MS, 110 * MS, 110 * MS]);
        // Below the baseline from the eighth acknowledgment on.
        assert_eq!(grown[3..], [Some(7 * 250 + 3 * 1000), full]);
    }

    #[test]
    fn acknowledgments_that_measure_nothing_do_not_count() {
        let mut slow_start = SlowStart::new();
        for at in 0..100 {
            let snd_una = SeqNumber::new(1000 * at);
            let echo = Echo {
                rtt: None,
                snd_una,
                snd_nxt: snd_una + 3000,
                granularity: 1,
            };
            assert_eq!(slow_start.on_ack(echo, 1000), Growth::By(1000));
        }
    }
}
