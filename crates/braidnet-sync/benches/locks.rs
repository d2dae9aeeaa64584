//! What locks cost: alone, contended, and with more threads than processors, beside `parking_lot`'s in the same run.
//!
//! `cargo bench -p braidnet-sync --bench locks` measures; without `--bench` among its arguments (as in `cargo test`) it
//! runs through a small size once. Repetitions are interleaved over the candidates. Times are wall time over the
//! operations of all threads together.
//!
//! It fails where sixteen threads pass a lock more than [`MOST_HANDOVER`] apart: then it passes at the pace of time
//! slices, not of wake-ups.

use std::cell::Cell;
use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use braidnet_sync::baton::Baton;
use braidnet_sync::clock::Clock;
use braidnet_sync::lock::{
    Adaptive, Condition, Lock, LockClass, LockKind, LockSnapshot, Mcs, Metering, Monitor,
    ReadWrite, Recursive, TestAndSet, Ticket, set_metering, set_rank_check,
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

/// A mutex of this raw lock.
fn mutex<L: lock_api::RawMutex + Send + Sync + 'static>(name: &'static str) -> Candidate {
    let mutex = lock_api::Mutex::<L, u64>::new(0);
    candidate(name, move |times| {
        (0..times).for_each(|_| *black_box(&mutex).lock() += 1)
    })
}

/// One lock and unlock of each kind, around one addition.
fn locks() -> Vec<Candidate> {
    let std = std::sync::Mutex::new(0_u64);
    let mut candidates = vec![
        mutex::<parking_lot::RawMutex>("parking_lot"),
        candidate("std", move |times| {
            (0..times).for_each(|_| *black_box(&std).lock().expect("no panic inside") += 1)
        }),
        mutex::<Adaptive>("Adaptive"),
        mutex::<TestAndSet>("TestAndSet"),
        mutex::<Ticket>("Ticket"),
        mutex::<Mcs>("Mcs"),
    ];
    let one_in = NonZeroU32::new(64).expect("not zero");
    for (kind, name) in
        LockKind::all()
            .into_iter()
            .zip(["Lock adaptive", "Lock tas", "Lock ticket", "Lock mcs"])
    {
        let meterings = [
            (name, Metering::Off),
            ("  counted", Metering::Counts),
            ("  timed 1 in 64", Metering::Timed { one_in }),
        ];
        for (name, metering) in meterings {
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

/// What is built upon locks, and its like elsewhere; one in 16 of the readers' operations is a write.
fn friends() -> Vec<Candidate> {
    let recursive = Recursive::new(LockKind::Adaptive, LockClass::Map, Cell::new(0_u64));
    let reentrant = parking_lot::ReentrantMutex::new(Cell::new(0_u64));
    let monitor = Monitor::new(LockKind::Adaptive, LockClass::Map, 0_u64, Condition::new());
    vec![
        read_write::<parking_lot::RawRwLock>("parking_lot RwLock"),
        read_write::<ReadWrite>("ReadWrite"),
        candidate("parking_lot Reentrant", move |times| {
            (0..times).for_each(|_| {
                let value = black_box(&reentrant).lock();
                value.set(value.get() + 1);
            })
        }),
        candidate("Recursive", move |times| {
            (0..times).for_each(|_| black_box(&recursive).with(|value| value.set(value.get() + 1)))
        }),
        candidate("Monitor", move |times| {
            (0..times).for_each(|_| {
                black_box(&monitor).with(|value, condition| {
                    **value += 1;
                    condition.wake_one();
                })
            })
        }),
    ]
}

fn read_write<L: lock_api::RawRwLock + Send + Sync + 'static>(name: &'static str) -> Candidate {
    let lock = lock_api::RwLock::<L, u64>::new(0);
    candidate(name, move |times| {
        for time in 0..times {
            if time % 16 == 0 {
                *black_box(&lock).write() += 1;
            } else {
                black_box(*black_box(&lock).read());
            }
        }
    })
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

/// Prints the figures of all candidates; the median of each, by name, the first where several have one.
fn table(
    candidates: &[Candidate],
    threads: usize,
    how_long: Duration,
    repetitions: usize,
) -> HashMap<&'static str, f64> {
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
    let mut medians = HashMap::new();
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
        medians
            .entry(candidate.name)
            .or_insert(results[results.len() / 2]);
    }
    medians
}

/// How long a lock that sixteen threads want may take from one to the next, and over the adaptive lock in the same run. A wake-up takes
/// 5 to 30 µs; a time slice, of which a convoy would take one or more each time, some milliseconds.
const MOST_HANDOVER: Duration = Duration::from_micros(200);
const MOST_OVER_ADAPTIVE: f64 = 1_000.0;

/// # Panics
///
/// If a lock passes at the pace of time slices.
fn convoys(medians: &HashMap<&'static str, f64>) {
    println!("\n16 threads, over Adaptive:");
    for name in ["TestAndSet", "Ticket", "Mcs"] {
        let over = medians[name] / medians["Adaptive"];
        println!("{name:20} {over:8.1}");
        assert!(
            medians[name] < MOST_HANDOVER.as_nanos() as f64 && over < MOST_OVER_ADAPTIVE,
            "{name} convoys: {} ns for each entry, {over:.0} times the adaptive lock's",
            medians[name]
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
    set_rank_check(false);
    let before = LockSnapshot::process();
    let mut alone = locks();
    alone.extend(friends());
    alone.extend(lone());
    let alone = table(&alone, 1, how_long, repetitions);
    for threads in [2, 4, 16] {
        let mut candidates = locks();
        candidates.extend(friends());
        let medians = table(&candidates, threads, how_long, repetitions);
        if measured && threads == 16 {
            convoys(&medians);
        }
    }
    println!("\nalone, over parking_lot:");
    for name in [
        "Adaptive",
        "TestAndSet",
        "Ticket",
        "Mcs",
        "Lock adaptive",
        "Lock mcs",
    ] {
        println!("{name:20} {:8.2}", alone[name] / alone["parking_lot"]);
    }
    let metered = (LockSnapshot::process() - before).of(LockClass::Map);
    println!(
        "\nmetered: {} acquisitions, {} contended, {:.1} ns estimated wait each",
        metered.acquisitions,
        metered.contended,
        metered.waited_nanos() as f64 / metered.acquisitions as f64,
    );
}
