//! The parker of a task that some runtime carries: it sleeps on a waker.
//!
//! # The protocol
//!
//! That of the [parker](super), with a waker in the place of the kernel. Who parks leaves the waker in a slot, and then swaps the word from `ANNOUNCED` to
//! `ON_WAKER`; who finds that there when he swaps in `AWAKE` takes what is in the slot, and calls it outside the slot's lock, as it may be a task whose last handle it is.
//!
//! A task may be polled for other reasons meanwhile, and park again. An unparker of the earlier sleep, which comes to the slot only then, takes the later waker:
//! that task is woken once too often. One of the later sleep, which finds the slot empty thereby, has nothing left to do: the waker that was there has been
//! called, or is about to be, since its task has parked.

use core::fmt;
use core::task::Waker;

use super::{ANNOUNCED, AWAKE, Futex, ON_WAKER, Shared, Unparker};
use crate::lock::Guarded;
use crate::primitives::{Arc, Ordering, fence};
use crossbeam_utils::CachePadded;

impl Shared {
    /// Calls the waker that was left, if nobody else has; whether it was there.
    pub(super) fn call_waker(&self) -> bool {
        let slot = self.waker.as_ref();
        let waker = slot.and_then(|slot| slot.with(Option::take));
        waker.map(Waker::wake).is_some()
    }
}

/// The sleeping side where that is a task of a runtime's; one task's at a time.
///
/// ```
/// use braidnet_sync::parker::WakerParker;
/// use std::task::Waker;
/// let mut parker = WakerParker::new();
/// let unparker = parker.unparker();
/// parker.announce();
/// // Here it looks once more whether there is work, and cancels if there is.
/// assert!(parker.park(Waker::noop()), "the task waits");
/// assert!(unparker.unpark(), "its waker is called");
/// ```
pub struct WakerParker {
    shared: Arc<Shared>,
}

impl WakerParker {
    /// One whose task is awake.
    pub fn new() -> Self {
        let mut shared = Shared::on(CachePadded::new(Futex::new(AWAKE)));
        shared.waker = Some(Guarded::new(None));
        WakerParker {
            shared: Arc::new(shared),
        }
    }

    /// A handle that wakes the task.
    pub fn unparker(&self) -> Unparker {
        Unparker {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Announces that the task is about to wait. Look at every queue once more, then park, or cancel.
    #[inline]
    pub fn announce(&mut self) {
        self.shared.word.store(ANNOUNCED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The task goes on after all.
    #[inline]
    pub fn cancel(&mut self) {
        self.shared.word.swap(AWAKE, Ordering::AcqRel);
    }

    /// Has `waker` called by the next who unparks; `false` if somebody has since the announcement: then it is not, and the task goes on.
    pub fn park(&mut self, waker: &Waker) -> bool {
        let Some(slot) = &self.shared.waker else {
            return false;
        };
        let waker = waker.clone();
        let before = slot.with(|slot| slot.replace(waker));
        // Outside the slot's lock.
        drop(before);
        let word = &self.shared.word;
        word.compare_exchange(ANNOUNCED, ON_WAKER, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Default for WakerParker {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WakerParker {
    /// Nobody is woken any more, and the waker goes, though unparkers be kept: it may be what keeps the task.
    fn drop(&mut self) {
        self.cancel();
        let slot = self.shared.waker.as_ref();
        let waker = slot.and_then(|slot| slot.with(Option::take));
        // Outside the slot's lock.
        drop(waker);
    }
}

impl fmt::Debug for WakerParker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakerParker").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_parked_task_is_woken_once() {
        let calls = std::sync::Arc::new(Calls::default());
        let waker = Waker::from(calls.clone());
        let count = || calls.0.load(Ordering::Relaxed);
        let mut parker = WakerParker::new();
        let unparker = parker.unparker();
        assert!(!unparker.unpark(), "it is awake");
        parker.announce();
        assert!(!unparker.unpark(), "it does not sleep yet");
        assert!(!parker.park(&waker), "it was unparked meanwhile");
        parker.announce();
        parker.cancel();
        assert!(!unparker.unpark() && count() == 0);
        parker.announce();
        assert!(parker.park(&waker));
        assert!(unparker.unpark() && !unparker.unpark());
        assert_eq!(count(), 1);
    }

    #[test]
    fn the_last_waker_is_called() {
        let calls = [(); 2].map(|()| std::sync::Arc::new(Calls::default()));
        let mut parker = WakerParker::new();
        for calls in &calls {
            parker.announce();
            assert!(parker.park(&Waker::from(calls.clone())));
        }
        assert!(parker.unparker().unpark());
        let counts = calls.map(|calls| calls.0.load(Ordering::Relaxed));
        assert_eq!(counts, [0, 1]);
    }

    /// Unparkers may be kept for long, and a waker keeps its task.
    #[test]
    fn the_waker_goes_with_the_parker() {
        let calls = std::sync::Arc::new(Calls::default());
        let mut parker = WakerParker::new();
        let unparker = parker.unparker();
        parker.announce();
        assert!(parker.park(&Waker::from(calls.clone())));
        drop(parker);
        assert_eq!(std::sync::Arc::strong_count(&calls), 1);
        assert!(!unparker.unpark(), "nobody is there");
        assert_eq!(calls.0.load(Ordering::Relaxed), 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::WakerParker;
    use crate::parker::{Parker, Unparker};
    use crate::primitives::{Arc, AtomicBool, AtomicUsize, Ordering, thread};
    use core::task::Waker;
    use std::task::Wake;

    /// What wakes the thread that carries the task.
    struct Polls {
        is_due: AtomicBool,
        unparker: Unparker,
    }

    impl Wake for Polls {
        fn wake(self: std::sync::Arc<Self>) {
            // A swap, not a store: loom lets a store stand on either side of a swap that has not seen it.
            self.is_due.swap(true, Ordering::Release);
            self.unparker.unpark();
        }
    }

    /// Threads bring work and unpark a task that waits whenever it sees none; it is polled when its waker was called, and `more` times besides.
    /// A lost wake-up is a deadlock.
    fn no_wake_up_is_lost(bringers: usize, more: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let work = Arc::new(AtomicUsize::new(0));
            let mut parker = WakerParker::new();
            let threads: Vec<_> = (0..bringers)
                .map(|_| {
                    let (work, unparker) = (Arc::clone(&work), parker.unparker());
                    thread::spawn(move || {
                        work.fetch_add(1, Ordering::Relaxed);
                        unparker.unpark();
                    })
                })
                .collect();
            let mut carrier = Parker::new();
            let polls = std::sync::Arc::new(Polls {
                is_due: AtomicBool::new(true),
                unparker: carrier.unparker(),
            });
            let waker = Waker::from(polls.clone());
            let mut more = more;
            loop {
                parker.announce();
                if work.load(Ordering::Relaxed) == bringers {
                    parker.cancel();
                    break;
                }
                if !parker.park(&waker) {
                    continue;
                }
                if more > 0 {
                    more -= 1;
                    continue;
                }
                while !polls.is_due.swap(false, Ordering::Acquire) {
                    let announced = carrier.announce();
                    if polls.is_due.load(Ordering::Relaxed) {
                        announced.cancel();
                    } else {
                        announced.park();
                    }
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn no_wake_up_by_one_is_lost() {
        no_wake_up_is_lost(1, 1);
    }

    #[test]
    fn no_wake_up_by_two_is_lost() {
        no_wake_up_is_lost(2, 0);
    }
}
