//! What a connection has been given to send and the peer has not acknowledged yet.

use super::after::HEADROOM;
use braidnet_message::{Message, Pool};
use std::collections::VecDeque;

/// The bytes from `snd_una` on, in the pieces in which the application handed them down.
///
/// The engine knows ranges; this holds the bytes. A piece that an application's library cut at the segment size leaves
/// as one segment in its own buffer, headers in front (DEMUX §3.2.3); small pieces are gathered.
#[derive(Default)]
pub(super) struct SendQueue {
    pieces: VecDeque<Message>,
    /// The piece that was looked at last, and the offset of its first byte: data mostly leaves in order.
    cursor: Cursor,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    piece: usize,
    offset: u32,
}

impl SendQueue {
    /// Appends a piece; empty ones are not kept.
    pub(super) fn push(&mut self, piece: Message) {
        if piece.total_len() > 0 {
            self.pieces.push_back(piece);
        }
    }

    /// Lets go of the first `bytes` bytes: they are acknowledged.
    pub(super) fn release(&mut self, bytes: u32) {
        let mut left = bytes as usize;
        let mut gone = 0;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else {
                break;
            };
            let len = front.total_len();
            if len > left {
                front.strip(left);
                break;
            }
            left -= len;
            gone += 1;
            self.pieces.pop_front();
        }
        self.cursor = if self.cursor.piece > gone
            || (self.cursor.piece == gone && self.cursor.offset == bytes)
        {
            Cursor {
                piece: self.cursor.piece - gone,
                offset: self.cursor.offset.saturating_sub(bytes),
            }
        } else {
            Cursor::default()
        };
    }

    /// How many bytes, at most `max`, to put into a segment that starts at `offset`: whole pieces, as many as fit; part
    /// of one only if it is larger than a segment.
    pub(super) fn cut(&mut self, offset: u32, max: u32) -> u32 {
        let Some((piece, within)) = self.seek(offset) else {
            return max;
        };
        let mut len = self.pieces[piece].total_len() as u32 - within;
        if len >= max {
            return max;
        }
        let mut next = piece + 1;
        while let Some(more) = self.pieces.get(next).map(|piece| piece.total_len() as u32)
            && more <= max - len
        {
            len += more;
            next += 1;
        }
        len
    }

    /// A message of the `len` bytes from `offset`, with room for headers in front; `None` without a buffer.
    pub(super) fn message(&mut self, offset: u32, len: u32, pool: &mut Pool) -> Option<Message> {
        let (piece, within) = self.seek(offset)?;
        let front = &mut self.pieces[piece];
        if within == 0
            && front.len() == len as usize
            && front.continuation().is_none()
            && front.headroom() >= HEADROOM
            && front.is_unique()
        {
            return front.share_with_headroom(pool);
        }
        self.gathered(piece, within, len, pool)
    }

    /// The general case: a block for the headers, and counted views of the pieces behind it.
    #[inline(never)]
    fn gathered(&self, piece: usize, within: u32, len: u32, pool: &mut Pool) -> Option<Message> {
        let mut message = pool.allocate(HEADROOM, 0)?;
        let (mut within, mut left) = (within as usize, len as usize);
        for piece in self.pieces.iter().skip(piece) {
            let here = (piece.total_len() - within).min(left);
            message.push_continuation(piece.share_range(within, here, pool)?);
            within = 0;
            left -= here;
            if left == 0 {
                break;
            }
        }
        debug_assert_eq!(left, 0, "the engine sends only what it was given");
        Some(message)
    }

    /// The piece that holds the byte at `offset`, and that byte's place in it.
    fn seek(&mut self, offset: u32) -> Option<(usize, u32)> {
        let mut at = if offset >= self.cursor.offset {
            self.cursor
        } else {
            Cursor::default()
        };
        loop {
            let len = self.pieces.get(at.piece)?.total_len() as u32;
            if offset < at.offset + len {
                self.cursor = at;
                return Some((at.piece, offset - at.offset));
            }
            at = Cursor {
                piece: at.piece + 1,
                offset: at.offset + len,
            };
        }
    }
}
