//! Which function a line of our sources belongs to: the last one that begins at or above it.
//!
//! A compiler that puts functions into one another leaves no symbol of most of them; their lines stay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Our files, read as they are asked for.
pub struct Sources {
    root: PathBuf,
    /// The first lines of the functions of each file, with their names.
    functions: BTreeMap<String, Vec<(u64, String)>>,
}

impl Sources {
    /// The sources of the workspace in this folder.
    pub fn new(root: &Path) -> Sources {
        Sources {
            root: root.to_owned(),
            functions: BTreeMap::new(),
        }
    }

    /// "tcp/arrival.rs arrive": the file without what all have in common, and the function; only the file for what was derived.
    pub fn function(&mut self, file: &str, line: u64) -> String {
        let functions = self.functions.entry(file.to_owned()).or_insert_with(|| {
            functions(&std::fs::read_to_string(self.root.join(file)).unwrap_or_default())
        });
        let behind = functions.partition_point(|(first, _)| *first <= line);
        let short = file
            .trim_start_matches("crates/")
            .trim_start_matches("braidnet-");
        let short = short.replacen("/src/", "/", 1);
        match behind.checked_sub(1).and_then(|index| functions.get(index)) {
            Some((_, name)) if !name.is_empty() => format!("{short} {name}"),
            _ => short,
        }
    }
}

/// The first lines of functions, with their names, and those behind the end of an item, where no function is.
fn functions(text: &str) -> Vec<(u64, String)> {
    let first = |(line, number): (&str, u64)| match name(line) {
        Some(name) => Some((number, name)),
        None => line.starts_with('}').then(|| (number + 1, String::new())),
    };
    text.lines().zip(1..).filter_map(first).collect()
}

/// The name, if a function begins with this line.
fn name(line: &str) -> Option<String> {
    const BEFORE: [&str; 7] = [
        "pub", "const", "unsafe", "async", "extern", "\"C\"", "default",
    ];
    let (before, behind) = line.split_once("fn ")?;
    let mut words = before.split_whitespace();
    if !words.all(|word| BEFORE.contains(&word) || word.starts_with("pub(") || word.ends_with(')'))
    {
        return None;
    }
    let end = behind.find(|sign: char| !sign.is_alphanumeric() && sign != '_')?;
    (end > 0).then(|| behind[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_belongs_to_the_last_function_above_it() {
        let text = "\
//! A fn in prose (no).
struct Port;
impl Port {
    #[inline]
    pub(crate) fn take<T>(&self) {
        let each = |n| n + 1;
    }

    unsafe extern \"C\" fn raw() {}
}
type Each = fn (u8);
";
        let found = functions(text);
        let expected = [(5, "take"), (9, "raw"), (11, "")];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
        let mut sources = Sources::new(Path::new("/nowhere"));
        let file = "crates/braidnet-tcp/src/port/one.rs";
        sources.functions.insert(file.to_owned(), found);
        for (line, name) in [(1, ""), (5, " take"), (8, " take"), (10, " raw"), (11, "")] {
            assert_eq!(
                sources.function(file, line),
                format!("tcp/port/one.rs{name}")
            );
        }
    }

    #[test]
    fn our_own_sources_are_found() {
        let mut sources = Sources::new(&crate::workspace_root());
        let file = "crates/braidnet-wire/src/checksum.rs";
        let mut names = (1..1000).map(|line| sources.function(file, line));
        assert!(names.any(|name| name == "wire/checksum.rs combine"));
    }
}
