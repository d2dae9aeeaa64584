//! The services of the stack under test, as its top module, and the book in which they write what they saw.

use crate::outside::Outside;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Sends back what it gets, and closes when the peer has.
pub const ECHO: u16 = 7;
/// Takes what it gets, and closes when the peer has.
pub const DISCARD: u16 = 9;
/// Sends a greeting and closes first.
pub const GREET: u16 = 13;
/// Nobody answers to it.
pub const NOBODY: u16 = 99;
pub const SERVED: [u16; 3] = [ECHO, DISCARD, GREET];

pub const GREETING: &[u8] = b"what the first to close has to say";

/// What a user saw of one connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    pub bytes: Vec<u8>,
    /// What it was told, each with the number of bytes that had come by then.
    pub events: Vec<(&'static str, usize)>,
}

/// Every connection's record, by the far end's port.
pub type Book = Arc<Mutex<BTreeMap<u16, Record>>>;

/// A fault that is planted between TCP and the services.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Two messages of one connection change places.
    Reordering,
    /// One byte is lost.
    LostByte,
}

pub struct Recorder {
    book: Book,
    planted: Option<Planted>,
    /// It answers message by message, each after a pause, and never in the perimeter entry in which it was told: then
    /// what TCP sees together does not depend on where the junctions are.
    paced: bool,
    /// Who sends what it says, if not the session.
    outside: Option<Outside>,
}

/// The pause between two messages of a paced recorder; no timer of TCP's falls on a multiple of it.
const PAUSE: Duration = Duration::from_nanos(1_000_037);

/// The sessions of one bucket, by slot.
#[derive(Default)]
struct Sessions {
    entries: Vec<Option<Session>>,
    /// The first message of a connection, held back until its successor has gone by.
    held: Option<Message>,
    planted: bool,
    /// What goes down, and when a paced recorder sends the next of it.
    outbox: VecDeque<Message>,
    due: Option<Instant>,
}

struct Session {
    id: ConnectionId,
    tuple: Tuple,
    mss: usize,
    space: usize,
    pending: VecDeque<u8>,
    ended: bool,
    closed: bool,
}

impl Recorder {
    pub fn new(book: &Book, planted: Option<Planted>, paced: bool) -> Recorder {
        Recorder {
            book: book.clone(),
            planted,
            paced,
            outside: None,
        }
    }

    /// The same, but what it says is left there, to be sent by applications.
    pub fn sending_outside(self, outside: &Outside) -> Recorder {
        Recorder {
            outside: Some(outside.clone()),
            ..self
        }
    }

    /// Sends what has been said, or asks to be woken for the next of it.
    fn send(&self, sessions: &mut Sessions, cx: &mut Context<'_>) {
        if !self.paced {
            for message in sessions.outbox.drain(..) {
                match (&self.outside, cx.bucket()) {
                    (Some(outside), Some(bucket)) => outside.leave(bucket, message),
                    _ => cx.down(message),
                }
            }
        }
        let now = cx.now();
        if sessions.outbox.is_empty() {
            sessions.due = None;
        } else {
            cx.wake_at(*sessions.due.get_or_insert(now + PAUSE));
        }
    }

    fn note(&self, session: &Session, write: impl FnOnce(&mut Record)) {
        let mut book = self.book.lock().expect("no test thread panicked");
        write(book.entry(session.tuple.remote_port).or_default());
    }

    fn event(&self, session: &Session, name: &'static str) {
        self.note(session, |record| {
            record.events.push((name, record.bytes.len()))
        });
    }

    fn data(&self, session: &mut Session, message: &Message, out: &mut Outbox<'_, '_>) {
        let mut bytes = vec![0; message.total_len()];
        message.copy_to_slice(&mut bytes);
        self.note(session, |record| record.bytes.extend(&bytes));
        if session.tuple.local_port == ECHO {
            session.pending.extend(&bytes);
        } else {
            session.tell(Control::new(Verb::Credit).value(bytes.len() as u64), out);
        }
        session.push(out);
    }

