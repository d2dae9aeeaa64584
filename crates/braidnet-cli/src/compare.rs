//! `braidnet compare`: every architecture on this machine.

mod progress;

use crate::choices::one_of;
use crate::failure::Failure;
use crate::knobs::Knobs;
use crate::{output, units};
use braidnet::Architecture;
use braidnet_lab::Presentation;
use braidnet_lab::compare::{
    CompareConfig, CompareError, Laboratory, Provenance, ThisMachine, Trial, by_connections,
    compare, doubling, table, trial_plan, trial_table, try_ways,
};
use clap::Args;
use progress::Bar;
use std::time::Duration;

const MORE: &str = "\
Measures the real stack over an in-memory device under every architecture, in shuffled rounds, each repetition on \
several processors between two probes of what the machine can do at that moment. Prints a table, how to read it, and \
which architecture to choose for few and for many connections. Nothing leaves the process: no root, no device.

Examples:
  braidnet compare
      the whole grid on 1, 2, 4 and so on processors: a minute or so on two
  braidnet compare --processors 1,2 --connections 1,4,16,64 --presentation none
      from where on another architecture is the better one
  braidnet compare --lock mcs --batch 1
      as the papers did it: fair locks, one message at a time
  braidnet compare --grid
      1 to 20 connections on all processors: three to five minutes on two
  braidnet compare --perimeters --repetitions 9
      locks against delegation, as far as the papers' verdict may depend on anything else
  braidnet compare --work 20us --presentation none
      with 20 µs of order-free work on each message, as decryption would be: function shares in it
  braidnet compare --json > compare.json
      every repetition with its probes, for programs";

/// Compare the architectures on this machine: the first thing to run
#[derive(Args, Debug)]
#[command(after_help = MORE)]
pub struct Compare {
    /// Throughput with 1 to 20 connections on all processors, a column for each architecture [CP/MP §3.4.1, figure 7]
    #[arg(long)]
    grid: bool,

    /// Under `message`, what a perimeter spans, by lock and by delegation, with and without conflict, batch 1 and 32 [DEMUX §3.2.2, §5]
    #[arg(long, conflicts_with_all = ["grid", "waits", "architecture"])]
    perimeters: bool,

    /// `task` and `message`, each with queues that are slept on and spun on [ASX §2.6.1, §3.5]
    #[arg(long, conflicts_with_all = ["grid", "architecture"])]
    waits: bool,

    /// Architectures to compare [default: all; function only with --work] [CP/MP §3.3, ASX §3.3; function: PPF §3.2]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(&Architecture::ALL, Architecture::name), hide_possible_values = true)]
    architecture: Vec<Architecture>,

    /// Numbers of processors [default: 1, 2, 4 and so on, and all that this process may use; with --grid, all] [CP/MP §3.4.1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    processors: Vec<usize>,

    /// Numbers of connections, dealt to processors evenly [default: 1,20; with --grid, 1 to 20] [PLP §4.3]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    connections: Vec<usize>,

    /// What stands between transport and application: none, xdr [default: both; with --grid, none] [CP/MP §3.2]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(Presentation::ALL, Presentation::name), hide_possible_values = true)]
    presentation: Vec<Presentation>,

    /// Repetitions of each cell, 5 or more [CP/MP §3.4]
    #[arg(long, value_name = "N", default_value_t = CompareConfig::default().repetitions)]
    repetitions: usize,

    /// Most times that a cell is measured again because the machine moved under it
    #[arg(long, value_name = "N", default_value_t = CompareConfig::default().most_repeats)]
    repeats: usize,

    /// Time after which nothing is measured again [default: 75s; with --grid, 5min]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    budget: Option<Duration>,

    /// What the order within each round is shuffled by
    #[arg(long, value_name = "N", default_value_t = CompareConfig::default().seed)]
    seed: u64,

    /// Print the report as JSON: {"machine":{…},"runs":[…],"advice":[…]}
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    knobs: Knobs,
}

impl Compare {
    /// Measures and prints. Ctrl-C ends the process with 130 and leaves the terminal clean.
    pub fn run(self) -> Result<(), Failure> {
        let (json, grid, trial) = (self.json, self.grid, self.trial());
        let config = self.config();
        if trial.is_none() {
            announce(&config, grid)?;
        }
        let mut bar = Bar::new();
        bar.clear_on_interrupt()
            .map_err(|error| Failure::Runtime(format!("cannot wait for Ctrl-C: {error}")))?;
        let answer = match trial {
            Some(trial) => try_ways(trial, &config, &provenance(), &mut bar),
            None => compare(&config, &provenance(), &mut bar),
        };
        bar.clear();
        let report = answer.map_err(failure)?;
        if json {
            output::json(&report)
        } else if let Some(trial) = trial {
            output::text(&trial_table(trial, &report))
        } else if grid {
            output::text(&by_connections(&report))
        } else {
            output::text(&table(&report))
        }
    }

    fn trial(&self) -> Option<Trial> {
        if self.perimeters {
            Some(Trial::Perimeters)
        } else {
            self.waits.then_some(Trial::Waits)
        }
    }

    fn config(self) -> CompareConfig {
        let allowed = ThisMachine::new().processors();
        let plan = if self.grid {
            CompareConfig::sweep(allowed)
        } else if let Some(trial) = self.trial() {
            trial_plan(trial, allowed)
        } else {
            CompareConfig {
                processors: doubling(allowed),
                ..CompareConfig::default()
            }
        };
        let base = self.knobs.config();
        let comparable = CompareConfig::comparable(&base).to_vec();
        CompareConfig {
            architectures: asked_or(self.architecture, comparable),
            processors: asked_or(self.processors, plan.processors),
            connections: asked_or(self.connections, plan.connections),
            presentations: asked_or(self.presentation, plan.presentations),
            repetitions: self.repetitions,
            most_repeats: self.repeats,
            budget: self.budget.unwrap_or(plan.budget),
            seed: self.seed,
            base,
            ..plan
        }
    }
}

/// What was asked for, or what stands for nothing.
fn asked_or<T>(asked: Vec<T>, default: Vec<T>) -> Vec<T> {
    if asked.is_empty() { default } else { asked }
}

/// Says on standard error how long it will take: of a grid always, else where it is longer than anybody would wait unasked.
fn announce(config: &CompareConfig, grid: bool) -> Result<(), Failure> {
    let cells = config
        .cells(ThisMachine::new().processors())
        .map_err(failure)?;
    let needed = config.time_needed(&cells);
    if !grid && needed <= config.budget.max(UNASKED) {
        return Ok(());
    }
    eprintln!(
        "{} cells: about {}, at most about {} if the machine is not steady",
        cells.len(),
        roughly(needed),
        roughly(needed.max(config.budget))
    );
    Ok(())
}

/// Nobody is told of less than this: `compare` as it is takes up to a minute and a half.
const UNASKED: Duration = Duration::from_secs(90);

/// "40 s", "3 min".
fn roughly(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{} s", seconds.ceil()),
        seconds => format!("{} min", (seconds / 60.0).round()),
    }
}

fn provenance() -> Provenance {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    Provenance {
        commit: option_env!("BRAIDNET_COMMIT").map(str::to_owned),
        command_line: words.join(" "),
    }
}

fn failure(error: CompareError) -> Failure {
    if error.is_usage() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Runtime(error.to_string())
    }
}
