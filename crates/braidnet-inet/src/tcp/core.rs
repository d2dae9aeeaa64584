//! The ordered part: segments, user calls, deadlines, and what has to be sent. How connections begin is in [`open`](super::open).

use super::connection::{Connection, Departures, Segment};
use super::table::Table;
use super::{
    CLOSED, DATA_SEGMENTS_IN, GROWTH_REFUSED, NO_BUFFER, OUT_OF_ORDER, OWN, POISONED,
    POISONED_UNSENT, SEGMENTS_IN, SEGMENTS_OUT, STALE, TEXT_REFUSED, Tcp, UNTOLD, WALKS,
};
use crate::notes::Arrival;
use braidnet_message::{Kind, Message, Run, Scarcity};
use braidnet_stream::{ConnectionId, Context, Control, Counter, State as ModuleState, Verb};
use braidnet_tcp::{DropReason, Events, State};
use braidnet_wire::tcp::{TcpError, TcpFlags};
use braidnet_wire::time::{Duration, Instant};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::OnceLock;

/// How long what the head is to be told waits for a buffer before it is tried again on its own account.
const RETRY: Duration = Duration::from_millis(20);

/// The module's counters: its own, then the engine's drop reasons, then the parser's refusals.
pub(super) fn counter_names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let refusals = TcpError::ALL.iter().map(|refusal| refusal.name());
    NAMES.get_or_init(|| {
        OWN.iter()
            .chain(DropReason::ALL)
            .copied()
            .chain(refusals)
            .collect()
    })
}

/// Where a refusal of the parser is counted.
pub(super) fn refused(refusal: TcpError) -> Counter {
    Counter((OWN.len() + DropReason::ALL.len()) as u16 + refusal as u16)
}

pub(super) fn counter_of(reason: DropReason) -> Counter {
    Counter((OWN.len() + reason.index()) as u16)
}

impl Tcp {
    /// SEGMENT ARRIVES (RFC 9293 §3.10.7) for a run of one bucket.
    #[inline(never)]
    pub(super) fn segments_arrive(
        &self,
        state: &mut dyn ModuleState,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let table = state.of::<Table>();
        if cx.pool().scarcity() != Scarcity::Ample {
            self.spare_memory(table, run, cx);
        }
        cx.count(SEGMENTS_IN, run.len() as u64);
        let mut with_data = 0;
        for message in run.drain() {
            let mut next = Some(message);
            while let Some(message) = next {
                with_data += u64::from(message.total_len() > 0);
                next = self.segment_arrives(message, table, cx);
            }
        }
        cx.count(DATA_SEGMENTS_IN, with_data);
        let walks = table.take_walks();
        if walks > 0 {
            cx.count(WALKS, walks);
        }
        let refused = self.memory.take_growth_refusals();
        if refused > 0 {
            cx.count(GROWTH_REFUSED, refused);
        }
    }

    /// One segment, or a train. A train that its connection expects whole arrives as one segment; of any other, the first
    /// segment arrives alone, as if it had never been joined, and what follows it, which is returned, is to be looked at anew.
    #[inline(always)]
    fn segment_arrives(
        &self,
        message: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let Arrival {
            header,
            tuple,
            hash,
        } = message.note_ref();
        let slot = table.find(*hash, tuple);
        let now = cx.now();
        let len = message.total_len();
        if let Some(slot) = slot
            && let Some(connection) = table.touch(slot)
            && let Some(expected) = connection.tcb.expects(now, header, len)
        {
            if message.segment_bytes() != 0 {
                count_train(&message, cx);
            }
            let (tcb, mut sink) = connection.deliver(cx);
            let acked = tcb.take_expected(now, expected, Some(Segment::new(message)), &mut sink);
            if acked > 0 && connection.release(acked) {
                self.report_space(slot, table, cx);
            }
            return None;
        }
        self.unexpected(slot, message, table, cx)
    }

    /// A segment that opens, ends or repairs a connection, or belongs to none.
    #[inline(never)]
    fn unexpected(
        &self,
        slot: Option<usize>,
        mut message: Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        if message.kind() != Kind::Data {
            self.news(slot, &message, table, cx);
            return None;
        }
        let rest = match message.segment_bytes() {
            0 => None,
            _ => take_apart(&mut message, cx),
        };
        match slot {
            Some(slot) => self.segment_for(slot, Segment::new(message), table, cx),
            None => self.segment_for_nobody(message, table, cx),
        }
        rest
    }

