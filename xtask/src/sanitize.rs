//! Miri and ThreadSanitizer, where there is a toolchain that has them.
//!
//! Both need a nightly toolchain beside the one that builds braidnet: Miri its component, ThreadSanitizer its runtime and the standard
//! library's source, which has to be built with it. What is missing is skipped, and the report says so and why.
//!
//! Miri interprets the unsafe code of `braidnet-message` and `braidnet-sync`; that of `braidnet-wire` is instructions of the processor's own,
//! which it does not have. It shows each access that a pointer does not allow, and data races. ThreadSanitizer sees data races on real threads, in what
//! the compiler has made of them. It knows no fences: what is ordered by one it is told to overlook.

use std::path::Path;
use std::process::Command;

const TOOLCHAIN: &str = "nightly";

/// A tool, and what it looks at.
struct Tool {
    name: &'static str,
    /// Why it cannot be run here.
    missing: fn() -> Option<String>,
    /// Words of cargo's command line, and the folder below `target` for each build.
    runs: &'static [&'static [&'static str]],
    folder: &'static str,
    builds_std: bool,
    environment: &'static [(&'static str, &'static str)],
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "Miri",
        missing: miri_is_missing,
        runs: &[
            &[
                "miri",
                "test",
                "-q",
                "-p",
                "braidnet-message",
                "--test",
                "threads",
                "--test",
                "homes",
                "--",
                "--skip",
                "steady_state",
            ],
            &[
                "miri",
                "test",
                "-q",
                "-p",
                "braidnet-sync",
                "--lib",
                "--",
                "baton::",
                "board::",
                "delegation::",
                "lease::",
                "lock::mcs",
                "release::",
                "ring::",
                "roster::",
                "--skip",
                "a_panic",
            ],
        ],
        folder: "miri",
        builds_std: false,
        environment: &[
            // Tests forget messages and guards on purpose.
            ("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks"),
            ("PROPTEST_CASES", "4"),
            // A backtrace takes as long as all the rest.
            ("RUST_BACKTRACE", "0"),
        ],
    },
    Tool {
        name: "ThreadSanitizer",
        missing: threads_are_missing,
        runs: &[&[
            "test",
            "-q",
            "-Zbuild-std",
            "-p",
            "braidnet-sync",
            "-p",
            "braidnet-message",
            "--lib",
            "--tests",
        ]],
        folder: "threads",
        builds_std: true,
        environment: &[("RUSTFLAGS", "-Zsanitizer=thread")],
    },
];

/// Runs what the toolchain has, stopping at the first that finds something, and says of the rest why not.
pub fn run(root: &Path) -> Result<String, String> {
    let mut report = Vec::new();
    for tool in TOOLS {
        report.push(match (tool.missing)() {
            Some(why) => format!("sanitize: SKIPPED {}: {why}", tool.name),
            None => {
                tool.run(root)?;
                format!("sanitize: {} found nothing", tool.name)
            }
        });
    }
    Ok(report.join("\n"))
}

impl Tool {
    fn run(&self, root: &Path) -> Result<(), String> {
        for words in self.runs {
            let words = words.join(" ");
            println!("sanitize: {}: cargo {words}", self.name);
            let mut command = nightly("cargo");
            command
                .args(words.split(' '))
                .envs(self.environment.iter().copied())
                .env("CARGO_TARGET_DIR", crate::target_beside(root, self.folder))
                .current_dir(root);
            if self.builds_std {
                // So that build scripts, which run under the usual one, are built without.
                command.env("CARGO_BUILD_TARGET", host()?);
            }
            let status = command
                .status()
                .map_err(|error| format!("sanitize: cannot run rustup: {error}"))?;
            if !status.success() {
                return Err(format!(
                    "sanitize: {}: `cargo {words}` ended with {status}",
                    self.name
                ));
            }
        }
        Ok(())
    }
}

/// A program of the nightly toolchain.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", TOOLCHAIN, program]);
    // Of the toolchain that runs us.
    command.env_remove("CARGO").env_remove("RUSTC");
    command
}

/// What a program of the nightly toolchain prints, or why it does not.
fn answer(program: &str, words: &[&str]) -> Result<String, String> {
    let output = nightly(program)
        .args(words)
        .output()
        .map_err(|error| format!("there is no rustup: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("nothing").to_owned();
    Err(format!("`{program} {}` says: {said}", words.join(" ")))
}

fn miri_is_missing() -> Option<String> {
    answer("cargo", &["miri", "--version"]).err()
}

fn threads_are_missing() -> Option<String> {
    let look = || -> Result<(), String> {
        let sysroot = answer("rustc", &["--print", "sysroot"])?;
        let below = Path::new(&sysroot).join("lib/rustlib");
        let runtime = format!("{}/lib/librustc-{TOOLCHAIN}_rt.tsan.a", host()?);
        for part in [runtime.as_str(), "src/rust/library/Cargo.lock"] {
            let part = below.join(part);
            if !part.exists() {
                return Err(format!("there is no {}", part.display()));
            }
        }
        Ok(())
    };
    look().err()
}

/// The kind of machine that the nightly toolchain builds for.
fn host() -> Result<String, String> {
    let version = answer("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc does not say what machine it builds for".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_skipped_and_said() {
        let missing = answer("no-such-program", &["--version"]).expect_err("there is none");
        assert!(!missing.is_empty());
    }
}
