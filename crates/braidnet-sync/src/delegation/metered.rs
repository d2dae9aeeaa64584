//! What an entry costs, counted and timed as the acquisition of a lock is (see [`set_metering`](crate::lock::set_metering)).
//!
//! Whether anybody wants to know is asked once, when an entry begins; from there on it goes another way, out of line. Of the entries
//! that are counted one in N is timed: from asking to being inside, or to having left its work; and from being inside to being out.
//! What it leaves carries the time of that, and whoever serves it counts for how long it has lain there.

use super::meter::Meter;
use super::{Delegated, Entry, Inside, Left};
use crate::lock::blocks::{Cells, own_entries, own_served};
use crate::lock::meter::{self, since};

/// On work that was left by somebody who was counted and not timed.
const COUNTED: u64 = 1;

/// Whether anybody wants to know.
#[inline(always)]
pub(super) fn is_on() -> bool {
    meter::mode().is_some()
}

/// An entry that is counted, unless the thread is being torn down.
struct Metered {
    cells: Option<&'static Cells>,
    /// When it began, if it is timed.
    asked: Option<u64>,
}

/// An entry that is inside.
struct Stay {
    cells: Option<&'static Cells>,
    /// Since when, if it is timed.
    since: Option<u64>,
}

impl Meter for Metered {
    type Stay = Stay;

    fn asks() -> Metered {
        let counting = meter::mode().zip(own_entries());
        Metered {
            cells: counting.map(|(_, cells)| cells),
            asked: counting.and_then(|(mode, cells)| meter::asked(mode, cells)),
        }
    }

    fn note(&self) -> u64 {
        match (self.cells, self.asked) {
            (None, _) => 0,
            (Some(_), None) => COUNTED,
            (Some(_), Some(asked)) => asked.max(COUNTED + 1),
        }
    }

    fn leaves(self) {
        if let Some(cells) = self.cells {
            cells.count(true, self.asked.map(since));
        }
    }

    fn stays(self) -> Stay {
        if let Some(cells) = self.cells {
            cells.count(false, self.asked.map(since));
        }
        Stay {
            cells: self.cells,
            since: self.asked.map(|_| meter::now()),
        }
    }

    fn serves(note: u64) {
        if note != 0
            && let Some(cells) = own_served()
        {
            cells.count(false, (note != COUNTED).then(|| since(note)));
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some((cells, began)) = self.cells.zip(self.since) {
            cells.count_hold(since(began));
        }
    }
}

impl<T, W> Delegated<T, W> {
    #[cold]
    #[inline(never)]
    pub(super) fn enter_metered(
        &self,
        work: Box<Left<W>>,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        self.enter_by::<Metered>(work, bound, serve)
    }
}

impl<T, W> Inside<'_, T, W> {
    #[cold]
    #[inline(never)]
    pub(super) fn try_metered<R>(
        self,
        own: impl FnOnce(&mut T) -> R,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> (R, Entry) {
        self.begin::<Metered, R>(own, bound, serve)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn go_on_metered(
        self,
        bound: usize,
        serve: impl FnMut(&mut T, Box<Left<W>>),
    ) -> Entry {
        self.go_on(Metered::asks(), bound, serve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delegation::DelegationCounts;
    use crate::lock::meter::tests::{dawdle, metered, reading};
    use crate::lock::{LockSnapshot, Metering};
    use core::num::NonZeroU32;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    type Value = Delegated<(), u32>;

    const ALL: Metering = Metering::Timed {
        one_in: NonZeroU32::MIN,
    };

    /// What a piece of work of so many does, the last one being 0: leaves the one below it, and takes its time.
    fn leave_next(value: &Value, left: &Left<u32>, took: &mut u64) {
        if left.work > 0 {
            let entry = value.enter(Left::new(left.work - 1), 1, |(), _| panic!("held"));
            assert_eq!(entry, Entry::Left);
        }
        *took += dawdle();
    }

    /// What `work` counts on this thread.
    fn counted(metering: Metering, work: impl FnOnce()) -> DelegationCounts {
        metered(metering, || {
            let before = LockSnapshot::thread();
            work();
            (LockSnapshot::thread() - before).delegation()
        })
    }

    #[test]
    fn entries_and_what_they_leave_are_counted_while_that_is_on() {
        let value = Value::new(());
        let mut took = 0;
        let enter = |bound, took: &mut u64| {
            value.enter(Left::new(3), bound, |(), left| {
                leave_next(&value, &left, took);
            })
        };
        let none = counted(Metering::Off, || {
            assert_eq!(enter(2, &mut took), Entry::Unfinished);
        });
        assert_eq!(none, DelegationCounts::default());
        let counts = counted(Metering::Counts, || {
            // One piece is there that was left by somebody who was not counted, and it leaves the last.
            assert!(value.try_enter(|()| (), 1, |(), _| ()).is_none());
            let entry = value.resume(9, |(), left| leave_next(&value, &left, &mut took));
            assert_eq!(entry, Entry::Served);
            assert_eq!(value.resume(9, |(), _| ()), Entry::Served);
            assert_eq!(enter(9, &mut took), Entry::Served);
            assert!(value.try_enter(|()| (), 1, |(), _| ()).is_some());
        });
        assert_eq!(
            counts,
            DelegationCounts {
                entries: 1 + 1 + 1 + 3 + 1,
                left: 1 + 3,
                served: 1 + 3,
                ..DelegationCounts::default()
            }
        );
        assert_eq!((counts.inside_nanos(), counts.deferred_nanos()), (0, 0));
    }

    #[test]
    fn being_inside_and_being_left_take_their_time() {
        let value = Value::new(());
        let mut took = 0;
        let counts = counted(ALL, || {
            let entry = value.enter(Left::new(2), 9, |(), left| {
                leave_next(&value, &left, &mut took);
            });
            assert_eq!(entry, Entry::Served);
        });
        assert_eq!((counts.entries, counts.left, counts.timed), (3, 2, 3));
        assert_eq!((counts.served, counts.served_timed), (2, 2));
        assert!(counts.inside_nanos() + reading() >= took);
        // Each was left right before its leaver dawdled, for ten microseconds or more.
        assert!(counts.deferred_nanos() + 2 * reading() >= 20_000);
        assert!(counts.deferred_nanos() <= counts.inside_nanos());
    }

    #[test]
    fn who_takes_over_has_left_nothing() {
        let value = Value::new(());
        let mut took = 0;
        let counts = counted(ALL, || {
            let mut enter = |work| {
                value.enter(Left::new(work), 1, |(), left| {
                    leave_next(&value, &left, &mut took);
                })
            };
            assert_eq!(enter(1), Entry::Unfinished);
            assert_eq!(enter(0), Entry::Unfinished);
            assert_eq!(enter(0), Entry::Unfinished);
            let entry = value.resume(9, |(), left| assert_eq!(left.work, 0));
            assert_eq!(entry, Entry::Served);
        });
        assert_eq!((counts.entries, counts.left, counts.served), (5, 1, 1));
    }

    #[test]
    fn a_panic_inside_is_counted_with_its_time() {
        let value = Value::new(());
        let mut took = 0;
        let counts = counted(ALL, || {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                value.enter(Left::new(0), 9, |(), _| {
                    took = dawdle();
                    panic!("planted");
                })
            }));
            assert!(outcome.is_err());
        });
        assert_eq!((counts.entries, counts.timed), (1, 1));
        assert!(counts.inside_nanos() + reading() >= took);
    }
}
