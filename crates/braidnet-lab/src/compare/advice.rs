//! Which architecture to choose, said from the figures alone.
//!
//! A **verdict** is made for each load (connections and presentation) on the greatest number of processors that was
//! measured. Architectures are told apart by the 90 % intervals of their throughput: one is *beaten* if another has the
//! higher median and their intervals do not touch; those that nobody beats are *recommended*. No name of an architecture
//! stands in the rules, and whatever is listed is listed by its figures, so that swapped figures swap the sentences.

use super::config::{Connections, Processors};
use super::format;
use super::report::Run;
use super::sweep::standing;
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

/// The verdict on every load, by connections and presentation.
pub fn verdicts(runs: &[Run]) -> Vec<Verdict> {
    let connections: BTreeSet<usize> = runs.iter().map(|run| run.connections).collect();
    connections
        .iter()
        .flat_map(|&count| loads(runs, count))
        .map(|load| load.verdict())
        .collect()
}

/// The least and the greatest, each once.
fn ends(set: &BTreeSet<usize>) -> Vec<usize> {
    let mut ends: Vec<usize> = set.first().into_iter().chain(set.last()).copied().collect();
    ends.dedup();
    ends
}

/// The runs of one load on the greatest number of processors, the highest median first, parted into those that nothing
/// beats and the others; and the best on fewer processors, if it beats them all.
pub(super) struct Load<'a> {
    pub(super) recommended: Vec<&'a Run>,
    pub(super) beaten: Vec<&'a Run>,
    better_on_fewer: Option<&'a Run>,
}

