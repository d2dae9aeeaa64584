//! One measurement, from its configuration to its result.

use crate::config::{Agents, Mode, Place, TtcpConfig, Wait};
use crate::measure::{Cost, Metered, Notes, Phase};
use crate::result::{DelegationCost, LabError, LockCost, RttResult, RunResult};
use crate::rig::{Rig, Watch};
use braidnet_process::{Idle, Running, RunningConfig, Suspended};
use braidnet_sync::clock::Clock;
use braidnet_sync::group::{Placement, allowed_processors};
use braidnet_sync::lock::{LockClass, Metering, set_metering};
use core::num::{NonZeroU32, NonZeroUsize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long the conducting thread sleeps between two looks.
const LOOK: Duration = Duration::from_micros(500);
/// So many looks are taken for what threads note that have nothing to carry just then.
const LOOKS: u32 = 20;
/// Without a message for so long a measurement is given up.
const STALL: Duration = Duration::from_secs(5);
/// Of so many acquisitions of locks one is timed where [`sync_sampling`](TtcpConfig::sync_sampling) is set.
const SAMPLED: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// Measures one configuration.
///
/// # Errors
/// [`LabError`]: if it cannot be measured as it is set, if the system refuses something, or if messages stop flowing.
pub fn run(config: &TtcpConfig) -> Result<RunResult, LabError> {
    run_watched(config, &mut |_| ())
}

/// The same, and calls `boundary` with `true` right after the window has been opened, and with `false` right before it is closed,
/// on the conducting thread: for who wants to measure something else over the same window.
///
/// # Errors
/// As for [`run`].
pub fn run_watched(
    config: &TtcpConfig,
    boundary: &mut dyn FnMut(bool),
) -> Result<RunResult, LabError> {
    config.validate()?;
    let metered = config.sync_sampling.then(Sampling::on);
    let phase = Arc::new(Phase::default());
    let carried = config.carried();
    let suspended = Suspended::spawn(&running_config(config, carried)?, carried)?;
    let rig = Rig::new(config, &phase, suspended.wakers())?;
    let Rig {
        processors,
        watch,
        opening,
        times,
    } = rig;
    let (processors, notes) = meter(processors, config, &phase);
    let running = suspended.start(processors);
    if let Some(opening) = opening {
        opening.call();
    }
    let conductor = Conductor {
        config,
        watches: &[&watch],
        phase: &phase,
        notes: &notes,
        processors: carried,
        running: &running,
    };
    let window = conductor.conduct(boundary);
    let order = conductor.config.mode == Mode::Bulk;
    let window = window.and_then(|window| conductor.await_hash(&watch).map(|()| window));
    let tally = watch.tally();
    let ended = running.stop();
    drop(metered);
    ended?;
    let window = window?;
    let mut result = window.result(config, &notes, order);
    result.payload_hash = tally.0;
    if config.mode == Mode::Echo {
        result.rtt = Some(round_trips(&times.take(), &result));
    }
    Ok(result)
}

/// Locks and delegation are metered while this lives.
struct Sampling;

impl Sampling {
    fn on() -> Sampling {
        set_metering(Metering::Timed { one_in: SAMPLED });
        Sampling
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        set_metering(Metering::Off);
    }
}

/// How the threads of a measurement are set that carry so many processors.
pub(crate) fn running_config(
    config: &TtcpConfig,
    carried: usize,
) -> Result<RunningConfig, LabError> {
    let allowed = allowed_processors().map_err(LabError::Processors)?;
    let threads = match config.agents {
        Agents::Threads => carried,
        Agents::Tasks => config.threads.unwrap_or(config.processors),
    };
    // With an agent for each connection they share so many of the machine's processors.
    let confined = config.thread_per_connection && config.agents == Agents::Threads;
    let wanted = if confined { config.processors } else { threads };
    if (config.pin || confined) && wanted > allowed.len() {
        return Err(LabError::NoSuchProcessor {
            processor: wanted - 1,
            allowed: allowed.len(),
        });
    }
    let idle = match config.wait {
        Wait::Sleep => Idle::SLEEP,
        Wait::Spin => Idle::SPIN,
        // Where every thread has a processor to itself, asking on costs nobody anything.
        Wait::SpinSleep if threads <= wanted.min(allowed.len()) => Idle {
            poll: Duration::from_millis(1),
        },
        Wait::SpinSleep => Idle {
            poll: Duration::from_micros(20),
        },
    };
    let among: Vec<usize> = allowed.into_iter().take(wanted).collect();
    let placement = match (config.pin, confined) {
        (true, _) => Placement::Pinned(among),
        (false, true) => Placement::Among(among),
        (false, false) => Placement::Free,
    };
    Ok(RunningConfig {
        name: "ttcp".to_owned(),
        agents: match config.agents {
            Agents::Threads => braidnet_process::Agents::Threads,
            Agents::Tasks => braidnet_process::Agents::Tasks {
                threads: NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN),
            },
        },
        placement,
        idle,
    })
}

