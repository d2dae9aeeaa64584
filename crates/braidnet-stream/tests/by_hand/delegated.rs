//! What is left with whoever is inside.

use crate::{INSIDE, SOON_MS, Two};

/// One sends more than is done for it at a stretch while the other is inside, and goes on sending before all of it is done.
#[test]
fn what_one_processor_sends_keeps_its_order() {
    for two in [Two::delegated(), Two::leased()] {
        if two.is_leased() {
            two.share();
            two.one.turn(0, 0);
        }
        let sender = two.one.clone();
        two.meanwhile(move || {
            for position in 1..=12 {
                sender.send(0, position);
            }
        });
        two.other.send(0, INSIDE);
        for position in 13..=20 {
            two.one.send(0, position);
        }
        for _ in 0..5 {
            two.one.turn(0, usize::MAX);
            two.other.turn(0, usize::MAX);
        }
        assert_eq!(two.seen(), Vec::from_iter(1..=20));
    }
}

/// The entry in the wheel of who leaves it has fired; whoever is inside began before the time that it fired for.
#[test]
fn an_expiry_left_with_whoever_began_before_it_comes_all_the_same() {
    let two = Two::delegated();
    two.other.send(0, 1);
    let other = two.other.clone();
    two.meanwhile(move || {
        other.turn(2 * SOON_MS, 0);
    });
    two.one.send(SOON_MS - 1, INSIDE);
    assert_eq!(two.expired(), 0);
    two.one.turn(3 * SOON_MS, 0);
    two.other.turn(3 * SOON_MS, 0);
    assert_eq!(two.expired(), 1);
}
