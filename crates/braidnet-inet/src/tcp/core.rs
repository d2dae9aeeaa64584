//! The ordered part: segments, user calls, deadlines, and what has to be sent.

use super::after::HEADROOM;
use super::connection::{Connection, Deliver, Segment};
use super::listen::HalfOpen;
use super::send_queue::SendQueue;
use super::table::Table;
use super::{
    CLOSED, CONNECTION_BYTES, DATA_SEGMENTS_IN, NO_BUFFER, NO_CONNECTION, NO_MEMORY, NOT_SENDABLE,
    OPENED, OUT_OF_ORDER, OWN, RESETS_OUT, RETRANSMITTED, SEGMENTS_IN, SEGMENTS_OUT, STALE,
    SYN_QUEUE_FULL, TABLE_FULL, Tcp,
};
use crate::notes::{Arrival, Departure};
use braidnet_message::{Charge, Kind, Message, Run};
use braidnet_stream::{ConnectionId, Context, Control, Counter, Verb};
use braidnet_tcp::{DropReason, Events, Listen, Sink, State, Tcb, Transmit};
use braidnet_wire::address::Tuple;
use braidnet_wire::tcp::{PROTOCOL, TcpHeader};
use std::sync::OnceLock;

/// IPv4 and TCP headers without options, in bytes (RFC 9293 §3.7.1).
const FIXED_HEADERS: usize = 40;

/// The module's counters: its own, then the engine's drop reasons.
pub(super) fn counter_names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| OWN.iter().chain(DropReason::ALL).copied().collect())
}

fn counter_of(reason: DropReason) -> Counter {
    Counter((OWN.len() + reason.index()) as u16)
}

impl Tcp {
    /// SEGMENT ARRIVES (RFC 9293 §3.10.7) for a run of one bucket.
    #[inline(never)]
    pub(super) fn segments_arrive(&self, table: &mut Table, run: &mut Run, cx: &mut Context<'_>) {
        cx.count(SEGMENTS_IN, run.len() as u64);
        for message in run.drain() {
            let arrival = message.note::<Arrival>();
            match table.find(arrival.hash, &arrival.tuple) {
                Some(slot) => self.segment_for(slot, &arrival, message, table, cx),
                None => self.segment_for_nobody(&arrival, message, table, cx),
            }
        }
    }

    #[inline]
    fn segment_for(
        &self,
        slot: usize,
        arrival: &Arrival,
        message: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        if connection.tcb.reusable_by(&arrival.header) {
            // A new incarnation takes over a connection in TIME-WAIT (RFC 6191, RFC 1122 §4.2.2.13).
            self.gone(slot, Control::CLOSED, table, cx);
            return self.segment_for_nobody(arrival, message, table, cx);
        }
        let payload = (message.total_len() > 0).then(|| Segment(message));
        if payload.is_some() {
            cx.count(DATA_SEGMENTS_IN, 1);
        }
        if matches!(connection.tcb.state(), State::SynSent | State::SynReceived) {
            return self.segment_while_opening(slot, arrival, payload, table, cx);
        }
        let mut sink = Deliver {
            id: connection.id,
            delivered: &mut connection.delivered,
            cx,
        };
        let outcome = connection
            .tcb
            .on_segment(sink.cx.now(), &arrival.header, payload, &mut sink);
        if let Some(reason) = outcome.drop {
            cx.count(counter_of(reason), 1);
        }
        table.touch(slot);
        // Nearly every ACK.
        if outcome.events == Events::ACKED {
            self.acked(slot, table, cx);
        } else if !outcome.events.is_empty() {
            self.events(slot, outcome.events, table, cx);
        }
    }

