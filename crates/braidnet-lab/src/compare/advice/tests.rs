//! The sentences, and that they follow the figures alone.

use super::*;
use crate::Presentation;
use crate::compare::statistics::Summary;
use crate::compare::testing::planted;
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
