//! How fast the path delivers, as each acknowledgment measures it (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! What leaves at one time has one *stamp*, which says how much had been delivered by then. Stamps are kept here, in the order of
//! their times, and not with what is on its way: only a model-based rule wants them, and a stamp is found by the time at which what
//! is acknowledged left.

use braidnet_wire::time::Instant;
use std::collections::VecDeque;

/// The state of the connection when something left (the draft's §3.2).
#[derive(Clone, Copy, Debug)]
struct Stamp {
    /// When it left.
    sent: Instant,
    /// `P.first_sent_time`: when what was acknowledged last had left.
    first_sent: Instant,
    /// `P.delivered` and `P.delivered_time`.
    delivered: u64,
    delivered_at: Instant,
    /// `P.is_app_limited`: there was too little to send for the path to be full.
    app_limited: bool,
}

/// What an acknowledgment has measured (the draft's §3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    /// Bytes a second; `None` where the time was too short to tell.
    pub(super) rate: Option<u64>,
    /// Bytes delivered since what is acknowledged left.
    pub(super) delivered: u64,
    /// Bytes delivered before it left.
    pub(super) prior_delivered: u64,
    pub(super) app_limited: bool,
}

/// The variables of a connection (the draft's §3.1).
#[derive(Clone, Debug)]
pub(super) struct Rate {
    stamps: VecDeque<Stamp>,
    /// How many are kept. The oldest goes first, and what left then measures nothing.
    most_stamps: usize,
    /// `C.delivered`: bytes that have arrived.
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// `C.app_limited`: until so much has arrived, samples tell of the application; 0 if they do not.
    app_limited: u64,
}

impl Rate {
    /// Nothing has left yet. So many stamps are kept, one at least.
    pub(super) fn new(most_stamps: usize) -> Rate {
        Rate {
            stamps: VecDeque::new(),
            most_stamps: most_stamps.max(1),
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited: 0,
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Something may leave now, with `pipe` bytes on their way already.
    pub(super) fn on_departure(&mut self, now: Instant, pipe: u32) {
        if pipe == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        if self.stamps.back().is_some_and(|last| last.sent == now) {
            return;
        }
        if self.stamps.len() >= self.most_stamps {
            self.stamps.pop_front();
        }
        self.stamps.push_back(Stamp {
            sent: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            app_limited: self.app_limited > 0,
        });
    }

    /// There is nothing to send though there would be room, with `pipe` bytes on their way (the draft's §3.4).
    pub(super) fn on_nothing_to_send(&mut self, pipe: u32) {
        self.app_limited = (self.delivered + u64::from(pipe)).max(1);
    }

    /// `octets` have arrived, of which the last to leave did so at `newest`. A rate over less than `least` nanoseconds is none.
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        octets: u32,
        newest: Option<Instant>,
        least: u64,
    ) -> Option<Sample> {
        self.delivered += u64::from(octets);
        self.delivered_at = now;
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let newest = newest?;
        while self.stamps.front().is_some_and(|first| first.sent < newest) {
            self.stamps.pop_front();
        }
        let stamp = *self.stamps.front().filter(|first| first.sent == newest)?;
        self.first_sent = stamp.sent;
        let sending = stamp.sent.nanos().saturating_sub(stamp.first_sent.nanos());
        let arriving = now.nanos().saturating_sub(stamp.delivered_at.nanos());
        let interval = sending.max(arriving);
        let delivered = self.delivered - stamp.delivered;
        let rate = u128::from(delivered) * 1_000_000_000 / u128::from(interval.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        Some(Sample {
            rate: (interval > 0 && interval >= least).then_some(rate),
            delivered,
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    /// 1000 bytes leave each millisecond and arrive ten later, two by two.
    #[test]
    fn what_arrives_in_a_time_is_the_rate() {
        let mut rate = Rate::new(4096);
        let mut pipe = 0;
        for millis in 0..40 {
            if millis >= 10 && millis % 2 == 1 {
                let sample = rate
                    .on_arrival(at(millis), 2000, Some(at(millis - 10)), 1)
                    .unwrap();
                pipe -= 2000;
                if millis > 25 {
                    // Of ten or twelve milliseconds' worth; nothing more than was sent.
                    assert_eq!(sample.rate, Some(1_000_000), "at {millis}");
                    assert!(!sample.app_limited);
                }
            }
            rate.on_departure(at(millis), pipe);
            pipe += 1000;
        }
        assert_eq!(rate.delivered(), 30_000);
    }

    /// ACKs that come all at once after a delay do not make the path faster than what was sent (the draft's §2.2).
    #[test]
    fn squeezed_acknowledgments_are_held_against_the_sending() {
        let mut rate = Rate::new(4096);
        for millis in 0..10 {
            rate.on_departure(at(millis), 1000 * millis as u32);
        }
        rate.on_arrival(at(30), 1000, Some(at(0)), 1);
        rate.on_departure(at(30), 9000);
        rate.on_arrival(at(31), 9000, Some(at(9)), 1);
        let sample = rate.on_arrival(at(40), 1000, Some(at(30)), 1).unwrap();
        // 10,000 bytes in the 21 ms from sending the last of the ten to sending this one, not in the 10 ms between their arrivals.
        assert_eq!(sample.rate, Some(10_000 * 1000 / 30));
    }

    #[test]
    fn an_application_with_too_little_to_send_is_told_of() {
        let mut rate = Rate::new(4096);
        rate.on_departure(at(0), 0);
        rate.on_nothing_to_send(1000);
        rate.on_departure(at(1), 1000);
        let first = rate.on_arrival(at(10), 1000, Some(at(0)), 1).unwrap();
        assert!(!first.app_limited, "that was not known when it left");
        let second = rate.on_arrival(at(11), 1000, Some(at(1)), 1).unwrap();
        assert!(second.app_limited);
        rate.on_departure(at(12), 0);
        let third = rate.on_arrival(at(22), 1000, Some(at(12)), 1).unwrap();
        assert!(!third.app_limited, "what left before has arrived");
    }

    #[test]
    fn what_cannot_be_told() {
        let mut rate = Rate::new(4096);
        rate.on_departure(at(0), 0);
        assert_eq!(rate.on_arrival(at(5), 1000, None, 1), None);
        assert_eq!(
            rate.on_arrival(at(5), 1000, Some(at(3)), 1),
            None,
            "no such time"
        );
        rate.on_departure(at(6), 0);
        let sample = rate.on_arrival(at(6), 1000, Some(at(6)), 0).unwrap();
        assert_eq!(sample.rate, None, "the clock stood still");
    }

    #[test]
    fn as_many_stamps_are_kept_as_may_be() {
        for (most, kept) in [(0, 1), (1, 1), (10, 10), (4096, 4096)] {
            let mut rate = Rate::new(most);
            for millis in 0..10_000 {
                rate.on_departure(at(millis), 1);
            }
            assert_eq!(rate.stamps.len(), kept as usize);
            // What left before the oldest of them measures nothing.
            let eldest = 10_000 - kept;
            let arrives = |rate: &mut Rate, left| rate.on_arrival(at(20_000), 1, Some(at(left)), 1);
            assert_eq!(arrives(&mut rate, eldest - 1), None);
            assert!(arrives(&mut rate, eldest).is_some(), "{most}");
        }
    }
}
