//! Sleeping until there is work, without losing the wake-up.
//!
//! # The protocol
//!
//! One processor parks, any number of threads unpark it. Work travels by other means (a ring, a flag); the parker only
//! answers for this: *whoever makes work visible and then calls [`unpark`](Unparker::unpark) either is seen by the parker's last look, or
//! wakes it.*
//!
//! The word is `AWAKE`, `ANNOUNCED`, or asleep: `ON_WORD` on the word itself, `ON_EVENT` on an event descriptor beside
//! a device's, `ON_ROSTER` where what sleeps is no thread but a task, which a [roster](crate::roster) queues, `ON_WAKER` where it is a task of a
//! runtime's, which has left its waker.
//!
//! - The parker *announces* (stores `ANNOUNCED`), issues a sequentially consistent fence, and **looks once more** at all its
//!   queues. If there is work it cancels. If not, it *sleeps*: compare-and-swap from `ANNOUNCED` to asleep, which fails if
//!   somebody has unparked it in between, and wait.
//! - The unparker has made its work visible, issues a sequentially consistent fence, and loads the word. `AWAKE`: nothing
//!   more to do. Otherwise it swaps in `AWAKE`, and only if it finds the parker *asleep*, which one unparker does, makes the
//!   system call that wakes it.
//!
//! Of the two fences one comes first. If the parker's does, the unparker's load sees `ANNOUNCED` or later. If the
//! unparker's does, the parker's look sees the work. Either way nothing is lost, and a parker that is awake costs the unparker a fence
//! and a load. Call `unpark` once per run, not per item.
//!
//! The fences also carry what the wake-up does not: a parker that was woken by the swap acquires nothing but through
//! the queue that it then reads, and the swap is an acquire and release anyway.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crossbeam_utils::CachePadded;

use crate::lock::Guarded;
use crate::primitives::{Arc, AtomicU64, Deadline, Futex, Ordering, Waited, fence};
use crate::roster::Roster;

mod task;
mod waker;

pub use task::TaskParker;
pub use waker::WakerParker;

const AWAKE: u32 = 0;
const ANNOUNCED: u32 = 1;
const ON_WORD: u32 = 2;
/// A task: nobody's to wake, but to be queued.
const ON_ROSTER: u32 = 4;
/// A task of a runtime's, whose waker is left.
const ON_WAKER: u32 = 5;
#[cfg(not(loom))]
const ON_EVENT: u32 = 3;

struct Shared {
    word: CachePadded<Futex>,
    /// Wake-ups that took a system call.
    wakes: AtomicU64,
    #[cfg(not(loom))]
    event: Option<OwnedFd>,
    /// The task that this is the word of.
    roster: Option<(Arc<Roster>, u32)>,
    /// What wakes the task that this is the word of.
    waker: Option<Guarded<Option<Waker>>>,
}

impl Shared {
    fn on(word: CachePadded<Futex>) -> Self {
        Shared {
            word,
            wakes: AtomicU64::new(0),
            #[cfg(not(loom))]
            event: None,
            roster: None,
            waker: None,
        }
    }
}

/// Devices that a parker can sleep on at once.
pub const MOST_DEVICES: usize = 63;

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Somebody unparked.
    Unparked,
    /// The time was over.
    TimedOut,
    /// A device has something (only [`Announced::park_on`]).
    Ready,
}

/// What sleeping and waking has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParkCounts {
    /// Sleeps that reached the kernel.
    pub sleeps: u64,
    /// Wake-ups by others that took a system call.
    pub wakes: u64,
}

/// The sleeping side; one processor's.
///
/// ```
/// use braidnet_sync::{parker::Parker, ring::spsc};
/// let (mut producer, mut consumer) = spsc::ring(4);
/// let mut parker = Parker::new();
/// let unparker = parker.unparker();
/// std::thread::spawn(move || {
///     producer.push(7).unwrap();
///     unparker.unpark();
/// });
/// let item = loop {
///     if let Some(item) = consumer.pop() {
///         break item;
///     }
///     let announced = parker.announce();
///     if consumer.is_empty() {
///         announced.park();
///     }
/// };
/// assert_eq!(item, 7);
/// ```
pub struct Parker {
    shared: Arc<Shared>,
    sleeps: u64,
}

