//! Sockets shaped like tokio's, of a host of your own: what `tokio::net` is to the system.
//!
//! [`TcpListener`], [`TcpStream`] and [`UdpSocket`] have the names and meanings that they have in `tokio::net`; what tokio takes from the system,
//! these take from the [`Host`] that they are given. They work on a runtime of any flavour, and need none of its drivers: a socket wakes its
//! task itself. The host is turned by [a thread of its own](Host::start), or [driven](drive) by a task on the runtime's; [when to choose which](crate::net#who-turns-it).
//!
//! ```
//! use braidnet::device::{memory, Capabilities};
//! use braidnet::net::Host;
//! use braidnet::tokio::{TcpListener, TcpStream};
//! use braidnet::StackConfig;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let (here, there) = memory::wire(Capabilities::ip(1500), 256);
//! let server = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
//! let client = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
//!
//! let listener = TcpListener::bind(&server, "10.0.0.2:7").await?;
//! let echo = tokio::spawn(async move {
//!     let (mut stream, _) = listener.accept().await?;
//!     let (mut reads, mut writes) = stream.split();
//!     tokio::io::copy(&mut reads, &mut writes).await
//! });
//! let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut heard = String::new();
//! stream.read_to_string(&mut heard).await?;
//! assert_eq!(heard, "hello");
//! assert_eq!(echo.await??, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting
//!
//! Who is told to wait leaves a waker with the sockets ([`Waiter`] has the protocol). What does something (accepts, copies bytes in or out)
//! does it in the very poll that says so, and nothing in one that says to wait: a future that is dropped has done nothing, but for
//! [`TcpStream::connect`], whose connection is given up with it. Each future, each half of a stream and each stream's reader and writer wait by themselves, any number of them.
//!
//! Whoever drops the last handle on a [`Host`] or the last of its sockets in a task does not wait for what was written to arrive, as a thread would: another
//! thread does. A process that ends at once may lose it: wait for the peers' ends, or drop a handle on the host behind the runtime.
//!
//! Where tokio's `poll_` functions take `&self` and share one place for a waker, these take `&mut self`. A task that always finds something to do
//! lets others go on from time to time ([`tokio::task::coop`]).

mod datagrams;
mod driving;
mod listener;
mod split;
mod stream;
#[cfg(test)]
mod tests;

pub use datagrams::UdpSocket;
pub use driving::drive;
pub use listener::TcpListener;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::TcpStream;

#[cfg(doc)]
use crate::net::Host;
use crate::net::handle::Handle;
use crate::socket::{Readiness, Shared, Socket, SocketError, Sockets, Waiter};
use core::future::poll_fn;
use core::net::SocketAddr;
use core::ops::Deref;
use core::task::{Context, Poll, ready};
use std::io;
use tokio::io::{Interest, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::task::coop::poll_proceed;

/// Tries, and waits as often as the answer is that it would block. Nothing has been done if it is dropped while it waits.
async fn when<R>(
    handle: &Handle,
    wanted: Readiness,
    mut attempt: impl FnMut(&mut Sockets, Socket) -> Result<R, SocketError>,
) -> io::Result<R> {
    let shared: &Shared = handle.host().shared();
    let mut waiter = Waiter::new(shared, handle.socket());
    poll_fn(|cx| poll(&mut waiter, wanted, cx, &mut attempt)).await
}

/// The same, once.
fn poll<R, S: Deref<Target = Shared>>(
    waiter: &mut Waiter<S>,
    wanted: Readiness,
    cx: &mut Context<'_>,
    attempt: impl FnOnce(&mut Sockets, Socket) -> Result<R, SocketError>,
) -> Poll<io::Result<R>> {
    let budget = ready!(poll_proceed(cx));
    let socket = waiter.socket();
    let polled = waiter.poll(wanted, cx, |sockets| attempt(sockets, socket));
    polled.map(|result| {
        budget.made_progress();
        result.map_err(io::Error::from)
    })
}

/// Waits until the socket is ready for some of `wanted`, or an error waits, or it is hung up.
async fn ready_for(handle: &Handle, wanted: Readiness) -> io::Result<Readiness> {
    when(handle, wanted, |sockets, socket| {
        let ready = sockets.readiness(socket)?;
        match ready.intersects(wanted | Readiness::ALWAYS) {
            true => Ok(ready),
            false => Err(SocketError::WouldBlock),
        }
    })
    .await
}

/// The same in tokio's words.
async fn ready(handle: &Handle, interest: Interest) -> io::Result<Ready> {
    let mut wanted = Readiness::empty();
    wanted.set(Readiness::READABLE, interest.is_readable());
    wanted.set(Readiness::WRITABLE, interest.is_writable());
    let ready = ready_for(handle, wanted).await?;
    let words = [
        (Readiness::READABLE, interest.is_readable(), Ready::READABLE),
        (Readiness::WRITABLE, interest.is_writable(), Ready::WRITABLE),
        (
            Readiness::READ_HANG_UP,
            interest.is_readable(),
            Ready::READ_CLOSED,
        ),
        (
            Readiness::HANG_UP,
            interest.is_writable(),
            Ready::WRITE_CLOSED,
        ),
        (Readiness::ERROR, true, Ready::ERROR),
    ];
    let said = words
        .into_iter()
        .filter(|(own, asked, _)| *asked && ready.contains(*own));
    Ok(said.fold(Ready::EMPTY, |all, (_, _, word)| all | word))
}

/// Tries one address after the other; what the last one said.
async fn each_address<R>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut said = Err(no_address());
    for address in lookup_host(addresses).await? {
        said = attempt(address);
        if said.is_ok() {
            break;
        }
    }
    said
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "there is no address to try")
}
