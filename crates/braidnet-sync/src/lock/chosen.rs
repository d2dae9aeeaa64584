//! The lock whose kind is a run-time choice.

use core::fmt;
use core::str::FromStr;

use super::meter::{self, LockClass};
use super::{Adaptive, Mcs};
use crate::primitives::UnsafeCell;

/// The locks to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LockKind {
    /// [`Adaptive`]: spins while its holder may be running, sleeps otherwise, barges.
    #[default]
    Adaptive,
    /// [`Mcs`]: first come, first served.
    Mcs,
}

impl LockKind {
    /// Every kind, in the order in which they are listed to users.
    pub const fn all() -> [LockKind; 2] {
        [LockKind::Adaptive, LockKind::Mcs]
    }

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            LockKind::Adaptive => "adaptive",
            LockKind::Mcs => "mcs",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No lock has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no lock is called '{0}': there are adaptive and mcs")]
pub struct UnknownLock(
    /// The name that was asked for.
    pub String,
);

impl FromStr for LockKind {
    type Err = UnknownLock;

    fn from_str(name: &str) -> Result<Self, UnknownLock> {
        Self::all()
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownLock(name.to_owned()))
    }
}

/// The raw lock: a branch on a field beside the lock word, which is in the cache by then, and no virtual call.
#[derive(Debug)]
enum Raw {
    Adaptive(Adaptive),
    Mcs(Mcs),
}

impl Raw {
    const fn new(kind: LockKind) -> Self {
        match kind {
            LockKind::Adaptive => Raw::Adaptive(Adaptive::new()),
            LockKind::Mcs => Raw::Mcs(Mcs::new()),
        }
    }

    #[inline(always)]
    fn lock(&self) {
        match self {
            Raw::Adaptive(lock) => lock.lock(),
            Raw::Mcs(lock) => lock.lock(),
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        match self {
            Raw::Adaptive(lock) => lock.try_lock(),
            Raw::Mcs(lock) => lock.try_lock(),
        }
    }

    /// # Safety
    ///
    /// The caller must hold the lock.
    #[inline(always)]
    unsafe fn unlock(&self) {
        match self {
            // SAFETY: the caller holds the lock.
            Raw::Adaptive(lock) => unsafe { lock.unlock() },
            // SAFETY: the caller holds the lock.
            Raw::Mcs(lock) => unsafe { lock.unlock() },
        }
    }
}

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
        match self.raw {
            Raw::Adaptive(_) => LockKind::Adaptive,
            Raw::Mcs(_) => LockKind::Mcs,
        }
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
    fn names_read_back() {
        for kind in LockKind::all() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "spin".parse::<LockKind>(),
            Err(UnknownLock("spin".to_owned()))
        );
    }

    #[test]
    fn the_unknown_lock_sentence_names_every_kind() {
        let sentence = UnknownLock(String::new()).to_string();
        for kind in LockKind::all() {
            assert!(sentence.contains(kind.name()), "{sentence}");
        }
    }

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
