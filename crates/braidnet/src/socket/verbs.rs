//! The verbs of sockets.

use super::error::SocketError;
use super::options::{OptionName, Options, SocketOption};
use super::table::{Entry, Listening, Role, Socket};
use super::{How, Sockets};
use crate::error::{CloseReason, ReceiveError};
use crate::stack::{Connection, FirstData, LocalEnd, Opening};
use braidnet_wire::address::Address;
use braidnet_wire::time::Duration;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

impl Sockets {
    /// A new socket for a stream of bytes (TCP), neither bound nor connected. For [datagrams](Sockets::datagram_socket) there are others.
    ///
    /// # Errors
    /// If as many are open as may be.
    pub fn socket(&mut self) -> Result<Socket, SocketError> {
        let options = Options::new(&self.common);
        self.insert(Role::Idle, options)
    }

    /// Binds a socket to a port of one of the stack's addresses, or of all, which the unspecified address stands for. Port 0 stands
    /// for one that is free.
    ///
    /// # Errors
    /// If the socket is bound or connected already, the address is not the stack's, or the port is in use.
    pub fn bind(&mut self, socket: Socket, at: SocketAddr) -> Result<(), SocketError> {
        let entry = self.table.get(socket)?;
        let is_bindable = matches!(entry.role, Role::Idle | Role::Datagrams(_));
        if entry.bound.is_some() || !is_bindable {
            return Err(SocketError::Invalid);
        }
        let options = entry.options;
        let takes_datagrams = matches!(entry.role, Role::Datagrams(_));
        let address = v4(at.ip())?;
        if !address.is_unspecified() && !self.addresses.contains(&address) {
            return Err(SocketError::AddressNotAvailable);
        }
        if takes_datagrams {
            return self.bind_datagrams(socket, (address, at.port()));
        }
        let port = match at.port() {
            0 if options.bind_without_port => 0,
            0 => self.free_port(address, options.local_ports)?,
            port if self.is_taken(address, port, options.reuse_address) => {
                return Err(SocketError::AddressInUse);
            }
            port => port,
        };
        self.table.get(socket)?.bound = Some((address, port));
        Ok(())
    }

    /// Waits for connections to the port that the socket is bound to, or to a free one. `backlog` and one more may be
    /// established and wait to be [accepted](Sockets::accept), as on Linux, and as many half-open. Of a socket that
    /// listens already it changes how many; where more wait, they stay.
    ///
    /// # Errors
    /// If the socket is connected, or another listens there.
    pub fn listen(&mut self, socket: Socket, backlog: u32) -> Result<(), SocketError> {
        let capacity = backlog.saturating_add(1);
        let entry = self.table.get(socket)?;
        match &mut entry.role {
            Role::Idle => {}
            Role::Listening(listening) => {
                listening.capacity = capacity as usize;
                let (address, port) = (listening.address, listening.port);
                self.stack.set_backlog_at(address, port, capacity);
                return Ok(());
            }
            Role::Datagrams(_) => return Err(SocketError::NotSupported),
            _ => return Err(SocketError::Invalid),
        }
        let unbound = Address::v4([0; 4]);
        let ports = entry.options.local_ports;
        let (address, port) = match entry.bound.unwrap_or((unbound, 0)) {
            (address, 0) => (address, self.free_port(address, ports)?),
            bound => bound,
        };
        let only = (!address.is_unspecified()).then_some(address);
        self.stack
            .listen_at(only, port, capacity)
            .map_err(|_| SocketError::AddressInUse)?;
        let entry = self.table.get(socket)?;
        self.stack
            .configure_listener(only, port, &entry.options.engine);
        entry.bound = Some((address, port));
        entry.role = Role::Listening(Listening {
            address: only,
            port,
            capacity: capacity as usize,
            queue: VecDeque::new(),
        });
        self.listeners.push(socket);
        self.note_change(socket);
        Ok(())
    }

