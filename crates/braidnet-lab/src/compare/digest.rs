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
        messages,
        throughput_gbps: Summary::of(&column(|repetition| repetition.throughput_gbps))
            .unwrap_or_default(),
        cpu_ns_per_message: median(&column(|repetition| repetition.cpu_ns_per_message))
            .unwrap_or_default(),
        user_ms: column(|repetition| repetition.user_ms).iter().sum(),
        system_ms: column(|repetition| repetition.system_ms).iter().sum(),
        ceiling: probed(&counted, |probe| probe.ceiling),
        latency_probe_ns: probed(&counted, |probe| probe.latency_ns),
        voluntary_switches: count(|repetition| repetition.voluntary_switches),
        involuntary_switches: count(|repetition| repetition.involuntary_switches),
        out_of_order_percent: disordered / messages.max(1) as f64,
        counted_repetitions: counted.len(),
        settled,
        repetitions: repetitions.to_vec(),
        ..unmeasured(config)
    }
}

/// How a run is set, without a figure. Every knob has to be named here.
fn unmeasured(config: &TtcpConfig) -> Run {
    let TtcpConfig {
        architecture,
        processors,
        connections,
        transport,
        messages,
        warmup,
        size,
        mtu,
        window_bytes,
        checksum,
        presentation,
        skew,
        direction,
        mode,
        ref impair,
        work,
        lock,
        tcp_locks,
        counts,
        caches,
        one_behind,
        perimeter,
        span,
        order,
        order_above,
        batch,
        device_queues,
        agents,
        threads,
        thread_per_connection,
        wait,
        state,
        pin,
        min_duration,
        congestion,
        // What is measured beside, in repetitions of its own.
        sync_sampling: _,
        order_free_sampling: _,
    } = *config;
    Run {
        architecture: architecture.name(),
        processors,
        connections,
        transport: transport.name(),
        presentation: presentation.name(),
        message_bytes: size,
        skew: skew.map(Share::value),
        impair: impair.as_ref().map(|wire| wire.0.to_string()),
        impair_back: impair.as_ref().map(|wire| wire.1.to_string()),
        work_ns: work.as_nanos() as u64,
        warmup_messages: warmup,
        least_messages: messages,
        fill_ns: min_duration.as_nanos() as u64,
        messages: 0,
        mtu,
        window_bytes,
        checksum,
        agents: agents.name(),
        threads: (agents == Agents::Tasks).then(|| threads.unwrap_or(processors)),
        thread_per_connection,
        wait: wait.name(),
        state: state.name(),
        pin,
        congestion: congestion.name(),
        lock: config.is_locking().then(|| lock.name()),
        counts: counts.name(),
        caches,
        one_behind,
        tcp_locks: tcp_locks.name(),
        perimeter: perimeter.name(),
        span: span.name(),
        order: order.name(),
        order_above: order_above.name(),
        device_queues,
        batch,
        throughput_gbps: Summary::default(),
        cpu_ns_per_message: 0.0,
        user_ms: 0.0,
        system_ms: 0.0,
        speedup: None,
        ceiling: None,
        latency_probe_ns: None,
        efficiency: None,
        voluntary_switches: 0,
        involuntary_switches: 0,
        sync_ns_per_message: None,
        locks_per_message: None,
        delegation_per_message: None,
        order_free_share: None,
        out_of_order_percent: 0.0,
        direction: direction.name(),
        mode: mode.name(),
        p50_ns: None,
        p99_ns: None,
        p999_ns: None,
        round_trips_per_second: None,
        payload_hash: hexadecimal(0),
        counted_repetitions: 0,
        settled: true,
        repetitions: Vec::new(),
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
