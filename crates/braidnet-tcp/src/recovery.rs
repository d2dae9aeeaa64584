//! Loss recovery: fast retransmit and recovery with SACK (RFC 5681 §3.2, RFC 6675) and without (RFC 6582), and what a
//! retransmission timeout sends again (RFC 6298 §5.4, RFC 6675 §5.1).
//!
//! Both kinds share their variables. `pipe` is what is thought to be on the way; everything un-SACKed below `lost_before`
//! is thought lost; everything below `high_rxt` has been sent again. Without SACK, `left_bytes` counts what duplicate
//! ACKs say has left the network, which is RFC 6582's inflation of the window by another name.

use crate::congestion::Acked;
use crate::scoreboard::DUP_THRESH;
use crate::sender::Sender;
use crate::timers::Timer;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{SackBlock, TcpHeader};
use braidnet_wire::time::Instant;

/// What goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Nothing.
    #[default]
    Open,
    /// Fast recovery, until RecoveryPoint is acknowledged.
    Fast,
    /// After a timeout, until all that was in flight then is acknowledged.
    Timeout,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// RecoveryPoint (RFC 6675 §5), `recover` (RFC 6582 §3.2).
    point: SeqNumber,
    /// `point` still guards against a second fast retransmit for the same loss (RFC 6582 §3.2 step 2, without SACK).
    guarded: bool,
    /// HighRxt (RFC 6675 §2): one past the highest sequence number sent again.
    pub(crate) high_rxt: SeqNumber,
    /// Fast recovery goes by SACK.
    by_sack: bool,
    /// Everything before it that is not selectively acknowledged is lost.
    lost_before: SeqNumber,
    /// DupAcks (RFC 6675 §2).
    dup_acks: u32,
    /// Bytes that duplicate ACKs say have left the network (without SACK).
    left_bytes: u32,
    /// The segment at `high_rxt` is sent again whatever the windows say.
    pub(crate) forced: bool,
    /// The one rescue retransmission of this recovery has been made (RFC 6675 §4, rule 4).
    pub(crate) rescued: bool,
    /// SND.UNA at the last timeout that was a sign of congestion: `ssthresh` has been cut for the segment there.
    timed_out: Option<SeqNumber>,
}

/// What the retransmission timer's expiry comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// Something will be sent again, or a probe.
    Retry,
    /// The peer has been silent for too long (RFC 9293 §3.8.3, R2).
    GiveUp,
}

/// Sequence numbers to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hole {
    pub(crate) start: SeqNumber,
    /// How many there are in one piece.
    pub(crate) octets: u32,
    /// By rule 4 of RFC 6675 §4, which leaves HighRxt where it is.
    rescue: bool,
}

/// An acceptable ACK, as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) header: &'a TcpHeader,
    /// Without data, SYN or FIN, so that it may count as a duplicate.
    pub(crate) bare: bool,
    /// SACK is in use.
    pub(crate) sack: bool,
    /// How many milliseconds ago we sent the timestamp that it echoes (RFC 7323 §4.1), if it echoes one.
    pub(crate) echo_age: Option<u32>,
}

