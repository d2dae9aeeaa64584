//! Whole small stacks, and sockets over them, under schedules that seeds draw.

use std::path::Path;
use std::process::Command;

/// Runs the scheduled part of the equivalence test, and that of who waits for sockets, over so many seeds if that is said.
pub fn run(root: &Path, seeds: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(crate::cargo());
    command
        .args(["test", "-q", "-p", "braidnet-lab"])
        .args(["--test", "equivalence", "--test", "waiting"])
        // Of either, what the cfg below adds.
        .args(["--", "scheduled::", "nobody_is_forgotten"])
        .current_dir(root)
        .env("RUSTFLAGS", "--cfg shuttle")
        // Beside the usual builds, which other flags would throw away.
        .env("CARGO_TARGET_DIR", crate::target_beside(root, "schedules"));
    if let Some(seeds) = seeds {
        command.env("BRAIDNET_SEEDS", seeds);
    }
    let status = command
        .status()
        .map_err(|error| format!("schedules: cannot run cargo: {error}"))?;
    if status.success() {
        Ok("schedules: all ended as they should".to_owned())
    } else {
        Err(format!(
            "schedules: the test ended with {status}; BRAIDNET_SEED=N runs the order that it names again"
        ))
    }
}
