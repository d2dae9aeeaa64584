//! What goes on, in which form, and what its sender is told that does not.

use super::*;
use crate::interface::{Attachment, Interface, InterfaceConfig};
use crate::route::Route;
use crate::testing::{self, Stack, bytes_of, ipv4, seal_ipv4};
use braidnet_wire::icmpv4::{self, Icmpv4, unreachable};
use braidnet_wire::ipv4 as wire;
use proptest::prelude::*;

const US: [Address; 2] = [Address::v4([10, 1, 0, 2]), Address::v4([10, 2, 0, 2])];
const LEFT: Address = Address::v4([10, 1, 0, 1]);
const RIGHT: Address = Address::v4([10, 2, 0, 1]);
const UDP: u8 = udp::PROTOCOL;
const MTU: usize = 600;

/// A stack between two networks, the right one of which has the shorter packets.
fn stack_that(forwards: bool) -> Stack {
    let interface = Interface::new(InterfaceConfig {
        addresses: vec![(US[0], Some(24))],
        mtu: 1500,
        mac: None,
        routes: vec![Route::via("10.9.0.0/16".parse().unwrap(), RIGHT)],
        others: vec![Attachment {
            addresses: vec![(US[1], Some(24))],
            mtu: MTU,
            mac: None,
        }],
        forwards,
    });
    Stack::new(interface.unwrap())
}

fn stack() -> Stack {
    stack_that(true)
}

fn changed(mut packet: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut packet);
    seal_ipv4(&mut packet);
    packet
}

fn to_right(payload: &[u8]) -> Vec<u8> {
    ipv4(LEFT, RIGHT, UDP, payload)
}

/// The packet a hop later.
fn a_hop_later(packet: &[u8]) -> Vec<u8> {
    changed(packet.to_vec(), |packet| packet[8] -= 1)
}

/// The packet, come by the right device where it is from there, else by the left one.
fn coming(stack: &mut Stack, packet: &[u8]) -> Message {
    let mut message = stack.message(&[packet]);
    message.set_device(packet[12..15].eq(&[10, 2, 0]).into());
    message
}

/// What leaves, each with the device that it leaves by.
fn leaving(stack: &mut Stack, packet: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let message = coming(stack, packet);
    stack.receive_for_devices(message)
}

#[test]
fn what_is_for_others_goes_on_by_its_route_and_nothing_else_of_it_changes() {
    let rows = [
        ("near", to_right(b"payload"), 1),
        (
            "by way of a gateway",
            ipv4(LEFT, Address::v4([10, 9, 1, 1]), 47, b"x"),
            1,
        ),
        ("back", ipv4(RIGHT, LEFT, 6, &[7; 40]), 0),
        (
            "by where it came, to a gateway",
            ipv4(RIGHT, Address::v4([10, 9, 1, 1]), 6, b"x"),
            1,
        ),
        (
            "of a host beyond",
            ipv4(Address::v4([192, 0, 2, 1]), RIGHT, 6, b"x"),
            1,
        ),
        ("as long as may be", to_right(&[7; MTU - 20]), 1),
        ("two hops left", changed(to_right(b"x"), |p| p[8] = 2), 1),
        ("with marks", changed(to_right(b"x"), |p| p[1] = 0xb9), 1),
        (
            "a fragment",
            changed(to_right(&[7; 16]), |p| p[6..8].copy_from_slice(&[0x20, 9])),
            1,
        ),
        (
            "options",
            changed(to_right(b"\x94\x04\0\0payload"), |p| p[0] = 0x46),
            1,
        ),
        (
            "an echo request",
            testing::icmp(LEFT, RIGHT, &[8, 0, 0, 0, 1, 2, 3, 4]),
            1,
        ),
        (
            "an ICMP error",
            testing::icmp(LEFT, RIGHT, &[3, 1, 0, 0, 0, 0, 0, 0]),
            1,
        ),
    ];
    for (what, packet, device) in rows {
        let mut stack = stack();
        let sent = leaving(&mut stack, &packet);
        assert_eq!(sent, [(device, a_hop_later(&packet))], "{what}");
        assert_eq!(stack.count("ip", "forwarded"), 1, "{what}");
        assert_eq!(stack.counted().len(), 1, "{what}: {:?}", stack.counted());
        assert!(stack.head().is_empty());
        // Padding of a link does not go on.
        let sent = leaving(&mut stack, &[&packet[..], &[0; 9]].concat());
        assert_eq!(sent, [(device, a_hop_later(&packet))], "{what}, padded");
        // Nor does one that others read change.
        let message = coming(&mut stack, &packet);
        let other = message.share(stack.pool()).unwrap();
        let sent = stack.receive_for_devices(message);
        assert_eq!(sent, [(device, a_hop_later(&packet))], "{what}, shared");
        assert_eq!(bytes_of(&other), packet);
    }
}

