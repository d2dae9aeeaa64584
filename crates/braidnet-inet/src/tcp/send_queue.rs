//! What a connection has been given to send and the peer has not acknowledged yet.

use super::after::HEADROOM;
use crate::offload::TRAIN_BYTES;
use braidnet_message::{Message, Pool};
use core::ops::Range;
use std::collections::VecDeque;

/// The bytes from `snd_una` on, in the pieces in which the application handed them down.
///
/// The engine knows ranges; this holds the bytes. A piece that an application's library cut at the segment size leaves
/// as one segment in its own buffer, headers in front (DEMUX §3.2.3); small pieces are gathered; of one that is as long as several segments
/// a train is made as a whole.
#[derive(Default)]
pub(super) struct SendQueue {
    pieces: VecDeque<Message>,
    /// Where the first piece begins, counted from the first that ever was.
    front: Cursor,
    /// The piece that was looked at last: data mostly leaves in order.
    cursor: Cursor,
}

/// The position of a piece with which a record ends: what follows it never shares a segment with it. No other has it: on the way up it is the place of the first
/// byte in the stream.
pub const RECORD_END: u64 = u64::MAX;

/// What may be coupled to a segment: as long as `room` holds `max` bytes more than have been, one of at most `max`.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) max: u32,
    pub(super) room: u32,
}

/// Where a piece begins, in pieces and in bytes, both counted from the first that ever was; they wrap.
#[derive(Clone, Copy, Default)]
struct Cursor {
    piece: u32,
    byte: u32,
}

impl SendQueue {
    /// Appends a piece, which is not empty.
    #[inline]
    pub(super) fn push(&mut self, piece: Message) {
        debug_assert!(piece.total_len() > 0);
        self.pieces.push_back(piece);
    }

    /// Appends a piece that is longer than a segment: each of its blocks is one by itself, so that segments can be told apart in a train.
    #[inline(never)]
    pub(super) fn push_long(&mut self, piece: Message) {
        let ends_record = piece.position() == RECORD_END;
        let mut left = Some(piece);
        while let Some(mut block) = left {
            left = block.take_continuation();
            if !block.is_empty() {
                block.set_position(0);
                self.push(block);
            }
        }
        if ends_record && let Some(last) = self.pieces.back_mut() {
            last.set_position(RECORD_END);
        }
    }

    /// Lets go of the first `bytes` bytes: they are acknowledged.
    #[inline]
    pub(super) fn release(&mut self, bytes: u32) {
        let mut left = bytes as usize;
        self.front.byte = self.front.byte.wrapping_add(bytes);
        while left > 0
            && let Some(mut front) = self.pieces.pop_front()
        {
            let len = front.total_len();
            if len > left {
                front.strip(left);
                return self.pieces.push_front(front);
            }
            left -= len;
            self.front.piece = self.front.piece.wrapping_add(1);
        }
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
        let at = self.front.byte.wrapping_add(offset);
        if self.cursor.byte != at {
            self.seek(offset);
        }
        let piece = self.place();
        let len = self.len_of(piece);
        if self.cursor.byte == at
            && len <= max
            && self.ends_segment(piece, len, max)
            && let Some(front) = self.pieces.get_mut(piece)
            && front.headroom() >= HEADROOM
            && let Some(message) = front.share_with_headroom(pool)
        {
            // What follows is mostly sent next.
            self.cursor.pass(len);
            return (len, Some(message));
        }
        self.gathered(at.wrapping_sub(self.cursor.byte), max, pool)
    }

    /// The same of just so many bytes, if there are as many, wherever pieces end.
    #[cold]
    pub(super) fn whole(
        &mut self,
        offset: u32,
        bytes: u32,
        pool: &mut Pool,
    ) -> (u32, Option<Message>) {
        let at = self.front.byte.wrapping_add(offset);
        if self.cursor.byte != at {
            self.seek(offset);
        }
        let within = at.wrapping_sub(self.cursor.byte);
        let place = self.place();
        let pieces = self.pieces.iter().skip(place);
        let mut there = 0;
        for piece in pieces.clone() {
            there += piece.total_len() as u64;
            if piece.position() == RECORD_END {
                break;
            }
        }
        let len = u64::from(bytes).min(there.saturating_sub(within.into())) as u32;
        if len == 0 {
            debug_assert!(false, "the engine sends only what it was given");
            return (bytes, None);
        }
        (len, views(pieces, within as usize, len as usize, pool))
    }

    /// Couples the bytes from `offset` on to a segment, which makes a train of it, or to a train: how many bytes.
    ///
    /// They are whole pieces that would each make a segment of its own, in its own buffer, as long as those before them, a
    /// shorter one the last; and of a longer piece as many full segments as there may be, in one block.
    pub(super) fn couple(
        &mut self,
        train: &mut Message,
        offset: u32,
        Room { max, room }: Room,
        pool: &mut Pool,
    ) -> u32 {
        let total = train.total_len();
        let segment = match train.segment_bytes() {
            0 => total as u32,
            bytes => bytes,
        };
        // A segment that was gathered has its headers in a block apart: no train begins with it.
        let is_gathered = train.segment_bytes() == 0 && train.len() != total;
        if is_gathered {
            return 0;
        }
        let mut place = self.place();
        let mut within = self.within(offset);
        if within == self.len_of(place) {
            // What was sent before was a part of it, the last.
            (place, within) = (place + 1, 0);
        }
        let room = room.min(TRAIN_BYTES.saturating_sub(total) as u32);
        let mut coupled = 0;
        while coupled + max <= room {
            let len = self.len_of(place);
            let left = len.saturating_sub(within);
            let bytes = if left > max {
                // Full segments only: what is left of the piece is sent with what follows it.
                let most = (room - coupled - max) / segment + 1;
                most.min(left / segment) * segment
            } else {
                left
            };
            // What is longer than one more segment may be is cut. As in `ends_segment`: one more that would fit is gathered with it.
            let is_cut = if left > max {
                segment != max
            } else {
                left > segment
            };
            if left == 0 || is_cut || (left <= max && !self.ends_segment(place, left, max)) {
                break;
            }
            let Some(view) = self.view(place, within..within + bytes, pool) else {
                break;
            };
            train.push_continuation(view);
            coupled += bytes;
            within += bytes;
            if within == len {
                place += 1;
                within = 0;
            }
            if bytes < segment {
                break;
            }
        }
        if coupled > 0 {
            train.set_segment_bytes(segment);
            let at = self.front.byte.wrapping_add(offset + coupled);
            self.cursor = Cursor {
                piece: self.front.piece.wrapping_add(place as u32),
                byte: at.wrapping_sub(within),
            };
        }
        coupled
    }

