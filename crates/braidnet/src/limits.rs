//! What a stack may hold, and may be told otherwise while it runs.

use crate::inboxes::{DatagramPorts, InboxLimits};
use braidnet_inet::tcp::{FastOpening, Listening, TcpLimits, TcpMemory, TcpParts};
use braidnet_inet::{ErrorRate, InetLimits, LimitError, Live, Paths, Reassembly, Resolution};
use std::sync::Arc;

/// The limits of a stack that may change while it runs ([`Stack::set_limits`](crate::Stack::set_limits),
/// [`Sockets::set_limits`](crate::socket::Sockets::set_limits), [`Server::set_limits`](crate::Server::set_limits)). Those of one module are
/// together, as what it calls them, and say themselves what they may be.
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
/// stack.set_limits(&Limits { connections: 1000, ..config.limits() })?;
///
/// let mut limits = config.limits();
/// limits.resolution.neighbours = 0;
/// let error = stack.set_limits(&limits).unwrap_err();
/// assert_eq!(error.to_string(), "resolution.neighbours may be 1 to 16384, and 0 is asked for");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// See [`StackConfig::memory_bytes`](crate::StackConfig::memory_bytes). Memory that was taken for buffers is used again and again, and not
    /// given back to the system. While more was taken than the limit is now, no more is taken, and no connection begins.
    pub memory_bytes: usize,
    /// See [`StackConfig::parts`](crate::StackConfig::parts).
    pub parts: MemoryParts,
    /// See [`StackConfig::connections`](crate::StackConfig::connections).
    pub connections: usize,
    /// See [`StackConfig::ended_connections`](crate::StackConfig::ended_connections).
    pub ended_connections: usize,
    /// See [`StackConfig::sockets`](crate::StackConfig::sockets).
    pub sockets: usize,
    /// See [`StackConfig::resolution`](crate::StackConfig::resolution).
    pub resolution: Resolution,
    /// See [`StackConfig::reassembly`](crate::StackConfig::reassembly).
    pub reassembly: Reassembly,
    /// See [`StackConfig::icmp_errors`](crate::StackConfig::icmp_errors).
    pub icmp_errors: ErrorRate,
    /// See [`StackConfig::datagram_ports`](crate::StackConfig::datagram_ports).
    pub datagram_ports: DatagramPorts,
    /// See [`StackConfig::paths`](crate::StackConfig::paths).
    pub paths: Paths,
    /// See [`StackConfig::listening`](crate::StackConfig::listening).
    pub listening: Listening,
    /// See [`StackConfig::fast_opening`](crate::StackConfig::fast_opening).
    pub fast_opening: FastOpening,
}

/// Which parts of a stack's memory may be used for what: a fourth is 4. Each may be 1 to 65,536.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryParts {
    /// For datagrams of which fragments have come, beside what [`Reassembly::bytes`] says: a sixteenth by default. The oldest goes.
    pub fragments: usize,
    /// For TCP.
    pub tcp: TcpParts,
    /// For datagrams that wait at the ports of a caller-turned stack: a fourth by default. What comes beyond is dropped.
    pub datagrams: usize,
    /// For those at one port: a 64th by default, and one of any size.
    pub datagrams_of_port: usize,
}

impl Default for MemoryParts {
    fn default() -> MemoryParts {
        MemoryParts {
            fragments: 16,
            tcp: TcpParts::default(),
            datagrams: 4,
            datagrams_of_port: 64,
        }
    }
}

impl MemoryParts {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        self.tcp.check()?;
        LimitError::unless_in(1..=65_536, "parts.fragments", self.fragments)?;
        LimitError::unless_in(1..=65_536, "parts.datagrams", self.datagrams)?;
        LimitError::unless_in(
            1..=65_536,
            "parts.datagrams_of_port",
            self.datagrams_of_port,
        )
    }
}

impl Limits {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        self.parts.check()?;
        self.resolution.check()?;
        self.reassembly.check()?;
        self.icmp_errors.check()?;
        self.datagram_ports.check()?;
        self.paths.check()?;
        self.listening.check()?;
        self.fast_opening.check()?;
        LimitError::unless_in(0..=65_536, "ended_connections", self.ended_connections)
    }

    /// What fragments may hold, of this memory.
    fn reassembly(&self) -> Reassembly {
        let most = self.memory_bytes / self.parts.fragments;
        Reassembly {
            bytes: self.reassembly.bytes.min(most),
            ..self.reassembly
        }
    }

    /// What datagrams may hold that wait, of this memory.
    pub(crate) fn inboxes(&self) -> InboxLimits {
        InboxLimits {
            ports: self.datagram_ports,
            port_bytes: self.memory_bytes / self.parts.datagrams_of_port,
            whole_bytes: self.memory_bytes / self.parts.datagrams,
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
    pub(crate) inet: Arc<Live<InetLimits>>,
    pub(crate) buckets: u32,
}

impl Bounds {
    /// Has modules look at these from now on, each of which is in its range.
    pub(crate) fn set(&self, limits: &Limits) {
        self.memory
            .set_limits(limits.memory_bytes, &limits.parts.tcp);
        self.tcp.set(TcpLimits {
            connections_per_bucket: limits.connections_per_bucket(self.buckets),
            listening: limits.listening,
            paths: limits.paths,
            fast_opening: limits.fast_opening,
        });
        self.inet.set(InetLimits {
            resolution: limits.resolution,
            reassembly: limits.reassembly(),
            icmp_errors: limits.icmp_errors,
        });
    }
}
