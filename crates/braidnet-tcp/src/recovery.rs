//! Loss recovery: how losses are found, what is sent again, and when the window comes back.
//!
//! | what | where |
//! |---|---|
//! | what is on its way, and how each piece of it has fared | [`flight`](crate::flight) |
//! | fast retransmit and recovery, with SACK (RFC 6675) and without (RFC 5681 §3.2, RFC 6582) | here |
//! | timeouts (RFC 6298 §5) | [`timeout`] |
//! | what SACK blocks say, also those of an ACK that another has overtaken | [`blocks`] |
//! | losses found by time (RFC 8985 §6) | [`rack`] |
//! | a probe of the tail before the timeout (RFC 8985 §7) | [`tail`] |
//! | when it is cut for a loss, and when once more | [`cut`] |
//! | how fast it shrinks (RFC 6937) | [`reduction`] |
//! | what the network marks and does not lose (RFC 3168 §6.1.2) | [`mark`] |
//! | what was no loss: Eifel (RFC 3522, RFC 4015), D-SACK (RFC 3708), F-RTO (RFC 5682) | [`doubt`] |
//!
//! Without SACK, `left_bytes` counts what duplicate ACKs say has left the network, which is RFC 6582's inflation of the window
//! by another name.

mod blocks;
mod cut;
pub(crate) mod doubt;
pub(crate) mod mark;
pub(crate) mod rack;
pub(crate) mod reduction;
pub(crate) mod tail;
mod timeout;

pub(crate) use timeout::Expiry;

use crate::config::Config;
use crate::flight::{DUP_THRESH, Delivery};
use crate::path::Spared;
use crate::sender::{Awaited, Sender};
use crate::shelf::Shelf;
use blocks::Report;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{SackBlock, TcpHeader};
use braidnet_wire::time::Instant;
use doubt::Doubt;
use rack::Rack;
use reduction::Reduction;
use tail::TailProbe;

/// What goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Nothing.
    #[default]
    Open,
    /// Nothing was lost, but the window shrinks, until RecoveryPoint is acknowledged.
    Marked,
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
    /// The last fast retransmit was found premature.
    premature: bool,
    /// Fast recovery goes by SACK.
    pub(crate) by_sack: bool,
    /// Losses are found by time.
    by_time: bool,
    /// When the window was last cut for a loss.
    cut_at: Instant,
    /// DupAcks (RFC 6675 §2).
    dup_acks: u32,
    /// Bytes that duplicate ACKs say have left the network (without SACK).
    left_bytes: u32,
    /// The first that is lost is sent again whatever the windows say.
    pub(crate) forced: bool,
    /// The one rescue retransmission of this recovery has been made (RFC 6675 §4, rule 4).
    rescued: bool,
    /// SND.UNA at the last timeout that was a sign of congestion: `ssthresh` has been cut for the segment there.
    timed_out: Option<SeqNumber>,
    rack: Rack,
    reduction: Reduction,
    doubt: Shelf<Doubt>,
    /// Nothing is lost but a probe of the path.
    pub(crate) spared: Option<Spared>,
    tail: TailProbe,
}

impl Recovery {
    /// Nothing is lost.
    pub(crate) fn new(config: &Config) -> Recovery {
        Recovery {
            doubt: Shelf::new(config.reassembly_reserve > 0),
            ..Recovery::default()
        }
    }
}

/// Sequence numbers to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hole {
    pub(crate) start: SeqNumber,
    /// How many there are in one piece.
    pub(crate) octets: u32,
}

/// An acceptable ACK, as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) header: &'a TcpHeader,
    /// Without data, SYN or FIN, so that it may count as a duplicate.
    pub(crate) bare: bool,
    /// SACK is in use.
    pub(crate) sack: bool,
    /// It tells of marks (RFC 3168 §6.1.2).
    pub(crate) marked: bool,
    /// How many milliseconds ago we sent the timestamp that it echoes (RFC 7323 §4.1), if it echoes one.
    pub(crate) echo_age: Option<u32>,
}

/// What has come of an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// All its SACK blocks made sense.
    pub(crate) sane: bool,
    /// It says something of what has arrived that was not known, so that it is no old one.
    pub(crate) news: bool,
}

/// What has come of an ACK so far.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// By how much SND.UNA has moved.
    moved: u32,
    /// It came without data.
    bare: bool,
    delivery: Delivery,
    duplicate: Option<SackBlock>,
    echo_age: Option<u32>,
}

impl Sender {
    /// Whether losses are found by time from now on, which takes SACK (RFC 8985 §4).
    pub(crate) fn go_by_time(&mut self, by_time: bool) {
        self.recovery.by_time = by_time;
        self.refresh();
    }