    /// The same during the handshake: what ends it may bring data, of which the head is to hear after `Connected`.
    #[cold]
    fn segment_while_opening(
        &self,
        slot: usize,
        arrival: &Arrival,
        payload: Option<Segment>,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let mut early = Vec::new();
        let outcome = connection
            .tcb
            .on_segment(cx.now(), &arrival.header, payload, &mut early);
        if let Some(reason) = outcome.drop {
            cx.count(counter_of(reason), 1);
        }
        table.touch(slot);
        self.events(slot, outcome.events & Events::CONNECTED, table, cx);
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
    fn segment_for_nobody(
        &self,
        arrival: &Arrival,
        message: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let (header, tuple) = (&arrival.header, &arrival.tuple);
        if let Some(listener) = self.listeners.find(&tuple.local, tuple.local_port) {
            match braidnet_tcp::listen(header) {
                Listen::Ignore(reason) => return cx.drop(message, counter_of(reason)),
                Listen::Accept => {
                    let Some(half_open) = HalfOpen::take(listener) else {
                        return cx.drop(message, SYN_QUEUE_FULL);
                    };
                    if message.total_len() > 0 {
                        cx.drop(message, counter_of(DropReason::TextOnSyn));
                    }
                    return self.accept(arrival, half_open, table, cx);
                }
                Listen::Reset => {}
            }
        }
        match braidnet_tcp::reset_for(header, message.total_len() as u32) {
            Some(reset) => {
                cx.count(RESETS_OUT, 1);
                self.send_alone(reset, *tuple, cx);
            }
            None => cx.drop(message, NO_CONNECTION),
        }
    }

    #[inline(never)]
    fn accept(
        &self,
        arrival: &Arrival,
        half_open: HalfOpen,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let now = cx.now();
        let iss =
            braidnet_tcp::isn::initial_sequence_number(self.config.isn_secret, &arrival.tuple, now);
        let mut tcb = Tcb::accept(&self.config.engine, iss, self.mss(), &arrival.header, now);
        tcb.set_timestamp_offset(self.timestamp_offset(&arrival.tuple));
        let Some(charge) = self.memory.charge(CONNECTION_BYTES) else {
            return cx.count(NO_MEMORY, 1);
        };
        let slot = table.insert(arrival.hash, arrival.tuple, |id| Connection {
            half_open: Some(half_open),
            ..fresh(id, (arrival.tuple, arrival.hash), tcb, charge)
        });
        match slot {
            Some(slot) => table.touch(slot),
            None => cx.count(TABLE_FULL, 1),
        }
    }

    /// What the application asks (RFC 9293 §3.9.1), and its data.
    #[inline(never)]
    pub(super) fn user_calls(&self, table: &mut Table, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            if message.kind() != Kind::Data {
                self.verb(id, &message, table, cx);
                continue;
            }
            let Some(slot) = table.slot(id) else {
                cx.drop(message, STALE);
                continue;
            };
            table.touch(slot);
            let Some(connection) = table.connection(slot) else {
                continue;
            };
            let len = message.total_len() as u32;
            if connection.closed_by_user || len > connection.tcb.send_space() {
                cx.drop(message, NOT_SENDABLE);
                continue;
            }
            connection.sending.push(message);
            connection.tcb.send(len);
        }
    }