    /// The next connection that waits at a listener, as a socket set like it, and who has called. One that has ended meanwhile
    /// is handed out all the same, as on Linux: its first verb says how. Not so where [more](crate::StackConfig::ended_connections)
    /// have ended since than are kept: such are `socket.dead_unaccepted`.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if none waits; if the socket does not listen, or no more can be opened.
    pub fn accept(&mut self, listener: Socket) -> Result<(Socket, SocketAddr), SocketError> {
        let entry = self.table.get(listener)?;
        let options = entry.options;
        let listening = match &mut entry.role {
            Role::Listening(listening) => listening,
            Role::Datagrams(_) => return Err(SocketError::NotSupported),
            _ => return Err(SocketError::Invalid),
        };
        let (connection, tuple) = loop {
            let connection = *listening.queue.front().ok_or(SocketError::WouldBlock)?;
            if let Some(tuple) = self.stack.tuple(connection) {
                break (connection, tuple);
            }
            // It has ended, and others have its place and all that is kept of those who ended.
            listening.queue.pop_front();
            self.counts.dead_unaccepted += 1;
        };
        let socket = self.insert(Role::Open(connection, tuple), options)?;
        if let Role::Listening(listening) = &mut self.table.get(listener)?.role {
            listening.queue.pop_front();
        }
        self.stack.claim(connection);
        self.by_connection.insert(connection, socket);
        self.stack.take_up(connection);
        self.wants_turn = true;
        self.stack.cork(connection, options.cork);
        let ended = self.stack.standing(connection).ended;
        let end = ended.and_then(|reason| self.end_of(connection, reason, false));
        let entry = self.table.get(socket)?;
        entry.is_known_open = true;
        entry.error = end;
        self.note_change(socket);
        Ok((
            socket,
            SocketAddr::new(tuple.remote.into(), tuple.remote_port),
        ))
    }

    /// Opens a connection to `to`: the answer is [`SocketError::InProgress`], and the socket is writable once it is established or
    /// has failed. Asked again, it says how it went: nothing if well, and then that it is connected. Where it is to [wait for
    /// data](SocketOption::FastOpenConnect) that travel with the SYN, and they would, it is done at once.
    ///
    /// A datagram socket is connected at once, and as often as asked: what it sends goes to `to` unless it is said where, it receives from
    /// there only, and hears what the network says of what it has sent.
    ///
    /// # Errors
    /// As said, and if the socket listens, no port or room is left, or the address is an IPv6 one.
    pub fn connect(&mut self, socket: Socket, to: SocketAddr) -> Result<(), SocketError> {
        self.begin(socket, to, None).map(|_| ())
    }

