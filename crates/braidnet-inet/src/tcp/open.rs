//! How connections begin: listeners' SYNs, OPEN, and the handshake; and what no connection is there for.

use super::after::HEADROOM;
use super::connection::{Connection, Deliver, Segment};
use super::core::counter_of;
use super::listen::Place;
use super::send_queue::SendQueue;
use super::table::Table;
use super::{
    CONNECTION_BYTES, NO_BUFFER, NO_CONNECTION, NO_MEMORY, OPENED, RESETS_OUT, SEGMENTS_OUT,
    TABLE_FULL, Tcp,
};
use crate::notes::{Arrival, Departure};
use braidnet_message::{Charge, Message};
use braidnet_stream::{BucketId, ConnectionId, Context, Control, Counter, Verb};
use braidnet_tcp::{DropReason, Events, Listen, Payload, Sink, Tcb};
use braidnet_wire::address::Tuple;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{PROTOCOL, TcpHeader};

/// IPv4 and TCP headers without options, in bytes (RFC 9293 §3.7.1).
const FIXED_HEADERS: usize = 40;

impl Tcp {
    /// A segment during the handshake. What ends it may bring data, of which the head is to hear after `Connected`. So a
    /// segment for which `Connected` cannot be told is not taken, as if it were lost; nor is one while the accept queue is full:
    /// our SYN-ACK is sent again, and answered again.
    #[cold]
    pub(super) fn segment_while_opening(
        &self,
        slot: usize,
        segment: Segment,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        self.catch_up(table, cx);
        let header = segment.header();
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let place = match connection.place_for(&header) {
            Ok(place) => place,
            Err(full) => return cx.drop(segment.into_message(), full),
        };
        let (payload, carrier) = if segment.is_empty() {
            (None, Some(segment.into_message()))
        } else {
            (Some(segment), cx.pool().allocate(0, 0))
        };
        let (Some(carrier), true) = (carrier, table.untold.is_empty()) else {
            return cx.count(NO_BUFFER, 1);
        };
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let mut early = Vec::new();
        let outcome = connection
            .tcb
            .on_segment(cx.now(), &header, payload, &mut early);
        if let Some(reason) = outcome.drop {
            cx.count(counter_of(reason), 1);
        }
        if outcome.events.contains(Events::CONNECTED) {
            cx.count(OPENED, 1);
            cx.up(connection.connected(carrier, place));
        }
        if let Some(connection) = table.connection(slot) {
            let mut sink = Deliver {
                id: connection.id,
                delivered: &mut connection.delivered,
                cx,
            };
            for segment in early {
                sink.deliver(segment);
            }
        }
        self.events(slot, outcome.events - Events::CONNECTED, table, cx);
    }

    /// A segment for which there is no connection: a listener's SYN, or RFC 9293 §3.10.7.1.
    #[cold]
    pub(super) fn segment_for_nobody(
        &self,
        message: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let arrival = &message.note::<Arrival>();
        let (header, tuple) = (&arrival.header, &arrival.tuple);
        match self.place_for(header, tuple) {
            Ok(Some(place)) => self.accept(message, (place, None), table, cx),
            Ok(None) => self.refuse(message, cx),
            Err(reason) => cx.drop(message, reason),
        }
    }

    /// Answers what is for no connection with a reset, unless it is one itself (RFC 9293 §3.10.7.1).
    fn refuse(&self, message: Message, cx: &mut Context<'_>) {
        let Arrival { header, tuple, .. } = &message.note();
        match braidnet_tcp::reset_for(header, message.total_len() as u32) {
            Some(reset) => {
                cx.count(RESETS_OUT, 1);
                self.send_alone(reset, *tuple, cx);
            }
            None => cx.drop(message, NO_CONNECTION),
        }
    }

    /// The place in its listener's queue of a segment that opens a connection; `None` if it opens none.
    ///
    /// # Errors
    /// Why it is not to be answered.
    fn place_for(&self, header: &TcpHeader, tuple: &Tuple) -> Result<Option<Place>, Counter> {
        let Some(listener) = self.listeners.find(&tuple.local, tuple.local_port) else {
            return Ok(None);
        };
        match braidnet_tcp::listen(header) {
            Listen::Accept => Place::half_open(listener).map(Some),
            Listen::Ignore(reason) => Err(counter_of(reason)),
            Listen::Reset => Ok(None),
        }
    }

    /// A segment by which a new incarnation may take over from one in TIME-WAIT (RFC 6191, RFC 1122 §4.2.2.13). The new one
    /// begins above all that the old one has used (RFC 9293 §3.6.1): after a fast connection, the clock that numbers begin by
    /// is behind. Where there can be no new one, the old one stays.
    #[cold]
    pub(super) fn reopen(
        &self,
        slot: usize,
        segment: Segment,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let message = segment.into_message();
        let arrival = &message.note::<Arrival>();
        let place = match self.place_for(&arrival.header, &arrival.tuple) {
            Ok(Some(place)) => place,
            Ok(None) => return self.refuse(message, cx),
            Err(reason) => return cx.drop(message, reason),
        };
        let used = table
            .connection(slot)
            .map(|connection| connection.tcb.status().snd_nxt);
        self.gone(slot, Control::CLOSED, table, cx);
        self.accept(message, (place, used), table, cx);
    }

