//! Instructions per message, by layer and by function, as DEMUX figure 8 counts them for a segment sent.
//!
//! `braidnet ttcp` runs twice under valgrind's callgrind on one processor, with different numbers of messages. What the two runs do not
//! have in common is what the messages cost: their difference, divided by the difference in messages. Each instruction counts for the
//! [function](source) in whose lines it was written, wherever the compiler put it, and with that for a [layer](layers).

mod layers;
mod profile;
mod source;

use layers::{Layer, layer_of};
use profile::{Place, Profile};
use serde_json::{Value, json};
use source::Sources;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ARCHITECTURES: [&str; 4] = ["task", "connection", "message", "braid"];
/// Messages of the two runs.
const MESSAGES: [u64; 2] = [5_000, 45_000];
/// Functions with less of a message than this are summed up.
const LEAST_SHARE: f64 = 0.005;

const NO_VALGRIND: &str = "\
instructions: valgrind is not installed, and it counts them. Install it, then run this again:
  Debian, Ubuntu  apt-get install valgrind
  Fedora          dnf install valgrind
  Arch            pacman -S valgrind";

/// What was asked for.
#[derive(PartialEq, Debug)]
struct Asked<'a> {
    architectures: Vec<&'a str>,
    json: bool,
    /// More flags of `ttcp`.
    flags: &'a [&'a str],
}

/// Builds `braidnet`, counts, and answers with a table or with JSON.
pub fn run(root: &Path, words: &[&str]) -> Result<String, String> {
    let asked = parse(words)?;
    let valgrind = Command::new("valgrind").arg("--version").output();
    if !valgrind.is_ok_and(|output| output.status.success()) {
        return Err(NO_VALGRIND.to_owned());
    }
    let folder = target_folder(root)?.join("instructions");
    let program = build(root, &folder)?;
    let mut counts = Vec::new();
    for architecture in &asked.architectures {
        let [few, many] = MESSAGES.map(|messages| {
            eprintln!("instructions: {architecture}, {messages} messages");
            measure(&program, &folder, architecture, messages, asked.flags)
        });
        let (few, many) = (few?, many?);
        counts.push(Count::new(
            architecture,
            &few,
            &many,
            &mut Sources::new(root),
        )?);
    }
    if asked.json {
        let counts: Vec<Value> = counts.iter().map(Count::json).collect();
        return Ok(format!(
            "{:#}",
            json!({"flags": asked.flags, "counts": counts})
        ));
    }
    Ok(format!(
        "{}\nThe profiles stay in {}, for callgrind_annotate or KCachegrind.",
        table(&counts),
        folder.display()
    ))
}

fn parse<'a>(words: &'a [&'a str]) -> Result<Asked<'a>, String> {
    let end = words
        .iter()
        .position(|word| *word == "--")
        .unwrap_or(words.len());
    let mut asked = Asked {
        architectures: ARCHITECTURES.to_vec(),
        json: false,
        flags: words.get(end + 1..).unwrap_or_default(),
    };
    let mut rest = words[..end].iter();
    while let Some(word) = rest.next() {
        match (*word, rest.as_slice().first()) {
            ("--json", _) => asked.json = true,
            ("--architecture", Some(list)) => {
                asked.architectures = list.split(',').collect();
                rest.next();
            }
            _ => {
                return Err(format!(
                    "instructions does not know `{word}`: [--architecture LIST] [--json] [-- TTCP FLAGS]"
                ));
            }
        }
    }
    Ok(asked)
}

fn target_folder(root: &Path) -> Result<PathBuf, String> {
    let output = Command::new(crate::cargo())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output();
    let metadata: Option<Value> =
        (output.ok()).and_then(|output| serde_json::from_slice(&output.stdout).ok());
    metadata
        .as_ref()
        .and_then(|metadata| metadata["target_directory"].as_str())
        .map(PathBuf::from)
        .ok_or_else(|| "instructions: `cargo metadata` does not say where to build".to_owned())
}

/// Builds the release in a folder of its own: valgrind needs system calls to go through the C library.
fn build(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let status = Command::new(crate::cargo())
        .args(["build", "--release", "-p", "braidnet-cli"])
        .env("RUSTFLAGS", format!("{flags} --cfg rustix_use_libc"))
        .env("CARGO_TARGET_DIR", folder)
        .current_dir(root)
        .status()
        .map_err(|error| format!("instructions: cannot run cargo: {error}"))?;
    if status.success() {
        Ok(folder.join("release/braidnet"))
    } else {
        Err("instructions: braidnet does not build".to_owned())
    }
}

/// What one run did.
struct Measured {
    messages: f64,
    profile: Profile,
}

fn measure(
    program: &Path,
    folder: &Path,
    architecture: &str,
    messages: u64,
    flags: &[&str],
) -> Result<Measured, String> {
    let file = folder.join(format!("callgrind.{architecture}.{messages}"));
    // Who measures is a thread of its own: it has to have its turn when it is due.
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--fair-sched=try",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args([
            "ttcp",
            "--json",
            "--architecture",
            architecture,
            "--fill",
            "1us",
        ])
        .args(["--warmup", "2000", "--messages", &messages.to_string()])
        .args(flags)
        .output()
        .map_err(|error| format!("instructions: cannot run valgrind: {error}"))?;
    let messages = delivered(&output)?;
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("instructions: cannot read {}: {error}", file.display()))?;
    Ok(Measured {
        messages,
        profile: Profile::parse(&text),
    })
}

