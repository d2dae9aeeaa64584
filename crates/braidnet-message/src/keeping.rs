//! How an arena's buffers are kept and counted, where that is not the default: what the papers compare.
//!
//! # The common store
//!
//! Without caches every node is taken from one store of the arena, under one lock, and goes back there: the `malloc` of PLP §6.
//! Its nodes have no home. Who holds a node, or the lock, is alone with it, so the store needs no atomics of its own: how many
//! nodes are out is counted under the lock, and as long as any is, the store holds a count on its arena, so that messages may
//! outlive every pool.
//!
//! # Strict counts
//!
//! By default a count of one is raised and given up without an atomic operation. [Strict counts](crate::strict) are counted every time. They
//! go downwards from nought, which is one message: no count by the default rules is ever nought or negative, so the default rules find out
//! with the comparisons that they make anyway, and both kinds read as unique where they are below two.

use std::ptr::NonNull;
use std::sync::Arc;

use braidnet_sync::lock::{Lock, LockClass, LockKind};

use crate::arena::{Arena, Memory};
use crate::node::{CLASSES, NODES_PER_SLAB, Node, slab_bytes, stride};
use crate::strict::{Apart, count_less, count_more};
use crate::sync::AtomicU32;

/// How the buffers of an arena are kept and counted. The default is the quickest; the others are there to be measured against it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeping {
    /// Whether each processor keeps free buffers of its own (PLP §6); else every buffer comes from one store under a lock.
    pub caches: bool,
    /// How references to buffers are counted (PLP §5.2).
    pub counts: Counts,
    /// The kind of the locks that both may need.
    pub lock: LockKind,
}

impl Default for Keeping {
    fn default() -> Keeping {
        Keeping {
            caches: true,
            counts: Counts::Lean,
            lock: LockKind::default(),
        }
    }
}

/// How references are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Counts {
    /// Only what is shared, and atomically.
    #[default]
    Lean,
    /// Every time, by an atomic operation.
    Atomic,
    /// Every time, under a lock.
    Locked,
}

/// What an arena has for its [`Keeping`].
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) store: Option<Lock<Store>>,
    pub(crate) counts: Counts,
    /// Each for the counts of some nodes; none unless counts are locked.
    locks: Vec<CountLock>,
}

/// On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct CountLock(Lock<()>);

/// Locks of counts: enough that two nodes in use seldom have the same.
const COUNT_LOCKS: usize = 256;

impl Kept {
    pub(crate) fn new(keeping: Keeping) -> Kept {
        let lock = || CountLock(Lock::new(keeping.lock, LockClass::Buffers, ()));
        let locks = match keeping.counts {
            Counts::Locked => COUNT_LOCKS,
            Counts::Lean | Counts::Atomic => 0,
        };
        Kept {
            store: (!keeping.caches)
                .then(|| Lock::new(keeping.lock, LockClass::Buffers, Store::default())),
            counts: keeping.counts,
            locks: (0..locks).map(|_| lock()).collect(),
        }
    }

    /// What the count of a node is that nobody shares.
    pub(crate) fn unique(&self) -> u32 {
        match self.counts {
            Counts::Lean => 1,
            Counts::Atomic | Counts::Locked => 0,
        }
    }

    /// The lock of a count, if it has one.
    fn lock_of(&self, refs: &AtomicU32) -> Option<&CountLock> {
        // Nodes are some cache lines apart.
        let index = core::ptr::from_ref(refs).addr() / (4 * 64) % COUNT_LOCKS;
        self.locks.get(index)
    }
}

impl Apart for CountLock {
    fn apart<R>(&self, change: impl FnOnce() -> R) -> R {
        self.0.with(|()| change())
    }
}

