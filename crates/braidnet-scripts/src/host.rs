//! What a script is played against.

use std::net::SocketAddrV4;
use std::time::Duration;

/// A host with one TCP connection, or a listener and one, whose network a script has in its hands.
pub trait Host {
    /// What to call it in a diagram.
    fn name(&self) -> &'static str;

    /// Its address and port, and the peer's.
    fn ends(&self) -> (SocketAddrV4, SocketAddrV4);

    /// Time since the script began.
    fn now(&self) -> Duration;

    /// How exactly it keeps time.
    fn punctuality(&self) -> Punctuality;

    /// A packet arrives from the network.
    fn arrives(&mut self, packet: &[u8]);

    /// The next packet that it sends, and when, if it sends one by `until`. It is `until` then, or the packet has been sent.
    fn leaves(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)>;

    /// A user calls. Data sent are these bytes.
    ///
    /// # Errors
    /// The name of the error, as `errno` has it.
    fn call(&mut self, call: &Call, bytes: &[u8]) -> Result<Answer, String>;
}

/// How far from when it should a host does what is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Punctuality {
    /// How much too early it may do so.
    pub early: Duration,
    /// How much too late.
    pub late: Duration,
    /// How long to wait for what it should do at once.
    pub at_once: Duration,
    /// How long to look whether it does what it should not, at the end of a script.
    pub linger: Duration,
}

/// What a user asks for. The connection is the one that was opened or accepted last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Binds and listens.
    Listen(u32),
    /// Begins to open a connection, from the host's address and port.
    Connect,
    /// Begins to open a connection with so many bytes, which travel with the SYN if the peer is known to take them, and are not taken
    /// otherwise.
    ConnectWith(usize),
    /// Accepts a connection.
    Accept,
    /// Sends so many bytes.
    Send(usize),
    /// Sends so many, and promises more.
    SendMore(usize),
    /// Receives up to so many bytes.
    Recv(usize),
    /// Looks at up to so many bytes.
    Peek(usize),
    /// Says that no more will be sent.
    ShutdownWrite,
    /// Says that no more will be read.
    ShutdownRead,
    /// Closes the connection.
    Close,
    /// Closes the listener.
    CloseListener,
    /// Asks for what has befallen the connection.
    Error,
    /// Asks for what can be received, in bytes.
    Readable,
    /// Asks what it is ready for.
    Ready,
    /// Sets an option: of the listener as long as there is no connection, and of a connection to be opened before it is.
    Set(Choice),
}

/// An option and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Whether small segments leave at once.
    NoDelay(bool),
    /// Whether what fills no segment is held back.
    Cork(bool),
    /// Whether closing resets.
    AbortOnClose,
    /// Keepalive: seconds of silence, between probes, and their number.
    KeepAlive(u32, u32, u8),
    /// User timeout, in milliseconds.
    UserTimeout(u32),
    /// The receive buffer, in bytes as they count against the window.
    ReceiveBuffer(u32),
    /// Hops that packets may take.
    TimeToLive(u8),
    /// The Differentiated Services Code Point of packets.
    DifferentiatedServices(u8),
    /// Congestion notification is asked for.
    Ecn,
    /// The same, and marks are counted where both sides can.
    AccurateEcn,
    /// How many connections of a listener may be open by data on their SYN and not have ended their handshake. Linux has it for every listener
    /// here, and as many as its backlog.
    FastOpen(u32),
    /// A listener takes data on a SYN without a cookie, too.
    FastOpenWithoutCookie,
}

/// What a call answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done; or a number of bytes, or of what was asked for.
    Number(i64),
    /// What was received.
    Bytes(Vec<u8>),
}

/// What a connection is ready for, as bits: something to read, or the end of it.
pub const IN: i64 = 1;
/// Room to send, or the news that nothing can be sent.
pub const OUT: i64 = 2;
/// An error.
pub const ERR: i64 = 4;
/// Both directions are over.
pub const HUP: i64 = 8;
/// The peer will send no more.
pub const RDHUP: i64 = 16;

/// Calls as scripts write them.
#[allow(
    missing_docs,
    reason = "each makes the call of its name, which is described there"
)]
pub mod calls {
    use super::{Call, Choice};

    pub fn listen() -> Call {
        Call::Listen(8)
    }
    pub fn listen_for(backlog: u32) -> Call {
        Call::Listen(backlog)
    }
    pub fn connect() -> Call {
        Call::Connect
    }
    pub fn connect_with(bytes: usize) -> Call {
        Call::ConnectWith(bytes)
    }
    pub fn fast_open(pending: u32) -> Call {
        Call::Set(Choice::FastOpen(pending))
    }
    pub fn fast_open_without_cookie() -> Call {
        Call::Set(Choice::FastOpenWithoutCookie)
    }
    pub fn accept() -> Call {
        Call::Accept
    }
    pub fn send(bytes: usize) -> Call {
        Call::Send(bytes)
    }
    pub fn send_more(bytes: usize) -> Call {
        Call::SendMore(bytes)
    }
    pub fn recv(most: usize) -> Call {
        Call::Recv(most)
    }
    pub fn peek(most: usize) -> Call {
        Call::Peek(most)
    }
    pub fn shutdown_write() -> Call {
        Call::ShutdownWrite
    }
    pub fn shutdown_read() -> Call {
        Call::ShutdownRead
    }
    pub fn close() -> Call {
        Call::Close
    }
    pub fn close_listener() -> Call {
        Call::CloseListener
    }
    pub fn error() -> Call {
        Call::Error
    }
    pub fn readable() -> Call {
        Call::Readable
    }
    pub fn ready() -> Call {
        Call::Ready
    }
    pub fn nodelay(on: bool) -> Call {
        Call::Set(Choice::NoDelay(on))
    }
    pub fn cork(on: bool) -> Call {
        Call::Set(Choice::Cork(on))
    }
    pub fn abort_on_close() -> Call {
        Call::Set(Choice::AbortOnClose)
    }
    pub fn keepalive(idle_s: u32, interval_s: u32, probes: u8) -> Call {
        Call::Set(Choice::KeepAlive(idle_s, interval_s, probes))
    }
    pub fn user_timeout(millis: u32) -> Call {
        Call::Set(Choice::UserTimeout(millis))
    }
    pub fn ttl(hops: u8) -> Call {
        Call::Set(Choice::TimeToLive(hops))
    }
    pub fn dscp(point: u8) -> Call {
        Call::Set(Choice::DifferentiatedServices(point))
    }
    pub fn ecn() -> Call {
        Call::Set(Choice::Ecn)
    }
    pub fn accurate_ecn() -> Call {
        Call::Set(Choice::AccurateEcn)
    }
    pub fn receive_buffer(bytes: u32) -> Call {
        Call::Set(Choice::ReceiveBuffer(bytes))
    }
}
