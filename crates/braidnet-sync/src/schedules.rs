//! Runs of whole programs, each in an order of its threads' steps that a seed draws (`--cfg shuttle` only).
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p braidnet-lab --test equivalence scheduled
//! ```
//!
//! Under this cfg the primitives of this crate, and whatever the crates above take from [`primitives`](crate::primitives), are
//! shuttle's: the threads of a run are coroutines, and before each step that others could see a scheduler says who goes on. Loom looks at
//! *every* order of a few steps of one primitive, and at weak memory; a run here looks at *one* order, of all the steps of a whole stack.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::primitives;

/// How orders are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// Whoever is next is drawn, now at every step, now, as the seed has it, at one in up to 256.
    Evenly,
    /// Threads have priorities, and the first that can go on does. At a few steps, and where it spins, the one that goes falls
    /// behind all others: so some step is held up for as long as the others find something to do (Burckhardt et al., "A Randomized
    /// Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
    ByPriority,
}

impl Draw {
    /// Both.
    pub const ALL: [Draw; 2] = [Draw::Evenly, Draw::ByPriority];
}

/// Seeds to draw orders by: from `BRAIDNET_SEED`, if it is set, that one; else as many as `BRAIDNET_SEEDS` says, or `usual`.
///
/// # Panics
/// If what is set is no number.
pub fn seeds(usual: u64) -> core::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
    };
    match number("BRAIDNET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BRAIDNET_SEEDS").unwrap_or(usual),
    }
}

/// Bytes of a thread's stack.
const STACK: usize = 1 << 20;

/// Runs `body`, as the first thread of a run, in the order that `seed` draws. The same seed draws the same order.
///
/// # Panics
/// If a thread of the run does, if all wait for each other, or if the run has not ended after `steps` steps.
pub fn run(draw: Draw, seed: u64, steps: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(steps);
    config.silence_warnings = true;
    let body = Arc::new(body);
    let whole = AssertUnwindSafe(move || {
        let runner = Runner::new(Drawn::new(draw, seed), config);
        runner.run(move || {
            primitives::begin();
            body();
        });
    });
    if let Err(reason) = catch_unwind(whole) {
        eprintln!("the order that {draw:?} and the seed {seed} draw does it");
        resume_unwind(reason);
    }
}

/// A scheduler for one run.
struct Drawn {
    random: Random,
    begun: bool,
    order: Order,
}

enum Order {
    Even {
        /// One step in so many asks who is next.
        one_in: u64,
    },
    Priorities {
        /// By thread; the least goes first.
        of: Vec<u64>,
        /// Below all that have been given.
        lowest: u64,
        steps: u64,
        /// Steps, in ascending order, at which who goes falls behind.
        falls: Vec<u64>,
    },
}

impl Drawn {
    fn new(draw: Draw, seed: u64) -> Drawn {
        let mut random = Random(seed);
        let order = match draw {
            Draw::Evenly => Order::Even {
                one_in: 1 << random.below(9),
            },
            Draw::ByPriority => {
                // Early and late ones are as likely, however long the run is.
                let mut falls: Vec<u64> = (0..random.below(24))
                    .map(|_| {
                        let bits = 4 + random.below(16);
                        random.below(1 << bits)
                    })
                    .collect();
                falls.sort_unstable();
                Order::Priorities {
                    of: Vec::new(),
                    lowest: 1 << 32,
                    steps: 0,
                    falls,
                }
            }
        };
        Drawn {
            random,
            begun: false,
            order,
        }
    }
}

impl Scheduler for Drawn {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!core::mem::replace(&mut self.begun, true)).then(|| Schedule::new(self.random.0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let random = &mut self.random;
        match &mut self.order {
            Order::Even { one_in } => {
                let goes_on = current
                    .filter(|current| runnable.iter().any(|task| task.id() == *current))
                    .filter(|_| !is_yielding && random.below(*one_in) > 0);
                goes_on.or_else(|| {
                    let next = random.below(runnable.len() as u64) as usize;
                    Some(runnable.get(next)?.id())
                })
            }
            Order::Priorities {
                of,
                lowest,
                steps,
                falls,
            } => {
                *steps += 1;
                let mut falls_behind = is_yielding;
                while falls.first().is_some_and(|fall| fall <= steps) {
                    falls.remove(0);
                    falls_behind = true;
                }
                let most = runnable.iter().map(|task| usize::from(task.id())).max()?;
                while of.len() <= most {
                    of.push(random.below(1 << 32));
                }
                if let Some(current) = current.filter(|_| falls_behind)
                    && let Some(priority) = of.get_mut(usize::from(current))
                {
                    *lowest += 1;
                    *priority = *lowest;
                }
                runnable
                    .iter()
                    .map(|task| task.id())
                    .min_by_key(|task| of[usize::from(*task)])
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.random.word()
    }
}

/// SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `bound` - 1.
    fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }
}
