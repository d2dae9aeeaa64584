//! ICMP on a device that carries bare IP packets.

use super::*;
use crate::testing::{
    self, FAR, MTU, PEER, ROUTER, Stack, US, icmp, ip_interface, ipv4, seal_ipv4,
};
use braidnet_wire::address::Address;
use braidnet_wire::icmpv4::Echo;
use braidnet_wire::time::Instant;

const BROADCAST: Address = Address::v4([10, 77, 0, 255]);

fn stack() -> Stack {
    Stack::new(ip_interface())
}

fn echo_request(data: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0x12, 0x34, 0, 1], data].concat()
}

/// The ICMP message of a packet from us.
fn message_of(packet: &[u8], to: Address) -> Vec<u8> {
    let header = wire_parse(packet);
    assert_eq!(
        (header.source, header.destination, header.protocol),
        (US, to, PROTOCOL)
    );
    packet[header.payload_range()].to_vec()
}

fn wire_parse(packet: &[u8]) -> ipv4::Ipv4Header {
    braidnet_wire::ipv4::parse(packet).unwrap()
}

#[test]
fn echoes_are_answered_up_to_the_mtu() {
    for len in [0, 1, 2, 7, 8, 56, 57, 1000, MTU - 29, MTU - 28] {
        let data: Vec<u8> = (0..len).map(|index| index as u8).collect();
        let packet = icmp(PEER, US, &echo_request(&data));
        let mut pieces: Vec<Vec<&[u8]>> = vec![vec![&packet], packet.chunks(9).collect()];
        pieces.push(vec![&packet[..20], &packet[20..28], &packet[28..]]);
        for pieces in pieces {
            let mut stack = stack();
            let sent = stack.receive_pieces(&pieces);
            let [reply] = &sent[..] else {
                panic!("{len}: {:?}", stack.counted())
            };
            let expected = Icmpv4::EchoReply(Echo {
                identifier: 0x1234,
                sequence: 1,
                data: &data,
            });
            assert_eq!(
                icmpv4::parse(&message_of(reply, PEER)),
                Ok(expected),
                "{len}"
            );
            assert_eq!(
                stack.counted().into_keys().collect::<Vec<_>>(),
                ["icmp.echo_answered"]
            );
        }
    }
}

/// Class 37: the reply to an echo of any length has all its data, in as many packets as it needs.
#[test]
fn long_echoes_are_answered_in_fragments() {
    for len in [MTU - 27, 20_000, 65_507] {
        let data: Vec<u8> = (0..len).map(|index| (index / 3) as u8).collect();
        let request = icmp(PEER, US, &echo_request(&data));
        let mut stack = stack();
        let replies = stack.receive(&request);
        assert_eq!(replies.len(), (len + 8).div_ceil(1480));
        let reply: Vec<u8> = replies
            .iter()
            .flat_map(|reply| message_of(reply, PEER))
            .collect();
        let expected = Icmpv4::EchoReply(Echo {
            identifier: 0x1234,
            sequence: 1,
            data: &data,
        });
        assert!(icmpv4::parse(&reply) == Ok(expected), "{len}");
    }
}

/// RFC 1349 §5.1; a mark of the network's on the request (RFC 3168 §5) is none of the reply's.
#[test]
fn a_reply_has_the_type_of_service_of_its_request() {
    for field in [0, 0x10, 0x08, 0xb8, 0xfc, 0xff] {
        let mut packet = icmp(PEER, US, &echo_request(b"data"));
        packet[1] = field;
        seal_ipv4(&mut packet);
        let sent = stack().receive(&packet);
        assert_eq!(wire_parse(&sent[0]).type_of_service, field & 0xfc);
    }
}

/// Class 25: what is answered in place must be ours alone.
#[test]
fn a_shared_request_is_answered_and_left_as_it_is() {
    let packet = icmp(PEER, US, &echo_request(b"data"));
    let mut stack = stack();
    let message = stack.message(&[&packet]);
    let kept = message.share(stack.pool()).unwrap();
    let sent = stack.receive_message(message);
    let expected = Icmpv4::EchoReply(Echo {
        identifier: 0x1234,
        sequence: 1,
        data: b"data",
    });
    assert_eq!(icmpv4::parse(&message_of(&sent[0], PEER)), Ok(expected));
    assert_eq!(kept.bytes(), packet);
}

