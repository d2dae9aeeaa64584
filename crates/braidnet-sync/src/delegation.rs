//! Entering with work, and leaving it with whoever is inside.
//!
//! Who finds a lock held waits for it, and then for the cache lines of what it guards. Who finds a [`Delegated`] value held
//! leaves the work there, in order, and goes on with something else: the holder, who has those lines, does it before it leaves.
//! These are the synchronisation elements of DEMUX §3.2.2.
//!
//! # The protocol
//!
//! One word, which is one of
//!
//! - *free*: nobody is inside, and nothing is left;
//! - *held*, with a list: somebody is inside, and the list is what others have left since it last looked, newest first;
//! - *unfinished*, with a list: nobody is inside, but there is work, since the last holder stopped at its bound.
//!
//! The holder alone touches the value, and *due*, a second list beside the word, oldest first, of what it has taken from the
//! first and not yet served.
//!
//! - *Enter*: free → held. Acquire. The caller serves its own work first.
//! - *Leave work*: held → held, with the caller's node in front of the list. Release: whoever takes the list sees the node.
//! - *Take over*: unfinished → held, with the caller's node in front, or ([`resume`](Delegated::resume)) without one. Acquire: the
//!   value is as the last holder left it. What lies there is older than what the caller brings, so it is served first.
//! - *Collect*: the holder, when nothing is due, swaps the list for an empty one (acquire), and reverses it into due.
//! - *Get out*: held, with no list → free. Release. If this fails there is a list, and the holder collects.
//! - *Stop*: held → unfinished, list and all. Release. Somebody must [resume](Delegated::resume); whoever enters first
//!   takes over just as well, so a thread that was told to and is preempted holds up nobody.
//!
//! A node gets in by one compare-and-swap and out by one swap, hence it is served exactly once. The holder gets out only by
//! a compare-and-swap that fails if there is a list, so nothing is left with nobody who knows. First left, first served: the list is
//! reversed whole, and collected only when nothing older is due; and what one thread leaves is served before that thread can
//! enter in front of it, since the word is not free until then.
//!
//! # A panic inside
//!
//! A panic while work is served takes that piece of work with it. The value is then free, or unfinished if there is more work: whoever
//! catches the panic must resume, as after [`Entry::Unfinished`]. What the panic has left of the value is for the one who serves to find out:
//! a mark in the value that is set while work is done on it says so.

use core::fmt;
use core::mem;
use core::ptr;

use crossbeam_utils::CachePadded;

use crate::primitives::{AtomicPtr, Ordering, UnsafeCell};

/// Work that can be left with whoever is inside. It travels in its box, which whoever serves it may keep or send back, so that
/// in steady state nothing is allocated.
pub struct Left<W> {
    /// The next in a list; whoever has the list, or the box, has this.
    next: UnsafeCell<*mut Left<W>>,
    /// What is to be done. If it matters who left it, this says so.
    pub work: W,
}

// SAFETY: `next` is null while the node travels in its box, and otherwise points to another node of a list that belongs, whole,
// to one thread at a time.
unsafe impl<W: Send> Send for Left<W> {}

impl<W> Left<W> {
    /// Work in a box of its own.
    pub fn new(work: W) -> Box<Left<W>> {
        Box::new(Left {
            next: UnsafeCell::new(ptr::null_mut()),
            work,
        })
    }
}

impl<W: fmt::Debug> fmt::Debug for Left<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Left").field(&self.work).finish()
    }
}

/// What became of an attempt to enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "after `Unfinished` somebody has to resume"]
pub enum Entry {
    /// The caller has been inside, and nothing is left to do.
    Served,
    /// Somebody else is inside and sees to it.
    Left,
    /// The caller has been inside, has served as much as it was allowed to, and there is more: somebody has to
    /// [resume](Delegated::resume), best of all one who left it.
    Unfinished,
}

