//! Sockets that several threads and tasks use, some of which wait.
//!
//! # Who may touch what
//!
//! The sockets, and those who wait for them, are behind one lock. Whoever has it may call any verb; nobody sleeps with it. Before it is
//! given back, whom to wake is found from what has changed meanwhile, and is woken outside it; [`waiting`](super::waiting) says why
//! nobody is forgotten. Whoever turns the sockets is one of those who wait, while he sleeps: for work.
//!
//! # Panics
//!
//! A panic with the lock held, in a module of the stack or in what was given to [`with`](Shared::with), leaves nothing that could be relied on: from then on
//! every verb says [`SocketError::Down`], and all who wait are woken to hear it. A waker that panics does so to whoever has called it, behind
//! all others that were to be called.

use super::error::SocketError;
use super::readiness::Readiness;
use super::sleeper::Sleeper;
use super::table::Socket;
use super::waiting::{Waiter, Waiting, Woken};
use super::{SocketAddr, Sockets};
use braidnet_stream::Next;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_wire::time::{Duration, Instant};
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// [`Sockets`] for several threads and tasks: verbs that block until they can do what they are asked for, and a [`Waiter`] for
/// who polls.
///
/// Somebody has to [turn](Shared::turn) them, or nothing will ever happen.
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
///         client.turn(Instant::ZERO);
///         server.turn(Instant::ZERO);
///     }
///     assert!(accepted.join().expect("no panic").is_ok());
///     assert_eq!(called.join().expect("no panic"), Ok(()));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Shared {
    state: Lock<State>,
}

struct State {
    sockets: Sockets,
    waiting: Waiting,
    /// Wakes who turns them, while he sleeps.
    driver: Option<Waker>,
    /// Wakes who [waits](Shared::wait_until_sent) for peers to have all, if anybody does.
    ends: Option<Waker>,
}

impl State {
    /// Who is to be woken besides those who wait for sockets: whoever turns them, and who waits for the end.
    fn take_others(&mut self) -> [Option<Waker>; 2] {
        let driver = match self.sockets.has_work() {
            true => self.driver.take(),
            false => None,
        };
        let is_end = self.ends.is_some() && !self.sockets.is_sending();
        let ends = if is_end { self.ends.take() } else { None };
        [driver, ends]
    }
}

impl Shared {
    /// Shares these.
    pub fn new(sockets: Sockets) -> Shared {
        let state = State {
            sockets,
            waiting: Waiting::default(),
            driver: None,
            ends: None,
        };
        Shared {
            state: Lock::new(LockKind::Adaptive, LockClass::Socket, state),
        }
    }

    /// Does something with the sockets, and wakes who waits for what has changed thereby. It must neither block nor use the same sockets in any
    /// other way. [`Sockets::changed`] has nothing to tell here: what it would is for those who wait.
    ///
    /// # Panics
    /// If `work` does: the sockets are [down](SocketError::Down) then.
    pub fn with<R>(&self, work: impl FnOnce(&mut Sockets) -> R) -> R {
        self.visit(|sockets, _| work(sockets))
    }

    /// Carries everything forward at time `now`, as [`Sockets::turn`] does, and wakes who waits for what came of it.
    ///
    /// # Panics
    /// If a module of the stack does outside every bucket: the sockets are [down](SocketError::Down) then.
    pub fn turn(&self, now: Instant) -> Next {
        self.visit(|sockets, waiting| {
            if sockets.table.is_down() {
                return Next::Idle;
            }
            let next = sockets.turn(now);
            match waiting.retry(now) {
                Some(at) => next.sooner(Next::At(at)),
                None => next,
            }
        })
    }

    /// Whoever turns them is about to sleep: `driver` is called, once, when something is asked for that the next turn has to look after. `false`
    /// if something has been since the last turn, or a device in memory has something; then it is not called. For what arrives, sleep on the
    /// device.
    pub fn rest(&self, driver: &Waker) -> bool {
        let (rests, before) = self.state.with(|state| {
            let sockets = &state.sockets;
            let has_work = sockets.has_work() || sockets.stack.has_waiting();
            let rests = sockets.table.is_down() || !has_work;
            let now = rests.then(|| driver.clone());
            (rests, core::mem::replace(&mut state.driver, now))
        });
        // Outside the lock.
        drop(before);
        rests
    }

    /// Nothing is to be had of the sockets any more: every verb says [`SocketError::Down`], and all who wait are woken to hear it.
    pub fn go_down(&self) {
        self.with(Sockets::go_down);
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
        self.blocking(socket, wanted, at_most, |sockets| {
            let ready = sockets.readiness(socket)?;
            match ready.intersects(wanted | Readiness::ALWAYS) {
                true => Ok(ready),
                false => Err(SocketError::WouldBlock),
            }
        })
    }

