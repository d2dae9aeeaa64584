//! What the connections of a stack may keep out of order, all together.
//!
//! One connection's data out of order is bounded by its window, which bounds nothing where there are many connections: peers
//! that leave a gap and never fill it would use up the memory that everybody's data in order must pass through.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of memory that segments kept out of order may hold, over all connections that share it
/// ([`Tcb::share_allowance`](crate::Tcb::share_allowance)). What exceeds it is refused by name, and the peer sends it again.
#[derive(Debug)]
pub struct Allowance {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Allowance {
    /// An allowance of so many bytes.
    pub const fn new(limit_bytes: usize) -> Allowance {
        Allowance {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes held now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether `bytes` more may be held, which then they are.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let grown = |used: usize| {
            used.checked_add(bytes)
                .filter(|sum| *sum <= self.limit_bytes)
        };
        self.used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
