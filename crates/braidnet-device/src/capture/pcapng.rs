//! The pcapng format (draft-ietf-opsawg-pcapng): how each block is laid out. Native byte order throughout.

use crate::Medium;
use std::borrow::Cow;

/// Which way a packet went, seen from the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the device to the stack.
    Inbound,
    /// From the stack to the device.
    Outbound,
}

impl Direction {
    /// Bits 0 and 1 of `epb_flags` (§4.3.1).
    const fn flags(self) -> u32 {
        match self {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        }
    }
}

/// Block types (§11.1).
pub const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub const INTERFACE_DESCRIPTION: u32 = 1;
pub const INTERFACE_STATISTICS: u32 = 5;
pub const ENHANCED_PACKET: u32 = 6;

/// What a section begins with, so that a reader learns its byte order (§4.1).
pub const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Option codes: of any block (§3.5), of the section header (§4.1), the interface description (§4.2), the enhanced
/// packet (§4.3) and the interface statistics (§4.6).
pub const OPTION_END: u16 = 0;
pub const OPTION_COMMENT: u16 = 1;
pub const SHB_USER_APPLICATION: u16 = 4;
pub const IF_NAME: u16 = 2;
pub const IF_TIMESTAMP_RESOLUTION: u16 = 9;
pub const EPB_FLAGS: u16 = 2;
pub const ISB_RECEIVED: u16 = 4;
pub const ISB_DROPPED: u16 = 5;

/// `LINKTYPE_ETHERNET` and `LINKTYPE_RAW` (IP of either version, told apart by the version field).
pub const LINK_ETHERNET: u16 = 1;
pub const LINK_RAW: u16 = 101;

/// The shortest block: a type, and a length twice (§3.1).
const BLOCK_MIN: usize = 12;

/// Timestamps count units of 10^-9 seconds.
pub const NANOSECONDS: u8 = 9;

/// The link type of a medium.
pub const fn link_type(medium: &Medium) -> u16 {
    match medium {
        Medium::Ip => LINK_RAW,
        Medium::Ethernet { .. } => LINK_ETHERNET,
    }
}

/// Appends the block that begins a section of unknown length (§4.1).
pub fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |out| {
        word(out, BYTE_ORDER_MAGIC);
        out.extend(1u16.to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        out.extend((-1i64).to_ne_bytes());
        option(
            out,
            SHB_USER_APPLICATION,
            concat!("braidnet ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        option(out, OPTION_END, &[]);
    });
}

/// Appends the block that introduces the section's next interface (§4.2). A `snaplen` of 0 means whole packets.
pub fn interface_description(out: &mut Vec<u8>, name: &str, link_type: u16, snaplen: u32) {
    // An option's length has 16 bits; no interface's name comes near.
    let name: Cow<'_, str> = match name.char_indices().nth(255) {
        None => name.into(),
        Some((end, _)) => name.get(..end).unwrap_or_default().into(),
    };
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(link_type.to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        word(out, snaplen);
        option(out, IF_NAME, name.as_bytes());
        option(out, IF_TIMESTAMP_RESOLUTION, &[NANOSECONDS]);
        option(out, OPTION_END, &[]);
    });
}

/// What an enhanced packet block says beside the packet.
#[derive(Clone, Copy)]
pub struct PacketHeader {
    /// The interface's number in the section.
    pub interface: u32,
    /// Nanoseconds since the Unix epoch.
    pub nanos: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes of the packet.
    pub length: usize,
    /// Bytes of it that are recorded at most.
    pub snaplen: usize,
}

/// Appends one packet, given by its blocks (§4.3), with something to be said of it (§3.5).
pub fn enhanced_packet<'a>(
    out: &mut Vec<u8>,
    header: PacketHeader,
    blocks: impl Iterator<Item = &'a [u8]>,
    comment: Option<&str>,
) {
    block(out, ENHANCED_PACKET, |out| {
        let recorded = header.length.min(header.snaplen);
        word(out, header.interface);
        word(out, (header.nanos >> 32) as u32);
        word(out, header.nanos as u32);
        word(out, saturated(recorded));
        word(out, saturated(header.length));
        let mut left = recorded;
        for bytes in blocks {
            let part = bytes.get(..left).unwrap_or(bytes);
            out.extend_from_slice(part);
            left -= part.len();
        }
        pad(out, recorded);
        option(out, EPB_FLAGS, &header.direction.flags().to_ne_bytes());
        if let Some(comment) = comment {
            option(out, OPTION_COMMENT, comment.as_bytes());
        }
        option(out, OPTION_END, &[]);
    });
}

/// Appends how many packets of an interface were seen and how many of them are missing from the file (§4.6).
pub fn interface_statistics(
    out: &mut Vec<u8>,
    interface: u32,
    nanos: u64,
    received: u64,
    dropped: u64,
) {
    block(out, INTERFACE_STATISTICS, |out| {
        word(out, interface);
        word(out, (nanos >> 32) as u32);
        word(out, nanos as u32);
        option(out, ISB_RECEIVED, &received.to_ne_bytes());
        option(out, ISB_DROPPED, &dropped.to_ne_bytes());
        option(out, OPTION_END, &[]);
    });
}

/// The blocks that lie one behind the other, each with its type, up to what is none.
pub fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let kind = u32::from_ne_bytes(*bytes.first_chunk()?);
        let length = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
        if length < BLOCK_MIN {
            return None;
        }
        let (block, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some((kind, block))
    })
}

/// The interface of an enhanced packet block.
pub fn packet_interface(block: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*block.get(8..)?.first_chunk()?))
}

/// Type and total length in front, total length again behind (§3.1). The body is a multiple of four bytes.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    word(out, kind);
    word(out, 0);
    body(out);
    let length = saturated(out.len() + 4 - start).to_ne_bytes();
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&length);
    }
    out.extend(length);
}

/// Code, length, value, padding (§3.5).
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_ne_bytes());
    out.extend((value.len() as u16).to_ne_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_ne_bytes());
}

fn pad(out: &mut Vec<u8>, length: usize) {
    let zeros = [0; 3];
    out.extend_from_slice(zeros.get(..length.wrapping_neg() % 4).unwrap_or_default());
}

fn saturated(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
