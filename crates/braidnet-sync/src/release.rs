//! What many threads bring in any order goes on in the order of its tickets, and nobody waits.
//!
//! A [`Rejoin`](crate::rejoin::Rejoin) lies inside something; a [`Release`] lies between threads that have nothing in common but
//! where their results must go. Whoever brings the one that was missing carries on all that waited for it, the others' too.
//!
//! # The protocol
//!
//! A power of two of places, of which ticket `t` has the one at `t` modulo that; `next`, the ticket whose turn it is, which the *drainer*
//! alone looks at; and `state`. Each place has a stamp: a ticket, and whether its item is still to come, being written, or there.
//!
//! - *Put*: to come → being written, by compare-and-swap; acquire: the last lap's item has been read. If that fails, there is no place
//!   yet. Then the item, then: there. Release.
//! - `state` is one of `IDLE`, nobody drains; `DRAINING`; `MORE`, somebody drains and has been told to look again; and `UNFINISHED`, nobody
//!   drains, but the last one left something. Who has put something tries `IDLE → DRAINING`, and else swaps in
//!   `MORE`. If there was no drainer, it now is the drainer; else there is one who will look again.
//! - *Drain*: while the item of `next` is there (acquire), read it, stamp its place for the next lap (release), advance `next`, hand
//!   the item on. Then `DRAINING → IDLE` (release); if that fails the word is `MORE`, and the drainer swaps in `DRAINING` and looks again.
//! - *Stop*, at the bound, if more is due: swap in `UNFINISHED`. Somebody must [resume](Release::resume); whoever brings something next
//!   goes on just as well.
//!
//! There is one drainer at a time, and each acquires what the one before released, so items leave in order, each once. Nothing is left lying:
//! all changes of `state` are read-modify-writes, so one who puts comes either before the drainer's `DRAINING → IDLE`, which then fails
//! and has the drainer look again, with the stamp in sight; or after it, and becomes the drainer.
//!
//! A panic while an item is handed on takes that item with it and leaves the rest unfinished; whoever catches it must resume.

use core::fmt;
use core::mem::{self, MaybeUninit};

use crossbeam_utils::CachePadded;

use crate::delegation::Entry;
use crate::primitives::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::rejoin::NoPlace;
use crate::ticket::Ticket;

const IDLE: u32 = 0;
const DRAINING: u32 = 1;
const MORE: u32 = 2;
const UNFINISHED: u32 = 3;

/// Hands on what many threads bring, in the order of its tickets, which count from 0.
///
/// ```
/// use braidnet_sync::{delegation::Entry, release::Release, ticket::Tickets};
/// let (tickets, ring) = (Tickets::default(), Release::new(4));
/// let (first, second) = (tickets.draw(), tickets.draw());
/// assert_eq!(ring.bring(second, "second", 8, |_| unreachable!()), Ok(Entry::Served));
/// let mut order = Vec::new();
/// assert_eq!(ring.bring(first, "first", 8, |item| order.push(item)), Ok(Entry::Served));
/// assert_eq!(order, ["first", "second"]);
/// ```
pub struct Release<T> {
    state: CachePadded<AtomicU32>,
    /// The drainer's.
    next: CachePadded<AtomicU64>,
    places: Box<[Place<T>]>,
}

/// The item is still to come; the place is free for whoever has the ticket.
const TO_COME: u64 = 0;
/// It is being written.
const WRITTEN: u64 = 1;
/// It can be read.
const THERE: u64 = 2;

/// The stamp of a ticket's place. More tickets than it can hold would take a century at one each nanosecond.
fn stamp(ticket: u64, known: u64) -> u64 {
    ticket << 2 | known
}

struct Place<T> {
    /// A ticket, and in the last bits what is known of it.
    stamp: AtomicU64,
    /// Nothing, if there is nothing to go on with that ticket.
    item: UnsafeCell<MaybeUninit<Option<T>>>,
}

// SAFETY: each place belongs to one thread at a time, to whoever writes it or the drainer, so sharing the ring amounts to
// sending items through it.
unsafe impl<T: Send> Sync for Release<T> {}
// SAFETY: as above; the ring itself is plain memory.
unsafe impl<T: Send> Send for Release<T> {}

