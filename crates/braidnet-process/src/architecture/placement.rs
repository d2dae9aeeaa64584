//! Where each architecture puts its junctions, and how it deals its processors.

use super::{Architecture, Refusal};
use crate::seats::processor_of;
use braidnet_stream::junction::{
    Assignment, Full, Junction, Order, Perimeter, Placement, Position,
};
use braidnet_stream::{Arrival, BucketId, Exclusion};

impl Architecture {
    /// The placement of junctions that it is, on so many processors.
    ///
    /// `exclusion` and `arrival` are what [`Message`](Architecture::Message) uses.
    ///
    /// # Errors
    /// A [`Refusal`] that says why this cannot be.
    pub fn placement(
        self,
        processors: usize,
        places: &Places<'_>,
        exclusion: Exclusion,
        arrival: Arrival,
    ) -> Result<Placement, Refusal> {
        self.check_processors(processors)?;
        let (junctions, perimeter) = match self {
            Architecture::Task => (task(processors, places)?, Perimeter::Owned),
            Architecture::Connection => {
                let filter = filter(everyone(processors), Order::Fifo);
                (vec![filter], Perimeter::Owned)
            }
            Architecture::Message => message(processors, exclusion, arrival),
            Architecture::Braid => (braid(processors), Perimeter::Leased),
            Architecture::Function => (function(processors, places)?, Perimeter::Owned),
        };
        Ok(Placement {
            name: self.name(),
            processors,
            junctions,
            perimeter,
        })
    }
}

impl Architecture {
    /// How many of so many processors take packets from the device, which may have as many queues and no more.
    pub fn takers(self, processors: usize) -> usize {
        match self {
            Architecture::Task => Pipelines::of(processors).count,
            _ => processors,
        }
    }
}

fn everyone(processors: usize) -> Vec<usize> {
    (0..processors).collect()
}

/// A packet filter above the driver, which deals connections among these processors.
fn filter(servers: Vec<usize>, order: Order) -> Junction {
    Junction {
        position: Position::AboveDriver,
        assignment: Assignment::PacketFilter,
        servers,
        order,
        full: Full::PushBack,
    }
}

/// Queues between the two clusters of each pipeline, and a packet filter if there are several pipelines.
fn task(processors: usize, places: &Places<'_>) -> Result<Vec<Junction>, Refusal> {
    let Some((lower, upper)) = places.clusters else {
        return Err(Refusal::NothingToSplit);
    };
    let pipelines = Pipelines::of(processors);
    let mut junctions = Vec::new();
    if pipelines.count > 1 {
        let lowers = (0..pipelines.count).map(|p| pipelines.lower(p)).collect();
        junctions.push(filter(lowers, Order::Fifo));
    }
    let between = |assignment, servers| Junction {
        position: Position::Between(lower.to_owned(), upper.to_owned()),
        assignment,
        servers,
        order: Order::Fifo,
        full: Full::PushBack,
    };
    for pipeline in 0..pipelines.count {
        let uppers = pipelines.uppers(pipeline);
        let assignment = if uppers.len() > 1 {
            Assignment::PacketFilter
        } else {
            Assignment::Single
        };
        junctions.push(between(assignment, uppers));
        junctions.push(between(Assignment::Single, vec![pipelines.lower(pipeline)]));
    }
    Ok(junctions)
}

/// Every processor asks the driver.
fn message(
    processors: usize,
    exclusion: Exclusion,
    arrival: Arrival,
) -> (Vec<Junction>, Perimeter) {
    let any = Junction {
        position: Position::AboveDriver,
        assignment: Assignment::Any,
        servers: everyone(processors),
        order: match arrival {
            Arrival::AsItComes => Order::None,
            Arrival::Numbered => Order::Numbered,
            Arrival::Waiting => Order::Waiting,
        },
        full: Full::PushBack,
    };
    let perimeter = match exclusion {
        Exclusion::Lock(lock) => Perimeter::Locked(lock),
        Exclusion::Delegation => Perimeter::Delegated,
    };
    (vec![any], perimeter)
}

/// A packet filter whose runs are numbered, for guests take some.
fn braid(processors: usize) -> Vec<Junction> {
    vec![filter(everyone(processors), Order::Numbered)]
}

/// A packet filter, and inside each module that divides its work a junction of pieces.
fn function(processors: usize, places: &Places<'_>) -> Result<Vec<Junction>, Refusal> {
    if places.divisible.is_empty() {
        return Err(Refusal::NothingToDivide);
    }
    let inside = places.divisible.iter().map(|module| Junction {
        position: Position::Inside((*module).to_owned()),
        assignment: Assignment::Any,
        servers: everyone(processors),
        order: Order::Fifo,
        full: Full::PushBack,
    });
    let mut junctions = vec![filter(everyone(processors), Order::Fifo)];
    junctions.extend(inside);
    Ok(junctions)
}

