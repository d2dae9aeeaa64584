//! Congestion control: how much may be in flight (RFC 5681), by a rule chosen at open.
//!
//! Slow start, the initial window and what timeouts do are common to all rules and stand here. What differs, growth in
//! congestion avoidance and the cut after a loss, is a [`Rule`]'s. Recovery itself, which segments are sent again and
//! when, is the sender's.

mod cubic;
mod new_reno;

use crate::config::CongestionControl;
use braidnet_wire::time::Instant;
use cubic::Cubic;
use new_reno::NewReno;

/// Congestion windows end here: beyond any window that can be announced.
const MAX_CWND: u32 = 1 << 30;

/// The variables of RFC 5681 §2, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) smss: u32,
}

/// An acknowledgment of new data while the window was in full use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Instant,
    pub(crate) bytes: u32,
    /// Smoothed round-trip time in nanoseconds, 0 if unknown.
    pub(crate) srtt: u64,
}

/// What one congestion control does its own way.
trait Rule {
    /// Grows `cwnd` in congestion avoidance.
    fn avoid(&mut self, window: &mut Window, acked: Acked);

    /// The new `ssthresh` after a loss found with `flight_size` bytes in flight.
    fn reduce(&mut self, window: &Window, flight_size: u32) -> u32;

    /// A timeout: what was known of the path is void.
    fn restart(&mut self);
}

#[derive(Clone, Debug)]
enum AnyRule {
    Cubic(Cubic),
    NewReno(NewReno),
}

impl AnyRule {
    fn get(&mut self) -> &mut dyn Rule {
        match self {
            AnyRule::Cubic(rule) => rule,
            AnyRule::NewReno(rule) => rule,
        }
    }
}

/// The congestion state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    window: Window,
    rule: AnyRule,
    /// What both were before the last cut that may yet turn out to be in vain.
    before: Option<(Window, AnyRule)>,
}

impl Congestion {
    pub(crate) fn new(control: CongestionControl, smss: u32) -> Congestion {
        let window = Window {
            cwnd: initial_window(smss),
            ssthresh: MAX_CWND,
            smss,
        };
        let rule = match control {
            CongestionControl::Cubic => AnyRule::Cubic(Cubic::default()),
            CongestionControl::NewReno => AnyRule::NewReno(NewReno::default()),
        };
        Congestion {
            window,
            rule,
            before: None,
        }
    }

    /// The handshake is over: the segment size is known, and whether a SYN was lost, which makes for an initial window
    /// of one segment (RFC 6928 §2).
    pub(crate) fn start(&mut self, smss: u32, lost_syn: bool) {
        self.window.smss = smss;
        self.window.cwnd = if lost_syn { smss } else { initial_window(smss) };
    }

    #[inline]
    pub(crate) fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    #[inline]
    pub(crate) fn smss(&self) -> u32 {
        self.window.smss
    }

    pub(crate) fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    /// Grows the window after an ACK of new data. To be called only if the window was what held the sender back
    /// (RFC 9438 §5.8): one that is not used says nothing of the path.
    #[inline]
    pub(crate) fn on_ack(&mut self, acked: Acked) {
        let window = &mut self.window;
        if window.cwnd < window.ssthresh {
            // One segment per segment acknowledged, as RFC 5681 §3.1 means it, by bytes (RFC 3465) since one ACK may
            // cover many; see docs/rfc-departures.md.
            let grown = window.cwnd.saturating_add(acked.bytes).min(window.ssthresh);
            window.cwnd = grown.min(MAX_CWND);
        } else {
            self.avoid(acked);
        }
    }

    fn avoid(&mut self, acked: Acked) {
        match &mut self.rule {
            AnyRule::Cubic(rule) => rule.avoid(&mut self.window, acked),
            AnyRule::NewReno(rule) => rule.avoid(&mut self.window, acked),
        }
        self.window.cwnd = self.window.cwnd.min(MAX_CWND);
    }

    /// Fast retransmit found a loss (RFC 5681 §3.2 step 2, RFC 6675 §5 step 4.2): both variables are cut.
    pub(crate) fn on_loss(&mut self, flight_size: u32) {
        self.window.ssthresh = self.reduced(flight_size);
        self.window.cwnd = self.window.ssthresh;
    }

    /// A retransmission timeout (RFC 5681 §3.1). `first` is false if the segment had been sent again by a timeout
    /// before: then `ssthresh` stays.
    pub(crate) fn on_timeout(&mut self, flight_size: u32, first: bool) {
        if first {
            self.window.ssthresh = self.reduced(flight_size);
        }
        self.rule.get().restart();
        self.window.cwnd = self.window.smss;
    }

    /// Fast recovery without SACK is over (RFC 6582 §3.2 step 3, option 1): no burst, whatever was in flight. With SACK,
    /// the window was kept to all along (RFC 6675 §5).
    pub(crate) fn on_recovered(&mut self, flight_size: u32) {
        let smss = self.window.smss;
        let calm = flight_size.max(smss).saturating_add(smss);
        self.window.cwnd = self.window.ssthresh.min(calm);
    }

