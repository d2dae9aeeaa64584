//! The order in which what several processors take from one queue reaches the cores of shared buckets: the first core, and one above order-free
//! functions.
//!
//! On threads, and under schedules drawn by a seed: then the processors are threads too, but only the one whose turn it is goes on, and in every
//! order-free function the seed says whose it is next.

mod schedule;

use braidnet_message::{Arena, Message, Pool, Run};
use braidnet_stream::cluster::{ModuleSet, Tail};
use braidnet_stream::{
    Arrival, Buckets, Claims, Cluster, Context, Counter, Direction, Exclusion, Key, Module,
    Reserve, Stages, State, Stream, StreamBuilder,
};
use braidnet_sync::lock::LockKind;
use braidnet_wire::time::Instant;
use schedule::{Schedule, pause};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const BUCKETS: u32 = 4;
/// What has these positions is a panic's cause: below the first core, above it outside every perimeter, and in the upper core.
const BELOW: u64 = u64::MAX;
const BETWEEN: u64 = u64::MAX - 1;
const INSIDE: u64 = u64::MAX - 2;

/// Sees in its core whether what comes for a bucket comes in order. Before that it lets others go first, and drops some.
struct Ordered {
    name: &'static str,
    stages: Stages,
    /// Of so many messages it drops one.
    drops: u64,
    /// Whether it lets others go on while it is in its core. Where they wait for it there, nobody could.
    dawdles: bool,
}

thread_local! {
    /// What happens once, on the way up from the first core.
    static MEANWHILE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

const SEEN: Counter = Counter(0);
const DISORDER: Counter = Counter(1);

#[derive(Default)]
struct Next {
    /// The place in its bucket that comes next, or a later one.
    next: u64,
    seen: u64,
}

impl Module for Ordered {
    fn name(&self) -> &'static str {
        self.name
    }

    fn stages(&self) -> Stages {
        self.stages
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
            let position = message.position();
            assert_ne!((self.name, position), ("lower", BELOW), "planted");
            assert_ne!((self.name, position), ("upper", BETWEEN), "planted");
            pause(position);
        }
        run.retain_mut(|message| !is_dropped(message.position(), self.drops));
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let state = state.of::<Next>();
        for message in run.iter_mut() {
            let position = message.position();
            assert_ne!((self.name, position), ("upper", INSIDE), "planted");
            // The lowest core says in which order it has seen them.
            let place = if self.name == "lower" {
                state.seen += 1;
                message.set_connection(state.seen);
                position
            } else {
                message.connection()
            };
            cx.count(SEEN, 1);
            cx.count(DISORDER, u64::from(place < state.next));
            state.next = place + 1;
            if self.dawdles {
                pause(place);
            }
        }
    }

    fn after(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        if let Some(meanwhile) = MEANWHILE.take() {
            meanwhile();
        }
        for message in run.iter() {
            pause(message.position().rotate_left(7));
        }
    }
}

fn is_dropped(position: u64, drops: u64) -> bool {
    position < INSIDE && position % drops == drops - 1
}

/// So many of the first that are not dropped by modules that drop one of so many.
fn passed(all: u64, drops: &[u64]) -> u64 {
    let is_passed = |position: &u64| !drops.iter().any(|drops| is_dropped(*position, *drops));
    (0..all).filter(is_passed).count() as u64
}

/// A queue that several processors take from under a lock: of messages for all buckets but the first, in the order of their positions.
struct Queue<'a> {
    taken: &'a Mutex<u64>,
    /// How many there are.
    all: u64,
    /// How many one takes at once.
    batch: u64,
}

impl Queue<'_> {
    fn is_empty(&self) -> bool {
        *self.taken.lock().unwrap() >= self.all
    }
}

fn message(pool: &mut Pool, bucket: u16, position: u64) -> Message {
    let mut message = pool.allocate(0, 0).unwrap();
    message.set_bucket(bucket);
    message.set_position(position);
    message
}

