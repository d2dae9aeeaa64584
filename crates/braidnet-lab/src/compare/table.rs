//! What a comparison found, as people read it.

use super::config::{Connections, Processors};
use super::format;
use super::report::{Report, Run};
use core::fmt::Write;

/// The widest that a line may be, in columns.
pub(super) const MOST_COLUMNS: usize = 120;

/// The whole answer: the machine, the figures, how to read them, and the advice. No line is longer than 120 columns unless
/// the machine's name is.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    heading(&mut text, report);
    figures(&mut text, &report.runs);
    legend(&mut text, &report.runs);
    advice(&mut text, report);
    text
}

/// The sentences, a paragraph each, and what cannot be compared under this load.
pub(super) fn advice(text: &mut String, report: &Report) {
    let without_work = report.runs.iter().all(|run| run.work_ns == 0);
    let left_out = without_work.then_some(LEFT_OUT);
    for sentence in report.advice.iter().map(String::as_str).chain(left_out) {
        text.push('\n');
        push_line(text, &wrapped(sentence, MOST_COLUMNS));
    }
}

const LEFT_OUT: &str = "Left out: `function`, under which processors share in the work on one message. It needs a module that can \
                        divide its work; `--work 20us` puts one there.";

/// What was measured on, and what all runs have in common.
pub(super) fn heading(text: &mut String, report: &Report) {
    machine(text, report);
    let Some(run) = report.runs.first() else {
        return;
    };
    let queues = report.runs.iter().map(|run| run.device_queues).max();
    let queues = queues.unwrap_or(run.device_queues);
    let line = format!(
        "{}; {}{}, batch {}, {}{queues} device queue{}, {}, waits {}",
        load(run),
        limits(run),
        ways(&report.runs),
        run.batch,
        if queues > 1 { "at most " } else { "" },
        if queues == 1 { "" } else { "s" },
        agents(&report.runs),
        run.wait,
    );
    push_line(text, &wrapped(&line, MOST_COLUMNS));
}

/// What was measured on.
pub(super) fn machine(text: &mut String, report: &Report) {
    let machine = &report.machine;
    let commit =
        (machine.commit.as_ref()).map_or_else(String::new, |commit| format!(" ({commit})"));
    let line = format!(
        "braidnet {}{commit} on {}, {} allowed, {}, {}",
        machine.version,
        machine.cpu_model,
        Processors(machine.allowed_processors),
        machine.kernel,
        machine.date
    );
    push_line(text, &wrapped(&line, MOST_COLUMNS));
}

/// What goes where: "4 KiB messages over tcp, receive".
pub(super) fn load(run: &Run) -> String {
    let work = match run.work_ns {
        0 => String::new(),
        nanos => format!(" with {} µs of work each", nanos as f64 / 1000.0),
    };
    let skew = run.skew.map_or_else(String::new, |share| {
        format!(", {share} of them to one connection")
    });
    let wire = match (&run.impair, &run.impair_back) {
        (Some(there), Some(back)) => format!(", wire {there}, back {back}"),
        _ => String::new(),
    };
    format!(
        "{} messages{work} over {}, {}{skew}{wire}",
        format::bytes(run.message_bytes as u64),
        run.transport.to_uppercase(),
        run.direction
    )
}

/// What a connection may use: "MTU 4352, window 1 MiB, checksums on".
pub(super) fn limits(run: &Run) -> String {
    format!(
        "MTU {}, window {}, checksums {}",
        run.mtu,
        format::bytes(run.window_bytes.into()),
        if run.checksum { "on" } else { "off" }
    )
}

/// How the stack was set, as far as that is not told elsewhere: what all runs have in common, and what those of them are that can be
/// set otherwise than usual. ", lock mcs, perimeters delegated, caches off".
pub(super) fn ways(runs: &[Run]) -> String {
    let mut ways = String::new();
    let mut way = |what: &dyn Fn(&Run) -> Option<String>| {
        if let Some(text) = runs.iter().find_map(what) {
            // Writing to a string cannot fail.
            let _ = write!(ways, ", {text}");
        }
    };
    let unusual = |name: &str, usual: &str| (name != usual).then(|| name.to_owned());
    let spelled = |lead: &str, name: &str, usual: &str| {
        unusual(name, usual).map(|name| format!("{lead} {name}"))
    };
    way(&|run| run.lock.map(|lock| format!("lock {lock}")));
    way(&|run| spelled("TCP locks", run.tcp_locks, "1"));
    way(&|run| spelled("perimeters", run.perimeter, "locked"));
    way(&|run| spelled("a perimeter for each", run.span, "connection"));
    way(&|run| spelled("order", run.order, "none"));
    way(&|run| spelled("order above", run.order_above, "none"));
    way(&|run| spelled("counts", run.counts, "lean"));
    way(&|run| (!run.caches).then(|| "caches off".to_owned()));
    way(&|run| spelled("state", run.state, "together"));
    way(&|run| (!run.one_behind).then(|| "one-behind off".to_owned()));
    way(&|run| spelled("congestion", run.congestion, "cubic"));
    ways
}

