//! A model of the path instead of a rule for the window: how fast it delivers at most, how long it takes at least (after
//! draft-ietf-ccwg-bbr, version 3 of BBR).
//!
//! What is on its way is kept near the product of the two, so that the bottleneck is busy and its queue short; from time to time
//! more is sent to see whether the path has become faster, and less to see whether it has become shorter. Loss is taken for a sign of
//! too much only where a round trip loses more than a fiftieth; see docs/rfc-departures.md for where this is simpler than the draft.

use super::rate::{Rate, Sample};
use super::{MAX_CWND, Window, initial_window};
use crate::pacing::{bytes_in, quantum};
use braidnet_wire::time::Instant;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// Hundredths by which a rate or a window is multiplied.
type Gain = u64;
/// StartupPacingGain, DefaultCwndGain.
const STARTUP_PACE: Gain = 277;
const WINDOW: Gain = 200;
/// DrainPacingGain.
const DRAIN_PACE: Gain = 50;
/// ProbeBW's pacing gains, and the window's in its UP phase.
const DOWN_PACE: Gain = 90;
const UP_PACE: Gain = 125;
const UP_WINDOW: Gain = 225;
/// ProbeRTTCwndGain.
const PROBE_RTT_WINDOW: Gain = 50;
/// PacingMarginPercent: below the rate, so that queues drain.
const MARGIN: Gain = 99;
/// Beta: what loss leaves.
const BETA: Gain = 70;
/// Headroom: what is left of the bound to others while nothing is probed.
const HEADROOM: Gain = 85;
/// Growth that shows that the path is not full yet, and for how many rounds it may be missing.
const FULL_GROWTH: Gain = 125;
const FULL_ROUNDS: u8 = 3;
/// LossThresh: one in so many bytes.
const LOSS_THRESHOLD: u64 = 50;
/// MinPipeCwnd, in segments.
const LEAST_WINDOW: u32 = 4;
/// ProbeRTTInterval, ProbeRTTDuration, MinRTTFilterLen.
const PROBE_RTT_EVERY: u64 = 5 * SECOND;
const PROBE_RTT_LASTS: u64 = 200 * MILLISECOND;
const SHORTEST_LASTS: u64 = 10 * SECOND;
/// Between two probes for more bandwidth: 2 to 3 seconds, and no longer than Reno would take from loss to loss, up to so many rounds.
const PROBE_EVERY: u64 = 2 * SECOND;
const MOST_ROUNDS: u64 = 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Twice as fast from round to round, until it becomes no faster.
    Startup,
    /// What that has piled up drains.
    Drain,
    /// ProbeBW_DOWN: less than the path delivers.
    Down,
    /// ProbeBW_CRUISE: as much.
    Cruise,
    /// ProbeBW_REFILL: as much for a round trip, so that the next begins with a full path.
    Refill,
    /// ProbeBW_UP: more.
    Up,
    /// Little is on its way, so that no queue of ours is in what is measured.
    ProbeRtt,
}

/// What an acknowledgment tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) now: Instant,
    /// Bytes that have arrived, as was not known before.
    pub(crate) octets: u32,
    /// When the last of them to leave did so, as far as it can be told.
    pub(crate) newest: Option<Instant>,
    /// That one left once only: it measures a round trip.
    pub(crate) once: bool,
    /// Bytes on their way now.
    pub(crate) pipe: u32,
    /// Bytes ever found lost, counted round and round.
    pub(crate) lost: u32,
    /// There is something to send.
    pub(crate) more: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Bbr {
    rate: Rate,
    mode: Mode,
    /// When this mode began, and in which round.
    since: Instant,
    since_round: u64,
    /// Rounds begun, and what will have been delivered when this one ends.
    round: u64,
    round_end: u64,
    /// MaxBwFilter: the highest rates of this probing cycle and of the one before, in bytes a second.
    highest: [u64; 2],
    /// `min_rtt` in nanoseconds, `u64::MAX` before anything was measured, and when it was.
    shortest: u64,
    shortest_at: Instant,
    /// When a round trip as short as that was last seen or looked for: ProbeRTT's clock.
    looked_at: Instant,
    /// Startup: the rate to outgrow, and rounds that did not.
    full_rate: u64,
    full_rounds: u8,
    /// The path was full once.
    full: bool,
    /// Of this round: the highest rate and most bytes in one sample, bytes lost and delivered.
    latest_rate: u64,
    latest_bytes: u64,
    lost: u64,
    delivered: u64,
    /// The network has marked something in this round.
    marked: bool,
    /// `lost` of the last acknowledgment.
    lost_before: u32,
    /// What losses have shown to be too much: `inflight_longterm`; while nothing is probed, `inflight_shortterm` and `bw_shortterm`.
    most: u64,
    most_for_now: u64,
    rate_for_now: u64,
    /// Rounds in which losses still tell of the last probe.
    probed_rounds: u8,
    /// Rounds of this probe in which the bound has risen.
    risen: u32,
    /// When ProbeRTT may end, once little is on its way.
    low_until: Option<Instant>,
    /// The window before ProbeRTT or a timeout, and what losses had made of the bounds before the last.
    window_before: u32,
    bounds_before: (u64, u64, u64),
    granularity: u64,
}

