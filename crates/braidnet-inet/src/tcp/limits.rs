//! What bounds a running TCP.

use super::listen::Listening;
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
}

/// The part of a stack's memory that may hold data out of order, over all connections.
const OUT_OF_ORDER_PART: usize = 4;

/// The part of it by which receive buffers may grow, all together, beyond what they begin with.
const GROWTH_PART: usize = 4;

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
        let limit_bytes = arena.limit_bytes();
        TcpMemory {
            arena: arena.clone(),
            out_of_order: Arc::new(Allowance::new(limit_bytes / OUT_OF_ORDER_PART)),
            growth: Arc::new(Allowance::new(limit_bytes / GROWTH_PART)),
        }
    }

    /// The stack, and its connections of it their parts, may use so many bytes from now on. Nothing that is in use is taken back.
    pub fn set_limit_bytes(&self, limit_bytes: usize) {
        self.arena.set_limit_bytes(limit_bytes);
        self.out_of_order
            .set_limit_bytes(limit_bytes / OUT_OF_ORDER_PART);
        self.growth.set_limit_bytes(limit_bytes / GROWTH_PART);
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
