//! What a stack may hold, and may be told otherwise while it runs.

use braidnet_inet::tcp::{Listening, TcpLimits, TcpMemory};
use braidnet_inet::{Live, Paths, Reassembly};
use std::sync::Arc;

/// The limits of a stack that may change while it runs ([`Stack::set_limits`](crate::Stack::set_limits),
/// [`Sockets::set_limits`](crate::socket::Sockets::set_limits), [`Server::set_limits`](crate::Server::set_limits)).
///
/// A limit that comes down below what is there tears nothing down: what comes is refused by name until there is room again, or, where the
/// table's policy is that the oldest gives way, the oldest does. `docs/bounds.md` says of each table what it does when it is full.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::{Limits, Stack, StackConfig};
///
/// let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
/// let config = StackConfig::new("10.0.0.1".parse()?);
/// let mut stack = Stack::new(&config, here)?;
/// stack.set_limits(&Limits { connections: 1000, ..config.limits() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// See [`StackConfig::memory_bytes`](crate::StackConfig::memory_bytes). Memory that was taken for buffers is used again and again, and not
    /// given back to the system. While more was taken than the limit is now, no more is taken, and no connection begins.
    pub memory_bytes: usize,
    /// See [`StackConfig::connections`](crate::StackConfig::connections).
    pub connections: usize,
    /// See [`StackConfig::sockets`](crate::StackConfig::sockets).
    pub sockets: usize,
    /// See [`StackConfig::reassembly`](crate::StackConfig::reassembly).
    pub reassembly: Reassembly,
    /// See [`StackConfig::paths`](crate::StackConfig::paths).
    pub paths: Paths,
    /// See [`StackConfig::listening`](crate::StackConfig::listening).
    pub listening: Listening,
}

/// The part of a stack's memory that fragments may hold.
const FRAGMENTS_PART: usize = 16;

impl Limits {
    /// What fragments may hold, of this memory.
    pub(crate) fn reassembly(&self) -> Reassembly {
        let most = self.memory_bytes / FRAGMENTS_PART;
        Reassembly {
            bytes: self.reassembly.bytes.min(most),
            ..self.reassembly
        }
    }

    /// Connections are dealt by a hash, so a bucket may get more than its even share.
    pub(crate) fn connections_per_bucket(&self, buckets: u32) -> usize {
        let share = self.connections / buckets.max(2) as usize;
        share.saturating_add(share / 2).saturating_add(16)
    }
}

/// Where the modules of a stack look for their limits.
pub(crate) struct Bounds {
    pub(crate) memory: TcpMemory,
    pub(crate) tcp: Arc<Live<TcpLimits>>,
    pub(crate) reassembly: Arc<Live<Reassembly>>,
    pub(crate) buckets: u32,
}

impl Bounds {
    pub(crate) fn set(&self, limits: &Limits) {
        self.memory.set_limit_bytes(limits.memory_bytes);
        self.tcp.set(TcpLimits {
            connections_per_bucket: limits.connections_per_bucket(self.buckets),
            listening: limits.listening,
            paths: limits.paths,
        });
        self.reassembly.set(limits.reassembly());
    }
}
