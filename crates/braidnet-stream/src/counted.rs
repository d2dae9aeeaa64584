//! References to modules and sessions, counted for every message on its way up: what the x-kernel did (PLP §5.2).
//!
//! There a message that is demultiplexed takes a count on the module and on the session that it comes to, and the call gives both up
//! when it returns: two for each layer, atomically or under a lock. Here nothing needs them, because streams and buckets outlive
//! the messages in them; so they are taken only where they are to be measured, by a wrapper around each module, and cost nothing
//! where they are not.
//!
//! A count is one word: what is held now in its lower bits, what has ever been taken above them. It guards nothing, so its order is
//! relaxed; the locked one is the same word behind a lock.

use crate::bucket::BucketId;
use crate::context::Context;
use crate::dividing::Divisible;
use crate::module::{Direction, Key, Module, Stages, State};
use crate::stream::StreamBuilder;
use braidnet_message::{Counts, Message, Part, Run};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use core::sync::atomic::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::Arc;

/// How many references have been taken on a stream's modules and on their sessions.
#[derive(Clone, Default)]
pub struct References(Vec<(&'static str, Arc<Counted>)>);

impl References {
    /// Each module that counts, and how many references to it and its sessions have been taken so far, modulo 2^40.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sum = |counted: &Counted| {
            let sessions = counted.sessions.iter().map(Count::taken).sum::<u64>();
            counted.module.taken() + sessions
        };
        (self.0.iter()).map(move |(name, counted)| (*name, sum(counted)))
    }
}

impl StreamBuilder {
    /// Has every module that was put on so far, and has a function on the way up, count references to it and to its sessions in
    /// so many buckets. A session is what a module keeps of one bucket. Under [`Counts::Lean`] nothing is counted.
    pub fn counting(&mut self, counts: Counts, lock: LockKind, buckets: u32) -> References {
        if counts == Counts::Lean {
            return References::default();
        }
        let locked = (counts == Counts::Locked).then_some(lock);
        let mut references = References::default();
        self.wrap(|module| {
            let Some(first) = first_up(module.stages()) else {
                return module;
            };
            let counted = Arc::new(Counted {
                module: Count::new(locked),
                sessions: (0..buckets.max(1)).map(|_| Count::new(locked)).collect(),
            });
            references.0.push((module.name(), counted.clone()));
            Box::new(Counting {
                module,
                first,
                counted,
            })
        });
        references
    }
}

/// The first function that a message meets on its way up.
fn first_up(stages: Stages) -> Option<Stages> {
    [Stages::BEFORE_UP, Stages::CORE_UP, Stages::AFTER_UP]
        .into_iter()
        .find(|stage| stages.contains(*stage))
}

/// The references to one module and its sessions, by bucket.
struct Counted {
    module: Count,
    sessions: Vec<Count>,
}

/// One count, on a cache line of its own.
#[repr(align(128))]
enum Count {
    Atomic(AtomicU64),
    Locked(Lock<u64>),
}

/// Bits of what is held now.
const HELD_BITS: u32 = 24;
/// One more held, and one more taken.
const TAKE: u64 = 1 + (1 << HELD_BITS);

impl Count {
    fn new(locked: Option<LockKind>) -> Count {
        match locked {
            None => Count::Atomic(AtomicU64::new(0)),
            Some(kind) => Count::Locked(Lock::new(kind, LockClass::Buffers, 0)),
        }
    }

    #[inline]
    fn take(&self) {
        self.add(TAKE);
    }

    #[inline]
    fn give_up(&self) {
        self.add(u64::MAX);
    }

    #[inline]
    fn add(&self, change: u64) {
        match self {
            Count::Atomic(word) => {
                word.fetch_add(change, Ordering::Relaxed);
            }
            Count::Locked(word) => word.with(|word| *word = word.wrapping_add(change)),
        }
    }

    fn word(&self) -> u64 {
        match self {
            Count::Atomic(word) => word.load(Ordering::Relaxed),
            Count::Locked(word) => word.with(|word| *word),
        }
    }

    fn taken(&self) -> u64 {
        self.word() >> HELD_BITS
    }
}

impl Counted {
    fn session(&self, bucket: u16) -> &Count {
        &self.sessions[usize::from(bucket) % self.sessions.len()]
    }
}

thread_local! {
    /// The buckets of the messages that a module is being called with. Empty between calls, kept for its memory.
    static BUCKETS: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
}

/// A module whose references are counted.
struct Counting {
    module: Box<dyn Module>,
    first: Stages,
    counted: Arc<Counted>,
}

