//! Buckets that several processors share, each processor a cluster turned by hand.

use braidnet_message::{Arena, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{
    Arrival, Buckets, Cluster, Context, Direction, Exclusion, Extent, Key, Module, ModuleId,
    Stages, State, Stream, StreamBuilder,
};
use braidnet_sync::lock::{LockKind, LockSnapshot, Metering, set_metering};
use braidnet_wire::time::{Duration, Instant};
use proptest::prelude::*;

const BUCKETS: u32 = 4;

/// Lets everything through its core, on the way down.
struct Through(&'static str);

impl Module for Through {
    fn name(&self) -> &'static str {
        self.0
    }

    fn stages(&self) -> Stages {
        Stages::CORE_DOWN | Stages::AFTER_DOWN
    }

    fn key(&self) -> Key {
        Key::Connection
    }
}

/// Asks to be woken soon after each message, and long after each time it was woken.
struct Waking;

impl Waking {
    const SOON: Duration = Duration::from_millis(40);
    const LONG: Duration = Duration::from_millis(200);
}

impl Module for Waking {
    fn name(&self) -> &'static str {
        "waking"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_DOWN | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn core(&self, _: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        run.clear();
        cx.wake_at(cx.now() + Waking::SOON);
    }

    fn expire(&self, _: &mut dyn State, cx: &mut Context<'_>) {
        cx.wake_at(cx.now() + Waking::LONG);
    }
}

/// Writes the time at which it sees a message where its position is.
struct Stamping;

impl Module for Stamping {
    fn name(&self) -> &'static str {
        "stamping"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_DOWN
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn core(&self, _: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let now = cx.now();
        for message in run.iter_mut() {
            message.set_position(now.nanos());
        }
    }
}

/// So many processors over the same buckets, and the single module of their stream.
fn processors(module: impl Module, count: usize, lock: LockKind) -> (Vec<Cluster>, ModuleId) {
    let mut builder = Stream::builder();
    let module = builder.push(module);
    let exclusion = Exclusion::Lock(lock);
    (clusters(builder, count, exclusion, Extent::Bucket), module)
}

fn clusters(
    builder: StreamBuilder,
    count: usize,
    exclusion: Exclusion,
    extent: Extent,
) -> Vec<Cluster> {
    let stream = builder.build().unwrap();
    let arena = Arena::new(64 << 20);
    let first = match extent {
        Extent::Bucket => {
            Buckets::shared(&stream, BUCKETS, exclusion, Arrival::AsItComes, |_| true)
        }
        Extent::Module => Buckets::shared_by_module(&stream, BUCKETS, exclusion),
    };
    let others: Vec<Buckets> = (1..count).filter_map(|_| first.another()).collect();
    std::iter::once(first)
        .chain(others)
        .map(|buckets| Cluster::new(&stream, ModuleSet::ALL, buckets, &arena))
        .collect()
}

/// Puts a message for `bucket` into the cluster's module, on its way down.
fn put(cluster: &mut Cluster, module: ModuleId, bucket: u16, position: u64) {
    let mut message = cluster.pool().allocate(0, 0).unwrap();
    message.set_bucket(bucket);
    message.set_position(position);
    cluster.put_one(module, Direction::Down, message);
}

/// A device that takes at most `room` packets and notes bucket and position of each.
fn device(mut room: usize, taken: &mut Vec<(u16, u64)>) -> impl FnMut(&mut Run) {
    move |run| {
        let count = room.min(run.len());
        room -= count;
        taken.extend(
            run.drain_front(count)
                .map(|message| (message.bucket(), message.position())),
        );
    }
}

#[test]
fn a_drainer_that_enters_again_does_not_overtake_what_was_left_for_it() {
    let (mut clusters, module) = processors(Through("through"), 2, LockKind::Adaptive);
    let mut taken = Vec::new();
    // The device has no room: the first processor stays the drainer, and the second leaves what it has with it.
    for (position, (processor, room)) in [(0, 0), (1, 8), (0, 8)].into_iter().enumerate() {
        let cluster = &mut clusters[processor];
        put(cluster, module, 1, position as u64);
        cluster.turn(Instant::ZERO, &mut device(room, &mut taken));
    }
    assert_eq!(taken, [(1, 0), (1, 1), (1, 2)]);
}

#[test]
fn timers_do_not_multiply_where_processors_take_turns_to_arm_them() {
    let (mut clusters, module) = processors(Waking, 2, LockKind::Adaptive);
    let mut nowhere = |_: &mut Run| {};
    let mut now = Instant::ZERO;
    for cycle in 0..200 {
        for step in 0..30 {
            if step == 3 {
                put(&mut clusters[cycle % 2], module, 1, 0);
            }
            for cluster in &mut clusters {
                cluster.turn(now, &mut nowhere);
            }
            now += Duration::from_millis(10);
        }
    }
    set_metering(Metering::Counts);
    let entries = || LockSnapshot::thread().total().acquisitions;
    let (quiet, before) = (now + 10 * Waking::LONG, entries());
    while let Some(at) = clusters.iter().filter_map(Cluster::deadline).min()
        && at <= quiet
    {
        for cluster in &mut clusters {
            cluster.turn(at, &mut nowhere);
        }
    }
    // The bucket's time comes every so often; a stale entry may be left in either wheel.
    let entries = entries() - before;
    assert!((9..=12).contains(&entries), "{entries} entries");
}

#[test]
fn time_does_not_go_back_in_a_bucket_when_a_slower_processor_enters() {
    let (mut clusters, module) = processors(Stamping, 2, LockKind::Adaptive);
    let mut taken = Vec::new();
    for (processor, bucket, nanos) in [(0, 1, 20), (1, 1, 10), (1, 2, 10), (1, 1, 30)] {
        let cluster = &mut clusters[processor];
        put(cluster, module, bucket, 0);
        cluster.turn(Instant::from_nanos(nanos), &mut device(8, &mut taken));
    }
    assert_eq!(taken, [(1, 20), (1, 20), (2, 10), (1, 30)]);
}

proptest! {
    /// However many processors enter the buckets, and however seldom the device has room for them: what leaves a bucket
    /// leaves in the order of the entries, and nothing stays behind.
    #[test]
    fn what_leaves_a_shared_bucket_leaves_in_order(
        turns in prop::collection::vec((0usize..3, prop::collection::vec(1u16..4, 0..6), 0usize..6), 1..60),
        lock in prop::option::of(prop::sample::select(LockKind::all().to_vec())),
        extent in prop::sample::select(vec![Extent::Bucket, Extent::Module]),
    ) {
        let mut builder = Stream::builder();
        builder.push(Through("lower"));
        let module = builder.push(Through("upper"));
        let exclusion = lock.map_or(Exclusion::Delegation, Exclusion::Lock);
        let mut clusters = clusters(builder, 3, exclusion, extent);
        let mut taken = Vec::new();
        let mut entered = [0; BUCKETS as usize];
        let mut turn = |cluster: &mut Cluster, messages: &[u16], room| {
            for &bucket in messages {
                put(cluster, module, bucket, entered[usize::from(bucket)]);
                entered[usize::from(bucket)] += 1;
            }
            cluster.turn(Instant::ZERO, &mut device(room, &mut taken));
        };
        for (processor, messages, room) in &turns {
            turn(&mut clusters[*processor], messages, *room);
        }
        for cluster in &mut clusters {
            turn(cluster, &[], usize::MAX);
        }
        for bucket in 1..BUCKETS as u16 {
            let left: Vec<u64> = taken.iter().filter(|(of, _)| *of == bucket).map(|(_, position)| *position).collect();
            let all: Vec<u64> = (0..entered[usize::from(bucket)]).collect();
            prop_assert_eq!(left, all);
        }
    }
}
