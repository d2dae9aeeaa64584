//! Streams.

use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::{no_address, poll, ready, ready_for, when};
use crate::net::handle::Handle;
use crate::net::stream::{AT_ONCE, send_parts};
use crate::net::{self, Host};
use crate::socket::{How, Readiness, Shared, Socket, SocketError, Sockets, Waiter};
use braidnet_message::Message;
use braidnet_tcp::TcpInfo;
use core::net::SocketAddr;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};

/// A TCP connection of a [`Host`], as [`tokio::net::TcpStream`] is one of the system.
///
/// Dropped, it is closed as [`net::TcpStream`] is.
#[derive(Debug)]
pub struct TcpStream {
    inner: net::TcpStream,
    reads: Waiter<Arc<Shared>>,
    writes: Waiter<Arc<Shared>>,
}

impl TcpStream {
    /// Connects `host` to a peer. Of several addresses the first that can be connected to is taken. Dropped while it waits, it gives the opening up.
    ///
    /// # Errors
    /// As [`net::TcpStream::connect`].
    pub async fn connect(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let mut said = Err(no_address());
        for address in lookup_host(addresses).await?.collect::<Vec<_>>() {
            said = TcpStream::open(host, address).await;
            if said.is_ok() {
                break;
            }
        }
        said
    }

    async fn open(host: &Host, address: SocketAddr) -> io::Result<TcpStream> {
        let handle = Handle::open(host)?;
        let mut is_begun = false;
        when(
            &handle,
            Readiness::WRITABLE,
            |sockets, socket| match sockets.connect(socket, address) {
                Err(SocketError::InProgress) => {
                    is_begun = true;
                    Err(SocketError::WouldBlock)
                }
                Err(SocketError::Already) if is_begun => Err(SocketError::WouldBlock),
                result => result,
            },
        )
        .await?;
        Ok(TcpStream::from_std(net::TcpStream::of(handle)))
    }

    pub(super) fn of(host: &Host, socket: Socket) -> TcpStream {
        TcpStream::from_std(net::TcpStream::of(Handle::of(host, socket)))
    }

    /// One that was connected already.
    pub fn from_std(stream: net::TcpStream) -> TcpStream {
        TcpStream {
            reads: waiter(&stream),
            writes: waiter(&stream),
            inner: stream,
        }
    }

    /// What can be waited for by a thread.
    pub fn into_std(self) -> net::TcpStream {
        self.inner
    }

    /// What it is to threads, for options that tokio's does not have.
    pub fn get_ref(&self) -> &net::TcpStream {
        &self.inner
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// The address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected` if the connection is no more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Whether small segments leave at once.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.inner.set_nodelay(nodelay)
    }

    /// What was set by [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.inner.nodelay()
    }

    /// What TCP knows of the connection.
    ///
    /// # Errors
    /// `NotConnected` if it is no more.
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.inner.handle().with(Sockets::info)
    }

    /// What has befallen it and nobody has heard of yet.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Waits until it can be read from, or written to, or both, as asked; which it is. Trying may say `WouldBlock` all the same.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        ready(self.inner.handle(), interest).await
    }

    /// Waits until something can be read, or nothing more will come.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub async fn readable(&self) -> io::Result<()> {
        ready_for(self.inner.handle(), Readiness::READABLE).await?;
        Ok(())
    }

    /// Waits until something can be written, or nothing can any more.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub async fn writable(&self) -> io::Result<()> {
        ready_for(self.inner.handle(), Readiness::WRITABLE).await?;
        Ok(())
    }

    /// Copies out what has come; 0 bytes say that there will be no more.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has; what has befallen the connection.
    pub fn try_read(&self, to: &mut [u8]) -> io::Result<usize> {
        (self.inner.handle()).with(|sockets, socket| sockets.recv(socket, to))
    }

    /// Takes bytes to send, as many as there is room for; how many.
    ///
    /// # Errors
    /// `WouldBlock` if there is room for none; what has befallen the connection.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        (self.inner.handle()).with(|sockets, socket| sockets.send(socket, bytes))
    }

    /// Waits until something has come and copies it out, but leaves it there.
    ///
    /// # Errors
    /// As reading.
    pub async fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        when(
            self.inner.handle(),
            Readiness::READABLE,
            |sockets, socket| sockets.peek(socket, to),
        )
        .await
    }

    /// The same as a poll: the task of the last one, or of the last read, is woken.
    pub fn poll_peek(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let room = to.initialize_unfilled();
        let peeked = poll(
            &mut self.reads,
            Readiness::READABLE,
            cx,
            |sockets, socket| sockets.peek(socket, room),
        );
        peeked.map_ok(|length| {
            to.advance(length);
            length
        })
    }

    /// Waits until something has come and takes it out whole, as it came, without copying it; `None` is the end.
    ///
    /// # Errors
    /// As reading.
    pub async fn read_message(&self) -> io::Result<Option<Message>> {
        read_message(&self.inner).await
    }

    /// Takes bytes off the front of `message`, as [`net::TcpStream::write_message`] does, and waits until some are; how many. A future that is dropped while it
    /// waits has taken none.
    ///
    /// # Errors
    /// As writing: nothing is taken then.
    pub async fn write_message(&self, message: &mut Option<Message>) -> io::Result<usize> {
        write_message(&self.inner, message).await
    }

    /// Parts it into one who reads and one who writes, for as long as it is borrowed.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::borrowed(self)
    }

    /// Parts it into one who reads and one who writes, who can go to different tasks. When the writer is dropped, the peer hears of the end, and
    /// with the second of them the connection is closed.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::owned(self)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read(&mut self.reads, cx, to)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(&mut self.writes, cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_write(&mut self.writes, cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What was written leaves by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Says that no more will be written; what was still goes out, then a FIN.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.inner))
    }
}

/// One who waits for a stream.
pub(super) fn waiter(stream: &net::TcpStream) -> Waiter<Arc<Shared>> {
    let handle = stream.handle();
    Waiter::new(handle.host().shared().clone(), handle.socket())
}

pub(super) fn poll_read<S: Deref<Target = Shared>>(
    waiter: &mut Waiter<S>,
    cx: &mut Context<'_>,
    to: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let most = to.remaining().min(AT_ONCE);
    let room = to.initialize_unfilled_to(most);
    let read = poll(waiter, Readiness::READABLE, cx, |sockets, socket| {
        sockets.recv(socket, room)
    });
    read.map_ok(|length| to.advance(length))
}

pub(super) fn poll_write<S: Deref<Target = Shared>>(
    waiter: &mut Waiter<S>,
    cx: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    poll(waiter, Readiness::WRITABLE, cx, |sockets, socket| {
        send_parts(sockets, socket, parts)
    })
}

pub(super) async fn read_message(stream: &net::TcpStream) -> io::Result<Option<Message>> {
    when(stream.handle(), Readiness::READABLE, Sockets::recv_message).await
}

pub(super) async fn write_message(
    stream: &net::TcpStream,
    message: &mut Option<Message>,
) -> io::Result<usize> {
    when(stream.handle(), Readiness::WRITABLE, |sockets, socket| {
        sockets.send_message(socket, message)
    })
    .await
}

/// Of a connection that is no more there is nothing left to end, as with tokio's.
pub(super) fn shutdown(stream: &net::TcpStream) -> io::Result<()> {
    (stream.handle()).with(
        |sockets, socket| match sockets.shutdown(socket, How::Write) {
            Err(SocketError::NotConnected) => Ok(()),
            ended => ended,
        },
    )
}
