//! How long order-free functions take: what part of the work any processor may do, whatever the order.
//!
//! A processor's time divides into what must be done in order, or by one processor at a time, and what need not. With a share `f` of
//! the second kind, `n` processors that share in it perfectly do the work of `n / (n - (n - 1) · f)`. To find `f` every function before
//! and after a core is timed, by a wrapper around each module; it costs two looks at the clock for each run, and nothing where it is
//! not to be measured.
//!
//! The sum guards nothing, so its order is relaxed.

use crate::bucket::BucketId;
use crate::context::Context;
use crate::dividing::Divisible;
use crate::module::{Direction, Key, Module, Stages, State};
use crate::stream::StreamBuilder;
use braidnet_message::Run;
use braidnet_sync::clock::Clock;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How long a stream's order-free functions have taken.
#[derive(Clone, Default, Debug)]
pub struct OrderFree(Arc<AtomicU64>);

impl OrderFree {
    /// Nanoseconds so far, all threads together.
    pub fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl StreamBuilder {
    /// Has every module that was put on so far, and has an order-free function, timed in these.
    pub fn timing(&mut self) -> OrderFree {
        let spent = OrderFree::default();
        self.wrap(|module| {
            let order_free =
                Stages::BEFORE_UP | Stages::AFTER_UP | Stages::BEFORE_DOWN | Stages::AFTER_DOWN;
            if !module.stages().intersects(order_free) {
                return module;
            }
            Box::new(Timed {
                module,
                clock: Clock::shared(),
                spent: spent.clone(),
            })
        });
        spent
    }
}

/// A module whose order-free functions are timed.
struct Timed {
    module: Box<dyn Module>,
    clock: Clock,
    spent: OrderFree,
}

impl Timed {
    fn time(&self, call: impl FnOnce(&dyn Module)) {
        let from = self.clock.now_nanos();
        call(&*self.module);
        let took = self.clock.now_nanos().saturating_sub(from);
        self.spent.0.fetch_add(took, Ordering::Relaxed);
    }
}

// What is not forwarded would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl Module for Timed {
    fn name(&self) -> &'static str {
        self.module.name()
    }

    fn stages(&self) -> Stages {
        self.module.stages()
    }

    fn key(&self) -> Key {
        self.module.key()
    }

    fn counters(&self) -> &'static [&'static str] {
        self.module.counters()
    }

    /// What is done in pieces elsewhere is timed by nobody.
    fn divisible(&self) -> Option<&dyn Divisible> {
        self.module.divisible()
    }

    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        self.module.open(bucket)
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        self.module.poisoned(old, fresh, cx);
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.time(|module| module.before(direction, run, cx));
    }

    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        self.module.core(state, direction, run, cx);
    }

    fn after(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.time(|module| module.after(direction, run, cx));
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.module.settle(state, cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.module.expire(state, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, ModuleSet};
    use crate::perimeter::Buckets;
    use crate::stream::Stream;
    use braidnet_message::{Arena, Pool};
    use braidnet_wire::time::Instant;

    /// Nanoseconds that a function takes at least.
    const TAKES: u64 = 200_000;

    struct Slow(&'static str, Stages);

    fn wait() {
        let clock = Clock::shared();
        let until = clock.now_nanos() + TAKES;
        while clock.now_nanos() < until {
            core::hint::spin_loop();
        }
    }

    impl Module for Slow {
        fn name(&self) -> &'static str {
            self.0
        }

        fn stages(&self) -> Stages {
            self.1
        }

        fn before(&self, _: Direction, _: &mut Run, _: &mut Context<'_>) {
            wait();
        }

        fn core(&self, _: &mut dyn State, _: Direction, _: &mut Run, _: &mut Context<'_>) {
            wait();
        }

        fn after(&self, _: Direction, _: &mut Run, _: &mut Context<'_>) {
            wait();
        }
    }

    #[test]
    fn what_needs_no_order_is_timed_and_cores_are_not() {
        let rows = [
            (Stages::CORE_UP, 0),
            (Stages::BEFORE_UP | Stages::CORE_UP, 1),
            (Stages::BEFORE_UP | Stages::CORE_UP | Stages::AFTER_UP, 2),
        ];
        for (stages, functions) in rows {
            let mut builder = Stream::builder();
            let low = builder.push(Slow("low", stages));
            let spent = builder.timing();
            let stream = builder.build().unwrap();
            let arena = Arena::new(1 << 20);
            let buckets = Buckets::private(&stream, 4, |_| true, |_| true);
            let mut cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
            let message = Pool::new(&arena).allocate(0, 1).unwrap();
            let from = Clock::shared().now_nanos();
            cluster.put_one(low, Direction::Up, message);
            cluster.turn(Instant::ZERO, &mut |run: &mut Run| run.clear());
            let whole = Clock::shared().now_nanos() - from;
            assert_eq!(cluster.head().len(), 1);
            assert!(spent.nanos() >= functions * TAKES, "{stages:?}");
            assert_eq!(spent.nanos() > 0, functions > 0, "{stages:?}");
            assert!(spent.nanos() + TAKES <= whole, "the core is not in it");
        }
    }
}
