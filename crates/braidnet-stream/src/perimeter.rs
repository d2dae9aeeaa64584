//! Perimeters: who may be inside a bucket.
//!
//! A store of buckets is entered with a piece of work. *Private* buckets belong to the processor that owns the store:
//! entering is an index and a `&mut`. *Shared* ones stand behind a lock each, of the kind chosen at start.
//!
//! # What leaves a shared bucket leaves in order
//!
//! Two processors may work on a bucket one after the other, each carrying away what its entry sent down. Nothing is
//! passed on with the lock held, so without care the second could overtake the first on its way to the device. Each
//! shared bucket therefore has an [outbox](braidnet_sync::outbox) and at most one drainer, which hands its messages to the
//! device; others leave theirs with it.

use crate::bucket::{Bucket, BucketId};
use crate::module::ModuleId;
use crate::queues::QueueId;
use crate::stream::Stream;
use braidnet_message::Message;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::outbox::{Drain, Outbox};
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// The buckets that a cluster works on, private or shared.
pub struct Buckets(pub(crate) Store);

pub(crate) enum Store {
    Private(Vec<Option<Box<Bucket>>>),
    Shared(Arc<[SharedBucket]>),
}

pub(crate) struct SharedBucket {
    guarded: Lock<Guarded>,
    pub(crate) drain: Drain,
}

pub(crate) struct Guarded {
    pub(crate) bucket: Bucket,
    /// The latest time at which it was entered: for those inside, time never goes back.
    now: Instant,
    pub(crate) outbox: Outbox<(QueueId, Message)>,
    /// Whether somebody is inside, or has not come out: then the bucket is [poisoned](crate::poison).
    pub(crate) is_inside: bool,
}

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
                    outbox: Outbox::new(),
                    is_inside: false,
                };
                SharedBucket {
                    guarded: Lock::new(lock, LockClass::Connection, guarded),
                    drain: Drain::new(),
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
                shared
                    .guarded
                    .with(|guarded| guarded.outbox.reserve(messages));
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

    /// The drainer, when everything it carried has gone: whether it is relieved. If not, `take` gets what has been left
    /// for it meanwhile.
    pub(crate) fn release(&self, mut take: impl FnMut(QueueId, Message)) -> bool {
        if self.drain.release() {
            return true;
        }
        self.guarded
            .with(|guarded| self.take_left(guarded, &mut take));
        false
    }

    /// The drainer, under the lock: `take` gets what has been left for it.
    pub(crate) fn take_left(&self, guarded: &mut Guarded, mut take: impl FnMut(QueueId, Message)) {
        for (queue, message) in guarded.outbox.take(&self.drain) {
            take(queue, message);
        }
    }
}

impl Guarded {
    /// The time of an entry by a processor whose turn began at `now`.
    pub(crate) fn later(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}
