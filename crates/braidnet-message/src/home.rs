//! Where nodes live: one processor's free lists, the stack of nodes that come back from elsewhere, and the end of both.
//!
//! See the crate's documentation for the protocol; this file is its implementation.

use std::cell::Cell;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use braidnet_sync::lock::Lock;

use crate::arena::{Arena, Slab};
use crate::away::Foreign;
use crate::keeping::Store;
use crate::node::{CLASSES, NODES_PER_SLAB, Node, slab_bytes, stride};
use crate::reserve::Reserve;
use crate::returns::{Linked, Returns};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

crate::sync::thread_local! {
    /// The innermost pool bound on this thread, whose `Home::below` leads to the next one; null if none is bound.
    static CURRENT: Cell<*const Home> = const { Cell::new(null()) };
}

/// What a pool owns. It outlives the pool until the last of its nodes has come back.
///
/// `local` belongs to whoever uses the pool: its methods, and on the thread where it is bound also every message that is
/// dropped there. The rest is for everybody.
pub(crate) struct Home {
    known: Known,
    local: Local,
    shared: Shared,
}

/// What never changes, on cache lines of its own: whoever frees a node of this home elsewhere reads it.
#[repr(align(128))]
struct Known {
    arena: Arc<Arena>,
}

/// The part that other threads touch, on cache lines of its own.
#[repr(align(128))]
struct Shared {
    /// Nodes that came back from elsewhere; closed when the pool is gone.
    returns: Returns<Node>,
    /// Identifies the thread on which the pool is bound: the address of its `CURRENT`; null if the pool is not bound.
    bound: AtomicPtr<()>,
}

struct Local {
    /// Where this home lies, as a pointer that may free it: what nodes point to.
    this: Cell<*const Home>,
    /// LIFO lists of free nodes per class.
    free: [Cell<Option<NonNull<Node>>>; CLASSES],
    /// Memory of the newest slab per class, not carved yet.
    fresh: [Cell<Fresh>; CLASSES],
    /// Nodes of other homes that were freed here; those that stay belong to homes with the same arena, and are at most as many
    /// of a class as lie in a slab.
    foreign: Foreign,
    /// What is kept back for need.
    reserve: Reserve,
    /// The pool bound on this thread before this one.
    below: Cell<*const Home>,
    /// Guards that bind the pool here: none exactly while `bound` is null. More than one, or one too many, only where a caller has exchanged the pool behind a
    /// guard for another, or has forgotten a guard.
    guards: Cell<usize>,
    slabs: Cell<Vec<Slab>>,
    /// A [`Scarcity`]. Written by whoever uses the pool; atomic, so that reading it takes no look at who that is.
    scarcity: AtomicU8,
    /// Nodes that could not be handed out. Likewise.
    refused: AtomicU64,
    counts: Counts,
}

#[derive(Clone, Copy)]
struct Fresh {
    at: *mut u8,
    nodes: usize,
}

/// How scarce a pool's buffers are, as whoever [fills its reserve](crate::Pool::fill_reserve) has found, or the pool itself when it
/// had to draw on that. What is handed out does not depend on it: it is for those who can do with less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Scarcity {
    /// Not at all.
    #[default]
    Ample,
    /// The last buffers are in use: they are for what frees others, not for more to be sent or to be kept.
    Short,
    /// Of those, few are left: nothing is to be kept.
    Dire,
}

#[derive(Default)]
struct Counts {
    allocated: Cell<u64>,
    carved: Cell<u64>,
    returned: Cell<u64>,
    common: Cell<u64>,
}

/// What a pool did so far. All figures count nodes: one per block, one per view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolCounters {
    /// Nodes handed out.
    pub allocated: u64,
    /// Of those, the ones that had been used before and lay in a cache.
    pub recycled: u64,
    /// Nodes that could not be handed out: the arena's limit was reached, or no block is as large as asked for.
    pub refused: u64,
    /// Nodes of other pools that were freed where this pool was bound, and sent home from there.
    pub away: u64,
    /// Nodes that were taken from the arena's common store, because there are no caches.
    pub common: u64,
    /// Nodes of this pool that came back from other threads.
    pub returned: u64,
    /// Bytes of slabs taken from the arena.
    pub slab_bytes: u64,
}

