//! The floors of the workspace: which crate may import which.
//!
//! Every crate stands on a floor. It may import crates of lower floors and nothing else: not of higher ones, and not of
//! its own floor unless the pair is in [`SIDEWAYS`] and explained in `ARCHITECTURE.md`. Dependencies for tests and
//! for build scripts count like all others, so that a test that needs a higher floor lives there. A crate that
//! has no floor is refused too: adding a crate means deciding where it stands.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The floor of every crate of the workspace, ground floor first.
const FLOORS: &[(&str, u8)] = &[
    ("braidnet-sync", 0),
    ("braidnet-wire", 0),
    ("braidnet-impair", 0),
    ("braidnet-message", 1),
    ("braidnet-tcp", 1),
    ("braidnet-stream", 2),
    ("braidnet-device", 2),
    ("braidnet-inet", 3),
    ("braidnet-codec", 3),
    ("braidnet-process", 4),
    ("braidnet", 5),
    ("braidnet-service", 6),
    ("braidnet-lab", 6),
    ("braidnet-packetdrill", 6),
    ("braidnet-scripts", 6),
    ("braidnet-simulator", 6),
    ("braidnet-cli", 7),
    ("braidnet-fuzz", 7),
];

/// Crates beside the building: they may import any floor, and nobody may import them.
const OUTSIDE: &[&str] = &["xtask", "peers"];

/// Pairs (importer, imported) of one floor that `ARCHITECTURE.md` allows.
const SIDEWAYS: &[(&str, &str)] = &[];

/// Checks the workspace at `root`, as cargo describes it without touching the network.
///
/// Answers a line for the user, or every violation, one sentence a line.
pub fn run(root: &Path) -> Result<String, String> {
    let members = read_metadata(root)?;
    let rules = Rules {
        floors: FLOORS,
        outside: OUTSIDE,
        sideways: SIDEWAYS,
    };
    let violations = rules.check(&members);
    if violations.is_empty() {
        return Ok(format!(
            "floors: {} crates, no import upwards or sideways",
            members.len()
        ));
    }
    let sentences: Vec<String> = violations.iter().map(Violation::to_string).collect();
    Err(sentences.join("\n"))
}

/// What the check holds the workspace to.
struct Rules<'a> {
    floors: &'a [(&'a str, u8)],
    outside: &'a [&'a str],
    sideways: &'a [(&'a str, &'a str)],
}

/// One crate of the workspace, with the crates of the workspace that it imports.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    name: String,
    imports: Vec<Import>,
}

/// One dependency on a crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    name: String,
    kind: Kind,
}

/// What a dependency is for. All kinds count alike; the sentence says which line of the manifest to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
    Build,
}

/// Where a crate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Floor(u8),
    Outside,
}

/// One reason to refuse the workspace.
#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// A crate of the workspace, or a crate it imports by path, has no floor.
    Unknown { name: String },
    /// An import of the same or a higher floor.
    NotBelow {
        importer: String,
        floor: u8,
        import: String,
        kind: Kind,
        import_floor: u8,
    },
    /// An import of a crate that stands outside the building.
    ImportsOutside {
        importer: String,
        import: String,
        kind: Kind,
    },
    /// An exception that no manifest uses any more.
    UnusedException { importer: String, import: String },
}