impl<T> Release<T> {
    /// A ring with at least so many places, at least one.
    pub fn new(places: usize) -> Self {
        let places = (0..places.max(1).next_power_of_two() as u64)
            .map(|ticket| Place {
                stamp: AtomicU64::new(stamp(ticket, TO_COME)),
                item: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Release {
            state: CachePadded::new(AtomicU32::new(IDLE)),
            next: CachePadded::new(AtomicU64::new(0)),
            places,
        }
    }

    /// Brings an item. If nobody else does, hands on what is due now, at most `bound` tickets (0 counts as 1), which may be others'
    /// items or none.
    ///
    /// [`Entry::Served`] if what was due has been handed on, [`Entry::Left`] if somebody else sees to it, and after
    /// [`Entry::Unfinished`] somebody must [resume](Self::resume).
    ///
    /// # Errors
    ///
    /// Gives ticket and item back if the ticket is ahead of the one whose turn it is by as many as there are places, or more.
    pub fn bring(
        &self,
        ticket: Ticket,
        item: T,
        bound: usize,
        release: impl FnMut(T),
    ) -> Result<Entry, NoPlace<T>> {
        match self.claim(&ticket) {
            Some(place) => Ok(self.put(place, ticket, Some(item), bound, release)),
            None => Err(NoPlace { ticket, item }),
        }
    }

    /// Brings a ticket with which nothing goes on; otherwise as [`bring`](Self::bring).
    ///
    /// # Errors
    ///
    /// As for [`bring`](Self::bring).
    pub fn skip(
        &self,
        ticket: Ticket,
        bound: usize,
        release: impl FnMut(T),
    ) -> Result<Entry, NoPlace<()>> {
        match self.claim(&ticket) {
            Some(place) => Ok(self.put(place, ticket, None, bound, release)),
            None => Err(NoPlace { ticket, item: () }),
        }
    }

    /// Goes on where somebody stopped at its bound, or was ended by a panic, for at most `bound` tickets (0 counts as 1).
    /// Harmless if somebody else has gone on already: then [`Entry::Left`] if that one is still at it.
    pub fn resume(&self, bound: usize, release: impl FnMut(T)) -> Entry {
        match self.change(UNFINISHED, DRAINING, Ordering::Acquire) {
            Ok(_) => self.drain(bound, release),
            Err(IDLE) => Entry::Served,
            Err(_) => Entry::Left,
        }
    }

    /// The place of this ticket, if the last lap's item has gone on.
    fn claim(&self, ticket: &Ticket) -> Option<&Place<T>> {
        let place = self.place(ticket.0);
        place
            .stamp
            .compare_exchange(
                stamp(ticket.0, TO_COME),
                stamp(ticket.0, WRITTEN),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
            .then_some(place)
    }

    /// Puts an item into its ticket's place, which has been claimed.
    fn put(
        &self,
        place: &Place<T>,
        ticket: Ticket,
        item: Option<T>,
        bound: usize,
        release: impl FnMut(T),
    ) -> Entry {
        place.item.with_mut(|place| {
            // SAFETY: whoever has claimed the place is alone with it until it says that the item is there.
            unsafe { place.write(MaybeUninit::new(item)) }
        });
        let there = stamp(ticket.0, THERE);
        place.stamp.store(there, Ordering::Release);
        if self.change(IDLE, DRAINING, Ordering::Acquire).is_err()
            && let DRAINING | MORE = self.state.swap(MORE, Ordering::AcqRel)
        {
            return Entry::Left;
        }
        self.drain(bound, release)
    }

    /// The drainer.
    fn drain(&self, bound: usize, mut release: impl FnMut(T)) -> Entry {
        let stops_if_it_panics = Draining(self);
        let mut drained = 0;
        let entry = loop {
            if self.is_due() {
                if drained == bound.max(1) {
                    self.stop();
                    break Entry::Unfinished;
                }
                drained += 1;
                if let Some(item) = self.take() {
                    release(item);
                }
            } else if self.change(DRAINING, IDLE, Ordering::Release).is_ok() {
                break Entry::Served;
            } else {
                self.state.swap(DRAINING, Ordering::Acquire);
            }
        };
        mem::forget(stops_if_it_panics);
        entry
    }

    /// The drainer: whether the ticket whose turn it is has been brought.
    fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        self.place(next).stamp.load(Ordering::Acquire) == stamp(next, THERE)
    }

    /// The drainer, when something is due: takes it, and it is the next one's turn.
    fn take(&self) -> Option<T> {
        let next = self.next.load(Ordering::Relaxed);
        let place = self.place(next);
        let item = place.item.with_mut(|place| {
            // SAFETY: the item is there, so whoever wrote it is done with the place, and nobody else drains.
            let item = unsafe { place.read() };
            // SAFETY: it has been written, and is read once, since the stamp is the next lap's from now on.
            unsafe { item.assume_init() }
        });
        let next_lap = next.wrapping_add(self.places.len() as u64);
        place
            .stamp
            .store(stamp(next_lap, TO_COME), Ordering::Release);
        self.next.store(next.wrapping_add(1), Ordering::Relaxed);
        item
    }

    /// The drainer, no longer.
    fn stop(&self) {
        self.state.swap(UNFINISHED, Ordering::AcqRel);
    }

    fn change(&self, from: u32, to: u32, order: Ordering) -> Result<u32, u32> {
        self.state
            .compare_exchange(from, to, order, Ordering::Relaxed)
    }

    fn place(&self, ticket: u64) -> &Place<T> {
        &self.places[(ticket & (self.places.len() as u64 - 1)) as usize]
    }
}

/// Stops if a panic drops it.
struct Draining<'a, T>(&'a Release<T>);

impl<T> Drop for Draining<'_, T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl<T> Drop for Release<T> {
    fn drop(&mut self) {
        // What waits for a ticket that never came.
        for place in &self.places {
            if place.stamp.load(Ordering::Relaxed) & 3 == THERE {
                place.item.with_mut(|place| {
                    // SAFETY: nobody else is left.
                    let place = unsafe { &mut *place };
                    // SAFETY: the stamp says that it has been written, and not been read.
                    unsafe { place.assume_init_drop() }
                });
            }
        }
    }
}

