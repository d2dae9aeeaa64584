//! Frames in, frames out.

use super::*;
use crate::notes::Datagram;
use crate::testing::{
    self, OUR_MAC, PEER, PEER_MAC, Stack, US, bytes_of, ethernet_interface, frame, frame_between,
    from_us,
};
use braidnet_wire::ethernet::ether_type::{ARP, IPV4, IPV6};

const PORT: u16 = 53;

fn stack() -> Stack {
    let stack = Stack::new(ethernet_interface());
    stack.inet.ports.bind(PORT).unwrap();
    stack
}

fn datagram() -> Vec<u8> {
    testing::udp((PEER, 4000), (US, PORT), b"payload")
}

#[test]
fn hostile_frames_are_dropped_by_name() {
    let to = |station| frame_between(PEER_MAC, station, IPV4, &datagram());
    let from = |station| frame_between(station, OUR_MAC, IPV4, &datagram());
    let group = MacAddress([1, 0, 0x5e, 0, 0, 1]);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("1: empty", vec![], "link.ethernet_truncated"),
        (
            "1: 13 bytes",
            frame(IPV4, &[])[..13].to_vec(),
            "link.ethernet_truncated",
        ),
        ("1: no packet", frame(IPV4, &[]), "ip.empty"),
        (
            "45: 802.3 length",
            frame(46, &datagram()),
            "link.ethernet_length_field",
        ),
        (
            "45: VLAN",
            frame(0x8100, &datagram()),
            "link.ethernet_vlan_tag",
        ),
        (
            "45: VLAN cut",
            frame(0x8100, &[0]),
            "link.ethernet_vlan_tag",
        ),
        (
            "45: stacked VLAN",
            frame(0x88a8, &datagram()),
            "link.ethernet_vlan_tag",
        ),
        (
            "45: from a group",
            from(MacAddress([3, 0, 0, 0, 0, 1])),
            "link.ethernet_source_group",
        ),
        (
            "unknown type",
            frame(0x88cc, &datagram()),
            "link.unknown_type",
        ),
        (
            "to another",
            to(MacAddress([2, 0, 0, 0, 0, 7])),
            "link.other_station",
        ),
        ("from us", from(OUR_MAC), "link.own_frame"),
        (
            "for us, to all stations",
            to(MacAddress::BROADCAST),
            "ip.group_frame",
        ),
        ("for us, to a group", to(group), "ip.group_frame"),
        ("IPv6", frame(IPV6, &[0x60; 40]), "ip.ipv6_not_yet"),
        (
            "IPv6 in IPv4's clothes",
            frame(IPV4, &[0x60; 40]),
            "ip.ipv6_not_yet",
        ),
        (
            "IP in ARP's clothes",
            frame(ARP, &datagram()),
            "arp.arp_hardware_type_wrong",
        ),
    ];
    for (class, bytes, counter) in rows {
        let pieces: Vec<&[u8]> = bytes.chunks(5).collect();
        for pieces in [&[&bytes[..]][..], &pieces]
            .into_iter()
            .filter(|pieces| !pieces.is_empty())
        {
            let mut stack = stack();
            assert!(
                stack.receive_pieces(pieces).is_empty(),
                "class {class} is answered"
            );
            assert!(stack.head().is_empty(), "class {class} gets through");
            let counted: Vec<(String, u64)> = stack.counted().into_iter().collect();
            assert_eq!(counted, [(counter.to_string(), 1)], "class {class}");
        }
    }
}

/// Class 4: what the link padded does not come up, and does not go back.
#[test]
fn padding_stays_out() {
    let packet = testing::udp((PEER, 4000), (US, PORT), b"x");
    let mut padded = frame(IPV4, &packet);
    padded.resize(60, 0xee);
    let mut stack = stack();
    stack.receive(&padded);
    assert_eq!(
        stack.head().iter().map(bytes_of).collect::<Vec<_>>(),
        [b"x"]
    );

    stack.receive(&frame(ARP, &{
        let mut body = vec![0; 46];
        let packet = braidnet_wire::arp::ArpPacket {
            operation: braidnet_wire::arp::Operation::Request,
            sender_hardware: PEER_MAC,
            sender: PEER,
            target_hardware: MacAddress::ZERO,
            target: US,
        };
        braidnet_wire::arp::emit(&packet, &mut body);
        body
    }));
    let mut ping = frame(IPV4, &testing::icmp(PEER, US, &[8, 0, 0, 0, 0, 1, 0, 1]));
    ping.resize(60, 0xee);
    let sent = stack.receive(&ping);
    let (destination, reply) = from_us(&sent[0], IPV4);
    assert_eq!((destination, reply.len()), (PEER_MAC, 28));
}

#[test]
fn broadcast_and_multicast_have_stations_of_their_own() {
    let rows = [
        ([255, 255, 255, 255], MacAddress::BROADCAST),
        ([10, 77, 0, 255], MacAddress::BROADCAST),
        ([224, 0, 0, 251], MacAddress([0x01, 0, 0x5e, 0, 0, 251])),
        ([239, 255, 1, 2], MacAddress([0x01, 0, 0x5e, 0x7f, 1, 2])),
    ];
    for (destination, station) in rows {
        let mut stack = stack();
        let mut message = stack.message(&[b"x"]);
        let destination = Address::v4(destination);
        message.set_note(Datagram {
            local: US,
            remote: destination,
            protocol: 17,
            ..Datagram::default()
        });
        let tcp = stack.inet.layout.tcp;
        let sent = stack.send(tcp, message);
        assert_eq!(from_us(&sent[0], IPV4).0, station);
    }
}

/// Frames for all stations come up where the packet is for all hosts.
#[test]
fn broadcast_datagrams_come_up() {
    let packet = testing::udp(
        (PEER, 4000),
        (Address::v4([10, 77, 0, 255]), PORT),
        b"payload",
    );
    let mut stack = stack();
    stack.receive(&frame_between(
        PEER_MAC,
        MacAddress::BROADCAST,
        IPV4,
        &packet,
    ));
    assert_eq!(stack.head().len(), 1);
}
