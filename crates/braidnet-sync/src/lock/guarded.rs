//! A value behind an adaptive lock, for this crate's own primitives: model-checked with them, and counted nowhere.

use super::Adaptive;
use crate::primitives::UnsafeCell;

/// A value that one thread at a time touches, for as long as it holds the lock.
pub(crate) struct Guarded<T> {
    lock: Adaptive,
    /// The lock's.
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched under the lock only, one thread at a time, which amounts to sending it from holder to holder.
unsafe impl<T: Send> Sync for Guarded<T> {}
// SAFETY: nothing in it belongs to a thread; the value is `Send`.
unsafe impl<T: Send> Send for Guarded<T> {}

impl<T> Guarded<T> {
    /// A free lock around `value`.
    pub(crate) fn new(value: T) -> Self {
        Guarded {
            lock: Adaptive::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Does something with the value, under the lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        /// Gives the lock back, also if the work panics.
        struct Held<'a>(&'a Adaptive);

        impl Drop for Held<'_> {
            fn drop(&mut self) {
                // SAFETY: it was taken by whoever made this.
                unsafe { self.0.unlock() };
            }
        }

        self.lock.lock();
        let _held = Held(&self.lock);
        self.value.with_mut(|value| {
            // SAFETY: the lock is held until the end of this function, and the reference does not outlive it.
            let value = unsafe { &mut *value };
            work(value)
        })
    }
}