impl Bbr {
    pub(super) fn new(granularity: u64, rate_stamps: usize) -> Bbr {
        Bbr {
            rate: Rate::new(rate_stamps),
            mode: Mode::Startup,
            since: Instant::ZERO,
            since_round: 0,
            round: 0,
            round_end: 0,
            highest: [0; 2],
            shortest: u64::MAX,
            shortest_at: Instant::ZERO,
            looked_at: Instant::ZERO,
            full_rate: 0,
            full_rounds: 0,
            full: false,
            latest_rate: 0,
            latest_bytes: 0,
            lost: 0,
            delivered: 0,
            marked: false,
            lost_before: 0,
            most: u64::MAX,
            most_for_now: u64::MAX,
            rate_for_now: u64::MAX,
            probed_rounds: 0,
            risen: 0,
            low_until: None,
            window_before: 0,
            bounds_before: (u64::MAX, u64::MAX, u64::MAX),
            granularity,
        }
    }

    /// Something may leave now.
    pub(super) fn on_departure(&mut self, now: Instant, pipe: u32) {
        self.rate.on_departure(now, pipe);
    }

    /// Bytes a second at which to send; `srtt` stands for what is not measured yet. 0 if nothing is known at all.
    pub(super) fn pacing_rate(&self, window: &Window, srtt: u64) -> u64 {
        let rate = match self.bandwidth() {
            0 if srtt == 0 => return 0,
            0 => window_rate(window.cwnd, srtt),
            rate if self.full => rate,
            // The first samples are of a window that was not full.
            rate => rate.max(window_rate(initial_window(window.smss), srtt.max(1))),
        };
        let gain = match self.mode {
            Mode::Startup => STARTUP_PACE,
            Mode::Drain => DRAIN_PACE,
            Mode::Down => DOWN_PACE,
            Mode::Up => UP_PACE,
            Mode::Cruise | Mode::Refill | Mode::ProbeRtt => 100,
        };
        times(times(rate, gain), MARGIN).max(1)
    }

    /// What the path delivers is still looked for.
    pub(super) fn is_starting(&self) -> bool {
        self.mode == Mode::Startup
    }

    /// Takes an acknowledgment: the model, then what follows from it.
    pub(super) fn on_ack(&mut self, window: &mut Window, arrived: Arrived) {
        let now = arrived.now;
        let least = if self.shortest == u64::MAX {
            0
        } else {
            self.shortest
        };
        let least = least.saturating_sub(self.granularity.saturating_mul(2));
        let sample = (self.rate).on_arrival(now, arrived.octets, arrived.newest, least);
        self.measure(&arrived);
        let lost = arrived.lost.wrapping_sub(self.lost_before) as i32;
        self.lost_before = arrived.lost;
        self.lost = self.lost.saturating_add_signed(lost.into());
        self.delivered += u64::from(arrived.octets);
        if let Some(sample) = sample {
            self.take(window, &arrived, sample);
        }
        self.step(window, &arrived);
        self.set_window(window, arrived.octets);
        if !arrived.more && arrived.pipe < window.cwnd {
            self.rate.on_nothing_to_send(arrived.pipe);
        }
    }

    /// A timeout: one segment goes, and the model stays (the draft's §5.6.4.4).
    pub(super) fn on_timeout(&mut self, window: &mut Window) {
        self.window_before = self.window_before.max(window.cwnd);
        window.cwnd = window.smss;
    }

    /// The network marks what it could have lost: the round is taken for one that lost too much.
    pub(super) fn on_mark(&mut self) {
        self.marked = true;
    }

    /// The bounds are about to be set by a loss, perhaps in vain.
    pub(super) fn remember(&mut self, window: &Window) {
        self.bounds_before = (self.most, self.most_for_now, self.rate_for_now);
        self.window_before = window.cwnd;
    }

    /// There was no loss.
    pub(super) fn take_back(&mut self, window: &mut Window) {
        let (most, most_for_now, rate_for_now) = self.bounds_before;
        self.most = self.most.max(most);
        self.most_for_now = self.most_for_now.max(most_for_now);
        self.rate_for_now = self.rate_for_now.max(rate_for_now);
        self.lost = 0;
        window.cwnd = window.cwnd.max(self.window_before);
    }

    /// The rate that the path is thought to deliver.
    pub(super) fn bandwidth(&self) -> u64 {
        self.highest[0].max(self.highest[1]).min(self.rate_for_now)
    }

