//! State that one processor owns: no lock, no atomic operation, no wait.
//!
//! # The protocol
//!
//! The cell carries one word: 0 while nobody owns it, otherwise the owner's thread token, with bit 0 set while the owner
//! is inside. Tokens are never reused, not even after their thread has ended.
//!
//! - Only the owner enters, and only the owner writes the word while it owns the cell. So the owner finds its own token
//!   there by a plain load, and nobody else can ever see *theirs* there: the check is exact without ordering.
//! - *Adopt*: compare-and-swap from 0 to the own token. Acquire. *Release*: the owner stores 0. Release. The pair
//!   carries the old owner's writes to the new one.
//! - Bit 0 makes a second entry by the owner, from within the first, visible: two exclusive borrows would exist.
//!
//! The check is one thread-local load, one load, one compare and two stores to a line that the owner has anyway, about
//! a nanosecond. It is the same in debug and release builds, because exclusive access rests on it: a cell that
//! checked less in release would be unsound, not faster.

use core::fmt;

use crate::primitives::{AtomicU64, Ordering, UnsafeCell, thread_token};

const NOBODY: u64 = 0;
const INSIDE: u64 = 1;

/// Why a processor may not enter or give up an [`Owned`] cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Foreign {
    /// Another processor owns it.
    #[error("another processor owns the cell")]
    OwnedElsewhere,
    /// The caller is inside already.
    #[error("the owner is inside the cell already")]
    Inside,
    /// Nobody owns it, so there is nothing to give up.
    #[error("nobody owns the cell")]
    Unowned,
}

/// A value that one processor at a time owns and enters without a lock.
///
/// Whoever enters an unowned cell first owns it from then on, until it [releases](Owned::release) it. Unlike a
/// lock it never waits: a processor that does not own the cell is told so.
///
/// ```
/// use braidnet_sync::lock::Owned;
/// let bucket = Owned::new(vec![1]);
/// bucket.with(|bucket| bucket.push(2));
/// std::thread::scope(|scope| {
///     let theft = scope.spawn(|| bucket.try_with(|bucket| bucket.push(3)).is_err());
///     assert!(theft.join().unwrap());
/// });
/// assert_eq!(bucket.into_inner(), [1, 2]);
/// ```
pub struct Owned<T> {
    owner: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: a shared reference yields the value to one thread at a time only, the owner; ownership passes with release
// and acquire, which amounts to sending the value.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// A cell that nobody owns yet.
    pub fn new(value: T) -> Self {
        Owned {
            owner: AtomicU64::new(NOBODY),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters the cell, adopting it if nobody owns it.
    ///
    /// # Panics
    ///
    /// If another processor owns the cell or the caller is inside already: whoever placed the state made a mistake.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> R {
        match self.try_with(enter) {
            Ok(result) => result,
            Err(reason) => refuse(reason),
        }
    }

    /// Enters the cell if the caller owns it or nobody does.
    ///
    /// # Errors
    ///
    /// Says why the caller may not.
    #[inline]
    pub fn try_with<R>(&self, enter: impl FnOnce(&mut T) -> R) -> Result<R, Foreign> {
        let me = thread_token();
        if self.owner.load(Ordering::Relaxed) != me {
            self.adopt()?;
        }
        self.owner.store(me | INSIDE, Ordering::Relaxed);
        let _leave = Leave {
            owner: &self.owner,
            me,
        };
        Ok(self.value.with_mut(|value| {
            // SAFETY: the word names this thread, so no other thread is or gets inside, and it was not inside before.
            enter(unsafe { &mut *value })
        }))
    }

    /// Makes the caller the owner. No effect if it is already.
    ///
    /// # Errors
    ///
    /// If another processor owns the cell or the caller is inside it.
    #[cold]
    pub fn adopt(&self) -> Result<(), Foreign> {
        let me = thread_token();
        match self
            .owner
            .compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(()),
            Err(owner) if owner == me => Ok(()),
            Err(owner) if owner == me | INSIDE => Err(Foreign::Inside),
            Err(_) => Err(Foreign::OwnedElsewhere),
        }
    }

