//! Threads that sleep until a queue changes.

use core::time::Duration;
use std::collections::VecDeque;
use std::thread::{self, Thread};
use std::time::Instant;

/// The threads that wait for one thing, first come first. Stands behind the queue's lock.
#[derive(Default)]
pub(super) struct Waiters {
    threads: VecDeque<Thread>,
}

/// Threads taken off the list, to be woken once the lock has been left. More than one costs an allocation.
#[must_use]
pub(super) struct Woken {
    first: Option<Thread>,
    others: Vec<Thread>,
}

impl Waiters {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Enters this thread, unless it is there already.
    pub(super) fn enter(&mut self) {
        let this = thread::current();
        if self.threads.iter().all(|other| other.id() != this.id()) {
            self.threads.push_back(this);
        }
    }

    /// Takes this thread off, if it is there.
    pub(super) fn leave(&mut self) {
        let this = thread::current().id();
        self.threads.retain(|other| other.id() != this);
    }

    /// Takes the first threads off, at most `max`.
    pub(super) fn take(&mut self, max: usize) -> Woken {
        let count = self.threads.len().min(max);
        let mut taken = self.threads.drain(..count);
        Woken {
            first: taken.next(),
            others: taken.collect(),
        }
    }
}

impl Woken {
    pub(super) fn wake(self) {
        self.first
            .into_iter()
            .chain(self.others)
            .for_each(|thread| thread.unpark());
    }
}

/// How long a thread is willing to wait. The clock is read only when it comes to waiting.
pub(super) struct Patience {
    timeout: Option<Duration>,
    /// From the first sleep on: when the time is up, if ever.
    deadline: Option<Instant>,
    fresh: bool,
    over: bool,
}

impl Patience {
    pub(super) fn new(timeout: Option<Duration>) -> Patience {
        Patience {
            timeout,
            deadline: None,
            fresh: true,
            over: false,
        }
    }

    /// Whether the thread has not slept yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether the time is up.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Sleeps until woken or until the time is up; may return early for no reason.
    ///
    /// A wake-up between entering the list and this call is not lost: the thread's token remembers it.
    pub(super) fn sleep(&mut self) {
        if core::mem::take(&mut self.fresh) {
            // A deadline beyond what the clock can express is none.
            self.deadline = self
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout));
        }
        let Some(deadline) = self.deadline else {
            return thread::park();
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::park_timeout(left);
        }
        self.over = Instant::now() >= deadline;
    }
}