    /// Nothing was sent for longer than a retransmission timeout (RFC 5681 §4.1).
    pub(crate) fn on_idle(&mut self) {
        self.window.cwnd = self.window.cwnd.min(initial_window(self.window.smss));
    }

    /// Fast recovery allows so much for now (RFC 6937 §3).
    pub(crate) fn reduce_to(&mut self, bytes: u32) {
        self.window.cwnd = bytes.min(MAX_CWND);
    }

    /// Fast recovery is over: the window is where it was to go.
    pub(crate) fn end_reduction(&mut self) {
        self.window.cwnd = self.window.ssthresh;
    }

    /// The window is about to be cut, perhaps in vain.
    pub(crate) fn remember(&mut self) {
        self.before = Some((self.window, self.rule.clone()));
    }

    /// There was no loss: all is as before.
    pub(crate) fn take_back_loss(&mut self) {
        if let Some((window, rule)) = self.before.take() {
            self.window.ssthresh = window.ssthresh;
            self.window.cwnd = self.window.cwnd.max(window.cwnd);
            self.rule = rule;
        }
    }

    /// A timeout came too early (RFC 4015 §3.2, §3.4): with `pipe` on its way, what was just acknowledged may leave anew, an initial
    /// window of it at most, and slow start leads back to the window that was.
    pub(crate) fn take_back_timeout(&mut self, pipe: u32, acked: u32) {
        if let Some((window, rule)) = self.before.take() {
            let initial = initial_window(self.window.smss);
            let cwnd = pipe.saturating_add(acked.min(initial));
            self.window.ssthresh = window.ssthresh.max(window.cwnd);
            self.window.cwnd = self.window.cwnd.max(cwnd).min(MAX_CWND);
            self.rule = rule;
        }
    }

    fn reduced(&mut self, flight_size: u32) -> u32 {
        // Limited transmit's segments do not count (RFC 3042 §2), nor does a window that was not used.
        let flight_size = flight_size.min(self.window.cwnd);
        let ssthresh = self.rule.get().reduce(&self.window, flight_size);
        ssthresh.max(2 * self.window.smss)
    }
}

/// The initial window (RFC 6928 §2).
fn initial_window(smss: u32) -> u32 {
    (10 * smss).min(14600.max(2 * smss))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(bytes: u32) -> Acked {
        Acked {
            now: Instant::ZERO,
            bytes,
            srtt: 1_000_000,
        }
    }

    #[test]
    fn initial_windows() {
        for (smss, window) in [
            (536, 5360),
            (1448, 14480),
            (1460, 14600),
            (4312, 14600),
            (8960, 17920),
        ] {
            assert_eq!(initial_window(smss), window, "RFC 6928 §2, {smss}");
        }
        let mut congestion = Congestion::new(CongestionControl::Cubic, 536);
        congestion.start(1000, true);
        assert_eq!(congestion.cwnd(), 1000, "a SYN was lost");
    }

    #[test]
    fn every_rule_keeps_its_bounds() {
        for control in CongestionControl::ALL {
            let mut congestion = Congestion::new(control, 1000);
            congestion.on_ack(acked(1000));
            assert_eq!(
                congestion.cwnd(),
                11000,
                "{control}: slow start, RFC 5681 §3.1"
            );
            congestion.on_loss(20000);
            assert!(
                (5500..=7700).contains(&congestion.cwnd()),
                "{control}: cut from cwnd, not more"
            );
            assert_eq!(congestion.cwnd(), congestion.ssthresh());
            congestion.on_loss(1);
            assert_eq!(
                congestion.ssthresh(),
                2000,
                "{control}: never below two segments"
            );
            congestion.on_timeout(1000, true);
            assert_eq!(
                (congestion.cwnd(), congestion.ssthresh()),
                (1000, 2000),
                "{control}"
            );
            for _ in 0..100_000 {
                congestion.on_ack(acked(1 << 29));
            }
            assert!(congestion.cwnd() <= MAX_CWND, "{control}");
        }
    }

    #[test]
    fn ssthresh_stays_when_the_same_segment_times_out_again() {
        let mut congestion = Congestion::new(CongestionControl::NewReno, 1000);
        congestion.on_timeout(10000, true);
        congestion.on_timeout(1000, false);
        assert_eq!(
            (congestion.cwnd(), congestion.ssthresh()),
            (1000, 5000),
            "RFC 5681 §3.1"
        );
    }

    #[test]
    fn leaving_recovery_and_idling_allow_no_burst() {
        let mut congestion = Congestion::new(CongestionControl::NewReno, 1000);
        congestion.on_loss(10000);
        congestion.on_recovered(1000);
        assert_eq!(congestion.cwnd(), 2000, "RFC 6582 §3.2 step 3");
        congestion.on_ack(acked(60000));
        congestion.window.cwnd = 50000;
        congestion.on_idle();
        assert_eq!(congestion.cwnd(), 10000, "RFC 5681 §4.1");
    }
}
