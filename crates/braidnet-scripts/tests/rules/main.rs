//! Rules of TCP, each an exchange of segments named by the section that has it. See the crate's documentation for how they are
//! written; `docs/testing.md` for how to play them.

mod closing;
mod congestion;
mod data;
mod ecn;
mod fast_open;
mod loss;
mod opening;
mod options;
mod resets;
mod windows;

use braidnet_scripts::{Script, kernel};

/// Every script.
fn all() -> Vec<Script> {
    let files = [
        opening::SCRIPTS,
        options::SCRIPTS,
        data::SCRIPTS,
        windows::SCRIPTS,
        loss::SCRIPTS,
        congestion::SCRIPTS,
        ecn::SCRIPTS,
        fast_open::SCRIPTS,
        closing::SCRIPTS,
        resets::SCRIPTS,
    ];
    files.concat()
}

/// What Linux does is what the RFCs say, so the scripts have read them right; where it does not, they say so.
#[test]
fn linux_does_what_the_scripts_say() {
    let scripts = all().into_iter();
    let scripts: Vec<Script> = scripts
        .filter(|script| script.ours_only.is_none())
        .collect();
    match kernel::play_all(&scripts) {
        Ok(failures) if failures.is_empty() => println!("{} scripts", scripts.len()),
        Ok(failures) => {
            for failure in &failures {
                println!("{failure}");
            }
            panic!("{} of {} scripts fail", failures.len(), scripts.len());
        }
        Err(why) => {
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!in_ci, "in CI this may not be skipped: {why}");
            println!("SKIPPED the scripts against Linux: {why}");
        }
    }
}

#[test]
fn names_are_of_one_script_each_and_begin_with_a_section() {
    let mut names: Vec<&str> = all().iter().map(|script| script.name).collect();
    for name in &names {
        let number = name.strip_prefix("rfc").map(|rest| rest.split('_').next());
        let is_number = |number: &str| number.parse::<u16>().is_ok();
        assert!(number.flatten().is_some_and(is_number), "{name}");
    }
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
