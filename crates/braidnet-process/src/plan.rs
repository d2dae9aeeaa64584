//! From a stream and an architecture to the workers that turn it.

use crate::architecture::{Architecture, Places, Refusal};
use crate::exchange::{self, Feed, MAILBOX, Mailbox, Outward, Owners};
use crate::filtered::Sorting;
use crate::intake::Manner;
use crate::portion::Portion;
use crate::seats::Seats;
use crate::sharing::{Manners, Sharing};
use crate::worker::Worker;
use braidnet_device::{DeviceError, QueuePair};
use braidnet_inet::Flows;
use braidnet_message::{Arena, Run};
use braidnet_stream::junction::Placement;
use braidnet_stream::{
    Arrival, Buckets, Cluster, Dividing, Exclusion, Extent, Migrant, ModuleId, Next, Reserve,
    Stream,
};
use braidnet_sync::parker::Unparker;
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// A stream ready to be turned, before it is said by whom.
pub struct Plan {
    /// The wired stream.
    pub stream: Arc<Stream>,
    /// The lowest module of the upper cluster under `task`; `None` if there is nothing to split.
    pub split: Option<ModuleId>,
    /// How many buckets, 2 to 65,536.
    pub buckets: u32,
    /// Where all buffers come from.
    pub arena: Arc<Arena>,
    /// The device's queues, at least one, at most one for each processor that takes from the device.
    pub queues: Vec<QueuePair>,
    /// The packet filter: whose bucket a packet belongs to.
    pub classify: Arc<dyn Classify>,
    /// How processors keep out of each other's way in shared buckets.
    pub exclusion: Exclusion,
    /// What of such a bucket one perimeter covers.
    pub extent: Extent,
    /// What of the order of arrival reaches them.
    pub arrival: Arrival,
    /// How soon processors share their work under `braid`.
    pub sharing: Sharing,
    /// Most messages that a worker takes from one place at once, at least 1.
    pub batch: usize,
    /// Bytes in the queues between clusters at which the lower one stops taking from the device, and at which it starts
    /// again.
    pub water_marks: (usize, usize),
}

/// A packet filter above the driver.
pub trait Classify: Send + Sync {
    /// Sets the [bucket](braidnet_message::Message::bucket) of each packet of the run.
    fn classify(&self, run: &mut Run);
}

impl Classify for Flows {
    fn classify(&self, run: &mut Run) {
        self.classify_run(run);
    }
}

/// An application that lives on a processor and is turned with it. It reaches the stream only through the cluster's
/// `put` and `head`. What it puts in for one connection stays in order where that is its processor's own
/// ([`processor_of`](crate::processor_of)); under `braid`, where buckets move, what it puts in may be overtaken by what it puts in later.
pub trait Application: Send {
    /// Does what it can and says when it wants to be turned again.
    fn turn(&mut self, cluster: &mut Cluster, now: Instant) -> Next;
}

/// No application: everything is done by modules.
pub struct NoApplication;

impl Application for NoApplication {
    fn turn(&mut self, _: &mut Cluster, _: Instant) -> Next {
        Next::Idle
    }
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The architecture cannot be placed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The device has no queue.
    #[error("the device has no queue to receive from")]
    NoQueue,
    /// More queues than processors that take from them.
    #[error(
        "the device has {queues} receive queues, but only {takers} processors take from it: ask for {takers} at most"
    )]
    TooManyQueues {
        /// How many queues.
        queues: usize,
        /// How many processors take from the device.
        takers: usize,
    },
    /// A handle on the device could not be made.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The system gave no descriptor to sleep on a queue of the device with.
    #[error("no descriptor to sleep on the device with")]
    Descriptor(#[from] std::io::Error),
}

impl Plan {
    /// The placement of junctions that `architecture` is over this stream.
    ///
    /// # Errors
    /// If it cannot be placed.
    pub fn placement(
        &self,
        architecture: Architecture,
        processors: usize,
    ) -> Result<Placement, Refusal> {
        let name = |wanted: ModuleId| {
            self.stream
                .modules()
                .find(|(id, _)| *id == wanted)
                .map_or("", |(_, module)| module.name())
        };
        let clusters = self.split.and_then(|split| {
            let below = self
                .stream
                .modules()
                .map(|(id, _)| id)
                .take_while(|id| *id < split)
                .last()?;
            Some((name(below), name(split)))
        });
        let places = Places {
            clusters,
            divisible: self.stream.divisible().collect(),
        };
        architecture.placement(processors, &places, self.exclusion, self.arrival)
    }

