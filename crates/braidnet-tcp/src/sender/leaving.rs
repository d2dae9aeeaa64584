//! What may leave: windows, Nagle's rule, silly windows, pacing (RFC 9293 §3.7.4, §3.8.6; RFC 5681 §4.1).

use super::{Awaited, Sender};
use crate::timers::Timer;
use braidnet_wire::time::Instant;

impl Sender {
    /// A restart after idling begins with the initial window (RFC 5681 §4.1).
    #[inline]
    fn start_after_idle(&mut self, now: Instant) {
        if self.snd_una == self.snd_nxt
            && now.nanos().saturating_sub(self.last_sent.nanos()) > self.rtt.rto()
        {
            self.congestion.on_idle();
        }
    }

    /// How many sequence numbers of new data may leave in one segment now; 0 if none.
    #[inline]
    pub(crate) fn allowance(&mut self, now: Instant) -> u32 {
        let unsent = self.unsent();
        self.cwnd_limited = self.modelled;
        if unsent == 0 {
            return 0;
        }
        self.start_after_idle(now);
        let smss = self.congestion.smss();
        // A FIN rides on a full last segment: it takes no room in it.
        let full = smss + u32::from(self.fin_queued && unsent == smss + 1);
        let wanted = unsent.min(full);
        let flight_size = self.flight_size();
        let in_window = self.snd_wnd.saturating_sub(flight_size);
        let octets = if wanted <= in_window {
            // Nagle (RFC 9293 §3.7.4): a small last segment of new data waits for what is in flight. A FIN pushes it, and so does urgency.
            if wanted < smss
                && self.nagle
                && flight_size != 0
                && self.snd_nxt == self.snd_max
                && !self.fin_queued
                && self.snd_up.is_none()
            {
                return 0;
            }
            wanted
        } else if in_window > 0 && (in_window >= smss || in_window >= self.max_snd_wnd / 2) {
            // RFC 9293 §3.8.6.2.1: a part, if the window is at least half of the largest seen.
            in_window
        } else {
            return 0;
        };
        let pipe = if self.disordered {
            self.pipe()
        } else {
            flight_size
        };
        if octets.min(smss) > self.congestion.cwnd().saturating_sub(pipe) {
            self.cwnd_limited = true;
            return 0;
        }
        if self.paced && !self.may_leave(now, octets.min(smss)) {
            return 0;
        }
        octets
    }

    /// Whether `octets`, a segment at most, may leave now as far as pacing is concerned.
    #[inline(never)]
    pub(crate) fn may_leave(&mut self, now: Instant, octets: u32) -> bool {
        let rate = self.congestion.pacing_rate(self.rtt.srtt());
        let smss = self.congestion.smss();
        self.pacing_room = self.pacing.room(now, self.snd_nxt, rate, (octets, smss));
        // The rate is the window's: it is the window that holds us back.
        if self.pacing_room < octets {
            self.cwnd_limited = true;
            return false;
        }
        if self.modelled {
            self.congestion.on_departure(now, self.pipe());
        }
        true
    }

    /// Sequence numbers for which there is room in both windows, while nothing is out of order.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        let window = self.snd_wnd.min(self.congestion.cwnd());
        window
            .saturating_sub(self.flight_size())
            .min(self.pacing_room)
    }

    /// Whether data waits, nothing is in flight and no timer runs: the window is closed, or too silly to use.
    #[inline]
    pub(crate) fn must_persist(&self) -> bool {
        self.snd_una == self.snd_nxt && self.snd_end != self.snd_nxt && !self.retransmit.is_armed()
    }

    /// Waits for the window to open, to probe at last (RFC 9293 §3.8.6.1, and the override timeout of §3.8.6.2.1).
    pub(crate) fn persist(&mut self, now: Instant) {
        self.retransmit = Timer::after(now, self.rtt.rto_doubled(self.probes));
        self.awaited = Awaited::Timeout;
    }
}
