//! One processor's cache of nodes.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use braidnet_wire::checksum::copy_and_sum;

use crate::arena::Arena;
use crate::home::{Home, PoolCounters, Scarcity, bound_elsewhere};
use crate::message::{Message, release_to};
use crate::node::{Node, VIEW_CLASS, class_for};

/// One processor's cache of free nodes and blocks (PLP §6).
///
/// It may move between threads, but is used by one at a time. Where it is [bound](Pool::bind), messages that are dropped
/// find their way back into it without an atomic operation.
///
/// ```
/// use braidnet_message::{Arena, Pool};
///
/// let arena = Arena::new(16 << 20);
/// let mut pool = Pool::new(&arena);
/// let mut pool = pool.bind();
/// let mut message = pool.allocate(128, 1500).expect("the arena is not spent");
/// message.append(5).expect("1500 bytes were asked for").copy_from_slice(b"hello");
/// message.prepend(2).expect("128 bytes of headroom").copy_from_slice(b"> ");
/// assert_eq!(message.bytes(), b"> hello");
/// ```
#[derive(Debug)]
pub struct Pool {
    home: NonNull<Home>,
}

// SAFETY: a home's `local` part is used only through its pool, and where the pool is bound. `Pool::home`, `Home::bind`
// and `Home::close` refuse it to a thread other than the one where it is bound; its content (pointers to owned memory) may move.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool without memory yet; it takes slabs from `arena` as it needs them and keeps them until it is dropped and
    /// all of its messages are.
    pub fn new(arena: &Arc<Arena>) -> Pool {
        Pool {
            home: Home::create(arena),
        }
    }

    /// Makes this the pool that messages dropped on this thread return to, until the guard is dropped.
    ///
    /// Several pools may be bound on one thread; the one bound last counts. Messages of the others, and of pools of other
    /// threads, are used again by this one if it has the same arena and there are few, or else collected and sent home in
    /// batches. All go home when the guard is dropped.
    ///
    /// # Panics
    /// If a guard of this pool was forgotten (`mem::forget`) on another thread.
    #[inline]
    pub fn bind(&mut self) -> Bound<'_> {
        Home::bind(self.home);
        Bound {
            home: self.home,
            pool: self,
            _not_send: PhantomData,
        }
    }

    /// An empty message with at least `headroom` bytes in front of it and at least `size` behind.
    ///
    /// What lies there is zero or the rest of an earlier message. `None`, and counted as refused, if the arena's limit
    /// is reached or `headroom + size` is more than [`MAX_BLOCK`](crate::MAX_BLOCK).
    #[inline]
    pub fn allocate(&mut self, headroom: usize, size: usize) -> Option<Message> {
        let home = self.home();
        let Some(class) = headroom.checked_add(size).and_then(class_for) else {
            return home.refuse();
        };
        let Some(node) = home.take(class) else {
            return allocate_elsewhere(home, class, headroom);
        };
        // SAFETY: the node was free and is from a class whose blocks hold `headroom`.
        unsafe { Node::reset_as_block(node, class, headroom) };
        // SAFETY: the node is ours alone and complete.
        Some(unsafe { Message::from_node(node) })
    }

    /// The same for whoever does with less where there is none so long: that is no refusal, and says nothing of how [scarce](Pool::scarcity) buffers are. None
    /// comes out of a [reserve](Pool::fill_reserve).
    ///
    /// ```
    /// use braidnet_message::{Arena, Pool, Scarcity};
    ///
    /// let mut pool = Pool::new(&Arena::new(1 << 20));
    /// pool.fill_reserve(1, 1500);
    /// let long: Vec<_> = std::iter::from_fn(|| pool.allocate_spare(0, 60_000)).collect();
    /// assert_eq!((long.is_empty(), pool.scarcity()), (false, Scarcity::Ample));
    /// ```
    pub fn allocate_spare(&mut self, headroom: usize, size: usize) -> Option<Message> {
        let class = headroom.checked_add(size).and_then(class_for)?;
        let node = self.home().take_unreserved(class)?;
        // SAFETY: the node was free and is from a class whose blocks hold `headroom`.
        unsafe { Node::reset_as_block(node, class, headroom) };
        // SAFETY: the node is ours alone and complete.
        Some(unsafe { Message::from_node(node) })
    }

    /// A message with a copy of `bytes` and at least `headroom` bytes in front; `None` as for [`Pool::allocate`].
    pub fn copy_from_slice(&mut self, headroom: usize, bytes: &[u8]) -> Option<Message> {
        self.copy_from_slice_sized(headroom, bytes, bytes.len())
    }

    /// The same, with at least `size` bytes for the copy and what comes behind it, and with the copy's
    /// [sum](Message::sum), made in the same pass. `None` also if `bytes` are more than `size`.
    pub fn copy_from_slice_summed(
        &mut self,
        headroom: usize,
        bytes: &[u8],
        size: usize,
    ) -> Option<Message> {
        if bytes.len() > size {
            return None;
        }
        let mut message = self.allocate(headroom, size)?;
        // SAFETY: a fresh message is unique, and has at least this room.
        let sum = copy_and_sum(unsafe { message.grow(bytes.len()) }, bytes);
        let end = headroom + bytes.len();
        message.node().set_sum(sum, headroom as u32, end as u32);
        Some(message)
    }

    /// The same as [`Pool::copy_from_slice`], with at least `size` bytes for the copy and what comes behind it.
    pub(crate) fn copy_from_slice_sized(
        &mut self,
        headroom: usize,
        bytes: &[u8],
        size: usize,
    ) -> Option<Message> {
        let mut message = self.allocate(headroom, size)?;
        message.append(bytes.len())?.copy_from_slice(bytes);
        Some(message)
    }

    /// A view of `start..end` of the block that `of` views.
    ///
    /// # Safety
    /// The caller holds `of`, and `start..end` lies within what it sees.
    #[inline]
    pub(crate) unsafe fn view(&mut self, of: &Node, start: u32, end: u32) -> Option<Message> {
        let home = self.home();
        match home.take(VIEW_CLASS) {
            // SAFETY: the node was free; the rest is the caller's promise.
            Some(node) => Some(unsafe { view_in(node, of, start, end) }),
            // SAFETY: the caller's promise.
            None => unsafe { view_elsewhere(home, of, start, end) },
        }
    }

    /// A message that views `bytes`, which are never written. Nobody counts such views: any number of processors may make and
    /// drop them without a cache line between them.
    ///
    /// `None`, and counted as refused, if there is no node for it or `bytes` are 4 GiB or more.
    ///
    /// ```
    /// use braidnet_message::{Arena, Pool};
    ///
    /// let mut pool = Pool::new(&Arena::new(1 << 20));
    /// let message = pool.view_static(b"a banner").unwrap();
    /// assert_eq!((message.bytes(), message.is_unique()), (&b"a banner"[..], false));
    /// ```
    #[inline]
    pub fn view_static(&mut self, bytes: &'static [u8]) -> Option<Message> {
        let home = self.home();
        if u32::try_from(bytes.len()).is_err() {
            return home.refuse();
        }
        let node = home
            .take(VIEW_CLASS)
            .or_else(|| home.take_elsewhere(VIEW_CLASS))?;
        // SAFETY: the node was free.
        unsafe { Node::reset_as_static(node, bytes) };
        // SAFETY: the node is ours alone and complete.
        Some(unsafe { Message::from_node(node) })
    }

    /// Takes a message back, as where one is dropped while this pool is [bound](Pool::bind).
    pub fn free(&mut self, message: Message) {
        let home = self.home();
        // SAFETY: `release_to` calls free what is, and the home is ours to use.
        let keep = |free| unsafe { home.keep(free) };
        // SAFETY: given up by the caller.
        unsafe { release_to(message.into_node(), keep) };
    }

    /// Sends the messages of other pools that were dropped here, and that this one does not use again, home without waiting
    /// for a full batch.
    pub fn flush_away(&mut self) {
        self.home().flush_away();
    }

    /// Sends all messages of other pools that were dropped here home, so that what this one hands out next is its own, and
    /// comes back.
    pub fn send_home(&mut self) {
        self.home().send_all_away();
    }

    /// Nodes that could not be handed out so far: [`PoolCounters::refused`] alone, for whoever asks often.
    #[inline]
    pub fn refused(&self) -> u64 {
        // SAFETY: the home is not freed before `Pool::drop`.
        unsafe { self.home.as_ref() }.refused()
    }

    /// How scarce its buffers are.
    #[inline]
    pub fn scarcity(&self) -> Scarcity {
        // SAFETY: the home is not freed before `Pool::drop`.
        match unsafe { self.home.as_ref() }.scarcity() {
            0 => Scarcity::Ample,
            1 => Scarcity::Short,
            _ => Scarcity::Dire,
        }
    }

    /// Says how scarce they are: for whoever keeps a reserve of them.
    pub fn set_scarcity(&mut self, scarcity: Scarcity) {
        self.home().set_scarcity_to(scarcity as u8);
    }

    /// Keeps buffers for `size` bytes back until there are `buffers`, or no more to be had; how many there are.
    ///
    /// They are handed out one by one, for whatever they are large enough, when there is nothing else: what frees memory needs some.
    /// From when there is nothing else buffers are [`Short`](Scarcity::Short), until whoever fills the reserve says otherwise. None if `size` is more
    /// than [`MAX_BLOCK`](crate::MAX_BLOCK).
    ///
    /// ```
    /// use braidnet_message::{Arena, Pool, Scarcity};
    ///
    /// let mut pool = Pool::new(&Arena::new(1 << 20));
    /// pool.fill_reserve(1, 1500);
    /// // What can wait takes all that it gets.
    /// pool.withhold_reserve(true);
    /// let hoard: Vec<_> = std::iter::from_fn(|| pool.allocate(128, 1500)).collect();
    /// pool.withhold_reserve(false);
    /// // What sends some of it, so that it can be let go of, finds something left.
    /// let sent = hoard[0].share(&mut pool);
    /// assert!(sent.is_some());
    /// assert_eq!(pool.scarcity(), Scarcity::Short);
    /// ```
    pub fn fill_reserve(&mut self, buffers: usize, size: usize) -> usize {
        class_for(size).map_or(0, |class| self.home().fill_reserve(buffers, class))
    }

    /// Gives all of the reserve back, to be handed out to whoever asks; how many buffers. If any, they are
    /// [`Short`](Scarcity::Short) from then on.
    pub fn spend_reserve(&mut self) -> usize {
        self.home().spend_reserve()
    }

    /// Says whether the reserve is withheld: whoever can wait for a buffer, an application say, is refused then when there is nothing
    /// else.
    #[inline]
    pub fn withhold_reserve(&mut self, withheld: bool) {
        self.home().withhold_reserve(withheld);
    }

    /// What the pool did so far.
    pub fn counters(&self) -> PoolCounters {
        self.home().counters()
    }

    #[inline]
    fn home(&self) -> &Home {
        // SAFETY: the home is not freed before `Pool::drop`.
        let home = unsafe { self.home.as_ref() };
        if !home.is_ours() {
            bound_elsewhere();
        }
        home
    }
}

