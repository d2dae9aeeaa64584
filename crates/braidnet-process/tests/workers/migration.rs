//! Buckets that move where the load is lasting and skewed.

use crate::rig::{Device, Rig, workers_over};
use braidnet_message::{Arena, Pool};
use braidnet_process::{Architecture, Mailboxes, Sharing, Worker, processor_of};
use braidnet_stream::{BucketId, Direction, ModuleId, Parcel, Processor, Stream};
use braidnet_wire::time::{Duration, Instant};
use std::sync::{Arc, Mutex};

const BUDGET: usize = 64;

/// Everything happens as soon as it can.
const EAGER: Sharing = Sharing {
    behind: Duration::ZERO,
    spare: Duration::ZERO,
    calm: Duration::from_micros(100),
    lasting: Duration::from_micros(20),
};

/// Pseudo-random numbers (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// What is in play: workers, their queues, and what each bucket has been sent.
struct Play {
    rig: Rig,
    workers: Vec<Arc<Mutex<Worker>>>,
    devices: Vec<Device>,
    now: Instant,
    draw: Draw,
    /// Packets by bucket.
    sent: Vec<u32>,
    post: Post,
}

/// Threads that are no workers.
#[derive(Clone)]
struct Post {
    /// By bucket.
    sent: Arc<Mutex<Vec<u32>>>,
    mail: Mailboxes,
    arena: Arc<Arena>,
    stream: Arc<Stream>,
    module: ModuleId,
}

/// Numbers of what comes by mail begin here.
const MAIL: u32 = 1 << 24;

impl Post {
    fn send(&mut self, bucket: u16) {
        let next = &mut self.sent.lock().unwrap()[usize::from(bucket)];
        let bytes = [bucket.to_be_bytes().as_slice(), &next.to_be_bytes()].concat();
        *next += 1;
        let mut message = Pool::new(&self.arena).copy_from_slice(0, &bytes).unwrap();
        message.set_bucket(bucket);
        let parcel = Parcel::new(&self.stream, self.module, Direction::Down, message);
        self.mail.send(parcel);
    }
}

impl Play {
    fn new(processors: usize, queues: usize, buckets: u32, seed: u64) -> Play {
        let devices: Vec<Device> = (0..queues).map(|_| Device::default()).collect();
        let pairs = devices.iter().map(|device| device.queue(None)).collect();
        let braid = Architecture::Braid;
        let mut rig = workers_over(braid, processors, pairs, buckets, EAGER).unwrap();
        let post = Post {
            sent: Arc::new(Mutex::new(vec![MAIL; buckets as usize])),
            mail: rig.workers[0][0].mailboxes(),
            arena: rig.arena.clone(),
            stream: rig.stream.clone(),
            module: rig.module,
        };
        let workers = rig.workers.drain(..).flatten();
        Play {
            workers: workers.map(|worker| Arc::new(Mutex::new(worker))).collect(),
            rig,
            devices,
            now: Instant::ZERO + Duration::from_secs(1),
            draw: Draw(seed * 2 + 1),
            sent: vec![0; buckets as usize],
            post,
        }
    }

    /// Packets for a bucket, at the queue of whoever it was dealt to.
    fn bring(&mut self, bucket: u16, packets: u32) {
        let queue = processor_of(BucketId(bucket), self.workers.len()) % self.devices.len();
        let next = &mut self.sent[usize::from(bucket)];
        let numbers = *next..*next + packets;
        *next += packets;
        self.devices[queue].bring(numbers.map(|number| (bucket, number)));
    }

    /// While a worker is at a queue, others have turns, and mail comes for these buckets.
    fn disturb(&self, seed: u64, buckets: u16) {
        for device in &self.devices {
            let workers = self.workers.clone();
            let mut post = self.post.clone();
            let mut draw = Draw(seed * 2 + 1);
            let act = move || {
                for _ in 0..draw.below(4) {
                    post.send(1 + draw.below(u64::from(buckets)) as u16);
                }
                let worker = &workers[draw.below(workers.len() as u64) as usize];
                // Somebody else, that is; and two are enough to be in each other's way.
                if let Ok(mut worker) = worker.try_lock() {
                    let now = Instant::ZERO + Duration::from_secs(1);
                    worker.turn(now, BUDGET);
                }
            };
            *device.meanwhile.lock().unwrap() = Some(Box::new(act));
        }
    }

    fn turn(&mut self, worker: usize) {
        self.now += Duration::from_micros(1);
        self.workers[worker].lock().unwrap().turn(self.now, BUDGET);
    }

    /// Turns whoever is drawn, so often.
    fn turn_some(&mut self, turns: u64) {
        for _ in 0..turns {
            let worker = self.draw.below(self.workers.len() as u64) as usize;
            self.turn(worker);
        }
    }

    fn counted(&self, counter: &str) -> u64 {
        let workers = self.workers.iter();
        let counted = workers.map(|worker| {
            let mut worker = worker.lock().unwrap();
            let counters = worker.cluster().counters().clone();
            counters.value(&self.rig.stream, "shared", counter)
        });
        counted.sum()
    }

