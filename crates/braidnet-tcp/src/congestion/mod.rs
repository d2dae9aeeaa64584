//! Congestion control: how much may be in flight (RFC 5681), by a rule chosen at open.
//!
//! Slow start (RFC 9406), the initial window and what timeouts do are common to all rules and stand here. What differs, growth in
//! congestion avoidance and the cut after a loss, is a [`Rule`]'s. Recovery itself, which segments are sent again and
//! when, is the sender's.
//!
//! A model of the path ([`Bbr`]) is no such rule: it hears of all that arrives and is lost, and sets window and rate by that. To it
//! nothing that stands here applies but what a timeout does.

mod bbr;
mod cubic;
mod new_reno;
#[cfg(test)]
mod path;
mod rate;
mod slow_start;
#[cfg(test)]
mod tests;

use crate::config::{Config, CongestionControl};
use crate::shelf::Shelf;
use crate::timers::nanos;
pub(crate) use bbr::Arrived;
use bbr::Bbr;
use braidnet_wire::time::Instant;
use cubic::Cubic;
use new_reno::NewReno;
pub(crate) use slow_start::Echo;
use slow_start::{Growth, SlowStart};

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

    /// Slow start follows after a pause: the next stage of congestion avoidance is another one.
    fn pause(&mut self) {}
}

#[derive(Clone, Debug)]
enum AnyRule {
    Cubic(Cubic),
    NewReno(NewReno),
    Model(Box<Bbr>),
}

impl AnyRule {
    /// The rule by which losses move the window, if that is what moves it.
    fn by_loss(&mut self) -> Option<&mut dyn Rule> {
        match self {
            AnyRule::Cubic(rule) => Some(rule),
            AnyRule::NewReno(rule) => Some(rule),
            AnyRule::Model(_) => None,
        }
    }
}

/// The congestion state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    window: Window,
    rule: AnyRule,
    slow_start: SlowStart,
    /// What both were before the last cut that may yet turn out to be in vain.
    before: Shelf<(Window, AnyRule)>,
}

impl Congestion {
    pub(crate) fn new(config: &Config, smss: u32) -> Congestion {
        let granularity = nanos(config.clock_granularity);
        let rule = match config.congestion {
            CongestionControl::Cubic => AnyRule::Cubic(Cubic::default()),
            CongestionControl::NewReno => AnyRule::NewReno(NewReno::default()),
            CongestionControl::Bbr => {
                let stamps = config.rate_stamps as usize;
                AnyRule::Model(Box::new(Bbr::new(granularity, stamps)))
            }
        };
        // A model has no use for a threshold: to the fast path it is always in slow start.
        let ssthresh = match rule {
            AnyRule::Model(_) => u32::MAX,
            _ => MAX_CWND,
        };
        let window = Window {
            cwnd: initial_window(smss),
            ssthresh,
            smss,
        };
        Congestion {
            window,
            rule,
            slow_start: SlowStart::new(),
            before: Shelf::new(config.reassembly_reserve > 0),
        }
    }

    /// The handshake is over: the segment size is known, and whether a SYN was lost or marked, which makes for an initial window
    /// of one segment (RFC 6928 §2, RFC 3168 §6.1.2).
    pub(crate) fn start(&mut self, smss: u32, careful: bool) {
        self.window.smss = smss;
        self.window.cwnd = if careful { smss } else { initial_window(smss) };
    }

    /// Full segments have so few bytes from now on. What did not fit is sent again. That is no congestion, so the window comes back to where it was
    /// in slow start; but all of it is not to leave at once (RFC 1191 §6.5), and no more than before.
    pub(crate) fn shorten(&mut self, smss: u32) {
        self.before.take();
        self.window.ssthresh = self.window.cwnd.max(2 * smss);
        self.window.cwnd = initial_window(smss).min(self.window.cwnd);
        self.window.smss = smss;
    }

    /// Full segments have so few bytes from the first on (RFC 4821 §7.2).
    pub(crate) fn restart_with(&mut self, smss: u32) {
        self.window.cwnd = match self.window.cwnd <= self.window.smss {
            true => smss,
            false => initial_window(smss),
        };
        self.window.smss = smss;
    }

    /// Full segments have so many bytes from now on. The window stays as it is: it is counted in bytes.
    pub(crate) fn resize(&mut self, smss: u32) {
        self.window.smss = smss;
        self.window.cwnd = self.window.cwnd.max(smss);
    }

    /// `cwnd` and `ssthresh` as they are; for now recovery leads back to the first.
    pub(crate) fn spare(&mut self) -> (u32, u32) {
        let window = (self.window.cwnd, self.window.ssthresh);
        if !self.is_model() {
            self.window.ssthresh = self.window.cwnd;
        }
        window
    }

