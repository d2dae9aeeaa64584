//! What the machine allows at this moment (DESIGN.md, Measuring).

use crate::config::{Agents, TtcpConfig};
use crate::measure::Phase;
use crate::result::LabError;
use crate::rig::{Rig, Watch};
use crate::ttcp::{Conductor, meter, running_config};
use braidnet_process::{Architecture, Suspended};
use braidnet_sync::clock::Clock;
use braidnet_sync::group::{Member, Placement, ThreadGroup, allowed_processors};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Crossings in one round of the latency probe.
const CROSSINGS: u32 = 2_000;
/// Rounds, the quickest of which counts: the others were disturbed.
const ROUNDS: usize = 10;
/// A round that takes longer than this is given up: the two sit on one processor.
const PATIENCE_NANOS: u64 = 200_000_000;

/// A word on cache lines of its own.
#[repr(align(128))]
struct Ball(AtomicU32);

/// One-way latency of a cache line between two of the processors that this process may use, by their position in that list, in
/// nanoseconds. Takes some milliseconds.
///
/// # Errors
/// If there are no such processors, or threads cannot be placed on them.
pub fn latency_ns(processors: (usize, usize)) -> Result<f64, LabError> {
    let allowed = allowed_processors().map_err(LabError::Processors)?;
    let find = |processor: usize| {
        let missing = LabError::NoSuchProcessor {
            processor,
            allowed: allowed.len(),
        };
        allowed.get(processor).copied().ok_or(missing)
    };
    let pair = vec![find(processors.0)?, find(processors.1)?];
    let ball = Arc::new(Ball(AtomicU32::new(0)));
    let bodies = [0, 1].map(|side| {
        let ball = ball.clone();
        move |_: Member| play(&ball.0, side)
    });
    let group = ThreadGroup::spawn("probe", &Placement::Pinned(pair), bodies)?;
    group.start();
    let mut nanos = f64::INFINITY;
    for player in group.join() {
        nanos = nanos.min(player?);
    }
    Ok(nanos)
}

/// One side of the game: waits for the ball to show its parity, and passes it on. Nanoseconds for one crossing.
fn play(ball: &AtomicU32, side: u32) -> f64 {
    let clock = Clock::shared();
    let mut best = f64::INFINITY;
    let mut next = side;
    for _ in 0..ROUNDS {
        let from = clock.now_nanos();
        for _ in 0..CROSSINGS {
            let mut looks = 0u32;
            while ball.load(Ordering::Acquire) != next {
                core::hint::spin_loop();
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 14) {
                    std::thread::yield_now();
                    if clock.now_nanos() - from > PATIENCE_NANOS {
                        // Lets the other side go as well.
                        ball.store(u32::MAX, Ordering::Release);
                        return best;
                    }
                }
                if ball.load(Ordering::Relaxed) == u32::MAX {
                    return best;
                }
            }
            ball.store(next + 1, Ordering::Release);
            next += 2;
        }
        let nanos = clock.now_nanos() - from;
        // The ball crosses twice between two of one side's catches.
        best = best.min(nanos as f64 / f64::from(CROSSINGS) / 2.0);
    }
    best
}

/// The ceiling: the total throughput of `processors` stacks that share nothing, each turned by one thread together with its far
/// end, over that of one such stack alone. The load is that of `config`, its connections dealt among the stacks. Takes about
/// `duration`.
///
/// # Errors
/// [`LabError`], as for [`run`](crate::run).
pub fn ceiling(
    processors: usize,
    config: &TtcpConfig,
    duration: Duration,
) -> Result<f64, LabError> {
    let single = TtcpConfig {
        architecture: Architecture::Connection,
        processors: 1,
        device_queues: 1,
        connections: config.connections.div_ceil(processors.max(1)),
        messages: 1,
        warmup: 1_000,
        min_duration: duration / 2,
        skew: None,
        impair: None,
        sync_sampling: false,
        order_free_sampling: false,
        agents: Agents::Threads,
        threads: None,
        thread_per_connection: false,
        ..config.clone()
    };
    single.validate()?;
    let alone = side_by_side(&single, 1)?;
    let together = side_by_side(&single, processors)?;
    Ok(together / alone)
}

/// Total throughput of `count` stacks that share nothing.
fn side_by_side(single: &TtcpConfig, count: usize) -> Result<f64, LabError> {
    let phase = Arc::new(Phase::default());
    let suspended = Suspended::spawn(&running_config(single, count)?, count)?;
    let mut processors = Vec::new();
    let mut rigs = Vec::new();
    for waker in suspended.wakers() {
        let rig = Rig::new(single, &phase, core::slice::from_ref(waker))?;
        processors.extend(rig.processors);
        rigs.push((rig.watch, rig.opening));
    }
    let (processors, notes) = meter(processors, single, &phase);
    let running = suspended.start(processors);
    let mut watches: Vec<Watch> = Vec::new();
    for (watch, opening) in rigs {
        if let Some(opening) = opening {
            opening.call();
        }
        watches.push(watch);
    }
    let watches: Vec<&Watch> = watches.iter().collect();
    let conductor = Conductor {
        config: single,
        watches: &watches,
        phase: &phase,
        notes: &notes,
        processors: count,
        running: &running,
    };
    let window = conductor.conduct(&mut |_| ());
    running.stop()?;
    Ok(window?.throughput_gbps())
}
