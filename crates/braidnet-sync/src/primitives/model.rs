//! The same vocabulary over loom.

use core::ops::Deref;
use core::time::Duration;
use std::sync::Arc as PlainArc;

use loom::sync::{Condvar, Mutex};

use super::Waited;

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::fence;
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use loom::thread;

#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, enter: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(enter)
    }

    pub(crate) fn with<R>(&self, enter: impl FnOnce(*const T) -> R) -> R {
        self.0.with(enter)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// A futex as the kernel defines it: comparing the word and queueing the sleeper happen under one (kernel) lock, which
/// a waker takes too. The sleepers' queue outlives the word, as the kernel's does.
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    sleepers: FutexWaker,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        let sleepers = FutexWaker(PlainArc::new((
            Mutex::new(()),
            [Condvar::new(), Condvar::new()],
        )));
        Futex {
            word: AtomicU32::new(value),
            sleepers,
        }
    }

    /// A wait with a deadline is modelled as one whose deadline has passed: loom has no time.
    pub(crate) fn wait(&self, expected: u32, deadline: Option<&Deadline>) -> Waited {
        self.wait_in(1, expected, deadline)
    }

    /// Whoever waits in lanes is woken by lane only.
    pub(crate) fn wait_in(&self, lane: u32, expected: u32, deadline: Option<&Deadline>) -> Waited {
        let queue = self.sleepers.0.0.lock().unwrap();
        if self.word.load(Ordering::Relaxed) != expected {
            return Waited::LookAgain;
        }
        if deadline.is_some() {
            return Waited::TimedOut;
        }
        drop(self.sleepers.lane(lane).wait(queue).unwrap());
        Waited::LookAgain
    }

    pub(crate) fn wake_one(&self) {
        self.sleepers.clone().wake_one();
    }

    pub(crate) fn wake_all(&self) {
        self.wake_lane(1);
    }

    pub(crate) fn wake_lane(&self, lane: u32) {
        let queue = self.sleepers.0.0.lock().unwrap();
        self.sleepers.lane(lane).notify_all();
        drop(queue);
    }

    pub(crate) fn waker(&self) -> FutexWaker {
        self.sleepers.clone()
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FutexWaker(PlainArc<(Mutex<()>, [Condvar; 2])>);

impl FutexWaker {
    /// Two lanes are enough for the model.
    fn lane(&self, lane: u32) -> &Condvar {
        &self.0.1[lane.trailing_zeros() as usize]
    }

    pub(crate) fn wake_one(self) {
        let queue = self.0.0.lock().unwrap();
        self.lane(1).notify_one();
        drop(queue);
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Deadline;

impl Deadline {
    pub(crate) fn after(_after: Duration) -> Self {
        Deadline
    }
}

/// A spinning thread can only go on once another has run.
pub fn pause() {
    thread::yield_now();
}

/// Gives the processor away for a moment.
pub fn yield_now() {
    thread::yield_now();
}

/// Unknown: the hint may only change how soon a waiter sleeps, never what is correct.
pub(crate) fn processor_hint() -> u32 {
    0
}

pub(crate) fn processors() -> u32 {
    2
}