/// Processors that note their costs, and where they do.
pub(crate) fn meter(
    processors: Vec<Vec<braidnet_process::Worker>>,
    config: &TtcpConfig,
    phase: &Arc<Phase>,
) -> (Vec<Metered>, Arc<Notes>) {
    let notes = Arc::new(Notes::of(processors.len()));
    let makes = (config.state == Place::Apart).then(|| Arc::new(config.clone()));
    let metered = processors
        .into_iter()
        .map(|workers| {
            let metered = Metered::new(workers, makes.clone(), phase.clone(), notes.clone());
            metered.timed(config.order_free_sampling)
        })
        .collect();
    (metered, notes)
}

/// Whoever opens and closes the window. It sleeps in between.
pub(crate) struct Conductor<'a> {
    pub(crate) config: &'a TtcpConfig,
    /// Stacks, or sets of stacks, that share nothing.
    pub(crate) watches: &'a [&'a Watch],
    pub(crate) phase: &'a Phase,
    pub(crate) notes: &'a Notes,
    pub(crate) processors: usize,
    pub(crate) running: &'a Running<Metered>,
}

/// What stood where at one moment.
#[derive(Clone)]
struct Reading {
    nanos: u64,
    messages: u64,
    order: (u64, u64),
    /// Nanoseconds of order-free functions, and of the turns that they are a part of; none where they are not timed.
    order_free: Option<(u64, u64)>,
}

/// The window, seen from outside.
pub(crate) struct Window {
    from: Reading,
    to: Reading,
    /// Every counter before `from` and after `to`: whoever reads them may be kept waiting in between, and what is measured counts.
    counters: [BTreeMap<String, u64>; 2],
    message_bytes: u64,
}

/// A look is taken anew if it took longer than this: somebody else was on the processor meanwhile.
const LONG_LOOK_NANOS: u64 = 30_000;

