//! A laboratory in which figures are planted.

use super::campaign::{Laboratory, Progress};
use super::digest::digest;
use super::report::{Repetition, Run};
use crate::{
    DelegationCost, LabError, LockCost, Mode, Presentation, RttResult, RunResult, TtcpConfig,
};
use braidnet_process::Architecture;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A run with these throughputs, and nothing said of its base.
pub(super) fn planted(
    architecture: Architecture,
    processors: usize,
    connections: usize,
    presentation: Presentation,
    throughputs: &[f64],
) -> Run {
    let config = TtcpConfig {
        architecture,
        processors,
        connections,
        presentation,
        ..TtcpConfig::default()
    };
    let repetitions: Vec<Repetition> = (throughputs.iter())
        .map(|&throughput| Repetition::new(result(throughput), None, None))
        .collect();
    digest(&config, &repetitions, repetitions.len())
}

/// A measurement of so many Gbit/s.
pub(super) fn result(throughput_gbps: f64) -> RunResult {
    RunResult {
        messages: 20_000,
        wall_ns: 300_000_000,
        bytes: 20_000 * 4096,
        throughput_gbps,
        cpu_ns_per_message: 4096.0 * 8.0 / throughput_gbps,
        user_ms: 290.0,
        system_ms: 1.0,
        voluntary_switches: 40,
        involuntary_switches: 20,
        out_of_order_percent: 0.5,
        payload_hash: 0xb1d,
        ..RunResult::default()
    }
}

/// What a laboratory was asked to do.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Asked {
    Run(TtcpConfig),
    Latency(usize, usize),
    /// Of so many processors, under a load of so many connections and a presentation.
    Ceiling(usize, (usize, Presentation)),
}

/// Answers every question from what was planted, and writes down what was asked. Its clock moves by a tenth of a second
/// with every measurement.
pub(super) struct Planted {
    pub(super) processors: usize,
    pub(super) asked: Vec<Asked>,
    /// The next latencies; when there are none left, 65 ns.
    pub(super) latencies: VecDeque<f64>,
    pub(super) hash: fn(&TtcpConfig) -> u64,
    pub(super) now: Duration,
}

impl Planted {
    pub(super) fn new(processors: usize) -> Planted {
        Planted {
            processors,
            asked: Vec::new(),
            latencies: VecDeque::new(),
            hash: |_| 0xb1d,
            now: Duration::ZERO,
        }
    }

    /// The measurements that were asked for.
    pub(super) fn runs(&self) -> Vec<&TtcpConfig> {
        let mut runs = Vec::new();
        for asked in &self.asked {
            if let Asked::Run(config) = asked {
                runs.push(config);
            }
        }
        runs
    }
}

impl Laboratory for Planted {
    fn processors(&self) -> usize {
        self.processors
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn run(&mut self, config: &TtcpConfig) -> Result<RunResult, LabError> {
        self.now += Duration::from_millis(100);
        self.asked.push(Asked::Run(config.clone()));
        let mut result = result(40.0 * config.processors as f64);
        result.payload_hash = (self.hash)(config);
        if config.mode == Mode::Echo {
            result.rtt = Some(RttResult {
                p50_ns: 1000 * config.processors as u64,
                p99_ns: 3000,
                p999_ns: 9000,
                round_trips_per_second: 1e6,
            });
        }
        if config.order_free_sampling {
            result.order_free_share = Some(0.4);
        }
        if config.sync_sampling {
            result.sync_ns_per_message = 7.5;
            let cost = LockCost {
                acquisitions: 0.05,
                contended: 0.01,
                waited_ns: 7.5,
                held_ns: 300.0,
            };
            result.locks_per_message = BTreeMap::from([("connection", cost)]);
            result.delegation_per_message = Some(DelegationCost {
                entries: 0.5,
                left: 0.125,
                entering_ns: 10.0,
                inside_ns: 200.0,
                deferred_ns: 100.0,
            });
        }
        Ok(result)
    }

    fn latency_ns(&mut self, (one, other): (usize, usize)) -> Result<f64, LabError> {
        self.asked.push(Asked::Latency(one, other));
        Ok(self.latencies.pop_front().unwrap_or(65.0))
    }

    fn ceiling(
        &mut self,
        processors: usize,
        config: &TtcpConfig,
        _: Duration,
    ) -> Result<f64, LabError> {
        let load = (config.connections, config.presentation);
        self.asked.push(Asked::Ceiling(processors, load));
        Ok(0.975 * processors as f64)
    }
}

/// Counts what it is told.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) expected: usize,
    pub(super) ended: usize,
    pub(super) lines: Vec<String>,
}

impl Progress for Watched {
    fn expect(&mut self, measurements: usize) {
        self.expected = self.ended + measurements;
    }

    fn begin(&mut self, what: &str) {
        self.lines.push(what.to_owned());
    }

    fn end(&mut self) {
        self.ended += 1;
    }
}
