//! Consecutive segments of one flow, joined into trains.
//!
//! Where a run brings several segments that differ in nothing but their place, everything above would do the same work for each
//! of them. Joined, they are one message ([`Message::segment_bytes`]) and pass IP, TCP and what stands above once.
//!
//! Only what is beyond doubt joins: whole IPv4 packets from another host for this one, without IP options, their checksums
//! right, that carry data, ACK and no flag else but PSH, which tells this stack nothing, and what tells of marks. All fields of their headers are the same
//! but length, identification, checksums, sequence number and PSH; options and marks of congestion are, too (HOSTILE-INPUT
//! 44). Anything else, damaged segments above all, goes on alone and meets the checks that it would have met.
//!
//! Trains are made here, or come from a device that does the same and vouches for their checksums. So whoever finds one knows that those of
//! all its segments have been verified.

use crate::interface::Interface;
use crate::notes::Frame;
use braidnet_message::{ABSORBED_MAX, Message, Run};
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, MAX_TOTAL_LEN};
use braidnet_wire::tcp::{self, PROTOCOL, TcpFlags};

/// Segments with less data than this do not join. Those above put such pieces together in few buffers, lest a peer that sends
/// single bytes have one kept for each; the blocks of a train stay what they are. It also bounds a train to 127 segments.
const MIN_PAYLOAD: usize = ABSORBED_MAX + 1;

/// Bytes of both headers without options.
const FRONT_LEN: usize = ipv4::MIN_HEADER_LEN + tcp::MIN_HEADER_LEN;

/// Both headers without options.
type Front = [u8; FRONT_LEN];

/// All flags but PSH.
const FLAGS: u8 = !TcpFlags::PSH.0;

/// Bits that are the same in all segments of a train: all but total length, identification and checksum of IP (RFC 791 §3.1);
/// sequence number, PSH and checksum of TCP (RFC 9293 §3.1).
#[rustfmt::skip]
const ALIKE: Words = words(&[
    255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 255, FLAGS, 255, 255, 0, 0, 255, 255,
]);

/// Flags that every segment of a train has as in [`USUAL`]: ECE and CWR may count marks (RFC 9768), and are [`ALIKE`] in any case.
const FLAGS_LOOKED_AT: u8 = FLAGS & !(TcpFlags::ECE.0 | TcpFlags::CWR.0);

/// Bits that every segment of a train has as in [`USUAL`]: version and header length, place in a datagram, protocol; most flags, and
/// the urgent pointer.
#[rustfmt::skip]
const LOOKED_AT: Words = words(&[
    255, 0, 0, 0, 0, 0, 0x3f, 255, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FLAGS_LOOKED_AT, 0, 0, 0, 0, 255, 255,
]);

#[rustfmt::skip]
const USUAL: Words = words(&[
    0x45, 0, 0, 0, 0, 0, 0, 0, 0, PROTOCOL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TcpFlags::ACK.0, 0, 0, 0, 0, 0, 0,
]);

/// Joins what comes to one interface.
pub(crate) struct Joiner<'a> {
    pub(crate) interface: &'a Interface,
    /// Whether it comes in frames.
    pub(crate) framed: bool,
}

/// What is known of a message that others may join.
struct Train {
    /// The front of its first segment.
    words: Words,
    /// The sequence number that follows.
    next: u32,
    /// Bytes of both headers.
    header_len: usize,
    /// Bytes of data in each segment.
    each: usize,
    /// Bytes of the whole message.
    total: usize,
    /// What [`varying`] fields add up to.
    varying: Sum,
    /// The sum of the pseudo-header without the length.
    pseudo_header: Sum,
    /// It has several segments, all of them intact.
    begun: bool,
}

