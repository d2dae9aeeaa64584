//! Every input that is kept, once more.

use braidnet_fuzz::{TARGETS, corpus};
use std::collections::BTreeSet;

#[test]
fn every_kept_input_keeps_every_law() {
    for target in TARGETS {
        let inputs =
            corpus::read(target.name).unwrap_or_else(|error| panic!("{}: {error}", target.name));
        assert!(inputs.len() >= 5, "{} has a corpus", target.name);
        for input in &inputs {
            (target.run)(input);
        }
        // What fuzzing begins with elsewhere.
        (target.run)(&[]);
    }
}

#[test]
fn every_corpus_is_of_a_target() {
    let files = std::fs::read_dir(corpus::folder()).expect("there are corpora");
    let files: BTreeSet<_> = files
        .map(|file| {
            file.expect("it is listed")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    let targets: BTreeSet<_> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert_eq!(files, targets);
}
