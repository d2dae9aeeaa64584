//! One connection: the engine, what it has to send, and what the head has been told.

use super::listen::HalfOpen;
use super::send_queue::SendQueue;
use braidnet_message::{Charge, Message};
use braidnet_stream::{ConnectionId, Context};
use braidnet_tcp::{Payload, Sink, Tcb};
use braidnet_wire::address::Tuple;

/// A connection in its bucket.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) tuple: Tuple,
    pub(super) hash: u64,
    pub(super) tcb: Tcb<Segment>,
    pub(super) sending: SendQueue,
    /// Bytes freed since the head was last told.
    pub(super) unreported_space: u32,
    /// Bytes delivered so far: where in the stream the next delivery stands.
    pub(super) delivered: u64,
    /// Set until the handshake is over.
    pub(super) half_open: Option<HalfOpen>,
    /// The head knows of it.
    pub(super) announced: bool,
    /// The application has closed or aborted.
    pub(super) closed_by_user: bool,
    /// Its share of the stack's memory, given back with it.
    pub(super) _charge: Charge,
}

/// A received segment's payload, as the engine handles it.
pub(super) struct Segment(pub(super) Message);

impl Payload for Segment {
    #[inline]
    fn len(&self) -> usize {
        self.0.total_len()
    }

    #[inline]
    fn trim_front(&mut self, n: usize) {
        self.0.strip(n);
    }

    #[inline]
    fn truncate(&mut self, n: usize) {
        self.0.truncate(n);
    }
}

/// Takes what is in order and hands it up.
pub(super) struct Deliver<'a, 'c> {
    pub(super) id: ConnectionId,
    pub(super) delivered: &'a mut u64,
    pub(super) cx: &'a mut Context<'c>,
}

impl Sink<Segment> for Deliver<'_, '_> {
    #[inline]
    fn deliver(&mut self, Segment(mut message): Segment) {
        message.set_connection(self.id.0);
        message.set_position(*self.delivered);
        *self.delivered += message.total_len() as u64;
        self.cx.up(message);
    }
}
