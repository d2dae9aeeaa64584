//! Services that run to completion on the stack's own processors.
//!
//! A [`Service`] makes a [`Session`] for every connection to its port. A session lives in its connection's bucket: its
//! methods run inside the bucket's perimeter, on whichever processor that is, one at a time, and must not block. What is
//! slow (files, other services) it gives away with [`Io::ticket`] and gets back in [`Session::job`].

mod pieces;

pub use pieces::Piece;

use braidnet_inet::HEADROOM;
use braidnet_inet::notes::UdpFlow;
use braidnet_message::{Kind, Message, Pool, Run, Scarcity};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::{Duration, Instant};
use std::collections::HashMap;

/// Something that answers connections to a port.
pub trait Service: Send + Sync + 'static {
    /// A session for a connection that has just been established.
    fn open(&self, tuple: &Tuple) -> Box<dyn Session>;

    /// Whether it declines order (PLP §4.2): then the bytes of its connections come to [`piece`](Service::piece) and not to
    /// [`Session::data`]. It is asked for each connection, before [`open`](Service::open).
    fn declines_order(&self) -> bool {
        false
    }

    /// Bytes of a stream of a service that has declined order: each once, with its place in the stream.
    ///
    /// It is called outside every perimeter, on whichever processor has the bytes: several pieces at a time, in no order, even of one
    /// connection. So under [`Architecture::Message`](crate::Architecture::Message) and [`Braid`](crate::Architecture::Braid) nobody waits
    /// for a turn. The window is given back when a piece is on its way here, and everything else is told to the session:
    /// [`Session::end_of_data`] may come before the last pieces have, and [`Io::received`] says there how many bytes they have
    /// in all.
    ///
    /// A panic in here is the processor's end, as in any order-free function.
    ///
    /// ```
    /// use braidnet::wire::address::Tuple;
    /// use braidnet::{Io, Piece, Service, Session};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// /// Sums bytes, each times its place: in which order does not matter.
    /// struct Sum(Arc<AtomicU64>);
    /// struct Quiet;
    ///
    /// impl Service for Sum {
    ///     fn open(&self, _: &Tuple) -> Box<dyn Session> {
    ///         Box::new(Quiet)
    ///     }
    ///
    ///     fn declines_order(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn piece(&self, piece: &Piece<'_>) {
    ///         let bytes = piece.blocks().flatten();
    ///         let sum = bytes.zip(piece.offset()..).map(|(byte, place)| u64::from(*byte).wrapping_mul(place));
    ///         self.0.fetch_add(sum.fold(0, u64::wrapping_add), Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// impl Session for Quiet {
    ///     fn data(&mut self, _: braidnet::message::Message, _: &mut Io<'_, '_>) {
    ///         unreachable!("the service has declined order")
    ///     }
    /// }
    /// ```
    fn piece(&self, piece: &Piece<'_>) {
        let _ = piece;
    }
}

/// One connection's side of a service.
///
/// A session that panics poisons its bucket: all connections of the bucket are reset, and their sessions dropped, since nobody knows how far
/// any of them got. Other buckets, and the processor, go on (`services.poisoned` counts).
///
/// The peer may send as much as the window lets it until [`Io::took`] says that the application has done with what came:
/// a session that does not take slows its peer down, and nothing else. When the connection is gone the session is dropped.
pub trait Session: Send {
    /// The connection is established.
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The next bytes of the stream, in order.
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>);

    /// More can be sent than before.
    fn space(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The peer has sent everything it will.
    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        io.close();
    }

    /// What was given away with [`Io::ticket`] has come back.
    fn job(&mut self, message: Message, io: &mut Io<'_, '_>) {
        let _ = (message, io);
    }

    /// The time asked for with [`Io::wake_at`] has come. It is asked for anew each time.
    fn wake(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The stack is about to stop: finish what is being done. What is not closed some time later is reset.
    fn stopping(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }
}

/// What a session can do to its connection.
pub struct Io<'a, 'c> {
    slot: &'a mut Slot,
    cx: &'a mut Context<'c>,
}

impl Io<'_, '_> {
    /// Both ends of the connection.
    pub fn tuple(&self) -> &Tuple {
        &self.slot.tuple
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        self.cx.now()
    }

    /// Bytes that can be sent now.
    ///
    /// What the peer acknowledges is given back in quarters of the send buffer: more than three quarters come free sooner or
    /// later, all of it perhaps never.
    pub fn space(&self) -> u64 {
        self.slot.space
    }

    /// The best size of a message to send, in bytes: what goes into one segment. For so many bytes there is
    /// [`space`](Io::space) sooner or later.
    pub fn mss(&self) -> usize {
        self.slot.mss
    }

