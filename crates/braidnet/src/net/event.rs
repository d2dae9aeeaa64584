//! Sockets that event loops wait for: a descriptor for each direction.
//!
//! # What the descriptors say
//!
//! Each is an eventfd(2), made when it is first asked for. That of reading is readable, that of writing writable, while the socket may be ready: from when it
//! becomes ready until a verb of that direction, which does not block, says `WouldBlock`. So it may be late to say that nothing is ready, once, and is never late to say that something is.
//! Level-triggered waiting (poll(2), epoll(7) without `EPOLLET`) is answered as long as that lasts. Edge-triggered waiting hears of each
//! time that it begins: go on until `WouldBlock`, or there is no next time.
//!
//! # How
//!
//! The waker of a [`Waiter`] raises the descriptor. The verb that says `WouldBlock` takes it back with the sockets locked, before it leaves the waker again:
//! whatever changes later raises it later. A waker that was on its way meanwhile raises it for nothing. One system call for each, and none while nobody has asked.
//!
//! An eventfd is writable while its count is below the greatest: the one of writing is held at that while nothing can be written.

use crate::socket::{Readiness, Shared, Socket, SocketError, Sockets, Waiter};
use core::task::{Context, Poll, Waker};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

/// What event loops wait for on one socket.
pub(super) struct Events {
    reading: Side,
    writing: Side,
}

impl Events {
    /// # Errors
    /// If the system has no descriptor left.
    pub(super) fn new(shared: &Arc<Shared>, socket: Socket) -> io::Result<Events> {
        Ok(Events {
            reading: Side::new(shared, socket, Signal::Reading)?,
            writing: Side::new(shared, socket, Signal::Writing)?,
        })
    }

    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.reading.signal.fd().as_fd()
    }

    pub(super) fn writable(&self) -> BorrowedFd<'_> {
        self.writing.signal.fd().as_fd()
    }

    /// Does what it can at once. Where that is nothing, the descriptor says so until that changes.
    pub(super) fn attempt<R>(
        &self,
        wanted: Readiness,
        attempt: impl FnOnce(&mut Sockets) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        match wanted.contains(Readiness::READABLE) {
            true => self.reading.attempt(attempt),
            false => self.writing.attempt(attempt),
        }
    }
}

/// One direction.
struct Side {
    signal: Arc<Signal>,
    waker: Waker,
    waiter: Mutex<Waiter<Arc<Shared>>>,
}

impl Side {
    fn new(
        shared: &Arc<Shared>,
        socket: Socket,
        kind: impl FnOnce(OwnedFd) -> Signal,
    ) -> io::Result<Side> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let signal = Arc::new(kind(fd));
        let side = Side {
            waker: Waker::from(signal.clone()),
            waiter: Mutex::new(Waiter::new(shared.clone(), socket)),
            signal,
        };
        side.signal.raise();
        let wanted = side.signal.wanted() | Readiness::ALWAYS;
        // Nothing is ready, or it hears when something is.
        let _ = side.attempt(
            |sockets| match sockets.readiness(socket)?.intersects(wanted) {
                true => Ok(()),
                false => Err(SocketError::WouldBlock),
            },
        );
        Ok(side)
    }

    fn attempt<R>(
        &self,
        attempt: impl FnOnce(&mut Sockets) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        let mut waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cx = Context::from_waker(&self.waker);
        let polled = waiter.poll(self.signal.wanted(), &mut cx, |sockets| {
            let result = attempt(sockets);
            if matches!(result, Err(SocketError::WouldBlock)) {
                self.signal.lower();
            }
            result
        });
        match polled {
            Poll::Ready(result) => result,
            Poll::Pending => Err(SocketError::WouldBlock),
        }
    }
}

/// A descriptor that is ready while its direction may be.
enum Signal {
    /// Readable while its count is not 0.
    Reading(OwnedFd),
    /// Writable while its count is not the greatest.
    Writing(OwnedFd),
}

/// The greatest count of an eventfd.
const GREATEST: u64 = u64::MAX - 1;

impl Signal {
    fn fd(&self) -> &OwnedFd {
        match self {
            Signal::Reading(fd) | Signal::Writing(fd) => fd,
        }
    }

    fn wanted(&self) -> Readiness {
        match self {
            Signal::Reading(_) => Readiness::READABLE,
            Signal::Writing(_) => Readiness::WRITABLE,
        }
    }

    fn raise(&self) {
        match self {
            Signal::Reading(fd) => add(fd, 1),
            Signal::Writing(fd) => take(fd),
        }
    }

    fn lower(&self) {
        match self {
            Signal::Reading(fd) => take(fd),
            Signal::Writing(fd) => add(fd, GREATEST),
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

/// Adds to the count. The one error that an eventfd has which does not block is that it would: then there is as much already. What a signal has
/// interrupted is tried again.
fn add(fd: &OwnedFd, count: u64) {
    while rustix::io::write(fd, &count.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
}

/// Sets the count to 0; that it is so already is the one error again.
fn take(fd: &OwnedFd) {
    while rustix::io::read(fd, &mut [0; 8]) == Err(rustix::io::Errno::INTR) {}
}
