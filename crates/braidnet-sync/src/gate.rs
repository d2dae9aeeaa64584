//! Many wait until one opens.
//!
//! # The protocol
//!
//! One word: shut, or what it was opened with. It changes once. *Open*: compare-and-swap from shut (release), then wake
//! all. *Wait*: load (acquire); while shut, sleep on the word. Whoever passes sees all that was done before the opening.

use crate::primitives::{Futex, Ordering};

const SHUT: u32 = 0;
const OPEN: u32 = 1;
const DISMISSED: u32 = 2;

/// A gate that is shut until it is opened, once and for good: for going on, or for going home.
///
/// ```
/// use braidnet_sync::gate::Gate;
/// let gate = Gate::new();
/// std::thread::scope(|scope| {
///     let waiting = scope.spawn(|| gate.wait());
///     assert!(gate.open());
///     assert!(waiting.join().unwrap());
/// });
/// assert!(!gate.dismiss(), "it was opened already");
/// ```
#[derive(Debug)]
pub struct Gate {
    word: Futex,
}

impl Gate {
    /// A shut gate.
    pub fn new() -> Self {
        Gate {
            word: Futex::new(SHUT),
        }
    }

    /// Lets everybody on; `false` if the gate was open or dismissed already.
    pub fn open(&self) -> bool {
        self.change(OPEN)
    }

    /// Sends everybody home; `false` if the gate was open or dismissed already.
    pub fn dismiss(&self) -> bool {
        self.change(DISMISSED)
    }

    /// Waits until the gate is opened (`true`) or dismissed (`false`).
    pub fn wait(&self) -> bool {
        loop {
            match self.word.load(Ordering::Acquire) {
                SHUT => self.word.wait(SHUT, None),
                state => return state == OPEN,
            };
        }
    }

    /// Whether it has been opened.
    pub fn is_open(&self) -> bool {
        self.word.load(Ordering::Acquire) == OPEN
    }

    fn change(&self, to: u32) -> bool {
        let changed = self
            .word
            .compare_exchange(SHUT, to, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if changed {
            self.word.wake_all();
        }
        changed
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_decision_stands() {
        for (first, opened) in [
            (Gate::open as fn(&Gate) -> bool, true),
            (Gate::dismiss, false),
        ] {
            let gate = Gate::new();
            assert!(!gate.is_open());
            assert!(first(&gate));
            assert!(!gate.open() && !gate.dismiss());
            assert_eq!((gate.wait(), gate.is_open()), (opened, opened));
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Gate;
    use crate::primitives::{Arc, AtomicUsize, Ordering, thread};

    #[test]
    fn all_pass_and_see_what_was_done_before() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(), AtomicUsize::new(0)));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        assert!(shared.0.wait());
                        shared.1.load(Ordering::Relaxed)
                    })
                })
                .collect();
            shared.1.store(7, Ordering::Relaxed);
            assert!(shared.0.open());
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), 7);
            }
        });
    }
}
