//! The sending half: the window, what is in flight, when it is sent again (RFC 9293 §3.8, RFC 5681, RFC 6298).
//!
//! It knows ranges of sequence numbers and times, never bytes. Two invariants keep it from stalling silently, provided
//! that the caller polls until nothing comes any more: while something is in flight the timer is armed, and while
//! something waits with nothing in flight, either it is sent or the timer is armed to probe.

mod leaving;

use crate::config::Config;
use crate::congestion::{Acked, Arrived, Congestion, Echo};
use crate::flight::{Delivery, Flight};
use crate::pacing::Pacing;
use crate::path::Path;
use crate::recovery::Recovery;
use crate::recovery::mark::Marks;
use crate::rtt::Rtt;
use crate::timers::Timer;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

pub(crate) struct Sender {
    /// Oldest sequence number not acknowledged.
    pub(crate) snd_una: SeqNumber,
    /// Next sequence number to send.
    pub(crate) snd_nxt: SeqNumber,
    /// One past the highest sequence number ever sent: above `snd_nxt` while a zero-window probe is out.
    pub(crate) snd_max: SeqNumber,
    /// One past the last sequence number there is to send, the FIN's included.
    pub(crate) snd_end: SeqNumber,
    /// Sequence number of the first byte in the caller's queue.
    pub(crate) queue_front: SeqNumber,
    /// SND.WND: what the peer can take from `snd_una` on.
    pub(crate) snd_wnd: u32,
    /// Sequence number of the segment last used for a window update.
    snd_wl1: SeqNumber,
    /// ACK number of the segment last used for a window update.
    snd_wl2: SeqNumber,
    /// The largest window that the peer ever offered (RFC 9293 §3.8.6.2.1, RFC 5961 §5).
    pub(crate) max_snd_wnd: u32,
    pub(crate) snd_wind_shift: u8,
    pub(crate) nagle: bool,
    /// SND.UP: the byte after what is urgent and not acknowledged (RFC 9293 §3.8.5).
    pub(crate) snd_up: Option<SeqNumber>,
    /// The FIN is the last of what there is to send.
    pub(crate) fin_queued: bool,
    /// The application is gone: once it has closed, too, nobody waits for what is still to be sent.
    pub(crate) abandoned: bool,
    /// Something other than plain sliding goes on; see [`Sender::refresh`].
    pub(crate) disordered: bool,
    /// Nothing that is in flight is in doubt: what follows leaves in trains, though the answer to a probe of the tail, or to what was sent again before, may be awaited.
    pub(crate) couples: bool,
    /// When last polled, the congestion window was what held us back.
    pub(crate) cwnd_limited: bool,
    /// A model of the path decides what may leave: it hears of every ACK.
    pub(crate) modelled: bool,
    /// What leaves is spread over time.
    pub(crate) paced: bool,
    /// Whoever sends waits for what has not left yet ([`Config::not_sent_low_water`]).
    pub(crate) has_low_water: bool,
    /// What may leave at once as far as that is concerned, when last asked.
    pacing_room: u32,
    pub(crate) pacing: Pacing,
    /// The persist timer has expired: probe.
    pub(crate) probe_due: bool,
    /// Retransmission timer while something is in flight, else the timer for zero-window probes.
    pub(crate) retransmit: Timer,
    /// What it is set for.
    pub(crate) awaited: Awaited,
    /// From when on a timeout counts (RFC 6298 §5).
    pub(crate) armed_at: Instant,
    /// The timer may be set for a probe of the tail first.
    pub(crate) tail_probes: bool,
    pub(crate) congestion: Congestion,
    pub(crate) rtt: Rtt,
    /// What is acknowledged beyond it measures a round trip: one in each.
    measured_to: SeqNumber,
    /// When our SYN left, if it left once.
    handshake_sent: Option<Instant>,
    last_sent: Instant,
    /// Timeouts and probes since the peer last showed that it lives.
    pub(crate) unanswered: u8,
    /// Probes sent since the window closed.
    pub(crate) probes: u8,
    pub(crate) recovery: Recovery,
    pub(crate) marks: Marks,
    pub(crate) flight: Flight,
    pub(crate) path: Path,
    send_buffer_bytes: u32,
    send_buffer_max_bytes: u32,
    pub(crate) iss: SeqNumber,
}