impl Parker {
    /// A parker that sleeps on a word; it cannot wait for devices.
    pub fn new() -> Self {
        Self::with_shared(Shared::on(CachePadded::new(Futex::new(AWAKE))))
    }

    /// A parker that can sleep on devices as well.
    ///
    /// # Errors
    ///
    /// If the system gives no event descriptor.
    #[cfg(not(loom))]
    pub fn with_event() -> std::io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let mut shared = Shared::on(CachePadded::new(Futex::new(AWAKE)));
        // There are no devices in a run under shuttle.
        if cfg!(not(shuttle)) {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            shared.event = Some(event);
        }
        Ok(Self::with_shared(shared))
    }

    fn with_shared(shared: Shared) -> Self {
        Parker {
            shared: Arc::new(shared),
            sleeps: 0,
        }
    }

    /// A handle that wakes this parker.
    pub fn unparker(&self) -> Unparker {
        Unparker {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Announces that the caller is about to sleep. Look at every queue once more, then park, or drop the
    /// announcement.
    #[inline]
    pub fn announce(&mut self) -> Announced<'_> {
        self.shared.word.store(ANNOUNCED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Announced { parker: self }
    }

    /// What sleeping has cost so far.
    pub fn counts(&self) -> ParkCounts {
        ParkCounts {
            sleeps: self.sleeps,
            wakes: self.shared.wakes.load(Ordering::Relaxed),
        }
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// A parker that has announced its sleep. Dropping this cancels the announcement.
#[must_use = "dropping the announcement cancels it"]
pub struct Announced<'a> {
    parker: &'a mut Parker,
}

impl Announced<'_> {
    /// Stays awake after all; `true` if somebody has unparked since the announcement.
    #[inline]
    pub fn cancel(self) -> bool {
        let unparked = self.parker.shared.word.swap(AWAKE, Ordering::AcqRel) == AWAKE;
        core::mem::forget(self);
        unparked
    }

    /// Sleeps until unparked.
    pub fn park(self) -> Wake {
        self.park_until(None)
    }

    /// Sleeps until unparked, for `at_most` at most.
    pub fn park_timeout(self, at_most: Duration) -> Wake {
        self.park_until(Some(Deadline::after(at_most)))
    }

    /// Sleeps until unparked or a device of `devices` has something to read, for `at_most` at most.
    ///
    /// Devices are up to [`MOST_DEVICES`]. What an error or a closed device is, its reader finds out: it counts as ready. A signal, or an
    /// unpark that overlapped an earlier sleep, may end the sleep early as [`Wake::TimedOut`].
    ///
    /// # Errors
    ///
    /// If the parker was not made by [`Parker::with_event`], if there are too many devices, or if the system refuses to poll. The
    /// announcement is cancelled.
    #[cfg(not(loom))]
    pub fn park_on(
        self,
        devices: &[BorrowedFd<'_>],
        at_most: Option<Duration>,
    ) -> std::io::Result<Wake> {
        use std::io::{Error, ErrorKind};

        if cfg!(shuttle) && devices.is_empty() {
            return Ok(self.park_until(at_most.map(Deadline::after)));
        }
        let parker = &mut *self.parker;
        let Some(event) = &parker.shared.event else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this parker was made without an event to poll",
            ));
        };
        if devices.len() >= POLLED {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a parker polls 63 devices at most",
            ));
        }
        let word = &parker.shared.word;
        if word
            .compare_exchange(ANNOUNCED, ON_EVENT, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(Wake::Unparked);
        }
        parker.sleeps += 1;
        let polled = poll(event, devices, at_most);
        // Back from the poll, however it ended; dropping `self` says AWAKE once more, which does no harm.
        let unparked = word.swap(AWAKE, Ordering::AcqRel) == AWAKE;
        let ready = polled?;
        Ok(match (unparked, ready) {
            (true, _) => Wake::Unparked,
            (false, true) => Wake::Ready,
            (false, false) => Wake::TimedOut,
        })
    }

    fn park_until(self, deadline: Option<Deadline>) -> Wake {
        let parker = &mut *self.parker;
        let word = &parker.shared.word;
        if word
            .compare_exchange(ANNOUNCED, ON_WORD, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Wake::Unparked;
        }
        parker.sleeps += 1;
        loop {
            let waited = word.wait(ON_WORD, deadline.as_ref());
            if word.load(Ordering::Acquire) == AWAKE {
                return Wake::Unparked;
            }
            if waited == Waited::TimedOut {
                let unparked = word.swap(AWAKE, Ordering::AcqRel) == AWAKE;
                return if unparked {
                    Wake::Unparked
                } else {
                    Wake::TimedOut
                };
            }
        }
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // A late unparker may find the announcement still and swap it away, to no effect.
        self.parker.shared.word.store(AWAKE, Ordering::Release);
    }
}

