//! A panic inside a bucket: what is lost with it, and what is not.

use braidnet_message::{Arena, Counts, Message, Pool, Run};
use braidnet_stream::cluster::{ModuleSet, Tail};
use braidnet_stream::{
    Arrival, BucketId, Buckets, Claims, Cluster, Context, Counter, Direction, Exclusion, Key,
    Migrant, Module, ModuleId, Stages, State, Stream,
};
use braidnet_sync::lock::LockKind;
use braidnet_wire::time::{Duration, Instant};
use std::panic::{AssertUnwindSafe, catch_unwind};

const BUCKETS: u32 = 5;
/// Positions of messages that panic in the core, at their expiry, and outside.
const IN_CORE: u64 = 100;
const AT_EXPIRY: u64 = 101;
const OUTSIDE: u64 = 102;

/// Lets messages through and asks to be woken a second later, until it panics. It has a function on the way up, so that its references can
/// be counted.
struct Brittle(&'static str);

/// What it keeps in a bucket.
#[derive(Default)]
struct Seen {
    messages: u64,
    ends: bool,
}

const EXPIRED: Counter = Counter(0);
const LOST: Counter = Counter(1);

impl Drop for Seen {
    fn drop(&mut self) {
        assert!(!self.ends, "planted, in a drop");
    }
}

impl Module for Brittle {
    fn name(&self) -> &'static str {
        self.0
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::CORE_DOWN | Stages::AFTER_DOWN | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["expired", "lost"]
    }

    fn open(&self, _: braidnet_stream::BucketId) -> Box<dyn State> {
        Box::new(Seen::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let seen = state.of::<Seen>();
        for message in run.iter() {
            assert_ne!(message.position(), IN_CORE, "planted, in a core");
            seen.ends |= message.position() == AT_EXPIRY;
            seen.messages += 1;
        }
        cx.wake_at(cx.now() + Duration::from_secs(1));
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        cx.count(EXPIRED, 1);
        assert!(!state.of::<Seen>().ends, "planted, at an expiry");
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        assert_eq!(fresh.of::<Seen>().messages, 0);
        cx.count(LOST, old.of::<Seen>().messages);
        panic!("planted, in the telling");
    }

    fn after(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        for message in run.iter() {
            assert_ne!(message.position(), OUTSIDE, "planted, outside");
        }
    }
}

/// Two modules, one above the other, as they are and wrapped; in all kinds of buckets.
fn clusters() -> Vec<(Vec<Cluster>, [ModuleId; 2])> {
    [Counts::Lean, Counts::Atomic]
        .into_iter()
        .flat_map(|counts| {
            let mut builder = Stream::builder();
            let modules = ["lower", "upper"].map(|name| builder.push(Brittle(name)));
            let _ = builder.counting(counts, LockKind::Adaptive, BUCKETS);
            let stream = builder.build().unwrap();
            let arena = Arena::new(64 << 20);
            let all = all_buckets(&stream);
            let cluster = move |buckets| Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
            all.map(|all| (all.into_iter().map(&cluster).collect(), modules))
        })
        .collect()
}

/// Private and shared; those shared by several for two processors.
fn all_buckets(stream: &Stream) -> [Vec<Buckets>; 8] {
    let private = Buckets::private(stream, BUCKETS, |_| true, |_| true);
    let shared = |exclusion, arrival| {
        let one = Buckets::shared(stream, BUCKETS, exclusion, arrival, |_| true);
        let another = one.another().unwrap();
        vec![one, another]
    };
    let by_module = |exclusion| {
        let one = Buckets::shared_by_module(stream, BUCKETS, exclusion);
        let another = one.another().unwrap();
        vec![one, another]
    };
    let locked = Exclusion::Lock(LockKind::Adaptive);
    [
        vec![private],
        shared(locked, Arrival::AsItComes),
        shared(locked, Arrival::Numbered),
        shared(Exclusion::Delegation, Arrival::AsItComes),
        shared(Exclusion::Delegation, Arrival::Numbered),
        by_module(locked),
        by_module(Exclusion::Delegation),
        Buckets::leased(stream, BUCKETS, 1, |_| 0),
    ]
}

fn message(pool: &mut Pool, bucket: u16, position: u64) -> Message {
    let mut message = pool.allocate(0, 0).unwrap();
    message.set_bucket(bucket);
    message.set_position(position);
    message
}

fn put(cluster: &mut Cluster, module: ModuleId, bucket: u16, position: u64) {
    let message = message(cluster.pool(), bucket, position);
    cluster.put_one(module, Direction::Down, message);
}

fn turn(cluster: &mut Cluster, now: Instant) -> Vec<(u16, u64)> {
    let mut taken = Vec::new();
    cluster.turn(now, &mut |run: &mut Run| {
        taken.extend(
            run.drain()
                .map(|message| (message.bucket(), message.position())),
        );
    });
    taken
}

fn count(cluster: &Cluster, module: &str, name: &str) -> u64 {
    cluster.counters().value(cluster.stream(), module, name)
}

/// In front of what panics, behind it, and waiting for the core of another module: what is for other buckets goes on, in order.
#[test]
fn messages_of_other_buckets_go_on() {
    for (mut clusters, [lower, upper]) in clusters() {
        let cluster = &mut clusters[0];
        let mut expected = Vec::new();
        for (position, bucket) in [1, 2, 3, 2, 1, 4, 3].into_iter().enumerate() {
            let position = position as u64;
            let is_bad = position == 3;
            put(
                cluster,
                upper,
                bucket,
                if is_bad { IN_CORE } else { position },
            );
            put(cluster, lower, bucket, 10 + position);
            if bucket != 2 {
                expected.extend([(bucket, position), (bucket, 10 + position)]);
            }
        }
        let mut taken = turn(cluster, Instant::ZERO);
        let lost = count(cluster, "stream", "poisoned");
        assert!(lost >= 2, "what was brought with the bad one, at least");
        assert_eq!(taken.len() as u64 + lost, 14, "none without a name");
        // What of the poisoned bucket was not inside may go on or not.
        taken.retain(|(bucket, _)| *bucket != 2);
        for from in [&taken, &expected] {
            let of = |low: bool| {
                let own = from
                    .iter()
                    .filter(move |(_, position)| (*position < 10) == low);
                let mut own: Vec<_> = own.copied().collect();
                own.sort_by_key(|(bucket, _)| *bucket);
                own
            };
            let sorted = [of(true), of(false)];
            let all: Vec<_> = sorted.iter().flatten().copied().collect();
            assert_eq!(all.len(), expected.len(), "{taken:?}");
            assert!(sorted.iter().all(|half| half.is_sorted()), "{taken:?}");
        }
        assert_eq!(turn(cluster, Instant::ZERO), []);
        // A fresh bucket has taken the place.
        for cluster in &mut clusters {
            put(cluster, upper, 2, 7);
            assert_eq!(turn(cluster, Instant::ZERO), [(2, 7)]);
        }
    }
}

#[test]
fn timers_of_other_buckets_go_on() {
    for (mut clusters, [lower, _]) in clusters() {
        let cluster = &mut clusters[0];
        for (bucket, position) in [(1, 0), (2, AT_EXPIRY), (3, 0), (4, AT_EXPIRY), (1, 1)] {
            put(cluster, lower, bucket, position);
        }
        let later = Instant::ZERO + Duration::from_secs(2);
        turn(cluster, Instant::ZERO);
        turn(cluster, later);
        assert_eq!(count(cluster, "lower", "expired"), 4);
        assert_eq!(count(cluster, "lower", "lost"), 2);
        // Each module above is told, though the one below panicked.
        assert_eq!(
            cluster.deadline(),
            None,
            "nobody has asked for another time"
        );
        put(cluster, lower, 2, 0);
        assert_eq!(turn(cluster, later), [(2, 0)]);
        turn(cluster, later + Duration::from_secs(2));
        assert_eq!(count(cluster, "lower", "expired"), 5);
    }
}

/// It is the whole processor's affair: nobody knows what was lost with it.
#[test]
fn a_panic_outside_is_passed_on() {
    for (mut clusters, [lower, _]) in clusters() {
        put(&mut clusters[0], lower, 1, OUTSIDE);
        let turned = catch_unwind(AssertUnwindSafe(|| turn(&mut clusters[0], Instant::ZERO)));
        let panic = turned.expect_err("it is not caught");
        let said = panic.downcast_ref::<String>().expect("a sentence");
        assert!(said.contains("planted, outside"), "{said}");
    }
}

/// Buckets that move in, and packets for one that is here.
struct MovingIn(Vec<Migrant>);

impl Tail for MovingIn {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        for position in 0..3 {
            run.push(message(pool, 4, position));
            assert!(claims.claim(4));
        }
    }

    fn migrant(&mut self) -> Option<Migrant> {
        self.0.pop()
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// At a home with guests their time comes as they move in.
#[test]
fn what_has_come_goes_on_after_panics_in_buckets_that_move_in() {
    let mut builder = Stream::builder();
    let lower = builder.push(Brittle("lower"));
    let stream = builder.build().unwrap();
    let arena = Arena::new(64 << 20);
    let home = |bucket: BucketId| usize::from(bucket.0 == 4);
    let clusters = Buckets::leased(&stream, BUCKETS, 3, home)
        .into_iter()
        .map(|buckets| Cluster::new(&stream, ModuleSet::ALL, buckets, &arena));
    let mut clusters: Vec<_> = clusters.collect();
    let [from, to, guest] = &mut clusters[..] else {
        panic!("three")
    };
    let moving = [1, 2].map(|bucket| {
        put(from, lower, bucket, AT_EXPIRY);
        turn(from, Instant::ZERO);
        from.send_off(BucketId(bucket))
            .expect("nothing is under way")
    });
    guest.buckets().neighbours().unwrap().ask(1);
    to.buckets().neighbours().unwrap().admit();
    let later = Instant::ZERO + Duration::from_secs(2);
    to.turn(later, &mut MovingIn(moving.into()));
    assert_eq!(count(to, "lower", "expired"), 2);
    assert_eq!(to.head().len(), 3);
}
