//! Requirements as data: what RFCs ask of a TCP, where it is done, and which test would tell if it were not.
//!
//! `docs/conformance/` has one TOML file for each RFC, and in it a `[[rule]]` for each MUST, SHOULD and MAY:
//!
//! ```toml
//! [[rule]]
//! id = "MUST-61"                # the RFC's own number, or its section and a letter
//! section = "3.9.1.2"
//! level = "MUST"
//! says = "What ends the data there is to send is pushed."
//! implemented = ["braidnet-tcp/src/output.rs::segment#filled.last && filled.len > 0"]
//! tested = ["braidnet-scripts/tests/rules/data.rs::rfc9293_3_9_1_2_last_segment_is_pushed"]
//! ```
//!
//! A place is a file below `crates/`, an item in it, and where the item does more than one thing, what stands on the line in it
//! that is meant. In place of both, `not` says why a rule is not kept, and `beside` why it asks nothing of a stack like this one;
//! `departs` names, by its words, the row of `docs/rfc-departures.md` that says what is done instead. `same` names the rule of another RFC,
//! or of this one, that asks for the same.
//!
//! [`check`] finds places that are not there any more, and [`page`] makes `docs/conformance.md` of all that. Whether a test tells is another
//! matter: see [`mutants`](crate::mutants).

mod page;
mod place;

pub use place::Place;

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::Path;

/// Where the data are, below the workspace's root.
const FOLDER: &str = "docs/conformance";
/// What is made of them.
const PAGE: &str = "docs/conformance.md";
/// Where it says what is done otherwise on purpose.
const DEPARTURES: &str = "docs/rfc-departures.md";
/// What a rule may be; `IS` is what an RFC says without one of those words.
const LEVELS: [&str; 6] = ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "IS"];

/// What one RFC asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Its number.
    pub rfc: u16,
    /// Its title.
    pub title: String,
    /// What is left out, and why, if anything is.
    #[serde(default)]
    pub note: String,
    /// Where the RFC numbers its rules: how it begins their numbers, and the last one.
    #[serde(default)]
    pub numbered: Vec<(String, u16)>,
    /// In the RFC's order.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One MUST, SHOULD or MAY.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its number.
    pub id: String,
    /// Where it stands in the RFC.
    pub section: String,
    /// One of [`LEVELS`].
    pub level: String,
    /// What it asks for, in words of ours.
    pub says: String,
    /// Where that is done.
    #[serde(default)]
    pub implemented: Vec<Place>,
    /// What would tell if it were not.
    #[serde(default)]
    pub tested: Vec<Place>,
    /// Words of the row in the list of departures that is about it.
    #[serde(default)]
    pub departs: Option<String>,
    /// The rule of another RFC that asks for the same: `9293 MUST-1`.
    #[serde(default)]
    pub same: Option<String>,
    /// Why it is not done.
    #[serde(default)]
    pub not: Option<String>,
    /// Why there is nothing to do.
    #[serde(default)]
    pub beside: Option<String>,
}

/// How a rule fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is kept.
    Met,
    /// Something else is done on purpose.
    Departs,
    /// It is not kept.
    Not,
    /// It asks nothing of a stack like this one.
    Beside,
}

impl Rule {
    /// How it fares.
    pub fn standing(&self) -> Standing {
        if self.not.is_some() {
            Standing::Not
        } else if self.beside.is_some() {
            Standing::Beside
        } else if self.departs.is_some() {
            Standing::Departs
        } else {
            Standing::Met
        }
    }
}

/// All that is known, by the RFCs' numbers.
pub fn read(root: &Path) -> Result<Vec<Document>, String> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut documents = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{FOLDER}: {error}"))?.path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| said(&error))?;
        let document: Document = toml::from_str(&text).map_err(|error| said(&error))?;
        documents.push(document);
    }
    documents.sort_by_key(|document| document.rfc);
    borrow(&mut documents);
    Ok(documents)
}

