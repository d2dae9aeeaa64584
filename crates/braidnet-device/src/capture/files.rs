//! Files: one, or one after the other.
//!
//! Each file is whole: it begins with the section's header and every interface that has been described by then, which are kept for that, and ends behind a block. One follows the other
//! between two packets, of which neither is missing nor in both.
//!
//! What a file has taken of blocks before it failed is cut off again, so that a disk that was full may have room later: what came meanwhile is missing, and the file goes
//! on behind it. What cannot be cut, a pipe, has failed for good.

use super::destination::{Destination, Unwritten};
use super::pcapng::{self, INTERFACE_DESCRIPTION, SECTION_HEADER};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How a capture changes from file to file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Files that are kept; the oldest is removed before one more is made. 0: all.
    pub files: usize,
    /// Bytes that a file may have. One packet it has in any case.
    pub file_bytes: u64,
}

/// The file that is written, and what comes behind it.
pub struct Files {
    path: PathBuf,
    ring: Option<Ring>,
    /// The number of the file, from 1 on.
    number: usize,
    file: File,
    /// Its bytes: whole blocks.
    bytes: u64,
    has_packets: bool,
    /// The blocks that each file begins with, and how many bytes of them this one has.
    preamble: Vec<u8>,
    begun: usize,
    /// Something was written that could not be cut off.
    is_broken: bool,
}

impl Files {
    /// Makes the file at `path`, or the first of a ring.
    pub fn create(path: &Path, ring: Option<Ring>) -> io::Result<Files> {
        Ok(Files {
            file: File::create(numbered(path, ring, 1))?,
            path: path.to_path_buf(),
            ring,
            number: 1,
            bytes: 0,
            has_packets: false,
            preamble: Vec::new(),
            begun: 0,
            is_broken: false,
        })
    }

    /// Whether so many bytes more are too many for this file, which has packets if `has_packets`.
    fn is_full_with(&self, bytes: usize, has_packets: bool) -> bool {
        let bytes = self.bytes + (self.preamble.len() - self.begun + bytes) as u64;
        (self.ring).is_some_and(|ring| has_packets && bytes > ring.file_bytes)
    }

    /// Ends this file, and begins the next.
    fn change(&mut self) -> io::Result<()> {
        let next = self.number + 1;
        if let Some(Ring { files: 1.., .. }) = self.ring
            && let Some(oldest) = next.checked_sub(self.kept()).filter(|oldest| *oldest > 0)
        {
            // Whoever has removed it has done no more than that.
            let _ = fs::remove_file(numbered(&self.path, self.ring, oldest));
        }
        self.file = File::create(numbered(&self.path, self.ring, next))?;
        (self.number, self.bytes, self.begun) = (next, 0, 0);
        self.has_packets = false;
        Ok(())
    }

    fn kept(&self) -> usize {
        self.ring.map_or(0, |ring| ring.files)
    }

    /// Writes what is missing of the preamble, and these blocks; all or nothing.
    fn put(&mut self, blocks: &[u8]) -> io::Result<()> {
        let preamble = self.preamble.get(self.begun..).unwrap_or_default();
        let written = self.file.write_all(preamble);
        if let Err(error) = written.and_then(|()| self.file.write_all(blocks)) {
            let end = SeekFrom::Start(self.bytes);
            let cut = self.file.set_len(self.bytes);
            self.is_broken = cut.and_then(|()| self.file.seek(end)).is_err();
            return Err(error);
        }
        self.bytes += (preamble.len() + blocks.len()) as u64;
        self.begun = self.preamble.len();
        self.has_packets |= !blocks.is_empty();
        Ok(())
    }

    /// Writes blocks, and changes files between them; `from` is where the first begins that is not written.
    fn write_from(&mut self, from: &mut usize, blocks: &[u8]) -> io::Result<()> {
        let put = |files: &mut Files, range: Range<usize>, from: &mut usize| {
            files.put(blocks.get(range.clone()).unwrap_or_default())?;
            *from = range.end;
            io::Result::Ok(())
        };
        let mut at = 0;
        for (kind, block) in pcapng::blocks(blocks) {
            let end = at + block.len();
            if matches!(kind, SECTION_HEADER | INTERFACE_DESCRIPTION) {
                put(self, *from..at, from)?;
                self.preamble.extend_from_slice(block);
                *from = end;
            } else if self.is_full_with(end - *from, self.has_packets || *from < at) {
                put(self, *from..at, from)?;
                self.change()?;
            }
            at = end;
        }
        put(self, *from..at, from)
    }

    /// What packets to come will name is kept, though it could not be written: it goes in front of the first of them that can be.
    fn keep_preamble(&mut self, unwritten: &[u8]) {
        for (kind, block) in pcapng::blocks(unwritten) {
            if matches!(kind, SECTION_HEADER | INTERFACE_DESCRIPTION) {
                self.preamble.extend_from_slice(block);
            }
        }
    }
}

impl Destination for Files {
    fn write(&mut self, blocks: &[u8]) -> Result<(), Unwritten> {
        let mut from = 0;
        let written = match self.is_broken {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => self.write_from(&mut from, blocks),
        };
        written.map_err(|error| {
            self.keep_preamble(blocks.get(from..).unwrap_or_default());
            Unwritten {
                from,
                error,
                is_final: self.is_broken,
            }
        })
    }
}

/// What a file is called: `packets.pcapng` itself, and of a ring `packets_00001.pcapng` and so on.
fn numbered(path: &Path, ring: Option<Ring>, number: usize) -> PathBuf {
    if ring.is_none() {
        return path.to_path_buf();
    }
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("_{number:05}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;
