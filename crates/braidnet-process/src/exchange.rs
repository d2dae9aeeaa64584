//! How work passes between workers: mailboxes of parcels, and who has what.

use braidnet_message::Run;
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{Answer, BucketId, Direction, ModuleId, Parcel};
use braidnet_sync::lock::ReadWrite;
use braidnet_sync::parker::Unparker;
use braidnet_sync::primitives::{AtomicU32, Ordering, yield_now};
use braidnet_sync::ring::mpsc;
use lock_api::{RwLock, RwLockWriteGuard};
use std::sync::Arc;

/// Where threads that are no processors leave work for the workers of a stack: finished jobs, control. Cheap to clone, one
/// for each sender.
#[derive(Clone)]
pub struct Mailboxes {
    pub(crate) owners: Arc<Owners>,
    pub(crate) boxes: Vec<Mailbox<Parcel>>,
}

impl Mailboxes {
    /// Sends a parcel to whoever turns its module for its bucket, and wakes it. Waits while the mailbox is full; if the
    /// worker is no more, the parcel is dropped with it.
    pub fn send(&mut self, parcel: Parcel) {
        let _sending = self.owners.senders.read();
        let Mailbox { ring, waker } =
            &mut self.boxes[self.owners.of(parcel.module(), parcel.bucket())];
        let mut parcel = Some(parcel);
        while let Some(unsent) = parcel.take() {
            parcel = ring.push(unsent).err().filter(|_| !ring.is_abandoned());
            waker.unpark();
            if parcel.is_some() {
                yield_now();
            }
        }
    }
}

/// Where workers leave something for one of them, which is woken if it sleeps.
pub(crate) struct Mailbox<T> {
    pub(crate) ring: mpsc::Producer<T>,
    pub(crate) waker: Unparker,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Mailbox<T> {
        Mailbox {
            ring: self.ring.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl<T: Send> Mailbox<T> {
    /// Leaves items, from the front of `items`, as many as there is room for; the rest stays.
    pub(crate) fn leave(&mut self, items: &mut Vec<T>) {
        if self.ring.push_from(items) > 0 {
            self.waker.unpark();
        }
    }
}

/// Things that a mailbox holds: what a device brings in while its owner is off its processor for some milliseconds. As long as
/// there is room, who shares a queue with it goes on.
pub(crate) const MAILBOX: usize = 4096;

/// A mailbox for each worker, whom `wakers` wake, with room for so many things, and the end at which it takes them out.
pub(crate) fn mailboxes<'a, T: Send>(
    wakers: impl Iterator<Item = &'a Unparker>,
    room: usize,
) -> (Vec<Mailbox<T>>, Vec<mpsc::Consumer<T>>) {
    wakers
        .map(|waker| {
            let (ring, inbox) = mpsc::ring(room);
            let waker = waker.clone();
            (Mailbox { ring, waker }, inbox)
        })
        .unzip()
}

/// Which worker turns what: known to all, changed by who gives a bucket away.
///
/// Workers send where they find a bucket to be, and who has given it away sends on what still comes for it. Threads that are no workers look
/// it up and send as readers of a lock; who gives away is its writer for a moment, and looks whether all that they have sent has been done. So what one
/// of them sends for a bucket comes to it in order, wherever that is.
#[derive(Debug)]
pub(crate) struct Owners {
    /// First module of the upper cluster; modules below it are the lower one.
    split: Option<ModuleId>,
    /// For each bucket the worker that holds its lower, and its upper half.
    lower: Box<[AtomicU32]>,
    upper: Box<[AtomicU32]>,
    senders: RwLock<ReadWrite, ()>,
}

impl Owners {
    /// Where each bucket has been dealt to.
    pub(crate) fn new(split: Option<ModuleId>, lower: &[u16], upper: &[u16]) -> Owners {
        let table = |seats: &[u16]| {
            let seats = seats.iter().map(|seat| AtomicU32::new(u32::from(*seat)));
            seats.collect()
        };
        Owners {
            split,
            lower: table(lower),
            upper: table(upper),
            senders: RwLock::new(()),
        }
    }

    /// The worker that runs `module` for `bucket`.
    pub(crate) fn of(&self, module: ModuleId, bucket: BucketId) -> usize {
        let table = match self.split {
            Some(split) if module >= split => &self.upper,
            _ => &self.lower,
        };
        // What the one who gave it away has done comes before what is sent here.
        table
            .get(bucket.index())
            .map_or(0, |seat| seat.load(Ordering::Acquire) as usize)
    }

    /// The worker that takes packets of each bucket.
    pub(crate) fn of_packets(&self) -> Vec<u16> {
        let seats = self.lower.iter();
        seats
            .map(|seat| seat.load(Ordering::Acquire) as u16)
            .collect()
    }

    /// To give buckets away, where no thread is sending: what such threads have sent lies in the mailboxes already.
    pub(crate) fn try_move(&self) -> Option<Removal<'_>> {
        let lock = self.senders.try_write()?;
        Some(Removal {
            owners: self,
            _lock: lock,
        })
    }
}

/// A moment in which only workers send.
pub(crate) struct Removal<'a> {
    owners: &'a Owners,
    _lock: RwLockWriteGuard<'a, ReadWrite, ()>,
}

