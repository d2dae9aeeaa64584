//! The receiving half: what is in order, the window, when to acknowledge (RFC 9293 §3.8.6, RFC 5681 §4.2).
//!
//! It never moves the window's right edge back (RFC 9293 §3.8.6, SHLD-14), nor forward by less than what is worth it.

use crate::config::Config;
use crate::growth::Growth;
use crate::reassembly::Reassembly;
use crate::timers::{Timer, nanos};
use crate::{DropReason, Payload, Sink};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;
use braidnet_wire::time::{Duration, Instant};

/// A timestamp this old says nothing any more (RFC 7323 §5.5).
const TIMESTAMP_LIFETIME: Duration = Duration::from_secs(24 * 24 * 3600);

pub(crate) struct Receiver<P> {
    /// Next sequence number expected in order.
    pub(crate) rcv_nxt: SeqNumber,
    /// Right edge of the window as announced: RCV.NXT + RCV.WND.
    rcv_adv: SeqNumber,
    /// Last.ACK.sent of RFC 7323 §4.3.
    last_ack_sent: SeqNumber,
    /// Bytes handed up and not yet taken by the application.
    buffered: u32,
    /// Most bytes that may be announced at once: the receive buffer, or what the window field can say.
    capacity: u32,
    /// The peer's segment size, as far as seen: the longest segment, at most `mss`.
    rcv_mss: u32,
    /// The segment size that we announced, less the timestamps option.
    mss: u32,
    /// By how much a segment that leaves anyway must be able to move the window's right edge for it to move.
    least_step: u32,
    /// TS.Recent, if timestamps are in use (RFC 7323 §4.3).
    pub(crate) ts_recent: u32,
    rcv_wind_shift: u8,
    /// The next acknowledgment may not wait.
    pub(crate) ack_now: bool,
    /// ACKs that must go out without data: duplicates that the peer counts, or SACK blocks that it waits for.
    pub(crate) bare_acks: u8,
    /// What arrived once more, and is not reported yet (RFC 2883 §4); only where SACK is in use.
    pub(crate) duplicate: Option<SackBlock>,
    /// Nothing is out of order: no piece is held, no FIN is noted, and nothing urgent is to come.
    in_order: bool,
    /// The peer's FIN is in order; nothing follows it.
    pub(crate) finished: bool,
    pub(crate) delayed_ack: Timer,
    delayed_ack_ns: u64,
    /// Acknowledgments of data that still do not wait.
    quick_acks: u8,
    /// Sequence number of the peer's FIN, if it has been seen.
    fin: Option<SeqNumber>,
    pub(crate) reassembly: Reassembly<P>,
    /// RCV.UP: the byte after urgent data that is still to come (RFC 9293 §3.8.5).
    pub(crate) rcv_up: Option<SeqNumber>,
    /// Where it stood when something last arrived, counted from RCV.NXT.
    pub(crate) urgent_mark: i32,
    /// How far the buffer may grow.
    pub(crate) growth: Growth,
    ts_recent_at: Instant,
    buffer_bytes: u32,
    pub(crate) irs: SeqNumber,
}

impl<P: Payload> Receiver<P> {
    pub(crate) fn new(config: &Config, mss: u16) -> Self {
        let mut receiver = Receiver {
            rcv_nxt: SeqNumber::default(),
            rcv_adv: SeqNumber::default(),
            last_ack_sent: SeqNumber::default(),
            buffered: 0,
            capacity: config.receive_buffer_bytes.min(65535),
            rcv_mss: u32::from(mss).min(536),
            mss: u32::from(mss),
            least_step: 0,
            ts_recent: 0,
            rcv_wind_shift: 0,
            ack_now: false,
            bare_acks: 0,
            duplicate: None,
            in_order: true,
            finished: false,
            delayed_ack: Timer::OFF,
            delayed_ack_ns: nanos(config.delayed_ack),
            quick_acks: config.quick_acks,
            fin: None,
            reassembly: Reassembly::new(config.reassembly_segments, config.reassembly_reserve),
            rcv_up: None,
            urgent_mark: 0,
            growth: Growth::new(config.receive_buffer_bytes, config.receive_buffer_max_bytes),
            ts_recent_at: Instant::ZERO,
            buffer_bytes: config.receive_buffer_bytes,
            irs: SeqNumber::default(),
        };
        receiver.see_segments_of(0);
        receiver
    }

