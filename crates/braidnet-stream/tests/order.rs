//! The order in which what several processors take from one queue reaches the cores of shared buckets.

use braidnet_message::{Arena, Pool, Run};
use braidnet_stream::cluster::{ModuleSet, Tail};
use braidnet_stream::{
    Arrival, Buckets, Claims, Cluster, Context, Counter, Direction, Exclusion, Key, Module, Stages,
    State, Stream,
};
use braidnet_sync::lock::LockKind;
use braidnet_wire::time::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

const BUCKETS: u32 = 4;
/// Messages at this position are a panic's cause, outside every perimeter.
const OUTSIDE: u64 = u64::MAX;

/// Sees in its core whether what comes for a bucket comes in order; what comes before that takes its time, now more and now less.
struct Ordered;

const SEEN: Counter = Counter(0);
const DISORDER: Counter = Counter(1);

/// The position of each bucket that comes next.
#[derive(Default)]
struct Next(u64);

impl Module for Ordered {
    fn name(&self) -> &'static str {
        "ordered"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["seen", "disorder"]
    }

    fn open(&self, _: braidnet_stream::BucketId) -> Box<dyn State> {
        Box::new(Next::default())
    }

    fn before(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        for message in run.iter() {
            assert_ne!(message.position(), OUTSIDE, "planted, outside");
            dawdle(message.position());
        }
        // Some are damaged, and dropped.
        run.retain_mut(|message| message.position() % 7 != 6);
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let Next(next) = state.of::<Next>();
        for message in run.drain() {
            cx.count(SEEN, 1);
            cx.count(DISORDER, u64::from(message.position() < *next));
            *next = message.position() + 1;
        }
    }
}

/// Lets others go first, now and then.
fn dawdle(position: u64) {
    for _ in 0..position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 {
        std::thread::yield_now();
    }
}

/// A queue that several processors take from under a lock: of messages for all buckets but the first, in the order of their positions.
struct Queue<'a> {
    taken: &'a Mutex<u64>,
    /// How many there are.
    all: u64,
    /// How many one takes at once.
    batch: u64,
}

impl Tail for &Queue<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let mut taken = self.taken.lock().unwrap();
        let end = (*taken + self.batch).min(self.all);
        for position in core::mem::replace(&mut *taken, end)..end {
            let bucket = 1 + (position / 2 % u64::from(BUCKETS - 1)) as u16;
            let mut message = pool.allocate(0, 0).unwrap();
            message.set_bucket(bucket);
            message.set_position(position);
            run.push(message);
            claims.claim(bucket);
        }
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// So many processors over the same buckets.
fn clusters(count: usize, exclusion: Exclusion, arrival: Arrival) -> Vec<Cluster> {
    let mut builder = Stream::builder();
    builder.push(Ordered);
    let stream = builder.build().unwrap();
    let arena = Arena::new(64 << 20);
    let first = Buckets::shared(&stream, BUCKETS, exclusion, arrival, |_| true);
    let others: Vec<Buckets> = (1..count).filter_map(|_| first.another()).collect();
    std::iter::once(first)
        .chain(others)
        .map(|buckets| Cluster::new(&stream, ModuleSet::ALL, buckets, &arena))
        .collect()
}

fn counted(clusters: &[Cluster], name: &str) -> u64 {
    let count = |cluster: &Cluster| cluster.counters().value(cluster.stream(), "ordered", name);
    clusters.iter().map(count).sum()
}

/// Who waits for its turn lets nothing pass, on threads.
#[test]
fn what_waits_for_its_number_enters_in_order() {
    const ALL: u64 = 4_000;
    let exclusions = LockKind::all().into_iter().map(Exclusion::Lock);
    for exclusion in exclusions.chain([Exclusion::Delegation]) {
        let mut clusters = clusters(3, exclusion, Arrival::Waiting);
        let taken = Mutex::new(0);
        let queue = Queue {
            taken: &taken,
            all: ALL,
            batch: 5,
        };
        std::thread::scope(|scope| {
            for cluster in &mut clusters {
                scope.spawn(|| {
                    while *queue.taken.lock().unwrap() < ALL || cluster.has_unfinished() {
                        cluster.turn(Instant::ZERO, &mut &queue);
                    }
                });
            }
        });
        assert_eq!(counted(&clusters, "disorder"), 0, "{exclusion:?}");
        let damaged = (0..ALL).filter(|position| position % 7 == 6).count() as u64;
        assert_eq!(counted(&clusters, "seen"), ALL - damaged, "{exclusion:?}");
    }
}

/// The numbers of a processor that has come to its end keep nobody waiting.
#[test]
fn who_ends_with_numbers_in_hand_holds_nobody_up() {
    let locked = Exclusion::Lock(LockKind::Adaptive);
    for (exclusion, arrival) in [
        (locked, Arrival::Waiting),
        (Exclusion::Delegation, Arrival::Waiting),
        (locked, Arrival::Numbered),
        (Exclusion::Delegation, Arrival::Numbered),
    ] {
        let mut clusters = clusters(2, exclusion, arrival);
        let taken = Mutex::new(0);
        let queue = |all| Queue {
            taken: &taken,
            all,
            batch: 6,
        };
        let last = &mut |pool: &mut Pool, run: &mut Run| {
            let mut message = pool.allocate(0, 0).unwrap();
            message.set_position(OUTSIDE);
            run.push(message);
        };
        let mut ends = Ending(&queue(6), last);
        let turned = catch_unwind(AssertUnwindSafe(|| {
            clusters[0].turn(Instant::ZERO, &mut ends);
        }));
        assert!(turned.is_err(), "the panic is passed on");
        clusters[1].turn(Instant::ZERO, &mut &queue(12));
        // Who does not wait passes over what is missing for too long.
        while let Some(at) = clusters[1].deadline() {
            clusters[1].turn(at, &mut &queue(12));
        }
        assert_eq!(counted(&clusters, "seen"), 5, "{exclusion:?} {arrival:?}");
    }
}

/// Takes from a queue, and something else behind.
struct Ending<'a>(&'a Queue<'a>, &'a mut dyn FnMut(&mut Pool, &mut Run));

impl Tail for Ending<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        self.0.receive(pool, run, claims);
        (self.1)(pool, run);
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}