impl Tail for &Queue<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let mut taken = self.taken.lock().unwrap();
        let end = (*taken + self.batch).min(self.all);
        for position in core::mem::replace(&mut *taken, end)..end {
            let bucket = 1 + (position / 2 % u64::from(BUCKETS - 1)) as u16;
            run.push(message(pool, bucket, position));
            claims.claim(bucket);
        }
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

const LOWER: Ordered = Ordered {
    name: "lower",
    stages: Stages::BEFORE_UP.union(Stages::CORE_UP),
    drops: 7,
    dawdles: false,
};

/// One core.
fn single() -> Arc<Stream> {
    let mut builder = Stream::builder();
    builder.push(LOWER);
    builder.build().unwrap()
}

/// A core, two order-free functions, another core, one more order-free function, and a third core.
fn tower(upper: Stages, dawdles: bool, set: impl Fn(&mut StreamBuilder)) -> Arc<Stream> {
    let mut builder = Stream::builder();
    builder.push(Ordered {
        stages: LOWER.stages | Stages::AFTER_UP,
        dawdles,
        ..LOWER
    });
    builder.push(Ordered {
        name: "upper",
        stages: Stages::BEFORE_UP | Stages::CORE_UP | upper,
        drops: 11,
        dawdles,
    });
    builder.push(Ordered {
        name: "top",
        stages: Stages::BEFORE_UP | Stages::CORE_UP | upper,
        drops: 13,
        dawdles,
    });
    set(&mut builder);
    builder.build().unwrap()
}

/// So many processors over the same buckets.
fn clusters(
    stream: &Arc<Stream>,
    count: usize,
    exclusion: Exclusion,
    arrival: Arrival,
) -> Vec<Cluster> {
    let first = Buckets::shared(stream, BUCKETS, exclusion, arrival, |_| true);
    let others: Vec<Buckets> = (1..count).filter_map(|_| first.another()).collect();
    each_with(stream, std::iter::once(first).chain(others))
}

fn each_with(stream: &Arc<Stream>, buckets: impl IntoIterator<Item = Buckets>) -> Vec<Cluster> {
    let arena = Arena::new(64 << 20);
    let buckets = buckets.into_iter();
    buckets
        .map(|buckets| Cluster::new(stream, ModuleSet::ALL, buckets, &arena))
        .collect()
}

fn counted(clusters: &[Cluster], module: &str, name: &str) -> u64 {
    let count = |cluster: &Cluster| cluster.counters().value(cluster.stream(), module, name);
    clusters.iter().map(count).sum()
}

fn exclusions() -> impl Iterator<Item = Exclusion> {
    let locked = LockKind::all().into_iter().map(Exclusion::Lock);
    locked.chain([Exclusion::Delegation])
}

/// Turns each cluster on a thread of its own until the queue is empty and all is done.
fn turn_all(clusters: &mut [Cluster], queue: &Queue<'_>, schedule: Option<&Schedule>) {
    std::thread::scope(|scope| {
        for (seat, cluster) in clusters.iter_mut().enumerate() {
            scope.spawn(move || {
                let _seat = schedule.map(|schedule| schedule.sit(seat));
                while !queue.is_empty() || cluster.has_unfinished() {
                    cluster.turn(Instant::ZERO, &mut &*queue);
                    cluster.head().clear();
                    pause(0);
                }
            });
        }
    });
    // What one has left another may have found after its own end.
    for _ in 0..2 {
        for cluster in clusters.iter_mut() {
            cluster.turn(Instant::ZERO, &mut &*queue);
            cluster.head().clear();
        }
    }
}

/// Who waits for its turn lets nothing pass, on threads.
#[test]
fn what_waits_for_its_number_enters_in_order() {
    const ALL: u64 = 4_000;
    for exclusion in exclusions() {
        let mut clusters = clusters(&single(), 3, exclusion, Arrival::Waiting);
        let queue = Queue {
            taken: &Mutex::new(0),
            all: ALL,
            batch: 5,
        };
        turn_all(&mut clusters, &queue, None);
        assert_eq!(counted(&clusters, "lower", "disorder"), 0, "{exclusion:?}");
        let seen = counted(&clusters, "lower", "seen");
        assert_eq!(seen, passed(ALL, &[7]), "{exclusion:?}");
    }
}

