//! Losses found by time: RACK (RFC 8985 §6).
//!
//! What left before something that has arrived is lost once it is overdue by a window for reordering. The window is a quarter of the
//! shortest round trip; it grows where that was too short, as D-SACKs show, and is none at all as long as nothing was ever reordered
//! and three segments have overtaken.
//!
//! A clock that moves in steps sees no difference in time between what left in one step, and may see none between leaving and arriving.
//! Two times that it gives may be a step apart though what they stand for is not: whoever waits at all waits for a step at least.

use super::Heard;
use crate::flight::{DUP_THRESH, Departed};
use crate::rtt::Rtt;
use crate::sender::{Awaited, Sender};
use crate::timers::Timer;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// Recoveries without a D-SACK after which the window is what it was at first (RFC 8985 §6.2 step 4).
const PERSISTENCE: u8 = 16;

/// The variables of RFC 8985 §5.3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// `RACK.xmit_ts` and `RACK.end_seq`: of what has arrived, the segment that left last.
    newest: Option<Departed>,
    /// `RACK.rtt`: how long it took, in nanoseconds.
    rtt: u64,
    /// `RACK.fack`: one past the highest sequence number that has arrived.
    highest: Option<SeqNumber>,
    /// `RACK.reordering_seen`.
    reordering_seen: bool,
    /// `RACK.reo_wnd_mult`: quarters of the shortest round trip.
    quarters: u8,
    /// `RACK.reo_wnd_persist`.
    persistence: u8,
    /// `RACK.dsack_round`: until SND.UNA gets there, D-SACKs have been counted.
    round: Option<SeqNumber>,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            newest: None,
            rtt: 0,
            highest: None,
            reordering_seen: false,
            quarters: 1,
            persistence: PERSISTENCE,
            round: None,
        }
    }
}

impl Rack {
    /// Something has arrived later than what was sent after it, or was sent again though it had arrived.
    pub(crate) fn see_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// A recovery is over.
    pub(crate) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// Steps 2 and 3: what left last of all that has arrived, and whether anything has arrived late.
    fn on_delivery(
        &mut self,
        now: Instant,
        heard: &Heard,
        flight: (SeqNumber, SeqNumber),
        rtt: &Rtt,
    ) {
        let delivery = &heard.delivery;
        // What lies outside of what was in flight is of long ago, however the numbers compare.
        self.highest = self.highest.filter(|highest| is_within(*highest, flight));
        if let Some(departed) = delivery.newest_original {
            self.see(now, departed);
        }
        if let Some(departed) = delivery.newest_again
            && !is_older(now, heard.echo_age, departed.at)
            && now.nanos().saturating_sub(departed.at.nanos()) >= rtt.shortest()
        {
            self.see(now, departed);
        }
        if let (Some(lowest), Some(highest)) = (delivery.lowest_original, self.highest) {
            self.reordering_seen |= lowest.is_before(highest);
        }
        if let Some(end) = delivery.highest {
            self.highest = Some(self.highest.map_or(end, |highest| highest.latest(end)));
        }
    }

    fn see(&mut self, now: Instant, departed: Departed) {
        self.rtt = now.nanos().saturating_sub(departed.at.nanos());
        if self.newest.is_none_or(|newest| departed.is_after(newest)) {
            self.newest = Some(departed);
        }
    }

    /// Step 4, the D-SACK's part: once in a round trip, the window grows.
    fn on_duplicate_report(&mut self, una: SeqNumber, snd_nxt: SeqNumber) {
        let flight = (una, snd_nxt);
        let counted = (self.round).is_some_and(|round| round != una && is_within(round, flight));
        if !counted {
            self.round = Some(snd_nxt);
            self.quarters = self.quarters.saturating_add(1);
            self.persistence = PERSISTENCE;
        }
    }

    /// Step 4: how long what is overdue may still be on its way, in nanoseconds. `overtaken`: DupThresh segments have arrived above
    /// something that has not, or losses are being repaired.
    fn patience(&self, rtt: &Rtt, overtaken: bool) -> u64 {
        if !self.reordering_seen && overtaken {
            return 0;
        }
        let window = rtt.shortest().saturating_mul(u64::from(self.quarters)) / 4;
        window.min(rtt.srtt()).max(rtt.granularity())
    }
}

