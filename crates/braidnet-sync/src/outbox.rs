//! Carrying away, in order, what leaves a critical section.
//!
//! Threads enter a critical section one after the other, and each comes out with something that goes on to a place where it
//! must arrive in the order of the entries. Nothing is handed on from inside, so without care the second could
//! overtake the first on its way there. Beside such a section there is therefore a [`Drain`], which says whether somebody
//! carries, and an [`Outbox`], behind a lock of its own, where the others leave what they have for that one, the *drainer*.
//!
//! # The protocol
//!
//! - `IDLE`: nobody carries. Whoever has something when it leaves, still inside, becomes the drainer
//!   ([`try_claim`](Drain::try_claim), `IDLE → DRAINING`) and carries it itself.
//! - `DRAINING`: somebody does. Whoever else has something takes the outbox's lock, finds that it is still so
//!   ([`claim`](Drain::claim), `DRAINING → MORE`), and puts it into the outbox.
//! - The drainer, when all it carried has been handed over, tries `DRAINING → IDLE` ([`release`](Drain::release)). If that
//!   fails the state is `MORE`: it takes the outbox's lock, [takes](Outbox::take) what is there (`MORE → DRAINING`), and goes on. It
//!   need not enter the section for that.
//! - The drainer, whenever it enters the section again and finds `MORE`, first takes what is in the outbox: that left earlier than
//!   what comes of this entry.
//!
//! `IDLE → DRAINING` and `DRAINING → MORE` happen inside the section, so that at most one thread at a time does either. `DRAINING → MORE`
//! and `MORE → DRAINING` happen under the outbox's lock, together with putting in and taking out, so that what is announced is
//! there. `DRAINING → IDLE` happens anywhere; it races with the step to `MORE`, and both are compare-and-swaps on one word, so
//! either the drainer sees `MORE` or the other sees `IDLE`. The word is acquired and released so that the next drainer's hand-over comes
//! after the last one's.

use crate::primitives::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const DRAINING: u32 = 1;
const MORE: u32 = 2;

/// Whether somebody carries away what leaves a critical section. It stands beside the section, and belongs to one
/// [`Outbox`].
///
/// ```
/// use braidnet_sync::lock::{Lock, LockClass, LockKind};
/// use braidnet_sync::outbox::{Drain, Outbox};
/// let outbox = Lock::new(LockKind::Mcs, LockClass::Connection, Outbox::new());
/// let drain = Drain::new();
/// // The first one out carries, the second leaves with it.
/// assert!(drain.try_claim());
/// assert!(outbox.with(|outbox| !drain.claim() && { outbox.leave("second"); true }));
/// // The first has handed over what it had, and finds that there is more.
/// assert!(!drain.release());
/// assert_eq!(outbox.with(|outbox| outbox.take(&drain).collect::<Vec<_>>()), ["second"]);
/// assert!(drain.release());
/// ```
#[derive(Debug)]
pub struct Drain(AtomicU32);

/// What was left for the drainer. It stands behind a lock.
#[derive(Debug)]
pub struct Outbox<T> {
    left: Vec<T>,
}

impl Drain {
    /// Nobody carries.
    pub fn new() -> Drain {
        Drain(AtomicU32::new(IDLE))
    }

    /// Inside the section, with something to carry, by whoever is not the drainer: whether nobody carried, and the caller now does.
    /// If not, the outbox is to be tried.
    #[inline]
    pub fn try_claim(&self) -> bool {
        // Acquire: what the last drainer handed over comes before what we hand over.
        self.change(IDLE, DRAINING, Ordering::Acquire)
    }

    /// The same under the outbox's lock: if not, the caller must [leave](Outbox::leave) what it has before it gives that lock
    /// back.
    #[inline]
    pub fn claim(&self) -> bool {
        loop {
            if self.try_claim() {
                return true;
            }
            if self.has_more() || self.change(DRAINING, MORE, Ordering::Relaxed) {
                return false;
            }
            // The drainer was relieved in between.
        }
    }

    /// Whether something has been left for the drainer. Inside the section that is certain.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MORE
    }

    /// The drainer, when everything it carried has been handed over: whether it is relieved. If not, it
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
        // Whoever holds the outbox's lock and is the drainer is the only one to write the word when it is `MORE`.
        if drain.has_more() {
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
        /// How many entries there were.
        inside: Mutex<usize>,
        outbox: Mutex<Outbox<usize>>,
        drain: Drain,
        arrived: UnsafeCell<Vec<usize>>,
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
            let shared = self.shared;
            let mut inside = shared.inside.lock().unwrap();
            if self.drains && shared.drain.has_more() {
                self.take_left();
            }
            let ticket = *inside;
            *inside += 1;
            if self.drains || shared.drain.try_claim() {
                self.drains = true;
                return self.carried.push(ticket);
            }
            let mut outbox = shared.outbox.lock().unwrap();
            if shared.drain.claim() {
                self.drains = true;
                self.carried.push(ticket);
            } else {
                outbox.leave(ticket);
            }
        }

        fn take_left(&mut self) {
            let mut outbox = self.shared.outbox.lock().unwrap();
            self.carried.extend(outbox.take(&self.shared.drain));
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
                    self.take_left();
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
                inside: Mutex::new(0),
                outbox: Mutex::new(Outbox::new()),
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
