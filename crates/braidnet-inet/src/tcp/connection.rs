//! One connection: the engine, what it has to send, and what the head has been told.

use super::after::HEADROOM;
use super::fast_open::EarlyPlace;
use super::listen::{Listener, Place};
use super::send_queue::{RECORD_END, Room, SendQueue};
use super::{NO_BUFFER, NOT_SENDABLE, RETRANSMITTED, SEGMENTS_OUT};
use crate::notes::{Arrival, Departure};
use crate::offload::Offload;
use braidnet_message::{Charge, Kind, Message};
use braidnet_stream::{ConnectionId, Context, Control, Counter, Trace, Verb};
use braidnet_tcp::{Outlet, PacketFields, Payload, Setting, Sink, Tcb, Transmit};
use braidnet_wire::address::Tuple;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// A connection in its bucket.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) tuple: Tuple,
    pub(super) hash: u64,
    pub(super) tcb: Tcb<Segment>,
    pub(super) sending: SendQueue,
    /// Bytes freed since the head was last told.
    pub(super) unreported_space: u32,
    /// How many bytes must have come free in the send buffer that the head is told of them: a quarter of it. Less may stay
    /// untold for good, even once all is acknowledged: telling of it then would cost a message for every short exchange. So
    /// more than three quarters of the buffer are free for certain sooner or later, and whoever waits for more in one piece
    /// waits in vain; [`Verb::Space`] says so.
    pub(super) worthwhile: u32,
    /// Bytes delivered so far: where in the stream the next delivery stands.
    pub(super) delivered: u64,
    /// In its listener's queue of those that are half-open, then of those that are not accepted yet; given back when the
    /// application says that it has it, or with the connection.
    pub(super) place: Option<Place>,
    /// Among its listener's connections that data have opened, as long as its handshake is not over.
    pub(super) early: Option<EarlyPlace>,
    /// The head knows of it.
    pub(super) announced: bool,
    /// Its share of the stack's memory, given back with it.
    pub(super) _charge: Charge,
}

impl Connection {
    /// The place in the accept queue that a segment needs which may end a listener's handshake; `None` for another.
    ///
    /// # Errors
    /// If there is no such place, its name.
    pub(super) fn place_for(&self, header: &TcpHeader) -> Result<Option<Place>, Counter> {
        let flags = header.flags;
        let may_end = flags.contains(TcpFlags::ACK) && !flags.contains(TcpFlags::RST);
        let half_open = self.place.as_ref().filter(|_| may_end);
        half_open.map(Place::established).transpose()
    }

    /// The listener of a connection whose handshake is under way, and that this ACK does not answer (RFC 9293 §3.10.7.4, fifth check).
    pub(super) fn doubts(&self, header: &TcpHeader) -> Option<&Arc<Listener>> {
        let flags = header.flags;
        let has = |flag| flags.contains(flag);
        let is_ack = has(TcpFlags::ACK) && !has(TcpFlags::RST) && !has(TcpFlags::SYN);
        let listener = match &self.early {
            Some(early) => early.listener(),
            None => self.place.as_ref().and_then(Place::awaits_handshake)?,
        };
        (is_ack && !self.tcb.answers_handshake(header.ack)).then_some(listener)
    }

    /// Tells that the handshake is over, in `carrier`. Until it is accepted it has this `place`, if it is a listener's.
    pub(super) fn connected(
        &mut self,
        carrier: Message,
        place: Option<Place>,
        offload: Offload,
    ) -> Message {
        let mss = self.tcb.mss();
        self.place = place;
        self.announced = true;
        Control::new(Verb::Connected)
            .value(u64::from(self.tcb.send_space()))
            .pieces(mss, offload.segments_at_once(mss))
            .tuple(self.tuple)
            .carried_by(carrier, self.id)
    }

    /// Appends what the application sends, `first` and the data for the same connection that follows it in a run, to what
    /// there is to send. Returns the message of the run that ends it.
    #[inline]
    pub(super) fn take_data(
        &mut self,
        first: Message,
        more: &mut impl Iterator<Item = Message>,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let (id, sending) = (first.connection(), &mut self.sending);
        let mss = self.tcb.mss();
        let mut message = first;
        let mut next = None;
        self.tcb.send_as_fits(|space| {
            let mut left = space;
            loop {
                let len = message.total_len() as u32;
                if len > left {
                    refuse(message, cx);
                } else if len > 0 {
                    left -= len;
                    if len <= mss {
                        sending.push(message);
                    } else {
                        sending.push_long(message);
                    }
                }
                match more.next() {
                    Some(more) if more.connection() == id && more.kind() == Kind::Data => {
                        message = more;
                    }
                    other => {
                        next = other;
                        return space - left;
                    }
                }
            }
        });
        next
    }

    /// The engine, and where what arrives for it goes.
    #[inline]
    pub(super) fn deliver<'a, 'c>(
        &'a mut self,
        cx: &'a mut Context<'c>,
    ) -> (&'a mut Tcb<Segment>, Deliver<'a, 'c>) {
        let sink = Deliver {
            id: self.id,
            delivered: &mut self.delivered,
            cx,
        };
        (&mut self.tcb, sink)
    }

    /// Lets go of the `acked` bytes that the peer has acknowledged; whether enough has come free since the head was told.
    #[inline]
    pub(super) fn release(&mut self, acked: u32) -> bool {
        self.sending.release(acked);
        self.unreported_space += acked + self.tcb.take_send_growth();
        self.unreported_space >= self.worthwhile
    }