    /// The workers of each processor. `wakers` has one for each processor, and says how many there are;
    /// `application` gives the one that lives on processor `n` beside its top modules.
    ///
    /// # Errors
    /// If the architecture cannot be placed or the device not be shared out.
    pub fn workers(
        self,
        architecture: Architecture,
        wakers: &[Unparker],
        application: &mut dyn FnMut(usize) -> Box<dyn Application>,
    ) -> Result<Vec<Vec<Worker>>, PlanError> {
        self.placement(architecture, wakers.len())?;
        architecture.check_arrival(self.arrival, self.queues.len(), wakers.len())?;
        architecture.check_extent(self.extent, self.arrival)?;
        let seats = Seats::of(architecture, wakers.len(), self.split, self.buckets);
        let split = self.split.filter(|_| architecture == Architecture::Task);
        let feeds = split.map_or_else(Vec::new, |split| {
            seats.junctions(&self.stream, split, self.water_marks)
        });
        let owners = Arc::new(seats.owners(split));
        let mut stores = self.stores(architecture, &seats).into_iter();
        let manner = self.manner(architecture, &owners);
        let shares = seats.share_out(self.queues, wakers, manner)?;
        let (mailboxes, inboxes) = exchange::mailboxes(seats.wakers(wakers), MAILBOX);
        let mut dividing = match architecture {
            Architecture::Function => Dividing::among(&self.stream, wakers.len()),
            _ => Vec::new(),
        }
        .into_iter();
        let is_delegated = matches!(
            (architecture, self.exclusion),
            (Architecture::Braid, _) | (Architecture::Message, Exclusion::Delegation)
        );
        let runs = if is_delegated { RUNS_OF_OTHERS } else { RUNS };
        let (answers, answered): (Vec<_>, Vec<_>) = if is_delegated {
            exchange::mailboxes(seats.wakers(wakers), MAILBOX)
        } else {
            Default::default()
        };
        let is_leased = architecture == Architecture::Braid && wakers.len() > 1;
        let (ways, migrants): (Vec<Mailbox<Migrant>>, Vec<_>) = if is_leased {
            // Each bucket is in one place at a time: there is room for all of them.
            exchange::mailboxes(seats.wakers(wakers), self.buckets as usize)
        } else {
            Default::default()
        };
        let mut migrants = migrants.into_iter();
        let mut answered = answered.into_iter();
        let mut processors: Vec<Vec<Worker>> = wakers.iter().map(|_| Vec::new()).collect();
        for ((index, seat), (inbox, share)) in seats
            .iter()
            .enumerate()
            .zip(inboxes.into_iter().zip(shares))
        {
            let Some(buckets) = stores.next() else {
                unreachable!("every seat has its buckets");
            };
            let (serves, junctions): (Vec<Feed>, Vec<Feed>) =
                feeds.iter().cloned().partition(|feed| feed.server == index);
            let mut worker = Worker {
                cluster: Cluster::dividing(
                    &self.stream,
                    seat.modules,
                    buckets,
                    &self.arena,
                    dividing.next(),
                ),
                serves: serves.into_iter().map(|feed| feed.junction).collect(),
                share,
                inbox,
                answers: answered.next(),
                outward: Outward::new(owners.clone(), mailboxes.clone(), &answers, junctions),
                application: seat.top.then(|| application(seat.processor)),
                portion: Portion::new(self.batch),
                run: Run::new(),
                parcels: Vec::with_capacity(self.batch),
                spare: Reserve::default(),
                sharing: is_leased.then(|| Manners::new(index, self.sharing, ways.clone())),
                migrants: migrants.next(),
            };
            if is_delegated {
                worker.cluster.sit(index);
            }
            worker.reserve(runs * self.batch.max(1));
            processors[seat.processor].push(worker);
        }
        Ok(processors)
    }

    /// How workers that take from one queue get along.
    fn manner(&self, architecture: Architecture, owners: &Arc<Owners>) -> Manner {
        let sorting = Sorting {
            filter: self.classify.clone(),
            owners: owners.clone(),
        };
        match architecture {
            Architecture::Message => Manner::Asked(
                self.exclusion.lock(),
                (self.arrival != Arrival::AsItComes).then_some(sorting.filter),
            ),
            Architecture::Task | Architecture::Connection | Architecture::Function => {
                Manner::InTurns(sorting)
            }
            Architecture::Braid => Manner::Leased(sorting),
        }
    }

    /// What buckets each seat has, and how it shares them with the others.
    fn stores(&self, architecture: Architecture, seats: &Seats) -> Vec<Buckets> {
        let (stream, count) = (&self.stream, self.buckets);
        let workers = seats.iter().count();
        match architecture {
            Architecture::Message => {
                let first = match self.extent {
                    Extent::Bucket => {
                        Buckets::shared(stream, count, self.exclusion, self.arrival, |_| true)
                    }
                    Extent::Module => Buckets::shared_by_module(stream, count, self.exclusion),
                };
                let others: Vec<_> = (1..workers).filter_map(|_| first.another()).collect();
                std::iter::once(first).chain(others).collect()
            }
            Architecture::Braid => {
                Buckets::leased(stream, count, workers, |bucket| seats.lower(bucket))
            }
            Architecture::Task | Architecture::Connection | Architecture::Function => (0..workers)
                .map(|seat| seats.private(seat, stream, count))
                .collect(),
        }
    }
}

/// Runs are given memory for so many batches: what came by every way in, and what each led to.
const RUNS: usize = 4;
/// Where others leave work in a bucket: what several of them brought.
const RUNS_OF_OTHERS: usize = 16;
