//! Which architecture to choose, said from the figures alone.
//!
//! A **verdict** is made for each load (connections and presentation) on the greatest number of processors that was
//! measured. Architectures are told apart by the 90 % intervals of their throughput: one is *beaten* if another has the
//! higher median and their intervals do not touch; those that nobody beats are *recommended*. No name of an architecture
//! stands in the rules, and whatever is listed is listed by its figures, so that swapped figures swap the sentences.

use super::config::Connections;
use super::format;
use super::report::Run;
use super::sweep::standing;
use choice::choice;
use overall::overall;
use std::collections::BTreeSet;
use verdict::loads;

mod choice;
mod overall;
#[cfg(test)]
mod tests;
mod verdict;

pub(super) use overall::{share, under};
pub(super) use verdict::Load;
pub use verdict::{Verdict, verdicts};

/// Two or three sentences, in plain words, with the figures that they rest on. Where more than two numbers of connections
/// were measured, one more says how `braid` stands to `connection` and `message` at each of them.
pub fn advise(runs: &[Run]) -> Vec<String> {
    let architectures: BTreeSet<&str> = runs.iter().map(|run| run.architecture).collect();
    if architectures.len() < 2 {
        let only = architectures.into_iter().map(|name| {
            format!("Only `{name}` was measured, so there is nothing to choose between.")
        });
        return only.collect();
    }
    let connections: BTreeSet<usize> = runs.iter().map(|run| run.connections).collect();
    let mut sentences = Vec::new();
    for &count in ends(&connections).iter() {
        let which = match (connections.len(), connections.first() == Some(&count)) {
            (1, _) => format!("For {}", Connections(count)),
            (_, true) => format!("For few connections ({count})"),
            (_, false) => format!("For many connections ({count})"),
        };
        sentences.push(choice(&which, &loads(runs, count)));
    }
    let all: Vec<Load> = (connections.iter())
        .flat_map(|&count| loads(runs, count))
        .collect();
    if connections.len() > 2 {
        sentences.extend(standing(&all));
    }
    let found: Vec<String> = overall(&all)
        .into_iter()
        .chain(scaling(runs, &connections))
        .collect();
    let found = capitalised(&found.join("; "));
    match (found.is_empty(), doubt(runs)) {
        (false, Some(doubt)) => sentences.push(format!("{found}; but {doubt}.")),
        (false, None) => sentences.push(format!("{found}.")),
        (true, Some(doubt)) => sentences.push(format!("Beware: {doubt}.")),
        (true, None) => {}
    }
    sentences
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

/// The least and the greatest, each once.
fn ends(set: &BTreeSet<usize>) -> Vec<usize> {
    let mut ends: Vec<usize> = set.first().into_iter().chain(set.last()).copied().collect();
    ends.dedup();
    ends
}

/// What more processors brought to the best of few and of many connections, beside what the machine allows.
fn scaling(runs: &[Run], connections: &BTreeSet<usize>) -> Option<String> {
    let mut parts = Vec::new();
    let mut most = 1;
    for &count in &ends(connections) {
        let loads = loads(runs, count);
        let Some(&run) = loads.first().and_then(|load| load.recommended.first()) else {
            continue;
        };
        let (Some(speedup), Some(ceiling)) = (run.speedup, run.ceiling) else {
            continue;
        };
        if run.processors < 2 {
            continue;
        }
        most = run.processors;
        parts.push(format!(
            "`{}` {} times as fast with {} (ceiling {})",
            run.architecture,
            format::short(speedup),
            Connections(count),
            format::short(ceiling)
        ));
    }
    (!parts.is_empty()).then(|| {
        format!(
            "going from 1 processor to {most} made {}, where the ceiling is what processors reach that share nothing",
            listed(&parts, "and")
        )
    })
}

/// A warning if the machine kept too many repetitions from being counted on.
fn doubt(runs: &[Run]) -> Option<String> {
    let several = runs.iter().filter(|run| run.processors > 1);
    let all = several.clone().count();
    let unsteady = several.filter(|run| !run.settled).count();
    (unsteady > 0).then(|| {
        format!(
            "the machine was not steady under {unsteady} of the {all} lines of several processors (~), so measure again when it has less to do"
        )
    })
}

/// "a", "a and b", "a, b and c".
pub(super) fn listed(items: &[String], last: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}
