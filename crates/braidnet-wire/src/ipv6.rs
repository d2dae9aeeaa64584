//! The IPv6 header (RFC 8200 §3), without extension headers, which are refused by name.

use crate::address::Address;
use crate::bytes::{array_at, u16_at, u32_at};
use crate::refusal::refusals;
use core::ops::Range;

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 40;

refusals! {
    /// Why an IPv6 packet is refused.
    pub enum Ipv6Error {
        /// Fewer than 40 bytes.
        Truncated: "ipv6_truncated", "shorter than an IPv6 header";
        /// A version that is not 6.
        NotVersion6: "ipv6_version_wrong", "IP version is not 6";
        /// A payload length beyond the packet.
        PayloadLenPastEnd: "ipv6_payload_length_past_end", "IPv6 payload length past the end of the packet";
        /// An IPv4-mapped address, which stands for IPv4 inside a host and has no business on the wire: taken for the
        /// IPv4 address that it maps, it would get around whatever guards that.
        MappedAddress: "ipv6_mapped_address", "IPv4-mapped address in an IPv6 header";
        /// A multicast source address (RFC 4291 §2.7).
        MulticastSource: "ipv6_source_multicast", "IPv6 multicast source address";
        /// An extension header, of which this stack walks none (RFC 8200 §4).
        ExtensionHeader: "ipv6_extension_header", "IPv6 extension header";
        /// No next header: there is nothing to receive (RFC 8200 §4.7).
        NoNextHeader: "ipv6_no_next_header", "IPv6 packet without a next header";
    }
}

/// An IPv6 header. Neither address is IPv4-mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ipv6Header {
    /// Who sent it.
    pub source: Address,
    /// Whom it is for.
    pub destination: Address,
    /// Protocol number of the payload.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// DSCP in the upper six bits, ECN in the lower two (RFC 2474 §3, RFC 3168 §5).
    pub traffic_class: u8,
    /// The flow label, 20 bits (RFC 6437).
    pub flow_label: u32,
    /// Length of the payload in bytes.
    pub payload_len: u16,
}

impl Ipv6Header {
    /// Where the payload stands in the packet that was parsed; what follows is padding of the link.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        HEADER_LEN..HEADER_LEN + usize::from(self.payload_len)
    }
}

/// Parses the header of a packet, which may be padded: it reaches to the header's payload length and no further.
///
/// # Errors
///
/// An [`Ipv6Error`] for what contradicts itself or needs an extension header walked, jumbograms (RFC 2675) among them.
#[inline]
pub fn parse(packet: &[u8]) -> Result<Ipv6Header, Ipv6Error> {
    let fixed = match packet.first_chunk::<HEADER_LEN>() {
        Some(fixed) => fixed,
        None => return Err(Ipv6Error::Truncated),
    };
    let first = u32_at(fixed, 0);
    if first >> 28 != 6 {
        return Err(Ipv6Error::NotVersion6);
    }
    let header = Ipv6Header {
        source: Address::v6(array_at(fixed, 8)),
        destination: Address::v6(array_at(fixed, 24)),
        next_header: fixed[6],
        hop_limit: fixed[7],
        traffic_class: (first >> 20) as u8,
        flow_label: first & 0x000f_ffff,
        payload_len: u16_at(fixed, 4),
    };
    if header.payload_range().end > packet.len() {
        return Err(Ipv6Error::PayloadLenPastEnd);
    }
    if header.source.is_v4() || header.destination.is_v4() {
        return Err(Ipv6Error::MappedAddress);
    }
    if header.source.octets()[0] == 0xff {
        return Err(Ipv6Error::MulticastSource);
    }
    match header.next_header {
        NO_NEXT_HEADER => Err(Ipv6Error::NoNextHeader),
        next if is_extension(next) => Err(Ipv6Error::ExtensionHeader),
        _ => Ok(header),
    }
}

/// Writes the header to the front of `out` and returns its length, 40.
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(header: &Ipv6Header, out: &mut [u8]) -> usize {
    debug_assert!(
        !header.source.is_v4() && !header.destination.is_v4(),
        "not IPv6 addresses"
    );
    let first = 6 << 28 | u32::from(header.traffic_class) << 20 | header.flow_label & 0x000f_ffff;
    let mut bytes = [0; HEADER_LEN];
    bytes[..4].copy_from_slice(&first.to_be_bytes());
    bytes[4..6].copy_from_slice(&header.payload_len.to_be_bytes());
    bytes[6] = header.next_header;
    bytes[7] = header.hop_limit;
    bytes[8..24].copy_from_slice(header.source.octets());
    bytes[24..].copy_from_slice(header.destination.octets());
    out[..HEADER_LEN].copy_from_slice(&bytes);
    HEADER_LEN
}

