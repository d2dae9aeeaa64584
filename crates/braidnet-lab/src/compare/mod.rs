//! Every architecture on this machine, side by side: what is measured in which order, and what it says.
//!
//! [`compare`] lays out a grid of cells ([`CompareConfig`]), measures all of them again and again in shuffled rounds
//! ([`Laboratory`]), brackets each repetition of a cell on several processors with probes of the machine, and makes a
//! [`Report`] of it: a [table](table()) for people, JSON for programs, and two or three sentences of
//! [advice](Report::advice) that depend on the figures alone.
//!
//! A grid is measured in this order:
//!
//! 1. as many rounds as there are repetitions; in each round every cell once, in an order shuffled by a fixed seed, so
//!    that a machine that drifts drifts under all of them;
//! 2. the round trip between two whole stacks, once for each architecture and number of processors;
//! 3. one sampled repetition of each cell, in which waits for locks are timed;
//! 4. while the time budget lasts, repetitions whose two probes differed by more than a fifth, again.
//!
//! The grid of CP/MP §3.4.1, figure 7, on all processors with 1 to 20 connections, is [`CompareConfig::sweep`]; its table is
//! [`by_connections`].
//!
//! A [`Trial`] varies something else than the architecture, in the same shuffled rounds and without probes; its table is [`trial_table`].
//!
//! Nothing that was measured is thrown away: every repetition is in the JSON with its probes.

mod advice;
mod campaign;
mod config;
mod digest;
mod error;
mod format;
mod machine;
mod report;
mod schedule;
mod single;
mod statistics;
mod sweep;
mod table;
mod this_machine;
mod trial;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use advice::{Verdict, advise, verdicts};
pub use campaign::{Laboratory, Progress};
pub use config::{Cell, CompareConfig, LEAST_REPETITIONS, doubling};
pub use error::CompareError;
pub use machine::{Machine, Provenance};
pub use report::{Probe, Repetition, Report, RoundTrip, Run};
pub use single::{describe, single};
pub use statistics::Summary;
pub use sweep::by_connections;
pub use table::table;
pub use this_machine::ThisMachine;
pub use trial::{Trial, trial_plan, trial_table, try_ways, try_ways_with};

use std::time::SystemTime;

/// Measures the grid on this machine.
///
/// # Errors
/// [`CompareError`]: a grid that cannot be measured, a measurement that failed, or architectures that delivered different
/// bytes.
pub fn compare(
    config: &CompareConfig,
    provenance: &Provenance,
    progress: &mut dyn Progress,
) -> Result<Report, CompareError> {
    let machine = Machine::read(provenance, SystemTime::now());
    compare_with(config, machine, &mut ThisMachine::new(), progress)
}

/// Measures the grid in a laboratory of the caller's.
///
/// # Errors
/// As [`compare`].
pub fn compare_with(
    config: &CompareConfig,
    machine: Machine,
    laboratory: &mut dyn Laboratory,
    progress: &mut dyn Progress,
) -> Result<Report, CompareError> {
    let (cells, left_out) = config.split(laboratory.processors())?;
    let measured = campaign::Campaign::new(config, &cells, laboratory, progress).measure()?;
    let runs = digest::runs(config, &cells, &measured);
    let mut advice = advise(&runs);
    advice.extend(left_out);
    Ok(Report {
        machine,
        runs,
        advice,
    })
}
