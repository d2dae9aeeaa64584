//! Trains, on their way out: one message becomes the segments that it stands for.
//!
//! TCP and IP have made the headers of the first segment, for all. What differs from segment to segment is patched into a copy
//! of them, and the checksums are those of the copy with the difference added (RFC 1624), so that of a segment no byte is read
//! again whose sum is known.

use super::Counted;
use crate::HEADROOM;
use crate::notes::Frame;
use braidnet_message::Message;
use braidnet_stream::{Context, Trace};
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, MIN_HEADER_LEN};
use braidnet_wire::tcp::{self, TcpFlags};
use core::ops::Range;

/// Hands on the segments of a train, in order, as packets of their own.
pub(super) fn cut(train: Message, cx: &mut Context<'_>) {
    cut_with(train, None, cx);
}

/// The same where packets are told their way: each segment goes where the train would.
pub(super) fn cut_framed(train: Message, cx: &mut Context<'_>) {
    let frame = train.note();
    cut_with(train, Some(frame), cx);
}

fn cut_with(train: Message, frame: Option<Frame>, cx: &mut Context<'_>) {
    let mut headers = [0; MIN_HEADER_LEN + tcp::MAX_HEADER_LEN];
    let there = train.len().min(headers.len());
    headers[..there].copy_from_slice(&train.bytes()[..there]);
    let cutter = Cutter::new(&headers, frame);
    // Where the length is known to the compiler the copies are a few moves.
    match usize::from(headers[DATA_OFFSET] >> 4) * 4 {
        20 => cutter.cut(&headers[..40], train, cx),
        32 => cutter.cut(&headers[..52], train, cx),
        tcp_len => {
            let len = MIN_HEADER_LEN + tcp_len.max(tcp::MIN_HEADER_LEN);
            cutter.cut(&headers[..len], train, cx);
        }
    }
}

const TOTAL_LEN: Range<usize> = 2..4;
const IP_CHECKSUM: Range<usize> = ipv4::CHECKSUM_OFFSET..ipv4::CHECKSUM_OFFSET + 2;
const SEQ: Range<usize> = MIN_HEADER_LEN + 4..MIN_HEADER_LEN + 8;
const DATA_OFFSET: usize = MIN_HEADER_LEN + 12;
const FLAGS: usize = MIN_HEADER_LEN + 13;
const TCP_CHECKSUM: Range<usize> = MIN_HEADER_LEN + 16..MIN_HEADER_LEN + 18;

/// What the segments of a train have in common.
struct Cutter {
    /// The sum of the IP header but for its length.
    ip_sum: Sum,
    /// The sum of the TCP header and the pseudo-header but for sequence number, flags and length; `None` where the device
    /// makes checksums.
    tcp_sum: Option<Sum>,
    /// Payload bytes of the first segment.
    payload_len: usize,
    seq: u32,
    flags: u8,
    frame: Option<Frame>,
}

impl Cutter {
    fn new(headers: &[u8; MIN_HEADER_LEN + tcp::MAX_HEADER_LEN], frame: Option<Frame>) -> Cutter {
        let pair = |range: Range<usize>| [headers[range.start], headers[range.start + 1]];
        let word = |range| Sum(u16::from_ne_bytes(pair(range)));
        let [a, b] = pair(SEQ);
        let [c, d] = pair(SEQ.start + 2..SEQ.end);
        let seq = u32::from_be_bytes([a, b, c, d]);
        let tcp_sum = word(TCP_CHECKSUM);
        let varying = Sum::double_word(seq) + word(DATA_OFFSET..FLAGS + 1);
        Cutter {
            ip_sum: Sum::from_checksum(pair(IP_CHECKSUM)).replace(word(TOTAL_LEN), Sum::ZERO),
            tcp_sum: (tcp_sum != Sum::ZERO).then(|| tcp_sum.replace(varying, Sum::ZERO)),
            payload_len: 0,
            seq,
            flags: headers[FLAGS],
            frame,
        }
    }

    #[inline(always)]
    fn cut(mut self, headers: &[u8], mut train: Message, cx: &mut Context<'_>) {
        train.set_segment_bytes(0);
        train.strip(headers.len());
        self.payload_len = train.len();
        let mut left = Some(train);
        while let Some(mut segment) = left {
            left = segment.take_continuation();
            let is_last = left.is_none();
            if segment.len() <= self.payload_len {
                let payload = (segment.len(), segment.block_sum());
                if self.put_headers(headers, &mut segment, payload, is_last) {
                    cx.down(segment);
                    continue;
                }
            }
            self.cut_block(headers, &segment, is_last, cx);
        }
    }

    /// The same of a block of several segments, or of one that has no room for headers: these are in blocks of their own.
    #[inline(never)]
    fn cut_block(&mut self, headers: &[u8], block: &Message, is_last: bool, cx: &mut Context<'_>) {
        let mut at = 0;
        while at < block.len() {
            let len = self.payload_len.min(block.len() - at);
            let view = block.share_range(at, len, cx.pool());
            at += len;
            let is_last = is_last && at == block.len();
            let front = cx.pool().allocate(HEADROOM, 0);
            let (Some(view), Some(mut segment)) = (view, front) else {
                self.seq = self.seq.wrapping_add(len as u32);
                cx.count_dropped(Trace::of(block), Counted::NoBuffer.counter(), 1);
                continue;
            };
            let sum = view.block_sum();
            segment.push_continuation(view);
            self.put_headers(headers, &mut segment, (len, sum), is_last);
            cx.down(segment);
        }
    }

    /// Puts the headers in front of a segment, of whose payload length and sum are known; false if there is no room for them.
    #[inline(always)]
    fn put_headers(
        &mut self,
        headers: &[u8],
        segment: &mut Message,
        (payload_len, payload_sum): (usize, Sum),
        is_last: bool,
    ) -> bool {
        let Some(front) = segment.prepend(headers.len()) else {
            return false;
        };
        let seq = self.seq;
        self.seq = seq.wrapping_add(payload_len as u32);
        front.copy_from_slice(headers);
        // A train is no longer than one IP packet can be.
        let total_len = (headers.len() + payload_len) as u16;
        if payload_len != self.payload_len {
            front[TOTAL_LEN].copy_from_slice(&total_len.to_be_bytes());
            let ip_sum = self.ip_sum + Sum::word(total_len);
            front[IP_CHECKSUM].copy_from_slice(&ip_sum.finish_bytes());
        }
        front[SEQ].copy_from_slice(&seq.to_be_bytes());
        // What ends the data, or the stream, is the last segment (RFC 9293 §3.9.1). CWR, if it is not a part of a count that all have
        // (RFC 9768 §3.2.2), goes alone.
        let end = TcpFlags::PSH.0 | TcpFlags::FIN.0;
        let flags = if is_last {
            self.flags
        } else {
            self.flags & !end
        };
        front[FLAGS] = flags;
        if let Some(rest) = self.tcp_sum {
            let offset_and_flags = u32::from(headers[DATA_OFFSET]) << 8 | u32::from(flags);
            let tcp_len = u32::from(total_len) - MIN_HEADER_LEN as u32;
            let own = Sum::of_words([seq, offset_and_flags, tcp_len]);
            let sum = own + rest + payload_sum;
            front[TCP_CHECKSUM].copy_from_slice(&sum.finish_bytes());
        }
        if let Some(frame) = self.frame {
            segment.set_note(frame);
            segment.set_device(frame.device);
        }
        true
    }
}

#[cfg(test)]
mod tests;
