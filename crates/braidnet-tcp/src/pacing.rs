//! Pacing: what the windows allow leaves spread over a round trip, not at once.
//!
//! A bucket of one quantum fills at the rate that the congestion control gives: over any interval, no more leaves than the rate
//! makes of it, and a quantum. Within a quantum segments couple to trains as ever. What finds too little waits until half of the
//! quantum is there, so that a timer which comes late by no more than that costs nothing.

use crate::config::Config;
use crate::timers::{Timer, nanos};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// How long a quantum lasts, in nanoseconds, unless one of the bounds below is met.
const LASTS: u64 = 1_000_000;
const MOST_BYTES: u64 = 64 << 10;
const LEAST_SEGMENTS: u64 = 2;
const SECOND: u64 = 1_000_000_000;

/// Bytes in so many nanoseconds at `rate` bytes a second.
pub(crate) fn bytes_in(rate: u64, nanos: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(nanos) / u128::from(SECOND);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Nanoseconds that so many bytes take at `rate` bytes a second; 0 where nothing is paced.
fn time_of(bytes: u64, rate: u64) -> u64 {
    let nanos = (u128::from(bytes) * u128::from(SECOND)).checked_div(u128::from(rate));
    u64::try_from(nanos.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// What leaves at once at this rate, at most. A clock that moves in steps needs a quantum that lasts for two of them, whatever its size.
pub(crate) fn quantum(rate: u64, smss: u32, granularity: u64) -> u64 {
    bytes_in(rate, LASTS)
        .min(MOST_BYTES)
        .max(LEAST_SEGMENTS * u64::from(smss))
        .max(bytes_in(rate, granularity.saturating_mul(2)))
}

#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// Bytes a second; 0 before anything is known of the path, when nothing is held back.
    rate: u64,
    /// When all that has left will be paid for: the bucket is full from then on.
    paid_at: Instant,
    /// When it was last asked what may leave: what leaves then leaves at that time.
    asked_at: Instant,
    /// SND.NXT up to which what has left is accounted for.
    counted_to: SeqNumber,
    /// What left again since.
    again: u32,
    /// Nothing leaves before.
    pub(crate) timer: Timer,
    granularity: u64,
}

impl Pacing {
    pub(crate) fn new(config: &Config) -> Pacing {
        Pacing {
            rate: 0,
            paid_at: Instant::ZERO,
            asked_at: Instant::ZERO,
            counted_to: SeqNumber::default(),
            again: 0,
            timer: Timer::OFF,
            granularity: nanos(config.clock_granularity),
        }
    }

    /// Nothing that counts has left before `snd_nxt`.
    pub(crate) fn restart(&mut self, snd_nxt: SeqNumber) {
        self.counted_to = snd_nxt;
        self.again = 0;
        self.timer = Timer::OFF;
    }

    /// So much has left once more.
    pub(crate) fn on_sent_again(&mut self, octets: u32) {
        self.again = self.again.saturating_add(octets);
    }

    /// How many bytes may leave now, with everything before `snd_nxt` gone, at `rate`; 0 if less than `wanted` may, a segment at most:
    /// then the timer says when to ask again.
    pub(crate) fn room(
        &mut self,
        now: Instant,
        snd_nxt: SeqNumber,
        rate: u64,
        (wanted, smss): (u32, u32),
    ) -> u32 {
        self.account(snd_nxt);
        self.rate = rate;
        self.asked_at = now;
        if rate == 0 {
            return u32::MAX;
        }
        if self.timer.is_armed() && !self.timer.is_due(now) {
            return 0;
        }
        self.timer = Timer::OFF;
        let quantum = quantum(rate, smss, self.granularity);
        let owed = self.paid_at.nanos().saturating_sub(now.nanos());
        let room = quantum.saturating_sub(bytes_in(rate, owed).saturating_add(1));
        if room >= u64::from(wanted) {
            return u32::try_from(room).unwrap_or(u32::MAX);
        }
        let enough = (quantum / 2).max(u64::from(wanted)) + 1;
        let may_owe = time_of(quantum.saturating_sub(enough), rate);
        self.timer = Timer::after(now, owed.saturating_sub(may_owe).max(1));
        0
    }

    /// What has left since it was last asked is to be paid for.
    fn account(&mut self, snd_nxt: SeqNumber) {
        let new = snd_nxt - self.counted_to;
        let octets = u64::from(new) + u64::from(core::mem::take(&mut self.again));
        self.counted_to = snd_nxt;
        if octets == 0 {
            return;
        }
        let from = self.paid_at.max(self.asked_at).nanos();
        let takes = time_of(octets, self.rate);
        self.paid_at = Instant::from_nanos(from.saturating_add(takes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn quanta() {
        for (rate, smss, granularity, expected) in [
            (0, 1448, 1000, 2896),
            (1_250_000, 1448, 1000, 2896),
            (12_500_000, 1448, 1000, 12_500),
            (1_250_000_000, 1448, 1000, 65_536),
            (1_250_000_000, 60_000, 1000, 120_000),
            (12_500_000, 1448, 10_000_000, 250_000),
        ] {
            assert_eq!(quantum(rate, smss, granularity), expected, "{rate}, {smss}");
        }
    }

    #[test]
    fn what_is_not_there_is_waited_for() {
        let mut pacing = Pacing::new(&Config::default());
        let (start, rate) = (Instant::from_millis(1000), 10_000_000);
        let mut snd_nxt = SeqNumber::new(u32::MAX - 3000);
        pacing.restart(snd_nxt);
        let mut ask = |now, wanted| pacing_room(&mut pacing, now, snd_nxt, (rate, wanted));
        // 10 MB/s make 10,000 bytes in a millisecond.
        assert!((9_999..=10_000).contains(&ask(start, 1000).0));
        snd_nxt += 9_500;
        let mut ask = |now, wanted| pacing_room(&mut pacing, now, snd_nxt, (rate, wanted));
        let (room, timer) = ask(start, 1000);
        let due = timer.deadline().expect("half of it is waited for");
        assert_eq!(room, 0);
        assert!((450_000..451_000).contains(&(due.nanos() - start.nanos())));
        // A segment would fit by now; trains are what is waited for.
        assert_eq!(ask(start + Duration::from_micros(300), 1000).0, 0);
        let (room, timer) = ask(due, 1000);
        assert!((4_990..=5_000).contains(&room), "{room}");
        assert_eq!(timer, Timer::OFF);
    }

    fn pacing_room(
        pacing: &mut Pacing,
        now: Instant,
        snd_nxt: SeqNumber,
        (rate, wanted): (u64, u32),
    ) -> (u32, Timer) {
        let room = pacing.room(now, snd_nxt, rate, (wanted, 1000));
        (room, pacing.timer)
    }

    proptest! {
        /// Over any interval no more than the rate makes of it, and a quantum, leaves; and what waits leaves in time.
        #[test]
        fn no_more_than_the_rate_and_a_quantum(
            rate in 10_000u64..2_000_000_000,
            steps in prop::collection::vec((0u64..5_000_000, 1u32..60_000, any::<bool>()), 1..60),
        ) {
            let smss = 1000;
            let mut pacing = Pacing::new(&Config::default());
            let mut snd_nxt = SeqNumber::new(7);
            pacing.restart(snd_nxt);
            let mut now = Instant::from_millis(5000);
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (wait, want, again) in steps {
                now = Instant::from_nanos(now.nanos() + wait);
                let wanted = want.min(smss);
                let room = pacing.room(now, snd_nxt, rate, (wanted, smss));
                if room == 0 {
                    let due = pacing.timer.deadline().expect("it is waited for");
                    prop_assert!(due > now);
                    now = due;
                    let room = pacing.room(now, snd_nxt, rate, (wanted, smss));
                    prop_assert!(room >= wanted, "what was waited for is there");
                }
                let room = pacing.room(now, snd_nxt, rate, (wanted, smss));
                prop_assert!(room >= wanted);
                let bytes = want.min(room);
                if again { pacing.on_sent_again(bytes) } else { snd_nxt += bytes }
                sent.push((now.nanos(), u64::from(bytes)));
            }
            let quantum = quantum(rate, smss, 1000);
            for first in 0..sent.len() {
                let mut sum = 0;
                for (at, bytes) in &sent[first..] {
                    sum += bytes;
                    let most = bytes_in(rate, at - sent[first].0) + quantum;
                    // Each sending is accounted for to the nanosecond below.
                    let slack = 2 * (rate / SECOND + 1) * sent.len() as u64;
                    prop_assert!(sum <= most + slack, "{sum} of {most}");
                }
            }
        }
    }
}
