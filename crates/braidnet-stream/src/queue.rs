//! The message queue of a task (ASX §2.3.3): counted in bytes, with a high and a low water mark.
//!
//! A queue stands between two tasks that different threads may turn: the one behind it puts, the one in front of it gets.
//! Messages leave it in the order of STREAMS: those of high priority first, then the bands from the highest to band 0, first
//! in first out within each.
//!
//! # Flow control
//!
//! A queue becomes *full* when it holds as many bytes as its high water mark, and remains so until it holds no more than
//! its low water mark. Fullness is advice to whoever asks: [`putq`](MessageQueue::putq) takes a message all the same, as in
//! STREAMS, where the one who puts has asked before; [`try_put`](MessageQueue::try_put) hands it back;
//! [`put_wait`](MessageQueue::put_wait) puts its thread to sleep until the queue is no longer full. As fullness is looked
//! at before a message is put, a queue may overshoot its high water mark by the last message, or by the last run of
//! [`put_run`](MessageQueue::put_run). Messages of high priority are counted but not held up.
//!
//! An empty message counts as one byte, so that empty messages fill a queue, too.
//!
//! # Threads
//!
//! Everything in the queue is behind one lock, which is entered once per call, whether for a message or for a run, and in
//! which nobody waits, drops a message, or looks into one that leaves. Its kind is chosen when the queue is made; the
//! adaptive lock is what ASX §2.6.1 gives its queues. Byte and message counts and fullness are published beside it and read
//! without it, as what they were a moment ago.
//!
//! ASX's condition objects *notempty* and *notfull* are two lists of sleeping threads behind the same lock. Whoever finds that
//! he must wait enters himself before he leaves the lock; whoever puts a message takes one thread off the first list, and whoever
//! gets a full queue down to its low water mark takes all off the second; both wake those whom they have taken off, and only those,
//! after they have left the lock. A woken thread looks again, and enters itself anew if another came before it. A thread
//! whose time is up takes itself off. So a thread that is off the list is awake or about to be, and no message arrives without a
//! waiting thread, if there is one, being woken for it.
//!
//! Waiting here means to sleep. A server that is to spin first looks at [`is_empty`](MessageQueue::is_empty), which costs no lock,
//! for as long as it sees fit.

mod bands;
mod waiters;

use bands::{Bands, Entry};
use braidnet_message::{Kind, Message, Run};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::primitives::{AtomicBool, AtomicUsize, Ordering};
use core::fmt;
use core::time::Duration;
use waiters::{Patience, Waiters, Woken};

/// Why a queue did not do what it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// It is full, and the caller did not want to wait.
    Full,
    /// The caller's time was up before there was room, or a message.
    TimedOut,
    /// It was closed; to one who gets: and is empty.
    Closed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Full => "the queue is full",
            Refusal::TimedOut => "the queue was waited for in vain",
            Refusal::Closed => "the queue is closed",
        })
    }
}

impl core::error::Error for Refusal {}

/// A message that a queue did not take, and why.
#[derive(Debug)]
pub struct Refused {
    /// The message, unchanged.
    pub message: Message,
    /// Why it was not taken.
    pub reason: Refusal,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Refused {}

/// What has become of a queue since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Messages put, by whichever call; those put back not included.
    pub putq: u64,
    /// Messages got, by whichever call.
    pub getq: u64,
    /// Messages put back.
    pub put_back: u64,
    /// Messages handed back by [`MessageQueue::try_put`] because the queue was full.
    pub refused: u64,
    /// Times that the queue became full.
    pub times_full: u64,
    /// Calls that slept because the queue was full.
    pub put_waits: u64,
    /// Calls that slept because the queue was empty.
    pub get_waits: u64,
    /// The most bytes it has held.
    pub peak_bytes: usize,
    /// The most messages it has held.
    pub peak_len: usize,
}

/// A queue of messages, counted in bytes, for any number of threads at both ends.
///
/// See the [module's text](self) for its order, its flow control and its locking.
///
/// ```
/// use braidnet_message::{Arena, Pool};
/// use braidnet_stream::queue::MessageQueue;
///
/// let mut pool = Pool::new(&Arena::new(1 << 20));
/// let queue = MessageQueue::new(1000, 3000);
/// for letter in [b"a", b"b"] {
///     queue.putq(pool.copy_from_slice(0, &letter.repeat(1500)).unwrap())?;
/// }
/// assert!(queue.is_full());
/// assert_eq!(queue.getq().unwrap().bytes()[0], b'a');
/// assert!(queue.is_full(), "not yet down to the low water mark");
/// assert_eq!(queue.getq().unwrap().bytes()[0], b'b');
/// assert!(!queue.is_full());
/// # Ok::<(), braidnet_stream::queue::Refused>(())
/// ```
pub struct MessageQueue {
    low_bytes: usize,
    high_bytes: usize,
    state: Lock<State>,
    published: Published,
}

