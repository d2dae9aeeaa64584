//! Two processors over the same buckets, turned by hand: what one does while the other is inside, or between two looks of a home.

mod boxes;
mod delegated;
mod leased;
mod panics;

use braidnet_message::{Arena, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{
    Arrival, Buckets, Cluster, Context, Counter, Direction, Exclusion, Key, Module, ModuleId,
    Stages, State, Stream,
};
use braidnet_wire::time::{Duration, Instant};
use std::sync::{Arc, Mutex, MutexGuard};

const BUCKETS: u32 = 4;
/// The bucket that everything is for.
const BUCKET: u16 = 1;
/// The position of a message during which something happens.
const INSIDE: u64 = 1000;
/// The position of one that makes whoever is inside panic.
const BAD: u64 = 1001;
/// How long after each message the bucket's time has come.
const SOON_MS: u64 = 40;

/// What happens once, while somebody is inside.
type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;
/// Position and time of each message, in the order in which the core saw them.
type Seen = Arc<Mutex<Vec<(u64, Instant)>>>;

/// Lets everything through, on its way down.
struct Probe {
    meanwhile: Meanwhile,
    seen: Seen,
}

const EXPIRED: Counter = Counter(0);

impl Module for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_DOWN | Stages::AFTER_DOWN | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["expired"]
    }

    fn core(&self, _: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.iter() {
            let position = message.position();
            lock(&self.seen).push((position, cx.now()));
            let meanwhile = lock(&self.meanwhile).take_if(|_| position == INSIDE);
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
            assert_ne!(position, BAD, "planted");
        }
        cx.wake_at(cx.now() + Duration::from_millis(SOON_MS));
    }

    fn expire(&self, _: &mut dyn State, cx: &mut Context<'_>) {
        cx.count(EXPIRED, 1);
        let meanwhile = lock(&self.meanwhile).take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no test thread panicked")
}

/// One of the two.
#[derive(Clone)]
struct Processor {
    cluster: Arc<Mutex<Cluster>>,
    probe: ModuleId,
}

impl Processor {
    fn put(&self, position: u64) {
        self.put_in(BUCKET, position);
    }

    fn put_in(&self, bucket: u16, position: u64) {
        let mut cluster = lock(&self.cluster);
        let mut message = cluster.pool().allocate(0, 0).unwrap();
        message.set_bucket(bucket);
        message.set_position(position);
        cluster.put_one(self.probe, Direction::Down, message);
    }

    /// A turn; what the device took in it, which has room for so many.
    fn turn(&self, ms: u64, mut room: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        lock(&self.cluster).turn(Instant::from_millis(ms), &mut |run: &mut Run| {
            let count = room.min(run.len());
            room -= count;
            taken.extend(run.drain_front(count).map(|message| message.position()));
        });
        taken
    }

    /// A turn with one message more, and room for all.
    fn send(&self, ms: u64, position: u64) -> Vec<u64> {
        self.put(position);
        self.turn(ms, usize::MAX)
    }

    fn leaves(&self, seat: usize) {
        assert!(lock(&self.cluster).leave(seat), "it is a guest, and idle");
    }

    fn expired(&self) -> u64 {
        let cluster = lock(&self.cluster);
        cluster
            .counters()
            .value(cluster.stream(), "probe", "expired")
    }
}

/// Both, over the same buckets.
struct Two {
    /// The home, where the buckets are leased.
    one: Processor,
    other: Processor,
    /// Where the buckets are leased to three.
    third: Option<Processor>,
    meanwhile: Meanwhile,
    seen: Seen,
}

impl Two {
    /// Buckets that both enter by delegation.
    fn delegated() -> Two {
        Two::over(|stream| {
            let arrival = Arrival::AsItComes;
            let one = Buckets::shared(stream, BUCKETS, Exclusion::Delegation, arrival, |_| true);
            let other = one.another().expect("they are shared");
            vec![one, other]
        })
    }

    /// Buckets at home with the one.
    fn leased() -> Two {
        Two::over(|stream| Buckets::leased(stream, BUCKETS, 2, |_| 0))
    }

    /// Buckets at home with the one, that two others may share.
    fn leased_to_two() -> Two {
        Two::over(|stream| Buckets::leased(stream, BUCKETS, 3, |_| 0))
    }

    fn over(buckets: impl Fn(&Stream) -> Vec<Buckets>) -> Two {
        let (meanwhile, seen) = (Meanwhile::default(), Seen::default());
        let mut builder = Stream::builder();
        let probe = builder.push(Probe {
            meanwhile: meanwhile.clone(),
            seen: seen.clone(),
        });
        let stream = builder.build().unwrap();
        let arena = Arena::new(64 << 20);
        let mut both = buckets(&stream).into_iter().map(|buckets| {
            let mut cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
            cluster.reserve(64);
            let cluster = Arc::new(Mutex::new(cluster));
            Processor { cluster, probe }
        });
        Two {
            one: both.next().unwrap(),
            other: both.next().unwrap(),
            third: both.next(),
            meanwhile,
            seen,
        }
    }

    fn is_leased(&self) -> bool {
        lock(&self.one.cluster).buckets().neighbours().is_some()
    }

    /// The others ask, and the one admits them: at the end of a turn of its, as it were.
    fn share(&self) {
        let others = [&self.other].into_iter().chain(&self.third);
        for (processor, is_home) in others
            .map(|other| (other, false))
            .chain([(&self.one, true)])
        {
            let mut cluster = lock(&processor.cluster);
            let mut neighbours = cluster.buckets().neighbours().expect("they are leased");
            match is_home {
                true => neighbours.admit(),
                false => neighbours.ask(0),
            }
        }
    }

    /// What is to happen while somebody is inside with the next message at [`INSIDE`], or because the time has come.
    fn meanwhile(&self, what: impl FnOnce() + Send + 'static) {
        *lock(&self.meanwhile) = Some(Box::new(what));
    }

    /// The positions that the core has seen, in order, but for [`INSIDE`].
    fn seen(&self) -> Vec<u64> {
        let seen = lock(&self.seen);
        let positions = seen.iter().map(|(position, _)| *position);
        positions.filter(|position| *position != INSIDE).collect()
    }

    /// How often the bucket's time has come.
    fn expired(&self) -> u64 {
        self.one.expired() + self.other.expired()
    }
}
