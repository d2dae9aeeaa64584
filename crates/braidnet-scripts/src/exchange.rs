//! What has happened in a script, and how to show it.

use std::fmt;
use std::time::Duration;

/// Something that has happened.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A user has called, and this came of it.
    Call(String),
    /// A segment came in.
    In(String),
    /// A segment went out.
    Out(String),
}

/// Why a script has failed, and all that led to it.
#[derive(Debug)]
pub struct Failure(pub(crate) Box<Details>);

#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) script: &'static str,
    pub(crate) file: &'static str,
    /// Which of the script's lines it was, from 1, and as it stands there.
    pub(crate) step: (usize, String),
    pub(crate) expected: String,
    pub(crate) got: String,
    pub(crate) host: &'static str,
    pub(crate) exchange: Vec<(Duration, Happening)>,
}

/// Columns between the two sides.
const WIDTH: usize = 76;

impl Failure {
    /// The script's name.
    pub fn script(&self) -> &'static str {
        self.0.script
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &*self.0;
        let (number, line) = &details.step;
        writeln!(
            f,
            "{} in {}, step {number}: {line}",
            details.script, details.file
        )?;
        writeln!(f, "  expected: {}", details.expected)?;
        writeln!(f, "  got:      {}", details.got)?;
        let peer = "peer";
        writeln!(f, "{:>10}  {:<WIDTH$}{peer}", "", details.host)?;
        for (at, happening) in &details.exchange {
            let seconds = at.as_secs_f64();
            write!(f, "{seconds:>10.6}  |")?;
            match happening {
                Happening::Call(text) => writeln!(f, " {text:<WIDTH$}|")?,
                Happening::In(text) => writeln!(f, "<{text:->WIDTH$}-|")?,
                Happening::Out(text) => writeln!(f, "-{text:-<WIDTH$}>|")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
