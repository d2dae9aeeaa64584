//! How many connections of a listener have opened early and are still opening: PendingFastOpenRequests of RFC 7413 §4.2.

use super::super::listen::Listener;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

/// A listener's count.
#[derive(Debug)]
pub(in super::super) struct Early {
    held: AtomicU32,
    /// Until when those count that were reset, in the order in which they were. Who could open early, be reset, and open early again would
    /// have as much of our work as he likes for a cookie of one address (§5.1). All are counted in `held`, so there are no more than may be.
    reset: Lock<VecDeque<Instant>>,
}

impl Default for Early {
    fn default() -> Early {
        Early {
            held: AtomicU32::new(0),
            reset: Lock::new(LockKind::Adaptive, LockClass::Map, VecDeque::new()),
        }
    }
}

impl Early {
    fn take(&self, most: u32) -> bool {
        let room = |held: u32| (held < most).then_some(held + 1);
        // A count that nothing else hangs on.
        let taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        taken.is_ok()
    }

    /// Those that were reset long enough ago count no more.
    fn expire(&self, now: Instant) {
        self.reset.with(|reset| {
            while reset.front().is_some_and(|until| *until <= now) {
                reset.pop_front();
                self.held.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }
}

/// One of them, given back when dropped.
#[derive(Debug)]
pub(in super::super) struct EarlyPlace {
    listener: Arc<Listener>,
}

impl EarlyPlace {
    /// One of at most `most`; `None` if there are as many.
    pub(super) fn take(listener: &Arc<Listener>, most: u32, now: Instant) -> Option<EarlyPlace> {
        let early = &listener.early;
        if !early.take(most) {
            early.expire(now);
            if !early.take(most) {
                return None;
            }
        }
        Some(EarlyPlace {
            listener: listener.clone(),
        })
    }

    /// Whose it is.
    pub(in super::super) fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// It was reset, and counts until then.
    pub(super) fn count_until(self, until: Instant) {
        let early = &self.listener.early;
        early.held.fetch_add(1, Ordering::Relaxed);
        early.reset.with(|reset| reset.push_back(until));
    }
}

impl Drop for EarlyPlace {
    fn drop(&mut self) {
        self.listener.early.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Listeners;
    use braidnet_wire::address::Address;

    #[test]
    fn as_many_open_early_as_may_and_those_that_were_reset_count_for_a_while() {
        let listeners = Listeners::default();
        listeners.listen(None, 7, 10).unwrap();
        let listener = listeners.find(&Address::v4([10, 0, 0, 1]), 7).unwrap();
        let at = Instant::from_millis;
        let take = |most, now| EarlyPlace::take(&listener, most, at(now));
        assert!(take(0, 0).is_none());
        let (first, second) = (take(2, 0).unwrap(), take(2, 0).unwrap());
        assert!(take(2, 0).is_none());
        drop(first);
        let third = take(2, 0).unwrap();
        second.count_until(at(1000));
        assert!(take(2, 999).is_none());
        let fourth = take(2, 1000).unwrap();
        assert!(take(2, 1000).is_none());
        drop((third, fourth));
        let left = listener.early.held.load(Ordering::Relaxed);
        assert_eq!(left, 0);
    }
}