/// The messages that a run says it has measured.
fn delivered(output: &Output) -> Result<f64, String> {
    let run: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let messages = run.and_then(|run| run["messages"].as_f64());
    (messages.filter(|_| output.status.success())).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let of_valgrind = |line: &&str| !line.starts_with("==");
        let said: Vec<&str> = said.lines().filter(of_valgrind).collect();
        format!("instructions: ttcp failed: {}", said.join("\n"))
    })
}

/// The instructions of one message under an architecture.
struct Count {
    architecture: String,
    total: f64,
    layers: BTreeMap<Layer, BTreeMap<String, f64>>,
}

impl Count {
    fn new(
        architecture: &str,
        few: &Measured,
        many: &Measured,
        sources: &mut Sources,
    ) -> Result<Count, String> {
        let messages = many.messages - few.messages;
        if messages <= 0.0 {
            return Err(
                "instructions: both runs had as many messages: leave --messages alone".to_owned(),
            );
        }
        let mut layers: BTreeMap<Layer, BTreeMap<String, f64>> = BTreeMap::new();
        let mut total = 0.0;
        for (profile, sign) in [(&many.profile, 1.0), (&few.profile, -1.0)] {
            for (place, instructions) in profile.places() {
                let part = sign * *instructions as f64 / messages;
                let function = match place {
                    Place::Line(file, line) => sources.function(file, *line),
                    Place::Symbol(symbol) => symbol.clone(),
                };
                let layer = layers.entry(layer_of(place)).or_default();
                *layer.entry(function).or_default() += part;
                total += part;
            }
        }
        Ok(Count {
            architecture: architecture.to_owned(),
            total,
            layers,
        })
    }

    fn of(&self, layer: Layer) -> f64 {
        self.layers
            .get(&layer)
            .map_or(0.0, |functions| functions.values().sum())
    }

    fn share(&self, part: f64) -> f64 {
        part / self.total.max(1.0)
    }

    /// The functions of a layer that have their share, the most expensive first, and the sum of the others.
    fn functions(&self, layer: Layer) -> (Vec<(&str, f64)>, f64) {
        let functions = self.layers.get(&layer).into_iter().flatten();
        let all = functions.map(|(name, part)| (name.as_str(), *part));
        let (mut shown, others): (Vec<_>, Vec<_>) =
            all.partition(|(_, part)| self.share(*part) >= LEAST_SHARE);
        shown.sort_by(|one, other| other.1.total_cmp(&one.1));
        (shown, others.iter().map(|(_, part)| part).sum())
    }

    fn json(&self) -> Value {
        let layer = |layer: &Layer| {
            let functions: BTreeMap<&str, f64> = (self.layers.get(layer).into_iter().flatten())
                .map(|(name, part)| (name.as_str(), *part))
                .collect();
            json!({
                "layer": layer.name(),
                "instructions": self.of(*layer),
                "share": self.share(self.of(*layer)),
                "functions": functions,
            })
        };
        json!({
            "architecture": self.architecture,
            "instructions": self.total,
            "layers": Layer::ALL.iter().map(layer).collect::<Vec<_>>(),
        })
    }
}

