//! The spin lock of the textbooks: test, then test and set.
//!
//! # The protocol
//!
//! One word, 0 (free) or [`HELD`].
//!
//! - *Take*: compare-and-swap from 0 to `HELD`. Acquire: what the last holder wrote is seen.
//! - *Wait*: look at the word, and try to take it only where it was free, so that waiters share the holder's line until it is
//!   given back instead of tearing it from each other.
//! - *Give back*: store 0. Release. Nobody sleeps, so nobody has to be woken, and no atomic operation is needed.
//!
//! The lock barges, and nothing bounds how often one waiter is passed over.
//!
//! # The bound
//!
//! A waiter that has spun for some microseconds assumes that the holder was preempted and gives its processor away
//! between looks, for the holder may need this one. It never sleeps: while the lock is held for long, all waiters stay
//! runnable, which is what the papers' machines did and what [`Adaptive`](super::Adaptive) is better at.

use crate::primitives::{AtomicU32, Ordering, processors, yield_now};
use crate::spin::Spin;

const HELD: u32 = 1;

/// A waiter spins at most this many pauses before it begins to give its processor away.
const MOST_PAUSES: u32 = if crate::primitives::IS_MODEL { 0 } else { 256 };

/// A test-and-test-and-set spin lock whose waiters give way after a bound and never sleep; not first come, first served.
///
/// Taking a free lock is one atomic operation, giving it back a store. Four bytes; not padded to a cache line. It is not
/// poisoned by a panic.
///
/// ```
/// use braidnet_sync::lock::TestAndSet;
/// let counter = lock_api::Mutex::<TestAndSet, u64>::new(1);
/// *counter.lock() += 1;
/// assert_eq!(counter.into_inner(), 2);
/// ```
#[derive(Debug)]
pub struct TestAndSet(AtomicU32);

impl TestAndSet {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        TestAndSet(AtomicU32::new(0))
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        TestAndSet(AtomicU32::new(0))
    }

    /// Takes the lock, waiting as long as it takes.
    ///
    /// Taking it twice on one thread waits for ever.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.0
            .compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the lock back.
    ///
    /// # Safety
    ///
    /// The caller must hold the lock. It may have been taken on another thread.
    #[inline]
    pub unsafe fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether somebody holds the lock; out of date as soon as it is known.
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let mut spin = Spin::at_most(if processors() > 1 { MOST_PAUSES } else { 0 });
        while self.is_locked() || !self.try_lock() {
            if !spin.again() {
                yield_now();
            }
        }
    }
}

impl Default for TestAndSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
// SAFETY: the word is HELD from a successful compare-and-swap from 0 until its holder's store; acquire and release order the holders. Giving back
// does not depend on the thread.
unsafe impl lock_api::RawMutex for TestAndSet {
    const INIT: Self = TestAndSet::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        TestAndSet::lock(self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        TestAndSet::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, by this method's contract.
        unsafe { TestAndSet::unlock(self) }
    }

    fn is_locked(&self) -> bool {
        TestAndSet::is_locked(self)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::TestAndSet;
    use crate::lock::model::{excludes, tries};

    fn unlock(lock: &TestAndSet) {
        // SAFETY: the models call this with the lock held only.
        unsafe { lock.unlock() }
    }

    // Two threads only: of more, two would wait at once by yielding to each other, of which the checker sees no end.
    #[test]
    fn two_threads_exclude_each_other() {
        excludes(2, 2, TestAndSet::new, TestAndSet::lock, unlock);
    }

    #[test]
    fn a_successful_try_excludes() {
        tries(
            TestAndSet::new,
            TestAndSet::lock,
            TestAndSet::try_lock,
            unlock,
        );
    }
}