impl Rules<'_> {
    fn check(&self, members: &[Member]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for member in members {
            match self.place(&member.name) {
                None => violations.push(Violation::Unknown {
                    name: member.name.clone(),
                }),
                Some(Place::Outside) => {}
                Some(Place::Floor(floor)) => violations.extend(
                    member
                        .imports
                        .iter()
                        .filter_map(|import| self.check_import(&member.name, floor, import)),
                ),
            }
        }
        violations.extend(self.unused_exceptions(members));
        violations
    }

    fn check_import(&self, importer: &str, floor: u8, import: &Import) -> Option<Violation> {
        // A crate's tests may ask for features of the crate itself.
        if importer == import.name && import.kind == Kind::Dev {
            return None;
        }
        match self.place(&import.name) {
            None => Some(Violation::Unknown {
                name: import.name.clone(),
            }),
            Some(Place::Outside) => Some(Violation::ImportsOutside {
                importer: importer.to_owned(),
                import: import.name.clone(),
                kind: import.kind,
            }),
            Some(Place::Floor(below)) if below < floor => None,
            Some(Place::Floor(same))
                if same == floor && self.sideways.contains(&(importer, import.name.as_str())) =>
            {
                None
            }
            Some(Place::Floor(import_floor)) => Some(Violation::NotBelow {
                importer: importer.to_owned(),
                floor,
                import: import.name.clone(),
                kind: import.kind,
                import_floor,
            }),
        }
    }

    fn place(&self, name: &str) -> Option<Place> {
        let floor = self.floors.iter().find(|(known, _)| *known == name);
        match floor {
            Some((_, floor)) => Some(Place::Floor(*floor)),
            None if self.outside.contains(&name) => Some(Place::Outside),
            None => None,
        }
    }

    /// Exceptions without a use would let the next import slip in unseen.
    fn unused_exceptions(&self, members: &[Member]) -> Vec<Violation> {
        let used = |importer: &str, import: &str| {
            members.iter().any(|member| {
                member.name == importer && member.imports.iter().any(|each| each.name == import)
            })
        };
        self.sideways
            .iter()
            .filter(|(importer, import)| !used(importer, import))
            .map(|(importer, import)| Violation::UnusedException {
                importer: (*importer).to_owned(),
                import: (*import).to_owned(),
            })
            .collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Normal => "dependencies",
            Kind::Dev => "dev-dependencies",
            Kind::Build => "build-dependencies",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unknown { name } => write!(
                f,
                "floors: `{name}` has no floor; give it one in xtask/src/floors.rs and in ARCHITECTURE.md"
            ),
            Violation::NotBelow {
                importer,
                floor,
                import,
                kind,
                import_floor,
            } => {
                let direction = if import_floor > floor {
                    "upwards"
                } else {
                    "sideways"
                };
                write!(
                    f,
                    "floors: `{importer}` (floor {floor}) imports {direction}: \
                     `{import}` (floor {import_floor}) in its [{kind}]; only lower floors may be imported"
                )
            }
            Violation::ImportsOutside {
                importer,
                import,
                kind,
            } => write!(
                f,
                "floors: `{importer}` imports `{import}` in its [{kind}], \
                 which stands outside the building and may not be imported"
            ),
            Violation::UnusedException { importer, import } => write!(
                f,
                "floors: the exception for `{importer}` importing `{import}` is not used; remove it"
            ),
        }
    }
}

