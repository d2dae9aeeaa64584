//! The header in front of every block, and the size classes of the blocks.

use core::alloc::Layout;
use core::cell::{Cell, UnsafeCell};
use core::mem::{offset_of, size_of};
use core::ptr::NonNull;

use crate::arena::Arena;
use crate::home::Home;
use crate::keeping::{count_strictly_less, count_strictly_more};
use crate::metadata::Kind;
use crate::sync::{AtomicU32, Ordering};
use crate::train::Segmentation;

/// Words of a message's scratch.
pub(crate) const NOTE_WORDS: usize = 14;

/// The header of a message, in front of its block in one allocation of a size class.
///
/// Every field is a cell or an atomic, so that shared references to a node are always allowed. Who may touch what:
///
/// * `refs`: whoever holds a message that views this node's block, atomically.
/// * `home`, `arena`, `class`: written when the node is carved, constant from then on.
/// * everything else: the holder of the one [`Message`](crate::Message) that points to this node. When that message is
///   dropped while views of the block are left, nobody touches these fields until the last view frees the node.
///
/// The first cache line holds what every message needs; the scratch of modules lies behind it.
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The first byte of the block: this node's own, or the owner's if this node is a view.
    pub block: Cell<*mut u8>,
    /// Offset of the message's first byte in the block.
    pub start: Cell<u32>,
    /// Offset behind the message's last byte in the block.
    pub end: Cell<u32>,
    /// Bytes in the block.
    pub capacity: Cell<u32>,
    /// Messages that view this node's block, 1 while the node lies on a free list; 0 and downwards where counts are
    /// [strict](crate::keeping).
    pub refs: AtomicU32,
    /// The next block of a composite message, or the next node of a free list.
    pub next: UnsafeCell<Option<NonNull<Node>>>,
    /// The node whose block is viewed: this one, or another.
    pub owner: Cell<*const Node>,
    /// Where the node returns to; null if that is the store of its arena.
    pub home: Cell<*const Home>,
    pub label: Cell<Label>,
    /// Index into [`CAPACITY`].
    pub class: Cell<u8>,
    /// The sum of `sum_start..sum_end`.
    pub sum: Cell<u16>,
    /// Offsets in the block between which the sum is known: empty if none is. Always within `start..end`.
    pub sum_start: Cell<u32>,
    pub sum_end: Cell<u32>,

    pub place: Cell<Place>,
    /// Bytes in the continuation blocks, in a head whose `next` is set; a count of nodes, in the first of a
    /// [chain](Node::head_chain) that comes home.
    pub rest_len: Cell<usize>,
    /// The last continuation block, in a head whose `next` is set; the last node, in the first of a chain that comes home.
    pub last: Cell<Option<NonNull<Node>>>,
    /// Offset in the block below which this node's holder alone may write, though the block is shared; 0 if it may not.
    /// See [`Message::share_with_headroom`](crate::Message::share_with_headroom).
    pub front: Cell<u32>,
    /// The segments that the message stands for, and who sees to their checksums.
    pub segmentation: Cell<Segmentation>,
    /// Which arena its memory is from; null for none.
    pub arena: Cell<*const Arena>,
    /// Scratch for what a module's order-free part leaves to its ordered part.
    pub notes: UnsafeCell<[u64; NOTE_WORDS]>,
}

/// Metadata that every message has its own of, in one word to be copied and cleared at once.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    /// Index of the bucket that the message's connection lies in.
    pub bucket: u16,
    pub kind: Kind,
    pub band: u8,
}

impl Label {
    const CLEAR: Label = Label {
        bucket: 0,
        kind: Kind::Data,
        band: 0,
    };
}

/// Metadata that says where a message belongs, likewise.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub connection: u64,
    pub position: u64,
    pub ticket: u64,
}

impl Place {
    const CLEAR: Place = Place {
        connection: 0,
        position: 0,
        ticket: 0,
    };
}

