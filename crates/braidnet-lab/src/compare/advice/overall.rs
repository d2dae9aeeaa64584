//! What to choose if one architecture has to serve every load.

use super::listed;
use super::verdict::{Load, names};
use crate::compare::config::Connections;
use crate::compare::format;
use crate::compare::report::Run;

/// What an architecture reaches of the highest median, at worst, and under which load.
struct Worst<'a> {
    run: &'a Run,
    share: f64,
}

/// What to choose if one architecture has to serve every load: what nothing beats under any, or what comes closest.
pub(super) fn overall(loads: &[Load]) -> Option<String> {
    let ([first, others @ ..], true) = (loads, loads.len() > 1) else {
        return None;
    };
    let mut unbeaten: Vec<&str> = names(&first.recommended);
    unbeaten.retain(|name| {
        let among = |load: &Load| load.recommended.iter().any(|run| run.architecture == *name);
        others.iter().all(among)
    });
    let choices: Vec<&str> = if unbeaten.is_empty() {
        first.widest().map(|run| run.architecture).collect()
    } else {
        unbeaten.clone()
    };
    let mut worst: Vec<Worst> = (choices.iter())
        .filter_map(|name| worst(loads, name))
        .collect();
    worst.sort_by(|one, other| other.share.total_cmp(&one.share));
    let shown: Vec<String> = worst.iter().map(Worst::shown).collect();
    let closest = shown.first()?;
    Some(if unbeaten.is_empty() {
        format!("for all of these loads none is best throughout: {closest} comes closest")
    } else {
        format!(
            "for all of these loads choose {}, which nothing clearly beats under any of them",
            listed(&shown, "or")
        )
    })
}

fn worst<'a>(loads: &[Load<'a>], architecture: &str) -> Option<Worst<'a>> {
    let shares = loads.iter().filter_map(|load| {
        let best = load.recommended.first()?.throughput_gbps.median;
        let run = load.run(architecture)?;
        let share = run.throughput_gbps.median / best;
        Some(Worst { run, share })
    });
    shares.min_by(|one, other| one.share.total_cmp(&other.share))
}

impl Worst<'_> {
    /// "`task` (at worst 0.81 of the best: 1 connection, xdr)".
    fn shown(&self) -> String {
        let name = self.run.architecture;
        if self.share >= 1.0 {
            return format!("`{name}` (always the best)");
        }
        let (share, load) = (share(self.share), under(self.run));
        format!("`{name}` (at worst {share} of the best: {load})")
    }
}

/// A share, never rounded up: what is below 0.93 is not shown as 0.93.
pub(in super::super) fn share(share: f64) -> String {
    format::short((share * 100.0).floor() / 100.0)
}

/// "1 connection", "20 connections, xdr".
pub(in super::super) fn under(run: &Run) -> String {
    let connections = Connections(run.connections);
    match run.presentation {
        "none" => connections.to_string(),
        name => format!("{connections}, {name}"),
    }
}
