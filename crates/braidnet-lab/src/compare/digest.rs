//! From raw repetitions to the figures of a run.

use super::campaign::Measured;
use super::config::{Cell, CompareConfig};
use super::report::{Probe, Repetition, Run};
use super::statistics::{Summary, median};
use crate::{Agents, Presentation, RunResult, Share, TtcpConfig};
use braidnet_process::Architecture;
use std::collections::BTreeMap;

/// The runs of a grid, one for each cell.
pub(super) fn runs(config: &CompareConfig, cells: &[Cell], measured: &Measured) -> Vec<Run> {
    let mut runs = Vec::with_capacity(cells.len());
    let mut bases: BTreeMap<(usize, Presentation, Architecture), f64> = BTreeMap::new();
    // Cells of fewer processors come first within one architecture and load, so each finds its base.
    for cell in cells {
        let repetitions = (measured.repetitions.get(cell)).map_or(&[][..], Vec::as_slice);
        let mut run = digest(&cell.config(&config.base), repetitions, config.repetitions);
        let line = (cell.connections, cell.presentation, cell.architecture);
        if cell.processors == 1 {
            bases.insert(line, run.throughput_gbps.median);
        }
        relate(&mut run, bases.get(&line).copied());
        tell_locks(&mut run, measured.sampled.get(cell));
        run.order_free_share = measured.order_free_under(cell);
        run.payload_hash = hexadecimal(measured.delivered_under(cell).map_or(0, |(_, hash)| hash));
        if let Some(round_trip) = measured.round_trip(cell) {
            run.p50_ns = Some(round_trip.p50_ns);
            run.p99_ns = Some(round_trip.p99_ns);
            run.p999_ns = Some(round_trip.p999_ns);
            run.round_trips_per_second = Some(round_trip.round_trips_per_second);
            run.round_trip = Some(round_trip.clone());
        }
        runs.push(run);
    }
    runs
}

/// The figures of one run by itself, of which `wanted` settled repetitions were asked for.
pub(super) fn digest(config: &TtcpConfig, repetitions: &[Repetition], wanted: usize) -> Run {
    let (counted, settled) = counted(repetitions, wanted);
    let column = |figure: fn(&Repetition) -> f64| -> Vec<f64> {
        counted
            .iter()
            .map(|repetition| figure(repetition))
            .collect()
    };
    let count = |figure: fn(&Repetition) -> u64| -> u64 {
        counted.iter().map(|repetition| figure(repetition)).sum()
    };
    let messages = count(|repetition| repetition.messages);
    let disordered: f64 = (counted.iter())
        .map(|repetition| repetition.out_of_order_percent * repetition.messages as f64)
        .sum();
    Run {
        architecture: config.architecture.name(),
        processors: config.processors,
        connections: config.connections,
        transport: config.transport.name(),
        presentation: config.presentation.name(),
        message_bytes: config.size,
        skew: config.skew.map(Share::value),
        work_ns: config.work.as_nanos() as u64,
        messages,
        mtu: config.mtu,
        window_bytes: config.window_bytes,
        checksum: config.checksum,
        agents: config.agents.name(),
        threads: (config.agents == Agents::Tasks)
            .then(|| config.threads.unwrap_or(config.processors)),
        thread_per_connection: config.thread_per_connection,
        wait: config.wait.name(),
        state: config.state.name(),
        pin: config.pin,
        congestion: config.congestion.name(),
        lock: config.is_locking().then(|| config.lock.name()),
        counts: config.counts.name(),
        caches: config.caches,
        one_behind: config.one_behind,
        tcp_locks: config.tcp_locks.name(),
        perimeter: config.perimeter.name(),
        span: config.span.name(),
        order: config.order.name(),
        device_queues: config.device_queues,
        batch: config.batch,
        throughput_gbps: Summary::of(&column(|repetition| repetition.throughput_gbps))
            .unwrap_or_default(),
        cpu_ns_per_message: median(&column(|repetition| repetition.cpu_ns_per_message))
            .unwrap_or_default(),
        user_ms: column(|repetition| repetition.user_ms).iter().sum(),
        system_ms: column(|repetition| repetition.system_ms).iter().sum(),
        speedup: None,
        ceiling: probed(&counted, |probe| probe.ceiling),
        latency_probe_ns: probed(&counted, |probe| probe.latency_ns),
        efficiency: None,
        voluntary_switches: count(|repetition| repetition.voluntary_switches),
        involuntary_switches: count(|repetition| repetition.involuntary_switches),
        sync_ns_per_message: None,
        locks_per_message: None,
        delegation_per_message: None,
        order_free_share: None,
        out_of_order_percent: disordered / messages.max(1) as f64,
        direction: config.direction.name(),
        mode: config.mode.name(),
        p50_ns: None,
        p99_ns: None,
        p999_ns: None,
        round_trips_per_second: None,
        payload_hash: hexadecimal(0),
        counted_repetitions: counted.len(),
        settled,
        repetitions: repetitions.to_vec(),
        round_trip: None,
    }
}

/// How a hash is written.
pub(super) fn hexadecimal(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The repetitions that count, and whether they are all settled: the settled ones where there are as many as wanted, else
/// all, for leaving out what is unsteady would leave too little.
fn counted(repetitions: &[Repetition], wanted: usize) -> (Vec<&Repetition>, bool) {
    let settled: Vec<&Repetition> = repetitions.iter().filter(|one| one.settled).collect();
    if settled.len() >= wanted {
        return (settled, true);
    }
    (repetitions.iter().collect(), false)
}

/// The median over the probes beside some repetitions: of each, the mean of the one before and the one after.
fn probed(repetitions: &[&Repetition], figure: fn(&Probe) -> f64) -> Option<f64> {
    let beside: Vec<f64> = (repetitions.iter())
        .filter_map(|repetition| repetition.probe_before.zip(repetition.probe_after))
        .map(|(before, after)| (figure(&before) + figure(&after)) / 2.0)
        .collect();
    median(&beside)
}

/// Fills in what a repetition with locks and delegation metered has shown.
pub(super) fn tell_locks(run: &mut Run, metered: Option<&RunResult>) {
    run.sync_ns_per_message = metered.map(|metered| metered.sync_ns_per_message);
    run.locks_per_message = metered.map(|metered| metered.locks_per_message.clone());
    run.delegation_per_message = metered.and_then(|metered| metered.delegation_per_message);
}

/// Fills in what a run is in relation to its base, the same on one processor.
fn relate(run: &mut Run, base: Option<f64>) {
    let Some(base) = base.filter(|&base| base > 0.0) else {
        run.ceiling = None;
        return;
    };
    let speedup = run.throughput_gbps.median / base;
    run.speedup = Some(speedup);
    run.efficiency = Some(speedup / run.processors as f64);
    if run.processors == 1 {
        run.ceiling = Some(1.0);
    }
}
