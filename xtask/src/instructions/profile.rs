//! What callgrind wrote down, as far as it is needed here: how many instructions were executed for which line of which file.
//!
//! The format is that of valgrind's manual, "Callgrind Format Specification", with names and positions written out in full
//! (`--compress-strings=no --compress-pos=no`). Only what a function itself executed is looked at, not what it called.

use std::collections::BTreeMap;

/// Where an instruction comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A line of one of our files, by its path from `crates` on.
    Line(String, u64),
    /// A function of somebody else's that was not compiled into one of ours.
    Symbol(String),
}

/// Instructions by place.
#[derive(Default)]
pub struct Profile {
    places: BTreeMap<Place, u64>,
}

impl Profile {
    /// Reads a profile. Lines of a kind that is not needed are passed over.
    ///
    /// What the compiler has put into one of our functions from elsewhere, such as an iterator of the standard library, counts
    /// for our line before it: instructions stand in the order of their addresses.
    pub fn parse(text: &str) -> Profile {
        let mut profile = Profile::default();
        let (mut file, mut symbol) = (None, "");
        let mut here: Option<Place> = None;
        let mut is_call = false;
        for line in text.lines() {
            if let Some(path) = line
                .strip_prefix("fl=")
                .or(line.strip_prefix("fi="))
                .or(line.strip_prefix("fe="))
            {
                file = our_file(path);
            } else if let Some(name) = line.strip_prefix("fn=") {
                symbol = name.split_once('\'').map_or(name, |(name, _)| name);
                here = file.map(|file: &str| Place::Line(file.to_owned(), 0));
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if let Some((position, instructions)) = cost(line) {
                // What stands behind a call is what was spent inside.
                if std::mem::take(&mut is_call) {
                    continue;
                }
                if let Some(file) = file.filter(|_| position > 0) {
                    here = Some(Place::Line(file.to_owned(), position));
                }
                let place = here
                    .clone()
                    .unwrap_or_else(|| Place::Symbol(symbol.to_owned()));
                *profile.places.entry(place).or_default() += instructions;
            }
        }
        profile
    }

    /// All places, and the instructions of each.
    pub fn places(&self) -> impl Iterator<Item = (&Place, &u64)> {
        self.places.iter()
    }
}

/// A path from `crates` on, if it is in there.
fn our_file(path: &str) -> Option<&str> {
    let start = path.find("crates/braidnet")?;
    Some(&path[start..])
}

/// "17 420": a line number and a cost.
fn cost(line: &str) -> Option<(u64, u64)> {
    let (position, instructions) = line.split_once(' ')?;
    Some((position.parse().ok()?, instructions.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_count_for_our_line_at_or_before_them_and_calls_for_nobody() {
        let text = "\
events: Ir
summary: 999

fl=/w/crates/braidnet-tcp/src/a.rs
fn=arrive'2
10 5
fi=/rustc/library/core/src/iter.rs
700 30
fe=/w/crates/braidnet-tcp/src/a.rs
11 7
cfi=/w/crates/braidnet-wire/src/b.rs
cfn=verify
calls=3 20
11 4000
fi=/w/crates/braidnet-wire/src/seq.rs
3 1

fl=./string/memmove.S
fn=memmove
50 9

fl=/w/crates/braidnet-tcp/src/a.rs
fn=other
0 2
";
        let profile = Profile::parse(text);
        let line = |file: &str, line| Place::Line(format!("crates/{file}"), line);
        let expected = [
            (line("braidnet-tcp/src/a.rs", 0), 2),
            (line("braidnet-tcp/src/a.rs", 10), 35),
            (line("braidnet-tcp/src/a.rs", 11), 7),
            (line("braidnet-wire/src/seq.rs", 3), 1),
            (Place::Symbol("memmove".to_owned()), 9),
        ];
        let found: Vec<(Place, u64)> = profile
            .places()
            .map(|(place, n)| (place.clone(), *n))
            .collect();
        assert_eq!(found, expected);
    }
}