    /// They are so again.
    pub(crate) fn resume(&mut self, (cwnd, ssthresh): (u32, u32)) {
        if !self.is_model() {
            (self.window.cwnd, self.window.ssthresh) = (cwnd, ssthresh);
        }
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

    /// Whether the window grows as in slow start (RFC 5681 §3.1).
    #[inline]
    pub(crate) fn is_slow_start(&self) -> bool {
        self.window.cwnd < self.window.ssthresh
    }

    /// The same of a model, which looks for what the path delivers.
    pub(crate) fn is_starting(&self) -> bool {
        match &self.rule {
            AnyRule::Model(model) => model.is_starting(),
            _ => self.is_slow_start(),
        }
    }

    /// Which rule it is.
    pub(crate) fn control(&self) -> CongestionControl {
        match &self.rule {
            AnyRule::Cubic(_) => CongestionControl::Cubic,
            AnyRule::NewReno(_) => CongestionControl::NewReno,
            AnyRule::Model(_) => CongestionControl::Bbr,
        }
    }

    /// Bytes a second that the path is thought to deliver, where a model knows.
    pub(crate) fn delivery_rate(&self) -> Option<u64> {
        match &self.rule {
            AnyRule::Model(model) => Some(model.bandwidth()).filter(|rate| *rate > 0),
            _ => None,
        }
    }

    /// Grows the window in slow start, after an ACK of new data; as [`avoid`](Congestion::avoid), only if the window was what held
    /// the sender back.
    #[inline(never)]
    pub(crate) fn start_slowly(&mut self, acked: Acked, echo: Echo) {
        let window = &mut self.window;
        // RFC 9406 §4.3: only while `ssthresh` is what it was at first. One segment per segment acknowledged, as RFC 5681 §3.1
        // means it, by bytes (RFC 3465) since one ACK may cover many; see docs/rfc-departures.md.
        let growth = match window.ssthresh {
            MAX_CWND => self.slow_start.on_ack(echo, acked.bytes),
            _ => Growth::By(acked.bytes),
        };
        match growth {
            Growth::By(bytes) => {
                let grown = window.cwnd.saturating_add(bytes).min(window.ssthresh);
                window.cwnd = grown.min(MAX_CWND);
            }
            Growth::Over => {
                window.ssthresh = window.cwnd;
                self.avoid(acked);
            }
        }
    }

    /// Grows the window in congestion avoidance, after an ACK of new data. To be called only if the window was what held the sender
    /// back (RFC 9438 §5.8): one that is not used says nothing of the path.
    #[inline]
    pub(crate) fn avoid(&mut self, acked: Acked) {
        match &mut self.rule {
            AnyRule::Cubic(rule) => rule.avoid(&mut self.window, acked),
            AnyRule::NewReno(rule) => rule.avoid(&mut self.window, acked),
            AnyRule::Model(_) => {}
        }
        self.window.cwnd = self.window.cwnd.min(MAX_CWND);
    }

    /// Fast retransmit found a loss (RFC 5681 §3.2 step 2, RFC 6675 §5 step 4.2): both variables are cut.
    pub(crate) fn on_loss(&mut self, flight_size: u32) {
        if let Some(ssthresh) = self.reduced(flight_size) {
            self.window.ssthresh = ssthresh;
            self.window.cwnd = ssthresh;
        }
    }

    /// The network has marked what it could have lost (RFC 3168 §6.1.2): the window is cut as for a loss (RFC 9438 §4.6 for CUBIC).
    pub(crate) fn on_mark(&mut self, flight_size: u32) {
        match &mut self.rule {
            AnyRule::Model(model) => model.on_mark(),
            _ => self.on_loss(flight_size),
        }
    }

    /// Whether the window is too small to be cut.
    pub(crate) fn is_least(&self) -> bool {
        !self.is_model() && self.window.cwnd <= self.window.smss
    }

    /// Nothing leaves but [by the timer](Congestion::let_go) (RFC 3168 §6.1.2: a window of one segment, and a mark).
    pub(crate) fn hold(&mut self) {
        self.window.cwnd = 0;
        self.window.ssthresh = self.window.ssthresh.min(2 * self.window.smss);
    }

    /// The timer lets a segment go.
    pub(crate) fn let_go(&mut self) {
        self.window.cwnd = self.window.cwnd.max(self.window.smss);
    }

    /// A retransmission timeout (RFC 5681 §3.1). `first` is false if the segment had been sent again by a timeout
    /// before: then `ssthresh` stays.
    pub(crate) fn on_timeout(&mut self, flight_size: u32, first: bool) {
        if let AnyRule::Model(model) = &mut self.rule {
            return model.on_timeout(&mut self.window);
        }
        if first && let Some(ssthresh) = self.reduced(flight_size) {
            self.window.ssthresh = ssthresh;
        }
        if let Some(rule) = self.rule.by_loss() {
            rule.restart();
        }
        self.window.cwnd = self.window.smss;
    }

    /// Fast recovery without SACK is over (RFC 6582 §3.2 step 3, option 1): no burst, whatever was in flight. With SACK,
    /// the window was kept to all along (RFC 6675 §5).
    pub(crate) fn on_recovered(&mut self, flight_size: u32) {
        if self.is_model() {
            return;
        }
        let smss = self.window.smss;
        let calm = flight_size.max(smss).saturating_add(smss);
        self.window.cwnd = self.window.ssthresh.min(calm);
    }

    /// Nothing was sent for longer than a retransmission timeout (RFC 5681 §4.1).
    pub(crate) fn on_idle(&mut self) {
        let initial = initial_window(self.window.smss);
        if self.window.cwnd > initial
            && let Some(rule) = self.rule.by_loss()
        {
            self.window.cwnd = initial;
            rule.pause();
        }
    }

    /// Bytes a second at which to send, where what leaves is paced: more than the window in a round trip, so that the window stays
    /// what decides. 0 where the round trip is not known.
    pub(crate) fn pacing_rate(&self, srtt: u64) -> u64 {
        if let AnyRule::Model(model) = &self.rule {
            return model.pacing_rate(&self.window, srtt);
        }
        let hundredths = match self.is_slow_start() {
            true => 200,
            false => 120,
        };
        let bytes = u128::from(self.window.cwnd) * hundredths / 100;
        let rate = (bytes * 1_000_000_000).checked_div(u128::from(srtt));
        u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Whether a model of the path decides: then it is to hear of all that [leaves](Congestion::on_departure) and
    /// [arrives](Congestion::on_arrival).
    pub(crate) fn is_model(&self) -> bool {
        matches!(self.rule, AnyRule::Model(_))
    }

    /// Something leaves now or may, with `pipe` bytes on their way.
    pub(crate) fn on_departure(&mut self, now: Instant, pipe: u32) {
        if let AnyRule::Model(model) = &mut self.rule {
            model.on_departure(now, pipe);
        }
    }

    /// Something has arrived.
    pub(crate) fn on_arrival(&mut self, arrived: Arrived) {
        if let AnyRule::Model(model) = &mut self.rule {
            model.on_ack(&mut self.window, arrived);
        }
    }

    /// Fast recovery allows so much for now (RFC 6937 §3).
    pub(crate) fn reduce_to(&mut self, bytes: u32) {
        self.window.cwnd = bytes.min(MAX_CWND);
    }

    /// Fast recovery is over: the window is where it was to go.
    pub(crate) fn end_reduction(&mut self) {
        if !self.is_model() {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// The window is about to be cut, perhaps in vain.
    pub(crate) fn remember(&mut self) {
        match &mut self.rule {
            AnyRule::Model(model) => model.remember(&self.window),
            rule => self.before.put((self.window, rule.clone())),
        }
    }

    /// Whatever the last cut was for, it was right.
    pub(crate) fn forget(&mut self) {
        self.before.take();
    }

    /// There was no loss: all is as before.
    pub(crate) fn take_back_loss(&mut self) {
        if let AnyRule::Model(model) = &mut self.rule {
            model.take_back(&mut self.window);
        }
        if let Some((window, rule)) = self.before.take() {
            self.window.ssthresh = window.ssthresh;
            self.window.cwnd = self.window.cwnd.max(window.cwnd);
            self.rule = rule;
        }
    }

    /// A timeout came too early (RFC 4015 §3.2, §3.4): with `pipe` on its way, what was just acknowledged may leave anew, an initial
    /// window of it at most, and slow start leads back to the window that was.
    pub(crate) fn take_back_timeout(&mut self, pipe: u32, acked: u32) {
        if let AnyRule::Model(model) = &mut self.rule {
            model.take_back(&mut self.window);
        }
        if let Some((window, rule)) = self.before.take() {
            let initial = initial_window(self.window.smss);
            let cwnd = pipe.saturating_add(acked.min(initial));
            self.window.ssthresh = window.ssthresh.max(window.cwnd);
            self.window.cwnd = self.window.cwnd.max(cwnd).min(MAX_CWND);
            self.rule = rule;
        }
    }

    /// The threshold that losses lead to, where they move the window.
    fn reduced(&mut self, flight_size: u32) -> Option<u32> {
        // Limited transmit's segments do not count (RFC 3042 §2), nor does a window that was not used.
        let flight_size = flight_size.min(self.window.cwnd);
        let ssthresh = self.rule.by_loss()?.reduce(&self.window, flight_size);
        Some(ssthresh.max(2 * self.window.smss))
    }
}

/// The initial window (RFC 6928 §2).
fn initial_window(smss: u32) -> u32 {
    (10 * smss).min(14600.max(2 * smss))
}
