//! How connections begin: listeners' SYNs, OPEN, and the handshake; and what no connection is there for.

use super::after::HEADROOM;
use super::connection::{Connection, Deliver, Segment};
use super::core::counter_of;
use super::fast_open::Judged;
use super::listen::{Listener, Listeners, Place};
use super::send_queue::SendQueue;
use super::table::Table;
use super::{
    COOKIES_AWAITED, COOKIES_SENT, COOKIES_SPENT, COOKIES_TAKEN, COOKIES_WRONG, FAST_OPEN_COOKIES,
    NO_BUFFER, NO_CONNECTION, NO_MEMORY, OPENED, RESETS_OUT, SEGMENTS_OUT, SYN_QUEUE_FULL,
    TABLE_FULL, Tcp,
};
use crate::notes::{Arrival, Departure};
use braidnet_message::{Charge, Message};
use braidnet_stream::{BucketId, ConnectionId, Context, Control, Counter, Verb};
use braidnet_tcp::{
    Config, DropReason, Events, Listen, PathMtuDiscovery, Payload, Redeemed, Sink, State,
    SynCookie, Tcb, isn,
};
use braidnet_wire::address::Tuple;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{PROTOCOL, TcpFlags, TcpHeader};
use std::sync::Arc;

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
        let is_early = connection.early.is_some();
        if let Some(listener) = connection.doubts(&header).cloned() {
            let (tuple, first) = (connection.tuple, connection.tcb.irs() + 1);
            match self.bring(&listener, &header, &tuple, cx) {
                // The SYN came twice and was answered twice: by a cookie while there was no room, and by this once there was. The peer has
                // taken the cookie, and what it was told with that holds. Who was told of this one, which data have opened, hears that it is over;
                // the data come once more (RFC 7413 §2.1).
                Ok(Knock::Redeem(place, redeemed)) if header.seq == first => {
                    match is_early {
                        true => self.gone(slot, Control::RESET, table, cx),
                        false => drop(table.remove(slot)),
                    }
                    return self.redeem(segment.into_message(), place, &redeemed, table, cx);
                }
                Ok(_) => {}
                Err(reason) => return cx.drop(segment.into_message(), reason),
            }
        }
        if is_early {
            return self.segment_while_early(slot, segment, table, cx);
        }
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let place = match connection.place_for(&header) {
            Ok(place) => place,
            Err(full) => return cx.drop(segment.into_message(), full),
        };
        let trace = segment.trace();
        let (payload, carrier) = if segment.is_empty() {
            (None, Some(segment.into_message()))
        } else {
            (Some(segment), cx.pool().allocate(0, 0))
        };
        let (Some(carrier), true) = (carrier, table.untold.is_empty()) else {
            return cx.count_dropped(trace, NO_BUFFER, 1);
        };
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let mut early = Vec::new();
        let outcome = connection
            .tcb
            .on_segment(cx.now(), &header, payload, &mut early);
        if let Some(reason) = outcome.drop {
            cx.count_dropped(trace, counter_of(reason), 1);
        }
        if outcome.events.contains(Events::CONNECTED) {
            cx.count(OPENED, 1);
            cx.up(connection.connected(carrier, place, self.offload));
        }
        if let Some(connection) = table.connection(slot) {
            self.heed_fast_opened(connection, cx);
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
        match self.knock(&arrival.header, &arrival.tuple, cx) {
            Ok(Knock::Open(place)) => self.accept(message, (place, None), table, cx),
            Ok(Knock::Cookie(listener)) => self.answer_by_cookie(message, &listener, cx),
            Ok(Knock::Redeem(place, redeemed)) => {
                self.redeem(message, place, &redeemed, table, cx);
            }
            Ok(Knock::Nobody) => self.refuse(message, cx),
            Err(reason) => cx.drop(message, reason),
        }
    }

    /// Answers what is for no connection with a reset, unless it is one itself (RFC 9293 §3.10.7.1).
    fn refuse(&self, message: Message, cx: &mut Context<'_>) {
        let Arrival { header, tuple, .. } = &message.note();
        match braidnet_tcp::reset_for(header, message.total_len() as u32) {
            Some(reset) => {
                cx.count(RESETS_OUT, 1);
                self.send_alone(reset, *tuple, &self.engine, cx);
            }
            None => cx.drop(message, NO_CONNECTION),
        }
    }

    /// What a segment without a connection is for.
    ///
    /// # Errors
    /// Why it is not to be answered.
    fn knock(
        &self,
        header: &TcpHeader,
        tuple: &Tuple,
        cx: &mut Context<'_>,
    ) -> Result<Knock, Counter> {
        let Some(listener) = self.listeners.find(&tuple.local, tuple.local_port) else {
            return Ok(Knock::Nobody);
        };
        match braidnet_tcp::listen(header) {
            Listen::Accept => match Place::half_open(listener.clone()) {
                Ok(place) => Ok(Knock::Open(place)),
                Err(SYN_QUEUE_FULL) => {
                    let syn = || isn::syn_mark(self.config.isn_secret, tuple, header.seq);
                    let listening = self.limits.now().listening;
                    self.listeners
                        .take_cookie(&listener, &listening, syn, cx.now())
                        .map(|()| Knock::Cookie(listener))
                }
                Err(full) => Err(full),
            },
            Listen::Ignore(reason) => Err(counter_of(reason)),
            Listen::Reset if header.flags.contains(TcpFlags::SYN) => Ok(Knock::Nobody),
            Listen::Reset => self.bring(&listener, header, tuple, cx),
        }
    }

    /// What an ACK brings that answers no SYN-ACK of a connection's. Each cookie opens one connection: what brings it back once more is late,
    /// or was sent again by the network.
    ///
    /// # Errors
    /// Why it is not to be answered.
    fn bring(
        &self,
        listener: &Arc<Listener>,
        header: &TcpHeader,
        tuple: &Tuple,
        cx: &mut Context<'_>,
    ) -> Result<Knock, Counter> {
        if !listener.heeds_cookies(cx.now()) {
            return Ok(Knock::Nobody);
        }
        let own = listener.engine();
        let engine = own.as_ref().unwrap_or(&self.engine);
        let (cookie, mark) = (self.cookie(tuple, cx), || self.cookie_mark(tuple, header));
        let Listeners { spent, awaited, .. } = &*self.listeners;
        let Some(redeemed) = cookie.redeem(engine, header) else {
            // It may be a later segment of a flight whose first, which had it, was lost or found no place: that comes again.
            let most = || self.limits.now().listening.awaited_cookies;
            let may_come = || !spent.has(mark()) && awaited.may_come(mark(), cx.now(), most());
            if cookie.may_follow(header) && may_come() {
                return Err(COOKIES_AWAITED);
            }
            cx.count(COOKIES_WRONG, 1);
            return Ok(Knock::Nobody);
        };
        if spent.has(mark()) {
            cx.count(COOKIES_SPENT, 1);
            return Ok(Knock::Nobody);
        }
        awaited.has_come(mark(), cx.now());
        let place = Place::at_once(listener.clone())?;
        Ok(Knock::Redeem(place, redeemed))
    }

    fn cookie_mark(&self, tuple: &Tuple, ack: &TcpHeader) -> u64 {
        isn::cookie_mark(self.config.isn_secret, tuple, ack.ack)
    }

    fn cookie<'a>(&self, tuple: &'a Tuple, cx: &Context<'_>) -> SynCookie<'a> {
        SynCookie {
            secret: self.config.isn_secret,
            tuple,
            now: cx.now(),
        }
    }

    /// Answers a SYN for which there is no room by a cookie, and keeps nothing of it.
    fn answer_by_cookie(&self, syn: Message, listener: &Listener, cx: &mut Context<'_>) {
        let Arrival { header, tuple, .. } = &syn.note();
        let own = listener.engine();
        let engine = own.as_ref().unwrap_or(&self.engine);
        let offset = self.timestamp_offset(tuple);
        let answer = self
            .cookie(tuple, cx)
            .answer(engine, self.mss(), header, offset);
        cx.count(COOKIES_SENT, 1);
        cx.count(
            counter_of(DropReason::TextOnSyn),
            u64::from(syn.total_len() > 0),
        );
        self.send_alone(answer, *tuple, engine, cx);
    }

    /// Begins the connection that a cookie was given for, with the segment that brings it back.
    #[inline(never)]
    fn redeem(
        &self,
        message: Message,
        place: Place,
        redeemed: &Redeemed,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let arrival = message.note::<Arrival>();
        let (tuple, hash) = (arrival.tuple, arrival.hash);
        let mark = self.cookie_mark(&tuple, &arrival.header);
        let (offset, now) = (self.timestamp_offset(&tuple), cx.now());
        let own = place.engine();
        let engine = own.as_ref().unwrap_or(&self.engine);
        let mut tcb = Tcb::accept_redeemed(engine, self.mss(), redeemed, offset, now);
        self.memory.share(&mut tcb);
        self.know_path(&mut tcb, &tuple.remote, now);
        let Some(charge) = self.memory.charge_connection() else {
            return cx.drop(message, NO_MEMORY);
        };
        let limit = self.limits.now().connections_per_bucket;
        let slot = table.insert(limit, (hash, tuple), |id| {
            fresh(id, (tuple, hash), tcb, charge)
        });
        let Some(slot) = slot else {
            return cx.drop(message, TABLE_FULL);
        };
        table.touch(slot);
        self.segment_while_opening(slot, Segment::new(message), table, cx);
        let Some(connection) = table.connection(slot) else {
            return;
        };
        if connection.tcb.state() == State::SynReceived {
            // As if the segment were lost. Nothing is known of it that the next one would not bring.
            table.remove(slot);
            return;
        }
        connection.place = Some(place);
        let most = self.limits.now().listening.spent_cookies;
        self.listeners.spent.note(mark, most);
        cx.count(COOKIES_TAKEN, 1);
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
        let place = match self.knock(&arrival.header, &arrival.tuple, cx) {
            Ok(Knock::Open(place)) => place,
            // What brings the cookie back would find the old connection.
            Ok(Knock::Cookie(_)) => return cx.drop(message, SYN_QUEUE_FULL),
            Ok(_) => return self.refuse(message, cx),
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
        let now = cx.now();
        let iss = isn::initial_sequence_number(self.config.isn_secret, &arrival.tuple, now);
        let iss = used.map_or(iss, |used| iss.latest(used));
        let own = place.engine();
        let engine = own.as_ref().unwrap_or(&self.engine);
        let mut tcb = Tcb::accept(engine, iss, self.mss(), &arrival.header, now);
        tcb.set_timestamp_offset(self.timestamp_offset(&arrival.tuple));
        self.memory.share(&mut tcb);
        self.know_path(&mut tcb, &arrival.tuple.remote, now);
        let Some(charge) = self.memory.charge_connection() else {
            return cx.drop(syn, NO_MEMORY);
        };
        let judged = self.judge_fast_open(&place, engine, (&arrival, syn.total_len()), cx);
        if let Judged::Give(cookie) = &judged {
            tcb.give_cookie(*cookie);
        }
        let limit = self.limits.now().connections_per_bucket;
        let slot = table.insert(limit, (arrival.hash, arrival.tuple), |id| Connection {
            place: Some(place),
            ..fresh(id, (arrival.tuple, arrival.hash), tcb, charge)
        });
        let Some(slot) = slot.filter(|slot| table.touch(*slot).is_some()) else {
            return cx.drop(syn, TABLE_FULL);
        };
        let gives = matches!(judged, Judged::Give(_));
        cx.count(FAST_OPEN_COOKIES, gives.into());
        match judged {
            Judged::Open(early) => self.open_early(slot, syn, early, table, cx),
            _ if syn.total_len() > 0 => cx.drop(syn, counter_of(DropReason::TextOnSyn)),
            _ => {}
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
                if ![Control::HELD, Control::HELD_WITH_DATA].contains(&call.detail) {
                    table.touch(id.slot());
                }
                match call.detail {
                    Control::HELD_WITH_DATA => (self.ask_fast_open(id.slot(), table, cx), id),
                    _ => (Control::new(Verb::Opening), id),
                }
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
        let iss = isn::initial_sequence_number(self.config.isn_secret, &tuple, now);
        let mut tcb = Tcb::connect(&self.engine, iss, self.mss(), now);
        tcb.set_timestamp_offset(self.timestamp_offset(&tuple));
        self.memory.share(&mut tcb);
        self.know_path(&mut tcb, &tuple.remote, now);
        let charge = self.memory.charge_connection().ok_or(NO_MEMORY)?;
        let limit = self.limits.now().connections_per_bucket;
        let slot = table
            .insert(limit, (hash, tuple), |id| Connection {
                announced: true,
                ..fresh(id, (tuple, hash), tcb, charge)
            })
            .ok_or(TABLE_FULL)?;
        table
            .connection(slot)
            .map(|connection| connection.id)
            .ok_or(TABLE_FULL)
    }

    /// Sends a segment that belongs to no connection, as those do that are set like `engine`.
    fn send_alone(&self, header: TcpHeader, tuple: Tuple, engine: &Config, cx: &mut Context<'_>) {
        match cx.pool().allocate(HEADROOM, 0) {
            Some(mut message) => {
                message.set_note(Departure {
                    header,
                    tuple,
                    ttl: engine.time_to_live,
                    differentiated_services: engine.differentiated_services,
                    may_be_cut: (engine.path_mtu_discovery == PathMtuDiscovery::Dont).into(),
                    ..Departure::default()
                });
                cx.count(SEGMENTS_OUT, 1);
                cx.down(message);
            }
            None => cx.count(NO_BUFFER, 1),
        }
    }

    /// Where a flow's timestamps start: not to be guessed from another's (RFC 7323 §5.4).
    fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        isn::timestamp_offset(self.config.isn_secret, tuple)
    }

    /// The largest segment that fits the device.
    fn mss(&self) -> u16 {
        u16::try_from(self.config.mtu.saturating_sub(FIXED_HEADERS)).unwrap_or(u16::MAX)
    }
}

/// What a segment without a connection is for.
enum Knock {
    /// A SYN, with a place for the connection that it opens.
    Open(Place),
    /// A SYN that finds no place, and is to be answered all the same.
    Cookie(Arc<Listener>),
    /// What brings a cookie back, with a place for its connection.
    Redeem(Place, Redeemed),
    /// Nothing that anybody waits for.
    Nobody,
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
        early: None,
        announced: false,
        _charge: charge,
    }
}