/// What must be found where cores above order-free functions have been entered, however the first was.
fn assert_in_order_above(clusters: &[Cluster], all: u64, what: &str) {
    for (module, drops) in [
        ("lower", &[7][..]),
        ("upper", &[7, 11]),
        ("top", &[7, 11, 13]),
    ] {
        let seen = counted(clusters, module, "seen");
        assert_eq!(seen, passed(all, drops), "{module}, {what}");
    }
    for module in ["upper", "top"] {
        assert_eq!(counted(clusters, module, "disorder"), 0, "{module}, {what}");
    }
}

#[test]
fn what_leaves_a_core_reaches_those_above_in_order_on_threads() {
    const ALL: u64 = 2_000;
    for waits in [false, true] {
        let stream = tower(Stages::empty(), false, |builder| {
            if waits {
                builder.waiting_above();
            }
        });
        for exclusion in exclusions() {
            for arrival in [Arrival::Waiting, Arrival::Numbered] {
                let mut clusters = clusters(&stream, 3, exclusion, arrival);
                let queue = Queue {
                    taken: &Mutex::new(0),
                    all: ALL,
                    batch: 5,
                };
                turn_all(&mut clusters, &queue, None);
                let what = format!("{exclusion:?} {arrival:?} {waits}");
                assert_in_order_above(&clusters, ALL, &what);
            }
        }
    }
}

/// Out of order above, in so many of the schedules, with these stages of the upper modules.
fn disordered(upper: Stages, exclusion: Exclusion) -> usize {
    const ALL: u64 = 120;
    let stream = tower(upper, exclusion == Exclusion::Delegation, |_| {});
    let is_disordered = |seed: &u64| {
        let mut clusters = clusters(&stream, 3, exclusion, Arrival::Numbered);
        let queue = Queue {
            taken: &Mutex::new(0),
            all: ALL,
            batch: 4,
        };
        turn_all(&mut clusters, &queue, Some(&Schedule::new(*seed, 3)));
        if upper.is_empty() {
            assert_in_order_above(&clusters, ALL, &format!("{exclusion:?} {seed}"));
        }
        counted(&clusters, "upper", "disorder") > 0
    };
    (0..SEEDS).filter(is_disordered).count()
}

const SEEDS: u64 = 40;

#[test]
fn what_leaves_a_core_reaches_those_above_in_order_under_every_schedule() {
    for exclusion in exclusions() {
        assert_eq!(disordered(Stages::empty(), exclusion), 0, "{exclusion:?}");
    }
}

/// One is held up for so long that what the others bring finds no place any more.
#[test]
fn what_finds_no_place_is_brought_again() {
    const ALL: u64 = 900;
    for exclusion in exclusions() {
        let stream = tower(Stages::empty(), false, |_| {});
        let mut clusters = clusters(&stream, 3, exclusion, Arrival::AsItComes);
        let queue = Queue {
            taken: &Mutex::new(0),
            all: ALL,
            batch: 1,
        };
        turn_all(
            &mut clusters,
            &queue,
            Some(&Schedule::new(1, 3).slighting(500)),
        );
        assert_in_order_above(&clusters, ALL, &format!("{exclusion:?}"));
    }
}

/// That the schedules can tell: where order is declined it is lost in most of them.
#[test]
fn a_core_that_declines_order_gets_it_as_it_comes() {
    for exclusion in exclusions() {
        let disordered = disordered(Stages::ANY_ORDER, exclusion);
        assert!(disordered as u64 > SEEDS / 2, "{disordered} {exclusion:?}");
    }
}

/// The queues of some homes, each of one bucket, from which others take, too.
struct Homes<'a> {
    taken: &'a [Mutex<u64>],
    /// Those that are taken from now.
    from: Vec<usize>,
}

