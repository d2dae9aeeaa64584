//! Buffers that grow with the path, so that a long one is filled and a short one holds no memory for it.
//!
//! The *receive buffer* doubles where it is what holds the peer back: a whole window came within two of the shortest round trips that
//! were seen, and the application keeps up. A peer that its congestion window holds back takes longer. How far all connections of a stack
//! grow together is bounded by an [`Allowance`]. The *send buffer* grows to twice what the path holds: what is in flight, and as
//! much to follow it, by the congestion window where round trips are the shortest. Where they take longer, some of the window only waits on its way: that
//! part of it does not count, for a larger buffer would only leave the processor's cache.

use crate::Allowance;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// How far a receive buffer may grow, and what is known of the time that a window takes.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Rounds are looked at: the handshake is over, and it may grow yet.
    pub(crate) goes_on: bool,
    /// Where the round ends that goes on: the window's right edge when it began.
    pub(crate) round_end: SeqNumber,
    /// Where and when it began.
    round_begin: SeqNumber,
    round_start: Instant,
    /// The shortest round trip so far, in nanoseconds.
    shortest: u64,
    /// Most bytes that the buffer may have, or 0 if it stays as it is.
    most_bytes: u32,
    allowance: Option<Arc<Allowance>>,
    /// What is taken of the allowance.
    taken: usize,
}

impl Growth {
    /// From `bytes` to `most_bytes`.
    pub(crate) fn new(bytes: u32, most_bytes: u32) -> Growth {
        Growth {
            goes_on: false,
            round_end: SeqNumber::default(),
            round_begin: SeqNumber::default(),
            round_start: Instant::ZERO,
            shortest: u64::MAX,
            most_bytes: if most_bytes > bytes { most_bytes } else { 0 },
            allowance: None,
            taken: 0,
        }
    }

    /// Grows only as far as `allowance` goes, which others share.
    pub(crate) fn share(&mut self, allowance: &Arc<Allowance>) {
        self.allowance = Some(Arc::clone(allowance));
    }

    /// The buffer stays as it is.
    pub(crate) fn stop(&mut self) {
        (self.goes_on, self.most_bytes) = (false, 0);
    }

    /// The first round begins, after the handshake: what came with a SYN says nothing of the time that a window takes. The handshake took `rtt` nanoseconds, or 0 if that is not known.
    pub(crate) fn begin(&mut self, now: Instant, (from, to): (SeqNumber, SeqNumber), rtt: u64) {
        self.goes_on = self.most_bytes > 0;
        self.round_begin = from;
        self.round_end = to;
        self.round_start = now;
        if rtt > 0 {
            self.shortest = rtt;
        }
    }

