//! Time as protocols see it: nanoseconds since an epoch that the caller chooses.

use core::fmt;
use core::num::NonZeroU64;
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Instant(
    /// One more than the nanoseconds, so that an `Option<Instant>` takes no more room: connections have several.
    NonZeroU64,
);

impl Instant {
    /// The epoch.
    pub const ZERO: Instant = Instant(NonZeroU64::MIN);
    /// Later than any time that is reached.
    pub const MAX: Instant = Instant(NonZeroU64::MAX);

    /// The point `nanos` nanoseconds after the epoch, at most [`MAX`](Instant::MAX).
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Instant::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Whole milliseconds since the epoch.
    pub const fn millis(self) -> u64 {
        self.nanos() / 1_000_000
    }

    /// Time since `earlier`; zero if `earlier` is in fact later (a clock that stepped back).
    #[inline]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    /// The epoch.
    fn default() -> Self {
        Instant::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.nanos()).finish()
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
        Instant::from_nanos(self.nanos().saturating_sub(nanos))
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
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!((last, last.nanos()), (Instant::MAX, u64::MAX - 1));
    }

    #[test]
    fn none_takes_no_room() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<Instant>());
        assert_eq!(format!("{:?}", Instant::from_nanos(7)), "Instant(7)");
        assert_eq!(Instant::default(), Instant::ZERO);
    }
}
