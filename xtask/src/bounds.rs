//! The table of what can grow: each row names a place that bounds it, and counters that are there.

use crate::conformance::Place;
use crate::table::{cells, quoted};
use std::fs;
use std::path::Path;

/// The table.
const PAGE: &str = "docs/bounds.md";
/// What, limit, where it is set, when full, counter.
const COLUMNS: usize = 5;

/// What is wrong with the table, one sentence a line.
pub fn check(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let rows: Vec<Vec<&str>> = text.lines().filter_map(row).collect();
    let sources = sources(&root.join("crates"))?;
    let mut faults = Vec::new();
    for row in &rows {
        let what = row[0];
        let [place, counter] = [2, 4].map(|at| row.get(at).copied().unwrap_or_default());
        if row.len() != COLUMNS {
            faults.push(format!("{PAGE}: {what:?} has {} columns", row.len()));
            continue;
        }
        let mut places = 0;
        for place in quoted(place) {
            places += 1;
            let found = Place::try_from(place.to_owned()).and_then(|place| place.find_code(root));
            faults.extend(found.err().map(|fault| format!("{PAGE}: {fault}")));
        }
        if places == 0 {
            faults.push(format!("{PAGE}: {what:?} says not where its limit is set"));
        }
        if counter.is_empty() {
            faults.push(format!(
                "{PAGE}: {what:?} says neither counter nor why none"
            ));
        }
        let missing = quoted(counter).filter(|name| !is_counted(name, &sources));
        faults.extend(missing.map(|name| format!("{PAGE}: nobody counts `{name}`")));
    }
    match (faults.is_empty(), rows.len()) {
        (true, 0) => Err(format!("{PAGE}: no table")),
        (true, count) => Ok(format!(
            "bounds: {count} tables and queues, every limit and counter is there"
        )),
        _ => Err(faults.join("\n")),
    }
}

/// A line of the table that is neither its head nor the rule below.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = cells(line)?.collect();
    let first = *cells.first()?;
    (first != "what" && !first.starts_with("--")).then_some(cells)
}

/// Whether some source has a counter of this name, `module.name`: written whole, or the name alone in the module's list.
fn is_counted(name: &str, sources: &[String]) -> bool {
    let own = name.split_once('.').map_or(name, |(_, own)| own);
    let spelled = [format!("\"{name}\""), format!("\"{own}\"")];
    let is_there = |source: &String| spelled.iter().any(|text| source.contains(text.as_str()));
    sources.iter().any(is_there)
}

/// The text of every source of the crates, tests apart.
fn sources(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{folder:?}: {error}"))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "tests" && name != "benches" {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") && name != "tests.rs" {
                found
                    .push(fs::read_to_string(&path).map_err(|error| format!("{path:?}: {error}"))?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_ships_is_whole() {
        let said = check(&crate::workspace_root());
        assert!(said.is_ok(), "{said:?}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let root = std::env::temp_dir().join(format!("braidnet-bounds-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).expect("a folder");
        fs::create_dir_all(root.join("crates/a/src/tests")).expect("a folder");
        let source = "const MOST: usize = 3;\nconst NAMES: &[&str] = &[\"full\"];\n";
        fs::write(root.join("crates/a/src/lib.rs"), source).expect("a file");
        fs::write(root.join("crates/a/src/tests/b.rs"), "\"tested\"").expect("a file");
        let table = "| what | limit | set by | when full | counter |\n|---|---|---|---|---|\n\
            | good | 3 | `a/src/lib.rs::MOST` | x | `a.full` |\n\
            | moved | 3 | `a/src/lib.rs::LEAST` | x | `a.full` |\n\
            | unset | 3 | | x | `a.full` |\n\
            | uncounted | 3 | `a/src/lib.rs::MOST` | x | `a.tested` |\n\
            | silent | 3 | `a/src/lib.rs::MOST` | x | |\n\
            | short | 3 |\n";
        fs::write(root.join(PAGE), table).expect("a file");
        let said = check(&root).expect_err("much is missing");
        fs::remove_dir_all(&root).expect("ours");
        let faults = [
            "has no `LEAST`",
            "\"unset\" says not where",
            "nobody counts `a.tested`",
            "\"silent\" says neither",
            "\"short\" has 2 columns",
        ];
        for words in faults {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(said.lines().count(), faults.len(), "{said}");
    }
}
