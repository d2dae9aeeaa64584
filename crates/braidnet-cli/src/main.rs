//! The `braidnet` command.
//!
//! One file for each subcommand: what it reads from the command line, and which crate does the work. No logic lives here.
//!
//! Exit codes: 0 success, 1 something failed while running, 2 the command line or configuration asks for what cannot be,
//! 130 interrupted by Ctrl-C.
#![forbid(unsafe_code)]

mod choices;
mod compare;
mod doctor;
mod failure;
mod impaired;
mod knobs;
mod output;
mod relay;
mod replay;
mod serve;
mod ttcp;
mod tunnel;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

const MORE: &str = "\
The first thing to run:
  braidnet compare
      which architecture is the best one on this machine, for few and for many connections

`braidnet COMMAND --help` says more of each command and ends with examples. In brackets stand sections of the papers \
that braidnet is built after: CP/MP (Schmidt and Suda, connectional and message parallelism), PLP (Nahum, Yates, Kurose \
and Towsley, performance issues in parallelized network protocols), ASX (Schmidt, the object-oriented framework), \
DEMUX (demultiplexed STREAMS stacks), PPF (Lindgren, Krupczak, Ammar and Schwan, parallel and configurable protocols).";

/// A user-space TCP/IP stack whose process architecture is chosen at run time
#[derive(Parser, Debug)]
#[command(name = "braidnet", version, max_term_width = 120, after_help = MORE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Compare(compare::Compare),
    Ttcp(Box<ttcp::Ttcp>),
    Serve(Box<serve::Serve>),
    Relay(Box<relay::Relay>),
    Replay(replay::Replay),
    Doctor(doctor::Doctor),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Compare(compare) => compare.run(),
        Command::Ttcp(ttcp) => ttcp.run(),
        Command::Serve(serve) => serve.run(),
        Command::Relay(relay) => relay.run(),
        Command::Replay(replay) => replay.run(),
        Command::Doctor(doctor) => doctor.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("braidnet: {failure}");
            failure.exit_code()
        }
    }
}
