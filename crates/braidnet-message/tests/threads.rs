//! Traffic between threads: bytes stay right, every node goes home, and in the steady state nothing is taken from the global
//! allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, mpsc};

use braidnet_message::{Arena, Counts, Keeping, Message, Pool, Run};

/// Counts what is asked of the global allocator by the threads that want it counted (the test harness has its own).
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Serialises the tests of this file, so that one counts nothing of another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A few bytes that tell whose they are.
fn stamp(n: u64) -> [u8; 16] {
    let mut bytes = [n as u8; 16];
    bytes[..8].copy_from_slice(&n.to_ne_bytes());
    bytes
}

#[test]
fn steady_state_takes_nothing_from_the_global_allocator() {
    let _alone = alone();
    const RUNS: usize = if cfg!(miri) { 60 } else { 32_000 };
    const WARM_UP: usize = RUNS / 10;
    let arena = Arena::new(64 << 20);
    let (to, from) = mpsc::sync_channel::<Run>(4);
    let (back, empty) = mpsc::sync_channel::<Run>(4);
    for _ in 0..4 {
        back.send(Run::with_capacity(32))
            .expect("the receiver is here");
    }
    let mut far = Pool::new(&arena);
    let echo = std::thread::spawn(move || {
        COUNTED.set(true);
        let mut far = far.bind();
        let mut own = Run::with_capacity(32);
        while let Some(mut run) = receive(&from) {
            // Frees what came, and sends as many of its own, so that both sides free what is not theirs.
            for message in run.drain() {
                let view = message.share(&mut far).expect("memory");
                assert_eq!(view.bytes()[8], message.bytes()[0]);
                own.push(far.copy_from_slice(128, message.bytes()).expect("memory"));
            }
            run.append(&mut own);
            if back.send(run).is_err() {
                break;
            }
        }
    });
    COUNTED.set(true);
    let mut pool = Pool::new(&arena);
    let mut pool = pool.bind();
    let mut before = 0;
    let mut used = 0;
    for n in 0..RUNS {
        if n == WARM_UP {
            before = ALLOCATIONS.load(Ordering::Relaxed);
            used = arena.used_bytes();
        }
        let mut run = receive(&empty).expect("the other side lives");
        run.clear();
        run.extend((0..32).map(|_| {
            let mut message = pool.allocate(128, 1500).expect("memory");
            message.extend_from_slice_summed(&[n as u8; 16]);
            message
        }));
        to.send(run).expect("the other side lives");
    }
    let taken = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(
        taken,
        0,
        "allocations in {} messages both ways",
        (RUNS - WARM_UP) * 32
    );
    assert_eq!(arena.used_bytes(), used);
    assert!(pool.counters().returned > RUNS as u64 * 32 / 2);
    COUNTED.set(false);
    drop((to, empty));
    echo.join().expect("no panic");
}

/// Receives without blocking, because that would allocate; `None` when the other side is gone.
fn receive<T>(from: &mpsc::Receiver<T>) -> Option<T> {
    loop {
        match from.try_recv() {
            Ok(received) => return Some(received),
            Err(mpsc::TryRecvError::Empty) => std::thread::yield_now(),
            Err(mpsc::TryRecvError::Disconnected) => return None,
        }
    }
}

