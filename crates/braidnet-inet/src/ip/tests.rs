//! IP on a device that carries bare IP packets, with UDP above it to see what gets through.

use super::*;
use crate::route::Route;
use crate::testing::{self, FAR, PEER, Stack, US, bytes_of, ip_interface, ipv4, seal_ipv4};
use braidnet_wire::udp::PROTOCOL as UDP;
use proptest::prelude::*;

const PORT: u16 = 53;

/// A packet that gets through, changed.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = testing::udp((PEER, 4000), (US, PORT), b"payload");
    change(&mut packet);
    packet
}

/// The same with these options and a right checksum.
fn with_options(options: &[u8]) -> Vec<u8> {
    changed(|packet| {
        let len = options.len().next_multiple_of(4);
        packet[0] = 0x45 + (len / 4) as u8;
        packet.splice(20..20, options.iter().copied().chain([0; 3]).take(len));
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        seal_ipv4(packet);
    })
}

fn sealed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    changed(|packet| {
        change(packet);
        seal_ipv4(packet);
    })
}

fn to(destination: Address) -> Vec<u8> {
    testing::udp((PEER, 4000), (destination, PORT), b"payload")
}

fn from(source: Address) -> Vec<u8> {
    testing::udp((source, 4000), (US, PORT), b"payload")
}

fn stack() -> Stack {
    let stack = Stack::new(ip_interface());
    stack.inet.ports.bind(PORT).unwrap();
    stack
}

#[test]
fn hostile_packets_are_dropped_by_name() {
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("1: empty", vec![], "ip.empty"),
        ("1: one byte", vec![0x45], "ip.ipv4_truncated"),
        ("1: one byte of IPv6", vec![0x60], "ip.ipv6_not_yet"),
        (
            "1: 19 bytes",
            changed(|packet| packet.truncate(19)),
            "ip.ipv4_truncated",
        ),
        (
            "1: version 5",
            changed(|packet| packet[0] = 0x55),
            "ip.ipv4_version_wrong",
        ),
        (
            "1: version 0",
            changed(|packet| packet[0] = 0x05),
            "ip.ipv4_version_wrong",
        ),
        ("1: IPv6", vec![0x60; 60], "ip.ipv6_not_yet"),
        (
            "2: IHL 4",
            sealed(|packet| packet[0] = 0x44),
            "ip.ipv4_header_length_too_small",
        ),
        (
            "2: IHL 0",
            sealed(|packet| packet[0] = 0x40),
            "ip.ipv4_header_length_too_small",
        ),
        (
            "2: IHL beyond",
            changed(|packet| packet[0] = 0x4f),
            "ip.ipv4_header_length_past_end",
        ),
        (
            "3: total length 0",
            sealed(|packet| packet[2..4].fill(0)),
            "ip.ipv4_total_length_too_small",
        ),
        (
            "3: total length 19",
            sealed(|packet| packet[3] = 19),
            "ip.ipv4_total_length_too_small",
        ),
        (
            "3: total length beyond",
            sealed(|packet| packet[3] += 1),
            "ip.ipv4_total_length_past_end",
        ),
        (
            "3: total length 65535",
            sealed(|packet| packet[2..4].fill(255)),
            "ip.ipv4_total_length_past_end",
        ),
        (
            "5: option length 0",
            with_options(&[7, 0, 0, 0]),
            "ip.ipv4_option_too_short",
        ),
        (
            "5: option length 1",
            with_options(&[7, 1, 0, 0]),
            "ip.ipv4_option_too_short",
        ),
        (
            "5: option past end",
            with_options(&[7, 5, 4, 0]),
            "ip.ipv4_option_past_end",
        ),
        (
            "5: option without length",
            with_options(&[1, 1, 1, 131]),
            "ip.ipv4_option_without_length",
        ),
        (
            "5: route pointer 3",
            with_options(&[131, 7, 3, 0, 0, 0, 0]),
            "ip.ipv4_option_pointer_wrong",
        ),
        (
            "5: router alert of 2",
            with_options(&[148, 2, 0, 0]),
            "ip.ipv4_option_too_short",
        ),
        ("12: from us (land)", from(US), "ip.source_is_ours"),
        (
            "12: from nobody",
            from(Address::v4([0; 4])),
            "ip.bad_source",
        ),
        ("12: from all", from(Address::v4([255; 4])), "ip.bad_source"),
        (
            "12: from all of the network",
            from(Address::v4([10, 77, 0, 255])),
            "ip.bad_source",
        ),
        (
            "12: from a group",
            from(Address::v4([224, 0, 0, 1])),
            "ip.bad_source",
        ),
        (
            "12: from loopback",
            from(Address::v4([127, 0, 0, 1])),
            "ip.bad_source",
        ),
        ("to another", to(FAR), "ip.not_ours"),
        (
            "to a group",
            to(Address::v4([224, 0, 0, 1])),
            "ip.multicast_not_joined",
        ),
        (
            "21: first fragment",
            sealed(|packet| packet[6] = 0x20),
            "ip.ipv4_fragment_uneven",
        ),
        (
            "21: past 65535",
            sealed(|packet| packet[6..8].copy_from_slice(&[0x1f, 0xff])),
            "ip.ipv4_fragment_past_maximum",
        ),
        (
            "46: checksum wrong",
            changed(|packet| packet[10] ^= 1),
            "ip.ipv4_checksum_wrong",
        ),
        (
            "46: checksum 0",
            changed(|packet| packet[10..12].fill(0)),
            "ip.ipv4_checksum_wrong",
        ),
        (
            "46: checksum all ones",
            changed(|packet| packet[10..12].fill(255)),
            "ip.ipv4_checksum_wrong",
        ),
    ];
    for (class, packet, counter) in rows {
        // Whole, and in blocks of one byte each: nothing but the lengths that the packet claims may matter.
        let pieces: Vec<&[u8]> = packet.chunks(1).collect();
        for pieces in [&[&packet[..]][..], &pieces[..]]
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
            assert_eq!(
                counted,
                [(counter.to_string(), 1)],
                "class {class}, {} blocks",
                pieces.len()
            );
        }
    }
}