    #[inline(never)]
    fn verb(&self, id: ConnectionId, message: &Message, table: &mut Table, cx: &mut Context<'_>) {
        let Some((control, verb)) =
            Control::of(message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        if verb == Verb::Connect {
            return self.connect(&control, table, cx);
        }
        let Some(slot) = table.slot(id) else {
            cx.count(STALE, 1);
            return;
        };
        let now = cx.now();
        table.touch(slot);
        let Some(connection) = table.connection(slot) else {
            return;
        };
        match verb {
            Verb::Credit => connection
                .tcb
                .receive(u32::try_from(control.value).unwrap_or(u32::MAX)),
            Verb::Close => {
                connection.closed_by_user = true;
                connection.tcb.close(now);
            }
            Verb::Release => {
                connection.closed_by_user = true;
                connection.tcb.close(now);
                connection.tcb.shut_receive(now);
            }
            Verb::Abort => {
                connection.closed_by_user = true;
                connection.tcb.abort();
            }
            _ => {}
        }
    }

    /// OPEN, active (RFC 9293 §3.9.1.1). The caller chose the source port so that the flow's bucket is this one.
    #[cold]
    fn connect(&self, control: &Control, table: &mut Table, cx: &mut Context<'_>) {
        let (tuple, now) = (control.tuple, cx.now());
        let (bucket, hash) = self.flows.bucket_of(&tuple, PROTOCOL);
        let refuse = |reason, cx: &mut Context<'_>| {
            cx.count(reason, 1);
            let closed = Control::new(Verb::Closed)
                .detail(Control::NO_ROOM)
                .tuple(tuple);
            if let Some(message) = closed.message(ConnectionId::new(bucket, u32::MAX, 0), cx.pool())
            {
                cx.up(message);
            }
        };
        if cx.bucket() != Some(bucket) || table.find(hash, &tuple).is_some() {
            return refuse(TABLE_FULL, cx);
        }
        let iss = braidnet_tcp::isn::initial_sequence_number(self.config.isn_secret, &tuple, now);
        let mut tcb = Tcb::connect(&self.config.engine, iss, self.mss(), now);
        tcb.set_timestamp_offset(self.timestamp_offset(&tuple));
        let Some(charge) = self.memory.charge(CONNECTION_BYTES) else {
            return refuse(NO_MEMORY, cx);
        };
        let slot = table.insert(hash, tuple, |id| Connection {
            announced: true,
            ..fresh(id, (tuple, hash), tcb, charge)
        });
        let Some(slot) = slot else {
            return refuse(TABLE_FULL, cx);
        };
        table.touch(slot);
        if let Some(connection) = table.connection(slot) {
            tell(Control::new(Verb::Opening).tuple(tuple), connection, cx);
        }
    }

    /// Wakes every connection whose time has come.
    pub(super) fn deadlines(&self, table: &mut Table, cx: &mut Context<'_>) {
        let mut from = 0;
        while let Some(slot) = table.due(from, cx.now()) {
            from = slot + 1;
            let now = cx.now();
            let Some(connection) = table.connection(slot) else {
                continue;
            };
            let events = connection.tcb.on_deadline(now);
            table.touch(slot);
            self.events(slot, events, table, cx);
        }
        if let Some(at) = table.earliest() {
            cx.wake_at(at);
        }
    }

    /// Lets every touched connection say what it has to say.
    pub(super) fn transmit(&self, table: &mut Table, cx: &mut Context<'_>) {
        while let Some(slot) = table.touched.pop() {
            let slot = slot as usize;
            table.untouch(slot);
            let Some(connection) = table.connection(slot) else {
                continue;
            };
            let (mut sent, mut again) = (0, 0);
            while let Some(transmit) = &next_segment(connection, cx) {
                sent += 1;
                again += u64::from(transmit.retransmission);
                send_segment(connection, transmit, cx);
            }
            cx.count(SEGMENTS_OUT, sent);
            if again > 0 {
                cx.count(RETRANSMITTED, again);
            }
            let deadline = connection.tcb.deadline();
            match connection.tcb.state() {
                State::Closed => {
                    self.gone(slot, Control::CLOSED, table, cx);
                    continue;
                }
                // The application is done with it; what waits is TCP's own affair (RFC 9293 §3.6.1).
                State::TimeWait if connection.announced => {
                    connection.announced = false;
                    let closed = Control::new(Verb::Closed)
                        .detail(Control::CLOSED)
                        .tuple(connection.tuple);
                    tell(closed, connection, cx);
                }
                _ => {}
            }
            table.set_deadline(slot, deadline);
            if let Some(at) = deadline {
                cx.wake_at(at);
            }
        }
    }

