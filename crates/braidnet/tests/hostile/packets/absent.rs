//! What belongs to features that the stack does not have.

use super::{EVERYBODY, GROUP, Row, ping, row};
use crate::packet::{ipv4, udp};
use crate::rig::{EVIL, TARGET};

/// What belongs to features that the stack does not have.
pub const ABSENT: &[Row] = &[
    row(
        26,
        "an atomic fragment of IPv6",
        || vec![ipv6(44, &[17, 0, 0, 0, 0, 0, 0, 1])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        27,
        "an extension header of length 0",
        || vec![ipv6(0, &[0; 8])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        28,
        "a hop-by-hop option past the end",
        || vec![ipv6(0, &[59, 0, 0xc2, 255, 0, 0, 0, 0])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        29,
        "routing header 0",
        || vec![ipv6(43, &[59, 2, 0, 1, 0, 0, 0, 0])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        30,
        "payload length 0",
        || vec![ipv6(59, &[])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        31,
        "a neighbour's option of length 0",
        || vec![ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0, 1, 0])],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        39,
        "IGMP to a group",
        || vec![ipv4(EVIL, GROUP, 2, &[0x11, 0, 0xee, 0xff, 0, 0, 0, 0])],
        &[("ip.multicast_not_joined", 1)],
        &[],
    ),
    row(
        39,
        "IGMP to us",
        || vec![ipv4(EVIL, TARGET, 2, &[0x11, 0, 0xee, 0xff, 0, 0, 0, 0])],
        &[("icmp.unreachable_sent", 1), ("ip.unknown_protocol", 1)],
        &["icmp 3/2 of 36"],
    ),
    row(
        40,
        "DHCP",
        || vec![udp((EVIL, 67), (EVERYBODY, 68), &[2; 240])],
        &[("icmp.unreachable_forbidden", 1), ("udp.port_closed", 1)],
        &[],
    ),
    row(
        41,
        "DNS",
        || vec![udp((EVIL, 53), (TARGET, 5353), &[0xc0, 0x0c, 0xc0])],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 39"],
    ),
    row(
        42,
        "IP in IP in IP",
        || vec![ipv4(EVIL, TARGET, 4, &ipv4(EVIL, TARGET, 4, &ping()))],
        &[("icmp.unreachable_sent", 1), ("ip.unknown_protocol", 1)],
        &["icmp 3/2 of 92"],
    ),
];

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[5] = payload.len() as u8;
    packet[6] = next_header;
    packet.extend_from_slice(payload);
    packet
}
