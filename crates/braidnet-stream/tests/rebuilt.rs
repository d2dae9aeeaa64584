//! What a processor makes anew for itself before its first turn.

use braidnet_message::{Arena, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{
    Arrival, BucketId, Buckets, Cluster, Context, Direction, Exclusion, Key, Module, Stages, State,
    Stream,
};
use braidnet_sync::lock::LockKind;
use braidnet_wire::time::{Duration, Instant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

const BUCKETS: u32 = 4;

/// Keeps who opened a bucket, and tells of each message who had opened the bucket that it was for.
#[derive(Clone)]
struct Opened {
    told: Arc<Mutex<Vec<(u16, ThreadId)>>>,
    expired: Arc<AtomicU64>,
}

impl Module for Opened {
    fn name(&self) -> &'static str {
        "opened"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(thread::current().id())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let by = *state.of::<ThreadId>();
        let mut told = self.told.lock().unwrap();
        told.extend(run.drain().map(|message| (message.bucket(), by)));
        cx.wake_at(cx.now() + Duration::from_millis(1));
    }

    fn expire(&self, _: &mut dyn State, _: &mut Context<'_>) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn only_what_is_shared_stays_where_it_was_made() {
    let module = Opened {
        told: Arc::default(),
        expired: Arc::default(),
    };
    let mut builder = Stream::builder();
    let id = builder.push(module.clone());
    let stream = builder.build().unwrap();
    let arena = Arena::new(16 << 20);
    let own = |bucket: BucketId| bucket != BucketId(2);
    let locked = Exclusion::Lock(LockKind::Adaptive);
    let shared = Buckets::shared(&stream, BUCKETS, locked, Arrival::AsItComes, |_| true);
    let by_module = Buckets::shared_by_module(&stream, BUCKETS, Exclusion::Delegation);
    let mut leased = Buckets::leased(&stream, BUCKETS, 2, |bucket| usize::from(!own(bucket)));
    let cases = [
        (Buckets::private(&stream, BUCKETS, own, |_| true), true),
        (leased.swap_remove(0), true),
        (shared, false),
        (by_module, false),
    ];
    for (buckets, is_own) in cases {
        let mut cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
        let here = thread::current().id();
        let there = thread::scope(|scope| {
            let turned = scope.spawn(|| {
                cluster.rebuild();
                for bucket in [1, 3, 1] {
                    let mut message = cluster.pool().allocate(0, 0).unwrap();
                    message.set_bucket(bucket);
                    cluster.put_one(id, Direction::Up, message);
                }
                let nowhere = &mut |run: &mut Run| run.clear();
                cluster.turn(Instant::ZERO, nowhere);
                cluster.turn(Instant::ZERO + Duration::from_secs(1), nowhere);
                thread::current().id()
            });
            turned.join().unwrap()
        });
        let by = if is_own { there } else { here };
        let told = core::mem::take(&mut *module.told.lock().unwrap());
        assert_eq!(told, [(1, by), (1, by), (3, by)]);
        assert_eq!(module.expired.swap(0, Ordering::Relaxed), 2);
    }
}
