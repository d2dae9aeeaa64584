//! A fixed mix: one connection has a stated share of all that is sent, the others the rest evenly.
//!
//! Windows alone would not keep it: whoever is served faster would send more. So nobody gets further ahead of the slowest than a
//! bound, counted in bytes of the whole mix. What a connection has sent is written by the receiver that has it and read by all:
//! relaxed, because a figure that is late only makes others wait for a moment longer.
//!
//! # Who wakes whom
//!
//! A processor whose device queue has to wait for connections of another one's may fall asleep over it. Before that it says how far
//! all must have come for a burst of its own ([`Mix::rests`]), and then looks once more whether they have. Whoever has sent looks,
//! after that, for those who said so, and wakes them when all have come that far ([`Mix::moved`]). Both put a sequentially consistent
//! fence between their write and their look, so at least one of two sees what the other wrote; and of several who send at a time, the
//! last to pass its fence sees what all have. With one queue nobody waits for another.

use crate::config::TtcpConfig;
use braidnet_sync::parker::Unparker;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// What each connection of a simulated sender may send.
pub(super) struct Mix {
    lines: Vec<Progress>,
    /// Bytes of the whole mix that one may be ahead of the slowest.
    ahead: f64,
    /// Bytes of a segment.
    unit: f64,
    /// One for each device queue where there are several, else none.
    sleepers: Vec<Sleeper>,
}

/// A device queue whose processor may sleep. On a cache line of its own.
#[repr(align(128))]
struct Sleeper {
    /// The floor that it waits for, as bits of an `f64`; [`AWAKE`] while it does not.
    floor: AtomicU64,
    unparker: Mutex<Option<Unparker>>,
}

/// No floor ever gets there.
const AWAKE: u64 = f64::INFINITY.to_bits();
/// Segments that are worth waking for.
const BURST: f64 = 16.0;

/// On a cache line of its own: one processor writes it most of the time.
#[repr(align(128))]
struct Progress {
    share: f64,
    sent: AtomicU64,
}

/// The connection that has the stated share.
pub(super) const FAVOURED: u32 = 0;

/// Segments that every connection may at least be ahead, or it could never send one.
const LEAST_AHEAD: f64 = 4.0;

impl Mix {
    /// The mix that was asked for, in segments or datagrams of `unit` bytes; `None` if each sends as much as it can.
    pub(super) fn of(config: &TtcpConfig, unit: usize) -> Option<Mix> {
        config.skew?;
        let shares = (0..config.connections).map(|number| config.share_of(number));
        let lines: Vec<Progress> = shares
            .map(|share| Progress {
                share,
                sent: AtomicU64::new(0),
            })
            .collect();
        let least = lines.iter().map(|line| line.share).fold(1.0, f64::min);
        let ahead = (LEAST_AHEAD * unit as f64 / least).max(config.window_bytes.into());
        Some(Mix {
            lines,
            ahead,
            unit: unit as f64,
            sleepers: (0..config.device_queues)
                .filter(|_| config.device_queues > 1)
                .map(|_| Sleeper {
                    floor: AtomicU64::new(AWAKE),
                    unparker: Mutex::new(None),
                })
                .collect(),
        })
    }

    /// Wakes the processor of `queue` with `unparker` from now on.
    pub(super) fn wake_with(&self, queue: usize, unparker: Unparker) {
        if let Some(sleeper) = self.sleepers.get(queue) {
            let mut slot = (sleeper.unparker.lock()).unwrap_or_else(PoisonError::into_inner);
            *slot = Some(unparker);
        }
    }

