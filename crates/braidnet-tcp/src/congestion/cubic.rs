//! CUBIC's window: a cubic function of the time since the last loss (RFC 9438).
//!
//! The function is evaluated at most once per fraction of a round trip: between evaluations an ACK costs an addition and
//! a comparison.

use super::{Acked, Rule, Window};
use braidnet_wire::time::{Duration, Instant};

/// C, in segments per second cubed (RFC 9438 §4.1).
const C: f64 = 0.4;
/// beta_cubic (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// alpha_cubic of the Reno-friendly region (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The function is evaluated this many times per round trip, within the bounds below.
const EVALUATIONS_PER_RTT: u64 = 16;
const SHORTEST_STEP: u64 = 50_000;
const LONGEST_STEP: u64 = 10_000_000;

/// Windows are in segments, as in the RFC.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// Bytes acknowledged since the last evaluation.
    pending: u32,
    next_evaluation: Instant,
    /// When this stage of congestion avoidance began; what the window grew by is not yet known if `None`.
    epoch_start: Option<Instant>,
    /// The last evaluation, so that time in which the window was not used does not count (RFC 9438 §5.8).
    last_evaluation: Instant,
    w_max: f64,
    /// cwnd before the last loss.
    cwnd_prior: f64,
    /// The window that Reno would have (RFC 9438 §4.3).
    w_est: f64,
    /// Seconds until the function is back at `w_max`.
    k: f64,
    /// What is left of growth below one byte.
    remainder: f64,
}

impl Rule for Cubic {
    #[inline]
    fn avoid(&mut self, window: &mut Window, acked: Acked) {
        self.pending = self.pending.saturating_add(acked.bytes);
        if acked.now >= self.next_evaluation {
            self.evaluate(window, acked);
        }
    }

    /// Multiplicative decrease and fast convergence (RFC 9438 §4.6, §4.7).
    fn reduce(&mut self, window: &Window, flight_size: u32) -> u32 {
        let cwnd = segments(window.cwnd, window);
        self.w_max = if cwnd < self.w_max {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
        self.cwnd_prior = cwnd;
        self.epoch_start = None;
        self.pending = 0;
        (f64::from(flight_size) * BETA) as u32
    }

    /// RFC 9438 §4.8: the next stage starts at the window that slow start reaches, with K = 0.
    fn restart(&mut self) {
        self.epoch_start = None;
        self.w_max = 0.0;
        self.pending = 0;
    }

    /// RFC 9438 §4.2: time counts from the beginning of the stage of congestion avoidance.
    fn pause(&mut self) {
        self.epoch_start = None;
        self.pending = 0;
    }
}

impl Cubic {
    /// RFC 9438 §4.2 to §4.5, for all bytes acknowledged since it was last called.
    fn evaluate(&mut self, window: &mut Window, Acked { now, srtt, .. }: Acked) {
        let cwnd = segments(window.cwnd, window);
        let start = self.epoch(cwnd, now, srtt);
        let acked = segments(core::mem::take(&mut self.pending), window).min(cwnd);
        let step = (srtt / EVALUATIONS_PER_RTT).clamp(SHORTEST_STEP, LONGEST_STEP);
        self.next_evaluation = now + Duration::from_nanos(step);
        self.last_evaluation = now;

        let elapsed = now.since(start).as_secs_f64();
        let alpha = if self.w_est >= self.cwnd_prior {
            1.0
        } else {
            ALPHA
        };
        self.w_est += alpha * acked / cwnd;
        let grown = if self.w_cubic(elapsed) < self.w_est {
            self.w_est.max(cwnd)
        } else {
            let ahead = self.w_cubic(elapsed + srtt as f64 / 1e9);
            cwnd + (ahead.clamp(cwnd, 1.5 * cwnd) - cwnd) * acked / cwnd
        };
        let growth = (grown - cwnd) * f64::from(window.smss) + self.remainder;
        self.remainder = growth.fract();
        window.cwnd = window.cwnd.saturating_add(growth as u32);
    }

    /// When this stage began; begins one if there is none.
    fn epoch(&mut self, cwnd: f64, now: Instant, srtt: u64) -> Instant {
        let start = match self.epoch_start {
            Some(start) => {
                let unused = now.since(self.last_evaluation);
                let idle = unused > Duration::from_nanos(srtt.max(LONGEST_STEP).saturating_mul(2));
                if idle {
                    (start + unused).min(now)
                } else {
                    start
                }
            }
            None => {
                self.w_est = cwnd;
                self.remainder = 0.0;
                if cwnd < self.w_max {
                    self.k = ((self.w_max - cwnd) / C).cbrt();
                } else {
                    self.k = 0.0;
                    self.w_max = cwnd;
                }
                now
            }
        };
        self.epoch_start = Some(start);
        start
    }

