//! What a connection has been given to send and the peer has not acknowledged yet.

use super::after::HEADROOM;
use braidnet_message::{Message, Pool};
use braidnet_wire::ipv4::{self, MAX_TOTAL_LEN};
use braidnet_wire::tcp;
use std::collections::VecDeque;

/// Most payload bytes in a train: what one IP packet holds beside the longest headers, so that a device may take it whole.
const TRAIN_BYTES: usize = MAX_TOTAL_LEN - ipv4::MIN_HEADER_LEN - tcp::MAX_HEADER_LEN;

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

/// What may be coupled to a segment: as long as `room` holds `max` bytes more than have been, one of at most `max`.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) max: u32,
    pub(super) room: u32,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    piece: usize,
    offset: u32,
}

impl SendQueue {
    /// Appends a piece; empty ones are not kept.
    #[inline]
    pub(super) fn push(&mut self, piece: Message) {
        if piece.total_len() > 0 {
            self.pieces.push_back(piece);
        }
    }

    /// Lets go of the first `bytes` bytes: they are acknowledged.
    #[inline]
    pub(super) fn release(&mut self, bytes: u32) {
        let mut left = bytes as usize;
        let mut gone = 0;
        while left > 0
            && let Some(mut front) = self.pieces.pop_front()
        {
            let len = front.total_len();
            if len > left {
                front.strip(left);
                self.pieces.push_front(front);
                break;
            }
            left -= len;
            gone += 1;
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

    /// The data of a segment that starts at `offset`: how many bytes, at most `max`, and these with room for headers in
    /// front, unless there is no buffer.
    ///
    /// It is whole pieces, as many as fit; part of one only if it is larger than a segment.
    #[inline]
    pub(super) fn segment(
        &mut self,
        offset: u32,
        max: u32,
        pool: &mut Pool,
    ) -> (u32, Option<Message>) {
        if self.cursor.offset != offset {
            self.seek(offset);
        }
        let Cursor { piece, offset: at } = self.cursor;
        if at == offset
            && let Some(len) = self.len_of(piece).filter(|len| *len <= max)
            && self.len_of(piece + 1).is_none_or(|next| next > max - len)
            && let Some(front) = self.pieces.get_mut(piece)
            && front.headroom() >= HEADROOM
            && let Some(message) = front.share_with_headroom(pool)
        {
            // What follows is mostly sent next.
            self.cursor = Cursor {
                piece: piece + 1,
                offset: offset + len,
            };
            return (len, Some(message));
        }
        self.gathered(offset - at, max, pool)
    }

    /// Couples the pieces from `offset` on to a segment, which makes a train of it, or to a train: how many bytes.
    ///
    /// They are whole pieces that would each make a segment of its own, in its own buffer, as long as those before them; a
    /// shorter one is the last.
    pub(super) fn couple(
        &mut self,
        train: &mut Message,
        offset: u32,
        Room { max, room }: Room,
        pool: &mut Pool,
    ) -> u32 {
        let total = train.total_len();
        let segment = match train.segment_bytes() {
            // A segment that was gathered has its headers in a block apart.
            0 if train.len() == total => total as u32,
            bytes => bytes,
        };
        if self.cursor.offset != offset {
            return 0;
        }
        let room = room.min(TRAIN_BYTES.saturating_sub(total) as u32);
        let mut coupled = 0;
        let mut pieces = self.pieces.range_mut(self.cursor.piece..);
        let mut next = pieces.next();
        while let Some(piece) = next
            && coupled + max <= room
        {
            let len = piece.total_len() as u32;
            next = pieces.next();
            let goes_alone = len <= max
                && next
                    .as_ref()
                    .is_none_or(|next| next.total_len() as u32 > max - len);
            if len > segment || !goes_alone || piece.headroom() < HEADROOM {
                break;
            }
            let Some(view) = piece.share_with_headroom(pool) else {
                break;
            };
            train.push_continuation(view);
            coupled += len;
            self.cursor.piece += 1;
            if len < segment {
                break;
            }
        }
        if coupled > 0 {
            self.cursor.offset += coupled;
            train.set_segment_bytes(segment);
        }
        coupled
    }

    /// A block for the headers, and behind it counted views of the pieces from byte `within` of the cursor's on.
    #[inline(never)]
    fn gathered(&self, within: u32, max: u32, pool: &mut Pool) -> (u32, Option<Message>) {
        let piece = self.cursor.piece;
        let Some(mut len) = self.len_of(piece).map(|len| (len - within).min(max)) else {
            debug_assert!(false, "the engine sends only what it was given");
            return (max, None);
        };
        let mut next = piece + 1;
        while let Some(more) = self.len_of(next).filter(|more| *more <= max - len) {
            len += more;
            next += 1;
        }
        let pieces = self.pieces.iter().skip(piece);
        (len, views(pieces, within as usize, len as usize, pool))
    }

    /// Bytes of a piece.
    #[inline]
    fn len_of(&self, piece: usize) -> Option<u32> {
        Some(self.pieces.get(piece)?.total_len() as u32)
    }

    /// Moves the cursor to the piece that holds the byte at `offset`.
    #[inline(never)]
    fn seek(&mut self, offset: u32) {
        if offset < self.cursor.offset {
            self.cursor = Cursor::default();
        }
        while let Some(len) = self.len_of(self.cursor.piece)
            && offset - self.cursor.offset >= len
        {
            self.cursor.piece += 1;
            self.cursor.offset += len;
        }
    }
}

/// A block for headers and views of `len` bytes of the pieces, from byte `within` of the first on; `None` without buffers.
fn views<'a>(
    pieces: impl Iterator<Item = &'a Message>,
    mut within: usize,
    len: usize,
    pool: &mut Pool,
) -> Option<Message> {
    let mut message = pool.allocate(HEADROOM, 0)?;
    let mut left = len;
    for piece in pieces {
        let here = (piece.total_len() - within).min(left);
        message.push_continuation(piece.share_range(within, here, pool)?);
        within = 0;
        left -= here;
        if left == 0 {
            break;
        }
    }
    Some(message)
}

#[cfg(test)]
mod tests;
