//! Boxes for work that is left go from who brings to who serves; they do not pile up with either.

use crate::{INSIDE, Two, lock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which keeps account of what each thread has taken and not given back.
struct Accounting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    HELD.set(HELD.get() + bytes);
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Accounting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

/// One leaves three pieces with the other, and then is inside itself with one, or not; what is held, in bytes, after so many rounds.
fn held_after(two: &Two, rounds: u64, serves_itself: bool) -> isize {
    for _ in 0..rounds {
        let leaver = two.other.clone();
        two.meanwhile(move || {
            for position in 1..=3 {
                leaver.send(0, position);
            }
        });
        two.one.send(0, INSIDE);
        two.one.turn(0, usize::MAX);
        if serves_itself {
            two.other.send(0, 4);
        }
        lock(&two.seen).clear();
    }
    HELD.get()
}

#[test]
fn boxes_do_not_pile_up_where_one_leaves_and_another_serves() {
    for serves_itself in [true, false] {
        let two = Two::delegated();
        let full = held_after(&two, 500, serves_itself);
        assert_eq!(held_after(&two, 5_000, serves_itself), full);
    }
}
