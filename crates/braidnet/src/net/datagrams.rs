//! Datagrams.

use super::handle::Handle;
use super::{Host, each_address};
use crate::socket::{OptionName, Readiness, SocketError, SocketOption, Sockets};
use crate::stack::Received;
use braidnet_wire::time::Duration;
use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A UDP socket of a [`Host`], as [`std::net::UdpSocket`] is one of the system.
///
/// Handles on the same socket are made with [`try_clone`](UdpSocket::try_clone); with the last its port is free again.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::net::{Host, UdpSocket};
/// use braidnet::StackConfig;
///
/// let (here, there) = memory::wire(Capabilities::ip(1500), 256);
/// let oracle = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
/// let asker = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
///
/// let ear = UdpSocket::bind(&oracle, "10.0.0.2:53")?;
/// let mouth = UdpSocket::bind(&asker, "0.0.0.0:0")?;
/// mouth.send_to(b"who?", "10.0.0.2:53")?;
/// let mut question = [0; 512];
/// let (length, from) = ear.recv_from(&mut question)?;
/// assert_eq!(&question[..length], b"who?");
/// assert_eq!(from.port(), mouth.local_addr()?.port());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UdpSocket {
    handle: Arc<Handle>,
}

impl UdpSocket {
    /// Binds to a port of one of `host`'s addresses, or of all, which the unspecified one stands for; port 0 stands for a free one. Of several
    /// addresses the first that can be had is taken.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable` if the address is not the host's, `Unsupported` for an IPv6 one.
    pub fn bind(host: &Host, addresses: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        each_address(addresses, |address| UdpSocket::bind_one(host, address))
    }

    pub(crate) fn bind_one(host: &Host, address: SocketAddr) -> Result<UdpSocket, SocketError> {
        let socket = host.shared().with(Sockets::datagram_socket)?;
        let handle = Handle::of(host, socket);
        (host.shared()).with(|sockets| sockets.bind(socket, address))?;
        Ok(UdpSocket {
            handle: Arc::new(handle),
        })
    }