/// Takes a strict count for another view of the block of `owner`, while holding one.
#[cold]
#[inline(never)]
pub(crate) fn count_strictly_more(owner: &Node) {
    // SAFETY: only a node that was carved has strict counts, and its arena lives as long as one of its nodes is out.
    let arena = unsafe { &*owner.arena.get() };
    let before = count_more(&owner.refs, arena.kept.lock_of(&owner.refs));
    if before.wrapping_neg() > u32::MAX / 4 {
        // As where counts are not strict: so many views need a quarter of a TiB of nodes.
        std::process::abort();
    }
}

/// Gives up a strict count; whether it was the last. The count is then nought again, as a free node's is.
#[cold]
#[inline(never)]
pub(crate) fn count_strictly_less(owner: &Node) -> bool {
    // SAFETY: as in `count_strictly_more`.
    let arena = unsafe { &*owner.arena.get() };
    count_less(&owner.refs, arena.kept.lock_of(&owner.refs))
}

/// All free nodes of an arena without caches.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// By class, the newest first.
    free: [Option<NonNull<Node>>; CLASSES],
    slabs: Vec<Memory>,
    /// Nodes ever taken.
    taken: u64,
    /// Nodes that are not here.
    out: u64,
}

// SAFETY: free nodes belong to nobody else, and may be used by whoever has the store.
unsafe impl Send for Store {}

impl Arena {
    /// Buffers that have been taken from the common store so far; none where there are caches.
    pub fn taken_from_store(&self) -> u64 {
        let store = self.kept.store.as_ref();
        store.map_or(0, |store| store.with(|store| store.taken))
    }

    /// Takes a node of `class` out of the store; `None` if there is none, and no memory for more.
    pub(crate) fn take_from(
        self: &Arc<Self>,
        store: &Lock<Store>,
        class: usize,
    ) -> Option<NonNull<Node>> {
        store.with(|store| {
            let node = store.free[class].or_else(|| store.grow(self, class))?;
            // SAFETY: nodes in the store are valid and nobody else's.
            store.free[class] = unsafe { node.as_ref() }.next();
            if store.out == 0 {
                // Given up by whoever brings the last node.
                core::mem::forget(self.clone());
            }
            store.out += 1;
            store.taken += 1;
            Some(node)
        })
    }

    /// Puts a node without home back into the store that it came from.
    ///
    /// # Safety
    /// The caller gives up `node`, valid and its own alone.
    #[inline(never)]
    pub(crate) unsafe fn take_back(node: NonNull<Node>) {
        // SAFETY: the caller promises a valid node.
        let free = unsafe { node.as_ref() };
        let arena = free.arena.get();
        // SAFETY: the store holds a count on its arena as long as a node is out, and this one is.
        let Some(store) = (unsafe { &(*arena).kept.store }) else {
            unreachable!("only a node of a store has no home");
        };
        let last = store.with(|store| {
            let list = &mut store.free[usize::from(free.class.get())];
            free.set_next(list.replace(node));
            store.out -= 1;
            store.out == 0
        });
        if last {
            // SAFETY: the count that was taken with the first node.
            drop(unsafe { Arc::from_raw(arena) });
        }
    }
}

impl Store {
    /// Carves a slab; the first of its nodes, which all are in the list then.
    fn grow(&mut self, arena: &Arc<Arena>, class: usize) -> Option<NonNull<Node>> {
        let slab = Memory::allocate(arena, slab_bytes(class))?;
        // From the end, so that the first to be handed out is the one in front.
        for index in (0..NODES_PER_SLAB[class]).rev() {
            // SAFETY: the slab has room for so many strides.
            let node = unsafe { slab.start().add(index * stride(class)) }.cast::<Node>();
            let carved = Node::carved(
                class,
                core::ptr::null(),
                Arc::as_ptr(arena),
                arena.kept.unique(),
            );
            carved.set_next(self.free[class]);
            // SAFETY: aligned memory of the slab that nobody uses.
            unsafe { node.write(carved) };
            self.free[class] = Some(node);
        }
        self.slabs.push(slab);
        self.free[class]
    }
}
