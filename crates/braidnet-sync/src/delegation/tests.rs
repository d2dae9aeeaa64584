//! Entries on one thread, and on many.

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
