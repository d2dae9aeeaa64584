//! Composite messages: a head and the blocks that continue it.
//!
//! Only the head of a chain has metadata that means anything; of the other nodes the bytes and their sums count. The head
//! knows the last block and the bytes behind its own, so that growing and measuring do not walk.

use core::iter::FusedIterator;
use core::mem::{self, ManuallyDrop};
use core::ptr::NonNull;

use braidnet_wire::checksum::copy;

use crate::fetch::look_ahead_at;
use crate::message::Message;
use crate::node::Node;
use crate::pool::Pool;
use crate::train::Segmentation;

/// Most bytes that a message [absorbs](Message::absorb): of more, a copy costs more than the buffer is worth.
pub const ABSORBED_MAX: usize = 512;

impl Message {
    /// The number of bytes in all blocks.
    #[inline]
    pub fn total_len(&self) -> usize {
        let node = self.node();
        match node.next() {
            None => node.len(),
            Some(_) => node.len() + node.rest_len.get(),
        }
    }

    /// The blocks behind the first, as a message.
    #[inline]
    pub fn continuation(&self) -> Option<&Message> {
        self.hand_down();
        let next = self
            .node()
            .next
            .get()
            .cast_const()
            .cast::<Option<Message>>();
        // SAFETY: a message is a transparent `NonNull<Node>`, so the options have the same layout, and whoever changes
        // `next` borrows this message mutably.
        unsafe { &*next }.as_ref()
    }

    /// Adds `message` and its continuation behind the last block. Its own metadata rests until it is taken off again.
    pub fn push_continuation(&mut self, message: Message) {
        let (more, last) = (message.total_len(), message.last_node());
        let first = message.into_node();
        let head = self.node();
        let before = match head.next() {
            None => {
                head.set_next(Some(first));
                0
            }
            Some(_) => {
                // SAFETY: the last node of the chain is valid, and held through its head.
                unsafe { self.last_node().as_ref() }.set_next(Some(first));
                head.rest_len.get()
            }
        };
        head.last.set(Some(last));
        head.rest_len.set(before + more);
    }

    /// Copies all bytes of `message` behind those of the last block, where they are [few](ABSORBED_MAX), it has room for
    /// them and nobody else views it; whether it did.
    ///
    /// Whoever keeps what a peer sends puts it together in this way: else the peer, sending single bytes, could have it keep a
    /// whole buffer for each.
    #[inline]
    pub fn absorb(&mut self, message: &Message) -> bool {
        message.total_len() <= ABSORBED_MAX && self.absorb_few(message)
    }

    #[inline(never)]
    fn absorb_few(&mut self, message: &Message) -> bool {
        let count = message.total_len();
        // SAFETY: the last node is valid and held through its head, which is borrowed; as a message it is not dropped.
        let mut last = ManuallyDrop::new(unsafe { Message::from_node(self.last_node()) });
        let Some(room) = last.append(count) else {
            return false;
        };
        message.copy_to_slice(room);
        let head = self.node();
        if head.next().is_some() {
            head.rest_len.set(head.rest_len.get() + count);
        }
        true
    }

    /// Takes the blocks behind the first off, as the message that they were before they were pushed.
    #[inline]
    pub fn take_continuation(&mut self) -> Option<Message> {
        self.hand_down();
        let next = self.node().next()?;
        self.node().set_next(None);
        // SAFETY: the node was a message before it was pushed, and this chain was its only holder.
        Some(unsafe { Message::from_node(next) })
    }

    /// Copies bytes from the front of the whole message, as many as fit, takes them off, and returns how many.
    ///
    /// Blocks of which nothing is left are [freed](Pool::free) to `pool`, all but the last; the metadata stays, but notes, and a
    /// train is none any more. To read a long message in small parts costs no more than to read it at once.
    #[inline]
    pub fn read(&mut self, to: &mut [u8], pool: &mut Pool) -> usize {
        let head = self.node();
        let copied = head.read(to);
        match head.next() {
            Some(next) if head.len() == 0 => copied + self.read_rest(next, &mut to[copied..], pool),
            _ => copied,
        }
    }