/// Gives the rules that are the same as others what those have.
fn borrow(documents: &mut [Document]) {
    let named = |document: &Document, rule: &Rule| format!("{} {}", document.rfc, rule.id);
    let known: BTreeMap<String, Rule> = documents
        .iter()
        .flat_map(|document| document.rules.iter().map(move |rule| (document, rule)))
        .filter(|(_, rule)| rule.same.is_none())
        .map(|(document, rule)| (named(document, rule), rule.clone()))
        .collect();
    for rule in documents
        .iter_mut()
        .flat_map(|document| &mut document.rules)
    {
        if let Some(same) = rule.same.as_ref().and_then(|same| known.get(same)) {
            *rule = Rule {
                id: mem::take(&mut rule.id),
                section: mem::take(&mut rule.section),
                level: mem::take(&mut rule.level),
                says: mem::take(&mut rule.says),
                same: rule.same.take(),
                ..same.clone()
            };
        }
    }
}

/// Whether every place is there, every number has its rule, and the page is what the data make; what is wrong, one sentence a line.
pub fn check(root: &Path) -> Result<String, String> {
    let documents = read(root)?;
    let departures = read_text(root, DEPARTURES)?;
    let mut faults: Vec<String> = documents
        .iter()
        .flat_map(|document| faults_of(document, root, &departures))
        .collect();
    if read_text(root, PAGE).unwrap_or_default() != page::of(&documents) {
        faults.push(format!(
            "{PAGE} is not what {FOLDER} makes: run `cargo run -p xtask -- conformance`"
        ));
    }
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    let rules: usize = documents.iter().map(|document| document.rules.len()).sum();
    Ok(format!(
        "conformance: {rules} rules of {} RFCs, every place is there",
        documents.len()
    ))
}

/// Writes the page anew.
pub fn write(root: &Path) -> Result<String, String> {
    let text = page::of(&read(root)?);
    fs::write(root.join(PAGE), text).map_err(|error| format!("{PAGE}: {error}"))?;
    check(root)
}

fn read_text(root: &Path, path: &str) -> Result<String, String> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
}

/// What is wrong with the rules of one RFC.
fn faults_of(document: &Document, root: &Path, departures: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for rule in &document.rules {
        let mut fault = |what: String| {
            faults.push(format!("RFC {} {}: {what}", document.rfc, rule.id));
        };
        if !seen.insert(rule.id.as_str()) {
            fault("stands there twice".to_owned());
        }
        if !LEVELS.contains(&rule.level.as_str()) {
            fault(format!("{:?} is no level", rule.level));
        }
        if let Some(what) = incomplete(rule) {
            fault(what.to_owned());
        }
        if let Some(words) = &rule.departs
            && !departures.contains(words.as_str())
        {
            fault(format!("{DEPARTURES} does not say {words:?}"));
        }
        for place in &rule.implemented {
            if let Err(what) = place.find_code(root) {
                fault(what);
            }
        }
        for place in &rule.tested {
            if let Err(what) = place.find_test(root) {
                fault(what);
            }
        }
    }
    for (begin, last) in &document.numbered {
        for number in 1..=*last {
            let id = format!("{begin}-{number}");
            let is_it = |known: &&str| {
                known
                    .strip_prefix(id.as_str())
                    .is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_lowercase()))
            };
            if !seen.iter().any(is_it) {
                faults.push(format!("RFC {}: no rule {id}", document.rfc));
            }
        }
    }
    faults
}

