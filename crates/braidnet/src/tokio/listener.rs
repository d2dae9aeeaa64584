//! Listeners.

use super::{TcpStream, each_address, poll, when};
use crate::net::{self, Host};
use crate::socket::{Readiness, Shared, Sockets, Waiter};
use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use tokio::net::ToSocketAddrs;

/// A TCP socket that listens on a [`Host`], as [`tokio::net::TcpListener`] does on the system.
#[derive(Debug)]
pub struct TcpListener {
    inner: net::TcpListener,
    waiter: Waiter<Arc<Shared>>,
}

impl TcpListener {
    /// As [`net::TcpListener::bind`].
    ///
    /// # Errors
    /// As that.
    pub async fn bind(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<TcpListener> {
        let bound = each_address(addresses, |address| net::TcpListener::bind(host, address));
        bound.await.map(TcpListener::from_std)
    }

    /// One that was bound already.
    pub fn from_std(listener: net::TcpListener) -> TcpListener {
        let handle = listener.handle();
        let waiter = Waiter::new(handle.host().shared().clone(), handle.socket());
        TcpListener {
            inner: listener,
            waiter,
        }
    }

    /// What can be waited for by a thread.
    pub fn into_std(self) -> net::TcpListener {
        self.inner
    }

    /// What it is to threads, for options that tokio's does not have.
    pub fn get_ref(&self) -> &net::TcpListener {
        &self.inner
    }

    /// Waits for the next connection: its stream, and who has called. Dropped while it waits, it has accepted nobody.
    ///
    /// # Errors
    /// If the host has no room for another socket: what has called goes on waiting; `NetworkDown` if the host is.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let handle = self.inner.handle();
        let (socket, from) = when(handle, Readiness::READABLE, Sockets::accept).await?;
        Ok((TcpStream::of(handle.host(), socket), from))
    }

    /// The same as a poll: the task of the last one is woken.
    pub fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let host = self.inner.handle().host();
        let accepted = poll(&mut self.waiter, Readiness::READABLE, cx, Sockets::accept);
        accepted.map_ok(|(socket, from)| (TcpStream::of(host, socket), from))
    }

    /// The address and port that it listens on.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}
