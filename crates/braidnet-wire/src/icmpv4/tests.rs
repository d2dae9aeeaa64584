use super::*;
use crate::address::{Address, Tuple};
use crate::ipv4::{self, Ipv4Header};
use proptest::prelude::*;

/// A message with its checksum made right.
fn message(fixed: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut bytes = [&fixed[..], body].concat();
    bytes[2..4].fill(0);
    let checksum = Sum::of(&bytes).finish_bytes();
    bytes[2..4].copy_from_slice(&checksum);
    bytes
}

/// A packet as this host sends it, from port 0x1234 to port 80.
fn sent(protocol: u8, payload: usize) -> Vec<u8> {
    let header = Ipv4Header {
        source: Address::v4([10, 0, 0, 1]),
        destination: Address::v4([10, 0, 0, 2]),
        protocol,
        ttl: 64,
        total_len: 20 + payload as u16,
        ..Ipv4Header::default()
    };
    let mut bytes = vec![0; 20 + payload];
    ipv4::emit(&header, &mut bytes);
    for (at, byte) in [0x12, 0x34, 0, 80].into_iter().enumerate().take(payload) {
        bytes[20 + at] = byte;
    }
    bytes
}

fn unreachable(packet: &[u8]) -> Vec<u8> {
    message([3, 4, 0, 0, 0, 0, 0x05, 0xdc], packet)
}

#[test]
fn hostile_messages_are_refused_by_name() {
    let quoting = |at: usize, value: u8| {
        let mut packet = sent(6, 8);
        packet[at] = value;
        unreachable(&packet)
    };
    let about_error = || {
        let mut packet = sent(1, 8);
        packet[20] = 3;
        unreachable(&packet)
    };
    let mut damaged = message([8, 0, 0, 0, 0, 1, 0, 1], b"data");
    damaged[9] ^= 1;
    let rows: [(&str, Vec<u8>, Icmpv4Error); 14] = [
        ("1: empty", vec![], Icmpv4Error::Truncated),
        ("37: one byte short", vec![0xff; 7], Icmpv4Error::Truncated),
        ("46: checksum", damaged, Icmpv4Error::Checksum),
        ("46: all zeros", vec![0; 8], Icmpv4Error::Checksum),
        (
            "37: timestamp request",
            message([13, 0, 0, 0, 0, 0, 0, 0], &[]),
            Icmpv4Error::UnknownType,
        ),
        (
            "33: redirect",
            message([5, 0, 0, 0, 0, 0, 0, 0], &sent(6, 8)),
            Icmpv4Error::UnknownType,
        ),
        (
            "37: echo with a code",
            message([8, 1, 0, 0, 0, 0, 0, 0], &[]),
            Icmpv4Error::EchoCode,
        ),
        (
            "35: nothing quoted",
            unreachable(&[]),
            Icmpv4Error::QuotedTruncated,
        ),
        (
            "35: half a header quoted",
            unreachable(&sent(6, 8)[..19]),
            Icmpv4Error::QuotedTruncated,
        ),
        (
            "35: 7 bytes of payload",
            unreachable(&sent(6, 7)),
            Icmpv4Error::QuotedTruncated,
        ),
        (
            "35: options past the end",
            quoting(0, 0x4f),
            Icmpv4Error::QuotedTruncated,
        ),
        (
            "35: quoted version 6",
            quoting(0, 0x65),
            Icmpv4Error::QuotedHeader,
        ),
        (
            "35: quoted IHL 4",
            quoting(0, 0x44),
            Icmpv4Error::QuotedHeader,
        ),
        (
            "35: about an error",
            about_error(),
            Icmpv4Error::ErrorAboutError,
        ),
    ];
    for (class, bytes, refusal) in rows {
        assert_eq!(parse(&bytes), Err(refusal), "class {class}");
    }
}

/// Class 35: the flow is found behind options, and not made up where there is none.
#[test]
fn the_quoted_flow_is_seen_from_its_sender() {
    let tuple = Tuple {
        local: Address::v4([10, 0, 0, 1]),
        remote: Address::v4([10, 0, 0, 2]),
        local_port: 0x1234,
        remote_port: 80,
    };
    let quoted = |packet: &[u8]| match parse(&unreachable(packet)) {
        Ok(Icmpv4::Unreachable {
            code: 4,
            next_hop_mtu: 1500,
            quoted,
        }) => quoted.tuple(),
        other => panic!("{other:?}"),
    };
    assert_eq!(quoted(&sent(6, 8)), Some(tuple));
    assert_eq!(quoted(&sent(17, 500)), Some(tuple));
    assert_eq!(quoted(&sent(1, 8)), None, "an echo of ours has no ports");
    let mut with_options = sent(6, 8);
    with_options[0] = 0x46;
    with_options.splice(20..20, [1, 1, 1, 0]);
    assert_eq!(quoted(&with_options), Some(tuple));
    let mut fragment = sent(6, 8);
    fragment[7] = 1;
    assert_eq!(quoted(&fragment), None);
    // What looks like the type of an error is data of an echo.
    let mut fragment = sent(1, 8);
    (fragment[7], fragment[20]) = (1, 3);
    assert_eq!(quoted(&fragment), None);
}

