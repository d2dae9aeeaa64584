//! Who sits where: which worker turns which modules over which buckets, and takes from which of the device's queues.

use crate::architecture::{Architecture, Pipelines};
use crate::exchange::{Feed, Owners};
use crate::intake::{Manner, Share, Source};
use crate::plan::PlanError;
use braidnet_device::QueuePair;
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{BucketId, Buckets, Direction, ModuleId, Stream};
use braidnet_sync::lock::LockKind;
use braidnet_sync::parker::Unparker;
use std::sync::Arc;

/// Who sits where: one seat for each worker.
pub(crate) struct Seats {
    seats: Vec<Seat>,
    /// For each bucket the seat of its lower, and of its upper half.
    lower: Vec<u16>,
    upper: Vec<u16>,
}

pub(crate) struct Seat {
    pub(crate) processor: usize,
    pub(crate) modules: ModuleSet,
    /// It turns the lowest module and so takes from the device.
    device: bool,
    /// It turns the highest modules.
    pub(crate) top: bool,
}

impl Seats {
    pub(crate) fn of(
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    /// Which worker turns what.
    pub(crate) fn owners(&self, split: Option<ModuleId>) -> Owners {
        Owners {
            split,
            lower: self.lower.clone(),
            upper: self.upper.clone(),
        }
    }

    /// The buckets of one worker, where they are private.
    pub(crate) fn private(&self, seat: usize, stream: &Stream, count: u32) -> Buckets {
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
    pub(crate) fn junctions(
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
    pub(crate) fn share_out(
        &self,
        architecture: Architecture,
        lock: LockKind,
        queues: Vec<QueuePair>,
        wakers: &[Unparker],
    ) -> Result<Vec<Share>, PlanError> {
        let takers: Vec<usize> = self
            .seats
            .iter()
            .filter(|seat| seat.device)
            .map(|seat| seat.processor)
            .collect();
        if queues.is_empty() {
            return Err(PlanError::NoQueue);
        }
        let count = queues.len();
        if count > takers.len() {
            return Err(PlanError::TooManyQueues {
                queues: count,
                takers: takers.len(),
            });
        }
        let manner = match (count == takers.len(), architecture) {
            (true, _) => Manner::Alone,
            (false, Architecture::Message) => Manner::Asked(lock),
            (false, _) => Manner::InTurns,
        };
        let mut sources: Vec<Source> = queues
            .into_iter()
            .enumerate()
            .map(|(queue, pair)| {
                Source::new(pair, manner, self.seats.len(), &wakers[takers[queue]])
            })
            .collect();
        let mut taken = 0;
        self.seats
            .iter()
            .map(|seat| {
                if !seat.device {
                    return Ok(Share::nothing());
                }
                // Whoever finds more than it can carry wakes the next that shares the queue.
                let fellow = takers[(taken + count) % takers.len()];
                let share = sources[taken % count].share(&wakers[fellow])?;
                taken += 1;
                Ok(share)
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
