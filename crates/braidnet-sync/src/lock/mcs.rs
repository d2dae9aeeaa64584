//! A first come, first served lock: each waiter watches a line of its own.
//!
//! Mellor-Crummey and Scott's queue lock in the K42 form (Scott, *Shared-Memory Synchronization*, 4.3.3): a waiter's
//! queue node lives on its stack, and only while it waits, so that a caller brings none and the holder has none.
//!
//! # The protocol
//!
//! The lock is two words. `tail` is null (free), [`HELD`] (held, nobody behind the holder), or the last waiter's
//! node. `next` is the holder's successor, null where none has made itself known.
//!
//! - *Take a free lock*: compare-and-swap `tail` from null to `HELD`. Acquire.
//! - *Queue*: compare-and-swap `tail` from what was seen to the own node. Acquire, so that the predecessor's node is
//!   seen initialised; release, so that the own is. Then write the own node into the predecessor's `next`: the node's, or
//!   the lock's if the predecessor was `HELD`. Release. The predecessor's node cannot vanish before: it leaves
//!   only after it has found a successor in its `next` or has moved `tail` away from itself, and `tail` is ours.
//!   That its address may have been reused between the look and the swap does no harm: then it is the tail now.
//! - *Wait* on the own node's `state`: `WAITING` until the predecessor swaps it to `GRANTED`. A waiter that has spun to
//!   the bound swaps it from `WAITING` to `PARKED` and sleeps on it; a granter that finds `PARKED` wakes it.
//! - *Come in* after a wait: the node is about to vanish, so what it knows moves into the lock. If it has a
//!   successor, that goes to the lock's `next`. If not, `next` is cleared and then `tail` swapped from the node to `HELD`
//!   (release: `next` was cleared before anyone can write it); if that fails somebody has queued behind the node and
//!   writes the node's `next` any moment.
//! - *Give back*: if `next` is null and `tail` can be swapped from `HELD` to null (release), nobody waits. Otherwise a
//!   successor is there or writes `next` any moment: swap its state to `GRANTED`. Release. From here on the
//!   successor's node may be gone, and only its futex's address is used, to wake it.
//!
//! `next` belongs to the holder, except that the one waiter that followed `HELD` writes it once. A `HELD` tag takes
//! the place of the lock's own address, so that nothing points into the lock: a lock whose guard was leaked may move.
//!
//! # The bound
//!
//! Handing over strictly in order means that every wait includes the wake-up of the next in line. With more waiters than
//! processors, spinning waiters would keep the next one from running and the lock would pass at the pace of time slices.
//! So a waiter spins for some microseconds only, longer than a handoff between two running processors and a short hold
//! take, and then parks; a lock with many waiters passes at the pace of wake-ups, never of time slices. With one
//! processor nobody spins.

use core::ptr;

use crate::primitives::{AtomicPtr, Futex, Ordering, processors};
use crate::spin::{Spin, until_some};

/// The waiter has neither the lock nor gone to sleep.
const WAITING: u32 = 0;
/// The waiter sleeps, or is about to, on its state.
const PARKED: u32 = 1;
/// The lock is the waiter's.
const GRANTED: u32 = 2;

/// A waiter spins at most this many pauses; some microseconds on the machines we know.
const MOST_PAUSES: u32 = if crate::primitives::IS_MODEL { 1 } else { 256 };

/// The tail of a lock that is held with nobody waiting; no node lives there.
const HELD: *mut Node = ptr::without_provenance_mut(1);

/// A waiter, for as long as it waits.
#[derive(Debug)]
struct Node {
    state: Futex,
    next: AtomicPtr<Node>,
}

/// A first come, first served lock whose waiters spin on lines of their own, and sleep after a bound.
///
/// Taking and giving back a free lock is one atomic operation each; a handoff under contention costs the crossing of
/// two cache lines, or a wake-up. Sixteen bytes; not padded to a cache line. It is not poisoned by a panic.
///
/// ```
/// use braidnet_sync::lock::Mcs;
/// let counter = lock_api::Mutex::<Mcs, u64>::new(1);
/// *counter.lock() += 1;
/// assert_eq!(counter.into_inner(), 2);
/// ```
#[derive(Debug)]
pub struct Mcs {
    tail: AtomicPtr<Node>,
    next: AtomicPtr<Node>,
}