    /// A view of these bytes of a piece, for a train: of a whole piece with the room in front of it, if that is to be had. `None` of a piece in several blocks, and
    /// without buffers.
    #[inline]
    fn view(&mut self, place: usize, bytes: Range<u32>, pool: &mut Pool) -> Option<Message> {
        let piece = self.pieces.get_mut(place)?;
        if bytes.len() == piece.total_len()
            && piece.headroom() >= HEADROOM
            && let Some(view) = piece.share_with_headroom(pool)
        {
            return Some(view);
        }
        if piece.len() != piece.total_len() {
            return None;
        }
        piece.share_range(bytes.start as usize, bytes.len(), pool)
    }

    /// A block for the headers, and behind it counted views of the pieces from byte `within` of the cursor's on.
    #[inline(never)]
    fn gathered(&mut self, within: u32, max: u32, pool: &mut Pool) -> (u32, Option<Message>) {
        let piece = self.place();
        let mut len = self.len_of(piece).saturating_sub(within).min(max);
        if len == 0 {
            debug_assert!(false, "the engine sends only what it was given");
            return (max, None);
        }
        let ends_piece = within + len == self.len_of(piece);
        let ends_record = ends_piece && self.ends_record(piece);
        // A train can begin with it.
        let goes_on = self.len_of(piece) - within > max || self.len_of(piece + 1) > 0;
        if len == max
            && goes_on
            && let Some(long) = self.pieces.get_mut(piece)
            && long.len() == long.total_len()
        {
            let mut first = first_of(long, within as usize, max as usize, pool);
            if let Some(first) = &mut first {
                first.set_position(if ends_record { RECORD_END } else { 0 });
            }
            return (max, first);
        }
        let mut next = piece + 1;
        while !self.ends_segment(next - 1, len, max) && !self.ends_record(next - 1) {
            len += self.len_of(next);
            next += 1;
        }
        let ends_record = (ends_piece || next > piece + 1) && self.ends_record(next - 1);
        let pieces = self.pieces.iter().skip(piece);
        let mut segment = views(pieces, within as usize, len as usize, pool);
        if ends_record && let Some(segment) = &mut segment {
            segment.set_position(RECORD_END);
        }
        (len, segment)
    }

    /// How far behind the cursor the byte at `offset` is: inside the piece that the cursor is at, or out of it.
    #[inline]
    fn within(&self, offset: u32) -> u32 {
        let at = self.front.byte.wrapping_add(offset);
        at.wrapping_sub(self.cursor.byte)
    }

    /// Which of the pieces the cursor is at.
    #[inline]
    fn place(&self) -> usize {
        self.cursor.piece.wrapping_sub(self.front.piece) as usize
    }

    /// Bytes of a piece; 0 if there is none.
    #[inline]
    fn len_of(&self, piece: usize) -> u32 {
        self.pieces
            .get(piece)
            .map_or(0, |piece| piece.total_len() as u32)
    }

    /// Whether the piece behind `piece` is none or too long for a segment that holds `len` bytes, at most `max`, already.
    #[inline]
    fn ends_segment(&self, piece: usize, len: u32, max: u32) -> bool {
        match self.len_of(piece + 1) {
            0 => true,
            next => next > max - len,
        }
    }

    /// Whether a record ends with a piece.
    fn ends_record(&self, piece: usize) -> bool {
        let piece = self.pieces.get(piece);
        piece.is_some_and(|piece| piece.position() == RECORD_END)
    }

    /// Moves the cursor to the piece that holds the byte at `offset`.
    #[inline(never)]
    fn seek(&mut self, offset: u32) {
        if self.cursor.byte.wrapping_sub(self.front.byte) > offset {
            self.cursor = self.front;
        }
        let at = self.front.byte.wrapping_add(offset);
        loop {
            let len = self.len_of(self.place());
            if len == 0 || at.wrapping_sub(self.cursor.byte) < len {
                return;
            }
            self.cursor.pass(len);
        }
    }
}

impl Cursor {
    /// On to the next piece, behind one of so many bytes.
    #[inline]
    fn pass(&mut self, bytes: u32) {
        self.piece = self.piece.wrapping_add(1);
        self.byte = self.byte.wrapping_add(bytes);
    }
}

/// A full segment of a piece in one block, from byte `within` on: the piece's own front if it can carry the headers, and else a copy, which costs less than what can be
/// coupled to it then.
fn first_of(piece: &mut Message, within: usize, max: usize, pool: &mut Pool) -> Option<Message> {
    if within == 0
        && piece.headroom() >= HEADROOM
        && let Some(mut first) = piece.share_with_headroom(pool)
    {
        first.truncate(max);
        return Some(first);
    }
    let bytes = piece.bytes().get(within..within + max)?;
    pool.copy_from_slice_summed(HEADROOM, bytes, max)
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
