//! Panics while something is seen to that others have left.

use crate::{BAD, BUCKET, INSIDE, SOON_MS, Two};

#[test]
fn what_was_left_with_who_panics_may_panic_as_well() {
    for two in [Two::delegated(), Two::leased()] {
        if two.is_leased() {
            two.share();
            two.one.turn(0, 0);
        }
        let other = two.other.clone();
        // The first is found where the panic before it is seen to.
        two.meanwhile(move || {
            for position in [BAD, BAD, 1, BAD, 2, 3, 4, 5, BAD, 6] {
                assert_eq!(other.send(0, position), []);
            }
        });
        two.one.put(INSIDE);
        let mut taken = two.one.send(0, BAD);
        taken.extend(two.one.turn(0, usize::MAX));
        let seen = Vec::from_iter(two.seen().into_iter().filter(|seen| *seen != BAD));
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
        assert_eq!(taken, seen);
    }
}

#[test]
fn a_panic_takes_no_deadline_with_it_that_a_guest_had() {
    let two = Two::leased_to_two();
    two.share();
    two.one.turn(0, 0);
    for bucket in [BUCKET, BUCKET + 1] {
        two.other.put_in(bucket, 1);
        two.other.turn(0, usize::MAX);
    }
    two.other.leaves(0);
    // At home, which sets the deadlines of both buckets again: the first is due.
    two.meanwhile(|| panic!("planted"));
    two.one.turn(2 * SOON_MS, 0);
    two.one.turn(3 * SOON_MS, 0);
    assert_eq!(two.expired(), 2);
}
