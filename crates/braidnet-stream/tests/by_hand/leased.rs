//! At the borders of a lease.

use crate::{INSIDE, SOON_MS, Two, lock};

#[test]
fn what_a_guest_has_left_to_be_carried_leaves_before_what_its_home_sends_alone() {
    let two = Two::leased();
    two.share();
    // The device has no room: the home stays the drainer.
    two.one.put(1);
    assert_eq!(two.one.turn(0, 0), []);
    assert_eq!(two.other.send(0, 2), []);
    two.other.leaves(0);
    let mut taken = two.one.send(0, 3);
    taken.extend(two.one.turn(0, usize::MAX));
    assert_eq!(taken, [1, 2, 3]);
}

#[test]
fn what_a_guest_has_left_undone_is_done_before_what_its_home_brings_alone() {
    let two = Two::leased();
    two.share();
    two.one.turn(0, 0);
    // More than the home does of it at a stretch.
    let guest = two.other.clone();
    two.meanwhile(move || {
        for position in 1..=12 {
            assert_eq!(guest.send(0, position), []);
        }
        guest.leaves(0);
    });
    let mut taken = two.one.send(0, INSIDE);
    taken.extend(two.one.send(0, 13));
    assert_eq!(two.seen(), Vec::from_iter(1..=13));
    assert_eq!(taken[1..], two.seen());
}

#[test]
fn time_does_not_go_back_where_a_slower_processor_enters_after_a_border() {
    for guest_is_first in [true, false] {
        let two = Two::leased();
        if guest_is_first {
            two.share();
            two.other.send(100, 1);
            two.other.leaves(0);
            two.one.send(95, 2);
        } else {
            two.one.send(100, 1);
            two.share();
            two.other.send(95, 2);
        }
        let seen = lock(&two.seen).clone();
        assert!(seen.is_sorted_by_key(|(_, at)| *at), "{seen:?}");
        assert_eq!(two.seen(), [1, 2]);
    }
}

#[test]
fn a_guest_that_is_back_before_its_home_looked_takes_no_deadline_with_it() {
    let two = Two::leased();
    two.share();
    two.one.turn(0, 0);
    two.other.send(0, 1);
    two.other.leaves(0);
    // Its wheel's entry fires in vain.
    two.other.turn(2 * SOON_MS, 0);
    two.share();
    for ms in [3 * SOON_MS, 4 * SOON_MS] {
        two.one.turn(ms, 0);
        two.other.turn(ms, 0);
    }
    assert_eq!(two.expired(), 1);
}

#[test]
fn a_guest_that_leaves_takes_no_deadline_with_it() {
    let two = Two::leased();
    two.share();
    two.one.turn(0, 0);
    two.other.send(0, 1);
    two.other.leaves(0);
    two.one.turn(1, 0);
    two.one.turn(2 * SOON_MS, 0);
    assert_eq!(two.expired(), 1);
}
