//! Entries in every order, under loom.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::meter::Meter;
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

/// Notes found on what was served; no part of the model.
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Leaves a note on what it leaves.
struct Noting;

impl Meter for Noting {
    type Stay = ();

    fn asks() -> Noting {
        Noting
    }

    fn note(&self) -> u64 {
        7
    }

    fn leaves(self) {}

    fn stays(self) {}

    fn serves(note: u64) {
        if note == 7 {
            FOUND.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn a_note_arrives_with_the_work_that_was_left() {
    loom::model(|| {
        FOUND.store(0, Relaxed);
        let shared = Arc::new(Log::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.enter_by::<Noting>(Left::new((0, 0)), 8, log))
        };
        let own = shared.enter_by::<Noting>(Left::new((1, 0)), 8, log);
        let entries = [own, other.join().unwrap()];
        // Who takes over finds none on its own.
        let left = entries.iter().filter(|&&entry| entry == Entry::Left);
        assert_eq!(FOUND.load(Relaxed), left.count());
        assert_eq!(Arc::try_unwrap(shared).unwrap().into_inner().len(), 2);
    });
}