/// Why a rule does not say enough, or too much.
fn incomplete(rule: &Rule) -> Option<&'static str> {
    let places = (!rule.implemented.is_empty(), !rule.tested.is_empty());
    match (rule.standing(), places) {
        (Standing::Met, (true, true)) | (Standing::Departs, _) => None,
        (Standing::Met, (false, _)) if rule.same.is_some() => Some("the same as none"),
        (Standing::Met, (false, _)) => Some("neither implemented, nor why not"),
        (Standing::Met, (true, false)) => Some("not tested"),
        (Standing::Not | Standing::Beside, _) if rule.departs.is_some() => {
            Some("departs, and is not kept either")
        }
        (Standing::Not, _) if rule.beside.is_some() => Some("`not` and `beside` at once"),
        (Standing::Not | Standing::Beside, (_, false)) => None,
        (Standing::Not | Standing::Beside, (_, true)) => Some("tested, and not kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPARTED: &str = "| 9293 §3.8 | an ACK | no ACK | why |";

    fn faults(text: &str) -> Vec<String> {
        let document: Document = toml::from_str(text).expect("TOML as it should be");
        faults_of(&document, &crate::workspace_root(), DEPARTED)
    }

    fn rule(rest: &str) -> String {
        let head = "rfc = 1\ntitle = \"One\"\n[[rule]]\nsection = \"1\"\nsays = \"So.\"\n";
        format!("{head}{rest}")
    }

    /// This file stands for any; `check` alone looks below `crates/`.
    const HERE: &str = "../xtask/src/conformance.rs";

    #[test]
    fn what_is_wrong_is_said() {
        let places = format!(
            "id = \"A\"\nlevel = \"MUST\"\nimplemented = [\"{HERE}::incomplete\"]\ntested = [\"{HERE}::what_is_wrong_is_said\"]\n"
        );
        let rows = [
            (places.clone(), None),
            (places.replace("MUST", "OUGHT"), Some("is no level")),
            (
                places.replace("incomplete", "complete_not"),
                Some("has no `complete_not`"),
            ),
            (
                places.replace("conformance.rs::inc", "nowhere.rs::inc"),
                Some("nowhere.rs"),
            ),
            (
                places.replace("::what_is_wrong_is_said", "::incomplete"),
                Some("is no test"),
            ),
            (
                places.replace("incomplete\"", "incomplete#Some(\\\"not tested\\\")\""),
                None,
            ),
            (
                places.replace("incomplete\"", "incomplete#an owl\""),
                Some("an owl"),
            ),
            (
                "id = \"A\"\nlevel = \"MAY\"\n".to_owned(),
                Some("neither implemented"),
            ),
            (
                "id = \"A\"\nlevel = \"MAY\"\nnot = \"no\"\n".to_owned(),
                None,
            ),
            (
                "id = \"A\"\nlevel = \"MAY\"\nnot = \"no\"\nbeside = \"no\"\n".to_owned(),
                Some("at once"),
            ),
            (
                "id = \"A\"\nlevel = \"MAY\"\ndeparts = \"no ACK\"\n".to_owned(),
                None,
            ),
            (
                "id = \"A\"\nlevel = \"MAY\"\ndeparts = \"an owl\"\n".to_owned(),
                Some("does not say"),
            ),
            (
                format!("{places}not = \"no\"\n"),
                Some("tested, and not kept"),
            ),
            (places.replace("tested", "#"), Some("not tested")),
        ];
        for (row, expected) in rows {
            let faults = faults(&rule(&row));
            match expected {
                None => assert_eq!(faults, Vec::<String>::new(), "{row}"),
                Some(words) => {
                    assert_eq!(faults.len(), 1, "{row}: {faults:?}");
                    assert!(faults[0].contains(words), "{row}: {faults:?}");
                }
            }
        }
    }

    #[test]
    fn a_number_without_a_rule_is_missed() {
        let head = "rfc = 1\ntitle = \"One\"\nnumbered = [[\"MUST\", 3]]\n";
        let one = |id: &str| {
            format!(
                "[[rule]]\nid = {id:?}\nsection = \"1\"\nlevel = \"MUST\"\nsays = \"So.\"\nnot = \"no\"\n"
            )
        };
        let text = format!(
            "{head}{}{}{}",
            one("MUST-1"),
            one("MUST-3a"),
            one("MUST-22")
        );
        assert_eq!(faults(&text), ["RFC 1: no rule MUST-2"]);
    }
}