    /// RFC 9438 §4.2, figure 1.
    fn w_cubic(&self, seconds: f64) -> f64 {
        C * (seconds - self.k).powi(3) + self.w_max
    }
}

fn segments(bytes: u32, window: &Window) -> f64 {
    f64::from(bytes) / f64::from(window.smss.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 100_000_000;

    /// Acknowledges a whole window per round trip, in ten pieces, for so many seconds.
    fn run(rule: &mut Cubic, window: &mut Window, from: Instant, seconds: u64) -> Instant {
        let mut now = from;
        for _ in 0..seconds * 10 {
            for _ in 0..10 {
                now += Duration::from_nanos(RTT / 10);
                let bytes = window.cwnd / 10;
                rule.avoid(
                    window,
                    Acked {
                        now,
                        bytes,
                        srtt: RTT,
                    },
                );
            }
        }
        now
    }

    #[test]
    fn concave_up_to_the_old_window_then_convex() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        let cut = rule.reduce(&window, 1_000_000);
        assert_eq!(cut, 700_000, "RFC 9438 §4.6");
        window.cwnd = cut;
        // K = cbrt(300 / 0.4) = 9.09 s.
        let mut now = Instant::from_millis(1000);
        let mut grown = Vec::new();
        for _ in 0..6 {
            let before = window.cwnd;
            now = run(&mut rule, &mut window, now, 3);
            grown.push(window.cwnd - before);
        }
        assert!(
            grown[0] > grown[1] && grown[1] > grown[2],
            "concave: {grown:?}"
        );
        assert!(
            grown[3] < grown[4] && grown[4] < grown[5],
            "convex: {grown:?}"
        );
    }

    #[test]
    fn the_old_window_is_reached_after_k_seconds() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        window.cwnd = rule.reduce(&window, 1_000_000);
        run(&mut rule, &mut window, Instant::from_millis(5), 9);
        assert!(
            (985_000..=1_010_000).contains(&window.cwnd),
            "{}",
            window.cwnd
        );
    }

    #[test]
    fn a_second_loss_below_the_old_window_gives_way() {
        let mut rule = Cubic::default();
        let window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        rule.reduce(&window, 1_000_000);
        rule.reduce(
            &Window {
                cwnd: 800_000,
                ..window
            },
            800_000,
        );
        assert!(
            (rule.w_max - 680.0).abs() < 1e-6,
            "RFC 9438 §4.7: {}",
            rule.w_max
        );
    }

    #[test]
    fn small_windows_grow_as_reno_does() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 4000,
            ssthresh: 0,
            smss: 1000,
        };
        window.cwnd = rule.reduce(&window, 4000);
        run(&mut rule, &mut window, Instant::from_millis(5), 2);
        // About alpha per round trip up to the old window, 1 beyond; K would be 1.4 s.
        assert!(window.cwnd >= 10_000, "{}", window.cwnd);
    }

    /// RFC 9438 §4.8: K is 0 and W_max the window at which congestion avoidance begins.
    #[test]
    fn after_a_timeout_growth_is_convex() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        rule.reduce(&window, 1_000_000);
        rule.restart();
        window.cwnd = 500_000;
        run(&mut rule, &mut window, Instant::from_millis(5), 1);
        assert_eq!((rule.k, rule.w_max), (0.0, 500.0));
    }

    /// RFC 9438 §4.3: alpha, until the window is what it was; then as fast as Reno.
    #[test]
    fn the_estimate_grows_slower_up_to_the_old_window() {
        for (w_est, grown) in [(10.0, ALPHA), (19.9, ALPHA), (20.0, 1.0), (30.0, 1.0)] {
            let mut window = Window {
                cwnd: 40_000,
                ssthresh: 0,
                smss: 1000,
            };
            let now = Instant::from_millis(1000);
            let mut rule = Cubic {
                pending: 40_000,
                epoch_start: Some(now),
                last_evaluation: now,
                w_max: 40.0,
                cwnd_prior: 20.0,
                w_est,
                ..Cubic::default()
            };
            let acked = Acked {
                now,
                bytes: 0,
                srtt: RTT,
            };
            rule.evaluate(&mut window, acked);
            assert!((rule.w_est - w_est - grown).abs() < 1e-9, "{w_est}");
        }
    }

    /// RFC 9438 §4.2: after a pause the function begins anew, from where slow start ends.
    #[test]
    fn a_pause_begins_another_stage() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        window.cwnd = rule.reduce(&window, 1_000_000);
        let now = run(&mut rule, &mut window, Instant::from_millis(5), 9);
        rule.pause();
        window.cwnd = 700_000;
        run(&mut rule, &mut window, now + Duration::from_secs(60), 1);
        // A second at the foot of the curve; at its top the old window would be back within three round trips.
        assert!(
            (750_000..=850_000).contains(&window.cwnd),
            "{}",
            window.cwnd
        );
    }

    #[test]
    fn time_without_use_does_not_count() {
        let mut rule = Cubic::default();
        let mut window = Window {
            cwnd: 1_000_000,
            ssthresh: 0,
            smss: 1000,
        };
        window.cwnd = rule.reduce(&window, 1_000_000);
        let now = run(&mut rule, &mut window, Instant::from_millis(5), 1);
        let before = window.cwnd;
        let later = now + Duration::from_secs(1000);
        rule.avoid(
            &mut window,
            Acked {
                now: later,
                bytes: 1000,
                srtt: RTT,
            },
        );
        assert!(
            window.cwnd - before < 1000,
            "RFC 9438 §5.8: {}",
            window.cwnd - before
        );
    }
}