/// An error about `quoted` from the router.
fn error(message_type: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
    icmp(
        ROUTER,
        US,
        &[&[message_type, code, 0, 0, 0, 0, 0, 0], quoted].concat(),
    )
}

#[test]
fn messages_fare_by_name() {
    // Of a protocol that nobody here speaks, so that nobody is to be told.
    let ours = ipv4(US, FAR, 132, &[0, 7, 0, 9, 0, 8, 0, 0]);
    let with = |at: usize, bytes: &[u8]| {
        let mut quoted = ours.clone();
        quoted[at..at + bytes.len()].copy_from_slice(bytes);
        quoted
    };
    let wrong_sum = {
        let mut packet = icmp(PEER, US, &echo_request(b"data"));
        packet[22] ^= 1;
        packet
    };
    let mut options = ours.clone();
    options[0] = 0x47;
    options.splice(20..20, [1; 8]);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("1: empty", ipv4(PEER, US, 1, &[]), "icmp.icmpv4_truncated"),
        (
            "1: 7 bytes",
            ipv4(PEER, US, 1, &[8, 0, 0xf7, 0xff, 0, 0, 0]),
            "icmp.icmpv4_truncated",
        ),
        (
            "46: wrong checksum",
            wrong_sum,
            "icmp.icmpv4_checksum_wrong",
        ),
        (
            "46: checksum 0",
            ipv4(PEER, US, 1, &echo_request(b"data")),
            "icmp.icmpv4_checksum_wrong",
        ),
        (
            "37: code",
            icmp(PEER, US, &[8, 1, 0, 0, 0, 0, 0, 0]),
            "icmp.icmpv4_echo_code_wrong",
        ),
        (
            "37: smurf",
            icmp(PEER, BROADCAST, &echo_request(b"data")),
            "icmp.echo_to_broadcast",
        ),
        (
            "reply",
            icmp(PEER, US, &[0, 0, 0, 0, 0, 0, 0, 0]),
            "icmp.echo_reply",
        ),
        ("redirect", error(5, 1, &ours), "icmp.icmpv4_type_unknown"),
        (
            "source quench",
            error(4, 0, &ours),
            "icmp.icmpv4_type_unknown",
        ),
        (
            "timestamp",
            icmp(PEER, US, &[13; 20]),
            "icmp.icmpv4_type_unknown",
        ),
        (
            "unreachable",
            error(3, 1, &ours),
            "icmp.unreachable_received",
        ),
        (
            "36: too big",
            error(3, 4, &ours),
            "icmp.fragmentation_needed_received",
        ),
        (
            "time exceeded",
            error(11, 0, &ours),
            "icmp.time_exceeded_received",
        ),
        (
            "parameter problem",
            error(12, 0, &ours),
            "icmp.parameter_problem_received",
        ),
        (
            "35: options",
            error(3, 1, &options),
            "icmp.unreachable_received",
        ),
        (
            "35: options cut",
            error(3, 1, &options[..28]),
            "icmp.icmpv4_quoted_truncated",
        ),
        (
            "35: nothing quoted",
            error(3, 1, &[]),
            "icmp.icmpv4_quoted_truncated",
        ),
        (
            "35: 27 bytes quoted",
            error(3, 1, &ours[..27]),
            "icmp.icmpv4_quoted_truncated",
        ),
        (
            "35: IPv6 quoted",
            error(3, 1, &with(0, &[0x65])),
            "icmp.icmpv4_quoted_header_bad",
        ),
        (
            "35: IHL 4 quoted",
            error(3, 1, &with(0, &[0x44])),
            "icmp.icmpv4_quoted_header_bad",
        ),
        (
            "35: another's packet",
            error(3, 1, &with(12, &[10, 77, 0, 9])),
            "icmp.quoted_not_ours",
        ),
        (
            "35: to ourselves",
            error(3, 1, &with(16, &[10, 77, 0, 2])),
            "icmp.quoted_not_ours",
        ),
        (
            "35: not the first fragment",
            error(3, 1, &with(6, &[0, 1])),
            "icmp.quoted_not_ours",
        ),
        (
            "35: error about error",
            error(3, 1, &ipv4(US, FAR, 1, &[3; 8])),
            "icmp.icmpv4_error_about_error",
        ),
        (
            "to all",
            {
                let mut packet = error(3, 1, &ours);
                packet[19] = 255;
                seal_ipv4(&mut packet);
                packet
            },
            "icmp.error_to_broadcast",
        ),
    ];
    for (what, packet, counter) in rows {
        let pieces: Vec<&[u8]> = packet.chunks(5).collect();
        for pieces in [&[&packet[..]][..], &pieces] {
            let mut stack = stack();
            assert!(
                stack.receive_pieces(pieces).is_empty(),
                "{what} is answered"
            );
            assert_eq!(
                stack.counted().into_iter().collect::<Vec<_>>(),
                [(counter.to_string(), 1)],
                "{what}"
            );
            assert!(stack.head().is_empty(), "{what}");
        }
    }
}

