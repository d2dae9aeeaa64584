//! Sharing and splitting without copying.

use crate::message::Message;
use crate::pool::Pool;

impl Message {
    /// Another view of the whole message: the same bytes, counted, with the same metadata except notes.
    ///
    /// While both exist, neither can be written. `None` if `pool` has no nodes left for the views.
    #[inline]
    pub fn share(&self, pool: &mut Pool) -> Option<Message> {
        let node = self.node();
        // SAFETY: all that this message sees.
        let shared = unsafe { pool.view(node, node.start.get(), node.end.get()) }?;
        if node.next().is_none() {
            Some(shared)
        } else {
            self.share_rest(shared, pool)
        }
    }

    /// Another view of a message of one block, which takes the headroom with it: headers can be
    /// [prepended](Message::prepend) to the new message though the block is shared, while this one keeps the payload.
    ///
    /// `None` if the block is not unique, if there is a continuation, or if `pool` has no node left.
    ///
    /// # Why this is sound
    ///
    /// Bytes of a shared block may be written by one message if no other sees them. While the block is unique, this message
    /// alone sees it, and sees nothing below its own start: the *front*. The right to write the front passes to the new
    /// message, once, because the block is not unique any more; this message's own start only moves up. The new message loses
    /// the right when it is itself shared, for then another sees what it has written; and where its start has moved above
    /// the front, it may not prepend, for there the payload begins.
    #[inline]
    pub fn share_with_headroom(&mut self, pool: &mut Pool) -> Option<Message> {
        let node = self.node();
        if !node.is_unique() || node.next().is_some() {
            return None;
        }
        let start = node.start.get();
        // SAFETY: all that this message sees.
        let shared = unsafe { pool.view(node, start, node.end.get()) }?;
        shared.node().front.set(start);
        Some(shared)
    }

    /// Adds views of the blocks behind the first to `shared`.
    fn share_rest(&self, mut shared: Message, pool: &mut Pool) -> Option<Message> {
        for node in self.nodes().skip(1) {
            // SAFETY: all that the block's node sees.
            let view = unsafe { pool.view(node, node.start.get(), node.end.get()) }?;
            shared.push_continuation(view);
        }
        Some(shared)
    }

    /// A view of `len` bytes of the whole message, `start` bytes behind its front, with its metadata except notes.
    ///
    /// It has a node for every block that it touches, and the sum of such a block where the view holds all of it. `None` if
    /// the message has less than `start + len` bytes, or `pool` no nodes left for the views.
    #[inline]
    pub fn share_range(&self, start: usize, len: usize, pool: &mut Pool) -> Option<Message> {
        let end = start.checked_add(len)?;
        let node = self.node();
        if end > node.len() {
            return self.share_range_of_blocks(start, len, pool);
        }
        let first = node.start.get();
        // SAFETY: up to `end` the message's first block is what it sees.
        unsafe { pool.view(node, first + start as u32, first + end as u32) }
    }

    /// The same where the view goes beyond the first block.
    #[inline(never)]
    fn share_range_of_blocks(&self, start: usize, len: usize, pool: &mut Pool) -> Option<Message> {
        if start + len > self.total_len() {
            return None;
        }
        let (mut skip, mut left) = (start, len);
        let mut shared: Option<Message> = None;
        for node in self.nodes() {
            let here = node.len().saturating_sub(skip).min(left);
            // The view of nothing is a view of the first block.
            if here > 0 || (len == 0 && skip <= node.len()) {
                let first = node.start.get() + skip as u32;
                // SAFETY: `skip + here` is at most what the node sees.
                let view = unsafe { pool.view(node, first, first + here as u32) }?;
                match &mut shared {
                    None => shared = Some(view),
                    Some(head) => head.push_continuation(view),
                }
            }
            skip = skip.saturating_sub(node.len());
            left -= here;
            if left == 0 && shared.is_some() {
                break;
            }
        }
        let shared = shared?;
        shared.node().copy_metadata(self.node());
        Some(shared)
    }

    /// Takes the first `n` bytes of the whole message off, without copying, and returns them with the metadata except
    /// notes; this message keeps the rest.
    ///
    /// `None`, and nothing done, if the message has less bytes or `pool` has no nodes left for the views.
    pub fn split_to(&mut self, n: usize, pool: &mut Pool) -> Option<Message> {
        let front = self.share_range(0, n, pool)?;
        self.strip(n);
        Some(front)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arena, Pool};

    #[test]
    fn headroom_passes_to_one_view_and_ends_when_that_is_seen_or_stripped() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pool = pool.bind();
        let mut kept = pool.copy_from_slice(64, b"payload").unwrap();
        let mut sent = kept.share_with_headroom(&mut pool).unwrap();
        assert!(kept.prepend(4).is_none(), "the front is the view's");
        assert!(
            kept.share_with_headroom(&mut pool).is_none(),
            "and passes once"
        );
        sent.prepend(4).unwrap().copy_from_slice(b"tcp ");
        sent.prepend(3).unwrap().copy_from_slice(b"ip ");
        sent.front_mut(7).unwrap()[..2].copy_from_slice(b"IP");
        assert!(sent.front_mut(8).is_none(), "the payload is not the view's");
        assert_eq!(sent.bytes(), b"IP tcp payload");
        assert_eq!(kept.bytes(), b"payload");

        sent.strip(8);
        assert!(
            sent.prepend(1).is_none(),
            "the first byte of the payload is not the view's"
        );
        drop(sent);
        let mut again = kept.share_with_headroom(&mut pool).unwrap();
        let seen = again.share(&mut pool).unwrap();
        assert!(again.prepend(1).is_none(), "another sees the message");
        drop((again, seen));
        assert!(kept.prepend(1).is_some(), "alone again");
    }
}
