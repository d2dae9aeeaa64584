//! The memory in which frames lie, which is shared with the kernel (a UMEM).
//!
//! One half is for what comes in, the other for what leaves, so that whoever turns a queue and whoever sends by it share no frame. A frame is the kernel's from when its
//! address is put into a ring until it comes back by another; who has it back may read or write it.

use crate::mapping::Mapping;
use core::ops::Range;
use std::io;
use std::sync::Arc;

/// Frames of each half: as many as a ring has entries.
pub const FRAMES: u32 = 2048;

/// Bytes that the kernel keeps free in front of what comes in (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;

/// Frames that belong to one end.
pub struct Frames {
    memory: Arc<Mapping>,
    range: Range<usize>,
    frame_bytes: usize,
}

impl Frames {
    /// Frames for packets of so many bytes, in two halves; the memory of both.
    pub fn halves(packet_max: usize) -> io::Result<(Arc<Mapping>, Frames, Frames)> {
        // The sizes that kernels take.
        let frame_bytes = if packet_max + HEADROOM <= 2048 {
            2048
        } else {
            4096
        };
        let half = FRAMES as usize * frame_bytes;
        let memory = Arc::new(Mapping::anonymous(2 * half)?);
        let of = |range| Frames {
            memory: memory.clone(),
            range,
            frame_bytes,
        };
        let (first, second) = (of(0..half), of(half..2 * half));
        Ok((memory, first, second))
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Where its frames begin.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        self.range
            .clone()
            .step_by(self.frame_bytes)
            .map(|at| at as u64)
    }

    /// The address of the frame in which this one lies.
    pub fn frame_of(&self, address: u64) -> u64 {
        address & !(self.frame_bytes as u64 - 1)
    }

    /// Bytes that the kernel has put there; `None` if they are not of these frames.
    pub fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        let at = self.checked(address, length)?;
        // SAFETY: the range is within the mapping, which `self` keeps, and the kernel has given the frame back; only its end writes to it, by `&mut`.
        Some(unsafe { core::slice::from_raw_parts(at, length) })
    }

    /// Bytes to be written, of a frame that is not the kernel's.
    pub fn bytes_mut(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let at = self.checked(address, length)?;
        // SAFETY: as above, and this end has its frames to itself.
        Some(unsafe { core::slice::from_raw_parts_mut(at, length) })
    }

    fn checked(&self, address: u64, length: usize) -> Option<*mut u8> {
        let begin = usize::try_from(address).ok()?;
        let end = begin.checked_add(length)?;
        let is_ours = self.range.start <= begin && end <= self.range.end;
        is_ours.then(|| self.memory.at(begin, length).as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_has_its_own_frames() {
        for (packet_max, frame_bytes) in [(1518, 2048), (1792, 2048), (1793, 4096), (3840, 4096)] {
            let (memory, mut first, second) = Frames::halves(packet_max).expect("memory");
            assert_eq!(first.frame_bytes(), frame_bytes);
            assert_eq!(first.addresses().count(), FRAMES as usize);
            let last = first.addresses().last().expect("there are some");
            assert_eq!(second.addresses().next(), Some(last + frame_bytes as u64));
            assert!(first.bytes_mut(last, frame_bytes).is_some());
            assert!(first.bytes(last, frame_bytes + 1).is_none());
            assert!(second.bytes(last, 1).is_none());
            assert!(second.bytes(memory.bytes() as u64, 1).is_none());
            assert!(second.bytes(u64::MAX, 1).is_none());
            assert_eq!(first.frame_of(last + 256 + 14), last);
        }
    }
}
