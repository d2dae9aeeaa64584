//! The model that every lock here is checked with.

use crate::primitives::{Arc, UnsafeCell, thread};

struct Guarded<L> {
    lock: L,
    value: UnsafeCell<usize>,
}

// SAFETY: the value is touched with the lock held only; that this suffices is what the model checks.
unsafe impl<L: Sync> Sync for Guarded<L> {}

/// `threads` threads take the lock `rounds` times each; the checker fails on two inside at once, on a write that
/// the next holder does not see, and on a waiter that nobody wakes.
pub(super) fn excludes<L: Send + Sync + 'static>(
    threads: usize,
    rounds: usize,
    make: fn() -> L,
    lock: fn(&L),
    unlock: fn(&L),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5_usize.saturating_sub(threads));
    builder.check(move || {
        let shared = Arc::new(Guarded {
            lock: make(),
            value: UnsafeCell::new(0),
        });
        let work = move |shared: &Guarded<L>| {
            for _ in 0..rounds {
                lock(&shared.lock);
                shared.value.with_mut(|value| {
                    // SAFETY: the lock is held.
                    unsafe { *value += 1 }
                });
                unlock(&shared.lock);
            }
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared))
            })
            .collect();
        work(&shared);
        for other in others {
            other.join().unwrap();
        }
        lock(&shared.lock);
        let total = shared.value.with_mut(|value| {
            // SAFETY: the lock is held.
            unsafe { *value }
        });
        unlock(&shared.lock);
        assert_eq!(total, threads * rounds);
    });
}

/// A thread that only tries, beside one that waits: a successful try excludes as well.
pub(super) fn tries<L: Send + Sync + 'static>(
    make: fn() -> L,
    lock: fn(&L),
    try_lock: fn(&L) -> bool,
    unlock: fn(&L),
) {
    loom::model(move || {
        let shared = Arc::new(Guarded {
            lock: make(),
            value: UnsafeCell::new(0),
        });
        let add = |shared: &Guarded<L>| {
            shared.value.with_mut(|value| {
                // SAFETY: the lock is held.
                unsafe { *value += 1 }
            });
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                lock(&shared.lock);
                add(&shared);
                unlock(&shared.lock);
            })
        };
        let taken = try_lock(&shared.lock);
        if taken {
            add(&shared);
            unlock(&shared.lock);
        }
        other.join().unwrap();
        assert!(try_lock(&shared.lock));
        let total = shared.value.with_mut(|value| {
            // SAFETY: the lock is held.
            unsafe { *value }
        });
        assert_eq!(total, 1 + usize::from(taken));
    });
}