const _: () = {
    assert!(
        offset_of!(Node, place) == 64,
        "the hot fields fill one cache line"
    );
    assert!(size_of::<Node>() == NODE_SIZE);
};

/// Bytes of a node, and the offset of its own block behind its address.
pub(crate) const NODE_SIZE: usize = 256;

/// The number of size classes.
pub(crate) const CLASSES: usize = 7;

/// The class of nodes without a block of their own.
pub(crate) const VIEW_CLASS: usize = 0;

/// Bytes of block per class. Beside 128 bytes of headroom they hold: a header chain or an acknowledgement; Ethernet's
/// 1500, FDDI's 4352 and jumbo 9000 byte packets; 16 KiB of stream; the largest IP packet. All but the first are an odd
/// number of cache lines (with the node's four), so that the hot lines of neighbouring nodes fall into different cache
/// sets.
pub(crate) const CAPACITY: [usize; CLASSES] = [0, 320, 2112, 4672, 9280, 16_960, 66_624];

/// Nodes carved from one slab of a class: slabs are between 64 and 256 KiB.
pub(crate) const NODES_PER_SLAB: [usize; CLASSES] = [256, 128, 64, 32, 20, 12, 3];

const _: () = {
    let mut class = 0;
    while class < CLASSES {
        let slab = stride(class) * NODES_PER_SLAB[class];
        assert!(
            slab >= 64 << 10 && slab <= 256 << 10,
            "slabs are 64 to 256 KiB"
        );
        assert!(stride(class).is_multiple_of(64), "nodes stay aligned");
        class += 1;
    }
};

/// The largest sum of headroom and size that one block holds.
pub const MAX_BLOCK: usize = CAPACITY[CLASSES - 1];

/// The distance between two nodes of a class in a slab.
pub(crate) const fn stride(class: usize) -> usize {
    NODE_SIZE + CAPACITY[class]
}

/// The layout of a class's slab, with room to align it by hand (see [`Slab`](crate::arena::Slab)).
pub(crate) fn slab_bytes(class: usize) -> usize {
    stride(class) * NODES_PER_SLAB[class]
}

/// The alignment of nodes.
pub(crate) const NODE_ALIGN: usize = Layout::new::<Node>().align();

/// The smallest class with a block of at least `need` bytes; `None` if there is none.
#[inline]
pub(crate) fn class_for(need: usize) -> Option<usize> {
    // Sizes that are asked for in a row are alike, so the processor knows how far this goes.
    (1..CLASSES).find(|class| need <= CAPACITY[*class])
}

impl Node {
    /// A node as it is carved: it views its own, empty block. `unique` is the count of what nobody shares.
    pub const fn carved(class: usize, home: *const Home, arena: *const Arena, unique: u32) -> Node {
        Node {
            block: Cell::new(core::ptr::null_mut()),
            start: Cell::new(0),
            end: Cell::new(0),
            capacity: Cell::new(0),
            refs: AtomicU32::new(unique),
            next: UnsafeCell::new(None),
            owner: Cell::new(core::ptr::null()),
            home: Cell::new(home),
            label: Cell::new(Label::CLEAR),
            class: Cell::new(class as u8),
            sum: Cell::new(0),
            sum_start: Cell::new(0),
            sum_end: Cell::new(0),
            place: Cell::new(Place::CLEAR),
            rest_len: Cell::new(0),
            last: Cell::new(None),
            front: Cell::new(0),
            segmentation: Cell::new(Segmentation::CLEAR),
            arena: Cell::new(arena),
            notes: UnsafeCell::new([0; NOTE_WORDS]),
        }
    }

    /// The next node of the chain.
    #[inline]
    pub fn next(&self) -> Option<NonNull<Node>> {
        // SAFETY: only the holder of the node (see `Node`) reads or writes `next`, and no reference to it is kept
        // across a call that writes it: `Message::continuation` borrows the message that every writer takes by `&mut`.
        unsafe { *self.next.get() }
    }

