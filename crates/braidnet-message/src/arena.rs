//! The one figure that bounds a stack's memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::keeping::{Keeping, Kept};
use crate::node::NODE_ALIGN;
use crate::sync::{AtomicUsize, Ordering};

/// The memory that one stack may use for buffers, tables and connection state: one figure, in bytes.
///
/// Pools take their slabs from it, and whoever keeps state per connection takes a [`Charge`] for it. At the limit both
/// are refused, and the caller drops by name or turns the connection away. Any number of threads may share an arena.
#[derive(Debug)]
pub struct Arena {
    limit_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    pub(crate) kept: Kept,
}

impl Arena {
    /// An arena of which at most `limit_bytes` are in use at any time. Nothing is allocated yet.
    pub fn new(limit_bytes: usize) -> Arc<Arena> {
        Arena::keeping(limit_bytes, Keeping::default())
    }

    /// The same, whose buffers are kept and counted in another way: to measure what the usual one is worth.
    ///
    /// ```
    /// use braidnet_message::{Arena, Counts, Keeping, Pool};
    ///
    /// let arena = Arena::keeping(1 << 20, Keeping { caches: false, counts: Counts::Locked, ..Keeping::default() });
    /// let mut pool = Pool::new(&arena);
    /// let message = pool.copy_from_slice(0, b"counted").unwrap();
    /// let view = message.share(&mut pool).unwrap();
    /// drop(message);
    /// assert!(view.is_unique());
    /// assert_eq!(pool.counters().common, 2);
    /// ```
    pub fn keeping(limit_bytes: usize, keeping: Keeping) -> Arc<Arena> {
        Arc::new(Arena {
            limit_bytes: AtomicUsize::new(limit_bytes),
            used_bytes: AtomicUsize::new(0),
            kept: Kept::new(keeping),
        })
    }

    /// Bytes in use now: slabs of pools and charges.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that may be in use.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// At most so many bytes may be in use from now on. Where more are, nothing is taken back: pools go on with the slabs that they
    /// have, and who asks for more is refused until less is in use.
    pub fn set_limit_bytes(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Whether there is as much left as is in use, so that nobody need wait for what another keeps.
    #[inline]
    pub(crate) fn is_ample(&self) -> bool {
        self.used_bytes() <= self.limit_bytes() / 2
    }

    /// Accounts for `bytes` that the caller keeps elsewhere, until the charge is dropped; `None` if the limit does not
    /// allow it.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.use_up(bytes).then(|| Charge {
            arena: Arc::clone(self),
            bytes,
        })
    }

    /// Accounts for `bytes`; false if the limit does not allow it.
    fn use_up(&self, bytes: usize) -> bool {
        let limit_bytes = self.limit_bytes();
        let grown = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit_bytes);
        self.used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .is_ok()
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

/// Zeroed memory for the nodes of one size class, for as long as its arena is there.
///
/// It is asked for unaligned and aligned here, because the system allocator clears over-aligned memory by writing it:
/// this way the pages of a big slab are first touched by the processor that uses them.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: owned memory that is only freed through its owner, which any thread may do.
unsafe impl Send for Memory {}

impl Memory {
    /// Takes `bytes` of zeroed memory and accounts for them; `None` if the arena's limit or the system refuses.
    pub fn allocate(arena: &Arena, bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes.checked_add(NODE_ALIGN)?, 16).ok()?;
        if !arena.use_up(layout.size()) {
            return None;
        }
        // SAFETY: the size is not zero.
        match NonNull::new(unsafe { alloc_zeroed(layout) }) {
            Some(base) => Some(Memory { base, layout }),
            None => {
                arena.used_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
                None
            }
        }
    }

    /// The first byte that a node may lie at; the bytes asked for follow.
    pub fn start(&self) -> NonNull<u8> {
        let skip = self.base.align_offset(NODE_ALIGN);
        // SAFETY: the allocation is `NODE_ALIGN` bytes longer than what was asked for, and `skip` is less.
        unsafe { self.base.add(skip) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate` with this layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The same, which gives its bytes back to the arena when it is dropped.
pub(crate) struct Slab {
    memory: Memory,
    _charge: Charge,
}

impl Slab {
    /// As [`Memory::allocate`].
    pub fn allocate(arena: &Arc<Arena>, bytes: usize) -> Option<Slab> {
        let memory = Memory::allocate(arena, bytes)?;
        let _charge = Charge {
            arena: Arc::clone(arena),
            bytes: memory.layout.size(),
        };
        Some(Slab { memory, _charge })
    }

    /// The bytes taken from the arena.
    pub fn bytes(&self) -> usize {
        self.memory.layout.size()
    }

    /// As [`Memory::start`].
    pub fn start(&self) -> NonNull<u8> {
        self.memory.start()
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
    fn a_limit_below_what_is_in_use_takes_nothing_back() {
        let arena = Arena::new(100);
        let (first, second) = (arena.charge(60), arena.charge(30));
        arena.set_limit_bytes(50);
        assert!(arena.charge(1).is_none());
        assert_eq!(arena.used_bytes(), 90);
        drop(first);
        let third = arena.charge(20);
        assert!(third.is_some() && arena.charge(1).is_none());
        arena.set_limit_bytes(51);
        assert!(arena.charge(1).is_some());
        drop((second, third));
        assert_eq!((arena.used_bytes(), arena.limit_bytes()), (0, 51));
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
