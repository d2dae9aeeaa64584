//! Real threads, more of them than processors, against every primitive that threads share.
//!
//! Each test is bounded by its work, not by time, and would hang or miscount if a wake-up or an item were lost.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};

use braidnet_sync::baton::Baton;
use braidnet_sync::gate::Gate;
use braidnet_sync::group::{Member, Placement, ThreadGroup, allowed_processors};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::parker::Parker;
use braidnet_sync::ring::{mpsc, spsc};

/// Sixteen threads on however few processors: nothing is lost, and the end comes.
#[test]
fn locks_count_right_when_oversubscribed() {
    const THREADS: u64 = 16;
    const ROUNDS: u64 = 3_000;
    for kind in LockKind::all() {
        // Two words that are only equal outside: a second thread inside would see them differ.
        let lock = Lock::new(kind, LockClass::Connection, (0_u64, 0_u64));
        let gate = Gate::new();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (lock, gate) = (&lock, &gate);
                scope.spawn(move || {
                    assert!(gate.wait());
                    for round in 0..ROUNDS {
                        let add = |value: &mut (u64, u64)| {
                            assert_eq!(value.0, value.1, "{kind}");
                            value.0 += 1;
                            std::hint::black_box(&mut *value);
                            // Some give their processor away inside, so that waiters find the holder gone.
                            if (thread + round).is_multiple_of(64) {
                                std::thread::yield_now();
                            }
                            value.1 += 1;
                        };
                        if !round.is_multiple_of(7) || lock.try_with(add).is_none() {
                            lock.with(add);
                        }
                    }
                });
            }
            gate.open();
        });
        assert_eq!(
            lock.into_inner(),
            (THREADS * ROUNDS, THREADS * ROUNDS),
            "{kind}"
        );
    }
}

/// Items in runs of changing length, through a small ring, with sleeping on both sides.
#[test]
fn spsc_keeps_order_while_both_sides_sleep() {
    const ITEMS: u64 = 200_000;
    let (mut producer, mut consumer) = spsc::ring(64);
    let (mut filled, mut emptied) = (Parker::new(), Parker::new());
    let (fill, empty) = (filled.unparker(), emptied.unparker());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut items = (0..ITEMS).peekable();
            let mut length = 1;
            while items.peek().is_some() {
                let pushed = producer.push_iter(&mut items.by_ref().take(length));
                length = length % 97 + 1;
                fill.unpark();
                if pushed == 0 {
                    let announced = emptied.announce();
                    if producer.room_for(1) == 0 {
                        announced.park();
                    }
                }
            }
        });
        let mut items = Vec::new();
        let mut next = 0;
        while next < ITEMS {
            if consumer.pop_into(&mut items, 50) == 0 {
                let announced = filled.announce();
                if consumer.is_empty() {
                    announced.park();
                }
                continue;
            }
            empty.unpark();
            for item in items.drain(..) {
                assert_eq!(item, next);
                next += 1;
            }
        }
        assert!(consumer.pop().is_none());
    });
}

/// Four producers, one consumer that sleeps when there is nothing: each producer's items in order, none lost or doubled.
#[test]
fn mpsc_keeps_each_producers_order() {
    const PRODUCERS: usize = 4;
    const ITEMS: u64 = 50_000;
    let (producer, mut consumer) = mpsc::ring(32);
    let mut parker = Parker::with_event().unwrap();
    std::thread::scope(|scope| {
        for from in 0..PRODUCERS {
            let (mut producer, unparker) = (producer.clone(), parker.unparker());
            scope.spawn(move || {
                let mut run = Vec::new();
                for item in 0..ITEMS {
                    run.push((from, item));
                    while run.len() > (item % 20) as usize {
                        if producer.push_from(&mut run) == 0 {
                            std::thread::yield_now();
                        }
                        unparker.unpark();
                    }
                }
                while !run.is_empty() {
                    if producer.push_from(&mut run) == 0 {
                        std::thread::yield_now();
                    }
                    unparker.unpark();
                }
            });
        }
        drop(producer);
        let mut next = [0; PRODUCERS];
        let mut items = Vec::new();
        while next.iter().sum::<u64>() < ITEMS * PRODUCERS as u64 {
            if consumer.pop_into(&mut items, 16) == 0 {
                let announced = parker.announce();
                if consumer.is_empty() {
                    announced.park_on(&[], None).unwrap();
                }
            }
            for (from, item) in items.drain(..) {
                assert_eq!(item, next[from]);
                next[from] += 1;
            }
        }
    });
    assert!(consumer.is_abandoned() && consumer.pop().is_none());
}

/// Two sleepers hand a counter back and forth, waking each other every time.
#[test]
fn wake_ups_are_not_lost() {
    const ROUNDS: u64 = 5_000;
    let turn = AtomicU64::new(0);
    let mut parkers = [Parker::new(), Parker::new()];
    let unparkers = [parkers[0].unparker(), parkers[1].unparker()];
    std::thread::scope(|scope| {
        for (me, parker) in parkers.iter_mut().enumerate() {
            let (turn, other) = (&turn, &unparkers[1 - me]);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mine = round * 2 + me as u64;
                    while turn.load(Ordering::Acquire) != mine {
                        let announced = parker.announce();
                        if turn.load(Ordering::Acquire) != mine {
                            announced.park();
                        }
                    }
                    turn.store(mine + 1, Ordering::Release);
                    other.unpark();
                }
            });
        }
    });
    assert_eq!(turn.into_inner(), 2 * ROUNDS);
    let wakes: u64 = parkers.iter().map(|parker| parker.counts().wakes).sum();
    let sleeps: u64 = parkers.iter().map(|parker| parker.counts().sleeps).sum();
    assert!(
        wakes <= sleeps && sleeps <= 2 * ROUNDS * 2,
        "{wakes} {sleeps}"
    );
}

/// Pinned members take turns at one baton until they have done so much together.
#[test]
fn a_group_takes_turns() {
    use std::sync::Arc;
    const TURNS: u64 = 20_000;
    let shared = Arc::new(Baton::new(0_u64));
    let placement = Placement::Pinned(allowed_processors().unwrap());
    let bodies = (0..4).map(|_| {
        let shared = Arc::clone(&shared);
        move |_: Member| {
            let mut mine = 0_u64;
            loop {
                match shared.try_take() {
                    Some(turn) if *turn >= TURNS => return mine,
                    Some(mut turn) => {
                        *turn += 1;
                        mine += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        }
    });
    let group = ThreadGroup::spawn("turns", &placement, bodies).unwrap();
    group.start();
    let turns: u64 = group.join().into_iter().map(Result::unwrap).sum();
    assert_eq!(turns, TURNS);
}