/// What may be read without the lock, as it was when somebody last left it.
#[derive(Default)]
struct Published {
    bytes: AtomicUsize,
    len: AtomicUsize,
    full: AtomicBool,
}

/// What is behind the lock.
struct State {
    low_bytes: usize,
    high_bytes: usize,
    bands: Bands,
    bytes: usize,
    full: bool,
    closed: bool,
    /// Messages that have come since the lock was entered, each of which wakes a getter.
    arrived: usize,
    /// Whether since the lock was entered something has happened for which all putters are to look again.
    relieved: bool,
    getters: Waiters,
    putters: Waiters,
    counters: QueueCounters,
}

impl MessageQueue {
    /// An empty queue with these water marks in bytes, behind an adaptive lock.
    ///
    /// A high water mark of 0 is taken as 1, and a low one that is not below the high one as one less than that.
    pub fn new(low_bytes: usize, high_bytes: usize) -> MessageQueue {
        MessageQueue::with_lock(LockKind::default(), low_bytes, high_bytes)
    }

    /// The same, behind a lock of this kind.
    pub fn with_lock(kind: LockKind, low_bytes: usize, high_bytes: usize) -> MessageQueue {
        let high_bytes = high_bytes.max(1);
        let low_bytes = low_bytes.min(high_bytes - 1);
        MessageQueue {
            low_bytes,
            high_bytes,
            state: Lock::new(kind, LockClass::Queue, State::new(low_bytes, high_bytes)),
            published: Published::default(),
        }
    }

    /// Puts a message behind those of its band, even if the queue is full.
    ///
    /// # Errors
    /// Hands the message back if the queue is closed.
    #[inline]
    pub fn putq(&self, message: Message) -> Result<(), Refused> {
        self.with(|state| {
            if state.closed {
                return Err(Refused {
                    message,
                    reason: Refusal::Closed,
                });
            }
            state.put(message);
            Ok(())
        })
    }

    /// Puts a message unless the queue is full. One of high priority is taken all the same.
    ///
    /// # Errors
    /// Hands the message back if the queue is full or closed.
    pub fn try_put(&self, message: Message) -> Result<(), Refused> {
        self.with(|state| {
            let reason = if state.closed {
                Refusal::Closed
            } else {
                Refusal::Full
            };
            if state.admits(&message) {
                state.put(message);
                return Ok(());
            }
            state.counters.refused += u64::from(reason == Refusal::Full);
            Err(Refused { message, reason })
        })
    }

    /// Puts a message, waiting while the queue is full, at most for `timeout` if one is given. One of high priority does not
    /// wait.
    ///
    /// # Errors
    /// Hands the message back if the time is up or the queue is or becomes closed.
    pub fn put_wait(&self, message: Message, timeout: Option<Duration>) -> Result<(), Refused> {
        let mut message = Some(message);
        let waited = self.wait(Side::Put, timeout, |state| {
            let message = message.take_if(|message| state.admits(message))?;
            state.put(message);
            Some(())
        });
        match (waited, message) {
            (Err(reason), Some(message)) => Err(Refused { message, reason }),
            _ => Ok(()),
        }
    }

    /// Puts all messages of a run, in order, even if the queue is full, and leaves the run empty.
    ///
    /// # Errors
    /// [`Refusal::Closed`], and the run keeps its messages.
    pub fn put_run(&self, run: &mut Run) -> Result<(), Refusal> {
        self.with(|state| {
            if state.closed {
                return Err(Refusal::Closed);
            }
            run.drain().for_each(|message| state.put(message));
            Ok(())
        })
    }

