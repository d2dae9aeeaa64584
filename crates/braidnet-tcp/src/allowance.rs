//! What the connections of a stack may hold, all together: what they keep out of order, and how far their receive buffers grow.
//!
//! One connection's data out of order is bounded by its window, which bounds nothing where there are many connections: peers
//! that leave a gap and never fill it would use up the memory that everybody's data in order must pass through.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of memory that connections may hold for one purpose, over all that share it: segments kept out of order
/// ([`Tcb::share_allowance`](crate::Tcb::share_allowance)), or the growth of receive buffers
/// ([`Tcb::share_growth`](crate::Tcb::share_growth)). What exceeds it is refused: the peer sends it again, or the buffer stays as it is.
#[derive(Debug)]
pub struct Allowance {
    limit_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    refusals: AtomicU64,
}

impl Allowance {
    /// An allowance of so many bytes.
    pub const fn new(limit_bytes: usize) -> Allowance {
        Allowance {
            limit_bytes: AtomicUsize::new(limit_bytes),
            used_bytes: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// So many bytes may be held from now on. Where more are, none of them is taken back, and nothing more is held until less is.
    pub fn set_limit_bytes(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Bytes held now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// How often it has refused since this was last asked.
    #[inline]
    pub fn take_refusals(&self) -> u64 {
        match self.refusals.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.refusals.swap(0, Ordering::Relaxed),
        }
    }

    /// Whether `bytes` more may be held, which then they are.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        let grown = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        let taken = self
            .used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        if taken.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_is_held_takes_nothing_back() {
        let allowance = Allowance::new(100);
        assert!(allowance.take(80));
        allowance.set_limit_bytes(50);
        assert!(!allowance.take(1));
        assert_eq!((allowance.used_bytes(), allowance.take_refusals()), (80, 1));
        allowance.give_back(40);
        assert!(allowance.take(10) && !allowance.take(1));
        allowance.set_limit_bytes(51);
        assert!(allowance.take(1) && !allowance.take(usize::MAX));
        assert_eq!(
            (allowance.take_refusals(), allowance.take_refusals()),
            (2, 0)
        );
    }
}
