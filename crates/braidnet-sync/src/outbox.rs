//! Carrying away, in order, what leaves a critical section.
//!
//! Threads enter a critical section one after the other, and each comes out with something that goes on to a place where it
//! must arrive in the order of the entries. Nothing is handed on with the lock held, so without care the second could
//! overtake the first on its way there. Beside such a lock there is therefore a [`Drain`], which says whether somebody
//! carries, and behind it an [`Outbox`], where the others leave what they have for that one, the *drainer*.
//!
//! # The protocol
//!
//! - `IDLE`: nobody carries. Whoever has something when it leaves, still under the lock, becomes the drainer
//!   ([`claim`](Drain::claim), `IDLE → DRAINING`) and carries it itself.
//! - `DRAINING`: somebody does. Whoever else has something puts it into the outbox, under the lock, and says so
//!   (`DRAINING → MORE`).
//! - The drainer, when all it carried has been handed over, tries `DRAINING → IDLE` ([`release`](Drain::release)). If that
//!   fails the state is `MORE`: it takes the lock, [takes](Outbox::take) the outbox (`MORE → DRAINING`), and goes on.
//! - The drainer, whenever it enters the section again, first takes the outbox: what lies there left earlier than what comes
//!   of this entry.
//!
//! `IDLE → DRAINING`, `DRAINING → MORE` and `MORE → DRAINING` happen under the lock; only `DRAINING → IDLE` does not, and
//! both sides of that race use compare-and-swap on one word, so either the drainer sees `MORE` or the other sees `IDLE`.
//! The word is acquired and released so that the next drainer's hand-over comes after the last one's.

use crate::primitives::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const DRAINING: u32 = 1;
const MORE: u32 = 2;

/// Whether somebody carries away what leaves a critical section. It stands beside the section's lock, and belongs to one
/// [`Outbox`] behind it.
///
/// ```
/// use braidnet_sync::lock::{Lock, LockClass, LockKind};
/// use braidnet_sync::outbox::{Drain, Outbox};
/// let outbox = Lock::new(LockKind::Mcs, LockClass::Connection, Outbox::new());
/// let drain = Drain::new();
/// // The first one out carries, the second leaves with it.
/// assert!(outbox.with(|_| drain.claim()));
/// assert!(outbox.with(|outbox| !drain.claim() && { outbox.leave("second"); true }));
/// // The first has handed over what it had, and finds that there is more.
/// assert!(!drain.release());
/// assert_eq!(outbox.with(|outbox| outbox.take(&drain).collect::<Vec<_>>()), ["second"]);
/// assert!(drain.release());
/// ```
#[derive(Debug)]
pub struct Drain(AtomicU32);

/// What was left for the drainer. It stands behind the lock.
#[derive(Debug)]
pub struct Outbox<T> {
    left: Vec<T>,
}

impl Drain {
    /// Nobody carries.
    pub fn new() -> Drain {
        Drain(AtomicU32::new(IDLE))
    }

    /// Under the lock, with something to carry, by whoever is not the drainer: whether the caller now is, and carries it
    /// itself. If not, it must [leave](Outbox::leave) it before it gives the lock back.
    #[inline]
    pub fn claim(&self) -> bool {
        loop {
            // Acquire: what the last drainer handed over comes before what we hand over.
            if self.change(IDLE, DRAINING, Ordering::Acquire) {
                return true;
            }
            if self.0.load(Ordering::Relaxed) == MORE
                || self.change(DRAINING, MORE, Ordering::Relaxed)
            {
                return false;
            }
            // The drainer was relieved in between.
        }
    }

    /// The drainer, without the lock, when everything it carried has been handed over: whether it is relieved. If not, it
    /// still is the drainer and must [take](Outbox::take) what has been left for it.
    #[inline]
    pub fn release(&self) -> bool {
        self.change(DRAINING, IDLE, Ordering::Release)
    }

    #[inline]
    fn change(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.0
            .compare_exchange(from, to, order, Ordering::Relaxed)
            .is_ok()
    }
}

impl Default for Drain {
    fn default() -> Drain {
        Drain::new()
    }
}

impl<T> Outbox<T> {
    /// Nothing left.
    pub const fn new() -> Outbox<T> {
        Outbox { left: Vec::new() }
    }

