//! A bucket that several processors enter.

use crate::bucket::{Bucket, BucketId};
use crate::queues::QueueId;
use crate::rising::Rise;
use crate::work::PIECES;
use braidnet_message::{Message, Run};
use braidnet_sync::blocking_order::BlockingOrder;
use braidnet_sync::delegation::{Delegated, Left};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::outbox::{Drain, Outbox};
use braidnet_sync::rejoin::Rejoin;
use braidnet_sync::ticket::{Ticket, Tickets};
use braidnet_wire::time::{Duration, Instant};

/// How several processors keep out of each other's way in a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exclusion {
    /// Whoever finds it held waits.
    Lock(LockKind),
    /// Whoever finds it held leaves the work with whoever is inside, and goes on (DEMUX §3.2.2).
    Delegation,
}

impl Exclusion {
    /// The kind of lock that goes with it for whatever has to be waited for.
    pub fn lock(self) -> LockKind {
        match self {
            Exclusion::Lock(kind) => kind,
            Exclusion::Delegation => LockKind::default(),
        }
    }
}

/// What of the order of arrival reaches a shared bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Arrival {
    /// Whatever order the processors come in.
    #[default]
    AsItComes,
    /// Each run gets a number where it is taken from the device, and enters in the order of these (PLP §4.1).
    Numbered,
    /// The same, and whoever comes before the turn of its number waits, as in the papers' bakery (PLP §4.2). Who draws for several
    /// buckets must draw all at once, as who asks the only queue of a device does, or two could wait for each other.
    Waiting,
}

/// What of a shared bucket one perimeter covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Extent {
    /// All of it: it is entered once for all modules that are neighbours.
    #[default]
    Bucket,
    /// One module's state in it: each is entered for itself, so that two processors can be in one connection at a time, in different
    /// modules (DEMUX §3.2.2: "queue pair").
    Module,
}

/// A bucket that several processors enter, or one module's part of it, and what keeps order there.
pub(crate) struct SharedBucket {
    pub(crate) id: BucketId,
    pub(crate) inside: Inside,
    /// What leaves it leaves in order: see [`perimeter`](crate::perimeter).
    pub(crate) drain: Drain,
    outbox: Lock<Outbox<(QueueId, Message)>>,
    /// The number of the next run, if runs are numbered; drawn by whoever has the device queue that the bucket's packets come from.
    numbers: Option<Tickets>,
    /// Where whoever comes before its turn waits, if that is how order is kept.
    pub(crate) turns: Option<BlockingOrder>,
    /// One for each exit of the stream's.
    pub(crate) rises: Box<[Rise]>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "delegation has its word on a cache line of its own; nobody has many of the other"
)]
pub(crate) enum Inside {
    Locked(Lock<Guarded>),
    Delegated(Delegated<Guarded, Piece>),
}

/// What only whoever is inside has.
pub(crate) struct Guarded {
    pub(crate) kept: Kept,
    /// Where runs wait for those that have been taken from the device before them.
    pub(crate) order: Option<Rejoin<Box<Left<Piece>>, Instant>>,
}

pub(crate) struct Kept {
    pub(crate) bucket: Bucket,
    /// The latest time at which it was entered: for those inside, time never goes back.
    now: Instant,
    /// Whether somebody is inside, or has not come out: then the bucket is [poisoned](crate::poison).
    pub(crate) is_inside: bool,
    /// Messages that have been brought to its cores, modulo 2^32.
    pub(crate) served: u32,
    /// Boxes that nobody needed.
    pub(crate) spare: Boxes,
}

/// Work for a bucket that can be left with whoever is inside.
#[derive(Default)]
pub(crate) struct Piece {
    /// Where the run has come to; nowhere, if it is only that the bucket's time may have come, or that no wheel may know of it.
    pub(crate) queue: Option<QueueId>,
    pub(crate) run: Run,
    /// Its number, if it has one.
    pub(crate) number: Option<Ticket>,
    /// The seat of whoever brought it, if that one wants back what comes of it.
    pub(crate) from: Option<u16>,
}

