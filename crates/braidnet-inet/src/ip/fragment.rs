//! Fragments: what is known of one on its way up.

use crate::notes::{Datagram, Fragment};
use braidnet_message::Message;
use braidnet_stream::BucketId;
use braidnet_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN};

/// The bit of an option's type that says that each fragment has it (RFC 791 §3.1).
const COPIED: u8 = 0x80;

/// Strips the header off a fragment, which lies in its first block, and leaves a [`Fragment`] note in it.
#[cold]
pub(super) fn mark(message: &mut Message, header: &Ipv4Header, datagram: Datagram) {
    let header_len = usize::from(header.header_len);
    let options = message.bytes().get(MIN_HEADER_LEN..header_len);
    let (copied, copied_len) = copied_of(options.unwrap_or_default());
    message.strip(header_len);
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
fn copied_of(mut options: &[u8]) -> ([u8; Fragment::MAX_COPIED], u8) {
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
