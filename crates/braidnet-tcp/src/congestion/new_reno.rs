//! NewReno's window: one segment more per round trip, half of it after a loss (RFC 5681 §3.1).

use super::{Acked, Rule, Window};

#[derive(Clone, Debug, Default)]
pub(super) struct NewReno {
    /// Bytes acknowledged since the window last grew.
    acked_bytes: u32,
}

impl Rule for NewReno {
    /// By bytes, so that one ACK may cover many segments (RFC 5681 §3.1, RFC 3465 §2.1).
    #[inline]
    fn avoid(&mut self, window: &mut Window, acked: Acked) {
        self.acked_bytes = self.acked_bytes.saturating_add(acked.bytes);
        if self.acked_bytes >= window.cwnd {
            self.acked_bytes -= window.cwnd;
            self.acked_bytes = self.acked_bytes.min(window.cwnd);
            window.cwnd = window.cwnd.saturating_add(window.smss);
        }
    }

    fn reduce(&mut self, _window: &Window, flight_size: u32) -> u32 {
        self.acked_bytes = 0;
        flight_size / 2
    }

    fn restart(&mut self) {
        self.acked_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::time::Instant;

    #[test]
    fn one_segment_per_window_acknowledged() {
        let mut rule = NewReno::default();
        let mut window = Window {
            cwnd: 10_000,
            ssthresh: 5000,
            smss: 1000,
        };
        for (bytes, cwnd) in [
            (5000, 10_000),
            (4999, 10_000),
            (1, 11_000),
            (22_000, 12_000),
        ] {
            rule.avoid(
                &mut window,
                Acked {
                    now: Instant::ZERO,
                    bytes,
                    srtt: 0,
                },
            );
            assert_eq!(window.cwnd, cwnd);
        }
        assert_eq!(rule.reduce(&window, 8000), 4000);
    }
}
