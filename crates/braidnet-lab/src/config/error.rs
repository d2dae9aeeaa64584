//! Why a measurement cannot be made as it is set.

use super::Span;
use braidnet_process::Architecture;
use braidnet_process::Refusal;
use braidnet_sync::lock::LockKind;
use std::time::Duration;

/// Why a measurement cannot be made as it is set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{what} cannot be {value}: from {least} to {most}")]
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// What it was set to.
        value: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
    /// Nothing to measure.
    #[error("at least one message must be measured")]
    NoMessages,
    /// A datagram that does not fit into a packet.
    #[error(
        "a UDP message of {size} bytes does not fit into a packet of {mtu}: {room} at most, for nothing is fragmented"
    )]
    DatagramTooLong {
        /// Bytes of the message.
        size: usize,
        /// Bytes that there is room for.
        room: usize,
        /// The MTU.
        mtu: usize,
    },
    /// A record that no batch of samples fills.
    #[error("an XDR message must be a multiple of four bytes and at least 8, not {size}")]
    UnevenRecord {
        /// Bytes of the message.
        size: usize,
    },
    /// A datagram that has no room for its number.
    #[error("a UDP message carries its number: it must have at least {least} bytes, not {size}")]
    DatagramTooShort {
        /// Bytes of the message.
        size: usize,
        /// The fewest that do.
        least: usize,
    },
    /// Records that a window cannot carry.
    #[error(
        "XDR messages of {size} bytes need a window of at least {least} bytes, not {window_bytes}: a record stays in the window until it is whole"
    )]
    RecordAboveWindow {
        /// Bytes of the message.
        size: usize,
        /// The window.
        window_bytes: u32,
        /// The smallest window that does.
        least: usize,
    },
    /// Round trips of presented messages.
    #[error("round trips (mode echo) carry bytes as they are: there is no XDR in them")]
    EchoPresentation,
    /// A round trip's message that cannot be on its way whole.
    #[error(
        "a round trip's message of {size} bytes must fit into half of the window of {window_bytes}"
    )]
    EchoAboveWindow {
        /// Bytes of the message.
        size: usize,
        /// The window.
        window_bytes: u32,
    },
    /// More work than a message may be given.
    #[error("the work of a message cannot be {work:?}: at most 10 ms")]
    TooMuchWork {
        /// How much.
        work: Duration,
    },
    /// Work, and nobody who would do it.
    #[error(
        "work is done on messages that a stack receives: it needs direction receive or both, and mode bulk"
    )]
    NobodyWorks,
    /// `function`, and no module that can divide its work.
    #[error(
        "under function processors share in the work on one message: it needs work that can be divided (a time of work for each message)"
    )]
    NothingToDivide,
    /// Order above TCP, where nothing comes from there.
    #[error(
        "order above TCP is kept, or declined, where a stack receives streams: it needs transport tcp, direction receive or both, and mode bulk"
    )]
    NothingInOrder,
    /// Order above TCP, where each module has a perimeter.
    #[error(
        "order above TCP is lost where the perimeter of a connection is left, and each module has its own: choose a perimeter for a connection or stream"
    )]
    OrderByModule,
    /// A bad wire, and no two stacks that it is between, or none that make good what it does.
    #[error(
        "a wire is impaired between two whole stacks that make it good: it needs transport tcp, and direction both or mode echo"
    )]
    NothingToImpair,
    /// A mix of one.
    #[error("one connection has all messages: a skewed mix needs at least two")]
    NothingToMix,
    /// A mix, and nobody who would keep to it.
    #[error(
        "a skewed mix is kept by the simulated sender: it needs direction receive, and mode bulk"
    )]
    NobodyMixes,
    /// A number of threads for tasks, where there are none.
    #[error("threads carry tasks: a number of them needs agents tasks")]
    ThreadsWithoutTasks,
    /// State beside the thread that turns it, where now one turns it and now another.
    #[error(
        "state apart lies beside the thread that turns its processor, and tasks are turned by whichever is next: it needs agents threads"
    )]
    TasksNowhere,
    /// An agent for each connection, where work is not bound to connections.
    #[error(
        "under {architecture} no agent has a connection of its own: that needs architecture connection"
    )]
    NotByConnection {
        /// The architecture.
        architecture: Architecture,
    },
    /// More connections than can have an agent each.
    #[error(
        "{connections} connections cannot have an agent each: 255 at most, one for each bucket"
    )]
    TooManyAgents {
        /// How many connections.
        connections: usize,
    },
    /// The architecture and another knob do not go together.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A span for perimeters, where nothing is shared.
    #[error(
        "a perimeter spans a {span} where processors share it, and under {architecture} they do not: choose message"
    )]
    NothingToSpan {
        /// The span.
        span: Span,
        /// The architecture.
        architecture: Architecture,
    },
    /// A kind of lock, and nothing that would be locked with it.
    #[error(
        "lock {lock} has nothing to lock under {architecture} as the rest is set: choose {}, counts locked or caches off",
        lockable(*.architecture)
    )]
    NothingLocked {
        /// The kind.
        lock: LockKind,
        /// The architecture.
        architecture: Architecture,
    },
    /// Locks of a transport that is not there.
    #[error("TCP locks divide a connection's lock, and UDP has no connections")]
    LocksWithoutTcp,
    /// More device queues than there are processors for, or none.
    #[error(
        "{queues} device queues for {takers} processors that take from the device: from 1 to {takers}"
    )]
    DeviceQueues {
        /// How many queues.
        queues: usize,
        /// How many processors take from the device.
        takers: usize,
    },
}

/// What there would be to lock, beside counts and the store.
fn lockable(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Message => "perimeter locked",
        _ => "message",
    }
}