#[test]
fn what_is_not_to_go_on_is_dropped_by_name_and_nobody_is_told() {
    let from = |source| ipv4(source, RIGHT, UDP, b"x");
    let to = |destination| ipv4(LEFT, Address::v4(destination), UDP, b"x");
    let rows = [
        ("from us", from(US[1]), "ip.source_is_ours"),
        ("from nobody", from(Address::v4([0; 4])), "ip.bad_source"),
        (
            "from loopback",
            from(Address::v4([127, 0, 0, 1])),
            "ip.bad_source",
        ),
        (
            "from a group",
            from(Address::v4([224, 0, 0, 5])),
            "ip.bad_source",
        ),
        ("from all", from(Address::v4([255; 4])), "ip.bad_source"),
        (
            "from all there",
            from(Address::v4([10, 1, 0, 255])),
            "ip.bad_source",
        ),
        ("to loopback", to([127, 0, 0, 1]), "ip.forward_martian"),
        ("to nobody", to([0, 0, 0, 1]), "ip.forward_martian"),
        ("to class E", to([240, 0, 0, 1]), "ip.forward_martian"),
        (
            "from class E",
            from(Address::v4([240, 0, 0, 1])),
            "ip.forward_martian",
        ),
        ("to a link", to([169, 254, 1, 1]), "ip.forward_martian"),
        (
            "from a link",
            from(Address::v4([169, 254, 1, 1])),
            "ip.forward_martian",
        ),
        ("to a group", to([224, 0, 0, 5]), "ip.multicast_not_joined"),
        (
            "a later fragment without a hop",
            changed(to_right(b"x"), |p| {
                p[7] = 9;
                p[8] = 1;
            }),
            "ip.ttl_exceeded",
        ),
        (
            "a later fragment without a route",
            changed(to([192, 0, 2, 1]), |p| p[7] = 9),
            "ip.forward_no_route",
        ),
        (
            "a later fragment for where it came from",
            changed(to([10, 1, 0, 9]), |p| p[7] = 9),
            "ip.forward_no_host",
        ),
    ];
    for (what, packet, counter) in rows {
        let mut stack = stack();
        assert!(leaving(&mut stack, &packet).is_empty(), "{what}");
        let counted: Vec<String> = stack.counted().into_keys().collect();
        assert_eq!(counted, [counter], "{what}");
    }
    // Directed broadcasts are for us, and do not go on (RFC 2644 §2, which takes back RFC 1812 §5.3.5.2).
    let mut stack = stack();
    assert!(leaving(&mut stack, &to([10, 2, 0, 255])).is_empty());
    assert_eq!(stack.count("ip", "forwarded"), 0);
    // Nor does anything where that was not asked for.
    let mut stack = stack_that(false);
    assert!(leaving(&mut stack, &to_right(b"x")).is_empty());
    assert_eq!(stack.count("ip", "not_ours"), 1);
}