    /// Puts all messages of a run, in order, waiting whenever the queue is full, altogether at most for `timeout` if one is
    /// given. The lock is entered once for as many as there is room for.
    ///
    /// # Errors
    /// [`Refusal::TimedOut`] or [`Refusal::Closed`], and the run keeps the messages that have not been put.
    pub fn put_run_wait(&self, run: &mut Run, timeout: Option<Duration>) -> Result<(), Refusal> {
        let mut rest = run.drain();
        let waited = self.wait(Side::Put, timeout, |state| {
            while let Some(message) = rest.as_slice().first() {
                if !state.admits(message) {
                    return None;
                }
                if let Some(message) = rest.next() {
                    state.put(message);
                }
            }
            Some(())
        });
        if waited.is_err() {
            let kept = rest.collect();
            *run = kept;
        }
        waited
    }

    /// Puts a message that was got from this queue back, in front of those of its band (STREAMS' `putbq`), even if the queue is
    /// full or closed.
    pub fn put_back(&self, message: Message) {
        self.with(|state| state.put_back(message));
    }

    /// Puts what is left of a run that was got from this queue back, so that it will be got in the same order, even if the
    /// queue is full or closed.
    pub fn put_back_run(&self, run: &mut Run) {
        self.with(|state| {
            run.drain()
                .rev()
                .for_each(|message| state.put_back(message))
        });
    }

    /// Takes the first message, if there is one.
    #[inline]
    pub fn getq(&self) -> Option<Message> {
        self.with(State::get)
    }

    /// Takes the first message, waiting until there is one, at most for `timeout` if one is given.
    ///
    /// # Errors
    /// [`Refusal::TimedOut`], or [`Refusal::Closed`] once the queue is closed and empty.
    pub fn get_wait(&self, timeout: Option<Duration>) -> Result<Message, Refusal> {
        self.wait(Side::Get, timeout, State::get)
    }

    /// Moves the first messages, at most `max`, to the end of `run`; returns how many.
    #[inline]
    pub fn get_run(&self, run: &mut Run, max: usize) -> usize {
        self.with(|state| state.get_run(run, max))
    }

    /// Moves the first messages, at most `max`, to the end of `run`, waiting until there is one, at most for `timeout` if one is
    /// given; returns how many: at least one, unless `max` is 0.
    ///
    /// # Errors
    /// [`Refusal::TimedOut`], or [`Refusal::Closed`] once the queue is closed and empty.
    pub fn get_run_wait(
        &self,
        run: &mut Run,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Refusal> {
        self.wait(Side::Get, timeout, |state| {
            let got = state.get_run(run, max);
            (got > 0 || max == 0).then_some(got)
        })
    }

    /// Takes no more messages, and wakes all who wait. Those that are there can still be got.
    pub fn close(&self) {
        self.with(|state| {
            state.closed = true;
            state.arrived = usize::MAX;
            state.relieved = true;
        });
    }

    /// Whether the queue was closed.
    pub fn is_closed(&self) -> bool {
        self.state.with(|state| state.closed)
    }

    /// Whether the queue has reached its high water mark, and since then not fallen to its low one. Takes no lock.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.published.full.load(Ordering::Relaxed)
    }

    /// Bytes in the queue, an empty message counted as one. Takes no lock.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.published.bytes.load(Ordering::Relaxed)
    }

    /// Messages in the queue. Takes no lock.
    #[inline]
    pub fn len(&self) -> usize {
        self.published.len.load(Ordering::Relaxed)
    }

    /// Whether the queue holds no message. Takes no lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The low and the high water mark, in bytes, as they were understood.
    pub fn water_marks(&self) -> (usize, usize) {
        (self.low_bytes, self.high_bytes)
    }

    /// What has become of the queue.
    pub fn counters(&self) -> QueueCounters {
        self.state.with(|state| state.counters)
    }
}

/// The two sides on which threads wait.
#[derive(Clone, Copy)]
enum Side {
    Put,
    Get,
}

/// The lock and the waiting.
impl MessageQueue {
    /// Enters the lock, and after it wakes whoever waits for what was done there.
    #[inline]
    fn with<R>(&self, enter: impl FnOnce(&mut State) -> R) -> R {
        let (result, woken) = self.state.with(|state| {
            let result = enter(state);
            self.publish(state);
            (result, state.take_woken())
        });
        if let Some(woken) = woken {
            woken.into_iter().for_each(Woken::wake);
        }
        result
    }

    /// Called with the lock held, so that what is read without it is never older than what was left last.
    #[inline]
    fn publish(&self, state: &mut State) {
        let (bytes, len) = (state.bytes, state.bands.len());
        self.published.bytes.store(bytes, Ordering::Relaxed);
        self.published.len.store(len, Ordering::Relaxed);
        self.published.full.store(state.full, Ordering::Relaxed);
        state.counters.peak_bytes = state.counters.peak_bytes.max(bytes);
        state.counters.peak_len = state.counters.peak_len.max(len);
    }

