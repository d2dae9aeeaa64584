//! The lock whose kind is a run-time choice.

use core::fmt;

use super::kind::{LockKind, Raw};
use super::meter::{self, LockClass};
use crate::primitives::UnsafeCell;

/// A value behind a lock whose kind is chosen when it is made.
///
/// It is entered with a closure, never by a guard, so that what runs inside is one place in the source. A panic inside
/// gives the lock back and leaves the value as it was at that moment; there is no poisoning. Entering it again from
/// inside waits for ever.
///
/// Entering a free lock costs what the lock costs plus two predicted branches (which lock; whether to count). Not padded to a
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
    class: LockClass,
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
            class,
            value: UnsafeCell::new(value),
        }
    }

    /// Which lock it is.
    pub const fn kind(&self) -> LockKind {
        self.raw.kind()
    }

    /// What it is counted under.
    pub const fn class(&self) -> LockClass {
        self.class
    }

    /// Runs `enter` with the lock held, waiting for it as long as it takes.
    #[inline]
    pub fn with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> R {
        if meter::is_off() {
            self.raw.lock();
        } else {
            self.lock_metered();
        }
        self.enter(enter)
    }

    /// Runs `enter` if the lock is free; `None` if it is held. An attempt that fails is not counted.
    #[inline]
    pub fn try_with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.raw.try_lock() {
            return None;
        }
        if !meter::is_off() {
            meter::count_free(self.class);
        }
        Some(self.enter(enter))
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

    /// Runs `enter`, the lock being held, and gives the lock back.
    #[inline(always)]
    fn enter<R>(&self, enter: impl FnOnce(&mut T) -> R) -> R {
        let _leave = Leave(&self.raw);
        self.value.with_mut(|value| {
            // SAFETY: the lock is held until `_leave` is dropped, after the borrow has ended.
            enter(unsafe { &mut *value })
        })
    }

    #[cold]
    #[inline(never)]
    fn lock_metered(&self) {
        meter::count(self.class, || self.raw.try_lock(), || self.raw.lock());
    }
}

/// Gives a held lock back, however the closure ends.
struct Leave<'a>(&'a Raw);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made by `Lock::enter` only, which runs with the lock held and does not give it back otherwise.
        unsafe { self.0.unlock() }
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("raw", &self.raw)
            .field("class", &self.class)
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
