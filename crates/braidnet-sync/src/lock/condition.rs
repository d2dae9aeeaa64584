//! Sleeping until what a mutex guards has changed.
//!
//! # The protocol
//!
//! Two words. `sleepers` counts those who sleep or are about to, `round` the wakes. Whoever waits holds the mutex, counts
//! itself among the sleepers, notes the round, gives the mutex back, and sleeps while the round is that one. Whoever wakes
//! has changed what the mutex guards with the mutex held, then or before. If it held it after the waiter, it sees the waiter
//! counted and begins a new round, which the waiter has not noted: either the waiter sleeps by then and is woken, or the kernel
//! refuses its sleep. If it held it before, the waiter has seen the change and does not wait. So both words need no
//! ordering of their own: the mutex carries it. Nothing is lost unless 2^32 rounds begin between a waiter's two steps.

use core::time::Duration;

use crate::primitives::{AtomicU32, Deadline, Futex, Ordering, Waited};

/// A queue to sleep on until what a mutex guards has changed (ASX §2.6.1).
///
/// Use one condition with one mutex only. Waiting sleeps without spinning, for nobody knows how long it takes. A wait may end
/// early for no reason: look again. Who has slept longest is woken first. Eight bytes. The stack's data path has none: its
/// processors sleep by a [`Parker`](crate::parker::Parker), which waits for devices as well.
///
/// It goes with any `lock_api::Mutex`, so with every lock here; [`Monitor`](super::Monitor) puts it beside a lock whose kind is
/// chosen at run time.
///
/// ```
/// use braidnet_sync::lock::{Condition, Mcs};
/// let (answer, given) = (lock_api::Mutex::<Mcs, Option<u32>>::new(None), Condition::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *answer.lock() = Some(42);
///         given.wake_one();
///     });
///     let mut guard = answer.lock();
///     while guard.is_none() {
///         given.wait(&mut guard);
///     }
///     assert_eq!(*guard, Some(42));
/// });
/// ```
#[derive(Debug)]
pub struct Condition {
    round: Futex,
    sleepers: AtomicU32,
}

/// A waiter that is counted and has noted the round.
#[must_use = "whoever announces a sleep sleeps"]
pub(super) struct Announced(u32);

impl Condition {
    /// A condition on which nobody waits.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Condition {
            round: Futex::new(0),
            sleepers: AtomicU32::new(0),
        }
    }

    /// A condition on which nobody waits.
    #[cfg(loom)]
    pub fn new() -> Self {
        Condition {
            round: Futex::new(0),
            sleepers: AtomicU32::new(0),
        }
    }

    /// Gives the mutex back, sleeps until woken, and takes the mutex again.
    #[cfg(not(loom))]
    pub fn wait<L: lock_api::RawMutex, T: ?Sized>(
        &self,
        guard: &mut lock_api::MutexGuard<'_, L, T>,
    ) {
        let announced = self.announce();
        lock_api::MutexGuard::unlocked(guard, || self.sleep(announced, None));
    }

    /// The same for `at_most` at most; `false` if the time has passed.
    #[cfg(not(loom))]
    pub fn wait_timeout<L: lock_api::RawMutex, T: ?Sized>(
        &self,
        guard: &mut lock_api::MutexGuard<'_, L, T>,
        at_most: Duration,
    ) -> bool {
        let announced = self.announce();
        lock_api::MutexGuard::unlocked(guard, || self.sleep(announced, Some(at_most)))
    }

    /// Wakes one that waits; a load if nobody does.
    ///
    /// Change what the mutex guards before, with the mutex held; it need not be held any more.
    #[inline]
    pub fn wake_one(&self) {
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.begin_round();
            self.round.wake_one();
        }
    }

    /// Wakes all that wait; a load if nobody does. Otherwise as [`wake_one`](Self::wake_one).
    #[inline]
    pub fn wake_all(&self) {
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.begin_round();
            self.round.wake_all();
        }
    }

    fn begin_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// The first step of waiting, with the mutex held.
    pub(super) fn announce(&self) -> Announced {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        Announced(self.round.load(Ordering::Relaxed))
    }

    /// The second, without the mutex; `false` if the time has passed.
    pub(super) fn sleep(&self, announced: Announced, at_most: Option<Duration>) -> bool {
        let deadline = at_most.map(Deadline::after);
        let waited = self.round.wait(announced.0, deadline.as_ref());
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        waited != Waited::TimedOut
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lock::{Adaptive, Ticket};

    #[test]
    fn a_wait_ends_with_its_time() {
        let mutex = lock_api::Mutex::<Adaptive, ()>::new(());
        let condition = Condition::new();
        let mut guard = mutex.lock();
        assert!(!condition.wait_timeout(&mut guard, Duration::ZERO));
        assert!(mutex.is_locked(), "taken again");
        assert_eq!(condition.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn whoever_wakes_nobody_changes_nothing() {
        let condition = Condition::new();
        condition.wake_one();
        condition.wake_all();
        assert_eq!(condition.round.load(Ordering::Relaxed), 0);
    }

    /// All wait before one of them, then all others, are woken.
    #[test]
    fn one_wakes_and_all_wake() {
        const WAITERS: u32 = 8;
        let mutex = lock_api::Mutex::<Ticket, (u32, u32)>::new((0, 0));
        let condition = Condition::new();
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    let mut guard = mutex.lock();
                    while guard.0 == 0 {
                        condition.wait(&mut guard);
                    }
                    guard.0 -= 1;
                    guard.1 += 1;
                });
            }
            while condition.sleepers.load(Ordering::Relaxed) < WAITERS {
                std::thread::yield_now();
            }
            mutex.lock().0 = 1;
            condition.wake_one();
            while mutex.lock().1 < 1 {
                std::thread::yield_now();
            }
            mutex.lock().0 = WAITERS - 1;
            condition.wake_all();
        });
        assert_eq!(mutex.into_inner(), (0, WAITERS));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Condition;
    use crate::lock::Adaptive;
    use crate::primitives::{Arc, UnsafeCell, thread};

    struct Shared {
        lock: Adaptive,
        changed: Condition,
        value: UnsafeCell<usize>,
    }

    // SAFETY: the value is touched with the lock held only.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn value(&self) -> usize {
            self.value.with_mut(|value| {
                // SAFETY: the callers hold the lock.
                unsafe { *value }
            })
        }

        fn unlock(&self) {
            // SAFETY: the callers hold the lock.
            unsafe { self.lock.unlock() }
        }

        fn wait_until(&self, done: impl Fn(usize) -> bool) {
            self.lock.lock();
            while !done(self.value()) {
                let announced = self.changed.announce();
                self.unlock();
                self.changed.sleep(announced, None);
                self.lock.lock();
            }
            self.unlock();
        }

        fn add(&self) {
            self.lock.lock();
            self.value.with_mut(|value| {
                // SAFETY: the lock is held.
                unsafe { *value += 1 }
            });
            self.unlock();
        }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            lock: Adaptive::new(),
            changed: Condition::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// A lost wake-up is a deadlock.
    #[test]
    fn two_changes_reach_one_that_waits() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let shared = shared();
            let changers = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.add();
                    shared.changed.wake_one();
                })
            });
            shared.wait_until(|value| value == 2);
            for changer in changers {
                changer.join().unwrap();
            }
        });
    }

    #[test]
    fn one_change_reaches_two_that_wait() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let shared = shared();
            let waiters = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.wait_until(|value| value == 1))
            });
            shared.add();
            shared.changed.wake_all();
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }
}
