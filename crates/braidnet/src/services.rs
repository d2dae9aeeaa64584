//! Services that run to completion on the stack's own processors.
//!
//! A [`Service`] makes a [`Session`] for every connection to its port. A session lives in its connection's bucket: its
//! methods run inside the bucket's perimeter, on whichever processor that is, one at a time, and must not block. What is
//! slow (files, other services) it gives away with [`Io::ticket`] and gets back in [`Session::job`].

use braidnet_inet::HEADROOM;
use braidnet_inet::notes::UdpFlow;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::Instant;
use std::collections::HashMap;

/// Something that answers connections to a port.
pub trait Service: Send + Sync + 'static {
    /// A session for a connection that has just been established.
    fn open(&self, tuple: &Tuple) -> Box<dyn Session>;
}

/// One connection's side of a service.
///
/// The peer may send as much as the window lets it until [`Io::took`] says that the application has done with what came:
/// a session that does not take slows its peer down, and nothing else.
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
}

/// What a session can do to its connection.
pub struct Io<'a, 'c> {
    id: ConnectionId,
    tuple: Tuple,
    space: &'a mut u64,
    mss: usize,
    taken: &'a mut u64,
    closing: &'a mut bool,
    cx: &'a mut Context<'c>,
}

impl Io<'_, '_> {
    /// Both ends of the connection.
    pub fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        self.cx.now()
    }

    /// Bytes that can be sent now.
    pub fn space(&self) -> u64 {
        *self.space
    }

    /// Sends a message as it is, without copying.
    ///
    /// # Errors
    /// Hands it back if there is not [`space`](Io::space) for all of it, or if the session has closed.
    pub fn send(&mut self, mut message: Message) -> Result<(), Message> {
        let len = message.total_len() as u64;
        if *self.closing || len > *self.space {
            return Err(message);
        }
        *self.space -= len;
        message.set_kind(Kind::Data);
        message.set_connection(self.id.0);
        self.cx.down(message);
        Ok(())
    }

    /// Sends a copy of `bytes`, as many as there is space and memory for; how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            let piece = (bytes.len() - written)
                .min(self.mss)
                .min(*self.space as usize);
            let Some(mut message) = (piece > 0)
                .then(|| self.cx.pool().allocate(HEADROOM, piece))
                .flatten()
            else {
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
        *self.taken += bytes as u64;
    }

    /// Sends no more; what was sent still goes out. Receiving goes on.
    pub fn close(&mut self) {
        if !core::mem::replace(self.closing, true) {
            self.ask(Verb::Close);
        }
    }

    /// Resets the connection.
    pub fn abort(&mut self) {
        *self.closing = true;
        self.ask(Verb::Abort);
    }

    /// What work that is done elsewhere on the session's behalf must carry to come back to it.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            connection: self.id,
        }
    }

    fn ask(&mut self, verb: Verb) {
        if let Some(message) = Control::new(verb).message(self.id, self.cx.pool()) {
            self.cx.down(message);
        }
    }
}

/// Names the session that a piece of work was done for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub(crate) connection: ConnectionId,
}

/// The top module of a server: its TCP services.
pub(crate) struct Services {
    by_port: HashMap<u16, Box<dyn Service>>,
}

/// What the services keep in one bucket: sessions by slot.
#[derive(Default)]
struct Sessions {
    slots: Vec<Option<Slot>>,
}

struct Slot {
    id: ConnectionId,
    tuple: Tuple,
    session: Box<dyn Session>,
    space: u64,
    mss: usize,
    closing: bool,
}

const NO_SERVICE: Counter = Counter(0);
const NO_SESSION: Counter = Counter(1);
const NO_BUFFER: Counter = Counter(2);

impl Services {
    pub(crate) fn new(by_port: HashMap<u16, Box<dyn Service>>) -> Services {
        Services { by_port }
    }

    fn connected(
        &self,
        id: ConnectionId,
        control: &Control,
        sessions: &mut Sessions,
        cx: &mut Context<'_>,
    ) {
        let Some(service) = self.by_port.get(&control.tuple.local_port) else {
            cx.count(NO_SERVICE, 1);
            if let Some(abort) = Control::new(Verb::Abort).message(id, cx.pool()) {
                cx.down(abort);
            }
            return;
        };
        if sessions.slots.len() <= id.slot() {
            sessions.slots.resize_with(id.slot() + 1, || None);
        }
        sessions.slots[id.slot()] = Some(Slot {
            id,
            tuple: control.tuple,
            session: service.open(&control.tuple),
            space: control.value,
            mss: control.detail.max(1) as usize,
            closing: false,
        });
        sessions.with(id, cx, |session, io| session.connected(io));
    }

    fn told(&self, message: &Message, sessions: &mut Sessions, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some((control, verb)) =
            Control::of(message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        match verb {
            Verb::Connected => self.connected(id, &control, sessions, cx),
            Verb::Space => {
                if let Some(slot) = sessions.slot(id) {
                    slot.space += control.value;
                }
                sessions.with(id, cx, |session, io| session.space(io));
            }
            Verb::EndOfData => sessions.with(id, cx, |session, io| session.end_of_data(io)),
            Verb::Closed if sessions.slot(id).is_some() => sessions.slots[id.slot()] = None,
            _ => {}
        }
    }
}

impl Sessions {
    fn slot(&mut self, id: ConnectionId) -> Option<&mut Slot> {
        self.slots
            .get_mut(id.slot())?
            .as_mut()
            .filter(|slot| slot.id == id)
    }

    /// Lets a session do something, and reports what it took.
    #[inline]
    fn with(
        &mut self,
        id: ConnectionId,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        let Some(slot) = self.slot(id) else {
            cx.count(NO_SESSION, 1);
            return;
        };
        let mut taken = 0;
        let mut io = Io {
            id,
            tuple: slot.tuple,
            space: &mut slot.space,
            mss: slot.mss,
            taken: &mut taken,
            closing: &mut slot.closing,
            cx,
        };
        work(&mut *slot.session, &mut io);
        if taken > 0 {
            match Control::new(Verb::Credit)
                .value(taken)
                .message(id, cx.pool())
            {
                Some(credit) => cx.down(credit),
                None => cx.count(NO_BUFFER, 1),
            }
        }
    }
}

impl Module for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["no_service", "no_session", "no_buffer"]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Sessions::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let sessions = state.of::<Sessions>();
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            match message.kind() {
                Kind::Data => sessions.with(id, cx, |session, io| session.data(message, io)),
                Kind::HighPriority => sessions.with(id, cx, |session, io| session.job(message, io)),
                Kind::Control => self.told(&message, sessions, cx),
            }
        }
    }
}

/// Something that answers datagrams to a UDP port. It keeps no state for a flow, and so runs on any processor.
pub trait DatagramService: Send + Sync + 'static {
    /// A datagram has come; `Some` sends that back to where it came from.
    fn datagram(&self, message: Message, flow: &Tuple) -> Option<Message>;
}

/// The module above UDP: a server's datagram services.
pub(crate) struct Datagrams {
    by_port: HashMap<u16, Box<dyn DatagramService>>,
}

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
        &["no_service"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            let flow = message.note::<UdpFlow>();
            match self.by_port.get(&flow.tuple.local_port) {
                Some(service) => {
                    if let Some(mut answer) = service.datagram(message, &flow.tuple) {
                        answer.set_note(flow);
                        cx.reply(answer);
                    }
                }
                None => cx.drop(message, NO_SERVICE),
            }
        }
    }
}
