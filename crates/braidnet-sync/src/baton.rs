//! Taking turns without waiting.
//!
//! Several processors may serve one thing that only one can serve at a time, such as a device queue that all take from. Whoever
//! finds it taken has no reason to wait: somebody is at it. So a [`Baton`] can be tried and not waited for.
//!
//! # The protocol
//!
//! One flag. *Try*: look first, by a plain load, since a failed attempt must not pull the line away from the holder; if
//! it is free, compare-and-swap it to taken. Acquire. *Give back*: store free. Release. The value inside is the holder's.
//!
//! A baton that is given back wakes nobody. Whoever holds it when there is nothing left to serve must
//! see to it that somebody comes back, as with every queue that is polled: who serves looks again before it sleeps.
//!
//! *Last look*, before sleep. Who finds the baton taken then swaps a mark in (acquire), and tries once more; if that fails too it
//! may sleep. Who has given back after a last look of its own, or after something that was no service, swaps the mark out (release):
//! if it was there, somebody must look again. Of the two swaps one is first. If the mark was swapped in first, it is found; else what was given back
//! before the other swap is free for the second try, or somebody else has taken it since, who serves or looks for the mark likewise.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crossbeam_utils::CachePadded;

use crate::primitives::{AtomicBool, Ordering, UnsafeCell};

/// A value that one processor at a time has the use of, and that nobody waits for.
///
/// ```
/// use braidnet_sync::baton::Baton;
/// let queue = Baton::new(vec![1]);
/// let mut turn = queue.try_take().unwrap();
/// turn.push(2);
/// assert!(queue.try_take().is_none());
/// drop(turn);
/// assert_eq!(*queue.try_take().unwrap(), [1, 2]);
/// ```
pub struct Baton<T = ()> {
    taken: CachePadded<AtomicBool>,
    /// Whether somebody has found it taken at a last look.
    missed: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: a shared reference yields the value to the holder only, one thread at a time, which amounts to sending it.
unsafe impl<T: Send> Sync for Baton<T> {}

impl<T> Baton<T> {
    /// A baton that nobody has.
    pub fn new(value: T) -> Self {
        Baton {
            taken: CachePadded::new(AtomicBool::new(false)),
            missed: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the baton if nobody has it, until the turn is dropped.
    #[inline]
    pub fn try_take(&self) -> Option<Turn<'_, T>> {
        let free = !self.taken.load(Ordering::Relaxed)
            && self
                .taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        free.then(|| Turn {
            baton: self,
            exclusive: PhantomData,
        })
    }

    /// Looks for the last time before sleep, with the baton in hand: whether there is something to do, as `look` finds, or somebody may
    /// have come in vain meanwhile. False if somebody else has the baton, who sees to it: one who serves looks again, and one who does not asks
    /// whether it [was missed](Baton::was_missed).
    pub fn last_look(&self, look: impl FnOnce(&T) -> bool) -> bool {
        let turn = self.try_take().or_else(|| {
            self.missed.swap(true, Ordering::AcqRel);
            self.try_take()
        });
        turn.is_some_and(|turn| {
            let found = look(&turn);
            drop(turn);
            self.was_missed() || found
        })
    }

    /// For who has had the baton and not served, after giving it back: whether somebody else may have looked for the last time in vain, so
    /// that somebody must be woken.
    pub fn was_missed(&self) -> bool {
        self.missed.swap(false, Ordering::AcqRel)
    }

    /// Whether somebody has it; out of date as soon as it is known.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for Baton<T> {
    fn default() -> Self {
        Baton::new(T::default())
    }
}

impl<T> fmt::Debug for Baton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baton")
            .field("taken", &self.is_taken())
            .finish_non_exhaustive()
    }
}

/// The baton in hand; dropping it gives it back.
#[must_use = "the baton is given back when the turn is dropped"]
pub struct Turn<'a, T> {
    baton: &'a Baton<T>,
    /// As an exclusive borrow would: shared between threads only if the value may be.
    exclusive: PhantomData<&'a mut T>,
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.baton.value.with_mut(|value| {
            // SAFETY: the turn has the only use of the value until it is dropped, and is itself borrowed shared.
            unsafe { &*value }
        })
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.baton.value.with_mut(|value| {
            // SAFETY: the turn has the only use of the value until it is dropped, and is itself borrowed exclusively.
            unsafe { &mut *value }
        })
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.baton.taken.store(false, Ordering::Release);
    }
}

impl<T: fmt::Debug> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&**self).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let baton = Baton::new(0);
        for round in 0..3 {
            let mut turn = baton.try_take().unwrap();
            assert!(baton.is_taken() && baton.try_take().is_none());
            assert_eq!(*turn, round);
            *turn += 1;
        }
        assert!(!baton.is_taken());
        assert_eq!(baton.into_inner(), 3);
    }

    #[test]
    fn who_looks_in_vain_is_missed_once() {
        let baton = Baton::new(true);
        assert!(baton.last_look(|value| *value) && !baton.last_look(|value| !*value));
        let turn = baton.try_take().unwrap();
        assert!(!baton.last_look(|_| unreachable!()));
        drop(turn);
        assert!(baton.was_missed() && !baton.was_missed());
    }

    #[test]
    fn a_panic_gives_it_back() {
        let baton = Baton::new(());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = baton.try_take();
            panic!("planted");
        }));
        assert!(outcome.is_err() && baton.try_take().is_some());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Baton;
    use crate::primitives::{Arc, AtomicBool, Ordering, thread};

    /// Something comes, and two look for the last time: who has been woken for it, and who looks just then, or has the baton for something
    /// else. One of them finds it, or that there was somebody.
    fn somebody_finds(
        other: impl Fn(&Baton<Arc<AtomicBool>>) -> bool + Copy + Send + Sync + 'static,
    ) {
        loom::model(move || {
            let came = Arc::new(AtomicBool::new(false));
            let baton = Arc::new(Baton::new(Arc::clone(&came)));
            let others = Arc::clone(&baton);
            let another = thread::spawn(move || other(&others));
            came.store(true, Ordering::Relaxed);
            let here = baton.last_look(|came| came.load(Ordering::Relaxed));
            let there = another.join().unwrap();
            assert!(here || there, "both sleep");
        });
    }

    #[test]
    fn of_two_last_looks_one_finds_what_has_come() {
        somebody_finds(|baton| baton.last_look(|came| came.load(Ordering::Relaxed)));
    }

    #[test]
    fn who_does_not_serve_finds_who_has_come_in_vain() {
        somebody_finds(|baton| {
            let turn = baton.try_take();
            turn.is_some_and(|turn| {
                drop(turn);
                baton.was_missed()
            })
        });
    }

    #[test]
    fn whoever_has_it_is_alone_and_sees_the_last_turn() {
        loom::model(|| {
            let baton = Arc::new(Baton::new(0));
            let turn = |baton: &Baton<usize>| match baton.try_take() {
                Some(mut turn) => {
                    *turn += 1;
                    1
                }
                None => 0,
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let baton = Arc::clone(&baton);
                    thread::spawn(move || turn(&baton))
                })
                .collect();
            let here = turn(&baton);
            let there: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
            assert_eq!(*baton.try_take().unwrap(), here + there);
            assert!(here + there >= 1);
        });
    }
}
