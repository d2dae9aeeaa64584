//! A lock that its holder may enter again.
//!
//! # The protocol
//!
//! Beside the lock stand its owner's token, 0 where there is none, and how often the owner is inside. Both are written by the lock's
//! holder only, the token between taking the lock and giving it back. A thread that finds its own token there has written
//! it, since no other thread has that one, and has not taken it away again, since it would see that: so it holds the
//! lock, and goes in. What another thread finds, however old, is not its own. So the words need no ordering, and the lock carries
//! what the value's readers see.

#[cfg(not(loom))]
use core::fmt;

#[cfg(not(loom))]
use super::{Lock, LockClass, LockKind};
#[cfg(not(loom))]
use crate::primitives::thread_token;
use crate::primitives::{AtomicU32, AtomicU64, Ordering};

/// Who is inside, and how often.
#[derive(Debug)]
struct Owner {
    token: AtomicU64,
    depth: AtomicU32,
}

impl Owner {
    #[cfg(not(loom))]
    const fn none() -> Self {
        Owner {
            token: AtomicU64::new(0),
            depth: AtomicU32::new(0),
        }
    }

    #[cfg(loom)]
    fn none() -> Self {
        Owner {
            token: AtomicU64::new(0),
            depth: AtomicU32::new(0),
        }
    }

    /// Whether the thread of this token is inside.
    #[inline]
    fn is(&self, token: u64) -> bool {
        self.token.load(Ordering::Relaxed) == token
    }

    /// How often the owner is inside; for the owner.
    fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// One entry of the thread of this token, which holds the lock, until the result is dropped.
    fn enter(&self, token: u64) -> Entry<'_> {
        let depth = self.depth();
        assert_ne!(depth, u32::MAX, "a lock was entered 2^32 times");
        if depth == 0 {
            self.token.store(token, Ordering::Relaxed);
        }
        self.depth.store(depth + 1, Ordering::Relaxed);
        Entry(self)
    }
}

/// An entry, counted until it is dropped.
struct Entry<'a>(&'a Owner);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let depth = self.0.depth() - 1;
        self.0.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.0.token.store(0, Ordering::Relaxed);
        }
    }
}

/// A value behind a counting lock: the thread that is inside may enter again, and leaves when it has left as often as it
/// has entered.
///
/// That is what the x-kernel's map manager is locked with, whose iterator calls the manager again (PLP §2.1). Since the
/// value may be in use further out, the inside is shared: what is to be changed stands in a `Cell` or a `RefCell`, which
/// says when it is changed while it is looked at. Counts and ranks are those of the [`Lock`] inside and see the outermost entry.
/// The stack has none: its maps belong to one processor, or to what a lock of another layer guards.
///
/// ```
/// use braidnet_sync::lock::{LockClass, LockKind, Recursive};
/// use std::cell::Cell;
/// let ports = [1024_u16, 1025].map(|port| (port, Cell::new(0)));
/// let map = Recursive::new(LockKind::Adaptive, LockClass::Map, ports);
/// let find = |wanted| map.with(|ports| ports.iter().position(|(port, _)| *port == wanted));
/// // An iteration that looks things up on the way.
/// map.with(|ports| {
///     for (port, found_at) in ports {
///         assert_eq!(map.depth(), 1);
///         found_at.set(find(*port).unwrap());
///     }
/// });
/// assert_eq!(map.into_inner()[1].1.get(), 1);
/// ```
#[cfg(not(loom))]
pub struct Recursive<T> {
    lock: Lock<()>,
    owner: Owner,
    value: T,
}

#[cfg(not(loom))]
// SAFETY: a shared reference yields a shared reference to the value to the lock's holder only, one thread at a time, which
// amounts to sending the value from holder to holder.
unsafe impl<T: Send> Sync for Recursive<T> {}

