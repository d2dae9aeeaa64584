use super::*;
use crate::icmpv4::Icmpv4;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use proptest::prelude::*;

const HERE: Address = Address::v4([10, 0, 0, 1]);
const THERE: Address = Address::v4([10, 0, 0, 2]);
const ROUTER: Address = Address::v4([10, 0, 0, 254]);
const HERE6: Address = Address::v6([0x21; 16]);
const THERE6: Address = Address::v6([0x22; 16]);
/// From port 4660 to port 80.
const PORTS: [u8; 8] = [0x12, 0x34, 0, 80, 0, 8, 0, 0];

fn v4(source: Address, destination: Address, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total_len = 20 + payload.len() as u16;
    let header = Ipv4Header {
        source,
        destination,
        protocol,
        total_len,
        ..Ipv4Header::default()
    };
    let mut bytes = vec![0; 20];
    ipv4::emit(&header, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn v6(source: Address, destination: Address, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let payload_len = payload.len() as u16;
    let header = Ipv6Header {
        source,
        destination,
        next_header,
        payload_len,
        ..Ipv6Header::default()
    };
    let mut bytes = vec![0; 40];
    ipv6::emit(&header, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn error_v4(packet: &[u8]) -> Vec<u8> {
    let quoted = Quoted::parse(packet).expect("sound");
    let mut message = [0; 100];
    let len = icmpv4::emit(&Icmpv4::TimeExceeded { code: 0, quoted }, &mut message);
    v4(ROUTER, HERE, 1, &message[..len])
}

fn with(mut packet: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    packet[at] = value;
    packet
}

fn flow(local: Address, remote: Address, ports: (u16, u16), protocol: u8) -> Option<(Tuple, u8)> {
    Some((
        Tuple {
            local,
            remote,
            local_port: ports.0,
            remote_port: ports.1,
        },
        protocol,
    ))
}

#[test]
fn flows_are_seen_by_the_receiver() {
    let with_options = [
        &with(v4(THERE, HERE, 6, &[]), 0, 0x46)[..],
        &[1, 1, 1, 0],
        &PORTS,
    ]
    .concat();
    let unreadable_error = with(error_v4(&v4(HERE, THERE, 6, &PORTS)), 28, 0x65);
    let too_big = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &v6(HERE6, THERE6, 6, &PORTS)].concat();
    let echo6 = [
        &[128, 0, 0, 0, 0, 0, 5, 0][..],
        &v6(HERE6, THERE6, 6, &PORTS),
    ]
    .concat();
    let rows = [
        (
            "TCP",
            v4(THERE, HERE, 6, &PORTS),
            flow(HERE, THERE, (80, 4660), 6),
        ),
        (
            "UDP",
            v4(THERE, HERE, 17, &PORTS),
            flow(HERE, THERE, (80, 4660), 17),
        ),
        ("options", with_options, flow(HERE, THERE, (80, 4660), 6)),
        (
            "another protocol",
            v4(THERE, HERE, 47, &PORTS),
            flow(HERE, THERE, (0, 0), 47),
        ),
        (
            "echo",
            v4(THERE, HERE, 1, &[8, 0, 0, 0, 0, 0, 0, 0]),
            flow(HERE, THERE, (0, 0), 1),
        ),
        (
            "23: first fragment",
            with(v4(THERE, HERE, 6, &PORTS), 6, 0x20),
            flow(HERE, THERE, (0, 0), 0),
        ),
        (
            "23: last fragment",
            with(v4(THERE, HERE, 6, &PORTS), 7, 1),
            flow(HERE, THERE, (0, 0), 0),
        ),
        (
            "don't fragment",
            with(v4(THERE, HERE, 6, &PORTS), 6, 0x40),
            flow(HERE, THERE, (80, 4660), 6),
        ),
        (
            "35: error",
            error_v4(&v4(HERE, THERE, 6, &PORTS)),
            flow(HERE, THERE, (4660, 80), 6),
        ),
        (
            "35: error about a ping",
            error_v4(&v4(HERE, THERE, 1, &[8; 8])),
            flow(HERE, THERE, (0, 0), 1),
        ),
        (
            "35: error about a fragment",
            error_v4(&with(v4(HERE, THERE, 6, &PORTS), 7, 1)),
            flow(HERE, THERE, (0, 0), 0),
        ),
        (
            "35: unreadable error",
            unreadable_error,
            flow(HERE, ROUTER, (0, 0), 1),
        ),
        (
            "v6 TCP",
            v6(THERE6, HERE6, 6, &PORTS),
            flow(HERE6, THERE6, (80, 4660), 6),
        ),
        (
            "v6 extension",
            v6(THERE6, HERE6, 0, &PORTS),
            flow(HERE6, THERE6, (0, 0), 0),
        ),
        (
            "26: v6 fragment",
            v6(THERE6, HERE6, 44, &PORTS),
            flow(HERE6, THERE6, (0, 0), 0),
        ),
        (
            "v6 error",
            v6(THERE6, HERE6, 58, &too_big),
            flow(HERE6, THERE6, (4660, 80), 6),
        ),
        (
            "v6 echo",
            v6(THERE6, HERE6, 58, &echo6),
            flow(HERE6, THERE6, (0, 0), 58),
        ),
        ("1: empty", vec![], None),
        ("1: version 5", vec![0x55; 40], None),
        (
            "1: one byte short",
            v4(THERE, HERE, 6, &PORTS)[..19].to_vec(),
            None,
        ),
        ("6: no ports", v4(THERE, HERE, 6, &PORTS[..3]), None),
        (
            "2: IHL beyond",
            with(v4(THERE, HERE, 6, &PORTS), 0, 0x4f),
            None,
        ),
        (
            "v6 one byte short",
            v6(THERE6, HERE6, 6, &[])[..39].to_vec(),
            None,
        ),
    ];
    for (name, packet, expected) in rows {
        assert_eq!(flow_of(&packet), expected, "{name}");
    }
}

/// A packet with mapped addresses is not the IPv4 flow that it looks like.
#[test]
fn mapped_addresses_have_no_flow() {
    let mut packet = v6(THERE6, HERE6, 6, &PORTS);
    packet[8..24].copy_from_slice(THERE.octets());
    assert_eq!(flow_of(&packet), None);
    packet[24..40].copy_from_slice(HERE.octets());
    assert_eq!(flow_of(&packet), None);
}

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 1..120), version in 4u8..7) {
        bytes[0] = version << 4 | bytes[0] & 15;
        if bytes.len() > 9 {
            bytes[9] %= 18;
            bytes[6] %= 64;
        }
        let _ = flow_of(&bytes);
    }

    /// An error about a packet goes where the packets of its flow go.
    #[test]
    fn errors_meet_their_flow(ports: [u8; 4], udp: bool) {
        let protocol = if udp { 17 } else { 6 };
        let [a, b, c, d] = ports;
        let sent = v4(HERE, THERE, protocol, &[a, b, c, d, 0, 8, 0, 0]);
        let received = v4(THERE, HERE, protocol, &[c, d, a, b, 0, 8, 0, 0]);
        prop_assert!(flow_of(&received).is_some());
        prop_assert_eq!(flow_of(&error_v4(&sent)), flow_of(&received));
    }
}

proptest! {
    /// Packets of few kinds, so that many are of one flow.
    #[test]
    fn plain_packets_are_of_one_flow_if_and_only_if_they_look_alike(
        pair in proptest::array::uniform2((0x44u8..0x47, 0u8..3, 5u8..8, proptest::array::uniform12(0u8..2), 20usize..32))
    ) {
        let packet = |(first, fragment, protocol, flow, len): (u8, u8, u8, [u8; 12], usize)| {
            let mut packet = [0; 32];
            (packet[0], packet[9]) = (first, protocol);
            packet[7] = fragment / 2;
            packet[12..24].copy_from_slice(&flow);
            packet[..len].to_vec()
        };
        let [one, other] = pair.map(packet);
        if let (Some(a), Some(b)) = (plain_flow_of(&one), plain_flow_of(&other)) {
            prop_assert_eq!(a == b, flow_of(&one) == flow_of(&other));
            prop_assert!(flow_of(&one).is_some_and(|(_, protocol)| protocol == one[9]));
        }
    }
}
