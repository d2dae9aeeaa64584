//! What a stream head keeps of one connection for its application.

use crate::error::SendError;
use braidnet_inet::HEADROOM;
use braidnet_inet::tcp::RECORD_END;
use braidnet_message::{Kind, Message, Pool, Scarcity};
use braidnet_stream::{ConnectionId, Control};
use braidnet_wire::address::Tuple;
use std::collections::VecDeque;

/// One connection as its application sees it: what has come and not been read, room to send, and the segment that is
/// being filled.
pub(crate) struct Endpoint {
    pub(crate) id: ConnectionId,
    pub(crate) tuple: Tuple,
    pub(crate) state: Phase,
    /// What has come first; apart from the others, as there are seldom any.
    front: Option<Message>,
    /// What has come after it.
    behind: VecDeque<Message>,
    /// Bytes that have come and were not read: no window holds more than 2^30 of them.
    received_bytes: u32,
    /// Bytes that were read so far.
    read_bytes: u64,
    /// Up to where in the stream the peer calls data urgent.
    urgent_until: u64,
    /// That is among the events that the application has not taken.
    pub(crate) is_urgency_listed: bool,
    /// So is that the peer is silent.
    pub(crate) is_silence_listed: bool,
    /// Bytes that were read and not reported yet.
    unreported: u32,
    /// Bytes that may still be sent.
    space: u32,
    /// Largest segment, and the longest piece that is handed down, which is of whole segments. Bytes.
    mss: u16,
    piece: u32,
    /// The segment that is being filled.
    filling: Option<Message>,
    /// What does not fill a segment is held back.
    corked: bool,
    /// What TCP has said of data that go before the connection begins.
    beginning: Option<Beginning>,
    /// It stands in the list of those with something to hand down.
    pub(crate) listed: bool,
    pub(crate) end_of_data: bool,
    /// A peer has opened it, and the application has not heard of it yet.
    pub(crate) is_unaccepted: bool,
    /// A socket has it.
    pub(crate) is_claimed: bool,
}

/// What TCP says of data that go before a connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beginning {
    /// Bytes that may be sent.
    pub(crate) space: u32,
    /// Largest segment.
    pub(crate) mss: u16,
    /// They travel with the SYN.
    pub(crate) goes_with_syn: bool,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The handshake is under way.
    Opening,
    /// Data can be sent.
    Open,
    /// This side has said that it will send no more.
    Closing,
    /// Gone, for this reason.
    Gone(u32),
}

impl Endpoint {
    pub(crate) fn new(id: ConnectionId, tuple: Tuple) -> Endpoint {
        Endpoint {
            id,
            tuple,
            state: Phase::Opening,
            front: None,
            behind: VecDeque::new(),
            received_bytes: 0,
            read_bytes: 0,
            urgent_until: 0,
            is_urgency_listed: false,
            is_silence_listed: false,
            unreported: 0,
            space: 0,
            mss: 0,
            piece: 0,
            filling: None,
            corked: false,
            beginning: None,
            listed: false,
            end_of_data: false,
            is_unaccepted: false,
            is_claimed: false,
        }
    }

    /// The handshake is over.
    pub(crate) fn open(&mut self, connected: &Control) {
        self.state = Phase::Open;
        self.space = connected.value as u32;
        self.mss = connected.mss() as u16;
        self.piece = connected.piece();
    }

    /// Data may be sent before the connection begins, if it was asked for with such.
    pub(crate) fn allow_beginning(&mut self, control: &Control) {
        let mss = control.detail & !Control::GOES_WITH_SYN;
        self.beginning = (mss > 0).then_some(Beginning {
            space: control.value as u32,
            mss: mss as u16,
            goes_with_syn: control.detail & Control::GOES_WITH_SYN != 0,
        });
    }

    /// Whether they would travel with the SYN.
    pub(crate) fn goes_with_syn(&self) -> bool {
        self.beginning
            .is_some_and(|beginning| beginning.goes_with_syn)
    }

