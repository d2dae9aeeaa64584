//! Sockets as sources of mio's events.
//!
//! Each direction that is waited for is registered under the one token, by its [descriptor](super::event).

use super::{TcpListener, TcpStream};
use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// For who has [set it not to block](TcpStream::set_nonblocking). Events are edges, as always with mio: go on until `WouldBlock`.
impl Source for TcpStream {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        let (readable, writable) = (self.readable_fd()?, self.writable_fd()?);
        if interests.is_readable() {
            register(registry, readable, token, Interest::READABLE)?;
        }
        if interests.is_writable() {
            register(registry, writable, token, Interest::WRITABLE)?;
        }
        Ok(())
    }

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
        let either = [
            deregister(registry, self.readable_fd()?),
            deregister(registry, self.writable_fd()?),
        ];
        first_to_succeed(either)
    }
}

/// For who has [set it not to block](TcpListener::set_nonblocking). Nothing can be written to a listener: that interest is passed over.
impl Source for TcpListener {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        match interests.is_readable() {
            true => register(registry, self.readable_fd()?, token, Interest::READABLE),
            false => Ok(()),
        }
    }

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
        deregister(registry, self.readable_fd()?)
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

/// Of the two directions one may not have been registered.
fn first_to_succeed([one, other]: [io::Result<()>; 2]) -> io::Result<()> {
    one.or(other)
}
