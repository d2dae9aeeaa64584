//! Sockets, their wire and their clock.

use crate::epoll::{Interests, Seen};
use crate::errno::Errno;
use crate::flags::Flags;
use crate::waiting::Awaited;
use crate::worn::Worn;
use braidnet::device::{Capabilities, Device, QueuePair, memory};
use braidnet::message::{Arena, Pool, Run};
use braidnet::socket::{Readiness, Socket, Sockets};
use braidnet::stream::Next;
use braidnet::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::thread::ThreadId;

/// The clock begins then: some time in 2026, in nanoseconds, so that it looks like a clock.
const START: Instant = Instant::from_millis(1_767_225_600_000);
/// Packets that may wait to be taken by packetdrill.
const WIRE_DEPTH: usize = 4096;

/// The longest packet that packetdrill makes.
const PACKET_MAX: usize = 65_535;

/// Everything, at one moment of virtual time.
pub(crate) struct State {
    pub(crate) sockets: Sockets,
    wire: QueuePair,
    pool: Pool,
    pub(crate) now: Instant,
    /// When the sockets want to be turned next.
    pub(crate) deadline: Option<Instant>,
    /// What has left, and when.
    pub(crate) left: VecDeque<(Instant, Vec<u8>)>,
    handles: BTreeMap<i32, Handle>,
    /// Who blocks, by number, and for what.
    pub(crate) blocked: BTreeMap<u64, Awaited>,
    pub(crate) next_blocked: u64,
    /// Whose blocking call has come to its end, and who has not looked at the clock since.
    pub(crate) returned: Option<ThreadId>,
}

/// What a file descriptor stands for.
pub(crate) struct Handle {
    /// Real, so that the number is nobody else's and the C library's close takes it.
    fd: OwnedFd,
    pub(crate) kind: Kind,
}

/// What is behind a handle.
pub(crate) enum Kind {
    Socket(Worn),
    Epoll(Interests),
    /// Closed; the number is kept, so that it does not come again.
    Closed,
}

impl State {
    /// A stack at the beginning of time.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the flags.
    pub(crate) fn new(flags: &Flags) -> Result<State, String> {
        let config = flags.stack();
        let (near, far) = memory::wire(Capabilities::ip(flags.mtu), WIRE_DEPTH);
        let sockets = Sockets::new(&config, near).map_err(|error| error.to_string())?;
        // Scripts have segments come that are longer than any MTU, as a device that joins them would give them to Linux.
        let wire = Box::new(far.sending(PACKET_MAX))
            .open()
            .map_err(|error| error.to_string())?;
        let wire = wire.into_iter().next().ok_or("the wire has no queue")?;
        Ok(State {
            sockets,
            wire,
            pool: Pool::new(&Arena::new(16 << 20)),
            now: START,
            deadline: None,
            left: VecDeque::new(),
            handles: BTreeMap::new(),
            blocked: BTreeMap::new(),
            next_blocked: 0,
            returned: None,
        })
    }

    /// Turns until nothing is left to do at this moment.
    pub(crate) fn settle(&mut self) {
        let mut run = Run::new();
        loop {
            let next = self.sockets.turn(self.now);
            self.wire
                .receiver
                .receive(&mut self.pool, &mut run, WIRE_DEPTH);
            for message in run.drain() {
                let mut bytes = vec![0; message.total_len()];
                message.copy_to_slice(&mut bytes);
                self.left.push_back((self.now, bytes));
            }
            match next {
                Next::Again => {}
                Next::At(at) if at <= self.now => {}
                Next::At(at) => {
                    self.deadline = Some(at);
                    break;
                }
                Next::Idle => {
                    self.deadline = None;
                    break;
                }
            }
        }
        self.notice();
    }

    /// A packet comes in.
    pub(crate) fn arrives(&mut self, packet: &[u8]) -> Result<(), Errno> {
        let mut run = Run::new();
        run.extend(self.pool.bind().copy_from_slice(64, packet));
        if run.is_empty() {
            return Err(Errno(libc::ENOBUFS));
        }
        self.wire.transmitter.transmit(&mut run);
        self.settle();
        match run.is_empty() {
            true => Ok(()),
            false => Err(Errno(libc::ENOBUFS)),
        }
    }