impl fmt::Debug for Announced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announced").finish_non_exhaustive()
    }
}

/// A wait on devices looks at this many descriptors at most, the event included.
#[cfg(not(loom))]
const POLLED: usize = 1 + MOST_DEVICES;

/// Polls the event and the devices; whether a device is ready. An interruption by a signal is the end of the time.
#[cfg(not(loom))]
fn poll(
    event: &OwnedFd,
    devices: &[BorrowedFd<'_>],
    at_most: Option<Duration>,
) -> std::io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::io::Errno;

    let mut polled: [PollFd<'_>; POLLED] = core::array::from_fn(|index| {
        let device = index.checked_sub(1).and_then(|index| devices.get(index));
        PollFd::from_borrowed_fd(device.copied().unwrap_or(event.as_fd()), PollFlags::IN)
    });
    let polled = &mut polled[..=devices.len()];
    let timeout = at_most.map(|at_most| Timespec {
        tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    });
    match rustix::event::poll(polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let (event_polled, devices_polled) = (&polled[0], &polled[1..]);
    if !event_polled.revents().is_empty() {
        // Emptied, so that the next poll waits. Nothing to read means that nobody has written yet.
        match rustix::io::read(event, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(devices_polled
        .iter()
        .any(|device| !device.revents().is_empty()))
}

/// The waking side; any number of threads'.
#[derive(Clone)]
pub struct Unparker {
    shared: Arc<Shared>,
}

impl Unparker {
    /// Wakes the parker if it sleeps or is about to; a fence and a load if it is awake. `true` if a system call was
    /// made.
    ///
    /// Make the work visible before.
    #[inline]
    pub fn unpark(&self) -> bool {
        fence(Ordering::SeqCst);
        self.shared.word.load(Ordering::Relaxed) != AWAKE && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        let asleep = match self.shared.word.swap(AWAKE, Ordering::AcqRel) {
            ON_WORD => {
                self.shared.word.wake_one();
                true
            }
            #[cfg(not(loom))]
            ON_EVENT => {
                self.signal();
                true
            }
            ON_ROSTER => {
                let roster = self.shared.roster.as_ref();
                roster.is_some_and(|(roster, task)| roster.queue(*task))
            }
            ON_WAKER => self.shared.call_waker(),
            _ => false,
        };
        if asleep {
            self.shared.wakes.fetch_add(1, Ordering::Relaxed);
        }
        asleep
    }

    #[cfg(not(loom))]
    fn signal(&self) {
        let Some(event) = &self.shared.event else {
            return;
        };
        // The one error a non-blocking event has is that it is full, and then it is readable, which is what it should be.
        // A signal's interruption is tried again.
        while rustix::io::write(event, &1_u64.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
    }
}

impl fmt::Debug for Unparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unparker").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_unpark_after_the_announcement_is_not_lost() {
        let mut parker = Parker::with_event().unwrap();
        let unparker = parker.unparker();
        let unparked = |announced: Announced<'_>| {
            assert!(!unparker.unpark(), "nobody sleeps yet: no system call");
            announced.park()
        };
        assert_eq!(unparked(parker.announce()), Wake::Unparked);
        let announced = parker.announce();
        unparker.unpark();
        assert_eq!(announced.park_on(&[], None).unwrap(), Wake::Unparked);
        let announced = parker.announce();
        unparker.unpark();
        assert_eq!(announced.park_timeout(Duration::ZERO), Wake::Unparked);
        assert_eq!(parker.counts(), ParkCounts::default());
    }

    #[test]
    fn an_unpark_before_the_announcement_is_nothing() {
        let mut parker = Parker::with_event().unwrap();
        let unparker = parker.unparker();
        assert!(!unparker.unpark());
        assert_eq!(
            parker.announce().park_timeout(Duration::ZERO),
            Wake::TimedOut
        );
        assert!(!unparker.unpark());
        assert_eq!(
            parker
                .announce()
                .park_on(&[], Some(Duration::ZERO))
                .unwrap(),
            Wake::TimedOut
        );
        assert_eq!(
            parker.counts(),
            ParkCounts {
                sleeps: 2,
                wakes: 0
            }
        );
    }

    #[test]
    fn a_cancelled_announcement_is_awake() {
        let mut parker = Parker::new();
        let unparker = parker.unparker();
        assert!(!parker.announce().cancel());
        assert!(!unparker.unpark());
        let announced = parker.announce();
        unparker.unpark();
        assert!(announced.cancel());
        drop(parker.announce());
        assert_eq!(parker.shared.word.load(Ordering::Relaxed), AWAKE);
    }

    #[test]
    fn a_device_ends_the_sleep() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut parker = Parker::with_event().unwrap();
        let devices = [reader.as_fd()];
        let zero = Some(Duration::ZERO);
        assert_eq!(
            parker.announce().park_on(&devices, zero).unwrap(),
            Wake::TimedOut
        );
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!(
            parker.announce().park_on(&devices, None).unwrap(),
            Wake::Ready
        );
        drop(writer);
        assert_eq!(
            parker.announce().park_on(&devices, None).unwrap(),
            Wake::Ready
        );
    }

    #[test]
    fn devices_need_an_event_and_are_bounded() {
        let mut plain = Parker::new();
        assert_eq!(
            plain.announce().park_on(&[], None).unwrap_err().kind(),
            std::io::ErrorKind::Unsupported
        );
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut parker = Parker::with_event().unwrap();
        let refused = parker.announce().park_on(&[reader.as_fd(); POLLED], None);
        assert_eq!(
            refused.unwrap_err().kind(),
            std::io::ErrorKind::InvalidInput
        );
        assert_eq!(parker.shared.word.load(Ordering::Relaxed), AWAKE);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Parker, Wake};
    use crate::primitives::{Arc, AtomicUsize, Ordering, thread};
    use core::time::Duration;

    /// Threads bring work and unpark; the parker sleeps whenever it sees none. A lost wake-up is a deadlock.
    fn no_wake_up_is_lost(bringers: usize, preemption_bound: Option<usize>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemption_bound;
        builder.check(move || {
            let work = Arc::new(AtomicUsize::new(0));
            let mut parker = Parker::new();
            let threads: Vec<_> = (0..bringers)
                .map(|_| {
                    let (work, unparker) = (Arc::clone(&work), parker.unparker());
                    thread::spawn(move || {
                        work.fetch_add(1, Ordering::Relaxed);
                        unparker.unpark();
                    })
                })
                .collect();
            while work.load(Ordering::Relaxed) < bringers {
                let announced = parker.announce();
                if work.load(Ordering::Relaxed) < bringers {
                    assert_eq!(announced.park(), Wake::Unparked);
                } else {
                    announced.cancel();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(parker.counts().wakes <= parker.counts().sleeps);
        });
    }

    #[test]
    fn no_wake_up_by_one_is_lost() {
        no_wake_up_is_lost(1, None);
    }

    #[test]
    fn no_wake_up_by_two_is_lost() {
        no_wake_up_is_lost(2, Some(2));
    }

    /// The same with sleeps that time out, which leave the parker awake and able to sleep again.
    #[test]
    fn a_timeout_races_an_unpark() {
        loom::model(|| {
            let work = Arc::new(AtomicUsize::new(0));
            let mut parker = Parker::new();
            let bringer = {
                let (work, unparker) = (Arc::clone(&work), parker.unparker());
                thread::spawn(move || {
                    work.store(1, Ordering::Relaxed);
                    unparker.unpark();
                })
            };
            let announced = parker.announce();
            if work.load(Ordering::Relaxed) == 0 {
                announced.park_timeout(Duration::ZERO);
            } else {
                drop(announced);
            }
            let announced = parker.announce();
            if work.load(Ordering::Relaxed) == 0 {
                announced.park();
            } else {
                drop(announced);
            }
            bringer.join().unwrap();
            assert_eq!(work.load(Ordering::Relaxed), 1);
        });
    }
}
