//! Sockets without a face: the state that types shaped like std's or tokio's are worn over.
//!
//! [`Sockets`] puts the verbs of POSIX, with the meaning that Linux gives them for TCP and UDP, over a caller-turned
//! [`Stack`]. Nothing blocks: what would says [`SocketError::WouldBlock`] or [`SocketError::InProgress`], and
//! [`Sockets::readiness`] says what would not. Whoever polls asks [`Sockets::changed`] which sockets to look at. For several threads or
//! tasks, some of which wait, there is [`Shared`]: a lock, and for each socket those who wait for it.
//!
//! What it refuses: IPv6 as long as the stack has none, and options that [`SocketOption`] does not list.

mod datagrams;
mod error;
mod messages;
mod options;
mod readiness;
mod sending;
mod shared;
mod sleeper;
mod table;
#[cfg(test)]
mod tests;
mod told;
mod verbs;
mod waiting;

pub use error::SocketError;
pub use options::{OptionName, SocketOption};
pub use readiness::Readiness;
pub use shared::Shared;
pub use table::Socket;
pub use waiting::Waiter;

use crate::config::StackConfig;
use crate::error::StackError;
use crate::limits::Limits;
use crate::stack::{Connection, Stack};
use braidnet_device::Device;
use braidnet_inet::LimitError;
use braidnet_stream::Next;
use braidnet_tcp::TcpInfo;
use braidnet_wire::address::Address;
use braidnet_wire::time::{Duration, Instant};
use core::net::SocketAddr;
use options::Options;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use table::{Entry, Role, Table};
use waiting::RETRY;

/// How long a corked socket holds back what does not fill a segment, as Linux does.
const CORKED_FOR: Duration = Duration::from_millis(200);

/// Sockets of TCP and UDP, turned by whoever owns them: no thread, no lock, no clock of its own.
///
/// What is asked for leaves with the next [`turn`](Sockets::turn).
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::socket::{Readiness, SocketError, Sockets};
/// use braidnet::{Instant, StackConfig};
///
/// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
/// let mut client = Sockets::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
/// let mut server = Sockets::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
///
/// let listener = server.socket()?;
/// server.bind(listener, "0.0.0.0:7".parse()?)?;
/// server.listen(listener, 16)?;
/// let call = client.socket()?;
/// assert_eq!(client.connect(call, "10.0.0.2:7".parse()?), Err(SocketError::InProgress));
/// for _ in 0..4 {
///     client.turn(Instant::ZERO);
///     server.turn(Instant::ZERO);
/// }
/// assert_eq!(client.readiness(call)?, Readiness::WRITABLE);
/// client.send(call, b"hello")?;
/// client.turn(Instant::ZERO);
/// server.turn(Instant::ZERO);
/// let (answer, from) = server.accept(listener)?;
/// assert_eq!(from.ip().to_string(), "10.0.0.1");
/// let mut heard = [0; 16];
/// assert_eq!(server.recv(answer, &mut heard)?, 5);
/// assert_eq!(&heard[..5], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sockets {
    stack: Stack,
    /// How every connection is set unless its socket says otherwise.
    common: braidnet_tcp::Config,
    /// The stack's addresses.
    addresses: Vec<Address>,
    table: Table,
    by_connection: HashMap<Connection, Socket>,
    listeners: Vec<Socket>,
    /// Datagram sockets by the port that they are bound to.
    by_datagram_port: BTreeMap<u16, Socket>,
    /// Sockets that hold something back, and until when.
    corked: BTreeSet<(Instant, Socket)>,
    /// Those that have begun to since the last turn.
    newly_corked: Vec<Socket>,
    /// Places of sockets whose readiness may have changed, each once.
    changed: VecDeque<u32>,
    changes: u64,
    /// Something was done between turns that the next one has to look after.
    wants_turn: bool,
    now: Instant,
    counts: Counts,
}

/// What happened to connections that no socket has.
#[derive(Default)]
struct Counts {
    /// Sockets that could not be opened for their number.
    table_full: u64,
    /// Connections that died in a listener's queue and were let go of unheard: it was full, or more had ended since than are kept.
    dead_unaccepted: u64,
    /// Connections reset since nobody listened any more when they were established.
    unwanted: u64,
}

/// Which directions [`Sockets::shutdown`] ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Receiving: what has come can be read, and then comes the end. The peer hears nothing of it.
    Read,
    /// Sending: what was sent still goes, then a FIN.
    Write,
    /// Both.
    Both,
}

impl How {
    const fn reads(self) -> bool {
        matches!(self, How::Read | How::Both)
    }

    const fn writes(self) -> bool {
        matches!(self, How::Write | How::Both)
    }
}

