//! Checks of the braidnet workspace, run as `cargo run -p xtask -- <command>`.
//!
//! - `floors`: no crate imports upwards or sideways (see [`floors`]).
//! - `conformance`: writes the page of what RFCs ask for and where it is done (see [`conformance`]).
//! - `mutants`: whether the cited tests tell, where a cited place does something else (see [`mutants`]).
//! - `check`: formatting, lints, documentation, floors, conformance, [hostile input](hostile) and [bounds], in that order, stopping at the first that fails.
//! - `instructions`: how many instructions a message takes, by layer and by function (see [`instructions`]).
//! - `fuzz`: what libFuzzer finds within a given time (see [`fuzz`]).
//! - `schedules`: whole small stacks in orders that seeds draw (see [`schedules`]).
//! - `simulate`: whole stacks on bad networks in virtual time, over so many seeds (see `docs/testing.md`).
//! - `sanitize`: Miri and ThreadSanitizer, where the toolchain has them (see [`sanitize`]).
//!
//! It changes nothing but what it builds, and reaches no network but for crates that a build lacks.

mod bounds;
mod check;
mod conformance;
mod floors;
mod fuzz;
mod hostile;
mod instructions;
mod mutants;
mod sanitize;
mod schedules;
mod simulate;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run -p xtask -- <command>

  floors   refuse a crate that imports upwards or sideways, or that has no floor
  check    fmt --check, clippy -D warnings, rustdoc -D warnings, floors, conformance, hostile input, bounds; stops at the first failure
  conformance
           write docs/conformance.md from docs/conformance/, and say which places are not there any more
  mutants [--sample N] [--seed S] [--only RFC [RULE]] [--list]
           change cited places of rules that the seed draws, one word each, and run the cited tests: one must fail
  instructions [--architecture LIST] [--json] [-- TTCP FLAGS]
           instructions per message by layer and function, on one processor [DEMUX figure 8]; needs valgrind
  fuzz [--seconds N] [--target NAME] [--keep]
           every target of braidnet-fuzz under libFuzzer, 120 seconds over all; --keep adds what reaches more to what is kept
  schedules [SEEDS]
           the equivalence test on threads whose every step a seed puts in its place, over so many seeds
  simulate [--seeds N | --seed N --shrink] [FLAGS]
           whole stacks on bad networks in virtual time, held against the laws of TCP; `--help` says the rest
  sanitize Miri and ThreadSanitizer; says SKIPPED and why where the toolchain lacks them";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["floors"] => floors::run(&workspace_root()),
        ["conformance"] => conformance::write(&workspace_root()),
        ["mutants", words @ ..] => mutants::run(&workspace_root(), words),
        ["check"] => check::run(&workspace_root()),
        ["instructions", words @ ..] => instructions::run(&workspace_root(), words),
        ["fuzz", words @ ..] => fuzz::run(&workspace_root(), words),
        ["schedules"] => schedules::run(&workspace_root(), None),
        ["schedules", seeds] => schedules::run(&workspace_root(), Some(seeds)),
        ["simulate", words @ ..] => simulate::run(&workspace_root(), words),
        ["sanitize"] => sanitize::run(&workspace_root()),
        ["help" | "--help" | "-h"] => Ok(USAGE.to_owned()),
        [] => Err(USAGE.to_owned()),
        [first, ..] => Err(format!("xtask does not know `{first}`\n\n{USAGE}")),
    };
    match outcome {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that holds the workspace's `Cargo.toml`: the one above this crate's.
fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A folder for builds with other flags than the usual, below the one for those.
fn target_beside(root: &Path, folder: &str) -> PathBuf {
    let usual = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(usual.unwrap_or_else(|| "target".into()))
        .join(folder)
}

/// The cargo that runs us, so that the checks use the same toolchain.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
