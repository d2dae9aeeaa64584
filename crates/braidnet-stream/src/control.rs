//! Control messages of connection-oriented streams: what a head and a transport say to each other beside data.
//!
//! They are typed words in a message's notes, in the manner of TPI's primitives (DEMUX §2.2.1), and travel through the
//! same queues as data, so that order between data and control is kept.

use crate::bucket::ConnectionId;
use braidnet_message::{Kind, Message, Pool};
use braidnet_wire::address::Tuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a control message asks or tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Verb {
    /// Up: the connection is established; `tuple` is set, `value` is the number of bytes that may be sent, `detail`
    /// says how long pieces of data are best ([`Control::pieces`]). Whoever takes the connection up says [`Verb::Accepted`].
    Connected = 1,
    /// Up: the connection that was asked for with [`Verb::Connect`] is being opened, and this is its number; `tuple` is
    /// set. If it was asked for [with data](Control::HELD_WITH_DATA), `value` is the number of bytes that may be sent before it begins, and `detail`
    /// the largest segment in bytes, so far as the server is known, with [`Control::GOES_WITH_SYN`] if data travel with the SYN.
    Opening = 5,
    /// Up: `value` more bytes may be sent. Told in quarters of the send buffer: once all is acknowledged, up to a quarter of
    /// what [`Verb::Connected`] gave may stay untold. Where the transport has a low water mark for what has not left (`Config::not_sent_low_water` of `braidnet_tcp`),
    /// also whenever something has left and less waits than that, and then it may be none.
    Space = 2,
    /// Up: the peer calls data urgent: all before the byte that `value` is the position of in the stream, the first being 0 (RFC 6093).
    /// Down: so is all that has been sent and not been acknowledged.
    Urgent = 7,
    /// Up: the peer does not answer; `detail` says why the connection will be gone if that goes on ([`Control::TIMED_OUT`] or
    /// [`Control::UNREACHABLE`]).
    Silent = 9,
    /// Up: the peer has sent everything it will (after all data before it).
    EndOfData = 3,
    /// Up: the connection is gone; `detail` says why ([`Control::CLOSED`] and its neighbours).
    Closed = 4,
    /// Up, to all connections of the bucket: the stack is about to stop, finish what is being done.
    Stopping = 6,
    /// Up, and of no connection: the network says that a datagram from `tuple` was not delivered; `detail` says why
    /// ([`Control::REFUSED`] and its neighbours).
    Undelivered = 8,
    /// Down: the application took `value` bytes; the window may open.
    Credit = 16,
    /// Down: no more data from this side. With a `value`, the connection is reset if the peer has not taken everything within so
    /// many nanoseconds.
    Close = 17,
    /// Down: reset the connection. Up, to all connections of the bucket: reset yourselves.
    Abort = 18,
    /// Down: the application is gone. What it sent still goes out; what still comes is read by nobody.
    Release = 20,
    /// Down: open a connection for `tuple`. With the detail [`Control::HELD`] or [`Control::HELD_WITH_DATA`] it sends nothing until
    /// [`Verb::Start`].
    Connect = 19,
    /// Down: a connection that was held back begins, now.
    Start = 21,
    /// Down: the connection is set otherwise from now on: `detail` says what and `value` how, in the transport's own words
    /// (`braidnet_tcp::Setting`).
    Set = 23,
    /// Down: the application has taken the connection up; its place in the listener's accept queue is free for another. Says
    /// nothing of one that was asked for.
    Accepted = 22,
}

impl Verb {
    fn from_word(word: u32) -> Option<Verb> {
        [
            Verb::Connected,
            Verb::Space,
            Verb::EndOfData,
            Verb::Urgent,
            Verb::Silent,
            Verb::Closed,
            Verb::Credit,
            Verb::Close,
            Verb::Abort,
            Verb::Release,
            Verb::Connect,
            Verb::Start,
            Verb::Accepted,
            Verb::Set,
            Verb::Opening,
            Verb::Stopping,
            Verb::Undelivered,
        ]
        .into_iter()
        .find(|verb| *verb as u32 == word)
    }
}

/// The body of a control message.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Control {
    verb: u32,
    /// See the verb.
    pub detail: u32,
    /// See the verb.
    pub value: u64,
    /// See the verb.
    pub tuple: Tuple,
    reserved: u32,
}

