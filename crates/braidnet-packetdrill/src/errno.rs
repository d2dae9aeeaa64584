//! Errors as the C library numbers them.

use braidnet::socket::SocketError;

/// A number of `errno.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) i32);

impl From<SocketError> for Errno {
    fn from(error: SocketError) -> Errno {
        Errno(match error {
            SocketError::BadSocket => libc::EBADF,
            SocketError::TooMany => libc::EMFILE,
            SocketError::Invalid => libc::EINVAL,
            SocketError::AddressInUse => libc::EADDRINUSE,
            SocketError::AddressNotAvailable => libc::EADDRNOTAVAIL,
            SocketError::FamilyNotSupported => libc::EAFNOSUPPORT,
            SocketError::InProgress => libc::EINPROGRESS,
            SocketError::Already => libc::EALREADY,
            SocketError::Connected => libc::EISCONN,
            SocketError::NotConnected => libc::ENOTCONN,
            SocketError::WouldBlock => libc::EAGAIN,
            SocketError::Refused => libc::ECONNREFUSED,
            SocketError::Reset => libc::ECONNRESET,
            SocketError::Aborted => libc::ECONNABORTED,
            SocketError::TimedOut => libc::ETIMEDOUT,
            SocketError::BrokenPipe => libc::EPIPE,
            SocketError::NoMemory => libc::ENOBUFS,
            SocketError::NoSuchOption => libc::ENOPROTOOPT,
            SocketError::NotSupported => libc::EOPNOTSUPP,
            SocketError::HostUnreachable => libc::EHOSTUNREACH,
            SocketError::NetworkUnreachable => libc::ENETUNREACH,
            SocketError::TooLong => libc::EMSGSIZE,
            SocketError::NoDestination => libc::EDESTADDRREQ,
            SocketError::Forbidden => libc::EACCES,
            SocketError::Down => libc::ENETDOWN,
        })
    }
}