/// Class 37: an error never grows past 576 bytes.
#[test]
fn quotes_are_cut() {
    let packet = sent(17, 1400);
    let quoted = Quoted::parse(&packet).expect("sound");
    let error = Icmpv4::Unreachable {
        code: unreachable::PORT,
        next_hop_mtu: 0,
        quoted,
    };
    let mut out = [0; 1500];
    let len = emit(&error, &mut out);
    assert_eq!((len, message_len(&error)), (556, 556));
    match parse(&out[..len]) {
        Ok(Icmpv4::Unreachable {
            code: 3, quoted, ..
        }) => assert_eq!(quoted.packet, &packet[..548]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_requests_are_answered() {
    let rows = [
        (
            message([0, 0, 0, 0, 0, 1, 0, 1], b"x"),
            Err(Icmpv4Error::UnknownType),
        ),
        (
            message([8, 3, 0, 0, 0, 1, 0, 1], b"x"),
            Err(Icmpv4Error::EchoCode),
        ),
        (vec![8; 7], Err(Icmpv4Error::Truncated)),
        (message([8, 0, 0, 0, 0, 1, 0, 1], b"x"), Ok(())),
    ];
    for (mut bytes, outcome) in rows {
        let before = bytes.clone();
        assert_eq!(answer_echo(&mut bytes), outcome);
        assert_eq!(
            bytes == before,
            outcome.is_err(),
            "what is refused is left alone"
        );
    }
}

/// Class 46: the sum of the reply is the other zero.
#[test]
fn an_echo_of_zeros_is_answered() {
    let mut bytes = message([8, 0, 0, 0, 0, 0, 0, 0], &[0; 56]);
    assert_eq!(answer_echo(&mut bytes), Ok(()));
    let echo = Echo {
        identifier: 0,
        sequence: 0,
        data: &[0; 56],
    };
    assert_eq!(parse(&bytes), Ok(Icmpv4::EchoReply(echo)));
}

proptest! {
    #[test]
    fn echoes_are_emitted_parsed_and_answered(
        identifier: u16, sequence: u16, data in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let echo = Echo { identifier, sequence, data: &data };
        let mut out = vec![0xee; HEADER_LEN + data.len() + 1];
        let len = emit(&Icmpv4::EchoRequest(echo), &mut out);
        prop_assert_eq!((len, out[len]), (HEADER_LEN + data.len(), 0xee));
        prop_assert_eq!(parse(&out[..len]), Ok(Icmpv4::EchoRequest(echo)));
        prop_assert_eq!(answer_echo(&mut out[..len]), Ok(()));
        prop_assert_eq!(parse(&out[..len]), Ok(Icmpv4::EchoReply(echo)));
    }

    #[test]
    fn errors_are_emitted_and_parsed(
        code: u8, value: u16, protocol in 2u8.., payload in 8usize..600, kind in 0..3,
    ) {
        let packet = sent(protocol, payload);
        let packet = &packet[..packet.len().min(MAX_QUOTED_LEN)];
        let quoted = Quoted::parse(packet).expect("sound");
        let error = match kind {
            0 => Icmpv4::Unreachable { code, next_hop_mtu: value, quoted },
            1 => Icmpv4::TimeExceeded { code, quoted },
            _ => Icmpv4::ParameterProblem { code, pointer: value as u8, quoted },
        };
        let mut out = [0xee; 700];
        let len = emit(&error, &mut out);
        prop_assert_eq!(parse(&out[..len]), Ok(error));
        prop_assert!(out[len..].iter().all(|byte| *byte == 0xee));
    }

    #[test]
    fn no_bytes_panic(fixed: [u8; 8], body in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut fixed = fixed;
        fixed[0] %= 16;
        let _ = parse(&message(fixed, &body));
        let _ = Quoted::parse(&body);
        let _ = answer_echo(&mut body.clone());
    }
}