impl Tail for Homes<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        for home in &self.from {
            let mut taken = self.taken[*home].lock().unwrap();
            let end = (*taken + 4).min(LEASED);
            for position in core::mem::replace(&mut *taken, end)..end {
                let bucket = 1 + *home as u16;
                run.push(message(pool, bucket, position));
                let is_taken = claims.claim(bucket) || claims.claim_away(*home, bucket);
                assert!(is_taken, "guests take what they may enter");
            }
        }
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// Messages of each home.
const LEASED: u64 = 150;

/// Turns a processor whose buckets are leased: it asks, lets in and leaves as `random` says, until all is done.
fn turn_leased(cluster: &mut Cluster, seat: usize, taken: &[Mutex<u64>], mut random: u64) -> u64 {
    let is_done = || taken.iter().all(|taken| *taken.lock().unwrap() == LEASED);
    let mut admitted = 0;
    while !is_done() || cluster.has_unfinished() {
        let mut neighbours = cluster.buckets().neighbours().unwrap();
        let hosts = (0..taken.len()).filter(|host| neighbours.is_guest_of(*host));
        let from = hosts.chain([seat]).collect();
        cluster.turn(Instant::ZERO, &mut Homes { taken, from });
        cluster.head().clear();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let other = (random >> 40) as usize % taken.len();
        let is_ready = cluster.is_ready();
        let mut neighbours = cluster.buckets().neighbours().unwrap();
        if neighbours.is_asked() && !is_ready {
            let _turn = taken[seat].lock().unwrap();
            neighbours.admit();
            admitted += 1;
        }
        match random >> 62 {
            0 => _ = cluster.leave(other),
            _ if other != seat && !neighbours.asks(other) => neighbours.ask(other),
            _ => {}
        }
        pause(random);
    }
    while !(0..taken.len()).all(|host| {
        cluster.turn(
            Instant::ZERO,
            &mut Homes {
                taken,
                from: Vec::new(),
            },
        );
        cluster.head().clear();
        pause(random);
        let mut neighbours = cluster.buckets().neighbours().unwrap();
        !neighbours.is_guest_of(host) || cluster.leave(host)
    }) {}
    admitted
}

/// Buckets that are one processor's own, others', too, and its own again, all the time.
#[test]
fn what_leaves_a_leased_bucket_reaches_those_above_in_order() {
    let stream = tower(Stages::empty(), true, |_| {});
    for (seed, homes) in (0..SEEDS).flat_map(|seed| [(Some(seed), 2), (Some(seed), 3), (None, 3)]) {
        let home = |bucket: braidnet_stream::BucketId| (bucket.index() + homes - 1) % homes;
        let mut clusters = each_with(&stream, Buckets::leased(&stream, BUCKETS, homes, home));
        let taken: Vec<_> = (0..homes).map(|_| Mutex::new(0)).collect();
        let schedule = seed.map(|seed| Schedule::new(seed, homes).slighting(seed % 40));
        let (taken, schedule) = (&taken, &schedule);
        let admitted: u64 = std::thread::scope(|scope| {
            let turned: Vec<_> = clusters
                .iter_mut()
                .enumerate()
                .map(|(seat, cluster)| {
                    scope.spawn(move || {
                        let _seat = schedule.as_ref().map(|schedule| schedule.sit(seat));
                        let random = seed.unwrap_or(1) + 100 * seat as u64;
                        turn_leased(cluster, seat, taken, random)
                    })
                })
                .collect();
            turned
                .into_iter()
                .map(|turned| turned.join().unwrap())
                .sum()
        });
        for cluster in clusters.iter_mut().chain([]) {
            cluster.turn(Instant::ZERO, &mut |run: &mut Run| run.clear());
        }
        assert!(admitted > 0 || seed.is_none(), "{seed:?}");
        let what = format!("{seed:?} {homes}");
        for (module, drops) in [
            ("lower", &[7][..]),
            ("upper", &[7, 11]),
            ("top", &[7, 11, 13]),
        ] {
            let seen = counted(&clusters, module, "seen");
            assert_eq!(
                seen,
                homes as u64 * passed(LEASED, drops),
                "{module}, {what}"
            );
        }
        assert_eq!(counted(&clusters, "upper", "disorder"), 0, "{what}");
        assert_eq!(counted(&clusters, "top", "disorder"), 0, "{what}");
    }
}