const NO_NEXT_HEADER: u8 = 59;

/// The fragment header's number (RFC 8200 §4.5).
pub(crate) const FRAGMENT: u8 = 44;

/// IANA's list of extension header types, less ESP and AH's payloads, which are as unreadable: hop-by-hop, routing,
/// fragment, ESP, AH, destination options, mobility, HIP, Shim6 and the two for experiments.
pub(crate) const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        0 | 43 | FRAGMENT | 50 | 51 | 60 | 135 | 139 | 140 | 253 | 254
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next_header: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN + payload];
        let header = Ipv6Header {
            source: Address::v6([0x20; 16]),
            destination: Address::v6([0x21; 16]),
            next_header,
            payload_len: payload as u16,
            ..Ipv6Header::default()
        };
        emit(&header, &mut bytes);
        bytes
    }

    fn with(at: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = packet(6, 20);
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    }

    #[test]
    fn hostile_headers_are_refused_by_name() {
        let mapped = Address::v4([127, 0, 0, 1]);
        let rows: [(&str, Vec<u8>, Ipv6Error); 14] = [
            ("1: empty", vec![], Ipv6Error::Truncated),
            ("1: one byte", vec![0x60], Ipv6Error::Truncated),
            ("1: one byte short", vec![0x60; 39], Ipv6Error::Truncated),
            ("1: version 4", with(0, &[0x45]), Ipv6Error::NotVersion6),
            (
                "3: one beyond",
                with(4, &[0, 21]),
                Ipv6Error::PayloadLenPastEnd,
            ),
            (
                "3: far beyond",
                with(4, &[255, 255]),
                Ipv6Error::PayloadLenPastEnd,
            ),
            (
                "12: mapped source",
                with(8, mapped.octets()),
                Ipv6Error::MappedAddress,
            ),
            (
                "12: mapped destination",
                with(24, mapped.octets()),
                Ipv6Error::MappedAddress,
            ),
            (
                "12: multicast source",
                with(8, &[0xff]),
                Ipv6Error::MulticastSource,
            ),
            ("26: fragment", packet(44, 8), Ipv6Error::ExtensionHeader),
            ("28: hop-by-hop", packet(0, 8), Ipv6Error::ExtensionHeader),
            ("29: routing", packet(43, 8), Ipv6Error::ExtensionHeader),
            (
                "29: no next header with data",
                packet(59, 8),
                Ipv6Error::NoNextHeader,
            ),
            (
                "30: jumbo payload",
                packet(0, 0),
                Ipv6Error::ExtensionHeader,
            ),
        ];
        for (class, bytes, refusal) in rows {
            assert_eq!(parse(&bytes), Err(refusal), "class {class}");
        }
    }

    /// Class 4.
    #[test]
    fn padding_is_cut_off() {
        let mut bytes = packet(6, 20);
        bytes.resize(100, 0xee);
        assert_eq!(parse(&bytes).expect("legal").payload_range(), 40..60);
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(
            addresses in any::<([u8; 16], [u8; 16])>(), bytes in any::<(u8, u8)>(),
            flow_label in 0u32..1 << 20, payload_len in 0u16..100, next_header in 1u8..43,
        ) {
            let (mut source, destination) = addresses;
            source[0] &= 0x7f;
            let header = Ipv6Header {
                source: Address::v6(source),
                destination: Address::v6(destination),
                next_header,
                hop_limit: bytes.0,
                traffic_class: bytes.1,
                flow_label,
                payload_len,
            };
            let mut out = vec![0xee; HEADER_LEN + usize::from(payload_len)];
            prop_assert_eq!(emit(&header, &mut out), HEADER_LEN);
            prop_assert_eq!(parse(&out), Ok(header));
        }

        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), right: bool) {
            if right && bytes.len() > 6 {
                bytes[0] = 0x60;
                bytes[4] = 0;
            }
            if let Ok(header) = parse(&bytes) {
                prop_assert!(bytes.get(header.payload_range()).is_some());
            }
        }
    }
}
