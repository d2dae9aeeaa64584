//! Who sits where: which worker turns which modules over which buckets, and takes from which of the device's queues.

use crate::architecture::{Architecture, Pipelines};
use crate::exchange::{Feed, Owners};
use crate::intake::{Manner, Share, Sources};
use crate::plan::PlanError;
use braidnet_device::QueuePair;
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{BucketId, Buckets, Direction, ModuleId, Stream};
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
        Owners::new(split, &self.lower, &self.upper)
    }

    /// The worker that a bucket, or its lower half, is dealt to.
    pub(crate) fn lower(&self, bucket: BucketId) -> usize {
        usize::from(self.lower[bucket.index()])
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

    /// What wakes each worker.
    pub(crate) fn wakers<'a>(
        &'a self,
        processors: &'a [Unparker],
    ) -> impl Iterator<Item = &'a Unparker> {
        self.seats.iter().map(|seat| &processors[seat.processor])
    }

    /// Deals the device's queues to the workers that take from it, who share them in this manner where there are fewer.
    pub(crate) fn share_out(
        &self,
        queues: Vec<QueuePair>,
        wakers: &[Unparker],
        manner: Manner,
    ) -> Result<Vec<Share>, PlanError> {
        let takers: Vec<&Unparker> = self
            .seats
            .iter()
            .filter(|seat| seat.device)
            .map(|seat| &wakers[seat.processor])
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
        let manner = match manner {
            Manner::Leased(_) => manner,
            _ if count == takers.len() => Manner::Alone,
            _ => manner,
        };
        let queues = queues.into_iter().zip(takers.iter().copied());
        let mut sources = Sources::new(queues, &manner, self.wakers(wakers))?;
        let mut taken = 0;
        self.seats
            .iter()
            .enumerate()
            .map(|(me, seat)| {
                if !seat.device {
                    return Ok(Share::nothing());
                }
                let fellow = takers[fellow(taken, takers.len(), count)];
                let share = sources.share(taken % count, me, fellow)?;
                taken += 1;
                Ok(share)
            })
            .collect()
    }
}

/// Whom a taker that finds more than it can carry wakes: of `takers`, to whom `queues` are dealt in turn, the next that shares
/// its queue; itself if none does.
fn fellow(taker: usize, takers: usize, queues: usize) -> usize {
    match taker + queues {
        next if next < takers => next,
        _ => taker % queues,
    }
}

/// Which of `among` a bucket falls to: evenly, and the device's own bucket to the first.
fn deal(bucket: u32, among: usize) -> u16 {
    (bucket.saturating_sub(1) as usize % among) as u16
}

/// Which processor, of `processors`, does the work of `bucket` under `connection`, and at the start under `braid`. Whoever opens connections uses this to
/// choose source ports so that they are dealt evenly.
pub fn processor_of(bucket: BucketId, processors: usize) -> usize {
    usize::from(deal(u32::from(bucket.0), processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taker_wakes_those_with_whom_it_shares_its_queue_in_turn() {
        for takers in 1..=9 {
            for queues in 1..=takers {
                for taker in 0..takers {
                    let sharers: Vec<_> = (0..takers)
                        .filter(|other| other % queues == taker % queues)
                        .collect();
                    let mut woken: Vec<_> = std::iter::successors(Some(taker), |next| {
                        Some(fellow(*next, takers, queues))
                    })
                    .skip(1)
                    .take(sharers.len())
                    .collect();
                    woken.sort_unstable();
                    assert_eq!(woken, sharers, "{taker} of {takers} on {queues} queues");
                }
            }
        }
    }
}
