//! What can be seen of stacks while they run.

use crate::config::{Presentation, Transport, TtcpConfig};
use crate::far::FarWatch;
use crate::tally::Scope;
use braidnet_codec::record::MARK_BYTES;
use braidnet_message::Arena;
use braidnet_process::Architecture;
use braidnet_stream::{Counters, OrderFree, References, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What can be seen of a rig while it runs.
pub(crate) struct Watch {
    stacks: Vec<WatchedStack>,
    far: Option<FarWatch>,
    received: Received,
    /// Bytes that are received with every message, marks included.
    wire_bytes: u64,
    size: u64,
    /// How many connections TCP must open; 0 where there is none.
    connections: u64,
    /// Any processor may do the work of a connection.
    any: bool,
    /// What part of all messages goes to all connections evenly.
    spread: f64,
    pub(crate) scope: Scope,
}

/// One of its stacks.
pub(super) struct WatchedStack {
    /// In front of its counters' names.
    pub(super) prefix: &'static str,
    pub(super) stream: Arc<Stream>,
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) arena: Arc<Arena>,
    pub(super) references: References,
    /// Where order-free functions are timed.
    pub(super) order_free: Option<OrderFree>,
}

/// Who knows what the application has received.
pub(super) enum Received {
    /// A module of the first stack.
    Module(&'static str),
    /// The far end.
    Far,
}

/// The part in the warm-up that a processor must have had, of an even share.
const LEAST_PART: u64 = 4;
/// How many times as long as asked for a warm-up may last.
const LONGEST: u64 = 20;

impl WatchedStack {
    /// `any` says that work falls to any processor, not only to those that have opened connections.
    fn is_warm(&self, connections: u64, warmup: u64, any: bool) -> bool {
        let value = |counters: &Counters, name| counters.value(&self.stream, "tcp", name);
        let part = warmup / self.counters.len() as u64 / LEAST_PART;
        let mut opened = 0;
        self.counters.iter().all(|counters| {
            let own = value(counters, "opened");
            opened += own;
            own == 0 && !any
                || value(counters, "segments_in") + value(counters, "segments_out") >= part
        }) && opened >= connections
    }
}

impl Watch {
    fn sum(&self, module: &str, name: &str) -> u64 {
        let stack = &self.stacks[0];
        stack.counters.iter().fold(0, |sum, counters| {
            sum.wrapping_add(counters.value(&stack.stream, module, name))
        })
    }

    /// Messages received so far.
    pub(crate) fn messages(&self) -> u64 {
        let bytes = match (&self.received, &self.far) {
            (Received::Module(module), _) => self.sum(module, "bytes"),
            (Received::Far, Some(far)) => far.bytes(),
            (Received::Far, None) => 0,
        };
        bytes / self.wire_bytes
    }

    /// Whether more than `warmup` messages have passed, every connection is open, and every processor that TCP's work falls to
    /// has had a part in it: one that the system has not let run yet is cold. Nobody is waited for for ever.
    pub(crate) fn is_warm(&self, warmup: u64) -> bool {
        let messages = self.messages();
        let spread = (warmup as f64 * self.spread) as u64;
        let warm = |stack: &WatchedStack| stack.is_warm(self.connections, spread, self.any);
        messages > warmup
            && (self.connections == 0
                || messages / LONGEST > warmup
                || self.stacks.iter().all(warm))
    }

    /// Bytes of a message.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.size
    }

    /// Hash of what was received, and how many samples are in it.
    pub(crate) fn tally(&self) -> (u64, u64) {
        match (&self.received, &self.far) {
            (Received::Module(module), _) => {
                let samples = self.sum(module, "samples");
                (self.sum(module, "hash"), samples)
            }
            (Received::Far, Some(far)) => far.tally(),
            (Received::Far, None) => (0, 0),
        }
    }

    /// Data segments that reached TCP, or the wire's other end, and those of them that were not next in order.
    pub(crate) fn order(&self) -> (u64, u64) {
        match (&self.received, &self.far) {
            (Received::Far, Some(far)) => far.order(),
            _ => (
                self.sum("tcp", "data_segments_in"),
                self.sum("tcp", "out_of_order"),
            ),
        }
    }

    /// Nanoseconds that order-free functions have taken so far. None where they are not timed.
    pub(crate) fn order_free(&self) -> Option<u64> {
        let timed = self
            .stacks
            .iter()
            .filter_map(|stack| stack.order_free.as_ref());
        timed.map(OrderFree::nanos).reduce(|sum, one| sum + one)
    }

    /// Every counter that is not zero.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for stack in &self.stacks {
            let mut own = BTreeMap::new();
            for counters in &stack.counters {
                counters.collect(&stack.stream, &mut own);
            }
            for (module, taken) in stack.references.taken() {
                own.insert(format!("{module}.references"), taken);
            }
            own.insert(
                "buffers.from_store".to_owned(),
                stack.arena.taken_from_store(),
            );
            let named = own.into_iter().filter(|(name, _)| !name.ends_with(".hash"));
            all.extend(named.map(|(name, value)| (format!("{}{name}", stack.prefix), value)));
        }
        if let Some(far) = &self.far {
            far.collect(&mut all);
        }
        all
    }
}

impl Watch {
    pub(super) fn new(
        config: &TtcpConfig,
        stacks: Vec<WatchedStack>,
        far: Option<FarWatch>,
        received: Received,
        scope: Scope,
    ) -> Watch {
        let marked = matches!(received, Received::Far)
            && config.transport == Transport::Tcp
            && config.presentation == Presentation::Xdr;
        let mark = if marked { MARK_BYTES } else { 0 };
        let size = config.size as u64;
        Watch {
            stacks,
            far,
            received,
            wire_bytes: size + mark as u64,
            size,
            connections: match config.transport {
                Transport::Tcp => config.connections as u64,
                Transport::Udp => 0,
            },
            spread: config.skew.map_or(1.0, |share| 1.0 - share.value()),
            any: config.architecture == Architecture::Message,
            scope,
        }
    }
}
