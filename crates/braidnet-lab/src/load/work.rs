//! A module that does a stated amount of order-free work for every message: what a cipher or a codec would do, without being one.

use crate::content::mix;
use braidnet_message::{Message, Part, Run};
use braidnet_stream::dividing::MAX_PIECES;
use braidnet_stream::{Context, Counter, Direction, Divisible, Module, Stages};
use braidnet_sync::clock::Clock;
use core::hint::black_box;
use std::cell::RefCell;
use std::time::Duration;

/// The module on top of whatever receives. It looks at a word of every cache line of a message and then goes on mixing what it
/// has found, so many steps for every byte: a pure function over the message that costs processor time as real work does, and
/// does not look at a clock. It does so for every KiB or so by itself, and sums up, so that it can be done in pieces. How many steps
/// fill the time that was asked for is found out once, before the measurement.
///
/// What comes up is a record or a datagram, which is one message, or a piece of a stream, which is worth as much of the work as it has
/// bytes of a message.
pub(crate) struct Work {
    /// Steps for 2^20 bytes.
    steps: u64,
    /// Whether there is a module above for what has been worked on.
    hands_on: bool,
}

const BYTES: Counter = Counter(0);
const STEPS: Counter = Counter(1);
const HASH: Counter = Counter(2);

/// Bytes of which one word is looked at.
const LINE_BYTES: usize = 64;
/// Bytes of a piece, but where a message is longer than so many pieces.
const PIECE_BYTES: usize = 1 << 10;
/// The most bytes that calibration looks at: what a message may have beyond is in proportion.
const CALIBRATED_BYTES: usize = 64 << 10;
/// Steps of one round of calibration, and rounds, the quickest of which counts: the others were disturbed.
const CALIBRATED_STEPS: u64 = 20_000;
const ROUNDS: usize = 9;

impl Work {
    /// As much for `size` bytes as fills `time` on this machine, the looking included.
    pub(crate) fn filling(time: Duration, size: usize, hands_on: bool) -> Work {
        let looked = vec![1; size.min(CALIBRATED_BYTES)];
        let look = quickest(|| look_at(0, &looked)) * size as f64 / looked.len().max(1) as f64;
        let step = quickest(|| go_on(0, CALIBRATED_STEPS)) / CALIBRATED_STEPS as f64;
        let steps = (time.as_nanos() as f64 - look).max(0.0) / step;
        Work {
            steps: (steps * (1 << 20) as f64 / size.max(1) as f64).round() as u64,
            hands_on,
        }
    }

    /// Steps that `bytes` are worth.
    #[inline]
    fn steps_for(&self, bytes: usize) -> u64 {
        ((u128::from(self.steps) * bytes as u128) >> 20) as u64
    }

    /// The work for one piece.
    fn on(&self, part: &Part) -> u64 {
        let found = part.slices().fold(part.start() as u64, look_at);
        go_on(found, self.steps_for(part.len()))
    }

    /// The work for one message: the sum over its pieces, and the message.
    fn on_whole(&self, message: Message) -> (u64, Option<Message>) {
        let mut sum = 0u64;
        let pieces = pieces(&message);
        let (divided, parts) = message.divide(pieces);
        let worked = parts.inspect(|part| sum = sum.wrapping_add(self.on(part)));
        let whole = divided.join(worked);
        (sum, whole)
    }
}

/// Counts what was done, and what came of it, so that it has to be done.
fn count(bytes: u64, steps: u64, hash: u64, cx: &mut Context<'_>) {
    cx.count(BYTES, bytes);
    cx.count(STEPS, steps);
    cx.count(HASH, hash);
}

/// The pieces of a message: one at least.
fn pieces(message: &Message) -> usize {
    (message.total_len() / PIECE_BYTES).clamp(1, MAX_PIECES)
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

thread_local! {
    /// Empty between calls; kept for its memory.
    static WORKED: RefCell<Run> = const { RefCell::new(Run::new()) };
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

    fn divisible(&self) -> Option<&dyn Divisible> {
        Some(self)
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let (mut bytes, mut steps, mut hash) = (0, 0, 0u64);
        WORKED.with_borrow_mut(|worked| {
            for message in run.drain() {
                let len = message.total_len();
                let (sum, whole) = self.on_whole(message);
                hash = hash.wrapping_add(sum);
                bytes += len as u64;
                steps += self.steps_for(len);
                if let Some(whole) = whole.filter(|_| self.hands_on) {
                    worked.push(whole);
                }
            }
            run.append(worked);
        });
        count(bytes, steps, hash, cx);
    }
}

impl Divisible for Work {
    fn functions(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn pieces(&self, _: Stages, message: &Message) -> usize {
        pieces(message)
    }

    fn work(&self, _: Stages, part: &mut Part) -> u128 {
        u128::from(self.on(part))
    }

    fn join(
        &self,
        _: Stages,
        message: Message,
        results: &[u128],
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let sum: u128 = results.iter().sum();
        let len = message.total_len();
        count(len as u64, self.steps_for(len), sum as u64, cx);
        self.hands_on.then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};

    #[test]
    fn a_message_gets_what_its_bytes_are_worth_and_every_line_of_it_matters() {
        let work = Work {
            steps: 500 << 8,
            hands_on: false,
        };
        assert_eq!(
            [0, 2048, 4096].map(|len| work.steps_for(len)),
            [0, 250, 500]
        );
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut bytes = vec![7; 4096];
        let mut seen = Vec::new();
        for line in 0..=bytes.len() / LINE_BYTES {
            seen.push(work.on_whole(pool.copy_from_slice(0, &bytes).unwrap()).0);
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
    fn in_pieces_comes_what_comes_of_the_whole() {
        let work = Work {
            steps: 500 << 8,
            hands_on: false,
        };
        let mut pool = Pool::new(&Arena::new(1 << 20));
        for len in [0, 1, 1000, 4096, 30_000] {
            let bytes: Vec<u8> = (0..len).map(|n: usize| (n * 7) as u8).collect();
            let mut message = || pool.copy_from_slice(0, &bytes).unwrap();
            let whole = work.on_whole(message());
            let message = message();
            let pieces = work.pieces(Stages::BEFORE_UP, &message);
            assert_eq!(pieces, (len / 1024).clamp(1, 16));
            let (divided, parts) = message.divide(pieces);
            let mut parts: Vec<_> = parts.collect();
            let results = parts
                .iter_mut()
                .rev()
                .map(|part| work.work(Stages::BEFORE_UP, part));
            let sum: u128 = results.sum();
            assert_eq!(sum as u64, whole.0);
            assert!(divided.join(parts).is_some());
        }
    }

    #[test]
    fn more_time_is_more_steps_and_no_time_none() {
        let steps =
            |micros| Work::filling(Duration::from_micros(micros), 4096, false).steps_for(4096);
        // Other tests are running: of the machine's speed only so much can be said.
        assert!(steps(400) > steps(20), "more time is more steps");
        assert_eq!(steps(0), 0);
    }
}