fn read_metadata(root: &Path) -> Result<Vec<Member>, String> {
    let output = Command::new(crate::cargo())
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("floors: cannot run `cargo metadata`: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("floors: `cargo metadata` failed: {}", words.trim()));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("floors: `cargo metadata` answered no JSON: {error}"))?;
    members(&metadata).ok_or_else(|| {
        "floors: `cargo metadata` answered JSON of a shape this check does not know".to_owned()
    })
}

/// The workspace's crates out of cargo's answer; `None` where it lacks a field of format version 1.
fn members(metadata: &Value) -> Option<Vec<Member>> {
    metadata["packages"]
        .as_array()?
        .iter()
        .map(member)
        .collect()
}

fn member(package: &Value) -> Option<Member> {
    let mut imports = Vec::new();
    for dependency in package["dependencies"].as_array()? {
        // `name` is the crate's own name whatever `rename` says. Ours come by path; one of our names that comes from
        // a registry is held to the same rule.
        let name = dependency["name"].as_str()?;
        let ours = dependency["path"].is_string() || is_our_name(name);
        if ours {
            imports.push(Import {
                name: name.to_owned(),
                kind: kind(&dependency["kind"])?,
            });
        }
    }
    Some(Member {
        name: package["name"].as_str()?.to_owned(),
        imports,
    })
}

fn is_our_name(name: &str) -> bool {
    name == "braidnet" || name.starts_with("braidnet-")
}

fn kind(value: &Value) -> Option<Kind> {
    match value {
        Value::Null => Some(Kind::Normal),
        Value::String(word) if word == "dev" => Some(Kind::Dev),
        Value::String(word) if word == "build" => Some(Kind::Build),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: Rules<'static> = Rules {
        floors: FLOORS,
        outside: OUTSIDE,
        sideways: &[],
    };

    fn crate_with(name: &str, imports: &[(&str, Kind)]) -> Member {
        Member {
            name: name.to_owned(),
            imports: imports
                .iter()
                .map(|(name, kind)| Import {
                    name: (*name).to_owned(),
                    kind: *kind,
                })
                .collect(),
        }
    }

    fn sentences(rules: &Rules<'_>, members: &[Member]) -> Vec<String> {
        rules
            .check(members)
            .iter()
            .map(Violation::to_string)
            .collect()
    }

    #[test]
    fn lower_floors_are_imported_freely() {
        let members = [
            crate_with("braidnet-sync", &[]),
            crate_with("braidnet-tcp", &[("braidnet-wire", Kind::Normal)]),
            crate_with(
                "braidnet-cli",
                &[
                    ("braidnet", Kind::Normal),
                    ("braidnet-lab", Kind::Normal),
                    ("braidnet-service", Kind::Dev),
                ],
            ),
            crate_with("braidnet", &[("braidnet", Kind::Dev)]),
        ];
        assert_eq!(sentences(&RULES, &members), Vec::<String>::new());
    }

    #[test]
    fn planted_violations_name_crate_dependency_and_both_floors() {
        let rows: &[(&str, &str, Kind, &[&str])] = &[
            // (importer, import, kind, what the sentence must hold)
            (
                "braidnet-tcp",
                "braidnet-inet",
                Kind::Normal,
                &["(floor 1)", "upwards", "(floor 3)", "[dependencies]"],
            ),
            (
                "braidnet-wire",
                "braidnet-lab",
                Kind::Dev,
                &["(floor 0)", "upwards", "(floor 6)", "[dev-dependencies]"],
            ),
            (
                "braidnet-stream",
                "braidnet-process",
                Kind::Build,
                &["(floor 2)", "upwards", "(floor 4)", "[build-dependencies]"],
            ),
            (
                "braidnet-codec",
                "braidnet-inet",
                Kind::Normal,
                &["(floor 3)", "sideways", "(floor 3)"],
            ),
            (
                "braidnet-lab",
                "braidnet-service",
                Kind::Dev,
                &["(floor 6)", "sideways", "(floor 6)"],
            ),
            ("braidnet", "xtask", Kind::Normal, &["outside the building"]),
            (
                "braidnet",
                "braidnet-mystery",
                Kind::Normal,
                &["`braidnet-mystery` has no floor"],
            ),
        ];
        for (importer, import, kind, words) in rows {
            let found = sentences(&RULES, &[crate_with(importer, &[(import, *kind)])]);
            assert_eq!(found.len(), 1, "{importer} -> {import}: {found:?}");
            assert!(found[0].contains(import), "{}", found[0]);
            for word in *words {
                assert!(found[0].contains(word), "{word:?} not in {:?}", found[0]);
            }
            if !words[0].contains("no floor") {
                assert!(found[0].contains(&format!("`{importer}`")), "{}", found[0]);
            }
        }
    }

    #[test]
    fn a_crate_without_a_floor_is_refused() {
        assert_eq!(
            RULES.check(&[crate_with("braidnet-attic", &[])]),
            [Violation::Unknown {
                name: "braidnet-attic".to_owned()
            }]
        );
    }

    #[test]
    fn outside_crates_import_any_floor() {
        let members = [crate_with("peers", &[("braidnet-lab", Kind::Normal)])];
        assert_eq!(sentences(&RULES, &members), Vec::<String>::new());
    }

    #[test]
    fn exceptions_allow_one_pair_one_way_on_one_floor() {
        let rules = Rules {
            sideways: &[("braidnet-codec", "braidnet-inet")],
            ..RULES
        };
        let allowed = crate_with("braidnet-codec", &[("braidnet-inet", Kind::Normal)]);
        let reversed = crate_with("braidnet-inet", &[("braidnet-codec", Kind::Normal)]);
        assert_eq!(rules.check(std::slice::from_ref(&allowed)), []);
        assert_eq!(rules.check(&[allowed, reversed]).len(), 1);

        let upwards = Rules {
            sideways: &[("braidnet-codec", "braidnet-process")],
            ..RULES
        };
        let member = crate_with("braidnet-codec", &[("braidnet-process", Kind::Normal)]);
        assert_eq!(upwards.check(&[member]).len(), 1, "never upwards");
    }

    #[test]
    fn an_exception_that_nobody_uses_is_refused() {
        let rules = Rules {
            sideways: &[("braidnet-codec", "braidnet-inet")],
            ..RULES
        };
        let found = sentences(&rules, &[crate_with("braidnet-codec", &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("not used"), "{}", found[0]);
    }

    #[test]
    fn metadata_keeps_our_crates_and_every_kind() {
        let metadata = json!({"packages": [{
            "name": "braidnet-tcp",
            "dependencies": [
                {"name": "bitflags", "kind": null, "rename": null, "path": null},
                {"name": "braidnet-wire", "kind": null, "rename": "wire", "path": "/w/crates/braidnet-wire"},
                {"name": "braidnet-lab", "kind": "dev", "rename": null, "path": null},
                {"name": "attic", "kind": "build", "rename": null, "path": "/w/attic"},
            ],
        }]});
        let expected = crate_with(
            "braidnet-tcp",
            &[
                ("braidnet-wire", Kind::Normal),
                ("braidnet-lab", Kind::Dev),
                ("attic", Kind::Build),
            ],
        );
        assert_eq!(members(&metadata), Some(vec![expected]));
    }

    #[test]
    fn metadata_of_another_shape_is_refused() {
        for odd in [
            json!({}),
            json!({"packages": [{"name": "braidnet"}]}),
            json!({"packages": [{"name": "braidnet", "dependencies": [
                {"name": "braidnet-wire", "kind": "soon", "path": null}]}]}),
        ] {
            assert_eq!(members(&odd), None, "{odd}");
        }
    }

    #[test]
    fn this_workspace_keeps_its_floors() {
        let answer = run(&crate::workspace_root());
        assert!(answer.is_ok(), "{answer:?}");
    }
}
