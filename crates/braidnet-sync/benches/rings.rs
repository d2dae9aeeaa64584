//! What it costs to pass an item on, and to wake a sleeper.
//!
//! `cargo bench -p braidnet-sync --bench rings` measures; without `--bench` among its arguments (as in `cargo test`) it
//! runs through a small size once. Medians, in nanoseconds of wall time per item.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use braidnet_sync::parker::Parker;
use braidnet_sync::ring::{mpsc, spsc};

const CAPACITY: usize = 1024;

/// The end that takes items in, of either ring.
trait Input: Send {
    fn one(&mut self, item: u64) -> bool;
    fn run(&mut self, items: &mut Vec<u64>) -> usize;
}

/// The end that gives items out, of either ring.
trait Output {
    fn one(&mut self) -> Option<u64>;
    fn run(&mut self, items: &mut Vec<u64>, max: usize) -> usize;
}

macro_rules! ends {
    ($($ring:ident)*) => {$(
        impl Input for $ring::Producer<u64> {
            fn one(&mut self, item: u64) -> bool {
                self.push(item).is_ok()
            }
            fn run(&mut self, items: &mut Vec<u64>) -> usize {
                self.push_from(items)
            }
        }
        impl Output for $ring::Consumer<u64> {
            fn one(&mut self) -> Option<u64> {
                self.pop()
            }
            fn run(&mut self, items: &mut Vec<u64>, max: usize) -> usize {
                self.pop_into(items, max)
            }
        }
    )*};
}
ends!(spsc mpsc);

/// In and out again on one thread.
fn alone(mut input: impl Input, mut output: impl Output, items: u64, run: usize) -> f64 {
    let (mut going, mut coming) = (Vec::with_capacity(run), Vec::with_capacity(run));
    let start = Instant::now();
    let mut sum = 0;
    for first in (0..items).step_by(run) {
        if run == 1 {
            input.one(black_box(first));
            sum += output.one().expect("just put in");
        } else {
            going.extend(first..first + run as u64);
            input.run(&mut going);
            output.run(&mut coming, run);
            sum += coming.drain(..).sum::<u64>();
        }
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / items as f64
}

/// From every input's thread to this one.
fn across(inputs: Vec<impl Input>, mut output: impl Output, items: u64, run: usize) -> f64 {
    let share = items / inputs.len() as u64 / run as u64 * run as u64;
    let all = share * inputs.len() as u64;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for mut input in inputs {
            scope.spawn(move || {
                let mut going = Vec::with_capacity(run);
                for first in (0..share).step_by(run) {
                    if run == 1 {
                        while !input.one(first) {
                            std::hint::spin_loop();
                        }
                        continue;
                    }
                    going.extend(first..first + run as u64);
                    while !going.is_empty() {
                        if input.run(&mut going) == 0 {
                            std::hint::spin_loop();
                        }
                    }
                }
            });
        }
        let mut coming = Vec::with_capacity(run);
        let (mut got, mut sum) = (0, 0_u64);
        while got < all {
            let count = if run == 1 {
                output.one().map_or(0, |item| {
                    sum += item;
                    1
                })
            } else {
                output.run(&mut coming, run)
            };
            sum += coming.drain(..).sum::<u64>();
            got += count as u64;
            if count == 0 {
                std::hint::spin_loop();
            }
        }
        black_box(sum);
    });
    start.elapsed().as_nanos() as f64 / all as f64
}

/// From one sleeper to the other and back, per wake-up.
fn wake_ups(rounds: u64) -> f64 {
    let turn = AtomicU64::new(0);
    let mut parkers = [Parker::new(), Parker::new()];
    let unparkers = [parkers[0].unparker(), parkers[1].unparker()];
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (me, parker) in parkers.iter_mut().enumerate() {
            let (turn, other) = (&turn, &unparkers[1 - me]);
            scope.spawn(move || {
                for round in 0..rounds {
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
    start.elapsed().as_nanos() as f64 / (2 * rounds) as f64
}

fn unpark_awake(times: u64) -> f64 {
    let parker = Parker::new();
    let unparker = parker.unparker();
    let start = Instant::now();
    for _ in 0..times {
        black_box(&unparker).unpark();
    }
    start.elapsed().as_nanos() as f64 / times as f64
}

fn median(name: &str, repetitions: usize, measure: impl Fn() -> f64) {
    let mut results: Vec<f64> = (0..repetitions).map(|_| measure()).collect();
    results.sort_by(f64::total_cmp);
    println!(
        "{name:44} {:8.2} {:8.2}",
        results[0],
        results[repetitions / 2]
    );
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (items, repetitions) = if measured {
        (4_000_000, 15)
    } else {
        (4_096, 1)
    };
    println!("{:44} {:>8} {:>8}", "ns per item", "lowest", "median");
    for run in [1, 8, 32, 256] {
        median(
            &format!("spsc, one thread, runs of {run}"),
            repetitions,
            || {
                let (producer, consumer) = spsc::ring(CAPACITY);
                alone(producer, consumer, items, run)
            },
        );
        median(
            &format!("spsc, streaming, runs of {run}"),
            repetitions,
            || {
                let (producer, consumer) = spsc::ring(CAPACITY);
                across(vec![producer], consumer, items, run)
            },
        );
        median(
            &format!("mpsc, one thread, runs of {run}"),
            repetitions,
            || {
                let (producer, consumer) = mpsc::ring(CAPACITY);
                alone(producer, consumer, items, run)
            },
        );
        median(
            &format!("mpsc, streaming, one producer, runs of {run}"),
            repetitions,
            || {
                let (producer, consumer) = mpsc::ring(CAPACITY);
                across(vec![producer], consumer, items, run)
            },
        );
    }
    median("unpark of one awake", repetitions, || unpark_awake(items));
    median("wake-up, sleeper to sleeper", repetitions, || {
        wake_ups(items / 400)
    });
}