    /// What was said of that, once.
    pub(crate) fn take_beginning(&mut self) -> Option<Beginning> {
        self.beginning.take()
    }

    fn mss(&self) -> usize {
        self.mss as usize
    }

    /// More may be sent.
    pub(crate) fn grant(&mut self, space: u64) {
        self.space += space as u32;
    }

    /// Leaves room for at most `most` bytes; of how many it is taken, until it is [granted](Endpoint::grant) again.
    pub(crate) fn withhold(&mut self, most: u32) -> u32 {
        let withheld = self.space.saturating_sub(most);
        self.space -= withheld;
        withheld
    }

    /// What is answered to an application that sends while the connection is not open.
    #[cold]
    pub(crate) fn refuse(&self) -> Result<usize, SendError> {
        match self.state {
            Phase::Opening | Phase::Open => Ok(0),
            Phase::Closing => Err(SendError::Closing),
            Phase::Gone(_) => Err(SendError::Gone),
        }
    }

    pub(crate) fn space(&self) -> usize {
        self.space as usize
    }

    pub(crate) fn readable(&self) -> usize {
        self.received_bytes as usize
    }

    /// The peer calls data urgent up to this position in the stream; whether that is to be told.
    #[cold]
    pub(crate) fn mark(&mut self, until: u64) -> bool {
        self.urgent_until = until;
        !core::mem::replace(&mut self.is_urgency_listed, true)
    }

    /// Bytes that are still to be read up to the end of what is urgent; 0 if nothing is.
    pub(crate) fn urgent(&self) -> u64 {
        self.urgent_until.saturating_sub(self.read_bytes)
    }

    /// Data has come; whether none was there.
    #[inline]
    pub(crate) fn push(&mut self, message: Message) -> bool {
        self.received_bytes += message.total_len() as u32;
        let is_first = self.front.is_none();
        if is_first {
            self.front = Some(message);
        } else {
            self.push_behind(message);
        }
        is_first
    }

    /// Data has come, and what came before has not been read: little is put with it.
    #[inline(never)]
    fn push_behind(&mut self, message: Message) {
        let last = self.behind.back_mut().or(self.front.as_mut());
        if !last.is_some_and(|last| last.absorb(&message)) {
            self.behind.push_back(message);
        }
    }

    /// Copies received bytes out; how many. Blocks that have been read whole are freed to `pool`.
    #[inline]
    pub(crate) fn read(&mut self, to: &mut [u8], pool: &mut Pool) -> usize {
        let mut copied = self.read_front(to, pool);
        if copied < to.len() && self.front.is_some() {
            copied += self.read_on(&mut to[copied..], pool);
        }
        self.took(copied);
        copied
    }

    /// The same from one message after the other.
    #[inline(never)]
    fn read_on(&mut self, to: &mut [u8], pool: &mut Pool) -> usize {
        let mut copied = 0;
        while copied < to.len() && self.front.is_some() {
            copied += self.read_front(&mut to[copied..], pool);
        }
        copied
    }

    /// The same from the first message, which goes when it has been read whole.
    #[inline]
    fn read_front(&mut self, to: &mut [u8], pool: &mut Pool) -> usize {
        let Some(front) = &mut self.front else {
            return 0;
        };
        let copied = front.read(to, pool);
        if front.is_empty()
            && let Some(spent) = self.pop()
        {
            pool.free(spent);
        }
        copied
    }

    /// Copies received bytes out and leaves them; how many.
    pub(crate) fn peek(&self, to: &mut [u8]) -> usize {
        let mut copied = 0;
        for message in self.front.iter().chain(&self.behind) {
            let Some(room) = to.get_mut(copied..).filter(|room| !room.is_empty()) else {
                break;
            };
            copied += message.copy_to_slice(room);
        }
        copied
    }

    /// Whether a segment is begun and not full.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Takes the next received message out whole.
    pub(crate) fn take(&mut self) -> Option<Message> {
        let message = self.pop()?;
        self.took(message.total_len());
        Some(message)
    }

