//! What locks cost: alone, contended, and with more threads than processors.
//!
//! `cargo bench -p braidnet-sync --bench locks` measures; without `--bench` among its arguments (as in `cargo test`) it
//! runs through a small size once. Repetitions are interleaved over the candidates; the median is printed, in
//! nanoseconds of wall time per lock and unlock, over all threads together.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::Instant;

use braidnet_sync::baton::Baton;
use braidnet_sync::clock::Clock;
use braidnet_sync::lock::{
    Adaptive, Lock, LockClass, LockKind, LockSnapshot, Mcs, Metering, Owned, set_metering,
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
        // Made and entered on the thread that runs this.
        candidate("Owned", |times| {
            let owned = Owned::new(0_u64);
            (0..times).for_each(|_| black_box(&owned).with(|value| *value += 1));
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

/// Wall nanoseconds per turn of `run`, taken by so many threads, `times` turns in all.
fn measure(candidate: &Candidate, threads: u64, times: u64) -> f64 {
    set_metering(candidate.metering);
    let barrier = Barrier::new(threads as usize);
    let share = times / threads;
    let took = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = Instant::now();
                    (candidate.run)(share);
                    (start, Instant::now())
                })
            })
            .collect();
        let spans: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic inside"))
            .collect();
        let start = spans.iter().map(|span| span.0).min().expect("a thread");
        let end = spans.iter().map(|span| span.1).max().expect("a thread");
        end - start
    });
    set_metering(Metering::Off);
    took.as_nanos() as f64 / (share * threads) as f64
}

fn table(candidates: &[Candidate], threads: u64, times: u64, repetitions: usize) {
    let mut results = vec![Vec::new(); candidates.len()];
    let mut used = vec![Usage::default(); candidates.len()];
    for _ in 0..repetitions {
        for (index, candidate) in candidates.iter().enumerate() {
            let before = Usage::process();
            results[index].push(measure(candidate, threads, times));
            used[index] += Usage::process() - before;
        }
    }
    println!(
        "\n{threads} threads, ns per operation (lowest, median), switches per 1,000 (voluntary, involuntary)"
    );
    let operations = times as f64 * repetitions as f64 / 1_000.0;
    for ((candidate, results), used) in candidates.iter().zip(&mut results).zip(used) {
        results.sort_by(f64::total_cmp);
        println!(
            "{:20} {:8.1} {:8.1} {:10.3} {:8.3}",
            candidate.name,
            results[0],
            results[results.len() / 2],
            used.voluntary_switches as f64 / operations,
            used.involuntary_switches as f64 / operations,
        );
    }
}

fn main() {
    let (times, repetitions) = if std::env::args().any(|argument| argument == "--bench") {
        (400_000, 15)
    } else {
        (2_000, 1)
    };
    let before = LockSnapshot::process();
    let mut alone = locks();
    alone.extend(lone());
    table(&alone, 1, times, repetitions);
    for threads in [2, 4, 16] {
        table(&locks(), threads, times, repetitions);
    }
    let metered = (LockSnapshot::process() - before).of(LockClass::Map);
    println!(
        "\nmetered: {} acquisitions, {} contended, {:.1} ns estimated wait each",
        metered.acquisitions,
        metered.contended,
        metered.waited_nanos() as f64 / metered.acquisitions as f64,
    );
}
