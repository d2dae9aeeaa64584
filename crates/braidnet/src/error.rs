//! What can go wrong, one small enum per operation.

use braidnet_device::DeviceError;
use braidnet_inet::interface::InterfaceError;
use braidnet_process::PlanError;
use braidnet_stream::{Control, StreamError};
use braidnet_sync::group::SpawnError;

/// Why a stack cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The addresses or the MTU make no sense.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A number of buckets that hashes cannot be dealt to.
    #[error("a stack has 2 to 65,536 buckets, and {0} are asked for")]
    Buckets(u32),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
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
    /// Every source port is taken for this peer.
    #[error("every source port is in use for this peer")]
    NoPort,
    /// No buffer.
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
            Control::NO_ROOM => CloseReason::NoRoom,
            _ => CloseReason::Closed,
        }
    }
}
