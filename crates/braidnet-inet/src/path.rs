//! What is known of the paths to other hosts: how long a packet may be (RFC 1191, RFC 1122 §3.3.3).
//!
//! Only what a connection has found to be about a segment of its own is remembered, so who has not seen any cannot make others' segments
//! short. Connections look here when they begin.

use crate::limits::LimitError;
use crate::oldest::forget_beyond;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_wire::address::Address;
use braidnet_wire::time::{Duration, Instant};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;

/// What is remembered of paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paths {
    /// Hosts that are remembered: 1,024 by default, 1 to 65,536. Of one more, the path that is about to be forgotten is.
    pub hosts: usize,
    /// The shortest packet that a path is believed to have as its longest, in bytes: 552 by default, as Linux has it. Less would multiply segments,
    /// and no link in use has less.
    pub least_mtu: u32,
    /// How long a path is remembered: 10 minutes by default (RFC 1191 §6.3). Then connections try the device's MTU again.
    pub lifetime: Duration,
}

impl Paths {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(1..=65_536, "paths.hosts", self.hosts)
    }

    /// What a path is taken to carry of which somebody says `mtu`: what is said to be less than any does is not believed, nor is
    /// that nothing is said (RFC 1191 §5: 0, from routers that do not know).
    pub(crate) fn believed(&self, mtu: u32) -> u32 {
        mtu.max(self.least_mtu)
    }
}

impl Default for Paths {
    fn default() -> Paths {
        Paths {
            hosts: 1024,
            least_mtu: 552,
            lifetime: Duration::from_secs(600),
        }
    }
}

/// The hosts whose paths are shorter than the device's MTU.
pub(crate) struct PathMtus {
    /// How many there are: who finds none need not ask further.
    count: AtomicUsize,
    known: Lock<HashMap<Address, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    mtu: u32,
    until: Instant,
}

impl PathMtus {
    pub(crate) fn new() -> PathMtus {
        PathMtus {
            count: AtomicUsize::new(0),
            known: Lock::new(LockKind::Adaptive, LockClass::Map, HashMap::new()),
        }
    }

    /// The longest packet that the path to `remote` carries, if that is known to be less than the device's MTU.
    pub(crate) fn find(&self, remote: &Address, now: Instant) -> Option<u32> {
        // Relaxed: who just misses one hears of it by itself.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.known.with(|known| {
            let found = *known.get(remote)?;
            if found.until <= now {
                known.remove(remote);
                self.count.store(known.len(), Ordering::Relaxed);
                return None;
            }
            Some(found.mtu)
        })
    }

    /// Remembers within these limits that the path to `remote` carries no packet longer than `mtu`; how many others had to be forgotten for
    /// it: more than one where the limits have come down.
    pub(crate) fn remember(
        &self,
        limits: &Paths,
        (remote, mtu): (Address, u32),
        now: Instant,
    ) -> u64 {
        let until = now + limits.lifetime;
        self.known.with(|known| {
            if let Some(found) = known.get_mut(&remote).filter(|found| found.until > now) {
                found.mtu = found.mtu.min(mtu);
                found.until = until;
                return 0;
            }
            known.remove(&remote);
            let others = limits.hosts.saturating_sub(1);
            let forgotten = forget_beyond(known, others, |found| found.until);
            known.insert(remote, Known { mtu, until });
            self.count.store(known.len(), Ordering::Relaxed);
            forgotten
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> Address {
        Address::v4([10, 0, 0, last])
    }

    #[test]
    fn paths_are_remembered_for_a_time_and_only_so_many() {
        let mut limits = Paths {
            hosts: 3,
            ..Paths::default()
        };
        let paths = PathMtus::new();
        let at = Instant::from_millis;
        assert_eq!(paths.find(&host(1), at(0)), None);
        for (last, mtu) in [(1, 1400), (2, 1300), (3, 1200)] {
            assert_eq!(
                paths.remember(&limits, (host(last), mtu), at(u64::from(last))),
                0
            );
        }
        // Shorter counts, longer does not; either is news.
        assert_eq!(paths.remember(&limits, (host(1), 1000), at(4)), 0);
        assert_eq!(paths.remember(&limits, (host(2), 1350), at(5)), 0);
        assert_eq!(paths.find(&host(1), at(5)), Some(1000));
        assert_eq!(paths.find(&host(2), at(5)), Some(1300));
        // The one that was heard of longest ago makes room.
        assert_eq!(paths.remember(&limits, (host(4), 800), at(6)), 1);
        assert_eq!(paths.find(&host(3), at(6)), None);
        assert_eq!(paths.find(&host(1), at(600_003)), Some(1000));
        assert_eq!(paths.find(&host(1), at(600_004)), None);
        assert_eq!(paths.find(&host(4), at(600_005)), Some(800));
        // After its time it may be longer.
        assert_eq!(paths.remember(&limits, (host(4), 1400), at(700_000)), 0);
        assert_eq!(paths.find(&host(4), at(700_001)), Some(1400));
        // A limit that comes down costs those that were heard of longest ago, with the next that is heard of.
        for last in [5, 6] {
            paths.remember(&limits, (host(last), 1000), at(700_000 + u64::from(last)));
        }
        limits.hosts = 1;
        assert_eq!(paths.find(&host(4), at(700_007)), Some(1400));
        assert_eq!(paths.remember(&limits, (host(7), 900), at(700_007)), 3);
        let known = [4, 5, 6, 7].map(|last| paths.find(&host(last), at(700_008)));
        assert_eq!(known, [None, None, None, Some(900)]);
    }

    #[test]
    fn what_no_link_has_is_not_believed() {
        let paths = Paths::default();
        for (said, believed) in [(0, 552), (68, 552), (551, 552), (552, 552), (1400, 1400)] {
            assert_eq!(paths.believed(said), believed);
        }
    }
}
