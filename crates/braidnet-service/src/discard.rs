//! Discard (RFC 863): throws away what it receives.

use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{DatagramService, Io, Service, Session};

/// The discard service (RFC 863), over TCP and over UDP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Service for Discard {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Discarding)
    }
}

impl DatagramService for Discard {
    fn datagram(&self, _: Message, _: &Tuple) -> Option<Message> {
        None
    }
}

struct Discarding;

impl Session for Discarding {
    #[inline]
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        io.took(message.total_len());
    }
}