    /// The stack's memory is used up: takes data out of segments that would only be kept, by an application that has not read
    /// what came before, or out of order; if hardly a buffer is left, all. What else they say is heard, and the peer sends
    /// their data again.
    #[cold]
    fn spare_memory(&self, table: &mut Table, run: &mut Run, cx: &mut Context<'_>) {
        let dire = cx.pool().scarcity() == Scarcity::Dire;
        for message in run.as_mut_slice() {
            let mut arrival = message.note::<Arrival>();
            let len = message.total_len() as u32;
            let Some(slot) = table.find(arrival.hash, &arrival.tuple).filter(|_| len > 0) else {
                continue;
            };
            let Some(connection) = table.connection(slot) else {
                continue;
            };
            let status = connection.tcb.status();
            // An application that reads may not have said so yet, up to this much.
            let is_read = status.unread_bytes <= self.config.engine.receive_buffer_bytes / 8;
            let (start, end) = (arrival.header.seq, arrival.header.seq + len);
            let is_next = start.is_at_or_before(status.rcv_nxt);
            let is_welcome = is_next && is_read && !dire;
            // What is old or past the window is not kept, and asks for an answer.
            let is_new =
                end.is_after(status.rcv_nxt) && start.is_before(status.rcv_nxt + status.rcv_wnd);
            if is_welcome || !is_new || !status.state.is_synchronized() {
                continue;
            }
            let flags = arrival.header.flags.0 & !(TcpFlags::FIN.0 | TcpFlags::PSH.0);
            arrival.header.flags = TcpFlags(flags);
            let segments = message.segments() as u64;
            cx.count(TEXT_REFUSED, segments);
            // Of what is no train any more, one segment is counted with the run.
            cx.count(SEGMENTS_IN, segments - 1);
            message.truncate(0);
            message.set_segment_bytes(0);
            message.set_note(arrival);
        }
    }

    fn segment_for(&self, slot: usize, segment: Segment, table: &mut Table, cx: &mut Context<'_>) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let header = segment.header();
        match connection.tcb.state() {
            State::SynSent | State::SynReceived => {
                return self.segment_while_opening(slot, segment, table, cx);
            }
            State::TimeWait if connection.tcb.reusable_by(&header) => {
                return self.reopen(slot, segment, table, cx);
            }
            _ => {}
        }
        let trace = segment.trace();
        let (tcb, mut sink) = connection.deliver(cx);
        let outcome = tcb.on_segment(sink.cx.now(), &header, Some(segment), &mut sink);
        if let Some(reason) = outcome.drop {
            cx.count_dropped(trace, counter_of(reason), 1);
        }
        self.events(slot, outcome.events, table, cx);
    }

    /// What the application asks (RFC 9293 §3.9.1), and its data.
    #[inline(never)]
    pub(super) fn user_calls(
        &self,
        state: &mut dyn ModuleState,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let table = state.of::<Table>();
        let mut messages = run.drain();
        let mut next = messages.next();
        while let Some(message) = next {
            let id = ConnectionId(message.connection());
            if message.kind() != Kind::Data {
                self.verb(id, message, table, cx);
                next = messages.next();
            } else if let Some(connection) = table.touch_connection(id) {
                next = connection.take_data(message, &mut messages, cx);
            } else {
                cx.drop(message, STALE);
                next = messages.next();
            }
        }
    }

