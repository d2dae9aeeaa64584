//! Whether the tests that a rule cites would tell if the places that it cites did something else.
//!
//! A few of the rules of `docs/conformance/` are drawn by a seed; on a line that one of them says it is kept on, a word is changed (a
//! comparison turned or shifted by one, a sign, a number, a statement left out), and the tests that the rule cites are run, and no others.
//! One of them has to fail. What *survives* is a rule whose tests do not test it, or a change that changes nothing.
//!
//! It works on a copy of the tree beside the usual builds, so that it may be stopped at any time, and with builds of its own.

mod change;

use crate::conformance::{self, Place, Rule, Standing};
use change::Change;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How many rules are drawn unless it is said.
const SAMPLE: usize = 10;
/// A test that takes so much longer than any should has been changed into one that does not end.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the command's words say.
struct Wanted {
    sample: usize,
    seed: u64,
    /// Only rules whose number, behind that of their RFC, begins so.
    only: Option<String>,
    list: bool,
}

/// One change of one rule's place.
struct Mutant<'a> {
    rfc: u16,
    rule: &'a Rule,
    place: &'a Place,
    change: Change,
}

/// How a mutant fared.
#[derive(PartialEq)]
enum Fate {
    /// A cited test failed.
    Killed(String),
    /// It is not Rust, or not of one type.
    Unviable,
    /// No cited test failed.
    Survived,
}

/// Draws, changes, tests, and says what survived.
pub fn run(root: &Path, words: &[&str]) -> Result<String, String> {
    let wanted = read_words(words)?;
    let documents = conformance::read(root)?;
    let mut all = Vec::new();
    for document in &documents {
        for rule in &document.rules {
            let name = format!("{} {}", document.rfc, rule.id);
            let is_wanted = wanted
                .only
                .as_ref()
                .is_none_or(|only| name.starts_with(only.as_str()));
            if is_wanted && rule.same.is_none() && rule.standing() != Standing::Beside {
                all.extend(mutants_of(root, document.rfc, rule)?);
            }
        }
    }
    let drawn = draw(&all, &wanted);
    if wanted.list {
        let names: Vec<String> = drawn.iter().map(|mutant| mutant.to_string()).collect();
        return Ok(names.join("\n"));
    }
    let copy = Copy::make(root)?;
    let mut survivors = Vec::new();
    let mut tried = 0;
    for mutant in drawn {
        let fate = copy.try_out(mutant)?;
        let word = match &fate {
            Fate::Killed(test) => format!("killed by {test}"),
            Fate::Unviable => "does not compile".to_owned(),
            Fate::Survived => "SURVIVED".to_owned(),
        };
        println!("{mutant}: {word}");
        tried += usize::from(fate != Fate::Unviable);
        if fate == Fate::Survived {
            survivors.push(mutant.to_string());
        }
    }
    if survivors.is_empty() {
        return Ok(format!("mutants: {tried} tried, none survived"));
    }
    Err(format!(
        "mutants: {} of {tried} survived:\n{}",
        survivors.len(),
        survivors.join("\n")
    ))
}

fn read_words(words: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        sample: SAMPLE,
        seed: 1,
        only: None,
        list: false,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if *word == "--list" {
            wanted.list = true;
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{value:?} is no number"))
        };
        match *word {
            "--sample" => wanted.sample = number()? as usize,
            "--seed" => wanted.seed = number()?,
            "--only" => wanted.only = Some((*value).to_owned()),
            _ => return Err(format!("mutants does not know `{word}`")),
        }
    }
    Ok(wanted)
}

/// All changes of all places of a rule; none where it has no tests.
fn mutants_of<'a>(root: &Path, rfc: u16, rule: &'a Rule) -> Result<Vec<Mutant<'a>>, String> {
    let mut all = Vec::new();
    for place in rule.implemented.iter().filter(|_| !rule.tested.is_empty()) {
        let text = place.text(root)?;
        let lines: Vec<&str> = text.lines().collect();
        for line in place.meant(&lines) {
            let changes = change::of_line(line, lines[line]);
            all.extend(changes.into_iter().map(|change| Mutant {
                rfc,
                rule,
                place,
                change,
            }));
        }
    }
    Ok(all)
}

/// So many rules, each by one of its mutants, drawn by the seed.
fn draw<'a, 'b>(all: &'b [Mutant<'a>], wanted: &Wanted) -> Vec<&'b Mutant<'a>> {
    let mut state = wanted.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // xorshift64* (Marsaglia, Vigna).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    };
    let mut left: Vec<&Mutant<'_>> = all.iter().collect();
    let mut drawn = Vec::new();
    while drawn.len() < wanted.sample && !left.is_empty() {
        let mut rules: Vec<&Rule> = left.iter().map(|mutant| mutant.rule).collect();
        rules.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let rule = rules[next() as usize % rules.len()];
        let (of_rule, others): (Vec<&Mutant<'_>>, Vec<&Mutant<'_>>) =
            (left.into_iter()).partition(|mutant| std::ptr::eq(mutant.rule, rule));
        drawn.push(of_rule[next() as usize % of_rule.len()]);
        left = others;
    }
    drawn
}