/// The loads of so many connections, in the order in which their presentations were measured.
fn loads(runs: &[Run], connections: usize) -> Vec<Load<'_>> {
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
    pub(super) fn of(runs: &[&'a Run]) -> Load<'a> {
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
    fn widest(&self) -> impl Iterator<Item = &'a Run> {
        self.recommended.iter().chain(&self.beaten).copied()
    }

    /// The run of an architecture.
    pub(super) fn run(&self, architecture: &str) -> Option<&'a Run> {
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

fn names(runs: &[&Run]) -> Vec<&'static str> {
    runs.iter().map(|run| run.architecture).collect()
}

/// Whether one is faster than the other beyond doubt.
fn beats(one: &Run, other: &Run) -> bool {
    let (one, other) = (&one.throughput_gbps, &other.throughput_gbps);
    one.median > other.median && one.interval().0 > other.interval().1
}

/// What to choose under one number of connections: a clause for each presentation.
fn choice(which: &str, loads: &[Load]) -> String {
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

/// What an architecture reaches of the highest median, at worst, and under which load.
struct Worst<'a> {
    run: &'a Run,
    share: f64,
}

/// What to choose if one architecture has to serve every load: what nothing beats under any, or what comes closest.
fn overall(loads: &[Load]) -> Option<String> {
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
pub(super) fn share(share: f64) -> String {
    format::short((share * 100.0).floor() / 100.0)
}

/// "1 connection", "20 connections, xdr".
pub(super) fn under(run: &Run) -> String {
    let connections = Connections(run.connections);
    match run.presentation {
        "none" => connections.to_string(),
        name => format!("{connections}, {name}"),
    }
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

#[cfg(test)]
mod tests {
    use super::super::statistics::Summary;
    use super::super::testing::planted;
    use super::*;
    use crate::Presentation;
    use braidnet_process::Architecture;
    use proptest::prelude::*;

    /// Cells of the default grid on two processors.
    const CELLS: usize = 2 * 2 * 2 * Architecture::UNDIVIDED.len();

    /// A grid of the default shape on two processors, its throughputs in the order of the table.
    fn grid(throughputs: &[Vec<f64>]) -> Vec<Run> {
        let mut samples = throughputs.iter();
        let mut runs = Vec::new();
        for connections in [1, 20] {
            for &presentation in Presentation::ALL {
                for architecture in Architecture::UNDIVIDED {
                    for processors in [1, 2] {
                        let sample = samples.next().expect("one sample for each cell");
                        runs.push(planted(
                            architecture,
                            processors,
                            connections,
                            presentation,
                            sample,
                        ));
                    }
                }
            }
        }
        runs
    }

    /// The same grid in which two architectures have each other's figures.
    fn swapped(runs: &[Run], one: &str, other: &str) -> Vec<Run> {
        let cell = |run: &Run| (run.connections, run.presentation, run.processors);
        let partner = |run: &Run| {
            let name = match run.architecture {
                name if name == one => other,
                name if name == other => one,
                name => name,
            };
            let mut twin = runs
                .iter()
                .find(|twin| twin.architecture == name && cell(twin) == cell(run))
                .expect("the grid is full")
                .clone();
            twin.architecture = run.architecture;
            twin
        };
        runs.iter().map(partner).collect()
    }

    fn renamed(sentence: &str, one: &str, other: &str) -> String {
        sentence
            .replace(&format!("`{one}`"), "`?`")
            .replace(&format!("`{other}`"), &format!("`{one}`"))
            .replace("`?`", &format!("`{other}`"))
    }

    /// Five repetitions around a centre, as far from it as `spread` says; no two centres are equal.
    fn samples() -> impl Strategy<Value = Vec<Vec<f64>>> {
        let cell = (0u32..1000, 0.0..20.0f64);
        prop::collection::vec(cell, CELLS).prop_map(|cells| {
            let sample = |(index, (centre, spread)): (usize, (u32, f64))| {
                let centre = 10.0 + f64::from(centre) / 10.0 + index as f64 / 1000.0;
                [-1.0, -0.5, 0.0, 0.6, 1.1]
                    .map(|step| centre + step * spread)
                    .to_vec()
            };
            cells.into_iter().enumerate().map(sample).collect()
        })
    }

    proptest! {
        #[test]
        fn swapped_figures_swap_the_sentences(
            samples in samples(),
            pair in prop::sample::subsequence(Architecture::UNDIVIDED.map(Architecture::name).to_vec(), 2),
        ) {
            let (one, other) = (pair[0], pair[1]);
            let runs = grid(&samples);
            let expected: Vec<String> = advise(&runs)
                .iter()
                .map(|sentence| renamed(sentence, one, other))
                .collect();
            prop_assert_eq!(advise(&swapped(&runs, one, other)), expected);
        }

        #[test]
        fn nothing_is_recommended_that_something_else_clearly_beats(samples in samples()) {
            let runs = grid(&samples);
            for verdict in verdicts(&runs) {
                let of = |name: &str| -> &Summary {
                    let is = |run: &&Run| {
                        run.architecture == name
                            && run.connections == verdict.connections
                            && run.presentation == verdict.presentation
                            && run.processors == verdict.processors
                    };
                    &runs.iter().find(is).expect("a verdict is about runs").throughput_gbps
                };
                prop_assert!(!verdict.recommended.is_empty());
                prop_assert_eq!(verdict.recommended.len() + verdict.beaten.len(), Architecture::UNDIVIDED.len());
                for name in &verdict.recommended {
                    for other in Architecture::UNDIVIDED.map(Architecture::name) {
                        let (here, there) = (of(name), of(other));
                        prop_assert!(
                            here.median >= there.median || here.interval().1 >= there.interval().0,
                            "{} is recommended, {} is faster", name, other
                        );
                    }
                }
            }
        }

        #[test]
        fn there_are_two_or_three_sentences(samples in samples()) {
            let sentences = advise(&grid(&samples));
            prop_assert!((2..=3).contains(&sentences.len()), "{sentences:?}");
        }
    }

    #[test]
    fn the_sentences_say_what_the_figures_say() {
        let flat = |figure: f64| vec![figure; 5];
        let wide = |figure: f64| {
            vec![
                figure - 9.0,
                figure - 8.0,
                figure,
                figure + 8.0,
                figure + 9.0,
            ]
        };
        // For each: task, connection, message, braid, on 1 and on 2 processors.
        let few = [30.0, 31.0, 40.0, 39.0, 38.0, 45.0, 40.0, 40.5].map(flat);
        let few_xdr = [20.0, 28.0, 24.0, 25.0, 23.0, 26.0, 24.0, 21.0].map(flat);
        let many = [
            flat(30.0),
            flat(31.0),
            flat(40.0),
            wide(76.0),
            flat(38.0),
            wide(75.0),
            flat(40.0),
            flat(50.0),
        ];
        let many_xdr = [20.0, 28.0, 24.0, 21.0, 23.0, 22.0, 24.0, 20.0].map(flat);
        let samples = [few, few_xdr, many, many_xdr].concat();
        let mut runs = grid(&samples);
        for run in &mut runs {
            run.speedup = Some(1.9);
            run.ceiling = Some(1.95);
        }
        assert_eq!(
            advise(&runs),
            [
                "For few connections (1) on 2 processors choose `message`: 45.0 ± 0.0 Gbit/s against 40.5 ± 0.0 under `braid`, 39.0 ± 0.0 under `connection` and 31.0 ± 0.0 under `task`; with xdr choose `task`: 28.0 ± 0.0 Gbit/s against 26.0 ± 0.0 under `message`, 25.0 ± 0.0 under `connection` and 21.0 ± 0.0 under `braid`.",
                "For many connections (20) on 2 processors choose `connection` or `message`, between which there is no clear difference: 76.0 ± 8.1 Gbit/s under `connection` and 75.0 ± 8.1 under `message` against 50.0 ± 0.0 under `braid` and 31.0 ± 0.0 under `task`; with xdr choose `task`: 28.0 ± 0.0 Gbit/s against 22.0 ± 0.0 under `message`, 21.0 ± 0.0 under `connection` and 20.0 ± 0.0 under `braid`.",
                "For all of these loads none is best throughout: `message` (at worst 0.78 of the best: 20 connections, xdr) comes closest; going from 1 processor to 2 made `message` 1.90 times as fast with 1 connection (ceiling 1.95) and `connection` 1.90 times as fast with 20 connections (ceiling 1.95), where the ceiling is what processors reach that share nothing.",
            ]
        );
    }

    /// The grid in which the loads, few and many connections, each without and with XDR, have these figures on two processors.
    fn loads_of(figures: [[f64; 4]; 4]) -> Vec<Run> {
        let on_both = |figure: f64| [vec![figure; 5], vec![figure; 5]];
        let samples: Vec<Vec<f64>> = figures.into_iter().flatten().flat_map(on_both).collect();
        grid(&samples)
    }

    #[test]
    fn what_suits_every_load_is_said_or_what_comes_closest() {
        // Task, connection, message, braid.
        let rows = [
            (
                [
                    [1.0, 20.0, 40.0, 50.0],
                    [1.0, 20.0, 40.0, 40.0],
                    [1.0, 60.0, 50.0, 60.0],
                    [1.0, 60.0, 50.0, 70.0],
                ],
                "For all of these loads choose `braid` (always the best), which nothing clearly beats under any of them.",
            ),
            (
                [
                    [1.0, 20.0, 40.0, 39.0],
                    [1.0, 20.0, 40.0, 38.0],
                    [1.0, 60.0, 50.0, 59.0],
                    [1.0, 60.0, 50.0, 58.0],
                ],
                "For all of these loads none is best throughout: `braid` (at worst 0.95 of the best: 1 connection, xdr) comes closest.",
            ),
            (
                [
                    [1.0, 20.0, 40.0, 1.0],
                    [1.0, 20.0, 40.0, 1.0],
                    [1.0, 60.0, 50.0, 1.0],
                    [1.0, 60.0, 49.0, 1.0],
                ],
                "For all of these loads none is best throughout: `message` (at worst 0.81 of the best: 20 connections, xdr) comes closest.",
            ),
            (
                [
                    [1.0, 9.0, 10.0, 10.0],
                    [1.0, 9.0, 10.0, 10.0],
                    [1.0, 9.0, 10.0, 10.0],
                    [1.0, 9.0, 10.0, 10.0],
                ],
                "For all of these loads choose `message` (always the best) or `braid` (always the best), which nothing clearly beats under any of them.",
            ),
        ];
        for (figures, sentence) in rows {
            assert_eq!(advise(&loads_of(figures)).pop().as_deref(), Some(sentence));
        }
    }

    #[test]
    fn a_share_is_never_rounded_up() {
        for (figure, text) in [
            (0.9299, "0.92"),
            (0.93, "0.93"),
            (0.999, "0.99"),
            (0.5, "0.50"),
        ] {
            assert_eq!(share(figure), text);
        }
    }

    #[test]
    fn one_architecture_is_no_choice() {
        let run = planted(Architecture::Task, 1, 1, Presentation::None, &[1.0; 5]);
        assert_eq!(
            advise(&[run]),
            ["Only `task` was measured, so there is nothing to choose between."]
        );
        assert_eq!(advise(&[]), [""; 0]);
    }

    #[test]
    fn what_holds_under_every_presentation_is_said_once() {
        let load = [20.0, 30.0, 20.0, 60.0, 20.0, 40.0, 20.0, 10.0].map(|figure| vec![figure; 5]);
        let runs = grid(&[load.clone(), load.clone(), load.clone(), load].concat());
        assert_eq!(
            advise(&runs)[1],
            "For many connections (20) on 2 processors choose `connection`: 60.0 ± 0.0 Gbit/s against 40.0 ± 0.0 under `message`, 30.0 ± 0.0 under `task` and 10.0 ± 0.0 under `braid`; with xdr likewise: 60.0 ± 0.0 Gbit/s against 40.0 ± 0.0 under `message`, 30.0 ± 0.0 under `task` and 10.0 ± 0.0 under `braid`."
        );
    }

    #[test]
    fn an_unsteady_machine_is_told_of_in_the_last_sentence() {
        let mut runs = grid(&vec![vec![10.0; 5]; CELLS]);
        runs[1].settled = false;
        let warning = |all: usize| {
            format!(
                "the machine was not steady under 1 of the {all} lines of several processors (~), so measure again when it has less to do."
            )
        };
        let last = |runs: &[Run]| advise(runs).pop().unwrap_or_default();
        let one_load = 2 * Architecture::UNDIVIDED.len();
        assert_eq!(
            last(&runs[..one_load]),
            format!("Beware: {}", warning(one_load / 2))
        );
        let warning = warning(CELLS / 2);
        for run in &mut runs {
            (run.speedup, run.ceiling) = (Some(1.0), Some(2.0));
        }
        assert!(
            last(&runs).ends_with(&format!("; but {warning}")),
            "{}",
            last(&runs)
        );
        assert_eq!(advise(&runs).len(), 3);
    }

    #[test]
    fn fewer_processors_that_do_better_are_named() {
        let mut runs = grid(&vec![vec![10.0; 5]; CELLS]);
        runs[0].throughput_gbps = Summary::of(&[50.0; 5]).expect("five figures");
        let sentence = &advise(&runs)[0];
        assert!(
            sentence.contains("though 1 processor did better with 50.0 ± 0.0 under `task`"),
            "{sentence}"
        );
    }
}
