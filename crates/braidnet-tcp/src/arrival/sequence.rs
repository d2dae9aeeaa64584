//! Timestamps, sequence number, RST and SYN: whether a segment belongs to this connection at this time
//! (RFC 9293 §3.10.7.4, first to fourth check; RFC 7323 §5.3; RFC 5961 §3 and §4).

use super::Segment;
use crate::state::State;
use crate::{DropReason, Events, Payload, Tcb};
use braidnet_wire::tcp::{SackBlock, TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

impl<P: Payload> Tcb<P> {
    /// SYN-RECEIVED: the peer's SYN once more. Alone it asks for our SYN-ACK; with an ACK it is the peer's answer in a
    /// simultaneous open, of which the SYN is known (RFC 9293 §3.5, figure 7). A connection that the peer's data have opened is in none: there it
    /// is a SYN like any other.
    pub(super) fn check_repeated_syn(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        let repeated = self.connection.state == State::SynReceived
            && segment.has(TcpFlags::SYN)
            && !segment.has(TcpFlags::RST)
            && segment.seq == self.receiver.irs;
        if !repeated {
            return Ok(());
        }
        if segment.has(TcpFlags::ACK) {
            if self.connection.early.is_some() {
                return Ok(());
            }
            segment.seq += 1;
            segment.drop_text(DropReason::TextOnSyn);
            self.receiver.ack_now = true;
            return Ok(());
        }
        if !self.connection.heed_repeated_syn(segment.header) {
            return self.refuse_other_ecn(segment, events);
        }
        self.connection.handshake_due |= self.connection.may_challenge(now);
        Err(DropReason::DuplicateSyn)
    }

    /// The peer has asked for both kinds of congestion notification in one handshake: neither side could know which is meant (RFC 9768
    /// §3.1.5).
    fn refuse_other_ecn(
        &mut self,
        segment: &Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        *events |= Events::RESET;
        self.reset_sender_of(segment.header, events);
        Err(DropReason::OtherEcnSetup)
    }

    /// RFC 7323 §5.3 R1, and §3.2: a segment without the timestamp that was agreed on. A SYN without it is answered as any other (RFC
    /// 5961 §4.2): its sender may have restarted as one that has none.
    pub(super) fn check_timestamps(
        &mut self,
        now: Instant,
        segment: &Segment<'_, P>,
    ) -> Result<(), DropReason> {
        if !self.connection.timestamps || segment.has(TcpFlags::RST) {
            return Ok(());
        }
        if !segment.header.has(TcpHeader::HAS_TIMESTAMPS) {
            self.check_syn(now, segment)?;
            return Err(DropReason::MissingTimestamp);
        }
        if self.receiver.is_timestamp_old(now, segment.header.ts_value) {
            // It was overtaken by itself sent again: the peer is to know that it waited too short a time.
            self.note_duplicate(segment);
            self.answer_unacceptable(now, segment);
            return Err(DropReason::OldTimestamp);
        }
        Ok(())
    }

    /// First check: the segment, or a part of it, lies in the window. The rest is cut off.
    pub(super) fn check_sequence(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
    ) -> Result<(), DropReason> {
        self.note_duplicate(segment);
        let verdict = self.fit_window(segment);
        if verdict.is_err() && !segment.has(TcpFlags::RST) {
            self.restart_time_wait(now, segment);
            self.answer_unacceptable(now, segment);
            self.answer_repeated_syn_ack(segment);
        }
        // What was cut off is answered at once: it may be a probe of our closed window (RFC 9293 §3.8.6.1).
        self.receiver.ack_now |= verdict.is_ok() && segment.cut.is_some();
        verdict
    }

    /// Data below RCV.NXT has arrived before.
    fn note_duplicate(&mut self, segment: &Segment<'_, P>) {
        let rcv_nxt = self.receiver.rcv_nxt;
        if self.connection.sack && segment.seq.is_before(rcv_nxt) {
            let end = segment.seq + segment.text_len();
            self.receiver.report_duplicate(SackBlock {
                left: segment.seq,
                right: end.earliest(rcv_nxt),
            });
        }
    }

    fn fit_window(&self, segment: &mut Segment<'_, P>) -> Result<(), DropReason> {
        let rcv_nxt = self.receiver.rcv_nxt;
        let right = rcv_nxt + self.receiver.rcv_wnd();
        if segment.seq.is_before(rcv_nxt) {
            let old = rcv_nxt - segment.seq;
            // A segment whose last place is the one before RCV.NXT is old; so is one without any.
            if segment.len() <= old {
                return Err(DropReason::OldSegment);
            }
            if let Some(payload) = &mut segment.payload {
                payload.trim_front(old.min(payload.len() as u32) as usize);
            }
            segment.payload = segment.payload.take().filter(|payload| payload.len() > 0);
            segment.seq = rcv_nxt;
            segment.note(DropReason::PartlyOld);
        }
        // What carries only an ACK may stand at the right edge, where the peer's SND.NXT is once it has used up the
        // window; the RFC's table would refuse it. See docs/rfc-departures.md.
        let carries = segment.len() > 0 || segment.has(TcpFlags::RST);
        let at_edge = segment.seq == right && right != rcv_nxt;
        if segment.seq.is_after(right) || (at_edge && carries) {
            return Err(DropReason::BeyondWindow);
        }
        let room = right - segment.seq;
        if segment.len() > room {
            // With a closed window nothing is left of the text, but the ACK counts (RFC 9293 §3.10.7.4).
            if room == 0 {
                segment.drop_text(DropReason::BeyondWindow);
            } else {
                segment.note(DropReason::PartlyBeyondWindow);
                segment.fin = false;
                if let Some(payload) = &mut segment.payload {
                    payload.truncate(room as usize);
                }
            }
        }
        Ok(())
    }

    /// The answer to what the window does not take: an ACK, so that the peer learns where we are. Segments that carry
    /// nothing are answered sparingly, lest two sides that disagree answer each other for ever.
    fn answer_unacceptable(&mut self, now: Instant, segment: &Segment<'_, P>) {
        if segment.len() > 0 || self.connection.may_challenge(now) {
            self.receiver.ack_now = true;
        }
    }

    /// The peer has not heard our acknowledgment of its SYN-ACK: once more as the first (RFC 9768 §3.2.2.1).
    fn answer_repeated_syn_ack(&mut self, segment: &Segment<'_, P>) {
        let header = segment.header;
        let is_syn_ack = segment.has(TcpFlags::SYN) && segment.has(TcpFlags::ACK);
        if is_syn_ack
            && header.seq == self.receiver.irs
            && header.ack == self.sender.iss + 1
            && self.receiver.ack_now
            && self.connection.heed_repeated_syn_ack(header)
        {
            self.receiver.bare_acks = self.receiver.bare_acks.max(1);
        }
    }

    /// A challenge ACK (RFC 5961 §3, §4, §5, §7).
    pub(super) fn challenge(&mut self, now: Instant) {
        if self.connection.may_challenge(now) {
            self.receiver.ack_now = true;
        }
    }

    /// The peer's FIN once more restarts 2 MSL (RFC 9293 §3.10.7.4, eighth check).
    fn restart_time_wait(&mut self, now: Instant, segment: &Segment<'_, P>) {
        if self.connection.state == State::TimeWait && segment.fin {
            let stay = self.connection.config.time_wait;
            self.connection.live_for(now, stay);
        }
    }

    /// Second check, with RFC 5961 §3: a RST counts at the very left edge of the window.
    pub(super) fn take_reset(
        &mut self,
        now: Instant,
        segment: &Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        if self.connection.state == State::TimeWait {
            return Err(DropReason::ResetInTimeWait);
        }
        if segment.header.seq != self.receiver.rcv_nxt {
            self.challenge(now);
            return Err(DropReason::ResetInWindow);
        }
        *events |= match self.connection.state {
            State::SynReceived if self.connection.active => Events::REFUSED,
            // Both sides have sent all they had: nothing is lost that the user could be told of.
            State::Closing | State::LastAck => Events::empty(),
            _ => Events::RESET,
        };
        self.end(events);
        Ok(())
    }

    /// Fourth check, with RFC 5961 §4: a SYN here is never ours to take.
    pub(super) fn check_syn(
        &mut self,
        now: Instant,
        segment: &Segment<'_, P>,
    ) -> Result<(), DropReason> {
        let known = self.connection.state == State::SynReceived
            && self.connection.early.is_none()
            && segment.header.seq == self.receiver.irs;
        if segment.has(TcpFlags::SYN) && !known {
            self.challenge(now);
            return Err(DropReason::SynOnConnection);
        }
        Ok(())
    }

    /// Takes over the timestamp of an acceptable segment (RFC 7323 §5.3 R3), wherever what is new of it begins.
    pub(super) fn take_timestamp(&mut self, now: Instant, segment: &Segment<'_, P>) {
        if self.connection.timestamps
            && !self.receiver.is_timestamp_old(now, segment.header.ts_value)
        {
            self.receiver
                .take_timestamp(now, segment.header.seq, segment.header.ts_value);
        }
    }
}
