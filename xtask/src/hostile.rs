//! The table of hostile input: each class has a row, and each row names tests that are there.

use crate::conformance::Place;
use crate::table::{cells, quoted};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The table.
const PAGE: &str = "docs/hostile-input.md";
/// How many classes there are.
const CLASSES: u32 = 50;

/// What is wrong with the table, one sentence a line.
pub fn check(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let rows: Vec<Row> = text.lines().filter_map(Row::read).collect();
    let mut faults = Vec::new();
    let mut missing: BTreeSet<u32> = (1..=CLASSES).collect();
    for row in &rows {
        for class in row.first..=row.last {
            if !missing.remove(&class) {
                faults.push(format!(
                    "{PAGE}: class {class} stands there twice, or is none"
                ));
            }
        }
        for place in &row.tests {
            let found =
                Place::try_from((*place).to_owned()).and_then(|place| place.find_test(root));
            if let Err(what) = found {
                faults.push(format!("{PAGE}: {what}"));
            }
        }
    }
    faults.extend(
        missing
            .iter()
            .map(|class| format!("{PAGE}: no class {class}")),
    );
    if faults.is_empty() {
        Ok(format!(
            "hostile input: {CLASSES} classes, every test is there"
        ))
    } else {
        Err(faults.join("\n"))
    }
}

/// One row: its classes, and the tests in its last column.
struct Row<'a> {
    first: u32,
    last: u32,
    tests: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// A line that begins with a number, or with two and what lies between.
    fn read(line: &'a str) -> Option<Row<'a>> {
        let mut cells = cells(line)?;
        let classes = cells.next()?;
        let (first, last) = classes.split_once('-').unwrap_or((classes, classes));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let tests = quoted(cells.last()?).collect();
        Some(Row { first, last, tests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_whole() {
        let row =
            Row::read("| 39-42 | this `a.b` | that | `a/b.rs::c`, `d/e.rs::f` |").expect("a row");
        assert_eq!((row.first, row.last), (39, 42));
        assert_eq!(row.tests, ["a/b.rs::c", "d/e.rs::f"]);
        let row = Row::read("| 43 | metadata | none | |").expect("a row without tests");
        assert_eq!((row.first, row.last, row.tests.len()), (43, 43, 0));
        assert!(Row::read("| class | sent |").is_none());
        assert!(Row::read("|---|---|").is_none());
        assert!(Row::read("43 words").is_none());
    }

    #[test]
    fn the_table_that_ships_is_whole() {
        let said = check(&crate::workspace_root());
        assert!(said.is_ok(), "{said:?}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let root = std::env::temp_dir().join(format!("braidnet-hostile-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).expect("a folder");
        let table = "| 1-49 | x | y | `nowhere/a.rs::b` |\n| 49 | x | y | |\n";
        fs::write(root.join(PAGE), table).expect("a file");
        let said = check(&root).expect_err("much is missing");
        fs::remove_dir_all(&root).expect("ours");
        for words in ["nowhere/a.rs", "class 49 stands there twice", "no class 50"] {
            assert!(said.contains(words), "{said}");
        }
    }
}
