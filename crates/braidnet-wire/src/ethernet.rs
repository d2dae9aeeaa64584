//! Ethernet II frames.

use crate::bytes::{array_at, u16_at};
use crate::refusal::refusals;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 14;

/// What a frame holds, named by the field of its header (IEEE 802 numbers, IANA).
pub mod ether_type {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
}

refusals! {
    /// Why an Ethernet frame is refused.
    pub enum EthernetError {
        /// Fewer than 14 bytes.
        Truncated: "ethernet_truncated", "shorter than an Ethernet header";
        /// A group address as the source.
        GroupSource: "ethernet_source_group", "Ethernet source address is a group";
        /// A type below 1536, which is an IEEE 802.3 length or nothing (RFC 1122 §2.3.3).
        LengthField: "ethernet_length_field", "IEEE 802.3 length in place of an Ethernet type";
        /// A VLAN tag (IEEE 802.1Q or 802.1ad), which this stack does not look behind.
        VlanTag: "ethernet_vlan_tag", "VLAN tag";
    }
}

/// An Ethernet address.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All stations.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);
    /// No station.
    pub const ZERO: MacAddress = MacAddress([0; 6]);

    /// Whether it names a group of stations: multicast or broadcast.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it names one station.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_group() && self != MacAddress::ZERO
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An Ethernet II header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EthernetHeader {
    /// Whom the frame is for.
    pub destination: MacAddress,
    /// Who sent it.
    pub source: MacAddress,
    /// What it holds: a value of [`ether_type`] or another of at least 1536.
    pub ether_type: u16,
}

/// Parses the header of a frame without its check sequence. The payload starts at [`HEADER_LEN`] and may be padded.
///
/// # Errors
///
/// An [`EthernetError`] for what is no untagged Ethernet II frame of one station.
#[inline]
pub fn parse(frame: &[u8]) -> Result<EthernetHeader, EthernetError> {
    let fixed = match frame.first_chunk::<HEADER_LEN>() {
        Some(fixed) => fixed,
        None => return Err(EthernetError::Truncated),
    };
    let header = EthernetHeader {
        destination: MacAddress(array_at(fixed, 0)),
        source: MacAddress(array_at(fixed, 6)),
        ether_type: u16_at(fixed, 12),
    };
    if header.source.is_group() {
        return Err(EthernetError::GroupSource);
    }
    match header.ether_type {
        0..1536 => Err(EthernetError::LengthField),
        // IEEE 802.1Q, 802.1ad and what came before the latter.
        0x8100 | 0x88a8 | 0x9100 => Err(EthernetError::VlanTag),
        _ => Ok(header),
    }
}

/// Writes the header to the front of `out` and returns its length, 14.
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(header: &EthernetHeader, out: &mut [u8]) -> usize {
    let mut bytes = [0; HEADER_LEN];
    bytes[..6].copy_from_slice(&header.destination.0);
    bytes[6..12].copy_from_slice(&header.source.0);
    bytes[12..].copy_from_slice(&header.ether_type.to_be_bytes());
    out[..HEADER_LEN].copy_from_slice(&bytes);
    HEADER_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(ether_type: u16, source: [u8; 6]) -> Vec<u8> {
        let header = EthernetHeader {
            destination: MacAddress::BROADCAST,
            source: MacAddress(source),
            ether_type,
        };
        let mut bytes = vec![0; 60];
        emit(&header, &mut bytes);
        bytes
    }

    /// Class 45.
    #[test]
    fn hostile_frames_are_refused_by_name() {
        let station = [2, 0, 0, 0, 0, 1];
        let rows: [(&str, Vec<u8>, EthernetError); 9] = [
            ("1: empty", vec![], EthernetError::Truncated),
            ("1: one byte short", vec![8; 13], EthernetError::Truncated),
            ("45: type 0", frame(0, station), EthernetError::LengthField),
            (
                "45: 802.3 length",
                frame(46, station),
                EthernetError::LengthField,
            ),
            (
                "45: type 1535",
                frame(1535, station),
                EthernetError::LengthField,
            ),
            ("45: VLAN", frame(0x8100, station), EthernetError::VlanTag),
            (
                "45: stacked VLAN",
                frame(0x88a8, station),
                EthernetError::VlanTag,
            ),
            (
                "45: truncated tag",
                frame(0x8100, station)[..15].to_vec(),
                EthernetError::VlanTag,
            ),
            (
                "45: multicast source",
                frame(ether_type::IPV4, [3, 0, 0, 0, 0, 1]),
                EthernetError::GroupSource,
            ),
        ];
        for (class, bytes, refusal) in rows {
            assert_eq!(parse(&bytes), Err(refusal), "class {class}");
        }
        assert_eq!(
            parse(&frame(1536, station)).map(|header| header.ether_type),
            Ok(1536)
        );
    }

    #[test]
    fn addresses_print_as_usual() {
        assert_eq!(
            MacAddress([0x02, 0, 0xab, 0, 0x1f, 1]).to_string(),
            "02:00:ab:00:1f:01"
        );
        assert!(!MacAddress::BROADCAST.is_station() && !MacAddress::ZERO.is_station());
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(
            destination: [u8; 6], mut source: [u8; 6], ether_type in 0x9101u16..,
        ) {
            source[0] &= 0xfe;
            let header = EthernetHeader { destination: MacAddress(destination), source: MacAddress(source), ether_type };
            let mut out = [0xee; 20];
            prop_assert_eq!(emit(&header, &mut out), HEADER_LEN);
            prop_assert_eq!(parse(&out[..HEADER_LEN]), Ok(header));
            prop_assert_eq!(&out[HEADER_LEN..], &[0xee; 6]);
        }
    }
}
