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

use crate::primitives::UnsafeCell;
use lists::{Before, Lists};
use meter::{Meter, Off};

#[cfg(not(loom))]
pub(crate) mod counts;
mod lists;
mod meter;
#[cfg(not(loom))]
mod metered;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use counts::DelegationCounts;
pub use lists::Left;

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
/// What entries cost is [counted](DelegationCounts) where locks are [metered](crate::lock::set_metering); elsewhere it is a predicted
/// branch.
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
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        #[cfg(not(loom))]
        if metered::is_on() {
            return self.enter_metered(work, bound, serve);
        }
        self.enter_by::<Off>(work, bound, serve)
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
        #[cfg(not(loom))]
        if metered::is_on() {
            return Some(inside.try_metered(own, bound, serve));
        }
        Some(inside.begin::<Off, R>(own, bound, serve))
    }

    /// Goes on where an entry stopped at its bound, or was ended by a panic, for at most `bound` pieces (0 counts as 1). Harmless, and
    /// cheap, if somebody else has gone on already: then [`Entry::Left`] if that one is still inside.
    pub fn resume(&self, bound: usize, serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
        match self.lists.take_over() {
            Before::Unfinished => {
                let inside = Inside(self);
                #[cfg(not(loom))]
                if metered::is_on() {
                    return inside.go_on_metered(bound, serve);
                }
                inside.go_on(Off, bound, serve)
            }
            Before::Held => Entry::Left,
            Before::Free => Entry::Served,
        }
    }

    #[inline(always)]
    fn enter_by<M: Meter>(
        &self,
        work: Box<Left<W>>,
        bound: usize,
        mut serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        let meter = M::asks();
        if !self.lists.try_hold() {
            return self.enter_late(meter, work, bound, serve);
        }
        let _stay = meter.stays();
        let inside = Inside(self);
        inside.with(|value| serve(value, work));
        inside.finish::<M>(bound.saturating_sub(1), serve)
    }

    #[cold]
    fn enter_late<M: Meter>(
        &self,
        meter: M,
        work: Box<Left<W>>,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        match self.lists.push(work, meter.note()) {
            Before::Held => {
                meter.leaves();
                Entry::Left
            }
            Before::Free | Before::Unfinished => Inside(self).go_on(meter, bound, serve),
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
        f.debug_struct("Delegated")
            .field("state", &self.lists.state())
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

    /// Does `own`, and gets out after as many pieces of others' work at most.
    #[inline(always)]
    fn begin<M: Meter, R>(
        self,
        own: impl FnOnce(&mut T) -> R,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> (R, Entry) {
        let _stay = M::asks().stays();
        let answer = self.with(own);
        (answer, self.finish::<M>(bound, serve))
    }

    /// Does what is there, at most as many pieces and at least one.
    #[inline(always)]
    fn go_on<M: Meter>(
        self,
        meter: M,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        let _stay = meter.stays();
        self.drain::<M>(bound.max(1), serve)
    }

    /// Gets out, after as many pieces of others' work at most.
    #[inline(always)]
    fn finish<M: Meter>(self, bound: usize, serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
        if self.0.lists.try_free() {
            mem::forget(self);
            return Entry::Served;
        }
        self.drain::<M>(bound, serve)
    }

    #[cold]
    fn drain<M: Meter>(self, bound: usize, mut serve: impl FnMut(&mut T, Box<Left<W>>)) -> Entry {
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
            if let Some(mut left) = lists.next_due() {
                served += 1;
                M::serves(left.note());
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
