//! The order-free part on the way down: header and checksum.

use super::{NO_BUFFER, Tcp};
use crate::notes::{Datagram, Departure};
use crate::sift::keep;
use braidnet_message::{Message, Run};
use braidnet_stream::Context;
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, HeaderWords, Layout, PROTOCOL};

/// Room that must be left in front of a segment's payload for the headers of all modules: Ethernet, IPv6, and TCP with
/// all its options, rounded up to a cache line.
pub const HEADROOM: usize = 128;

impl Tcp {
    /// Puts the header in front of each segment of the run.
    pub(super) fn emit(&self, run: &mut Run, cx: &mut Context<'_>) {
        keep(run, |message| {
            let made = self.emit_one(message);
            if !made {
                cx.count(NO_BUFFER, 1);
            }
            made
        });
    }

    /// False if there is no room for the header in front: our own fault, refused all the same.
    #[inline]
    fn emit_one(&self, message: &mut Message) -> bool {
        if message.segment_bytes() != 0 {
            return self.emit_train(message);
        }
        let Departure { tuple, header } = message.note_ref();
        let (source, destination) = (tuple.local_port, tuple.remote_port);
        match header.layout() {
            Layout::Fixed => {
                let words = HeaderWords::fixed(header, source, destination);
                self.put(message, words)
            }
            Layout::Timestamps => {
                let words = HeaderWords::with_timestamps(header, source, destination);
                self.put(message, words)
            }
            Layout::Other => self.emit_with_options(message),
        }
    }

    /// A header of one of the usual layouts.
    #[inline(always)]
    fn put<const WORDS: usize>(&self, message: &mut Message, words: HeaderWords<WORDS>) -> bool {
        let rest = self.rest_of_sum(message, HeaderWords::<WORDS>::LEN);
        let Some(room) = message.prepend(HeaderWords::<WORDS>::LEN) else {
            debug_assert!(false, "a segment without headroom");
            return false;
        };
        match rest {
            Some(rest) => words.sealed(rest).write(room),
            None => words.write(room),
        }
        leave_datagram(message);
        true
    }

    /// The header of a train's first segment. In place of its checksum stands the sum of header and pseudo-header without the
    /// length, which each segment has of its own: IP cuts the train, and makes the checksums of it. Where the device makes
    /// them that place is zero, as in every segment.
    #[inline(never)]
    fn emit_train(&self, message: &mut Message) -> bool {
        let Departure { tuple, header } = message.note();
        let (source, destination) = (tuple.local_port, tuple.remote_port);
        let header_len = tcp::header_len(&header);
        let Some(room) = message.prepend(header_len) else {
            debug_assert!(false, "a train without headroom");
            return false;
        };
        tcp::emit(&header, source, destination, room);
        if !self.leaves_checksums {
            let pseudo_header = Sum::pseudo_header(&tuple.local, &tuple.remote, PROTOCOL, 0);
            tcp::put_sum(room, pseudo_header);
        }
        leave_datagram(message);
        true
    }

    #[inline(never)]
    fn emit_with_options(&self, message: &mut Message) -> bool {
        let Departure { tuple, header } = message.note();
        let header_len = tcp::header_len(&header);
        let rest = self.rest_of_sum(message, header_len);
        let Some(room) = message.prepend(header_len) else {
            debug_assert!(false, "a segment without headroom");
            return false;
        };
        tcp::emit(&header, tuple.local_port, tuple.remote_port, room);
        if let Some(rest) = rest {
            tcp::seal(room, rest);
        }
        leave_datagram(message);
        true
    }

    /// The sum of pseudo-header and payload, for a header of `header_len` bytes; `None` where the device makes checksums.
    #[inline(always)]
    fn rest_of_sum(&self, message: &Message, header_len: usize) -> Option<Sum> {
        if self.leaves_checksums {
            return None;
        }
        let Departure { tuple, .. } = message.note_ref();
        let payload_len = message.total_len();
        let len = (header_len + payload_len) as u32;
        // The header is a multiple of four bytes, so the payload starts at an even offset.
        let pseudo_header = Sum::pseudo_header(&tuple.local, &tuple.remote, PROTOCOL, len);
        Some(pseudo_header.combine(payload_sum(message, payload_len)))
    }
}

/// Makes a [`Datagram`] of the [`Departure`]: the addresses are in their places.
#[inline]
fn leave_datagram(message: &mut Message) {
    let datagram = message.note_mut::<Datagram>();
    datagram.protocol = PROTOCOL;
    datagram.ttl = 0;
    datagram.flags = 0;
    datagram.header_len = 0;
}

/// The sum of all payload blocks, from what copying them found where that is known.
#[inline]
fn payload_sum(message: &Message, payload_len: usize) -> Sum {
    match message.sum() {
        Some(sum) if message.len() == payload_len => sum,
        _ => message.total_sum(),
    }
}
