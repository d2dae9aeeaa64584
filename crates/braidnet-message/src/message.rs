//! The message: one pointer to a view of a buffer, and of its continuation.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::home::{give_back, with_bound};
use crate::node::{Node, count_one_less};
use crate::sync::Ordering;

/// A message: a view of a buffer with room in front and behind, and of the blocks that continue it.
///
/// It is one pointer, so that passing it on moves no bytes, and `Option<Message>` is as small. It is `Send`, and neither
/// `Clone` (sharing is explicit and counted: [`share`](Message::share)) nor `Sync`. Dropping it gives its memory back to the
/// pool that it came from.
///
/// *First block* means the bytes that the message itself views, *whole* these and the blocks of its continuation.
#[repr(transparent)]
pub struct Message {
    node: NonNull<Node>,
    _node: PhantomData<Node>,
}

// SAFETY: the holder of a message holds its nodes alone; what it shares with others (the counts of blocks, the homes) is
// atomic, and bytes of a block are written only by a holder that has found itself alone with the block.
unsafe impl Send for Message {}

impl Message {
    /// The message of a complete node.
    ///
    /// # Safety
    /// The caller gives up `node`, valid, from `reset_as_block` or `reset_as_view`, and pointed to by no other message.
    #[inline]
    pub(crate) unsafe fn from_node(node: NonNull<Node>) -> Message {
        Message {
            node,
            _node: PhantomData,
        }
    }

    /// The node, given up.
    #[inline]
    pub(crate) fn into_node(self) -> NonNull<Node> {
        let node = self.node;
        core::mem::forget(self);
        node
    }

    /// The address of the node.
    #[inline]
    pub(crate) fn as_node(&self) -> NonNull<Node> {
        self.node
    }

    #[inline]
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: the node is valid while a message points to it.
        unsafe { self.node.as_ref() }
    }

    /// The bytes of the first block.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.node().bytes()
    }

    /// The number of bytes in the first block.
    #[inline]
    pub fn len(&self) -> usize {
        self.node().len()
    }

    /// Whether the first block has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in front of the first block that [`prepend`](Message::prepend) may take, if the block is unique.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.node().start.get() as usize
    }

    /// Bytes behind the first block that [`append`](Message::append) may take, if the block is unique.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let node = self.node();
        (node.capacity.get() - node.end.get()) as usize
    }

    /// Whether no other message views the first block's buffer, so that it may be written.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.node().is_unique()
    }

    /// Whether [`prepend`](Message::prepend) may write the headroom: the block is unique, or this message was
    /// [shared with it](Message::share_with_headroom).
    #[inline]
    pub fn owns_headroom(&self) -> bool {
        self.node().owns_front() || self.is_unique()
    }

    /// The bytes of the first block, to be written; `None` if the block is not unique. Forgets the [sum](Message::sum).
    #[inline]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let node = self.node();
        if !node.is_unique() {
            return None;
        }
        node.clear_sum();
        let (start, end) = (node.start.get(), node.end.get());
        // SAFETY: the block is unique, and the borrow of the message lasts as long as the slice.
        Some(unsafe { self.slice_mut(start, end) })
    }

    /// The first `n` bytes of the first block, to be written: headers. The sum of bytes behind them stays known.
    ///
    /// `None` if the block is shorter, or neither unique nor [shared with its headroom](Message::share_with_headroom) and
    /// these bytes taken from there.
    #[inline]
    pub fn front_mut(&mut self, n: usize) -> Option<&mut [u8]> {
        let node = self.node();
        if n > node.len() {
            return None;
        }
        let start = node.start.get();
        let end = start + n as u32;
        if end > node.front.get() && !node.is_unique() {
            return None;
        }
        if node.sum_start.get() < end {
            node.clear_sum();
        }
        // SAFETY: the block is unique, or what lies below `front` is this message's alone; the borrow of the message lasts as long as the slice.
        Some(unsafe { self.slice_mut(start, end) })
    }

    /// Bytes that [`prepend`](Message::prepend) may take: the headroom, or 0 where another message may see it.
    ///
    /// ```
    /// # use braidnet_message::{Arena, Pool};
    /// # let mut pool = Pool::new(&Arena::new(1 << 20));
    /// let message = pool.copy_from_slice(100, b"payload").unwrap();
    /// assert_eq!(message.room_in_front(), 100);
    /// let view = message.share(&mut pool).unwrap();
    /// assert_eq!((message.room_in_front(), view.room_in_front()), (0, 0));
    /// ```
    pub fn room_in_front(&self) -> usize {
        let node = self.node();
        if node.owns_front() || node.is_unique() {
            node.start.get() as usize
        } else {
            0
        }
    }

    /// Grows the first block by `n` bytes at its front, and returns these to be written.
    ///
    /// `None`, and nothing done, if the headroom is less, or the block neither unique nor
    /// [shared with its headroom](Message::share_with_headroom).
    #[inline]
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let node = self.node();
        let start = node.start.get();
        if n > start as usize || !(node.owns_front() || node.is_unique()) {
            return None;
        }
        let grown = start - n as u32;
        node.start.set(grown);
        // SAFETY: the block is unique, or what lies below `front` is this message's alone to write and nobody else's to
        // see; the borrow of the message lasts as long as the slice.
        Some(unsafe { self.slice_mut(grown, start) })
    }

    /// Grows the first block by `n` bytes at its end, and returns these to be written. A continuation comes behind them.
    ///
    /// `None`, and nothing done, if the block is not unique or the tailroom less.
    #[inline]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        let node = self.node();
        if n > self.tailroom() || !node.is_unique() {
            return None;
        }
        // SAFETY: looked at just now.
        Some(unsafe { self.grow(n) })
    }

    /// As [`append`](Message::append), where it is known that it may be.
    ///
    /// # Safety
    /// The block is unique, and the tailroom at least `n`.
    #[inline]
    pub(crate) unsafe fn grow(&mut self, n: usize) -> &mut [u8] {
        let node = self.node();
        let end = node.end.get();
        let grown = end + n as u32;
        node.end.set(grown);
        // SAFETY: the caller's promise, and the borrow of the message lasts as long as the slice.
        unsafe { self.slice_mut(end, grown) }
    }

    /// Bytes of the buffer, to be written.
    ///
    /// # Safety
    /// The block is unique, and `start..end` lies within its capacity.
    #[inline]
    unsafe fn slice_mut(&mut self, start: u32, end: u32) -> &mut [u8] {
        let block = self.node().block.get();
        // SAFETY: `start` is within the block, by the caller's promise.
        let first = unsafe { block.add(start as usize) };
        // SAFETY: slabs are allocated zeroed, so the bytes are initialised; by the caller's promise nobody else views
        // the block, and the result borrows the only message that does.
        unsafe { core::slice::from_raw_parts_mut(first, (end - start) as usize) }
    }
}

