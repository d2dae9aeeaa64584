//! From a stream and an architecture to the workers that turn it.

use crate::architecture::{Architecture, Pipelines, Refusal};
use crate::exchange::{Feed, Mailbox, Outward, Owners};
use crate::intake::{Intake, Source};
use crate::worker::Worker;
use braidnet_device::{DeviceError, QueuePair, Transmitter};
use braidnet_inet::Flows;
use braidnet_message::{Arena, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::junction::{Placement, QueueJunction};
use braidnet_stream::{BucketId, Buckets, Cluster, Direction, ModuleId, Next, Stream};
use braidnet_sync::lock::LockKind;
use braidnet_sync::parker::Unparker;
use braidnet_sync::ring::mpsc;
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// A stream ready to be turned, before it is said by whom.
pub struct Plan {
    /// The wired stream.
    pub stream: Arc<Stream>,
    /// The module that the driver hands packets to.
    pub bottom: ModuleId,
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
    /// The kind of lock that shared buckets are behind.
    pub lock: LockKind,
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
        for message in run.iter_mut() {
            let bucket = Flows::classify(self, message.bytes());
            message.set_bucket(bucket.0);
        }
    }
}

/// An application that lives on a processor and is turned with it. It reaches the stream only through the cluster's
/// `put` and `head`.
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
        architecture.placement(processors, clusters, self.lock)
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
        let seats = Seats::of(architecture, wakers.len(), self.split, self.buckets);
        let intakes = seats.share_out(architecture, self.lock, self.queues)?;
        let owners = Arc::new(Owners {
            split: if architecture == Architecture::Task {
                self.split
            } else {
                None
            },
            lower: seats.lower.clone(),
            upper: seats.upper.clone(),
        });
        let (mailboxes, inboxes) = mailboxes(&seats, wakers);
        let feeds = match (architecture, self.split) {
            (Architecture::Task, Some(split)) => {
                seats.junctions(&self.stream, split, self.water_marks)
            }
            _ => Vec::new(),
        };
        let shared = (architecture == Architecture::Message)
            .then(|| Buckets::shared(&self.stream, self.buckets, self.lock, |_| true));
        let mut processors: Vec<Vec<Worker>> = wakers.iter().map(|_| Vec::new()).collect();
        for (index, (seat, inbox, intake)) in seats
            .seats
            .iter()
            .zip(inboxes)
            .zip(intakes)
            .map(|((s, i), t)| (s, i, t))
            .enumerate()
        {
            let buckets = match &shared {
                Some(shared) => shared.another(),
                None => None,
            };
            let buckets =
                buckets.unwrap_or_else(|| seats.private(index, &self.stream, self.buckets));
            let cluster = Cluster::new(&self.stream, seat.modules, buckets, &self.arena);
            let junctions: Vec<Feed> = feeds
                .iter()
                .filter(|feed| feed.server != index)
                .cloned()
                .collect();
            processors[seat.processor].push(Worker {
                me: index,
                stream: self.stream.clone(),
                bottom: self.bottom,
                serves: feeds
                    .iter()
                    .filter(|feed| feed.server == index)
                    .map(|feed| feed.junction.clone())
                    .collect(),
                filter: intake.needs_filter.then(|| self.classify.clone()),
                fd: intake.fd,
                intake: intake.intake,
                transmitter: intake.transmitter,
                inbox,
                outward: Outward {
                    owners: owners.clone(),
                    mailboxes: mailboxes.clone(),
                    waiting: mailboxes
                        .iter()
                        .map(|_| Vec::with_capacity(self.batch))
                        .collect(),
                    fed: junctions.iter().map(|_| Run::new()).collect(),
                    junctions,
                },
                application: seat.top.then(|| application(seat.processor)),
                batch: self.batch.max(1),
                run: Run::new(),
                parcels: Vec::with_capacity(self.batch),
                cluster,
            });
        }
        Ok(processors)
    }
}

fn mailboxes(
    seats: &Seats,
    wakers: &[Unparker],
) -> (Vec<Mailbox>, Vec<mpsc::Consumer<braidnet_stream::Parcel>>) {
    seats
        .seats
        .iter()
        .map(|seat| {
            let (ring, inbox) = mpsc::ring(MAILBOX);
            (
                Mailbox {
                    ring,
                    waker: wakers[seat.processor].clone(),
                },
                inbox,
            )
        })
        .unzip()
}

/// Parcels that a mailbox holds.
const MAILBOX: usize = 4096;

/// Who sits where: one seat for each worker.
struct Seats {
    seats: Vec<Seat>,
    /// For each bucket the seat of its lower, and of its upper half.
    lower: Vec<u16>,
    upper: Vec<u16>,
}

struct Seat {
    processor: usize,
    modules: ModuleSet,
    /// It turns the lowest module and so takes from the device.
    device: bool,
    /// It turns the highest modules.
    top: bool,
}

/// One worker's share of the device.
struct Share {
    intake: Intake,
    fd: Option<std::os::fd::OwnedFd>,
    transmitter: Option<Box<dyn Transmitter>>,
    needs_filter: bool,
}

