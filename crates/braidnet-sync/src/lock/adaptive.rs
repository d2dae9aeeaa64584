//! A lock whose waiters spin while its holder can be running and sleep when it cannot.
//!
//! # What can be known about the holder
//!
//! Spinning pays while the holder runs on another processor and is a waste once it does not. A user process is not
//! told when one of its threads is descheduled. Two things are known, and both are used:
//!
//! - **The holder's processor.** Whoever takes the lock leaves the number of the processor it runs on in the lock
//!   word. A waiter that finds its *own* processor there knows for certain that the holder is not running there (the
//!   waiter is), and goes to sleep without spinning. With one processor this is every wait; with more threads than
//!   processors it is a good part of them. (A holder that has migrated since runs elsewhere: then the waiter
//!   sleeps one hold too early, and is woken.)
//! - **How long it took before.** The lock keeps a moving average of the pauses after which spinning succeeded, and a
//!   waiter spins at most about twice that, never longer than a fixed bound of a few microseconds. A lock whose holder
//!   is often away, or that is held long, teaches its waiters to sleep soon.
//!
//! What is *not* known: that a holder whose last processor is another one has been preempted there. Such a wait
//! costs the spin bound, then sleeps.
//!
//! # The protocol
//!
//! One word. 0 is free. Otherwise bit 0 (`HELD`) is set, bit 1 (`SLEEPERS`) says that a waiter may sleep on the word,
//! and the rest is the holder's processor number plus one, 0 where unknown.
//!
//! - *Take*: compare-and-swap from 0 to `HELD` with the processor. Acquire: what the last holder wrote is seen.
//! - *Give back*: swap to 0. Release. If `SLEEPERS` was set, wake one.
//! - *Sleep*: set `SLEEPERS` in the word as seen, then wait while the word is exactly that. A give-back between the two
//!   changes the word, so the kernel refuses the wait.
//! - *After a sleep* the lock is taken with `SLEEPERS` set, since others may sleep still and the give-back that woke
//!   this one erased the mark. At worst this costs one wake of nobody.
//!
//! The lock barges: a newcomer may overtake sleepers. That keeps the processors busy (a handoff to a sleeper costs a
//! wake-up) at the price of order; where order matters, [`Mcs`](super::Mcs) is first come, first served.
//!
//! The average is read and written without ordering and may lose updates: it is a hint. It shares the lock's cache
//! line and is written only by those who had to wait.

use crate::primitives::{AtomicU32, Futex, Ordering, processor_hint, processors};
use crate::spin::Spin;

const HELD: u32 = 1;
const SLEEPERS: u32 = 2;
const PROCESSOR_SHIFT: u32 = 2;

/// No wait spins for more pauses than this; some microseconds on the machines we know.
const MOST_PAUSES: u32 = if crate::primitives::IS_MODEL { 2 } else { 256 };
/// What a waiter may always try before it sleeps.
const LEAST_PAUSES: u32 = if crate::primitives::IS_MODEL { 1 } else { 16 };
/// Looks at the word are at most this many pauses apart, to leave the holder its cache line.
const LONGEST_BURST: u32 = if crate::primitives::IS_MODEL { 1 } else { 16 };

/// A lock that spins while its holder may be running and sleeps otherwise; not first come, first served.
///
/// Taking and giving back a free lock is one atomic operation each. Eight bytes; not padded to a cache line.
/// Unlike a standard mutex it is not poisoned by a panic.
///
/// ```
/// use braidnet_sync::lock::Adaptive;
/// let counter = lock_api::Mutex::<Adaptive, u64>::new(1);
/// *counter.lock() += 1;
/// assert_eq!(counter.into_inner(), 2);
/// ```
#[derive(Debug)]
pub struct Adaptive {
    word: Futex,
    /// Moving average of the pauses that successful spins took.
    usual_pauses: AtomicU32,
}

impl Adaptive {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Adaptive {
            word: Futex::new(0),
            usual_pauses: AtomicU32::new(0),
        }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        Adaptive {
            word: Futex::new(0),
            usual_pauses: AtomicU32::new(0),
        }
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
        self.take(HELD | processor_hint() << PROCESSOR_SHIFT)
    }

    /// Gives the lock back.
    ///
    /// # Safety
    ///
    /// The caller must hold the lock. It may have been taken on another thread.
    #[inline]
    pub unsafe fn unlock(&self) {
        let left = self.word.swap(0, Ordering::Release);
        debug_assert_ne!(left & HELD, 0, "a free lock was given back");
        if left & SLEEPERS != 0 {
            self.wake_one();
        }
    }

    /// Whether somebody holds the lock; out of date as soon as it is known.
    pub fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn take(&self, mark: u32) -> bool {
        self.word
            .compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        if !(processors() > 1 && self.spin()) {
            self.sleep();
        }
    }

    /// Spins while the holder may be running; `true` if the lock was taken.
    fn spin(&self) -> bool {
        let usual = self.usual_pauses.load(Ordering::Relaxed);
        let bound = MOST_PAUSES.min(usual.saturating_mul(2).saturating_add(LEAST_PAUSES));
        let mut burst = 1;
        let mut spun = 0;
        let taken = loop {
            let seen = self.word.load(Ordering::Relaxed);
            let here = processor_hint();
            if seen == 0 {
                if self.take(HELD | here << PROCESSOR_SHIFT) {
                    break true;
                }
            } else if here != 0 && seen >> PROCESSOR_SHIFT == here {
                break false;
            }
            if spun >= bound {
                break false;
            }
            let mut pauses = Spin::at_most(burst);
            while pauses.again() {}
            spun += burst;
            burst = LONGEST_BURST.min(burst * 2);
        };
        // One eighth of the way: towards what this spin took, or towards none if it was in vain.
        let took = if taken { spun } else { 0 };
        let usual = if took > usual {
            usual + (took - usual).div_ceil(8)
        } else {
            usual - (usual - took).div_ceil(8)
        };
        self.usual_pauses.store(usual, Ordering::Relaxed);
        taken
    }

    fn sleep(&self) {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen == 0 {
                if self.take(HELD | SLEEPERS | processor_hint() << PROCESSOR_SHIFT) {
                    return;
                }
                continue;
            }
            let marked = seen | SLEEPERS;
            let announced = seen == marked
                || self
                    .word
                    .compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if announced {
                self.word.wait(marked, None);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_one(&self) {
        self.word.wake_one();
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
// SAFETY: the word is HELD from a successful compare-and-swap until the holder's swap, and only one such swap from 0
// can succeed; acquire and release order the holders. Giving back does not depend on the thread.
unsafe impl lock_api::RawMutex for Adaptive {
    const INIT: Self = Adaptive::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        Adaptive::lock(self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        Adaptive::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, by this method's contract.
        unsafe { Adaptive::unlock(self) }
    }

    fn is_locked(&self) -> bool {
        Adaptive::is_locked(self)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Adaptive;
    use crate::lock::model::{excludes, tries};

    fn unlock(lock: &Adaptive) {
        // SAFETY: the models call this with the lock held only.
        unsafe { lock.unlock() }
    }

    #[test]
    fn two_threads_exclude_each_other() {
        excludes(2, 2, Adaptive::new, Adaptive::lock, unlock);
    }

    #[test]
    fn three_threads_exclude_each_other() {
        excludes(3, 1, Adaptive::new, Adaptive::lock, unlock);
    }

    #[test]
    fn a_successful_try_excludes() {
        tries(Adaptive::new, Adaptive::lock, Adaptive::try_lock, unlock);
    }
}