impl Counting {
    /// Calls the module with a run, each message of which holds two references meanwhile if this is the function that it meets
    /// first on its way up.
    fn call(&self, stage: Stages, run: &mut Run, call: impl FnOnce(&dyn Module, &mut Run)) {
        if stage != self.first {
            return call(&*self.module, run);
        }
        let mut buckets = BUCKETS.take();
        for message in run.iter() {
            self.counted.module.take();
            self.counted.session(message.bucket()).take();
            buckets.push(message.bucket());
        }
        call(&*self.module, run);
        for bucket in buckets.drain(..) {
            self.counted.session(bucket).give_up();
            self.counted.module.give_up();
        }
        BUCKETS.set(buckets);
    }
}

/// The stage's flag on the way up; none on the way down.
fn upward(direction: Direction, stage: Stages) -> Stages {
    match direction {
        Direction::Up => stage,
        Direction::Down => Stages::empty(),
    }
}

// What is not forwarded would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl Module for Counting {
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

    fn divisible(&self) -> Option<&dyn Divisible> {
        self.module.divisible().map(|_| self as &dyn Divisible)
    }

    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        self.module.open(bucket)
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        self.module.poisoned(old, fresh, cx);
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let stage = upward(direction, Stages::BEFORE_UP);
        self.call(stage, run, |module, run| module.before(direction, run, cx));
    }

    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let stage = upward(direction, Stages::CORE_UP);
        self.call(stage, run, |module, run| {
            module.core(state, direction, run, cx);
        });
    }

    fn after(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let stage = upward(direction, Stages::AFTER_UP);
        self.call(stage, run, |module, run| module.after(direction, run, cx));
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.module.settle(state, cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.module.expire(state, cx);
    }
}

/// A message that is divided holds its references while its pieces are put together: before that it is nowhere.
impl Divisible for Counting {
    fn functions(&self) -> Stages {
        let module = self.module.divisible();
        module.map_or(Stages::empty(), |module| module.functions())
    }

    fn pieces(&self, function: Stages, message: &Message) -> usize {
        let module = self.module.divisible();
        module.map_or(0, |module| module.pieces(function, message))
    }

    fn work(&self, function: Stages, part: &mut Part) -> u128 {
        let module = self.module.divisible();
        module.map_or(0, |module| module.work(function, part))
    }

    fn join(
        &self,
        function: Stages,
        message: Message,
        results: &[u128],
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let module = self.module.divisible()?;
        if function != self.first {
            return module.join(function, message, results, cx);
        }
        let session = self.counted.session(message.bucket());
        self.counted.module.take();
        session.take();
        let joined = module.join(function, message, results, cx);
        session.give_up();
        self.counted.module.give_up();
        joined
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

    struct Passing(&'static str, Stages);

    impl Module for Passing {
        fn name(&self) -> &'static str {
            self.0
        }

        fn stages(&self) -> Stages {
            self.1
        }
    }

    fn wired(counts: Counts, lock: LockKind) -> (Arc<Stream>, References) {
        let mut builder = Stream::builder();
        builder.push(Passing(
            "both",
            Stages::BEFORE_UP | Stages::CORE_UP | Stages::BEFORE_DOWN,
        ));
        builder.push(Passing("down", Stages::AFTER_DOWN));
        builder.push(Passing("high", Stages::AFTER_UP));
        let references = builder.counting(counts, lock, 4);
        (builder.build().unwrap(), references)
    }

    #[test]
    fn each_message_takes_two_references_on_each_layer_up_and_holds_none_afterwards() {
        let mut ways = vec![(Counts::Atomic, LockKind::Adaptive)];
        ways.extend(LockKind::all().map(|lock| (Counts::Locked, lock)));
        for (counts, lock) in ways {
            let (stream, references) = wired(counts, lock);
            let arena = Arena::new(1 << 20);
            let buckets = Buckets::private(&stream, 4, |_| true, |_| true);
            let mut cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
            let mut pool = Pool::new(&arena);
            let (low, high) = (stream.find("both").unwrap(), stream.find("high").unwrap());
            for bucket in [1, 2, 3] {
                let mut message = pool.allocate(0, 1).unwrap();
                message.set_bucket(bucket);
                cluster.put_one(low, Direction::Up, message);
            }
            cluster.put_one(high, Direction::Down, pool.allocate(0, 1).unwrap());
            cluster.turn(Instant::ZERO, &mut |run: &mut Run| run.clear());
            assert_eq!(cluster.head().len(), 3);
            let taken: Vec<_> = references.taken().collect();
            assert_eq!(taken, [("both", 6), ("high", 6)], "{counts:?} {lock}");
            for (_, counted) in &references.0 {
                let held = |count: &Count| count.word() & ((1 << HELD_BITS) - 1);
                assert_eq!(held(&counted.module), 0);
                assert!(counted.sessions.iter().all(|count| held(count) == 0));
                assert_eq!(counted.sessions[0].taken(), 0, "nothing was for bucket 0");
            }
        }
    }

    #[test]
    fn nothing_is_wrapped_where_nothing_is_to_be_measured() {
        let (_, references) = wired(Counts::Lean, LockKind::Adaptive);
        assert_eq!(references.taken().count(), 0);
    }
}