impl Sockets {
    /// Sockets on `device`; at most [`StackConfig::sockets`] at a time.
    ///
    /// # Errors
    /// As [`Stack::new`].
    pub fn new(config: &StackConfig, device: impl Device) -> Result<Sockets, StackError> {
        let mut stack = Stack::new(config, device)?;
        stack.watch();
        let addresses = config.addresses.iter();
        Ok(Sockets {
            stack,
            common: config.tcp,
            addresses: addresses.map(|(address, _)| (*address).into()).collect(),
            table: Table::new(config.sockets),
            by_connection: HashMap::new(),
            listeners: Vec::new(),
            by_datagram_port: BTreeMap::new(),
            corked: BTreeSet::new(),
            newly_corked: Vec::new(),
            changed: VecDeque::new(),
            changes: 0,
            wants_turn: false,
            now: Instant::ZERO,
            counts: Counts::default(),
        })
    }

    /// Carries everything forward at time `now`, as [`Stack::turn`] does.
    pub fn turn(&mut self, now: Instant) -> Next {
        self.now = now;
        self.wants_turn = false;
        self.uncork_due();
        let next = self.stack.turn(now);
        let next = match self.take_events() {
            true => Next::Again,
            false => next,
        };
        match self.corked.first() {
            Some((at, _)) => next.sooner(Next::At(*at)),
            None => next,
        }
    }

    /// Whether something that was asked for since the last turn waits for the next: whoever turns them should not sleep.
    pub fn has_work(&self) -> bool {
        self.wants_turn || self.stack.has_work()
    }

    /// Whoever turns them does so once more, though nothing else asks for it.
    pub(crate) fn ask_for_turn(&mut self) {
        self.wants_turn = true;
    }

    /// Until when packets that have come may wait for memory, and nothing would tell whoever sleeps; `None` if there is enough.
    pub(crate) fn short_until(&mut self) -> Option<Instant> {
        let is_short = !self.table.is_down() && self.stack.is_short_of_memory();
        is_short.then(|| self.now + RETRY)
    }

    /// Whoever turns them is about to sleep. Whether anything that arrives will be looked at.
    pub(crate) fn rest(&mut self) -> bool {
        !self.table.is_down() && self.stack.rest()
    }

    /// Whether something that was sent, the end of data included, has not left or is not acknowledged yet: whoever lets go of the stack now
    /// may lose it. What [corked](SocketOption::Cork) sockets hold back counts, too.
    pub fn is_sending(&mut self) -> bool {
        if self.table.is_down() {
            return false;
        }
        let mut corked = self.corked.iter();
        let holds_back = corked.any(|(_, socket)| {
            let connection = self
                .table
                .get(*socket)
                .ok()
                .and_then(|entry| entry.connection());
            connection.is_some_and(|connection| self.stack.is_holding_back(connection))
        });
        holds_back || self.wants_turn || self.stack.is_sending()
    }