#[cfg(not(loom))]
impl<T> Recursive<T> {
    /// A free lock of `kind` around `value`, whose outermost entries are counted under `class`.
    pub const fn new(kind: LockKind, class: LockClass, value: T) -> Self {
        Recursive {
            lock: Lock::new(kind, class, ()),
            owner: Owner::none(),
            value,
        }
    }

    /// Runs `enter` with the lock held, waiting for it as long as it takes if another thread is inside.
    pub fn with<R>(&self, enter: impl FnOnce(&T) -> R) -> R {
        let token = thread_token();
        let inside = || {
            let _entry = self.owner.enter(token);
            enter(&self.value)
        };
        if self.owner.is(token) {
            inside()
        } else {
            self.lock.with(|()| inside())
        }
    }

    /// Runs `enter` if no other thread is inside; `None` if one is.
    pub fn try_with<R>(&self, enter: impl FnOnce(&T) -> R) -> Option<R> {
        let token = thread_token();
        let inside = || {
            let _entry = self.owner.enter(token);
            enter(&self.value)
        };
        if self.owner.is(token) {
            Some(inside())
        } else {
            self.lock.try_with(|()| inside())
        }
    }

    /// How often the calling thread is inside: 0 if it is not.
    pub fn depth(&self) -> u32 {
        if self.owner.is(thread_token()) {
            self.owner.depth()
        } else {
            0
        }
    }

    /// The value of a lock that is borrowed exclusively, without taking it.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

#[cfg(not(loom))]
impl<T> fmt::Debug for Recursive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recursive")
            .field("lock", &self.lock)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn whoever_is_inside_enters_again_and_others_do_not() {
        for kind in LockKind::all() {
            let lock = Recursive::new(kind, LockClass::Map, Cell::new(0));
            let elsewhere = || {
                std::thread::scope(|scope| {
                    scope
                        .spawn(|| (lock.try_with(|_| ()).is_some(), lock.depth()))
                        .join()
                        .unwrap()
                })
            };
            assert_eq!((lock.depth(), elsewhere()), (0, (true, 0)));
            lock.with(|value| {
                lock.with(|again| again.set(1));
                assert_eq!((lock.depth(), elsewhere()), (1, (false, 0)), "{kind}");
                let depth = lock.try_with(|_| lock.with(|_| lock.depth()));
                assert_eq!((depth, value.get()), (Some(3), 1));
            });
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                lock.with(|_| lock.with(|_| panic!("planted")))
            }));
            assert!(outcome.is_err());
            assert_eq!((lock.depth(), elsewhere()), (0, (true, 0)), "{kind}");
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Owner;
    use crate::lock::Adaptive;
    use crate::primitives::{Arc, UnsafeCell, thread};

    struct Shared {
        lock: Adaptive,
        owner: Owner,
        value: UnsafeCell<usize>,
    }

    // SAFETY: the value is touched with the lock held only; that this suffices is what the model checks.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn with(&self, token: u64, enter: &dyn Fn()) {
            let outermost = !self.owner.is(token);
            if outermost {
                self.lock.lock();
            }
            let entry = self.owner.enter(token);
            self.value.with_mut(|value| {
                // SAFETY: the lock is held.
                unsafe { *value += 1 }
            });
            enter();
            drop(entry);
            if outermost {
                // SAFETY: taken above.
                unsafe { self.lock.unlock() }
            }
        }
    }

    /// Each enters again from inside; the other is never inside meanwhile, and nobody waits for itself.
    #[test]
    fn entering_again_excludes_the_others_still() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared {
                lock: Adaptive::new(),
                owner: Owner::none(),
                value: UnsafeCell::new(0),
            });
            let work = |shared: &Shared, token| {
                shared.with(token, &|| shared.with(token, &|| ()));
                shared.with(token, &|| ());
            };
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared, 4))
            };
            work(&shared, 2);
            other.join().unwrap();
            shared.lock.lock();
            shared.value.with_mut(|value| {
                // SAFETY: the lock is held.
                assert_eq!(unsafe { *value }, 6);
            });
        });
    }
}