    fn told(
        &self,
        control: &Control,
        id: ConnectionId,
        sessions: &mut Sessions,
        cx: &mut Context<'_>,
    ) {
        let Some(verb) = control.verb() else { return };
        if verb == Verb::Connected {
            return self.connected(control, id, sessions, cx);
        }
        let Sessions {
            entries, outbox, ..
        } = sessions;
        let out = &mut Outbox { outbox, cx };
        let Some(session) = find(entries, id) else {
            return;
        };
        match verb {
            Verb::Space => session.space += control.value as usize,
            Verb::EndOfData => {
                session.ended = true;
                self.event(session, "end of data");
            }
            Verb::Closed => {
                self.event(
                    session,
                    if control.detail == Control::CLOSED {
                        "closed"
                    } else {
                        "reset"
                    },
                );
                entries[id.slot()] = None;
                return;
            }
            _ => {}
        }
        session.push(out);
    }

    fn connected(
        &self,
        control: &Control,
        id: ConnectionId,
        sessions: &mut Sessions,
        cx: &mut Context<'_>,
    ) {
        let mut session = Session {
            id,
            tuple: control.tuple,
            mss: control.mss() as usize,
            space: control.value as usize,
            pending: VecDeque::new(),
            ended: false,
            closed: false,
        };
        self.event(&session, "connected");
        session.tell(
            Control::new(Verb::Accepted),
            &mut Outbox {
                outbox: &mut sessions.outbox,
                cx,
            },
        );
        if session.tuple.local_port == GREET {
            session.pending.extend(GREETING);
            session.ended = true;
            session.push(&mut Outbox {
                outbox: &mut sessions.outbox,
                cx,
            });
        }
        let slot = id.slot();
        if sessions.entries.len() <= slot {
            sessions.entries.resize_with(slot + 1, || None);
        }
        sessions.entries[slot] = Some(session);
    }

    /// What a faulty junction would do to data on its way up.
    fn plant(&self, sessions: &mut Sessions, mut message: Message) -> [Option<Message>; 2] {
        match self.planted {
            Some(Planted::LostByte) if !sessions.planted && message.total_len() > 1 => {
                sessions.planted = true;
                message.strip(1);
            }
            Some(Planted::Reordering) if !sessions.planted => match sessions.held.take() {
                Some(held) if held.connection() == message.connection() => {
                    sessions.planted = true;
                    return [Some(message), Some(held)];
                }
                held => {
                    sessions.held = Some(message);
                    return [held, None];
                }
            },
            _ => {}
        }
        [Some(message), None]
    }
}

/// Where sessions leave what goes down.
struct Outbox<'a, 'c> {
    outbox: &'a mut VecDeque<Message>,
    cx: &'a mut Context<'c>,
}

fn find(entries: &mut [Option<Session>], id: ConnectionId) -> Option<&mut Session> {
    entries
        .get_mut(id.slot())?
        .as_mut()
        .filter(|session| session.id == id)
}

impl Session {
    fn tell(&self, control: Control, out: &mut Outbox<'_, '_>) {
        let message = control.message(self.id, out.cx.pool());
        out.outbox
            .push_back(message.expect("there is memory enough"));
    }

    /// Sends what there is room for, and closes when all is said.
    fn push(&mut self, out: &mut Outbox<'_, '_>) {
        while !self.pending.is_empty() && self.space > 0 {
            let n = self.pending.len().min(self.space).min(self.mss);
            let bytes: Vec<u8> = self.pending.drain(..n).collect();
            let message = out
                .cx
                .pool()
                .copy_from_slice(braidnet_inet::HEADROOM, &bytes);
            let mut message = message.expect("there is memory enough");
            message.set_kind(Kind::Data);
            message.set_connection(self.id.0);
            self.space -= n;
            out.outbox.push_back(message);
            if self.tuple.local_port == ECHO {
                self.tell(Control::new(Verb::Credit).value(n as u64), out);
            }
        }
        if self.ended && self.pending.is_empty() && !self.closed {
            self.closed = true;
            self.tell(Control::new(Verb::Close), out);
        }
    }
}

impl Module for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Sessions::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let sessions = state.of::<Sessions>();
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            if let Some(control) = Control::of(&message) {
                self.told(&control, id, sessions, cx);
                continue;
            }
            for message in self.plant(sessions, message).into_iter().flatten() {
                let id = ConnectionId(message.connection());
                let Sessions {
                    entries, outbox, ..
                } = sessions;
                if let Some(session) = find(entries, id) {
                    self.data(session, &message, &mut Outbox { outbox, cx });
                }
            }
        }
        self.send(sessions, cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        let sessions = state.of::<Sessions>();
        if sessions.due.take_if(|due| *due <= cx.now()).is_some()
            && let Some(message) = sessions.outbox.pop_front()
        {
            cx.down(message);
        }
        self.send(sessions, cx);
    }
}
