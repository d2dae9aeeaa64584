//! The vocabulary as it ships: std's atomics and cells, Linux's futex.

use core::ops::Deref;
use core::time::Duration;

use super::Waited;

pub(crate) use super::cell::UnsafeCell;
pub(crate) use std::sync::atomic::fence;
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::sync::{Arc, mpsc};
pub(crate) use std::thread;
pub use std::thread_local;

/// The lanes of a wait that any wake ends.
const ALL_LANES: u32 = libc::FUTEX_BITSET_MATCH_ANY as u32;

/// A word that threads can sleep on.
///
/// The kernel compares the word and queues the sleeper in one step, so a change of the word followed by a wake
/// cannot fall between a sleeper's last look and its sleep.
#[derive(Debug)]
pub(crate) struct Futex(AtomicU32);

impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Futex(AtomicU32::new(value))
    }

    /// Sleeps while the word is `expected`, at most until `deadline`. May return early for no reason.
    pub(crate) fn wait(&self, expected: u32, deadline: Option<&Deadline>) -> Waited {
        self.wait_in(ALL_LANES, expected, deadline)
    }

    /// The same in one of 32 lanes, a bit each, that [`wake_lane`](Futex::wake_lane) tells apart. Other wakes see no lanes.
    pub(crate) fn wait_in(&self, lane: u32, expected: u32, deadline: Option<&Deadline>) -> Waited {
        let until = deadline.map_or(core::ptr::null(), |deadline| &raw const deadline.0);
        // SAFETY: the word outlives the call because `self` is borrowed; `until` is null or points to a timespec that
        // the caller borrows for the call; a private bitset wait reads nothing else.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                expected,
                until,
                core::ptr::null::<u32>(),
                lane,
            )
        };
        if answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) {
            Waited::TimedOut
        } else {
            Waited::LookAgain
        }
    }

    /// Wakes one sleeper.
    pub(crate) fn wake_one(&self) {
        self.waker().wake_one();
    }

    /// Wakes every sleeper.
    pub(crate) fn wake_all(&self) {
        self.waker().wake(i32::MAX);
    }

    /// Wakes every sleeper of one lane.
    pub(crate) fn wake_lane(&self, lane: u32) {
        // SAFETY: a private wake uses the address as a key only.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
                core::ptr::null::<libc::timespec>(),
                core::ptr::null::<u32>(),
                lane,
            );
        }
    }

    /// A name for the word that stays usable for waking after the word is gone.
    pub(crate) fn waker(&self) -> FutexWaker {
        FutexWaker(self.0.as_ptr())
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

/// The address of a [`Futex`], never read through by this process.
///
/// Waking through it after the word is gone is a spurious wake-up for whoever sleeps on that address now, which every
/// sleeper here allows for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FutexWaker(*mut u32);

impl FutexWaker {
    pub(crate) fn wake_one(self) {
        self.wake(1);
    }

    fn wake(self, sleepers: i32) {
        // SAFETY: a private wake uses the address as a key only; neither the kernel nor this process reads or writes
        // the memory behind it, so it need not be alive.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                sleepers,
            );
        }
    }
}

/// A point on the kernel's monotonic clock until which a wait lasts at most.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(libc::timespec);

impl Deadline {
    /// The point `after` from now; as good as never if that is not representable.
    pub(crate) fn after(after: Duration) -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let nanos = now.tv_nsec + i64::from(after.subsec_nanos());
        let seconds = i64::try_from(after.as_secs())
            .ok()
            .and_then(|seconds| seconds.checked_add(now.tv_sec))
            .and_then(|seconds| seconds.checked_add(nanos / 1_000_000_000))
            .unwrap_or(i64::MAX);
        Deadline(libc::timespec {
            tv_sec: seconds as libc::time_t,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        })
    }
}

/// Tells the processor that this is a spin loop.
#[inline(always)]
pub fn pause() {
    core::hint::spin_loop();
}

/// Gives the processor away for a moment.
pub fn yield_now() {
    thread::yield_now();
}

/// Nanoseconds of the kernel's monotonic clock.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Both are positive and their sum stays below 2^63 for 292 years of running.
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

/// The number of the processor this thread runs on, plus one; 0 where the system does not say.
///
/// The C library answers from memory that the kernel keeps current (rseq), without a system call.
#[inline(always)]
pub(crate) fn processor_hint() -> u32 {
    // The interpreter has no such call; the hint is optional everywhere.
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: takes no argument and touches no memory of ours.
    let processor = unsafe { libc::sched_getcpu() };
    u32::try_from(processor).map_or(0, |processor| processor.wrapping_add(1))
}

/// How many processors this process may use; whoever spins needs another that runs whoever is waited for.
pub(crate) fn processors() -> u32 {
    /// 0: not asked yet.
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let count = thread::available_parallelism()
                .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
            ANSWER.store(count, Ordering::Relaxed);
            count
        }
        count => count,
    }
}

/// A number for the calling thread that no other thread of this process ever has; never 0, always even.
#[inline(always)]
pub(crate) fn thread_token() -> u64 {
    thread_local! {
        static TOKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
    }

    #[cold]
    fn draw(token: &core::cell::Cell<u64>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        token.set(NEXT.fetch_add(1, Ordering::Relaxed) << 1);
        token.get()
    }

    TOKEN.with(|token| match token.get() {
        0 => draw(token),
        drawn => drawn,
    })
}
