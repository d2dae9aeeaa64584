//! What locks cost: alone, contended, and with more threads than processors.
//!
//! `cargo bench -p braidnet-sync --bench locks` measures; without `--bench` among its arguments (as in `cargo test`) it
//! runs through a small size once. Repetitions are interleaved over the candidates. Times are wall time over the
//! operations of all threads together.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use braidnet_sync::baton::Baton;
use braidnet_sync::clock::Clock;
use braidnet_sync::lock::{
    Adaptive, Lock, LockClass, LockKind, LockSnapshot, Mcs, Metering, set_metering,
};
use braidnet_sync::usage::Usage;

struct Candidate {
    name: &'static str,
    metering: Metering,
    /// Adds one under the lock, so many times.
    run: Box<dyn Fn(u64) + Sync>,
}

fn candidate(name: &'static str, run: impl Fn(u64) + Sync + 'static) -> Candidate {
    Candidate {
        name,
        metering: Metering::Off,
        run: Box::new(run),
    }
}

/// One lock and unlock of each kind, around one addition.
fn locks() -> Vec<Candidate> {
    let parking_lot = parking_lot::Mutex::new(0_u64);
    let std = std::sync::Mutex::new(0_u64);
    let adaptive = lock_api::Mutex::<Adaptive, u64>::new(0);
    let mcs = lock_api::Mutex::<Mcs, u64>::new(0);
    let mut candidates = vec![
        candidate("parking_lot", move |times| {
            (0..times).for_each(|_| *black_box(&parking_lot).lock() += 1)
        }),
        candidate("std", move |times| {
            (0..times).for_each(|_| *black_box(&std).lock().expect("no panic inside") += 1)
        }),
        candidate("Adaptive", move |times| {
            (0..times).for_each(|_| *black_box(&adaptive).lock() += 1)
        }),
        candidate("Mcs", move |times| {
            (0..times).for_each(|_| *black_box(&mcs).lock() += 1)
        }),
    ];
    let one_in = NonZeroU32::new(64).expect("not zero");
    for (kind, names) in [
        (
            LockKind::Adaptive,
            ["Lock adaptive", "  counted", "  timed 1 in 64"],
        ),
        (LockKind::Mcs, ["Lock mcs", "  counted", "  timed 1 in 64"]),
    ] {
        for (name, metering) in
            names
                .into_iter()
                .zip([Metering::Off, Metering::Counts, Metering::Timed { one_in }])
        {
            let lock = Lock::new(kind, LockClass::Map, 0_u64);
            let run =
                move |times| (0..times).for_each(|_| black_box(&lock).with(|value| *value += 1));
            candidates.push(Candidate {
                metering,
                ..candidate(name, run)
            });
        }
    }
    candidates
}

/// What is cheaper than a lock; for one thread only.
fn lone() -> Vec<Candidate> {
    let baton = Baton::new(0_u64);
    let clock = Clock::shared();
    vec![
        candidate("Baton", move |times| {
            (0..times)
                .for_each(|_| *black_box(&baton).try_take().expect("nobody else is here") += 1);
        }),
        candidate("Clock::now_nanos", move |times| {
            (0..times).for_each(|_| {
                black_box(clock.now_nanos());
            })
        }),
        candidate("Instant::now", |times| {
            (0..times).for_each(|_| {
                black_box(Instant::now());
            })
        }),
    ]
}

/// Turns between two looks at the time.
const BATCH: u64 = 256;

/// Wall nanoseconds per turn, and turns, of so many threads that turn at once for so long.
fn measure(candidate: &Candidate, threads: usize, how_long: Duration) -> (f64, u64) {
    set_metering(candidate.metering);
    let barrier = Barrier::new(threads);
    let start = OnceLock::new();
    let (turns, end) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = *start.get_or_init(Instant::now);
                    let mut turns = 0;
                    while turns == 0 || start.elapsed() < how_long {
                        (candidate.run)(BATCH);
                        turns += BATCH;
                    }
                    (turns, Instant::now())
                })
            })
            .collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic inside"));
        ended
            .reduce(|one, other| (one.0 + other.0, one.1.max(other.1)))
            .expect("a thread")
    });
    set_metering(Metering::Off);
    let took = end - *start.get().expect("a thread has started");
    (took.as_nanos() as f64 / turns as f64, turns)
}

fn table(candidates: &[Candidate], threads: usize, how_long: Duration, repetitions: usize) {
    let mut results = vec![Vec::new(); candidates.len()];
    let mut used = vec![(Usage::default(), 0); candidates.len()];
    for _ in 0..repetitions {
        for (index, candidate) in candidates.iter().enumerate() {
            let before = Usage::process();
            let (nanos, turns) = measure(candidate, threads, how_long);
            results[index].push(nanos);
            used[index].0 += Usage::process() - before;
            used[index].1 += turns;
        }
    }
    println!(
        "\n{threads} threads: ns per operation (lowest, median), switches per 1,000 (voluntary, involuntary)"
    );
    for ((candidate, results), (used, turns)) in candidates.iter().zip(&mut results).zip(used) {
        results.sort_by(f64::total_cmp);
        let thousands = turns as f64 / 1_000.0;
        println!(
            "{:20} {:8.1} {:8.1} {:10.3} {:8.3}",
            candidate.name,
            results[0],
            results[results.len() / 2],
            used.voluntary_switches as f64 / thousands,
            used.involuntary_switches as f64 / thousands,
        );
    }
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (how_long, repetitions) = if measured {
        (Duration::from_millis(20), 15)
    } else {
        (Duration::from_micros(100), 1)
    };
    let before = LockSnapshot::process();
    let mut alone = locks();
    alone.extend(lone());
    table(&alone, 1, how_long, repetitions);
    for threads in [2, 4, 16] {
        table(&locks(), threads, how_long, repetitions);
    }
    let metered = (LockSnapshot::process() - before).of(LockClass::Map);
    println!(
        "\nmetered: {} acquisitions, {} contended, {:.1} ns estimated wait each",
        metered.acquisitions,
        metered.contended,
        metered.waited_nanos() as f64 / metered.acquisitions as f64,
    );
}
