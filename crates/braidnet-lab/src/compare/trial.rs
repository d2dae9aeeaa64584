//! Trials: ways of doing the same thing, measured in turns under a few loads.
//!
//! A grid compares architectures. A trial holds one of the papers' verdicts against what else it may come from: where DEMUX §5 finds
//! synchronisation elements prohibitive, the span of a perimeter, the batch and whether anybody conflicts; where ASX §3.5 finds that
//! messages beat tasks, whether queues are slept on or spun on.

use super::campaign::{Laboratory, Progress};
use super::config::{Cell, CompareConfig, Connections, Processors};
use super::digest::{digest, hexadecimal};
use super::error::CompareError;
use super::format;
use super::machine::{Machine, Provenance};
use super::report::{Repetition, Report, Run};
use super::schedule::Shuffler;
use super::statistics::quartiles;
use super::table::{MOST_COLUMNS, advice, agents, limits, load, machine, ways, wrapped};
use super::this_machine::ThisMachine;
use crate::{Perimeter, Presentation, RunResult, Span, TtcpConfig, Wait};
use braidnet_process::Architecture;
use core::fmt::Write;
use std::time::SystemTime;

/// What is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// Under `message` what a perimeter spans, each by lock and by delegation, one message at a time and 32, where all conflict, one
    /// connection on one device queue, and where, as far as the span lets them, none do: connections dealt to a queue for each
    /// processor (DEMUX §3.2.2, §5).
    Perimeters,
    /// `task` and `message`, each asleep, spinning, and spinning before it sleeps, where it finds nothing to do (ASX §2.6, §3.5).
    Waits,
}

/// The batches at which perimeters are tried: as the papers did it, and runs.
const BATCHES: [usize; 2] = [1, 32];

impl Trial {
    /// The measurements, those of one load together, the one first that the others of its load are held against.
    ///
    /// Of `config` the processors, connections, presentations and the base are looked at.
    ///
    /// # Errors
    /// The usage errors of [`CompareError`].
    pub fn ways(
        self,
        config: &CompareConfig,
        allowed: usize,
    ) -> Result<Vec<TtcpConfig>, CompareError> {
        self.split(config, allowed).map(|(ways, _)| ways)
    }

    /// The measurements, and what is left out: a sentence for each reason.
    fn split(
        self,
        config: &CompareConfig,
        allowed: usize,
    ) -> Result<(Vec<TtcpConfig>, Vec<String>), CompareError> {
        let grid = CompareConfig {
            architectures: vec![Architecture::Message],
            ..config.clone()
        };
        let (cells, left_out) = grid.split(allowed)?;
        let mut ways = Vec::new();
        for cell in cells {
            let load = cell.config(&config.base);
            match self {
                Trial::Perimeters => ways.extend(perimeters(&load)),
                Trial::Waits => ways.extend(waits(&load)),
            }
        }
        let ways: Vec<TtcpConfig> = ways.into_iter().map(TtcpConfig::suited).collect();
        for way in &ways {
            let cell = cell_of(way);
            way.validate()
                .map_err(|error| CompareError::Cell { cell, error })?;
        }
        Ok((ways, left_out))
    }

    /// What a way differs in from the others of its load.
    fn name(self, run: &Run) -> String {
        match self {
            Trial::Perimeters => format!("{}, {}", run.span, run.perimeter),
            Trial::Waits => format!("{}, {}", run.architecture, run.wait),
        }
    }
}

fn perimeters(load: &TtcpConfig) -> Vec<TtcpConfig> {
    let mut ways = Vec::new();
    for batch in BATCHES {
        for span in Span::ALL {
            ways.extend(Perimeter::ALL.iter().map(|&perimeter| TtcpConfig {
                device_queues: load.connections.min(load.takers()),
                batch,
                span: *span,
                perimeter,
                ..load.clone()
            }));
        }
    }
    ways
}

fn waits(load: &TtcpConfig) -> Vec<TtcpConfig> {
    let mut ways = Vec::new();
    for architecture in [Architecture::Task, Architecture::Message] {
        ways.extend(Wait::ALL.iter().map(|&wait| TtcpConfig {
            architecture,
            wait,
            // As many as `task` can take from.
            device_queues: load.device_queues.min((load.processors / 2).max(1)),
            ..load.clone()
        }));
    }
    ways
}

fn cell_of(config: &TtcpConfig) -> Cell {
    Cell {
        connections: config.connections,
        presentation: config.presentation,
        architecture: config.architecture,
        processors: config.processors,
    }
}