    /// All has come that the window held when the round began; the next goes from RCV.NXT to the right edge. The application has not taken
    /// `unread` bytes yet. How large the buffer is from now on: `bytes` as before, or more, at most `limit`.
    pub(crate) fn end_round(
        &mut self,
        now: Instant,
        (rcv_nxt, edge): (SeqNumber, SeqNumber),
        (bytes, limit): (u32, u32),
        unread: u32,
    ) -> u32 {
        let came = rcv_nxt - self.round_begin;
        let keeps_up = unread <= came / 2 && came >= bytes / 2;
        let took = now.nanos().saturating_sub(self.round_start.nanos()).max(1);
        let held_back = took / 2 <= self.shortest;
        self.shortest = self.shortest.min(took);
        self.round_start = now;
        self.round_begin = rcv_nxt;
        self.round_end = edge;
        let most = self.most_bytes.min(limit);
        if bytes >= most {
            self.goes_on = false;
            return bytes;
        }
        let wanted = bytes.saturating_mul(2).min(most);
        match held_back && keeps_up && self.take((wanted - bytes) as usize) {
            true => wanted,
            false => bytes,
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let may = (self.allowance.as_ref()).is_none_or(|allowance| allowance.take(bytes));
        if may {
            self.taken += bytes;
        }
        may
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.give_back(self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ACK, Host, SYN, segment, thousand};
    use crate::{Config, MAX_WINDOW_BYTES};
    use braidnet_wire::tcp::TcpHeader;
    use braidnet_wire::time::Duration;

    /// A receiver whose peer is 20 ms away and knows window scaling.
    fn receiver(config: &Config) -> Host {
        let mut syn = segment(SYN, -1, 0, 0);
        syn.header.mss = 1000;
        syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_WINDOW_SCALE;
        let config = Config {
            window_scale: true,
            receive_buffer_bytes: 8000,
            ..*config
        };
        let mut host = Host::accept(&config, &syn);
        host.now += Duration::from_millis(20);
        host.arrive(&segment(ACK, 0, 0, 0));
        assert_eq!(host.sent(), []);
        host
    }

    /// The buffer after the peer has sent so many windows, each evenly over so many milliseconds.
    fn buffer_after(host: &mut Host, windows: usize, millis: u64, reads: bool) -> u32 {
        for _ in 0..windows {
            let window = host.end.tcb.status().rcv_wnd;
            for _ in 0..window / 1000 {
                host.now += Duration::from_micros(millis * 1_000_000 / u64::from(window));
                let start = host.end.received.len() as i32;
                host.arrive(&segment(ACK, start, 0, 1000));
                if reads {
                    host.end.take(usize::MAX);
                }
                host.sent();
            }
        }
        host.end.tcb.receiver.capacity()
    }

    #[test]
    fn a_window_that_holds_the_peer_back_grows() {
        let config = Config {
            receive_buffer_max_bytes: 50_000,
            ..Host::plain()
        };
        let mut host = receiver(&config);
        assert_eq!(buffer_after(&mut host, 2, 20, true), 16_000);
        assert_eq!(buffer_after(&mut host, 10, 20, true), 50_000);
    }

    #[test]
    fn one_that_does_not_stays() {
        let config = Config {
            receive_buffer_max_bytes: 50_000,
            ..Host::plain()
        };
        // The peer takes two round trips and a half for a window.
        let mut slow = receiver(&config);
        assert_eq!(buffer_after(&mut slow, 10, 50, true), 8000);
        let mut unread = receiver(&config);
        assert_eq!(buffer_after(&mut unread, 1, 20, false), 8000);
        let mut fixed = receiver(&Host::plain());
        assert_eq!(buffer_after(&mut fixed, 10, 20, true), 8000);
    }

    #[test]
    fn all_connections_grow_within_one_allowance_and_give_it_back() {
        let allowance = Arc::new(Allowance::new(30_000));
        let config = Config {
            receive_buffer_max_bytes: MAX_WINDOW_BYTES,
            ..Host::plain()
        };
        let mut one = receiver(&config);
        one.end.tcb.share_growth(&allowance);
        assert_eq!(buffer_after(&mut one, 10, 20, true), 32_000);
        let mut two = receiver(&config);
        two.end.tcb.share_growth(&allowance);
        assert!(allowance.take_refusals() > 0, "it would have gone on");
        assert_eq!(buffer_after(&mut two, 10, 20, true), 8000);
        assert!(allowance.take_refusals() > 0);
        assert_eq!(allowance.used_bytes(), 24_000);
        drop(one);
        assert_eq!(allowance.used_bytes(), 0);
        assert_eq!(buffer_after(&mut two, 10, 20, true), 32_000);
    }

    #[test]
    fn the_send_buffer_is_twice_the_congestion_window() {
        let mut host = thousand(&Config {
            send_buffer_bytes: 15_000,
            send_buffer_max_bytes: 30_000,
            ..Host::plain()
        });
        host.end.send(&[0; 15_000]);
        assert_eq!((host.sent().len(), host.end.tcb.send_space()), (10, 0));
        host.arrive(&segment(ACK, 0, 10_000, 0));
        assert_eq!(
            host.end.tcb.take_send_growth(),
            15_000,
            "the window has grown to 20,000"
        );
        assert_eq!(host.end.tcb.take_send_growth(), 0);
        assert_eq!(host.end.tcb.send_space(), 25_000);
    }

    /// The handshake takes 20 ms, and the window that follows as long, or longer: smoothed, round trips take 1, 1.25, 2 and 3.375 times the shortest.
    #[test]
    fn what_waits_on_its_way_does_not_make_the_send_buffer_grow() {
        let config = Config {
            send_buffer_bytes: 15_000,
            send_buffer_max_bytes: 30_000,
            ..Host::plain()
        };
        for (wait, grown) in [(20, 15_000), (60, 15_000), (180, 5_000), (400, 0)] {
            let mut host = receiver(&config);
            host.end.send(&[0; 15_000]);
            assert_eq!(host.sent().len(), 10, "the congestion window");
            host.now += Duration::from_millis(wait);
            host.arrive(&segment(ACK, 0, 10_000, 0));
            assert_eq!(host.end.tcb.take_send_growth(), grown, "{wait} ms");
        }
    }
}
