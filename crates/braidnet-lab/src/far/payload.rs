//! Payload that is written once and then only viewed.

use crate::content::Content;
use braidnet_message::{Arena, MAX_BLOCK, Message, Pool};
use std::sync::Arc;

/// The cycle of a [`Content`] in blocks that messages can view.
///
/// Each device queue has blocks of its own, and blocks are as long as segments: a block's count is then moved between two
/// processors about as often as the header message in front of the view.
pub(super) struct Payload {
    content: Arc<Content>,
    blocks: Vec<Message>,
    /// Distance in the cycle between the beginnings of two blocks.
    stride: usize,
    /// Blocks lie in it.
    _pool: Pool,
}

impl Payload {
    /// The blocks, for segments of `segment` bytes; `None` if there is no memory.
    pub(super) fn new(content: Arc<Content>, segment: usize) -> Option<Payload> {
        let bytes = content.extended();
        let stride = segment.clamp(64, MAX_BLOCK);
        let block_bytes = (stride + segment).min(MAX_BLOCK);
        let arena = Arena::new(usize::MAX >> 1);
        let mut pool = Pool::new(&arena);
        let mut blocks = Vec::new();
        let mut start = 0;
        while start < content.cycle() {
            let end = (start + block_bytes).min(bytes.len());
            blocks.push(pool.copy_from_slice(0, &bytes[start..end])?);
            start += stride;
        }
        Some(Payload {
            content,
            blocks,
            stride,
            _pool: pool,
        })
    }

    /// Puts `len` bytes of the stream from `position` behind `header`, without copying. False, and the message is of no use, if
    /// `pool` has no node.
    #[inline]
    pub(super) fn put_behind(
        &self,
        header: &mut Message,
        position: u64,
        len: usize,
        pool: &mut Pool,
    ) -> bool {
        let mut at = self.content.place(position);
        let mut left = len;
        while left > 0 {
            // What begins inside the cycle and ends behind it is found in the last block, or in the first.
            let index = at / self.stride;
            let (block, within) = match self.blocks.get(index) {
                Some(block) if at - index * self.stride < block.len() => {
                    (block, at - index * self.stride)
                }
                _ => {
                    at -= self.content.cycle();
                    continue;
                }
            };
            let here = left.min(block.len() - within);
            let Some(view) = block.share_range(within, here, pool) else {
                return false;
            };
            header.push_continuation(view);
            left -= here;
            at += here;
        }
        true
    }
}
