//! What drives a host that is nobody's thread's.

use super::host::{CLOSING_FOR, Host, HostProcessor, Inner};
use crate::config::StackConfig;
use crate::error::StackError;
use crate::socket::Sockets;
use braidnet_device::Device;
use braidnet_stream::{Next, Processor};
use braidnet_sync::parker::WakerParker;
use braidnet_wire::time::Instant;
use core::task::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::sync::Weak;

impl Host {
    /// The same without a thread, for a task that [drives](Driver) it: on a runtime of tokio's, `tokio::drive` does that.
    ///
    /// Nobody waits where the last handle is dropped: whoever drives it goes on until peers have acknowledged what was sent, two seconds at most.
    ///
    /// # Errors
    /// If the configuration makes no sense, or the device cannot be opened.
    pub fn driven(config: &StackConfig, device: impl Device) -> Result<(Host, Driver), StackError> {
        let (host, mut processor) = Host::turned(config, device)?;
        let parker = WakerParker::new();
        processor.wake_with(parker.unparker());
        let driver = Driver {
            processor,
            parker,
            handles: host.downgrade(),
            until: None,
        };
        Ok((host, driver))
    }
}

/// Turns a [`Host`] as part of a task, and has that woken when there is something to do again. Dropped, it leaves the sockets
/// [down](crate::socket::SocketError::Down).
///
/// Whoever is told [`Next::Idle`] or [`Next::At`] may sleep until his waker is called, [what is readable when packets arrive](Driver::fd) is, or that time has come;
/// what has been left for the host since the turn began is in none of these cases slept over. A descriptor's readiness may be told once for many packets, as by `EPOLLET`: whoever
/// takes note of it *before* the turn misses none.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::net::{Host, TcpListener};
/// use braidnet::stream::Next;
/// use braidnet::{Instant, StackConfig};
/// use std::task::Waker;
///
/// let (_here, there) = memory::wire(Capabilities::ip(1500), 64);
/// let (host, mut driver) = Host::driven(&StackConfig::new("10.0.0.2".parse()?), there)?;
/// let listener = TcpListener::bind(&host, "10.0.0.2:7")?;
/// let now = Instant::ZERO;
/// while driver.turn(now, Waker::noop()) == Some(Next::Again) {}
/// drop((listener, host));
/// assert_eq!(driver.turn(now, Waker::noop()), None, "nobody has a use for it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver {
    processor: HostProcessor,
    parker: WakerParker,
    /// Gone when nobody has the host or a socket of it.
    handles: Weak<Inner>,
    /// How long it goes on at most, since they are.
    until: Option<Instant>,
}

impl Driver {
    /// Carries the host forward at time `now`, by at most [`StackConfig::batch`] packets, and says what it wants next: unless that is [`Next::Again`], `waker` is called,
    /// once, when something is left for it. Only the waker of the last turn is, on any thread, also by another host that is just being turned, whose sockets it must not use: it has the
    /// task run later, as runtimes' do. `None` if the last handle and the last socket are gone, and nothing more is to be sent.
    ///
    /// # Panics
    /// If a module of the stack does outside every bucket: the sockets are [down](crate::socket::SocketError::Down) then.
    pub fn turn(&mut self, now: Instant, waker: &Waker) -> Option<Next> {
        let next = self.processor.turn(now, usize::MAX);
        if self.is_over(now) {
            return None;
        }
        if next == Next::Again {
            return Some(Next::Again);
        }
        self.processor.rest();
        // Packets that have been told of may be left: those behind what was dropped, and those that wait for memory.
        let short = self.processor.shared.with(Sockets::short_until);
        if short.is_none() && self.is_readable() {
            return Some(Next::Again);
        }
        self.parker.announce();
        if self.processor.has_work() {
            self.parker.cancel();
            return Some(Next::Again);
        }
        if !self.parker.park(waker) {
            return Some(Next::Again);
        }
        let also = short.into_iter().chain(self.until);
        Some(also.fold(next, |next, at| next.sooner(Next::At(at))))
    }

    /// What becomes readable when packets arrive; `None` for devices in memory, which call the waker, and where nothing will arrive any more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.processor.fd()
    }

    /// Whether the device's descriptor is, now.
    fn is_readable(&self) -> bool {
        let Some(fd) = self.fd() else { return false };
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        // What the system refuses is asked again behind the next turn.
        let _ = poll(&mut polled, Some(&Timespec::default()));
        polled[0].revents().contains(PollFlags::IN)
    }

    /// Whether nobody is left to do anything for.
    fn is_over(&mut self, now: Instant) -> bool {
        if self.handles.strong_count() > 0 {
            return false;
        }
        let until = *self.until.get_or_insert(now + CLOSING_FOR);
        now >= until || !self.processor.shared.with(Sockets::is_sending)
    }
}