/// Whether `seq` lies between these two, or at either.
fn is_within(seq: SeqNumber, (from, to): (SeqNumber, SeqNumber)) -> bool {
    seq - from <= to - from
}

/// Whether an echo is that of a timestamp sent before `at` (RFC 3522 §3.2).
pub(super) fn is_older(now: Instant, echo_age: Option<u32>, at: Instant) -> bool {
    let ticks_since = now.millis().wrapping_sub(at.millis()) as u32;
    echo_age.is_some_and(|ticks| ticks > ticks_since)
}

impl Sender {
    /// What an ACK says of the time that segments take.
    pub(super) fn look_at_time(&mut self, now: Instant, heard: &Heard) {
        if !self.recovery.by_time {
            return;
        }
        let flight = (self.snd_una - heard.moved, self.snd_nxt);
        self.recovery
            .rack
            .on_delivery(now, heard, flight, &self.rtt);
        if heard.duplicate.is_some() && !self.recovery.tail.is_out() {
            let (una, snd_nxt) = (self.snd_una, self.snd_nxt);
            self.recovery.rack.on_duplicate_report(una, snd_nxt);
        }
    }

    /// Step 5: marks as lost what is overdue, and waits for what is nearly.
    pub(super) fn find_overdue(&mut self, now: Instant) {
        let Some(newest) = self.recovery.rack.newest else {
            return;
        };
        let within = self.overdue_after();
        let overdue = self.flight.lose_overdue(now, newest, within);
        if let Some(sent) = overdue.sent_again {
            self.on_lost_again(now, sent);
        }
        if let Some(wait) = overdue.wait
            && let at = Timer::after(now, wait)
            && self.snd_wnd > 0
            && (self.awaited != Awaited::Timeout || at.earliest(self.retransmit) == at)
        {
            self.retransmit = at;
            self.awaited = Awaited::Reordering;
        } else if self.awaited == Awaited::Reordering {
            self.arm_timeout_again();
        }
    }

    /// After how long what has not arrived is lost, in nanoseconds, if something that left later has.
    fn overdue_after(&self) -> u64 {
        let (recovery, flight) = (&self.recovery, &self.flight);
        let overtaken = self.is_recovering()
            || recovery.dup_acks >= DUP_THRESH
            || flight.overtaken_before(self.congestion.smss()).is_some();
        let patience = recovery.rack.patience(&self.rtt, overtaken);
        // While all goes in order, nobody looks at the time that each segment takes.
        let took = recovery.rack.newest.map(|_| recovery.rack.rtt);
        took.unwrap_or(self.rtt.srtt()).saturating_add(patience)
    }

    /// What was waited for has not arrived.
    pub(super) fn on_reordering_time(&mut self, now: Instant) {
        if !self.retransmit.is_due(now) {
            return;
        }
        self.arm_timeout_again();
        self.find_losses(now, true);
        self.refresh();
    }

    /// At a timeout: what left long enough ago is lost, all of it where losses are not found by time (RFC 8985 §6.3).
    pub(super) fn lose_old(&mut self, now: Instant) {
        match self.recovery.by_time {
            true => self.flight.lose_older(now, self.overdue_after()),
            false => self.flight.lose_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::flight::Delivery;

    #[test]
    fn half_the_numbers_later_nothing_is_reordered() {
        let start = SeqNumber::new(1000);
        for (ahead, expected) in [(1000, true), (1 << 31, false), (u32::MAX - 5000, false)] {
            let mut rack = Rack {
                highest: Some(start),
                ..Rack::default()
            };
            // In flight when the ACK came: from 2000 before what arrives to 2000 after it.
            let lowest = match expected {
                true => start - ahead,
                false => start + ahead + 1,
            };
            let heard = Heard {
                moved: 0,
                bare: true,
                delivery: Delivery {
                    lowest_original: Some(lowest),
                    highest: Some(lowest),
                    ..Delivery::default()
                },
                duplicate: None,
                echo_age: None,
            };
            let flight = (lowest - 2000, lowest + 2000);
            rack.on_delivery(Instant::ZERO, &heard, flight, &Rtt::new(&Config::default()));
            assert_eq!(rack.reordering_seen, expected, "{ahead}");
        }
    }
}
