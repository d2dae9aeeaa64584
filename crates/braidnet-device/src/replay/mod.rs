//! Sending recorded packets through any device again, at the pace at which they were recorded, at another, or as fast as it takes
//! them.
//!
//! ```
//! use braidnet_device::capture::Capture;
//! use braidnet_device::replay::{Pace, Recording, Replay, Step};
//! use braidnet_device::{Capabilities, Device, memory};
//! use braidnet_wire::time::Instant;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("braidnet-doc-replay-{}.pcapng", std::process::id()));
//! # drop(Capture::create(&path, 0)?);
//! let (near, far) = memory::wire(Capabilities::ip(1500), 256);
//! # let _ = far;
//! let medium = near.capabilities().medium;
//! let queue = Box::new(near).open()?.remove(0);
//! let mut replay = Replay::new(Recording::open(&path)?, queue.transmitter, medium, Pace::Recorded(1.0));
//! assert_eq!(replay.turn(Instant::ZERO)?, Step::Done);
//! # std::fs::remove_file(path)?;
//! # Ok(())
//! # }
//! ```
//!
//! # How late
//!
//! No packet leaves early. Each may leave up to a stated slack late, 100 µs unless [`Replay::with_slack`] says otherwise: what falls due within it leaves together, for one
//! wake-up. At tens of thousands of packets a second a timer for each costs more than sending them.
//!
//! # What it refuses
//!
//! Packets are sent as they were, none is answered and nothing waits for an answer: this is no second end of a connection. What only
//! a part of was recorded is skipped, by name. A file is read as it is needed, block by block of at most 1 MiB, and trusted in nothing.

mod recording;
#[cfg(test)]
mod tests;

pub use recording::{Record, Recording, RecordingError, Skipped};

use crate::capture::Direction;
use crate::{Counters, Medium, Transmitter};
use braidnet_message::{Arena, Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};
use core::num::NonZeroU64;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// Packets that are given to the device at once.
const BATCH: usize = 64;
/// Packets that are looked at in one turn, those counted that are skipped.
const LOOKS: usize = 4 * BATCH;
/// How long after the device was full it is offered more.
const RETRY: Duration = Duration::from_micros(200);
/// How late packets may leave, unless it is set otherwise.
const SLACK: Duration = Duration::from_micros(100);
/// Memory for packets on their way into the device.
const MEMORY_BYTES: usize = 16 << 20;

/// When packets are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// So many times as fast as they were recorded: as far apart with 1. More than 0.
    Recorded(f64),
    /// As fast as the device takes them.
    Fastest,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// More is to be sent at this time.
    At(Instant),
    /// All is sent.
    Done,
}

/// A recording that is being sent.
pub struct Replay {
    recording: Recording,
    transmitter: Box<dyn Transmitter>,
    medium: Medium,
    pace: Pace,
    slack: Duration,
    only: Option<Direction>,
    pool: Pool,
    run: Run,
    /// The next packet, which is not due yet.
    next: Option<Record>,
    /// When the first was sent, and when it was recorded.
    begun: Option<(Instant, u64)>,
    skipped: [u64; Skipped::ALL.len()],
}

impl Replay {
    /// Sends through this transmitter, of a device of that medium.
    pub fn new(
        recording: Recording,
        transmitter: Box<dyn Transmitter>,
        medium: Medium,
        pace: Pace,
    ) -> Replay {
        Replay {
            recording,
            transmitter,
            medium,
            pace,
            slack: SLACK,
            only: None,
            pool: Pool::new(&Arena::new(MEMORY_BYTES)),
            run: Run::with_capacity(BATCH),
            next: None,
            begun: None,
            skipped: Default::default(),
        }
    }

    /// Packets may leave so much late, and then leave together: 100 µs unless this says otherwise. With none each has a wake-up of its own.
    ///
    /// The system adds what it takes to wake a thread, and after a pause up to a thousandth of that.
    pub fn with_slack(self, slack: Duration) -> Replay {
        Replay { slack, ..self }
    }