/// A value that is entered with work, by one thread at a time, and that nobody waits for.
///
/// ```
/// use braidnet_sync::delegation::{Delegated, Entry, Left};
/// let sum = Delegated::new(0);
/// let mut spare = None;
/// let entry = sum.enter(Left::new(3), 8, |sum, left| {
///     *sum += left.work;
///     spare = Some(left);
/// });
/// assert_eq!(entry, Entry::Served);
/// assert_eq!(sum.into_inner(), 3);
/// ```
pub struct Delegated<T, W> {
    lists: Lists<W>,
    value: UnsafeCell<T>,
}

// SAFETY: a shared reference yields the value and the work to one thread at a time, which amounts to sending both.
unsafe impl<T: Send, W: Send> Sync for Delegated<T, W> {}
// SAFETY: it owns the value and, by its lists, the work.
unsafe impl<T: Send, W: Send> Send for Delegated<T, W> {}

impl<T, W> Delegated<T, W> {
    /// A free value.
    pub fn new(value: T) -> Self {
        Delegated {
            lists: Lists::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters with `work` if nobody is inside, and serves it and what others leave meanwhile: at most `bound` pieces (0 counts as
    /// 1), first left, first served. If somebody is inside, leaves `work` there.
    ///
    /// `serve` is called for each piece, with the value; it may be somebody else's that it is called for.
    #[inline]
    pub fn enter(
        &self,
        work: Box<Left<W>>,
        bound: usize,
        mut serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        if !self.lists.try_hold() {
            return self.enter_late(work, bound, serve);
        }
        let inside = Inside(self);
        inside.with(|value| serve(value, work));
        inside.finish(bound.saturating_sub(1), serve)
    }

    /// Enters if nobody is inside and no work is left, does `own`, and then serves what others leave meanwhile, as
    /// [`enter`](Self::enter) does with a bound of that many beside its own.
    ///
    /// For work that needs a box only if it must be left. [`None`] if it must: then `own` has not been called, and the work has to be
    /// brought with [`enter`](Self::enter).
    #[inline]
    pub fn try_enter<R>(
        &self,
        own: impl FnOnce(&mut T) -> R,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Option<(R, Entry)> {
        if !self.lists.try_hold() {
            return None;
        }
        let inside = Inside(self);
        let answer = inside.with(own);
        Some((answer, inside.finish(bound, serve)))
    }

    /// Goes on where an entry stopped at its bound, or was ended by a panic, for at most `bound` pieces (0 counts as 1). Harmless, and
    /// cheap, if somebody else has gone on already: then [`Entry::Left`] if that one is still inside.
    pub fn resume(&self, bound: usize, serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
        match self.lists.take_over() {
            Before::Unfinished => Inside(self).drain(bound.max(1), serve),
            Before::Held => Entry::Left,
            Before::Free => Entry::Served,
        }
    }

    #[cold]
    fn enter_late(
        &self,
        work: Box<Left<W>>,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        match self.lists.push(work) {
            Before::Held => Entry::Left,
            Before::Free | Before::Unfinished => Inside(self).drain(bound.max(1), serve),
        }
    }

    /// The value, of which the caller has the only use.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: the exclusive borrow says that nobody is inside.
            unsafe { &mut *value }
        })
    }

    /// The value. Work that nobody resumed is dropped.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default, W> Default for Delegated<T, W> {
    fn default() -> Self {
        Delegated::new(T::default())
    }
}

impl<T, W> fmt::Debug for Delegated<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.lists.word.load(Ordering::Relaxed);
        f.debug_struct("Delegated")
            .field("state", &Before::of(word))
            .finish_non_exhaustive()
    }
}

/// Being inside; it ends by `finish` or `drain`, or by a panic, which drops it.
struct Inside<'a, T, W>(&'a Delegated<T, W>);

