//! How a server's processors are bound to protocol work, and what carries them.

use super::settings::Settings;
use crate::failure::Failure;
use braidnet::inet::tcp::TcpLocks;
use braidnet::process::{Agents as Carriers, Idle, Refusal, RunningConfig};
use braidnet::stream::{Arrival, Exclusion};
use braidnet::sync::group::{Placement, allowed_processors};
use braidnet::{Architecture, ServerBuilder};
use braidnet_lab::{Agents, Order, Perimeter, Wait};
use std::num::NonZeroUsize;

/// What is to be done with processors: checked, with nothing left open.
#[derive(Clone, Debug)]
pub struct Placing {
    pub architecture: Architecture,
    pub processors: usize,
    /// How many queues the device is to have, and whether fewer will do.
    pub queues: Queues,
    exclusion: Exclusion,
    arrival: Arrival,
    tcp_locks: TcpLocks,
    running: RunningConfig,
}

/// The device's queues.
#[derive(Clone, Copy, Debug)]
pub enum Queues {
    /// So many were asked for.
    Asked(usize),
    /// So many, if the device has them.
    AtBest(usize),
}

impl Queues {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Queues::Asked(count) | Queues::AtBest(count) => count,
        }
    }
}

/// Most processors that make sense to ask for.
const MAX_PROCESSORS: usize = 256;

impl Placing {
    /// Checks what can be checked before anything is made.
    pub fn check(settings: &Settings) -> Result<Placing, Failure> {
        let processors = settings.processors.unwrap_or(1);
        if !(1..=MAX_PROCESSORS).contains(&processors) {
            return usage(&format!(
                "--processors takes a number from 1 to {MAX_PROCESSORS}"
            ));
        }
        let architecture = settings.architecture.unwrap_or(Architecture::Connection);
        let devices = 1 + settings.device.len();
        // Whose queues are the business of different processors.
        let parts = match settings.apart.unwrap_or(false) {
            true => devices,
            false => 1,
        };
        let queues = match (settings.queues, architecture) {
            (Some(queues), _) => Queues::Asked(queues),
            (None, Architecture::Connection | Architecture::Braid) => {
                Queues::AtBest((processors / parts).max(1))
            }
            (None, _) => Queues::AtBest(1),
        };
        let placing = Placing {
            architecture,
            processors,
            queues,
            exclusion: match settings.perimeter {
                Some(Perimeter::Delegated) => Exclusion::Delegation,
                Some(Perimeter::Locked) | None => {
                    Exclusion::Lock(settings.lock.unwrap_or_default())
                }
            },
            arrival: settings.order.unwrap_or(Order::None).arrival(),
            tcp_locks: settings.tcp_locks.unwrap_or_default(),
            running: running(settings, processors)?,
        };
        if !Architecture::UNDIVIDED.contains(&architecture) {
            return usage(&Refusal::NothingToDivide.to_string());
        }
        (architecture.check_processors(processors))
            .and_then(|()| architecture.check_locks(placing.tcp_locks))
            .and_then(|()| architecture.check_sharing(placing.exclusion, placing.arrival))
            .and_then(|()| {
                architecture.check_arrival(placing.arrival, parts * queues.count(), processors)
            })
            .or_else(|refusal| usage(&refusal.to_string()))?;
        let takers = architecture.takers(processors) / parts;
        if takers == 0 {
            return usage(&format!(
                "--apart needs a processor for each of {devices} devices: under {architecture} on {processors}, {} take from devices",
                architecture.takers(processors)
            ));
        }
        if !(1..=takers).contains(&queues.count()) {
            return usage(&format!(
                "--queues takes a number from 1 to {takers}: under {architecture}, so many of the processors take from a device"
            ));
        }
        let is_locking = architecture == Architecture::Message
            && matches!(placing.exclusion, Exclusion::Lock(_));
        if let Some(lock) = settings.lock.filter(|_| !is_locking) {
            return usage(&format!(
                "lock {lock} has nothing to lock: it needs architecture message and perimeter locked"
            ));
        }
        Ok(placing)
    }

    /// The builder that does it so.
    pub fn of(&self, builder: ServerBuilder) -> ServerBuilder {
        builder
            .architecture(self.architecture, self.processors)
            .exclusion(self.exclusion)
            .arrival(self.arrival)
            .tcp_locks(self.tcp_locks)
            .running(self.running.clone())
    }
}

/// What carries the processors, where it stays, and how it waits.
fn running(settings: &Settings, processors: usize) -> Result<RunningConfig, Failure> {
    let agents = settings.agents.unwrap_or(Agents::Threads);
    let threads = settings.threads.unwrap_or(processors);
    let carriers = match (agents, NonZeroUsize::new(threads)) {
        (Agents::Threads, _) if settings.threads.is_some() => {
            return usage("threads carry tasks: a number of them needs agents tasks");
        }
        (Agents::Threads, _) => Carriers::Threads,
        (Agents::Tasks, Some(threads)) if threads.get() <= MAX_PROCESSORS => {
            Carriers::Tasks { threads }
        }
        (Agents::Tasks, _) => {
            return usage(&format!(
                "--threads takes a number from 1 to {MAX_PROCESSORS}"
            ));
        }
    };
    let placement = if settings.pin.unwrap_or(false) {
        let allowed = allowed_processors()
            .map_err(|error| Failure::Runtime(format!("the processors cannot be told: {error}")))?;
        if threads > allowed.len() {
            return usage(&format!(
                "{threads} threads cannot have a processor each: this process may use {} (see taskset or the container's limits)",
                allowed.len()
            ));
        }
        Placement::Pinned(allowed)
    } else {
        Placement::Free
    };
    Ok(RunningConfig {
        name: "braidnet".to_owned(),
        agents: carriers,
        placement,
        idle: match settings.wait.unwrap_or(Wait::SpinSleep) {
            Wait::Sleep => Idle::SLEEP,
            Wait::Spin => Idle::SPIN,
            Wait::SpinSleep => Idle::default(),
        },
    })
}

fn usage<T>(sentence: &str) -> Result<T, Failure> {
    Err(Failure::Usage(sentence.to_owned()))
}