impl Removal<'_> {
    /// Says that the bucket is another worker's now.
    pub(crate) fn to(&self, seat: usize, bucket: BucketId) {
        for table in [&self.owners.lower, &self.owners.upper] {
            table[bucket.index()].store(seat as u32, Ordering::Release);
        }
    }
}

/// A worker's ways out to the others.
pub(crate) struct Outward {
    pub(crate) owners: Arc<Owners>,
    /// One mailbox per worker; its own only for what comes before a bucket that is on its way to it.
    pub(crate) mailboxes: Vec<Mailbox<Parcel>>,
    /// What a full mailbox had no room for, per worker.
    pub(crate) waiting: Vec<Vec<Parcel>>,
    /// Where what came of others' work goes back to them, per worker, and what there was no room for; none where it does not.
    pub(crate) answers: Vec<(Mailbox<Answer>, Vec<Answer>)>,
    /// The queues between clusters that this worker feeds.
    pub(crate) junctions: Vec<Feed>,
    /// What this turn has for each of them.
    pub(crate) fed: Vec<Run>,
}

/// A queue junction that a worker feeds, and the worker that serves it.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) junction: Arc<QueueJunction>,
    pub(crate) server: usize,
}

impl Outward {
    pub(crate) fn new(
        owners: Arc<Owners>,
        mailboxes: Vec<Mailbox<Parcel>>,
        answers: &[Mailbox<Answer>],
        junctions: Vec<Feed>,
    ) -> Outward {
        Outward {
            waiting: mailboxes.iter().map(|_| Vec::with_capacity(64)).collect(),
            fed: junctions.iter().map(|_| Run::new()).collect(),
            owners,
            mailboxes,
            answers: answers
                .iter()
                .map(|mailbox| (mailbox.clone(), Vec::with_capacity(64)))
                .collect(),
            junctions,
        }
    }

    /// Takes memory for so many parcels to each fellow, and messages in each queue.
    pub(crate) fn reserve(&mut self, messages: usize) {
        for waiting in &mut self.waiting {
            waiting.reserve(messages);
        }
        for fed in &mut self.fed {
            *fed = Run::with_capacity(messages);
        }
    }

    /// Sorts a parcel into the queue or the mailbox that leads to whoever runs it; whether that is a fellow's mailbox.
    pub(crate) fn sort(&mut self, parcel: Parcel) -> bool {
        let server = self.owners.of(parcel.module(), parcel.bucket());
        let target = (parcel.module(), parcel.direction());
        let feed = self
            .junctions
            .iter()
            .position(|feed| feed.server == server && feed.junction.target() == target);
        match feed {
            Some(feed) => self.fed[feed].push(parcel.into_message()),
            None => self.waiting[server].push(parcel),
        }
        feed.is_none()
    }

    /// Brings what came of others' work back to them, as much as there is room for.
    pub(crate) fn answer(&mut self, answers: impl Iterator<Item = Answer>) {
        for answer in answers {
            if let Some((_, waiting)) = self.answers.get_mut(answer.seat()) {
                waiting.push(answer);
            }
        }
        self.deliver_answers();
    }

    fn deliver_answers(&mut self) {
        for (mailbox, waiting) in &mut self.answers {
            if !waiting.is_empty() {
                mailbox.leave(waiting);
            }
        }
    }

    /// Delivers what has been sorted, as much as there is room for, and wakes who sleeps.
    pub(crate) fn deliver(&mut self) {
        for (waiting, mailbox) in self.waiting.iter_mut().zip(&mut self.mailboxes) {
            if !waiting.is_empty() {
                mailbox.leave(waiting);
            }
        }
        self.deliver_answers();
        for (fed, feed) in self.fed.iter_mut().zip(&self.junctions) {
            if !fed.is_empty() {
                // Only a stack that is being taken down closes its queues; what they refuse goes with it.
                if feed.junction.queue().put_run(fed).is_err() {
                    fed.clear();
                }
                self.mailboxes[feed.server].waker.unpark();
            }
        }
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Wakes a worker.
    pub(crate) fn wake(&self, worker: usize) {
        self.mailboxes[worker].waker.unpark();
    }

    /// Wakes all.
    pub(crate) fn wake_all(&self) {
        for mailbox in &self.mailboxes {
            mailbox.waker.unpark();
        }
    }

    /// Whether some way out is so full that no more work should be taken in.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
            || self.answers.iter().any(|(_, waiting)| !waiting.is_empty())
            || self.junctions.iter().any(|feed| {
                feed.junction.target().1 == Direction::Up && feed.junction.queue().is_full()
            })
    }
}
