//! One measurement by itself: what `ttcp` shows.

use super::campaign::Laboratory;
use super::config::{Connections, Processors};
use super::digest::{digest, hexadecimal, tell_locks};
use super::format;
use super::report::{Repetition, Run};
use super::table::{agents, limits, load, ways};
use crate::{LabError, LockCost, Mode, TtcpConfig};
use core::fmt::Write;

/// Measures one configuration once, and if that is wanted a second time with waits for locks timed, and under a bulk load on one
/// processor with order-free functions timed.
///
/// # Errors
/// [`LabError`], whatever kept it from being measured.
pub fn single(
    laboratory: &mut dyn Laboratory,
    config: &TtcpConfig,
    sampled: bool,
) -> Result<Run, LabError> {
    let plain = TtcpConfig {
        sync_sampling: false,
        ..config.clone()
    };
    let result = laboratory.run(&plain)?;
    let metered = if sampled {
        let timed = TtcpConfig {
            sync_sampling: true,
            ..plain.clone()
        };
        Some(laboratory.run(&timed)?)
    } else {
        None
    };
    let (rtt, hash) = (result.rtt, result.payload_hash);
    let mut run = digest(&plain, &[Repetition::new(result, None, None)], 1);
    tell_locks(&mut run, metered.as_ref());
    if sampled && plain.mode == Mode::Bulk {
        run.order_free_share = laboratory.run(&plain.alone())?.order_free_share;
    }
    run.payload_hash = hexadecimal(hash);
    run.p50_ns = rtt.map(|rtt| rtt.p50_ns);
    run.p99_ns = rtt.map(|rtt| rtt.p99_ns);
    run.p999_ns = rtt.map(|rtt| rtt.p999_ns);
    run.round_trips_per_second = rtt.map(|rtt| rtt.round_trips_per_second);
    Ok(run)
}

/// One run as people read it, a figure on each line.
pub fn describe(run: &Run) -> String {
    let mut text = String::new();
    let presentation = match run.presentation {
        "none" => String::new(),
        name => format!(", presentation {name}"),
    };
    let queues = if run.device_queues == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "{} on {}, {}: {}{presentation}, {}\n{}{}, batch {}, {} device queue{queues}\n{}, waits {}\n",
        run.architecture,
        Processors(run.processors),
        Connections(run.connections),
        load(run),
        run.mode,
        limits(run),
        ways(core::slice::from_ref(run)),
        run.batch,
        run.device_queues,
        agents(core::slice::from_ref(run)),
        run.wait,
    );
    let mut line = |name: &str, figure: String| {
        let _ = writeln!(text, "  {name:<16}{figure}");
    };
    let wall_ns: u64 = run.repetitions.iter().map(|one| one.wall_ns).sum();
    if run.mode == Mode::Echo.name() {
        round_trips(run, &mut line);
    } else {
        let per_second = run.messages as f64 * 1e9 / wall_ns.max(1) as f64;
        line(
            "throughput",
            format!(
                "{} Gbit/s, {} messages/s",
                format::throughput(run.throughput_gbps.median),
                format::short(per_second)
            ),
        );
    }
    line(
        "processor time",
        format!(
            "{} ns/message ({} ms user, {} ms system)",
            format::short(run.cpu_ns_per_message),
            format::short(run.user_ms),
            format::short(run.system_ms)
        ),
    );
    line(
        "switches",
        format!(
            "{} voluntary, {} involuntary per 1,000 messages",
            format::short(run.per_thousand(run.voluntary_switches)),
            format::short(run.per_thousand(run.involuntary_switches))
        ),
    );
    if let Some(sync) = run.sync_ns_per_message {
        line(
            "synchronisation",
            format!("{} ns/message", format::short(sync)),
        );
    }
    if let Some(delegation) = run.delegation_per_message {
        let waited = delegation.deferred_each_ns().map_or_else(
            || "nothing was left".to_owned(),
            |waited| format!("what they left waited {} µs", format::short(waited / 1e3)),
        );
        let held = format::short(delegation.contention() * 100.0);
        line(
            "delegation",
            format!("{held} % of entries found somebody inside, {waited}"),
        );
    }
    if let Some((share, bound)) = run.order_free_share.zip(run.order_free_bound()) {
        let many = Processors(run.processors);
        line(
            "order-free",
            format!(
                "{share:.2} of one processor's time: shared, at most {bound:.2} times as much on {many}"
            ),
        );
    }
    line(
        "out of order",
        format!("{} % of segments", format::short(run.out_of_order_percent)),
    );
    line(
        "measured",
        format!(
            "{} messages in {} ms, payload hash {}",
            format::count(run.messages),
            format::short(wall_ns as f64 / 1e6),
            run.payload_hash
        ),
    );
    locks(run, &mut text);
    counters(run, &mut text);
    text
}

fn round_trips(run: &Run, line: &mut dyn FnMut(&str, String)) {
    line(
        "round trips",
        format!(
            "{} per second",
            format::optional(run.round_trips_per_second)
        ),
    );
    line(
        "round trip",
        format!(
            "{} µs p50, {} µs p99, {} µs p99.9",
            format::microseconds(run.p50_ns),
            format::microseconds(run.p99_ns),
            format::microseconds(run.p999_ns)
        ),
    );
}

fn locks(run: &Run, text: &mut String) {
    let locks = run.locks_per_message.iter().flatten();
    let delegation = run.delegation_per_message.map(|cost| LockCost {
        acquisitions: cost.entries,
        contended: cost.left,
        waited_ns: cost.entering_ns,
        held_ns: cost.inside_ns,
    });
    let rows = (locks.map(|(class, cost)| (*class, *cost)))
        .chain(delegation.map(|cost| ("delegation", cost)));
    for (index, (class, cost)) in rows.enumerate() {
        if index == 0 {
            let _ = writeln!(
                text,
                "\n  {:<16}{:>12}{:>12}{:>12}{:>12}  per 1,000 messages",
                "locks", "taken", "found held", "µs waited", "µs held"
            );
        }
        let _ = write!(text, "    {class:<14}");
        // Nanoseconds per message are microseconds per 1,000.
        for figure in [
            cost.acquisitions * 1e3,
            cost.contended * 1e3,
            cost.waited_ns,
            cost.held_ns,
        ] {
            let _ = write!(text, "{:>12}", format::short(figure));
        }
        text.push('\n');
    }
}

fn counters(run: &Run, text: &mut String) {
    let counters = run.repetitions.iter().flat_map(|one| &one.counters);
    for (index, (name, value)) in counters.enumerate() {
        if index == 0 {
            text.push_str("\n  counters\n");
        }
        let _ = writeln!(text, "    {name:<40}{:>20}", format::count(*value));
    }
}
