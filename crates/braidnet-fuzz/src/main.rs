//! Inputs that are kept, changed at random and fed to a target: blind, but many a second on an ordinary build.
//!
//! - `braidnet-fuzz run TARGET COUNT [SEED]` feeds so many, and prints how many that were. An input that breaks a law is printed in
//!   hexadecimal digits.
//! - `braidnet-fuzz feed TARGET FILE...` feeds files as they are, such as one that libFuzzer has found.
//! - `braidnet-fuzz unpack TARGET FOLDER` writes the kept inputs into a folder, a file each.
//! - `braidnet-fuzz pack TARGET FOLDER` keeps those of a folder instead.
//! - `braidnet-fuzz record COUNT FOLDER` writes sessions of two engines into a folder, for the target `engine`.
//! - `braidnet-fuzz list` names the targets.

use braidnet_fuzz::{TARGETS, Target, corpus, engine, target};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: braidnet-fuzz run TARGET COUNT [SEED] | feed TARGET FILE... | unpack TARGET FOLDER | pack TARGET FOLDER | record COUNT FOLDER | list";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match act(&words) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("{said}");
            ExitCode::FAILURE
        }
    }
}

fn act(words: &[&str]) -> Result<String, String> {
    let known = |name: &str| target(name).ok_or(format!("there is no target {name}"));
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|_| format!("{word} is no number"))
    };
    match words {
        ["run", name, count] => run(known(name)?, number(count)?, 1),
        ["run", name, count, seed] => run(known(name)?, number(count)?, number(seed)?),
        ["feed", name, files @ ..] => feed(known(name)?, files),
        ["unpack", name, folder] => unpack(known(name)?, Path::new(folder)),
        ["pack", name, folder] => pack(known(name)?, Path::new(folder)),
        ["record", count, folder] => record(number(count)?, Path::new(folder)),
        ["list"] => Ok(TARGETS.map(|target| target.name).join("\n")),
        _ => Err(USAGE.to_owned()),
    }
}

fn run(target: Target, count: u64, seed: u64) -> Result<String, String> {
    let kept = corpus::read(target.name).map_err(|error| format!("{}: {error}", target.name))?;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut input = Vec::new();
    for at in 0..count {
        change(&kept, target.grain, &mut input, &mut random);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            let digits: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(format!(
                "{}: input {at} of seed {seed} breaks a law: {digits}",
                target.name
            ));
        }
    }
    let segments = match engine::segments() {
        0 => String::new(),
        segments => format!(", {segments} segments"),
    };
    Ok(format!(
        "{}: {count} inputs{segments}, seed {seed}: every law holds",
        target.name
    ))
}

/// Numbers drawn by a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// 0 to `bound` - 1, and 0 if that is nothing.
    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }
}

/// Makes another input of one that is kept.
fn change(kept: &[Vec<u8>], grain: usize, input: &mut Vec<u8>, random: &mut Random) {
    input.clear();
    if let Some(one) = kept.get(random.below(kept.len())) {
        input.extend_from_slice(one);
    }
    for _ in 0..=random.below(4) {
        let word = random.word();
        let at = random.below(input.len());
        let start = at / grain * grain;
        match (word % 8, input.get_mut(at)) {
            (0..=2, Some(byte)) => *byte ^= 1 << (word >> 8 & 7),
            (3, Some(byte)) => *byte = (word >> 8) as u8,
            (4, Some(byte)) => {
                *byte = [
                    0,
                    1,
                    0x7f,
                    0x80,
                    0xff,
                    byte.wrapping_add(1),
                    byte.wrapping_sub(1),
                    4,
                ][(word >> 8 & 7) as usize]
            }
            (5, Some(_)) => {
                let end = (start + (1 + (word >> 8 & 3) as usize) * grain).min(input.len());
                input.drain(start..end);
            }
            (6, _) => {
                let grown = start..start;
                input.splice(
                    grown,
                    (0..grain).map(|byte| (word >> 8 & 0xff) as u8 >> (byte % 7)),
                );
            }
            // The end of another.
            (_, _) => {
                if let Some(other) = kept.get(random.below(kept.len())) {
                    let from = random.below(other.len()) / grain * grain;
                    input.truncate(start);
                    input.extend_from_slice(&other[from..]);
                }
            }
        }
    }
}

fn feed(target: Target, files: &[&str]) -> Result<String, String> {
    for file in files {
        let input = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        (target.run)(&input);
    }
    Ok(format!(
        "{}: {} inputs: every law holds",
        target.name,
        files.len()
    ))
}

fn unpack(target: Target, folder: &Path) -> Result<String, String> {
    let inputs = corpus::read(target.name).map_err(|error| format!("{}: {error}", target.name))?;
    let write = || {
        fs::create_dir_all(folder)?;
        for (number, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("{number:05}")), input)?;
        }
        std::io::Result::Ok(())
    };
    write().map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(format!("{}: {} inputs", target.name, inputs.len()))
}

fn record(count: u64, folder: &Path) -> Result<String, String> {
    let write = || {
        fs::create_dir_all(folder)?;
        (0..count).try_for_each(|seed| {
            fs::write(
                folder.join(format!("session-{seed}")),
                engine::recorder::session(seed),
            )
        })
    };
    write().map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(format!("{count} sessions"))
}

fn pack(target: Target, folder: &Path) -> Result<String, String> {
    let read = || {
        let files = fs::read_dir(folder)?;
        files
            .map(|file| fs::read(file?.path()))
            .collect::<std::io::Result<Vec<_>>>()
    };
    let inputs = read().map_err(|error| format!("{}: {error}", folder.display()))?;
    let (count, packed) = (inputs.len(), corpus::pack(inputs));
    let path = corpus::folder().join(target.name);
    fs::write(&path, packed).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{}: {count} inputs", target.name))
}
