//! The clocks, and the processor that everything runs on.

use std::time::Instant;

use braidnet::sync::clock::Clock;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Keeps the calling thread on one processor.
///
/// # Errors
/// What the kernel says, as where the processor does not exist.
pub fn pin(processor: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    if processor >= CpuSet::MAX_CPU {
        return Err(std::io::Error::other("no such processor"));
    }
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

/// Measures wall time and the thread's processor time from its making on.
pub struct Stopwatch {
    wall: Instant,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Starts.
    pub fn start() -> Stopwatch {
        Stopwatch {
            cpu_ns: thread_cpu_ns(),
            wall: Instant::now(),
        }
    }

    /// Wall and processor time in nanoseconds.
    pub fn read(&self) -> (u64, u64) {
        let wall_ns = self.wall.elapsed().as_nanos() as u64;
        (wall_ns, thread_cpu_ns() - self.cpu_ns)
    }
}

/// The time since it was made, for stacks and their applications. It is read from the time stamp counter where that can be
/// trusted: the kernel's clock takes as long as a tenth of a round trip.
pub struct Epoch {
    clock: Clock,
    start_ns: u64,
}

impl Epoch {
    /// Starts now.
    pub fn start() -> Epoch {
        let clock = Clock::shared();
        Epoch {
            clock,
            start_ns: clock.now_nanos(),
        }
    }

    /// Nanoseconds since then.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_nanos() - self.start_ns
    }
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
