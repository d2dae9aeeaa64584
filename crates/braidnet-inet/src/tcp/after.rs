//! The order-free part on the way down: header and checksum.

use super::{NO_BUFFER, Tcp};
use crate::notes::{Datagram, Departure};
use crate::offload::Offload;
use crate::sift::{keep, take_front};
use braidnet_message::{Checksum, Message, Run};
use braidnet_stream::Context;
use braidnet_wire::address::Tuple;
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, HeaderWords, Layout, PROTOCOL, TcpFlags, TcpHeader};

/// Room that must be left in front of a segment's payload for the headers of all modules: Ethernet, IPv6, and TCP with
/// all its options, rounded up to a cache line.
pub const HEADROOM: usize = 128;

impl Tcp {
    /// Puts the header in front of each segment of the run.
    pub(super) fn emit(&self, run: &mut Run, cx: &mut Context<'_>) {
        let emitted = take_front(run, |message| self.emit_usual(message));
        if emitted < run.len() {
            self.emit_from(emitted, run, cx);
        }
    }

    /// [`Tcp::emit`] from the segment at `start` on.
    #[inline(never)]
    fn emit_from(&self, start: usize, run: &mut Run, cx: &mut Context<'_>) {
        keep(start, run, |_, message| {
            let made = self.emit_usual(message) || self.emit_any(message);
            if !made {
                cx.count(NO_BUFFER, message.segments() as u64);
            }
            made
        });
    }

    /// Nearly every segment travels alone, its header has one of the usual layouts, and the sum of its payload is known. False, and
    /// nothing done, for any other.
    #[inline(always)]
    fn emit_usual(&self, message: &mut Message) -> bool {
        let layout = message.note_ref::<Departure>().header.layout();
        message.segment_bytes() == 0
            && match layout {
                Layout::Fixed => self.put(message, HeaderWords::fixed),
                Layout::Timestamps => self.put(message, HeaderWords::with_timestamps),
                Layout::Other => false,
            }
    }

    #[inline(always)]
    fn put<const WORDS: usize>(
        &self,
        message: &mut Message,
        make: impl FnOnce(&TcpHeader, u16, u16) -> HeaderWords<WORDS>,
    ) -> bool {
        let Departure { tuple, header, .. } = message.note_ref();
        let mut words = make(header, tuple.local_port, tuple.remote_port);
        let payload_len = message.len();
        if payload_len != message.total_len() {
            return false;
        }
        let len = words.len() + payload_len;
        match self.offload {
            Offload::Nothing => {
                let Some(sum) = message.sum() else {
                    return false;
                };
                words = words.sealed(pseudo_header(tuple, len) + sum);
            }
            Offload::Checksums | Offload::Segments | Offload::Datagrams => {
                words = words.partly_sealed(pseudo_header(tuple, len));
                message.set_checksum(Checksum::Partial);
            }
            Offload::LeftOut => {}
        }
        let Some(room) = message.prepend(words.len()) else {
            return false;
        };
        words.write(room);
        leave_datagram(message);
        true
    }

    /// Any segment; false if there is no room for the header in front: our own fault, refused all the same.
    pub(super) fn emit_any(&self, message: &mut Message) -> bool {
        if message.segment_bytes() != 0 {
            return self.emit_train(message);
        }
        let sum = self.payload_sum(message, Message::total_sum);
        self.emit_summed(message, sum)
    }

    /// The sum of a segment's payload as `sum` makes it, unless that is left to the device.
    #[inline(always)]
    pub(super) fn payload_sum(
        &self,
        message: &Message,
        sum: impl FnOnce(&Message) -> Sum,
    ) -> Option<Sum> {
        (self.offload == Offload::Nothing).then(|| sum(message))
    }

    /// A segment the sum of whose payload has been made, unless that is left to the device; false as in
    /// [`emit_any`](Tcp::emit_any).
    #[inline(always)]
    pub(super) fn emit_summed(&self, message: &mut Message, sum: Option<Sum>) -> bool {
        let Departure { tuple, header, .. } = message.note();
        let header_len = tcp::header_len(&header);
        // The header is a multiple of four bytes, so the payload starts at an even offset.
        let pseudo_header = pseudo_header(&tuple, header_len + message.total_len());
        let Some(room) = message.prepend(header_len) else {
            debug_assert!(false, "a segment without headroom");
            return false;
        };
        tcp::emit(&header, tuple.local_port, tuple.remote_port, room);
        if let Some(sum) = sum {
            tcp::seal(room, pseudo_header + sum);
        } else if self.offload.completes() {
            tcp::partly_seal(room, pseudo_header);
            message.set_checksum(Checksum::Partial);
        }
        leave_datagram(message);
        true
    }

    /// The header of a train's first segment. In place of its checksum stands, for a device that cuts trains, the sum of the pseudo-header of
    /// all; otherwise the sum of header and pseudo-header without the length, which each segment has of its own: IP cuts the train, and makes the
    /// checksums of it. Where nobody makes them that place is zero, as in every segment.
    #[inline(never)]
    fn emit_train(&self, message: &mut Message) -> bool {
        let Departure { tuple, header, .. } = message.note();
        let (source, destination) = (tuple.local_port, tuple.remote_port);
        let header_len = tcp::header_len(&header);
        let len = header_len + message.total_len();
        let Some(room) = message.prepend(header_len) else {
            debug_assert!(false, "a train without headroom");
            return false;
        };
        tcp::emit(&header, source, destination, room);
        match self.offload {
            // Devices clear CWR in all segments but the first, as the classic kind of marks has it; a count (RFC 9768 §3.2.2) needs it in all.
            Offload::Segments | Offload::Datagrams if !header.flags.contains(TcpFlags::CWR) => {
                tcp::partly_seal(room, pseudo_header(&tuple, len));
                message.set_checksum(Checksum::Partial);
            }
            Offload::LeftOut => {}
            _ => tcp::put_sum(room, pseudo_header(&tuple, 0)),
        }
        leave_datagram(message);
        true
    }
}

/// The sum of the pseudo-header of a segment of `len` bytes, header included.
#[inline(always)]
fn pseudo_header(tuple: &Tuple, len: usize) -> Sum {
    Sum::pseudo_header(&tuple.local, &tuple.remote, PROTOCOL, len as u32)
}

/// Makes a [`Datagram`] of the [`Departure`]: the addresses are in their places.
#[inline]
fn leave_datagram(message: &mut Message) {
    let departure = message.note_ref::<Departure>();
    let (ttl, ecn) = (departure.ttl, departure.header.ecn());
    let differentiated_services = departure.differentiated_services;
    let uncut = match departure.may_be_cut {
        0 => Datagram::UNCUT,
        _ => 0,
    };
    let datagram = message.note_mut::<Datagram>();
    datagram.protocol = PROTOCOL;
    datagram.ttl = ttl;
    datagram.flags = ecn | uncut;
    datagram.header_len = 0;
    datagram.differentiated_services = differentiated_services;
}