    /// An empty message for at most `size` bytes to send, with [`HEADROOM`] in front; `None` if the stack's memory is used
    /// up, but for what is kept to hear of what frees it.
    pub fn allocate(&mut self, size: usize) -> Option<Message> {
        let pool = self.cx.pool();
        if pool.scarcity() != Scarcity::Ample {
            return None;
        }
        pool.allocate(HEADROOM, size)
    }

    /// The processor's buffers.
    pub fn pool(&mut self) -> &mut Pool {
        self.cx.pool()
    }

    /// Sends a message as it is, without copying.
    ///
    /// # Errors
    /// Hands it back if there is not [`space`](Io::space) for all of it, or if the session has closed. For a message longer
    /// than [`mss`](Io::mss), as one received may be, there may never be: split it.
    pub fn send(&mut self, mut message: Message) -> Result<(), Message> {
        let len = message.total_len() as u64;
        if self.slot.closing || len > self.slot.space {
            return Err(message);
        }
        self.slot.space -= len;
        message.set_kind(Kind::Data);
        message.set_connection(self.slot.id.0);
        self.cx.down(message);
        Ok(())
    }

    /// Sends a copy of `bytes`, as many as there is space and memory for; how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            let piece = (bytes.len() - written)
                .min(self.slot.mss)
                .min(self.slot.space as usize);
            let Some(mut message) = (piece > 0).then(|| self.allocate(piece)).flatten() else {
                break;
            };
            message.extend_from_slice_summed(&bytes[written..written + piece]);
            if self.send(message).is_err() {
                break;
            }
            written += piece;
        }
        written
    }

    /// Says that `bytes` received bytes have been dealt with, so that the peer may send as many more.
    pub fn took(&mut self, bytes: usize) {
        self.slot.taken += bytes as u64;
    }

    /// Bytes that have been handed to [`Service::piece`], or are on their way there; none, unless the service has declined order.
    pub fn received(&self) -> u64 {
        self.slot.received
    }

    /// Sends no more; what was sent still goes out. Receiving goes on.
    pub fn close(&mut self) {
        if !core::mem::replace(&mut self.slot.closing, true) {
            self.slot.asks = Some(Verb::Close);
        }
    }

    /// Resets the connection.
    pub fn abort(&mut self) {
        self.slot.closing = true;
        self.slot.asks = Some(Verb::Abort);
    }

    /// Asks for [`Session::wake`] at `at` or soon after, in place of what was asked for before.
    pub fn wake_at(&mut self, at: Instant) {
        self.slot.wake_at = at;
        self.cx.wake_at(at);
    }

    /// What work that is done elsewhere on the session's behalf must carry to come back to it.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            connection: self.slot.id,
        }
    }
}

/// Names the session that a piece of work was done for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub(crate) connection: ConnectionId,
}

/// The top module of a server: its TCP services.
///
/// While it is sessions' turn the pool's reserve is withheld: it is for what the stack does for them. After one that panics the processor
/// takes that back.
pub(crate) struct Services {
    by_port: HashMap<u16, Box<dyn Service>>,
    /// Whether one of them has declined order.
    hands_out: bool,
}

/// What the services keep in one bucket: sessions by slot.
#[derive(Default)]
struct Sessions {
    entries: Vec<Option<Entry>>,
    /// Slots with something to tell TCP; each stands here once.
    listed: Vec<u32>,
}

struct Entry {
    slot: Slot,
    session: Box<dyn Session>,
}

/// A session's connection.
struct Slot {
    id: ConnectionId,
    tuple: Tuple,
    space: u64,
    mss: usize,
    /// Bytes dealt with that TCP has not been told of.
    taken: u64,
    /// Bytes handed on in pieces.
    received: u64,
    /// What TCP is to be asked for, behind all data.
    asks: Option<Verb>,
    /// Nothing is sent any more.
    closing: bool,
    listed: bool,
    wake_at: Instant,
}

/// Connections to a service.
const OPENED: Counter = Counter(0);
/// Connections to a service that are gone.
const CLOSED: Counter = Counter(1);
/// Reset: nothing answers to the port.
const NO_SERVICE: Counter = Counter(2);
/// Dropped: data or finished work for a session that is gone.
const NO_SESSION: Counter = Counter(3);
/// Put off: no buffer for what TCP is to be told.
const NO_BUFFER: Counter = Counter(4);

/// Reset: a panic of a session, or below, has poisoned their bucket.
const POISONED: Counter = Counter(5);

/// How long what TCP is to be told waits for a buffer.
const RETRY: Duration = Duration::from_millis(20);

impl Services {
    /// The module's name.
    pub(crate) const NAME: &str = "services";

