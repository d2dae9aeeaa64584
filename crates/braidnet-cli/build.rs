//! Tells the program from which commit it is built, so that a measurement can say so.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A tree without history (a packaged crate) has no commit, and the program then says none.
    let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) else {
        return;
    };
    // The log of HEAD grows with every commit, checkout and rebase.
    println!("cargo:rerun-if-changed={directory}/logs/HEAD");
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=BRAIDNET_COMMIT={commit}");
    }
}

/// What git answers in one line; none where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !line.trim().is_empty()).then(|| line.trim().to_owned())
}
