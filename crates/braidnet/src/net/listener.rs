//! Listeners.

use super::handle::{Handle, Timeout};
use super::stream::TcpStream;
use super::{Host, each_address};
use crate::socket::{OptionName, Readiness, SocketError, SocketOption, Sockets};
use core::fmt;
use core::iter::FusedIterator;
use core::net::SocketAddr;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Connections that may wait to be accepted, as in std.
const BACKLOG: u32 = 128;

/// A TCP socket that listens on a [`Host`], as [`std::net::TcpListener`] does on the system.
///
/// Handles on the same listener are made with [`try_clone`](TcpListener::try_clone); with the last it listens no more, and those who wait to be
/// accepted are reset.
pub struct TcpListener {
    handle: Arc<Handle>,
}

impl TcpListener {
    /// Listens on an address of `host`, or on all of them, which the unspecified one stands for; port 0 stands for a free one. Of several addresses the first
    /// that can be had is taken. 128 connections may wait to be accepted; what comes beyond that is not answered, and tries again.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable` if the address is not the host's, `Unsupported` for an IPv6 one.
    pub fn bind(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<TcpListener> {
        each_address(addresses, |address| {
            let handle = Handle::open(host)?;
            let socket = handle.socket();
            host.shared().with(|sockets| {
                sockets.set_option(socket, SocketOption::ReuseAddress(true))?;
                sockets.bind(socket, address)?;
                sockets.listen(socket, BACKLOG)
            })?;
            Ok(TcpListener {
                handle: Arc::new(handle),
            })
        })
    }

    #[cfg(any(feature = "mio", feature = "tokio"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// How many connections and one more may wait to be accepted from now on; where more do, they stay.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_backlog(&self, backlog: u32) -> io::Result<()> {
        self.handle
            .with(|sockets, socket| sockets.listen(socket, backlog))
    }

    /// Waits for the next connection: its stream, which is set like the listener, and who has called.
    ///
    /// # Errors
    /// `WouldBlock` if it does not block and nobody has called; if the host has no room for another socket: what has called goes on waiting.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let forever = Timeout::default();
        let (socket, from) =
            (self.handle).blocking(Readiness::READABLE, &forever, Sockets::accept)?;
        let handle = Handle::of(self.handle.host(), socket);
        Ok((TcpStream::of(handle), from))
    }

    /// Connections, one after the other, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address and port that it listens on.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.handle.with(Sockets::local_address)
    }

    /// Another handle on the same listener.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        let handle = self.handle.clone();
        Ok(TcpListener { handle })
    }

    /// Whether [`accept`](TcpListener::accept) answers at once, for all handles. What it accepts blocks until told otherwise, as in std.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.handle.set_nonblocking(nonblocking);
        Ok(())
    }

    /// What is readable while somebody may wait to be accepted, for event loops: from when somebody does until
    /// [`accept`](TcpListener::accept), which [does not block](TcpListener::set_nonblocking), says `WouldBlock`.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn readable_fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.handle.events()?.readable())
    }

    /// Hops that packets of its connections may take, 1 to 255; of those that are accepted from now on.
    ///
    /// # Errors
    /// `InvalidInput` for any other number.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hops = u8::try_from(ttl).map_err(|_| SocketError::Invalid)?;
        self.handle.set(SocketOption::TimeToLive(hops))
    }

    /// What was set by [`set_ttl`](TcpListener::set_ttl).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn ttl(&self) -> io::Result<u32> {
        match self.handle.option(OptionName::TimeToLive)? {
            SocketOption::TimeToLive(hops) => Ok(hops.into()),
            _ => Err(SocketError::NoSuchOption.into()),
        }
    }

    /// Whether IPv6 addresses stand for no IPv4 ones. The stack has none of the former.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn set_only_v6(&self, _only_v6: bool) -> io::Result<()> {
        Err(SocketError::FamilyNotSupported.into())
    }

    /// What has befallen it and nobody has heard of yet.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.handle.take_error()
    }

    /// Sets any option; those that it accepts from now on are set like it.
    ///
    /// # Errors
    /// `InvalidInput` if the value makes no sense, `Unsupported` if the stack has not turned it on.
    pub fn set_option(&self, option: SocketOption) -> io::Result<()> {
        self.handle.set(option)
    }

    /// What an option is set to.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn option(&self, name: OptionName) -> io::Result<SocketOption> {
        self.handle.option(name)
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("addr", &self.local_addr().ok())
            .finish()
    }
}

/// The connections of a [`TcpListener`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}
