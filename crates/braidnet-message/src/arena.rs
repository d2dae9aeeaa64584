//! The one figure that bounds a stack's memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::node::NODE_ALIGN;
use crate::sync::{AtomicUsize, Ordering};

/// The memory that one stack may use for buffers, tables and connection state: one figure, in bytes.
///
/// Pools take their slabs from it, and whoever keeps state per connection takes a [`Charge`] for it. At the limit both
/// are refused, and the caller drops by name or turns the connection away. Any number of threads may share an arena.
#[derive(Debug)]
pub struct Arena {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Arena {
    /// An arena of which at most `limit_bytes` are in use at any time. Nothing is allocated yet.
    pub fn new(limit_bytes: usize) -> Arc<Arena> {
        Arc::new(Arena {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
        })
    }

    /// Bytes in use now: slabs of pools and charges.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that may be in use.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Whether there is as much left as is in use, so that nobody need wait for what another keeps.
    #[inline]
    pub(crate) fn is_ample(&self) -> bool {
        self.used_bytes() <= self.limit_bytes / 2
    }

    /// Accounts for `bytes` that the caller keeps elsewhere, until the charge is dropped; `None` if the limit does not
    /// allow it.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let grown = |used: usize| {
            used.checked_add(bytes)
                .filter(|&sum| sum <= self.limit_bytes)
        };
        self.used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .ok()?;
        Some(Charge {
            arena: Arc::clone(self),
            bytes,
        })
    }
}

/// Bytes accounted for in an [`Arena`]; dropping it gives them back.
#[derive(Debug)]
#[must_use = "dropping a charge gives its bytes back"]
pub struct Charge {
    arena: Arc<Arena>,
    bytes: usize,
}

impl Charge {
    /// The bytes accounted for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.arena
            .used_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Zeroed memory for the nodes of one size class.
///
/// It is asked for unaligned and aligned here, because the system allocator clears over-aligned memory by writing it:
/// this way the pages of a big slab are first touched by the processor that uses them.
pub(crate) struct Slab {
    base: NonNull<u8>,
    layout: Layout,
    _charge: Charge,
}

// SAFETY: a slab is owned memory that is only freed through it, which any thread may do.
unsafe impl Send for Slab {}

impl Slab {
    /// Takes `bytes` of zeroed memory; `None` if the arena's limit or the system refuses.
    pub fn allocate(arena: &Arc<Arena>, bytes: usize) -> Option<Slab> {
        let layout = Layout::from_size_align(bytes.checked_add(NODE_ALIGN)?, 16).ok()?;
        let charge = arena.charge(layout.size())?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Slab {
            base,
            layout,
            _charge: charge,
        })
    }

    /// The bytes taken from the arena.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The first byte that a node may lie at; the bytes asked for follow.
    pub fn start(&self) -> NonNull<u8> {
        let skip = self.base.align_offset(NODE_ALIGN);
        // SAFETY: the allocation is `NODE_ALIGN` bytes longer than what was asked for, and `skip` is less.
        unsafe { self.base.add(skip) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate` with this layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_stop_at_the_limit_and_come_back() {
        let arena = Arena::new(100);
        let first = arena.charge(60).expect("fits");
        assert!(arena.charge(41).is_none());
        let second = arena.charge(40).expect("fits exactly");
        assert_eq!((arena.used_bytes(), second.bytes()), (100, 40));
        assert!(arena.charge(usize::MAX).is_none(), "no overflow");
        drop(first);
        assert_eq!(arena.used_bytes(), 40);
        drop(second);
        assert_eq!((arena.used_bytes(), arena.limit_bytes()), (0, 100));
    }

    #[test]
    fn slabs_are_aligned_and_charged() {
        let arena = Arena::new(1000);
        let slab = Slab::allocate(&arena, 640).expect("fits");
        assert_eq!(slab.start().align_offset(NODE_ALIGN), 0);
        assert_eq!(arena.used_bytes(), 640 + NODE_ALIGN);
        assert!(Slab::allocate(&arena, 640).is_none());
        drop(slab);
        assert_eq!(arena.used_bytes(), 0);
    }
}