#[test]
fn what_is_right_gets_through() {
    let plain = changed(|_| {});
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("plain", plain.clone()),
        ("4: padded to 60", [&plain[..], &[0xee; 25]].concat()),
        ("options", with_options(&[1, 1, 7, 7, 4, 0, 0, 0, 0])),
        ("60 bytes of header", with_options(&[1; 40])),
        ("may not be fragmented", sealed(|packet| packet[6] = 0x40)),
        ("reserved flag", sealed(|packet| packet[6] = 0x80)),
        ("TTL 0", sealed(|packet| packet[8] = 0)),
        ("to all", to(Address::v4([255; 4]))),
        ("to all of the network", to(Address::v4([10, 77, 0, 255]))),
    ];
    for (what, packet) in rows {
        let mut stack = stack();
        assert!(stack.receive(&packet).is_empty(), "{what}");
        let [message] = &stack.head()[..] else {
            panic!("{what}: {:?}", stack.counted())
        };
        assert_eq!(bytes_of(message), b"payload", "{what}");
        assert!(stack.counted().is_empty(), "{what}: {:?}", stack.counted());
    }
}

#[test]
fn a_mixed_run_goes_its_ways_in_order() {
    let tcp = |number: u8| ipv4(PEER, US, tcp::PROTOCOL, &[number; 20]);
    let udp = |number: u8| testing::udp((PEER, 4000), (US, PORT), &[number]);
    let bad = changed(|packet| packet[10] ^= 1);
    let runs: [Vec<Vec<u8>>; 5] = [
        vec![tcp(1), tcp(2), tcp(3), udp(7), bad.clone(), udp(8)],
        vec![tcp(1), tcp(2), tcp(3)],
        vec![tcp(1), udp(7), tcp(2), bad.clone(), tcp(3), udp(8)],
        vec![bad.clone(), tcp(1), udp(7), udp(8), tcp(2), tcp(3)],
        vec![udp(7), tcp(1), tcp(2), udp(8), tcp(3), bad],
    ];
    for run in runs {
        let mut stack = stack();
        let packets: Vec<&[u8]> = run.iter().map(|packet| &packet[..]).collect();
        stack.receive_run(&packets);
        let came: Vec<Vec<u8>> = stack.head().iter().map(bytes_of).collect();
        let tcp: Vec<u8> = came
            .iter()
            .filter(|bytes| bytes.len() == 20)
            .map(|bytes| bytes[0])
            .collect();
        let udp: Vec<u8> = came
            .iter()
            .filter(|bytes| bytes.len() == 1)
            .map(|bytes| bytes[0])
            .collect();
        assert_eq!(tcp, [1, 2, 3]);
        assert_eq!(
            udp,
            if packets.len() == 3 {
                vec![]
            } else {
                vec![7, 8]
            }
        );
        assert_eq!(
            stack.count("ip", "ipv4_checksum_wrong"),
            u64::from(packets.len() > 3)
        );
    }
}

