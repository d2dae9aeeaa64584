//! Everything that a commit must pass before its tests run.

use std::path::Path;
use std::process::Command;

use crate::{bounds, conformance, floors, hostile};

/// One cargo command of the check.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// What to do when it fails.
    advice: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
        advice: "run `cargo fmt --all`",
    },
    Step {
        name: "clippy",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
        advice: "mend the first warning above",
    },
    Step {
        name: "rustdoc",
        arguments: &[
            "doc",
            "--workspace",
            "--no-deps",
            "--features",
            "braidnet/mio,braidnet/tokio",
        ],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        advice: "mend the first warning above",
    },
];

/// Runs every step in order, then the floors and the places that rules are said to be kept at, and stops at the first that fails, naming it and what to do.
pub fn run(root: &Path) -> Result<String, String> {
    for step in STEPS {
        run_step(step, &crate::cargo(), root)?;
    }
    println!("check: floors");
    let floors =
        floors::run(root).map_err(|sentences| format!("{sentences}\ncheck: failed at floors"))?;
    println!("check: conformance");
    let places = conformance::check(root)
        .map_err(|sentences| format!("{sentences}\ncheck: failed at conformance"))?;
    println!("check: hostile input");
    let classes = hostile::check(root)
        .map_err(|sentences| format!("{sentences}\ncheck: failed at hostile input"))?;
    println!("check: bounds");
    let tables =
        bounds::check(root).map_err(|sentences| format!("{sentences}\ncheck: failed at bounds"))?;
    Ok(format!(
        "{floors}\n{places}\n{classes}\n{tables}\ncheck: all passed"
    ))
}

fn run_step(step: &Step, program: &str, root: &Path) -> Result<(), String> {
    println!("check: {}", step.name);
    let status = Command::new(program)
        .args(step.arguments)
        .envs(step.environment.iter().copied())
        .current_dir(root)
        .status()
        .map_err(|error| {
            format!(
                "check: failed at {}: cannot run `{program}`: {error}",
                step.name
            )
        })?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "check: failed at {}: `cargo {}` ended with {status}; {}",
        step.name,
        step.arguments.join(" "),
        step.advice
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_says_which_and_what_to_do() {
        let here = crate::workspace_root();
        let answer = run_step(&STEPS[0], "false", &here);
        let message = answer.expect_err("`false` fails");
        assert!(message.contains("failed at fmt"), "{message}");
        assert!(message.contains("run `cargo fmt --all`"), "{message}");
        assert_eq!(run_step(&STEPS[0], "true", &here), Ok(()));
    }

    #[test]
    fn a_program_that_is_missing_is_told_apart() {
        let answer = run_step(&STEPS[1], "no-such-cargo", &crate::workspace_root());
        let message = answer.expect_err("there is no such program");
        assert!(message.contains("cannot run `no-such-cargo`"), "{message}");
    }
}
