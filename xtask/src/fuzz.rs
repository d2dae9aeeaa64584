//! The targets of `braidnet-fuzz` under libFuzzer, for a while.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// What tells libFuzzer what an input has reached (SanitizerCoverage, as a compiler pass: no sanitizer and no nightly toolchain).
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Without a target of its own, cargo would instrument build scripts as well, which have nobody to tell.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What `fuzz` is asked for.
struct Wish<'a> {
    /// Over all targets.
    seconds: u64,
    /// Only this target.
    target: Option<&'a str>,
    /// Keep what was found that reaches more than what is kept.
    keep: bool,
}

/// Builds the targets with instrumentation, and runs each from what is kept, for its share of the time, as many at once as there are
/// processors.
pub fn run(root: &Path, words: &[&str]) -> Result<String, String> {
    let wish = understand(words)?;
    let folder = crate::target_beside(root, "fuzz");
    build(root, &folder)?;
    let binary = folder.join(TRIPLE).join("release/fuzz");
    let all = ours(root, &["list"])?;
    let targets: Vec<&str> = all
        .lines()
        .filter(|name| wish.target.is_none_or(|wanted| wanted == *name))
        .collect();
    if targets.is_empty() {
        return Err(format!(
            "fuzz: the targets are {}",
            all.lines().collect::<Vec<_>>().join(", ")
        ));
    }
    let each = (wish.seconds / targets.len() as u64).max(1);
    let fuzzed = |target: &str| {
        let inputs = folder.join("inputs").join(target);
        let inputs = inputs
            .to_str()
            .ok_or("fuzz: the target folder has no name in UTF-8")?;
        let _ = std::fs::remove_dir_all(inputs);
        ours(root, &["unpack", target, inputs])?;
        let executions = one(&binary, target, inputs, each)?;
        if wish.keep {
            keep(root, &binary, target, inputs)?;
        }
        Ok(executions)
    };
    let executions = on_all_processors(&targets, fuzzed)?;
    Ok(format!(
        "fuzz: {} targets, {executions} executions, every law holds",
        targets.len()
    ))
}

/// The sum of what `work` makes of each target, or the first error; after one nothing more is begun.
fn on_all_processors(
    targets: &[&str],
    work: impl Fn(&str) -> Result<u64, String> + Sync,
) -> Result<u64, String> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let left = Mutex::new(targets.iter());
    let outcome = Mutex::new(Ok(0));
    // The lock is held for this long only.
    let next = || left.lock().expect("nobody panics with it").next();
    let worker = || {
        while let Some(target) = next() {
            let done = work(target);
            let mut outcome = outcome.lock().expect("nobody panics with it");
            match (&mut *outcome, done) {
                (Ok(sum), Ok(executions)) => *sum += executions,
                (Ok(_), Err(error)) => *outcome = Err(error),
                (Err(_), _) => {}
            }
            if outcome.is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processors.min(targets.len()) {
            scope.spawn(worker);
        }
    });
    outcome.into_inner().expect("nobody panics with it")
}

fn understand<'a>(mut words: &[&'a str]) -> Result<Wish<'a>, String> {
    let mut wish = Wish {
        seconds: 120,
        target: None,
        keep: false,
    };
    loop {
        words = match words {
            [] => return Ok(wish),
            ["--seconds", seconds, rest @ ..] => {
                wish.seconds = seconds
                    .parse()
                    .map_err(|_| "fuzz: --seconds takes a number")?;
                rest
            }
            ["--target", target, rest @ ..] => {
                wish.target = Some(target);
                rest
            }
            ["--keep", rest @ ..] => {
                wish.keep = true;
                rest
            }
            [word, ..] => {
                return Err(format!(
                    "fuzz: {word} is not known: --seconds N, --target NAME, --keep"
                ));
            }
        };
    }
}

fn build(root: &Path, folder: &Path) -> Result<(), String> {
    let status = Command::new(crate::cargo())
        .args([
            "build",
            "-q",
            "--release",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--target",
            TRIPLE,
        ])
        .current_dir(root)
        .env("RUSTFLAGS", COVERAGE)
        .env("CARGO_TARGET_DIR", folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("fuzz: the build ended with {status}")),
        Err(error) => Err(format!("fuzz: cannot run cargo: {error}")),
    }
}

/// The crate's own binary, which knows the targets and what is kept.
fn ours(root: &Path, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(crate::cargo());
    command
        .args(["run", "-q", "-p", "braidnet-fuzz", "--"])
        .args(words)
        .current_dir(root);
    let output = command
        .output()
        .map_err(|error| format!("fuzz: cannot run cargo: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("fuzz: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs one target and answers how many inputs it was fed.
fn one(binary: &Path, target: &str, inputs: &str, seconds: u64) -> Result<u64, String> {
    // Another seed each time, told so that a run can be had again.
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_secs() as u32);
    let output = Command::new(binary)
        .env("BRAIDNET_FUZZ", target)
        .arg(inputs)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={seed}"))
        .args([
            "-print_final_stats=1",
            "-reload=0",
            "-reduce_inputs=0",
            "-timeout=10",
        ])
        .arg(format!("-artifact_prefix={inputs}-"))
        .output()
        .map_err(|error| format!("fuzz: cannot run {}: {error}", binary.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let end: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
        return Err(format!(
            "{}\nfuzz: {target} breaks a law (seed {seed}); `cargo run -p braidnet-fuzz -- feed {target} FILE` feeds the input named above again",
            end.join("\n")
        ));
    }
    let executions = said
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .and_then(|count| count.trim().parse().ok())
        .ok_or(format!("fuzz: {target} does not say how much it has done"))?;
    println!("fuzz: {target}: {executions} executions in {seconds} s, seed {seed}");
    Ok(executions)
}

/// Keeps the fewest inputs that reach all that these do.
fn keep(root: &Path, binary: &Path, target: &str, inputs: &str) -> Result<(), String> {
    let fewest = format!("{inputs}-fewest");
    let _ = std::fs::remove_dir_all(&fewest);
    std::fs::create_dir_all(&fewest).map_err(|error| format!("fuzz: {fewest}: {error}"))?;
    let output = Command::new(binary)
        .env("BRAIDNET_FUZZ", target)
        .args(["-merge=1", &fewest, inputs])
        .output()
        .map_err(|error| format!("fuzz: cannot run {}: {error}", binary.display()))?;
    if !output.status.success() {
        return Err(format!(
            "fuzz: merging {target} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    print!("{}", ours(root, &["pack", target, &fewest])?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_turn_until_one_fails() {
        let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let targets: Vec<&str> = names.iter().map(String::as_str).collect();
        let number = |target: &str| target.parse::<u64>().map_err(|error| error.to_string());
        assert_eq!(on_all_processors(&targets, number), Ok((0..50).sum()));
        let failing = |target: &str| match target {
            "7" => Err("seven".to_owned()),
            other => number(other),
        };
        assert_eq!(
            on_all_processors(&targets, failing),
            Err("seven".to_owned())
        );
    }

    #[test]
    fn words_are_understood_or_refused() {
        let wish = understand(&["--target", "tcp", "--seconds", "7", "--keep"]).expect("all known");
        assert_eq!(
            (wish.target, wish.seconds, wish.keep),
            (Some("tcp"), 7, true)
        );
        let wish = understand(&[]).expect("nothing is asked for");
        assert_eq!((wish.target, wish.seconds, wish.keep), (None, 120, false));
        for words in [&["--seconds"][..], &["--seconds", "x"], &["--fast"]] {
            assert!(understand(words).is_err(), "{words:?}");
        }
    }
}
