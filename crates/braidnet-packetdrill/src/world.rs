//! The calls of the table, without C's pointers.
//!
//! # Who may touch what
//!
//! All of [`State`] is behind one monitor, and each call enters it. A call that blocks leaves it while it sleeps on the one
//! condition, which every call wakes that may have changed something. Time goes on only in the calls that packetdrill makes for
//! that, from one thing that happens to the next, and before it does, whoever blocks and has no reason to any more gets the chance to return: its time of return is compared
//! with the script's.

use crate::address::{self, Family};
use crate::epoll::Interests;
use crate::errno::Errno;
use crate::flags::Flags;
use crate::message::{Control, SO_ZEROCOPY, TCP_INQ};
use crate::options;
use crate::state::{Kind, State, from_micros, micros};
use crate::waiting::Awaited;
use crate::worn::Worn;
use braidnet::socket::{How, Readiness, Socket, SocketError};
use braidnet::sync::lock::{Condition, Inside, LockClass, LockKind, Monitor};
use braidnet::{Duration, Instant};
use core::net::SocketAddr;

/// How long, in virtual time, a packet is waited for.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long, in real time, another thread gets to return from its call, or to make one.
const GRACE: Duration = Duration::from_secs(1);
/// How long it gets to look at the clock afterwards.
const GLANCE: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_millis(1);

/// What stands behind one table.
pub(crate) struct World {
    monitor: Monitor<State>,
}

type Answer<T = i32> = Result<T, Errno>;

impl World {
    pub(crate) fn new(flags: &str) -> Result<World, String> {
        let state = State::new(&Flags::parse(flags)?)?;
        let condition = Condition::default();
        Ok(World {
            monitor: Monitor::new(LockKind::Adaptive, LockClass::Socket, state, condition),
        })
    }

