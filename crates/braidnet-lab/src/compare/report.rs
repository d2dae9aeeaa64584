//! What a comparison found, as programs read it.

use super::machine::Machine;
use super::statistics::Summary;
use crate::{DelegationCost, LockCost, RunResult, TtcpConfig};
use serde::Serialize;
use std::collections::BTreeMap;

/// How far two probes may lie apart before the repetition between them is not settled: the greater over the lesser.
const MOST_MOVED: f64 = 1.2;

/// What a comparison found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Where and how it was measured.
    pub machine: Machine,
    /// One for each cell, in the order of the table.
    pub runs: Vec<Run>,
    /// Sentences that say which architecture to choose, and what was left out.
    pub advice: Vec<String>,
}

/// One cell of a comparison, or one measurement of `ttcp`. Times and counts are of its counted repetitions: the settled
/// ones, or if those are fewer than were asked for, all.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Run {
    /// How processors are bound to protocol work.
    pub architecture: &'static str,
    /// How many processors; every busy thread counts.
    pub processors: usize,
    /// How many connections.
    pub connections: usize,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// `none` or `xdr`.
    pub presentation: &'static str,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// The share of one connection in all messages, the others having the rest evenly. None if each sends as much as it can.
    pub skew: Option<f64>,
    /// What the wire did to packets with messages. None if it did nothing.
    pub impair: Option<String>,
    /// What it did to packets that went back.
    pub impair_back: Option<String>,
    /// How long a module works on each message, in nanoseconds; 0 without one.
    pub work_ns: u64,
    /// Messages that went before each repetition, unmeasured.
    pub warmup_messages: u64,
    /// Messages that each repetition measured at least.
    pub least_messages: u64,
    /// Nanoseconds that each repetition filled at least.
    pub fill_ns: u64,
    /// Messages of all counted repetitions.
    pub messages: u64,
    /// Longest IP packet in bytes.
    pub mtu: usize,
    /// Window of each connection in bytes.
    pub window_bytes: u32,
    /// Whether checksums are made and verified.
    pub checksum: bool,
    /// What carries the processors: `threads` or `tasks`.
    pub agents: &'static str,
    /// How many threads carry the tasks. None where they do not.
    pub threads: Option<usize>,
    /// Whether each connection has an agent of its own.
    pub thread_per_connection: bool,
    /// How processors wait for something to do: `sleep`, `spin` or `spin-sleep`.
    pub wait: &'static str,
    /// In whose memory lies what is one processor's alone: `together` in that of who starts all, `apart` in its processor's.
    pub state: &'static str,
    /// Whether each thread stayed on a processor of its own.
    pub pin: bool,
    /// How the congestion window of our senders grows and shrinks.
    pub congestion: &'static str,
    /// What shared state is locked with. None where nothing is.
    pub lock: Option<&'static str>,
    /// How references are counted.
    pub counts: &'static str,
    /// Whether each processor keeps free buffers of its own.
    pub caches: bool,
    /// Whether TCP asks first if a segment's connection is that of the one before.
    pub one_behind: bool,
    /// With how many locks TCP guards a connection under `message`.
    pub tcp_locks: &'static str,
    /// Whether that lock is waited for, or work is left with whoever is inside.
    pub perimeter: &'static str,
    /// What one of these perimeters covers under `message`.
    pub span: &'static str,
    /// What of the order of arrival reaches TCP under `message`.
    pub order: &'static str,
    /// What of TCP's order reaches an application above the order-free work: `none` without one.
    pub order_above: &'static str,
    /// How many queues the device has.
    pub device_queues: usize,
    /// Most messages taken at once.
    pub batch: usize,
    /// Application bits per nanosecond of wall time, over the counted repetitions.
    pub throughput_gbps: Summary,
    /// Processor time per message, all threads together: median.
    pub cpu_ns_per_message: f64,
    /// Processor time in user mode: sum.
    pub user_ms: f64,
    /// Processor time in the kernel: sum.
    pub system_ms: f64,
    /// Median throughput over that of the same architecture on one processor under the same load. None where that was not
    /// measured.
    pub speedup: Option<f64>,
    /// What as many processors that share nothing reach over one: median of the probes, 1 on one processor. None where
    /// there is no speed-up to hold against it.
    pub ceiling: Option<f64>,
    /// How long a cache line takes from the first processor to the last, one way: median of the probes. None on one
    /// processor.
    pub latency_probe_ns: Option<f64>,
    /// Speed-up over the number of processors.
    pub efficiency: Option<f64>,
    /// Times a processor's thread slept: sum. Per message is over `messages`.
    pub voluntary_switches: u64,
    /// Times a processor's thread was made to give way: sum.
    pub involuntary_switches: u64,
    /// Time between asking for a lock and having it, and between asking to enter what is delegated and being inside or having left the
    /// work there, per message, from a repetition of its own. None where there was none.
    pub sync_ns_per_message: Option<f64>,
    /// What locks cost by class, per message, from the same repetition.
    pub locks_per_message: Option<BTreeMap<&'static str, LockCost>>,
    /// What delegation costs, per message, from the same repetition. None where nothing delegated was entered.
    pub delegation_per_message: Option<DelegationCost>,
    /// The share of order-free functions in the time of one processor under this load, f, from a repetition of its own: sharing
    /// them alone, n processors do the work of at most n / (n - (n - 1) f). None where it was not measured.
    pub order_free_share: Option<f64>,
    /// Segments that were not next in order when they reached TCP, in percent: mean by messages.
    pub out_of_order_percent: f64,
    /// Which way the messages go.
    pub direction: &'static str,
    /// `bulk` or `echo`.
    pub mode: &'static str,
    /// Median of a one-message round trip. In mode `bulk` from `round_trip`; none where no round trip was measured.
    pub p50_ns: Option<u64>,
    /// 99 of 100 round trips took no longer.
    pub p99_ns: Option<u64>,
    /// 999 of 1,000 round trips took no longer.
    pub p999_ns: Option<u64>,
    /// Round trips per second over all connections.
    pub round_trips_per_second: Option<f64>,
    /// Hash of what the application received, in hexadecimal: equal for every architecture under the same load.
    pub payload_hash: String,
    /// How many repetitions are counted.
    pub counted_repetitions: usize,
    /// Whether all counted repetitions are settled.
    pub settled: bool,
    /// Every repetition, in the order in which they were made.
    pub repetitions: Vec<Repetition>,
    /// The separate measurement of round trips that a `bulk` run's p50 and p99 come from.
    pub round_trip: Option<RoundTrip>,
}

