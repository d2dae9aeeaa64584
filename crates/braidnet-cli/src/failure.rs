//! How a command ends when it does not succeed.

use std::fmt;
use std::process::ExitCode;

/// Why a command ended without success. Its text is one sentence for the person at the keyboard.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the configuration asks for what cannot be: exit code 2.
    Usage(String),
    /// What was asked for is right but did not work out: exit code 1.
    Runtime(String),
}

impl Failure {
    /// The code with which the process ends.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Runtime(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(sentence) | Failure::Runtime(sentence) => f.write_str(sentence),
        }
    }
}
