//! The order-free part on the way down: header and checksum.

use super::{NO_BUFFER, Tcp};
use crate::notes::{Datagram, Departure};
use crate::sift::keep;
use braidnet_message::{Message, Run};
use braidnet_stream::Context;
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, PROTOCOL};

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
        let Departure { header, tuple } = message.note::<Departure>();
        let payload_len = message.total_len();
        let payload_sum = (!self.leaves_checksums).then(|| payload_sum(message, payload_len));
        let header_len = tcp::header_len(&header);
        let Some(room) = message.prepend(header_len) else {
            debug_assert!(false, "a segment without headroom");
            return false;
        };
        let len = (header_len + payload_len) as u32;
        let (source, destination) = (tuple.local_port, tuple.remote_port);
        match payload_sum {
            Some(sum) => {
                // The header is a multiple of four bytes, so the payload starts at an even offset.
                let rest =
                    Sum::pseudo_header(&tuple.local, &tuple.remote, PROTOCOL, len).combine(sum);
                tcp::emit_sealed(&header, source, destination, rest, room)
            }
            None => tcp::emit(&header, source, destination, room),
        };
        message.set_note(Datagram {
            source: tuple.local,
            destination: tuple.remote,
            protocol: PROTOCOL,
            ..Datagram::default()
        });
        true
    }
}

/// The sum of all payload blocks, from what copying them found where that is known.
#[inline]
fn payload_sum(message: &Message, payload_len: usize) -> Sum {
    match message.sum() {
        Some(sum) if message.len() == payload_len => sum,
        _ => message.total_sum(),
    }
}
