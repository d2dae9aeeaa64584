//! The named architectures, as placements.

use core::fmt;
use core::str::FromStr;

mod placement;
mod refusal;

pub(crate) use placement::Pipelines;
pub use placement::{Places, top_processor_of};
pub use refusal::Refusal;

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
}

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

    #[test]
    fn names_read_back_and_others_are_refused() {
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
