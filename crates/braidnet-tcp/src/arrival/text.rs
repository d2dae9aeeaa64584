//! Data and FIN (RFC 9293 §3.10.7.4, seventh and eighth check).

use super::Segment;
use crate::state::{State, Step};
use crate::{DropReason, Events, Payload, Sink, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;
use braidnet_wire::time::Instant;

impl<P: Payload> Tcb<P> {
    pub(super) fn take_text<S: Sink<P>>(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        sink: &mut S,
        events: &mut Events,
    ) {
        if !self.connection.state.takes_text() {
            // The peer's FIN has ended its stream.
            if segment.len() > 0 {
                segment.drop_text(DropReason::TextAfterFin);
                self.receiver.ack_now = true;
            }
            return;
        }
        let text_len = segment.text_len();
        let end = segment.seq + text_len;
        if segment.fin && self.receiver.cut_at_fin(end) {
            segment.note(DropReason::TextAfterFin);
        }
        if let Some(payload) = segment.payload.take() {
            if self.connection.unread {
                self.refuse_text(segment, events);
                return;
            }
            if segment.seq != self.receiver.rcv_nxt {
                *events |= Events::OUT_OF_ORDER;
            }
            self.note_held(segment.seq, end);
            if let Err(reason) = self.receiver.take_text(now, segment.seq, payload, sink) {
                segment.note(reason);
                // Without its data in place, the FIN would stand in mid-air.
                segment.fin &= !matches!(
                    reason,
                    DropReason::ReassemblyFull | DropReason::AllowanceUsedUp
                );
            }
        }
        if segment.fin
            && let Err(reason) = self.receiver.note_fin(end, text_len == 0)
        {
            segment.note(reason);
        }
        let may_wait =
            self.connection.config.fin_ack_waits && self.connection.state == State::Established;
        if self.receiver.take_fin(now, may_wait) {
            *events |= Events::END_OF_DATA;
            self.connection.advance(now, Step::FinTaken);
        }
    }

    /// Data part of which is held already (RFC 2883 §4): the first run of it.
    fn note_held(&mut self, seq: SeqNumber, end: SeqNumber) {
        if self.connection.sack
            && let Some(held) = self.receiver.reassembly.first_range_behind(seq)
        {
            self.receiver.report_duplicate(SackBlock {
                left: seq.latest(held.left),
                right: end.earliest(held.right),
            });
        }
    }

    /// New data, and nobody reads any more: the peer must know that it is lost (RFC 9293 §3.6.1, RFC 1122 §4.2.2.13).
    fn refuse_text(&mut self, segment: &mut Segment<'_, P>, events: &mut Events) {
        segment.note(DropReason::NobodyReads);
        *events |= Events::RESET;
        self.reset_sender_of(segment.header, events);
    }
}
