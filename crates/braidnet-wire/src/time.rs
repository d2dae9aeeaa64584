//! Time as protocols see it: nanoseconds since an epoch that the caller chooses.

use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A point in time, in nanoseconds since an epoch of the caller's choice.
///
/// Protocol code never reads a clock: whoever turns it passes the time down, once per turn.
///
/// ```
/// use braidnet_wire::time::{Duration, Instant};
/// let start = Instant::from_nanos(5);
/// assert_eq!((start + Duration::from_nanos(7)).since(start), Duration::from_nanos(7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The epoch.
    pub const ZERO: Instant = Instant(0);
    /// Later than any time that is reached.
    pub const MAX: Instant = Instant(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time since `earlier`; zero if `earlier` is in fact later (a clock that stepped back).
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, by: Duration) -> Instant {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, by: Duration) -> Instant {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class 48: a clock that steps, and deadlines beyond the end of time.
    #[test]
    fn time_saturates() {
        let second = Duration::from_secs(1);
        assert_eq!(Instant::ZERO.since(Instant::from_nanos(1)), Duration::ZERO);
        assert_eq!(Instant::ZERO - second, Instant::ZERO);
        assert_eq!(Instant::MAX + second, Instant::MAX);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
        assert_eq!(Instant::MAX - Duration::MAX, Instant::ZERO);
        assert_eq!(Instant::from_millis(u64::MAX), Instant::MAX);
        assert_eq!(
            (Instant::from_millis(3) + second - Duration::from_millis(2)).millis(),
            1001
        );
    }
}