    #[inline(never)]
    fn verb(&self, id: ConnectionId, message: Message, table: &mut Table, cx: &mut Context<'_>) {
        let Some((control, verb)) =
            Control::of(&message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        if verb == Verb::Connect {
            return self.connect(control, message, table, cx);
        }
        let Some(connection) = table.touch_connection(id) else {
            // What is gone has given its place back.
            cx.count(STALE, u64::from(verb != Verb::Accepted));
            return;
        };
        let now = cx.now();
        match verb {
            Verb::Credit => connection
                .tcb
                .receive(u32::try_from(control.value).unwrap_or(u32::MAX)),
            Verb::Close if control.value > 0 => connection
                .tcb
                .close_within(now, Duration::from_nanos(control.value)),
            Verb::Close => connection.tcb.close(now),
            Verb::Release => {
                connection.tcb.close(now);
                connection.tcb.shut_receive(now);
            }
            Verb::Abort => connection.tcb.abort(),
            Verb::Urgent => connection.tcb.mark_urgent(),
            Verb::Accepted => connection.place = None,
            Verb::Set => {
                let more = connection.set(now, control);
                if more > 0 {
                    let space = Control::new(Verb::Space).value(u64::from(more));
                    tell(space, id, table, cx);
                }
            }
            _ => {}
        }
    }

    /// Wakes every connection whose time has come.
    pub(super) fn deadlines(&self, table: &mut Table, cx: &mut Context<'_>) {
        let mut from = 0;
        while let Some(slot) = table.take_due(from, cx.now()) {
            from = slot + 1;
            let now = cx.now();
            let Some(connection) = table.touch(slot) else {
                continue;
            };
            let events = connection.tcb.on_deadline(now);
            self.events(slot, events, table, cx);
        }
        if let Some(at) = table.earliest() {
            cx.wake_at(at);
        }
    }

    /// Lets every touched connection say what it has to say.
    pub(super) fn transmit(&self, table: &mut Table, cx: &mut Context<'_>) {
        let mut sent = 0;
        while let Some((slot, entry)) = table.next_touched() {
            let Some(connection) = entry.connection() else {
                continue;
            };
            let before = sent;
            while connection.tcb.is_transmit_due() && send_segment(connection, cx) {
                sent += 1;
            }
            let is_drained = connection.tcb.is_drained() && sent > before;
            let state = connection.tcb.state();
            let deadline = connection.tcb.deadline().unwrap_or(Instant::MAX);
            entry.deadline = deadline;
            cx.wake_at(deadline);
            if is_drained {
                self.report_space(slot, table, cx);
            }
            if matches!(state, State::Closed | State::TimeWait) {
                self.over(slot, state, table, cx);
            }
        }
        if sent > 0 {
            cx.count(SEGMENTS_OUT, sent);
        }
        if !table.untold.is_empty() {
            self.catch_up(table, cx);
        }
    }

    /// Tells the head of a connection that has come to its end, and removes it if nothing is left of it.
    #[cold]
    fn over(&self, slot: usize, state: State, table: &mut Table, cx: &mut Context<'_>) {
        if state == State::Closed {
            return self.gone(slot, Control::CLOSED, table, cx);
        }
        // The application is done with it; what waits is TCP's own affair (RFC 9293 §3.6.1).
        if let Some(connection) = table.connection(slot)
            && connection.announced
        {
            connection.announced = false;
            let (closed, id) = (connection.closed(Control::CLOSED), connection.id);
            tell(closed, id, table, cx);
        }
    }

    /// Tells the head of all the room there is; of none, where it waits for what has left.
    #[inline(never)]
    fn report_space(&self, slot: usize, table: &mut Table, cx: &mut Context<'_>) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let (space, id) = (connection.unreported_space, connection.id);
        connection.unreported_space = 0;
        let control = Control::new(Verb::Space).value(u64::from(space));
        tell(control, id, table, cx);
    }

    /// Tells the head what has happened to a connection.
    #[inline(never)]
    pub(super) fn events(
        &self,
        slot: usize,
        events: Events,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        if events.contains(Events::OUT_OF_ORDER) {
            cx.count(OUT_OF_ORDER, 1);
        }
        if events.contains(Events::ACKED)
            && let Some(connection) = table.connection(slot)
        {
            let acked = connection.tcb.take_acked();
            if connection.release(acked) {
                self.report_space(slot, table, cx);
            }
        }
        if events.contains(Events::URGENT) {
            tell_urgent(slot, table, cx);
        }
        if events.contains(Events::END_OF_DATA)
            && let Some(id) = table.connection(slot).map(|connection| connection.id)
        {
            tell(Control::new(Verb::EndOfData), id, table, cx);
        }
        if events.intersects(Events::PATH) {
            self.path_events(slot, events, table, cx);
        }
        let silent = match table.connection(slot) {
            Some(connection) if connection.tcb.is_undelivered() => Control::UNREACHABLE,
            _ => Control::TIMED_OUT,
        };
        if events.contains(Events::SILENT)
            && let Some(id) = table.connection(slot).map(|connection| connection.id)
        {
            // RFC 9293 §3.8.3, SHLD-9, and §3.9.1.8.
            tell(Control::new(Verb::Silent).detail(silent), id, table, cx);
        }
        let why = [
            (Events::RESET, Control::RESET),
            (Events::REFUSED, Control::REFUSED),
            (Events::UNREACHABLE, Control::UNREACHABLE),
            (Events::TIMED_OUT, silent),
            (Events::CLOSED, Control::CLOSED),
        ];
        if let Some((_, why)) = why.into_iter().find(|(event, _)| events.contains(*event)) {
            self.gone(slot, why, table, cx);
        }
    }

    /// Removes a connection and tells the head, and the peer where it is to hear of it.
    #[cold]
    pub(super) fn gone(&self, slot: usize, why: u32, table: &mut Table, cx: &mut Context<'_>) {
        if let Some(mut connection) = table.remove(slot) {
            if why != Control::CLOSED {
                self.heed_failure(&mut connection, why, cx);
            }
            self.end(&mut connection, why, table, cx);
        }
    }

    /// Resets every connection of a poisoned table; `fresh` takes its place.
    #[cold]
    pub(super) fn reset_all(&self, old: &mut Table, fresh: &mut Table, cx: &mut Context<'_>) {
        for connection in fresh.succeed(old) {
            cx.count(POISONED, 1);
            cx.count(CLOSED, 1);
            if connection.announced {
                tell(connection.closed(Control::RESET), connection.id, fresh, cx);
            }
            // The one that a panic has broken may make another; it is dropped in here, and the rest are reset all the same.
            let reset = catch_unwind(AssertUnwindSafe(|| {
                let mut connection = connection;
                connection.tcb.abort();
                send_last(&mut connection, cx);
            }));
            if reset.is_err() {
                cx.count(POISONED_UNSENT, 1);
            }
        }
        if !fresh.untold.is_empty() {
            self.catch_up(fresh, cx);
        }
    }

    /// Tells the head, and the peer where it is to hear of it, that a connection is no more.
    fn end(&self, connection: &mut Connection, why: u32, table: &mut Table, cx: &mut Context<'_>) {
        cx.count(CLOSED, 1);
        send_last(connection, cx);
        if connection.announced {
            tell(connection.closed(why), connection.id, table, cx);
        }
    }

    /// Tells what could not be told, in order, as far as there are buffers now, and asks to be called again for the rest.
    #[cold]
    pub(super) fn catch_up(&self, table: &mut Table, cx: &mut Context<'_>) {
        while let Some((id, control)) = table.untold.pop_front() {
            let Some(message) = control.message(id, cx.pool()) else {
                table.untold.push_front((id, control));
                return cx.wake_at(cx.now() + RETRY);
            };
            cx.up(message);
        }
    }
}

/// All that a connection at its end has left to say is a RST (RFC 9293 §3.6.1); nobody will ask it again.
fn send_last(connection: &mut Connection, cx: &mut Context<'_>) {
    if connection.tcb.state() == State::Closed && send_segment(connection, cx) {
        cx.count(SEGMENTS_OUT, 1);
    }
}

/// Counts the segments of a train beside its first.
#[inline(never)]
fn count_train(train: &Message, cx: &mut Context<'_>) {
    let more = train.segments() as u64 - 1;
    cx.count(SEGMENTS_IN, more);
    cx.count(DATA_SEGMENTS_IN, more);
}

/// Leaves only the first segment of a train, and returns the others as a train of their own. What ends the data, or the stream, is the
/// last segment (RFC 9293 §3.9.1).
#[cold]
fn take_apart(train: &mut Message, cx: &mut Context<'_>) -> Option<Message> {
    let mut rest = match train.take_rest(cx.pool()) {
        Ok(rest) => rest?,
        Err(lost) => {
            cx.count(NO_BUFFER, lost as u64);
            return None;
        }
    };
    cx.count(SEGMENTS_IN, 1);
    let mut arrival = train.note::<Arrival>();
    let first = &mut train.note_mut::<Arrival>().header.flags;
    first.0 &= !(TcpFlags::PSH.0 | TcpFlags::FIN.0);
    let passed = train.len();
    arrival.header.seq += passed as u32;
    // The urgent mark stays where it is (RFC 9293 §3.8.5).
    let urgent = usize::from(arrival.header.urgent).checked_sub(passed);
    match urgent.filter(|left| *left > 0) {
        Some(left) => arrival.header.urgent = left as u16,
        None => arrival.header.flags.0 &= !TcpFlags::URG.0,
    }
    rest.set_note(arrival);
    Some(rest)
}

/// Sends the segment, or the train, that the engine finds is due; false if there is none. What a train has beside its first
/// segment has been counted then.
#[inline(never)]
fn send_segment(connection: &mut Connection, cx: &mut Context<'_>) -> bool {
    let now = cx.now();
    let mut departures = Departures {
        tuple: &connection.tuple,
        packet_fields: connection.tcb.packet_fields(),
        sending: &mut connection.sending,
        cx,
    };
    connection.tcb.transmit(now, &mut departures)
}

/// Tells the head where the urgent mark stands now. One that it has not heard of yet is no news any more.
#[cold]
fn tell_urgent(slot: usize, table: &mut Table, cx: &mut Context<'_>) {
    let Some(connection) = table.connection(slot) else {
        return;
    };
    let mark = i64::from(connection.tcb.urgent_mark());
    let control =
        Control::new(Verb::Urgent).value(connection.delivered.saturating_add_signed(mark));
    let id = connection.id;
    let is_mark = |control: &Control| control.verb() == Some(Verb::Urgent);
    let waiting = table.untold.iter_mut();
    match { waiting }.find(|(of, control)| *of == id && is_mark(control)) {
        Some((_, waiting)) => *waiting = control,
        None => tell(control, id, table, cx),
    }
}

/// Tells the head, behind all that it is to be told; where there is no buffer, later.
#[inline(never)]
fn tell(control: Control, id: ConnectionId, table: &mut Table, cx: &mut Context<'_>) {
    if table.untold.is_empty()
        && let Some(message) = control.message(id, cx.pool())
    {
        return cx.up(message);
    }
    cx.count(UNTOLD, 1);
    table.untold.push_back((id, control));
}
