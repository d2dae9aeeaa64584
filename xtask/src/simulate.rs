//! Whole stacks on bad networks in virtual time.

use std::path::Path;
use std::process::Command;

/// Runs the simulator with these flags, optimised.
pub fn run(root: &Path, flags: &[&str]) -> Result<String, String> {
    let status = Command::new(crate::cargo())
        .args(["run", "-q", "--release", "-p", "braidnet-simulator", "--"])
        .args(flags)
        .current_dir(root)
        .status()
        .map_err(|error| format!("simulate: cannot run cargo: {error}"))?;
    match status.success() {
        true => Ok("simulate: no law was broken".to_owned()),
        false => Err(format!("simulate: ended with {status}")),
    }
}