    /// Time goes on to what is due next, if that is by `at`, and it happens; whether there was anything.
    pub(crate) fn happens_by(&mut self, at: Instant) -> bool {
        let timeouts = self.blocked.values().filter_map(Awaited::timeout);
        let ahead = timeouts.filter(|timeout| *timeout > self.now);
        let due = ahead.chain(self.deadline).min();
        let Some(due) = due.filter(|due| *due <= at) else {
            return false;
        };
        self.now = self.now.max(due);
        self.settle();
        true
    }

    /// A new handle.
    pub(crate) fn open(&mut self, kind: Kind) -> Result<i32, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| Errno(error.raw_os_error()))?;
        let number = fd.as_raw_fd();
        self.handles.insert(number, Handle { fd, kind });
        Ok(number)
    }

    pub(crate) fn handle(&mut self, fd: i32) -> Result<&mut Kind, Errno> {
        match self.handles.get_mut(&fd) {
            Some(Handle {
                kind: Kind::Closed, ..
            })
            | None => Err(Errno(libc::EBADF)),
            Some(handle) => Ok(&mut handle.kind),
        }
    }

    pub(crate) fn socket(&mut self, fd: i32) -> Result<Socket, Errno> {
        Ok(self.worn(fd)?.socket)
    }

    /// A socket, and what its descriptor knows of it.
    pub(crate) fn worn(&mut self, fd: i32) -> Result<&mut Worn, Errno> {
        match self.handle(fd)? {
            Kind::Socket(worn) => Ok(worn),
            _ => Err(Errno(libc::ENOTSOCK)),
        }
    }

    pub(crate) fn is_nonblocking(&mut self, fd: i32) -> bool {
        self.worn(fd).is_ok_and(|worn| worn.is_nonblocking)
    }

    /// What a socket is ready for, as poll(2) says it.
    pub(crate) fn polled(&mut self, fd: i32) -> i16 {
        let Ok(worn) = self.worn(fd) else {
            return libc::POLLNVAL;
        };
        let (socket, has_told) = (worn.socket, !worn.copied.is_empty());
        let Ok(mut ready) = self.sockets.readiness(socket) else {
            return libc::POLLNVAL;
        };
        if has_told {
            ready |= Readiness::ERROR;
        }
        [
            (Readiness::READABLE, libc::POLLIN | libc::POLLRDNORM),
            (Readiness::WRITABLE, libc::POLLOUT | libc::POLLWRNORM),
            (Readiness::ERROR, libc::POLLERR),
            (Readiness::HANG_UP, libc::POLLHUP),
            (Readiness::READ_HANG_UP, libc::POLLRDHUP),
        ]
        .into_iter()
        .filter(|(flag, _)| ready.contains(*flag))
        .fold(0, |all, (_, bit)| all | bit)
    }

    /// Tells those who watch edges what has come.
    fn notice(&mut self) {
        let watched: BTreeSet<i32> = self
            .handles
            .values()
            .filter_map(|handle| match &handle.kind {
                Kind::Epoll(interests) => Some(interests.watched()),
                _ => None,
            })
            .flatten()
            .collect();
        for fd in watched {
            let Ok(socket) = self.socket(fd) else {
                continue;
            };
            let seen = Seen {
                ready: self.polled(fd),
                unread: self.sockets.readable_bytes(socket).unwrap_or(0),
                copied: self.worn(fd).map_or(0, |worn| worn.copied.count()),
            };
            for handle in self.handles.values_mut() {
                if let Kind::Epoll(interests) = &mut handle.kind {
                    interests.notice(fd, seen);
                }
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for handle in std::mem::take(&mut self.handles).into_values() {
            // What was not closed through the table packetdrill closes by itself.
            if !matches!(handle.kind, Kind::Closed) {
                let _ = handle.fd.into_raw_fd();
            }
        }
    }
}

/// Time since the epoch, in microseconds.
pub(crate) fn micros(at: Instant) -> u64 {
    at.nanos() / 1000
}

/// A duration in microseconds.
pub(crate) fn from_micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