/// RFC 1122 §4.2.3.9, RFC 1191 §5: what is about a segment of ours goes on to TCP, and names it by its sequence number.
#[test]
fn what_is_about_a_segment_goes_to_tcp() {
    let mut quoted = ipv4(US, FAR, 6, &[0, 7, 0, 9, 0xfe, 0xdc, 0xba, 0x98]);
    quoted[2..4].copy_from_slice(&1500u16.to_be_bytes());
    let with_mtu = |mtu: u16| {
        let [high, low] = mtu.to_be_bytes();
        icmp(
            ROUTER,
            US,
            &[&[3, 4, 0, 0, 0, 0, high, low], &quoted[..]].concat(),
        )
    };
    let plain = |kind, code| error(kind, code, &quoted);
    let rows = [
        (plain(3, 0), Some((News::UNDELIVERED, 0))),
        (plain(3, 1), Some((News::UNDELIVERED, 0))),
        (plain(3, 2), Some((News::UNREACHABLE, 0))),
        (plain(3, 3), Some((News::REFUSED, 0))),
        (plain(3, 5), Some((News::UNDELIVERED, 0))),
        (plain(3, 9), Some((News::UNREACHABLE, 0))),
        (plain(3, 10), Some((News::UNREACHABLE, 0))),
        (plain(3, 13), Some((News::UNREACHABLE, 0))),
        (plain(3, 255), Some((News::UNDELIVERED, 0))),
        (plain(11, 0), Some((News::UNDELIVERED, 0))),
        (plain(12, 0), Some((News::UNDELIVERED, 0))),
        (with_mtu(0), Some((News::TOO_LONG, 0))),
        (with_mtu(68), Some((News::TOO_LONG, 68))),
        (with_mtu(1499), Some((News::TOO_LONG, 1499))),
        // Class 36: no shorter than what was sent.
        (with_mtu(1500), None),
        (with_mtu(65535), None),
    ];
    for (packet, expected) in rows {
        for pieces in [vec![&packet[..]], packet.chunks(5).collect()] {
            let mut stack = stack();
            assert!(stack.receive_pieces(&pieces).is_empty());
            let head = stack.head();
            let Some((what, path_mtu)) = expected else {
                assert!(head.is_empty());
                assert_eq!(stack.count("icmp", "quoted_not_too_long"), 1);
                continue;
            };
            let [message] = &head[..] else {
                panic!("{:?}", stack.counted())
            };
            let news = message.note::<News>();
            assert_eq!((news.what, news.path_mtu), (what, path_mtu));
            assert_eq!(news.arrival.header.seq.value(), 0xfedc_ba98);
            let tuple = news.arrival.tuple;
            assert_eq!((tuple.local, tuple.remote), (US, FAR));
            assert_eq!((tuple.local_port, tuple.remote_port), (7, 9));
            assert_eq!((message.kind(), message.total_len()), (Kind::Control, 0));
        }
    }
}

#[test]
fn refused_datagrams_are_reported_with_what_arrived() {
    let long = testing::udp((PEER, 4000), (US, 9), &[0xab; 1000]);
    let mut options = testing::udp((PEER, 4000), (US, 9), b"with options");
    options[0] = 0x46;
    options.splice(20..20, [7, 4, 4, 0]);
    options[3] += 4;
    seal_ipv4(&mut options);
    let rows = [
        (
            "closed port",
            testing::udp((PEER, 4000), (US, 9), b"x"),
            unreachable::PORT,
        ),
        (
            "empty",
            testing::udp((PEER, 4000), (US, 9), b""),
            unreachable::PORT,
        ),
        ("long", long, unreachable::PORT),
        ("options", options, unreachable::PORT),
        (
            "protocol",
            ipv4(PEER, US, 99, b"12345678"),
            unreachable::PROTOCOL,
        ),
    ];
    for (what, packet, code) in rows {
        let padded = [&packet[..], &[0xee; 20]].concat();
        let cut: Vec<&[u8]> = vec![&packet[..28], &packet[28..]];
        for pieces in [&[&padded[..]][..], &cut] {
            let mut stack = stack();
            let sent = stack.receive_pieces(pieces);
            let [report] = &sent[..] else {
                panic!("{what}: {:?}", stack.counted())
            };
            assert!(report.len() <= 576, "{what}");
            let message = message_of(report, PEER);
            let Ok(Icmpv4::Unreachable {
                code: sent,
                next_hop_mtu: 0,
                quoted,
            }) = icmpv4::parse(&message)
            else {
                panic!("{what}: {message:?}")
            };
            assert_eq!(sent, code, "{what}");
            assert_eq!(quoted.packet, &packet[..packet.len().min(548)], "{what}");
        }
    }
}

