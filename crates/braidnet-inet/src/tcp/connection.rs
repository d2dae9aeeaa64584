//! One connection: the engine, what it has to send, and what the head has been told.

use super::listen::HalfOpen;
use super::send_queue::SendQueue;
use braidnet_message::{Charge, Message};
use braidnet_stream::{ConnectionId, Context, Control, Verb};
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

impl Connection {
    /// Tells that the handshake is over, in `carrier`.
    pub(super) fn connected(&mut self, carrier: Message) -> Message {
        self.half_open = None;
        self.announced = true;
        Control::new(Verb::Connected)
            .value(u64::from(self.tcb.send_space()))
            .detail(self.tcb.mss())
            .tuple(self.tuple)
            .carried_by(carrier, self.id)
    }

    /// Lets go of what the peer has acknowledged; whether `worthwhile` bytes or more have come free since the head was told.
    #[inline]
    pub(super) fn release(&mut self, worthwhile: u32) -> bool {
        let acked = self.tcb.take_acked();
        self.sending.release(acked);
        self.unreported_space += acked;
        self.unreported_space >= worthwhile
    }

    /// What tells that it is gone.
    pub(super) fn closed(&self, why: u32) -> Control {
        Control::new(Verb::Closed).detail(why).tuple(self.tuple)
    }
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