    /// The same where nothing is left of the first block, and others follow, of which `first` is the first.
    #[inline(never)]
    fn read_rest(&mut self, first: NonNull<Node>, to: &mut [u8], pool: &mut Pool) -> usize {
        let head = self.node();
        let (mut before, mut copied) = (head, 0);
        // SAFETY: the nodes of a chain are valid, and held through its head.
        let mut block = unsafe { first.as_ref() };
        loop {
            if let Some(next) = block.next() {
                // SAFETY: as above.
                look_ahead_at(unsafe { next.as_ref() });
            }
            copied += block.read(&mut to[copied..]);
            match block.next() {
                Some(next) if block.len() == 0 => {
                    before = block;
                    // SAFETY: as above.
                    block = unsafe { next.as_ref() };
                }
                _ => break,
            }
        }
        block.copy_metadata(head);
        block.segmentation.set(Segmentation::CLEAR);
        // Of what was behind the head, all but what is left of this block and what follows it has been copied.
        block
            .rest_len
            .set(head.rest_len.get() - copied - block.len());
        block.last.set(head.last.get());
        let Some(node) = before.next() else {
            return copied;
        };
        before.set_next(None);
        // SAFETY: the node was a message before it was pushed, and nothing points to it any more.
        let rest = unsafe { Message::from_node(node) };
        pool.free(mem::replace(self, rest));
        copied
    }

    /// The bytes of all blocks, in order; blocks without bytes are left out.
    #[inline]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks {
            nodes: self.nodes(),
        }
    }

    /// Copies bytes from the front of the whole message, as many as fit, and returns how many.
    #[inline]
    pub fn copy_to_slice(&self, to: &mut [u8]) -> usize {
        if self.node().next().is_some() {
            return self.copy_blocks_to_slice(to);
        }
        let n = self.len().min(to.len());
        copy(&mut to[..n], &self.bytes()[..n]);
        n
    }

    /// The same for a message of several blocks.
    fn copy_blocks_to_slice(&self, to: &mut [u8]) -> usize {
        let mut copied = 0;
        for block in self.blocks() {
            let n = block.len().min(to.len() - copied);
            copy(&mut to[copied..copied + n], &block[..n]);
            copied += n;
            if copied == to.len() {
                break;
            }
        }
        copied
    }

    /// Drops `n` bytes from the front of the whole message, or all if there are less, and returns how many.
    ///
    /// The first block stays, with its metadata, even when it is empty; blocks behind it that become empty are freed.
    #[inline]
    pub fn strip(&mut self, n: usize) -> usize {
        let head = self.node();
        let here = n.min(head.len());
        head.strip(here);
        if here == n || head.next().is_none() {
            here
        } else {
            here + self.strip_rest(n - here)
        }
    }

    /// Drops up to `n` bytes from the front of the continuation.
    #[inline(never)]
    fn strip_rest(&mut self, n: usize) -> usize {
        let mut left = n;
        while let Some(mut rest) = self.take_continuation() {
            let block = rest.len();
            if block > left {
                rest.node().strip(left);
                left = 0;
            } else {
                left -= block;
                match rest.take_continuation() {
                    Some(behind) => rest = behind,
                    None => break,
                }
            }
            self.push_continuation(rest);
            if left == 0 {
                break;
            }
        }
        n - left
    }

    /// Keeps the first `total` bytes of the whole message; nothing happens if there are less.
    ///
    /// Blocks behind the last byte kept are freed.
    #[inline]
    pub fn truncate(&mut self, total: usize) {
        if self.node().next().is_some() {
            self.truncate_rest(total);
        }
        let head = self.node();
        if total < head.len() {
            head.truncate(total);
        }
    }

    /// Truncates the continuation so that `total` bytes are left in the whole message.
    fn truncate_rest(&mut self, total: usize) {
        if total >= self.total_len() {
            return;
        }
        let mut left = total.saturating_sub(self.len());
        let mut blocks = self.take_continuation();
        while let Some(mut block) = blocks.take_if(|_| left > 0) {
            blocks = block.take_continuation();
            let n = left.min(block.len());
            block.node().truncate(n);
            left -= n;
            self.push_continuation(block);
        }
    }

    /// Makes the first block hold at least `n` bytes, so that a header can be read in one piece.
    ///
    /// The bytes are copied from the blocks behind: into the first block's tailroom, if it is unique and they fit, or
    /// into a new first block from `pool` with the same metadata and headroom. `false`, and nothing done, if the whole
    /// message has less bytes or `pool` has no block.
    #[inline]
    pub fn pull_up(&mut self, n: usize, pool: &mut Pool) -> bool {
        n <= self.len() || (n <= self.total_len() && self.pull_up_slow(n, pool))
    }

    #[cold]
    fn pull_up_slow(&mut self, n: usize, pool: &mut Pool) -> bool {
        let missing = n - self.len();
        if missing > self.tailroom() || !self.is_unique() {
            let Some(mut head) = pool.copy_from_slice_sized(self.headroom(), self.bytes(), n)
            else {
                return false;
            };
            head.copy_head(self);
            if let Some(rest) = self.take_continuation() {
                head.push_continuation(rest);
            }
            *self = head;
        }
        let Some(rest) = self.take_continuation() else {
            return false;
        };
        if let Some(end) = self.append(missing) {
            rest.copy_to_slice(end);
        }
        self.push_continuation(rest);
        self.strip_rest(missing);
        true
    }

    /// Makes the first block behind this one a head: tells it what only the head knows.
    #[inline]
    fn hand_down(&self) {
        let head = self.node();
        // SAFETY: the nodes of a chain are valid, and held through its head.
        if let Some(next) = head.next().map(|next| unsafe { next.as_ref() }) {
            next.rest_len.set(head.rest_len.get() - next.len());
            next.last.set(head.last.get());
        }
    }

    /// The last node of the chain.
    fn last_node(&self) -> NonNull<Node> {
        let head = self.node();
        head.next().and(head.last.get()).unwrap_or(self.as_node())
    }

    /// The nodes of the chain.
    #[inline]
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        Nodes {
            next: Some(self.node()),
        }
    }
}

