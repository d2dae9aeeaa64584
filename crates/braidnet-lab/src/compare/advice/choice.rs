//! What to choose under one load, and the figures for it.

use super::listed;
use super::verdict::{Load, names};
use crate::compare::config::Processors;
use crate::compare::format;
use crate::compare::report::Run;
use std::collections::BTreeSet;

/// What to choose under one number of connections: a clause for each presentation.
pub(super) fn choice(which: &str, loads: &[Load]) -> String {
    let processors = loads
        .iter()
        .flat_map(|load| load.recommended.first())
        .next();
    let on = Processors(processors.map_or(0, |run| run.processors));
    let mut clauses = Vec::new();
    let mut before: Option<BTreeSet<&str>> = None;
    for load in loads {
        let chosen: BTreeSet<&str> = names(&load.recommended).into_iter().collect();
        let under = match presentation(load) {
            "none" => String::new(),
            name => format!("with {name} "),
        };
        let decision = if before.as_ref() == Some(&chosen) {
            "likewise".to_owned()
        } else {
            decision(load)
        };
        clauses.push(format!("{under}{decision}: {}", figures(load)));
        before = Some(chosen);
    }
    format!("{which} on {on} {}.", clauses.join("; "))
}

fn presentation(load: &Load) -> &'static str {
    load.recommended
        .first()
        .map_or("none", |run| run.presentation)
}

fn decision(load: &Load) -> String {
    let recommended: Vec<String> = (load.recommended.iter())
        .map(|run| format!("`{}`", run.architecture))
        .collect();
    match (recommended.len(), load.beaten.is_empty()) {
        (1, _) => format!("choose {}", listed(&recommended, "or")),
        (_, false) => format!(
            "choose {}, between which there is no clear difference",
            listed(&recommended, "or")
        ),
        (_, true) => format!(
            "there is no clear difference between {}",
            listed(&recommended, "and")
        ),
    }
}

/// The evidence: "61.2 ± 1.1 Gbit/s against 40.1 ± 2.0 under `task`".
fn figures(load: &Load) -> String {
    let mut text = match load.recommended.as_slice() {
        [] => String::new(),
        [only] => format!("{} Gbit/s", spread(only)),
        [first, others @ ..] => {
            let mut all = vec![format!(
                "{} Gbit/s under `{}`",
                spread(first),
                first.architecture
            )];
            all.extend(others.iter().map(|run| named(run)));
            listed(&all, "and")
        }
    };
    if !load.beaten.is_empty() {
        let beaten: Vec<String> = load.beaten.iter().map(|run| named(run)).collect();
        text.push_str(&format!(" against {}", listed(&beaten, "and")));
    }
    if let Some(run) = load.better_on_fewer {
        let processors = Processors(run.processors);
        text.push_str(&format!(
            ", though {processors} did better with {}",
            named(run)
        ));
    }
    text
}

fn named(run: &Run) -> String {
    format!("{} under `{}`", spread(run), run.architecture)
}

fn spread(run: &Run) -> String {
    format::spread(run.throughput_gbps.median, run.throughput_gbps.ci90)
}
