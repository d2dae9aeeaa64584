//! Sockets for datagrams (UDP, RFC 768), over the ports of the stack.
//!
//! A port has one socket, whatever address that is bound to. What comes for another address, or to a connected socket from another than its
//! peer, is dropped as `udp.not_for_address` or `udp.not_from_peer`. What the network says of datagrams becomes an error of a connected socket
//! only, and only where it says that trying again is of no use, or that the path carries none so long and it matters to the socket, as on Linux; of others it waits for [`Stack::undelivered`].
//!
//! [`Stack::undelivered`]: crate::Stack::undelivered

use super::Sockets;
use super::error::SocketError;
use super::options::Options;
use super::table::{Datagrams, Role, Socket};
use super::verbs::v4;
use crate::error::WhyUndelivered;
use crate::inboxes::Only;
use crate::stack::{Received, Segments};
use braidnet_tcp::PathMtuDiscovery;
use braidnet_wire::address::Address;
use core::net::SocketAddr;

impl Sockets {
    /// A new socket for datagrams (UDP), neither bound nor connected. It is bound to a free port when it first sends or connects.
    ///
    /// It neither listens nor accepts nor is shut down ([`SocketError::NotSupported`]), and of all options it has
    /// [`Broadcast`](super::SocketOption::Broadcast), [`PathMtuDiscovery`](super::SocketOption::PathMtuDiscovery) and
    /// [`LocalPorts`](super::SocketOption::LocalPorts).
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::socket::Sockets;
    /// use braidnet::{Instant, StackConfig};
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut asker = Sockets::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let mut oracle = Sockets::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
    ///
    /// let ear = oracle.datagram_socket()?;
    /// oracle.bind(ear, "0.0.0.0:53".parse()?)?;
    /// let mouth = asker.datagram_socket()?;
    /// asker.send_to(mouth, b"who?", "10.0.0.2:53".parse()?)?;
    /// asker.turn(Instant::ZERO);
    /// oracle.turn(Instant::ZERO);
    /// let mut question = [0; 512];
    /// let received = oracle.recv_from(ear, &mut question)?;
    /// assert_eq!(&question[..received.copied], b"who?");
    /// assert_eq!(received.from.port(), asker.local_address(mouth)?.port());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If as many are open as may be.
    pub fn datagram_socket(&mut self) -> Result<Socket, SocketError> {
        let mut options = Options::new(&self.common);
        options.engine.path_mtu_discovery = PathMtuDiscovery::Dont;
        self.insert(Role::Datagrams(Datagrams::default()), options)
    }

    /// Sends one datagram of these bytes to `to`, whether the socket is connected or not; how many there were: all. It leaves with the next
    /// turn.
    ///
    /// # Errors
    /// What the network has said of an earlier one, once. [`SocketError::TooLong`] if no datagram is so long, or none that nobody [may
    /// fragment](super::SocketOption::PathMtuDiscovery); [`SocketError::Forbidden`] if
    /// `to` stands for every host of a network; [`SocketError::NoMemory`] if the stack's is used up. Nothing is sent then.
    pub fn send_to(
        &mut self,
        socket: Socket,
        bytes: &[u8],
        to: SocketAddr,
    ) -> Result<usize, SocketError> {
        self.send_datagrams(socket, Segments::one(bytes), Some(to))
    }

    /// Sends these bytes in datagrams of `segment_bytes` each, the last of which may have fewer, to `to`; how many bytes: all. They go down the stack as one, and leave as
    /// one packet where the device cuts it ([`Stack::send_segments_to`], Linux's `UDP_SEGMENT`).
    ///
    /// # Errors
    /// As [`send_to`](Sockets::send_to), with [`SocketError::TooLong`] if all bytes together are more than a datagram holds; [`SocketError::Invalid`] if
    /// `segment_bytes` is 0, or they are more than [`Stack::SEGMENTS_MAX`] datagrams. Nothing is sent then.
    ///
    /// [`Stack::send_segments_to`]: crate::Stack::send_segments_to
    /// [`Stack::SEGMENTS_MAX`]: crate::Stack::SEGMENTS_MAX
    pub fn send_segments_to(
        &mut self,
        socket: Socket,
        bytes: &[u8],
        segment_bytes: usize,
        to: SocketAddr,
    ) -> Result<usize, SocketError> {
        self.send_datagrams(socket, Segments::of(bytes, segment_bytes), Some(to))
    }