    pub(crate) fn new(by_port: HashMap<u16, Box<dyn Service>>) -> Services {
        let hands_out = by_port.values().any(|service| service.declines_order());
        Services { by_port, hands_out }
    }

    fn told(&self, message: Message, sessions: &mut Sessions, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some((control, verb)) =
            Control::of(&message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        match verb {
            Verb::Connected => {
                // In the message that tells of it: this is never put off.
                cx.down(Control::new(Verb::Accepted).carried_by(message, id));
                self.connected(id, &control, sessions, cx);
            }
            Verb::Space => {
                if let Some(entry) = sessions.entry(id) {
                    entry.slot.space += control.value;
                }
                sessions.with(id, cx, |session, io| session.space(io));
            }
            Verb::EndOfData => sessions.with(id, cx, |session, io| session.end_of_data(io)),
            Verb::Closed if sessions.entry(id).is_some() => {
                sessions.entries[id.slot()] = None;
                cx.count(CLOSED, 1);
            }
            Verb::Stopping => sessions.with_all(cx, |session, io| session.stopping(io)),
            Verb::Abort => sessions.with_all(cx, |_, io| io.abort()),
            _ => {}
        }
    }

    fn connected(
        &self,
        id: ConnectionId,
        control: &Control,
        sessions: &mut Sessions,
        cx: &mut Context<'_>,
    ) {
        let service = self.by_port.get(&control.tuple.local_port);
        let slot = Slot {
            id,
            tuple: control.tuple,
            space: control.value,
            // Space is reported in quarters of the send buffer: half of it comes free for certain.
            mss: (control.detail as usize)
                .min(control.value as usize / 2)
                .max(1),
            taken: 0,
            received: 0,
            asks: None,
            closing: false,
            listed: false,
            wake_at: Instant::MAX,
        };
        let session = match service {
            Some(service) if service.declines_order() => {
                pieces::unordered(service.open(&control.tuple))
            }
            Some(service) => service.open(&control.tuple),
            None => Box::new(Nobody),
        };
        cx.count(OPENED, 1);
        if service.is_none() {
            cx.count(NO_SERVICE, 1);
        }
        sessions.enter(Entry { slot, session });
        sessions.with(id, cx, |session, io| session.connected(io));
    }
}

/// Answers a port that nothing answers to.
struct Nobody;

impl Session for Nobody {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        io.abort();
    }

    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {}
}

impl Sessions {
    fn enter(&mut self, entry: Entry) {
        let slot = entry.slot.id.slot();
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || None);
        }
        self.entries[slot] = Some(entry);
    }

    #[inline]
    fn entry(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        self.entries
            .get_mut(id.slot())?
            .as_mut()
            .filter(|entry| entry.slot.id == id)
    }

    /// Lets a session do something.
    #[inline]
    fn with(
        &mut self,
        id: ConnectionId,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        let entry = self.entries.get_mut(id.slot()).and_then(Option::as_mut);
        match entry.filter(|entry| entry.slot.id == id) {
            Some(entry) => entry.run(cx, &mut self.listed, work),
            None => cx.count(NO_SESSION, 1),
        }
    }

    /// Lets every session do something.
    fn with_all(&mut self, cx: &mut Context<'_>, work: impl Fn(&mut dyn Session, &mut Io<'_, '_>)) {
        for entry in self.entries.iter_mut().flatten() {
            entry.run(cx, &mut self.listed, &work);
        }
    }

    /// Wakes every session whose time has come.
    fn wake(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        for entry in self.entries.iter_mut().flatten() {
            if entry.slot.wake_at <= now {
                entry.slot.wake_at = Instant::MAX;
                entry.run(cx, &mut self.listed, |session, io| session.wake(io));
            }
            if entry.slot.wake_at < Instant::MAX {
                cx.wake_at(entry.slot.wake_at);
            }
        }
    }

    /// Takes the place of others, none of whose sessions is let do anything any more: their connections are reset, and dropped when TCP
    /// says so.
    fn succeed(&mut self, other: &mut Sessions, cx: &mut Context<'_>) {
        self.entries = core::mem::take(&mut other.entries);
        let mut poisoned: Vec<Box<dyn Session>> = Vec::new();
        for entry in self.entries.iter_mut().flatten() {
            poisoned.push(core::mem::replace(&mut entry.session, Box::new(Nobody)));
            let slot = &mut entry.slot;
            (slot.taken, slot.wake_at) = (0, Instant::MAX);
            (slot.asks, slot.closing, slot.listed) = (Some(Verb::Abort), true, true);
            self.listed.push(slot.id.slot() as u32);
        }
        cx.count(POISONED, poisoned.len() as u64);
        self.tell(cx);
        // Last, for this is others' code.
        drop(poisoned);
    }

    /// Tells TCP what the sessions took and ask for. What finds no buffer is told later.
    fn tell(&mut self, cx: &mut Context<'_>) {
        while let Some(&index) = self.listed.last() {
            if let Some(entry) = self
                .entries
                .get_mut(index as usize)
                .and_then(Option::as_mut)
                && !entry.slot.tell(cx)
            {
                cx.count(NO_BUFFER, 1);
                cx.wake_at(cx.now() + RETRY);
                return;
            }
            self.listed.pop();
        }
    }
}

