//! The UDP header (RFC 768).
//!
//! ```
//! use braidnet_wire::address::Address;
//! use braidnet_wire::checksum::Sum;
//! use braidnet_wire::udp;
//!
//! let (here, there) = (Address::v4([192, 0, 2, 1]), Address::v4([192, 0, 2, 2]));
//! let mut datagram = [0; 10];
//! datagram[8..].copy_from_slice(b"hi");
//! let header = udp::UdpHeader { source_port: 4000, destination_port: 53, len: 10 };
//! udp::emit(&header, &mut datagram);
//! let rest = Sum::pseudo_header(&here, &there, udp::PROTOCOL, 10) + Sum::of(b"hi");
//! udp::seal(&mut datagram[..udp::HEADER_LEN], rest);
//!
//! assert_eq!(udp::parse(&datagram), Ok(header));
//! assert_eq!(udp::verify(&here, &there, &datagram), Ok(()));
//! ```

use crate::address::Address;
use crate::bytes::u16_at;
use crate::checksum::Sum;
use crate::refusal::refusals;
use core::ops::Range;

/// UDP's protocol number.
pub const PROTOCOL: u8 = 17;
/// Length in bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 6;

refusals! {
    /// Why a UDP datagram is refused.
    pub enum UdpError {
        /// Fewer than 8 bytes.
        Truncated: "udp_truncated", "shorter than a UDP header";
        /// A length of less than 8, 0 included: jumbograms (RFC 2675) are not spoken here.
        LenTooSmall: "udp_length_too_small", "UDP length inside the header";
        /// A length beyond the IP payload.
        LenPastEnd: "udp_length_past_end", "UDP length past the end of the packet";
        /// The checksum does not match.
        Checksum: "udp_checksum_wrong", "UDP checksum wrong";
        /// No checksum over IPv6 (RFC 8200 §8.1).
        ChecksumMissing: "udp_checksum_missing", "UDP over IPv6 without a checksum";
    }
}

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpHeader {
    /// The sender's port, 0 if it expects no answer.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Length of header and payload in bytes.
    pub len: u16,
}

impl UdpHeader {
    /// Where the payload stands in the IP payload that was parsed; what follows does not belong to the datagram.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        HEADER_LEN..usize::from(self.len)
    }
}

/// Parses the header at the front of an IP payload. The checksum is [`verify`]'s.
///
/// # Errors
///
/// A [`UdpError`] for lengths that contradict each other.
#[inline]
pub fn parse(ip_payload: &[u8]) -> Result<UdpHeader, UdpError> {
    let fixed = match ip_payload.first_chunk::<HEADER_LEN>() {
        Some(fixed) => fixed,
        None => return Err(UdpError::Truncated),
    };
    let len = u16_at(fixed, 4);
    if usize::from(len) < HEADER_LEN {
        return Err(UdpError::LenTooSmall);
    }
    if usize::from(len) > ip_payload.len() {
        return Err(UdpError::LenPastEnd);
    }
    Ok(UdpHeader {
        source_port: u16_at(fixed, 0),
        destination_port: u16_at(fixed, 2),
        len,
    })
}

/// Verifies the checksum of a datagram, cut to the length in its header. A checksum of zero says that there is none,
/// which IPv4 allows (RFC 1122 §4.1.3.4) and IPv6 does not.
///
/// # Errors
///
/// [`UdpError::Checksum`], [`UdpError::ChecksumMissing`] or, if the header is not whole, [`UdpError::Truncated`].
#[inline]
pub fn verify(source: &Address, destination: &Address, datagram: &[u8]) -> Result<(), UdpError> {
    match datagram {
        [_, _, _, _, _, _, 0, 0, ..] if source.is_v4() => return Ok(()),
        [_, _, _, _, _, _, 0, 0, ..] => return Err(UdpError::ChecksumMissing),
        [_, _, _, _, _, _, _, _, ..] => {}
        _ => return Err(UdpError::Truncated),
    }
    let pseudo_header = Sum::pseudo_header(source, destination, PROTOCOL, datagram.len() as u32);
    if pseudo_header.combine(Sum::of(datagram)).is_valid() {
        Ok(())
    } else {
        Err(UdpError::Checksum)
    }
}

