//! Memory that is shared with the kernel.

use core::ptr::{self, NonNull};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapping that can be read and written; it ends with the value.
pub struct Mapping {
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping alone, but for the kernel, which does not care what thread reads or writes it.
unsafe impl Send for Mapping {}
// SAFETY: by a shared reference there is nothing to be had but addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` bytes of what a descriptor has to be mapped, from this offset on.
    pub fn of(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Mapping> {
        Mapping::new(fd.as_raw_fd(), libc::MAP_SHARED, offset, bytes)
    }

    /// `bytes` zeroed bytes of this process's own, at the beginning of a page.
    pub fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Mapping::new(-1, kind, 0, bytes)
    }

    fn new(fd: c_int, kind: c_int, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let offset = offset as libc::off_t;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, fd, offset) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { memory, bytes })
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of `bytes` bytes in it, valid for as long as the mapping is there.
    ///
    /// # Panics
    /// If they do not lie in it.
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "outside of it");
        // SAFETY: the offset is within the mapping, or at its end.
        unsafe { self.memory.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and whoever asked for an address in it looks there only while it is there.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_refused() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        for (offset, bytes, is_inside) in [
            (0, 4096, true),
            (4096, 0, true),
            (1, 4096, false),
            (4097, 0, false),
            (usize::MAX, 2, false),
        ] {
            let asked = std::panic::catch_unwind(|| mapping.at(offset, bytes));
            assert_eq!(asked.is_ok(), is_inside, "{bytes} at {offset}");
        }
    }
}