    /// What is on its way where the path is full and its queue empty, by `gain`.
    fn inflight(&self, gain: Gain) -> u64 {
        match self.shortest {
            u64::MAX => u64::MAX,
            shortest => times(bytes_in(self.bandwidth(), shortest), gain),
        }
    }

    /// The shortest round trip.
    fn measure(&mut self, arrived: &Arrived) {
        let now = arrived.now;
        let Some(sent) = arrived.newest.filter(|_| arrived.once) else {
            return;
        };
        let rtt = now.nanos().saturating_sub(sent.nanos()).max(1);
        let old = self.shortest_at.nanos().saturating_add(SHORTEST_LASTS) < now.nanos();
        if rtt <= self.shortest {
            self.looked_at = now;
        }
        if rtt <= self.shortest || (old && self.mode == Mode::ProbeRtt) {
            (self.shortest, self.shortest_at) = (rtt, now);
        }
    }

    /// Rounds, and the highest rates.
    fn take(&mut self, window: &Window, arrived: &Arrived, sample: Sample) {
        if let Some(rate) = sample.rate {
            self.latest_rate = self.latest_rate.max(rate);
            self.latest_bytes = self.latest_bytes.max(sample.delivered);
            let known = self.highest[0].max(self.highest[1]);
            if !sample.app_limited || rate >= known {
                self.highest[0] = self.highest[0].max(rate);
            }
        }
        if sample.prior_delivered >= self.round_end {
            self.round_end = self.rate.delivered();
            self.round += 1;
            self.end_round(window, arrived, sample.app_limited);
        }
    }

    /// What a round trip has shown.
    fn end_round(&mut self, window: &Window, arrived: &Arrived, app_limited: bool) {
        // A lone loss or two say nothing, whatever share of a short flight they are.
        let lossy = core::mem::take(&mut self.marked)
            || self.lost > 2 * u64::from(window.smss)
                && self.lost.saturating_mul(LOSS_THRESHOLD)
                    > self.lost.saturating_add(self.delivered);
        if self.mode == Mode::Startup {
            self.look_whether_full(lossy, app_limited);
        } else if lossy && (matches!(self.mode, Mode::Refill | Mode::Up) || self.probed_rounds > 0)
        {
            // The draft's §5.5.10.2: what was probed was too much.
            let least = times(self.inflight(100).min(u64::from(window.cwnd)), BETA);
            self.most = self.latest_bytes.max(least);
            self.probed_rounds = 0;
            if matches!(self.mode, Mode::Refill | Mode::Up) {
                self.go_down(arrived.now);
            }
        } else if lossy {
            // §5.5.10.3: for now, what has arrived in spite of it, and not much less at once.
            let rate = self.bandwidth();
            let window = u64::from(window.cwnd).min(self.most_for_now);
            self.rate_for_now = self.latest_rate.max(times(rate, BETA));
            self.most_for_now = self.latest_bytes.max(times(window, BETA));
        }
        self.probed_rounds = self.probed_rounds.saturating_sub(1);
        let before = u64::from(arrived.pipe) + u64::from(arrived.octets);
        if self.mode == Mode::Up && before + 3 * u64::from(window.smss) >= self.most {
            // §5.3.3.6: the bound is what holds us back; it rises faster from round to round.
            let more = u64::from(window.smss) << self.risen.min(16);
            self.most = self.most.saturating_add(more);
            self.risen += 1;
        }
        (self.latest_rate, self.latest_bytes) = (0, 0);
        (self.lost, self.delivered) = (0, 0);
    }

    /// §5.3.1.2 and §5.3.1.3: three rounds without much growth, or one that loses much.
    fn look_whether_full(&mut self, lossy: bool, app_limited: bool) {
        if lossy {
            self.full = true;
            self.most = self.inflight(100).max(self.latest_bytes);
        } else if !app_limited {
            let rate = self.bandwidth();
            if rate >= times(self.full_rate, FULL_GROWTH) {
                (self.full_rate, self.full_rounds) = (rate, 0);
            } else {
                self.full_rounds += 1;
                self.full |= self.full_rounds >= FULL_ROUNDS;
            }
        }
    }