#[test]
fn some_datagrams_are_refused_in_silence() {
    let udp = |destination| testing::udp((PEER, 4000), (destination, 9), b"x");
    let protocol = |payload: &[u8]| ipv4(PEER, US, 99, payload);
    let rows = [
        ("broadcast", udp(BROADCAST), "icmp.unreachable_forbidden"),
        (
            "limited broadcast",
            udp(Address::v4([255; 4])),
            "icmp.unreachable_forbidden",
        ),
        (
            "too short to quote",
            protocol(&[1; 7]),
            "icmp.unreachable_unquotable",
        ),
        ("empty", protocol(&[]), "icmp.unreachable_unquotable"),
    ];
    for (what, packet, counter) in rows {
        let mut stack = stack();
        assert!(stack.receive(&packet).is_empty(), "{what}");
        assert_eq!(
            stack.counted().get(counter),
            Some(&1),
            "{what}: {:?}",
            stack.counted()
        );
    }
}

/// What stands in front of a shared message cannot be had, and what stands in front of a copied one is anybody's.
#[test]
fn a_header_that_is_not_there_any_more_is_not_made_up() {
    let packet = testing::udp((PEER, 4000), (US, 9), b"x");
    for (cut, reports) in [(10, 1), (20, 1), (22, 1), (28, 1), (29, 0)] {
        // Where the transport's header begins in another block, both headers are copied into a new one.
        let mut stack = stack();
        let message = stack.message(&[&packet[..cut], &packet[cut..]]);
        let kept = message.share(stack.pool()).unwrap();
        let sent = stack.receive_message(message);
        assert_eq!(sent.len(), reports, "cut at {cut}");
        assert!(
            sent.iter().all(|report| report[28..] == packet),
            "cut at {cut}"
        );
        assert_eq!(
            stack.count("icmp", "unreachable_unquotable"),
            1 - reports as u64
        );
        assert_eq!(testing::bytes_of(&kept), packet);
    }

    let mut stack = stack();
    let mut message = stack.message(&[&packet]);
    message.strip(20);
    message.prepend(20).unwrap().fill(0x5a);
    message.strip(20);
    let datagram = Datagram {
        local: US,
        remote: PEER,
        protocol: 17,
        header_len: 20,
        ..Datagram::default()
    };
    assert!(!restore_header(&mut message, &datagram));
    // Another datagram's, with our addresses: its checksum does not fit.
    let mut message = stack.message(&[&packet]);
    message.front_mut(20).unwrap()[4] ^= 1;
    message.strip(20);
    assert!(!restore_header(&mut message, &datagram));
    for header_len in [0, 4, 16, 24, 61, 255] {
        let mut message = stack.message(&[&packet]);
        message.strip(20);
        assert!(
            !restore_header(
                &mut message,
                &Datagram {
                    header_len,
                    ..datagram
                }
            ),
            "{header_len}"
        );
    }
    let mut message = stack.message(&[&packet]);
    message.strip(20);
    assert!(restore_header(&mut message, &datagram));
    assert_eq!(message.bytes(), packet);
}

#[test]
fn a_flood_gets_few_reports() {
    let mut stack = stack();
    let packet = testing::udp((PEER, 4000), (US, 9), b"x");
    let flood: Vec<&[u8]> = vec![&packet; 1000];
    assert_eq!(stack.receive_run(&flood).len(), 20);
    assert_eq!(stack.count("icmp", "unreachable_limited"), 980);
    stack.turn_at(Instant::from_millis(1000));
    assert_eq!(stack.receive_run(&flood).len(), 20);
}
