//! What a socket's verbs answer when they do not do what they were asked for, in the words of the system's `errno`.

use crate::error::{BindError, CloseReason, ConnectError, ReceiveFromError, SendToError};
use std::io::{self, ErrorKind};

/// Why a verb of [`Sockets`](super::Sockets) has not done what it was asked for, or what has befallen a socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no socket of this number.
    #[error("there is no such socket")]
    BadSocket,
    /// As many sockets are open as may be.
    #[error("no more sockets can be opened: close some, or raise `StackConfig::sockets`")]
    TooMany,
    /// The socket is not in a state for this, or a value makes no sense.
    #[error("the socket is not in a state for this, or the value makes no sense")]
    Invalid,
    /// Somebody has the address and port.
    #[error("the address and port are in use: choose another port, or 0 for a free one")]
    AddressInUse,
    /// The address is not one of the stack's, or no port is left.
    #[error("the address is not one of this stack's, or no port is left")]
    AddressNotAvailable,
    /// The stack speaks IPv4 only.
    #[error("this stack speaks IPv4 only")]
    FamilyNotSupported,
    /// The connection is being opened.
    #[error("the connection is being opened")]
    InProgress,
    /// It was being opened before.
    #[error("the connection is being opened already")]
    Already,
    /// It is connected.
    #[error("the socket is connected already")]
    Connected,
    /// It is not connected.
    #[error("the socket is not connected")]
    NotConnected,
    /// Nothing can be done now without waiting.
    #[error("nothing can be done now without waiting")]
    WouldBlock,
    /// Nobody listens there.
    #[error("the peer has refused the connection")]
    Refused,
    /// The peer has reset the connection.
    #[error("the peer has reset the connection")]
    Reset,
    /// The opening was given up.
    #[error("the connection was given up")]
    Aborted,
    /// The peer does not answer.
    #[error("the peer does not answer")]
    TimedOut,
    /// This side sends no more, or the connection is gone.
    #[error("nothing can be sent any more")]
    BrokenPipe,
    /// The stack's memory is used up.
    #[error("the stack's memory is used up: it is bounded by `StackConfig::memory_bytes`")]
    NoMemory,
    /// No such option.
    #[error("there is no such option")]
    NoSuchOption,
    /// The stack has not turned it on, or sockets of this kind do not have it.
    #[error("this stack has not turned that on, or sockets of this kind do not have it")]
    NotSupported,
    /// The network says that the peer cannot be reached.
    #[error("the network says that the peer cannot be reached")]
    HostUnreachable,
    /// No route of the stack's leads to the peer.
    #[error("no route leads to the peer: see `StackConfig::routes`")]
    NetworkUnreachable,
    /// It is longer than a datagram can be.
    #[error("it is longer than a datagram can be")]
    TooLong,
    /// Nobody has said where it is to go.
    #[error("the socket is not connected, and nobody has said where this is to go")]
    NoDestination,
    /// It is for every host of a network, and the socket is not [set](super::SocketOption::Broadcast) to send such.
    #[error("that is for every host of a network, and the socket is not set to send such")]
    Forbidden,
    /// The stack has stopped: whoever turned it has panicked, or its host was stopped.
    #[error("the stack has stopped")]
    Down,
}

impl SocketError {
    /// Every error.
    pub const ALL: [SocketError; 25] = [
        SocketError::BadSocket,
        SocketError::TooMany,
        SocketError::Invalid,
        SocketError::AddressInUse,
        SocketError::AddressNotAvailable,
        SocketError::FamilyNotSupported,
        SocketError::InProgress,
        SocketError::Already,
        SocketError::Connected,
        SocketError::NotConnected,
        SocketError::WouldBlock,
        SocketError::Refused,
        SocketError::Reset,
        SocketError::Aborted,
        SocketError::TimedOut,
        SocketError::BrokenPipe,
        SocketError::NoMemory,
        SocketError::NoSuchOption,
        SocketError::NotSupported,
        SocketError::HostUnreachable,
        SocketError::NetworkUnreachable,
        SocketError::TooLong,
        SocketError::NoDestination,
        SocketError::Forbidden,
        SocketError::Down,
    ];