/// A stack hands `Datagram`s down: what stands in the place of TCP passes them on to IP.
fn send(stack: &mut Stack, datagram: Datagram, payload: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut message = stack.message(payload);
    message.set_note(datagram);
    let tcp = stack.inet.layout.tcp;
    stack.send(tcp, message)
}

const TO_PEER: Datagram = Datagram {
    local: US,
    remote: PEER,
    protocol: 6,
    ttl: 0,
    flags: Datagram::UNCUT,
    header_len: 0,
    differentiated_services: 0,
    refusal: 0,
    path_mtu: 0,
};

#[test]
fn headers_are_made() {
    let mut stack = stack();
    for (datagram, ttl, dont_fragment) in [
        (TO_PEER, DEFAULT_TTL, true),
        (
            Datagram {
                protocol: UDP,
                flags: 0,
                ttl: 3,
                ..TO_PEER
            },
            3,
            false,
        ),
        (
            Datagram {
                remote: Address::v4([255; 4]),
                protocol: UDP,
                flags: 0,
                ..TO_PEER
            },
            DEFAULT_TTL,
            false,
        ),
    ] {
        let sent = send(&mut stack, datagram, &[b"head", b"", b"and shared payload"]);
        let [packet] = &sent[..] else {
            panic!("{sent:?}")
        };
        let header = ipv4::parse(packet).unwrap();
        assert_eq!((header.source, header.destination), (US, datagram.remote));
        assert_eq!((header.protocol, header.ttl), (datagram.protocol, ttl));
        assert_eq!(header.dont_fragment, dont_fragment);
        assert_eq!(header.identification == 0, dont_fragment);
        assert_eq!(&packet[header.payload_range()], b"headand shared payload");
    }
}

/// RFC 791 §3.2: fragments of multiples of 8 bytes, but the last, that name one datagram and say where they belong.
#[test]
fn what_is_longer_than_a_packet_leaves_in_fragments() {
    let payload: Vec<u8> = (0..65_515).map(|index| (index * 7 / 3) as u8).collect();
    for len in [1480, 1481, 1488, 2959, 2960, 2961, 20_000, 65_515] {
        let mut stack = stack();
        let payload = &payload[..len];
        let datagram = Datagram {
            protocol: UDP,
            flags: 0,
            ttl: 9,
            ..TO_PEER
        };
        let pieces: Vec<&[u8]> = payload.chunks(1000).collect();
        let mut whole = Vec::new();
        for pieces in [&[payload][..], &pieces] {
            let sent = send(&mut stack, datagram, pieces);
            assert_eq!(sent.len(), len.div_ceil(1480), "{len}");
            whole.clear();
            for (index, packet) in sent.iter().enumerate() {
                let header = ipv4::parse(packet).unwrap();
                assert!(packet.len() <= testing::MTU && !header.dont_fragment);
                assert_eq!(usize::from(header.fragment_offset), whole.len());
                assert_eq!(header.more_fragments, index + 1 < sent.len());
                let first = ipv4::parse(&sent[0]).unwrap();
                let like = Ipv4Header {
                    fragment_offset: header.fragment_offset,
                    more_fragments: header.more_fragments,
                    total_len: header.total_len,
                    ..first
                };
                assert_eq!((header, header.ttl), (like, 9));
                whole.extend_from_slice(&packet[header.payload_range()]);
            }
            assert!(whole == payload, "{len}");
        }
        let cut = u64::from(len > 1480);
        assert_eq!(stack.count("ip", "fragmented"), 2 * cut);
        assert_eq!(
            stack.count("ip", "fragments_sent"),
            2 * cut * len.div_ceil(1480) as u64
        );
    }
}

/// RFC 3168 §5: what the field says reaches TCP, of usual packets and others, and what TCP says stands in it.
#[test]
fn marks_pass_both_ways() {
    for field in 0..4 {
        let mut stack = stack();
        for options in [&[][..], &[1; 4]] {
            let mut packet = ipv4(PEER, US, tcp::PROTOCOL, &[7; 20]);
            packet[0] += (options.len() / 4) as u8;
            packet.splice(20..20, options.iter().copied());
            let total = packet.len() as u16;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet[1] = 0xb8 | field;
            seal_ipv4(&mut packet);
            stack.receive(&packet);
            let [message] = &stack.head()[..] else {
                panic!("{:?}", stack.counted());
            };
            assert_eq!(message.note::<Datagram>().flags, field << 6);
        }
        let marked = Datagram {
            flags: field << 6,
            ..TO_PEER
        };
        let sent = send(&mut stack, marked, &[b"data"]);
        assert_eq!(ipv4::parse(&sent[0]).unwrap().type_of_service, field);
    }
}