/// The part of the detail of [`Verb::Connected`] that is the largest segment.
const MSS: u32 = 0xffff;

impl Control {
    /// Detail of [`Verb::Closed`]: both sides finished.
    pub const CLOSED: u32 = 0;
    /// Detail of [`Verb::Closed`]: the peer reset the connection.
    pub const RESET: u32 = 1;
    /// Detail of [`Verb::Closed`]: the peer does not answer.
    pub const TIMED_OUT: u32 = 2;
    /// Detail of [`Verb::Closed`]: nobody listens there.
    pub const REFUSED: u32 = 3;
    /// Detail of [`Verb::Closed`]: no room for another connection, or the address is in use.
    pub const NO_ROOM: u32 = 4;
    /// Detail of [`Verb::Closed`]: no memory for another connection.
    pub const NO_MEMORY: u32 = 5;
    /// Detail of [`Verb::Closed`]: the network says that the peer cannot be reached.
    pub const UNREACHABLE: u32 = 6;

    /// Detail of [`Verb::Undelivered`]: not this time.
    pub const LOST: u32 = 7;
    /// Detail of [`Verb::Undelivered`]: it is longer than a link carries, and not to be cut; `value` is the longest packet that it carries in
    /// bytes, 0 if that is not said.
    pub const TOO_LONG: u32 = 8;

    /// Detail of [`Verb::Connect`]: whoever asks does not know what time it is; the connection is made and waits.
    pub const HELD: u32 = 1;

    /// Detail of [`Verb::Connect`]: the same, and what is sent before it begins is to travel with the SYN if it can (RFC 7413).
    pub const HELD_WITH_DATA: u32 = 2;

    /// A bit of the detail of [`Verb::Opening`]: the peer is known to take data that travel with the SYN.
    pub const GOES_WITH_SYN: u32 = 1 << 16;

    /// A control of this verb, everything else zero.
    pub fn new(verb: Verb) -> Control {
        Control {
            verb: verb as u32,
            ..Control::default()
        }
    }

    /// The same with `value`.
    pub fn value(self, value: u64) -> Control {
        Control { value, ..self }
    }

    /// The same with `detail`.
    pub fn detail(self, detail: u32) -> Control {
        Control { detail, ..self }
    }

    /// The same with the detail of [`Verb::Connected`]: the largest segment has `mss` bytes, less than 64 KiB, and a piece of data of up to `segments` of them, 1 or more, is
    /// handed down with less work than one by one.
    pub fn pieces(self, mss: u32, segments: u32) -> Control {
        self.detail(mss & MSS | (segments.max(1) - 1) << MSS.count_ones())
    }

    /// Of [`Verb::Connected`], bytes of the largest segment, at least 1.
    pub fn mss(&self) -> u32 {
        (self.detail & MSS).max(1)
    }

    /// Of [`Verb::Connected`], bytes of the longest piece of data that is best handed down: as many full segments as a device takes at once, or one.
    pub fn piece(&self) -> u32 {
        self.mss() * ((self.detail >> MSS.count_ones()) + 1)
    }

    /// The same with `tuple`.
    pub fn tuple(self, tuple: Tuple) -> Control {
        Control { tuple, ..self }
    }

    /// What it asks or tells; `None` if the word is no verb.
    pub fn verb(&self) -> Option<Verb> {
        Verb::from_word(self.verb)
    }

    /// A message that carries this, for `connection`; `None` if the pool is exhausted.
    pub fn message(self, connection: ConnectionId, pool: &mut Pool) -> Option<Message> {
        Some(self.carried_by(pool.allocate(0, 0)?, connection))
    }

    /// The same in a message that is there already and whose content says nothing any more: so it is certain to be told.
    pub fn carried_by(self, mut message: Message, connection: ConnectionId) -> Message {
        message.set_kind(Kind::Control);
        message.set_bucket(connection.bucket().0);
        message.set_connection(connection.0);
        message.set_note(self);
        message
    }

    /// What a control message carries; `None` for data.
    pub fn of(message: &Message) -> Option<Control> {
        (message.kind() == Kind::Control).then(|| message.note::<Control>())
    }
}