impl Home {
    /// A home on the heap, to be ended by [`Home::close`].
    pub fn create(arena: &Arc<Arena>) -> NonNull<Home> {
        let fresh = Fresh {
            at: null_mut(),
            nodes: 0,
        };
        let home = Box::new(Home {
            known: Known {
                arena: Arc::clone(arena),
            },
            local: Local {
                this: Cell::new(null()),
                free: [const { Cell::new(None) }; CLASSES],
                fresh: core::array::from_fn(|_| Cell::new(fresh)),
                foreign: Foreign::none(),
                reserve: Reserve::default(),
                below: Cell::new(null()),
                guards: Cell::new(0),
                slabs: Cell::new(Vec::new()),
                scarcity: AtomicU8::new(Scarcity::Ample as u8),
                refused: AtomicU64::new(0),
                counts: Counts::default(),
            },
            shared: Shared {
                returns: Returns::new(),
                bound: AtomicPtr::new(null_mut()),
            },
        });
        let this = NonNull::from(Box::leak(home));
        // SAFETY: just made, and known to nobody else.
        unsafe { this.as_ref() }.local.this.set(this.as_ptr());
        this
    }

    /// Whether the caller's thread may use `local`: the pool is bound nowhere, or here.
    #[inline]
    pub fn is_ours(&self) -> bool {
        let bound = self.shared.bound.load(Ordering::Acquire);
        bound == this_thread() || bound.is_null()
    }

    /// What the pool did so far.
    pub fn counters(&self) -> PoolCounters {
        let counts = &self.local.counts;
        let slabs = self.local.slabs.take();
        let slab_bytes = slabs.iter().map(|slab| slab.bytes() as u64).sum();
        self.local.slabs.set(slabs);
        PoolCounters {
            allocated: counts.allocated.get(),
            recycled: counts.allocated.get() - counts.carved.get() - counts.common.get(),
            refused: self.refused(),
            away: self.local.foreign.sent(),
            returned: counts.returned.get(),
            common: counts.common.get(),
            slab_bytes,
        }
    }

    /// A [`Scarcity`] as a number.
    #[inline]
    pub fn scarcity(&self) -> u8 {
        self.local.scarcity.load(Ordering::Relaxed)
    }

    /// Likewise.
    pub fn set_scarcity_to(&self, scarcity: u8) {
        self.local.scarcity.store(scarcity, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.local.reserve
    }

    /// Nodes that could not be handed out.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.local.refused.load(Ordering::Relaxed)
    }

    /// Counts a refusal.
    #[cold]
    pub fn refuse<T>(&self) -> Option<T> {
        let refused = self.refused() + 1;
        self.local.refused.store(refused, Ordering::Relaxed);
        None
    }

    /// Takes the newest node of `class` off its free list; if that is empty, ask [elsewhere](Home::take_elsewhere).
    #[inline]
    pub fn take(&self, class: usize) -> Option<NonNull<Node>> {
        let lodger = self.local.foreign.take(class);
        let node = lodger.or_else(|| self.pop(class))?;
        add(&self.local.counts.allocated, 1);
        Some(node)
    }

    /// Takes a node when the free list of `class` is empty: of a larger class if the arena is spent, and of the reserve if there is
    /// no other; `None` if there is none.
    #[cold]
    #[inline(never)]
    pub fn take_elsewhere(&self, class: usize) -> Option<NonNull<Node>> {
        let node = self
            .refill(class)
            .or_else(|| self.draw_on_reserve(class))
            .or_else(|| self.refuse())?;
        add(&self.local.counts.allocated, 1);
        Some(node)
    }

    /// Takes a node for the reserve, which must not come out of that; being without one is nothing to be counted.
    pub(crate) fn take_unreserved(&self, class: usize) -> Option<NonNull<Node>> {
        self.take(class).or_else(|| {
            let node = self.refill(class)?;
            add(&self.local.counts.allocated, 1);
            Some(node)
        })
    }

