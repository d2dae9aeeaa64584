//! Perimeters: who may be inside a bucket.
//!
//! A store of buckets is entered with a piece of work. *Private* buckets belong to the processor that owns the store:
//! entering is an index and a `&mut`. *Shared* ones stand behind a lock each, of the kind chosen at start.
//!
//! # What leaves a shared bucket leaves in order
//!
//! Two processors may work on a bucket one after the other, each carrying away what its entry sent down. Nothing is
//! passed on with the lock held, so without care the second could overtake the first on its way to the device. Each
//! shared bucket therefore has an *outbox* and at most one *drainer*:
//!
//! - `IDLE`: nobody carries anything of this bucket. Whoever leaves the perimeter with messages, still under the lock,
//!   becomes the drainer (`IDLE → DRAINING`) and carries them itself.
//! - `DRAINING`: somebody does. Whoever else leaves with messages puts them into the outbox, under the lock, and says so
//!   (`DRAINING → MORE`).
//! - The drainer, when all it carried has been handed to the device, tries `DRAINING → IDLE`. If that fails the state is
//!   `MORE`: it takes the lock, takes the outbox, sets `DRAINING`, and goes on.
//! - The drainer, whenever it enters the bucket itself, first takes the outbox (`MORE → DRAINING`): what lies there was sent
//!   down earlier than what this entry will send.
//!
//! `IDLE → DRAINING`, `DRAINING → MORE` and `MORE → DRAINING` happen under the lock; only `DRAINING → IDLE` does not, and
//! both sides of that race use compare-and-swap on one word, so either the drainer sees `MORE` or the other sees `IDLE`.
//! The word is acquired and released so that the next drainer's hand-over to the device comes after the last one's.

use crate::bucket::{Bucket, BucketId};
use crate::module::ModuleId;
use crate::queues::QueueId;
use crate::stream::Stream;
use braidnet_message::Message;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

/// The buckets that a cluster works on, private or shared.
pub struct Buckets(pub(crate) Store);

pub(crate) enum Store {
    Private(Vec<Option<Box<Bucket>>>),
    Shared(Arc<[SharedBucket]>),
}

pub(crate) struct SharedBucket {
    guarded: Lock<Guarded>,
    drain: AtomicU8,
}

pub(crate) struct Guarded {
    pub(crate) bucket: Bucket,
    /// The latest time at which it was entered: for those inside, time never goes back.
    now: Instant,
    outbox: Vec<(QueueId, Message)>,
}

const IDLE: u8 = 0;
const DRAINING: u8 = 1;
const MORE: u8 = 2;

impl Buckets {
    /// `count` buckets of which those in `mine` are made here, private to one processor.
    ///
    /// `has` says which of the stream's modules this processor turns.
    pub fn private(
        stream: &Stream,
        count: u32,
        mine: impl Fn(BucketId) -> bool,
        has: impl Fn(ModuleId) -> bool,
    ) -> Buckets {
        let buckets = (0..count.min(1 << 16))
            .map(|id| BucketId(id as u16))
            .map(|id| mine(id).then(|| Box::new(Bucket::open(id, stream, &has))))
            .collect();
        Buckets(Store::Private(buckets))
    }

    /// `count` buckets shared by several processors, each behind a lock of this kind.
    pub fn shared(
        stream: &Stream,
        count: u32,
        lock: LockKind,
        has: impl Fn(ModuleId) -> bool,
    ) -> Buckets {
        let buckets = (0..count.min(1 << 16))
            .map(|id| {
                let bucket = Bucket::open(BucketId(id as u16), stream, &has);
                let guarded = Guarded {
                    bucket,
                    now: Instant::ZERO,
                    outbox: Vec::new(),
                };
                SharedBucket {
                    guarded: Lock::new(lock, LockClass::Connection, guarded),
                    drain: AtomicU8::new(IDLE),
                }
            })
            .collect();
        Buckets(Store::Shared(buckets))
    }

    /// Another processor's view of the same shared buckets; `None` for private ones.
    pub fn another(&self) -> Option<Buckets> {
        match &self.0 {
            Store::Private(_) => None,
            Store::Shared(buckets) => Some(Buckets(Store::Shared(buckets.clone()))),
        }
    }

    /// Takes memory for so many messages in each shared bucket's outbox.
    pub(crate) fn reserve(&mut self, messages: usize) {
        if let Store::Shared(buckets) = &self.0 {
            for shared in buckets.iter() {
                shared.guarded.with(|guarded| {
                    let more = messages.saturating_sub(guarded.outbox.len());
                    guarded.outbox.reserve(more);
                });
            }
        }
    }

    /// How many buckets the stack has.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Store::Private(buckets) => buckets.len() as u32,
            Store::Shared(buckets) => buckets.len() as u32,
        }
    }

    /// Whether this processor may enter the bucket.
    pub fn holds(&self, id: BucketId) -> bool {
        match &self.0 {
            Store::Private(buckets) => buckets.get(id.index()).is_some_and(Option::is_some),
            Store::Shared(buckets) => id.index() < buckets.len(),
        }
    }

    /// Whether the buckets are behind locks.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Store::Shared(_))
    }

    /// Takes a private bucket out, to move it whole.
    pub fn take(&mut self, id: BucketId) -> Option<Box<Bucket>> {
        match &mut self.0 {
            Store::Private(buckets) => buckets.get_mut(id.index())?.take(),
            Store::Shared(_) => None,
        }
    }
}

impl SharedBucket {
    /// Enters the perimeter with a piece of work.
    pub(crate) fn enter<R>(&self, work: impl FnOnce(&mut Guarded) -> R) -> R {
        self.guarded.with(work)
    }

    /// Under the lock, with messages to carry: whether the caller is the drainer and carries them itself.
    pub(crate) fn claim(&self) -> bool {
        loop {
            // Acquire: what the last drainer handed to the device comes before what we hand.
            if self
                .drain
                .compare_exchange(IDLE, DRAINING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
            if self.drain.load(Ordering::Relaxed) == MORE
                || self
                    .drain
                    .compare_exchange(DRAINING, MORE, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return false;
            }
        }
    }

    /// The drainer, when everything it carried has gone: whether it is relieved. If not, `take` gets what has been left
    /// for it meanwhile.
    pub(crate) fn release(&self, mut take: impl FnMut(QueueId, Message)) -> bool {
        if self
            .drain
            .compare_exchange(DRAINING, IDLE, Ordering::Release, Ordering::Relaxed)
            .is_ok()
        {
            return true;
        }
        self.guarded
            .with(|guarded| self.take_left(guarded, &mut take));
        false
    }

    /// The drainer, under the lock: `take` gets what has been left for it.
    pub(crate) fn take_left(&self, guarded: &mut Guarded, mut take: impl FnMut(QueueId, Message)) {
        // Nobody else writes the word while we hold the lock and are the drainer.
        if self.drain.load(Ordering::Relaxed) == MORE {
            for (queue, message) in guarded.outbox.drain(..) {
                take(queue, message);
            }
            self.drain.store(DRAINING, Ordering::Relaxed);
        }
    }
}

impl Guarded {
    /// The time of an entry by a processor whose turn began at `now`.
    pub(crate) fn later(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Leaves a message for the drainer.
    pub(crate) fn leave(&mut self, queue: QueueId, message: Message) {
        self.outbox.push((queue, message));
    }
}
