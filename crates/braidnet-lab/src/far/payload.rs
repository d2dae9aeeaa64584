//! Payload that is written once and then only viewed.

use crate::content::Content;
use braidnet_message::{MAX_BLOCK, Message, Pool};
use std::sync::{Arc, Mutex, PoisonError};

/// The cycle of a [`Content`] in blocks that messages can view.
///
/// Blocks are as long as segments and begin on cache lines of their own, as what a device has written does. Views of them are
/// not counted: a count would cross between the processor that makes a message and the one that drops it.
pub(super) struct Payload {
    content: Arc<Content>,
    written: &'static Written,
}

/// Blocks that stay for ever: everything that a process measures is measured with the same few.
struct Written {
    blocks: Vec<&'static [u8]>,
    /// Distance in the cycle between the beginnings of two blocks.
    stride: usize,
}

static WRITTEN: Mutex<Vec<&'static Written>> = Mutex::new(Vec::new());

/// Blocks begin at multiples of this.
const LINE_BYTES: usize = 64;

impl Written {
    /// The blocks of this content for segments of `segment` bytes: those that were written for it before, if there are any.
    fn find(content: &Content, segment: usize) -> &'static Written {
        let stride = segment.clamp(64, MAX_BLOCK);
        let bytes = content.extended();
        let parts: Vec<&[u8]> = (0..content.cycle())
            .step_by(stride)
            .map(|start| &bytes[start..(start + stride + segment).min(bytes.len())])
            .collect();
        let mut all = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all
            .iter()
            .find(|written| written.stride == stride && written.blocks == parts);
        if let Some(written) = before {
            return written;
        }
        let blocks = parts.into_iter().map(keep).collect();
        let written: &Written = Box::leak(Box::new(Written { blocks, stride }));
        all.push(written);
        written
    }
}

/// A copy that begins on a cache line and is never freed.
fn keep(bytes: &[u8]) -> &'static [u8] {
    let mut copy: Vec<u8> = Vec::with_capacity(bytes.len() + 2 * LINE_BYTES);
    let skip = copy.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
    copy.resize(skip, 0);
    copy.extend_from_slice(bytes);
    &copy.leak()[skip..]
}

impl Payload {
    /// The blocks, for segments of `segment` bytes.
    pub(super) fn new(content: Arc<Content>, segment: usize) -> Payload {
        Payload {
            written: Written::find(&content, segment),
            content,
        }
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
        let Written { blocks, stride } = self.written;
        let mut at = self.content.place(position);
        let mut left = len;
        while left > 0 {
            // What begins inside the cycle and ends behind it is found in the last block, or in the first.
            let index = at / stride;
            let behind = blocks
                .get(index)
                .and_then(|block| block.get(at - index * stride..));
            let Some(behind) = behind.filter(|behind| !behind.is_empty()) else {
                at -= self.content.cycle();
                continue;
            };
            let here = left.min(behind.len());
            let Some(view) = pool.view_static(&behind[..here]) else {
                return false;
            };
            header.push_continuation(view);
            left -= here;
            at += here;
        }
        true
    }
}