    /// Sets the next node of the chain. The caller holds the node alone.
    #[inline]
    pub fn set_next(&self, next: Option<NonNull<Node>>) {
        // SAFETY: as in `next`.
        unsafe { *self.next.get() = next };
    }

    /// Makes this free node the first of a chain that comes home, all of its class: it goes on a free list at once, and only
    /// these two nodes are touched. For how many nodes it counts: its own, or also those of chains that come with it.
    #[inline]
    pub fn head_chain(&self, last: NonNull<Node>, nodes: u32) {
        self.last.set(Some(last));
        self.rest_len.set(nodes as usize);
    }

    /// The last node of the chain of which this is the first.
    #[inline]
    pub fn end_of_chain(&self) -> NonNull<Node> {
        self.last.get().unwrap_or(NonNull::from(self))
    }

    /// For how many nodes the chain counts of which this is the first.
    #[inline]
    pub fn chain_nodes(&self) -> u64 {
        self.rest_len.get() as u64
    }

    /// Bytes of the block that the message sees.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end.get() - self.start.get()) as usize
    }

    /// Whether the message views the block of another node.
    #[inline]
    pub fn is_view(&self) -> bool {
        !core::ptr::eq(self.owner.get(), self)
    }

    /// Whether what lies in front of the message is its own to write, though the block is shared.
    #[inline]
    pub fn owns_front(&self) -> bool {
        let front = self.front.get();
        front != 0 && self.start.get() <= front
    }

    /// Forgets the sum.
    #[inline]
    pub fn clear_sum(&self) {
        self.sum_start.set(0);
        self.sum_end.set(0);
    }

    /// Sets everything that a fresh message finds cleared.
    #[inline]
    fn clear(&self) {
        self.set_next(None);
        self.clear_sum();
        self.clear_metadata();
        self.front.set(0);
    }

    /// Sets the metadata that a fresh message finds cleared.
    #[inline]
    pub fn clear_metadata(&self) {
        self.label.set(Label::CLEAR);
        self.place.set(Place::CLEAR);
        self.segmentation.set(Segmentation::CLEAR);
    }

    /// Makes the free node at `this`, of `class`, an empty message in its own block, `headroom` bytes behind the block's start.
    ///
    /// # Safety
    /// `this` points to a carved node of that class that nobody else holds, with the provenance of its whole stride, and
    /// `headroom` is at most the capacity of the class.
    #[inline]
    pub unsafe fn reset_as_block(this: NonNull<Node>, class: usize, headroom: usize) {
        // SAFETY: the block lies behind the node in the same stride, by the caller's promise.
        let block = unsafe { this.cast::<u8>().add(NODE_SIZE) };
        // SAFETY: the caller promises a valid node.
        let node = unsafe { this.as_ref() };
        node.block.set(block.as_ptr());
        node.start.set(headroom as u32);
        node.end.set(headroom as u32);
        node.capacity.set(CAPACITY[class] as u32);
        node.owner.set(this.as_ptr());
        node.clear();
    }

    /// Makes the free node at `this` a view of `start..end` of the block that `of` views, with the metadata of `of`
    /// (but not its notes), and counts it.
    ///
    /// # Safety
    /// `this` points to a carved node that nobody else holds. The caller holds `of`, and `start..end` lies within
    /// what `of` sees.
    #[inline]
    pub unsafe fn reset_as_view(this: NonNull<Node>, of: &Node, start: u32, end: u32) {
        // SAFETY: the caller promises a valid node.
        let node = unsafe { this.as_ref() };
        let owner = of.owner.get();
        node.block.set(of.block.get());
        node.start.set(start);
        node.end.set(end);
        node.capacity.set(of.capacity.get());
        node.owner.set(owner);
        node.set_next(None);
        node.front.set(0);
        node.segmentation.set(Segmentation::CLEAR);
        // What another message sees is not to be written any more.
        of.front.set(0);
        let (sum_start, sum_end) = (of.sum_start.get(), of.sum_end.get());
        if start <= sum_start && sum_end <= end {
            node.sum.set(of.sum.get());
            node.sum_start.set(sum_start);
            node.sum_end.set(sum_end);
        } else {
            node.clear_sum();
        }
        node.copy_metadata(of);
        // SAFETY: `of` holds a count on its owner, so the owner is alive.
        let owner = unsafe { &*owner };
        count_one_more(owner);
    }

    /// Makes the free node at `this` a view of bytes that stay for ever and belong to no node.
    ///
    /// # Safety
    /// `this` points to a carved node that nobody else holds.
    #[inline]
    pub unsafe fn reset_as_static(this: NonNull<Node>, bytes: &'static [u8]) {
        // SAFETY: the caller promises a valid node.
        let node = unsafe { this.as_ref() };
        // Nobody writes there: the owner's count is never one.
        node.block.set(bytes.as_ptr().cast_mut());
        node.start.set(0);
        node.end.set(bytes.len() as u32);
        node.capacity.set(bytes.len() as u32);
        node.owner.set(&NOBODY.0);
        node.clear();
    }

    /// Copies kind, band, bucket, connection, position and ticket.
    #[inline]
    pub fn copy_metadata(&self, from: &Node) {
        self.label.set(from.label.get());
        self.place.set(from.place.get());
    }
}

