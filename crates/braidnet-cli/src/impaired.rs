//! What was done to packets, for a person.

use braidnet::device::impair::Tally;

/// A line for one direction: what was offered, and what was done to it by name.
pub fn line(direction: &str, tally: &Tally) -> String {
    let counts = tally.named().into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let text = match counts.is_empty() {
        true => "0 offered".to_owned(),
        false => counts.join(", "),
    };
    format!("impaired {direction}: {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_is_said() {
        let nothing = Tally::default();
        assert_eq!(line("out", &nothing), "impaired out: 0 offered\n");
        let tally = Tally {
            offered: 10,
            lost: 2,
            held_back: 3,
            ..nothing
        };
        assert_eq!(
            line("in", &tally),
            "impaired in: 10 offered, 2 lost, 3 held-back\n"
        );
    }
}