impl<T, W> Inside<'_, T, W> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.0.value.with_mut(|value| {
            // SAFETY: whoever is inside is the only one, and this reference ends with the call, before it gets out.
            work(unsafe { &mut *value })
        })
    }

    /// Gets out, after as many pieces of others' work at most.
    #[inline(always)]
    fn finish(self, bound: usize, serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
        if self.0.lists.try_free() {
            mem::forget(self);
            return Entry::Served;
        }
        self.drain(bound, serve)
    }

    #[cold]
    fn drain(self, bound: usize, mut serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
        let lists = &self.0.lists;
        let mut served = 0;
        loop {
            if lists.is_nothing_due() {
                if lists.try_free() {
                    mem::forget(self);
                    return Entry::Served;
                }
                lists.collect();
            }
            if served == bound {
                lists.stop();
                mem::forget(self);
                return Entry::Unfinished;
            }
            if let Some(left) = lists.next_due() {
                served += 1;
                self.with(|value| serve(value, left));
            }
        }
    }
}

impl<T, W> Drop for Inside<'_, T, W> {
    #[cold]
    fn drop(&mut self) {
        let lists = &self.0.lists;
        if !(lists.is_nothing_due() && lists.try_free()) {
            lists.stop();
        }
    }
}

/// What the word said before it was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Free,
    Held,
    Unfinished,
}

impl Before {
    fn of<W>(word: *mut Left<W>) -> Before {
        match word.addr() & TAG {
            HELD => Before::Held,
            UNFINISHED => Before::Unfinished,
            _ => Before::Free,
        }
    }
}

// What lies in the low bits of the word, beside the list; a node's address leaves them free.
const HELD: usize = 1;
const UNFINISHED: usize = 2;
const TAG: usize = HELD | UNFINISHED;

/// The word and the list of what is due. "The holder" is whoever has made the word say `HELD`, until it makes it say something
/// else.
struct Lists<W> {
    /// Null if free; else a tag and, unless null, the newest node.
    word: CachePadded<AtomicPtr<Left<W>>>,
    /// The oldest node that has been collected and not served; the holder's.
    due: UnsafeCell<*mut Left<W>>,
}

impl<W> Lists<W> {
    const NODES_LEAVE_ROOM: () = assert!(align_of::<Left<W>>() > TAG);

    fn new() -> Self {
        let () = Self::NODES_LEAVE_ROOM;
        Lists {
            word: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            due: UnsafeCell::new(ptr::null_mut()),
        }
    }

