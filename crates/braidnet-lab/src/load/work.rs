//! A module that does a stated amount of order-free work for every message: what a cipher or a codec would do, without being one.

use crate::content::mix;
use braidnet_message::{Message, Run};
use braidnet_stream::{Context, Counter, Direction, Module, Stages};
use braidnet_sync::clock::Clock;
use core::hint::black_box;
use std::time::Duration;

/// The module on top of whatever receives. It looks at a word of every cache line of a message and then goes on mixing what it
/// has found, so many steps for every byte: a pure function over the message that costs processor time as real work does, and
/// does not look at a clock. How many steps fill the time that was asked for is found out once, before the measurement.
///
/// What comes up is a record or a datagram, which is one message, or a piece of a stream, which is worth as much of the work as it has
/// bytes of a message.
pub(crate) struct Work {
    /// Steps for 2^20 bytes.
    steps: u64,
}

const BYTES: Counter = Counter(0);
const STEPS: Counter = Counter(1);
const HASH: Counter = Counter(2);

/// Bytes of which one word is looked at.
const LINE_BYTES: usize = 64;
/// The most bytes that calibration looks at: what a message may have beyond is in proportion.
const CALIBRATED_BYTES: usize = 64 << 10;
/// Steps of one round of calibration, and rounds, the quickest of which counts: the others were disturbed.
const CALIBRATED_STEPS: u64 = 20_000;
const ROUNDS: usize = 9;

impl Work {
    /// As much for `size` bytes as fills `time` on this machine, the looking included.
    pub(crate) fn filling(time: Duration, size: usize) -> Work {
        let looked = vec![1; size.min(CALIBRATED_BYTES)];
        let look = quickest(|| look_at(0, &looked)) * size as f64 / looked.len().max(1) as f64;
        let step = quickest(|| go_on(0, CALIBRATED_STEPS)) / CALIBRATED_STEPS as f64;
        let steps = (time.as_nanos() as f64 - look).max(0.0) / step;
        Work {
            steps: (steps * (1 << 20) as f64 / size.max(1) as f64).round() as u64,
        }
    }

    /// Steps that `bytes` are worth.
    #[inline]
    fn steps_for(&self, bytes: usize) -> u64 {
        ((u128::from(self.steps) * bytes as u128) >> 20) as u64
    }

    /// The work for one message.
    fn on(&self, message: &Message) -> u64 {
        let found = message.blocks().fold(0, look_at);
        go_on(found, self.steps_for(message.total_len()))
    }
}

/// Mixes a word of every cache line of `bytes` in.
#[inline]
fn look_at(found: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(LINE_BYTES).fold(found, |found, line| {
        let word = line
            .first_chunk()
            .map_or(line.len() as u64, |word| u64::from_le_bytes(*word));
        (found ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Goes on mixing for so many steps, each of which needs the one before.
#[inline]
fn go_on(found: u64, steps: u64) -> u64 {
    (0..steps).fold(found, |found, step| mix(found ^ step))
}

/// Nanoseconds of the quickest of some rounds.
fn quickest(mut round: impl FnMut() -> u64) -> f64 {
    let clock = Clock::shared();
    let rounds = (0..ROUNDS).map(|_| {
        let from = clock.now_nanos();
        black_box(round());
        clock.now_nanos() - from
    });
    rounds.min().unwrap_or(0).max(1) as f64
}

impl Module for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn counters(&self) -> &'static [&'static str] {
        &["bytes", "steps", "hash"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let (mut bytes, mut steps, mut hash) = (0, 0, 0u64);
        for message in run.drain() {
            let len = message.total_len();
            hash = hash.wrapping_add(self.on(&message));
            bytes += len as u64;
            steps += self.steps_for(len);
        }
        cx.count(BYTES, bytes);
        cx.count(STEPS, steps);
        // What came of it, so that it has to be done.
        cx.count(HASH, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};

    #[test]
    fn a_message_gets_what_its_bytes_are_worth_and_every_line_of_it_matters() {
        let work = Work { steps: 500 << 8 };
        assert_eq!(
            [0, 2048, 4096].map(|len| work.steps_for(len)),
            [0, 250, 500]
        );
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut bytes = vec![7; 4096];
        let mut seen = Vec::new();
        for line in 0..=bytes.len() / LINE_BYTES {
            seen.push(work.on(&pool.copy_from_slice(0, &bytes).unwrap()));
            if let Some(byte) = bytes.get_mut(line * LINE_BYTES) {
                *byte = 8;
            }
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn twice_the_time_is_twice_the_steps() {
        let steps = |micros| Work::filling(Duration::from_micros(micros), 4096).steps_for(4096);
        // Other tests are running: of the machine's speed only so much can be said.
        assert!(steps(400) > steps(20), "more time is more steps");
        assert_eq!(steps(0), 0);
    }
}
