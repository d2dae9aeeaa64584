//! Header prediction: the segment that was to be expected (Jacobson, RFC 7323 appendix: "Event Processing Summary").
//!
//! On an established connection on which nothing is missing, nearly every segment is the next data, an ACK of new data,
//! or both. Such a segment passes every check of §3.10.7.4, so nothing is skipped, only found true at once.

use crate::state::State;
use crate::{Events, Outcome, Payload, Sink, Tcb};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

/// The flags that must be as in [`EXPECTED`]. PSH, ECE and CWR are anything.
const LOOKED_AT: u8 =
    TcpFlags::FIN.0 | TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::ACK.0 | TcpFlags::URG.0;
const EXPECTED: u8 = TcpFlags::ACK.0;

impl<P: Payload> Tcb<P> {
    #[inline]
    pub(super) fn is_predicted(&self, now: Instant, header: &TcpHeader, len: usize) -> bool {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let timestamps = self.connection.timestamps;
        let advance = header.ack - sender.snd_una;
        self.connection.state == State::Established
            && header.flags.0 & LOOKED_AT == EXPECTED
            && header.seq == receiver.rcv_nxt
            && header.present == u8::from(timestamps) * TcpHeader::HAS_TIMESTAMPS
            && header.sack_count == 0
            && !sender.disordered
            && receiver.is_in_order()
            && !self.connection.unread
            && advance <= sender.flight_size()
            && len <= receiver.rcv_wnd() as usize
            // What does neither may be a duplicate ACK or a window update.
            && len | advance as usize != 0
            && !(timestamps && receiver.is_timestamp_old(now, header.ts_value))
    }

    #[inline]
    pub(super) fn take_predicted<S: Sink<P>>(
        &mut self,
        now: Instant,
        header: &TcpHeader,
        payload: Option<P>,
        sink: &mut S,
    ) -> Outcome {
        let mut events = Events::empty();
        if self.connection.timestamps {
            self.receiver
                .take_timestamp(now, header.seq, header.ts_value);
        }
        if header.ack != self.sender.snd_una {
            self.sender.slide(now, header.ack);
            events |= Events::ACKED;
        }
        // The window is the last segment's.
        let last = payload.as_ref().map_or(0, Payload::last_segment_at);
        let seq = header.seq + last as u32;
        self.sender
            .update_window(now, seq, header.ack, header.window);
        if let Some(payload) = payload
            && payload.len() > 0
        {
            self.receiver.accept(now, payload, sink);
        }
        Outcome { events, drop: None }
    }
}
