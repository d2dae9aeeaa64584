//! Was it a loss? What was sent again though it was only late is found out, and the window comes back.
//!
//! Three ways lead there. An ACK that echoes a timestamp older than the first sending again answers the original (Eifel, RFC 3522).
//! D-SACKs that account for all that was sent again say that it arrived twice (RFC 3708 §3). And after a timeout two new segments go
//! before anything more is sent again: if what was never sent again is acknowledged then, the originals are arriving (F-RTO, RFC 5682).

use super::rack::is_older;
use super::tail::Again;
use super::{Heard, Phase};
use crate::sender::Sender;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// F-RTO's question (RFC 5682 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Probing {
    /// It is not asked, or answered: there was a loss.
    #[default]
    No,
    /// The first segment is sent again; its ACK is awaited.
    First,
    /// New segments have followed; what is acknowledged next decides.
    Second,
}

/// A cut of the window that may yet turn out to be in vain.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    /// SND.UNA when the window was cut.
    from: SeqNumber,
    /// Octets sent again since that no D-SACK has accounted for.
    again: u32,
    /// When anything was sent again first: RetransmitTS of RFC 3522 §3.2, which what is sent again later does not move.
    first: Option<Instant>,
    /// A timeout has cut the window.
    by_timeout: bool,
    probing: Probing,
    /// The recovery is over; so is the doubt once SND.UNA gets here.
    until: Option<SeqNumber>,
}

impl Doubt {
    pub(super) fn end_at(&mut self, until: SeqNumber) {
        self.until = Some(until);
        self.probing = Probing::No;
    }

    pub(super) fn on_sent_again(&mut self, now: Instant, octets: u32) {
        self.first.get_or_insert(now);
        self.again = self.again.saturating_add(octets);
    }
}

impl Sender {
    /// The window is about to be cut. What it was is remembered, if it is not cut already.
    pub(super) fn begin_doubt(&mut self, phase: Phase) {
        let by_timeout = phase == Phase::Timeout;
        let fresh = self.recovery.phase == Phase::Open;
        // RFC 5682 §2.1 step 1: only the first timeout of a segment asks, and none amid fast recovery.
        let probing = match by_timeout && fresh {
            true => Probing::First,
            false => Probing::No,
        };
        match self.recovery.doubt.get_mut() {
            Some(doubt) if !fresh => {
                doubt.by_timeout |= by_timeout;
                doubt.probing = Probing::No;
            }
            _ => {
                self.congestion.remember();
                self.recovery.doubt.put(Doubt {
                    from: self.snd_una,
                    again: 0,
                    first: None,
                    by_timeout,
                    probing,
                    until: None,
                });
            }
        }
    }

    /// The same for what a probe of the tail has sent again: a D-SACK of it may be late (RFC 8985 §7.4.2).
    pub(super) fn doubt_probe(&mut self, again: Again) {
        self.congestion.remember();
        self.recovery.doubt.put(Doubt {
            from: again.hole.start,
            again: again.hole.octets,
            first: Some(again.at),
            by_timeout: false,
            probing: Probing::No,
            until: Some(self.snd_nxt),
        });
    }

    /// Whether the answer to a timeout decides yet what is lost.
    pub(super) fn is_probing_timeout(&self) -> bool {
        let doubt = self.recovery.doubt.get();
        doubt.is_some_and(|doubt| doubt.probing == Probing::Second)
    }

    /// Whether fast retransmit without time to go by has just been found premature: not again for the same flight.
    pub(super) fn is_calmed(&self) -> bool {
        self.recovery.guarded && self.recovery.premature
    }

    /// What an ACK says of the cut in doubt.
    pub(super) fn look_for_doubt(&mut self, now: Instant, heard: &Heard) {
        let Some(doubt) = self.recovery.doubt.get_mut() else {
            return;
        };
        if heard.moved > 0
            && doubt
                .until
                .is_some_and(|until| self.snd_una.is_after(until))
        {
            self.recovery.doubt.take();
            return;
        }
        let answered = heard.moved > 0
            && heard.delivery.first_again.is_some()
            && (doubt.first).is_some_and(|first| is_older(now, heard.echo_age, first));
        if let Some(block) = heard.duplicate
            && !self.recovery.tail.is_out()
            && block.left.is_at_or_after(doubt.from)
        {
            doubt.again = doubt.again.saturating_sub(block.right - block.left);
        }
        let all_twice = doubt.first.is_some() && doubt.again == 0 && heard.duplicate.is_some();
        if answered || all_twice || self.is_timeout_disproved(heard) {
            self.undo(now, heard);
        }
    }

    /// F-RTO (RFC 5682 §2.1 and §3.1): whether what was never sent again is being acknowledged.
    fn is_timeout_disproved(&mut self, heard: &Heard) -> bool {
        let point = self.recovery.point;
        let all = self.snd_una.is_at_or_after(point);
        // What Nagle's rule or the window holds back would not be answered.
        let (new, smss) = (self.unsent(), self.congestion.smss());
        let can_leave = new >= smss || (new > 0 && (!self.nagle || self.fin_queued));
        let room = self.snd_wnd.saturating_sub(self.flight_size());
        let can_probe = can_leave && room >= new.min(smss);
        let Some(doubt) = self.recovery.doubt.get_mut() else {
            return false;
        };
        let news = heard.bare || heard.moved > 0 || heard.delivery.octets > 0;
        match doubt.probing {
            Probing::No => false,
            // The peer's data, with an acknowledgment that says nothing.
            _ if !news => false,
            Probing::First if heard.moved > 0 && !all && can_probe => {
                // Step 2b: two new segments, as if nothing were lost.
                doubt.probing = Probing::Second;
                self.flight.find_all();
                let smss = self.congestion.smss();
                self.congestion.reduce_to(self.flight.flying() + 2 * smss);
                false
            }
            // Of what was in flight at the timeout, something that left only once has arrived.
            Probing::Second
                if (heard.delivery.lowest_original)
                    .is_some_and(|end| end.is_at_or_before(point)) =>
            {
                true
            }
            Probing::First => {
                doubt.probing = Probing::No;
                false
            }
            Probing::Second => {
                // Step 3a: it was a loss. What was in flight then is sent again, from three segments on.
                doubt.probing = Probing::No;
                self.flight.lose_before(point);
                self.congestion.reduce_to(3 * self.congestion.smss());
                false
            }
        }
    }

    /// Nothing was lost: the window is what it was, and what went wrong is learnt from.
    fn undo(&mut self, now: Instant, heard: &Heard) {
        let by_timeout = self
            .recovery
            .doubt
            .take()
            .is_some_and(|doubt| doubt.by_timeout);
        self.flight.find_all();
        self.recovery.rack.see_reordering();
        if by_timeout {
            // RFC 4015 §3.2: as much leaves as has arrived, up to an initial window, and slow start leads back.
            self.congestion.take_back_timeout(self.pipe(), heard.moved);
        } else {
            self.congestion.take_back_loss();
        }
        if self.is_recovering() {
            self.recovery.point = self.snd_nxt;
            self.recovery.guarded = true;
            self.recovery.premature = true;
            self.calm_down();
        }
        self.rearm(now);
    }
}