/// Writes the header to the front of `out`, without a checksum, and returns its length, 8. [`seal`] fills the checksum
/// in.
///
/// # Panics
///
/// If `out` is shorter than that.
#[inline]
pub fn emit(header: &UdpHeader, out: &mut [u8]) -> usize {
    let mut bytes = [0; HEADER_LEN];
    bytes[..2].copy_from_slice(&header.source_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    bytes[4..6].copy_from_slice(&header.len.to_be_bytes());
    out[..HEADER_LEN].copy_from_slice(&bytes);
    HEADER_LEN
}

/// Sums an emitted header and stores the checksum of its datagram. `rest` is the sum of the pseudo-header and the
/// payload.
///
/// # Panics
///
/// If `header` is shorter than 8 bytes.
#[inline]
pub fn seal(header: &mut [u8], rest: Sum) {
    let field = CHECKSUM_OFFSET..HEADER_LEN;
    header[field.clone()].fill(0);
    let checksum = Sum::of(header).combine(rest).finish_nonzero_bytes();
    header[field].copy_from_slice(&checksum);
}

/// Stores the sum of the pseudo-header in place of the checksum, for a device that adds the rest and complements it.
///
/// # Panics
///
/// If `header` is shorter than 8 bytes.
#[inline]
pub fn partly_seal(header: &mut [u8], pseudo_header: Sum) {
    header[CHECKSUM_OFFSET..HEADER_LEN].copy_from_slice(&pseudo_header.0.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(len: u16, actual: usize) -> Vec<u8> {
        let mut bytes = vec![0; actual];
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    /// Class 38.
    #[test]
    fn hostile_lengths_are_refused_by_name() {
        let rows: [(&str, Vec<u8>, UdpError); 7] = [
            ("1: empty", vec![], UdpError::Truncated),
            ("38: one byte short", vec![8; 7], UdpError::Truncated),
            ("38: length 0", datagram(0, 20), UdpError::LenTooSmall),
            ("38: length 7", datagram(7, 20), UdpError::LenTooSmall),
            (
                "38: length one beyond",
                datagram(21, 20),
                UdpError::LenPastEnd,
            ),
            (
                "38: length far beyond",
                datagram(0xffff, 20),
                UdpError::LenPastEnd,
            ),
            (
                "38: length beyond an empty one",
                datagram(9, 8),
                UdpError::LenPastEnd,
            ),
        ];
        for (class, bytes, refusal) in rows {
            assert_eq!(parse(&bytes), Err(refusal), "class {class}");
        }
        assert_eq!(
            parse(&datagram(8, 8)).map(|header| header.payload_range()),
            Ok(8..8)
        );
        assert_eq!(
            parse(&datagram(9, 20)).map(|header| header.payload_range()),
            Ok(8..9)
        );
    }

    /// Class 38: none is legal over IPv4 only.
    #[test]
    fn a_missing_checksum() {
        let (v4, v6) = (Address::v4([10, 0, 0, 1]), Address::v6([0x20; 16]));
        assert_eq!(verify(&v4, &v4, &datagram(9, 9)), Ok(()));
        assert_eq!(
            verify(&v6, &v6, &datagram(9, 9)),
            Err(UdpError::ChecksumMissing)
        );
        assert_eq!(verify(&v4, &v4, &[0; 7]), Err(UdpError::Truncated));
    }

    /// Class 46: a checksum that comes out as 0 is sent as 0xFFFF.
    #[test]
    fn a_checksum_of_zero_is_sent_as_all_ones() {
        let mut header = datagram(8, 8);
        header[..2].copy_from_slice(&[0xff, 0xf7]);
        seal(&mut header, Sum::ZERO);
        assert_eq!(header[6..], [0xff, 0xff]);
    }

    proptest! {
        /// Class 46: odd lengths too.
        #[test]
        fn what_is_sealed_verifies(
            addresses in any::<([u8; 16], [u8; 16])>(), ports in any::<(u16, u16)>(),
            payload in proptest::collection::vec(any::<u8>(), 0..100), v4: bool, flip in 0usize..100,
        ) {
            let address = |bytes: [u8; 16]| match v4 {
                true => Address::v4([bytes[0], bytes[1], bytes[2], bytes[3]]),
                false => Address::v6(bytes),
            };
            let (source, destination) = (address(addresses.0), address(addresses.1));
            let len = (HEADER_LEN + payload.len()) as u16;
            let header = UdpHeader { source_port: ports.0, destination_port: ports.1, len };
            let mut bytes = vec![0xee; HEADER_LEN];
            prop_assert_eq!(emit(&header, &mut bytes), HEADER_LEN);
            let pseudo_header = Sum::pseudo_header(&source, &destination, PROTOCOL, len.into());
            seal(&mut bytes, pseudo_header + Sum::of(&payload));
            bytes.extend_from_slice(&payload);
            prop_assert_eq!(parse(&bytes), Ok(header));
            prop_assert_eq!(verify(&source, &destination, &bytes), Ok(()));
            // The checksum itself is left out: from all ones it could flip to the legal zero.
            let flip = flip % bytes.len();
            if !(CHECKSUM_OFFSET..HEADER_LEN).contains(&flip) {
                bytes[flip] ^= 0x08;
                prop_assert_eq!(verify(&source, &destination, &bytes), Err(UdpError::Checksum));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(header) = parse(&bytes) {
                prop_assert!(bytes.get(header.payload_range()).is_some());
            }
        }
    }
}
