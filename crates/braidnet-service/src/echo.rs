//! Echo (RFC 862): sends back what it receives.

use crate::pending::Pending;
use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{DatagramService, Duration, Io, Service, Session};

/// The echo service (RFC 862), over TCP and over UDP.
///
/// Over TCP the received messages themselves go back, without copying. The peer may send only as much as could be
/// written back: what waits is bounded by the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Service for Echo {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Echoing::default())
    }
}

impl DatagramService for Echo {
    fn datagram(&self, message: Message, _: &Tuple) -> Option<Message> {
        Some(message)
    }
}

#[derive(Default)]
struct Echoing {
    pending: Pending,
    /// The peer has sent everything it will.
    ended: bool,
}

/// How long it waits when the stack has no buffer.
const RETRY: Duration = Duration::from_millis(20);

impl Echoing {
    /// Sends what there is space for, and lets the peer send as much again.
    fn send_pending(&mut self, io: &mut Io<'_, '_>) {
        while let Some(message) = self.next(io) {
            let len = message.total_len();
            match io.send(message) {
                Ok(()) => io.took(len),
                Err(message) => {
                    self.pending.push_front(message);
                    return;
                }
            }
        }
        if self.ended && self.pending.is_empty() {
            io.close();
        }
    }

    /// The next bytes to go back: no more at once than there is space for sooner or later. The peer's segments may be longer.
    fn next(&mut self, io: &mut Io<'_, '_>) -> Option<Message> {
        let mut message = self.pending.pop()?;
        if message.total_len() <= io.piece() {
            return Some(message);
        }
        let first = message.split_to(io.piece(), io.pool());
        self.pending.push_front(message);
        if first.is_none() {
            io.wake_at(io.now() + RETRY);
        }
        first
    }
}

impl Session for Echoing {
    #[inline]
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        if !self.pending.is_empty() {
            self.pending.push(message);
            return;
        }
        let len = message.total_len();
        match io.send(message) {
            Ok(()) => io.took(len),
            Err(message) => {
                self.pending.push(message);
                self.send_pending(io);
            }
        }
    }

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.send_pending(io);
    }

    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        self.ended = true;
        self.send_pending(io);
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        self.send_pending(io);
    }
}