/// What carried the work.
pub(super) fn agents(runs: &[Run]) -> String {
    let Some(run) = runs.first() else {
        return String::new();
    };
    let of = if run.thread_per_connection {
        "connection"
    } else {
        "processor"
    };
    let is_one = runs.iter().all(|other| other.threads == run.threads);
    let carried = match run.threads {
        None => format!("a thread for each {of}"),
        Some(1) if is_one => format!("a task for each {of} on 1 thread"),
        Some(threads) if is_one => format!("a task for each {of} on {threads} threads"),
        Some(_) => format!("a task for each {of} on as many threads"),
    };
    let pinned = if run.pin { ", pinned" } else { "" };
    format!("{carried}{pinned}")
}

/// One column: two lines of header, and what stands in it.
struct Column {
    header: [&'static str; 2],
    cell: fn(&Run) -> String,
}

const COLUMNS: [Column; 13] = [
    column(["", "architecture"], |run| run.architecture.to_owned()),
    column(["", "procs"], |run| run.processors.to_string()),
    column(["", "Gbit/s"], |run| {
        let steady = if run.settled { "" } else { "~" };
        format!("{steady}{}", format::throughput(run.throughput_gbps.median))
    }),
    column(["±", "90 %"], |run| {
        format::half(run.throughput_gbps.median, run.throughput_gbps.ci90)
    }),
    column(["processor", "ns/msg"], |run| {
        format::short(run.cpu_ns_per_message)
    }),
    column(["", "speed-up"], |run| format::optional(run.speedup)),
    column(["", "ceiling"], |run| format::optional(run.ceiling)),
    column(["voluntary", "sw/1,000"], |run| {
        format::short(run.per_thousand(run.voluntary_switches))
    }),
    column(["involunt.", "sw/1,000"], |run| {
        format::short(run.per_thousand(run.involuntary_switches))
    }),
    column(["sync", "ns/msg"], |run| {
        format::optional(run.sync_ns_per_message)
    }),
    column(["out of", "order %"], |run| {
        format::short(run.out_of_order_percent)
    }),
    column(["p50", "µs"], |run| format::microseconds(run.p50_ns)),
    column(["p99", "µs"], |run| format::microseconds(run.p99_ns)),
];

const fn column(header: [&'static str; 2], cell: fn(&Run) -> String) -> Column {
    Column { header, cell }
}

fn figures(text: &mut String, runs: &[Run]) {
    let rows: Vec<[String; COLUMNS.len()]> = (runs.iter())
        .map(|run| core::array::from_fn(|index| (COLUMNS[index].cell)(run)))
        .collect();
    let widths: [usize; COLUMNS.len()] = core::array::from_fn(|index| {
        let cells = rows.iter().map(|row| row[index].as_str());
        let widest = cells.chain(COLUMNS[index].header).map(columns_of).max();
        widest.unwrap_or(0)
    });
    text.push('\n');
    for line in 0..2 {
        let header = COLUMNS.each_ref().map(|column| column.header[line]);
        push_row(text, header, &widths);
    }
    let mut group = None;
    for (run, row) in runs.iter().zip(&rows) {
        let here = (run.connections, run.presentation);
        if group.replace(here) != Some(here) {
            text.push('\n');
            push_line(text, &title(run));
        }
        push_row(text, row.each_ref().map(String::as_str), &widths);
    }
}

fn title(run: &Run) -> String {
    let presentation = match run.presentation {
        "none" => "no presentation".to_owned(),
        name => format!("presentation {name}"),
    };
    format!("{}, {presentation}", Connections(run.connections))
}

/// The first column begins at its left edge, all others end at their right one.
fn push_row(text: &mut String, cells: [&str; COLUMNS.len()], widths: &[usize; COLUMNS.len()]) {
    let mut line = String::new();
    for (index, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if index == 0 {
            line.push_str(cell);
        }
        let padding = width.saturating_sub(columns_of(cell));
        line.extend(core::iter::repeat_n(' ', padding));
        if index > 0 {
            line.push_str(cell);
        }
        line.push_str("  ");
    }
    push_line(text, line.trim_end());
}

fn legend(text: &mut String, runs: &[Run]) {
    let Some(run) = runs.first() else {
        return;
    };
    let counted = runs
        .iter()
        .map(|run| run.counted_repetitions)
        .min()
        .unwrap_or(0);
    let message = format::bytes(run.message_bytes as u64);
    text.push('\n');
    let mut term = |name: &str, meaning: &str| {
        let _ = writeln!(text, "{name:<13} {meaning}");
    };
    term(
        "Gbit/s",
        &format!(
            "application bits; median of {counted} or more repetitions, ± half the 90 % confidence interval of their mean"
        ),
    );
    term(
        "processor",
        "time of all processors per message, the simulated far end's included",
    );
    term(
        "speed-up",
        "over one processor; ceiling: of as many stacks that share nothing, connections dealt among them",
    );
    term(
        "sw/1,000",
        "per 1,000 messages, how often the kernel found a thread asleep (voluntary) or took its processor away",
    );
    term(
        "sync",
        "time to have locks, and to enter what is delegated or leave the work there, from a repetition of its own",
    );
    term(
        "out of order",
        "segments that were not next in order when they reached TCP",
    );
    term(
        "p50, p99",
        &format!(
            "round trip of one {message} message between two whole stacks on one connection{}",
            if run.work_ns > 0 {
                ", without work"
            } else {
                ""
            }
        ),
    );
    if run.work_ns > 0 {
        term(
            "work",
            "order-free, on each message received, above all else: whichever processor has the message may do it",
        );
    }
    if runs.iter().any(|run| run.p50_ns.is_none()) {
        term(
            format::NONE,
            "under p50 and p99: a round trip has no work, and the architecture needs some to divide",
        );
    }
    for meaning in order_free(runs) {
        term("order-free", &meaning);
    }
    if runs.iter().any(|run| !run.settled) {
        term(
            "~",
            "the machine was not steady: too few repetitions between probes that agree, so that all are counted",
        );
    }
    if runs.iter().any(|run| run.speedup.is_none()) {
        term(
            format::NONE,
            "not measured: a speed-up needs one processor among the numbers of processors",
        );
    }
}

/// For each load what share of the time is order-free, and what comes of sharing that alone.
fn order_free(runs: &[Run]) -> impl Iterator<Item = String> {
    runs.iter().enumerate().filter_map(|(index, run)| {
        let alike = |other: &Run| {
            let load = |run: &Run| (run.connections, run.presentation, run.processors);
            load(other) == load(run)
        };
        let (share, bound) = run.order_free_share.zip(run.order_free_bound())?;
        if run.processors == 1 || runs[..index].iter().any(alike) {
            return None;
        }
        let (load, many) = (title(run), Processors(run.processors));
        Some(format!(
            "{share:.2} of the time with {load}: shared alone, {bound:.2} times as much on {many}"
        ))
    })
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// How many columns a text takes. All that is printed here takes one a character.
fn columns_of(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text at spaces so that no line is wider than so many columns, unless a word is. A figure and how far it may be
/// off stay together.
pub(super) fn wrapped(text: &str, columns: usize) -> String {
    const GLUED: &str = "\u{a0}±\u{a0}";
    let glued = text.replace(" ± ", GLUED);
    let mut lines = String::new();
    let mut room = columns;
    for word in glued.split(' ') {
        let length = columns_of(word);
        if lines.is_empty() {
            room = room.saturating_sub(length);
        } else if length < room {
            lines.push(' ');
            room -= length + 1;
        } else {
            lines.push('\n');
            room = columns.saturating_sub(length);
        }
        lines.push_str(word);
    }
    lines.replace(GLUED, " ± ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_but_not_within_a_figure() {
        let rows = [
            ("", ""),
            ("one two three", "one two\nthree"),
            ("a 61.2 ± 0.3 b", "a\n61.2 ± 0.3\nb"),
            ("incomprehensible", "incomprehensible"),
            ("0123456789 0", "0123456789\n0"),
        ];
        for (text, lines) in rows {
            assert_eq!(wrapped(text, 10), lines);
        }
    }
}
