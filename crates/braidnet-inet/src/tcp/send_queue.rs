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
    /// Where the first piece begins, counted from the first that ever was.
    front: Cursor,
    /// The piece that was looked at last: data mostly leaves in order.
    cursor: Cursor,
}

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
        let there: u64 = pieces.clone().map(|piece| piece.total_len() as u64).sum();
        let len = u64::from(bytes).min(there.saturating_sub(within.into())) as u32;
        if len == 0 {
            debug_assert!(false, "the engine sends only what it was given");
            return (bytes, None);
        }
        (len, views(pieces, within as usize, len as usize, pool))
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
            0 => total as u32,
            bytes => bytes,
        };
        // A segment that was gathered has its headers in a block apart: no train begins with it.
        let is_gathered = train.segment_bytes() == 0 && train.len() != total;
        if is_gathered || self.cursor.byte != self.front.byte.wrapping_add(offset) {
            return 0;
        }
        let room = room.min(TRAIN_BYTES.saturating_sub(total) as u32);
        let mut coupled = 0;
        let mut place = self.place();
        let mut len = self.len_of(place);
        // What is longer than one more segment may be is cut.
        let most = segment.min(max);
        while len <= most && coupled + max <= room {
            let next = self.len_of(place + 1);
            // As in `ends_segment`: one more that would fit is gathered with it.
            if next != 0 && next <= max - len {
                break;
            }
            let Some(piece) = self.pieces.get_mut(place) else {
                break;
            };
            if piece.headroom() < HEADROOM {
                break;
            }
            let Some(view) = piece.share_with_headroom(pool) else {
                break;
            };
            train.push_continuation(view);
            coupled += len;
            place += 1;
            if len < segment {
                break;
            }
            len = next;
        }
        if coupled > 0 {
            train.set_segment_bytes(segment);
            self.cursor = Cursor {
                piece: self.front.piece.wrapping_add(place as u32),
                byte: self.cursor.byte.wrapping_add(coupled),
            };
        }
        coupled
    }

    /// A block for the headers, and behind it counted views of the pieces from byte `within` of the cursor's on.
    #[inline(never)]
    fn gathered(&self, within: u32, max: u32, pool: &mut Pool) -> (u32, Option<Message>) {
        let piece = self.place();
        let mut len = self.len_of(piece).saturating_sub(within).min(max);
        if len == 0 {
            debug_assert!(false, "the engine sends only what it was given");
            return (max, None);
        }
        let mut next = piece + 1;
        while !self.ends_segment(next - 1, len, max) {
            len += self.len_of(next);
            next += 1;
        }
        let pieces = self.pieces.iter().skip(piece);
        (len, views(pieces, within as usize, len as usize, pool))
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
