//! Addresses and flow tuples for both IP versions.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The third quarter of a mapped address, in little endian.
const MAPPED: u32 = 0xffff_0000;

/// An IP address of either version, as 16 bytes: IPv4 stands in its mapped form `::ffff:a.b.c.d`
/// (RFC 4291 §2.5.5.2), so that tables and comparisons know one shape.
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
pub struct Address([u8; 16]);

impl Address {
    /// The IPv4 address with these four bytes.
    #[inline]
    pub const fn v4(bytes: [u8; 4]) -> Self {
        // One number, not sixteen bytes: what is written in bytes cannot be read in words until it has left the
        // processor's store buffer.
        Address(((u32::from_le_bytes(bytes) as u128) << 96 | (MAPPED as u128) << 64).to_le_bytes())
    }

    /// The IPv6 address with these sixteen bytes.
    #[inline]
    pub const fn v6(bytes: [u8; 16]) -> Self {
        Address(bytes)
    }

    /// The four bytes of an IPv4 address, `None` for IPv6.
    #[inline]
    pub fn as_v4(&self) -> Option<[u8; 4]> {
        let value = u128::from_le_bytes(self.0);
        let (first, second) = (value as u64, (value >> 64) as u32);
        let is_mapped = first | u64::from(second ^ MAPPED) == 0;
        is_mapped.then_some(((value >> 96) as u32).to_le_bytes())
    }

    /// Whether this is an IPv4 address.
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.as_v4().is_some()
    }

    /// All sixteen bytes.
    #[inline]
    pub const fn octets(&self) -> &[u8; 16] {
        &self.0
    }

    /// `0.0.0.0` or `::`.
    pub fn is_unspecified(&self) -> bool {
        match self.as_v4() {
            Some(v4) => v4 == [0; 4],
            None => self.0 == [0; 16],
        }
    }

    /// Multicast, or the IPv4 limited broadcast.
    pub fn is_multicast_or_broadcast(&self) -> bool {
        match self.as_v4() {
            Some(v4) => v4[0] & 0xf0 == 0xe0 || v4 == [255; 4],
            None => self.0[0] == 0xff,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Address::v4(v4.octets()),
            IpAddr::V6(v6) => Address::v6(v6.octets()),
        }
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Address::v4(address.octets())
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        match address.as_v4() {
            Some(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
            None => IpAddr::V6(Ipv6Addr::from(address.0)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The four values that name a flow, seen from this host.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Tuple {
    /// This host's address.
    pub local: Address,
    /// The peer's address.
    pub remote: Address,
    /// This host's port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// The same flow seen from the peer.
    pub const fn reversed(&self) -> Tuple {
        Tuple {
            local: self.remote,
            remote: self.local,
            local_port: self.remote_port,
            remote_port: self.local_port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mapped_addresses_are_v4() {
        let v4 = Address::v4([192, 0, 2, 1]);
        assert_eq!(
            (v4.as_v4(), v4.to_string()),
            (Some([192, 0, 2, 1]), "192.0.2.1".to_string())
        );
        for at in 0..12 {
            let mut bytes = *v4.octets();
            bytes[at] ^= 1;
            assert_eq!(Address::v6(bytes).as_v4(), None, "byte {at}");
        }
        assert_eq!(Address::v6([0; 16]).as_v4(), None);
    }

    #[test]
    fn special_addresses() {
        let special = |address: Address| {
            (
                address.is_unspecified(),
                address.is_multicast_or_broadcast(),
            )
        };
        assert_eq!(special(Address::v4([0; 4])), (true, false));
        assert_eq!(special(Address::v6([0; 16])), (true, false));
        assert_eq!(special(Address::v4([255; 4])), (false, true));
        assert_eq!(special(Address::v4([224, 0, 0, 1])), (false, true));
        assert_eq!(special(Address::v4([240, 0, 0, 1])), (false, false));
        assert_eq!(special(Address::v6([0xff; 16])), (false, true));
        assert_eq!(special(Address::v4([10, 0, 0, 1])), (false, false));
    }
}