/// As [`Pool::allocate`] where the free list of `class` is empty. Away from the usual way, so that it costs that nothing.
#[cold]
#[inline(never)]
fn allocate_elsewhere(home: &Home, class: usize, headroom: usize) -> Option<Message> {
    let node = home.take_elsewhere(class)?;
    // SAFETY: nodes are valid, and this one is ours.
    let class = usize::from(unsafe { node.as_ref() }.class.get());
    // SAFETY: the node was free and is from a class whose blocks hold `headroom`: that asked for, or a larger one.
    unsafe { Node::reset_as_block(node, class, headroom) };
    // SAFETY: the node is ours alone and complete.
    Some(unsafe { Message::from_node(node) })
}

/// As [`Pool::view`] where there is no free node for it, likewise.
///
/// # Safety
/// As for [`Pool::view`].
#[cold]
#[inline(never)]
unsafe fn view_elsewhere(home: &Home, of: &Node, start: u32, end: u32) -> Option<Message> {
    let node = home.take_elsewhere(VIEW_CLASS)?;
    // SAFETY: the node was free; the rest is the caller's promise.
    Some(unsafe { view_in(node, of, start, end) })
}

/// The message of a view in `node`.
///
/// # Safety
/// `node` is free and the caller's; `of`, `start` and `end` as for [`Pool::view`].
#[inline]
unsafe fn view_in(node: NonNull<Node>, of: &Node, start: u32, end: u32) -> Message {
    // SAFETY: the caller's promise.
    unsafe { Node::reset_as_view(node, of, start, end) };
    // SAFETY: the node is the caller's alone and complete.
    unsafe { Message::from_node(node) }
}