impl Mcs {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Mcs {
            tail: AtomicPtr::new(ptr::null_mut()),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        Mcs {
            tail: AtomicPtr::new(ptr::null_mut()),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes the lock after everybody who asked before.
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
        self.tail
            .compare_exchange(ptr::null_mut(), HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the lock to whoever has waited longest.
    ///
    /// # Safety
    ///
    /// The caller must hold the lock. It may have been taken on another thread.
    #[inline]
    pub unsafe fn unlock(&self) {
        let alone = self.next.load(Ordering::Relaxed).is_null()
            && self
                .tail
                .compare_exchange(HELD, ptr::null_mut(), Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if !alone {
            self.grant();
        }
    }

    /// Whether somebody holds the lock; out of date as soon as it is known.
    pub fn is_locked(&self) -> bool {
        !self.tail.load(Ordering::Relaxed).is_null()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        loop {
            let ahead = self.tail.load(Ordering::Relaxed);
            if ahead.is_null() {
                if self.try_lock() {
                    return;
                }
                continue;
            }
            let node = Node {
                state: Futex::new(WAITING),
                next: AtomicPtr::new(ptr::null_mut()),
            };
            let own = (&raw const node).cast_mut();
            if self
                .tail
                .compare_exchange(ahead, own, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.follow(ahead, own);
                wait(&node.state);
                self.come_in(&node, own);
                return;
            }
        }
    }

    /// Makes the queued node `own` known to whoever is `ahead`.
    fn follow(&self, ahead: *mut Node, own: *mut Node) {
        let next = if ahead == HELD {
            &self.next
        } else {
            // SAFETY: `ahead` was the tail when `own` replaced it, so it is a waiter's node, and that waiter stays
            // until it finds a successor in the word that is written below.
            unsafe { &(*ahead).next }
        };
        next.store(own, Ordering::Release);
    }

    /// Moves what the node of a waiter that has been granted the lock knows into the lock.
    fn come_in(&self, node: &Node, own: *mut Node) {
        let mut behind = node.next.load(Ordering::Acquire);
        if behind.is_null() {
            self.next.store(ptr::null_mut(), Ordering::Relaxed);
            if self
                .tail
                .compare_exchange(own, HELD, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            behind = successor(&node.next);
        }
        self.next.store(behind, Ordering::Relaxed);
    }

    /// Hands the lock to the successor, who exists.
    #[cold]
    #[inline(never)]
    fn grant(&self) {
        let behind = successor(&self.next);
        // SAFETY: a node stays until its state is `GRANTED`, which only the holder, this thread, can bring about.
        let state = unsafe { &(*behind).state };
        let waker = state.waker();
        if state.swap(GRANTED, Ordering::Release) == PARKED {
            waker.wake_one();
        }
    }
}

/// Waits until `state` is `GRANTED`.
fn wait(state: &Futex) {
    let mut spin = Spin::at_most(if processors() > 1 { MOST_PAUSES } else { 0 });
    loop {
        if state.load(Ordering::Acquire) == GRANTED {
            return;
        }
        if !spin.again() {
            break;
        }
    }
    if state
        .compare_exchange(WAITING, PARKED, Ordering::Relaxed, Ordering::Acquire)
        .is_ok()
    {
        while state.load(Ordering::Acquire) != GRANTED {
            state.wait(PARKED, None);
        }
    }
}

/// The node in `next`, once it is there.
fn successor(next: &AtomicPtr<Node>) -> *mut Node {
    until_some(|| Some(next.load(Ordering::Acquire)).filter(|node| !node.is_null()))
}

impl Default for Mcs {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
// SAFETY: a free lock is taken by one compare-and-swap from null, a held one passes from its holder to one waiter;
// acquire and release order the holders. Giving back does not depend on the thread.
unsafe impl lock_api::RawMutex for Mcs {
    const INIT: Self = Mcs::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        Mcs::lock(self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        Mcs::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, by this method's contract.
        unsafe { Mcs::unlock(self) }
    }

    fn is_locked(&self) -> bool {
        Mcs::is_locked(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Waiters queue one by one, each seen in the queue before the next asks, and come in in that order; they wait
    /// long enough to park.
    #[test]
    fn whoever_asked_first_is_served_first() {
        const WAITERS: usize = 8;
        let mutex = lock_api::Mutex::<Mcs, Vec<usize>>::new(Vec::new());
        // SAFETY: only looked at.
        let raw = unsafe { mutex.raw() };
        std::thread::scope(|scope| {
            let mut held = mutex.lock();
            let mut last = HELD;
            for waiter in 1..=WAITERS {
                let mutex = &mutex;
                scope.spawn(move || mutex.lock().push(waiter));
                while raw.tail.load(Ordering::Relaxed) == last {
                    std::thread::yield_now();
                }
                last = raw.tail.load(Ordering::Relaxed);
            }
            held.push(0);
            assert!(raw.is_locked() && !raw.try_lock());
        });
        assert!(!raw.is_locked());
        assert!(mutex.into_inner().into_iter().eq(0..=WAITERS));
    }

    /// Nothing points into a lock, so one whose guard was leaked may move and be waited for elsewhere.
    #[test]
    fn a_held_lock_may_move() {
        let lock = Mcs::new();
        lock.lock();
        let lock = Box::new(lock);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                lock.lock();
                // SAFETY: just taken.
                unsafe { lock.unlock() }
            });
            while lock.tail.load(Ordering::Relaxed) == HELD {
                std::thread::yield_now();
            }
            // SAFETY: taken above.
            unsafe { lock.unlock() }
            waiter.join().unwrap();
        });
        assert!(!lock.is_locked());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Mcs;
    use crate::lock::model::{excludes, tries};

    fn unlock(lock: &Mcs) {
        // SAFETY: the models call this with the lock held only.
        unsafe { lock.unlock() }
    }

    #[test]
    fn two_threads_exclude_each_other() {
        excludes(2, 2, Mcs::new, Mcs::lock, unlock);
    }

    #[test]
    fn three_threads_exclude_each_other() {
        excludes(3, 1, Mcs::new, Mcs::lock, unlock);
    }

    #[test]
    fn a_successful_try_excludes() {
        tries(Mcs::new, Mcs::lock, Mcs::try_lock, unlock);
    }
}