    /// Tries again whenever the socket has become ready for some of `wanted`, as long as the answer is [`SocketError::WouldBlock`].
    ///
    /// # Errors
    /// Any other that `attempt` has, or that one if `at_most` has passed.
    pub fn blocking<R>(
        &self,
        socket: Socket,
        wanted: Readiness,
        at_most: Option<Duration>,
        mut attempt: impl FnMut(&mut Sockets) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        let deadline = at_most.and_then(|at_most| std::time::Instant::now().checked_add(at_most));
        Sleeper::of_this_thread(|sleeper| {
            let waker = sleeper.waker();
            let mut cx = Context::from_waker(&waker);
            let mut waiter = Waiter::new(self, socket);
            loop {
                match waiter.poll(wanted, &mut cx, &mut attempt) {
                    Poll::Ready(result) => return result,
                    Poll::Pending if sleeper.sleep(deadline) => {}
                    Poll::Pending => return Err(SocketError::WouldBlock),
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
        let wanted = Readiness::READABLE;
        self.blocking(listener, wanted, at_most, |sockets| {
            sockets.accept(listener)
        })
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
        let wanted = Readiness::WRITABLE;
        self.blocking(socket, wanted, at_most, |sockets| {
            match sockets.connect(socket, to) {
                Err(SocketError::InProgress) => {
                    is_begun = true;
                    Err(SocketError::WouldBlock)
                }
                Err(SocketError::Already) if is_begun => Err(SocketError::WouldBlock),
                result => result,
            }
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
        let wanted = Readiness::WRITABLE;
        self.blocking(socket, wanted, at_most, |sockets| {
            match sockets.connect(socket, to) {
                Err(SocketError::Already) => Err(SocketError::WouldBlock),
                // It was open before.
                Err(SocketError::Connected) => Ok(()),
                result => result,
            }
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
        let wanted = Readiness::READABLE;
        self.blocking(socket, wanted, at_most, |sockets| sockets.recv(socket, to))
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
        let wanted = Readiness::WRITABLE;
        let result = self.blocking(socket, wanted, at_most, |sockets| {
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

    /// Sleeps until peers have acknowledged all that was sent, the ends of data included, or the sockets are down; `at_most` so long, on the system's clock.
    pub(crate) fn wait_until_sent(&self, at_most: Duration) {
        let deadline = std::time::Instant::now().checked_add(at_most);
        Sleeper::of_this_thread(|sleeper| {
            loop {
                let waker = sleeper.waker();
                let (is_sending, before) = self.state.with(|state| {
                    let is_sending = state.sockets.is_sending();
                    let ends = is_sending.then_some(waker);
                    (is_sending, core::mem::replace(&mut state.ends, ends))
                });
                // Outside the lock.
                drop(before);
                if !is_sending || !sleeper.sleep(deadline) {
                    return;
                }
            }
        });
    }

    /// The sockets.
    pub fn into_inner(self) -> Sockets {
        self.state.into_inner().sockets
    }

    /// A visit to the lock, after which those are woken who wait for what has changed in it.
    pub(super) fn visit<R>(&self, work: impl FnOnce(&mut Sockets, &mut Waiting) -> R) -> R {
        let (mut woken, mut others) = (Woken::new(), [None, None]);
        let outcome = self.state.with(|state| {
            let work = || work(&mut state.sockets, &mut state.waiting);
            let outcome = catch_unwind(AssertUnwindSafe(work));
            if outcome.is_err() {
                state.sockets.go_down();
            }
            state.waiting.look_through(&mut state.sockets);
            others = state.take_others();
            state.waiting.take_due(&mut woken);
            outcome
        });
        // Nobody goes without because another's waker panics.
        let mut panicked = None;
        let mut call = |waker: Waker| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                panicked.get_or_insert(panic);
            }
        };
        others.into_iter().flatten().for_each(&mut call);
        while woken.is_full() {
            woken.drain(..).for_each(&mut call);
            self.state.with(|state| state.waiting.take_due(&mut woken));
        }
        woken.drain(..).for_each(&mut call);
        match (outcome, panicked) {
            (Ok(result), None) => result,
            (Err(panic), _) | (_, Some(panic)) => resume_unwind(panic),
        }
    }
}

#[cfg(test)]
impl Shared {
    /// How many wakers are kept for those who wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.with(|state| state.waiting.len())
    }
}
