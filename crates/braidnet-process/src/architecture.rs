//! The named architectures, as placements.

use crate::seats::processor_of;
use braidnet_inet::tcp::TcpLocks;
use braidnet_stream::junction::{
    Assignment, Full, Junction, Order, Perimeter, Placement, Position,
};
use braidnet_stream::{Arrival, BucketId, Exclusion, Extent};
use braidnet_sync::lease::GUESTS;
use core::fmt;
use core::str::FromStr;

/// How processors are bound to protocol work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Architecture {
    /// Processors are bound to clusters of modules; messages pass between them in queues (ASX §3.3.1).
    Task,
    /// Processors are bound to connections; a packet filter above the driver hands each message to its connection's
    /// processor, which does all its work (CP/MP §3.3.1).
    Connection,
    /// Processors are bound to messages: each takes any message and escorts it up the whole stack; connections are behind
    /// locks (CP/MP §3.3.2).
    Message,
    /// Processors are bound to connections, as under [`Connection`](Architecture::Connection), until one of them has nothing to do: it
    /// then takes messages of another's connections, which are entered by delegation meanwhile.
    Braid,
    /// Processors are bound to connections, as under [`Connection`](Architecture::Connection), and share in the work on one message
    /// where a module can divide that: its pieces go to whoever has time, and are joined by count (PPF §3.2).
    Function,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Architecture; 5] = [
        Architecture::Task,
        Architecture::Connection,
        Architecture::Message,
        Architecture::Braid,
        Architecture::Function,
    ];

    /// Those that need no module that [divides](braidnet_stream::Divisible) its work on a message.
    pub const UNDIVIDED: [Architecture; 4] = [
        Architecture::Task,
        Architecture::Connection,
        Architecture::Message,
        Architecture::Braid,
    ];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::Task => "task",
            Architecture::Connection => "connection",
            Architecture::Message => "message",
            Architecture::Braid => "braid",
            Architecture::Function => "function",
        }
    }

    /// Whether it can be on so many processors.
    ///
    /// # Errors
    /// [`Refusal::NoProcessor`], [`Refusal::TooManyBraided`].
    pub fn check_processors(self, processors: usize) -> Result<(), Refusal> {
        match (self, processors) {
            (_, 0) => Err(Refusal::NoProcessor),
            (Architecture::Braid, processors) if processors > MOST_BRAIDED => {
                Err(Refusal::TooManyBraided(processors))
            }
            _ => Ok(()),
        }
    }

    /// Whether it asks how processors keep out of each other's way in a bucket, and in what order they come: only where they share
    /// connections by that choice. A kind of lock is no such choice, for there is always one.
    ///
    /// # Errors
    /// [`Refusal::NothingShared`].
    pub fn check_sharing(self, exclusion: Exclusion, arrival: Arrival) -> Result<(), Refusal> {
        let chosen = match (exclusion, arrival) {
            _ if self == Architecture::Message => return Ok(()),
            (Exclusion::Delegation, _) => "delegated perimeters",
            (_, Arrival::Numbered | Arrival::Waiting) => "an order of arrival",
            (Exclusion::Lock(_), Arrival::AsItComes) => return Ok(()),
        };
        Err(Refusal::NothingShared(self, chosen))
    }

    /// Whether TCP can be behind so many locks: more than one divide what only architectures lock whose processors share
    /// connections.
    ///
    /// # Errors
    /// [`Refusal::Unlocked`].
    pub fn check_locks(self, locks: TcpLocks) -> Result<(), Refusal> {
        match (self, locks) {
            (Architecture::Message, _) | (_, TcpLocks::One) => Ok(()),
            (architecture, _) => Err(Refusal::Unlocked(architecture, locks)),
        }
    }

    /// Whether this can be kept of the order of arrival where so many processors take from so many queues of a device.
    ///
    /// # Errors
    /// [`Refusal::WaitingAtQueues`]: processors that draw numbers at several queues, and wait for each other's turns, could wait for ever.
    /// Where each has a queue of its own, nobody draws.
    pub fn check_arrival(
        self,
        arrival: Arrival,
        queues: usize,
        takers: usize,
    ) -> Result<(), Refusal> {
        let is_shared = queues > 1 && queues < takers;
        if self == Architecture::Message && arrival == Arrival::Waiting && is_shared {
            return Err(Refusal::WaitingAtQueues(queues));
        }
        Ok(())
    }

    /// Whether shared buckets can be entered like this: by module only where several processors enter them, and without numbers.
    ///
    /// # Errors
    /// [`Refusal::Unshared`], [`Refusal::NumberedByModule`].
    pub fn check_extent(self, extent: Extent, arrival: Arrival) -> Result<(), Refusal> {
        match (self, extent, arrival) {
            (_, Extent::Bucket, _) | (Architecture::Message, _, Arrival::AsItComes) => Ok(()),
            (Architecture::Message, ..) => Err(Refusal::NumberedByModule),
            (architecture, ..) => Err(Refusal::Unshared(architecture)),
        }
    }

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

/// Most processors that can share work under `braid`: each is the home of its own connections and a guest of all others.
const MOST_BRAIDED: usize = GUESTS + 1;

