//! The IPv4 header (RFC 791 §3.1).
//!
//! ```
//! use braidnet_wire::address::Address;
//! use braidnet_wire::ipv4::{self, Ipv4Header, Template};
//!
//! let header = Ipv4Header {
//!     source: Address::v4([192, 0, 2, 1]),
//!     destination: Address::v4([192, 0, 2, 2]),
//!     protocol: 17,
//!     ttl: 64,
//!     total_len: 28,
//!     ..Ipv4Header::default()
//! };
//! // Padded to 46 bytes by the link.
//! let mut packet = [0; 46];
//! ipv4::emit(&header, &mut packet);
//! let parsed = ipv4::parse(&packet).expect("the header is right");
//! assert_eq!((parsed, parsed.payload_range()), (header, 20..28));
//!
//! // The same packet from a template that was made once.
//! let mut again = [0; 46];
//! Template::new(&header).emit(28, 0, &mut again);
//! assert_eq!(again, packet);
//! ```

mod options;

use crate::address::Address;
use crate::bytes::{array_at, u16_at, u32_at, wire_word_at};
use crate::checksum::Sum;
use crate::refusal::refusals;
use core::ops::Range;

/// Length in bytes of a header without options.
pub const MIN_HEADER_LEN: usize = 20;
/// The most bytes that a datagram can hold, header included.
pub const MAX_TOTAL_LEN: usize = 65535;
/// Where the header checksum stands.
pub const CHECKSUM_OFFSET: usize = 10;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

refusals! {
    /// Why an IPv4 packet is refused.
    pub enum Ipv4Error {
        /// Fewer than 20 bytes.
        Truncated: "ipv4_truncated", "shorter than an IPv4 header";
        /// A version that is not 4.
        NotVersion4: "ipv4_version_wrong", "IP version is not 4";
        /// A header length of less than 5 words.
        HeaderLenTooSmall: "ipv4_header_length_too_small", "IPv4 header length inside the fixed header";
        /// A header length beyond the packet.
        HeaderLenPastEnd: "ipv4_header_length_past_end", "IPv4 header length past the end of the packet";
        /// A total length inside the header.
        TotalLenTooSmall: "ipv4_total_length_too_small", "IPv4 total length inside the header";
        /// A total length beyond the packet.
        TotalLenPastEnd: "ipv4_total_length_past_end", "IPv4 total length past the end of the packet";
        /// The header checksum does not match.
        Checksum: "ipv4_checksum_wrong", "IPv4 header checksum wrong";
        /// A fragment that would end beyond the largest datagram (the "ping of death").
        FragmentPastMaximum: "ipv4_fragment_past_maximum", "IPv4 fragment ends past 65535 bytes";
        /// A fragment with more to follow whose payload is not a multiple of 8 bytes.
        FragmentUneven: "ipv4_fragment_uneven", "IPv4 fragment of a length that is no multiple of 8";
        /// The last byte of the options begins an option that needs a length.
        OptionWithoutLength: "ipv4_option_without_length", "IPv4 option without a length byte";
        /// An option whose length is 0 or 1, or less than its kind needs.
        OptionTooShort: "ipv4_option_too_short", "IPv4 option too short";
        /// An option that ends past the header.
        OptionPastEnd: "ipv4_option_past_end", "IPv4 option past the end of the header";
        /// A route or timestamp option whose pointer is inside the option's own header.
        OptionPointer: "ipv4_option_pointer_wrong", "IPv4 option pointer inside the option's header";
        /// A source route, loose or strict.
        SourceRoute: "ipv4_source_route", "IPv4 source route";
    }
}

/// An IPv4 header without its options.
///
/// Both addresses are IPv4 ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Header {
    /// Who sent it.
    pub source: Address,
    /// Whom it is for.
    pub destination: Address,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// Type of service: DSCP in the upper six bits, ECN in the lower two (RFC 2474 §3, RFC 3168 §5).
    pub type_of_service: u8,
    /// Names the datagram that a fragment is of.
    pub identification: u16,
    /// Routers may not fragment it.
    pub dont_fragment: bool,
    /// A fragment that is not the last.
    pub more_fragments: bool,
    /// Where the payload belongs in the datagram, in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Length of the header with its options, in bytes: 20 to 60. [`emit`] knows no options and does not read it.
    pub header_len: u8,
    /// Length of header and payload in bytes.
    pub total_len: u16,
}

impl Ipv4Header {
    /// Where the payload stands in the packet that was parsed; what follows is padding of the link.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        usize::from(self.header_len)..usize::from(self.total_len)
    }

    /// Whether it is a part of a datagram.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }
}