    /// Whether `queue` may sleep: none of these connections of its own, which have sent so many bytes and could send more but for the
    /// mix, may go on. It is woken when one can.
    pub(super) fn rests(&self, queue: usize, open: impl Iterator<Item = (u32, u64)>) -> bool {
        let Some(sleeper) = self.sleepers.get(queue) else {
            return true;
        };
        let enough = open.map(|(number, sent)| {
            let share = self.lines[number as usize].share;
            // No further ahead than may be waited for: all come as far as this one only if it goes on.
            let most = (self.ahead * share / self.unit / 2.0).floor();
            let bytes = BURST.min(most).max(1.0) * self.unit;
            (sent as f64 + bytes) / share - self.ahead
        });
        let wanted = enough.fold(f64::INFINITY, f64::min);
        sleeper.floor.store(wanted.to_bits(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let rests = self.floor() < wanted || wanted == f64::INFINITY;
        if !rests {
            self.wakes(queue);
        }
        rests
    }

    /// The processor of `queue` is about its work.
    #[inline]
    pub(super) fn wakes(&self, queue: usize) {
        let sleeper = self.sleepers.get(queue);
        if let Some(sleeper) =
            sleeper.filter(|sleeper| sleeper.floor.load(Ordering::Relaxed) != AWAKE)
        {
            sleeper.floor.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// Something has been sent and noted: wakes who waited for it.
    pub(super) fn moved(&self) {
        if self.sleepers.is_empty() {
            return;
        }
        fence(Ordering::SeqCst);
        for sleeper in &self.sleepers {
            let wanted = sleeper.floor.load(Ordering::Relaxed);
            if wanted != AWAKE && self.floor() >= f64::from_bits(wanted) {
                sleeper.wake(wanted);
            }
        }
    }

    /// Bytes of the whole mix that all connections have sent their share of.
    pub(super) fn floor(&self) -> f64 {
        let passed = self
            .lines
            .iter()
            .map(|line| line.sent.load(Ordering::Relaxed) as f64 / line.share);
        passed.fold(f64::INFINITY, f64::min)
    }

    /// Up to which byte of its stream a connection may send: whole segments.
    #[inline]
    pub(super) fn reach(&self, number: u32, floor: f64) -> u64 {
        let bytes = (floor + self.ahead) * self.lines[number as usize].share;
        ((bytes / self.unit).floor() * self.unit) as u64
    }

    /// Notes what a connection has sent.
    #[inline]
    pub(super) fn note(&self, number: u32, sent: u64) {
        self.lines[number as usize]
            .sent
            .store(sent, Ordering::Relaxed);
    }
}

impl Sleeper {
    /// Wakes it, once for each time that it waits.
    #[cold]
    fn wake(&self, wanted: u64) {
        let relaxed = Ordering::Relaxed;
        let first = (self.floor).compare_exchange(wanted, AWAKE, relaxed, relaxed);
        if first.is_ok() {
            let slot = (self.unparker.lock()).unwrap_or_else(PoisonError::into_inner);
            if let Some(unparker) = &*slot {
                unparker.unpark();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_sync::parker::{Parker, Wake};
    use std::time::Duration;

    /// The favoured connection is on a queue of its own, and waits for the others.
    #[test]
    fn who_sleeps_for_others_is_woken_when_they_have_sent_a_burst() {
        let config = TtcpConfig {
            connections: 3,
            processors: 2,
            device_queues: 2,
            skew: Some("0.8".parse().unwrap()),
            window_bytes: 256 << 10,
            ..TtcpConfig::default()
        };
        let unit = 4300;
        let mix = Mix::of(&config, unit).unwrap();
        let mut parker = Parker::new();
        mix.wake_with(0, parker.unparker());
        let sent = mix.reach(0, mix.floor());
        assert!(
            !mix.rests(0, [(0, 0)].into_iter()),
            "nothing sent: it may go on"
        );
        mix.note(0, sent);
        let announced = parker.announce();
        assert!(mix.rests(0, [(0, sent)].into_iter()));
        let (mut theirs, mut steps) = (0, 0);
        let others = |bytes| {
            mix.note(1, bytes);
            mix.note(2, bytes);
            mix.moved();
        };
        while mix.sleepers[0].floor.load(Ordering::Relaxed) != AWAKE {
            theirs += unit as u64;
            steps += 1;
            assert!(steps < 1000, "it sleeps for ever");
            others(theirs);
        }
        assert_eq!(announced.park_timeout(Duration::ZERO), Wake::Unparked);
        let more = mix.reach(0, mix.floor()) - sent;
        assert!(more >= 16 * unit as u64, "{more} bytes are no burst");
        // Awake, it is left alone; and with a shut window it waits for nobody.
        let announced = parker.announce();
        others(theirs + (1 << 20));
        assert!(mix.rests(0, [].into_iter()));
        others(theirs + (2 << 20));
        assert!(!announced.cancel(), "nobody has unparked it");
        let alone = TtcpConfig {
            device_queues: 1,
            ..config
        };
        assert!(Mix::of(&alone, unit).unwrap().sleepers.is_empty());
    }

    #[test]
    fn whoever_is_quicker_waits_and_the_mix_comes_out() {
        let config = TtcpConfig {
            connections: 5,
            skew: Some("0.6".parse().unwrap()),
            window_bytes: 64 << 10,
            ..TtcpConfig::default()
        };
        let unit = 4300;
        let mix = Mix::of(&config, unit).unwrap();
        let mut sent = [0; 5];
        // The favoured connection is slow: it sends one segment where the others send as many as they may.
        for _ in 0..2_000 {
            let floor = mix.floor();
            for (number, sent) in sent.iter_mut().enumerate() {
                let most = if number == 0 { 1 } else { u64::MAX };
                let left = mix.reach(number as u32, floor).saturating_sub(*sent) / unit as u64;
                *sent += left.min(most) * unit as u64;
                mix.note(number as u32, *sent);
            }
        }
        let total: u64 = sent.iter().sum();
        assert!(total > 3_000 * unit as u64, "nobody waits for ever");
        let share = sent[0] as f64 / total as f64;
        assert!((share - 0.6).abs() < 0.01, "{share}");
        assert!(
            sent[1..].iter().all(|one| *one == sent[1]),
            "the others have the same: {sent:?}"
        );
        assert!(Mix::of(&TtcpConfig::default(), unit).is_none());
    }
}