#[test]
fn its_sender_is_told_what_cannot_go_on() {
    let nowhere = Address::v4([192, 0, 2, 1]);
    let uncut = |len: usize| changed(to_right(&vec![7; len]), |p| p[6] = 0x40);
    let rows = [
        (
            "the last hop",
            changed(to_right(b"payload!"), |p| p[8] = 1),
            ("ttl_exceeded", 11, 0, 0),
        ),
        (
            "no hop",
            changed(to_right(b"payload!"), |p| p[8] = 0),
            ("ttl_exceeded", 11, 0, 0),
        ),
        (
            "a ping without a hop",
            changed(testing::icmp(LEFT, RIGHT, &[8, 0, 0, 0, 1, 2, 3, 4]), |p| {
                p[8] = 1
            }),
            ("ttl_exceeded", 11, 0, 0),
        ),
        (
            "no route",
            ipv4(LEFT, nowhere, UDP, b"payload!"),
            ("forward_no_route", 3, unreachable::NETWORK, 0),
        ),
        (
            "nobody's on its own link",
            ipv4(LEFT, Address::v4([10, 1, 0, 9]), UDP, b"payload!"),
            ("forward_no_host", 3, unreachable::HOST, 0),
        ),
        (
            "too long",
            uncut(MTU - 19),
            (
                "forward_too_long",
                3,
                unreachable::FRAGMENTATION_NEEDED,
                MTU as u16,
            ),
        ),
    ];
    for (what, packet, (counter, kind, code, mtu)) in rows {
        let mut stack = stack();
        let sent = leaving(&mut stack, &packet);
        let [(0, report)] = &sent[..] else {
            panic!("{what}: {sent:?}")
        };
        let header = wire::parse(report).unwrap();
        // From the address by which it leaves (RFC 1812 §4.3.2.4).
        assert_eq!((header.source, header.destination), (US[0], LEFT), "{what}");
        let body = &report[header.payload_range()];
        assert_eq!((body[0], body[1]), (kind, code), "{what}");
        // As it came.
        let quoted = packet.len().min(icmpv4::MAX_QUOTED_LEN);
        assert_eq!(&body[icmpv4::HEADER_LEN..], &packet[..quoted], "{what}");
        match icmpv4::parse(body).unwrap() {
            Icmpv4::Unreachable { next_hop_mtu, .. } => assert_eq!(next_hop_mtu, mtu, "{what}"),
            Icmpv4::TimeExceeded { .. } => {}
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(stack.count("ip", counter), 1, "{what}");
        // So many a second, and no more.
        for _ in 0..100 {
            leaving(&mut stack, &packet);
        }
        assert!(stack.count("icmp", "unreachable_limited") >= 80, "{what}");
    }
    // Nothing is said of what says that something is wrong.
    let mut stack = stack();
    let error = testing::icmp(LEFT, nowhere, &[3, 1, 0, 0, 0, 0, 0, 0]);
    assert!(leaving(&mut stack, &error).is_empty());
    assert_eq!(stack.count("icmp", "unreachable_unquotable"), 1);
}

/// Fragments by themselves, and put together by a stack that they are for.
#[test]
fn what_is_too_long_goes_on_in_fragments() {
    let payload: Vec<u8> = (0..1400).map(|n| (n * 7 / 3) as u8).collect();
    // A router alert, which each fragment has, and a record of the route, which the first has.
    let options = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
    let with_options = changed(
        ipv4(LEFT, RIGHT, UDP, &[&options[..], &payload].concat()),
        |p| p[0] = 0x48,
    );
    let later = changed(to_right(&payload), |p| p[6..8].copy_from_slice(&[0, 50]));
    let middle = changed(to_right(&payload), |p| p[6..8].copy_from_slice(&[0x20, 50]));
    for (what, packet, first, short, ends) in [
        ("plain", to_right(&payload), 20, 20, true),
        ("with options", with_options, 32, 24, true),
        ("the last fragment", later, 20, 20, true),
        ("a fragment", middle, 20, 20, false),
    ] {
        let mut stack = stack();
        let sent = leaving(&mut stack, &packet);
        let original = wire::parse(&packet).unwrap();
        let mut at = original.fragment_offset;
        let mut whole = Vec::new();
        for (index, (device, part)) in sent.iter().enumerate() {
            let header = wire::parse(part).unwrap();
            let is_last = index + 1 == sent.len();
            assert!(*device == 1 && part.len() <= MTU, "{what}");
            assert_eq!(
                usize::from(header.header_len),
                if index == 0 { first } else { short }
            );
            assert_eq!(header.more_fragments, !(is_last && ends), "{what}");
            assert_eq!((header.fragment_offset, header.ttl), (at, 63), "{what}");
            let named = (header.source, header.destination, header.identification);
            assert_eq!(named, (LEFT, RIGHT, original.identification));
            at += header.payload_range().len() as u16;
            whole.extend_from_slice(&part[header.payload_range()]);
        }
        assert_eq!(sent.len(), 3, "{what}");
        assert!(whole == payload, "{what}");
        assert_eq!(stack.count("ip", "forwarded"), 1);
        assert_eq!(stack.count("ip", "fragments_sent"), 3);
    }
}

/// What the device it came by knows of its checksum, those that it leaves by are told.
#[test]
fn checksums_that_others_see_to_are_seen_to() {
    let datagram = testing::udp((LEFT, 4000), (RIGHT, 53), &[7; 1000]);
    let mut partial = datagram.clone();
    let len = (datagram.len() - 20) as u32;
    let pseudo = Sum::pseudo_header(&LEFT, &RIGHT, UDP, len);
    partial[26..28].copy_from_slice(&pseudo.0.to_ne_bytes());
    for (packet, checksum) in [
        (&datagram, Checksum::Stands),
        (&datagram, Checksum::Verified),
        (&partial, Checksum::Partial),
    ] {
        let mut stack = stack();
        // Back to where the packets are long.
        let back = changed(packet.clone(), |p| {
            p[16..20].copy_from_slice(&[10, 1, 0, 9])
        });
        let mut message = stack.message(&[&back]);
        message.set_device(1);
        message.set_checksum(checksum);
        let sent = stack.receive_as_they_are(message);
        let expected = match checksum {
            Checksum::Partial => Checksum::Partial,
            _ => Checksum::Stands,
        };
        assert_eq!(sent[0].checksum(), expected);
        // In fragments there is nobody else.
        let mut message = stack.message(&[packet]);
        message.set_checksum(checksum);
        let sent = stack.receive_as_they_are(message);
        assert!(sent.iter().all(|part| part.checksum() == Checksum::Stands));
        assert_eq!(bytes_of(&sent[0])[20..28], datagram[20..28], "{checksum:?}");
    }
}

/// A train of datagrams from the left to the right, of these payload bytes each, as a device that offloads hands it up.
fn datagrams(stack: &mut Stack, payload: &[u8], each: usize, dont_fragment: bool) -> Message {
    let header = udp::UdpHeader {
        source_port: 9,
        destination_port: 7,
        len: (udp::HEADER_LEN + payload.len()) as u16,
    };
    let mut datagram = vec![0; udp::HEADER_LEN];
    udp::emit(&header, &mut datagram);
    let pseudo = Sum::pseudo_header(&LEFT, &RIGHT, UDP, header.len.into());
    udp::partly_seal(&mut datagram, pseudo);
    datagram.extend_from_slice(payload);
    let packet = changed(to_right(&datagram), |packet| {
        packet[4..6].copy_from_slice(&[0xff, 0xff]);
        packet[6] = u8::from(dont_fragment) << 6;
    });
    let (first, rest) = packet.split_at(MIN_HEADER_LEN + udp::HEADER_LEN + each);
    let mut message = stack.message(&[first, rest]);
    message.set_segment_bytes(each as u32);
    message.set_checksum(Checksum::Partial);
    message
}

#[test]
fn a_train_of_datagrams_goes_on_whole_where_each_fits() {
    let mut stack = stack();
    let payload = vec![7; 3 * 500 + 1];
    let message = datagrams(&mut stack, &payload, 500, false);
    let sent = stack.receive_as_they_are(message);
    let [train] = &sent[..] else {
        panic!("{} packets", sent.len())
    };
    assert_eq!((train.segments(), train.device()), (4, 1));
    assert_eq!(train.checksum(), Checksum::Partial);
    assert!(wire::parse(&bytes_of(train)).is_ok());
    assert_eq!(stack.count("ip", "forwarded"), 4);
}

#[test]
fn of_a_train_that_does_not_go_on_every_datagram_is_counted() {
    let mut stack = stack();
    let mut message = datagrams(&mut stack, &[7; 64], 1, false);
    let header = message.front_mut(MIN_HEADER_LEN).expect("memory");
    header[8] = 1;
    seal_ipv4(header);
    // ICMP's answer leaves.
    assert_eq!(stack.receive_as_they_are(message).len(), 1);
    assert_eq!(stack.count("ip", "ttl_exceeded"), 64);
}

#[test]
fn each_datagram_of_a_train_that_is_too_long_goes_on_in_fragments() {
    let payload: Vec<u8> = (0..2 * 1000 + 100).map(|at| (at / 7) as u8).collect();
    let mut stack = stack();
    let message = datagrams(&mut stack, &payload, 1000, false);
    let sent = stack.receive_as_they_are(message);
    // Two of two fragments, and one that fits.
    assert_eq!(sent.len(), 5);
    let counts = ["forwarded", "fragmented", "fragments_sent"].map(|name| stack.count("ip", name));
    assert_eq!(counts, [3, 2, 4]);
    let packets: Vec<Vec<u8>> = sent.iter().map(bytes_of).collect();
    let pieces = [&packets[..2], &packets[2..4], &packets[4..]];
    for (number, pieces) in pieces.into_iter().enumerate() {
        let mut datagram = Vec::new();
        for piece in pieces {
            assert!(piece.len() <= MTU);
            let header = wire::parse(piece).unwrap();
            assert_eq!(header.identification, 0xffffu16.wrapping_add(number as u16));
            assert_eq!(usize::from(header.fragment_offset), datagram.len());
            datagram.extend_from_slice(&piece[header.payload_range()]);
        }
        assert_eq!(udp::verify(&LEFT, &RIGHT, &datagram), Ok(()));
        let expected = payload.chunks(1000).nth(number).unwrap();
        assert_eq!(&datagram[udp::HEADER_LEN..], expected);
    }
    // Who does not want that hears of it.
    let message = datagrams(&mut stack, &payload, 1000, true);
    assert_eq!(stack.receive_as_they_are(message).len(), 1);
    assert_eq!(stack.count("ip", "forward_too_long"), 3);
}

proptest! {
    #[test]
    fn the_checksum_stays_right(mut header: [u8; 20], ttl in 1u8..=255) {
        header[0] = 0x45;
        header[8] = ttl;
        seal_ipv4(&mut header);
        let mut expected = header;
        expected[8] -= 1;
        seal_ipv4(&mut expected);
        take_hop(&mut header);
        prop_assert_eq!(header, expected);
    }
}
