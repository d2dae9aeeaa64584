//! The worker: one cluster, with its ways in and out.

use crate::exchange::{Mailboxes, Outward};
use crate::intake::Intake;
use crate::plan::{Application, Classify};
use braidnet_device::Transmitter;
use braidnet_message::Run;
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{Cluster, Direction, ModuleId, Next, Parcel, Processor};
use braidnet_sync::ring::mpsc;
use braidnet_wire::time::Instant;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// One cluster of modules with its share of the device, its mailbox, the queues that it serves and those that it feeds.
///
/// A turn takes a bounded number of messages from each way in, runs them to completion, and hands over what belongs to
/// others. It never waits for anybody, except under `message` for a lock.
pub struct Worker {
    pub(crate) me: usize,
    pub(crate) bottom: ModuleId,
    pub(crate) cluster: Cluster,
    pub(crate) intake: Intake,
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) transmitter: Option<Box<dyn Transmitter>>,
    pub(crate) filter: Option<Arc<dyn Classify>>,
    pub(crate) inbox: mpsc::Consumer<Parcel>,
    pub(crate) serves: Vec<Arc<QueueJunction>>,
    pub(crate) outward: Outward,
    pub(crate) application: Option<Box<dyn Application>>,
    pub(crate) batch: usize,
    pub(crate) run: Run,
    pub(crate) mine: Run,
    pub(crate) parcels: Vec<Parcel>,
}

impl Worker {
    /// Its cluster: buckets, buffers, counters.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// A way for others to leave work for it and for all its fellows.
    pub fn mailboxes(&self) -> Mailboxes {
        Mailboxes {
            owners: self.outward.owners.clone(),
            boxes: self.outward.mailboxes.clone(),
        }
    }

    /// What the device has for it, at most `max` packets.
    fn take_in(&mut self, max: usize) -> usize {
        let taken = {
            let mut pool = self.cluster.pool();
            self.intake.receive(&mut pool, &mut self.run, max)
        };
        match &self.filter {
            Some(filter) if taken > 0 => {
                filter.classify(&mut self.run);
                for message in self.run.drain() {
                    let owner =
                        usize::from(self.outward.owners.lower[usize::from(message.bucket())]);
                    if owner == self.me {
                        self.mine.push(message);
                    } else {
                        let parcel =
                            Parcel::new(self.cluster.stream(), self.bottom, Direction::Up, message);
                        self.outward.hand_over(owner, parcel);
                    }
                }
                self.cluster.put(self.bottom, Direction::Up, &mut self.mine);
            }
            _ => self.cluster.put(self.bottom, Direction::Up, &mut self.run),
        }
        taken
    }

    /// What others have left for it.
    fn take_over(&mut self, max: usize) -> usize {
        let taken = self.inbox.pop_into(&mut self.parcels, max);
        self.cluster.accept(self.parcels.drain(..));
        let served: usize = self
            .serves
            .iter()
            .map(|junction| junction.svc(&mut self.cluster, &mut self.run, max))
            .sum();
        taken + served
    }
}

impl Processor for Worker {
    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        let max = self.batch.min(budget).max(1);
        let mut done = self.take_over(max);
        if !self.cluster.is_backed_up() && !self.outward.is_full() {
            done += self.take_in(max);
        }
        let mut next = match &mut self.application {
            Some(application) => application.turn(&mut self.cluster, now),
            None => Next::Idle,
        };
        if self.cluster.is_ready()
            || self.cluster.is_backed_up()
            || self.cluster.deadline().is_some_and(|at| at <= now)
        {
            let transmitter = &mut self.transmitter;
            self.cluster
                .turn(now, &mut |run: &mut Run| match transmitter {
                    Some(transmitter) => transmitter.transmit(run),
                    None => run.clear(),
                });
        }
        for parcel in self.cluster.outbound() {
            self.outward.sort(parcel);
        }
        self.outward.deliver();
        if done > 0 || self.cluster.is_backed_up() || self.outward.is_full() {
            next = Next::Again;
        }
        next.sooner(self.cluster.deadline().map_or(Next::Idle, Next::At))
    }

    fn has_work(&self) -> bool {
        !self.inbox.is_empty()
            || self
                .serves
                .iter()
                .any(|junction| !junction.queue().is_empty())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}