    /// The name that POSIX gives it (IEEE 1003.1 §2.3).
    pub const fn errno_name(self) -> &'static str {
        match self {
            SocketError::BadSocket => "EBADF",
            SocketError::TooMany => "EMFILE",
            SocketError::Invalid => "EINVAL",
            SocketError::AddressInUse => "EADDRINUSE",
            SocketError::AddressNotAvailable => "EADDRNOTAVAIL",
            SocketError::FamilyNotSupported => "EAFNOSUPPORT",
            SocketError::InProgress => "EINPROGRESS",
            SocketError::Already => "EALREADY",
            SocketError::Connected => "EISCONN",
            SocketError::NotConnected => "ENOTCONN",
            SocketError::WouldBlock => "EAGAIN",
            SocketError::Refused => "ECONNREFUSED",
            SocketError::Reset => "ECONNRESET",
            SocketError::Aborted => "ECONNABORTED",
            SocketError::TimedOut => "ETIMEDOUT",
            SocketError::BrokenPipe => "EPIPE",
            SocketError::NoMemory => "ENOBUFS",
            SocketError::NoSuchOption => "ENOPROTOOPT",
            SocketError::NotSupported => "EOPNOTSUPP",
            SocketError::HostUnreachable => "EHOSTUNREACH",
            SocketError::NetworkUnreachable => "ENETUNREACH",
            SocketError::TooLong => "EMSGSIZE",
            SocketError::NoDestination => "EDESTADDRREQ",
            SocketError::Forbidden => "EACCES",
            SocketError::Down => "ENETDOWN",
        }
    }

    /// What the end of a connection leaves on its socket; `None` if both sides finished.
    pub(super) fn of_end(reason: CloseReason, in_close_wait: bool) -> Option<SocketError> {
        match reason {
            CloseReason::Closed => None,
            // The peer has sent all it will: only who sends has lost something.
            CloseReason::Reset if in_close_wait => Some(SocketError::BrokenPipe),
            CloseReason::Reset => Some(SocketError::Reset),
            CloseReason::TimedOut => Some(SocketError::TimedOut),
            CloseReason::Refused => Some(SocketError::Refused),
            CloseReason::Unreachable => Some(SocketError::HostUnreachable),
            CloseReason::NoRoom => Some(SocketError::NoMemory),
        }
    }
}

/// The kind is that of the system's error of [this name](SocketError::errno_name), as far as std has one; the error itself is inside
/// ([`io::Error::get_ref`]).
impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> io::Error {
        let kind = match error {
            SocketError::Invalid => ErrorKind::InvalidInput,
            SocketError::AddressInUse => ErrorKind::AddrInUse,
            SocketError::AddressNotAvailable => ErrorKind::AddrNotAvailable,
            // Std has none for `EDESTADDRREQ`.
            SocketError::NotConnected | SocketError::NoDestination => ErrorKind::NotConnected,
            // Of a connection that is being opened, std has no word of its own yet: it can be waited for.
            SocketError::WouldBlock | SocketError::InProgress | SocketError::Already => {
                ErrorKind::WouldBlock
            }
            SocketError::Refused => ErrorKind::ConnectionRefused,
            SocketError::Reset => ErrorKind::ConnectionReset,
            SocketError::Aborted => ErrorKind::ConnectionAborted,
            SocketError::TimedOut => ErrorKind::TimedOut,
            SocketError::BrokenPipe => ErrorKind::BrokenPipe,
            SocketError::NoMemory => ErrorKind::OutOfMemory,
            SocketError::FamilyNotSupported
            | SocketError::NoSuchOption
            | SocketError::NotSupported => ErrorKind::Unsupported,
            SocketError::HostUnreachable => ErrorKind::HostUnreachable,
            SocketError::NetworkUnreachable => ErrorKind::NetworkUnreachable,
            SocketError::Down => ErrorKind::NetworkDown,
            SocketError::TooLong => ErrorKind::InvalidInput,
            SocketError::Forbidden => ErrorKind::PermissionDenied,
            SocketError::BadSocket | SocketError::TooMany | SocketError::Connected => {
                ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}

impl From<ConnectError> for SocketError {
    fn from(error: ConnectError) -> SocketError {
        match error {
            ConnectError::NotIpv4 => SocketError::FamilyNotSupported,
            ConnectError::NoPeer | ConnectError::NoPort => SocketError::AddressNotAvailable,
            ConnectError::NoRoute => SocketError::NetworkUnreachable,
            ConnectError::NoMemory => SocketError::NoMemory,
        }
    }
}

impl From<BindError> for SocketError {
    fn from(error: BindError) -> SocketError {
        match error {
            BindError::PortZero => SocketError::Invalid,
            BindError::PortInUse(_) => SocketError::AddressInUse,
            BindError::TableFull(_) => SocketError::NoMemory,
        }
    }
}

impl From<SendToError> for SocketError {
    fn from(error: SendToError) -> SocketError {
        match error {
            SendToError::Unbound(_)
            | SendToError::PortZero
            | SendToError::SegmentEmpty
            | SendToError::TooManySegments { .. } => SocketError::Invalid,
            SendToError::NotIpv4 => SocketError::FamilyNotSupported,
            SendToError::NoRoute => SocketError::NetworkUnreachable,
            SendToError::TooLong { .. } => SocketError::TooLong,
            SendToError::NoMemory => SocketError::NoMemory,
        }
    }
}

impl From<ReceiveFromError> for SocketError {
    fn from(error: ReceiveFromError) -> SocketError {
        match error {
            ReceiveFromError::Empty => SocketError::WouldBlock,
            ReceiveFromError::Unbound(_) => SocketError::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_error_has_a_name_of_its_own() {
        let names: BTreeSet<_> = SocketError::ALL.map(SocketError::errno_name).into();
        assert_eq!(names.len(), SocketError::ALL.len());
    }
}