    /// The peer's SYN: its sequence number starts the stream. `window_bytes` is what our SYN has announced.
    pub(crate) fn start(&mut self, irs: SeqNumber, window_bytes: u32) {
        self.irs = irs;
        self.rcv_nxt = irs + 1;
        self.rcv_adv = self.rcv_nxt + window_bytes;
        self.last_ack_sent = self.rcv_nxt;
    }

    /// What the handshake agreed on: our window's shift, and the bytes that options take from each segment.
    pub(crate) fn agree(&mut self, shift: u8, option_bytes: u32) {
        self.rcv_wind_shift = shift;
        self.capacity = self.buffer_bytes.min(65535 << shift);
        self.mss = self.mss.saturating_sub(option_bytes).max(1);
        self.rcv_mss = self.rcv_mss.min(self.mss);
        self.see_segments_of(0);
    }

    /// We announce a segment size of `mss`. Before the handshake only.
    pub(crate) fn limit_segments(&mut self, mss: u16) {
        self.mss = u32::from(mss);
        self.rcv_mss = self.mss.min(536);
        self.see_segments_of(0);
    }

    /// The receive buffer is so large from now on; what has been announced stays announced.
    pub(crate) fn set_buffer(&mut self, bytes: u32) {
        self.growth.stop();
        self.buffer_bytes = bytes;
        self.capacity = bytes.min(65535 << self.rcv_wind_shift);
        self.see_segments_of(0);
    }

    /// The peer sends segments of `len` bytes.
    #[inline(never)]
    fn see_segments_of(&mut self, len: u32) {
        let len = len.min(self.mss);
        self.rcv_mss = self.rcv_mss.max(len);
        self.least_step = self.worthwhile(self.rcv_mss);
    }

    /// RCV.WND: what may arrive from RCV.NXT on.
    #[inline]
    pub(crate) fn rcv_wnd(&self) -> u32 {
        self.rcv_adv - self.rcv_nxt
    }

    /// Whether the fast path applies to what is in order.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// The peer's segment size, as far as seen.
    pub(crate) fn rcv_mss(&self) -> u32 {
        self.rcv_mss
    }

    /// By how much our window is shifted.
    pub(crate) fn rcv_wind_shift(&self) -> u8 {
        self.rcv_wind_shift
    }

    /// Most bytes that may be announced at once.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Bytes handed up and not yet taken.
    pub(crate) fn buffered(&self) -> u32 {
        self.buffered
    }

    /// Takes data that starts at RCV.NXT and fits the window.
    #[inline(always)]
    pub(crate) fn accept<S: Sink<P>>(&mut self, now: Instant, payload: P, sink: &mut S) {
        let len = payload.len() as u32;
        debug_assert!(len > 0 && len <= self.rcv_wnd());
        self.rcv_nxt += len;
        self.buffered += len;
        if len > self.rcv_mss {
            self.see_segments_of(payload.segment_len() as u32);
        }
        if !self.delayed_ack.is_armed() {
            self.delayed_ack = Timer::after(now, self.delayed_ack_ns);
            if self.quick_acks > 0 {
                self.quick_acks -= 1;
                self.ack_now = true;
            }
            if self.growth.goes_on && self.rcv_nxt.is_at_or_after(self.growth.round_end) {
                self.end_round(now);
            }
        }
        sink.deliver(payload);
    }

    /// Data flows from now on; the handshake took `rtt` nanoseconds, or 0 if that is not known.
    pub(crate) fn begin(&mut self, now: Instant, rtt: u64) {
        self.growth.begin(now, (self.rcv_nxt, self.rcv_adv), rtt);
    }

    /// All has come that the window held when this round began: perhaps it was too small.
    #[inline(never)]
    fn end_round(&mut self, now: Instant) {
        let limit = 65535 << self.rcv_wind_shift;
        let next = (self.rcv_nxt, self.rcv_adv);
        let sizes = (self.capacity, limit);
        let capacity = self.growth.end_round(now, next, sizes, self.buffered);
        if capacity != self.capacity {
            self.capacity = capacity;
            self.see_segments_of(0);
        }
    }