impl Default for Ipv4Header {
    /// From and to nowhere, with a header length of 20 and all else zero.
    fn default() -> Self {
        Ipv4Header {
            source: Address::v4([0; 4]),
            destination: Address::v4([0; 4]),
            protocol: 0,
            ttl: 0,
            type_of_service: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            header_len: MIN_HEADER_LEN as u8,
            total_len: MIN_HEADER_LEN as u16,
        }
    }
}

/// Parses the header of a packet and verifies its checksum. The packet may be padded; it reaches to the header's total
/// length and no further.
///
/// Options are checked for their lengths and skipped (RFC 1122 §3.2.1.8 lets a host ignore all of them but the source
/// route, which this stack neither follows nor reverses). The reserved flag is ignored. Whether the addresses are fit
/// to be here is for the caller to say.
///
/// # Errors
///
/// An [`Ipv4Error`] for what contradicts itself.
#[inline]
pub fn parse(packet: &[u8]) -> Result<Ipv4Header, Ipv4Error> {
    parse_front(packet, packet.len())
}

/// The header of nearly every packet: without options, and not of a fragment.
///
/// Its addresses are numbers, so that nothing of it stops in memory between the packet and whoever asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsualHeader {
    /// Who sent it, most significant byte first.
    pub source: u32,
    /// Whom it is for, most significant byte first.
    pub destination: u32,
    /// Length in bytes of header and payload, not held against the packet's: 20 or more.
    pub total_len: u16,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and, in the lowest two bits, ECN (RFC 2474, RFC 3168 §5).
    pub type_of_service: u8,
}

/// The header in front of `packet`, its checksum verified, if it is a usual one. `None` if [`parse_front`] must look closer,
/// at a faulty header too.
#[inline(always)]
pub fn parse_usual(packet: &[u8]) -> Option<UsualHeader> {
    let fixed = packet.first_chunk::<MIN_HEADER_LEN>()?;
    let total_len = u16_at(fixed, 2);
    let words = [
        wire_word_at(fixed, 0),
        wire_word_at(fixed, 4),
        wire_word_at(fixed, 8),
        wire_word_at(fixed, 12),
        wire_word_at(fixed, 16),
    ];
    let usual = fixed[0] == 0x45
        && u16_at(fixed, 6) & (MORE_FRAGMENTS | OFFSET) == 0
        && usize::from(total_len) >= MIN_HEADER_LEN
        && Sum::ZERO.with_wire_words(words).is_valid();
    usual.then(|| UsualHeader {
        source: u32_at(fixed, 12),
        destination: u32_at(fixed, 16),
        total_len,
        protocol: fixed[9],
        ttl: fixed[8],
        type_of_service: fixed[1],
    })
}

/// [`parse`] where `packet` is only the front of a packet of `packet_len` bytes, whose rest lies elsewhere.
///
/// # Errors
///
/// As [`parse`]; [`Ipv4Error::Truncated`] or [`Ipv4Error::HeaderLenPastEnd`] if the front ends within the header.
#[inline]
pub fn parse_front(packet: &[u8], packet_len: usize) -> Result<Ipv4Header, Ipv4Error> {
    let fixed = packet
        .first_chunk::<MIN_HEADER_LEN>()
        .ok_or(Ipv4Error::Truncated)?;
    let sum = if fixed[0] == 0x45 {
        Sum::of(fixed)
    } else {
        sum_with_options(packet, fixed[0])?
    };
    let header_len = (fixed[0] & 0x0f) * 4;
    let total_len = u16_at(fixed, 2);
    if total_len < u16::from(header_len) {
        return Err(Ipv4Error::TotalLenTooSmall);
    }
    if usize::from(total_len) > packet_len {
        return Err(Ipv4Error::TotalLenPastEnd);
    }
    if !sum.is_valid() {
        return Err(Ipv4Error::Checksum);
    }
    let header = header(fixed, u16_at(fixed, 6), total_len);
    if header.is_fragment() {
        check_fragment(&header)?;
    }
    if usize::from(header_len) > MIN_HEADER_LEN {
        options::check(&packet[MIN_HEADER_LEN..usize::from(header_len)])?;
    }
    Ok(header)
}

/// The fields, of which the caller has looked at two.
#[inline(always)]
fn header(fixed: &[u8; MIN_HEADER_LEN], fragment: u16, total_len: u16) -> Ipv4Header {
    Ipv4Header {
        source: Address::v4(array_at(fixed, 12)),
        destination: Address::v4(array_at(fixed, 16)),
        protocol: fixed[9],
        ttl: fixed[8],
        type_of_service: fixed[1],
        identification: u16_at(fixed, 4),
        dont_fragment: fragment & DONT_FRAGMENT != 0,
        more_fragments: fragment & MORE_FRAGMENTS != 0,
        fragment_offset: (fragment & OFFSET) * 8,
        header_len: (fixed[0] & 0x0f) * 4,
        total_len,
    }
}