/// A row for each layer and a column for each architecture; then the functions of each.
fn table(counts: &[Count]) -> String {
    let mut text = String::from("instructions per message\n\n");
    let _ = write!(text, "{:<24}", "layer");
    for count in counts {
        let _ = write!(text, "{:>12}{:>7}", count.architecture, "share");
    }
    text.push('\n');
    for layer in Layer::ALL {
        let _ = write!(text, "{:<24}", layer.name());
        for count in counts {
            let part = count.of(layer);
            let _ = write!(text, "{part:>12.0}{:>5.1} %", 100.0 * count.share(part));
        }
        text.push('\n');
    }
    let _ = write!(text, "{:<24}", "all");
    for count in counts {
        let _ = write!(text, "{:>12.0}{:>7}", count.total, "");
    }
    text.push('\n');
    for count in counts {
        functions(&mut text, count);
    }
    text
}

/// The functions of one architecture, by layer.
fn functions(text: &mut String, count: &Count) {
    let _ = writeln!(text, "\nfunctions under {}", count.architecture);
    for layer in Layer::ALL {
        let (shown, others) = count.functions(layer);
        let mut row = |name: &str, part: f64| {
            let _ = writeln!(
                text,
                "{part:>10.1}{:>7.1} %  {name}",
                100.0 * count.share(part)
            );
        };
        if count.share(count.of(layer)) < LEAST_SHARE {
            continue;
        }
        row(&layer.name().to_uppercase(), count.of(layer));
        for (name, part) in shown {
            row(&format!("  {name}"), part);
        }
        if others.abs() >= 0.05 {
            row("  others", others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(messages: f64, lines: &[(&str, u64)]) -> Measured {
        let mut text = String::new();
        for (line, instructions) in lines {
            let _ = write!(text, "fl={line}\nfn=outer\n1 {instructions}\n");
        }
        Measured {
            messages,
            profile: Profile::parse(&text),
        }
    }

    const TCP: &str = "/x/crates/braidnet-tcp/src/none.rs";
    const MEMORY: &str = "/x/crates/braidnet-message/src/none.rs";

    fn count() -> Count {
        let few = measured(1000.0, &[(TCP, 1_000_000), (MEMORY, 500_000)]);
        let many = measured(3000.0, &[(TCP, 1_600_000), (MEMORY, 700_000)]);
        Count::new("task", &few, &many, &mut Sources::new(Path::new("/x"))).expect("more messages")
    }

    #[test]
    fn a_message_costs_what_more_messages_cost_more() {
        let count = count();
        assert_eq!(count.total, 400.0);
        assert_eq!(
            (count.of(Layer::Transport), count.of(Layer::Memory)),
            (300.0, 100.0)
        );
        assert_eq!(count.json()["layers"][3]["share"], 0.75);
        let text = table(&[count]);
        assert!(
            text.contains("\nTCP, UDP                         300 75.0 %\n"),
            "{text}"
        );
        assert!(text.contains("\n     100.0   25.0 %  MEMORY\n"), "{text}");
    }

    #[test]
    fn runs_of_one_length_tell_nothing() {
        let run = || measured(1000.0, &[(TCP, 7)]);
        let answer = Count::new("task", &run(), &run(), &mut Sources::new(Path::new("/x")));
        assert!(answer.is_err_and(|error| error.contains("--messages")));
    }

    #[test]
    fn what_is_asked_for_is_read_and_what_is_not_known_refused() {
        let plain = parse(&[]).expect("nothing is needed");
        assert_eq!(
            (plain.architectures, plain.json),
            (ARCHITECTURES.to_vec(), false)
        );
        let words = [
            "--architecture",
            "task,braid",
            "--json",
            "--",
            "--size",
            "1K",
        ];
        let expected = Asked {
            architectures: vec!["task", "braid"],
            json: true,
            flags: &["--size", "1K"],
        };
        assert_eq!(parse(&words), Ok(expected));
        for wrong in [&["--archi"][..], &["--architecture"]] {
            assert!(parse(wrong).is_err_and(|error| error.contains(wrong[0])));
        }
    }
}
