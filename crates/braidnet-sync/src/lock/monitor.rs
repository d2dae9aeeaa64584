//! A value, its lock, and the conditions that it may be waited for.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use super::chosen::{Held, Lock};
use super::class::LockClass;
use super::condition::Condition;
use super::kind::LockKind;

/// A value that is entered by one thread at a time, in which threads can wait until it is as they need it (ASX §2.6.1).
///
/// It is entered with a closure, like a [`Lock`], whose kind it shares, and its counts and ranks. The closure gets the value and the
/// monitor's conditions: one [`Condition`], or a structure of several with names. Who is woken enters again after whoever woke it has
/// left and perhaps after others: look again (`wait_while` does).
///
/// For state that is set up and torn down, and for applications. The stack's data path has none, since whoever sleeps here
/// could be turning a processor.
///
/// ```
/// use braidnet_sync::lock::{Condition, LockClass, LockKind, Monitor};
/// /// A queue of two with flow control both ways, as ASX's message queue has it.
/// #[derive(Default)]
/// struct When { not_empty: Condition, not_full: Condition }
/// let queue = Monitor::new(LockKind::Ticket, LockClass::Queue, Vec::new(), When::default());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         for item in 0..5 {
///             queue.with(|items, when| {
///                 items.wait_while(&when.not_full, |items| items.len() == 2);
///                 items.push(item);
///                 when.not_empty.wake_one();
///             });
///         }
///     });
///     for expected in 0..5 {
///         let item = queue.with(|items, when| {
///             items.wait_while(&when.not_empty, |items| items.is_empty());
///             when.not_full.wake_one();
///             items.remove(0)
///         });
///         assert_eq!(item, expected);
///     }
/// });
/// ```
pub struct Monitor<T, C = Condition> {
    lock: Lock<T>,
    conditions: C,
}

impl<T, C> Monitor<T, C> {
    /// A monitor around `value`, behind a lock of `kind` whose entries are counted under `class`.
    pub const fn new(kind: LockKind, class: LockClass, value: T, conditions: C) -> Self {
        Monitor {
            lock: Lock::new(kind, class, value),
            conditions,
        }
    }

    /// Enters, waiting as long as it takes, and runs `enter`. A panic inside leaves.
    pub fn with<R>(&self, enter: impl FnOnce(&mut Inside<'_, T>, &C) -> R) -> R {
        let mut inside = Inside {
            held: self.lock.hold(),
        };
        enter(&mut inside, &self.conditions)
    }

    /// The conditions, for who wakes from outside after it has changed the value inside.
    pub fn conditions(&self) -> &C {
        &self.conditions
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T, C> fmt::Debug for Monitor<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}

/// The inside of a [`Monitor`]: its value, and the means to wait.
pub struct Inside<'a, T> {
    held: Held<'a, T>,
}

impl<T> Inside<'_, T> {
    /// Leaves the monitor until one of its conditions is woken, or for no reason, and enters again.
    pub fn wait(&mut self, condition: &Condition) {
        let announced = condition.announce();
        self.held.unlocked(|| condition.sleep(announced, None));
    }

    /// The same for `at_most` at most; `false` if the time has passed.
    pub fn wait_timeout(&mut self, condition: &Condition, at_most: Duration) -> bool {
        let announced = condition.announce();
        self.held
            .unlocked(|| condition.sleep(announced, Some(at_most)))
    }

    /// Waits for the condition while the value is so.
    pub fn wait_while(&mut self, condition: &Condition, mut is_so: impl FnMut(&mut T) -> bool) {
        while is_so(self) {
            self.wait(condition);
        }
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.value_ref()
    }
}

impl<T> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Producers and consumers through a small room, with every kind of lock; nobody is forgotten asleep.
    #[test]
    fn every_kind_hands_over_and_loses_nobody() {
        const THREADS: u64 = 4;
        const ITEMS: u64 = 500;
        for kind in LockKind::all() {
            let room = Monitor::new(
                kind,
                LockClass::Queue,
                (0_u64, 0_u64),
                [Condition::new(), Condition::new()],
            );
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for _ in 0..ITEMS {
                            room.with(|held, [not_empty, not_full]| {
                                held.wait_while(not_full, |held| held.0 == 2);
                                held.0 += 1;
                                not_empty.wake_one();
                            });
                        }
                    });
                    scope.spawn(|| {
                        for _ in 0..ITEMS {
                            room.with(|held, [not_empty, not_full]| {
                                held.wait_while(not_empty, |held| held.0 == 0);
                                held.0 -= 1;
                                held.1 += 1;
                                not_full.wake_one();
                            });
                        }
                    });
                }
            });
            assert_eq!(room.into_inner(), (0, THREADS * ITEMS), "{kind}");
        }
    }

    #[test]
    fn a_wait_leaves_the_monitor_and_a_panic_does() {
        let monitor = Monitor::new(LockKind::Mcs, LockClass::Socket, 1, Condition::default());
        monitor.with(|value, condition| {
            assert!(monitor.lock.try_with(|_| ()).is_none());
            assert!(!value.wait_timeout(condition, Duration::ZERO));
            assert!(monitor.lock.try_with(|_| ()).is_none(), "entered again");
            **value = 2;
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            monitor.with(|_, _| panic!("planted"))
        }));
        assert!(outcome.is_err());
        assert_eq!(monitor.lock.try_with(|value| *value), Some(2));
    }
}