    /// Takes the newest free node of `class`.
    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<Node>> {
        let list = &self.local.free[class];
        let node = list.get()?;
        // SAFETY: nodes on a free list are valid and ours alone.
        list.set(unsafe { node.as_ref() }.next());
        Some(node)
    }

    /// Puts `node`, which belongs here, on its free list.
    #[inline]
    fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller gives up the node, valid and its own alone.
        let free = unsafe { node.as_ref() };
        let list = &self.local.free[free.class.get() as usize];
        free.set_next(list.get());
        list.set(Some(node));
    }

    /// Takes a free node back, from here or from another home, to which it goes with others.
    ///
    /// # Safety
    /// As for [`give_back`], and the caller may use `local`.
    #[inline]
    pub unsafe fn keep(&self, node: NonNull<Node>) {
        // SAFETY: the caller promises a valid node.
        let home = unsafe { node.as_ref() }.home.get();
        if core::ptr::eq(home, self) {
            self.push(node);
        } else {
            self.take_in(node);
        }
    }

    /// Finds a node when the free list of `class` is empty.
    fn refill(&self, class: usize) -> Option<NonNull<Node>> {
        if let Some(store) = &self.known.arena.kept.store {
            return self.take_from_store(store, class);
        }
        self.take_returns();
        let at_hand = |class: usize| {
            let lodger = self.local.foreign.take(class);
            lodger
                .or_else(|| self.pop(class))
                .or_else(|| self.carve(class))
        };
        at_hand(class)
            .or_else(|| self.grow(class).and_then(|()| self.carve(class)))
            .or_else(|| (class + 1..CLASSES).find_map(at_hand))
    }

    /// Takes a node from the store that is there instead of caches: of a larger class if the arena is spent.
    fn take_from_store(&self, store: &Lock<Store>, class: usize) -> Option<NonNull<Node>> {
        let node = (class..CLASSES).find_map(|class| self.known.arena.take_from(store, class))?;
        add(&self.local.counts.common, 1);
        Some(node)
    }

    /// Makes a node from memory that was never used.
    fn carve(&self, class: usize) -> Option<NonNull<Node>> {
        let mut fresh = self.local.fresh[class].get();
        if fresh.nodes == 0 {
            return None;
        }
        let node = NonNull::new(fresh.at)?.cast::<Node>();
        // SAFETY: `nodes` strides of aligned memory of the slab are left at `at`, used by nobody.
        unsafe { node.write(self.carved(class)) };
        // SAFETY: at most one past the end of the slab.
        fresh.at = unsafe { fresh.at.add(stride(class)) };
        fresh.nodes -= 1;
        self.local.fresh[class].set(fresh);
        add(&self.local.counts.carved, 1);
        Some(node)
    }

    /// A node of this home.
    fn carved(&self, class: usize) -> Node {
        let arena = &self.known.arena;
        let unique = arena.kept.unique();
        Node::carved(class, self.local.this.get(), Arc::as_ptr(arena), unique)
    }

    /// Takes a slab from the arena, when all of the last one is carved.
    fn grow(&self, class: usize) -> Option<()> {
        let slab = Slab::allocate(&self.known.arena, slab_bytes(class))?;
        self.local.fresh[class].set(Fresh {
            at: slab.start().as_ptr(),
            nodes: NODES_PER_SLAB[class],
        });
        let mut slabs = self.local.slabs.take();
        slabs.push(slab);
        self.local.slabs.set(slabs);
        Some(())
    }

    /// Moves everything that came back to the free lists.
    #[inline]
    fn take_returns(&self) {
        if !self.shared.returns.is_empty() {
            self.collect_returns();
        }
    }

    #[inline(never)]
    fn collect_returns(&self) {
        let nodes = self.push_all(self.shared.returns.take());
        add(&self.local.counts.returned, nodes);
    }

    /// Puts the chains that came back, each linked to the next, on the free lists, a whole chain at once; how many nodes.
    fn push_all(&self, returned: *mut Node) -> u64 {
        let mut next = NonNull::new(returned);
        let mut nodes = 0;
        while let Some(first) = next {
            // SAFETY: the nodes are valid, and given to us by the swap that took them.
            let head = unsafe { first.as_ref() };
            // SAFETY: likewise.
            let last = unsafe { head.end_of_chain().as_ref() };
            nodes += head.chain_nodes();
            next = last.next();
            let list = &self.local.free[head.class.get() as usize];
            last.set_next(list.get());
            list.set(Some(first));
        }
        nodes
    }

    /// Takes in a `node` of another home: to be used here again if there are few of these, or to be sent home. One without home
    /// goes back to its store.
    #[inline(never)]
    fn take_in(&self, node: NonNull<Node>) {
        // SAFETY: the caller gives up the node, valid and its own alone.
        let foreign = unsafe { node.as_ref() };
        if foreign.home.get().is_null() {
            // SAFETY: likewise.
            return unsafe { Arena::take_back(node) };
        }
        let class = foreign.class.get() as usize;
        let here = &self.local.foreign;
        // SAFETY: a home stays alive until its nodes are back, and this one is not.
        let theirs = unsafe { &(*foreign.home.get()).known.arena };
        let arena = &self.known.arena;
        let may_stay = Arc::ptr_eq(theirs, arena)
            && here.staying(class) < NODES_PER_SLAB[class]
            // Where memory runs out, this pool must have some of its own.
            && !self.local.fresh[class].get().at.is_null()
            && arena.is_ample();
        if may_stay {
            here.keep(node);
        } else {
            here.send(node);
        }
    }

    /// Sends all nodes of other homes there, also those that would be used here again.
    pub fn send_all_away(&self) {
        self.local.foreign.send_all();
    }

    /// Sends all of them home unless memory is ample: else they may be awaited there.
    #[inline]
    pub fn yield_lodgers(&self) {
        if !self.known.arena.is_ample() {
            self.send_all_away();
        }
    }

    /// Sends the collected nodes of all other homes there.
    #[inline]
    pub fn flush_away(&self) {
        self.local.foreign.flush();
    }

    /// Makes this the innermost pool bound on this thread.
    ///
    /// # Panics
    /// If it is bound on another.
    #[inline]
    pub fn bind(this: NonNull<Home>) {
        // SAFETY: the pool that the caller has keeps its home alive.
        let home = unsafe { this.as_ref() };
        // Acquire: what another thread did with `local` came before it let go of it.
        if home.shared.bound.load(Ordering::Acquire).is_null() {
            home.local.guards.set(1);
        } else {
            Home::bind_again(this);
        }
        home.local.below.set(CURRENT.get());
        home.shared.bound.store(this_thread(), Ordering::Relaxed);
        CURRENT.set(this.as_ptr());
        // Before memory that has been out of use for longer: where messages flow one way, the nodes in circulation are then as
        // many as are on their way, and not all that the pool ever had.
        home.take_returns();
    }

    /// Counts another guard of a home that is bound already, and takes it out of the list.
    #[cold]
    fn bind_again(this: NonNull<Home>) {
        // SAFETY: the pool that the caller of `bind` has keeps its home alive.
        let home = unsafe { this.as_ref() };
        if !home.is_ours() {
            bound_elsewhere();
        }
        home.local.guards.set(home.local.guards.get() + 1);
        Home::unlink(this);
    }

    /// Undoes one [`Home::bind`], on the same thread. What was collected of other homes stays.
    #[inline]
    pub fn unbind(this: NonNull<Home>) {
        // SAFETY: a home that is bound is not freed, even if its pool is gone.
        let home = unsafe { this.as_ref() };
        home.local.guards.set(home.local.guards.get() - 1);
        if home.local.guards.get() == 0 {
            Home::unlink(this);
            // From here on the pool may be used elsewhere, and the home be freed.
            home.shared.bound.store(null_mut(), Ordering::Release);
        }
    }

    /// Takes the home out of this thread's list, wherever in it it is.
    #[inline]
    fn unlink(this: NonNull<Home>) {
        // SAFETY: a home that is bound is not freed, even if its pool is gone.
        let below = unsafe { this.as_ref() }.local.below.get();
        if CURRENT.get() == this.as_ptr() {
            CURRENT.set(below);
            return;
        }
        let mut at = CURRENT.get();
        // SAFETY: every home in the list is bound on this thread, so it is alive and its `local` is ours.
        while let Some(home) = unsafe { at.as_ref() } {
            at = home.local.below.get();
            if at == this.as_ptr() {
                home.local.below.set(below);
                return;
            }
        }
    }

    /// Ends a home whose pool is gone. It is freed when all nodes are back: now, or by whoever brings the last.
    ///
    /// A home that is still bound, because somebody has forgotten the guard, stays: its thread may still find it.
    pub fn close(this: NonNull<Home>) {
        // SAFETY: the pool that the caller drops kept its home alive.
        let home = unsafe { this.as_ref() };
        if !home.shared.bound.load(Ordering::Acquire).is_null() {
            return;
        }
        home.spend_reserve();
        home.send_all_away();
        home.push_all(home.shared.returns.close());
        let out = home.local.counts.carved.get() as i64 - home.free_nodes() as i64;
        if home.shared.returns.owe(out) {
            Home::free(this.as_ptr());
        }
    }

    /// Nodes on all free lists.
    fn free_nodes(&self) -> u64 {
        let mut nodes = 0;
        for list in &self.local.free {
            let mut next = list.get();
            while let Some(node) = next {
                // SAFETY: nodes on a free list are valid and ours alone.
                next = unsafe { node.as_ref() }.next();
                nodes += 1;
            }
        }
        nodes
    }

    /// Ends a home to which nothing is owed any more.
    #[cold]
    fn free(this: *const Home) {
        // SAFETY: made from a box in `create`; the pool is gone and every node is back, so nobody else points here.
        drop(unsafe { Box::from_raw(this.cast_mut()) });
    }

    /// Gives `nodes` nodes in linked chains, from the `first` node to the `last`, back to their home.
    #[inline(never)]
    pub fn send_back(this: *const Home, first: NonNull<Node>, last: NonNull<Node>, nodes: u32) {
        // SAFETY: a home stays alive until its nodes are back, and these are not.
        let returns = unsafe { &(*this).shared.returns };
        // SAFETY: the caller gives up the chain, valid and its own alone.
        if unsafe { returns.send(first.as_ptr(), last.as_ptr(), nodes) } {
            Home::free(this);
        }
    }
}

