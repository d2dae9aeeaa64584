//! Socket addresses as C has them, in bytes.

use crate::errno::Errno;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket's family, which decides how addresses are told to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    /// Carries IPv4 addresses in their mapped form (RFC 4291 §2.5.5.2).
    V6,
}

impl Family {
    pub(crate) fn of_domain(domain: i32) -> Result<Family, Errno> {
        match domain {
            libc::AF_INET => Ok(Family::V4),
            libc::AF_INET6 => Ok(Family::V6),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6`; the unspecified address of either family is IPv4's.
pub(crate) fn read(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let short = || Errno(libc::EINVAL);
    let family = bytes
        .first_chunk()
        .map(|family| u16::from_ne_bytes(*family));
    let family = i32::from(family.ok_or_else(short)?);
    let port = bytes.get(2..4).and_then(|port| port.try_into().ok());
    let port = u16::from_be_bytes(port.ok_or_else(short)?);
    let address = match Family::of_domain(family)? {
        Family::V4 => {
            let address = bytes.get(4..8).and_then(|a| <[u8; 4]>::try_from(a).ok());
            IpAddr::V4(Ipv4Addr::from(address.ok_or_else(short)?))
        }
        Family::V6 => {
            let address = bytes.get(8..24).and_then(|a| <[u8; 16]>::try_from(a).ok());
            match Ipv6Addr::from(address.ok_or_else(short)?) {
                Ipv6Addr::UNSPECIFIED => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                address => address.to_canonical(),
            }
        }
    };
    Ok(SocketAddr::new(address, port))
}

/// Writes an address for a socket of this family: as many bytes as it has there, and as many as there is room for in `to`.
pub(crate) fn write(address: SocketAddr, family: Family, to: &mut [u8]) -> usize {
    let mut bytes = Vec::new();
    let port = address.port().to_be_bytes();
    match (family, address.ip()) {
        (Family::V4, IpAddr::V4(v4)) => {
            bytes.extend((libc::AF_INET as u16).to_ne_bytes());
            bytes.extend(port);
            bytes.extend(v4.octets());
            bytes.extend([0; 8]);
        }
        (_, ip) => {
            let v6 = match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
            bytes.extend(port);
            bytes.extend([0; 4]);
            bytes.extend(v6.octets());
            bytes.extend([0; 4]);
        }
    }
    let room = to.len().min(bytes.len());
    if let (Some(to), Some(from)) = (to.get_mut(..room), bytes.get(..room)) {
        to.copy_from_slice(from);
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let address: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        for (family, len) in [(Family::V4, 16), (Family::V6, 28)] {
            let mut bytes = [0; 32];
            assert_eq!(write(address, family, &mut bytes), len);
            assert_eq!(read(&bytes[..len]), Ok(address));
            assert_eq!(read(&bytes[..7]), Err(Errno(libc::EINVAL)));
            assert_eq!(write(address, family, &mut bytes[..3]), len);
        }
        assert_eq!(read(&[99, 0, 0, 0]), Err(Errno(libc::EAFNOSUPPORT)));
    }
}
