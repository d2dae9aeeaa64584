//! Waking a receiver that sleeps.
//!
//! Whoever sends makes its packets visible in the ring and then rings. A bell that nobody has asked for costs a load. One
//! that was asked for is read under its lock, so that of a sender and a receiver that changes its unparker one comes
//! first: the sender finds the new unparker, or the receiver, when it looks at the ring after the change, the packets.
//! The rest is the parker's protocol.

use braidnet_sync::parker::Unparker;
use braidnet_sync::primitives::{AtomicBool, Ordering};
#[cfg(not(shuttle))]
use parking_lot::Mutex;
use std::sync::Arc;

/// One that the scheduler of a run knows.
#[cfg(shuttle)]
type Mutex<T> = lock_api::Mutex<braidnet_sync::lock::Adaptive, T>;

/// One receiver's bell.
#[derive(Default)]
pub struct Bell {
    /// Set once and for all when an unparker is there.
    asked_for: AtomicBool,
    unparker: Mutex<Option<Unparker>>,
}

impl Bell {
    /// Wakes with `unparker` from now on.
    pub fn wake_with(&self, unparker: Unparker) {
        *self.unparker.lock() = Some(unparker);
        self.asked_for.store(true, Ordering::Release);
    }

    /// Wakes the receiver if it sleeps.
    #[inline]
    pub fn ring(&self) {
        if self.asked_for.load(Ordering::Acquire) {
            self.ring_now();
        }
    }

    #[cold]
    fn ring_now(&self) {
        if let Some(unparker) = &*self.unparker.lock() {
            unparker.unpark();
        }
    }
}

/// Rings when it is dropped.
pub struct LastRing(pub Arc<Bell>);

impl Drop for LastRing {
    fn drop(&mut self) {
        self.0.ring();
    }
}
