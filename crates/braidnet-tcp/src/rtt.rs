//! Round-trip times and the retransmission timeout (RFC 6298).

use crate::config::Config;
use crate::timers::nanos;
use braidnet_wire::time::{Duration, Instant};

/// SRTT, RTTVAR and RTO, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// RTO, backed off if timeouts have come since the last measurement.
    rto: u64,
    /// SRTT; 0 before the first measurement.
    srtt: u64,
    rttvar: u64,
    min_rto: u64,
    max_rto: u64,
    granularity: u64,
    /// The shortest round trips of this period and of the one before; `u64::MAX` where there was none.
    shortest: [u64; 2],
    /// When this period began.
    period: Instant,
    /// How long after the last ACK the tail is probed (RFC 8985 §7.2), with one segment in flight and with more; [`NEVER`] where the
    /// timeout comes first.
    tail_probe: [u64; 2],
    /// Something was measured since the tail was last probed.
    measured: bool,
}

/// The shortest round trip is that of the last one or two such periods (RFC 8985 §6.2, step 1).
const PERIOD: Duration = Duration::from_secs(150);
/// What a peer may take for the acknowledgment of a lone segment (RFC 8985 §7.2, `TLP.max_ack_delay`).
const MAX_ACK_DELAY: u64 = 200_000_000;
/// No probe of the tail goes sooner: a peer's processor may be busy for so long.
const LEAST_PROBE: u64 = 2_000_000;
/// The tail is not probed.
const NEVER: u64 = u64::MAX;

/// RTO after a lost SYN once data flows (RFC 6298 §5.7).
const RTO_AFTER_LOST_SYN: u64 = 3_000_000_000;

impl Rtt {
    pub(crate) fn new(config: &Config) -> Rtt {
        // A bound of at least 1 ms keeps timers from firing at once; the upper bound lies no lower than the lower one.
        let min_rto = nanos(config.min_rto).max(1_000_000);
        let max_rto = nanos(config.max_rto).max(min_rto);
        let granularity = nanos(config.clock_granularity);
        Rtt {
            rto: nanos(config.initial_rto).clamp(min_rto, max_rto),
            srtt: 0,
            rttvar: 0,
            min_rto,
            max_rto,
            granularity,
            shortest: [u64::MAX; 2],
            period: Instant::ZERO,
            tail_probe: [NEVER; 2],
            measured: false,
        }
    }

