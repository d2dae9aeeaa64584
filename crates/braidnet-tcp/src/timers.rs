//! A timer as protocol state: the time at which it expires, or never.
//!
//! Arming one is a store. Whoever turns the engine asks for the earliest ([`Tcb::deadline`](crate::Tcb::deadline)) and may
//! come late or in vain.

use braidnet_wire::time::Instant;

/// The time at which something is due; `Timer::OFF` if nothing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timer(Instant);

impl Timer {
    pub(crate) const OFF: Timer = Timer(Instant::MAX);

    /// Due `nanos` nanoseconds after `now`.
    #[inline]
    pub(crate) fn after(now: Instant, nanos: u64) -> Timer {
        Timer(Instant::from_nanos(now.nanos().saturating_add(nanos)))
    }

    /// Due at this time.
    #[inline]
    pub(crate) fn at(time: Instant) -> Timer {
        Timer(time)
    }

    #[inline]
    pub(crate) fn is_armed(self) -> bool {
        self != Timer::OFF
    }

    #[inline]
    pub(crate) fn is_due(self, now: Instant) -> bool {
        self.is_armed() && self.0 <= now
    }

    /// The earlier of the two.
    #[inline]
    pub(crate) fn earliest(self, other: Timer) -> Timer {
        Timer(self.0.min(other.0))
    }

    /// The later of the two, where both are armed.
    pub(crate) fn latest(self, other: Timer) -> Timer {
        Timer(self.0.max(other.0))
    }

    #[inline]
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.is_armed().then_some(self.0)
    }
}

/// A duration in nanoseconds; centuries are as long as it gets.
pub(crate) fn nanos(duration: core::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_due_from_its_time_on() {
        let timer = Timer::after(Instant::from_nanos(5), 10);
        for (now, due) in [(0, false), (14, false), (15, true), (16, true)] {
            assert_eq!(timer.is_due(Instant::from_nanos(now)), due, "{now}");
        }
        assert_eq!(timer.deadline(), Some(Instant::from_nanos(15)));
        assert_eq!(timer.earliest(Timer::OFF), timer);
    }

    #[test]
    fn a_timer_that_is_off_is_never_due() {
        assert!(!Timer::OFF.is_due(Instant::MAX));
        assert_eq!(Timer::OFF.deadline(), None);
    }
}
