//! Places in the source: a file, an item in it, and perhaps a line of that.
//!
//! Named by what stands there and not by where, so that they survive edits. The source is read as text, line by line: enough to find
//! an item by its name, and so fast that it can be done on each check.

use serde::Deserialize;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// `file::item` or `file::item#words`, the file below `crates/`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Place {
    /// Below `crates/`.
    pub file: String,
    /// A function, a type, a constant, a field, a variant, a script.
    pub item: String,
    /// What the line in it that is meant has on it.
    pub words: Option<String>,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Place, String> {
        let (place, words) = match text.split_once('#') {
            Some((place, words)) => (place, Some(words.to_owned())),
            None => (text.as_str(), None),
        };
        let (file, item) = place
            .split_once("::")
            .ok_or_else(|| format!("{text:?} is not `file::item`"))?;
        Ok(Place {
            file: file.to_owned(),
            item: item.to_owned(),
            words,
        })
    }
}

/// What may stand before the name of an item.
const KEYWORDS: [&str; 9] = [
    "fn ",
    "struct ",
    "enum ",
    "const ",
    "static ",
    "trait ",
    "type ",
    "mod ",
    "macro_rules! ",
];

impl Place {
    /// Where its file is.
    pub fn path(&self, root: &Path) -> PathBuf {
        root.join("crates").join(&self.file)
    }

    /// Its file's text.
    pub fn text(&self, root: &Path) -> Result<String, String> {
        fs::read_to_string(self.path(root)).map_err(|error| format!("{}: {error}", self.file))
    }

    /// Finds it in its file.
    ///
    /// # Errors
    /// What is not there.
    pub fn find_code(&self, root: &Path) -> Result<(), String> {
        let text = self.text(root)?;
        let lines: Vec<&str> = text.lines().collect();
        let items: Vec<Range<usize>> = self.items(&lines);
        if items.is_empty() {
            return Err(format!("{} has no `{}`", self.file, self.item));
        }
        match &self.words {
            Some(words) if self.meant(&lines).is_empty() => Err(format!(
                "{}: `{}` does not say `{words}`",
                self.file, self.item
            )),
            _ => Ok(()),
        }
    }

    /// Finds a test, or a script.
    ///
    /// # Errors
    /// What is not there.
    pub fn find_test(&self, root: &Path) -> Result<(), String> {
        self.find_code(root)?;
        let text = self.text(root)?;
        let lines: Vec<&str> = text.lines().collect();
        let is_test = |item: &Range<usize>| {
            let before = lines[..item.start].iter().rev();
            is_script(lines[item.start], &self.item)
                || before
                    .take_while(|line| !line.trim().is_empty() && !line.contains("fn "))
                    .any(|line| line.contains("#[test]"))
        };
        if self.items(&lines).iter().any(is_test) {
            Ok(())
        } else {
            Err(format!("{}: `{}` is no test", self.file, self.item))
        }
    }

    /// The lines that are meant: those with its words on them, or all of the item.
    pub fn meant(&self, lines: &[&str]) -> Vec<usize> {
        let items = self.items(lines).into_iter().flatten();
        match &self.words {
            Some(words) => items
                .filter(|line| lines[*line].contains(words.as_str()))
                .collect(),
            None => items.collect(),
        }
    }

    /// The lines of the items of that name.
    fn items(&self, lines: &[&str]) -> Vec<Range<usize>> {
        let heads = (0..lines.len()).filter(|at| is_head(lines[*at], &self.item));
        heads.map(|at| at..end_of(lines, at)).collect()
    }
}

/// Whether an item of this name begins on that line.
fn is_head(line: &str, item: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with("//") {
        return false;
    }
    let after = |word: &str| {
        let at = line.find(word)?;
        line[at + word.len()..].strip_prefix(item)
    };
    let named = KEYWORDS.iter().filter_map(|word| after(word));
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    named.into_iter().any(ends) || is_member(line, item) || is_script(line, item)
}

/// A field or a variant.
fn is_member(line: &str, item: &str) -> bool {
    let visible = line
        .strip_prefix("pub")
        .and_then(|rest| rest.split_once(' '));
    let line = visible.map_or(line, |(_, rest)| rest);
    line.strip_prefix(item).is_some_and(|rest| {
        rest.starts_with(": ")
            || rest.starts_with(',')
            || rest.starts_with('(')
            || rest.starts_with(" {")
    })
}

fn is_script(line: &str, item: &str) -> bool {
    let line = line.trim_start();
    line.strip_prefix(item)
        .is_some_and(|rest| rest.starts_with(" on ") || rest.is_empty() && item.starts_with("rfc"))
}

/// One past the last line of the item that begins at `start`: as rustfmt has it, the first line that is indented as its head is
/// and ends it.
fn end_of(lines: &[&str], start: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let depth = indent(lines[start]);
    let ends = |line: &str| {
        let line = line.trim_end();
        line.ends_with('}') || line.ends_with(';') || line.ends_with("],") || line.ends_with(',')
    };
    if ends(lines[start]) {
        return start + 1;
    }
    let last = (start + 1..lines.len()).find(|at| {
        !lines[*at].trim().is_empty() && indent(lines[*at]) <= depth && ends(lines[*at])
    });
    last.map_or(lines.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
pub(crate) const LEAST: u16 = 88;

struct One {
    /// Of it.
    pub part: u8,
}

impl One {
    pub fn new<T>(
        part: u8,
    ) -> One {
        if part > 3 {
            panic!();
        }
        One { part }
    }

    // fn other() is not there
}

    rfc1_2_three on both {
        <- syn(0);
    }
";

    #[test]
    fn items_are_found_whole() {
        let lines: Vec<&str> = TEXT.lines().collect();
        for (item, expected) in [
            ("LEAST", Some(0..1)),
            ("One", Some(2..6)),
            ("part", Some(4..5)),
            ("new", Some(8..16)),
            ("rfc1_2_three", Some(20..23)),
            ("rfc1_2", None),
            ("other", None),
            ("ne", None),
        ] {
            let place = Place::try_from(format!("a.rs::{item}")).expect("a place");
            let first = place.items(&lines).first().cloned();
            assert_eq!(first, expected, "{item}");
        }
        let place = Place::try_from("a.rs::new#part > 3".to_owned()).expect("a place");
        assert_eq!(place.meant(&lines), [11]);
        assert!(Place::try_from("a.rs".to_owned()).is_err());
    }
}