    /// Takes a measurement (RFC 6298 §2.2 and §2.3) and forgets the backoff (§5). A clock too coarse to see the round
    /// trip measures 0, which counts as 1 ns.
    pub(crate) fn sample(&mut self, now: Instant, rtt: u64) {
        let rtt = rtt.min(self.max_rto).max(1);
        self.measured = true;
        self.note_shortest(now, rtt);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|, then SRTT <- 7/8 SRTT + 1/8 R'.
            self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(rtt) / 4;
            self.srtt = (self.srtt - self.srtt / 8 + rtt / 8).max(1);
        }
        self.settle();
    }

    /// RTO, and when the tail is probed, by what is known now.
    fn settle(&mut self) {
        let variance = self.rttvar.saturating_mul(4).max(self.granularity);
        // `new` has seen to it that the bounds are in order.
        let rto = self.srtt.saturating_add(variance);
        self.rto = rto.max(self.min_rto).min(self.max_rto);
        // A clock that moves in steps may see two round trips a step apart.
        let longer = self.srtt.max(self.granularity);
        let two = longer.saturating_mul(2).max(LEAST_PROBE);
        let before = |probe: u64| if probe < self.rto { probe } else { NEVER };
        self.tail_probe = [before(two.saturating_add(MAX_ACK_DELAY)), before(two)];
    }

    fn note_shortest(&mut self, now: Instant, rtt: u64) {
        if now.since(self.period) >= PERIOD {
            self.shortest = [u64::MAX, self.shortest[0]];
            self.period = now;
        }
        self.shortest[0] = self.shortest[0].min(rtt);
    }

    /// The shortest round trip of late, in nanoseconds; 0 before the first measurement.
    pub(crate) fn shortest(&self) -> u64 {
        let shortest = self.shortest[0].min(self.shortest[1]);
        if shortest == u64::MAX { 0 } else { shortest }
    }

    /// What the clock cannot tell apart, in nanoseconds.
    pub(crate) fn granularity(&self) -> u64 {
        self.granularity
    }

    /// How long after the last ACK the tail is probed, with one segment in flight or with more; `None` where the timeout comes first.
    #[inline]
    pub(crate) fn tail_probe(&self, several: bool) -> Option<u64> {
        let probe = self.tail_probe[usize::from(several)];
        (probe != NEVER).then_some(probe)
    }

    /// The tail is probed: not again before something is measured (RFC 8985 §7.3), lest probes keep the timeout from learning.
    pub(crate) fn on_tail_probe(&mut self) {
        self.measured = false;
    }

    /// Whether something was measured since.
    pub(crate) fn has_measured(&self) -> bool {
        self.measured
    }

    /// Doubles the timeout (RFC 6298 §5.5).
    pub(crate) fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(self.max_rto);
    }

    /// The SYN was lost and the handshake measured nothing: start data with a careful timeout (RFC 6298 §5.7).
    pub(crate) fn start_after_lost_syn(&mut self) {
        if self.srtt == 0 {
            self.rto = RTO_AFTER_LOST_SYN.clamp(self.min_rto, self.max_rto);
        }
    }

    /// The timeout now, in nanoseconds.
    #[inline]
    pub(crate) fn rto(&self) -> u64 {
        self.rto
    }

    /// The timeout doubled `times` times more, for probes that have a backoff of their own.
    pub(crate) fn rto_doubled(&self, times: u8) -> u64 {
        let factor = 1u64.checked_shl(u32::from(times)).unwrap_or(u64::MAX);
        self.rto.saturating_mul(factor).min(self.max_rto)
    }

    /// The smoothed round-trip time in nanoseconds; 0 before the first measurement.
    #[inline]
    pub(crate) fn srtt(&self) -> u64 {
        self.srtt
    }

    /// RTTVAR in nanoseconds.
    pub(crate) fn rttvar(&self) -> u64 {
        self.rttvar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rtt() -> Rtt {
        Rtt::new(&Config {
            min_rto: Duration::from_millis(1),
            ..Config::default()
        })
    }

    #[test]
    fn first_and_second_measurement() {
        let mut rtt = rtt();
        assert_eq!(rtt.rto(), 1000 * MS, "RFC 6298 §2.1");
        rtt.sample(Instant::ZERO, 100 * MS);
        assert_eq!(
            (rtt.srtt, rtt.rttvar, rtt.rto),
            (100 * MS, 50 * MS, 300 * MS),
            "§2.2"
        );
        rtt.sample(Instant::ZERO, 180 * MS);
        // RTTVAR = 3/4 * 50 + 1/4 * 80, with the old SRTT; SRTT = 7/8 * 100 + 1/8 * 180.
        assert_eq!((rtt.srtt, rtt.rttvar), (110 * MS, 57_500_000), "§2.3");
        assert_eq!(rtt.rto, 340 * MS);
    }

    #[test]
    fn backoff_doubles_up_to_the_bound_and_ends_with_a_measurement() {
        let mut rtt = rtt();
        rtt.sample(Instant::ZERO, 100 * MS);
        for expected in [600, 1200, 2400, 4800, 9600, 19200, 38400, 60000, 60000] {
            rtt.back_off();
            assert_eq!(rtt.rto(), expected * MS, "RFC 6298 §5.5, §2.5");
        }
        rtt.sample(Instant::ZERO, 100 * MS);
        assert!(rtt.rto() < 300 * MS, "RFC 6298 §5");
        assert_eq!(rtt.rto_doubled(200), 60_000 * MS);
    }

    #[test]
    fn bounds_hold_for_any_measurement() {
        let mut rtt = Rtt::new(&Config::default());
        for sample in [0, 0, 1, u64::MAX, 0, 7 * MS, u64::MAX, u64::MAX] {
            rtt.sample(Instant::ZERO, sample);
            assert!(
                (200 * MS..=60_000 * MS).contains(&rtt.rto()),
                "after {sample}"
            );
            assert!(rtt.srtt() > 0);
        }
    }

    #[test]
    fn a_round_trip_that_never_varies_leaves_the_granularity() {
        let mut rtt = Rtt::new(&Config {
            min_rto: Duration::from_millis(1),
            clock_granularity: Duration::from_millis(5),
            ..Config::default()
        });
        for _ in 0..200 {
            rtt.sample(Instant::ZERO, 100 * MS);
        }
        assert_eq!(rtt.rto(), 105 * MS, "RFC 6298 §4");
    }

    #[test]
    fn the_shortest_round_trip_is_that_of_late() {
        let mut rtt = rtt();
        for (seconds, sample, shortest) in [
            (0, 30, 30),
            (1, 10, 10),
            (149, 50, 10),
            (151, 50, 10),
            (299, 40, 10),
            (301, 60, 40),
        ] {
            rtt.sample(Instant::from_millis(1000 * seconds), sample * MS);
            assert_eq!(rtt.shortest(), shortest * MS, "after {seconds} s");
        }
    }

    #[test]
    fn a_lost_syn_counts_until_something_is_measured() {
        let mut rtt = rtt();
        rtt.start_after_lost_syn();
        assert_eq!(rtt.rto(), 3000 * MS);
        rtt.sample(Instant::ZERO, 10 * MS);
        rtt.start_after_lost_syn();
        assert_eq!(rtt.rto(), 30 * MS);
    }
}