impl Conductor<'_> {
    /// Waits for the warm-up to pass everywhere, opens the window, closes it when it is full, and waits for every processor's notes.
    pub(crate) fn conduct(&self, boundary: &mut dyn FnMut(bool)) -> Result<Window, LabError> {
        let share = self.config.warmup / self.watches.len() as u64;
        self.wait_until(|watches| watches.iter().all(|watch| watch.is_warm(share)))?;
        self.advance();
        let counters = || self.watches[0].counters();
        let (before, from) = (counters(), self.read());
        boundary(true);
        std::thread::sleep(self.config.min_duration);
        let messages = self.config.messages;
        let filled = self.wait_until(|watches| total(watches) >= from.messages + messages);
        boundary(false);
        filled?;
        let (to, after) = (self.read(), counters());
        self.advance();
        self.wait_until(|_| self.notes.is_over(self.processors))?;
        // What carries tasks notes with the next of them, if there is one.
        for _ in 0..LOOKS {
            if self.notes.is_whole() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        Ok(Window {
            from,
            to,
            counters: [before, after],
            message_bytes: self.watches[0].message_bytes(),
        })
    }

    /// Waits until everything that the hash covers has arrived.
    fn await_hash(&self, watch: &Watch) -> Result<(), LabError> {
        let samples = watch.scope.samples;
        self.wait_for(|| watch.tally().1, || watch.tally().1 >= samples)
    }

    fn advance(&self) {
        self.phase.advance();
        for waker in self.running.wakers() {
            waker.unpark();
        }
    }

    fn read(&self) -> Reading {
        let clock = Clock::shared();
        let mut attempts = 0;
        let (nanos, messages) = loop {
            let before = clock.now_nanos();
            let messages = total(self.watches);
            let after = clock.now_nanos();
            attempts += 1;
            if after - before < LONG_LOOK_NANOS || attempts == 10 {
                break (before + (after - before) / 2, messages);
            }
        };
        let order = self
            .watches
            .iter()
            .map(|watch| watch.order())
            .fold((0, 0), |sum, order| (sum.0 + order.0, sum.1 + order.1));
        Reading {
            nanos,
            messages,
            order,
            order_free: (self.watches[0].order_free()).map(|free| (free, self.notes.turns())),
        }
    }

    /// Sleeps until `done`, or until no message passes any more.
    fn wait_until(&self, done: impl Fn(&[&Watch]) -> bool) -> Result<(), LabError> {
        self.wait_for(|| total(self.watches), || done(self.watches))
    }

    /// Sleeps until `done`, or until `progress` stands still.
    fn wait_for(
        &self,
        progress: impl Fn() -> u64,
        done: impl Fn() -> bool,
    ) -> Result<(), LabError> {
        let clock = Clock::shared();
        let (mut seen, mut since) = (progress(), clock.now_nanos());
        while !done() {
            std::thread::sleep(LOOK);
            let (reached, now) = (progress(), clock.now_nanos());
            if reached != seen {
                (seen, since) = (reached, now);
            }
            // Others may go on without one that has panicked, but that is no measurement. Why it ended is known when all are stopped.
            if self.running.has_finished_one() || now - since > STALL.as_nanos() as u64 {
                return Err(LabError::Stalled {
                    seconds: STALL.as_secs(),
                    messages: total(self.watches),
                    state: self.state(),
                });
            }
        }
        Ok(())
    }

    /// Every counter, in one line.
    fn state(&self) -> String {
        let named = self.watches.iter().flat_map(|watch| watch.counters());
        named
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn total(watches: &[&Watch]) -> u64 {
    watches.iter().map(|watch| watch.messages()).sum()
}

impl Window {
    /// Application bits per nanosecond.
    pub(crate) fn throughput_gbps(&self) -> f64 {
        let bits = (self.to.messages - self.from.messages) * self.message_bytes * 8;
        bits as f64 / (self.to.nanos - self.from.nanos).max(1) as f64
    }

    /// What part of all turns order-free functions were.
    fn order_free_share(&self) -> Option<f64> {
        let ((from, first), (to, last)) = self.from.order_free.zip(self.to.order_free)?;
        Some((to - from) as f64 / (last - first).max(1) as f64)
    }

    fn result(&self, config: &TtcpConfig, notes: &Notes, ordered: bool) -> RunResult {
        let messages = self.to.messages.saturating_sub(self.from.messages);
        let wall_ns = self.to.nanos.saturating_sub(self.from.nanos).max(1);
        let costs: Vec<Cost> = notes.costs();
        // Each thread's rates are those of its own window.
        let share = |cost: &Cost| wall_ns as f64 / cost.wall_ns as f64;
        let scaled = |of: fn(&Cost) -> u64| -> f64 {
            costs.iter().map(|cost| of(cost) as f64 * share(cost)).sum()
        };
        let each = |sum: f64| sum / messages.max(1) as f64;
        let (data, misplaced) = (
            self.to.order.0 - self.from.order.0,
            self.to.order.1 - self.from.order.1,
        );
        let [before, after] = &self.counters;
        let counted = after.iter().map(|(name, value)| {
            let before = before.get(name).copied().unwrap_or(0);
            (name.clone(), value.wrapping_sub(before))
        });
        RunResult {
            messages,
            wall_ns,
            bytes: messages * config.size as u64,
            throughput_gbps: self.throughput_gbps(),
            cpu_ns_per_message: each(scaled(|cost| cost.cpu_ns)),
            user_ms: scaled(|cost| cost.usage.user_nanos) / 1e6,
            system_ms: scaled(|cost| cost.usage.system_nanos) / 1e6,
            voluntary_switches: costs.iter().map(|cost| cost.usage.voluntary_switches).sum(),
            involuntary_switches: costs
                .iter()
                .map(|cost| cost.usage.involuntary_switches)
                .sum(),
            sync_ns_per_message: each(scaled(|cost| {
                cost.locks.waited_nanos() + cost.locks.delegation().entering_nanos()
            })),
            locks_per_message: locks(&costs, |sum, cost| each(sum * share(cost))),
            delegation_per_message: delegation(&costs, |sum, cost| each(sum * share(cost))),
            out_of_order_percent: match ordered && data > 0 {
                true => misplaced as f64 * 100.0 / data as f64,
                false => 0.0,
            },
            order_free_share: self.order_free_share(),
            rtt: None,
            payload_hash: 0,
            counters: counted.filter(|(_, value)| *value > 0).collect(),
        }
    }
}

/// What the locks of each class cost, over all threads, each figure made one per message by `each`.
fn locks(costs: &[Cost], each: impl Fn(f64, &Cost) -> f64) -> BTreeMap<&'static str, LockCost> {
    let mut locks = BTreeMap::new();
    for class in LockClass::all() {
        let mut sum = LockCost::default();
        for cost in costs {
            let counts = cost.locks.of(class);
            sum.acquisitions += each(counts.acquisitions as f64, cost);
            sum.contended += each(counts.contended as f64, cost);
            sum.waited_ns += each(counts.waited_nanos() as f64, cost);
            sum.held_ns += each(counts.held_nanos() as f64, cost);
        }
        if sum.acquisitions > 0.0 {
            locks.insert(class.name(), sum);
        }
    }
    locks
}

/// The same of delegation; none if nothing was entered.
fn delegation(costs: &[Cost], each: impl Fn(f64, &Cost) -> f64) -> Option<DelegationCost> {
    let mut sum = DelegationCost::default();
    for cost in costs {
        let counts = cost.locks.delegation();
        sum.entries += each(counts.entries as f64, cost);
        sum.left += each(counts.left as f64, cost);
        sum.entering_ns += each(counts.entering_nanos() as f64, cost);
        sum.inside_ns += each(counts.inside_nanos() as f64, cost);
        sum.deferred_ns += each(counts.deferred_nanos() as f64, cost);
    }
    (sum.entries > 0.0).then_some(sum)
}

fn round_trips(times: &hdrhistogram::Histogram<u64>, result: &RunResult) -> RttResult {
    RttResult {
        p50_ns: times.value_at_quantile(0.5),
        p99_ns: times.value_at_quantile(0.99),
        p999_ns: times.value_at_quantile(0.999),
        round_trips_per_second: result.messages as f64 * 1e9 / result.wall_ns as f64,
    }
}