    /// Goes from mode to mode.
    fn step(&mut self, window: &mut Window, arrived: &Arrived) {
        let (now, pipe) = (arrived.now, u64::from(arrived.pipe));
        let waited = now.nanos().saturating_sub(self.since.nanos());
        let rounds = self.round - self.since_round;
        match self.mode {
            Mode::Startup if self.full => self.enter(Mode::Drain, now),
            Mode::Drain if pipe <= self.inflight(100) => self.go_down(now),
            Mode::Down | Mode::Cruise if self.is_time_to_probe(window, waited, rounds) => {
                (self.most_for_now, self.rate_for_now) = (u64::MAX, u64::MAX);
                self.enter(Mode::Refill, now);
            }
            Mode::Down if pipe <= self.inflight(100).min(times(self.most, HEADROOM)) => {
                // The time to the next probe counts from the last.
                self.mode = Mode::Cruise;
            }
            Mode::Refill if rounds > 0 => {
                self.risen = 0;
                self.enter(Mode::Up, now);
            }
            Mode::Up if waited > self.shortest && pipe > self.inflight(UP_PACE) => {
                self.probed_rounds = 2;
                self.go_down(now);
            }
            Mode::ProbeRtt => self.look_for_the_shortest(window, arrived),
            _ => {}
        }
        let stale = self.looked_at.nanos().saturating_add(PROBE_RTT_EVERY) < now.nanos();
        if stale && self.shortest != u64::MAX && self.mode != Mode::ProbeRtt {
            self.window_before = self.window_before.max(window.cwnd);
            self.low_until = None;
            self.enter(Mode::ProbeRtt, now);
        }
    }

    fn enter(&mut self, mode: Mode, now: Instant) {
        (self.mode, self.since, self.since_round) = (mode, now, self.round);
    }

    /// A probe is over: what it has found counts for this cycle and the next.
    fn go_down(&mut self, now: Instant) {
        if self.mode != Mode::Drain && self.highest[0] > 0 {
            self.highest = [0, self.highest[0]];
        }
        self.enter(Mode::Down, now);
    }

    /// §5.3.3.4: some two to three seconds after the last probe, or as many rounds as Reno would need.
    fn is_time_to_probe(&self, window: &Window, waited: u64, rounds: u64) -> bool {
        // A little different from time to time and from one to another, so that those who share a path do not probe together.
        let jitter = self.rate.delivered().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
        let segments = self.inflight(100) / u64::from(window.smss.max(1));
        waited > PROBE_EVERY + jitter.min(SECOND) || rounds >= segments.clamp(1, MOST_ROUNDS)
    }

    /// §5.3.4: little is on its way for a while.
    fn look_for_the_shortest(&mut self, window: &mut Window, arrived: &Arrived) {
        let now = arrived.now;
        match self.low_until {
            None if arrived.pipe <= self.least_window(window) => {
                let lasts = PROBE_RTT_LASTS.max(self.shortest);
                self.low_until = Some(Instant::from_nanos(now.nanos().saturating_add(lasts)));
            }
            Some(until) if now >= until => {
                self.looked_at = now;
                window.cwnd = window.cwnd.max(core::mem::take(&mut self.window_before));
                (self.most_for_now, self.rate_for_now) = (u64::MAX, u64::MAX);
                match self.full {
                    true => self.enter(Mode::Down, now),
                    false => self.enter(Mode::Startup, now),
                }
            }
            _ => {}
        }
    }

    fn least_window(&self, window: &Window) -> u32 {
        let half = u32::try_from(self.inflight(PROBE_RTT_WINDOW)).unwrap_or(MAX_CWND);
        half.max(LEAST_WINDOW * window.smss)
    }

    /// §5.6.4: towards what the model allows, by no more than what arrives.
    fn set_window(&self, window: &mut Window, octets: u32) {
        let gain = if self.mode == Mode::Up {
            UP_WINDOW
        } else {
            WINDOW
        };
        let least = LEAST_WINDOW * window.smss;
        // Three quanta: one leaves, one is under way, one is on its way back as acknowledgments.
        let trains = 3 * quantum(self.bandwidth(), window.smss, self.granularity);
        let target = self.inflight(gain).max(trains).max(least.into());
        let grown = u64::from(window.cwnd) + u64::from(octets);
        let mut cwnd = match self.full {
            true => grown.min(target),
            false if u64::from(window.cwnd) < target => grown,
            false => window.cwnd.into(),
        };
        let bound = match self.mode {
            Mode::Startup | Mode::Drain | Mode::Refill | Mode::Up => self.most,
            Mode::Down | Mode::Cruise | Mode::ProbeRtt => times(self.most, HEADROOM),
        };
        cwnd = cwnd.min(bound.min(self.most_for_now).max(least.into()));
        if self.mode == Mode::ProbeRtt {
            cwnd = cwnd.min(self.least_window(window).into());
        }
        window.cwnd = u32::try_from(cwnd).unwrap_or(MAX_CWND).min(MAX_CWND);
    }
}

/// `value` by so many hundredths.
fn times(value: u64, gain: Gain) -> u64 {
    match value {
        u64::MAX => value,
        _ => u64::try_from(u128::from(value) * u128::from(gain) / 100).unwrap_or(u64::MAX),
    }
}

/// The rate at which `bytes` are spread over a round trip.
pub(super) fn window_rate(bytes: u32, srtt: u64) -> u64 {
    let rate = u128::from(bytes) * u128::from(SECOND) / u128::from(srtt.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
