//! Who waits for which socket, and who is woken when.
//!
//! # The protocol
//!
//! There is one mechanism for threads, tasks and descriptors: a [`Waker`]. Whoever has tried a verb and was told
//! [`SocketError::WouldBlock`] leaves one, with the readiness that it waits for. The trial and the leaving are one visit to the lock, and
//! readiness changes only under that lock, with a note of it: so whatever changes comes before the trial, which then sees it, or after the leaving,
//! and whoever leaves the lock next finds the note and the waker. No wake-up is lost, and none is looked for: a visit that has changed
//! nothing costs a look at an empty list.
//!
//! A waker is called once and is then forgotten: who is woken tries again, and leaves another where it has to. It is called, and
//! dropped, outside the lock, as it may be a task whose last handle it is. All who wait for a socket and a readiness are woken, in the order
//! in which they came; that one of them takes what there is, the others find out.
//!
//! # What is kept
//!
//! A [`Waiter`] leaves one waker at a time: the next takes the place of the last, and what was left goes with the waiter. So there are as many
//! as there are waiters, and none of a future that was dropped. Wakers that are to be called are no more than those.
//!
//! Where memory is short, a verb may say that it would block though the socket is ready. No change of readiness ends that, so
//! those who wait then are woken again after 20 ms.

use super::Sockets;
use super::error::SocketError;
use super::readiness::Readiness;
use super::shared::Shared;
use super::table::Socket;
use arrayvec::ArrayVec;
use braidnet_wire::time::{Duration, Instant};
use core::fmt;
use core::ops::Deref;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, VecDeque};

/// Wakers that are called between two visits to the lock.
pub(super) type Woken = ArrayVec<Waker, 16>;

/// After how long those try again who wait for memory, as the stack below does.
pub(super) const RETRY: Duration = Duration::from_millis(20);

/// All who wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// By socket, and then in the order in which they came.
    all: BTreeMap<(Socket, u64), Wish>,
    /// How many have come so far.
    come: u64,
    /// Who is to be woken. Empty between visits, unless they are many; kept for its memory.
    due: VecDeque<Waker>,
    /// When those are who wait for memory, if any do.
    retry_at: Option<Instant>,
    /// Somebody does since the last turn.
    is_short_of_memory: bool,
}

/// What somebody waits for.
struct Wish {
    wanted: Readiness,
    waker: Waker,
    /// The socket was ready, and the verb said that it would block all the same.
    is_short_of_memory: bool,
}

impl Waiting {
    /// Notes who waits for a socket; the number by which to take that back.
    fn leave(&mut self, socket: Socket, wish: Wish) -> u64 {
        let number = self.come;
        self.come += 1;
        self.all.insert((socket, number), wish);
        number
    }

    /// Whoever waited under this number waits no more.
    fn take_back(&mut self, socket: Socket, number: u64) -> Option<Wish> {
        self.all.remove(&(socket, number))
    }

    /// Finds whom to wake after what has changed.
    pub(super) fn look_through(&mut self, sockets: &mut Sockets) {
        if sockets.table.is_down() {
            let all = core::mem::take(&mut self.all);
            self.due.extend(all.into_values().map(|wish| wish.waker));
        }
        while let Some(place) = sockets.changed_place() {
            if !self.all.is_empty() {
                self.wake_at(place, sockets);
            }
        }
    }

    fn wake_at(&mut self, place: u32, sockets: &mut Sockets) {
        let there = Socket::all_at(place);
        let there = (*there.start(), 0)..=(*there.end(), u64::MAX);
        let ended = self.all.extract_if(there, |(socket, _), wish| {
            // Of a socket that is no more, its waiters hear.
            sockets.readiness(*socket).map_or(true, |ready| {
                ready.intersects(wish.wanted | Readiness::ALWAYS)
            })
        });
        self.due.extend(ended.map(|(_, wish)| wish.waker));
    }

    /// Wakes those who wait for memory, if it is time; when it is, if any do.
    pub(super) fn retry(&mut self, now: Instant) -> Option<Instant> {
        if core::mem::take(&mut self.is_short_of_memory) {
            self.retry_at.get_or_insert(now + RETRY);
        }
        if self.retry_at? <= now {
            self.retry_at = None;
            let short = self.all.extract_if(.., |_, wish| wish.is_short_of_memory);
            self.due.extend(short.map(|(_, wish)| wish.waker));
        }
        self.retry_at
    }