impl Run {
    /// How many times the work of one processor this many do at most that share order-free work alone.
    pub(super) fn order_free_bound(&self) -> Option<f64> {
        let n = self.processors as f64;
        (self.order_free_share).map(|share| n / (n - (n - 1.0) * share))
    }

    /// A count of the run per 1,000 messages.
    pub(super) fn per_thousand(&self, count: u64) -> f64 {
        count as f64 * 1000.0 / self.messages.max(1) as f64
    }
}

/// What the machine could do at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Probe {
    /// How long a cache line takes from the first processor to the last, one way.
    pub latency_ns: f64,
    /// What the processors reach that share nothing, over one.
    pub ceiling: f64,
}

/// One repetition, raw.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Repetition {
    /// Messages that went whole through the window.
    pub messages: u64,
    /// Wall time of the window.
    pub wall_ns: u64,
    /// Application bytes of the window.
    pub bytes: u64,
    /// Application bits per nanosecond of wall time.
    pub throughput_gbps: f64,
    /// Processor time of all threads per message.
    pub cpu_ns_per_message: f64,
    /// Processor time in user mode.
    pub user_ms: f64,
    /// Processor time in the kernel.
    pub system_ms: f64,
    /// Times a processor's thread slept.
    pub voluntary_switches: u64,
    /// Times a processor's thread was made to give way.
    pub involuntary_switches: u64,
    /// Segments out of order at TCP, in percent.
    pub out_of_order_percent: f64,
    /// Counters that are not zero.
    pub counters: BTreeMap<String, u64>,
    /// What the machine could do just before. None on one processor.
    pub probe_before: Option<Probe>,
    /// What it could do just after.
    pub probe_after: Option<Probe>,
    /// Whether both probes say the same within a fifth.
    pub settled: bool,
}

impl Repetition {
    /// What was measured between two probes, or without any.
    pub(super) fn new(
        result: RunResult,
        probe_before: Option<Probe>,
        probe_after: Option<Probe>,
    ) -> Repetition {
        let settled = match (probe_before, probe_after) {
            (Some(before), Some(after)) => {
                steady(before.latency_ns, after.latency_ns) && steady(before.ceiling, after.ceiling)
            }
            _ => true,
        };
        Repetition {
            messages: result.messages,
            wall_ns: result.wall_ns,
            bytes: result.bytes,
            throughput_gbps: result.throughput_gbps,
            cpu_ns_per_message: result.cpu_ns_per_message,
            user_ms: result.user_ms,
            system_ms: result.system_ms,
            voluntary_switches: result.voluntary_switches,
            involuntary_switches: result.involuntary_switches,
            out_of_order_percent: result.out_of_order_percent,
            counters: result.counters,
            probe_before,
            probe_after,
            settled,
        }
    }
}

fn steady(before: f64, after: f64) -> bool {
    before.max(after) <= before.min(after) * MOST_MOVED
}

/// Round trips of one message between two whole stacks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoundTrip {
    /// How many connections, each with one message on its way.
    pub connections: usize,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// Bytes of the message.
    pub message_bytes: usize,
    /// `both`: each message goes down one stack and up the other, and back.
    pub direction: &'static str,
    /// `echo`.
    pub mode: &'static str,
    /// How many round trips were measured.
    pub round_trips: u64,
    /// Wall time of the window.
    pub wall_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p999_ns: u64,
    /// Over all connections.
    pub round_trips_per_second: f64,
    /// Processor time of all threads per round trip.
    pub cpu_ns_per_message: f64,
    /// Times a processor's thread slept.
    pub voluntary_switches: u64,
    /// Times a processor's thread was made to give way.
    pub involuntary_switches: u64,
    /// Counters that are not zero.
    pub counters: BTreeMap<String, u64>,
}

impl RoundTrip {
    /// The round trips of a measurement in mode echo; none of another.
    pub(super) fn new(config: &TtcpConfig, result: RunResult) -> Option<RoundTrip> {
        let rtt = result.rtt?;
        Some(RoundTrip {
            connections: config.connections,
            transport: config.transport.name(),
            message_bytes: config.size,
            direction: config.direction.name(),
            mode: config.mode.name(),
            round_trips: result.messages,
            wall_ns: result.wall_ns,
            p50_ns: rtt.p50_ns,
            p99_ns: rtt.p99_ns,
            p999_ns: rtt.p999_ns,
            round_trips_per_second: rtt.round_trips_per_second,
            cpu_ns_per_message: result.cpu_ns_per_message,
            voluntary_switches: result.voluntary_switches,
            involuntary_switches: result.involuntary_switches,
            counters: result.counters,
        })
    }
}