#[test]
fn identifications_of_a_pair_follow_each_other() {
    let mut stack = stack();
    let mut next = |destination| {
        let sent = send(
            &mut stack,
            Datagram {
                remote: destination,
                protocol: UDP,
                flags: 0,
                ..TO_PEER
            },
            &[b"x"],
        );
        ipv4::parse(&sent[0]).unwrap().identification
    };
    let (first, other, second) = (next(PEER), next(FAR), next(PEER));
    assert_eq!(second, first.wrapping_add(1));
    assert_ne!(other, second);
}

#[test]
fn what_cannot_be_sent_is_dropped_by_name() {
    let fits = vec![7; testing::MTU - 20];
    let too_long = vec![7; testing::MTU - 19];
    let beyond = vec![7; 65_535 - 19];
    let to_all = Datagram {
        protocol: UDP,
        flags: 0,
        ..TO_PEER
    };
    let address = |destination| Datagram {
        remote: destination,
        ..TO_PEER
    };
    let rows = [
        ("fits", TO_PEER, &fits, None),
        (
            "too long for a segment",
            TO_PEER,
            &too_long,
            Some("ip.above_mtu"),
        ),
        ("too long for all", to_all, &beyond, Some("ip.above_mtu")),
        ("to ourselves", address(US), &fits, Some("ip.to_ourselves")),
        (
            "to nobody",
            address(Address::v4([0; 4])),
            &fits,
            Some("ip.bad_destination"),
        ),
        (
            "IPv6",
            address(Address::v6([0x20; 16])),
            &fits,
            Some("ip.bad_destination"),
        ),
    ];
    for (what, datagram, payload, counter) in rows {
        let mut stack = stack();
        let sent = send(&mut stack, datagram, &[payload]);
        assert_eq!(sent.len(), usize::from(counter.is_none()), "{what}");
        let counted: Vec<String> = stack.counted().into_keys().collect();
        assert_eq!(counted, Vec::from_iter(counter), "{what}");
    }
}

#[test]
fn control_messages_do_not_leave() {
    let mut stack = stack();
    let mut message = stack.message(&[b"x"]);
    message.set_kind(Kind::Control);
    message.set_note(TO_PEER);
    let tcp = stack.inet.layout.tcp;
    assert!(stack.send(tcp, message).is_empty());
    assert_eq!(stack.count("ip", "not_data"), 1);
}

proptest! {
    /// However a packet lies in blocks, whole or damaged, it fares the same.
    #[test]
    fn blocks_make_no_difference(
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        options in 0usize..=40, padding in 0usize..20,
        cuts in proptest::collection::vec(0usize..200, 0..5),
        damage in proptest::option::of((0usize..200, any::<u8>())),
    ) {
        let mut packet = testing::udp((PEER, 4000), (US, PORT), &payload);
        let len = options.next_multiple_of(4);
        packet[0] = 0x45 + (len / 4) as u8;
        packet.splice(20..20, core::iter::repeat_n(1, len));
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        seal_ipv4(&mut packet);
        packet.extend(core::iter::repeat_n(0xee, padding));
        if let Some((at, value)) = damage {
            let at = at % packet.len();
            packet[at] = value;
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % packet.len()).collect();
        cuts.extend([0, packet.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &packet[cut[0]..cut[1]]).collect();

        let (mut whole, mut cut) = (stack(), stack());
        prop_assert_eq!(whole.receive(&packet), cut.receive_pieces(&pieces));
        prop_assert_eq!(whole.counted(), cut.counted());
        let bytes = |stack: &mut Stack| stack.head().iter().map(bytes_of).collect::<Vec<_>>();
        let came = bytes(&mut whole);
        prop_assert_eq!(&came, &bytes(&mut cut));
        if damage.is_none() {
            prop_assert_eq!(came, [payload]);
        }
    }
}

/// On one device of bare packets, too, answers among them.
#[test]
fn what_no_route_is_for_does_not_leave() {
    let beyond = Route::by("192.0.2.0/24".parse().unwrap(), 0);
    let mut stack = Stack::new(testing::routed(None, vec![beyond]));
    for (from, sent) in [(PEER, 1), (FAR, 1), (Address::v4([198, 51, 100, 9]), 0)] {
        let echo = testing::icmp(from, US, &[8, 0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(stack.receive(&echo).len(), sent, "{from:?}");
    }
    assert_eq!(stack.count("ip", "no_route"), 1);
}
