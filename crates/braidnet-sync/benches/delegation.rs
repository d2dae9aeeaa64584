//! A fair trial of delegation: entering by lock, by baton and by leaving one's work with whoever is inside (DEMUX §3.2.2, §5).
//!
//! `cargo bench -p braidnet-sync --bench delegation` measures; without `--bench` among its arguments (as in `cargo test`) it
//! runs through a small size once. Repetitions are interleaved over the candidates, and each ratio is the median of those within
//! repetitions. What is guarded is twenty cache lines, as many as the state of a connection; the work inside goes over all of them, and the
//! work outside over as many of the thread's own. Times are wall time over the messages of all threads together.

use std::hint::black_box;
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use braidnet_sync::blocking_order::BlockingOrder;
use braidnet_sync::delegation::{Delegated, Entry, Left};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::rejoin::NoPlace;
use braidnet_sync::release::Release;
use braidnet_sync::ring::mpsc;
use braidnet_sync::ticket::Tickets;
use braidnet_sync::usage::Usage;

/// Most threads.
const THREADS: usize = 4;
/// Pieces of work that a holder serves before it stops.
const BOUND: usize = 8;
/// Pieces of work that a thread has under way at most.
const WINDOW: usize = 16;
/// Entries between two looks at the time.
const ENTRIES: u64 = 256;

/// Something to work on.
#[repr(align(64))]
struct State([[u64; 8]; 20]);

impl State {
    fn new() -> State {
        State([[1; 8]; 20])
    }

    /// The work for so many messages, of which each goes so often over all lines, or, if that is 0, counts only.
    #[inline(always)]
    fn work(&mut self, messages: u32, rounds: u32) {
        if rounds == 0 {
            self.0[0][0] += u64::from(messages);
        } else {
            self.go_over(messages * rounds);
        }
    }

    /// Not inlined, so that it is the same code for all candidates.
    #[inline(never)]
    fn go_over(&mut self, rounds: u32) {
        for _ in 0..rounds {
            let mut last = self.0[0][1];
            for line in &mut self.0 {
                last = last.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ line[2];
                line[2] = last;
            }
        }
    }
}

/// Messages for each entry, and how often to go over the lines for each of them.
#[derive(Clone, Copy)]
struct Load {
    batch: u32,
    inside: u32,
    outside: u32,
}

/// Enters so often: the thread's number, its own state, how often, with what.
type Enter = Box<dyn Fn(usize, &mut State, u64, Load) + Sync>;

struct Candidate {
    name: &'static str,
    enter: Enter,
}

fn candidate(
    name: &'static str,
    enter: impl Fn(usize, &mut State, u64, Load) + Sync + 'static,
) -> Candidate {
    let enter = Box::new(enter);
    Candidate { name, enter }
}

fn candidates() -> Vec<Candidate> {
    let parking_lot = parking_lot::Mutex::new(State::new());
    let mut candidates = vec![candidate("parking_lot", move |_, own, times, load| {
        for _ in 0..times {
            own.work(load.batch, load.outside);
            let mut state = black_box(&parking_lot).lock();
            state.work(load.batch, load.inside);
        }
    })];
    for kind in LockKind::all() {
        let lock = Lock::new(kind, LockClass::Map, State::new());
        candidates.push(candidate(kind.name(), move |_, own, times, load| {
            for _ in 0..times {
                own.work(load.batch, load.outside);
                black_box(&lock).with(|state| state.work(load.batch, load.inside));
            }
        }));
    }
    let delegation = Delegation::new();
    candidates.push(candidate("delegation", move |thread, own, times, load| {
        delegation.enter::<false>(thread, own, times, load)
    }));
    let delegation = Delegation::new();
    candidates.push(candidate(
        "always boxed",
        move |thread, own, times, load| delegation.enter::<true>(thread, own, times, load),
    ));
    candidates
}

type Node = Box<Left<usize>>;

/// A delegated state, and what each thread has to enter it with. Work says whose it is, and goes back to that thread when
/// it has been served.
struct Delegation {
    state: Delegated<State, usize>,
    threads: Vec<Mutex<Thread>>,
}

