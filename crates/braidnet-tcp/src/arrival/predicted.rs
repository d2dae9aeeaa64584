//! Header prediction: the segment that was to be expected (Jacobson, RFC 7323 appendix: "Event Processing Summary").
//!
//! On an established connection on which nothing is missing, nearly every segment is the next data, an ACK of new data,
//! or both. Such a segment passes every check of §3.10.7.4, so nothing is skipped, only found true at once.

use crate::state::State;
use crate::{Payload, Sink, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Instant;

/// A segment that was to be expected, by what is left to take of its header: all else is as the connection has it.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    ack: SeqNumber,
    ts_value: u32,
    window: u16,
}

impl<P: Payload> Tcb<P> {
    /// The segment with this header and `len` bytes of data, if it is one that was to be expected.
    ///
    /// Consecutive segments that differ in nothing but their place may be taken as one if they are expected as one: then each
    /// of them would be, and what comes of it is the same. If not, each is given to [`on_segment`](Tcb::on_segment) alone.
    #[inline]
    pub fn expects(&self, now: Instant, header: &TcpHeader, len: usize) -> Option<Expected> {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let timestamps = self.connection.timestamps;
        let advance = header.ack - sender.snd_una;
        let expected = self.connection.state == State::Established
            && self.connection.usual.is(header)
            && header.seq == receiver.rcv_nxt
            && header.sack_count == 0
            && !sender.disordered
            && receiver.is_in_order()
            && !self.connection.unread
            && advance <= sender.flight_size()
            && len <= receiver.rcv_wnd() as usize
            // What does neither may be a duplicate ACK or a window update.
            && (len != 0 || advance != 0)
            && !(timestamps && receiver.is_timestamp_old(now, header.ts_value));
        expected.then_some(Expected {
            ack: header.ack,
            ts_value: header.ts_value,
            window: header.window,
        })
    }

    /// Takes the segment that this connection [expects](Tcb::expects), at once: nothing may come between. Returns how many
    /// bytes it acknowledges, to be released from the front of what there is to send as those of
    /// [`take_acked`](Tcb::take_acked), which does not tell of them again.
    #[inline(always)]
    pub fn take_expected<S: Sink<P>>(
        &mut self,
        now: Instant,
        segment: Expected,
        payload: Option<P>,
        sink: &mut S,
    ) -> u32 {
        let acked = self.take_predicted(now, segment, payload, sink);
        // No FIN has been sent: all that is acknowledged is data.
        self.sender.queue_front += acked;
        acked
    }

    /// Returns how many sequence numbers are acknowledged.
    #[inline(always)]
    pub(super) fn take_predicted<S: Sink<P>>(
        &mut self,
        now: Instant,
        segment: Expected,
        payload: Option<P>,
        sink: &mut S,
    ) -> u32 {
        let Expected { ack, window, .. } = segment;
        let seq = self.receiver.rcv_nxt;
        if self.connection.timestamps {
            self.receiver.take_timestamp(now, seq, segment.ts_value);
        }
        self.connection.heard = now;
        let acked = ack - self.sender.snd_una;
        if acked > 0 {
            self.sender.slide(now, ack);
        }
        // The window is the last segment's.
        let last = payload.as_ref().map_or(0, Payload::last_segment_at);
        self.sender
            .update_window(now, seq + last as u32, ack, window);
        if let Some(payload) = payload
            && payload.len() > 0
        {
            self.receiver.accept(now, payload, sink);
        }
        acked
    }
}