/// Messages that memory is taken for in each outbox.
const OUTBOX: usize = 1024;

/// Boxes for work: what is brought to a bucket is brought in its box.
pub(crate) type Boxes = Vec<Box<Left<Piece>>>;

/// Runs that can wait for one that was taken from the device before them.
const PLACES: usize = 16;

/// Places at which processors can wait without waking each other, where that is how order is kept.
const WAITING_PLACES: usize = 8;

/// How long they wait: longer than a run takes, much shorter than what TCP takes for a loss.
pub(crate) const PATIENCE: Duration = Duration::from_micros(100);

impl SharedBucket {
    /// A bucket that this keeps apart and in order.
    pub(crate) fn new(
        bucket: Bucket,
        exclusion: Exclusion,
        arrival: Arrival,
        rises: Box<[Rise]>,
    ) -> SharedBucket {
        let order = match arrival {
            Arrival::AsItComes | Arrival::Waiting => None,
            Arrival::Numbered => Some(Rejoin::new(PLACES)),
        };
        let id = bucket.id;
        let mut outbox = Outbox::new();
        outbox.reserve(OUTBOX);
        let kept = Kept {
            bucket,
            now: Instant::ZERO,
            is_inside: false,
            served: 0,
            spare: Vec::with_capacity(PIECES),
        };
        let guarded = Guarded { kept, order };
        SharedBucket {
            id,
            inside: match exclusion {
                Exclusion::Lock(kind) => {
                    Inside::Locked(Lock::new(kind, LockClass::Connection, guarded))
                }
                Exclusion::Delegation => Inside::Delegated(Delegated::new(guarded)),
            },
            drain: Drain::new(),
            outbox: Lock::new(LockKind::Adaptive, LockClass::Queue, outbox),
            numbers: (arrival != Arrival::AsItComes).then(Tickets::default),
            rises,
            turns: (arrival == Arrival::Waiting).then(|| BlockingOrder::new(WAITING_PLACES)),
        }
    }

    /// What is inside, for somebody who has it to himself.
    #[inline]
    pub(crate) fn alone(&mut self) -> &mut Kept {
        let guarded = match &mut self.inside {
            Inside::Locked(lock) => lock.get_mut(),
            Inside::Delegated(delegated) => delegated.get_mut(),
        };
        &mut guarded.kept
    }

    /// The number of the next run, if runs are numbered; drawn by whoever has the queue that the bucket's packets come from.
    #[inline]
    pub(crate) fn draw(&self) -> Option<Ticket> {
        self.numbers.as_ref().map(Tickets::draw)
    }

    /// Inside, with something that goes down: whether the caller carries it itself. If not, `give_up` is called with where each message
    /// is left instead.
    pub(crate) fn send(&self, give_up: impl FnOnce(&mut dyn FnMut(QueueId, Message))) -> bool {
        self.drain.try_claim()
            || self.outbox.with(|outbox| {
                let carries = self.drain.claim();
                if !carries {
                    give_up(&mut |queue, message| outbox.leave((queue, message)));
                }
                carries
            })
    }

    /// The drainer: `take` gets what has been left for it.
    pub(crate) fn take_left(&self, mut take: impl FnMut(QueueId, Message)) {
        self.outbox.with(|outbox| {
            for (queue, message) in outbox.take(&self.drain) {
                take(queue, message);
            }
        });
    }

    /// The drainer, when everything it carried has gone: whether it is relieved. If not, `take` gets what has been left
    /// for it meanwhile.
    pub(crate) fn relieve(&self, take: impl FnMut(QueueId, Message)) -> bool {
        let relieved = self.drain.release();
        if !relieved {
            self.take_left(take);
        }
        relieved
    }
}

impl Kept {
    /// The time of an entry by a processor whose turn began at `now`.
    pub(crate) fn later(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}