    /// The same with bytes that travel with the SYN (`MSG_FASTOPEN`; RFC 7413), as many as it has room for: how many, and that the
    /// connection is being opened. As on Linux, the rest is to be [sent](Sockets::send) once it is open, and none are taken where they could
    /// not travel so, which is so until the server is known to take such: then the answer is [`SocketError::InProgress`]. Asked again
    /// once it is open, it sends.
    ///
    /// # Errors
    /// As said, and as [`connect`](Sockets::connect).
    pub fn connect_with(
        &mut self,
        socket: Socket,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Result<usize, SocketError> {
        self.begin(socket, to, Some(bytes))
    }

    /// How many bytes the connection begins with, if any.
    fn begin(
        &mut self,
        socket: Socket,
        to: SocketAddr,
        bytes: Option<&[u8]>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        match entry.role {
            Role::Idle => {}
            Role::Opening(..) if entry.is_held => {
                let bytes = bytes.ok_or(SocketError::Connected)?;
                return self.start(socket, Some(bytes));
            }
            Role::Opening(..) => return Err(SocketError::Already),
            Role::Open(..) if !mem::replace(&mut entry.is_known_open, true) => {
                // It is over already, and has not been asked since.
                return match (entry.error.take(), bytes) {
                    (Some(error), _) => Err(error),
                    (None, Some(bytes)) => self.send(socket, bytes),
                    (None, None) => Ok(0),
                };
            }
            Role::Open(..) => return Err(SocketError::Connected),
            Role::Listening(_) => return Err(SocketError::Connected),
            Role::Datagrams(_) if bytes.is_some() => return Err(SocketError::NotSupported),
            Role::Datagrams(_) => return self.connect_datagrams(socket, to).map(|()| 0),
            Role::Failed => {
                let why = entry.error.take().unwrap_or(SocketError::Aborted);
                *entry = Entry {
                    bound: entry.bound,
                    ..Entry::new(Role::Idle, entry.options)
                };
                return Err(why);
            }
        }
        if to.port() == 0 || v4(to.ip())?.is_unspecified() {
            return Err(SocketError::AddressNotAvailable);
        }
        let waits = bytes.is_none() && entry.options.fast_open_connect;
        let from = LocalEnd {
            bound: entry.bound,
            ports: entry.options.local_ports,
        };
        let connection = self.stack.hold(from, to, bytes.is_some() || waits)?;
        let tuple = self.stack.tuple(connection).unwrap_or_default();
        self.stack.claim(connection);
        self.by_connection.insert(connection, socket);
        entry.role = Role::Opening(connection, tuple);
        entry.error = None;
        entry.is_held = waits && self.stack.takes_data_with_syn(connection);
        if entry.is_held {
            self.note_change(socket);
            return Ok(0);
        }
        self.start(socket, bytes)
    }

    /// Begins the connection that a socket opens, with these bytes if they travel with the SYN; how many do.
    pub(super) fn start(
        &mut self,
        socket: Socket,
        bytes: Option<&[u8]>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        let connection = entry.connection().ok_or(SocketError::NotConnected)?;
        let opening = Opening {
            settings: &entry.options.settings(&self.common),
            data: bytes.map(|bytes| FirstData {
                bytes,
                with_syn_only: true,
            }),
        };
        let sent = self.stack.begin(connection, opening);
        self.stack.cork(connection, entry.options.cork);
        entry.is_held = false;
        self.note_change(socket);
        match sent {
            0 => Err(SocketError::InProgress),
            sent => Ok(sent),
        }
    }

    /// Copies received bytes out, in order; how many. 0 says that there will be no more. On a datagram socket they are the next datagram, as
    /// much of it as there is room for; one of none is one.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if nothing has come yet; what has befallen the connection, once.
    pub fn recv(&mut self, socket: Socket, to: &mut [u8]) -> Result<usize, SocketError> {
        self.receive(socket, to, false)
    }

    /// The same, and leaves them there (`MSG_PEEK`).
    ///
    /// # Errors
    /// As [`recv`](Sockets::recv).
    pub fn peek(&mut self, socket: Socket, to: &mut [u8]) -> Result<usize, SocketError> {
        self.receive(socket, to, true)
    }

    pub(super) fn receive(
        &mut self,
        socket: Socket,
        to: &mut [u8],
        peek: bool,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        let connection = match entry.role {
            Role::Open(connection, _) => connection,
            Role::Opening(..) => return Err(SocketError::WouldBlock),
            Role::Datagrams(_) => {
                let received = self.receive_datagram(socket, to, peek)?;
                return Ok(received.copied);
            }
            Role::Failed => return entry.error.take().map_or(Ok(0), Err),
            Role::Idle | Role::Listening(_) => {
                return Err(entry.error.take().unwrap_or(SocketError::NotConnected));
            }
        };
        if to.is_empty() {
            return Ok(0);
        }
        let received = match peek {
            true => self.stack.peek(connection, to),
            false => self.stack.receive(connection, to),
        };
        self.or_why_not(socket, received)
    }

    /// What has been received, or why nothing has: what has come goes before an error, and the peer's end before one, too.
    pub(super) fn or_why_not(
        &mut self,
        socket: Socket,
        received: Result<usize, ReceiveError>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        match (received, entry.error.take(), entry.read_shut) {
            (Ok(n), error, _) => {
                entry.error = error;
                Ok(n)
            }
            (Err(_), Some(error), _) => Err(error),
            (Err(ReceiveError::Gone), None, _) | (Err(_), None, true) => Ok(0),
            (Err(ReceiveError::Empty), None, false) => Err(SocketError::WouldBlock),
        }
    }

    /// Ends one direction or both.
    ///
    /// Of a listener, receiving: it listens no more. While the connection is being opened, any: the opening is given up.
    ///
    /// # Errors
    /// If the socket is neither connected nor listening.
    pub fn shutdown(&mut self, socket: Socket, how: How) -> Result<(), SocketError> {
        let entry = self.table.get(socket)?;
        match entry.role {
            Role::Idle | Role::Failed => return Err(SocketError::NotConnected),
            Role::Datagrams(_) => return Err(SocketError::NotSupported),
            Role::Listening(_) if how.reads() => {
                let role = mem::replace(&mut entry.role, Role::Idle);
                self.stop_listening(socket, role);
            }
            Role::Listening(_) => {}
            Role::Opening(connection, _) => {
                entry.role = Role::Failed;
                entry.error = Some(SocketError::Reset);
                self.let_go(connection, true);
            }
            Role::Open(connection, _) => {
                if self.stack.standing(connection).is_gone {
                    return Err(SocketError::NotConnected);
                }
                entry.read_shut |= how.reads();
                if how.writes() && !mem::replace(&mut entry.write_shut, true) {
                    self.stack.cork(connection, false);
                    self.stack.close(connection);
                }
            }
        }
        self.note_change(socket);
        Ok(())
    }

    /// Closes a socket; its number means nothing any more.
    ///
    /// What was sent still goes out, then a FIN. The connection is reset instead if something received has not been read (RFC 9293
    /// §3.6.1, SHLD-3), or the socket [lingers](SocketOption::Linger) for no time at all; so are those that wait at a listener.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn close(&mut self, socket: Socket) -> Result<(), SocketError> {
        self.note_change(socket);
        let entry = self.table.remove(socket)?;
        let resets = entry.options.linger == Some(Duration::ZERO);
        match entry.role {
            Role::Idle | Role::Failed => {}
            Role::Datagrams(_) => self.close_datagrams(entry.bound),
            Role::Listening(_) => self.stop_listening(socket, entry.role),
            Role::Opening(connection, _) => self.let_go(connection, true),
            Role::Open(connection, _) => {
                let is_unread = self.stack.standing(connection).readable > 0;
                self.let_go(connection, resets || is_unread);
            }
        }
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// If the value makes no sense, or comes too late, or is one that the stack has not turned on; or there is no such socket.
    pub fn set_option(&mut self, socket: Socket, option: SocketOption) -> Result<(), SocketError> {
        let entry = self.table.get(socket)?;
        if let Role::Datagrams(_) = entry.role
            && !matches!(
                option,
                SocketOption::Broadcast(_)
                    | SocketOption::PathMtuDiscovery(_)
                    | SocketOption::LocalPorts(..)
            )
        {
            return Err(SocketError::NoSuchOption);
        }
        if let SocketOption::FastOpenConnect(_) = option {
            if !self.common.fast_open.connects() {
                return Err(SocketError::NotSupported);
            }
            if !matches!(entry.role, Role::Idle | Role::Failed) {
                return Err(SocketError::Invalid);
            }
        }
        let setting = entry.options.set(option)?;
        match &entry.role {
            Role::Listening(listening) => {
                let engine = &entry.options.engine;
                let (address, port) = (listening.address, listening.port);
                self.stack.configure_listener(address, port, engine);
            }
            // It is set when it begins.
            Role::Opening(..) if entry.is_held => {}
            Role::Opening(connection, _) | Role::Open(connection, _) => {
                let (connection, cork) = (*connection, entry.options.cork);
                if let Some(setting) = setting {
                    self.stack.set(connection, setting);
                }
                if matches!(option, SocketOption::NoDelay(true)) {
                    self.stack.cork(connection, false);
                    self.stack.hold_back(connection, cork);
                } else if matches!(option, SocketOption::Cork(_)) {
                    self.stack.cork(connection, cork);
                } else if matches!(option, SocketOption::NotSentLowWater(_)) {
                    self.note_change(socket);
                }
            }
            Role::Idle | Role::Failed | Role::Datagrams(_) => {}
        }
        Ok(())
    }

    /// What an option is set to.
    ///
    /// # Errors
    /// If there is no such socket, or it has no such option.
    pub fn option(
        &mut self,
        socket: Socket,
        name: OptionName,
    ) -> Result<SocketOption, SocketError> {
        let entry = self.table.get(socket)?;
        if let Role::Datagrams(_) = entry.role
            && !matches!(
                name,
                OptionName::Broadcast | OptionName::PathMtuDiscovery | OptionName::LocalPorts
            )
        {
            return Err(SocketError::NoSuchOption);
        }
        Ok(entry.options.get(name))
    }

    /// What the end of a connection leaves on its socket.
    pub(super) fn end_of(
        &mut self,
        connection: Connection,
        reason: CloseReason,
        write_shut: bool,
    ) -> Option<SocketError> {
        let in_close_wait = self.stack.standing(connection).end_of_data && !write_shut;
        SocketError::of_end(reason, in_close_wait)
    }

    /// Lets go of a connection that no socket has any more, closing it or, if so asked, resetting it.
    pub(super) fn let_go(&mut self, connection: Connection, resets: bool) {
        self.by_connection.remove(&connection);
        self.stack.cork(connection, false);
        if resets && !self.stack.standing(connection).is_gone {
            self.stack.abort(connection);
        } else {
            self.stack.forget(connection);
        }
    }

    /// Nobody listens there any more; those who have called are reset.
    fn stop_listening(&mut self, socket: Socket, role: Role) {
        self.listeners.retain(|listener| *listener != socket);
        if let Role::Listening(listening) = role {
            self.stack.stop_listening(listening.address, listening.port);
            for connection in listening.queue {
                self.stack.take_up(connection);
                self.let_go(connection, true);
            }
        }
    }

    /// Whether a port is taken for who may share it or not.
    fn is_taken(&self, address: Address, port: u16, may_share: bool) -> bool {
        self.table.entries().any(|(_, entry)| {
            let Some((other, other_port)) = entry.place() else {
                return false;
            };
            let overlaps = other == address || other.is_unspecified() || address.is_unspecified();
            let shares = may_share
                && entry.options.reuse_address
                && !matches!(entry.role, Role::Listening(_));
            let takes_datagrams = matches!(entry.role, Role::Datagrams(_));
            other_port == port && overlaps && !shares && !takes_datagrams
        })
    }

    /// A port that nobody has, of those from one to another where these can be chosen.
    fn free_port(&mut self, address: Address, ports: (u16, u16)) -> Result<u16, SocketError> {
        self.stack
            .ports(ports)
            .find(|port| !self.is_taken(address, *port, false))
            .ok_or(SocketError::AddressNotAvailable)
    }
}

/// An address of the family that the stack speaks.
pub(super) fn v4(address: IpAddr) -> Result<Address, SocketError> {
    let address = Address::from(address);
    match address.is_v4() {
        true => Ok(address),
        false => Err(SocketError::FamilyNotSupported),
    }
}