    /// The peer has acknowledged data: lets go of it, and tells the head of the room.
    #[inline]
    fn acked(&self, slot: usize, table: &mut Table, cx: &mut Context<'_>) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let acked = connection.tcb.take_acked();
        connection.sending.release(acked);
        connection.unreported_space += acked;
        // Reports are worth a message when a good part of the buffer has come free. No application can wait for less for
        // ever: what is unreported is less than a quarter, what is still to be acknowledged makes up the rest.
        if connection.unreported_space >= self.config.engine.send_buffer_bytes / 4 {
            let space = connection.unreported_space;
            // Without a buffer to say so in, it is said with the next acknowledgment.
            if tell(
                Control::new(Verb::Space).value(u64::from(space)),
                connection,
                cx,
            ) {
                connection.unreported_space = 0;
            }
        }
    }

    /// Tells the head what has happened to a connection.
    #[inline(never)]
    fn events(&self, slot: usize, events: Events, table: &mut Table, cx: &mut Context<'_>) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        if events.contains(Events::CONNECTED) {
            connection.half_open = None;
            connection.announced = true;
            cx.count(OPENED, 1);
            let connected = Control::new(Verb::Connected)
                .value(u64::from(connection.tcb.send_space()))
                .detail(connection.tcb.mss())
                .tuple(connection.tuple);
            tell(connected, connection, cx);
        }
        if events.contains(Events::OUT_OF_ORDER) {
            cx.count(OUT_OF_ORDER, 1);
        }
        if events.contains(Events::ACKED) {
            self.acked(slot, table, cx);
        }
        if events.contains(Events::END_OF_DATA)
            && let Some(connection) = table.connection(slot)
        {
            tell(Control::new(Verb::EndOfData), connection, cx);
        }
        let why = [
            (Events::RESET, Control::RESET),
            (Events::REFUSED, Control::REFUSED),
            (Events::TIMED_OUT, Control::TIMED_OUT),
            (Events::CLOSED, Control::CLOSED),
        ];
        if let Some((_, why)) = why.into_iter().find(|(event, _)| events.contains(*event)) {
            self.gone(slot, why, table, cx);
        }
    }

    /// Removes a connection and tells the head.
    #[cold]
    fn gone(&self, slot: usize, why: u32, table: &mut Table, cx: &mut Context<'_>) {
        let Some(connection) = table.remove(slot) else {
            return;
        };
        cx.count(CLOSED, 1);
        if connection.announced {
            tell(
                Control::new(Verb::Closed)
                    .detail(why)
                    .tuple(connection.tuple),
                &connection,
                cx,
            );
        }
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
    Connection {
        id,
        tuple,
        hash,
        tcb,
        sending: SendQueue::default(),
        unreported_space: 0,
        delivered: 0,
        half_open: None,
        announced: false,
        closed_by_user: false,
        _charge: charge,
    }
}

#[inline]
fn next_segment(connection: &mut Connection, cx: &Context<'_>) -> Option<Transmit> {
    let sending = &mut connection.sending;
    connection
        .tcb
        .poll_transmit(cx.now(), |offset, max| sending.cut(offset, max))
}

#[inline]
fn send_segment(connection: &mut Connection, transmit: &Transmit, cx: &mut Context<'_>) {
    let message = if transmit.len > 0 {
        connection
            .sending
            .message(transmit.offset, transmit.len, cx.pool())
    } else {
        cx.pool().allocate(HEADROOM, 0)
    };
    match message {
        Some(mut message) => {
            let note = message.note_mut::<Departure>();
            note.header = transmit.header;
            note.tuple = connection.tuple;
            cx.down(message);
        }
        None => cx.count(NO_BUFFER, 1),
    }
}

/// Whether there was a buffer to tell it in.
#[inline(never)]
fn tell(control: Control, connection: &Connection, cx: &mut Context<'_>) -> bool {
    match control.message(connection.id, cx.pool()) {
        Some(message) => {
            cx.up(message);
            true
        }
        None => {
            cx.count(NO_BUFFER, 1);
            false
        }
    }
}
