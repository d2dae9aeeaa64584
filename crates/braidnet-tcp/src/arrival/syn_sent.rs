//! SYN-SENT (RFC 9293 §3.10.7.3).

use super::Segment;
use crate::state::Step;
use crate::{DropReason, Events, Payload, Tcb};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

impl<P: Payload> Tcb<P> {
    pub(super) fn arrive_in_syn_sent(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        let acked = self.check_ack_of_syn(segment)?;
        if segment.has(TcpFlags::RST) {
            if !acked {
                return Err(DropReason::ResetWithoutAck);
            }
            // A refusal has no numbers of its own (§3.10.7.1). One that has, and acknowledges our data, ends a connection that they had opened
            // (RFC 7413 §4.2.2), whose SYN-ACK may still come: the same SYN must not open another.
            let header = segment.header;
            let was_open = header.seq.value() != 0 && header.ack != self.sender.snd_una + 1;
            if !was_open && self.connection.stop_asking_for_ecn() {
                self.connection.handshake_due = true;
                return Ok(());
            }
            *events |= Events::REFUSED;
            self.end(events);
            return Ok(());
        }
        if !segment.has(TcpFlags::SYN) {
            return Err(DropReason::NeitherSynNorReset);
        }
        self.take_syn(now, segment.header);
        segment.drop_text(DropReason::TextOnSyn);
        if acked {
            self.take_handshake_ack(segment.header, events);
            self.connection.advance(now, Step::SynAcked);
            self.receiver.ack_now = true;
            // What it says of the SYN-ACK goes alone (RFC 9768 §3.2.2.1).
            self.receiver.bare_acks = self.connection.ecn.answer.is_some().into();
            self.complete_handshake(now, events);
        } else {
            // Simultaneous open (RFC 9293 §3.5, figure 7): our SYN goes again, with an ACK.
            self.connection.advance(now, Step::SynTaken);
            self.connection.handshake_due = true;
        }
        Ok(())
    }

    /// First check: whether the segment acknowledges our SYN. What acknowledges anything else is answered with a RST.
    fn check_ack_of_syn(&mut self, segment: &Segment<'_, P>) -> Result<bool, DropReason> {
        if !segment.has(TcpFlags::ACK) {
            return Ok(false);
        }
        let ack = segment.header.ack;
        if self.sender.is_of_handshake(ack) {
            return Ok(true);
        }
        if !segment.has(TcpFlags::RST) {
            self.refuse_ack(segment.header);
        }
        Err(DropReason::AckNotOfSyn)
    }

    /// Our SYN is acknowledged, and data that it carried perhaps (RFC 7413 §4.2.2).
    pub(super) fn take_handshake_ack(&mut self, header: &TcpHeader, events: &mut Events) {
        let taken = self.sender.take_handshake_ack(header.ack);
        self.connection.heed_fast_open(header, taken);
        if taken > 0 {
            *events |= Events::ACKED;
        }
    }

    /// The peer's SYN: where its stream starts and what it agrees to.
    pub(crate) fn take_syn(&mut self, now: Instant, syn: &TcpHeader) {
        let agreed = self.connection.agree(syn);
        let announced = self.connection.announced_in_syn;
        self.receiver.start(syn.seq, announced);
        self.receiver
            .agree(agreed.rcv_wind_shift, agreed.option_bytes);
        self.sender.snd_wind_shift = agreed.snd_wind_shift;
        self.connection.agreed_smss = agreed.smss;
        self.connection.smss = agreed.smss.min(self.connection.path_smss());
        if self.connection.timestamps {
            self.receiver.take_timestamp(now, syn.seq, syn.ts_value);
        }
        if syn.has(TcpHeader::HAS_USER_TIMEOUT) {
            self.take_user_timeout(syn);
        }
        // The window of a SYN is not scaled (RFC 7323 §2.2).
        self.sender
            .start_window(syn.seq, syn.ack, syn.window.into());
    }

    /// Both SYNs are acknowledged.
    pub(crate) fn complete_handshake(&mut self, now: Instant, events: &mut Events) {
        // What went again because the peer's SYN came, or came twice, says nothing of a loss (RFC 6928 §2, RFC 6298 §5.7).
        let lost_syn = self.sender.unanswered > 0;
        let ecn = self.connection.ecn;
        // A mark on it is congestion as its loss is (RFC 9768 §3.2.2.2).
        let careful = lost_syn || ecn.handshake_marked;
        self.sender.congestion.start(self.connection.smss, careful);
        self.sender.start(now, lost_syn);
        self.receiver.begin(now, self.sender.rtt.srtt());
        if ecn.heeds() {
            self.sender.heed_marks(!ecn.is_accurate());
        }
        if ecn.sends() {
            self.sender.bear_marks();
        }
        let by_time = self.connection.config.rack && self.connection.sack;
        self.sender.go_by_time(by_time);
        self.begin_path(now);
        self.connection.handshake_due = false;
        if !self.connection.active {
            self.connection.fast_open = None;
        }
        *events |= Events::CONNECTED;
        self.connection.heard = now;
        self.watch_peer(now);
        if self.connection.close_pending {
            self.connection.close_pending = false;
            self.close(now);
        }
    }
}