struct Thread {
    spare: Vec<Node>,
    from_others: mpsc::Consumer<Node>,
    to_others: Vec<mpsc::Producer<Node>>,
}

impl Delegation {
    fn new() -> Delegation {
        let (to, from): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::ring(WINDOW)).unzip();
        let threads = from
            .into_iter()
            .enumerate()
            .map(|(thread, from_others)| {
                Mutex::new(Thread {
                    spare: (0..WINDOW).map(|_| Left::new(thread)).collect(),
                    from_others,
                    to_others: to.clone(),
                })
            })
            .collect();
        Delegation {
            state: Delegated::new(State::new()),
            threads,
        }
    }

    /// With work that is put into a box only if it must be left, or always.
    fn enter<const BOXED: bool>(&self, thread: usize, own: &mut State, times: u64, load: Load) {
        let hands = &mut *self.threads[thread].lock().expect("no panic inside");
        for _ in 0..times {
            own.work(load.batch, load.outside);
            let state = black_box(&self.state);
            if !BOXED {
                let entry = state.try_enter(
                    |state| state.work(load.batch, load.inside),
                    BOUND,
                    |state, node| {
                        state.work(load.batch, load.inside);
                        hands.give_back(node, thread);
                    },
                );
                if entry.is_some() {
                    continue;
                }
            }
            self.wait_for(hands, 1, thread, load);
            let node = hands.spare.pop().expect("waited for");
            // Whoever comes next goes on if this is unfinished.
            let _ = state.enter(node, BOUND, |state, node| {
                state.work(load.batch, load.inside);
                hands.give_back(node, thread);
            });
        }
        self.wait_for(hands, WINDOW, thread, load);
    }

    /// Waits until so many nodes are there.
    #[inline(always)]
    fn wait_for(&self, hands: &mut Thread, nodes: usize, thread: usize, load: Load) {
        while hands.spare.len() < nodes {
            if hands.from_others.pop_into(&mut hands.spare, WINDOW) > 0 {
                continue;
            }
            let entry = self.state.resume(BOUND, |state, node| {
                state.work(load.batch, load.inside);
                hands.give_back(node, thread);
            });
            if entry == Entry::Left {
                std::thread::yield_now();
            }
        }
    }
}

impl Thread {
    #[inline(always)]
    fn give_back(&mut self, node: Node, thread: usize) {
        if node.work == thread {
            self.spare.push(node);
        } else {
            let room = self.to_others[node.work].push(node);
            assert!(room.is_ok(), "a thread has no more nodes than the window");
        }
    }
}

/// Work that must come out in the order in which it was drawn: by waiting for one's turn, and by leaving it with whoever fills the gap.
fn orders() -> Vec<Candidate> {
    fn draw(tickets: &Lock<Tickets>) -> braidnet_sync::ticket::Ticket {
        tickets.with(|tickets| tickets.draw())
    }
    let tickets = || Lock::new(LockKind::Adaptive, LockClass::Map, Tickets::default());
    let drawn = tickets();
    let mut candidates = vec![candidate("no order", move |_, own, times, load| {
        for _ in 0..times {
            let _ = black_box(draw(&drawn));
            own.work(load.batch, load.outside);
            own.work(load.batch, load.inside);
        }
    })];
    let (drawn, order) = (tickets(), BlockingOrder::new(THREADS));
    let state = parking_lot::Mutex::new(State::new());
    candidates.push(candidate("waiting", move |_, own, times, load| {
        for _ in 0..times {
            let ticket = draw(&drawn);
            own.work(load.batch, load.outside);
            // Nobody else is here: the lock is there for the compiler.
            order.pass(ticket, || state.lock().work(load.batch, load.inside));
        }
    }));
    let (drawn, ring) = (tickets(), Release::new(64));
    let state = parking_lot::Mutex::new(State::new());
    candidates.push(candidate("release", move |_, own, times, load| {
        let release = |()| state.lock().work(load.batch, load.inside);
        for _ in 0..times {
            let mut ticket = draw(&drawn);
            own.work(load.batch, load.outside);
            while let Err(back) = ring.bring(ticket, (), BOUND, release) {
                NoPlace { ticket, .. } = back;
                let _ = ring.resume(BOUND, release);
                std::thread::yield_now();
            }
        }
        let _ = ring.resume(BOUND, release);
    }));
    candidates
}