impl Drop for Pool {
    fn drop(&mut self) {
        Home::close(self.home);
    }
}

/// A pool while it is bound to the thread; see [`Pool::bind`].
#[derive(Debug)]
pub struct Bound<'a> {
    pool: &'a mut Pool,
    /// What was bound: `pool` may have been exchanged for another since.
    home: NonNull<Home>,
    _not_send: PhantomData<*const ()>,
}

impl Bound<'_> {
    /// Ends the binding as dropping the guard does, but keeps other pools' messages for the next one: for a pool that is
    /// bound again and again for little work each time. What stays behind until a guard or the pool is dropped are, of pools
    /// with the same arena, at most as many messages of a size as lie in one slab; and of each of four other pools at most
    /// 31, unless they are [sent](Pool::flush_away). Where more than half of the arena is in use, nothing
    /// does.
    #[inline]
    pub fn put_off(self) {
        let home = self.home;
        core::mem::forget(self);
        // SAFETY: a home that is bound is not freed, even if its pool is gone.
        unsafe { home.as_ref() }.yield_lodgers();
        Home::unbind(home);
    }
}

impl Deref for Bound<'_> {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        self.pool
    }
}

impl DerefMut for Bound<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pool {
        self.pool
    }
}

impl Drop for Bound<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a home that is bound is not freed, even if its pool is gone.
        unsafe { self.home.as_ref() }.send_all_away();
        Home::unbind(self.home);
    }
}