/// Makes a trial on this machine: every way as often as there are repetitions, in shuffled rounds.
///
/// # Errors
/// [`CompareError`]: what cannot be measured, a measurement that failed, or ways that delivered different bytes.
pub fn try_ways(
    trial: Trial,
    config: &CompareConfig,
    provenance: &Provenance,
    progress: &mut dyn Progress,
) -> Result<Report, CompareError> {
    let machine = Machine::read(provenance, SystemTime::now());
    try_ways_with(trial, config, machine, &mut ThisMachine::new(), progress)
}

/// Makes a trial in a laboratory of the caller's.
///
/// # Errors
/// As [`try_ways`].
pub fn try_ways_with(
    trial: Trial,
    config: &CompareConfig,
    machine: Machine,
    laboratory: &mut dyn Laboratory,
    progress: &mut dyn Progress,
) -> Result<Report, CompareError> {
    let (ways, left_out) = trial.split(config, laboratory.processors())?;
    progress.expect(ways.len() * config.repetitions);
    let mut results: Vec<Vec<RunResult>> = vec![Vec::new(); ways.len()];
    let mut shuffler = Shuffler::new(config.seed);
    for round in 1..=config.repetitions {
        let mut order: Vec<usize> = (0..ways.len()).collect();
        shuffler.shuffle(&mut order);
        for index in order {
            let way = &ways[index];
            let what = format!("round {round} of {}: {}", config.repetitions, cell_of(way));
            progress.begin(&what);
            let result =
                (laboratory.run(way)).map_err(|error| CompareError::Measurement { what, error })?;
            results[index].push(result);
            progress.end();
        }
    }
    agree(&ways, &results)?;
    let runs = (ways.iter().zip(results))
        .map(|(way, results)| {
            let hash = results.first().map_or(0, |result| result.payload_hash);
            let repetitions: Vec<Repetition> = (results.into_iter())
                .map(|result| Repetition::new(result, None, None))
                .collect();
            let mut run = digest(way, &repetitions, config.repetitions);
            run.payload_hash = hexadecimal(hash);
            run
        })
        .collect();
    Ok(Report {
        machine,
        runs,
        advice: left_out,
    })
}

/// Sees that whatever had one load delivered the same bytes.
fn agree(ways: &[TtcpConfig], results: &[Vec<RunResult>]) -> Result<(), CompareError> {
    let mut delivered: Vec<(Cell, u64)> = Vec::new();
    for (way, results) in ways.iter().zip(results) {
        let cell = cell_of(way);
        for hash in results.iter().map(|result| result.payload_hash) {
            let load = |other: &&(Cell, u64)| other.0.load() == cell.load();
            match delivered.iter().find(load) {
                Some(&(other, expected)) if expected != hash => {
                    return Err(CompareError::Disagreement {
                        cell,
                        other,
                        hash,
                        expected,
                    });
                }
                Some(_) => {}
                None => delivered.push((cell, hash)),
            }
        }
    }
    Ok(())
}

/// What a trial found, as people read it: a table for each load, and how to read them.
pub fn trial_table(trial: Trial, report: &Report) -> String {
    let mut text = String::new();
    machine(&mut text, report);
    if let Some(run) = report.runs.first() {
        // What is varied stands in the rows.
        let set = match trial {
            Trial::Perimeters => {
                let ways = ways(core::slice::from_ref(run));
                format!("{ways}, {}, waits {}", agents(&report.runs), run.wait)
            }
            Trial::Waits => format!("{}, {}", ways(&report.runs), agents(&report.runs)),
        };
        let line = format!("{}; {}{set}", load(run), limits(run));
        let _ = writeln!(text, "{}", wrapped(&line, MOST_COLUMNS));
    }
    let mut first: Option<&Run> = None;
    for run in &report.runs {
        let base = match first {
            Some(base) if load_of(base) == load_of(run) => base,
            _ => {
                title(&mut text, run);
                first.insert(run)
            }
        };
        row(&mut text, &trial.name(run), run, base);
    }
    let how = format!(
        "Gbit/s: median of {} rounds, and in brackets the first and the third quartile; ratio: each round's to that of the \
         load's first row; sw/1,000: for 1,000 messages, how often a processor's thread slept.",
        report.runs.first().map_or(0, |run| run.repetitions.len())
    );
    let _ = writeln!(text, "\n{}", wrapped(&how, MOST_COLUMNS));
    advice(&mut text, report);
    text
}

/// What ways are held against each other under.
fn load_of(run: &Run) -> (usize, usize, &'static str, usize) {
    (run.processors, run.connections, run.presentation, run.batch)
}

