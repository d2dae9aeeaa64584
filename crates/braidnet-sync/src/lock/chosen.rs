//! The lock whose kind is a run-time choice.

use core::fmt;
use core::marker::PhantomData;

use super::class::LockClass;
use super::kind::{LockKind, Raw};
use super::rank::Rank;
use super::watch::{self, Watched};
use crate::primitives::UnsafeCell;

/// A value behind a lock whose kind is chosen when it is made.
///
/// It is entered with a closure, never by a guard, so that what runs inside is one place in the source. A panic inside
/// gives the lock back and leaves the value as it was at that moment; there is no poisoning. Entering it again from
/// inside waits for ever.
///
/// Entering a free lock costs what the lock costs plus predicted branches: which lock; whether anything is to be
/// [counted](super::set_metering) or [checked](super::set_rank_check). Not padded to a
/// cache line: put hot locks into a `CachePadded` where neighbours matter.
///
/// ```
/// use braidnet_sync::lock::{Lock, LockClass, LockKind};
/// let map = Lock::new(LockKind::Mcs, LockClass::Map, vec![1]);
/// map.with(|map| map.push(2));
/// assert_eq!(map.try_with(|map| map.len()), Some(2));
/// ```
pub struct Lock<T> {
    raw: Raw,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: a shared reference yields the value to the lock's holder only, one thread at a time, which amounts to sending
// the value from holder to holder.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock of `kind` around `value`, whose entries are counted under `class`.
    pub const fn new(kind: LockKind, class: LockClass, value: T) -> Self {
        Lock {
            raw: Raw::new(kind),
            rank: Rank::new(class, 0),
            value: UnsafeCell::new(value),
        }
    }

    /// The same lock at this place among those of its class, where threads nest them: who holds one may enter those of
    /// higher places. 0 where nothing is said.
    pub const fn ranked(mut self, within: u8) -> Self {
        self.rank = Rank::new(self.rank.class(), within);
        self
    }

    /// Which lock it is.
    pub const fn kind(&self) -> LockKind {
        self.raw.kind()
    }

    /// What it is counted under.
    pub const fn class(&self) -> LockClass {
        self.rank.class()
    }

    /// Runs `enter` with the lock held, waiting for it as long as it takes.
    ///
    /// # Panics
    ///
    /// If ranks are checked and this one is not above all that the thread holds.
    #[inline]
    pub fn with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> R {
        enter(self.hold().value())
    }

    /// Runs `enter` if the lock is free; `None` if it is held. An attempt that fails is not counted.
    #[inline]
    pub fn try_with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.raw.try_lock() {
            return None;
        }
        let watched = if watch::is_off() {
            None
        } else {
            Some(self.watch_taken())
        };
        let mut held = Held {
            lock: self,
            watched,
            _here: PhantomData,
        };
        Some(enter(held.value()))
    }

    /// The value of a lock that is borrowed exclusively, without taking it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: `self` is borrowed exclusively for as long as the result is.
            unsafe { &mut *value }
        })
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Takes the lock.
    #[inline(always)]
    pub(super) fn hold(&self) -> Held<'_, T> {
        let watched = self.take();
        Held {
            lock: self,
            watched,
            _here: PhantomData,
        }
    }

    #[inline(always)]
    fn take(&self) -> Option<Watched> {
        if watch::is_off() {
            self.raw.lock();
            None
        } else {
            Some(self.lock_watched())
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_watched(&self) -> Watched {
        Watched::lock(self.rank, || self.raw.try_lock(), || self.raw.lock())
    }

    #[cold]
    #[inline(never)]
    fn watch_taken(&self) -> Watched {
        Watched::taken(self.rank)
    }
}

/// A lock that is held until this is dropped, however that comes about.
pub(super) struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// What leaving has to finish where the entry was watched.
    watched: Option<Watched>,
    /// Stays on its thread, which the ranks that it holds are kept for; and is not shared, for a value that may move from
    /// thread to thread need not bear two at once.
    _here: PhantomData<*mut T>,
}

impl<T> Held<'_, T> {
    /// What the lock guards.
    #[inline(always)]
    pub(super) fn value(&mut self) -> &mut T {
        self.lock.value.with_mut(|value| {
            // SAFETY: the lock is held for as long as `self` lives, and the result borrows `self` exclusively.
            unsafe { &mut *value }
        })
    }

    /// The same to look at.
    pub(super) fn value_ref(&self) -> &T {
        self.lock.value.with_mut(|value| {
            // SAFETY: the lock is held for as long as `self` lives, and the result borrows `self`.
            unsafe { &*value }
        })
    }

    /// Gives the lock back, runs `meanwhile`, and takes the lock again, after a panic as well.
    pub(super) fn unlocked<R>(&mut self, meanwhile: impl FnOnce() -> R) -> R {
        /// Takes the lock again.
        struct Return<'h, 'a, T>(&'h mut Held<'a, T>);

        impl<T> Drop for Return<'_, '_, T> {
            fn drop(&mut self) {
                self.0.watched = self.0.lock.take();
            }
        }

        self.leave();
        let _return = Return(self);
        meanwhile()
    }

    #[inline(always)]
    fn leave(&mut self) {
        if let Some(watched) = self.watched.take() {
            watched.leave(self.lock.class());
        }
        // SAFETY: made by `Lock` only, with the lock held; it is given back here only, right before the end or before
        // `unlocked` takes it again.
        unsafe { self.lock.raw.unlock() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("raw", &self.raw)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_excludes_while_held_and_is_free_after() {
        for kind in LockKind::all() {
            let mut lock = Lock::new(kind, LockClass::Map, 1);
            assert_eq!((lock.kind(), lock.class()), (kind, LockClass::Map));
            lock.with(|value| {
                assert!(lock.try_with(|_| ()).is_none(), "{kind}");
                *value += 1;
            });
            assert_eq!(lock.try_with(|value| *value), Some(2), "{kind}");
            *lock.get_mut() += 1;
            assert_eq!(lock.into_inner(), 3);
        }
    }

    #[test]
    fn a_panic_inside_gives_the_lock_back() {
        for kind in LockKind::all() {
            let lock = Lock::new(kind, LockClass::Map, 1);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                lock.with(|_| panic!("planted"))
            }));
            assert!(outcome.is_err());
            assert_eq!(lock.try_with(|value| *value), Some(1), "{kind}");
        }
    }
}