/// Where in a stream junctions can be placed.
#[derive(Clone, Default, Debug)]
pub struct Places<'a> {
    /// The highest module of the lower and the lowest of the upper cluster, between which [`Task`](Architecture::Task) puts its queues;
    /// `None` if there is nothing to split.
    pub clusters: Option<(&'a str, &'a str)>,
    /// The modules that can do work in pieces, for [`Function`](Architecture::Function).
    pub divisible: Vec<&'a str>,
}

/// How `task` spends its processors: pipelines of two, and an odd one is a second upper cluster of the last (ASX §3.3.1).
/// One processor turns both clusters itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipelines {
    processors: usize,
    pub(crate) count: usize,
}

impl Pipelines {
    pub(crate) fn of(processors: usize) -> Pipelines {
        Pipelines {
            processors,
            count: (processors / 2).max(1),
        }
    }

    /// The processor of the lower cluster.
    pub(crate) fn lower(self, pipeline: usize) -> usize {
        2 * pipeline
    }

    /// The processors of the upper cluster.
    pub(crate) fn uppers(self, pipeline: usize) -> Vec<usize> {
        if self.processors == 1 {
            return vec![0];
        }
        let first = 2 * pipeline + 1;
        if pipeline + 1 == self.count {
            (first..self.processors).collect()
        } else {
            vec![first]
        }
    }
}

/// Which processor, of `processors`, turns the top modules of `bucket`'s connections; `None` where any may. Whoever opens
/// connections uses this to choose ports so that they are dealt evenly.
pub fn top_processor_of(
    architecture: Architecture,
    bucket: BucketId,
    processors: usize,
) -> Option<usize> {
    match architecture {
        Architecture::Message => None,
        Architecture::Connection | Architecture::Braid | Architecture::Function => {
            Some(processor_of(bucket, processors))
        }
        Architecture::Task => {
            let pipelines = Pipelines::of(processors);
            let pipeline = processor_of(bucket, pipelines.count);
            let uppers = pipelines.uppers(pipeline);
            Some(uppers[usize::from(bucket.0).saturating_sub(1) / pipelines.count % uppers.len()])
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use braidnet_sync::lock::LockKind;

    pub(in crate::architecture) fn places() -> Places<'static> {
        Places {
            clusters: Some(("tcp", "xdr")),
            divisible: vec!["cipher"],
        }
    }
    pub(in crate::architecture) const LOCKED: Exclusion = Exclusion::Lock(LockKind::Adaptive);

    #[test]
    fn task_deals_processors_to_pipelines() {
        let rows: [(usize, usize, &[&[usize]]); 6] = [
            (1, 1, &[&[0]]),
            (2, 1, &[&[1]]),
            (3, 1, &[&[1, 2]]),
            (4, 2, &[&[1], &[3]]),
            (5, 2, &[&[1], &[3, 4]]),
            (8, 4, &[&[1], &[3], &[5], &[7]]),
        ];
        for (processors, count, uppers) in rows {
            let pipelines = Pipelines::of(processors);
            assert_eq!(pipelines.count, count, "{processors}");
            let dealt: Vec<_> = (0..count)
                .map(|pipeline| pipelines.uppers(pipeline))
                .collect();
            assert_eq!(dealt, uppers, "{processors}");
        }
    }

    #[test]
    fn under_task_each_pipeline_takes_from_the_device() {
        for (architecture, takers) in [
            (Architecture::Task, [1, 1, 1, 2]),
            (Architecture::Connection, [1, 2, 3, 4]),
        ] {
            assert_eq!([1, 2, 3, 4].map(|count| architecture.takers(count)), takers);
        }
    }

    #[test]
    fn every_placement_names_only_its_own_processors() {
        for architecture in Architecture::ALL {
            for processors in 1..9 {
                let placement = architecture
                    .placement(processors, &places(), LOCKED, Arrival::AsItComes)
                    .unwrap();
                let mut serving: Vec<usize> = placement
                    .junctions
                    .iter()
                    .flat_map(|junction| junction.servers.clone())
                    .collect();
                serving.sort_unstable();
                serving.dedup();
                assert_eq!(serving, (0..processors).collect::<Vec<_>>(), "{placement}");
            }
        }
    }

    #[test]
    fn function_is_connection_and_a_junction_inside_each_module_that_divides() {
        let placement = Architecture::Function
            .placement(2, &places(), LOCKED, Arrival::AsItComes)
            .unwrap();
        assert_eq!(
            placement.to_string(),
            "function on 2 processors; buckets private, no lock\n  above the driver: by packet filter to processor 0, 1; \
             first in first out; pushes back when full\n  inside cipher, pieces joined by count: to any of processor 0, 1; \
             first in first out; pushes back when full\n"
        );
    }
}