    /// [`send_segments_to`](Sockets::send_segments_to) whom the socket is connected with.
    ///
    /// # Errors
    /// As that, and [`SocketError::NoDestination`].
    pub fn send_segments(
        &mut self,
        socket: Socket,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<usize, SocketError> {
        self.send_datagrams(socket, Segments::of(bytes, segment_bytes), None)
    }

    /// Copies the next datagram out, as much of it as there is room for; the rest of it is lost, and the answer says so.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if none has come; what the network has said of one that was sent, once.
    pub fn recv_from(&mut self, socket: Socket, to: &mut [u8]) -> Result<Received, SocketError> {
        self.receive_datagram(socket, to, false)
    }

    /// The same, and leaves it there (`MSG_PEEK`).
    ///
    /// # Errors
    /// As [`recv_from`](Sockets::recv_from).
    pub fn peek_from(&mut self, socket: Socket, to: &mut [u8]) -> Result<Received, SocketError> {
        self.receive_datagram(socket, to, true)
    }

    /// Binds a datagram socket that is not bound to a port, or to one that is free where that is 0.
    pub(super) fn bind_datagrams(
        &mut self,
        socket: Socket,
        (address, port): (Address, u16),
    ) -> Result<(), SocketError> {
        let port = match port {
            0 => {
                let ports = self.table.get(socket)?.options.local_ports;
                let port = self.stack.bind_any(ports)?;
                port.ok_or(SocketError::AddressInUse)?
            }
            port => {
                self.stack.bind(port)?;
                port
            }
        };
        let entry = self.table.get(socket)?;
        entry.bound = Some((address, port));
        if let Role::Datagrams(datagrams) = &mut entry.role {
            datagrams.asked_for = address;
        }
        self.by_datagram_port.insert(port, socket);
        self.restrict(socket)
    }

    /// The same of one that may be bound; to what.
    fn bound_datagrams(&mut self, socket: Socket) -> Result<(Address, u16), SocketError> {
        let unbound = Address::v4([0; 4]);
        if self.table.get(socket)?.bound.is_none() {
            self.bind_datagrams(socket, (unbound, 0))?;
        }
        Ok(self.table.get(socket)?.bound.unwrap_or((unbound, 0)))
    }

    /// Has the port of a socket take what is for its address and from its peer.
    fn restrict(&mut self, socket: Socket) -> Result<(), SocketError> {
        let entry = self.table.get(socket)?;
        if let (Role::Datagrams(datagrams), Some((address, port))) = (&entry.role, entry.bound) {
            let only = Only {
                address: (!address.is_unspecified()).then_some(address),
                peer: datagrams.peer,
            };
            self.stack.restrict(port, only);
        }
        Ok(())
    }

    pub(super) fn connect_datagrams(
        &mut self,
        socket: Socket,
        to: SocketAddr,
    ) -> Result<(), SocketError> {
        let peer = v4(to.ip())?;
        if to.port() == 0 || peer.is_unspecified() {
            return Err(SocketError::AddressNotAvailable);
        }
        self.may_send_to(socket, &peer)?;
        let (_, port) = self.bound_datagrams(socket)?;
        let source = self.stack.source_for(&peer);
        let entry = self.table.get(socket)?;
        if let Role::Datagrams(datagrams) = &mut entry.role {
            datagrams.peer = Some(to);
            datagrams.path = None;
            let asked_for = datagrams.asked_for;
            let address = match asked_for.is_unspecified() {
                true => source,
                false => asked_for,
            };
            entry.bound = Some((address, port));
        }
        entry.error = None;
        // What is said of those that were sent before is not of the peer, or was not to be an error.
        while self.stack.undelivered(port).is_some() {}
        self.restrict(socket)
    }

    /// Sends one datagram to whom the socket is connected with.
    pub(super) fn send_datagram(
        &mut self,
        socket: Socket,
        bytes: &[u8],
    ) -> Result<usize, SocketError> {
        self.send_datagrams(socket, Segments::one(bytes), None)
    }

    /// Sends datagrams to `to`, or to whom the socket is connected with.
    fn send_datagrams(
        &mut self,
        socket: Socket,
        mut segments: Segments<'_>,
        to: Option<SocketAddr>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        let Role::Datagrams(datagrams) = &entry.role else {
            return Err(SocketError::NotSupported);
        };
        let to = to.or(datagrams.peer).ok_or(SocketError::NoDestination)?;
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        self.may_send_to(socket, &v4(to.ip())?)?;
        segments.uncut = self.is_uncut(socket, segments.longest(), to)?;
        let from = self.bound_datagrams(socket)?;
        self.stack.send_between(from, to, segments)?;
        self.wants_turn = true;
        Ok(segments.bytes.len())
    }

    /// Whether nobody may fragment what is sent to `to`, in datagrams of at most `longest` bytes.
    fn is_uncut(
        &mut self,
        socket: Socket,
        longest: usize,
        to: SocketAddr,
    ) -> Result<bool, SocketError> {
        let entry = self.table.get(socket)?;
        let known = match &entry.role {
            Role::Datagrams(datagrams) if datagrams.peer == Some(to) => datagrams.path,
            _ => None,
        };
        let path = known.filter(|(_, until)| *until > self.now);
        let fits_device = longest <= self.stack.datagram_within(usize::MAX);
        let fits =
            fits_device && path.is_none_or(|(mtu, _)| longest <= self.stack.datagram_within(mtu));
        match entry.options.engine.path_mtu_discovery {
            PathMtuDiscovery::Dont => Ok(false),
            PathMtuDiscovery::Want => Ok(fits),
            PathMtuDiscovery::Do if fits => Ok(true),
            PathMtuDiscovery::Probe if fits_device => Ok(true),
            PathMtuDiscovery::Do | PathMtuDiscovery::Probe => Err(SocketError::TooLong),
        }
    }

    fn may_send_to(&mut self, socket: Socket, to: &Address) -> Result<(), SocketError> {
        let entry = self.table.get(socket)?;
        match entry.options.broadcast || !self.stack.is_broadcast(to) {
            true => Ok(()),
            false => Err(SocketError::Forbidden),
        }
    }

    pub(super) fn receive_datagram(
        &mut self,
        socket: Socket,
        to: &mut [u8],
        peek: bool,
    ) -> Result<Received, SocketError> {
        let entry = self.table.get(socket)?;
        if !matches!(entry.role, Role::Datagrams(_)) {
            return Err(SocketError::NotSupported);
        }
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        let port = entry.datagram_port().ok_or(SocketError::WouldBlock)?;
        let received = match peek {
            true => self.stack.peek_from(port, to),
            false => self.stack.receive_from(port, to),
        };
        Ok(received?)
    }

    /// Something has come for a port: a datagram, or what the network says of one.
    pub(super) fn datagrams_stirred(&mut self, port: u16) {
        let Some(socket) = self.by_datagram_port.get(&port).copied() else {
            return;
        };
        let (now, limits) = (self.now, self.stack.path_limits());
        if let Ok(entry) = self.table.get(socket)
            && let Role::Datagrams(Datagrams {
                peer: Some(peer),
                path,
                ..
            }) = &mut entry.role
        {
            let discovery = entry.options.engine.path_mtu_discovery;
            let is_told_of_length = discovery != PathMtuDiscovery::Dont;
            while let Some(undelivered) = self.stack.undelivered(port) {
                if undelivered.to != *peer {
                    continue;
                }
                let error = match undelivered.why {
                    WhyUndelivered::Refused => SocketError::Refused,
                    WhyUndelivered::Unreachable => SocketError::HostUnreachable,
                    WhyUndelivered::Lost => continue,
                    WhyUndelivered::TooLong { path_mtu } => {
                        let mtu = path_mtu.max(limits.least_mtu) as usize;
                        *path = Some((mtu, now + limits.lifetime));
                        if !is_told_of_length {
                            continue;
                        }
                        SocketError::TooLong
                    }
                };
                entry.error = Some(error);
            }
        }
        self.note_change(socket);
    }

    /// Lets go of the port of a socket that is closed.
    pub(super) fn close_datagrams(&mut self, bound: Option<(Address, u16)>) {
        if let Some((_, port)) = bound {
            self.by_datagram_port.remove(&port);
            self.stack.release(port);
        }
    }
}