    /// Takes data that lies inside the window: in order it goes up, with what it makes whole; out of order it is kept.
    pub(crate) fn take_text<S: Sink<P>>(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        mut payload: P,
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let mut verdict = Ok(());
        if let Some(fin) = self.fin
            && (seq + payload.len() as u32).is_after(fin)
        {
            verdict = Err(DropReason::TextAfterFin);
            if seq.is_at_or_after(fin) {
                self.ack_now = true;
                return verdict;
            }
            payload.truncate((fin - seq) as usize);
        }
        if seq != self.rcv_nxt {
            self.acknowledge_disorder();
            let kept = self.reassembly.insert(seq, payload);
            self.refresh();
            return verdict.and(kept);
        }
        // A segment that fills all or part of a gap is acknowledged at once (RFC 5681 §4.2).
        if let Some(first) = self.reassembly.first() {
            self.ack_now = true;
            let end = seq + payload.len() as u32;
            if end.is_after(first) {
                if let Some(stop) = self.reassembly.give_way(end) {
                    payload.truncate((stop - seq) as usize);
                }
                verdict = Err(DropReason::Overlap);
            }
        }
        self.accept(now, payload, sink);
        while let Some(payload) = self.reassembly.take_at(self.rcv_nxt) {
            self.accept(now, payload, sink);
        }
        self.refresh();
        verdict
    }

    /// Whoever sent data past its FIN, and that data came first, has lost it: what is held there would carry RCV.NXT over the
    /// FIN, and the stream would never end (RFC 9293 §3.10.7.4, eighth check). Whether there was any.
    pub(crate) fn cut_at_fin(&mut self, fin: SeqNumber) -> bool {
        let cut = self.fin.is_none() && self.reassembly.cut(fin);
        self.refresh();
        cut
    }

    /// Notes the peer's FIN; of several the first one stands. `alone` if no data came with it.
    pub(crate) fn note_fin(&mut self, fin: SeqNumber, alone: bool) -> Result<(), DropReason> {
        let first = *self.fin.get_or_insert(fin);
        if alone && fin != self.rcv_nxt {
            self.acknowledge_disorder();
        }
        self.refresh();
        match first == fin {
            true => Ok(()),
            false => Err(DropReason::FinMoved),
        }
    }

    /// Takes the peer's FIN if everything before it is there (RFC 9293 §3.10.7.4, eighth check).
    /// Its acknowledgment [may wait](Config::fin_ack_waits) or not.
    pub(crate) fn take_fin(&mut self, now: Instant, may_wait: bool) -> bool {
        if self.finished || self.fin != Some(self.rcv_nxt) {
            return false;
        }
        self.finished = true;
        let waits = may_wait && self.rcv_nxt != self.irs + 1;
        self.rcv_nxt += 1;
        self.rcv_adv = self.rcv_adv.latest(self.rcv_nxt);
        // Whoever sent data past its FIN has lost it.
        self.reassembly.clear();
        if !waits {
            self.ack_now = true;
        } else if !self.delayed_ack.is_armed() {
            self.delayed_ack = Timer::after(now, self.delayed_ack_ns);
        }
        self.refresh();
        true
    }

    /// Something arrived that is not next: the peer waits for what we have to say (RFC 5681 §4.2). Each segment is
    /// answered by one ACK without data, which the peer may count.
    pub(crate) fn acknowledge_disorder(&mut self) {
        self.ack_now = true;
        self.bare_acks = self.bare_acks.saturating_add(1);
    }

    /// What lies there has arrived before: the peer is told, so that it learns what it sent again in vain (RFC 2883 §4).
    pub(crate) fn report_duplicate(&mut self, block: SackBlock) {
        if block.left.is_before(block.right) {
            self.duplicate = Some(block);
            self.bare_acks = self.bare_acks.max(1);
        }
    }

