//! Segment arrival (RFC 9293 §3.10.7): the RFC's checks, one function each, in its order.
//!
//! | check | where |
//! |---|---|
//! | header prediction, which answers most segments | [`predicted`] |
//! | SYN-SENT, §3.10.7.3 | [`syn_sent`] |
//! | timestamps (RFC 7323 §5.3), sequence number, RST, SYN | [`sequence`] |
//! | ACK | [`acknowledgment`] |
//! | URG | [`urgent`](crate::urgent) |
//! | text and FIN | [`text`] |
//!
//! ECE counts with the ACK, marks and CWR with the data ([`ecn`](crate::ecn)).

mod acknowledgment;
#[cfg(test)]
mod matrix;
mod predicted;
mod sequence;
mod syn_sent;
#[cfg(test)]
mod tests;
mod text;

pub use predicted::Expected;

use crate::state::State;
use crate::{DropReason, Events, Outcome, Payload, Sink, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

/// A segment on its way through the checks, which cut from it what the window does not take.
pub(crate) struct Segment<'a, P> {
    pub(crate) header: &'a TcpHeader,
    /// SEG.SEQ of what is left.
    pub(crate) seq: SeqNumber,
    /// The data that is left, never empty.
    pub(crate) payload: Option<P>,
    /// A FIN follows the data.
    pub(crate) fin: bool,
    /// The segment came without data, SYN or FIN.
    pub(crate) bare: bool,
    /// Why a part of it was not taken.
    pub(crate) cut: Option<DropReason>,
}

impl<'a, P: Payload> Segment<'a, P> {
    fn new(header: &'a TcpHeader, payload: Option<P>) -> Self {
        let payload = payload.filter(|payload| payload.len() > 0);
        let fin = header.flags.contains(TcpFlags::FIN);
        Segment {
            seq: header.seq,
            bare: payload.is_none() && !fin && !header.flags.contains(TcpFlags::SYN),
            header,
            payload,
            fin,
            cut: None,
        }
    }

    /// Bytes of data.
    pub(crate) fn text_len(&self) -> u32 {
        self.payload
            .as_ref()
            .map_or(0, |payload| payload.len() as u32)
    }

    /// SEG.LEN, without a SYN.
    pub(crate) fn len(&self) -> u32 {
        self.text_len() + u32::from(self.fin)
    }

    pub(crate) fn has(&self, flag: TcpFlags) -> bool {
        self.header.flags.contains(flag)
    }

    /// A part is not taken; of several reasons, the first counts.
    pub(crate) fn note(&mut self, reason: DropReason) {
        self.cut.get_or_insert(reason);
    }

    /// Gives up the data and the FIN.
    pub(crate) fn drop_text(&mut self, reason: DropReason) {
        if self.len() > 0 {
            self.payload = None;
            self.fin = false;
            self.note(reason);
        }
    }
}

impl<P: Payload> Tcb<P> {
    /// A segment has arrived for this connection (RFC 9293 §3.10.7).
    ///
    /// `payload` is its data, of which a length of 0 is as good as `None`. In-order data goes to `sink` at once, in order.
    /// Afterwards, before more is queued to send, release what [`take_acked`](Tcb::take_acked) says, and when the run is
    /// over, [`poll_transmit`](Tcb::poll_transmit) until nothing comes.
    #[inline]
    pub fn on_segment<S: Sink<P>>(
        &mut self,
        now: Instant,
        header: &TcpHeader,
        payload: Option<P>,
        sink: &mut S,
    ) -> Outcome {
        let len = payload.as_ref().map_or(0, Payload::len);
        match self.expects(now, header, len) {
            Some(expected) => {
                let acked = self.take_predicted(now, expected, payload, sink);
                let events = if acked > 0 {
                    Events::ACKED
                } else {
                    Events::empty()
                };
                Outcome { events, drop: None }
            }
            None => self.arrive(now, header, payload, sink),
        }
    }

    /// The general case.
    #[inline(never)]
    fn arrive<S: Sink<P>>(
        &mut self,
        now: Instant,
        header: &TcpHeader,
        payload: Option<P>,
        sink: &mut S,
    ) -> Outcome {
        let mut segment = Segment::new(header, payload);
        let mut events = Events::empty();
        let verdict = match self.connection.state {
            State::Closed => Err(DropReason::Closed),
            State::SynSent => self.arrive_in_syn_sent(now, &mut segment, &mut events),
            _ => self.arrive_with_peer_known(now, &mut segment, sink, &mut events),
        };
        self.check_invariants();
        Outcome {
            events,
            drop: verdict.err().or(segment.cut),
        }
    }

    /// All states in which the peer's sequence number is known (RFC 9293 §3.10.7.4).
    fn arrive_with_peer_known<S: Sink<P>>(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        sink: &mut S,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        self.check_repeated_syn(now, segment, events)?;
        self.check_timestamps(now, segment)?;
        self.check_sequence(now, segment)?;
        if segment.has(TcpFlags::RST) {
            return self.take_reset(now, segment, events);
        }
        self.check_syn(now, segment)?;
        self.take_timestamp(now, segment);
        self.check_ack(now, segment, events)?;
        self.connection.heard = now;
        if segment.header.has(TcpHeader::HAS_USER_TIMEOUT) {
            self.take_user_timeout(segment.header);
        }
        if segment.has(TcpFlags::URG) {
            self.check_urgent(segment.header, events);
        }
        self.take_mark(segment);
        self.take_text(now, segment, sink, events);
        self.pass_urgent();
        Ok(())
    }
}
