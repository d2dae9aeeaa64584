//! What bounds a running TCP.

use super::fast_open::FastOpening;
use super::listen::Listening;
use crate::limits::LimitError;
use crate::path::Paths;
use braidnet_message::{Arena, Charge};
use braidnet_tcp::{Allowance, Payload, Tcb};
use std::sync::Arc;

/// What of TCP's limits may be set otherwise while it runs ([`Tcp::limits`](super::Tcp::limits)). Whatever exceeds a new limit stays until it
/// goes by itself; what comes is refused until it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpLimits {
    /// Most connections in one bucket, half-open and in TIME-WAIT included; one more is refused by name.
    pub connections_per_bucket: usize,
    /// What listeners do when they are full.
    pub listening: Listening,
    /// What is remembered of paths.
    pub paths: Paths,
    /// What is remembered for Fast Open.
    pub fast_opening: FastOpening,
}

/// Which parts of a stack's memory all connections together may use for what: a fourth is 4. Each may be 1 to 65,536.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpParts {
    /// For data out of order: a fourth by default. What comes beyond is dropped, and sent again.
    pub out_of_order: usize,
    /// For receive buffers to grow by, beyond what they begin with: a fourth by default. Then they stay as they are.
    pub growth: usize,
}

impl Default for TcpParts {
    fn default() -> TcpParts {
        TcpParts {
            out_of_order: 4,
            growth: 4,
        }
    }
}

impl TcpParts {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(1..=65_536, "parts.tcp.out_of_order", self.out_of_order)?;
        LimitError::unless_in(1..=65_536, "parts.tcp.growth", self.growth)
    }

    /// How many bytes they are of so much memory.
    fn of(&self, memory_bytes: usize) -> (usize, usize) {
        let part = |part: usize| memory_bytes / part.max(1);
        (part(self.out_of_order), part(self.growth))
    }
}

/// What a connection is charged against the stack's memory for its state, in bytes, buffers apart: the engine's variables,
/// the table's entries, and the queues that grow with use.
const CONNECTION_BYTES: usize = 1536;

/// The memory of a stack as its connections share it.
#[derive(Clone, Debug)]
pub struct TcpMemory {
    arena: Arc<Arena>,
    out_of_order: Arc<Allowance>,
    growth: Arc<Allowance>,
}

impl TcpMemory {
    pub(super) fn new(arena: &Arc<Arena>) -> TcpMemory {
        let (out_of_order, growth) = TcpParts::default().of(arena.limit_bytes());
        TcpMemory {
            arena: arena.clone(),
            out_of_order: Arc::new(Allowance::new(out_of_order)),
            growth: Arc::new(Allowance::new(growth)),
        }
    }

    /// The stack may use so many bytes from now on, and its connections these parts of them. Nothing that is in use is taken back.
    pub fn set_limits(&self, limit_bytes: usize, parts: &TcpParts) {
        let (out_of_order, growth) = parts.of(limit_bytes);
        self.arena.set_limit_bytes(limit_bytes);
        self.out_of_order.set_limit_bytes(out_of_order);
        self.growth.set_limit_bytes(growth);
    }

    /// What a connection's state is charged; `None` if memory is used up.
    pub(super) fn charge_connection(&self) -> Option<Charge> {
        self.arena.charge(CONNECTION_BYTES)
    }

    /// Has a connection that begins share what all may hold.
    pub(super) fn share<P: Payload>(&self, tcb: &mut Tcb<P>) {
        tcb.share_allowance(&self.out_of_order);
        tcb.share_growth(&self.growth);
    }

    /// How often a receive buffer could not grow since this was last asked.
    #[inline]
    pub(super) fn take_growth_refusals(&self) -> u64 {
        self.growth.take_refusals()
    }
}