    /// What can be done with a socket without waiting, as poll(2) on Linux says it.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn readiness(&mut self, socket: Socket) -> Result<Readiness, SocketError> {
        let entry = self.table.get(socket)?;
        let mut ready = Readiness::empty();
        if entry.error.is_some() {
            ready |= Readiness::ERROR;
        }
        match &entry.role {
            Role::Idle => ready |= Readiness::WRITABLE | Readiness::HANG_UP,
            Role::Failed => ready |= OVER,
            Role::Opening(..) if entry.is_held => ready |= Readiness::WRITABLE,
            Role::Opening(..) => {}
            Role::Listening(listening) if listening.queue.is_empty() => {}
            Role::Listening(_) => ready |= Readiness::READABLE,
            Role::Datagrams(_) => {
                let waiting = entry
                    .datagram_port()
                    .and_then(|port| self.stack.next_datagram_bytes(port));
                ready |= Readiness::WRITABLE;
                ready.set(Readiness::READABLE, waiting.is_some());
            }
            Role::Open(connection, _) => {
                let (read_shut, write_shut) = (entry.read_shut, entry.write_shut);
                let state = self.stack.standing(*connection);
                let no_more_in = read_shut || state.end_of_data || state.is_gone;
                let no_more_out = write_shut || state.is_gone;
                if no_more_in {
                    ready |= Readiness::READABLE | Readiness::READ_HANG_UP;
                }
                if no_more_in && no_more_out {
                    ready |= Readiness::HANG_UP;
                }
                let low_water = entry.options.engine.not_sent_low_water;
                let has_room = state.space > 0 && self.stack.room_below(*connection, low_water) > 0;
                ready.set(Readiness::WRITABLE, no_more_out || has_room);
                if state.readable > 0 {
                    ready |= Readiness::READABLE;
                }
            }
        }
        Ok(ready)
    }

    /// A socket whose readiness may have changed since it was last told here, each once however much has happened. For whoever
    /// waits for many; the list is as long as the sockets are many at most.
    pub fn changed(&mut self) -> Option<Socket> {
        loop {
            let place = self.changed_place()?;
            if let Some(socket) = self.table.occupant(place) {
                return Some(socket);
            }
        }
    }

    /// The same by its place, and also where a socket was closed.
    fn changed_place(&mut self) -> Option<u32> {
        let place = self.changed.pop_front()?;
        self.table.set_changed(place, false);
        Some(place)
    }

    /// How often the readiness of any socket may have changed: while this stays the same, nobody who waits need look again.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes what has befallen the socket and nobody has heard of yet (`SO_ERROR`).
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn take_error(&mut self, socket: Socket) -> Result<Option<SocketError>, SocketError> {
        Ok(self.table.get(socket)?.error.take())
    }

    /// The address and port of this side: what it is bound to or connected from; unspecified and 0 if neither.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn local_address(&mut self, socket: Socket) -> Result<SocketAddr, SocketError> {
        let nowhere = (Address::v4([0; 4]), 0);
        let (address, port) = self.table.get(socket)?.place().unwrap_or(nowhere);
        Ok(SocketAddr::new(address.into(), port))
    }

    /// The address and port of the peer.
    ///
    /// # Errors
    /// If the socket is not connected, or there is none.
    pub fn peer_address(&mut self, socket: Socket) -> Result<SocketAddr, SocketError> {
        match &self.table.get(socket)?.role {
            Role::Open(connection, tuple) if !self.stack.standing(*connection).is_gone => {
                Ok(SocketAddr::new(tuple.remote.into(), tuple.remote_port))
            }
            Role::Datagrams(datagrams) => datagrams.peer.ok_or(SocketError::NotConnected),
            _ => Err(SocketError::NotConnected),
        }
    }

    /// What TCP knows of the socket's connection (`TCP_INFO`).
    ///
    /// # Errors
    /// [`SocketError::NotConnected`] if it has none, or none any more; if there is no such socket.
    pub fn info(&mut self, socket: Socket) -> Result<TcpInfo, SocketError> {
        let connection = self.table.get(socket)?.connection();
        let info = connection.and_then(|connection| self.stack.info(connection));
        info.ok_or(SocketError::NotConnected)
    }

    /// Bytes that can be received now (`SIOCINQ`), of a datagram socket those of the next datagram.
    ///
    /// # Errors
    /// If the socket listens, or there is none.
    pub fn readable_bytes(&mut self, socket: Socket) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        match &entry.role {
            Role::Listening(_) => Err(SocketError::Invalid),
            Role::Open(connection, _) => Ok(self.stack.standing(*connection).readable),
            Role::Datagrams(_) => {
                let waiting = entry
                    .datagram_port()
                    .and_then(|port| self.stack.next_datagram_bytes(port));
                Ok(waiting.unwrap_or(0))
            }
            _ => Ok(0),
        }
    }

    /// Every counter that is not zero: the stack's, and those of sockets as `socket.name`.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = self.stack.counters();
        let own = [
            ("socket.table_full", self.counts.table_full),
            ("socket.dead_unaccepted", self.counts.dead_unaccepted),
            ("socket.unwanted", self.counts.unwanted),
        ];
        let own = own.into_iter().filter(|(_, count)| *count > 0);
        all.extend(own.map(|(name, count)| (name.to_owned(), count)));
        all
    }

    /// Sockets and the stack below may hold so much from now on.
    ///
    /// # Errors
    /// If a limit is not in its range; none is changed then.
    pub fn set_limits(&mut self, limits: &Limits) -> Result<(), LimitError> {
        self.stack.set_limits(limits)?;
        self.table.set_limit(limits.sockets);
        Ok(())
    }

    /// The stack below, for what sockets do not have.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// A socket of this role, counted if there is no room.
    fn insert(&mut self, role: Role, options: Options) -> Result<Socket, SocketError> {
        let socket = self.table.insert(Entry::new(role, options));
        self.counts.table_full += u64::from(socket.is_err());
        socket
    }

    /// The readiness of a socket may have changed.
    fn note_change(&mut self, socket: Socket) {
        self.changes += 1;
        if self.table.get(socket).is_ok() && !self.table.set_changed(socket.place(), true) {
            self.changed.push_back(socket.place());
        }
    }

    /// Nothing is to be had of these any more: every verb says [`SocketError::Down`].
    fn go_down(&mut self) {
        self.table.go_down();
    }
}

/// What is ready when there is no connection any more.
const OVER: Readiness = Readiness::READABLE
    .union(Readiness::WRITABLE)
    .union(Readiness::HANG_UP)
    .union(Readiness::READ_HANG_UP);