impl Entry {
    #[inline]
    fn run(
        &mut self,
        cx: &mut Context<'_>,
        listed: &mut Vec<u32>,
        work: impl FnOnce(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        let Entry { slot, session } = self;
        work(&mut **session, &mut Io { slot, cx });
        if (slot.taken > 0 || slot.asks.is_some()) && !slot.listed {
            slot.listed = true;
            listed.push(slot.id.slot() as u32);
        }
    }
}

impl Slot {
    /// False if there is no buffer to tell it with.
    fn tell(&mut self, cx: &mut Context<'_>) -> bool {
        if self.taken > 0 {
            let credit = Control::new(Verb::Credit).value(self.taken);
            let Some(message) = credit.message(self.id, cx.pool()) else {
                return false;
            };
            self.taken = 0;
            cx.down(message);
        }
        if let Some(verb) = self.asks {
            let Some(message) = Control::new(verb).message(self.id, cx.pool()) else {
                return false;
            };
            self.asks = None;
            cx.down(message);
        }
        self.listed = false;
        true
    }
}

impl Module for Services {
    fn name(&self) -> &'static str {
        Services::NAME
    }

    fn stages(&self) -> Stages {
        let stages = Stages::CORE_UP | Stages::SETTLE | Stages::EXPIRE;
        if self.hands_out {
            stages | Stages::AFTER_UP
        } else {
            stages
        }
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &[
            "opened",
            "closed",
            "no_service",
            "no_session",
            "no_buffer",
            "poisoned",
        ]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Sessions::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let sessions = state.of::<Sessions>();
        cx.pool().withhold_reserve(true);
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            match message.kind() {
                Kind::Data => sessions.with(id, cx, |session, io| session.data(message, io)),
                Kind::HighPriority => sessions.with(id, cx, |session, io| session.job(message, io)),
                Kind::Control => self.told(message, sessions, cx),
            }
        }
        cx.pool().withhold_reserve(false);
    }

    fn after(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        pieces::hand_out(&self.by_port, run);
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        state.of::<Sessions>().tell(cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        cx.pool().withhold_reserve(true);
        state.of::<Sessions>().wake(cx);
        cx.pool().withhold_reserve(false);
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        fresh.of::<Sessions>().succeed(old.of(), cx);
    }
}

/// Something that answers datagrams to a UDP port. It keeps no state for a flow, and so runs on any processor.
///
/// Datagrams from a port that is served here too are dropped by name before they come here: two services that answer each
/// other would never stop.
pub trait DatagramService: Send + Sync + 'static {
    /// A datagram has come; `Some` sends that back to where it came from.
    fn datagram(&self, message: Message, flow: &Tuple) -> Option<Message>;
}

/// The module above UDP: a server's datagram services.
pub(crate) struct Datagrams {
    by_port: HashMap<u16, Box<dyn DatagramService>>,
}

/// Dropped: nothing answers to the port.
const NO_DATAGRAM_SERVICE: Counter = Counter(0);
/// Dropped: from a port that is served here too.
const FROM_A_SERVICE: Counter = Counter(1);
/// What the network says of an answer.
const UNDELIVERED: Counter = Counter(2);

impl Datagrams {
    pub(crate) fn new(by_port: HashMap<u16, Box<dyn DatagramService>>) -> Datagrams {
        Datagrams { by_port }
    }
}

impl Module for Datagrams {
    fn name(&self) -> &'static str {
        "datagrams"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn counters(&self) -> &'static [&'static str] {
        &["no_service", "from_a_service", "undelivered"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            if message.kind() != Kind::Data {
                // An answer that nobody waited for: services keep nothing of who has asked.
                cx.drop(message, UNDELIVERED);
                continue;
            }
            let flow = message.note::<UdpFlow>();
            match self.by_port.get(&flow.tuple.local_port) {
                Some(_) if self.by_port.contains_key(&flow.tuple.remote_port) => {
                    cx.drop(message, FROM_A_SERVICE);
                }
                Some(service) => {
                    if let Some(mut answer) = service.datagram(message, &flow.tuple) {
                        answer.set_note(flow);
                        cx.reply(answer);
                    }
                }
                None => cx.drop(message, NO_DATAGRAM_SERVICE),
            }
        }
    }
}