    /// Gives the cell up, so that another processor may adopt it and sees everything done to it.
    ///
    /// # Errors
    ///
    /// If the caller does not own the cell or is inside it.
    pub fn release(&self) -> Result<(), Foreign> {
        let me = thread_token();
        match self.owner.load(Ordering::Relaxed) {
            NOBODY => Err(Foreign::Unowned),
            owner if owner == me => {
                self.owner.store(NOBODY, Ordering::Release);
                Ok(())
            }
            owner if owner == me | INSIDE => Err(Foreign::Inside),
            _ => Err(Foreign::OwnedElsewhere),
        }
    }

    /// Whether the caller owns the cell.
    pub fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) & !INSIDE == thread_token()
    }

    /// Makes a cell that is borrowed exclusively nobody's, whoever owned it: it has moved as a whole.
    pub fn disown(&mut self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
    }

    /// The value of a cell that is borrowed exclusively, whoever owns it.
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
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.owner.load(Ordering::Relaxed);
        f.debug_struct("Owned")
            .field("owner", &(owner >> 1))
            .field("inside", &(owner & INSIDE != 0))
            .finish_non_exhaustive()
    }
}

impl<T: Default> Default for Owned<T> {
    fn default() -> Self {
        Owned::new(T::default())
    }
}

/// Ends an entry, however the closure ends.
struct Leave<'a> {
    owner: &'a AtomicU64,
    me: u64,
}

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        self.owner.store(self.me, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse(reason: Foreign) -> ! {
    panic!("{reason}")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_enter_owns() {
        let cell = Owned::new(0_u32);
        assert!(!cell.is_mine());
        cell.with(|value| *value += 1);
        assert!(cell.is_mine());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(cell.try_with(|_| ()), Err(Foreign::OwnedElsewhere));
                assert_eq!(cell.adopt(), Err(Foreign::OwnedElsewhere));
                assert_eq!(cell.release(), Err(Foreign::OwnedElsewhere));
            });
        });
        assert_eq!(cell.into_inner(), 1);
    }

    #[test]
    fn the_owner_cannot_enter_twice() {
        let cell = Owned::new(());
        cell.with(|()| {
            assert_eq!(cell.try_with(|()| ()), Err(Foreign::Inside));
            assert_eq!(cell.adopt(), Err(Foreign::Inside));
            assert_eq!(cell.release(), Err(Foreign::Inside));
            assert!(cell.is_mine());
        });
        assert_eq!(cell.try_with(|()| ()), Ok(()));
    }

    #[test]
    fn a_panic_inside_leaves_the_cell_enterable() {
        let cell = Owned::new(1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cell.with(|_| panic!("planted"))
        }));
        assert!(outcome.is_err());
        assert_eq!(cell.with(|value| *value), 1);
    }

    #[test]
    fn a_released_cell_goes_to_the_next() {
        let mut cell = Owned::new(1);
        assert_eq!(cell.release(), Err(Foreign::Unowned));
        cell.with(|value| *value += 1);
        assert_eq!(cell.release(), Ok(()));
        std::thread::scope(|scope| {
            scope.spawn(|| cell.with(|value| *value += 1));
        });
        assert_eq!(cell.try_with(|_| ()), Err(Foreign::OwnedElsewhere));
        cell.disown();
        assert_eq!(cell.with(|value| *value), 3);
        assert_eq!(*cell.get_mut(), 3);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn entering_twice_panics() {
        let cell = Owned::new(());
        cell.with(|()| cell.with(|()| ()));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Owned;
    use crate::primitives::{Arc, thread};

    #[test]
    fn ownership_passes_with_everything_done() {
        loom::model(|| {
            let cell = Arc::new(Owned::new(0));
            let entered = |cell: &Owned<u32>| match cell.try_with(|value| *value += 1) {
                Ok(()) => {
                    cell.release().unwrap();
                    1
                }
                Err(_) => 0,
            };
            let other = {
                let cell = Arc::clone(&cell);
                thread::spawn(move || entered(&cell) + entered(&cell))
            };
            let here = entered(&cell);
            let there = other.join().unwrap();
            assert_eq!(cell.with(|value| *value), here + there);
        });
    }
}