/// Wall nanoseconds per message, and messages, of so many threads that enter for so long.
fn measure(candidate: &Candidate, threads: usize, how_long: Duration, load: Load) -> (f64, u64) {
    let barrier = Barrier::new(threads);
    let start = OnceLock::new();
    let (messages, end) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, start) = (&barrier, &start);
                scope.spawn(move || {
                    pin(thread);
                    let mut own = State::new();
                    barrier.wait();
                    let start = *start.get_or_init(Instant::now);
                    let mut entries = 0;
                    while entries == 0 || start.elapsed() < how_long {
                        (candidate.enter)(thread, &mut own, ENTRIES, load);
                        entries += ENTRIES;
                    }
                    black_box(&own.0);
                    (entries * u64::from(load.batch), Instant::now())
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
    let took = end - *start.get().expect("a thread has started");
    (took.as_nanos() as f64 / messages as f64, messages)
}

/// To one processor each, as far as there are so many.
fn pin(thread: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let processors: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|&processor| allowed.is_set(processor))
        .collect();
    let mut one = CpuSet::new();
    one.set(processors[thread % processors.len()]);
    // Where it is not allowed, the figures are what they are.
    let _ = sched_setaffinity(None, &one);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How often it is measured, each time for how long.
#[derive(Clone, Copy)]
struct Effort {
    repetitions: usize,
    how_long: Duration,
}

fn table(title: &str, candidates: &[Candidate], threads: usize, load: Load, effort: Effort) {
    let mut results = vec![Vec::new(); candidates.len()];
    let mut used = vec![(Usage::default(), 0); candidates.len()];
    for _ in 0..effort.repetitions {
        for (index, candidate) in candidates.iter().enumerate() {
            let before = Usage::process();
            let (nanos, messages) = measure(candidate, threads, effort.how_long, load);
            results[index].push(nanos);
            used[index].0 += Usage::process() - before;
            used[index].1 += messages;
        }
    }
    println!(
        "\n{threads} threads, batch {}, {title}: ns per message, to the first; switches per 1,000",
        load.batch
    );
    for (index, candidate) in candidates.iter().enumerate() {
        let mut ratios: Vec<_> = results[index]
            .iter()
            .zip(&results[0])
            .map(|(here, first)| here / first)
            .collect();
        let ratio = median(&mut ratios);
        let (usage, messages) = used[index];
        println!(
            "{:14} {:8.1} {ratio:6.2} {:9.3}",
            candidate.name,
            median(&mut results[index].clone()),
            usage.voluntary_switches as f64 * 1_000.0 / messages as f64,
        );
    }
}

/// How often to go over the lines so that it takes about so long.
fn rounds(nanos: u32) -> u32 {
    const ROUNDS: u32 = 20_000;
    let mut state = State::new();
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            black_box(&mut state).go_over(ROUNDS);
            start.elapsed()
        })
        .min()
        .expect("measured");
    let round = best.as_nanos() as f64 / f64::from(ROUNDS);
    (f64::from(nanos) / round).round().max(1.0) as u32
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let effort = if measured {
        Effort {
            repetitions: 15,
            how_long: Duration::from_millis(5),
        }
    } else {
        Effort {
            repetitions: 1,
            how_long: Duration::from_micros(10),
        }
    };
    let all = candidates();
    let nothing = (0, 0, "nothing to do");
    let inside = (rounds(200), 0, "200 ns inside");
    let fifth = (rounds(200), rounds(800), "200 ns inside, 800 ns outside");
    for batch in [1, 32] {
        for threads in [1, 2, THREADS] {
            for (inside, outside, title) in [nothing, inside, fifth] {
                let load = Load {
                    batch,
                    inside,
                    outside,
                };
                table(title, &all, threads, load, effort);
            }
        }
    }
    println!("\nIn the order of tickets");
    let (inside, outside, title) = fifth;
    for batch in [1, 32] {
        let load = Load {
            batch,
            inside,
            outside,
        };
        for threads in [2, THREADS] {
            table(title, &orders(), threads, load, effort);
        }
    }
}