impl<T> fmt::Debug for Release<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release")
            .field("next", &self.next.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn what_is_due_goes_on_in_order_up_to_the_bound() {
        let ring = Release::new(4);
        let mut order = Vec::new();
        for ticket in [2, 1, 3] {
            let entry = ring.bring(Ticket(ticket), ticket, 9, |_| panic!("0 is missing"));
            assert_eq!(entry, Ok(Entry::Served));
        }
        let beyond = ring.bring(Ticket(4), 4, 9, |_| panic!("0 is missing"));
        let NoPlace { ticket, item } = beyond.unwrap_err();
        assert_eq!((ticket.number(), item), (4, 4));
        assert_eq!(ring.resume(1, |_| panic!("0 is missing")), Entry::Served);
        let entry = ring.bring(Ticket(0), 0, 2, |item| order.push(item));
        assert_eq!((entry, &order[..]), (Ok(Entry::Unfinished), &[0, 1][..]));
        // Bringing something goes on with what was left, too.
        let entry = ring.bring(Ticket(5), 5, 1, |item| order.push(item));
        assert_eq!((entry, &order[2..]), (Ok(Entry::Unfinished), &[2][..]));
        assert_eq!(ring.resume(0, |item| order.push(item)), Entry::Served);
        let entry = ring.skip(Ticket(4), 9, |item| order.push(item));
        assert_eq!((entry, &order[3..]), (Ok(Entry::Served), &[3, 5][..]));
    }

    #[test]
    fn who_brings_while_somebody_drains_leaves_it_to_that_one() {
        let ring = Release::new(4);
        let mut order = Vec::new();
        let entry = ring.bring(Ticket(0), 0, 9, |item| {
            if item == 0 {
                let entry = ring.bring(Ticket(1), 1, 9, |_| panic!("somebody drains"));
                assert_eq!(entry, Ok(Entry::Left));
                assert_eq!(ring.resume(1, |_| panic!("somebody drains")), Entry::Left);
            }
            order.push(item);
        });
        assert_eq!((entry, &order[..]), (Ok(Entry::Served), &[0, 1][..]));
    }

    #[test]
    fn a_ticket_of_another_order_finds_no_place() {
        let ring = Release::new(2);
        for _ in 0..2 {
            let _ = ring.bring(Ticket(1), (), 9, |()| panic!("0 is missing"));
        }
        assert!(ring.bring(Ticket(1), (), 9, drop).is_err());
        assert_eq!(ring.bring(Ticket(0), (), 9, drop), Ok(Entry::Served));
        assert!(ring.bring(Ticket(0), (), 9, drop).is_err());
    }

    #[test]
    fn a_panic_takes_one_item_with_it() {
        let ring = Release::new(4);
        let entry = ring.bring(Ticket(1), 1, 9, |_| panic!("0 is missing"));
        assert_eq!(entry, Ok(Entry::Served));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            ring.bring(Ticket(0), 0, 9, |_| panic!("planted"))
        }));
        assert!(outcome.is_err());
        let mut order = Vec::new();
        assert_eq!(ring.resume(9, |item| order.push(item)), Entry::Served);
        assert_eq!(order, [1]);
    }

    #[test]
    fn what_never_had_its_turn_is_dropped_with_the_ring() {
        let counted = Arc::new(());
        let ring = Release::new(4);
        for lap in 0..2 {
            for ticket in [1, 3, 0, 2] {
                let item = Arc::clone(&counted);
                if (lap, ticket) != (1, 0) {
                    let entry = ring.bring(Ticket(4 * lap + ticket), item, 9, drop);
                    assert_eq!(entry, Ok(Entry::Served));
                }
            }
        }
        assert_eq!(Arc::strong_count(&counted), 4);
        drop(ring);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn threads_lose_nothing_and_keep_order() {
        const TICKETS: u64 = if cfg!(miri) { 60 } else { 60_000 };
        for (places, bound) in [(1, 1), (8, 1), (64, 1_000)] {
            let ring = Release::new(places);
            let tickets = Mutex::new(crate::ticket::Tickets::default());
            // Only the drainer comes here; the lock is not waited for.
            let order = Mutex::new(Vec::new());
            let release = |item| order.try_lock().unwrap().push(item);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        loop {
                            let mut ticket = tickets.lock().unwrap().draw();
                            let mut item = ticket.number();
                            if item >= TICKETS {
                                break;
                            }
                            while let Err(back) = ring.bring(ticket, item, bound, release) {
                                NoPlace { ticket, item } = back;
                                let _ = ring.resume(bound, release);
                                crate::primitives::yield_now();
                            }
                        }
                    });
                }
            });
            while ring.resume(bound, release) != Entry::Served {}
            assert!(order.into_inner().unwrap().into_iter().eq(0..TICKETS));
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{NoPlace, Release};
    use crate::delegation::Entry;
    use crate::primitives::{Arc, UnsafeCell, thread};
    use crate::ticket::Ticket;

    struct Shared {
        ring: Release<u64>,
        order: UnsafeCell<Vec<u64>>,
    }

    // SAFETY: `order` is touched by the drainer only; that there is at most one at a time, and that each sees what the
    // one before did, is what the model checks.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn release(&self, item: u64) {
            self.order.with_mut(|order| {
                // SAFETY: only the drainer comes here.
                unsafe { &mut *order }.push(item);
            });
        }
    }

    /// Each thread brings its tickets, in that order. What is refused is brought again when all others are done. Who stops at its
    /// bound resumes when all are done, and nobody else does.
    fn releases(places: usize, bound: usize, bearers: &'static [&'static [u64]]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(if bearers.len() > 2 { 2 } else { 4 });
        builder.check(move || {
            let shared = Arc::new(Shared {
                ring: Release::new(places),
                order: UnsafeCell::new(Vec::new()),
            });
            let bring = move |shared: &Shared, bearer: usize| {
                let mut refused = Vec::new();
                let mut unfinished = false;
                for &ticket in bearers[bearer] {
                    let release = |item| shared.release(item);
                    match shared.ring.bring(Ticket(ticket), ticket, bound, release) {
                        Ok(entry) => unfinished |= entry == Entry::Unfinished,
                        Err(NoPlace { ticket, .. }) => refused.push(ticket),
                    }
                }
                (refused, unfinished)
            };
            let others: Vec<_> = (1..bearers.len())
                .map(|bearer| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || bring(&shared, bearer))
                })
                .collect();
            let (mut refused, mut unfinished) = bring(&shared, 0);
            for other in others {
                let (also_refused, also_unfinished) = other.join().unwrap();
                refused.extend(also_refused);
                unfinished |= also_unfinished;
            }
            let release = |item| shared.release(item);
            // Only who was told that something is left has to come back.
            let resume = |unfinished| {
                while unfinished && shared.ring.resume(bound, release) == Entry::Unfinished {}
            };
            resume(unfinished);
            refused.sort();
            for ticket in refused {
                let number = ticket.number();
                let entry = shared.ring.bring(ticket, number, bound, release).unwrap();
                resume(entry == Entry::Unfinished);
            }
            let all = bearers.iter().map(|tickets| tickets.len() as u64).sum();
            shared.order.with_mut(|order| {
                // SAFETY: all others are done.
                assert!(unsafe { &*order }.iter().copied().eq(0..all));
            });
        });
    }

    #[test]
    fn who_fills_the_gap_carries_on_what_waited() {
        releases(4, 8, &[&[0, 3], &[1, 2]]);
        releases(4, 8, &[&[1, 2], &[0, 3]]);
    }

    #[test]
    fn three_bearers_lose_nothing_and_keep_order() {
        releases(4, 8, &[&[2], &[1], &[0, 3]]);
    }

    #[test]
    fn what_is_due_beyond_the_bound_is_not_lost() {
        releases(4, 1, &[&[1, 2], &[0, 3]]);
        releases(4, 1, &[&[2], &[1], &[0]]);
    }

    #[test]
    fn a_place_is_used_again_only_when_it_has_been_read() {
        releases(1, 8, &[&[0], &[1, 2]]);
        releases(2, 1, &[&[0, 2], &[1, 3]]);
    }
}
