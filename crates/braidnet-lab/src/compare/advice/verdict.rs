//! Who is beaten, and by whom.

use crate::compare::report::Run;
use std::collections::BTreeSet;

/// What the figures of one load say.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// How many connections.
    pub connections: usize,
    /// `none` or `xdr`.
    pub presentation: &'static str,
    /// On how many processors.
    pub processors: usize,
    /// The architectures that nothing beats, the highest median first. More than one: no clear difference between them.
    pub recommended: Vec<&'static str>,
    /// The beaten ones, the highest median first.
    pub beaten: Vec<&'static str>,
}

/// The verdict on every load, by connections and presentation.
pub fn verdicts(runs: &[Run]) -> Vec<Verdict> {
    let connections: BTreeSet<usize> = runs.iter().map(|run| run.connections).collect();
    connections
        .iter()
        .flat_map(|&count| loads(runs, count))
        .map(|load| load.verdict())
        .collect()
}

/// The runs of one load on the greatest number of processors, the highest median first, parted into those that nothing
/// beats and the others; and the best on fewer processors, if it beats them all.
pub(in super::super) struct Load<'a> {
    pub(in super::super) recommended: Vec<&'a Run>,
    pub(in super::super) beaten: Vec<&'a Run>,
    pub(super) better_on_fewer: Option<&'a Run>,
}

/// The loads of so many connections, in the order in which their presentations were measured.
pub(super) fn loads(runs: &[Run], connections: usize) -> Vec<Load<'_>> {
    let mut presentations: Vec<&str> = Vec::new();
    let of_count = || {
        runs.iter()
            .filter(move |run| run.connections == connections)
    };
    for run in of_count() {
        if !presentations.contains(&run.presentation) {
            presentations.push(run.presentation);
        }
    }
    let part = |presentation| {
        let load: Vec<&Run> = of_count()
            .filter(|run| run.presentation == presentation)
            .collect();
        Load::of(&load)
    };
    presentations.into_iter().map(part).collect()
}

impl<'a> Load<'a> {
    pub(in super::super) fn of(runs: &[&'a Run]) -> Load<'a> {
        let most = runs.iter().map(|run| run.processors).max().unwrap_or(0);
        let (mut widest, mut fewer): (Vec<&Run>, Vec<&Run>) =
            runs.iter().partition(|run| run.processors == most);
        sort_by_median(&mut widest);
        sort_by_median(&mut fewer);
        let (recommended, beaten): (Vec<&Run>, Vec<&Run>) =
            (widest.iter()).partition(|run| !widest.iter().any(|other| beats(other, run)));
        let better_on_fewer =
            (fewer.into_iter().next()).filter(|best| widest.iter().all(|run| beats(best, run)));
        Load {
            recommended,
            beaten,
            better_on_fewer,
        }
    }

    /// The runs that the verdict is about, the highest median of either part first.
    pub(super) fn widest(&self) -> impl Iterator<Item = &'a Run> {
        self.recommended.iter().chain(&self.beaten).copied()
    }

    /// The run of an architecture.
    pub(in super::super) fn run(&self, architecture: &str) -> Option<&'a Run> {
        self.widest().find(|run| run.architecture == architecture)
    }

    fn verdict(&self) -> Verdict {
        let first = self.recommended.first();
        Verdict {
            connections: first.map_or(0, |run| run.connections),
            presentation: first.map_or("", |run| run.presentation),
            processors: first.map_or(0, |run| run.processors),
            recommended: names(&self.recommended),
            beaten: names(&self.beaten),
        }
    }
}

fn sort_by_median(runs: &mut [&Run]) {
    runs.sort_by(|one, other| {
        (other.throughput_gbps.median).total_cmp(&one.throughput_gbps.median)
    });
}

pub(super) fn names(runs: &[&Run]) -> Vec<&'static str> {
    runs.iter().map(|run| run.architecture).collect()
}

/// Whether one is faster than the other beyond doubt.
fn beats(one: &Run, other: &Run) -> bool {
    let (one, other) = (&one.throughput_gbps, &other.throughput_gbps);
    one.median > other.median && one.interval().0 > other.interval().1
}