/// What the retransmission timer is set for (RFC 8985 §8: one timer has all three modes).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// A timeout, or a probe of a closed window.
    Timeout,
    /// A probe of the tail.
    TailProbe,
    /// What may have been overtaken only.
    Reordering,
}

impl Sender {
    pub(crate) fn new(config: &Config, iss: SeqNumber, mss: u16) -> Sender {
        let congestion = Congestion::new(config, u32::from(mss).max(1));
        let modelled = congestion.is_model();
        Sender {
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_end: iss + 1,
            queue_front: iss + 1,
            snd_wnd: 0,
            snd_wl1: SeqNumber::default(),
            snd_wl2: SeqNumber::default(),
            max_snd_wnd: 0,
            snd_wind_shift: 0,
            nagle: config.nagle,
            snd_up: None,
            fin_queued: false,
            abandoned: false,
            disordered: false,
            couples: true,
            cwnd_limited: modelled,
            modelled,
            paced: config.pacing || modelled,
            has_low_water: config.not_sent_low_water > 0,
            pacing_room: u32::MAX,
            pacing: Pacing::new(config),
            probe_due: false,
            retransmit: Timer::OFF,
            awaited: Awaited::Timeout,
            armed_at: Instant::ZERO,
            tail_probes: false,
            congestion,
            rtt: Rtt::new(config),
            measured_to: iss,
            handshake_sent: None,
            last_sent: Instant::ZERO,
            unanswered: 0,
            probes: 0,
            recovery: Recovery::new(config),
            marks: Marks::default(),
            flight: Flight::new(iss + 1, config.flight_pieces, config.reassembly_reserve),
            path: Path::new(config),
            send_buffer_bytes: config.send_buffer_bytes,
            send_buffer_max_bytes: config.send_buffer_max_bytes,
            iss,
        }
    }

    /// The window grows and shrinks by the rule that `config` names. Before anything is sent only.
    pub(crate) fn set_congestion(&mut self, config: &Config) {
        self.congestion = Congestion::new(config, self.congestion.smss());
        self.modelled = self.congestion.is_model();
        self.cwnd_limited = self.modelled;
        self.paced = config.pacing || self.modelled;
    }

    /// Sequence numbers in flight: sent and not acknowledged (FlightSize of RFC 5681 §2).
    #[inline]
    pub(crate) fn flight_size(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// Sequence numbers that wait to be sent for the first time.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        self.snd_end - self.snd_nxt
    }

    /// One past the last byte of data.
    #[inline]
    pub(crate) fn data_end(&self) -> SeqNumber {
        self.snd_end - u32::from(self.fin_queued)
    }

    /// When data last left.
    pub(crate) fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Whether our FIN has been sent and acknowledged.
    pub(crate) fn is_fin_acked(&self) -> bool {
        self.fin_queued && self.snd_una == self.snd_end
    }

    pub(crate) fn send(&mut self, bytes: u32) {
        debug_assert!(!self.fin_queued, "no data after the FIN");
        self.snd_end += bytes;
    }

    pub(crate) fn queue_fin(&mut self) {
        debug_assert!(!self.fin_queued);
        self.fin_queued = true;
        self.snd_end += 1;
    }

    /// The send buffer is so large from now on; one that is in use only grows, for its room has been promised.
    pub(crate) fn set_buffer(&mut self, bytes: u32, in_use: bool) {
        let least = if in_use { self.send_buffer_bytes } else { 0 };
        self.send_buffer_bytes = bytes.max(least);
        self.send_buffer_max_bytes = 0;
    }

    pub(crate) fn send_buffer_bytes(&self) -> u32 {
        self.send_buffer_bytes
    }

    /// Lets the buffer follow what the path takes: by how many bytes it has grown. It holds twice what would be in flight at the rate of now
    /// were round trips the shortest: what is in flight beyond that waits on its way, and would wait longer with more.
    #[inline]
    pub(crate) fn take_growth(&mut self) -> u32 {
        let most = self.congestion.cwnd().saturating_mul(2);
        let most = most.min(self.send_buffer_max_bytes);
        if most <= self.send_buffer_bytes {
            return 0;
        }
        // In microseconds, or nearly: there is room for the product.
        let shortest = (self.rtt.shortest().max(self.rtt.granularity()) >> 10).max(1);
        let srtt = (self.rtt.srtt() >> 10).max(shortest);
        let window = 2 * u64::from(self.congestion.cwnd());
        let wanted = (window * shortest / srtt).min(u64::from(most)) as u32;
        let grown = wanted.saturating_sub(self.send_buffer_bytes);
        self.send_buffer_bytes += grown;
        grown
    }

