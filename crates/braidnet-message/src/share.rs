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
    pub fn share_range(&self, start: usize, len: usize, pool: &mut Pool) -> Option<Message> {
        if start.checked_add(len)? > self.total_len() {
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
