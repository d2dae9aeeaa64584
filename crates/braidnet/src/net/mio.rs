//! Sockets as sources of mio's events.
//!
//! Each direction that is waited for is registered under the one token, by its [descriptor](super::event). Either all that are asked for are, or none.

use super::event::Events;
use super::{TcpListener, TcpStream, UdpSocket};
use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

macro_rules! source {
    ($(#[$doc:meta])+ $socket:ty) => {
        $(#[$doc])+
        impl Source for $socket {
            fn register(
                &mut self,
                registry: &Registry,
                token: Token,
                interests: Interest,
            ) -> io::Result<()> {
                self.handle().events()?.register(registry, token, interests)
            }

            /// If it fails, nothing is registered any more.
            fn reregister(
                &mut self,
                registry: &Registry,
                token: Token,
                interests: Interest,
            ) -> io::Result<()> {
                self.deregister(registry)?;
                self.register(registry, token, interests)
            }

            fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
                self.handle().events()?.deregister(registry)
            }
        }
    };
}

source! {
    /// For who has [set it not to block](TcpStream::set_nonblocking). Events are edges, as always with mio: go on until `WouldBlock`.
    TcpStream
}

source! {
    /// For who has [set it not to block](TcpListener::set_nonblocking). Nothing can be written to a listener: there are no events of that.
    TcpListener
}

source! {
    /// For who has [set it not to block](UdpSocket::set_nonblocking). Events are edges, as always with mio: go on until `WouldBlock`. Sending
    /// never waits: that it can be done is an event once.
    UdpSocket
}

impl Events {
    fn register(&self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        if interests.is_readable() {
            register(registry, self.readable(), token, Interest::READABLE)?;
        }
        if !interests.is_writable() {
            return Ok(());
        }
        let registered = register(registry, self.writable(), token, Interest::WRITABLE);
        if registered.is_err() && interests.is_readable() {
            deregister(registry, self.readable())?;
        }
        registered
    }

    /// Of the two directions one may not have been registered.
    fn deregister(&self, registry: &Registry) -> io::Result<()> {
        let reading = deregister(registry, self.readable());
        let writing = deregister(registry, self.writable());
        reading.or(writing)
    }
}

fn register(
    registry: &Registry,
    fd: BorrowedFd<'_>,
    token: Token,
    interests: Interest,
) -> io::Result<()> {
    SourceFd(&fd.as_raw_fd()).register(registry, token, interests)
}

fn deregister(registry: &Registry, fd: BorrowedFd<'_>) -> io::Result<()> {
    SourceFd(&fd.as_raw_fd()).deregister(registry)
}
