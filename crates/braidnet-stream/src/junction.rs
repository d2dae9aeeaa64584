//! Junctions, and placements of them: what a process architecture is.
//!
//! A junction is the only place where work changes hands. Its *assignment* says which server a message goes to, its
//! *servers* are the processors that take from it, its *order* and *full* rules say what is kept and what happens when
//! it overflows. A [`Placement`] of junctions over a stream, with the perimeter of its buckets, is a process
//! architecture: a value that can be listed, printed, compared and refused with a reason.

use crate::cluster::Cluster;
use crate::module::{Direction, ModuleId};
use crate::queue::MessageQueue;
use braidnet_message::Run;
use braidnet_sync::lock::LockKind;
use core::fmt;

/// Which of a junction's servers a message goes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Assignment {
    /// Whichever asks first.
    Any,
    /// The one that holds the message's bucket, by a packet filter above the driver (CP/MP §3.3.1).
    PacketFilter,
    /// The junction's single server.
    Single,
}

/// What a junction keeps of the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Nothing beyond what its servers happen to keep.
    None,
    /// First in, first out, per server.
    Fifo,
    /// What belongs to one bucket gets numbers where it is taken, and goes on in the order of these, whoever took it (PLP §4.1).
    Numbered,
    /// The same, and whoever comes before its turn waits (PLP §4.2).
    Waiting,
}

/// What happens to work that a junction has no room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Full {
    /// It stays where it is until the high-water mark is passed downwards again.
    PushBack,
    /// It is dropped under this name.
    Drop(&'static str),
}

/// Where a junction stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// Between the driver and the lowest module.
    AboveDriver,
    /// Between two clusters of modules, by the names of the modules that it joins, lower first.
    Between(String, String),
    /// Inside this module: pieces of the work on one message.
    Inside(String),
}

/// One junction of a placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Junction {
    /// Where it stands.
    pub position: Position,
    /// Who gets what.
    pub assignment: Assignment,
    /// The processors that take from it.
    pub servers: Vec<usize>,
    /// What it keeps of the order.
    pub order: Order,
    /// What it does when full.
    pub full: Full,
}

/// How buckets are protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Perimeter {
    /// Each bucket is one processor's own; no lock.
    Owned,
    /// Each bucket is behind a lock of this kind.
    Locked(LockKind),
    /// Whoever finds a bucket held leaves the work with whoever is inside (DEMUX §3.2.2).
    Delegated,
    /// Each bucket is one processor's own until another asks for a share, and delegated while that one is a guest.
    Leased,
}

/// A placement of junctions: a process architecture over so many processors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// What it is called.
    pub name: &'static str,
    /// How many processors it uses.
    pub processors: usize,
    /// Its junctions, from the driver up.
    pub junctions: Vec<Junction>,
    /// How its buckets are protected.
    pub perimeter: Perimeter,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.processors == 1 { "" } else { "s" };
        write!(
            f,
            "{} on {} processor{plural}; buckets ",
            self.name, self.processors
        )?;
        match self.perimeter {
            Perimeter::Owned => writeln!(f, "private, no lock")?,
            Perimeter::Locked(kind) => writeln!(f, "shared, {kind} locks")?,
            Perimeter::Delegated => writeln!(f, "shared, delegated")?,
            Perimeter::Leased => {
                writeln!(f, "private until another processor asks, then delegated")?
            }
        }
        for junction in &self.junctions {
            match &junction.position {
                Position::AboveDriver => write!(f, "  above the driver")?,
                Position::Between(lower, upper) => write!(f, "  between {lower} and {upper}")?,
                Position::Inside(module) => {
                    write!(f, "  inside {module}, pieces joined by count")?;
                }
            }
            let who = match junction.assignment {
                Assignment::Any => "to any of",
                Assignment::PacketFilter => "by packet filter to",
                Assignment::Single => "to",
            };
            write!(f, ": {who} processor")?;
            for (index, server) in junction.servers.iter().enumerate() {
                write!(f, "{}{server}", if index == 0 { " " } else { ", " })?;
            }
            let order = match junction.order {
                Order::None => "no order",
                Order::Fifo => "first in first out",
                Order::Numbered => "in the order of their numbers",
                Order::Waiting => "each waits for the turn of its number",
            };
            match junction.full {
                Full::PushBack => writeln!(f, "; {order}; pushes back when full")?,
                Full::Drop(name) => writeln!(f, "; {order}; drops ({name}) when full")?,
            }
        }
        Ok(())
    }
}

/// A junction between two clusters of modules, at work: a message queue in front of one module, in one direction, that
/// one processor serves.
pub struct QueueJunction {
    module: ModuleId,
    direction: Direction,
    queue: MessageQueue,
}

impl QueueJunction {
    /// A junction in front of `module` with these water marks in bytes.
    pub fn new(
        module: ModuleId,
        direction: Direction,
        low_bytes: usize,
        high_bytes: usize,
    ) -> QueueJunction {
        QueueJunction {
            module,
            direction,
            queue: MessageQueue::new(low_bytes, high_bytes),
        }
    }

    /// The module that it stands in front of, and the direction.
    pub fn target(&self) -> (ModuleId, Direction) {
        (self.module, self.direction)
    }

    /// Its queue.
    pub fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// The server's work (ASX's `svc`): takes at most `max` messages off the queue and puts them into the module on this
    /// thread, through `run`, which is empty before and after. How many.
    pub fn svc(&self, cluster: &mut Cluster, run: &mut Run, max: usize) -> usize {
        let taken = self.queue.get_run(run, max);
        cluster.put(self.module, self.direction, run);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_reads_as_a_sentence() {
        let placement = Placement {
            name: "connection",
            processors: 2,
            junctions: vec![Junction {
                position: Position::AboveDriver,
                assignment: Assignment::PacketFilter,
                servers: vec![0, 1],
                order: Order::Fifo,
                full: Full::Drop("inbox_full"),
            }],
            perimeter: Perimeter::Owned,
        };
        assert_eq!(
            placement.to_string(),
            "connection on 2 processors; buckets private, no lock\n  above the driver: by packet filter to processor 0, 1; \
             first in first out; drops (inbox_full) when full\n"
        );
    }
}
