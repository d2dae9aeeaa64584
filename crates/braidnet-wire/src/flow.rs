//! Which flow a packet belongs to: what a packet filter above a driver assigns it by.
//!
//! The flow's hash is [`FlowHasher`](crate::hash::FlowHasher)'s.

use crate::address::{Address, Tuple};
use crate::bytes::{array_at, u16_at};
use crate::icmpv4::{self, Quoted};
use crate::{ipv4, ipv6, tcp, udp};

/// ICMP for IPv6 (RFC 4443 §2.1): errors are the types below 128.
const ICMPV6: u8 = 58;

/// The flow of a raw IPv4 or IPv6 packet, seen from the host that receives it (local is the destination), and its
/// protocol. Nothing is validated that need not be: two packets of one connection always give one flow, and what is
/// malformed gives some flow or none, and is refused by name later.
///
/// - TCP and UDP give their ports.
/// - An ICMP error gives the flow of the packet that it quotes, which is seen from this host too, its sender: it arrives
///   where the connection is. If that packet cannot be read, the error counts as another protocol.
/// - A fragment, the first included, gives the host pair, without ports and with protocol 0, so that all fragments of a
///   datagram come together. So does the quote of a fragment that is not the first.
/// - Any other protocol, IPv6 extension headers included, gives the host pair, without ports, and the protocol.
///
/// `None` for what is neither IPv4 nor IPv6 or too short to tell.
#[inline]
pub fn flow_of(packet: &[u8]) -> Option<(Tuple, u8)> {
    match packet.first()? >> 4 {
        4 => flow_of_v4(packet),
        6 => flow_of_v6(packet),
        _ => None,
    }
}

/// What two TCP or UDP packets over IPv4 have in common if and only if they are of one [flow](flow_of): protocol, addresses and ports as they stand.
/// `None` for all other packets, those with IPv4 options and fragments among them.
#[inline]
pub fn plain_flow_of(packet: &[u8]) -> Option<(u64, u32, u8)> {
    let fixed = packet.first_chunk::<{ ipv4::MIN_HEADER_LEN + 4 }>()?;
    let protocol = fixed[9];
    let is_plain = fixed[0] == 0x45
        && u16_at(fixed, 6) & 0x3fff == 0
        && matches!(protocol, tcp::PROTOCOL | udp::PROTOCOL);
    is_plain.then(|| {
        let addresses = u64::from_ne_bytes(array_at(fixed, 12));
        let ports = u32::from_ne_bytes(array_at(fixed, 20));
        (addresses, ports, protocol)
    })
}

#[inline]
fn flow_of_v4(packet: &[u8]) -> Option<(Tuple, u8)> {
    let fixed = packet.first_chunk::<{ ipv4::MIN_HEADER_LEN }>()?;
    let hosts = Hosts {
        local: Address::v4(array_at(fixed, 16)),
        remote: Address::v4(array_at(fixed, 12)),
    };
    // More fragments, or an offset.
    if u16_at(fixed, 6) & 0x3fff != 0 {
        return Some(hosts.pair(0));
    }
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    let payload = packet.get(header_len.max(ipv4::MIN_HEADER_LEN)..)?;
    match fixed[9] {
        protocol @ (tcp::PROTOCOL | udp::PROTOCOL) => hosts.flow(payload, protocol),
        icmpv4::PROTOCOL => Some(flow_of_error_v4(payload).unwrap_or(hosts.pair(icmpv4::PROTOCOL))),
        protocol => Some(hosts.pair(protocol)),
    }
}

#[inline]
fn flow_of_v6(packet: &[u8]) -> Option<(Tuple, u8)> {
    let fixed = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let hosts = Hosts {
        local: Address::v6(array_at(fixed, 24)),
        remote: Address::v6(array_at(fixed, 8)),
    };
    if hosts.local.is_v4() || hosts.remote.is_v4() {
        // Not to be taken for an IPv4 flow.
        return None;
    }
    let payload = &packet[ipv6::HEADER_LEN..];
    match fixed[6] {
        protocol @ (tcp::PROTOCOL | udp::PROTOCOL) => hosts.flow(payload, protocol),
        ipv6::FRAGMENT => Some(hosts.pair(0)),
        ICMPV6 => Some(flow_of_error_v6(payload).unwrap_or(hosts.pair(ICMPV6))),
        protocol => Some(hosts.pair(protocol)),
    }
}

/// The flow that an ICMP error is about; `None` if the message is no error or the quote is no use.
fn flow_of_error_v4(message: &[u8]) -> Option<(Tuple, u8)> {
    let (fixed, packet) = message.split_first_chunk::<{ icmpv4::HEADER_LEN }>()?;
    if !icmpv4::is_error(fixed[0]) {
        return None;
    }
    let quoted = Quoted::parse(packet).ok()?;
    if let Some(tuple) = quoted.tuple() {
        return Some((tuple, quoted.protocol));
    }
    let hosts = Hosts {
        local: quoted.source,
        remote: quoted.destination,
    };
    Some(hosts.pair(if quoted.fragment_offset == 0 {
        quoted.protocol
    } else {
        0
    }))
}

/// The flow that an ICMPv6 error is about (RFC 4443 §3), without a look behind extension headers.
fn flow_of_error_v6(message: &[u8]) -> Option<(Tuple, u8)> {
    let (fixed, packet) = message.split_first_chunk::<8>()?;
    let (quoted, payload) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
    if fixed[0] >= 128 || quoted[0] >> 4 != 6 {
        return None;
    }
    let hosts = Hosts {
        local: Address::v6(array_at(quoted, 8)),
        remote: Address::v6(array_at(quoted, 24)),
    };
    if hosts.local.is_v4() || hosts.remote.is_v4() {
        return None;
    }
    match quoted[6] {
        protocol @ (tcp::PROTOCOL | udp::PROTOCOL) => {
            let (tuple, protocol) = hosts.flow(payload, protocol)?;
            // `flow` takes the ports as a receiver does; this packet was sent from here.
            let (local_port, remote_port) = (tuple.remote_port, tuple.local_port);
            Some((
                Tuple {
                    local_port,
                    remote_port,
                    ..tuple
                },
                protocol,
            ))
        }
        ipv6::FRAGMENT => Some(hosts.pair(0)),
        protocol => Some(hosts.pair(protocol)),
    }
}

struct Hosts {
    local: Address,
    remote: Address,
}

impl Hosts {
    /// The flow of a received transport header.
    #[inline]
    fn flow(self, transport: &[u8], protocol: u8) -> Option<(Tuple, u8)> {
        let ports = transport.first_chunk::<4>()?;
        let (remote_port, local_port) = (u16_at(ports, 0), u16_at(ports, 2));
        Some((
            Tuple {
                local: self.local,
                remote: self.remote,
                local_port,
                remote_port,
            },
            protocol,
        ))
    }

    /// The flow of all packets of the protocol between these hosts.
    #[inline]
    fn pair(self, protocol: u8) -> (Tuple, u8) {
        let Hosts { local, remote } = self;
        (
            Tuple {
                local,
                remote,
                local_port: 0,
                remote_port: 0,
            },
            protocol,
        )
    }
}

#[cfg(test)]
mod tests;