    /// Takes an acceptable ACK that none has overtaken.
    pub(crate) fn on_ack(&mut self, now: Instant, mut ack: Ack<'_>) -> Taken {
        let header = ack.header;
        let window_before = self.snd_wnd;
        if self.snd_wnd == 0 {
            self.see_life();
        }
        // Nothing was missing before what is acknowledged: the ACK came of its arrival.
        let sure = !self.is_recovering() && self.flight.is_untouched();
        let mut delivery = Delivery::default();
        let moved = header.ack - self.snd_una;
        if moved > 0 {
            self.move_una(header.ack, &mut delivery);
            self.forget_cut();
            if self.path.is_searching() {
                self.end_path_probe();
            }
        }
        // What is selectively acknowledged echoes no time of its own (RFC 7323 §4.1).
        self.measure(now, &delivery, sure, ack.echo_age);
        let report = match ack.sack {
            true => self.take_sack(header, &mut delivery),
            false => Report {
                sane: true,
                duplicate: None,
            },
        };
        self.update_window(now, header.seq, header.ack, header.window);
        let heard = Heard {
            moved,
            bare: ack.bare,
            delivery,
            duplicate: report.duplicate,
            echo_age: ack.echo_age,
        };
        self.look_at_time(now, &heard);
        self.look_for_doubt(now, &heard);
        let news = moved > 0 || delivery.octets > 0;
        // A count that comes late is an old one (RFC 9768 §3.2.2.2).
        ack.marked &= news || self.marks.are_repeated();
        if ack.marked {
            self.heed_mark(now, moved);
        }
        if moved > 0 {
            self.on_new_ack(now, moved, ack);
        } else if self.flight_size() > 0 && window_before != 0 {
            // RFC 6675 §2 and RFC 5681 §2 each say what a duplicate is.
            let duplicate = match ack.sack {
                true => delivery.octets > 0,
                false => ack.bare && window_before == self.snd_wnd,
            };
            if duplicate {
                self.on_duplicate(ack.sack);
            }
        }
        self.end_tail_probe(now, &heard);
        self.conclude(now, &heard, ack.sack);
        Taken {
            sane: report.sane,
            news,
        }
    }

    /// What an ACK comes to, once all it tells is taken in.
    fn conclude(&mut self, now: Instant, heard: &Heard, sack: bool) {
        let lost_before = self.flight.lost();
        self.find_losses(now, sack);
        let progress = heard.moved > 0 && self.flight.lost() <= lost_before;
        self.reduce(heard, progress);
        if self.modelled && heard.delivery.octets > 0 {
            self.tell_model_of(now, &heard.delivery, sack);
        }
        self.refresh();
    }

    /// Without SACK, an ACK that fills a hole tells at once of what has long arrived: that is no rate.
    fn tell_model_of(&mut self, now: Instant, delivery: &Delivery, sack: bool) {
        let newest = match (delivery.newest_original, delivery.newest_again) {
            (Some(one), Some(other)) if other.is_after(one) => Some(other),
            (one, other) => one.or(other),
        };
        let newest = newest.filter(|_| sack || !self.is_recovering());
        let once = newest.is_some() && newest == delivery.newest_original;
        self.tell_model(now, delivery.octets, (newest.map(|newest| newest.at), once));
    }

    /// SND.UNA moves, possibly past a probe's octet.
    fn move_una(&mut self, una: SeqNumber, delivery: &mut Delivery) {
        self.snd_una = una;
        self.snd_nxt = self.snd_nxt.latest(una);
        self.flight.acknowledge(una, delivery);
        self.unanswered = 0;
        self.probes = 0;
        self.recovery.dup_acks = 0;
    }

    /// What an ACK of `bytes` new ones means for the window, and for what is going on.
    fn on_new_ack(&mut self, now: Instant, bytes: u32, ack: Ack<'_>) {
        let una = self.snd_una;
        // RFC 3168 §6.1.2: not by what tells of marks.
        let grows = !ack.marked && !self.modelled;
        match self.recovery.phase {
            Phase::Open => {
                self.recovery.left_bytes = 0;
                if self.cwnd_limited && grows {
                    self.grow(now, bytes, None);
                }
            }
            _ if una.is_at_or_after(self.recovery.point) => self.recover(),
            Phase::Marked => {}
            Phase::Fast if ack.sack => {}
            Phase::Fast => {
                // RFC 6582 §3.2 step 3, partial acknowledgment: the next hole, and deflation.
                let smss = self.congestion.smss();
                let left = self.recovery.left_bytes;
                self.recovery.left_bytes = left.saturating_sub(bytes.saturating_sub(smss));
                self.flight.lose_front(self.rest_of_probe().unwrap_or(smss));
                self.recovery.forced = true;
            }
            // While a timeout is in doubt the window waits for the answer.
            Phase::Timeout if self.is_probing_timeout() || !grows => {}
            // A hole that closes acknowledges at once what lay behind it: L is one segment now (RFC 3465 §2.3).
            Phase::Timeout => {
                let most = self.congestion.smss();
                self.grow(now, bytes.min(most), None);
            }
        }
        if self.recovery.guarded && una.is_after(self.recovery.point) {
            self.recovery.guarded = false;
        }
        self.rearm(now);
    }