    /// Bytes of data in the caller's queue.
    pub(crate) fn queued(&self) -> u32 {
        self.data_end() - self.queue_front
    }

    pub(crate) fn space(&self) -> u32 {
        self.send_buffer_bytes.saturating_sub(self.queued())
    }

    /// Bytes at the front of the caller's queue that are acknowledged.
    #[inline]
    pub(crate) fn acked(&self) -> u32 {
        // SND.UNA is the SYN's place before and the FIN's after the data.
        let una = self
            .snd_una
            .earliest(self.data_end())
            .latest(self.queue_front);
        una - self.queue_front
    }

    pub(crate) fn take_acked(&mut self) -> u32 {
        let acked = self.acked();
        self.queue_front += acked;
        acked
    }

    /// Whether this acknowledges our SYN, and nothing that has not been sent.
    pub(crate) fn is_of_handshake(&self, ack: SeqNumber) -> bool {
        ack.is_after(self.iss) && ack.is_at_or_before(self.snd_max)
    }

    /// Nothing is on its way.
    pub(crate) fn restart(&mut self) {
        self.flight.restart(self.snd_una);
        self.measure_anew();
        self.pacing.restart(self.snd_nxt);
    }

    /// The handshake is over: our SYN is acknowledged and the peer's window is known. What has left behind a SYN-ACK that was lost is lost as
    /// well: a client in SYN-SENT has no use for it.
    pub(crate) fn start(&mut self, now: Instant, lost_syn: bool) {
        self.snd_una = self.snd_una.latest(self.iss + 1);
        let in_flight = self.flight_size();
        if in_flight == 0 {
            self.restart();
        }
        if let Some(sent) = self.handshake_sent.take() {
            self.rtt
                .sample(now, now.nanos().saturating_sub(sent.nanos()));
        }
        if lost_syn {
            self.rtt.start_after_lost_syn();
        }
        self.unanswered = 0;
        self.retransmit = Timer::OFF;
        if in_flight > 0 {
            if lost_syn {
                self.retransmit_all(now);
            }
            self.arm_timeout(now);
        }
    }

    /// Takes SND.WND from a segment whatever came before (the handshake's).
    pub(crate) fn start_window(&mut self, seq: SeqNumber, ack: SeqNumber, window: u32) {
        self.snd_wnd = window;
        self.max_snd_wnd = self.max_snd_wnd.max(window);
        self.snd_wl1 = seq;
        self.snd_wl2 = ack;
    }

    /// Updates SND.WND unless the segment is older than the one last used (RFC 9293 §3.10.7.4, fifth check).
    #[inline]
    pub(crate) fn update_window(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        ack: SeqNumber,
        field: u16,
    ) {
        // By its ACK a segment may be newer though it repeats old text; without its window, SND.UNA would carry the right
        // edge past what the peer has announced.
        let newer = self.snd_wl2.is_before(ack)
            || self.snd_wl1.is_before(seq)
            || (self.snd_wl1 == seq && self.snd_wl2.is_at_or_before(ack));
        if !newer {
            return;
        }
        self.snd_wl1 = seq;
        self.snd_wl2 = ack;
        let window = u32::from(field) << self.snd_wind_shift;
        if window != self.snd_wnd {
            self.change_window(now, window);
        }
    }

    fn change_window(&mut self, now: Instant, window: u32) {
        let was_closed = self.snd_wnd == 0;
        self.snd_wnd = window;
        self.max_snd_wnd = self.max_snd_wnd.max(window);
        if window == 0 {
            return;
        }
        if self.flight_size() == 0 {
            // A probe's backoff means nothing for the new window: poll sends, or starts waiting anew.
            self.retransmit = Timer::OFF;
            self.probe_due = false;
            self.probes = 0;
        } else if was_closed && (self.unanswered > 0 || self.probes > 0) {
            // The peer has thrown away what the timeouts sent into its closed window.
            self.probes = 0;
            self.see_life();
            self.retransmit_all(now);
            self.arm_timeout(now);
        }
    }