/// The count of a block that is nobody's: it is neither raised nor lowered, so that its line stays with all who read it.
const UNCOUNTED: u32 = 1 << 31;

/// The owner of bytes that stay for ever.
struct Nobody(Node);

// SAFETY: of an owner that is not its viewer's own node only the count is looked at, and this one is never written.
unsafe impl Sync for Nobody {}

static NOBODY: Nobody = Nobody(Node {
    ..Node::carved(VIEW_CLASS, core::ptr::null(), core::ptr::null(), UNCOUNTED)
});

/// Takes a count for another view of the block of `owner`, while holding one.
///
/// A count of one is the caller's own, and a message is not `Sync`: nobody else can count now, so a plain store does.
#[inline]
fn count_one_more(owner: &Node) {
    let refs = &owner.refs;
    match refs.load(Ordering::Relaxed) {
        1 => refs.store(2, Ordering::Relaxed),
        UNCOUNTED => {}
        counted if counted.cast_signed() > 0 => {
            if refs.fetch_add(1, Ordering::Relaxed) > u32::MAX / 4 {
                // As many views as this need a quarter of a TiB of nodes; wrapping would free a block in use.
                std::process::abort();
            }
        }
        _ => count_strictly_more(owner),
    }
}

/// Gives up one count; whether it was the last. The count is then that of a free node again.
#[inline]
pub(crate) fn count_one_less(owner: &Node) -> bool {
    let refs = &owner.refs;
    match refs.load(Ordering::Acquire) {
        1 => true,
        UNCOUNTED => false,
        counted if counted.cast_signed() > 0 => {
            let last = refs.fetch_sub(1, Ordering::AcqRel) == 1;
            if last {
                refs.store(1, Ordering::Relaxed);
            }
            last
        }
        _ => count_strictly_less(owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_size_that_matters_fits_the_class_meant_for_it() {
        let rows = [
            (0, 0, 1),
            (128, 192, 1),
            (128, 193, 2),
            (128, 1500, 2),
            (128, 1984, 2),
            (128, 4352, 3),
            (128, 9000, 4),
            (128, 16_384, 5),
            (128, 65_535, 6),
            (MAX_BLOCK, 0, 6),
        ];
        for (headroom, size, class) in rows {
            assert_eq!(
                class_for(headroom + size),
                Some(class),
                "{headroom} + {size}"
            );
        }
        assert_eq!(class_for(MAX_BLOCK + 1), None);
    }
}
