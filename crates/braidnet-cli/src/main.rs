//! The `braidnet` command.
//!
//! One file for each subcommand: what it reads from the command line, and which crate does the work. No logic lives here.
//!
//! Exit codes: 0 success, 1 something failed while running, 2 the command line or configuration asks for what cannot be,
//! 130 interrupted by Ctrl-C.
#![forbid(unsafe_code)]

mod failure;
mod serve;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// A user-space TCP/IP stack whose process architecture is chosen at run time.
#[derive(Parser, Debug)]
#[command(name = "braidnet", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Interrupted) {
                eprintln!("braidnet: {failure}");
            }
            failure.exit_code()
        }
    }
}
