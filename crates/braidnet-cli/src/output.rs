//! What a command prints for its answer.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{ErrorKind, Write, stdout};

/// Prints a text.
///
/// # Errors
/// If the output does not take it. A reader that has gone away (`| head`) has had what it wanted.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Runtime(format!(
            "cannot write the answer: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Prints a value as JSON, indented.
///
/// # Errors
/// As [`text`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Runtime(format!("cannot write the answer: {error}")))?;
    line.push('\n');
    text(&line)
}
