//! Streams.

use super::handle::{Handle, Timeout};
use super::{Host, each_address};
use crate::socket::{OptionName, Readiness, Socket, SocketError, SocketOption, Sockets};
use braidnet_message::Message;
use braidnet_tcp::TcpInfo;
use braidnet_wire::time::Duration;
use core::fmt;
use core::net::SocketAddr;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Most bytes that are copied while the sockets are locked: about 10 µs' worth. Whoever has more to read or write does so piece by piece.
pub(crate) const AT_ONCE: usize = 128 << 10;

/// Takes from the front of `parts` what there is room for, [`AT_ONCE`] at most; the first that is not taken whole ends it.
pub(crate) fn send_parts(
    sockets: &mut Sockets,
    socket: Socket,
    parts: &[IoSlice<'_>],
) -> Result<usize, SocketError> {
    let mut sent = 0;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let most = part.len().min(AT_ONCE - sent);
        match sockets.send(socket, &part[..most]) {
            Ok(taken) => {
                sent += taken;
                if taken < part.len() {
                    break;
                }
            }
            // What was taken before counts; an error is told again.
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// A TCP connection of a [`Host`], as [`std::net::TcpStream`] is one of the system.
///
/// Handles on the same connection are made with [`try_clone`](TcpStream::try_clone). With the last it is closed, as with close(2): what was
/// written still goes out, unless something received has not been read, or [it does not linger](TcpStream::set_linger): then the peer is sent a reset.
pub struct TcpStream {
    handle: Arc<Handle>,
}

impl TcpStream {
    pub(crate) fn of(handle: Handle) -> TcpStream {
        TcpStream {
            handle: Arc::new(handle),
        }
    }

    #[cfg(any(feature = "mio", feature = "tokio"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Connects `host` to a peer. Of several addresses the first that can be connected to is taken; names are looked up by the system.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut`, `HostUnreachable`; `AddrNotAvailable` for an address of the host's own, `Unsupported` for an IPv6 one.
    pub fn connect(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<TcpStream> {
        each_address(addresses, |address| TcpStream::open(host, address, None))
    }

    /// The same to one address, within a time.
    ///
    /// # Errors
    /// As that, and `TimedOut` if the time is over; `InvalidInput` if it is no time at all.
    pub fn connect_timeout(
        host: &Host,
        address: &SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            let none = "nothing can be connected in no time";
            return Err(io::Error::new(ErrorKind::InvalidInput, none));
        }
        let opened = TcpStream::open(host, *address, Some(timeout));
        opened.map_err(|error| match error {
            SocketError::WouldBlock => SocketError::TimedOut.into(),
            error => error.into(),
        })
    }

    /// Begins to connect, and does not wait: the stream [does not block](TcpStream::set_nonblocking), and is writable once it is connected or has
    /// failed, which [`take_error`](TcpStream::take_error) tells.
    ///
    /// # Errors
    /// `AddrNotAvailable` for an address of the host's own, `Unsupported` for an IPv6 one; if the host has no room for another connection.
    pub fn begin(host: &Host, address: &SocketAddr) -> io::Result<TcpStream> {
        let handle = Handle::open(host)?;
        handle.set_nonblocking(true);
        handle.with(|sockets, socket| match sockets.connect(socket, *address) {
            Err(SocketError::InProgress) => Ok(()),
            begun => begun,
        })?;
        Ok(TcpStream::of(handle))
    }

    fn open(
        host: &Host,
        address: SocketAddr,
        timeout: Option<Duration>,
    ) -> Result<TcpStream, SocketError> {
        let handle = Handle::open(host)?;
        host.shared().connect(handle.socket(), address, timeout)?;
        Ok(TcpStream::of(handle))
    }

    /// The address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected` if the connection is no more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.handle.with(Sockets::peer_address)
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.handle.with(Sockets::local_address)
    }

    /// Ends one direction or both. Reading: what has come can be read, then comes the end; the peer hears nothing of it. Writing: what was written still
    /// goes out, then a FIN.
    ///
    /// # Errors
    /// `NotConnected` if the connection is no more.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.handle.shutdown(how)
    }

    /// Another handle on the same connection.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        let handle = self.handle.clone();
        Ok(TcpStream { handle })
    }

    /// Copies out what has come, and leaves it there; waits until something has.
    ///
    /// # Errors
    /// As reading.
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        self.receive(|sockets, socket| sockets.peek(socket, to))
    }

    /// How long a read waits at most: then it says `WouldBlock`. `None`: for ever. For all handles.
    ///
    /// # Errors
    /// `InvalidInput` if it is no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.read_timeout().set(timeout)
    }

    /// What was set by [`set_read_timeout`](TcpStream::set_read_timeout).
    ///
    /// # Errors
    /// None.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.handle.read_timeout().get())
    }

    /// How long a write waits at most for room: then it says `WouldBlock`. `None`: for ever. For all handles.
    ///
    /// # Errors
    /// `InvalidInput` if it is no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.write_timeout().set(timeout)
    }

    /// What was set by [`set_write_timeout`](TcpStream::set_write_timeout).
    ///
    /// # Errors
    /// None.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.handle.write_timeout().get())
    }

    /// Whether reads and writes that would wait say `WouldBlock` at once, for all handles.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.handle.set_nonblocking(nonblocking);
        Ok(())
    }

    /// What is readable while reading may not have to wait, for event loops: from when something has come, or the end, until a read that
    /// [does not block](TcpStream::set_nonblocking) says `WouldBlock`. Made when it is first asked for; closed with the stream.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn readable_fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.handle.events()?.readable())
    }

    /// What is writable while writing may not have to wait, likewise. It is another descriptor, and to be waited for with `POLLOUT` alone.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn writable_fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.handle.events()?.writable())
    }

    /// Whether small segments leave at once (RFC 9293 §3.7.4).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.handle.set(SocketOption::NoDelay(nodelay))
    }

    /// What was set by [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.option(OptionName::NoDelay)? == SocketOption::NoDelay(true))
    }

    /// Hops that packets may take, 1 to 255.
    ///
    /// # Errors
    /// `InvalidInput` for any other number.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hops = u8::try_from(ttl).map_err(|_| SocketError::Invalid)?;
        self.handle.set(SocketOption::TimeToLive(hops))
    }

    /// What was set by [`set_ttl`](TcpStream::set_ttl).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn ttl(&self) -> io::Result<u32> {
        match self.option(OptionName::TimeToLive)? {
            SocketOption::TimeToLive(hops) => Ok(hops.into()),
            _ => Err(SocketError::NoSuchOption.into()),
        }
    }

    /// `Some(0)`: closing resets the connection. Any other time changes nothing: closing does not wait.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.handle.set(SocketOption::Linger(linger))
    }

    /// What was set by [`set_linger`](TcpStream::set_linger).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        match self.option(OptionName::Linger)? {
            SocketOption::Linger(time) => Ok(time),
            _ => Err(SocketError::NoSuchOption.into()),
        }
    }

    /// Asks a peer that has been silent for so long, 1 to 32,767 seconds, whether it is still there, or does not ask (RFC 9293 §3.8.4).
    ///
    /// # Errors
    /// `InvalidInput` for any other time.
    pub fn set_keepalive(&self, idle: Option<Duration>) -> io::Result<()> {
        if let Some(idle) = idle {
            self.handle.set(SocketOption::KeepIdle(idle))?;
        }
        self.handle.set(SocketOption::KeepAlive(idle.is_some()))
    }

    /// How long what was written may go unacknowledged before the connection is given up; `None` leaves it to the number of timeouts (RFC 5482 §3).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.set(SocketOption::UserTimeout(timeout))
    }

    /// What has befallen the connection and nobody has heard of yet.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.handle.take_error()
    }

    /// Sets any option: buffer sizes, congestion marks, what is not above.
    ///
    /// # Errors
    /// `InvalidInput` if the value makes no sense or comes too late, `Unsupported` if the stack has not turned it on.
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

    /// What TCP knows of the connection.
    ///
    /// # Errors
    /// `NotConnected` if it is no more.
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.handle.with(Sockets::info)
    }

    /// Takes the next received bytes out whole, as they came, without copying them; waits until some have, `None` is the end. The message has its
    /// memory from the host's until it is dropped.
    ///
    /// # Errors
    /// As reading.
    pub fn read_message(&self) -> io::Result<Option<Message>> {
        self.receive(Sockets::recv_message)
    }

    /// Takes bytes off the front of `message` to send them, as many as there is room for, in the buffers that they are in, without copying them
    /// ([`Sockets::send_message`] says which are all the same); how many. Waits until some are; 0 says that there were none. What is left of it stays there: nothing where
    /// all is taken. The message may be one that was [read](TcpStream::read_message), of any host's connection, or [made](Host::allocate).
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::net::{Host, TcpListener, TcpStream};
    /// use braidnet::StackConfig;
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    /// let server = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
    /// let client = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
    ///
    /// let listener = TcpListener::bind(&server, "10.0.0.2:7")?;
    /// let echo = std::thread::spawn(move || -> std::io::Result<()> {
    ///     let (stream, _) = listener.accept()?;
    ///     while let Some(message) = stream.read_message()? {
    ///         let mut message = Some(message);
    ///         while message.is_some() {
    ///             stream.write_message(&mut message)?;
    ///         }
    ///     }
    ///     Ok(())
    /// });
    /// let stream = TcpStream::connect(&client, "10.0.0.2:7")?;
    /// let mut message = client.allocate(stream.info()?.smss as usize)?;
    /// message.extend_from_slice_summed(b"hello");
    /// assert_eq!(stream.write_message(&mut Some(message))?, 5);
    /// let heard = stream.read_message()?.expect("an echo");
    /// assert_eq!(heard.bytes(), b"hello");
    /// stream.shutdown(std::net::Shutdown::Write)?;
    /// echo.join().expect("no panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As writing: nothing is taken then.
    pub fn write_message(&self, message: &mut Option<Message>) -> io::Result<usize> {
        self.send(|sockets, socket| sockets.send_message(socket, message))
    }

    fn receive<R>(
        &self,
        attempt: impl FnMut(&mut Sockets, Socket) -> Result<R, SocketError>,
    ) -> io::Result<R> {
        let timeout: &Timeout = self.handle.read_timeout();
        self.handle.blocking(Readiness::READABLE, timeout, attempt)
    }

    fn send(
        &self,
        attempt: impl FnMut(&mut Sockets, Socket) -> Result<usize, SocketError>,
    ) -> io::Result<usize> {
        let timeout: &Timeout = self.handle.write_timeout();
        self.handle.blocking(Readiness::WRITABLE, timeout, attempt)
    }
}

impl Read for &TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = to.len().min(AT_ONCE);
        let to = &mut to[..most];
        self.receive(|sockets, socket| sockets.recv(socket, to))
    }

    fn read_vectored(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.receive(|sockets, socket| {
            let mut total = 0;
            for to in to.iter_mut().filter(|to| !to.is_empty()) {
                // The first says why there is nothing; the others are not asked then.
                if total > 0 && (total >= AT_ONCE || sockets.readable_bytes(socket)? == 0) {
                    break;
                }
                let most = to.len().min(AT_ONCE - total);
                total += sockets.recv(socket, &mut to[..most])?;
            }
            Ok(total)
        })
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        self.send(|sockets, socket| sockets.send(socket, bytes))
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(|sockets, socket| send_parts(sockets, socket, pieces))
    }

    /// What was written leaves by itself.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }

    fn read_vectored(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(to)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("addr", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}