    /// The application took bytes.
    pub(crate) fn receive(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.buffered, "more was taken than was handed up");
        self.buffered = self.buffered.saturating_sub(bytes);
    }

    /// Whether an acknowledgment must go out now: it was asked for, two full-sized segments are unacknowledged
    /// (RFC 9293 §3.8.6.3), or the window can open by enough.
    #[inline]
    pub(crate) fn is_ack_due(&self) -> bool {
        self.ack_now
            || (self.rcv_nxt - self.last_ack_sent >= 2 * self.rcv_mss && !self.is_much_unread())
            || self.is_update_worthwhile()
    }

    /// Whether an acknowledgment had little more to say than that the window closes. Then it waits until the application has
    /// read, which is mostly at once, or for as long as any may wait.
    #[inline]
    fn is_much_unread(&self) -> bool {
        self.buffered > self.capacity / 4
    }

    /// Whether to tell the peer of a wider window on its own account: it has used up half of what it may have and would
    /// gain two segments, or the other half (RFC 9293 §3.8.6.2.2).
    #[inline]
    fn is_update_worthwhile(&self) -> bool {
        let offered = self.rcv_wnd();
        let free = self.capacity.saturating_sub(self.buffered);
        offered < self.capacity / 2 + 1
            && free.saturating_sub(offered) >= self.worthwhile(2 * self.rcv_mss)
            && !self.finished
            // That a SYN could not say all of the window is no news: the peer hears it with the first acknowledgment.
            && self.rcv_nxt != self.irs + 1
    }

    /// The least widening that the peer is told of: `bytes`, half the buffer if that is less, and what the field can say.
    #[inline]
    fn worthwhile(&self, bytes: u32) -> u32 {
        bytes
            .min(self.capacity.div_ceil(2))
            .max(1 << self.rcv_wind_shift)
    }

    /// Whether a run has left something that will have to be acknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.rcv_nxt != self.last_ack_sent
    }

    /// The window for the next segment that carries an ACK, as the field has it, which from now on is sent.
    ///
    /// The right edge moves by at least a segment or half the buffer (RFC 9293 §3.8.6.2.2).
    #[inline]
    pub(crate) fn announce(&mut self) -> u16 {
        let offered = self.rcv_wnd();
        let free = self.capacity.saturating_sub(self.buffered);
        let wide_enough = free.saturating_sub(offered) >= self.least_step;
        let window = if wide_enough { free } else { offered };
        let field = (window >> self.rcv_wind_shift).min(65535);
        if wide_enough {
            let edge = self.rcv_nxt + (field << self.rcv_wind_shift);
            self.rcv_adv = self.rcv_adv.latest(edge);
        }
        self.last_ack_sent = self.rcv_nxt;
        self.ack_now = false;
        self.delayed_ack = Timer::OFF;
        field as u16
    }

    /// The window for a SYN or SYN-ACK, whose field is never scaled (RFC 7323 §2.2).
    pub(crate) fn announce_unscaled(&mut self) -> u16 {
        let window = self.capacity.saturating_sub(self.buffered).min(65535);
        self.rcv_adv = self.rcv_adv.latest(self.rcv_nxt + window);
        self.last_ack_sent = self.rcv_nxt;
        self.ack_now = false;
        self.delayed_ack = Timer::OFF;
        window as u16
    }

    /// Takes over a timestamp that passed the check (RFC 7323 §4.3): only of a segment that covers what was last
    /// acknowledged, so that the peer measures to the earliest segment behind a delayed ACK.
    #[inline]
    pub(crate) fn take_timestamp(&mut self, now: Instant, seq: SeqNumber, ts_value: u32) {
        if seq.is_at_or_before(self.last_ack_sent) {
            self.ts_recent = ts_value;
            self.ts_recent_at = now;
        }
    }

    /// Whether a timestamp is old (RFC 7323 §5.3 R1), unless ours has outlived its meaning (§5.5).
    #[inline]
    pub(crate) fn is_timestamp_old(&self, now: Instant, ts_value: u32) -> bool {
        (ts_value.wrapping_sub(self.ts_recent) as i32) < 0
            && now.since(self.ts_recent_at) <= TIMESTAMP_LIFETIME
    }

    /// Lets go of what nobody will read.
    pub(crate) fn discard(&mut self) {
        self.reassembly.clear();
        self.refresh();
    }

    pub(crate) fn refresh(&mut self) {
        self.in_order = self.reassembly.is_empty() && self.fin.is_none() && self.rcv_up.is_none();
    }
}

#[cfg(test)]
mod tests;