    /// The peer lives though it takes nothing: its connection stays (RFC 9293 §3.8.6.1, MUST-37), unless nobody is there whose
    /// patience that could be; then only what it takes counts, and it is given up as one that is silent (RFC 6429).
    pub(crate) fn see_life(&mut self) {
        if !(self.abandoned && self.fin_queued) {
            self.unanswered = 0;
        }
    }

    /// Takes an ACK that moves SND.UNA while nothing is out of the ordinary.
    #[inline]
    pub(crate) fn slide(&mut self, now: Instant, ack: SeqNumber) {
        let bytes = ack - self.snd_una;
        self.snd_una = ack;
        let sent = self.flight.slide(ack);
        if ack.is_after(self.measured_to) {
            self.measure_plainly(now, sent);
        }
        self.unanswered = 0;
        self.probes = 0;
        if self.cwnd_limited {
            self.grow(now, bytes, sent);
        }
        self.rearm(now);
    }

    /// The window grows by what an ACK of `bytes` new ones says, the last of which had left at `sent`, if they left but once.
    #[inline]
    pub(crate) fn grow(&mut self, now: Instant, bytes: u32, sent: Option<Instant>) {
        let srtt = self.rtt.srtt();
        let acked = Acked { now, bytes, srtt };
        if self.congestion.is_slow_start() {
            self.start_slowly(acked, sent);
        } else {
            self.congestion.avoid(acked);
        }
    }

    #[inline(never)]
    fn start_slowly(&mut self, acked: Acked, sent: Option<Instant>) {
        if self.modelled {
            return self.tell_model(acked.now, acked.bytes, (sent, true));
        }
        let echo = Echo {
            rtt: sent.map(|sent| acked.now.nanos().saturating_sub(sent.nanos())),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            granularity: self.rtt.granularity(),
        };
        self.congestion.start_slowly(acked, echo);
    }

    /// Tells the model of the path that `octets` have arrived, the last of which had left at this time, and once only or not.
    pub(crate) fn tell_model(
        &mut self,
        now: Instant,
        octets: u32,
        (newest, once): (Option<Instant>, bool),
    ) {
        self.congestion.on_arrival(Arrived {
            now,
            octets,
            newest,
            once,
            pipe: self.pipe(),
            lost: self.flight.ever_lost(),
            more: self.unsent() > 0 || self.flight.lost() > 0,
        });
    }

    /// RFC 6298 §5.2 and §5.3: after an ACK of new data.
    #[inline]
    pub(crate) fn rearm(&mut self, now: Instant) {
        if self.snd_una == self.snd_nxt {
            self.retransmit = Timer::OFF;
        } else {
            self.arm(now);
        }
    }

    /// The retransmission timer runs from now, to a probe of the tail if one may go first.
    #[inline]
    pub(crate) fn arm(&mut self, now: Instant) {
        let (mut wait, mut awaited) = (self.rtt.rto(), Awaited::Timeout);
        if self.tail_probes
            && let Some(probe) = self
                .rtt
                .tail_probe(self.flight_size() > self.congestion.smss())
        {
            (wait, awaited) = (probe, Awaited::TailProbe);
        }
        self.retransmit = Timer::after(now, wait);
        self.awaited = awaited;
        self.armed_at = now;
    }

    /// Something leaves and `before` is on its way already, a segment at most. RFC 6298 §5.1: the timeout counts from the first, before
    /// which a probe timer that ran gives way. From the second on the tail can be probed sooner (RFC 8985 §7.2).
    #[inline(never)]
    fn arm_sent(&mut self, now: Instant, before: u32) {
        if self.flight_size() - before >= self.congestion.smss() {
            self.path.on_full_sent(self.snd_nxt);
        }
        if before == 0 {
            self.arm(now);
        } else if self.tail_probes
            && self.awaited == Awaited::Timeout
            && self.flight_size() > self.congestion.smss()
            && let Some(wait) = self.rtt.tail_probe(true)
            && let probe = Timer::after(now, wait)
            && probe.earliest(self.retransmit) == probe
        {
            self.retransmit = probe;
            self.awaited = Awaited::TailProbe;
        }
    }