    /// Takes memory for so many items in all.
    pub fn reserve(&mut self, items: usize) {
        self.left.reserve(items.saturating_sub(self.left.len()));
    }

    /// Leaves an item for the drainer, after a [`claim`](Drain::claim) that was refused.
    #[inline]
    pub fn leave(&mut self, item: T) {
        self.left.push(item);
    }

    /// The drainer takes what has been left for it, in order.
    #[inline]
    pub fn take(&mut self, drain: &Drain) -> impl Iterator<Item = T> + '_ {
        // Whoever holds the lock and is the drainer is the only one to write the word when it is `MORE`.
        if drain.0.load(Ordering::Relaxed) == MORE {
            drain.0.store(DRAINING, Ordering::Relaxed);
        }
        self.left.drain(..)
    }
}

impl<T> Default for Outbox<T> {
    fn default() -> Outbox<T> {
        Outbox::new()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Drain, Outbox};
    use crate::primitives::{Arc, UnsafeCell, thread};
    use loom::sync::Mutex;

    /// A section whose entries draw tickets, and the place where the tickets go.
    struct Shared {
        inside: Mutex<Inside>,
        drain: Drain,
        arrived: UnsafeCell<Vec<usize>>,
    }

    struct Inside {
        entries: usize,
        outbox: Outbox<usize>,
    }

    // SAFETY: `arrived` is touched by the drainer only; that there is at most one at a time, and that each sees what the
    // one before did, is what the model checks.
    unsafe impl Sync for Shared {}

    /// One thread, and what it carries.
    struct Processor<'a> {
        shared: &'a Shared,
        drains: bool,
        carried: Vec<usize>,
    }

    impl Processor<'_> {
        fn enter(&mut self) {
            let mut inside = self.shared.inside.lock().unwrap();
            if self.drains {
                self.carried.extend(inside.outbox.take(&self.shared.drain));
            }
            let ticket = inside.entries;
            inside.entries += 1;
            if self.drains || self.shared.drain.claim() {
                self.drains = true;
                self.carried.push(ticket);
            } else {
                inside.outbox.leave(ticket);
            }
        }

        /// Hands over, until it is relieved.
        fn hand_over(&mut self) {
            while self.drains {
                self.shared.arrived.with_mut(|arrived| {
                    // SAFETY: only the drainer comes here.
                    unsafe { &mut *arrived }.append(&mut self.carried);
                });
                if self.shared.drain.release() {
                    self.drains = false;
                } else {
                    let mut inside = self.shared.inside.lock().unwrap();
                    self.carried.extend(inside.outbox.take(&self.shared.drain));
                }
            }
        }
    }

    /// Threads that enter so often each, and hand over after every entry or, `patient`, only after the last: then they
    /// enter again while they are the drainer.
    fn keeps_order(entries: &'static [usize], patient: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new(Shared {
                inside: Mutex::new(Inside {
                    entries: 0,
                    outbox: Outbox::new(),
                }),
                drain: Drain::new(),
                arrived: UnsafeCell::new(Vec::new()),
            });
            let work = move |shared: &Shared, entries| {
                let mut processor = Processor {
                    shared,
                    drains: false,
                    carried: Vec::new(),
                };
                for _ in 0..entries {
                    processor.enter();
                    if !patient {
                        processor.hand_over();
                    }
                }
                processor.hand_over();
            };
            let others: Vec<_> = entries[1..]
                .iter()
                .map(|&entries| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || work(&shared, entries))
                })
                .collect();
            work(&shared, entries[0]);
            for other in others {
                other.join().unwrap();
            }
            let arrived = shared.arrived.with_mut(|arrived| {
                // SAFETY: the others have ended.
                core::mem::take(unsafe { &mut *arrived })
            });
            assert!(arrived.into_iter().eq(0..entries.iter().sum()));
            assert!(shared.drain.claim(), "nobody is left a drainer");
        });
    }

    #[test]
    fn two_threads_keep_the_order_of_their_entries() {
        keeps_order(&[2, 2], false);
    }

    #[test]
    fn a_drainer_that_enters_again_keeps_it() {
        keeps_order(&[2, 2], true);
    }

    #[test]
    fn three_threads_keep_it() {
        keeps_order(&[2, 1, 1], true);
    }
}