    /// Waits for the next datagram and copies it out, as much of it as there is room for; the rest of it is lost. How many bytes, and who has
    /// sent it.
    ///
    /// # Errors
    /// `WouldBlock` if none has come in time, or at once where it does not block; of a connected socket what the network has said of one that
    /// it sent (`ConnectionRefused`, `HostUnreachable`), once.
    pub fn recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive(|sockets, socket| sockets.recv_from(socket, to))
    }

    /// The same, and leaves it there.
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    pub fn peek_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive(|sockets, socket| sockets.peek_from(socket, to))
    }

    /// [`recv_from`](UdpSocket::recv_from) of who need not know from whom: of a connected socket it is its peer.
    ///
    /// # Errors
    /// As that.
    pub fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv_from(to).map(|(length, _)| length)
    }

    /// The same, and leaves it there.
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        self.peek_from(to).map(|(length, _)| length)
    }

    fn receive(
        &self,
        attempt: impl FnMut(&mut Sockets, crate::socket::Socket) -> Result<Received, SocketError>,
    ) -> io::Result<(usize, SocketAddr)> {
        let handle = &self.handle;
        let received = handle.blocking(Readiness::READABLE, handle.read_timeout(), attempt)?;
        Ok((received.copied, received.from))
    }

    /// Sends one datagram to the first of these addresses; how many bytes: all.
    ///
    /// # Errors
    /// `InvalidInput` if there is no address, or no datagram is so long; `PermissionDenied` if it is to go to every host of a network and that
    /// was not [allowed](UdpSocket::set_broadcast); `OutOfMemory` if the stack's is used up.
    pub fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let to = first_of(to)?;
        (self.handle).with(|sockets, socket| sockets.send_to(socket, bytes, to))
    }

    /// Sends these bytes to the first of these addresses in datagrams of `segment_bytes` each, the last of which may have fewer; how many bytes: all. They go down the
    /// stack as one, and leave as one packet where the device cuts it ([`Stack::send_segments_to`](crate::Stack::send_segments_to), Linux's `UDP_SEGMENT`).
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::net::{Host, UdpSocket};
    /// use braidnet::StackConfig;
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    /// let listener = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
    /// let speaker = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
    ///
    /// let ear = UdpSocket::bind(&listener, "10.0.0.2:53")?;
    /// let mouth = UdpSocket::bind(&speaker, "0.0.0.0:0")?;
    /// assert_eq!(mouth.send_segments_to(&[7; 2500], 1000, "10.0.0.2:53")?, 2500);
    /// for expected in [1000, 1000, 500] {
    ///     assert_eq!(ear.recv(&mut [0; 2000])?, expected);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`send_to`](UdpSocket::send_to); `InvalidInput` also if `segment_bytes` is 0, all bytes together are more than a datagram holds, or they are
    /// more than [`Stack::SEGMENTS_MAX`](crate::Stack::SEGMENTS_MAX) datagrams.
    pub fn send_segments_to(
        &self,
        bytes: &[u8],
        segment_bytes: usize,
        to: impl ToSocketAddrs,
    ) -> io::Result<usize> {
        let to = first_of(to)?;
        (self.handle)
            .with(|sockets, socket| sockets.send_segments_to(socket, bytes, segment_bytes, to))
    }

    /// [`send_segments_to`](UdpSocket::send_segments_to) whom the socket is connected with.
    ///
    /// # Errors
    /// As that, and `NotConnected`.
    pub fn send_segments(&self, bytes: &[u8], segment_bytes: usize) -> io::Result<usize> {
        (self.handle).with(|sockets, socket| sockets.send_segments(socket, bytes, segment_bytes))
    }

    /// Sends one datagram to whom the socket is connected with; how many bytes: all.
    ///
    /// # Errors
    /// As [`send_to`](UdpSocket::send_to), and `NotConnected`.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        (self.handle).with(|sockets, socket| sockets.send(socket, bytes))
    }

    /// From now on what is [sent](UdpSocket::send) goes to the first of these addresses that can be, datagrams come from there only, and what the network
    /// says of those that were sent comes as errors.
    ///
    /// # Errors
    /// As [`send_to`](UdpSocket::send_to), and `AddrNotAvailable` if nobody can have that address.
    pub fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<()> {
        let host = self.handle.host();
        let socket = self.handle.socket();
        each_address(addresses, |address| {
            (host.shared()).with(|sockets| sockets.connect(socket, address))
        })
    }

    /// The address and port of this side.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.handle.with(Sockets::local_address)
    }

    /// Whom it is connected with.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.handle.with(Sockets::peer_address)
    }

    /// Another handle on the same socket.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        let handle = self.handle.clone();
        Ok(UdpSocket { handle })
    }

    /// How long receiving waits at most: then it says `WouldBlock`. `None`: for ever. For all handles. Sending never waits.
    ///
    /// # Errors
    /// `InvalidInput` if it is no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.read_timeout().set(timeout)
    }

    /// What was set by [`set_read_timeout`](UdpSocket::set_read_timeout).
    ///
    /// # Errors
    /// None.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.handle.read_timeout().get())
    }

    /// Whether receiving says `WouldBlock` at once where nothing has come, for all handles.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.handle.set_nonblocking(nonblocking);
        Ok(())
    }

    /// What is readable while a datagram, or what the network has said of one, may be there to be received, for event loops: from when something has
    /// come until a receiving verb that [does not block](UdpSocket::set_nonblocking) says `WouldBlock`. Made when it is first asked for; closed with
    /// the socket.
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::net::{Host, UdpSocket};
    /// use braidnet::StackConfig;
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use std::io::ErrorKind;
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    /// let oracle = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
    /// let asker = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
    ///
    /// let ear = UdpSocket::bind(&oracle, "10.0.0.2:53")?;
    /// ear.set_nonblocking(true)?;
    /// UdpSocket::bind(&asker, "0.0.0.0:0")?.send_to(b"who?", "10.0.0.2:53")?;
    /// poll(&mut [PollFd::from_borrowed_fd(ear.readable_fd()?, PollFlags::IN)], None)?;
    /// let mut question = [0; 512];
    /// assert_eq!(ear.recv(&mut question)?, 4);
    /// assert_eq!(ear.recv(&mut question).unwrap_err().kind(), ErrorKind::WouldBlock);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn readable_fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.handle.events()?.readable())
    }

    /// What is writable while sending need not wait, likewise: always. It is another descriptor, and to be waited for with `POLLOUT` alone.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn writable_fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.handle.events()?.writable())
    }

    /// Whether datagrams may go to every host of a network.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.handle.set(SocketOption::Broadcast(broadcast))
    }

    /// What was set by [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn broadcast(&self) -> io::Result<bool> {
        match self.handle.option(OptionName::Broadcast)? {
            SocketOption::Broadcast(on) => Ok(on),
            _ => Err(SocketError::NoSuchOption.into()),
        }
    }

    /// Sets any option that sockets of datagrams have: whether routers may fragment them ([`SocketOption::PathMtuDiscovery`]), and what is above.
    ///
    /// # Errors
    /// `Unsupported` if they have it not, `NetworkDown` if the host is.
    pub fn set_option(&self, option: SocketOption) -> io::Result<()> {
        self.handle.set(option)
    }

    /// What an option is set to.
    ///
    /// # Errors
    /// As [`set_option`](UdpSocket::set_option).
    pub fn option(&self, name: OptionName) -> io::Result<SocketOption> {
        self.handle.option(name)
    }

    /// What has befallen it and nobody has heard of yet.
    ///
    /// # Errors
    /// `NetworkDown` if the host is.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.handle.take_error()
    }

    #[cfg(any(feature = "mio", feature = "tokio"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// The first of these addresses.
fn first_of(addresses: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let none = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "there is no address to send to",
        )
    };
    addresses.to_socket_addrs()?.next().ok_or_else(none)
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("local_addr", &self.local_addr().ok())
            .field("peer_addr", &self.peer_addr().ok())
            .finish()
    }
}
