//! The page that people read.

use super::{Document, Place, Rule, Standing};
use std::fmt::Write;

const HEAD: &str = "\
# What RFCs ask of a TCP, and where it is done

Made by `cargo run -p xtask -- conformance` from the files in [conformance/](conformance/), which say how they are written; not
to be edited. Each MUST, SHOULD and MAY, and some of what is said without such a word, stands with the places that do it and the tests that would tell if they did not.
`cargo run -p xtask -- check` refuses a place that is not there any more, and `cargo run -p xtask -- mutants` tries whether the tests tell:
see [testing.md](testing.md). *Otherwise* is what is done another way on purpose, as [rfc-departures.md](rfc-departures.md) has it; *beside* is what asks
nothing of a stack like this one.

";

/// `docs/conformance.md`.
pub fn of(documents: &[Document]) -> String {
    let mut page = HEAD.to_owned();
    page += "| RFC | | MUST, MUST NOT | SHOULD, SHOULD NOT | MAY |\n|---|---|---|---|---|\n";
    for document in documents {
        let Document { rfc, title, .. } = document;
        let counts = ["MUST", "SHOULD", "MAY"].map(|level| count(document, level));
        let [must, should, may] = counts;
        let _ = writeln!(
            page,
            "| [{rfc}](#rfc-{rfc}) | {title} | {must} | {should} | {may} |"
        );
    }
    for document in documents {
        section(document, &mut page);
    }
    page
}

/// How many of a level are kept and how many not.
fn count(document: &Document, level: &str) -> String {
    let of_level = document
        .rules
        .iter()
        .filter(|rule| rule.level.starts_with(level));
    let standings: Vec<Standing> = of_level.map(Rule::standing).collect();
    let words = [
        (Standing::Met, "met"),
        (Standing::Departs, "otherwise"),
        (Standing::Not, "**not**"),
        (Standing::Beside, "beside"),
    ];
    let counted = words.into_iter().filter_map(|(standing, word)| {
        let number = standings.iter().filter(|other| **other == standing).count();
        (number > 0).then(|| format!("{number} {word}"))
    });
    counted.collect::<Vec<String>>().join(", ")
}

fn section(document: &Document, page: &mut String) {
    let Document {
        rfc, title, note, ..
    } = document;
    let _ = write!(page, "\n## RFC {rfc}\n\n{title}.");
    let _ = match note.is_empty() {
        true => write!(page, "\n\n"),
        false => write!(page, " {note}\n\n"),
    };
    page.push_str("| | § | | says | done in | tested by |\n|---|---|---|---|---|---|\n");
    for rule in &document.rules {
        let Rule {
            id,
            section,
            level,
            says,
            ..
        } = rule;
        let done = done(rule);
        let tested = links(&rule.tested);
        // A number tells its level.
        let level = if id.contains(level.as_str()) {
            ""
        } else {
            level
        };
        let _ = writeln!(
            page,
            "| {id} | {section} | {level} | {says} | {done} | {tested} |"
        );
    }
}

/// Where a rule is kept, or why not.
fn done(rule: &Rule) -> String {
    let word = |word: &str, why: &Option<String>| {
        let why = why.as_deref().unwrap_or_default();
        let places = match rule.implemented.is_empty() {
            true => String::new(),
            false => format!("; {}", links(&rule.implemented)),
        };
        format!("{word}: {why}{places}")
    };
    let same = rule.same.as_ref().map(|same| format!("as {same}: "));
    let same = same.unwrap_or_default();
    let done = match rule.standing() {
        Standing::Met => links(&rule.implemented),
        Standing::Departs => word("*otherwise*", &rule.departs),
        Standing::Not => word("**not**", &rule.not),
        Standing::Beside => word("*beside*", &rule.beside),
    };
    format!("{same}{done}")
}

fn links(places: &[Place]) -> String {
    let link = |place: &Place| format!("[`{}`](../crates/{})", place.item, place.file);
    let mut links: Vec<String> = places.iter().map(link).collect();
    links.dedup();
    links.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_a_rule_fares() {
        let text = r#"
            rfc = 1
            title = "One"
            [[rule]]
            id = "MUST-1"
            section = "2"
            level = "MUST"
            says = "So."
            implemented = ["a/b.rs::c#d"]
            tested = ["a/t.rs::e"]
            [[rule]]
            id = "2-a"
            section = "2"
            level = "MUST NOT"
            says = "Not so."
            not = "Nobody asked."
        "#;
        let document: Document = toml::from_str(text).expect("TOML as it should be");
        let page = of(&[document]);
        for row in [
            "| [1](#rfc-1) | One | 1 met, 1 **not** |  |  |\n",
            "| MUST-1 | 2 |  | So. | [`c`](../crates/a/b.rs) | [`e`](../crates/a/t.rs) |\n",
            "| 2-a | 2 | MUST NOT | Not so. | **not**: Nobody asked. |  |\n",
        ] {
            assert!(page.contains(row), "{row} in {page}");
        }
    }
}
