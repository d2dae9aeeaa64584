//! Checks of the braidnet workspace, run as `cargo run -p xtask -- <command>`.
//!
//! - `floors`: no crate imports upwards or sideways (see [`floors`]).
//! - `check`: formatting, lints, documentation and floors, in that order, stopping at the first that fails.
//!
//! It changes nothing and reaches no network.

mod check;
mod floors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run -p xtask -- <command>

  floors   refuse a crate that imports upwards or sideways, or that has no floor
  check    fmt --check, clippy -D warnings, rustdoc -D warnings, floors; stops at the first failure";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["floors"] => floors::run(&workspace_root()),
        ["check"] => check::run(&workspace_root()),
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

/// The cargo that runs us, so that the checks use the same toolchain.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