    /// Free → held.
    #[inline(always)]
    fn try_hold(&self) -> bool {
        self.word
            .compare_exchange(
                ptr::null_mut(),
                ptr::without_provenance_mut(HELD),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// The holder, when nothing is due: held → free, unless something has been left.
    #[inline(always)]
    fn try_free(&self) -> bool {
        self.word
            .compare_exchange(
                ptr::without_provenance_mut(HELD),
                ptr::null_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Anything → held, with `work` in front. The caller is the holder unless there was one before.
    fn push(&self, work: Box<Left<W>>) -> Before {
        let node = Box::into_raw(work);
        self.change(|seen| {
            // SAFETY: the node came out of a box, and is in no list until the change is made.
            let next = unsafe { &(*node).next };
            next.with_mut(|next| {
                // SAFETY: as above: nobody else refers to the node.
                unsafe { *next = seen.map_addr(|word| word & !TAG) }
            });
            Some(node.map_addr(|node| node | HELD))
        })
    }

    /// Unfinished → held. The caller is the holder if that is what it was before.
    fn take_over(&self) -> Before {
        self.change(|seen| {
            (Before::of(seen) == Before::Unfinished)
                .then(|| seen.map_addr(|word| (word & !TAG) | HELD))
        })
    }

    /// The holder: held → unfinished.
    fn stop(&self) {
        self.change(|seen| Some(seen.map_addr(|word| (word & !TAG) | UNFINISHED)));
    }

    /// Changes the word to what `next` makes of it, unless that is nothing, and answers what it was. Acquire and release: leaving work
    /// and stopping need the one, taking over needs the other, and all of this is off the path where nobody meets.
    fn change(&self, mut next: impl FnMut(*mut Left<W>) -> Option<*mut Left<W>>) -> Before {
        let mut seen = self.word.load(Ordering::Relaxed);
        while let Some(next) = next(seen) {
            match self
                .word
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(changed) => seen = changed,
            }
        }
        Before::of(seen)
    }

    /// The holder: whether all that was collected has been served.
    fn is_nothing_due(&self) -> bool {
        self.due.with_mut(|due| {
            // SAFETY: the holder's alone.
            unsafe { *due }.is_null()
        })
    }

    /// The holder, when nothing is due: what has been left is due, oldest first.
    fn collect(&self) {
        let held = ptr::without_provenance_mut(HELD);
        let newest_first = self.word.swap(held, Ordering::Acquire);
        // SAFETY: whoever takes the list has all of it, and nodes are alive until they are served.
        let oldest_first = unsafe { reverse(newest_first.map_addr(|word| word & !TAG)) };
        self.due.with_mut(|due| {
            // SAFETY: the holder's alone.
            unsafe { *due = oldest_first }
        });
    }

    /// The holder: the oldest of what is due, and the next one is the oldest.
    fn next_due(&self) -> Option<Box<Left<W>>> {
        self.due.with_mut(|due| {
            // SAFETY: the holder's alone, for as long as it holds, which is longer than this call.
            let due = unsafe { &mut *due };
            let node = *due;
            if node.is_null() {
                return None;
            }
            // SAFETY: the first of what is due, which is the holder's.
            *due = unsafe { exchange_next(node, ptr::null_mut()) };
            // SAFETY: it came out of a box when it was left, and now is in no list.
            Some(unsafe { Box::from_raw(node) })
        })
    }
}

/// The same nodes, the last one first.
///
/// # Safety
///
/// The list must be the caller's, and all in it alive.
unsafe fn reverse<W>(mut list: *mut Left<W>) -> *mut Left<W> {
    let mut reversed = ptr::null_mut();
    while !list.is_null() {
        // SAFETY: a node of the list.
        let next = unsafe { exchange_next(list, reversed) };
        reversed = list;
        list = next;
    }
    reversed
}

/// What follows `node`, after which `next` follows it.
///
/// # Safety
///
/// The node must be alive, and in a list of the caller's.
unsafe fn exchange_next<W>(node: *mut Left<W>, next: *mut Left<W>) -> *mut Left<W> {
    // SAFETY: the caller's node, and alive.
    let field = unsafe { &(*node).next };
    field.with_mut(|field| {
        // SAFETY: whoever has the list is the only one to look at it.
        unsafe { ptr::replace(field, next) }
    })
}

impl<W> Drop for Lists<W> {
    fn drop(&mut self) {
        // Nobody is inside any more, so whoever drops this holds it: first what is due, then what was left after that.
        while let Some(left) = self.next_due() {
            drop(left);
        }
        self.collect();
        while let Some(left) = self.next_due() {
            drop(left);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    type Log = Delegated<Vec<u32>, u32>;

    #[expect(clippy::boxed_local, reason = "work comes in its box")]
    fn log(log: &mut Vec<u32>, left: Box<Left<u32>>) {
        log.push(left.work);
    }

    /// Enters with the first, and leaves the others from inside.
    fn enter_and_leave(value: &Log, works: &[u32], bound: usize) -> Entry {
        value.enter(Left::new(works[0]), bound, |log, left| {
            if log.is_empty() {
                for &work in &works[1..] {
                    assert_eq!(
                        value.enter(Left::new(work), 1, |_, _| panic!("held")),
                        Entry::Left
                    );
                }
                assert!(value.try_enter(|_| (), 1, |_, _| ()).is_none());
                assert_eq!(value.resume(1, |_, _| panic!("held")), Entry::Left);
            }
            log.push(left.work);
        })
    }

    #[test]
    fn first_left_is_first_served_up_to_the_bound() {
        for (bound, served, entry) in [
            (0, 1, Entry::Unfinished),
            (1, 1, Entry::Unfinished),
            (3, 3, Entry::Unfinished),
            (4, 4, Entry::Served),
            (9, 4, Entry::Served),
        ] {
            let value = Log::default();
            assert_eq!(enter_and_leave(&value, &[1, 2, 3, 4], bound), entry);
            assert_eq!(value.into_inner(), &[1, 2, 3, 4][..served], "{bound}");
        }
    }

    #[test]
    fn what_was_left_behind_is_resumed_in_order() {
        let value = Log::default();
        assert_eq!(enter_and_leave(&value, &[1, 2, 3, 4], 1), Entry::Unfinished);
        assert!(value.try_enter(|_| (), 9, log).is_none());
        assert_eq!(value.resume(0, log), Entry::Unfinished);
        assert_eq!(value.resume(1, log), Entry::Unfinished);
        assert_eq!(value.resume(1, log), Entry::Served);
        assert_eq!(value.resume(1, log), Entry::Served);
        assert_eq!(value.into_inner(), [1, 2, 3, 4]);
    }

    #[test]
    fn who_enters_takes_over_behind_what_was_left() {
        let value = Log::default();
        assert_eq!(enter_and_leave(&value, &[1, 2, 3], 1), Entry::Unfinished);
        assert_eq!(value.enter(Left::new(4), 2, log), Entry::Unfinished);
        assert_eq!(value.enter(Left::new(5), 9, log), Entry::Served);
        assert_eq!(value.into_inner(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn work_without_a_box_is_served_before_what_is_left_meanwhile() {
        let mut value = Log::default();
        let (answer, entry) = value
            .try_enter(
                |log| {
                    let entry = value.enter(Left::new(2), 1, |_, _| panic!("held"));
                    log.push(1);
                    entry
                },
                1,
                log,
            )
            .unwrap();
        assert_eq!((answer, entry), (Entry::Left, Entry::Served));
        assert_eq!(value.get_mut(), &[1, 2]);
    }

    #[test]
    fn a_panic_loses_no_other_work() {
        let value = Log::default();
        // With work collected, with work left, and with none.
        for (works, panics) in [(&[1, 2, 3][..], 2), (&[1, 2], 1), (&[1], 1)] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut first = true;
                value.enter(Left::new(works[0]), 9, |log, left| {
                    if mem::take(&mut first) {
                        for &work in &works[1..] {
                            assert_eq!(value.enter(Left::new(work), 1, |_, _| ()), Entry::Left);
                        }
                    }
                    assert_ne!(left.work, panics, "planted");
                    log.push(left.work);
                })
            }));
            assert!(outcome.is_err());
            let entry = value.resume(9, |log, left| log.push(left.work));
            assert_eq!(entry, Entry::Served);
        }
        assert_eq!(value.into_inner(), [1, 3, 2]);
    }

    #[test]
    fn work_that_nobody_resumed_is_dropped_with_the_value() {
        let counted = Arc::new(());
        let value = Delegated::new(());
        let entry = value.enter(Left::new(Arc::clone(&counted)), 2, |(), _| {
            for _ in 0..3 {
                let left = Left::new(Arc::clone(&counted));
                assert_eq!(value.enter(left, 1, |_, _| ()), Entry::Left);
            }
        });
        assert_eq!(entry, Entry::Unfinished);
        assert!(format!("{value:?}").contains("Unfinished"));
        // The second was served, and left one more than the third, the fourth and its own three.
        assert_eq!(Arc::strong_count(&counted), 6);
        drop(value);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn threads_lose_nothing_and_keep_each_leavers_order() {
        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 20_000 };
        const THREADS: u32 = 4;
        for bound in [1, 3, 1_000] {
            let value = Delegated::<[u32; THREADS as usize], (u32, u32)>::default();
            let serve = |next: &mut [u32; THREADS as usize], left: Box<Left<(u32, u32)>>| {
                let (leaver, work) = left.work;
                assert_eq!(next[leaver as usize], work);
                next[leaver as usize] += 1;
            };
            std::thread::scope(|scope| {
                for leaver in 0..THREADS {
                    let value = &value;
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let entry = value.enter(Left::new((leaver, round)), bound, serve);
                            if entry == Entry::Unfinished && round % 2 == 0 {
                                let _ = value.resume(bound, serve);
                            }
                        }
                    });
                }
            });
            while value.resume(bound, serve) != Entry::Served {}
            assert_eq!(value.into_inner(), [ROUNDS; THREADS as usize]);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Delegated, Entry, Left};
    use crate::primitives::{Arc, thread};

    /// What was served: who left it, and which of that one's it was.
    type Log = Delegated<Vec<(usize, usize)>, (usize, usize)>;

    #[expect(clippy::boxed_local, reason = "work comes in its box")]
    fn log(log: &mut Vec<(usize, usize)>, left: Box<Left<(usize, usize)>>) {
        log.push(left.work);
    }

    /// As many threads as `works` says enter so often each. loom's cells fail if two are inside at once, or
    /// one does not see what the last one did; what was served must be all, once, and in each one's order. Answers whether an entry
    /// stopped at its bound.
    fn serves(works: &'static [usize], bound: usize, resume_at_once: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(if works.len() > 2 { 2 } else { 4 });
        builder.check(move || {
            let shared = Arc::new(Log::default());
            let enter = move |shared: &Log, leaver: usize| {
                let mut unfinished = false;
                for work in 0..works[leaver] {
                    match shared.enter(Left::new((leaver, work)), bound, log) {
                        Entry::Served => unfinished = false,
                        Entry::Left => (),
                        Entry::Unfinished => unfinished = true,
                    }
                }
                if unfinished && resume_at_once {
                    while shared.resume(bound, log) == Entry::Unfinished {}
                }
                unfinished && !resume_at_once
            };
            let others: Vec<_> = (1..works.len())
                .map(|leaver| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || enter(&shared, leaver))
                })
                .collect();
            let mut unfinished = enter(&shared, 0);
            for other in others {
                unfinished |= other.join().unwrap();
            }
            // Only who was told that something is left has to come back.
            if unfinished {
                while shared.resume(bound, log) == Entry::Unfinished {}
            }
            let mut log = Arc::try_unwrap(shared).unwrap().into_inner();
            log.sort_by_key(|&(leaver, _)| leaver);
            let all = works
                .iter()
                .enumerate()
                .flat_map(|(leaver, &works)| (0..works).map(move |work| (leaver, work)));
            assert!(log.into_iter().eq(all));
        });
    }

    #[test]
    fn two_threads_lose_nothing_and_keep_order() {
        serves(&[2, 2], 8, false);
    }

    #[test]
    fn three_threads_lose_nothing_and_keep_order() {
        serves(&[1, 1, 2], 8, false);
    }

    #[test]
    fn work_beyond_the_bound_is_resumed_by_another() {
        serves(&[2, 2], 1, false);
        serves(&[1, 1, 1], 1, false);
    }

    #[test]
    fn work_beyond_the_bound_is_resumed_while_others_enter() {
        serves(&[1, 3], 1, true);
        serves(&[1, 1, 1], 1, true);
    }

    #[test]
    fn work_without_a_box_excludes_the_rest() {
        loom::model(|| {
            let shared = Arc::new(Log::default());
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    assert_ne!(shared.enter(Left::new((0, 0)), 8, log), Entry::Unfinished);
                })
            };
            let own = shared.try_enter(|log| log.push((1, 0)), 8, log);
            other.join().unwrap();
            let entries = Arc::try_unwrap(shared).unwrap().into_inner().len();
            assert_eq!(entries, 1 + usize::from(own.is_some()));
        });
    }
}