impl Linked for Node {
    #[inline]
    fn link(&self, next: Option<NonNull<Node>>) {
        self.set_next(next);
    }
}

/// Works with the home of the innermost pool that is bound on this thread, if there is one.
#[inline]
pub(crate) fn with_bound(work: impl FnOnce(Option<&Home>)) {
    // SAFETY: a home that is bound is not freed, even if its pool is gone.
    work(unsafe { CURRENT.get().as_ref() });
}

/// Gives a free node back: to this thread's innermost pool if it is from there, by way of it if it is not, or to its home
/// if no pool is bound here.
///
/// # Safety
/// The caller gives up `node`, which nobody else holds and whose block nobody views.
#[inline]
pub(crate) unsafe fn give_back(node: NonNull<Node>) {
    with_bound(|home| match home {
        // SAFETY: the caller's promise; the home is bound here.
        Some(home) => unsafe { home.keep(node) },
        None => {
            // SAFETY: the caller promises a valid node.
            let free = unsafe { node.as_ref() };
            if free.home.get().is_null() {
                // SAFETY: given up by the caller.
                return unsafe { Arena::take_back(node) };
            }
            free.head_chain(node, 1);
            Home::send_back(free.home.get(), node, node, 1);
        }
    });
}

#[cold]
#[inline(never)]
pub(crate) fn bound_elsewhere() -> ! {
    panic!("the pool is bound on another thread, its guard forgotten")
}

/// Identifies this thread among all that live.
#[inline]
fn this_thread() -> *mut () {
    CURRENT.with(|current| core::ptr::from_ref(current).cast_mut().cast())
}

#[inline]
pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}