fn title(text: &mut String, run: &Run) {
    let presentation = match run.presentation {
        "none" => String::new(),
        name => format!(", presentation {name}"),
    };
    let plural = if run.device_queues == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "\n{} on {}{presentation}, {} device queue{plural}, batch {}\n\n{:<24}{:>24}{:>24}{:>10}",
        Connections(run.connections),
        Processors(run.processors),
        run.device_queues,
        run.batch,
        "",
        "Gbit/s",
        "ratio",
        "sw/1,000",
    );
}

fn row(text: &mut String, name: &str, run: &Run, base: &Run) {
    let of = |run: &Run| -> Vec<f64> {
        let all = run.repetitions.iter();
        all.map(|one| one.throughput_gbps).collect()
    };
    let ratios: Vec<f64> = (of(run).iter().zip(of(base)))
        .map(|(one, base)| one / base)
        .collect();
    let _ = writeln!(
        text,
        "{name:<24}{:>24}{:>24}{:>10}",
        spread(&of(run), 1),
        spread(&ratios, 2),
        format::short(run.per_thousand(run.voluntary_switches)),
    );
}

/// "61.2 (60.1–62.9)".
fn spread(sample: &[f64], decimals: usize) -> String {
    quartiles(sample).map_or_else(
        || format::NONE.to_owned(),
        |[first, median, third]| {
            format!("{median:.decimals$} ({first:.decimals$}–{third:.decimals$})")
        },
    )
}

/// What a trial is about where nothing else is asked for: on so many processors, 1 and 20 connections.
pub fn trial_plan(trial: Trial, processors: usize) -> CompareConfig {
    CompareConfig {
        processors: vec![processors],
        presentations: match trial {
            Trial::Perimeters => vec![Presentation::None],
            Trial::Waits => Presentation::ALL.to_vec(),
        },
        ..CompareConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Planted;
    use super::*;
    use std::time::UNIX_EPOCH;

    fn tried(trial: Trial, laboratory: &mut Planted) -> Result<Report, CompareError> {
        let machine = Machine::read(&Provenance::default(), UNIX_EPOCH);
        try_ways_with(trial, &trial_plan(trial, 2), machine, laboratory, &mut ())
    }

    #[test]
    fn every_way_is_measured_once_in_each_round() {
        for (trial, ways) in [
            (Trial::Perimeters, 2 * BATCHES.len() * Span::ALL.len() * 2),
            (Trial::Waits, 2 * 2 * 6),
        ] {
            let mut laboratory = Planted::new(2);
            let report = tried(trial, &mut laboratory).expect("everything is planted");
            assert_eq!(report.runs.len(), ways);
            let runs = laboratory.runs();
            assert_eq!(runs.len(), ways * 5);
            for round in runs.chunks(ways) {
                for (index, way) in round.iter().enumerate() {
                    assert!(!round[..index].contains(way), "{way:?}");
                    assert_eq!(way.validate(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn connections_conflict_on_one_queue_and_not_on_a_queue_each() {
        let plan = trial_plan(Trial::Perimeters, 2);
        for way in Trial::Perimeters.ways(&plan, 2).expect("a legal trial") {
            assert_eq!(way.device_queues, way.connections.min(2));
        }
    }

    #[test]
    fn a_row_is_held_against_the_first_of_its_load() {
        let mut laboratory = Planted::new(2);
        let report = tried(Trial::Waits, &mut laboratory).expect("everything is planted");
        let mut runs = report.runs.clone();
        for (run, factor) in runs[1]
            .repetitions
            .iter_mut()
            .zip([1.0, 1.5, 2.0, 2.5, 3.0])
        {
            run.throughput_gbps *= factor;
        }
        let text = trial_table(Trial::Waits, &Report { runs, ..report });
        let row = |name: &str| {
            let mut rows = text.lines().filter(|line| line.starts_with(name));
            let row = rows.next().unwrap_or_default();
            row.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            row("task, sleep"),
            "task, sleep 80.0 (80.0–80.0) 1.00 (1.00–1.00) 2.00"
        );
        assert_eq!(
            row("task, spin"),
            "task, spin 160.0 (120.0–200.0) 2.00 (1.50–2.50) 2.00"
        );
        assert_eq!(text.matches("\n1 connection on 2 processors").count(), 2);
    }

    #[test]
    fn ways_that_deliver_other_bytes_are_told_of() {
        let mut laboratory = Planted::new(2);
        laboratory.hash = |config| u64::from(config.wait == Wait::Spin);
        let error = tried(Trial::Waits, &mut laboratory).expect_err("bytes differ");
        assert!(
            matches!(error, CompareError::Disagreement { .. }),
            "{error}"
        );
    }
}