    /// Takes those out who are to be called now, as many as there is room for.
    pub(super) fn take_due(&mut self, woken: &mut Woken) {
        let count = self.due.len().min(woken.remaining_capacity());
        woken.extend(self.due.drain(..count));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.due.len()
    }
}

/// Somebody who may wait for a socket: a handle's reader or writer, a future, a thread in a verb.
///
/// It keeps the waker of the last [`poll`](Waiter::poll) that was told to wait, and takes it back when it is dropped. `S` is how it holds
/// on to the sockets: a reference, or an `Arc`.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::socket::{Readiness, Shared, SocketError, Sockets, Waiter};
/// use braidnet::StackConfig;
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Waker};
///
/// let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
/// let config = StackConfig::new("10.0.0.1".parse()?);
/// let shared = Arc::new(Shared::new(Sockets::new(&config, here)?));
/// let listener = shared.with(|sockets| {
///     let listener = sockets.socket()?;
///     sockets.listen(listener, 1)?;
///     Ok::<_, SocketError>(listener)
/// })?;
/// let mut waiter = Waiter::new(shared.clone(), listener);
/// let mut cx = Context::from_waker(Waker::noop());
/// let polled = waiter.poll(Readiness::READABLE, &mut cx, |sockets| sockets.accept(listener));
/// assert!(polled.is_pending(), "nobody calls");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Waiter<S: Deref<Target = Shared>> {
    shared: S,
    socket: Socket,
    /// Under which number it waits, if it has been told to; it may have been woken since.
    number: Option<u64>,
}

impl<S: Deref<Target = Shared>> Waiter<S> {
    /// One that does not wait yet.
    pub fn new(shared: S, socket: Socket) -> Waiter<S> {
        Waiter {
            shared,
            socket,
            number: None,
        }
    }

    /// What it waits for.
    pub fn socket(&self) -> Socket {
        self.socket
    }

    /// The sockets, of which that is one.
    pub fn shared(&self) -> &S {
        &self.shared
    }

    /// Tries. Where the answer is [`SocketError::WouldBlock`], the task of `cx` is woken once the socket is ready for some of `wanted`, an
    /// error waits, it is hung up, or it is no more: then it tries again, and may be told to wait again.
    ///
    /// Only the task of the last call is woken.
    pub fn poll<R>(
        &mut self,
        wanted: Readiness,
        cx: &mut Context<'_>,
        attempt: impl FnOnce(&mut Sockets) -> Result<R, SocketError>,
    ) -> Poll<Result<R, SocketError>> {
        let (socket, before) = (self.socket, self.number.take());
        // Goes outside the lock, whatever happens inside.
        let mut replaced = None;
        let (result, number) = self.shared.visit(|sockets, waiting| {
            replaced = before.and_then(|number| waiting.take_back(socket, number));
            let result = attempt(sockets);
            if !matches!(result, Err(SocketError::WouldBlock)) {
                return (result, None);
            }
            let is_short_of_memory = sockets
                .readiness(socket)
                .is_ok_and(|ready| ready.intersects(wanted));
            if is_short_of_memory && waiting.retry_at.is_none() {
                waiting.is_short_of_memory = true;
                sockets.wants_turn = true;
            }
            let wish = Wish {
                wanted,
                waker: cx.waker().clone(),
                is_short_of_memory,
            };
            (result, Some(waiting.leave(socket, wish)))
        });
        drop(replaced);
        self.number = number;
        match number {
            Some(_) => Poll::Pending,
            None => Poll::Ready(result),
        }
    }
}

impl<S: Deref<Target = Shared>> fmt::Debug for Waiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("socket", &self.socket)
            .field("waits", &self.number.is_some())
            .finish_non_exhaustive()
    }
}

impl<S: Deref<Target = Shared>> Drop for Waiter<S> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            let socket = self.socket;
            let left = (self.shared).visit(|_, waiting| waiting.take_back(socket, number));
            // Outside the lock.
            drop(left);
        }
    }
}
