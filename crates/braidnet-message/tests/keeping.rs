//! Buffers that are kept and counted in other ways than the usual one: that these ways are really gone.

use braidnet_message::{Arena, Counts, Keeping, Pool};
use braidnet_sync::lock::{LockClass, LockKind, LockSnapshot, Metering, set_metering};
use std::sync::Arc;

/// Locks of buffers taken by this thread during `work`.
fn locks_taken(work: impl FnOnce()) -> u64 {
    let taken = || LockSnapshot::thread().of(LockClass::Buffers).acquisitions;
    let before = taken();
    work();
    taken() - before
}

#[test]
fn each_way_takes_the_locks_that_it_says() {
    set_metering(Metering::Counts);
    let rows = [
        // A message, a view of it, another view of that; then all three are dropped.
        (true, Counts::Lean, 0, 0),
        (true, Counts::Atomic, 0, 0),
        // Two counts taken, three given up.
        (true, Counts::Locked, 5, 0),
        // Three nodes taken, three brought back.
        (false, Counts::Lean, 6, 3),
        (false, Counts::Locked, 11, 3),
    ];
    for lock in LockKind::all() {
        for (caches, counts, locks, common) in rows {
            let keeping = Keeping {
                caches,
                counts,
                lock,
            };
            let arena = Arena::keeping(1 << 20, keeping);
            let mut pool = Pool::new(&arena);
            let mut pool = pool.bind();
            // The first takes new memory, the second what the first has left.
            for _ in 0..2 {
                let before = pool.counters();
                let taken = locks_taken(|| {
                    let mut message = pool.copy_from_slice(8, b"counted").unwrap();
                    assert!(message.is_unique() && message.prepend(1).is_some());
                    let view = message.share(&mut pool).unwrap();
                    let another = view.share(&mut pool).unwrap();
                    assert!(!message.is_unique() && message.prepend(1).is_none());
                    drop((view, message));
                    assert!(another.is_unique(), "{keeping:?}");
                });
                assert_eq!(taken, locks, "{keeping:?}");
                assert_eq!(
                    pool.counters().common - before.common,
                    common,
                    "{keeping:?}"
                );
            }
            let used = pool.counters();
            let cached = if caches { 3 } else { 0 };
            assert_eq!((used.allocated, used.recycled), (6, cached), "{keeping:?}");
        }
    }
    set_metering(Metering::Off);
}

#[test]
fn a_store_outlives_its_pools_until_its_last_message() {
    let keeping = Keeping {
        caches: false,
        ..Keeping::default()
    };
    let arena = Arena::keeping(1 << 20, keeping);
    let weak = Arc::downgrade(&arena);
    let mut pool = Pool::new(&arena);
    let messages: Vec<_> = (0..100)
        .map(|n| pool.copy_from_slice(0, &[n; 100]).unwrap())
        .collect();
    drop((pool, arena));
    assert!(
        messages
            .iter()
            .zip(0..)
            .all(|(message, n)| message.bytes() == [n; 100])
    );
    assert!(weak.upgrade().is_some());
    drop(messages);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_store_has_a_limit_and_falls_back_on_larger_blocks() {
    let keeping = Keeping {
        caches: false,
        ..Keeping::default()
    };
    let arena = Arena::keeping(300 << 10, keeping);
    let mut pool = Pool::new(&arena);
    let mut held = vec![pool.allocate(0, 4000).unwrap()];
    let slab = arena.used_bytes();
    while let Some(message) = pool.allocate(0, 100) {
        held.push(message);
    }
    assert!(arena.used_bytes() > slab && arena.used_bytes() <= arena.limit_bytes());
    assert!(
        pool.allocate(0, 4000).is_none(),
        "small messages have taken the large blocks"
    );
    assert_eq!(pool.refused(), 2);
    held.truncate(held.len() - 1);
    assert!(pool.allocate(0, 4000).is_some() || pool.allocate(0, 100).is_some());
}
