//! What is printed: a line for each class, and each failure with what was to come, what did, and the exchange.

use std::collections::BTreeMap;

use crate::case::{Case, Level};
use crate::run::Ran;
use crate::side::Side;

/// What counts of a class.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    departed: usize,
}

/// Lists cases.
pub fn list(cases: &[&Case]) {
    for case in cases {
        let (level, class) = (case.level.name(), case.class);
        println!("{class:<12} {level:<6} {:<28} {}", case.source, case.name);
        for (side, why) in &case.departures {
            println!("{:<12} {:<6} {} does otherwise: {why}", "", "", side.name());
        }
    }
    println!("{} cases", cases.len());
}

/// Prints what became of all. Whether no MUST has failed, and nothing that is said of departures is out of date.
pub fn report(side: Side, cases: &[&Case], ran: &[Ran]) -> bool {
    let mut is_good = true;
    let mut classes: BTreeMap<&str, Counts> = BTreeMap::new();
    for (case, ran) in cases.iter().zip(ran) {
        let counts = classes.entry(case.class).or_default();
        match (&ran.outcome, case.departure(side)) {
            (Ok(()), None) => counts.passed += 1,
            (Err(_), Some(_)) => counts.departed += 1,
            (Ok(()), Some(why)) => {
                counts.failed += 1;
                is_good = false;
                println!(
                    "PASSED, and is said not to: {}, {}: {why}",
                    case.source, case.name
                );
            }
            (Err(failure), None) => {
                counts.failed += 1;
                is_good &= case.level != Level::Must;
                println!(
                    "FAILED {} {} ({}): {}",
                    case.level.name(),
                    case.source,
                    case.class,
                    case.name
                );
                println!("    expected: {}", failure.expected);
                println!("    seen:     {}", failure.seen);
                for line in &ran.exchange {
                    println!("    {line}");
                }
            }
        }
    }
    println!(
        "{:<14}{:>8}{:>8}{:>10}",
        side.name(),
        "passed",
        "failed",
        "departed"
    );
    let mut total = Counts::default();
    for (class, counts) in &classes {
        println!(
            "{class:<14}{:>8}{:>8}{:>10}",
            counts.passed, counts.failed, counts.departed
        );
        total.passed += counts.passed;
        total.failed += counts.failed;
        total.departed += counts.departed;
    }
    println!(
        "{:<14}{:>8}{:>8}{:>10}",
        "all", total.passed, total.failed, total.departed
    );
    is_good
}