    fn is_idle(&self) -> bool {
        let is_empty = |device: &Device| device.packets.lock().unwrap().is_empty();
        let has_work = |worker: &Arc<Mutex<Worker>>| worker.lock().unwrap().has_work();
        self.devices.iter().all(is_empty) && !self.workers.iter().any(has_work)
    }

    /// Until nothing is left; then all that was sent has come to its bucket in order, once.
    fn end(mut self) {
        for device in &self.devices {
            *device.meanwhile.lock().unwrap() = None;
        }
        for round in 0.. {
            assert!(round < 10_000, "it does not end");
            if round > 100 && self.is_idle() {
                break;
            }
            for worker in 0..self.workers.len() {
                self.turn(worker);
            }
        }
        let noted = self.rig.noted.lock().unwrap();
        let mail = self.post.sent.lock().unwrap();
        for (bucket, (packets, mail)) in self.sent.iter().zip(&*mail).enumerate() {
            for (what, sent) in [("packets", 0..*packets), ("mail", MAIL..*mail)] {
                let came = noted.iter().filter(|(of, number)| {
                    usize::from(*of) == bucket && (*number >= MAIL) == (sent.start == MAIL)
                });
                let came: Vec<u32> = came.map(|(_, number)| *number).collect();
                let wrong = came
                    .iter()
                    .zip(sent.clone())
                    .position(|(came, sent)| *came != sent);
                let near = wrong.map(|at| &came[at.saturating_sub(5)..came.len().min(at + 20)]);
                assert_eq!(near, None, "{what} for bucket {bucket}");
                assert_eq!(came.len(), sent.len(), "{what} for bucket {bucket}");
            }
        }
    }
}

#[test]
fn of_two_busy_buckets_at_one_home_one_moves_and_then_nothing_is_shared() {
    for queues in [1, 2] {
        let mut play = Play::new(2, queues, 9, 1);
        let both_are_busy = |play: &mut Play| {
            for bucket in [1, 3] {
                play.bring(bucket, 16);
            }
            for worker in [0, 1] {
                play.turn(worker);
            }
        };
        for _ in 0..500 {
            both_are_busy(&mut play);
        }
        let so_far = (play.counted("moved"), play.counted("admitted"));
        assert_eq!(so_far.0, 1, "{queues} queues");
        for _ in 0..500 {
            both_are_busy(&mut play);
        }
        let in_all = (play.counted("moved"), play.counted("admitted"));
        assert_eq!(in_all, so_far, "{queues} queues");
        play.end();
    }
}

#[test]
fn a_single_busy_bucket_stays() {
    let mut play = Play::new(2, 1, 9, 1);
    for _ in 0..1000 {
        play.bring(1, 32);
        for worker in [0, 1] {
            play.turn(worker);
        }
    }
    assert!(play.counted("admitted") > 0, "it is shared");
    assert_eq!(play.counted("moved"), 0);
    play.end();
}

/// The load wanders, so that buckets move again and again, while packets and mail come for them.
#[test]
fn whatever_moves_comes_to_its_bucket_once_and_in_order() {
    let mut moved = 0;
    for seed in 0..120 {
        let (processors, queues) =
            [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 4)][seed as usize / 4 % 6];
        let mut play = Play::new(processors, queues, 24, seed);
        if seed % 4 != 0 {
            play.disturb(seed, 3 * processors as u16);
        }
        for _ in 0..10 {
            let home = play.draw.below(processors as u64) as u16;
            for _ in 0..60 {
                for _ in 0..4 {
                    let bucket = 1 + home + processors as u16 * play.draw.below(4) as u16;
                    play.bring(bucket, 12);
                }
                let (anywhere, letters) = (1 + play.draw.below(23) as u16, play.draw.below(3));
                play.bring(anywhere, 1);
                for _ in 0..letters {
                    play.post.send(1 + home);
                }
                let turns = play.draw.below(4 * processors as u64);
                play.turn_some(turns);
            }
        }
        moved += play.counted("moved");
        println!("seed {seed}: {processors} processors, {queues} queues");
        play.end();
    }
    assert!(moved > 100, "{moved} moved");
}

/// With mail at every moment for the one who wants to be alone, nothing can move; then it goes on sharing.
#[test]
fn who_never_comes_to_give_goes_on_sharing() {
    let mut play = Play::new(2, 1, 9, 1);
    let mut post = play.post.clone();
    // After it has looked into its mailbox, before it could give.
    let act = move || post.send(1);
    *play.devices[0].meanwhile.lock().unwrap() = Some(Box::new(act));
    let mut admitted = [0; 2];
    for admitted in &mut admitted {
        for _ in 0..500 {
            for bucket in [1, 3] {
                play.bring(bucket, 8);
            }
            // The other one finds less than the home can take in a turn, so that this always comes to the device.
            for (worker, budget) in [(0, BUDGET), (1, 4)] {
                play.now += Duration::from_micros(1);
                play.workers[worker].lock().unwrap().turn(play.now, budget);
            }
        }
        *admitted = play.counted("admitted");
    }
    assert_eq!(play.counted("moved"), 0);
    assert!(admitted[1] > admitted[0], "{admitted:?}");
    play.end();
}
