//! The worker: one cluster, with its ways in and out.

use crate::exchange::{Mailboxes, Outward};
use crate::intake::Share;
use crate::plan::{Application, Classify};
use braidnet_message::{Message, Pool, Run};
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{
    Cluster, Direction, ModuleId, Next, Parcel, Processor, Reserve, Stream, Tail,
};
use braidnet_sync::ring::mpsc;
use braidnet_wire::time::Instant;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// One cluster of modules with its share of the device, its mailbox, the queues that it serves and those that it feeds.
///
/// A turn takes a bounded number of messages from each way in, runs them to completion, and hands over what belongs to
/// others. It never waits for anybody, except under `message` for a lock.
pub struct Worker {
    pub(crate) me: usize,
    pub(crate) bottom: ModuleId,
    pub(crate) stream: Arc<Stream>,
    pub(crate) cluster: Cluster,
    pub(crate) share: Share,
    pub(crate) filter: Option<Arc<dyn Classify>>,
    pub(crate) inbox: mpsc::Consumer<Parcel>,
    pub(crate) serves: Vec<Arc<QueueJunction>>,
    pub(crate) outward: Outward,
    pub(crate) application: Option<Box<dyn Application>>,
    pub(crate) batch: usize,
    pub(crate) run: Run,
    pub(crate) parcels: Vec<Parcel>,
    /// Packets of its own that a packet filter has found and that have not been worked on.
    pub(crate) mine: VecDeque<Message>,
    pub(crate) spare: Reserve,
}

impl Worker {
    /// Its cluster: buckets, buffers, counters.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Takes memory for runs of `messages` messages now, so that no turn that handles as many asks the allocator for more.
    pub fn reserve(&mut self, messages: usize) {
        self.cluster.reserve(messages);
        self.run = Run::with_capacity(messages);
        self.parcels.reserve(messages);
        self.outward.reserve(messages);
    }

    /// Keeps these buffers for what frees others, where the worker's pool is found empty. Without them, a worker whose memory
    /// is used up by what its application sends may wait for ever for the acknowledgments.
    pub fn keep(&mut self, reserve: Reserve) {
        self.spare = reserve;
    }

    /// A way for others to leave work for it and for all its fellows.
    pub fn mailboxes(&self) -> Mailboxes {
        Mailboxes {
            owners: self.outward.owners.clone(),
            boxes: self.outward.mailboxes.clone(),
        }
    }

    /// Sees to the buffers that are kept for need. Where packets come in, they are given back as those come.
    #[inline]
    fn provide(&mut self) {
        let pool = self.cluster.pool();
        if self.share.is_nothing() && self.spare.relieve(pool) {
            return;
        }
        if !self.spare.is_complete() {
            self.spare.replenish(pool);
        }
    }

    /// What others have left for it.
    fn take_over(&mut self, max: usize) -> usize {
        let taken = self.inbox.pop_into(&mut self.parcels, max);
        if self.filter.is_some() {
            let entry = (self.bottom, Direction::Up);
            let others = self.parcels.drain(..).filter_map(|parcel| {
                if (parcel.module(), parcel.direction()) == entry {
                    self.mine.push_back(parcel.into_message());
                    None
                } else {
                    Some(parcel)
                }
            });
            self.cluster.accept(others);
        } else {
            self.cluster.accept(self.parcels.drain(..));
        }
        let served: usize = self
            .serves
            .iter()
            .map(|junction| junction.svc(&mut self.cluster, &mut self.run, max))
            .sum();
        taken + served
    }
}

/// The device as a worker's cluster sees it: a share of the receive queues, through the packet filter where there is one,
/// and a way out.
struct Port<'a> {
    me: usize,
    bottom: ModuleId,
    stream: &'a Stream,
    share: &'a mut Share,
    filter: Option<&'a dyn Classify>,
    outward: &'a mut Outward,
    inbox: &'a mut mpsc::Consumer<Parcel>,
    /// What came by mail and is for another function than the lowest; it waits for the next turn.
    parcels: &'a mut Vec<Parcel>,
    /// Packets of one's own that a packet filter has found, in the order of the queue.
    mine: &'a mut VecDeque<Message>,
    unsorted: &'a mut Run,
    spare: &'a mut Reserve,
    /// Most packets to take.
    max: usize,
    taken: usize,
}