    #[inline]
    fn pop(&mut self) -> Option<Message> {
        core::mem::replace(&mut self.front, self.behind.pop_front())
    }

    #[inline]
    fn took(&mut self, bytes: usize) {
        self.received_bytes -= bytes as u32;
        self.read_bytes += bytes as u64;
        self.unreported += bytes as u32;
    }

    /// Bytes read since the last report, if they are worth one (`threshold`).
    #[inline]
    pub(crate) fn credit(&mut self, threshold: u32) -> Option<u32> {
        (self.unreported >= threshold).then(|| core::mem::take(&mut self.unreported))
    }

    /// Copies bytes into segments, summing them on the way, as many as there is space and memory for. Full segments go to
    /// `out`; the last stays open for more until [`flush`](Endpoint::flush).
    #[inline]
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        pool: &mut Pool,
        mut out: impl FnMut(Message),
    ) -> usize {
        let wanted = bytes.len().min(self.space());
        let mut left = &bytes[..wanted];
        if self.filling.is_some() {
            left = self.fill_up(left, &mut out);
        }
        let mut most = self.piece as usize;
        while !left.is_empty() {
            let size = self.size_for(wanted, left.len(), most);
            let (now, later) = left.split_at(left.len().min(size));
            let is_long = size > self.mss();
            let segment = match is_long {
                true => long_copy(now, size, pool),
                false => pool.copy_from_slice_summed(HEADROOM, now, size),
            };
            let Some(mut segment) = segment else {
                if is_long {
                    // Where there is no long buffer there may be a short one.
                    most = self.mss();
                    continue;
                }
                break;
            };
            left = later;
            segment.set_connection(self.id.0);
            segment.set_bucket(self.id.bucket().0);
            if self.is_full(&segment) {
                out(segment);
            } else {
                self.filling = Some(segment);
            }
        }
        let written = wanted - left.len();
        self.space -= written as u32;
        written
    }

    /// The same before the connection begins, with nothing held back. What room there is then, TCP says once it is open.
    pub(crate) fn write_first(
        &mut self,
        bytes: &[u8],
        mss: u16,
        pool: &mut Pool,
        mut out: impl FnMut(Message),
    ) -> usize {
        (self.space, self.mss, self.piece) = (bytes.len() as u32, mss, mss.into());
        let written = self.write(bytes, pool, &mut out);
        if let Some(segment) = self.filling.take() {
            out(segment);
        }
        (self.space, self.mss, self.piece) = (0, 0, 0);
        written
    }

    /// Takes bytes off the front of a message, as many as there is space for, in the buffers that they are in, which go to `out`; how many. What is left of
    /// the message stays, if anything is.
    ///
    /// Copied are only those of a block that has [little](Message::is_sparse) of its buffer, as the peer's acknowledgment may be long in coming, and of
    /// what is held back, so that more can be put with it; where no memory is left for that, not even those.
    pub(crate) fn hand_over(
        &mut self,
        message: &mut Option<Message>,
        pool: &mut Pool,
        mut out: impl FnMut(Message),
    ) -> usize {
        let before = self.space();
        while let Some(mut block) = message.take() {
            *message = block.take_continuation();
            if block.is_empty() {
                pool.free(block);
                continue;
            }
            let space = self.space();
            if block.len() <= space {
                self.take_block(block, pool, &mut out);
                continue;
            }
            // Without room, or memory for the view, none is.
            let part = match space {
                0 => None,
                space => block.split_to(space, pool),
            };
            if let Some(rest) = message.take() {
                block.push_continuation(rest);
            }
            *message = Some(block);
            if let Some(part) = part {
                self.take_block(part, pool, &mut out);
            }
            break;
        }
        before - self.space()
    }

    /// The same of all of one block, for which there is space.
    fn take_block(&mut self, mut block: Message, pool: &mut Pool, out: &mut impl FnMut(Message)) {
        if (self.corked || block.is_sparse()) && pool.scarcity() == Scarcity::Ample {
            let copied = self.write(block.bytes(), pool, &mut *out);
            block.strip(copied);
            if block.is_empty() {
                return pool.free(block);
            }
        }
        if let Some(segment) = self.filling.take() {
            out(segment);
        }
        self.space -= block.len() as u32;
        block.set_kind(Kind::Data);
        block.set_band(0);
        block.clear_segmentation();
        block.set_connection(self.id.0);
        block.set_bucket(self.id.bucket().0);
        out(block);
    }

    /// Copies bytes into the segment that is being filled, as many as fit; what is left of them.
    #[inline(never)]
    fn fill_up<'a>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(Message)) -> &'a [u8] {
        let Some(mut segment) = self.filling.take() else {
            return bytes;
        };
        let room = self.room_in(&segment).min(bytes.len());
        let copied = segment.extend_from_slice_summed(&bytes[..room]);
        if self.is_full(&segment) {
            out(segment);
        } else {
            self.filling = Some(segment);
        }
        &bytes[copied..]
    }

    /// Whether a segment has no room for more that would be worth it.
    #[inline]
    fn is_full(&self, segment: &Message) -> bool {
        let room = self.room_in(segment).min(segment.tailroom());
        room <= self.mss() / SLIVER
    }

    /// Bytes that complete the last segment of what is being filled.
    #[inline]
    fn room_in(&self, filling: &Message) -> usize {
        let (mss, len) = (self.mss(), filling.len());
        match len <= mss {
            true => mss - len,
            false => len.next_multiple_of(mss) - len,
        }
    }

    /// Bytes of the buffer for what is `left` of a write of `wanted`: those of a segment, or of as many as one of at most `most` bytes holds. What will be held back is
    /// in none with what fills segments, which leaves.
    #[inline]
    fn size_for(&self, wanted: usize, left: usize, most: usize) -> usize {
        let mss = self.mss();
        match left > mss && most > mss {
            true if self.corked => (left - left % mss).min(most),
            true => left.next_multiple_of(mss).min(most),
            false => mss.min(wanted.max(SMALL)),
        }
    }

    /// Holds back from now on what does not fill a segment, or does so no more: what was held back goes with what is written next. Segments that are full do not wait
    /// for that.
    pub(crate) fn hold_back(&mut self, holds: bool, out: impl FnOnce(Message)) {
        let has_full = |filling: &Message| filling.len() > self.mss();
        if holds && !self.corked && self.filling.as_ref().is_some_and(has_full) {
            self.flush(out);
        }
        self.corked = holds;
    }

    /// Ends a record with the segment that is being filled, and hands it down; whether there is one.
    pub(crate) fn end_record(&mut self, out: impl FnOnce(Message)) -> bool {
        let filling = self.filling.take();
        let is_filling = filling.is_some();
        if let Some(mut segment) = filling {
            segment.set_position(RECORD_END);
            out(segment);
        }
        is_filling
    }

    /// Hands the segment that is being filled down as it is, unless it is to be held back.
    #[inline]
    pub(crate) fn flush(&mut self, out: impl FnOnce(Message)) {
        if !self.corked
            && let Some(segment) = self.filling.take()
        {
            out(segment);
        }
    }
}

/// A copy of bytes in a buffer of `size` that is longer than a segment's, if there is one to spare.
fn long_copy(bytes: &[u8], size: usize, pool: &mut Pool) -> Option<Message> {
    let mut copy = pool.allocate_spare(HEADROOM, size)?;
    copy.extend_from_slice_summed(bytes);
    Some(copy)
}

/// A segment of which less than this part is left is full: to split the next write for so little would cost both ends a
/// second copy of it, and the receiver one of its reads.
const SLIVER: usize = 16;

/// A write of less than this many bytes takes a small buffer, so that one byte does not hold a whole segment's memory.
const SMALL: usize = 64;

#[cfg(test)]
mod tests;
