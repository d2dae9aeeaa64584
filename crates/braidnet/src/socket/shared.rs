//! Sockets that several threads use, some of which block.
//!
//! # Who may touch what
//!
//! The sockets are behind one lock. Whoever has it may call any verb; whoever blocks leaves it while it sleeps. All sleep on one
//! condition, which is woken when the readiness of any socket may have changed, and look at their own again: a change comes about
//! with the lock held, and so does the look before a sleep, so none is missed.

use super::error::SocketError;
use super::readiness::Readiness;
use super::table::Socket;
use super::{SocketAddr, Sockets};
use braidnet_sync::lock::{Inside, LockClass, LockKind, Monitor};
use braidnet_wire::time::Duration;

/// [`Sockets`] for several threads: verbs that block until they can do what they are asked for.
///
/// Somebody has to turn them, with [`with`](Shared::with), or nothing will ever happen.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::socket::{Shared, Sockets};
/// use braidnet::{Instant, StackConfig};
///
/// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
/// let server = Shared::new(Sockets::new(&StackConfig::new("10.0.0.2".parse()?), there)?);
/// let client = Shared::new(Sockets::new(&StackConfig::new("10.0.0.1".parse()?), here)?);
/// let listener = server.with(|sockets| {
///     let listener = sockets.socket()?;
///     sockets.bind(listener, "0.0.0.0:7".parse().expect("an address"))?;
///     sockets.listen(listener, 1)?;
///     Ok::<_, braidnet::socket::SocketError>(listener)
/// })?;
/// std::thread::scope(|scope| {
///     let accepted = scope.spawn(|| server.accept(listener, None));
///     let called = scope.spawn(|| {
///         let call = client.with(Sockets::socket)?;
///         client.connect(call, "10.0.0.2:7".parse().expect("an address"), None)
///     });
///     while !(accepted.is_finished() && called.is_finished()) {
///         client.with(|sockets| sockets.turn(Instant::ZERO));
///         server.with(|sockets| sockets.turn(Instant::ZERO));
///     }
///     assert!(accepted.join().expect("no panic").is_ok());
///     assert_eq!(called.join().expect("no panic"), Ok(()));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Shared {
    monitor: Monitor<Sockets>,
}

impl Shared {
    /// Shares these.
    pub fn new(sockets: Sockets) -> Shared {
        Shared {
            monitor: Monitor::new(
                LockKind::Adaptive,
                LockClass::Socket,
                sockets,
                Default::default(),
            ),
        }
    }

    /// Does something with the sockets, and wakes who waits if that has changed what they can do. It must not block.
    pub fn with<R>(&self, work: impl FnOnce(&mut Sockets) -> R) -> R {
        self.monitor.with(|sockets, changed| {
            let before = sockets.changes();
            let result = work(sockets);
            if sockets.changes() != before {
                changed.wake_all();
            }
            result
        })
    }

    /// Sleeps until a socket is ready for some of `wanted`, an error waits, or it is hung up; what it is ready for.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if `at_most` has passed, on the system's clock; if there is no such socket, or no more.
    pub fn wait(
        &self,
        socket: Socket,
        wanted: Readiness,
        at_most: Option<Duration>,
    ) -> Result<Readiness, SocketError> {
        self.blocking(at_most, |sockets| {
            let ready = sockets.readiness(socket)?;
            match ready.intersects(wanted | Readiness::ALWAYS) {
                true => Ok(ready),
                false => Err(SocketError::WouldBlock),
            }
        })
    }

    /// Tries again whenever something has changed, as long as the answer is [`SocketError::WouldBlock`].
    ///
    /// # Errors
    /// Any other that `attempt` has, or that one if `at_most` has passed.
    pub fn blocking<R>(
        &self,
        at_most: Option<Duration>,
        mut attempt: impl FnMut(&mut Sockets) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        let deadline = at_most.map(|at_most| std::time::Instant::now() + at_most);
        self.monitor.with(|sockets, changed| {
            loop {
                let before = sockets.changes();
                let result = attempt(sockets);
                if sockets.changes() != before {
                    changed.wake_all();
                }
                if !matches!(result, Err(SocketError::WouldBlock)) {
                    return result;
                }
                if !sleep(sockets, changed, deadline) {
                    return result;
                }
            }
        })
    }

