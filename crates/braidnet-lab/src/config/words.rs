//! What is chosen by a word.

use braidnet_stream::{Arrival, Extent};
use core::fmt;
use core::str::FromStr;

/// A word that is none of those that can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {what} is called `{word}`: choose {choices}")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    choices: &'static str,
}

macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident, $what:literal, $choices:literal:
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Its name on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                $name::ALL
                    .iter()
                    .copied()
                    .find(|choice| choice.name() == word)
                    .ok_or_else(|| UnknownWord { what: $what, word: word.to_owned(), choices: $choices })
            }
        }
    };
}

words! {
    /// What carries the messages.
    Transport, "transport", "tcp or udp":
    /// TCP (RFC 9293).
    Tcp = "tcp",
    /// UDP (RFC 768).
    Udp = "udp",
}

words! {
    /// What stands between transport and application.
    Presentation, "presentation", "none or xdr":
    /// Nothing: the application copies the bytes.
    None = "none",
    /// XDR (RFC 4506), in records (RFC 5531 §11) under TCP: the application sums what was decoded.
    Xdr = "xdr",
}

words! {
    /// How processors keep out of each other's way in a connection's state under `message`.
    Perimeter, "perimeter", "locked or delegated":
    /// Whoever finds it held waits for the lock (PLP §2.1).
    Locked = "locked",
    /// Whoever finds it held leaves the work with whoever is inside, and goes on (DEMUX §3.2.2).
    Delegated = "delegated",
}

words! {
    /// What one perimeter covers under `message`, so that no two processors are in it at a time (DEMUX §3.2.2, figure 3).
    Span, "span of a perimeter", "connection, stream, queue-pair or module":
    /// A connection, with all its modules: each has a bucket of its own, as long as there are buckets. DEMUX's stream.
    Connection = "connection",
    /// All connections of the stream, with all their modules: one bucket.
    Stream = "stream",
    /// One module of a connection, both ways.
    QueuePair = "queue-pair",
    /// One module, of all connections of the stream.
    Module = "module",
}

impl Span {
    /// What of a bucket a perimeter covers with this span.
    pub const fn extent(self) -> Extent {
        match self {
            Span::Connection | Span::Stream => Extent::Bucket,
            Span::QueuePair | Span::Module => Extent::Module,
        }
    }
}

words! {
    /// What of the order of arrival reaches TCP under `message`.
    Order, "order", "none, waiting or numbered":
    /// Whatever order the processors come in.
    None = "none",
    /// Each run gets a number where it is taken from the device, and whoever has it waits for its turn (PLP §4.2).
    Waiting = "waiting",
    /// Each run gets a number where it is taken from the device, and enters in the order of these (PLP §4.1).
    Numbered = "numbered",
}

impl Order {
    /// What the stack is asked to do for it.
    pub fn arrival(self) -> Arrival {
        match self {
            Order::None => Arrival::AsItComes,
            Order::Waiting => Arrival::Waiting,
            Order::Numbered => Arrival::Numbered,
        }
    }
}

words! {
    /// What of TCP's order reaches an application above the order-free work, whose critical section counts what comes (PLP §4.2).
    OrderAbove, "order above TCP", "none, declined, waiting or numbered":
    /// There is none: the order-free work is all there is.
    None = "none",
    /// It has declined order, and takes messages, with their places in the stream, as they come.
    Declined = "declined",
    /// What leaves TCP gets numbers, and whoever comes early waits for its turn.
    Waiting = "waiting",
    /// What leaves TCP gets numbers, and goes on in the order of these; nobody waits.
    Numbered = "numbered",
}

words! {
    /// Which way the messages go.
    Direction, "direction", "receive, send or both":
    /// Up the stack, from a simulated sender.
    Receive = "receive",
    /// Down the stack, to a simulated receiver.
    Send = "send",
    /// Down one whole stack and up another.
    Both = "both",
}

words! {
    /// What carries the processors of an architecture, or each connection (CP/MP §3.1, ASX §2.1).
    Agents, "agent", "threads or tasks":
    /// A thread of the system's for each.
    Threads = "threads",
    /// User-level tasks, multiplexed over threads.
    Tasks = "tasks",
}

words! {
    /// How who serves a queue waits for something in it (ASX §2.6.1).
    Wait, "way to wait", "sleep, spin or spin-sleep":
    /// Asleep, at once.
    Sleep = "sleep",
    /// By asking on and on; others that want the processor get it in between.
    Spin = "spin",
    /// Asking for a while, then asleep.
    SpinSleep = "spin-sleep",
}

words! {
    /// In whose memory queues, buckets, timers and buffers lie that are one processor's alone (PPF §3.2, figures 4 and 5).
    Place, "place for state", "together or apart":
    /// All in that of the thread that starts them, one beside the other.
    Together = "together",
    /// Each in that of the thread that turns its processor, which makes them.
    Apart = "apart",
}

words! {
    /// How references are counted: to buffers, and where not [`Lean`](Counts::Lean), to modules and sessions (PLP §5.2).
    Counts, "way to count", "lean, atomic or locked":
    /// Only where something is shared, and atomically.
    Lean = "lean",
    /// Every time, and two on each layer on the way up, by atomic operations.
    Atomic = "atomic",
    /// The same under locks.
    Locked = "locked",
}

words! {
    /// What the load is.
    Mode, "mode", "bulk or echo":
    /// As many messages as possible.
    Bulk = "bulk",
    /// Round trips between two whole stacks, one outstanding for each connection.
    Echo = "echo",
}
