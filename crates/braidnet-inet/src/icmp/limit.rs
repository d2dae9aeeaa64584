//! How many errors may be sent.

use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU64, Ordering};

/// Groups of hosts with a bucket of tokens each.
const GROUPS: usize = 64;
/// A token comes every 20 ms: 50 errors a second to a group, 3,200 in all.
const INTERVAL_NANOS: u64 = 20_000_000;
/// Tokens that a bucket holds.
const BURST: u64 = 20;

/// Limits the rate of ICMP errors (RFC 1812 §4.3.2.8), per group of hosts, which the keyed hash of the host pair tells
/// apart.
///
/// One limit for all would be a side channel: who sees whether errors to himself still come knows whether somebody else's
/// forged datagrams met a closed port (CVE-2020-25705). Here the groups share nothing, and who falls into whose is secret.
///
/// A bucket is one word, the time at which it will be full again (the generic cell rate algorithm): every processor may
/// draw from it, with one compare-and-swap; a processor that loses the race draws again.
pub(crate) struct Limiter {
    full_at: [AtomicU64; GROUPS],
}

impl Limiter {
    /// All buckets full.
    pub(crate) fn new() -> Limiter {
        Limiter {
            full_at: [const { AtomicU64::new(0) }; GROUPS],
        }
    }

    /// Takes a token of the group that `hash` falls into, if there is one.
    pub(crate) fn allows(&self, hash: u64, now: Instant) -> bool {
        let now = now.nanos();
        let latest = now.saturating_add((BURST - 1) * INTERVAL_NANOS);
        let later = |full_at: u64| {
            (full_at <= latest).then(|| full_at.max(now).saturating_add(INTERVAL_NANOS))
        };
        // Relaxed: the word stands for itself.
        self.full_at[hash as usize % GROUPS]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_and_other_groups_feel_nothing() {
        let limiter = Limiter::new();
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
        let limiter = Limiter::new();
        let passed = (0..100).filter(|_| limiter.allows(0, Instant::MAX)).count();
        assert!(passed >= 20);
    }
}
