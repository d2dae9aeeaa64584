//! What can go wrong, one small enum per operation.

use braidnet_device::DeviceError;
use braidnet_inet::LimitError;
use braidnet_inet::interface::InterfaceError;
use braidnet_process::PlanError;
use braidnet_stream::{Control, StreamError};
use braidnet_sync::group::SpawnError;
use core::net::SocketAddr;

/// Why a stack cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The addresses or the MTU make no sense.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Addresses for another number of devices than there are.
    #[error("the stack is given addresses on {given} devices, and stands on {there}")]
    Devices {
        /// How many it is given addresses on.
        given: usize,
        /// How many there are.
        there: usize,
    },
    /// A number of buckets that hashes cannot be dealt to.
    #[error("a stack has 2 to 65,536 buckets, and {0} are asked for")]
    Buckets(u32),
    /// A limit that makes no sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The system has no descriptor left by which a host would wait for its device.
    #[error("no descriptor to wait for the device by: {0}")]
    Descriptor(#[source] std::io::Error),
    /// The device has no queue.
    #[error("the device has no queue to receive from")]
    NoQueue,
    /// The modules cannot be wired.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The architecture cannot be placed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The system gives no thread.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A service's port cannot be listened on.
    #[error(transparent)]
    Listen(#[from] braidnet_inet::tcp::ListenError),
    /// A service's UDP port cannot be bound.
    #[error(transparent)]
    Bind(#[from] braidnet_inet::udp::BindError),
}

/// Why a connection cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The stack speaks IPv4 only.
    #[error("the peer's address is an IPv6 one, and this stack speaks IPv4 only")]
    NotIpv4,
    /// No other host can have this address: it is that of a group or of all hosts, or one of the stack's own (RFC 9293 §3.9.1.1,
    /// MUST-46).
    #[error("no other host can have this address")]
    NoPeer,
    /// No route is for the peer, and it is on no network of the stack's own.
    #[error("no route leads to the peer")]
    NoRoute,
    /// Every source port is taken for this peer.
    #[error("every source port is in use for this peer")]
    NoPort,
    /// No buffer, or no memory for another connection.
    #[error("the stack's memory is used up")]
    NoMemory,
}

/// Why data cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// This side has closed.
    #[error("this side of the connection is closed")]
    Closing,
    /// The connection is no more.
    #[error("the connection is gone")]
    Gone,
}

/// Why nothing can be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveError {
    /// Nothing has come yet.
    #[error("nothing has been received yet")]
    Empty,
    /// The connection is no more.
    #[error("the connection is gone")]
    Gone,
}

/// Why a UDP port cannot be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// Nothing can be sent to port 0.
    #[error("0 is not a port that can be bound")]
    PortZero,
    /// It is bound already.
    #[error("UDP port {0} is in use")]
    PortInUse(u16),
    /// As many are bound as can be.
    #[error("at most {0} UDP ports may be bound at a time")]
    TableFull(usize),
}

/// Why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendToError {
    /// It is to come from a port that is not bound.
    #[error("UDP port {0} is not bound")]
    Unbound(u16),
    /// The stack speaks IPv4 only.
    #[error("the peer's address is an IPv6 one, and this stack speaks IPv4 only")]
    NotIpv4,
    /// Nobody can be reached at port 0.
    #[error("nothing can be sent to port 0")]
    PortZero,
    /// No route is for the peer, and it is on no network of the stack's own.
    #[error("no route leads to the peer")]
    NoRoute,
    /// It is longer than any datagram.
    #[error("a datagram of {len} bytes is too long: there is room for {max} in one")]
    TooLong {
        /// Bytes that were to be sent.
        len: usize,
        /// Bytes that can be.
        max: usize,
    },
    /// It is to be sent in datagrams of no bytes.
    #[error("bytes cannot be sent in datagrams of none")]
    SegmentEmpty,
    /// They are more datagrams than go at once ([`Stack::SEGMENTS_MAX`](crate::Stack::SEGMENTS_MAX)).
    #[error("{count} datagrams are too many to be sent at once: {max} can be")]
    TooManySegments {
        /// Datagrams that were to be sent.
        count: usize,
        /// Datagrams that can be.
        max: usize,
    },
    /// No buffer.
    #[error("the stack's memory is used up")]
    NoMemory,
}

/// Why no datagram can be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveFromError {
    /// Nothing has come yet.
    #[error("nothing has been received yet")]
    Empty,
    /// The port is not bound.
    #[error("UDP port {0} is not bound")]
    Unbound(u16),
}

/// What the network says of a datagram that was sent ([`Stack::undelivered`](crate::Stack::undelivered)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undelivered {
    /// Where it was to go.
    pub to: SocketAddr,
    /// Why it was not delivered.
    pub why: WhyUndelivered,
}

/// Why a datagram was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WhyUndelivered {
    /// Nobody has the port there.
    Refused,
    /// The host cannot be reached, and trying again is of no use.
    Unreachable,
    /// It got lost; the next may arrive.
    Lost,
    /// It is longer than a link carries.
    TooLong {
        /// The longest IP packet that the link carries, in bytes; 0 if nobody says.
        path_mtu: u32,
    },
}

/// Why a connection is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CloseReason {
    /// Both sides finished.
    Closed,
    /// The peer reset it.
    Reset,
    /// The peer does not answer.
    TimedOut,
    /// Nobody listens there.
    Refused,
    /// The network says that the peer cannot be reached.
    Unreachable,
    /// The stack has no room for another connection.
    NoRoom,
}

impl CloseReason {
    /// The reason that a [`Verb::Closed`](braidnet_stream::Verb::Closed) carries.
    pub fn from_detail(detail: u32) -> CloseReason {
        match detail {
            Control::RESET => CloseReason::Reset,
            Control::TIMED_OUT => CloseReason::TimedOut,
            Control::REFUSED => CloseReason::Refused,
            Control::UNREACHABLE => CloseReason::Unreachable,
            Control::NO_ROOM | Control::NO_MEMORY => CloseReason::NoRoom,
            _ => CloseReason::Closed,
        }
    }
}