/// Writes the header to the front of `out`, without options and with its checksum, and returns its length, 20.
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline(always)]
pub fn emit(header: &Ipv4Header, out: &mut [u8]) -> usize {
    let mut fragment = header.fragment_offset / 8;
    if header.dont_fragment {
        fragment |= DONT_FRAGMENT;
    }
    if header.more_fragments {
        fragment |= MORE_FRAGMENTS;
    }
    let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be();
    let [ttl, protocol] = [header.ttl, header.protocol];
    // Made, summed and sealed in registers: what was just stored in bytes is slow to load in words.
    let mut words = [
        pair(0x4500 | u16::from(header.type_of_service), header.total_len),
        pair(header.identification, fragment),
        u32::from_ne_bytes([ttl, protocol, 0, 0]),
        last_word(&header.source),
        last_word(&header.destination),
    ];
    let [high, low] = Sum::ZERO.with_wire_words(words).finish_bytes();
    words[CHECKSUM_OFFSET / 4] |= u32::from_ne_bytes([0, 0, high, low]);
    let out = &mut out[..MIN_HEADER_LEN];
    for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    MIN_HEADER_LEN
}

/// The four bytes of an IPv4 address as they stand in a header.
#[inline]
fn last_word(address: &Address) -> u32 {
    debug_assert!(address.is_v4(), "not an IPv4 address");
    wire_word_at(address.octets(), 12)
}

/// A header of which only length and identification change from packet to packet, so that its sum is made once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// The header with length, identification and checksum zero.
    bytes: [u8; MIN_HEADER_LEN],
    sum: Sum,
}

impl Template {
    /// The template behind this header, of which length and identification do not count.
    #[inline]
    pub fn new(header: &Ipv4Header) -> Template {
        debug_assert!(
            header.source.is_v4() && header.destination.is_v4(),
            "not IPv4 addresses"
        );
        debug_assert_eq!(
            header.fragment_offset % 8,
            0,
            "fragments start at multiples of 8 bytes"
        );
        let mut fragment = header.fragment_offset / 8;
        if header.dont_fragment {
            fragment |= DONT_FRAGMENT;
        }
        if header.more_fragments {
            fragment |= MORE_FRAGMENTS;
        }
        let mut bytes = [0; MIN_HEADER_LEN];
        bytes[0] = 0x45;
        bytes[1] = header.type_of_service;
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[8] = header.ttl;
        bytes[9] = header.protocol;
        bytes[12..16].copy_from_slice(&header.source.octets()[12..]);
        bytes[16..].copy_from_slice(&header.destination.octets()[12..]);
        Template {
            bytes,
            sum: Sum::of(&bytes),
        }
    }

    /// Writes a header for a packet of `total_len` bytes, header included, to the front of `out`, with its checksum,
    /// and returns its length, 20.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than that.
    #[inline]
    pub fn emit(&self, total_len: u16, identification: u16, out: &mut [u8]) -> usize {
        let sum = self.sum + Sum::word(total_len) + Sum::word(identification);
        let mut bytes = self.bytes;
        bytes[2..4].copy_from_slice(&total_len.to_be_bytes());
        bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.finish_bytes());
        out[..MIN_HEADER_LEN].copy_from_slice(&bytes);
        MIN_HEADER_LEN
    }
}

/// The sum of a header that does not start with the usual byte.
#[cold]
fn sum_with_options(packet: &[u8], first: u8) -> Result<Sum, Ipv4Error> {
    if first >> 4 != 4 {
        return Err(Ipv4Error::NotVersion4);
    }
    let header_len = usize::from(first & 0x0f) * 4;
    if header_len < MIN_HEADER_LEN {
        return Err(Ipv4Error::HeaderLenTooSmall);
    }
    packet
        .get(..header_len)
        .map(Sum::of)
        .ok_or(Ipv4Error::HeaderLenPastEnd)
}

/// RFC 791 §3.2: fragments are of multiples of 8 bytes, the last excepted, and make up at most 65535 bytes. The
/// datagram's header counts, and is taken to be as long as the fragment's.
#[cold]
fn check_fragment(header: &Ipv4Header) -> Result<(), Ipv4Error> {
    let end = usize::from(header.fragment_offset) + usize::from(header.total_len);
    if end > MAX_TOTAL_LEN {
        return Err(Ipv4Error::FragmentPastMaximum);
    }
    if header.more_fragments && !header.payload_range().len().is_multiple_of(8) {
        return Err(Ipv4Error::FragmentUneven);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
