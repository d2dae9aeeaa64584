//! Whole frames: Ethernet and ARP.

use super::{GROUP, Row, padded, ping, row};
use crate::packet::{Ip, arp, echo, frame};
use crate::rig::{EVIL, EVIL_MAC, TARGET, TARGET_MAC};

/// Whole frames.
pub const LINK: &[Row] = &[
    row(
        1,
        "an empty packet in a frame",
        || vec![framed(0x0800, &[])],
        &[("ip.empty", 1)],
        &[],
    ),
    row(
        4,
        "padded to 60",
        || vec![padded(framed(0x0800, &echo(EVIL, TARGET, b"x")), 60)],
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 9"],
    ),
    row(
        45,
        "13 bytes",
        || vec![framed(0x0800, &[])[..13].to_vec()],
        &[("link.ethernet_truncated", 1)],
        &[],
    ),
    row(
        45,
        "one byte",
        || vec![vec![2]],
        &[("link.ethernet_truncated", 1)],
        &[],
    ),
    row(
        45,
        "a tag",
        || vec![framed(0x8100, &[0, 1, 8, 0])],
        &[("link.ethernet_vlan_tag", 1)],
        &[],
    ),
    row(
        45,
        "a truncated tag",
        || vec![framed(0x8100, &[0])],
        &[("link.ethernet_vlan_tag", 1)],
        &[],
    ),
    row(
        45,
        "stacked tags",
        || vec![framed(0x88a8, &[0, 1, 0x81, 0, 0, 1, 8, 0])],
        &[("link.ethernet_vlan_tag", 1)],
        &[],
    ),
    row(
        45,
        "802.3 length",
        || {
            vec![
                framed(46, &ping()),
                framed(1535, &ping()),
                framed(0, &ping()),
            ]
        },
        &[("link.ethernet_length_field", 3)],
        &[],
    ),
    row(
        45,
        "an unknown type",
        || vec![framed(0x1234, &ping())],
        &[("link.unknown_type", 1)],
        &[],
    ),
    row(
        45,
        "from a group",
        || vec![frame([1, 0, 0x5e, 0, 0, 1], TARGET_MAC, 0x0800, &ping())],
        &[("link.ethernet_source_group", 1)],
        &[],
    ),
    row(
        45,
        "from everybody",
        || vec![frame([255; 6], TARGET_MAC, 0x0800, &ping())],
        &[("link.ethernet_source_group", 1)],
        &[],
    ),
    row(
        45,
        "from ourselves",
        || vec![frame(TARGET_MAC, TARGET_MAC, 0x0800, &ping())],
        &[("link.own_frame", 1)],
        &[],
    ),
    row(
        45,
        "for another station",
        || vec![frame(EVIL_MAC, [2, 9, 9, 9, 9, 9], 0x0800, &ping())],
        &[("link.other_station", 1)],
        &[],
    ),
    row(
        45,
        "for us, in everybody's frame",
        || vec![frame(EVIL_MAC, [255; 6], 0x0800, &ping())],
        &[("ip.group_frame", 1)],
        &[],
    ),
];

/// ARP packets, each in a frame to everybody.
pub const ARP: &[Row] = &[
    row(
        34,
        "27 bytes",
        || vec![asked(arp(1, EVIL_ONE, TARGET_ONE)[..27].to_vec())],
        &[("arp.arp_truncated", 1)],
        &[],
    ),
    row(
        34,
        "no bytes",
        || vec![asked(vec![])],
        &[("arp.arp_truncated", 1)],
        &[],
    ),
    row(
        34,
        "hardware type",
        || vec![asked(changed(1, 6))],
        &[("arp.arp_hardware_type_wrong", 1)],
        &[],
    ),
    row(
        34,
        "protocol type",
        || vec![asked(changed(2, 0x86))],
        &[("arp.arp_protocol_type_wrong", 1)],
        &[],
    ),
    row(
        34,
        "hardware length 0",
        || vec![asked(changed(4, 0))],
        &[("arp.arp_hardware_length_wrong", 1)],
        &[],
    ),
    row(
        34,
        "hardware length 255",
        || vec![asked(changed(4, 255))],
        &[("arp.arp_hardware_length_wrong", 1)],
        &[],
    ),
    row(
        34,
        "protocol length 16",
        || vec![asked(changed(5, 16))],
        &[("arp.arp_protocol_length_wrong", 1)],
        &[],
    ),
    row(
        34,
        "operation 3",
        || vec![asked(changed(7, 3))],
        &[("arp.arp_operation_unknown", 1)],
        &[],
    ),
    row(
        34,
        "zero sender",
        || vec![asked(arp(1, ([0; 6], EVIL), TARGET_ONE))],
        &[("arp.arp_sender_hardware_bad", 1)],
        &[],
    ),
    row(
        34,
        "broadcast sender",
        || vec![asked(arp(1, ([255; 6], EVIL), TARGET_ONE))],
        &[("arp.arp_sender_hardware_bad", 1)],
        &[],
    ),
    row(
        34,
        "sender with a group's address",
        || vec![asked(arp(1, (EVIL_MAC, GROUP), TARGET_ONE))],
        &[("arp.arp_sender_protocol_bad", 1)],
        &[],
    ),
    row(
        34,
        "reply from address zero",
        || vec![asked(arp(2, (EVIL_MAC, [0; 4]), TARGET_ONE))],
        &[("arp.arp_sender_protocol_bad", 1)],
        &[],
    ),
    row(
        34,
        "sender with a loopback address",
        || vec![asked(arp(1, (EVIL_MAC, [127, 0, 0, 1]), TARGET_ONE))],
        &[("arp.bad_sender", 1)],
        &[],
    ),
    row(
        34,
        "somebody claims our address",
        || {
            vec![
                asked(arp(1, (EVIL_MAC, TARGET), TARGET_ONE)),
                asked(arp(2, (EVIL_MAC, TARGET), TARGET_ONE)),
            ]
        },
        &[("arp.address_conflict", 2)],
        &[],
    ),
    row(
        34,
        "from our own station",
        || vec![asked(arp(1, (TARGET_MAC, EVIL), TARGET_ONE))],
        &[("arp.own_packet", 1)],
        &[],
    ),
    row(
        34,
        "a reply that nobody asked for",
        || vec![asked(arp(2, (EVIL_MAC, [10, 77, 0, 67]), TARGET_ONE))],
        &[("arp.unsolicited", 1)],
        &[],
    ),
    row(
        34,
        "a request is answered, padding and all",
        || vec![padded(asked(arp(1, EVIL_ONE, TARGET_ONE)), 60)],
        &[],
        &["arp 2 of 28"],
    ),
    row(
        34,
        "a probe is answered",
        || vec![asked(arp(1, (EVIL_MAC, [0; 4]), TARGET_ONE))],
        &[],
        &["arp 2 of 28"],
    ),
];

const EVIL_ONE: ([u8; 6], Ip) = (EVIL_MAC, EVIL);
const TARGET_ONE: ([u8; 6], Ip) = ([0; 6], TARGET);

fn asked(packet: Vec<u8>) -> Vec<u8> {
    frame(EVIL_MAC, [255; 6], 0x0806, &packet)
}

fn changed(at: usize, value: u8) -> Vec<u8> {
    let mut packet = arp(1, EVIL_ONE, TARGET_ONE);
    packet[at] = value;
    packet
}

fn framed(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    frame(EVIL_MAC, TARGET_MAC, ether_type, payload)
}
