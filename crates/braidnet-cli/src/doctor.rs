//! `braidnet doctor`: what this machine allows, and how to get what it does not.

use crate::failure::Failure;
use crate::output;
use braidnet_lab::doctor::{Finding, Verdict, examine};
use clap::Args;

const EXAMPLES: &str = "\
Each thing is tried: a TUN and a TAP device are made and removed again, a thread is kept on each processor. Nothing is \
left behind, and without root it says what root would get.

Examples:
  braidnet doctor
  braidnet doctor --json";

/// Say what this machine allows, and how to get what it does not
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(self) -> Result<(), Failure> {
        let findings = examine();
        if self.json {
            output::json(&findings)
        } else {
            output::text(&table(&findings))
        }
    }
}

/// A line for each, and behind it what to do.
fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for Finding {
        subject,
        verdict,
        found,
        remedy,
    } in findings
    {
        let sign = match verdict {
            Verdict::Good => "ok ",
            Verdict::Limited => "-  ",
            Verdict::Missing => "no ",
        };
        text.push_str(&format!("{sign} {subject:width$}  {found}\n"));
        if let Some(remedy) = remedy {
            text.push_str(&format!("    {:width$}  {remedy}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_stands_below_what_there_is() {
        let finding = |subject, verdict, remedy: Option<&str>| Finding {
            subject,
            verdict,
            found: "something".to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let findings = [
            finding("clock", Verdict::Good, None),
            finding("TUN device", Verdict::Missing, Some("run as root")),
        ];
        let expected =
            "ok  clock       something\nno  TUN device  something\n                run as root\n";
        assert_eq!(table(&findings), expected);
    }
}
