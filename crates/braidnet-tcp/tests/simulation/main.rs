//! Two engines in virtual time over a link that loses, repeats, changes, holds up and queues packets.
//!
//! Everything is decided by one number, the seed: [`Case::draw`] says how. The ranges:
//!
//! | what | range |
//! |---|---|
//! | loss, duplication | 0 to 25 % each way |
//! | corruption (of one bit, found by the checksum) | 0 to 10 % each way |
//! | reordering | 0 to 50 % of packets, held up by up to 300 ms |
//! | delay | 1 ns to 200 ms each way |
//! | rate | 50 kB/s to 5 MB/s with a queue of 3 to 60 kB, or unlimited |
//! | buffers (windows) | 1 byte to 1 GiB, and what they may grow to |
//! | MSS | 88 to 8,960 |
//! | reads and writes | 1 byte to everything; pauses of up to 8 s |
//! | bytes | 0 to 1,000,000 each way |
//! | initial sequence numbers | any; most wrap, or pass 2^31 |
//! | clock | steps of 1 ns to 10 ms, read up to 5 ms late |
//! | run of segments before the engine is polled | 1 to 64 |
//! | trains that a host takes from its engine and cuts | none (half of the hosts), 65,000 bytes, endless |
//! | congestion control, Nagle, timestamps, SACK, RACK, window scale | each on and off, agreed on and not |
//! | delayed ACK | 0 to 150 ms |
//! | open and close | passive and simultaneous; either first, or both at once |
//!
//! The laws that must hold are those of [`Law`](oracle::Law). The bound on silence: while the network lets packets
//! through, something must be brought about (a byte delivered, taken or released, a change of state) within the pauses of
//! the applications, four times the length of the line, one second, and a number of retransmission timeouts at their
//! upper bound: 2 over a perfect link, 12 over one that loses up to 3 %, 40 over one that loses up to a quarter each way
//! (where four exchanges in ten succeed).
//!
//! `BRAIDNET_SEEDS=50000 cargo test -p braidnet-tcp --test simulation` runs more seeds than the usual 1,000, and
//! `BRAIDNET_SEED=7 cargo test -p braidnet-tcp --test simulation -- --nocapture seeds` replays one, with every segment
//! printed.

mod case;
mod chunk;
mod damage;
mod fault;
mod host;
mod link;
mod oracle;
mod random;
mod run;
mod trace;

use braidnet_impair::Tally;
use case::{Case, Weather};
use fault::Fault;
use oracle::Violation;
use run::{Report, Run};

/// Seeds in the usual test run.
const SEEDS: u64 = 1000;
/// Per mille of segments with a changed header, in runs that have any.
const DAMAGE: u64 = 20;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    )
}

/// Runs every seed that is asked for, and says how to replay the ones that fail.
fn each(test: &str, run: fn(u64, bool) -> Result<Report, Violation>) -> Vec<Report> {
    if let Some(seed) = variable("BRAIDNET_SEED") {
        let report = run(seed, true).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        println!("seed {seed}: {report:?}");
        return vec![report];
    }
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    for seed in 0..variable("BRAIDNET_SEEDS").unwrap_or(SEEDS) {
        match std::panic::catch_unwind(|| run(seed, false)) {
            Ok(Ok(report)) => reports.push(report),
            Ok(Err(violation)) => failures.push(format!("seed {seed}: {violation}")),
            Err(_) => failures.push(format!("seed {seed}: a panic, see above")),
        }
        if failures.len() == 10 {
            break;
        }
    }
    assert!(
        failures.is_empty(),
        "{}\nreplay one with: BRAIDNET_SEED=<seed> cargo test -p braidnet-tcp --test simulation -- --nocapture {test}",
        failures.join("\n")
    );
    reports
}

#[test]
fn seeds() {
    let reports = each("seeds", |seed, trace| {
        Run::new(Case::draw(seed), None, trace).finish()
    });
    if reports.len() >= SEEDS as usize {
        // Each thing that the link does to packets was done, often.
        let total = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
        let tally = |of: fn(&Tally) -> u64| {
            let tallies = reports.iter().flat_map(|report| &report.tallies);
            tallies.map(of).sum::<u64>()
        };
        for (what, count) in [
            ("lost", tally(|tally| tally.lost)),
            ("repeated", tally(|tally| tally.duplicated)),
            ("corrupted", tally(|tally| tally.corrupted)),
            ("held up", tally(|tally| tally.held_back)),
            ("overflowed", tally(|tally| tally.queue_full)),
            ("sent again", total(|report| report.repeated)),
            ("kilobytes", total(|report| report.bytes as u64 / 1000)),
            ("seconds", total(|report| report.elapsed / case::SECOND)),
        ] {
            println!("{count} {what}");
            assert!(count > 1000, "{count} {what}");
        }
    }
}

/// Headers that were changed so that no checksum finds it: the connection may end, nothing may panic or go on for ever,
/// and what is held stays bounded.
#[test]
fn damaged_headers() {
    each("damaged_headers", |seed, trace| {
        Run::new(Case::draw(seed).damaged(DAMAGE), None, trace).finish()
    });
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let run = || format!("{:?}", Run::new(Case::draw(seed), None, false).finish());
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// The simulator finds what is wrong: each fault breaks one of its laws in some runs, and no other law in any.
#[test]
fn planted_faults_are_found() {
    for (fault, laws) in Fault::ALL {
        let mut found = 0;
        for seed in 0..120 {
            match Run::new(Case::draw(seed), Some(fault), false).finish() {
                Ok(_) => {}
                Err(violation) => {
                    assert!(
                        laws.contains(&violation.law),
                        "{fault:?}, seed {seed}: {violation}"
                    );
                    found += 1;
                }
            }
        }
        assert!(found >= 20, "{fault:?} was found in {found} of 120 runs");
    }
}

#[test]
fn all_weathers_are_drawn() {
    for weather in [
        Weather::Perfect,
        Weather::Congested,
        Weather::Fair,
        Weather::Foul,
    ] {
        let drawn = (0..100)
            .filter(|seed| Case::draw(*seed).weather == weather)
            .count();
        assert!(drawn >= 10, "{weather:?}: {drawn}");
    }
}