    /// Begins a connection that a SYN opens. `used` is where the sequence numbers of a connection before, which was in the way,
    /// ended.
    #[inline(never)]
    fn accept(
        &self,
        syn: Message,
        (place, used): (Place, Option<SeqNumber>),
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let arrival = syn.note::<Arrival>();
        if syn.total_len() > 0 {
            cx.drop(syn, counter_of(DropReason::TextOnSyn));
        }
        let now = cx.now();
        let iss =
            braidnet_tcp::isn::initial_sequence_number(self.config.isn_secret, &arrival.tuple, now);
        let iss = used.map_or(iss, |used| iss.latest(used));
        let own = place.engine();
        let engine = own.as_deref().unwrap_or(&self.config.engine);
        let mut tcb = Tcb::accept(engine, iss, self.mss(), &arrival.header, now);
        tcb.set_timestamp_offset(self.timestamp_offset(&arrival.tuple));
        tcb.share_allowance(&self.out_of_order);
        let Some(charge) = self.memory.charge(CONNECTION_BYTES) else {
            return cx.count(NO_MEMORY, 1);
        };
        let slot = table.insert(arrival.hash, arrival.tuple, |id| Connection {
            place: Some(place),
            ..fresh(id, (arrival.tuple, arrival.hash), tcb, charge)
        });
        if slot.and_then(|slot| table.touch(slot)).is_none() {
            cx.count(TABLE_FULL, 1);
        }
    }

    /// OPEN, active (RFC 9293 §3.9.1.1). The caller chose the source port so that the flow's bucket is this one. It is
    /// answered in the message that asks.
    #[cold]
    pub(super) fn connect(
        &self,
        call: Control,
        asked: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let tuple = call.tuple;
        let (bucket, hash) = self.flows.bucket_of(&tuple, PROTOCOL);
        let (control, id) = match self.open_for(tuple, (bucket, hash), table, cx) {
            Ok(id) => {
                if call.detail != Control::HELD {
                    table.touch(id.slot());
                }
                (Control::new(Verb::Opening), id)
            }
            Err(reason) => {
                cx.count(reason, 1);
                let detail = match reason {
                    NO_MEMORY => Control::NO_MEMORY,
                    _ => Control::NO_ROOM,
                };
                let closed = Control::new(Verb::Closed).detail(detail);
                (closed, ConnectionId::new(bucket, u32::MAX, 0))
            }
        };
        cx.up(control.tuple(tuple).carried_by(asked, id));
    }

    /// A connection in SYN-SENT, or why there is none.
    fn open_for(
        &self,
        tuple: Tuple,
        (bucket, hash): (BucketId, u64),
        table: &mut Table,
        cx: &mut Context<'_>,
    ) -> Result<ConnectionId, Counter> {
        if cx.bucket() != Some(bucket) || table.find(hash, &tuple).is_some() {
            return Err(TABLE_FULL);
        }
        // Its slot may be that of a connection whose end the head has not heard of.
        self.catch_up(table, cx);
        if !table.untold.is_empty() {
            return Err(NO_MEMORY);
        }
        let now = cx.now();
        let iss = braidnet_tcp::isn::initial_sequence_number(self.config.isn_secret, &tuple, now);
        let mut tcb = Tcb::connect(&self.config.engine, iss, self.mss(), now);
        tcb.set_timestamp_offset(self.timestamp_offset(&tuple));
        tcb.share_allowance(&self.out_of_order);
        let charge = self.memory.charge(CONNECTION_BYTES).ok_or(NO_MEMORY)?;
        let slot = table
            .insert(hash, tuple, |id| Connection {
                announced: true,
                ..fresh(id, (tuple, hash), tcb, charge)
            })
            .ok_or(TABLE_FULL)?;
        table
            .connection(slot)
            .map(|connection| connection.id)
            .ok_or(TABLE_FULL)
    }

    /// Sends a segment that belongs to no connection.
    fn send_alone(&self, header: TcpHeader, tuple: Tuple, cx: &mut Context<'_>) {
        match cx.pool().allocate(HEADROOM, 0) {
            Some(mut message) => {
                message.set_note(Departure { header, tuple });
                cx.count(SEGMENTS_OUT, 1);
                cx.down(message);
            }
            None => cx.count(NO_BUFFER, 1),
        }
    }

    /// Where a flow's timestamps start: not to be guessed from another's (RFC 7323 §5.4).
    fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        braidnet_tcp::isn::timestamp_offset(self.config.isn_secret, tuple)
    }

    /// The largest segment that fits the device.
    fn mss(&self) -> u16 {
        u16::try_from(self.config.mtu.saturating_sub(FIXED_HEADERS)).unwrap_or(u16::MAX)
    }
}

/// A connection at its beginning.
fn fresh(
    id: ConnectionId,
    (tuple, hash): (Tuple, u64),
    tcb: Tcb<Segment>,
    charge: Charge,
) -> Connection {
    // Nothing is queued yet: the space is the whole buffer.
    let worthwhile = tcb.send_space() / 4;
    Connection {
        id,
        tuple,
        hash,
        tcb,
        sending: SendQueue::default(),
        unreported_space: 0,
        worthwhile,
        delivered: 0,
        place: None,
        announced: false,
        _charge: charge,
    }
}
