//! What all handles on one socket share.

use super::Host;
use super::event::Events;
use crate::socket::{
    How, OptionName, Readiness, Shared, Socket, SocketError, SocketOption, Sockets,
};
use braidnet_wire::time::Duration;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::net::Shutdown;
use std::sync::OnceLock;

/// A socket of a host, closed with its last handle. Timeouts and whether it blocks are the socket's, as with `try_clone` in std: any
/// handle sets them for all. They are looked at where a verb begins.
pub(crate) struct Handle {
    host: Host,
    socket: Socket,
    read_timeout: Timeout,
    write_timeout: Timeout,
    is_nonblocking: AtomicBool,
    /// What event loops wait for, if any does.
    events: OnceLock<Events>,
}

/// Nanoseconds, 0 for none.
#[derive(Default)]
pub(super) struct Timeout(AtomicU64);

impl Timeout {
    pub(super) fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// # Errors
    /// If it is no time at all, as in std.
    pub(super) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            let none = "a timeout of zero is none: say `None`, or have the socket not block";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, none));
        }
        let nanos = timeout.map_or(0, |timeout| timeout.as_nanos().min(u64::MAX.into()) as u64);
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }
}

impl Handle {
    /// A new socket.
    pub(crate) fn open(host: &Host) -> Result<Handle, SocketError> {
        let socket = host.shared().with(Sockets::socket)?;
        Ok(Handle::of(host, socket))
    }

    /// One that is there.
    pub(crate) fn of(host: &Host, socket: Socket) -> Handle {
        Handle {
            host: host.clone(),
            socket,
            read_timeout: Timeout::default(),
            write_timeout: Timeout::default(),
            is_nonblocking: AtomicBool::new(false),
            events: OnceLock::new(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn socket(&self) -> Socket {
        self.socket
    }

    pub(super) fn read_timeout(&self) -> &Timeout {
        &self.read_timeout
    }

    pub(super) fn write_timeout(&self) -> &Timeout {
        &self.write_timeout
    }

    pub(super) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    /// Does what it can at once.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut Sockets, Socket) -> Result<R, SocketError>,
    ) -> io::Result<R> {
        let done = self.shared().with(|sockets| work(sockets, self.socket));
        done.map_err(io::Error::from)
    }

    /// Does it when the socket can, within the time that it is given; at once or not at all where it does not block.
    pub(super) fn blocking<R>(
        &self,
        wanted: Readiness,
        timeout: &Timeout,
        mut attempt: impl FnMut(&mut Sockets, Socket) -> Result<R, SocketError>,
    ) -> io::Result<R> {
        let socket = self.socket;
        let attempt = |sockets: &mut Sockets| attempt(sockets, socket);
        let is_nonblocking = self.is_nonblocking.load(Ordering::Relaxed);
        let done = match (is_nonblocking, self.events.get()) {
            (true, Some(events)) => events.attempt(wanted, attempt),
            (true, None) => self.shared().with(attempt),
            (false, _) => (self.shared()).blocking(socket, wanted, timeout.get(), attempt),
        };
        done.map_err(io::Error::from)
    }

    /// What event loops wait for.
    pub(super) fn events(&self) -> io::Result<&Events> {
        if let Some(events) = self.events.get() {
            return Ok(events);
        }
        let events = Events::new(self.host.shared(), self.socket)?;
        // Who has been as fast has made the same.
        Ok(self.events.get_or_init(|| events))
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => How::Read,
            Shutdown::Write => How::Write,
            Shutdown::Both => How::Both,
        };
        self.with(|sockets, socket| sockets.shutdown(socket, how))
    }

    pub(super) fn set(&self, option: SocketOption) -> io::Result<()> {
        self.with(|sockets, socket| sockets.set_option(socket, option))
    }

    pub(super) fn option(&self, name: OptionName) -> io::Result<SocketOption> {
        self.with(|sockets, socket| sockets.option(socket, name))
    }

    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        let error = self.with(Sockets::take_error)?;
        Ok(error.map(io::Error::from))
    }

    fn shared(&self) -> &Shared {
        self.host.shared()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Where the host is down there is nothing left to close.
        let _ = self.shared().with(|sockets| sockets.close(self.socket));
    }
}
