//! A thread that waits as a task does: its waker unparks it.

use braidnet_sync::parker::{Parker, Unparker};
use braidnet_sync::primitives::{AtomicBool, Ordering};
use core::cell::Cell;
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;
use std::time::Instant;

thread_local! {
    /// Kept from one wait to the next: a late call of its waker makes a later wait look once more. None while it is used.
    static OF_THIS_THREAD: Cell<Option<Sleeper>> = const { Cell::new(None) };
}

/// What a thread sleeps on.
pub(super) struct Sleeper {
    parker: Parker,
    called: Arc<Called>,
    waker: Waker,
}

/// Whether its waker has been called since it last looked. The flag is the work that the parker's protocol is about.
struct Called {
    is_called: AtomicBool,
    unparker: Unparker,
}

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_called.store(true, Ordering::Release);
        self.unparker.unpark();
    }
}

impl Sleeper {
    fn new() -> Sleeper {
        let parker = Parker::new();
        let called = Arc::new(Called {
            is_called: AtomicBool::new(false),
            unparker: parker.unparker(),
        });
        Sleeper {
            parker,
            waker: Waker::from(called.clone()),
            called,
        }
    }

    /// Has `wait` wait on the calling thread's. Where that waits already, and has been woken into work that waits itself, or where the thread is about to
    /// end, and has let go of it, on a new one.
    pub(super) fn of_this_thread<R>(wait: impl FnOnce(&mut Sleeper) -> R) -> R {
        let kept = OF_THIS_THREAD.try_with(Cell::take).ok().flatten();
        let mut sleeper = kept.unwrap_or_else(Sleeper::new);
        let result = wait(&mut sleeper);
        // Refused at the thread's end.
        let _ = OF_THIS_THREAD.try_with(|kept| kept.set(Some(sleeper)));
        result
    }

    /// What ends its sleep.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sleeps until its waker has been called, or until `deadline`; `false` if that has passed.
    pub(super) fn sleep(&mut self, deadline: Option<Instant>) -> bool {
        while !self.called.is_called.swap(false, Ordering::Acquire) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let announced = self.parker.announce();
            if self.called.is_called.load(Ordering::Relaxed) {
                announced.cancel();
                continue;
            }
            match left {
                None => announced.park(),
                Some(left) => announced.park_timeout(left),
            };
        }
        true
    }
}