/// Why an architecture cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// On no processor.
    NoProcessor,
    /// `task` over a stream that has nothing above its transport.
    NothingToSplit,
    /// `braid` on more processors than can be each other's guests.
    TooManyBraided(usize),
    /// `function` over a stream of which no module can divide its work on a message.
    NothingToDivide,
    /// A perimeter for each module, where connections are not shared.
    Unshared(Architecture),
    /// A perimeter for each module of a connection, and numbers for entering the connection.
    NumberedByModule,
    /// A way of sharing connections, this one, where processors do not share them by choice.
    NothingShared(Architecture, &'static str),
    /// TCP behind several locks, where no connection is locked.
    Unlocked(Architecture, TcpLocks),
    /// Waiting for one's number where numbers are drawn at so many queues.
    WaitingAtQueues(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoProcessor => f.write_str("an architecture needs at least one processor"),
            Refusal::NothingToSplit => f.write_str(
                "the task architecture needs modules above the transport, for its upper cluster to run",
            ),
            Refusal::TooManyBraided(processors) => write!(
                f,
                "braid shares work among {MOST_BRAIDED} processors at most, not {processors}: choose fewer, or connection"
            ),
            Refusal::NothingToDivide => f.write_str(
                "the function architecture needs a module that can divide its work on one message, for processors to share in it",
            ),
            Refusal::Unshared(architecture) => write!(
                f,
                "modules have perimeters where processors share a connection, and under {architecture} they do not: choose message"
            ),
            Refusal::NumberedByModule => f.write_str(
                "runs are numbered for a connection's perimeter, and each module has its own: choose order none, or a perimeter for a connection or stream",
            ),
            Refusal::NothingShared(architecture, chosen) => write!(
                f,
                "{chosen} can be chosen where any processor may have a connection's messages, and under {architecture} that is not so: choose message"
            ),
            Refusal::Unlocked(architecture, locks) => write!(
                f,
                "TCP locks `{locks}` divide a connection's lock, and under {architecture} there is none: choose message"
            ),
            Refusal::WaitingAtQueues(queues) => write!(
                f,
                "processors that share {queues} queues and wait for each other's numbers could wait for ever: choose one queue, or one for each, or order numbered"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownArchitecture(String);

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no architecture is called `{}`: choose task, connection, message, braid or function",
            self.0
        )
    }
}

impl std::error::Error for UnknownArchitecture {}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Architecture::ALL
            .into_iter()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| UnknownArchitecture(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use braidnet_sync::lock::LockKind;

    fn places() -> Places<'static> {
        Places {
            clusters: Some(("tcp", "xdr")),
            divisible: vec!["cipher"],
        }
    }
    const LOCKED: Exclusion = Exclusion::Lock(LockKind::Adaptive);

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

    #[test]
    fn refusals_are_reasons() {
        let arrival = Arrival::AsItComes;
        assert_eq!(
            Architecture::Task.placement(2, &Places::default(), LOCKED, arrival),
            Err(Refusal::NothingToSplit)
        );
        assert_eq!(
            Architecture::Function.placement(2, &Places::default(), LOCKED, arrival),
            Err(Refusal::NothingToDivide)
        );
        for architecture in Architecture::ALL {
            let only_split = Places {
                divisible: Vec::new(),
                ..places()
            };
            let placed = architecture.placement(2, &only_split, LOCKED, arrival);
            let undivided = Architecture::UNDIVIDED.contains(&architecture);
            assert_eq!(placed.is_ok(), undivided, "{architecture}");
        }
        assert_eq!(
            Architecture::Message.placement(0, &places(), LOCKED, arrival),
            Err(Refusal::NoProcessor)
        );
        let braided =
            |processors| Architecture::Braid.placement(processors, &places(), LOCKED, arrival);
        assert!(braided(MOST_BRAIDED).is_ok());
        assert_eq!(
            braided(MOST_BRAIDED + 1),
            Err(Refusal::TooManyBraided(MOST_BRAIDED + 1))
        );
        for architecture in Architecture::ALL {
            let by_module = |arrival| architecture.check_extent(Extent::Module, arrival).err();
            let refused = |by: Refusal, unless: bool| (!unless).then_some(by);
            let shares = architecture == Architecture::Message;
            assert_eq!(
                by_module(arrival),
                refused(Refusal::Unshared(architecture), shares)
            );
            assert_eq!(
                by_module(Arrival::Numbered) == Some(Refusal::NumberedByModule),
                shares
            );
            assert_eq!(
                architecture.check_extent(Extent::Bucket, Arrival::Numbered),
                Ok(())
            );
            let chosen = [
                (Exclusion::Delegation, arrival, "delegated perimeters"),
                (LOCKED, Arrival::Numbered, "an order of arrival"),
                (LOCKED, Arrival::Waiting, "an order of arrival"),
            ];
            for (exclusion, arrival, what) in chosen {
                let in_vain = architecture != Architecture::Message;
                let refusal = in_vain.then_some(Refusal::NothingShared(architecture, what));
                let found = architecture.check_sharing(exclusion, arrival);
                assert_eq!(found.err(), refusal);
            }
            assert_eq!(architecture.check_sharing(LOCKED, arrival), Ok(()));
            assert_eq!(architecture.check_processors(0), Err(Refusal::NoProcessor));
            for locks in TcpLocks::ALL {
                let divides = architecture != Architecture::Message && locks != TcpLocks::One;
                let refusal = divides.then_some(Refusal::Unlocked(architecture, locks));
                assert_eq!(architecture.check_locks(locks).err(), refusal);
            }
        }
        assert_eq!("connection".parse(), Ok(Architecture::Connection));
        assert!(
            "braids"
                .parse::<Architecture>()
                .unwrap_err()
                .to_string()
                .contains("`braids`")
        );
    }
}
