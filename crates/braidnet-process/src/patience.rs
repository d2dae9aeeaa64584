//! How long whoever carries processors polls before it sleeps, as its waits teach it.

use crate::running::Idle;
use braidnet_sync::primitives::{pause, yield_now};
use braidnet_wire::time::{Duration, Instant};

/// How long a thread that has nothing to do keeps its processor from others that want it.
const KEEPS: Duration = Duration::from_micros(20);
/// Polling that is shorter is none.
const LEAST: Duration = Duration::from_micros(1);

/// One that waits, again and again, and polls in each wait first, as long as that has paid of late.
///
/// A wait that was over within [`Idle::poll`] has polling go on so long from then on; each that was longer halves that, until nothing is
/// polled. So polling costs next to nothing where work comes rarely, and one wake-up where it begins to come often again.
pub(crate) struct Patience {
    /// The bound.
    most: Duration,
    /// How long it polls at present.
    poll: Duration,
    /// When the wait began, if this is one.
    since: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(idle: Idle) -> Patience {
        Patience {
            most: idle.poll,
            poll: idle.poll,
            since: None,
        }
    }

    /// There was something to do.
    #[inline]
    pub(crate) fn on_work(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.learn(now.since(since));
        }
    }

    fn learn(&mut self, waited: Duration) {
        self.poll = match self.poll / 2 {
            _ if waited <= self.most => self.most,
            half if half >= LEAST => half,
            _ => Duration::ZERO,
        };
    }

    /// Whether to poll on in the wait that goes on, or begins; else it is time to sleep. What was slept is part of the wait.
    #[inline]
    pub(crate) fn polls(&mut self, now: Instant) -> bool {
        now.since(*self.since.get_or_insert(now)) < self.poll
    }

    /// The same, after a little while.
    pub(crate) fn lingers(&mut self, now: Instant) -> bool {
        if !self.polls(now) {
            return false;
        }
        match self.since {
            Some(since) if now.since(since) >= KEEPS => {
                // Whoever is awaited may be waiting for this very processor.
                yield_now();
            }
            _ => pause(),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);

    /// How long it polls in a wait that work ends after `waited`.
    fn polled(patience: &mut Patience, now: &mut Instant, waited: Duration) -> Duration {
        let begin = *now;
        let end = begin + waited;
        let mut polled = Duration::ZERO;
        while *now < end && patience.polls(*now) {
            *now += Duration::from_micros(1);
            polled = now.since(begin);
        }
        // The rest is slept; some wake-ups are for nothing.
        *now = end;
        patience.on_work(end);
        *now += Duration::from_micros(3);
        patience.on_work(*now);
        polled
    }

    #[test]
    fn polling_ends_where_work_comes_rarely_and_begins_again_where_it_does_not() {
        let mut patience = Patience::new(Idle { poll: MOST });
        let mut now = Instant::from_millis(1);
        let mut in_waits = |waits: &[u64]| -> Vec<u128> {
            let one = |micros: &u64| {
                polled(&mut patience, &mut now, Duration::from_micros(*micros)).as_micros()
            };
            waits.iter().map(one).collect()
        };
        assert_eq!(
            in_waits(&[10, 49, 30]),
            [10, 49, 30],
            "each is polled through"
        );
        assert_eq!(in_waits(&[1000; 8]), [50, 25, 13, 7, 4, 2, 0, 0]);
        assert_eq!(
            in_waits(&[30, 30]),
            [0, 30],
            "one wake-up, and it polls again"
        );
        assert_eq!(
            in_waits(&[60, 60]),
            [50, 25],
            "beyond the bound it does not pay"
        );
    }

    #[test]
    fn who_sleeps_at_once_never_polls_and_who_spins_never_sleeps() {
        for (idle, polls) in [(Idle::SLEEP, false), (Idle::SPIN, true)] {
            let mut patience = Patience::new(idle);
            for second in 1..100 {
                let now = Instant::from_millis(second * 1000);
                assert_eq!(patience.polls(now), polls);
                let later = Instant::from_millis(second * 1000 + 900);
                assert_eq!(patience.polls(later), polls);
                patience.on_work(later);
            }
        }
    }
}
