//! Services that decline order.
//!
//! TCP's core hands its bytes up in order; that order ends where the bucket is left (PLP §4.2). For a session whose service does not
//! mind, the services' core does nothing with the bytes but give the window back and hand them on, out of the perimeter, where
//! the service takes them on whichever processor they are.

use super::{Io, Service, Session, Ticket};
use braidnet_message::{Message, Run};
use braidnet_stream::ConnectionId;
use braidnet_wire::address::Tuple;
use std::collections::HashMap;

/// Bytes of a stream, and their place in it.
pub struct Piece<'a> {
    message: &'a Message,
    tuple: Tuple,
}

impl Piece<'_> {
    /// Both ends of the connection.
    pub fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// How many bytes of the stream come before it.
    pub fn offset(&self) -> u64 {
        self.message.position()
    }

    /// Its bytes, in order: in one block or more.
    pub fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.message.blocks()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.message.total_len()
    }

    /// Never true: a piece has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names the session of its connection.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            connection: ConnectionId(self.message.connection()),
        }
    }
}

/// A session of a service that has declined order, for the services' core.
pub(super) fn unordered(session: Box<dyn Session>) -> Box<dyn Session> {
    Box::new(Unordered(session))
}

struct Unordered(Box<dyn Session>);

impl Session for Unordered {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        self.0.connected(io);
    }

    fn data(&mut self, mut message: Message, io: &mut Io<'_, '_>) {
        let bytes = message.total_len() as u64;
        io.slot.taken += bytes;
        io.slot.received += bytes;
        message.set_note(io.slot.tuple);
        io.cx.up(message);
    }

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.0.space(io);
    }

    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        self.0.end_of_data(io);
    }

    fn job(&mut self, message: Message, io: &mut Io<'_, '_>) {
        self.0.job(message, io);
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        self.0.wake(io);
    }

    fn stopping(&mut self, io: &mut Io<'_, '_>) {
        self.0.stopping(io);
    }
}

/// Outside every perimeter: hands each piece of the run to its service.
pub(super) fn hand_out(by_port: &HashMap<u16, Box<dyn Service>>, run: &mut Run) {
    let mut last: Option<(u16, &dyn Service)> = None;
    for message in run.drain() {
        let tuple = message.note::<Tuple>();
        let port = tuple.local_port;
        if last.is_none_or(|(of, _)| of != port) {
            last = by_port.get(&port).map(|service| (port, &**service));
        }
        if let Some((_, service)) = last {
            let message = &message;
            service.piece(&Piece { message, tuple });
        }
    }
}