impl Seats {
    fn of(
        architecture: Architecture,
        processors: usize,
        split: Option<ModuleId>,
        buckets: u32,
    ) -> Seats {
        match (architecture, split) {
            (Architecture::Task, Some(split)) => Seats::in_pipelines(processors, split, buckets),
            _ => {
                let seats = (0..processors)
                    .map(|processor| Seat {
                        processor,
                        modules: ModuleSet::ALL,
                        device: true,
                        top: true,
                    })
                    .collect();
                let owner: Vec<u16> = (0..buckets)
                    .map(|bucket| deal(bucket, processors))
                    .collect();
                Seats {
                    seats,
                    lower: owner.clone(),
                    upper: owner,
                }
            }
        }
    }

    fn in_pipelines(processors: usize, split: ModuleId, buckets: u32) -> Seats {
        let pipelines = Pipelines::of(processors);
        let below = ModuleSet::below(split);
        let mut seats = Vec::new();
        let mut places = Vec::new();
        for pipeline in 0..pipelines.count {
            let lower = seats.len() as u16;
            let processor = pipelines.lower(pipeline);
            seats.push(Seat {
                processor,
                modules: below,
                device: true,
                top: false,
            });
            let mut uppers = Vec::new();
            for processor in pipelines.uppers(pipeline) {
                uppers.push(seats.len() as u16);
                seats.push(Seat {
                    processor,
                    modules: below.others(),
                    device: false,
                    top: true,
                });
            }
            places.push((lower, uppers));
        }
        let (lower, upper) = (0..buckets)
            .map(|bucket| {
                let (lower, uppers) = &places[usize::from(deal(bucket, places.len()))];
                let within = bucket.saturating_sub(1) as usize / places.len() % uppers.len();
                (*lower, uppers[within])
            })
            .unzip();
        Seats {
            seats,
            lower,
            upper,
        }
    }

    /// The buckets of one worker, where they are private.
    fn private(&self, seat: usize, stream: &Stream, count: u32) -> Buckets {
        let holds = |table: &[u16], bucket: BucketId| usize::from(table[bucket.index()]) == seat;
        let modules = self.seats[seat].modules;
        Buckets::private(
            stream,
            count,
            |bucket| holds(&self.lower, bucket) || holds(&self.upper, bucket),
            |module| modules.contains(module),
        )
    }

    /// The queues between lower and upper clusters, both ways.
    fn junctions(
        &self,
        stream: &Stream,
        split: ModuleId,
        (low, high): (usize, usize),
    ) -> Vec<Feed> {
        let below = ModuleSet::below(split);
        let mut feeds = Vec::new();
        for (server, seat) in self.seats.iter().enumerate() {
            let direction = if seat.top {
                Direction::Up
            } else {
                Direction::Down
            };
            for module in stream.crossings(below, direction) {
                let junction = Arc::new(QueueJunction::new(module, direction, low, high));
                feeds.push(Feed { junction, server });
            }
        }
        feeds
    }

    /// Deals the device's queues to the workers that take from it.
    fn share_out(
        &self,
        architecture: Architecture,
        lock: LockKind,
        queues: Vec<QueuePair>,
    ) -> Result<Vec<Share>, PlanError> {
        let takers = self.seats.iter().filter(|seat| seat.device).count();
        if queues.is_empty() {
            return Err(PlanError::NoQueue);
        }
        if queues.len() > takers {
            return Err(PlanError::TooManyQueues {
                queues: queues.len(),
                takers,
            });
        }
        let alone = queues.len() == takers;
        let mut sources: Vec<Source> = queues
            .into_iter()
            .map(|pair| match (alone, architecture) {
                (true, _) => Source::alone(pair),
                (false, Architecture::Message) => Source::asked(pair, lock),
                (false, _) => Source::in_turns(pair),
            })
            .collect();
        let count = sources.len();
        let mut taker = 0;
        self.seats
            .iter()
            .map(|seat| {
                if !seat.device {
                    return Ok(Share {
                        intake: Intake::Nothing,
                        fd: None,
                        transmitter: None,
                        needs_filter: false,
                    });
                }
                let source = &mut sources[taker % count];
                taker += 1;
                let (intake, fd, transmitter) = source.share()?;
                let needs_filter = matches!(intake, Intake::InTurns(_));
                Ok(Share {
                    intake,
                    fd,
                    transmitter: Some(transmitter),
                    needs_filter,
                })
            })
            .collect()
    }
}

/// Which of `among` a bucket falls to: evenly, and the device's own bucket to the first.
fn deal(bucket: u32, among: usize) -> u16 {
    (bucket.saturating_sub(1) as usize % among) as u16
}

/// Which processor, of `processors`, does the work of `bucket` under `connection`. Whoever opens connections uses this to
/// choose source ports so that they are dealt evenly.
pub fn processor_of(bucket: BucketId, processors: usize) -> usize {
    usize::from(deal(u32::from(bucket.0), processors))
}
