//! What an architecture cannot be combined with, and why.

use super::Architecture;
use braidnet_inet::tcp::TcpLocks;
use braidnet_stream::{Arrival, Exclusion, Extent};
use braidnet_sync::lease::GUESTS;
use core::fmt;

impl Architecture {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Places;
    use crate::architecture::placement::tests::{LOCKED, places};

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
    }
}
