//! Where a capture's blocks go.

use std::io::{self, Write};

/// What takes a capture's blocks, on the thread that writes.
pub trait Destination {
    /// Takes whole blocks, one behind the other, and has them leave this process.
    ///
    /// # Errors
    ///
    /// What became of those that were not taken.
    fn write(&mut self, blocks: &[u8]) -> Result<(), Unwritten>;
}

/// Blocks that were not taken.
#[derive(Debug)]
pub struct Unwritten {
    /// Where the first of them begins in what was to be written.
    pub from: usize,
    /// What the system said.
    pub error: io::Error,
    /// Nothing will ever be taken again.
    pub is_final: bool,
}

/// Any writer. What it took before it failed cannot be taken back, so that a failure is its end.
pub struct Stream<W>(pub W);

impl<W: Write> Destination for Stream<W> {
    fn write(&mut self, blocks: &[u8]) -> Result<(), Unwritten> {
        let written = self.0.write_all(blocks).and_then(|()| self.0.flush());
        written.map_err(|error| Unwritten {
            from: 0,
            error,
            is_final: true,
        })
    }
}