    /// A call that does not block.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
        self.monitor.with(|state, changed| {
            let answer = call(state);
            state.settle();
            changed.wake_all();
            answer
        })
    }

    /// A call that blocks until `wanted`, unless it must not.
    fn blocking<T>(
        &self,
        fd: i32,
        (wanted, must_not): (Readiness, bool),
        mut attempt: impl FnMut(&mut State, Socket) -> Result<T, SocketError>,
    ) -> Answer<T> {
        self.monitor.with(|state, changed| {
            let mut ticket = None;
            loop {
                let socket = state.socket(fd);
                let result = match socket {
                    Ok(socket) => attempt(state, socket).map_err(Errno::from),
                    Err(error) => Err(error),
                };
                state.settle();
                changed.wake_all();
                let blocks = matches!(result, Err(Errno(libc::EAGAIN | libc::EINPROGRESS)));
                let stays = blocks && !must_not && !state.is_nonblocking(fd);
                let (Ok(socket), true) = (socket, stays) else {
                    if let Some(ticket) = ticket {
                        state.unblock(ticket);
                    }
                    return result;
                };
                if ticket.is_none() {
                    ticket = Some(state.block(Awaited::Ready(socket, wanted)));
                }
                state.wait(changed);
            }
        })
    }

    pub(crate) fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer {
        let family = Family::of_domain(domain)?;
        let is_nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        if kind & 0xf != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        self.with(|state| {
            let socket = state.sockets.socket()?;
            state.open(Kind::Socket(Worn {
                is_nonblocking,
                ..Worn::new(socket, family)
            }))
        })
    }

    pub(crate) fn bind(&self, fd: i32, address: &[u8]) -> Answer {
        let address = address::read(address)?;
        self.with(|state| {
            let socket = state.socket(fd)?;
            state.sockets.bind(socket, address)?;
            Ok(0)
        })
    }

    pub(crate) fn listen(&self, fd: i32, backlog: i32) -> Answer {
        self.with(|state| {
            let socket = state.socket(fd)?;
            let backlog = u32::try_from(backlog).unwrap_or(0);
            state.sockets.listen(socket, backlog)?;
            Ok(0)
        })
    }

    /// The new descriptor, and who has called, for a socket of this family.
    pub(crate) fn accept(&self, fd: i32) -> Answer<(i32, SocketAddr, Family)> {
        let wanted = (Readiness::READABLE, false);
        let (socket, from) =
            self.blocking(fd, wanted, |state, listener| state.sockets.accept(listener))?;
        self.with(|state| {
            let worn = state.worn(fd)?.accepted(socket);
            let family = worn.family;
            Ok((state.open(Kind::Socket(worn))?, from, family))
        })
    }

    pub(crate) fn connect(&self, fd: i32, address: &[u8]) -> Answer {
        let address = address::read(address)?;
        let mut is_begun = false;
        let wanted = (Readiness::WRITABLE, false);
        self.blocking(fd, wanted, |state, socket| {
            match state.sockets.connect(socket, address) {
                Err(SocketError::Already) if is_begun => Err(SocketError::InProgress),
                result => {
                    is_begun = true;
                    result
                }
            }
        })?;
        Ok(0)
    }

    pub(crate) fn receive(&self, fd: i32, to: &mut [u8], flags: i32) -> Answer<usize> {
        const KNOWN: i32 = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if flags & !KNOWN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let must_not = flags & libc::MSG_DONTWAIT != 0;
        let wanted = (Readiness::READABLE, must_not);
        self.blocking(fd, wanted, |state, socket| match flags & libc::MSG_PEEK {
            0 => state.sockets.recv(socket, to),
            _ => state.sockets.peek(socket, to),
        })
    }

    /// The same as [`receive`](World::receive), and what is to be said beside the bytes.
    pub(crate) fn receive_message(
        &self,
        fd: i32,
        to: &mut [u8],
        flags: i32,
    ) -> Answer<(usize, Option<Control>)> {
        if flags & libc::MSG_ERRQUEUE != 0 {
            return self.with(|state| {
                let (first, last) = state.worn(fd)?.copied.take().ok_or(Errno(libc::EAGAIN))?;
                Ok((0, Some(Control::Copied(first, last))))
            });
        }
        let received = self.receive(fd, to, flags)?;
        self.with(|state| {
            let worn = state.worn(fd)?;
            let (socket, tells) = (worn.socket, worn.tells_unread);
            let told = match tells {
                true => Some(Control::Unread(unread(state, socket)?)),
                false => None,
            };
            Ok((received, told))
        })
    }

    /// Sends; if it may block, everything.
    pub(crate) fn send(&self, fd: i32, bytes: &[u8], flags: i32) -> Answer<usize> {
        let sent = self.send_all(fd, bytes, flags & !libc::MSG_ZEROCOPY)?;
        self.note_lent(fd, sent, flags)?;
        Ok(sent)
    }

    /// Bytes that were lent are the caller's again.
    fn note_lent(&self, fd: i32, sent: usize, flags: i32) -> Answer<()> {
        if sent == 0 || flags & libc::MSG_ZEROCOPY == 0 {
            return Ok(());
        }
        self.with(|state| {
            let worn = state.worn(fd)?;
            if worn.may_lend {
                worn.copied.push();
            }
            Ok(())
        })
    }

    fn send_all(&self, fd: i32, bytes: &[u8], flags: i32) -> Answer<usize> {
        const KNOWN: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR | libc::MSG_MORE;
        if flags & !KNOWN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let must_not = flags & libc::MSG_DONTWAIT != 0;
        let (more, ends) = (flags & libc::MSG_MORE != 0, flags & libc::MSG_EOR != 0);
        let (mut left, mut begins) = (bytes, None);
        let result = self.blocking(fd, (Readiness::WRITABLE, must_not), |state, socket| {
            // A connection that begins by it is waited for, too, though all has left with the SYN.
            let begins = *begins.get_or_insert_with(|| state.sockets.peer_address(socket).is_err());
            loop {
                let sent = match (more, ends) {
                    (true, _) => state.sockets.send_more(socket, left)?,
                    (false, true) => state.sockets.send_record(socket, left)?,
                    (false, false) => state.sockets.send(socket, left)?,
                };
                left = left.get(sent..).unwrap_or_default();
                if left.is_empty() && (sent == 0 || !begins) {
                    return Ok(());
                }
            }
        });
        match (result, bytes.len() - left.len()) {
            (Err(error), 0) => Err(error),
            (Err(error), _) if begins == Some(true) && error != Errno(libc::EAGAIN) => Err(error),
            (_, sent) => Ok(sent),
        }
    }

    /// The same to an address: with `MSG_FASTOPEN` a connection is opened by it (RFC 7413); any other has only one peer, and without one there
    /// is an error in any case.
    pub(crate) fn send_to(
        &self,
        fd: i32,
        bytes: &[u8],
        flags: i32,
        address: &[u8],
    ) -> Answer<usize> {
        if flags & libc::MSG_FASTOPEN == 0 {
            return self.send(fd, bytes, flags);
        }
        let (flags, to) = (flags & !libc::MSG_FASTOPEN, address::read(address)?);
        let (mut sent, must_not) = self.with(|state| {
            let socket = state.socket(fd)?;
            let must_not = flags & libc::MSG_DONTWAIT != 0 || state.is_nonblocking(fd);
            match state.sockets.connect_with(socket, to, bytes) {
                Ok(sent) => Ok((sent, must_not)),
                Err(SocketError::InProgress) if !must_not => Ok((0, must_not)),
                Err(error) => Err(error.into()),
            }
        })?;
        if !must_not {
            let wanted = (Readiness::WRITABLE, false);
            self.blocking(fd, wanted, |state, socket| {
                match state.sockets.connect(socket, to) {
                    Err(SocketError::Already) => Err(SocketError::InProgress),
                    // It was open before.
                    Err(SocketError::Connected) => Ok(()),
                    result => result,
                }
            })?;
            let rest = bytes.get(sent..).unwrap_or_default();
            if !rest.is_empty() {
                sent += self.send_all(fd, rest, flags & !libc::MSG_ZEROCOPY)?;
            }
        }
        self.note_lent(fd, sent, flags)?;
        Ok(sent)
    }

    pub(crate) fn fcntl(&self, fd: i32, command: i32, argument: usize) -> Answer {
        self.with(|state| {
            let worn = state.worn(fd)?;
            match command {
                libc::F_GETFL if worn.is_nonblocking => Ok(libc::O_RDWR | libc::O_NONBLOCK),
                libc::F_GETFL => Ok(libc::O_RDWR),
                libc::F_SETFL => {
                    worn.is_nonblocking = argument as i32 & libc::O_NONBLOCK != 0;
                    Ok(0)
                }
                _ => Err(Errno(libc::EINVAL)),
            }
        })
    }

    /// The number that an `ioctl` asks for.
    pub(crate) fn ioctl(&self, fd: i32, request: u64) -> Answer {
        self.with(|state| {
            let socket = state.socket(fd)?;
            // `SIOCINQ` is the same.
            if request != libc::FIONREAD {
                return Err(Errno(libc::EINVAL));
            }
            let bytes = state.sockets.readable_bytes(socket)?;
            Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
        })
    }

    pub(crate) fn close(&self, fd: i32) -> Answer {
        self.with(|state| {
            let kind = std::mem::replace(state.handle(fd)?, Kind::Closed);
            if let Kind::Socket(worn) = kind {
                state.sockets.close(worn.socket)?;
            }
            Ok(0)
        })
    }

    pub(crate) fn shutdown(&self, fd: i32, how: i32) -> Answer {
        let how = match how {
            libc::SHUT_RD => How::Read,
            libc::SHUT_WR => How::Write,
            libc::SHUT_RDWR => How::Both,
            _ => return Err(Errno(libc::EINVAL)),
        };
        self.with(|state| {
            let socket = state.socket(fd)?;
            state.sockets.shutdown(socket, how)?;
            Ok(0)
        })
    }

    pub(crate) fn option(&self, fd: i32, option: (i32, i32)) -> Answer<Vec<u8>> {
        self.with(|state| {
            let worn = state.worn(fd)?;
            let own = match option {
                (libc::SOL_SOCKET, SO_ZEROCOPY) => Some(worn.may_lend),
                (libc::SOL_TCP, TCP_INQ) => Some(worn.tells_unread),
                _ => None,
            };
            if let Some(on) = own {
                return Ok(i32::from(on).to_ne_bytes().to_vec());
            }
            let socket = worn.socket;
            options::get(&mut state.sockets, socket, option)
        })
    }

    pub(crate) fn set_option(&self, fd: i32, option: (i32, i32), value: &[u8]) -> Answer {
        self.with(|state| {
            let worn = state.worn(fd)?;
            match option {
                (libc::SOL_SOCKET, SO_ZEROCOPY) => worn.may_lend = options::switch(value)?,
                (libc::SOL_TCP, TCP_INQ) => worn.tells_unread = options::switch(value)?,
                _ => {
                    let socket = worn.socket;
                    options::set(&mut state.sockets, socket, option, value)?;
                }
            }
            Ok(0)
        })
    }

    /// What of `wanted` descriptors are ready for, as poll(2) says it; waits until one is for anything, or for so long in virtual
    /// time.
    pub(crate) fn poll(&self, wanted: &[(i32, i16)], timeout_ms: i32) -> Vec<i16> {
        let awaited = |until| Awaited::Any(wanted.to_vec(), until);
        self.after(timeout_ms, awaited, |state| state.found(wanted))
    }

    pub(crate) fn epoll_create(&self) -> Answer {
        self.with(|state| state.open(Kind::Epoll(Interests::default())))
    }

    /// Watches `fd` for `events`, whatever is to be said of it, or no longer if there are none.
    pub(crate) fn epoll_ctl(
        &self,
        epoll: i32,
        operation: i32,
        fd: i32,
        event: Option<(u32, u64)>,
    ) -> Answer {
        self.with(|state| {
            state.socket(fd)?;
            let Kind::Epoll(interests) = state.handle(epoll)? else {
                return Err(Errno(libc::EINVAL));
            };
            interests.control(operation, fd, event)?;
            Ok(0)
        })
    }

    /// What is ready of what an epoll descriptor watches, at most so many.
    pub(crate) fn epoll_wait(
        &self,
        epoll: i32,
        most: usize,
        timeout_ms: i32,
    ) -> Answer<Vec<(u32, u64)>> {
        let awaited = |until| Awaited::News(epoll, until);
        self.after(timeout_ms, awaited, |state| match state.handle(epoll)? {
            Kind::Epoll(interests) => Ok(interests.tell(most)),
            _ => Err(Errno(libc::EINVAL)),
        })
    }

    /// Looks when something has come, or so much time has passed.
    fn after<T>(
        &self,
        timeout_ms: i32,
        awaited: impl FnOnce(Instant) -> Awaited,
        look: impl FnOnce(&mut State) -> T,
    ) -> T {
        self.monitor.with(|state, changed| {
            let timeout = u64::try_from(timeout_ms).map(Duration::from_millis);
            let until = timeout.map_or(Instant::MAX, |timeout| state.now + timeout);
            let awaited = awaited(until);
            if !state.has_come(&awaited) {
                let ticket = state.block(awaited.clone());
                while !state.has_come(&awaited) {
                    state.wait(changed);
                }
                state.unblock(ticket);
            }
            look(state)
        })
    }

    pub(crate) fn netdev_send(&self, packet: &[u8]) -> Answer {
        self.with(|state| {
            state.arrives(packet)?;
            Ok(0)
        })
    }

    /// The next packet that leaves, and when, in microseconds; `None` if none will.
    pub(crate) fn netdev_receive(&self) -> Option<(Vec<u8>, u64)> {
        self.monitor.with(|state, changed| {
            let until = state.now + PATIENCE;
            let deadline = std::time::Instant::now() + GRACE;
            loop {
                state.settle();
                while state.left.is_empty() {
                    yield_to_the_ready(state, changed);
                    if !state.left.is_empty() || !state.happens_by(until) {
                        break;
                    }
                    changed.wake_all();
                }
                if let Some((at, bytes)) = state.left.pop_front() {
                    return Some((bytes, micros(at)));
                }
                // Somebody who blocks may still do something; nothing else will happen.
                let is_anybody = !state.blocked.is_empty();
                if !is_anybody || std::time::Instant::now() >= deadline {
                    return None;
                }
                state.wait_timeout(changed, MOMENT);
            }
        })
    }

    /// So many microseconds go by.
    pub(crate) fn sleep(&self, micros: u32) {
        self.pass(from_micros(micros.into()));
    }

    /// The time, in microseconds. It goes on by one whenever it is asked for.
    pub(crate) fn time(&self) -> u64 {
        self.monitor.with(|state, changed| {
            let to = state.now + from_micros(1);
            while state.happens_by(to) {}
            state.note_look();
            state.now = state.now.max(to);
            changed.wake_all();
            micros(state.now)
        })
    }

    fn pass(&self, time: Duration) {
        self.monitor.with(|state, changed| {
            let to = state.now + time;
            loop {
                yield_to_the_ready(state, changed);
                if !state.happens_by(to) {
                    break;
                }
            }
            state.now = state.now.max(to);
            changed.wake_all();
        });
    }
}

/// Lets those who block and have no reason to any more return, before time goes on.
fn yield_to_the_ready(state: &mut Inside<'_, State>, changed: &Condition) {
    let deadline = std::time::Instant::now() + GRACE;
    while state.is_somebody_ready() && std::time::Instant::now() < deadline {
        changed.wake_all();
        state.wait_timeout(changed, MOMENT);
    }
    // What it is told of the time is that of its return.
    let deadline = std::time::Instant::now() + GLANCE;
    while state.returned.is_some() && std::time::Instant::now() < deadline {
        state.wait_timeout(changed, MOMENT);
    }
    state.returned = None;
}

/// Bytes that are left to read; the end that can be read behind them counts as one where there are none.
fn unread(state: &mut State, socket: Socket) -> Answer<u32> {
    let bytes = state.sockets.readable_bytes(socket)?;
    let has_ended = (state.sockets.readiness(socket)?).contains(Readiness::READ_HANG_UP);
    Ok(u32::try_from(bytes)
        .unwrap_or(u32::MAX)
        .max(has_ended.into()))
}