impl Node {
    /// The bytes that the node's message views.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is within the block.
        let first = unsafe { self.block.get().add(self.start.get() as usize) };
        // SAFETY: the bytes are initialised (slabs are allocated zeroed), and the message's count on the block keeps
        // everybody from writing them as long as it is borrowed.
        unsafe { core::slice::from_raw_parts(first, self.len()) }
    }

    /// Whether the message that points to this node is the only one that views its block.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        // SAFETY: the count that the message holds keeps the owner alive.
        let owner = unsafe { &*self.owner.get() };
        // Acquire: what others read from the block happened before they gave their counts back.
        // One, or nought where counts are strict.
        owner.refs.load(Ordering::Acquire) < 2
    }
}

impl Drop for Message {
    #[inline]
    fn drop(&mut self) {
        let node = self.node();
        if node.next().is_none() && !node.is_view() && node.refs.load(Ordering::Acquire) == 1 {
            // SAFETY: this message was the only one of the block and of the node.
            unsafe { give_back(self.node) };
        } else {
            release(self.node);
        }
    }
}

/// Gives up the message of `node` and its continuation.
#[inline(never)]
fn release(node: NonNull<Node>) {
    with_bound(|home| match home {
        Some(home) => {
            // SAFETY: `release_to` calls free what is, and the home is bound here.
            let keep = |free| unsafe { home.keep(free) };
            // SAFETY: given up by the message that is dropped.
            unsafe { release_to(node, keep) }
        }
        None => {
            // SAFETY: `release_to` calls free what is.
            let send = |free| unsafe { give_back(free) };
            // SAFETY: given up by the message that is dropped.
            unsafe { release_to(node, send) }
        }
    });
}

/// Gives up the message of `node` and its continuation: of each block its count, and the node itself if it is a view. What is
/// free then goes `home`: nobody else holds it, and nobody views its block.
///
/// # Safety
/// The caller gives up `node`, valid, that its message alone points to.
#[inline]
pub(crate) unsafe fn release_to(node: NonNull<Node>, home: impl Fn(NonNull<Node>)) {
    let mut next = Some(node);
    while let Some(node) = next {
        // SAFETY: the nodes of a chain are valid, and given up with their head.
        next = unsafe { node.as_ref() }.next();
        // SAFETY: likewise.
        unsafe { release_one_to(node, &home) };
    }
}

/// The same without the continuation.
///
/// # Safety
/// As for [`release_to`].
#[inline]
unsafe fn release_one_to(node: NonNull<Node>, home: impl Fn(NonNull<Node>)) {
    // SAFETY: the caller's promise.
    let view = unsafe { node.as_ref() };
    let owner = view.owner.get();
    if view.is_view() {
        // A view's node is held by its message alone, and nobody views its own block.
        home(node);
    }
    // SAFETY: the count that the message held keeps the owner alive.
    if !count_one_less(unsafe { &*owner }) {
        return;
    }
    if let Some(owner) = NonNull::new(owner.cast_mut()) {
        // The last count is given up, and with it the owner's node: its own message is gone.
        home(owner);
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .field("total_len", &self.total_len())
            .field("headroom", &self.headroom())
            .field("unique", &self.is_unique())
            .finish_non_exhaustive()
    }
}