impl Joiner<'_> {
    /// Joins neighbours in `run`.
    #[inline(never)]
    pub(crate) fn join(&self, run: &mut Run) {
        let mut known = None;
        run.join(|before, mut message| {
            if known.is_none() {
                known = Train::of(before);
            }
            let Some(train) = known
                .as_mut()
                .filter(|train| self.joins(train, before, &message))
            else {
                known = None;
                return Some(message);
            };
            let data = message.len() - train.header_len;
            message.strip(train.header_len);
            before.push_continuation(message);
            if !train.begun {
                train.begun = true;
                before.set_segment_bytes(train.each as u32);
            }
            train.next = train.next.wrapping_add(data as u32);
            train.total += data;
            // A segment that is shorter than those before is the last: nothing joins what is a train already.
            if data < train.each {
                known = None;
            }
            None
        });
    }

    /// Whether `message` goes on where the train ends that stands `before` it.
    #[inline(always)]
    fn joins(&self, train: &Train, before: &Message, message: &Message) -> bool {
        let Some(front) = front(message) else {
            return false;
        };
        let data = message.len().wrapping_sub(train.header_len);
        (MIN_PAYLOAD..=train.each).contains(&data)
            && are_alike(&train.words, &words(front))
            && u32_at(front, 24) == train.next
            && train.total + data <= MAX_TOTAL_LEN
            && is_one_packet(message, front)
            && varying(front) == train.varying
            && (train.header_len == FRONT_LEN
                || have_same_options(before, message, train.header_len))
            && (!self.framed || came_alike(before, message))
            && (train.begun || self.may_begin(before, train.pseudo_header))
            && self.is_intact(message, train.pseudo_header)
    }

    /// Whether a message is fit to be a train's first segment.
    #[inline(never)]
    fn may_begin(&self, message: &Message, pseudo_header: Sum) -> bool {
        front(message).is_some_and(|front| {
            let (remote, local) = (u32_at(front, 12), u32_at(front, 16));
            ipv4::parse_usual(front).is_some()
                && self.interface.is_to_us(local, remote)
                && self.is_intact(message, pseudo_header)
        })
    }

    /// Whether the checksum over pseudo-header, header and data holds (RFC 9293 §3.1), where that is not left to the device.
    #[inline(always)]
    fn is_intact(&self, message: &Message, pseudo_header: Sum) -> bool {
        if !self.interface.offload().verifies(message) {
            return true;
        }
        let Some(segment) = message.bytes().get(ipv4::MIN_HEADER_LEN..) else {
            return false;
        };
        let len = Sum::word(segment.len() as u16);
        (pseudo_header + len + Sum::of(segment)).is_valid()
    }
}

impl Train {
    /// What is known of a message, if others may join it.
    #[inline]
    fn of(message: &Message) -> Option<Train> {
        let front = front(message)?;
        let words = words(front);
        let header_len = ipv4::MIN_HEADER_LEN + usize::from(front[32] >> 4) * 4;
        if !is_usual(&words) || header_len < FRONT_LEN || !is_one_packet(message, front) {
            return None;
        }
        let each = message.len() - header_len;
        let addresses = [u32_at(front, 12), u32_at(front, 16)];
        Some(Train {
            words,
            next: u32_at(front, 24).wrapping_add(each as u32),
            header_len,
            each,
            total: message.len(),
            varying: varying(front),
            pseudo_header: Sum::of_words(addresses) + Sum::word(PROTOCOL.into()),
            begun: false,
        })
    }
}

/// The front of a packet that may have data enough to join.
#[inline]
fn front(message: &Message) -> Option<&Front> {
    let bytes = message.bytes();
    if bytes.len() < FRONT_LEN + MIN_PAYLOAD {
        return None;
    }
    bytes.first_chunk()
}

/// Whether a packet looks like a part of a train.
#[inline]
fn is_usual(words: &Words) -> bool {
    let mut wrong = 0;
    for index in 0..words.len() {
        wrong |= (words[index] ^ USUAL[index]) & LOOKED_AT[index];
    }
    wrong == 0
}

/// Whether two packets are segments of one flow that differ in nothing that matters, options apart.
#[inline]
fn are_alike(first: &Words, words: &Words) -> bool {
    let mut wrong = 0;
    for index in 0..words.len() {
        wrong |= (first[index] ^ words[index]) & ALIKE[index];
    }
    wrong == 0
}

/// The sum of total length, identification and checksum. In headers that are [alike](are_alike) all other fields are the same, so
/// the checksums of both are right if that of one is and these fields add up to the same (RFC 1071 §1).
#[inline]
fn varying(front: &Front) -> Sum {
    let field = |at| Sum(u16::from_ne_bytes([front[at], front[at + 1]]));
    field(2) + field(4) + field(10)
}

/// Whether two packets came from one station, for this one.
#[inline]
fn came_alike(first: &Message, message: &Message) -> bool {
    let (first, frame) = (first.note_ref::<Frame>(), message.note_ref::<Frame>());
    first.station == frame.station && (first.flags | frame.flags) & Frame::GROUP == 0
}

/// Whether a message is one packet in one block, without padding, and no train.
#[inline]
fn is_one_packet(message: &Message, front: &Front) -> bool {
    let total_len = usize::from(u16::from_be_bytes([front[2], front[3]]));
    let len = message.len();
    len == total_len && message.total_len() == len
}

/// Whether the options of TCP are the same, byte for byte.
#[inline]
fn have_same_options(first: &Message, message: &Message, header_len: usize) -> bool {
    let options = FRONT_LEN..header_len;
    let first = first.bytes().get(options.clone());
    first.is_some() && first == message.bytes().get(options)
}

/// A front as it is compared.
type Words = [u64; FRONT_LEN / 8];

/// In the machine's byte order.
#[inline(always)]
const fn words(front: &Front) -> Words {
    let (chunks, _) = front.as_chunks::<8>();
    let mut words = [0; FRONT_LEN / 8];
    let mut index = 0;
    while index < words.len() {
        words[index] = u64::from_ne_bytes(chunks[index]);
        index += 1;
    }
    words
}

#[inline]
fn u32_at(front: &Front, at: usize) -> u32 {
    u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]])
}

#[cfg(test)]
mod tests;