    /// Everything that was in flight when the loss was found has arrived.
    fn recover(&mut self) {
        if self.recovery.phase == Phase::Marked {
            self.congestion.end_reduction();
            return self.calm_down();
        }
        if self.recovery.phase == Phase::Fast {
            match self.recovery.by_sack {
                true => self.congestion.end_reduction(),
                false => self.congestion.on_recovered(self.flight_size()),
            }
        }
        self.recovery.rack.on_recovered();
        // With SACK, what arrives of the flight before is no duplicate.
        self.recovery.guarded = !self.recovery.by_sack;
        self.recovery.premature = false;
        self.calm_down();
        let until = self.snd_nxt;
        if let Some(doubt) = self.recovery.doubt.get_mut() {
            doubt.end_at(until);
        }
    }

    /// Nothing goes on any more.
    fn calm_down(&mut self) {
        let recovery = &mut self.recovery;
        recovery.phase = Phase::Open;
        recovery.dup_acks = 0;
        recovery.left_bytes = 0;
        recovery.forced = false;
        recovery.rescued = false;
        recovery.timed_out = None;
        if let Some(spared) = recovery.spared.take() {
            self.congestion.resume(spared.window);
        }
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

    /// Finds what is lost by what the ACK has told, and begins fast recovery if anything is (RFC 6675 §5 step (4), RFC 6582 §3.2
    /// step 2, RFC 8985 §6.2 step 5).
    fn find_losses(&mut self, now: Instant, sack: bool) {
        if self.flight_size() == 0 || self.is_probing_timeout() {
            return;
        }
        let smss = self.congestion.smss();
        let enough = self.recovery.dup_acks >= DUP_THRESH;
        if self.recovery.by_time {
            self.find_overdue(now);
        } else if sack {
            let calm = !self.is_recovering() && self.is_calmed();
            if let Some(edge) = self.flight.overtaken_before(smss).filter(|_| !calm) {
                self.flight.lose_originals_before(edge);
            }
            if enough && !self.is_recovering() && !calm {
                self.flight.lose_front(smss);
            }
        } else if enough && !self.is_recovering() && !self.recovery.guarded {
            self.flight.lose_front(smss);
        }
        let probe = match self.path.is_searching() && self.flight.lost() > 0 {
            true => self.lose_path_probe(now),
            false => None,
        };
        if !self.is_recovering() && self.flight.lost() > 0 {
            self.enter_fast_recovery(now, sack, probe);
        } else if self.is_spared_in_vain() {
            self.cut_after_all(now);
        }
    }

    /// Whether lost segments are being repaired.
    pub(crate) fn is_recovering(&self) -> bool {
        matches!(self.recovery.phase, Phase::Fast | Phase::Timeout)
    }

    /// Bytes thought to be on the way (RFC 6675 §4, SetPipe), and without SACK the like of it.
    pub(crate) fn pipe(&self) -> u32 {
        let recovery = &self.recovery;
        match recovery.phase {
            // Limited transmit (RFC 3042, RFC 6675 §5 step 3): a new segment for each that has left.
            Phase::Open | Phase::Marked => {
                let left = recovery.left_bytes.min(2 * self.congestion.smss());
                self.flight.flying().saturating_sub(left)
            }
            // RFC 6582's inflation and deflation, from the other side.
            Phase::Fast if !recovery.by_sack => {
                self.flight_size().saturating_sub(recovery.left_bytes)
            }
            Phase::Fast | Phase::Timeout => self.flight.flying(),
        }
    }

    /// The next sequence numbers to send again that are lost for certain (RFC 6675 §4, NextSeg rule 1).
    pub(crate) fn next_lost(&mut self, now: Instant) -> Option<Hole> {
        let Some((start, end)) = self.first_to_repeat() else {
            self.recovery.forced = false;
            return None;
        };
        if !self.recovery.forced {
            // Less than a segment may be all that is missing, and no more room than that may ever come.
            let octets = (end - start).min(self.congestion.smss());
            if self.pipe() + octets > self.congestion.cwnd() {
                return None;
            }
            // What lies past a window that shrank would be thrown away (RFC 9293 §3.8.6, SHLD-15).
            let edge = self.snd_una + self.snd_wnd;
            if start.is_at_or_after(edge) || self.is_held_back(now, end - start) {
                return None;
            }
        }
        Some(Hole {
            start,
            octets: end - start,
        })
    }

    /// What is lost first, or else, where something must be sent whatever has become of it, the first in flight.
    fn first_to_repeat(&self) -> Option<(SeqNumber, SeqNumber)> {
        let first = self.flight_size().min(self.congestion.smss());
        let front = (self.snd_una, self.snd_una + first);
        let forced = self.recovery.forced && first > 0;
        self.flight.first_lost().or(forced.then_some(front))
    }

    /// With nothing lost for certain and nothing new to send: rules 3 and 4 of RFC 6675 §4, which finding losses by time leaves
    /// nothing to do for (RFC 8985 §8).
    pub(crate) fn next_perhaps_lost(&mut self, now: Instant) -> Option<Hole> {
        let recovery = &self.recovery;
        if recovery.phase != Phase::Fast
            || recovery.by_time
            || self.pipe() + self.congestion.smss() > self.congestion.cwnd()
            || self.is_held_back(now, self.congestion.smss())
        {
            return None;
        }
        let highest = self.flight.highest_arrived()?;
        if let Some((start, end)) = self.flight.first_doubtful() {
            return Some(Hole {
                start,
                octets: end - start,
            });
        }
        if self.recovery.rescued || !highest.is_before(self.snd_nxt) {
            return None;
        }
        // Rule 4: the last segment in flight, once.
        self.recovery.rescued = true;
        Some(self.last_in_flight(highest))
    }

    /// Whether pacing holds back a segment of so many octets at most.
    fn is_held_back(&mut self, now: Instant, octets: u32) -> bool {
        self.paced && !self.may_leave(now, octets.min(self.congestion.smss()))
    }

    /// The last segment in flight, as far as it lies past `from`.
    fn last_in_flight(&self, from: SeqNumber) -> Hole {
        let octets = (self.snd_nxt - from).min(self.congestion.smss());
        Hole {
            start: self.snd_nxt - octets,
            octets,
        }
    }

    /// Accounts for so many new sequence numbers that leave while losses are repaired.
    pub(crate) fn on_sent_in_recovery(&mut self, octets: u32) {
        self.recovery.reduction.on_sent(octets);
    }

    /// Accounts for so many sequence numbers of a hole that leave again.
    pub(crate) fn on_retransmitted(&mut self, now: Instant, hole: Hole, octets: u32) {
        if self.modelled {
            self.congestion.on_departure(now, self.pipe());
        }
        self.flight
            .depart_again(hole.start, hole.start + octets, now);
        self.recovery.forced = false;
        self.recovery.reduction.on_sent(octets);
        self.pacing.on_sent_again(octets);
        if let Some(doubt) = self.recovery.doubt.get_mut() {
            doubt.on_sent_again(now, octets);
        }
        if self.recovery.phase == Phase::Fast && self.awaited == Awaited::Reordering {
            self.armed_at = now;
        } else if self.recovery.phase == Phase::Fast || !self.retransmit.is_armed() {
            // RFC 6675 §6: with each that recovery sends again the timeout counts anew. Where the round trip is as long as the timeout,
            // it would end every recovery otherwise.
            self.arm_timeout(now);
        }
        self.refresh();
    }

    /// Whether the fast paths must look closer: loss is suspected or being repaired.
    pub(crate) fn refresh(&mut self) {
        self.snd_up = self.snd_up.filter(|up| up.is_after(self.snd_una));
        let recovery = &self.recovery;
        self.couples = !(recovery.phase != Phase::Open
            || recovery.dup_acks > 0
            || recovery.left_bytes > 0
            || recovery.guarded
            || recovery.forced
            || self.marks.is_pending()
            || !self.flight.is_untouched()
            || self.snd_max != self.snd_nxt
            || self.snd_up.is_some()
            || self.path.is_searching()
            || self.snd_wnd == 0);
        self.disordered = !self.couples || recovery.tail.is_out() || recovery.doubt.get().is_some();
        self.tail_probes = recovery.by_time
            && matches!(recovery.phase, Phase::Open | Phase::Marked)
            && recovery.dup_acks == 0
            && !recovery.tail.is_out()
            && self.flight.is_untouched()
            && self.snd_wnd > 0;
        debug_assert!(self.snd_una.is_at_or_before(self.snd_nxt));
        debug_assert!(self.snd_nxt.is_at_or_before(self.snd_max));
        debug_assert!(self.snd_nxt.is_at_or_before(self.snd_end));
        debug_assert_eq!(self.flight.octets(), self.flight_size());
    }
}

#[cfg(test)]
mod tests;
