//! Fragments: what is known of one on its way up, and how a datagram is cut into them on its way down.

use super::Counted;
use crate::notes::{Datagram, Fragment, Frame};
use crate::room;
use braidnet_message::{Checksum, Message};
use braidnet_stream::{BucketId, Context};
use braidnet_wire::ipv4::{self, Ipv4Header, MIN_HEADER_LEN};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The bit of an option's type that says that each fragment has it (RFC 791 §3.1).
const COPIED: u8 = 0x80;

/// Strips the header off a fragment, which lies in its first block, and leaves a [`Fragment`] note in it.
#[cold]
pub(super) fn mark(message: &mut Message, header: &Ipv4Header, datagram: Datagram) {
    let header_len = usize::from(header.header_len);
    let options = message.bytes().get(MIN_HEADER_LEN..header_len);
    let (copied, copied_len) = copied_of(options.unwrap_or_default());
    message.strip(header_len);
    // The checksum is that of the whole.
    message.set_checksum(Checksum::Stands);
    // The table of what is held has one owner.
    message.set_bucket(BucketId::DEVICE.0);
    message.set_note(Fragment {
        datagram,
        identification: header.identification,
        offset: header.fragment_offset,
        more: u8::from(header.more_fragments),
        copied_len,
        copied,
        reserved: [0; 2],
    });
}

/// Those of a header's options that each fragment has. The parser has found their lengths to be right.
pub(super) fn copied_of(mut options: &[u8]) -> ([u8; Fragment::MAX_COPIED], u8) {
    let (mut copied, mut copied_len) = ([0; Fragment::MAX_COPIED], 0);
    loop {
        options = match options {
            // The end, and an option that is one byte and is not copied.
            [] | [0, ..] => return (copied, copied_len as u8),
            [1, rest @ ..] => rest,
            [kind, len, ..] => {
                let Some((option, rest)) = options.split_at_checked(usize::from(*len).max(2))
                else {
                    return (copied, copied_len as u8);
                };
                let room = copied.get_mut(copied_len..copied_len + option.len());
                if let Some(room) = room.filter(|_| kind & COPIED != 0) {
                    room.copy_from_slice(option);
                    copied_len += option.len();
                }
                rest
            }
            [_] => return (copied, copied_len as u8),
        };
    }
}

/// What IP leaves in a datagram that is to be cut.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Cutting {
    /// The datagram, as its transport has described it.
    pub(super) datagram: Datagram,
    /// Where its fragments go, if they are told.
    pub(super) frame: Frame,
    /// Names it.
    pub(super) identification: u16,
    /// Longest packet in bytes: 68 or more.
    pub(super) mtu: u16,
}

/// Hands on a datagram without a header as fragments, in order (RFC 791 §3.2).
pub(super) fn cut(datagram: Message, cx: &mut Context<'_>) {
    cut_with(datagram, false, cx);
}

/// The same where packets are told their way.
pub(super) fn cut_framed(datagram: Message, cx: &mut Context<'_>) {
    cut_with(datagram, true, cx);
}

fn cut_with(mut rest: Message, is_framed: bool, cx: &mut Context<'_>) {
    let cutting = rest.note::<Cutting>();
    let room = usize::from(cutting.mtu) - MIN_HEADER_LEN;
    let frame = is_framed.then_some(cutting.frame);
    let mut header = Ipv4Header {
        identification: cutting.identification,
        more_fragments: true,
        ..super::header(&cutting.datagram, 0)
    };
    cx.count(Counted::Fragmented.counter(), 1);
    while rest.total_len() > room {
        // All but the last are of multiples of 8 bytes.
        let part_len = room & !7;
        let Some(part) = rest.split_to(part_len, cx.pool()) else {
            // Of use to nobody without this one.
            return cx.drop(rest, Counted::NoBuffer.counter());
        };
        if !send(part, &mut header, frame, cx) {
            return drop(rest);
        }
        header.fragment_offset += part_len as u16;
    }
    header.more_fragments = false;
    send(rest, &mut header, frame, cx);
}

/// Puts the header in front of a fragment, and hands it on; whether there was a buffer for it.
fn send(
    mut part: Message,
    header: &mut Ipv4Header,
    frame: Option<Frame>,
    cx: &mut Context<'_>,
) -> bool {
    // No more than the MTU, which is at most 65535.
    header.total_len = (part.total_len() + MIN_HEADER_LEN) as u16;
    let Some(front) = room::prepend(&mut part, MIN_HEADER_LEN, cx.pool()) else {
        cx.drop(part, Counted::NoBuffer.counter());
        return false;
    };
    ipv4::emit(header, front);
    if let Some(frame) = frame {
        part.set_note(frame);
        part.set_device(frame.device);
    }
    cx.count(Counted::FragmentsSent.counter(), 1);
    cx.down(part);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_options_are_told_from_the_others() {
        let rows: [(&[u8], &[u8]); 6] = [
            (&[], &[]),
            (&[1, 1, 1, 0], &[]),
            // A router alert, a record route, a stream identifier.
            (
                &[148, 4, 0, 0, 7, 3, 4, 1, 136, 4, 1, 2],
                &[148, 4, 0, 0, 136, 4, 1, 2],
            ),
            (&[0, 148, 4, 0, 0], &[]),
            (&[1, 1, 148, 4, 0, 0], &[148, 4, 0, 0]),
            (&[68, 8, 5, 0, 0, 0, 0, 0], &[]),
        ];
        for (options, expected) in rows {
            let (copied, len) = copied_of(options);
            assert_eq!(&copied[..usize::from(len)], expected, "{options:?}");
            assert!(copied[usize::from(len)..].iter().all(|byte| *byte == 0));
        }
    }
}