    /// [`Sockets::accept`], blocking.
    ///
    /// # Errors
    /// As that, and [`SocketError::WouldBlock`] if `at_most` has passed.
    pub fn accept(
        &self,
        listener: Socket,
        at_most: Option<Duration>,
    ) -> Result<(Socket, SocketAddr), SocketError> {
        self.blocking(at_most, |sockets| sockets.accept(listener))
    }

    /// [`Sockets::connect`], blocking until the connection is established or has failed.
    ///
    /// # Errors
    /// As that, and [`SocketError::WouldBlock`] if `at_most` has passed: it goes on being opened.
    pub fn connect(
        &self,
        socket: Socket,
        to: SocketAddr,
        at_most: Option<Duration>,
    ) -> Result<(), SocketError> {
        let mut is_begun = false;
        self.blocking(at_most, |sockets| match sockets.connect(socket, to) {
            Err(SocketError::InProgress) => {
                is_begun = true;
                Err(SocketError::WouldBlock)
            }
            Err(SocketError::Already) if is_begun => Err(SocketError::WouldBlock),
            result => result,
        })
    }

    /// [`Sockets::connect_with`], blocking until the connection is established or has failed, and what has not travelled with the SYN is taken;
    /// how many bytes are.
    ///
    /// # Errors
    /// As that, and [`SocketError::WouldBlock`] if `at_most` has passed first: it goes on being opened.
    pub fn connect_with(
        &self,
        socket: Socket,
        to: SocketAddr,
        bytes: &[u8],
        at_most: Option<Duration>,
    ) -> Result<usize, SocketError> {
        let sent = match self.with(|sockets| sockets.connect_with(socket, to, bytes)) {
            Err(SocketError::InProgress) => 0,
            result => result?,
        };
        self.blocking(at_most, |sockets| match sockets.connect(socket, to) {
            Err(SocketError::Already) => Err(SocketError::WouldBlock),
            // It was open before.
            Err(SocketError::Connected) => Ok(()),
            result => result,
        })?;
        match bytes.get(sent..) {
            Some(rest) if !rest.is_empty() => Ok(sent + self.send(socket, rest, at_most)?),
            _ => Ok(sent),
        }
    }

    /// [`Sockets::recv`], blocking until something has come or nothing more will.
    ///
    /// # Errors
    /// As that, and [`SocketError::WouldBlock`] if `at_most` has passed.
    pub fn recv(
        &self,
        socket: Socket,
        to: &mut [u8],
        at_most: Option<Duration>,
    ) -> Result<usize, SocketError> {
        self.blocking(at_most, |sockets| sockets.recv(socket, to))
    }

    /// [`Sockets::send`], blocking until all has been taken; how many bytes have.
    ///
    /// # Errors
    /// As that, if none has; [`SocketError::WouldBlock`] if `at_most` has passed first.
    pub fn send(
        &self,
        socket: Socket,
        bytes: &[u8],
        at_most: Option<Duration>,
    ) -> Result<usize, SocketError> {
        let mut left = bytes;
        let result = self.blocking(at_most, |sockets| {
            loop {
                let sent = match sockets.send(socket, left) {
                    // It begins only now.
                    Err(SocketError::InProgress) => return Err(SocketError::WouldBlock),
                    sent => sent?,
                };
                left = left.get(sent..).unwrap_or_default();
                if left.is_empty() {
                    return Ok(());
                }
            }
        });
        match (result, bytes.len() - left.len()) {
            (Err(error), 0) => Err(error),
            (_, sent) => Ok(sent),
        }
    }

    /// The sockets.
    pub fn into_inner(self) -> Sockets {
        self.monitor.into_inner()
    }
}

/// Sleeps until something has changed; `false` if the deadline has passed.
fn sleep(
    sockets: &mut Inside<'_, Sockets>,
    changed: &braidnet_sync::lock::Condition,
    deadline: Option<std::time::Instant>,
) -> bool {
    let Some(deadline) = deadline else {
        sockets.wait(changed);
        return true;
    };
    let left = deadline.saturating_duration_since(std::time::Instant::now());
    !left.is_zero() && (sockets.wait_timeout(changed, left) || std::time::Instant::now() < deadline)
}