impl Port<'_> {
    /// Takes packets from a shared queue, unless somebody else does, and deals them to their owners.
    fn poll(&mut self, filter: &dyn Classify, pool: &mut Pool) {
        let (me, entry) = (self.me, (self.bottom, Direction::Up));
        let (stream, outward, unsorted) = (self.stream, &mut *self.outward, &mut *self.unsorted);
        let (inbox, parcels, mine) = (&mut *self.inbox, &mut *self.parcels, &mut *self.mine);
        let (spare, max) = (&mut *self.spare, self.max);
        self.taken = self.share.take_turn(max, |filtered| {
            if !outward.pass_on(&mut filtered.left) {
                return 0;
            }
            let receiver = &mut filtered.receiver;
            let taken = spare.receive(pool, max, |pool, max| receiver.receive(pool, unsorted, max));
            // What others polled before came earlier; they had handed it over when the baton came to us.
            while let Some(parcel) = inbox.pop() {
                if (parcel.module(), parcel.direction()) == entry {
                    mine.push_back(parcel.into_message());
                } else {
                    parcels.push(parcel);
                }
            }
            filter.classify(unsorted);
            for message in unsorted.drain() {
                let owner = usize::from(outward.owners.lower[usize::from(message.bucket())]);
                if owner == me {
                    mine.push_back(message);
                } else {
                    let parcel = Parcel::new(stream, entry.0, entry.1, message);
                    filtered.left[owner].push(parcel);
                }
            }
            outward.pass_on(&mut filtered.left);
            taken
        });
    }
}

impl Tail for Port<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run) {
        let Some(filter) = self.filter else {
            let share = &mut *self.share;
            self.taken = self
                .spare
                .receive(pool, self.max, |pool, max| share.receive(pool, run, max));
            return;
        };
        // Who has enough to do already leaves the queue to others.
        if self.mine.len() < self.max {
            self.poll(filter, pool);
        }
        let now = self.mine.len().min(self.max);
        self.taken += now;
        run.extend(self.mine.drain(..now));
    }

    fn transmit(&mut self, run: &mut Run) {
        match &mut self.share.transmitter {
            Some(transmitter) => transmitter.transmit(run),
            None => run.clear(),
        }
    }
}

impl Processor for Worker {
    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        let max = self.batch.min(budget).max(1);
        let mut done = self.take_over(max);
        let mut next = match &mut self.application {
            Some(application) => application.turn(&mut self.cluster, now),
            None => Next::Idle,
        };
        let held_up = self.cluster.is_backed_up() || self.outward.is_full();
        let mut port = Port {
            me: self.me,
            bottom: self.bottom,
            stream: &self.stream,
            share: &mut self.share,
            filter: self.filter.as_deref(),
            outward: &mut self.outward,
            inbox: &mut self.inbox,
            parcels: &mut self.parcels,
            mine: &mut self.mine,
            unsorted: &mut self.run,
            spare: &mut self.spare,
            max: if held_up { 0 } else { max },
            taken: 0,
        };
        self.cluster.turn(now, &mut port);
        done += port.taken;
        self.provide();
        for parcel in self.cluster.outbound() {
            self.outward.sort(parcel);
        }
        self.outward.deliver();
        if done > 0
            || !self.mine.is_empty()
            || self.cluster.is_backed_up()
            || self.outward.is_full()
        {
            next = Next::Again;
        }
        next.sooner(self.cluster.deadline().map_or(Next::Idle, Next::At))
    }

    fn has_work(&self) -> bool {
        self.share.has_waiting()
            || !self.inbox.is_empty()
            || self
                .serves
                .iter()
                .any(|junction| !junction.queue().is_empty())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.share.fd()
    }
}
