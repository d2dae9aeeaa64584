//! A comparison over many numbers of connections, as CP/MP §3.4.1 has it in figure 7: who is best where, and how `braid` stands.
//!
//! `braid` is built to be as good as the better of `connection` and `message` at every number of connections. That is a claim
//! about three architectures, so here, unlike in the rules of [advice](super::advise()), they are named.

use super::advice::{Load, listed, share, under};
use super::config::Processors;
use super::format;
use super::report::{Report, Run};
use super::table::{advice, heading};
use core::fmt::Write;
use std::collections::BTreeSet;

/// What `braid` is to reach of the better of `connection` and `message`, at least, at every number of connections.
pub(super) const CLAIM: f64 = 0.93;

/// The answer with a row for each number of connections and a column for each architecture: throughputs, the best marked,
/// then how to read them, and the advice. All else that was measured is in the JSON.
pub fn by_connections(report: &Report) -> String {
    let mut text = String::new();
    heading(&mut text, report);
    let mut blocks: Vec<(usize, &str)> = Vec::new();
    for run in &report.runs {
        let block = (run.processors, run.presentation);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    for block in blocks {
        let of_block = |run: &&Run| (run.processors, run.presentation) == block;
        let runs: Vec<&Run> = report.runs.iter().filter(of_block).collect();
        rows(&mut text, &runs);
    }
    legend(&mut text, &report.runs);
    advice(&mut text, report);
    text
}

/// One table: the runs on so many processors with one presentation.
fn rows(text: &mut String, runs: &[&Run]) {
    let Some(first) = runs.first() else {
        return;
    };
    let presentation = match first.presentation {
        "none" => "no presentation".to_owned(),
        name => format!("presentation {name}"),
    };
    let _ = writeln!(
        text,
        "\nGbit/s on {}, {presentation}\n",
        Processors(first.processors)
    );
    let mut architectures: Vec<&str> = Vec::new();
    for run in runs {
        if !architectures.contains(&run.architecture) {
            architectures.push(run.architecture);
        }
    }
    let _ = write!(text, "connections");
    for name in &architectures {
        let _ = write!(text, "  {name:>17}");
    }
    text.push('\n');
    let connections: BTreeSet<usize> = runs.iter().map(|run| run.connections).collect();
    for count in connections {
        let row: Vec<&Run> = (runs.iter())
            .filter(|run| run.connections == count)
            .copied()
            .collect();
        let load = Load::of(&row);
        let _ = write!(text, "{count:>11}");
        for name in &architectures {
            let cell = load.run(name).map_or_else(
                || format::NONE.to_owned(),
                |run| format!("{} {}", mark(&load, run), figures(run)),
            );
            let _ = write!(text, "  {cell:>17}");
        }
        text.push('\n');
    }
}

/// `*` for the highest median, `=` for what it does not clearly beat.
fn mark(load: &Load, run: &Run) -> char {
    let is_it = |other: &&Run| other.architecture == run.architecture;
    match load.recommended.iter().position(is_it) {
        Some(0) => '*',
        Some(_) => '=',
        None => ' ',
    }
}

/// "~61.2 ±  0.3".
fn figures(run: &Run) -> String {
    let steady = if run.settled { ' ' } else { '~' };
    let median = run.throughput_gbps.median;
    let half = format::half(median, run.throughput_gbps.ci90);
    format!("{steady}{:>6} ± {half:>5}", format::throughput(median))
}

fn legend(text: &mut String, runs: &[Run]) {
    text.push('\n');
    let mut term = |name: &str, meaning: &str| {
        let _ = writeln!(text, "{name:<3} {meaning}");
    };
    term(
        "±",
        "half the 90 % confidence interval of the mean; before it the median, of application bits",
    );
    term("*", "the highest median of the row");
    term(
        "=",
        "not clearly less than any other of the row: their intervals touch",
    );
    if runs.iter().any(|run| !run.settled) {
        term(
            "~",
            "the machine was not steady: too few repetitions between probes that agree, so that all are counted",
        );
    }
}

/// How `braid` stands to the better of `connection` and `message` under each of some loads; none where not all three were
/// measured.
pub(super) fn standing(loads: &[Load]) -> Option<String> {
    let shares: Vec<(&Run, &Run, f64)> = loads
        .iter()
        .filter_map(|load| {
            let braid = load.run("braid")?;
            let (one, other) = (load.run("connection")?, load.run("message")?);
            let better = if one.throughput_gbps.median > other.throughput_gbps.median {
                one
            } else {
                other
            };
            let share = braid.throughput_gbps.median / better.throughput_gbps.median;
            Some((braid, better, share))
        })
        .collect();
    let mut sure = 0;
    let below: Vec<String> = (shares.iter())
        .filter(|(_, _, share)| *share < CLAIM)
        .map(|(braid, better, part)| {
            let (most, least) = (
                braid.throughput_gbps.interval().1,
                better.throughput_gbps.interval().0,
            );
            let is_sure = most < CLAIM * least;
            sure += usize::from(is_sure);
            let clearly = if is_sure { ", clearly" } else { "" };
            format!("{} ({}{clearly})", under(braid), share(*part))
        })
        .collect();
    let (worst, _, least) = (shares.iter()).min_by(|one, other| one.2.total_cmp(&other.2))?;
    Some(if below.is_empty() {
        format!(
            "`braid` nowhere falls below {CLAIM} of the better of `connection` and `message`: it reaches at least {}, with {}.",
            share(*least),
            under(worst)
        )
    } else {
        let clearly = match sure {
            0 => "none".to_owned(),
            sure => sure.to_string(),
        };
        format!(
            "`braid` falls below {CLAIM} of the better of `connection` and `message` under {} of {} loads, clearly under {clearly}: with {}.",
            below.len(),
            shares.len(),
            listed(&below, "and")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::planted;
    use super::super::{Machine, Provenance, advise};
    use super::*;
    use crate::Presentation;
    use braidnet_process::Architecture;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    /// A sweep on two processors: for each number of connections, from 1, the figures of all architectures.
    fn runs(figures: &[[f64; 4]]) -> Vec<Run> {
        let cell = |connections, architecture, figure: f64| {
            let steps = [-0.02, -0.01, 0.0, 0.01, 0.02];
            let sample = steps.map(|step| figure * (1.0 + step));
            planted(architecture, 2, connections, Presentation::None, &sample)
        };
        let rows = figures.iter().zip(1..);
        rows.flat_map(|(row, connections)| {
            let all = Architecture::UNDIVIDED.into_iter().zip(row);
            all.map(move |(architecture, &figure)| cell(connections, architecture, figure))
        })
        .collect()
    }

    fn report(runs: Vec<Run>) -> Report {
        Report {
            machine: Machine::read(&Provenance::default(), UNIX_EPOCH),
            advice: advise(&runs),
            runs,
        }
    }

    #[test]
    fn every_number_of_connections_is_a_row_in_which_the_best_is_marked() {
        let mut runs = runs(&[
            [30.0, 20.0, 40.0, 39.5],
            [30.0, 60.0, 50.0, 50.0],
            [9.0, 120.0, 110.0, 1200.0],
        ]);
        runs[9].settled = false;
        let text = by_connections(&report(runs));
        let rows: Vec<Vec<&str>> = (text.lines().skip_while(|line| !line.starts_with("connec")))
            .take(4)
            .map(|line| line.split_whitespace().collect())
            .collect();
        let row = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
        assert_eq!(
            rows,
            [
                row("connections task connection message braid"),
                row("1 30.0 ± 0.5 20.0 ± 0.3 * 40.0 ± 0.6 = 39.5 ± 0.6"),
                row("2 30.0 ± 0.5 * 60.0 ± 0.9 50.0 ± 0.8 50.0 ± 0.8"),
                row("3 9.00 ± 0.14 ~ 120.0 ± 1.8 110.0 ± 1.7 * 1200.0 ± 18.1"),
            ],
            "{text}"
        );
        assert_eq!(
            text.matches("\nGbit/s on 2 processors, no presentation\n")
                .count(),
            1
        );
        let widths = text.lines().map(|line| line.chars().count());
        assert!(
            widths.max() <= Some(super::super::table::MOST_COLUMNS),
            "{text}"
        );
        assert!(text.contains("\n~  "), "{text}");
    }

    #[test]
    fn where_braid_falls_short_is_said_and_whether_that_is_sure() {
        let rows = [
            (
                [
                    [1.0, 20.0, 40.0, 38.0],
                    [1.0, 60.0, 50.0, 60.0],
                    [1.0, 60.0, 50.0, 70.0],
                ],
                "`braid` nowhere falls below 0.93 of the better of `connection` and `message`: it reaches at least 0.95, with 1 connection.",
            ),
            (
                [
                    [1.0, 20.0, 40.0, 20.0],
                    [1.0, 60.0, 50.0, 55.7],
                    [1.0, 60.0, 50.0, 60.0],
                ],
                "`braid` falls below 0.93 of the better of `connection` and `message` under 2 of 3 loads, clearly under 1: with 1 connection (0.50, clearly) and 2 connections (0.92).",
            ),
            (
                [
                    [1.0, 20.0, 40.0, 40.0],
                    [1.0, 60.0, 50.0, 55.7],
                    [1.0, 60.0, 50.0, 60.0],
                ],
                "`braid` falls below 0.93 of the better of `connection` and `message` under 1 of 3 loads, clearly under none: with 2 connections (0.92).",
            ),
        ];
        for (figures, sentence) in rows {
            let runs = runs(&figures);
            assert_eq!(advise(&runs)[2], sentence);
            let without: Vec<Run> = (runs.into_iter())
                .filter(|run| run.architecture != "message")
                .collect();
            assert!(
                !advise(&without)
                    .iter()
                    .any(|said| said.contains("the better of"))
            );
        }
    }

    proptest! {
        #[test]
        fn what_falls_short_is_named_and_nothing_else(
            figures in prop::collection::vec(prop::array::uniform4(1.0..100.0f64), 3..20),
        ) {
            let said = advise(&runs(&figures)).swap_remove(2);
            let mut short = 0;
            for (row, connections) in figures.iter().zip(1..) {
                let falls = row[3] / row[1].max(row[2]) < CLAIM;
                short += usize::from(falls);
                let plural = if connections == 1 { "" } else { "s" };
                let named = format!(" {connections} connection{plural} (");
                prop_assert_eq!(said.contains(&named), falls, "{}", said);
            }
            prop_assert_eq!(said.contains("nowhere"), short == 0, "{}", said);
        }
    }
}