/// The numbers of a processor that has come to its end keep nobody waiting, nor does what has come to an end inside.
#[test]
fn who_ends_with_numbers_in_hand_holds_nobody_up() {
    let exclusions = [Exclusion::Lock(LockKind::Adaptive), Exclusion::Delegation];
    for (exclusion, waits) in exclusions
        .into_iter()
        .flat_map(|each| [(each, false), (each, true)])
    {
        let stream = tower(Stages::empty(), false, |builder| {
            if waits {
                builder.waiting_above();
            }
        });
        for arrival in [Arrival::Waiting, Arrival::Numbered] {
            for (last, seen) in [(BELOW, [5, 4]), (BETWEEN, [12, 4]), (INSIDE, [12, 10])] {
                let mut clusters = clusters(&stream, 2, exclusion, arrival);
                let taken = Mutex::new(0);
                let queue = |all| Queue {
                    taken: &taken,
                    all,
                    batch: 6,
                };
                let first = queue(6);
                let mut ending = Ending {
                    queue: &first,
                    last,
                };
                let turned = catch_unwind(AssertUnwindSafe(|| {
                    clusters[0].turn(Instant::ZERO, &mut ending);
                }));
                let what = format!("{exclusion:?} {arrival:?} {waits} {last:x}");
                assert_eq!(turned.is_err(), last != INSIDE, "{what}");
                clusters[1].turn(Instant::ZERO, &mut &queue(12));
                // Who does not wait passes over what is missing for too long.
                while let Some(at) = clusters[1].deadline() {
                    clusters[1].turn(at, &mut &queue(12));
                }
                let found = ["lower", "upper"].map(|module| counted(&clusters, module, "seen"));
                assert_eq!(found, seen, "{what}");
                // A number for each of three buckets, of which nobody heard again.
                let is_missing = arrival == Arrival::Numbered && last == BELOW;
                let missing = if is_missing { 3 } else { 0 };
                assert_eq!(of_order(&clusters), [missing, 0], "{what}");
            }
        }
    }
}

/// Runs that were passed over, and that were late.
fn of_order(clusters: &[Cluster]) -> [u64; 2] {
    ["passed_over", "late"].map(|name| counted(clusters, "order", name))
}

#[test]
fn who_is_overtaken_for_too_long_is_late_and_that_is_counted() {
    for exclusion in exclusions() {
        for (arrival, buckets) in [(Arrival::Numbered, 3), (Arrival::AsItComes, 0)] {
            let mut clusters = clusters(&single(), 2, exclusion, arrival);
            let queue = Queue {
                taken: &Mutex::new(0),
                all: 12,
                batch: 6,
            };
            let [slow, fast] = &mut clusters[..] else {
                unreachable!("there are two");
            };
            let mut overtaken = Overtaken {
                queue: &queue,
                by: fast,
            };
            slow.turn(Instant::ZERO, &mut overtaken);
            let what = format!("{exclusion:?} {arrival:?}");
            assert_eq!(of_order(&clusters), [buckets, buckets], "{what}");
            assert!(counted(&clusters, "lower", "disorder") > 0, "{what}");
            let seen = counted(&clusters, "lower", "seen");
            assert_eq!(seen, passed(12, &[7]), "{what}");
        }
    }
}

/// Takes from a queue, and with that in hand is overtaken by who takes the rest.
struct Overtaken<'a> {
    queue: &'a Queue<'a>,
    by: &'a mut Cluster,
}

impl Tail for Overtaken<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let mut queue = self.queue;
        queue.receive(pool, run, claims);
        self.by.turn(Instant::ZERO, &mut queue);
        while let Some(at) = self.by.deadline() {
            self.by.turn(at, &mut queue);
        }
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// Takes from a queue, and something else behind.
struct Ending<'a> {
    queue: &'a Queue<'a>,
    last: u64,
}

impl Tail for Ending<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let mut queue = self.queue;
        queue.receive(pool, run, claims);
        run.push(message(pool, 1, self.last));
        claims.claim(1);
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// Takes one message from a device, which nobody else takes from.
struct Single(u64);

