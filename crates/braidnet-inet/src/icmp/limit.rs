//! How many errors may be sent.

use crate::limits::{InetLimits, LimitError};
use crate::live::Live;
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How many ICMP errors may be sent to each of 64 groups of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorRate {
    /// So many in a second: 50 by default, which are 3,200 to all groups; 0 to 1,000,000. Those beyond are not sent.
    pub per_second: u32,
    /// So many of them at once: 20 by default, 1 to 1,000,000.
    pub burst: u32,
}

impl Default for ErrorRate {
    fn default() -> ErrorRate {
        ErrorRate {
            per_second: 50,
            burst: 20,
        }
    }
}

impl ErrorRate {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        let per_second = self.per_second as usize;
        LimitError::unless_in(0..=1_000_000, "icmp_errors.per_second", per_second)?;
        LimitError::unless_in(1..=1_000_000, "icmp_errors.burst", self.burst as usize)
    }

    /// After how many nanoseconds a token comes; `None` if none ever does.
    fn interval_nanos(&self) -> Option<u64> {
        1_000_000_000_u64.checked_div(self.per_second.into())
    }
}

/// Groups of hosts with a bucket of tokens each. A constant: who shares a group shares its tokens, and more groups would allow more errors.
const GROUPS: usize = 64;

/// A bucket that would be full again so much later than an empty one is of a slower rate. Processors' turns begin at different times, but not so
/// different.
const SLOWER_NANOS: u64 = 1_000_000_000;

/// Limits the rate of ICMP errors (RFC 1812 §4.3.2.8), per group of hosts, which the keyed hash of the host pair tells
/// apart.
///
/// One limit for all would be a side channel: who sees whether errors to himself still come knows whether somebody else's
/// forged datagrams met a closed port (CVE-2020-25705). Here the groups share nothing, and who falls into whose is secret.
///
/// A bucket is one word, the time at which it will be full again (the generic cell rate algorithm): every processor may
/// draw from it, with one compare-and-swap; a processor that loses the race draws again. Where errors may be sent faster than before, that time may be
/// much further off than an empty bucket needs now: then the bucket is empty, and no worse.
pub(crate) struct Limiter {
    limits: Arc<Live<InetLimits>>,
    full_at: [AtomicU64; GROUPS],
}

impl Limiter {
    /// All buckets full.
    pub(crate) fn new(limits: Arc<Live<InetLimits>>) -> Limiter {
        Limiter {
            limits,
            full_at: [const { AtomicU64::new(0) }; GROUPS],
        }
    }

    /// Takes a token of the group that `hash` falls into, if there is one.
    pub(crate) fn allows(&self, hash: u64, now: Instant) -> bool {
        let rate = self.limits.now().icmp_errors;
        let Some(interval) = rate.interval_nanos() else {
            return false;
        };
        let now = now.nanos();
        let all_but_one = u64::from(rate.burst.saturating_sub(1)).saturating_mul(interval);
        let latest = now.saturating_add(all_but_one);
        let empty = latest.saturating_add(interval);
        let draw = |full_at: u64| match full_at <= latest {
            true => Some(full_at.max(now).saturating_add(interval)),
            false => (full_at > empty.saturating_add(SLOWER_NANOS)).then_some(empty),
        };
        // Relaxed: the word stands for itself.
        self.full_at[hash as usize % GROUPS]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw)
            .is_ok_and(|full_at| full_at <= latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Arc<Live<InetLimits>> {
        Arc::new(Live::new(InetLimits::default()))
    }

    #[test]
    fn a_burst_passes_then_the_rate_and_other_groups_feel_nothing() {
        let limiter = Limiter::new(limits());
        let passed = |hash, from_ms: u64, count: u64, every_ms| {
            (0..count)
                .filter(|i| limiter.allows(hash, Instant::from_millis(from_ms + i * every_ms)))
                .count()
        };
        assert_eq!(passed(1, 0, 100, 0), 20);
        assert_eq!(passed(1, 20, 100, 0), 1);
        assert_eq!(passed(2, 20, 100, 0), 20, "another group");
        assert_eq!(
            passed(1, 10_000, 2_000, 1),
            20 + 99,
            "burst, then a token every 20 ms"
        );
        assert_eq!(passed(1, 60_000, 100, 20), 100, "within the rate");
    }

    #[test]
    fn the_end_of_time_is_no_end_of_the_limit() {
        let limiter = Limiter::new(limits());
        let passed = (0..100).filter(|_| limiter.allows(0, Instant::MAX)).count();
        assert!(passed >= 20);
    }

    #[test]
    fn another_rate_counts_at_once() {
        let limits = limits();
        let limiter = Limiter::new(limits.clone());
        let set = |per_second, burst| {
            let icmp_errors = ErrorRate { per_second, burst };
            icmp_errors.check().unwrap();
            limits.set(InetLimits {
                icmp_errors,
                ..InetLimits::default()
            });
        };
        let passed = |from_ms: u64, count: u64| {
            (0..count)
                .filter(|i| limiter.allows(1, Instant::from_millis(from_ms + i)))
                .count()
        };
        set(1, 5);
        assert_eq!(passed(0, 900), 5);
        // The bucket would be full again in four seconds. At a hundred a second it is empty, and a token comes every 10 ms.
        set(100, 5);
        assert_eq!(passed(900, 100), 9);
        set(0, 5);
        assert_eq!(passed(1000, 1000), 0);
        // While nothing was sent it has filled, and a larger one holds more.
        set(100, 30);
        assert_eq!(passed(2000, 100), 30 + 9);
        set(1_000_000, 1_000_000);
        assert_eq!(passed(2100, 1000), 1000);
        for (per_second, burst) in [(1_000_001, 1), (1, 0), (1, 1_000_001)] {
            assert!(ErrorRate { per_second, burst }.check().is_err());
        }
    }
}
