//! A fixed mix: one connection has a stated share of all that is sent, the others the rest evenly.
//!
//! Windows alone would not keep it: whoever is served faster would send more. So nobody gets further ahead of the slowest than a
//! bound, counted in bytes of the whole mix. What a connection has sent is written by the receiver that has it and read by all:
//! relaxed, because a figure that is late only makes others wait for a moment longer.

use crate::config::TtcpConfig;
use core::sync::atomic::{AtomicU64, Ordering};

/// What each connection of a simulated sender may send.
pub(super) struct Mix {
    lines: Vec<Progress>,
    /// Bytes of the whole mix that one may be ahead of the slowest.
    ahead: f64,
    /// Bytes of a segment.
    unit: f64,
}

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
        })
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

#[cfg(test)]
mod tests {
    use super::*;

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
