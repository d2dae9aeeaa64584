//! What a device does not do of the transports' work, done here, where other devices of the stack do it.
//!
//! The transports leave as much as the device that does most does, since they do not ask where their packets leave. Here that is known.

use super::Counted;
use super::forward::{Cutting, cut};
use crate::notes::Datagram;
use crate::room;
use braidnet_message::{Checksum, Message};
use braidnet_stream::{Context, Trace};
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, TcpFlags};
use braidnet_wire::udp;

/// A datagram without its IP header was left to a device that does not take it: makes its checksum, or, of a train of TCP's, says of it what is said of those
/// that are cut here. False if it cannot be written.
#[cold]
pub(super) fn take_back(message: &mut Message, datagram: &Datagram) -> bool {
    if message.checksum() != Checksum::Partial {
        // A train that is cut here in any case.
        return true;
    }
    message.set_checksum(Checksum::Stands);
    if message.segment_bytes() == 0 {
        return complete(datagram.protocol, message);
    }
    debug_assert_eq!(datagram.protocol, tcp::PROTOCOL, "UDP asks before");
    let Some(header_len) = message.bytes().get(DATA_OFFSET).map(header_len_of) else {
        return false;
    };
    let Some(header) = message.front_mut(header_len) else {
        return false;
    };
    let Datagram { local, remote, .. } = datagram;
    header[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2].fill(0);
    let pseudo = Sum::pseudo_header(local, remote, tcp::PROTOCOL, 0);
    tcp::put_sum(header, pseudo);
    true
}

/// Makes the checksum of a transport in whose place stands the pseudo-header's sum: of fragments no device makes one. False if it cannot be written.
pub(super) fn complete(protocol: u8, message: &mut Message) -> bool {
    let sum = message.total_sum();
    let (at, checksum) = match protocol {
        tcp::PROTOCOL => (tcp::CHECKSUM_OFFSET, sum.finish_bytes()),
        _ => (udp::CHECKSUM_OFFSET, sum.finish_nonzero_bytes()),
    };
    let Some(front) = message.front_mut(at + checksum.len()) else {
        return false;
    };
    front[at..].copy_from_slice(&checksum);
    true
}

/// Where a header of TCP says how long it is.
const DATA_OFFSET: usize = 12;
/// Where its flags stand.
const FLAGS: usize = 13;
/// Where the sequence number stands.
const SEQ: core::ops::Range<usize> = 4..8;
/// The longest header of TCP.
const MAX_LEN: usize = tcp::MAX_HEADER_LEN;

fn header_len_of(data_offset: &u8) -> usize {
    (usize::from(data_offset >> 4) * 4).max(tcp::MIN_HEADER_LEN)
}

/// Hands on the segments of a train of another host's, whose IP header was taken off, each as a packet of its own.
///
/// As the device would (RFC 9293 §3.9.1): what ends the data is the last segment's, and CWR the first's (RFC 3168 §6.1.2).
pub(super) fn cut_segments(mut train: Message, cx: &mut Context<'_>) {
    let each = train.segment_bytes() as usize;
    let mut cutting = train.note::<Cutting>();
    let mut header = [0; MAX_LEN];
    let len = (train.bytes().get(DATA_OFFSET)).map_or(0, header_len_of);
    if len == 0 || train.len() < len {
        return cx.drop(train, Counted::NoBuffer.counter());
    }
    let header = &mut header[..len];
    train.copy_to_slice(header);
    train.strip(len);
    let flags = header[FLAGS];
    let mut seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (end, first) = (TcpFlags::PSH.0 | TcpFlags::FIN.0, TcpFlags::CWR.0);
    let mut taken_off = 0;
    while train.total_len() > 0 {
        let len = each.min(train.total_len());
        let is_last = len == train.total_len();
        header[SEQ].copy_from_slice(&seq.to_be_bytes());
        header[FLAGS] = flags & !taken_off & if is_last { u8::MAX } else { !end };
        let segment = room::copy_off(&mut train, len, cx.pool());
        let Some(mut segment) = segment.and_then(|copy| sealed(copy, header, &cutting)) else {
            let lost = train.total_len().div_ceil(each).max(1) as u64;
            return cx.count_dropped(Trace::of(&train), Counted::NoBuffer.counter(), lost);
        };
        segment.set_note(cutting);
        cut(segment, cx);
        cutting.count_on();
        seq = seq.wrapping_add(len as u32);
        taken_off = first;
    }
}

/// A segment of this payload; `None` if there is no room for the header in front.
fn sealed(mut payload: Message, header: &[u8], cutting: &Cutting) -> Option<Message> {
    let sum = Sum::of(payload.bytes());
    let front = payload.prepend(header.len())?;
    front.copy_from_slice(header);
    // No longer than the train.
    let len = payload.total_len() as u16;
    let pseudo = cutting.pseudo_header(tcp::PROTOCOL, len);
    tcp::seal(payload.front_mut(header.len())?, pseudo + sum);
    Some(payload)
}

#[cfg(test)]
mod tests;
