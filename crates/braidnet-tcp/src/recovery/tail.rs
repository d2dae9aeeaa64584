//! A probe of the tail: TLP (RFC 8985 §7).
//!
//! Where the last segments of a flight are lost, no SACK tells of it, and a timeout would cost its time and the whole window. Two round
//! trips after the last ACK one segment more is sent, new if there is one and else the last once more; the answer tells what is missing.

use super::{Heard, Hole};
use crate::sender::{Awaited, Sender};
use crate::timers::Timer;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// A probe that is due or on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailProbe {
    /// It is to be sent.
    due: bool,
    /// `TLP.end_seq`: SND.NXT when it was sent.
    end: Option<SeqNumber>,
    /// `TLP.is_retrans`: it was sent before.
    again: Option<Again>,
}

/// Sequence numbers that a probe has sent again, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) hole: Hole,
    pub(super) at: Instant,
}

/// What a probe of the tail consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    /// So many new sequence numbers.
    New(u32),
    /// The last segment in flight.
    Again(Hole),
}

impl TailProbe {
    /// Whether one is due, or not answered yet.
    pub(crate) fn is_out(&self) -> bool {
        self.due || self.end.is_some()
    }
}

impl Sender {
    /// Whether a probe of the tail is to be sent.
    pub(crate) fn is_tail_due(&self) -> bool {
        self.recovery.tail.due
    }

    /// Whether a probe of the tail is due, or not answered yet.
    pub(crate) fn is_probing_tail(&self) -> bool {
        self.recovery.tail.is_out()
    }

    /// Whether it is time for a probe of the tail, which then is due; the timeout is awaited next. What left since the timer was set
    /// is given its time first (RFC 8985 §7.2).
    pub(super) fn is_tail_probe_due(&mut self, now: Instant) -> bool {
        let Some(last) = self.flight.last_sent() else {
            return false;
        };
        let wait = self
            .rtt
            .tail_probe(self.flight_size() > self.congestion.smss());
        let Some(wait) = wait.filter(|_| self.tail_probes && self.rtt.has_measured()) else {
            self.arm_timeout_again();
            return false;
        };
        let at = Timer::after(last, wait);
        let timeout = Timer::after(self.armed_at, self.rtt.rto());
        if timeout.is_due(now) || at.latest(timeout) == at {
            self.arm_timeout_again();
            return false;
        }
        if !at.is_due(now) {
            self.retransmit = at;
            return false;
        }
        self.recovery.tail.due = true;
        // The answer to the probe is given a round trip before a timeout.
        self.retransmit = Timer::after(now, wait).latest(timeout);
        self.awaited = Awaited::Timeout;
        true
    }

    /// The probe of the tail that is to be sent, whatever the congestion window says; asked once.
    pub(crate) fn take_tail_probe(&mut self) -> Option<Tail> {
        if !core::mem::take(&mut self.recovery.tail.due) {
            return None;
        }
        let flight_size = self.flight_size();
        if flight_size == 0 {
            self.refresh();
            return None;
        }
        let room = self.snd_wnd.saturating_sub(flight_size);
        let new = self.unsent().min(self.congestion.smss()).min(room);
        let tail = match new {
            0 => Tail::Again(self.last_in_flight(self.snd_una)),
            octets => Tail::New(octets),
        };
        Some(tail)
    }

    /// The probe has left.
    pub(crate) fn on_tail_probe_sent(&mut self, now: Instant, tail: Tail) {
        self.recovery.tail.end = Some(self.snd_nxt);
        self.rtt.on_tail_probe();
        self.recovery.tail.again = match tail {
            Tail::New(_) => None,
            Tail::Again(hole) => Some(Again { hole, at: now }),
        };
        self.refresh();
    }

    /// What an ACK says of a probe of the tail that is out (RFC 8985 §7.4.2).
    pub(super) fn end_tail_probe(&mut self, now: Instant, heard: &Heard) {
        let tail = self.recovery.tail;
        let Some(end) = tail.end.filter(|end| self.snd_una.is_at_or_after(*end)) else {
            return;
        };
        let twice = heard.duplicate.is_some_and(|block| block.right == end);
        let repeated = heard.bare && heard.moved == 0 && heard.delivery.octets == 0;
        if let Some(again) = tail.again.filter(|_| !twice && self.snd_una.is_after(end)) {
            // The probe has repaired the loss of a segment: to the window it is a loss like any other, and may be none, too.
            self.doubt_probe(again);
            self.congestion.on_loss(self.flight_size());
            self.note_cut();
        } else if tail.again.is_some() && !twice && !repeated {
            return;
        }
        self.recovery.tail = TailProbe::default();
        self.refresh();
        self.rearm(now);
    }
}
