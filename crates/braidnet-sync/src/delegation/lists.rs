//! The word, what has been left, and what of it is due.

use core::fmt;
use core::mem;
use core::ptr;

use crossbeam_utils::CachePadded;

use crate::primitives::{AtomicPtr, Ordering, UnsafeCell};

/// Work that can be left with whoever is inside. It travels in its box, which whoever serves it may keep or send back, so that
/// in steady state nothing is allocated.
pub struct Left<W> {
    /// Its place in a list; whoever has the list, or the box, has this.
    link: UnsafeCell<Link<W>>,
    /// What is to be done. If it matters who left it, this says so.
    pub work: W,
}

struct Link<W> {
    next: *mut Left<W>,
    /// What whoever left it has noted, for the one that takes it out.
    note: u64,
}

// SAFETY: `next` is null while the node travels in its box, and otherwise points to another node of a list that belongs, whole,
// to one thread at a time.
unsafe impl<W: Send> Send for Left<W> {}

impl<W> Left<W> {
    /// Work in a box of its own.
    pub fn new(work: W) -> Box<Left<W>> {
        Box::new(Left {
            link: UnsafeCell::new(Link {
                next: ptr::null_mut(),
                note: 0,
            }),
            work,
        })
    }

    /// What was noted when it was last left; 0 if somebody brought it inside himself.
    pub(super) fn note(&mut self) -> u64 {
        self.link.with_mut(|link| {
            // SAFETY: the exclusive borrow says that it is in no list, and nobody else refers to it.
            unsafe { (*link).note }
        })
    }
}

impl<W: fmt::Debug> fmt::Debug for Left<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Left").field(&self.work).finish()
    }
}

/// What the word said before it was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Before {
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
pub(super) struct Lists<W> {
    /// Null if free; else a tag and, unless null, the newest node.
    word: CachePadded<AtomicPtr<Left<W>>>,
    /// The oldest node that has been collected and not served; the holder's.
    due: UnsafeCell<*mut Left<W>>,
}

impl<W> Lists<W> {
    const NODES_LEAVE_ROOM: () = assert!(align_of::<Left<W>>() > TAG);

    pub(super) fn new() -> Self {
        let () = Self::NODES_LEAVE_ROOM;
        Lists {
            word: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            due: UnsafeCell::new(ptr::null_mut()),
        }
    }

    /// What the word says just now.
    pub(super) fn state(&self) -> Before {
        Before::of(self.word.load(Ordering::Relaxed))
    }

    /// Free → held.
    #[inline(always)]
    pub(super) fn try_hold(&self) -> bool {
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
    pub(super) fn try_free(&self) -> bool {
        self.word
            .compare_exchange(
                ptr::without_provenance_mut(HELD),
                ptr::null_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Anything → held, with `work` in front. The caller is the holder unless there was one before, who then finds `note` on it.
    pub(super) fn push(&self, work: Box<Left<W>>, note: u64) -> Before {
        let node = Box::into_raw(work);
        self.change(|seen| {
            let left = Link {
                next: seen.map_addr(|word| word & !TAG),
                note: if Before::of(seen) == Before::Held {
                    note
                } else {
                    0
                },
            };
            // SAFETY: the node came out of a box, and is in no list until the change is made.
            let link = unsafe { &(*node).link };
            link.with_mut(|link| {
                // SAFETY: as above: nobody else refers to the node.
                unsafe { *link = left }
            });
            Some(node.map_addr(|node| node | HELD))
        })
    }

    /// Unfinished → held. The caller is the holder if that is what it was before.
    pub(super) fn take_over(&self) -> Before {
        self.change(|seen| {
            (Before::of(seen) == Before::Unfinished)
                .then(|| seen.map_addr(|word| (word & !TAG) | HELD))
        })
    }

    /// The holder: held → unfinished.
    pub(super) fn stop(&self) {
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
    pub(super) fn is_nothing_due(&self) -> bool {
        self.due.with_mut(|due| {
            // SAFETY: the holder's alone.
            unsafe { *due }.is_null()
        })
    }

    /// The holder, when nothing is due: what has been left is due, oldest first.
    pub(super) fn collect(&self) {
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
    pub(super) fn next_due(&self) -> Option<Box<Left<W>>> {
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
    let link = unsafe { &(*node).link };
    link.with_mut(|link| {
        // SAFETY: whoever has the list is the only one to look at it.
        let link = unsafe { &mut *link };
        mem::replace(&mut link.next, next)
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
