//! Sockets shaped like std's, of a host that runs by itself: what `std::net` is to the system, to a stack of your own.
//!
//! A [`Host`] is a stack with an address on a device, turned by a thread of its own. [`TcpListener`], [`TcpStream`] and [`UdpSocket`] have the names and
//! meanings that they have in `std::net`; what std takes from the system, these take from the host that they are given. They can be used from any thread,
//! and by any number of them. What has no counterpart in std, [`socket`](crate::socket) has by the verbs of POSIX, over the same sockets.
//!
//! ```
//! use braidnet::device::{memory, Capabilities};
//! use braidnet::net::{Host, TcpListener, TcpStream};
//! use braidnet::StackConfig;
//! use std::io::{Read, Write};
//!
//! let (here, there) = memory::wire(Capabilities::ip(1500), 256);
//! let server = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
//! let client = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
//!
//! let listener = TcpListener::bind(&server, "10.0.0.2:7")?;
//! let echo = std::thread::spawn(move || -> std::io::Result<()> {
//!     let (stream, _) = listener.accept()?;
//!     std::io::copy(&mut &stream, &mut &stream)?;
//!     Ok(())
//! });
//! let mut stream = TcpStream::connect(&client, "10.0.0.2:7")?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut heard = String::new();
//! stream.read_to_string(&mut heard)?;
//! assert_eq!(heard, "hello");
//! echo.join().expect("no panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who turns it
//!
//! | a host that is made by | is turned by | choose it |
//! |---|---|---|
//! | [`Host::start`] | a thread of its own, which polls for a moment before it sleeps ([`Idle`](crate::process::Idle)) | where there is a processor for it: it works while the application does, and whoever blocks, or computes for long, holds up no connection |
//! | [`Host::driven`] | a task, between other tasks of a runtime (`tokio::drive`) | where application and stack have one processor: no switch between threads, nothing crosses from cache to cache. Tasks that do not give way hold up the stack, and a verb that blocks on the runtime's only thread waits for ever |
//! | [`Host::turned`] | the caller, when and at what time it likes | for simulations, and loops of one's own |
//!
//! Event loops wait for descriptors: [`TcpStream::readable_fd`] and [`TcpStream::writable_fd`], the same of [`UdpSocket`], and
//! [`TcpListener::readable_fd`]. With the feature `mio`, all three are sources of its events.
//!
//! What it refuses: IPv6, as long as the stack has none (`Unsupported`), and connections of a host with itself (`AddrNotAvailable`): it has no loopback.

mod datagrams;
mod driver;
mod event;
pub(crate) mod handle;
mod host;
mod listener;
#[cfg(feature = "mio")]
mod mio;
pub(crate) mod stream;

pub use datagrams::UdpSocket;
pub use driver::Driver;
pub use host::{Host, HostProcessor};
pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;

use crate::socket::SocketError;
use core::net::SocketAddr;
use std::io;
use std::net::ToSocketAddrs;

/// Tries one address after the other, as std does; what the last one said.
fn each_address<R>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> Result<R, SocketError>,
) -> io::Result<R> {
    let mut said = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(done) => return Ok(done),
            Err(error) => said = Some(error),
        }
    }
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "there is no address to try");
    Err(said.map_or_else(none, io::Error::from))
}