/// What one thread of the storm does with its messages.
fn storm(
    seed: u64,
    pool: &mut Pool,
    peers: &[mpsc::SyncSender<Message>],
    inbox: &mpsc::Receiver<Message>,
) {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut held: Vec<(Message, u64)> = Vec::new();
    let verify = |message: &Message| {
        let bytes = message.bytes();
        let n = u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert_eq!(bytes, stamp(n));
        assert_eq!(message.connection(), n);
        n
    };
    for _ in 0..if cfg!(miri) { 60 } else { 30_000 } {
        match random(8) {
            0 | 1 => {
                let n = random(u64::MAX);
                let size = [10, 1500, 4352][random(3) as usize];
                let mut message = pool.allocate(64, size).expect("memory");
                message.append(16).expect("room").copy_from_slice(&stamp(n));
                message.set_connection(n);
                held.push((message, n));
            }
            2 | 3 if !held.is_empty() => {
                let (message, _) = &held[random(held.len() as u64) as usize];
                let mut view = message.share(pool).expect("memory");
                if random(3) == 0 {
                    view.push_continuation(message.share_range(3, 9, pool).expect("memory"));
                }
                let peer = random(peers.len() as u64) as usize;
                // A full inbox gives the view back, to be dropped here.
                drop(peers[peer].try_send(view));
            }
            4 if !held.is_empty() => {
                let at = random(held.len() as u64) as usize;
                let (message, n) = &mut held[at];
                assert_eq!(verify(message), *n);
                let fresh = random(u64::MAX);
                if let Some(bytes) = message.bytes_mut() {
                    bytes.copy_from_slice(&stamp(fresh));
                    message.set_connection(fresh);
                    *n = fresh;
                }
            }
            5 if held.len() > 8 => {
                let at = random(held.len() as u64) as usize;
                let (message, n) = held.swap_remove(at);
                assert_eq!(verify(&message), n);
            }
            _ => {
                if let Ok(message) = inbox.try_recv() {
                    let n = verify(&message);
                    if held.len() < 32 && random(2) == 0 {
                        held.push((message, n));
                    }
                }
            }
        }
    }
    held.iter()
        .for_each(|(message, n)| assert_eq!(verify(message), *n));
}

#[test]
fn a_storm_of_shared_messages_ends_with_every_node_home() {
    let _alone = alone();
    const THREADS: usize = if cfg!(miri) { 3 } else { 4 };
    let ways = [true, false].map(|caches| {
        [Counts::Lean, Counts::Atomic, Counts::Locked].map(|counts| (caches, counts))
    });
    for (round, (caches, counts)) in
        (0..if cfg!(miri) { 1 } else { 12 }).zip(ways.into_iter().flatten().cycle())
    {
        let keeping = Keeping {
            caches,
            counts,
            ..Keeping::default()
        };
        let arena = Arena::keeping(256 << 20, keeping);
        let (peers, inboxes): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| mpsc::sync_channel(64)).unzip();
        std::thread::scope(|scope| {
            for (index, inbox) in inboxes.into_iter().enumerate() {
                let (peers, mut pool) = (peers.clone(), Pool::new(&arena));
                scope.spawn(move || {
                    let seed = (round * THREADS + index) as u64;
                    for part in 0..4 {
                        // Some of the time without a guard, so that every way home is gone.
                        if (part + index) % 3 == 0 {
                            storm(seed * 4 + part as u64, &mut pool, &peers, &inbox);
                        } else {
                            storm(seed * 4 + part as u64, &mut pool.bind(), &peers, &inbox);
                        }
                    }
                    // The pool goes, with its messages still in other inboxes; its own inbox goes last.
                    drop(pool);
                });
            }
        });
        drop(peers);
        assert!(!caches || arena.used_bytes() == 0, "round {round}");
        assert_eq!(Arc::strong_count(&arena), 1, "round {round}");
    }
}

#[test]
fn closing_a_home_races_with_its_last_messages() {
    let _alone = alone();
    let arena = Arena::new(64 << 20);
    for round in 0..if cfg!(miri) { 10 } else { 3_000 } {
        let mut pool = Pool::new(&arena);
        let messages: Vec<Message> = (0..3)
            .map(|_| pool.allocate(0, 8).expect("memory"))
            .collect();
        let views: Vec<Message> = messages
            .iter()
            .map(|m| m.share(&mut pool).expect("memory"))
            .collect();
        let start = Arc::new(Barrier::new(3));
        std::thread::scope(|scope| {
            let (first, second) = (Arc::clone(&start), Arc::clone(&start));
            let mut near = Pool::new(&arena);
            scope.spawn(move || {
                let _bound = near.bind();
                first.wait();
                drop(messages);
            });
            scope.spawn(move || {
                second.wait();
                drop(views);
            });
            start.wait();
            drop(pool);
        });
        assert_eq!(arena.used_bytes(), 0, "round {round}");
    }
}