    /// Makes attempts until one succeeds, asleep in between. The last one is made when the time is up.
    fn wait<R>(
        &self,
        side: Side,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<R, Refusal> {
        let mut patience = Patience::new(timeout);
        loop {
            let outcome = self.with(|state| {
                let outcome = match attempt(state) {
                    Some(result) => Ok(result),
                    None if state.closed => Err(Refusal::Closed),
                    None if patience.is_over() => Err(Refusal::TimedOut),
                    None => {
                        state.enlist(side, patience.is_fresh());
                        return None;
                    }
                };
                // In the same breath, so that nobody takes this thread off the list in place of one that needs it.
                if !patience.is_fresh() {
                    state.waiters(side).leave();
                }
                Some(outcome)
            });
            if let Some(outcome) = outcome {
                return outcome;
            }
            patience.sleep();
        }
    }
}

/// Bytes of a small message: a queue takes memory for as many when it is made, within bounds.
const SMALL: usize = 256;

impl State {
    fn new(low_bytes: usize, high_bytes: usize) -> State {
        State {
            low_bytes,
            high_bytes,
            bands: Bands::with_capacity((high_bytes / SMALL).clamp(64, 4096)),
            bytes: 0,
            full: false,
            closed: false,
            arrived: 0,
            relieved: false,
            getters: Waiters::default(),
            putters: Waiters::default(),
            counters: QueueCounters::default(),
        }
    }

    /// Whether somebody who heeds flow control may put this message.
    #[inline]
    fn admits(&self, message: &Message) -> bool {
        !self.closed && (!self.full || message.kind() == Kind::HighPriority)
    }

    #[inline]
    fn put(&mut self, message: Message) {
        let entry = Entry::new(message);
        self.add(entry.bytes);
        self.counters.putq += 1;
        self.bands.push_back(entry);
    }

    fn put_back(&mut self, message: Message) {
        let entry = Entry::new(message);
        self.add(entry.bytes);
        self.counters.put_back += 1;
        self.bands.push_front(entry);
    }

    #[inline]
    fn get(&mut self) -> Option<Message> {
        let entry = self.bands.pop_front()?;
        self.subtract(entry.bytes, 1);
        Some(entry.message)
    }

    #[inline]
    fn get_run(&mut self, run: &mut Run, max: usize) -> usize {
        let before = run.len();
        let bytes = self.bands.pop_run(run, max);
        let got = run.len() - before;
        self.subtract(bytes, got);
        got
    }

    #[inline]
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.arrived = self.arrived.saturating_add(1);
        if !self.full && self.bytes >= self.high_bytes {
            self.full = true;
            self.counters.times_full += 1;
        }
    }

    #[inline]
    fn subtract(&mut self, bytes: usize, messages: usize) {
        self.bytes -= bytes;
        self.counters.getq += messages as u64;
        if self.full && self.bytes <= self.low_bytes {
            self.full = false;
            self.relieved = true;
        }
    }

    fn waiters(&mut self, side: Side) -> &mut Waiters {
        match side {
            Side::Put => &mut self.putters,
            Side::Get => &mut self.getters,
        }
    }

    /// Enters this thread as one that is about to sleep.
    #[cold]
    fn enlist(&mut self, side: Side, first: bool) {
        let calls = match side {
            Side::Put => &mut self.counters.put_waits,
            Side::Get => &mut self.counters.get_waits,
        };
        *calls += u64::from(first);
        self.waiters(side).enter();
    }

    /// Those who are to be woken once the lock has been left.
    #[inline]
    fn take_woken(&mut self) -> Option<[Woken; 2]> {
        let arrived = core::mem::take(&mut self.arrived);
        let relieved = core::mem::take(&mut self.relieved);
        if self.getters.is_empty() && self.putters.is_empty() {
            return None;
        }
        let putters = if relieved { usize::MAX } else { 0 };
        Some([self.getters.take(arrived), self.putters.take(putters)])
    }
}

impl fmt::Debug for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageQueue")
            .field("water_marks", &self.water_marks())
            .field("bytes", &self.bytes())
            .field("len", &self.len())
            .field("full", &self.is_full())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