impl Node {
    /// Copies bytes from the front, as many as fit, and drops them.
    #[inline]
    fn read(&self, to: &mut [u8]) -> usize {
        let n = self.len().min(to.len());
        copy(&mut to[..n], &self.bytes()[..n]);
        self.strip(n);
        n
    }

    /// Drops `n` bytes, at most all, from the front.
    #[inline]
    fn strip(&self, n: usize) {
        let start = self.start.get() + n as u32;
        self.start.set(start);
        if start > self.sum_start.get() {
            self.clear_sum();
        }
    }

    /// Keeps `n` bytes, at most all, from the front.
    #[inline]
    fn truncate(&self, n: usize) {
        let end = self.start.get() + n as u32;
        self.end.set(end);
        if end < self.sum_end.get() {
            self.clear_sum();
        }
    }
}

/// The nodes of a chain.
#[derive(Clone)]
pub(crate) struct Nodes<'a> {
    next: Option<&'a Node>,
}

impl<'a> Iterator for Nodes<'a> {
    type Item = &'a Node;

    #[inline]
    fn next(&mut self) -> Option<&'a Node> {
        let node = self.next?;
        // SAFETY: the nodes of a chain are valid, and held through its head, which is borrowed.
        self.next = node.next().map(|next| unsafe { next.as_ref() });
        Some(node)
    }
}

/// The blocks of a message; see [`Message::blocks`].
#[derive(Clone)]
pub struct Blocks<'a> {
    nodes: Nodes<'a>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.nodes
            .by_ref()
            .map(Node::bytes)
            .find(|block| !block.is_empty())
    }
}

impl FusedIterator for Blocks<'_> {}
