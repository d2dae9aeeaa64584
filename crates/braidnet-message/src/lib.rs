//! Messages, buffers, pools and runs for braidnet.
//!
//! A [`Message`] is one pointer to a counted view of a buffer with room for headers in front. Messages come from a [`Pool`],
//! one per processor, whose memory comes from an [`Arena`], one per stack; a [`Run`] is a batch of messages that belong
//! together. Passing a message moves a pointer, never bytes; header bytes are prepended and stripped in place; sharing and
//! splitting make further views of the same bytes.
//!
//! This crate refuses to know what the bytes mean: it has no headers, and starts no threads.
//!
//! # Nodes, blocks and counts
//!
//! A *node* is the header of a message: where its bytes begin and end, and what travels beside them. A *block* is a buffer.
//! A node and its block are one allocation of a size class; a *view* is a node that points into another node's block, the
//! *owner's*.
//!
//! A node has exactly one holder: the one `Message` that points to it, or the node in front of it in a chain. The holder
//! reads and writes the node without further ado. What may be shared is the block: its owner's count says how many messages
//! view it, the owner's own included. The rules are
//!
//! * bytes are written by a holder that has read the count as one (acquiring what the others did before they let go);
//! * a count of one is raised by a plain store, because it is the caller's own and a message is not `Sync`; any other by an
//!   atomic addition;
//! * bytes in front of a shared block are written by at most one of its messages, which
//!   [`share_with_headroom`](Message::share_with_headroom) gives that right, and which alone sees them;
//! * whoever drops a message and reads a count of one frees the block without an atomic operation; any other count falls by an
//!   atomic subtraction, and who brings it to zero frees the block. So a buffer that was never shared never sees one;
//! * bytes that stay for ever ([`Pool::view_static`]) have no owner and no count: a count that every processor reads and
//!   none writes stands in for it;
//! * a view's own node is freed with its message. An owner's node stays, without holder, until the last view of its block is
//!   dropped.
//!
//! Where counts are to be measured, they can be strict, and buffers be kept in one store: [`Keeping`].
//!
//! # Homes
//!
//! A node belongs for ever to the pool that carved it, its *home*, and returns there at last. A pool is *bound* to the thread that works
//! with it by a guard. When a node is freed on a thread
//!
//! * where its home is the pool bound last, it is pushed on the pool's free list of its class: last in, first out, so that the
//!   next message finds it in the cache (PLP §6). No other thread ever touches that list;
//! * where another pool with the same arena is bound, it becomes a *lodger* there: that pool hands it out before its own. What
//!   two processors hand each other in equal numbers crosses between them once, and never just to go home. There are at most
//!   as many lodgers of a class as lie in one slab, so that where messages flow one way, little memory stays behind, and none
//!   where more than half of the arena is in use, or the pool has no slab of that class itself: it must live on its own where
//!   memory runs out;
//! * where there are as many, or the arena is another or so full, the pool collects it, per home, and sends 32 at a time, in a
//!   chain for each class: one compare-and-swap puts them on the home's *return stack*, from which a chain goes on a free list
//!   at once, as does [`Pool::flush_away`] with fewer. The guard sends what is left when it is dropped, lodgers too; one that is
//!   [put off](Bound::put_off) keeps it for the next;
//! * where no pool is bound, it goes to the return stack alone.
//!
//! A message that is [freed](Pool::free) to a pool goes the same ways, as if that pool were bound.
//!
//! A pool takes its whole return stack with one swap when it is bound, and when a free list is empty. As nodes are only ever pushed singly or in
//! chains and taken all together, the stack needs no protection against a top that went and came back. A pool takes new memory from
//! the arena only when list and stack are empty, and a larger block when the arena is spent. Last it draws on its
//! [reserve](Pool::fill_reserve), if that is not withheld.
//!
//! A home is a heap object that its pool, the nodes carved from it and the guards that bind it point to. It is freed, with its
//! slabs, by the last of them: a pool that is dropped closes its return stack, and from then on nodes that come back are not
//! kept but subtracted from what the home is owed. No count is kept of what is out before that: the pool knows how many nodes
//! it has carved and how many lie on its lists.
//!
//! A guard may be forgotten, and guards may be dropped in any order. Bound homes form a list per thread, from which a guard takes
//! its own wherever it is; a home whose guard was forgotten stays bound, is refused to other threads, and is not freed when its
//! pool is dropped, because its thread may still find it.
//!
//! The return stack and strict counts are checked with loom, over the source that ships; under `--cfg loom` nothing else of this crate exists:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p braidnet-message --release --lib
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

mod returns;
mod strict;
mod sync;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod away;
#[cfg(not(loom))]
mod chain;
#[cfg(not(loom))]
mod divided;
#[cfg(not(loom))]
mod fetch;
#[cfg(not(loom))]
mod home;
#[cfg(not(loom))]
mod keeping;
#[cfg(not(loom))]
mod message;
#[cfg(not(loom))]
mod metadata;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod reserve;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod sum;
#[cfg(not(loom))]
mod train;

#[cfg(not(loom))]
pub use arena::{Arena, Charge};
#[cfg(not(loom))]
pub use chain::{ABSORBED_MAX, Blocks};
#[cfg(not(loom))]
pub use divided::{Divided, Part};
#[cfg(not(loom))]
pub use fetch::fetch;
#[cfg(not(loom))]
pub use home::{PoolCounters, Scarcity};
#[cfg(not(loom))]
pub use keeping::{Counts, Keeping};
#[cfg(not(loom))]
pub use message::Message;
#[cfg(not(loom))]
pub use metadata::{Kind, NOTE_BYTES};
#[cfg(not(loom))]
pub use node::MAX_BLOCK;
#[cfg(not(loom))]
pub use pool::{Bound, Pool};
#[cfg(not(loom))]
pub use run::{Drain, Run};
#[cfg(not(loom))]
pub use train::Checksum;
