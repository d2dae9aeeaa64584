//! Queues that hear of buckets that move.

use super::*;
use crate::exchange::mailboxes;
use braidnet_device::Counters;
use braidnet_message::Arena;
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{
    Buckets, Cluster, Context, Direction, Key, Migrant, Module, Neighbours, Stages, State, Stream,
    Tail,
};
use braidnet_sync::parker::Parker;
use braidnet_wire::time::Instant;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

/// Buckets 1 and 3 are worker 0's at the start, bucket 2 worker 1's.
const HOMES: [u16; 4] = [0, 0, 1, 0];

const MAX: usize = 8;

/// What waits at the device: packets of these buckets.
type Waiting = Arc<Mutex<VecDeque<u8>>>;

struct Device(Waiting);

impl Receiver for Device {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut waiting = self.0.lock().unwrap();
        let taken = waiting.len().min(max);
        for bucket in waiting.drain(..taken) {
            into.push(pool.copy_from_slice(0, &[bucket]).unwrap());
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

struct ByFirstByte;

impl Classify for ByFirstByte {
    fn classify(&self, run: &mut Run) {
        for message in run.iter_mut() {
            let bucket = u16::from(message.bytes()[0]);
            message.set_bucket(bucket);
        }
    }
}

struct Nothing;

impl Module for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn core(&self, _: &mut dyn State, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        run.clear();
    }
}

/// Three workers at a queue.
struct Play {
    waiting: Waiting,
    queue: Arc<Queue>,
    takers: Vec<Taker>,
    clusters: Vec<Cluster>,
    pool: Pool,
}

impl Play {
    /// At the queue that this worker's packets come by.
    fn at_queue_of(worker: usize) -> Play {
        let waiting = Waiting::default();
        let sorting = Sorting {
            filter: Arc::new(ByFirstByte),
            owners: Arc::new(Owners::new(None, &HOMES, &HOMES)),
        };
        let wakers: Vec<Unparker> = (0..3).map(|_| Parker::new().unparker()).collect();
        let (ways, inboxes) = mailboxes(wakers.iter(), 64);
        let takers = inboxes.into_iter().enumerate().map(|(me, inbox)| Taker {
            me,
            filter: sorting.filter.clone(),
            inbox,
            handed: 0,
            uncounted: 0,
            unsorted: Run::new(),
            fellow: None,
        });
        let mut builder = Stream::builder();
        builder.push(Nothing);
        let stream = builder.build().unwrap();
        let arena = Arena::new(16 << 20);
        let home = |bucket: BucketId| usize::from(HOMES[bucket.index()]);
        let buckets = Buckets::leased(&stream, HOMES.len() as u32, 3, home);
        let clusters = buckets
            .into_iter()
            .map(|buckets| Cluster::new(&stream, ModuleSet::ALL, buckets, &arena));
        Play {
            queue: Arc::new(Queue::new(
                Box::new(Device(waiting.clone())),
                ways,
                &sorting,
                worker,
            )),
            takers: takers.collect(),
            clusters: clusters.collect(),
            pool: Pool::new(&arena),
            waiting,
        }
    }

    /// What a worker takes: packets of these buckets.
    fn take(&mut self, worker: usize) -> Vec<u16> {
        let mut run = Run::new();
        let mut claims = self.clusters[worker].claims();
        let taker = &mut self.takers[worker];
        taker.receive(&self.queue, &mut self.pool, &mut run, MAX, &mut claims);
        run.drain().map(|message| message.bucket()).collect()
    }

    fn bring(&self, buckets: &[u8]) {
        self.waiting.lock().unwrap().extend(buckets);
    }

    fn neighbours(&mut self, worker: usize) -> Neighbours<'_> {
        self.clusters[worker].buckets().neighbours().unwrap()
    }

    fn become_guest(&mut self, guest: usize, host: usize) {
        self.neighbours(guest).ask(host);
        self.neighbours(host).admit();
        assert!(self.neighbours(guest).is_guest_of(host));
    }
}

/// What is dealt to the others does not come there.
#[test]
fn the_queue_that_a_bucket_was_dealt_to_is_sorted_until_it_is_back() {
    for (worker, is_sorted) in [(0, true), (1, false), (2, false)] {
        let mut play = Play::at_queue_of(worker);
        let mut own = Filtered {
            queue: play.queue.clone(),
            taker: play.takers.remove(worker),
        };
        let mut is_plain = || {
            let taken = own.receive_all(&mut play.pool, &mut Run::new(), MAX);
            taken.is_some()
        };
        assert!(is_plain());
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            assert!(play.queue.give(from, &[(GIFT, to)]));
            assert_eq!(
                is_plain(),
                !is_sorted || to == 0,
                "{worker}: {from} to {to}"
            );
        }
    }
}

const GIFT: BucketId = BucketId(1);

/// Who was given a bucket may have given it on before the first home has told every queue.
#[test]
fn a_queue_learns_of_a_buckets_moves_in_their_order() {
    let mut play = Play::at_queue_of(0);
    for worker in 0..3 {
        assert!(play.queue.keep(worker, true));
    }
    let gift = play.clusters[0].send_off(GIFT).unwrap();
    play.bring(&[1, 1]);
    assert_eq!(play.take(0), []);
    assert!(!play.queue.give(1, &[(GIFT, 2)]), "it has not come to 1");
    assert!(play.queue.give(0, &[(GIFT, 1)]));
    assert!(play.queue.give(1, &[(GIFT, 2)]));
    play.clusters[2].turn(Instant::ZERO, &mut MovesIn(Some(gift)));
    assert_eq!(play.take(1), []);
    assert_eq!(play.take(2), [1, 1]);
}

struct MovesIn(Option<Migrant>);

impl Tail for MovesIn {
    fn migrant(&mut self) -> Option<Migrant> {
        self.0.take()
    }

    fn transmit(&mut self, run: &mut Run) {
        run.clear();
    }
}

/// The bucket may come while a guest looks through what is kept.
#[test]
fn a_guest_takes_nothing_from_behind_what_is_of_a_bucket_that_is_coming() {
    let mut play = Play::at_queue_of(0);
    for worker in 0..3 {
        assert!(play.queue.keep(worker, true));
    }
    play.become_guest(2, 1);
    let gift = play.clusters[0].send_off(GIFT).unwrap();
    assert!(play.queue.give(0, &[(GIFT, 1)]));
    play.bring(&[2, 1, 2, 1]);
    assert_eq!(play.take(0), []);
    assert_eq!(play.take(2), [2], "up to there");
    assert_eq!(play.take(1), [2], "the home knows whether it has come");
    play.bring(&[2]);
    assert_eq!(play.take(2), []);
    play.clusters[1].turn(Instant::ZERO, &mut MovesIn(Some(gift)));
    assert_eq!(play.take(2), [1, 1, 2]);
}
