//! Strict counts: every reference to a block is counted, every time, as in PLP §5.2, by an atomic operation or under a lock.
//!
//! # The protocol
//!
//! One word for each block. It is nought while one message views the block, and one less for each further one, modulo 2^32.
//!
//! - *More*: whoever has a view takes a count for another. Relaxed: it goes on under the one that it was copied from.
//! - *Less*: whoever gives a view up counts back, or finds nought: then it was the last, and the block is its own. Release: what
//!   was done with the view comes before what the last one does with the block. Acquire: the last sees all of that.
//! - *Unique*: whoever has a view and reads nought has the only one, and may write. Acquire, and without the lock even where there is
//!   one: who has the only view need not fear that there will be others, and those that were released with their last step.
//!
//! Under a lock more and less are a load and a store. The store of a less is a release all the same, for who asks without the lock.

use crate::sync::{AtomicU32, Ordering};

/// What keeps two changes of one count apart.
pub(crate) trait Apart {
    /// Makes a change while nobody else makes one.
    fn apart<R>(&self, change: impl FnOnce() -> R) -> R;
}

/// Takes a count, while holding one; what it was.
pub(crate) fn count_more(refs: &AtomicU32, lock: Option<&impl Apart>) -> u32 {
    match lock {
        None => refs.fetch_sub(1, Ordering::Relaxed),
        Some(lock) => lock.apart(|| {
            let before = refs.load(Ordering::Relaxed);
            refs.store(before.wrapping_sub(1), Ordering::Relaxed);
            before
        }),
    }
}

/// Gives up a count; whether it was the last. The word is then nought again, as a free node's is.
pub(crate) fn count_less(refs: &AtomicU32, lock: Option<&impl Apart>) -> bool {
    match lock {
        None => {
            let last = refs.fetch_add(1, Ordering::AcqRel) == 0;
            if last {
                refs.store(0, Ordering::Relaxed);
            }
            last
        }
        Some(lock) => lock.apart(|| {
            // What others did before they gave their counts up they did before they gave the lock back, or, where the caller has been
            // alone for longer, before it read that it was.
            let before = refs.load(Ordering::Acquire);
            if before != 0 {
                refs.store(before.wrapping_add(1), Ordering::Release);
            }
            before == 0
        }),
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Apart, count_less, count_more};
    use crate::sync::{AtomicU32, Ordering};
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    impl Apart for Mutex<()> {
        fn apart<R>(&self, change: impl FnOnce() -> R) -> R {
            let _held = self.lock().unwrap();
            change()
        }
    }

    /// A block: whoever views it reads it, whoever is alone with it writes it, and the checker fails where one does while another does.
    struct Block {
        refs: AtomicU32,
        lock: Option<Mutex<()>>,
        uses: UnsafeCell<u32>,
        freed: UnsafeCell<bool>,
    }

    // SAFETY: the cells are touched as their comments say; that this is so is what the model checks.
    unsafe impl Sync for Block {}
    // SAFETY: likewise.
    unsafe impl Send for Block {}

    impl Block {
        fn read(&self) {
            // SAFETY: a view of it is held.
            self.uses.with(|uses| unsafe { *uses });
        }

        fn write_if_unique(&self) {
            if self.refs.load(Ordering::Acquire) == 0 {
                // SAFETY: the only view of it is held.
                self.uses.with_mut(|uses| unsafe { *uses += 1 });
            }
        }

        /// Takes another view, and gives it up again.
        fn copy(&self) {
            count_more(&self.refs, self.lock.as_ref());
            self.read();
            self.give_up();
        }

        fn give_up(&self) {
            if count_less(&self.refs, self.lock.as_ref()) {
                // SAFETY: it was the last view.
                self.uses.with_mut(|uses| unsafe { *uses += 1 });
                self.freed.with_mut(|freed| {
                    // SAFETY: likewise.
                    let was = unsafe { core::mem::replace(&mut *freed, true) };
                    assert!(!was, "freed twice");
                });
            }
        }
    }

    /// Two threads have a view each; they read, copy, write where they are alone, and give up.
    fn is_freed_once(locked: bool) {
        loom::model(move || {
            let block = Arc::new(Block {
                refs: AtomicU32::new(u32::MAX),
                lock: locked.then(|| Mutex::new(())),
                uses: UnsafeCell::new(0),
                freed: UnsafeCell::new(false),
            });
            let others = block.clone();
            let other = thread::spawn(move || {
                others.copy();
                others.write_if_unique();
                others.give_up();
            });
            block.read();
            // The checker seldom lets the other come first of its own accord.
            thread::yield_now();
            block.write_if_unique();
            block.give_up();
            other.join().unwrap();
            // SAFETY: the other thread has ended.
            block
                .freed
                .with(|freed| assert!(unsafe { *freed }, "never freed"));
            assert_eq!(block.refs.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn a_block_is_freed_once_where_counts_are_atomic() {
        is_freed_once(false);
    }

    #[test]
    fn a_block_is_freed_once_where_counts_are_locked() {
        is_freed_once(true);
    }
}
