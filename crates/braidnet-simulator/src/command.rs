//! The command: many seeds at once, or one again with everything that happened.

use crate::case::Case;
use crate::diagram;
use crate::fault::Fault;
use crate::law::{Law, Violation};
use crate::shrink;
use crate::trace::{self, Trace};
use crate::world::{Report, World};
use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Failing seeds after which no more are run, unless told.
const ENOUGH: usize = 10;

/// Runs whole stacks on bad networks in virtual time, each decided by a seed, and holds them against the laws of TCP.
#[derive(Parser, Debug)]
#[command(name = "braidnet-simulator")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads to run them on; as many as there are processors unless told.
    #[arg(long)]
    threads: Option<usize>,
    /// Failing seeds after which no more are run.
    #[arg(long, default_value_t = ENOUGH)]
    failures: usize,
    /// Runs only this one, and shows it.
    #[arg(long)]
    seed: Option<u64>,
    /// Shows at most so many lines of what came last.
    #[arg(long, default_value_t = 120)]
    last: usize,
    /// Shows packets as tcpdump prints them, not as a sequence diagram.
    #[arg(long)]
    text: bool,
    /// Writes what hosts sent and got into this pcapng file.
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Writes the sequence diagram for Mermaid into this file.
    #[arg(long)]
    mermaid: Option<PathBuf>,
    /// Leaves out what the failure does not need, and shows what remains.
    #[arg(long)]
    shrink: bool,
    /// Plants a fault between every stack and the world, to see what finds it.
    #[arg(long)]
    fault: Option<Fault>,
}

/// What the binary does.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.seed {
        Some(seed) => replay(seed, &arguments),
        None => {
            let threads = arguments.threads.unwrap_or_else(processors);
            let seeds = (arguments.from, arguments.seeds);
            run_with(seeds, (threads, arguments.fault), Some(arguments.failures))
        }
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs so many seeds, the first being `from`, until some have failed; what they were like. With a number of failures that are enough,
/// progress is shown.
///
/// # Errors
/// The seeds that break a law, how, and how to see one again.
pub fn run(seeds: (u64, u64), threads: usize, shown: Option<usize>) -> Result<String, String> {
    run_with(seeds, (threads, None), shown)
}

fn run_with(
    (from, seeds): (u64, u64),
    (threads, fault): (usize, Option<Fault>),
    shown: Option<usize>,
) -> Result<String, String> {
    let (enough, shows_progress) = (shown.unwrap_or(ENOUGH), shown.is_some());
    let next = AtomicU64::new(from);
    let failures = Mutex::new(Vec::new());
    let sum = Mutex::new(Report::default());
    let start = Instant::now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_enough = failures.lock().is_ok_and(|all| all.len() >= enough);
            if seed >= from + seeds || is_enough {
                return;
            }
            match attempt(Case::draw(seed), fault, false).0 {
                Ok(report) => {
                    if let Ok(mut sum) = sum.lock() {
                        add(&mut sum, &report);
                    }
                }
                Err(violation) => {
                    if let Ok(mut failures) = failures.lock() {
                        if shows_progress {
                            println!("seed {seed}: {violation}");
                        }
                        failures.push((seed, violation));
                    }
                }
            }
            let done = seed + 1 - from;
            if shows_progress && done.is_multiple_of(1000) {
                println!("{done} of {seeds} seeds, {:?}", start.elapsed());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().unwrap_or_default();
    let report = sum.into_inner().unwrap_or_default();
    if failures.is_empty() {
        return Ok(format!(
            "{seeds} seeds in {:?}: {}",
            start.elapsed(),
            tell(&report)
        ));
    }
    failures.sort_by_key(|(seed, _)| *seed);
    let lines: Vec<String> = failures
        .iter()
        .map(|(seed, violation)| format!("seed {seed}: {violation}"))
        .collect();
    Err(format!(
        "{}\nsee one again with: cargo run --release -p braidnet-simulator -- --seed {} --shrink",
        lines.join("\n"),
        failures[0].0
    ))
}

/// One run, a panic being a broken law.
fn attempt(case: Case, fault: Option<Fault>, traced: bool) -> (Result<Report, Violation>, Trace) {
    let run = || World::new(case, fault, traced).finish();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        let violation = Violation {
            law: Law::Panic,
            detail: said.unwrap_or_default(),
        };
        (Err(violation), Trace::default())
    })
}