    /// Sets the connection otherwise; [`Control`]'s two words say what. How many more bytes the head may send than it knows.
    #[cold]
    pub(super) fn set(&mut self, now: Instant, control: Control) -> u32 {
        let Some(setting) = Setting::from_words(control.detail, control.value) else {
            debug_assert!(false, "a setting that no engine knows");
            return 0;
        };
        let before = self.tcb.send_space();
        self.tcb.set(now, setting);
        let after = self.tcb.send_space();
        if let Setting::SendBuffer(bytes) = setting {
            self.worthwhile = bytes / 4;
        }
        // What is opening is told all its room when it is open; to what has opened early that has been told already.
        let is_open = self.tcb.state().is_synchronized() || self.early.is_some();
        let is_told = self.announced && is_open;
        if is_told {
            after.saturating_sub(before)
        } else {
            0
        }
    }

    /// What tells that it is gone.
    pub(super) fn closed(&self, why: u32) -> Control {
        Control::new(Verb::Closed).detail(why).tuple(self.tuple)
    }
}

/// An application has sent more than it was told that there is room for, or after it has closed.
#[cold]
fn refuse(message: Message, cx: &mut Context<'_>) {
    cx.drop(message, NOT_SENDABLE);
}

/// A received segment's payload, as the engine handles it, and its length.
pub(super) struct Segment {
    message: Message,
    len: usize,
}

impl Segment {
    #[inline]
    pub(super) fn new(message: Message) -> Segment {
        Segment {
            len: message.total_len(),
            message,
        }
    }

    /// The parsed header, as the order-free part has left it.
    #[inline]
    pub(super) fn header(&self) -> TcpHeader {
        self.message.note_ref::<Arrival>().header
    }

    pub(super) fn into_message(self) -> Message {
        self.message
    }

    /// What it is known by when the engine has it.
    #[inline]
    pub(super) fn trace(&self) -> Trace {
        Trace::of(&self.message)
    }
}

impl Payload for Segment {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn segment_len(&self) -> usize {
        match self.message.segment_bytes() {
            0 => self.len,
            each => each as usize,
        }
    }

    /// The whole buffers, however little of them is data.
    fn footprint(&self) -> usize {
        let mut bytes = 0;
        let mut block = Some(&self.message);
        while let Some(message) = block {
            bytes += message.headroom() + message.len() + message.tailroom();
            block = message.continuation();
        }
        bytes
    }

    #[inline]
    fn trim_front(&mut self, n: usize) {
        self.message.strip(n);
        self.len = self.message.total_len();
    }

    #[inline]
    fn truncate(&mut self, n: usize) {
        self.message.truncate(n);
        self.len = self.message.total_len();
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
    fn deliver(&mut self, segment: Segment) {
        let Segment { mut message, len } = segment;
        message.set_connection(self.id.0);
        message.set_position(*self.delivered);
        // A train ends here: what goes up is a part of the stream.
        message.clear_segmentation();
        *self.delivered += len as u64;
        self.cx.up(message);
    }
}

/// Takes what leaves, puts the data into it and hands it down.
pub(super) struct Departures<'a, 'c> {
    pub(super) tuple: &'a Tuple,
    /// What IP says of each packet.
    pub(super) packet_fields: PacketFields,
    pub(super) sending: &'a mut SendQueue,
    pub(super) cx: &'a mut Context<'c>,
}

impl Outlet for Departures<'_, '_> {
    /// `None` without a buffer.
    type Data = Option<Message>;

    #[inline(always)]
    fn cut(&mut self, offset: u32, max: u32) -> (u32, Option<Message>) {
        self.sending.segment(offset, max, self.cx.pool())
    }

    fn cut_whole(&mut self, offset: u32, bytes: u32) -> (u32, Option<Message>) {
        self.sending.whole(offset, bytes, self.cx.pool())
    }

    #[inline]
    fn couple(&mut self, train: &mut Option<Message>, offset: u32, max: u32, room: u32) -> u32 {
        // Each of what may be fragmented has a number of its own, which whoever cuts trains does not give.
        let Some(train) = train.as_mut().filter(|_| !self.packet_fields.may_be_cut) else {
            return 0;
        };
        let room = Room { max, room };
        let coupled = self.sending.couple(train, offset, room, self.cx.pool());
        // The train itself counts as one.
        if coupled > 0 {
            let segments = coupled.div_ceil(train.segment_bytes());
            self.cx.count(SEGMENTS_OUT, u64::from(segments));
        }
        coupled
    }

    #[inline(always)]
    fn transmit(&mut self, segment: Transmit, data: Option<Option<Message>>) {
        if segment.retransmission {
            self.cx.count(RETRANSMITTED, 1);
        }
        let message = data.unwrap_or_else(|| self.cx.pool().allocate(HEADROOM, 0));
        let Some(mut message) = message else {
            return self.cx.count(NO_BUFFER, 1);
        };
        let note = message.note_mut::<Departure>();
        note.header = segment.header;
        note.tuple = *self.tuple;
        let fields = self.packet_fields;
        note.ttl = fields.time_to_live;
        note.differentiated_services = fields.differentiated_services;
        note.may_be_cut = fields.may_be_cut.into();
        // A record is pushed, as RFC 9293 §3.9.1.2 (MAY-15) has it of a SEND; in a train whoever reads needs no more than the end.
        if message.position() == RECORD_END && message.segment_bytes() == 0 {
            let flags = &mut message.note_mut::<Departure>().header.flags;
            *flags = flags.union(TcpFlags::PSH);
        }
        self.cx.down(message);
    }
}
