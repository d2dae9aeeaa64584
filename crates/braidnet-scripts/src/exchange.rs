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
pub struct Failure {
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, line) = &self.step;
        writeln!(f, "{} in {}, step {number}: {line}", self.script, self.file)?;
        writeln!(f, "  expected: {}", self.expected)?;
        writeln!(f, "  got:      {}", self.got)?;
        let peer = "peer";
        writeln!(f, "{:>10}  {:<WIDTH$}{peer}", "", self.host)?;
        for (at, happening) in &self.exchange {
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
