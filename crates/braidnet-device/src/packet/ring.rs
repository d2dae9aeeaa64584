//! The ring into which the system puts what arrives: memory that both share.
//!
//! A slot belongs to whom its status says. The system writes a packet and then the status; who reads it has the slot to itself until it writes the status back, and nobody else
//! looks at the slot meanwhile. So the status is read with acquire and written with release order, and all between them are plain reads.

use super::socket::PacketSocket;
use crate::mapping::Mapping;
use crate::vnet;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::AsFd;

/// Bytes of a ring: as many packets of Ethernet's usual length as 30 ms of 1 Gbit/s have.
const RING_BYTES: usize = 4 << 20;

/// Bytes that the system takes at once; a slot that is longer has a block for itself.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a slot in front of a packet at the most: the system's header, an address, the packet's description, and alignment.
const FRONT_BYTES: usize = 96;

/// The slots, and which is next.
pub struct Ring {
    mapping: Mapping,
    slot_bytes: usize,
    /// Where the next slot begins.
    at: usize,
}

/// A packet in its slot.
pub struct Waiting<'a> {
    /// `TP_STATUS_*`.
    pub status: u32,
    /// How long it is, link header included.
    pub length: usize,
    /// Of these, as many as the slot has room for; none if what the system says of the slot cannot be so.
    pub bytes: &'a [u8],
    /// What is said of it.
    pub description: [u8; vnet::LEN],
    /// Of a tag that the system took off, where the status says that it did.
    pub tag: u16,
}

impl Ring {
    /// A ring for what comes by this socket, whose packets are described; each slot has room for more than `packet_max` bytes.
    pub fn of(socket: &PacketSocket, packet_max: usize) -> io::Result<Ring> {
        // A power of two, so that slots fill blocks, and blocks the ring.
        let slot_bytes = (packet_max + 1 + FRONT_BYTES).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        socket.make_ring(libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (RING_BYTES / block_bytes) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: (RING_BYTES / slot_bytes) as u32,
        })?;
        let mapping = Mapping::of(socket.as_fd(), 0, RING_BYTES)?;
        Ok(Ring {
            mapping,
            slot_bytes,
            at: 0,
        })
    }

    /// Bytes of a slot: more than the part of any packet that lies in one.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Whether a packet waits.
    pub fn is_waiting(&self) -> bool {
        self.status().load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
    }

    /// The packet that waits longest, if one does.
    pub fn front(&self) -> Option<Waiting<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = self.slot().cast::<libc::tpacket2_hdr>();
        // SAFETY: the slot is this side's, is aligned to a page's part of at least 256 bytes, and begins with such a header, of which any bytes are one.
        let header = unsafe { header.read() };
        // SAFETY: the slot is within the mapping, and this side's until `release`, which takes the ring by `&mut`.
        let slot = unsafe {
            core::slice::from_raw_parts(self.slot().as_ptr().cast_const(), self.slot_bytes)
        };
        let (description, bytes) = parts(slot, &header).unwrap_or_default();
        Some(Waiting {
            status,
            length: header.tp_len as usize,
            bytes,
            description,
            tag: header.tp_vlan_tci,
        })
    }

    /// Gives the slot of the packet that waits longest back, and goes on to the next.
    pub fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = (self.at + self.slot_bytes) % self.mapping.bytes();
    }

    fn slot(&self) -> NonNull<u8> {
        self.mapping.at(self.at, self.slot_bytes)
    }

    /// Whose the slot is: the first word of the system's header.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word is aligned, lies in the mapping for as long as `self` does, and is only read and written as a whole by both sides.
        unsafe { AtomicU32::from_ptr(self.slot().cast().as_ptr()) }
    }
}

/// What the slot of this header has of a packet, and what is said of it in front; `None` if that is not in the slot.
fn parts<'a>(slot: &'a [u8], header: &libc::tpacket2_hdr) -> Option<([u8; vnet::LEN], &'a [u8])> {
    let begin = usize::from(header.tp_mac);
    let end = begin.checked_add(header.tp_snaplen as usize)?;
    let (front, bytes) = slot.get(..end)?.split_at_checked(begin)?;
    Some((*front.last_chunk()?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: usize = 2048;

    fn ring(slots: usize) -> Ring {
        Ring {
            mapping: Mapping::anonymous(slots * SLOT).expect("memory"),
            slot_bytes: SLOT,
            at: 0,
        }
    }

    /// What the system does: a header, and the status behind it.
    fn fill(ring: &Ring, slot: usize, begin: u16, length: u32) {
        // SAFETY: any bytes are such a header.
        let mut header: libc::tpacket2_hdr = unsafe { core::mem::zeroed() };
        (header.tp_mac, header.tp_snaplen, header.tp_len) = (begin, length, length);
        header.tp_status = libc::TP_STATUS_USER;
        let at = ring.mapping.at(slot * SLOT, SLOT);
        // SAFETY: the slot is aligned, is longer than a header, and nobody else has it.
        unsafe { at.cast().write(header) };
    }

    #[test]
    fn slots_come_in_order_and_round() {
        let mut ring = ring(2);
        for round in 0..5 {
            assert!(!ring.is_waiting() && ring.front().is_none());
            for slot in 0..2 {
                fill(&ring, slot, 80, 100 * round + 60 + slot as u32);
            }
            for slot in 0..2 {
                assert!(ring.is_waiting());
                let length = 100 * round as usize + 60 + slot;
                let waiting = ring.front().expect("it was filled");
                assert_eq!((waiting.length, waiting.bytes.len()), (length, length));
                ring.release();
            }
        }
    }

    #[test]
    fn what_is_not_in_its_slot_is_handed_over_empty_and_the_next_follows() {
        let most = SLOT as u32 - 80;
        let rows = [
            (80, most, most as usize),
            (80, most + 1, 0),
            (80, u32::MAX, 0),
            (u16::MAX, 60, 0),
            // There is no room for the description.
            (vnet::LEN as u16 - 1, 60, 0),
        ];
        for (begin, length, expected) in rows {
            let mut ring = ring(2);
            fill(&ring, 0, begin, length);
            fill(&ring, 1, 80, 60);
            let waiting = ring.front().expect("it was filled");
            assert_eq!(waiting.bytes.len(), expected, "{length} bytes at {begin}");
            ring.release();
            assert_eq!(ring.front().expect("it was filled").bytes.len(), 60);
        }
    }
}
