//! Datagrams.

use super::{each_address, no_address, ready, ready_for, when};
use crate::net::{self, Host};
use crate::socket::{OptionName, Readiness, SocketOption, Sockets};
use core::net::SocketAddr;
use std::io;
use tokio::io::{Interest, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};

/// A UDP socket of a [`Host`], as [`tokio::net::UdpSocket`] is one of the system. Sending never waits.
#[derive(Debug)]
pub struct UdpSocket {
    inner: net::UdpSocket,
}

impl UdpSocket {
    /// As [`net::UdpSocket::bind`].
    ///
    /// # Errors
    /// As that.
    pub async fn bind(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        let bound = each_address(addresses, |address| {
            Ok(net::UdpSocket::bind_one(host, address)?)
        });
        bound.await.map(UdpSocket::from_std)
    }

    /// One that was bound already.
    pub fn from_std(socket: net::UdpSocket) -> UdpSocket {
        UdpSocket { inner: socket }
    }

    /// What can be waited for by a thread.
    pub fn into_std(self) -> net::UdpSocket {
        self.inner
    }

    /// What it is to threads.
    pub fn get_ref(&self) -> &net::UdpSocket {
        &self.inner
    }

    /// As [`net::UdpSocket::connect`].
    ///
    /// # Errors
    /// As that.
    pub async fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<()> {
        let connected = each_address(addresses, |address| {
            (self.inner.handle()).with(|sockets, socket| sockets.connect(socket, address))
        });
        connected.await
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Whom it is connected with.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Whether datagrams may go to every host of a network.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.inner.set_broadcast(broadcast)
    }

    /// What was set by [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.inner.broadcast()
    }

    /// As [`net::UdpSocket::set_option`].
    ///
    /// # Errors
    /// As that.
    pub fn set_option(&self, option: SocketOption) -> io::Result<()> {
        self.inner.set_option(option)
    }

    /// As [`net::UdpSocket::option`].
    ///
    /// # Errors
    /// As that.
    pub fn option(&self, name: OptionName) -> io::Result<SocketOption> {
        self.inner.option(name)
    }

    /// What has befallen it and nobody has heard of yet.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Waits until something can be received or sent, as asked; which it is.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        ready(self.inner.handle(), interest).await
    }

    /// Waits until a datagram has come, or an error waits.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub async fn readable(&self) -> io::Result<()> {
        ready_for(self.inner.handle(), Readiness::READABLE).await?;
        Ok(())
    }

    /// As [`net::UdpSocket::recv_from`], waiting. Dropped while it waits, it has taken nothing.
    ///
    /// # Errors
    /// As that.
    pub async fn recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = when(
            self.inner.handle(),
            Readiness::READABLE,
            |sockets, socket| sockets.recv_from(socket, to),
        );
        received
            .await
            .map(|received| (received.copied, received.from))
    }

    /// The same, and leaves it there.
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    pub async fn peek_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = when(
            self.inner.handle(),
            Readiness::READABLE,
            |sockets, socket| sockets.peek_from(socket, to),
        );
        received
            .await
            .map(|received| (received.copied, received.from))
    }

    /// [`recv_from`](UdpSocket::recv_from) of who need not know from whom.
    ///
    /// # Errors
    /// As that.
    pub async fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv_from(to).await.map(|(length, _)| length)
    }

    /// [`recv_from`](UdpSocket::recv_from) of who does not wait.
    ///
    /// # Errors
    /// As that, and `WouldBlock` if none has come.
    pub fn try_recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = (self.inner.handle()).with(|sockets, socket| sockets.recv_from(socket, to));
        received.map(|received| (received.copied, received.from))
    }

    /// As [`net::UdpSocket::send_to`].
    ///
    /// # Errors
    /// As that.
    pub async fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let to = lookup_host(to).await?.next();
        let to = to.ok_or_else(no_address)?;
        self.try_send_to(bytes, to)
    }

    /// The same to an address that need not be looked up.
    ///
    /// # Errors
    /// As that.
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        (self.inner.handle()).with(|sockets, socket| sockets.send_to(socket, bytes, to))
    }

    /// As [`net::UdpSocket::send`].
    ///
    /// # Errors
    /// As that.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        (self.inner.handle()).with(|sockets, socket| Sockets::send(sockets, socket, bytes))
    }

    /// As [`net::UdpSocket::send_segments_to`].
    ///
    /// # Errors
    /// As that.
    pub async fn send_segments_to(
        &self,
        bytes: &[u8],
        segment_bytes: usize,
        to: impl ToSocketAddrs,
    ) -> io::Result<usize> {
        let to = lookup_host(to).await?.next();
        let to = to.ok_or_else(no_address)?;
        self.try_send_segments_to(bytes, segment_bytes, to)
    }

    /// The same to an address that need not be looked up.
    ///
    /// # Errors
    /// As that.
    pub fn try_send_segments_to(
        &self,
        bytes: &[u8],
        segment_bytes: usize,
        to: SocketAddr,
    ) -> io::Result<usize> {
        self.inner.send_segments_to(bytes, segment_bytes, to)
    }

    /// As [`net::UdpSocket::send_segments`].
    ///
    /// # Errors
    /// As that.
    pub async fn send_segments(&self, bytes: &[u8], segment_bytes: usize) -> io::Result<usize> {
        self.inner.send_segments(bytes, segment_bytes)
    }
}
