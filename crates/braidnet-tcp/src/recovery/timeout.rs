//! Timeouts (RFC 6298 §5), and what is sent again for them.

use super::Phase;
use super::tail::TailProbe;
use crate::sender::{Awaited, Sender};
use crate::timers::Timer;
use braidnet_wire::time::Instant;

/// What the retransmission timer's expiry comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// Something will be sent again, or a probe.
    Retry,
    /// The peer has been silent for too long (RFC 9293 §3.8.3, R2).
    GiveUp,
}

impl Sender {
    /// The timer has expired.
    pub(crate) fn on_expiry(&mut self, now: Instant, patience: u8) -> Expiry {
        let awaited = self.awaited;
        match awaited {
            Awaited::TailProbe if self.is_tail_probe_due(now) => self.refresh(),
            Awaited::Reordering => self.on_reordering_time(now),
            _ if !self.retransmit.is_due(now) => {}
            _ => return self.on_timeout_or_probe(now, patience),
        }
        Expiry::Retry
    }

    fn on_timeout_or_probe(&mut self, now: Instant, patience: u8) -> Expiry {
        if self.unanswered >= patience {
            self.retransmit = Timer::OFF;
            return Expiry::GiveUp;
        }
        self.unanswered += 1;
        if self.snd_una == self.snd_nxt {
            self.probes = self.probes.saturating_add(1);
            self.probe_due = true;
            self.congestion.let_go();
            self.persist(now);
        } else {
            self.on_timeout(now);
        }
        self.refresh();
        Expiry::Retry
    }

    /// The SYN or SYN-ACK was not answered in time (RFC 6298 §5.5, RFC 9293 §3.8.3).
    pub(crate) fn on_handshake_expiry(&mut self, now: Instant, patience: u8) -> Expiry {
        if self.unanswered >= patience {
            self.retransmit = Timer::OFF;
            return Expiry::GiveUp;
        }
        self.unanswered += 1;
        self.rtt.back_off();
        self.arm_timeout(now);
        Expiry::Retry
    }

    /// Something in flight was not acknowledged in time (RFC 6298 §5.4 to §5.6).
    fn on_timeout(&mut self, now: Instant) {
        self.rtt.back_off();
        // The backoff ends with the next measurement (§5): that need not wait until all of this flight has been repaired.
        self.measure_anew();
        if self.snd_wnd == 0 {
            // The window closed over what is in flight: this is a probe, and no sign of congestion
            // (RFC 9293 §3.8.6.1).
            self.probes = self.probes.saturating_add(1);
            self.recovery.forced = true;
        } else {
            // RFC 5681 §3.1: held constant only where this very segment was sent again by the timer before.
            let first = self.recovery.timed_out != Some(self.snd_una);
            self.begin_doubt(Phase::Timeout);
            self.recovery.spared = None;
            self.on_path_timeout(now);
            if matches!(self.recovery.phase, Phase::Fast | Phase::Marked) {
                // What recovery allowed for the moment says nothing of the path.
                self.congestion.end_reduction();
            }
            self.congestion.on_timeout(self.flight_size(), first);
            self.recovery.timed_out = Some(self.snd_una);
            self.note_cut();
            self.retransmit_all(now);
        }
        self.arm_timeout(now);
    }

    /// All that is in flight and not selectively acknowledged counts as lost (RFC 6675 §5.1), unless it left so lately that it may
    /// still arrive (RFC 8985 §6.3).
    pub(crate) fn retransmit_all(&mut self, now: Instant) {
        if self.flight.front_has_arrived() {
            // The peer has taken back what it selectively acknowledged (RFC 2018 §8).
            self.flight.take_back();
        }
        self.flight.lose_front(self.congestion.smss());
        self.lose_old(now);
        let recovery = &mut self.recovery;
        recovery.phase = Phase::Timeout;
        recovery.point = self.snd_nxt;
        recovery.guarded = false;
        recovery.dup_acks = 0;
        recovery.left_bytes = 0;
        recovery.forced = true;
        recovery.by_sack = false;
        recovery.tail = TailProbe::default();
        self.refresh();
    }

    /// Everything in flight is to be sent again, in shorter segments, and no timeout and no loss is why.
    pub(crate) fn resend_all(&mut self, now: Instant) {
        self.recovery.doubt.take();
        self.recovery.spared = None;
        self.retransmit_all(now);
        self.flight.lose_all();
        self.refresh();
        self.arm_timeout(now);
    }
}