fn replay(seed: u64, arguments: &Arguments) -> Result<String, String> {
    let mut case = Case::draw(seed);
    if arguments.shrink
        && let (Err(violation), _) = attempt(case.clone(), arguments.fault, false)
    {
        case = shrink::smallest(case, violation.law, arguments.fault);
        println!("{case:#?}");
    }
    let hosts = case.topology.hosts;
    println!(
        "{:?}, {:?}: {hosts} hosts, {} routers, {} lines, {} talks, troubles {:?}\n",
        case.weather,
        case.topology.shape,
        case.topology.routers,
        case.topology.links.len(),
        case.talks.len(),
        case.troubles
    );
    let (verdict, trace) = attempt(case, arguments.fault, true);
    let entries = &trace.entries[trace.entries.len().saturating_sub(arguments.last)..];
    match arguments.text {
        true => println!("{}", trace::text(entries)),
        false => println!("{}", diagram::text(entries, hosts)),
    }
    let write = |path: &Option<PathBuf>, bytes: Vec<u8>| match path {
        Some(path) => std::fs::write(path, bytes).map_err(|error| format!("{path:?}: {error}")),
        None => Ok(()),
    };
    write(&arguments.pcap, trace::pcapng(&trace.entries, hosts))?;
    write(
        &arguments.mermaid,
        diagram::mermaid(entries, hosts).into_bytes(),
    )?;
    match verdict {
        Ok(report) => Ok(format!("seed {seed}: {}", tell(&report))),
        Err(violation) => Err(format!("seed {seed}: {violation}")),
    }
}

fn add(sum: &mut Report, one: &Report) {
    sum.packets += one.packets;
    sum.turns += one.turns;
    sum.bytes += one.bytes;
    sum.attempts += one.attempts;
    sum.completed += one.completed;
    sum.chances += one.chances;
    sum.heeded += one.heeded;
    sum.elapsed += one.elapsed;
    let tally = &mut sum.tally;
    tally.lost += one.tally.lost;
    tally.lost_in_bursts += one.tally.lost_in_bursts;
    tally.queue_full += one.tally.queue_full;
    tally.duplicated += one.tally.duplicated;
    tally.corrupted += one.tally.corrupted;
    tally.held_back += one.tally.held_back;
}

fn tell(report: &Report) -> String {
    let tally = &report.tally;
    format!(
        "{} packets ({} lost, {} of no room, {} repeated, {} damaged, {} held back), {} bytes, {} connections, {} sides ended as planned, {} s of virtual time, {} turns; {} old segments in a window by chance, {} marks heeded",
        report.packets,
        tally.lost + tally.lost_in_bursts,
        tally.queue_full,
        tally.duplicated,
        tally.corrupted,
        tally.held_back,
        report.bytes,
        report.attempts,
        report.completed,
        report.elapsed / crate::case::SECOND,
        report.turns,
        report.chances,
        report.heeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds in which a planted fault is found, at the latest.
    const SOON: u64 = 300;

    /// Each fault breaks one of its laws in some seed, and no other law in any before.
    #[test]
    fn planted_faults_are_found() {
        for (fault, laws) in Fault::ALL {
            let found = (0..SOON).find_map(|seed| {
                let (verdict, _) = attempt(Case::draw(seed), Some(fault), false);
                verdict.err().map(|violation| (seed, violation))
            });
            let Some((seed, violation)) = found else {
                panic!("{fault:?} is not found in {SOON} seeds");
            };
            println!("{fault:?}: seed {seed}, {:?}", violation.law);
            assert!(
                laws.contains(&violation.law),
                "{fault:?}, seed {seed}: {violation}"
            );
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        for seed in 0..20 {
            let run = || {
                let (verdict, trace) = attempt(Case::draw(seed), None, true);
                (format!("{verdict:?}"), trace::text(&trace.entries))
            };
            assert_eq!(run(), run(), "seed {seed}");
        }
    }

    /// What a failure leaves is no larger than it was, and still fails.
    #[test]
    fn a_failure_shrinks() {
        let fault = Some(Fault::TimeWaitShort);
        let fails = |case: Case| attempt(case, fault, false).0.err();
        let seed = (0..SOON).find(|seed| fails(Case::draw(*seed)).is_some());
        let case = Case::draw(seed.expect("it is found"));
        let law = fails(case.clone()).map(|violation| violation.law);
        let small = shrink::smallest(case.clone(), Law::TimeWait, fault);
        assert_eq!((law, small.talks.len()), (Some(Law::TimeWait), 1));
        assert!(small.troubles.is_empty());
        assert_eq!(fails(small).map(|violation| violation.law), law);
    }

    /// A diagram and both files have every packet.
    #[test]
    fn a_run_can_be_looked_at() {
        let case = Case::draw(1);
        let hosts = case.topology.hosts;
        let (_, trace) = attempt(case, None, true);
        let sent = |entry: &&trace::Entry| matches!(entry.what, trace::Happened::Sent { .. });
        let arrived = |entry: &&trace::Entry| matches!(entry.what, trace::Happened::Arrived { .. });
        let count = trace.entries.iter().filter(sent).count();
        assert!(count > 10);
        let text = diagram::text(&trace.entries, hosts);
        assert!(text.lines().count() > count);
        assert!(diagram::mermaid(&trace.entries, hosts).starts_with("sequenceDiagram\n"));
        let file = trace::pcapng(&trace.entries, hosts);
        let (mut at, mut packets) = (0, 0);
        while at < file.len() {
            let word = |at: usize| {
                let bytes = file[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes)
            };
            let len = word(at + 4) as usize;
            assert_eq!(
                word(at + len - 4) as usize,
                len,
                "a block's length stands twice"
            );
            packets += usize::from(word(at) == 6);
            at += len;
        }
        let seen = count + trace.entries.iter().filter(arrived).count();
        assert_eq!((at, packets), (file.len(), seen));
    }
}