impl Tail for Single {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        run.push(message(pool, 1, self.0));
        claims.claim(1);
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// A panic above takes with it what it was inside of, and not what found no place.
#[test]
fn what_finds_no_place_survives_a_panic_above() {
    const ALL: u64 = 90;
    for exclusion in exclusions() {
        let stream = tower(Stages::empty(), false, |_| {});
        let mut both = clusters(&stream, 2, exclusion, Arrival::AsItComes);
        let other = Arc::new(Mutex::new(both.pop().unwrap()));
        let one = &mut both[0];
        let bring = |cluster: &mut Cluster, position| {
            cluster.turn(Instant::ZERO, &mut Single(position));
        };
        let ahead = other.clone();
        MEANWHILE.set(Some(Box::new(move || {
            for position in (1..50).chain([INSIDE]).chain(50..ALL) {
                bring(&mut ahead.lock().unwrap(), position);
            }
        })));
        bring(one, 0);
        both.push(Arc::into_inner(other).unwrap().into_inner().unwrap());
        for _ in 0..10 {
            for cluster in &mut both {
                cluster.turn(Instant::ZERO, &mut |run: &mut Run| run.clear());
            }
        }
        let seen = counted(&both, "upper", "seen");
        assert_eq!(seen, passed(ALL, &[7, 11]), "{exclusion:?}");
        assert!(both.iter().all(|cluster| !cluster.has_unfinished()));
    }
}

/// Takes something from a device, and, where it finds no more buffers, more after what it waits for.
struct Short {
    reserve: Reserve,
    taken: mpsc::Sender<()>,
    wait: mpsc::Receiver<()>,
}

impl Tail for Short {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        // The first is dropped on its way, so that its number is brought last.
        let mut rows = [(1, 6), (2, 1)].into_iter();
        self.reserve.receive(pool, 8, |pool, _| {
            let (bucket, position) = rows.next().unwrap();
            if position == 1 {
                self.wait.recv().unwrap();
            }
            run.push(message(pool, bucket, position));
            claims.claim(bucket);
            assert!(pool.allocate(0, usize::MAX).is_none());
            self.taken.send(()).unwrap();
            1
        });
    }

    fn transmit(&mut self, _: &mut Run) {}
}

/// Takes something for two buckets.
struct Whole(mpsc::Sender<()>);

impl Tail for Whole {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        for bucket in [1, 2] {
            run.push(message(pool, bucket, 0));
            claims.claim(bucket);
        }
        // The other may be through by now.
        let _ = self.0.send(());
    }

    fn transmit(&mut self, _: &mut Run) {}
}

/// Two that wait for their numbers would wait for each other if one drew some before the other did, and some after.
#[test]
fn who_finds_buffers_short_has_drawn_its_numbers_at_once() {
    let (taken, was_taken) = mpsc::channel();
    let (taken_between, wait) = mpsc::channel();
    let (ended, has_ended) = mpsc::channel();
    let mut both = clusters(&single(), 2, Exclusion::Delegation, Arrival::Waiting).into_iter();
    let (mut one, mut other) = (both.next().unwrap(), both.next().unwrap());
    let one_ended = ended.clone();
    std::thread::spawn(move || {
        let reserve = Reserve::new(1 << 20, 64);
        reserve.replenish(one.pool());
        one.turn(
            Instant::ZERO,
            &mut Short {
                reserve,
                taken,
                wait,
            },
        );
        one_ended.send(counted(&[one], "lower", "seen"))
    });
    std::thread::spawn(move || {
        was_taken.recv().unwrap();
        other.turn(Instant::ZERO, &mut Whole(taken_between));
        ended.send(counted(&[other], "lower", "seen"))
    });
    let seen: u64 = (0..2)
        .map(|_| has_ended.recv_timeout(Duration::from_secs(60)).unwrap())
        .sum();
    assert_eq!(
        seen, 2,
        "what was taken first is dropped, and no more is taken then"
    );
}