impl std::fmt::Display for Mutant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mutant {
            rfc,
            rule,
            place,
            change,
        } = self;
        write!(
            f,
            "{rfc} {}, {}::{}: {change}",
            rule.id, place.file, place.item
        )
    }
}

/// A copy of the tree, in which mutants are made and unmade.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn make(root: &Path) -> Result<Copy, String> {
        let copy = Copy {
            root: crate::target_beside(root, "mutants/tree"),
            // Cargo takes crates of two copies of a workspace for the same.
            target: crate::target_beside(root, "mutants/target"),
        };
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|error| format!("mutants: cannot run git: {error}"))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            let (from, to) = (root.join(file), copy.root.join(file));
            let Ok(bytes) = fs::read(&from) else { continue };
            // What is as it was is not built again.
            if fs::read(&to).is_ok_and(|old| old == bytes) {
                continue;
            }
            let folder = to.parent().unwrap_or(&copy.root);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&to, bytes))
                .map_err(|error| format!("mutants: {}: {error}", to.display()))?;
        }
        Ok(copy)
    }

    fn try_out(&self, mutant: &Mutant<'_>) -> Result<Fate, String> {
        let path = mutant.place.path(&self.root);
        let said = |error| format!("mutants: {}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(said)?;
        fs::write(&path, mutant.change.made_in(&text)).map_err(said)?;
        let fate = self.test(&mutant.rule.tested);
        fs::write(&path, text).map_err(said)?;
        fate
    }

    fn test(&self, tests: &[Place]) -> Result<Fate, String> {
        // The quickest to build first: those in the place's own crate, then those above it.
        let mut tests: Vec<&Place> = tests.iter().collect();
        tests.sort_by_key(|test| !test.file.starts_with("braidnet-tcp/"));
        for test in tests {
            match self.run(test)? {
                Fate::Survived => {}
                fate => return Ok(fate),
            }
        }
        Ok(Fate::Survived)
    }

    fn run(&self, test: &Place) -> Result<Fate, String> {
        let (package, target) = package_of(&test.file)
            .ok_or_else(|| format!("mutants: no package has {}", test.file))?;
        let mut command = Command::new(crate::cargo());
        command
            .args(["test", "-q", "-p", package])
            .args(&target)
            .args(["--", &test.item])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUST_BACKTRACE", "0")
            .stderr(Stdio::null());
        let log = self.target.with_file_name("log");
        let said = |error| format!("mutants: {}: {error}", log.display());
        command.stdout(fs::File::create(&log).map_err(said)?);
        let mut child = command
            .spawn()
            .map_err(|error| format!("mutants: cannot run cargo: {error}"))?;
        let start = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(100))
                }
                _ => break None,
            }
        };
        let Some(status) = ended else {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Fate::Killed(format!("{}, which does not end", test.item)));
        };
        let log = fs::read_to_string(&log).map_err(said)?;
        Ok(match (status.success(), log.contains("running ")) {
            (true, true) => Fate::Survived,
            (true, false) => {
                return Err(format!("mutants: {} has no test {}", test.file, test.item));
            }
            (false, true) => Fate::Killed(test.item.clone()),
            (false, false) => Fate::Unviable,
        })
    }
}

/// The package that a file is of, and the target in it.
fn package_of(file: &str) -> Option<(&str, Vec<String>)> {
    let (package, rest) = file.split_once('/')?;
    let Some(rest) = rest.strip_prefix("tests/") else {
        return Some((package, vec!["--lib".to_owned()]));
    };
    let name = rest.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    Some((package, vec!["--test".to_owned(), name.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_test_is_known_by_its_file() {
        let lib = |package| Some((package, vec!["--lib".to_owned()]));
        let test =
            |package, name: &str| Some((package, vec!["--test".to_owned(), name.to_owned()]));
        for (file, expected) in [
            ("a/src/b/tests.rs", lib("a")),
            ("a/src/b.rs", lib("a")),
            ("a/tests/b.rs", test("a", "b")),
            ("a/tests/b/main.rs", test("a", "b")),
            ("a/tests/b/c.rs", test("a", "b")),
            ("a", None),
        ] {
            assert_eq!(package_of(file), expected, "{file}");
        }
    }

    #[test]
    fn words_are_read() {
        let wanted =
            read_words(&["--sample", "3", "--seed", "9", "--only", "5961"]).expect("words");
        assert_eq!((wanted.sample, wanted.seed), (3, 9));
        assert_eq!(wanted.only.as_deref(), Some("5961"));
        for wrong in [&["--sample"][..], &["--sample", "x"], &["--owl", "3"]] {
            assert!(read_words(wrong).is_err(), "{wrong:?}");
        }
    }
}