impl Sender {
    /// Takes an acceptable ACK; says whether all its SACK blocks made sense.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: Ack<'_>) -> bool {
        let header = ack.header;
        let window_before = self.snd_wnd;
        if self.snd_wnd == 0 {
            self.see_life();
        }
        let moved = header.ack != self.snd_una;
        if moved {
            self.on_new_ack(now, &ack);
        }
        let (sane, news) = if ack.sack {
            self.take_sack(header)
        } else {
            (true, false)
        };
        self.update_window(now, header.seq, header.ack, header.window);
        if !moved && self.flight_size() > 0 {
            // RFC 6675 §2 and RFC 5681 §2 each say what a duplicate is.
            let duplicate = if ack.sack {
                news
            } else {
                ack.bare && window_before == self.snd_wnd
            };
            if duplicate && window_before != 0 {
                self.on_duplicate(ack.sack);
            }
        }
        if ack.sack {
            self.update_lost();
        }
        self.consider_fast_retransmit(ack.sack);
        self.refresh();
        sane
    }

    /// SND.UNA moves, possibly amid recovery.
    fn on_new_ack(&mut self, now: Instant, ack: &Ack<'_>) {
        let una = ack.header.ack;
        let bytes = una - self.snd_una;
        self.snd_una = una;
        self.snd_nxt = self.snd_nxt.latest(una);
        self.scoreboard.remove_before(una);
        self.measure(now, una, ack.echo_age);
        self.unanswered = 0;
        self.probes = 0;
        self.recovery.dup_acks = 0;
        self.recovery.high_rxt = self.recovery.high_rxt.latest(una);
        match self.recovery.phase {
            Phase::Open => {
                self.recovery.left_bytes = 0;
                if self.cwnd_limited {
                    self.grow(now, bytes);
                }
            }
            Phase::Fast | Phase::Timeout if una.is_at_or_after(self.recovery.point) => {
                self.recover()
            }
            Phase::Fast if ack.sack => {}
            Phase::Fast => {
                // RFC 6582 §3.2 step 3, partial acknowledgment: the next hole, and deflation.
                let smss = self.congestion.smss();
                self.recovery.left_bytes = self
                    .recovery
                    .left_bytes
                    .saturating_sub(bytes.saturating_sub(smss));
                self.recovery.high_rxt = una;
                self.recovery.forced = true;
            }
            // A hole that closes acknowledges at once what lay behind it: not more than that says (RFC 3465 §2.3).
            Phase::Timeout => self.grow(now, bytes.min(2 * self.congestion.smss())),
        }
        if self.recovery.guarded && una.is_after(self.recovery.point) {
            self.recovery.guarded = false;
        }
        self.rearm(now);
    }

    fn grow(&mut self, now: Instant, bytes: u32) {
        let srtt = self.rtt.srtt();
        self.congestion.on_ack(Acked { now, bytes, srtt });
    }

    /// Everything that was in flight when the loss was found has arrived.
    fn recover(&mut self) {
        if self.recovery.phase == Phase::Fast && !self.recovery.by_sack {
            self.congestion.on_recovered(self.flight_size());
        }
        self.recovery.phase = Phase::Open;
        self.recovery.guarded = true;
        self.recovery.left_bytes = 0;
        self.recovery.forced = false;
        self.recovery.rescued = false;
        self.recovery.timed_out = None;
    }

    /// Takes the SACK blocks: whether all made sense, and whether there was news. D-SACKs and blocks that SND.UNA has
    /// overtaken say nothing here and are no fault (RFC 2883 §4).
    fn take_sack(&mut self, header: &TcpHeader) -> (bool, bool) {
        let (mut sane, mut news) = (true, false);
        for &SackBlock { left, right } in header.sack_blocks() {
            let flight_size = self.snd_nxt - self.snd_una;
            let (from, to) = (left - self.snd_una, right - self.snd_una);
            if from < to && to <= flight_size {
                news |= self.scoreboard.add(SackBlock { left, right });
            } else {
                sane &= self.is_old_report(left, right);
            }
        }
        (sane, news)
    }

    /// Whether a block that is not inside the flight may be an honest one: it begins before SND.UNA, as a D-SACK does, or
    /// one that a later ACK has overtaken.
    fn is_old_report(&self, left: SeqNumber, right: SeqNumber) -> bool {
        left.is_before(self.snd_una) && left.is_before(right) && right.is_at_or_before(self.snd_nxt)
    }

    fn on_duplicate(&mut self, sack: bool) {
        self.recovery.dup_acks = self.recovery.dup_acks.saturating_add(1);
        if !sack {
            let left_bytes = self
                .recovery
                .left_bytes
                .saturating_add(self.congestion.smss());
            self.recovery.left_bytes = left_bytes.min(self.flight_size());
        }
    }

    /// RFC 6675 §5 step (4), RFC 6582 §3.2 step 2.
    fn consider_fast_retransmit(&mut self, sack: bool) {
        let recovery = &self.recovery;
        let lost = recovery.dup_acks >= DUP_THRESH
            || (sack && self.recovery.lost_before.is_after(self.snd_una));
        if !lost || recovery.phase != Phase::Open || self.flight_size() == 0 {
            return;
        }
        if !sack && recovery.guarded {
            return;
        }
        self.congestion.on_loss(self.flight_size());
        self.stop_measuring();
        self.recovery.phase = Phase::Fast;
        self.recovery.point = self.snd_nxt;
        self.recovery.high_rxt = self.snd_una;
        self.recovery.forced = true;
        self.recovery.rescued = false;
        self.recovery.by_sack = sack;
        if !sack {
            self.recovery.lost_before = self.snd_una;
        }
    }

    fn update_lost(&mut self) {
        let smss = self.congestion.smss();
        let by_sack = self.scoreboard.lost_before(smss).unwrap_or(self.snd_una);
        self.recovery.lost_before = if self.recovery.phase == Phase::Timeout {
            by_sack.latest(self.recovery.point)
        } else {
            by_sack
        };
    }

    /// The timer has expired.
    pub(crate) fn on_expiry(&mut self, now: Instant, patience: u8) -> Expiry {
        if self.unanswered >= patience {
            self.retransmit = Timer::OFF;
            return Expiry::GiveUp;
        }
        self.unanswered += 1;
        if self.snd_una == self.snd_nxt {
            self.probes = self.probes.saturating_add(1);
            self.probe_due = true;
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
        self.arm(now);
        Expiry::Retry
    }

    /// Whether lost segments are being repaired.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.phase != Phase::Open
    }

    /// Something in flight was not acknowledged in time (RFC 6298 §5.4 to §5.6).
    fn on_timeout(&mut self, now: Instant) {
        self.rtt.back_off();
        if self.snd_wnd == 0 {
            // The window closed over what is in flight: this is a probe, and no sign of congestion
            // (RFC 9293 §3.8.6.1).
            self.probes = self.probes.saturating_add(1);
            self.recovery.high_rxt = self.snd_una;
            self.recovery.forced = true;
        } else {
            // RFC 5681 §3.1: held constant only where this very segment was sent again by the timer before.
            let first = self.recovery.timed_out != Some(self.snd_una);
            self.congestion.on_timeout(self.flight_size(), first);
            self.recovery.timed_out = Some(self.snd_una);
            self.retransmit_all();
        }
        self.stop_measuring();
        self.arm(now);
    }

    /// All that is in flight and not selectively acknowledged counts as lost (RFC 6675 §5.1).
    pub(crate) fn retransmit_all(&mut self) {
        if self.scoreboard.contains(self.snd_una) {
            // The peer has taken back what it selectively acknowledged (RFC 2018 §8).
            self.scoreboard.clear();
        }
        self.stop_measuring();
        self.recovery = Recovery {
            phase: Phase::Timeout,
            point: self.snd_nxt,
            high_rxt: self.snd_una,
            lost_before: self.snd_nxt,
            forced: true,
            timed_out: self.recovery.timed_out,
            ..Recovery::default()
        };
        self.refresh();
    }

    /// Bytes thought to be on the way (RFC 6675 §4, SetPipe), and without SACK the like of it.
    pub(crate) fn pipe(&self) -> u32 {
        let recovery = &self.recovery;
        match recovery.phase {
            // Limited transmit (RFC 3042, RFC 6675 §5 step 3): a new segment for each that has left.
            Phase::Open => self
                .flight_size()
                .saturating_sub(self.scoreboard.bytes())
                .saturating_sub(recovery.left_bytes.min(2 * self.congestion.smss())),
            // RFC 6582's inflation and deflation, from the other side.
            Phase::Fast if !recovery.by_sack => {
                self.flight_size().saturating_sub(recovery.left_bytes)
            }
            Phase::Fast | Phase::Timeout => {
                let lost_before = recovery
                    .lost_before
                    .latest(self.snd_una)
                    .earliest(self.snd_nxt);
                let sacked = self.scoreboard.bytes();
                let sacked_lost = self.scoreboard.bytes_before(lost_before);
                let sacked_again = self.scoreboard.bytes_before(recovery.high_rxt);
                let not_lost = (self.snd_nxt - lost_before).saturating_sub(sacked - sacked_lost);
                let again = (recovery.high_rxt - self.snd_una).saturating_sub(sacked_again);
                not_lost + again
            }
        }
    }

    /// The next sequence numbers to send again that are lost for certain (RFC 6675 §4, NextSeg rule 1).
    pub(crate) fn next_lost(&mut self) -> Option<Hole> {
        if self.flight_size() == 0 || self.recovery.phase == Phase::Open && !self.recovery.forced {
            return None;
        }
        let (start, end) = self
            .scoreboard
            .hole_from(self.recovery.high_rxt.latest(self.snd_una));
        let limit = if self.recovery.forced {
            self.snd_nxt
        } else {
            self.recovery.lost_before
        };
        let end = end.unwrap_or(limit).earliest(limit).earliest(self.snd_nxt);
        if !start.is_before(end) {
            self.recovery.forced = false;
            return None;
        }
        if !self.recovery.forced {
            if self.pipe() + self.congestion.smss() > self.congestion.cwnd() {
                return None;
            }
            // What lies past a window that shrank would be thrown away (RFC 9293 §3.8.6, SHLD-15).
            let edge = self.snd_una + self.snd_wnd;
            if start.is_at_or_after(edge) {
                return None;
            }
        }
        Some(Hole {
            start,
            octets: end - start,
            rescue: false,
        })
    }

    /// With nothing lost for certain and nothing new to send: rules 3 and 4 of RFC 6675 §4.
    pub(crate) fn next_perhaps_lost(&mut self) -> Option<Hole> {
        if self.recovery.phase != Phase::Fast
            || self.pipe() + self.congestion.smss() > self.congestion.cwnd()
        {
            return None;
        }
        let highest = self.scoreboard.highest()?;
        let (start, end) = self
            .scoreboard
            .hole_from(self.recovery.high_rxt.latest(self.snd_una));
        if let Some(end) = end
            && start.is_before(highest)
        {
            return Some(Hole {
                start,
                octets: end - start,
                rescue: false,
            });
        }
        if self.recovery.rescued || !highest.is_before(self.snd_nxt) {
            return None;
        }
        // Rule 4: the last segment in flight, once.
        self.recovery.rescued = true;
        let smss = self.congestion.smss();
        let start = if self.snd_nxt - highest > smss {
            self.snd_nxt - smss
        } else {
            highest
        };
        Some(Hole {
            start,
            octets: self.snd_nxt - start,
            rescue: true,
        })
    }

    /// Accounts for so many sequence numbers of a hole that leave again.
    pub(crate) fn on_retransmitted(&mut self, now: Instant, hole: Hole, octets: u32) {
        let end = hole.start + octets;
        self.time_again(now, hole.start, end);
        if !hole.rescue {
            self.recovery.high_rxt = self.recovery.high_rxt.latest(end);
        }
        self.recovery.forced = false;
        if !self.retransmit.is_armed() {
            self.arm(now);
        }
        self.refresh();
    }

    /// Whether the fast paths must look closer: loss is suspected or being repaired.
    pub(crate) fn refresh(&mut self) {
        let recovery = &self.recovery;
        self.disordered = recovery.phase != Phase::Open
            || recovery.dup_acks > 0
            || recovery.left_bytes > 0
            || recovery.guarded
            || recovery.forced
            || !self.scoreboard.is_empty()
            || self.snd_max != self.snd_nxt
            || self.snd_wnd == 0;
        debug_assert!(self.snd_una.is_at_or_before(self.snd_nxt));
        debug_assert!(self.snd_nxt.is_at_or_before(self.snd_max));
        debug_assert!(self.snd_nxt.is_at_or_before(self.snd_end));
    }
}

#[cfg(test)]
mod tests;