    /// The same without such a probe.
    pub(crate) fn arm_timeout(&mut self, now: Instant) {
        self.retransmit = Timer::after(now, self.rtt.rto());
        self.awaited = Awaited::Timeout;
        self.armed_at = now;
    }

    /// The timer was set for something else meanwhile: back to the timeout, where that stood.
    pub(crate) fn arm_timeout_again(&mut self) {
        self.retransmit = Timer::after(self.armed_at, self.rtt.rto());
        self.awaited = Awaited::Timeout;
    }

    /// Takes the round trip that an ACK measures on an orderly connection, the last that it acknowledges having left at `sent`.
    #[inline(never)]
    fn measure_plainly(&mut self, now: Instant, sent: Option<Instant>) {
        self.measured_to = self.snd_nxt;
        self.path.see(self.snd_una);
        if let Some(sent) = sent {
            self.rtt
                .sample(now, now.nanos().saturating_sub(sent.nanos()));
        }
    }

    /// Takes the round trip that an ACK measures (RFC 6298 §3), once in each. `sure` if nothing was missing before what it
    /// acknowledges; `echo_age` is how many milliseconds ago we sent the timestamp that it echoes, if it echoes one.
    ///
    /// Karn's rule: what is sent again measures nothing, unless the echo shows that it is what is answered (RFC 7323 §4.1). A peer
    /// that had the segment all along, and whose acknowledgments were lost, echoes what first brought it (§4.3): that is older than
    /// what we sent last, and the age of the loss, not of a round trip.
    pub(crate) fn measure(
        &mut self,
        now: Instant,
        delivery: &Delivery,
        sure: bool,
        echo_age: Option<u32>,
    ) {
        let newest = match (delivery.newest_original, delivery.newest_again) {
            (Some(one), Some(other)) if other.is_after(one) => Some(other),
            (one, other) => one.or(other),
        };
        let Some(newest) = newest.filter(|newest| newest.end.is_after(self.measured_to)) else {
            return;
        };
        let age = now.nanos().saturating_sub(newest.at.nanos());
        self.path.see(self.snd_una);
        // What had to be sent again may have held up the ACK of all else.
        if sure && delivery.first_again.is_none() {
            self.measured_to = self.snd_nxt;
            return self.rtt.sample(now, age);
        }
        let ticks_since = now.millis().wrapping_sub(newest.at.millis()) as u32;
        if let Some(ticks) = echo_age.filter(|ticks| *ticks <= ticks_since) {
            self.measured_to = self.snd_nxt;
            let age = age.min(u64::from(ticks.max(1)) * 1_000_000);
            self.rtt.sample(now, age);
        }
    }

    /// What is acknowledged next measures a round trip, though one was measured in this flight.
    pub(crate) fn measure_anew(&mut self) {
        self.measured_to = self.snd_una;
    }

    /// Accounts for `octets` new sequence numbers from SND.NXT on, which leave now.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, octets: u32) {
        let before = self.snd_nxt - self.snd_una;
        self.snd_nxt += octets;
        if before <= self.congestion.smss() {
            self.arm_sent(now, before);
        }
        self.snd_max = self.snd_max.latest(self.snd_nxt);
        self.flight.depart(self.snd_nxt, now);
        self.last_sent = now;
        self.probe_due = false;
    }

    /// Our SYN or SYN-ACK leaves; `again` if it did before.
    pub(crate) fn on_handshake_sent(&mut self, now: Instant, again: bool) {
        self.snd_nxt = self.snd_nxt.latest(self.iss + 1);
        self.snd_max = self.snd_max.latest(self.snd_nxt);
        self.handshake_sent = (!again).then_some(now);
        // RFC 6298 §5.1: one that runs goes on, lest a peer that sends its SYN again and again keep us waiting for ever.
        if !self.retransmit.is_armed() {
            self.arm_timeout(now);
        }
    }

    /// A probe of a closed window leaves.
    pub(crate) fn on_probe_sent(&mut self) {
        self.snd_max = self.snd_max.latest(self.snd_nxt + 1);
        self.refresh();
    }
}

#[cfg(test)]
mod tests;