    /// Sends only what was recorded as having gone this way. What has no direction recorded is sent.
    pub fn only(self, direction: Direction) -> Replay {
        Replay {
            only: Some(direction),
            ..self
        }
    }

    /// Sends what is due, at most a batch, without waiting; says when to go on: when the next packet has to leave, its slack over.
    ///
    /// # Errors
    ///
    /// What is wrong with the recording, once all in front of that is sent.
    pub fn turn(&mut self, now: Instant) -> Result<Step, RecordingError> {
        let mut step = Ok(Step::At(now));
        for _ in 0..LOOKS {
            if self.run.len() >= BATCH {
                break;
            }
            step = self.put_next(now);
            match step {
                Ok(Step::At(at)) if at <= now => {}
                _ => break,
            }
        }
        if self.run.is_empty() {
            return step;
        }
        self.transmitter.transmit(&mut self.run);
        match (self.run.is_empty(), step) {
            (true, step) => step,
            // What is wrong is found again.
            (false, _) => Ok(Step::At(now + RETRY)),
        }
    }

    /// Puts the next packet into the run if it is due.
    fn put_next(&mut self, now: Instant) -> Result<Step, RecordingError> {
        let record = match self.next.take() {
            Some(record) => record,
            None => match self.recording.next_record()? {
                Some(record) => record,
                None => return Ok(Step::Done),
            },
        };
        let due = self.due(now, &record);
        if due > now {
            self.next = Some(record);
            return Ok(Step::At(due + self.slack));
        }
        let other = self
            .only
            .map(|only| record.direction.is_some_and(|way| way != only));
        let packet = match other {
            Some(true) => Err(Skipped::OtherDirection),
            _ => record.packet(self.medium),
        };
        match packet {
            Err(reason) => {
                if let Some(count) = self.skipped.get_mut(reason as usize) {
                    *count += 1;
                }
            }
            Ok(packet) => match self.pool.copy_from_slice(0, packet) {
                Some(message) => self.run.push(message),
                // Its length was limited, so that the memory is in the device's hands.
                None => {
                    self.next = Some(record);
                    return Ok(Step::At(now + RETRY));
                }
            },
        }
        Ok(Step::At(now))
    }

    /// When a packet is to be sent. One that was recorded before the first is sent at once.
    fn due(&mut self, now: Instant, record: &Record) -> Instant {
        let Pace::Recorded(times) = self.pace else {
            return now;
        };
        let (begun, first) = *self.begun.get_or_insert((now, record.nanos));
        let behind = record.nanos.saturating_sub(first) as f64 / times.max(f64::MIN_POSITIVE);
        // A float beyond the range becomes its end.
        begun + Duration::from_nanos(behind as u64)
    }

    /// Sends everything, and sleeps between packets; ends before that once `stop` is readable. Whether all was sent.
    ///
    /// # Errors
    ///
    /// See [`ReplayError`].
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<bool, ReplayError> {
        // The slack is stated, and the thread's own, some 50 us, is not to come on top of it. Without this it does: that is no reason not to start.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let clock = Clock::shared();
        let now = || Instant::from_nanos(clock.now_nanos());
        loop {
            let Step::At(at) = self.turn(now())? else {
                return Ok(true);
            };
            let mut fds = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
            let timeout = Timespec::try_from(at.since(now())).ok();
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(ReplayError::Wait(error.into())),
            }
        }
    }

    /// What was sent, and what the device dropped.
    pub fn counters(&self) -> Counters {
        self.transmitter.counters()
    }

    /// How many packets were not sent, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (Skipped, u64)> + '_ {
        Skipped::ALL
            .into_iter()
            .zip(self.skipped)
            .filter(|(_, count)| *count > 0)
    }
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// It cannot be waited for the next packet.
    #[error("the next packet's time cannot be waited for: {0}")]
    Wait(io::Error),
}
