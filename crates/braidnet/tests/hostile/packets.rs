//! Packets that need no connection: link, ARP, IP, ICMP, UDP, in one table.

use crate::packet::{
    ACK, End, FIN, Ip, RST, SYN, Segment, arp, echo, fragment, frame, icmp, icmp_error, ipv4,
    ipv4_with_options, parse, udp, with,
};
use crate::rig::{CLOSED_PORT, EVIL, EVIL_MAC, FRIEND, PORT, Rig, TARGET, TARGET_MAC, since};

/// One attack and what is to become of it.
struct Row {
    class: u8,
    what: &'static str,
    packets: fn() -> Vec<Vec<u8>>,
    /// Every counter that grows, beside those of traffic that goes well.
    counted: &'static [(&'static str, u64)],
    /// What comes in answer, as [`describe`] says it.
    answers: &'static [&'static str],
}

const fn row(
    class: u8,
    what: &'static str,
    packets: fn() -> Vec<Vec<u8>>,
    counted: &'static [(&'static str, u64)],
    answers: &'static [&'static str],
) -> Row {
    Row {
        class,
        what,
        packets,
        counted,
        answers,
    }
}

const GROUP: Ip = [224, 0, 0, 1];
const EVERYBODY: Ip = [255; 4];
const OUR_NETWORK: Ip = [10, 77, 0, 255];
const DATA: &[u8] = b"0123456789abcdef";

fn ping() -> Vec<u8> {
    echo(EVIL, TARGET, DATA)
}

fn datagram() -> Vec<u8> {
    udp((EVIL, 4000), (TARGET, 53), DATA)
}

fn optioned(options: &[u8]) -> Vec<Vec<u8>> {
    let message = &ping()[20..];
    vec![ipv4_with_options(EVIL, TARGET, 1, options, message)]
}

/// A part of a datagram.
fn part(offset: u16, more: bool, len: usize) -> Vec<u8> {
    fragment(ipv4(EVIL, TARGET, 17, &vec![0x55; len]), offset, more)
}

/// A SYN from this end.
fn syn_from(from: End) -> Vec<u8> {
    Segment::new(from, (TARGET, PORT)).flags(SYN).packet()
}

/// The front of a segment that the target could have sent.
fn ours(from: End, to: End) -> Vec<u8> {
    Segment::new(from, to).packet()
}

/// An error about a segment of the target's to the friend.
fn error(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
    let quoted = ours((TARGET, PORT), (FRIEND, 49152));
    icmp_error(EVIL, TARGET, kind, code, rest, &quoted[..28])
}

fn too_big(mtu: u16) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    error(3, 4, [0, 0, high, low])
}

fn flip(mut packet: Vec<u8>, at: usize) -> Vec<u8> {
    packet[at] ^= 0x10;
    packet
}

fn padded(mut packet: Vec<u8>, to: usize) -> Vec<u8> {
    packet.resize(to.max(packet.len()), 0xee);
    packet
}

/// IPv4 packets; each is sent bare and in a frame.
const IP: &[Row] = &[
    row(
        1,
        "one byte",
        || vec![vec![0x45]],
        &[("ip.ipv4_truncated", 1)],
        &[],
    ),
    row(
        1,
        "one byte of version 6",
        || vec![vec![0x60]],
        &[("ip.ipv6_not_yet", 1)],
        &[],
    ),
    row(
        1,
        "19 bytes",
        || vec![ping()[..19].to_vec()],
        &[("ip.ipv4_truncated", 1)],
        &[],
    ),
    row(
        1,
        "version 0",
        || vec![with(ping(), &[(0, 0x05)])],
        &[("ip.ipv4_version_wrong", 1)],
        &[],
    ),
    row(
        1,
        "version 15",
        || vec![with(ping(), &[(0, 0xf5)])],
        &[("ip.ipv4_version_wrong", 1)],
        &[],
    ),
    row(
        2,
        "IHL 0",
        || vec![with(ping(), &[(0, 0x40)])],
        &[("ip.ipv4_header_length_too_small", 1)],
        &[],
    ),
    row(
        2,
        "IHL 4",
        || vec![with(ping(), &[(0, 0x44)])],
        &[("ip.ipv4_header_length_too_small", 1)],
        &[],
    ),
    row(
        2,
        "IHL past the end",
        || vec![with(ping()[..28].to_vec(), &[(0, 0x4f)])],
        &[("ip.ipv4_header_length_past_end", 1)],
        &[],
    ),
    row(
        3,
        "total length 19",
        || vec![with(ping(), &[(2, 0), (3, 19)])],
        &[("ip.ipv4_total_length_too_small", 1)],
        &[],
    ),
    row(
        3,
        "total length 0",
        || vec![with(ping(), &[(2, 0), (3, 0)])],
        &[("ip.ipv4_total_length_too_small", 1)],
        &[],
    ),
    row(
        3,
        "total length past the end",
        || vec![with(ping(), &[(3, 200)])],
        &[("ip.ipv4_total_length_past_end", 1)],
        &[],
    ),
    row(
        3,
        "total length 65535",
        || vec![with(ping(), &[(2, 255), (3, 255)])],
        &[("ip.ipv4_total_length_past_end", 1)],
        &[],
    ),
    row(
        3,
        "padding is trimmed",
        || vec![padded(ping(), 900)],
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 24"],
    ),
    row(
        5,
        "option of length 0",
        || optioned(&[7, 0, 4, 0]),
        &[("ip.ipv4_option_too_short", 1)],
        &[],
    ),
    row(
        5,
        "option of length 1",
        || optioned(&[68, 1, 4, 0]),
        &[("ip.ipv4_option_too_short", 1)],
        &[],
    ),
    row(
        5,
        "option without a length",
        || optioned(&[1, 1, 1, 7]),
        &[("ip.ipv4_option_without_length", 1)],
        &[],
    ),
    row(
        5,
        "option past the end",
        || optioned(&[7, 9, 4, 0]),
        &[("ip.ipv4_option_past_end", 1)],
        &[],
    ),
    row(
        5,
        "record route without a pointer",
        || optioned(&[7, 2, 0, 0]),
        &[("ip.ipv4_option_too_short", 1)],
        &[],
    ),
    row(
        5,
        "record route, pointer 3",
        || optioned(&[7, 7, 3, 0, 0, 0, 0]),
        &[("ip.ipv4_option_pointer_wrong", 1)],
        &[],
    ),
    row(
        5,
        "loose source route, pointer 0",
        || optioned(&[131, 7, 0, 0, 0, 0, 0]),
        &[("ip.ipv4_option_pointer_wrong", 1)],
        &[],
    ),
    row(
        5,
        "strict source route, pointer 1",
        || optioned(&[137, 7, 1, 0, 0, 0, 0]),
        &[("ip.ipv4_option_pointer_wrong", 1)],
        &[],
    ),
    row(
        5,
        "timestamp, pointer 4",
        || optioned(&[68, 8, 4, 0, 0, 0, 0, 0]),
        &[("ip.ipv4_option_pointer_wrong", 1)],
        &[],
    ),
    row(
        5,
        "router alert too short",
        || optioned(&[148, 3, 0, 0]),
        &[("ip.ipv4_option_too_short", 1)],
        &[],
    ),
    row(
        5,
        "pointer beyond the option is harmless",
        || optioned(&[7, 7, 255, 0, 0, 0, 0]),
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 24"],
    ),
    row(
        5,
        "a source route is not followed",
        || optioned(&[131, 7, 4, 10, 77, 0, 1]),
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 24"],
    ),
    row(
        12,
        "SYN from nobody",
        || vec![syn_from(([0; 4], 4000))],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        12,
        "SYN from everybody",
        || vec![syn_from((EVERYBODY, 4000))],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        12,
        "SYN from our network's broadcast",
        || vec![syn_from((OUR_NETWORK, 4000))],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        12,
        "SYN from a group",
        || vec![syn_from((GROUP, 4000))],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        12,
        "SYN from a loopback address",
        || vec![syn_from(([127, 0, 0, 1], 4000))],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        12,
        "SYN from ourselves (land)",
        || vec![syn_from((TARGET, PORT))],
        &[("ip.source_is_ours", 1)],
        &[],
    ),
    row(
        12,
        "SYN to everybody",
        || {
            vec![
                Segment::new((EVIL, 4000), (EVERYBODY, PORT))
                    .flags(SYN)
                    .packet(),
            ]
        },
        &[("tcp.bad_address", 1)],
        &[],
    ),
    row(
        12,
        "SYN to a group",
        || {
            vec![
                Segment::new((EVIL, 4000), (GROUP, PORT))
                    .flags(SYN)
                    .packet(),
            ]
        },
        &[("ip.multicast_not_joined", 1)],
        &[],
    ),
    row(
        12,
        "SYN from port 0",
        || vec![syn_from((EVIL, 0))],
        &[("tcp.bad_address", 1)],
        &[],
    ),
    row(
        12,
        "SYN to port 0",
        || vec![Segment::new((EVIL, 4000), (TARGET, 0)).flags(SYN).packet()],
        &[("tcp.bad_address", 1)],
        &[],
    ),
    row(
        12,
        "for another host",
        || vec![echo(EVIL, [10, 77, 0, 99], DATA)],
        &[("ip.not_ours", 1)],
        &[],
    ),
    row(
        21,
        "ping of death",
        || vec![part(65528, false, 1000)],
        &[("ip.ipv4_fragment_past_maximum", 1)],
        &[],
    ),
    row(
        21,
        "first fragment of one byte",
        || vec![part(0, true, 8)],
        &[("ip.fragment_not_yet", 1)],
        &[],
    ),
    row(
        21,
        "tiny TCP fragment",
        || {
            vec![fragment(
                with(syn_from((EVIL, 4000)), &[(2, 0), (3, 28)])[..28].to_vec(),
                0,
                true,
            )]
        },
        &[("ip.fragment_not_yet", 1)],
        &[],
    ),
    row(
        22,
        "teardrop",
        || vec![part(0, true, 40), part(24, false, 4)],
        &[("ip.fragment_not_yet", 2)],
        &[],
    ),
    row(
        22,
        "two different ends",
        || vec![part(0, true, 40), part(40, false, 8), part(40, false, 24)],
        &[("ip.fragment_not_yet", 3)],
        &[],
    ),
    row(
        24,
        "length no multiple of 8",
        || vec![part(0, true, 41)],
        &[("ip.ipv4_fragment_uneven", 1)],
        &[],
    ),
    row(
        24,
        "unequal headers",
        || {
            let message = [0x55; 24];
            let first = fragment(
                ipv4_with_options(EVIL, TARGET, 17, &[1, 1, 1, 1], &message),
                0,
                true,
            );
            vec![
                first,
                fragment(
                    ipv4_with_options(EVIL, TARGET, 17, &[1; 40], &message),
                    24,
                    false,
                ),
            ]
        },
        &[("ip.fragment_not_yet", 2)],
        &[],
    ),
    row(
        25,
        "a whole packet among fragments",
        || vec![part(0, true, 40), ping(), part(40, false, 8)],
        &[("icmp.echo_answered", 1), ("ip.fragment_not_yet", 2)],
        &["icmp 0/0 of 24"],
    ),
    row(
        46,
        "IP checksum wrong",
        || vec![flip(ping(), 11)],
        &[("ip.ipv4_checksum_wrong", 1)],
        &[],
    ),
    row(
        46,
        "TCP checksum wrong",
        || vec![flip(syn_from((EVIL, 4000)), 37)],
        &[("tcp.bad_checksum", 1)],
        &[],
    ),
    row(
        46,
        "UDP checksum wrong",
        || vec![flip(datagram(), 27)],
        &[("udp.udp_checksum_wrong", 1)],
        &[],
    ),
    row(
        46,
        "ICMP checksum wrong",
        || vec![flip(ping(), 23)],
        &[("icmp.icmpv4_checksum_wrong", 1)],
        &[],
    ),
    row(
        46,
        "odd length",
        || vec![echo(EVIL, TARGET, &DATA[..15])],
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 23"],
    ),
];

/// TCP segments for no connection.
const TCP: &[Row] = &[
    row(
        6,
        "19 bytes",
        || vec![ipv4(EVIL, TARGET, 6, &[0; 19])],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        6,
        "no bytes",
        || vec![ipv4(EVIL, TARGET, 6, &[])],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        6,
        "data offset 4",
        || {
            vec![
                Segment {
                    data_offset: Some(4),
                    ..to_listener(SYN)
                }
                .packet(),
            ]
        },
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        6,
        "data offset past the end",
        || {
            vec![
                Segment {
                    data_offset: Some(15),
                    ..to_listener(SYN)
                }
                .packet(),
            ]
        },
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        7,
        "option without a length",
        || vec![to_listener(SYN).options(&[1, 1, 1, 2]).packet()],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        7,
        "option of length 0",
        || vec![to_listener(SYN).options(&[99, 0, 0, 0]).packet()],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        7,
        "option of length 1",
        || vec![to_listener(SYN).options(&[2, 1, 5, 5]).packet()],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        7,
        "option past the end",
        || vec![to_listener(SYN).options(&[2, 5, 5, 5]).packet()],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        7,
        "MSS of length 3",
        || vec![to_listener(SYN).options(&[2, 3, 5, 1]).packet()],
        &[("tcp.malformed", 1)],
        &[],
    ),
    row(
        11,
        "SYN and RST",
        || vec![to_listener(SYN | RST).packet()],
        &[("tcp.tcp_reset_without_connection", 1)],
        &[],
    ),
    row(
        11,
        "no flags",
        || vec![to_listener(0).packet()],
        &[("tcp.tcp_connection_closed", 1)],
        &[],
    ),
    row(
        11,
        "Xmas",
        || vec![to_listener(FIN | 32 | 8).packet()],
        &[("tcp.tcp_connection_closed", 1)],
        &[],
    ),
    row(
        11,
        "RST for nobody",
        || vec![to_closed(RST).packet()],
        &[("tcp.no_connection", 1)],
        &[],
    ),
    row(
        11,
        "SYN and RST for nobody",
        || vec![to_closed(SYN | RST).packet()],
        &[("tcp.no_connection", 1)],
        &[],
    ),
    row(
        11,
        "no flags for nobody",
        || vec![to_closed(0).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp RA 0 0"],
    ),
    row(
        13,
        "ACK for a listener",
        || vec![to_listener(ACK).acking(77).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 77 0"],
    ),
    row(
        13,
        "SYN-ACK for a listener",
        || vec![to_listener(SYN | ACK).acking(77).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 77 0"],
    ),
    row(
        13,
        "SYN for nobody",
        || vec![to_closed(SYN).ahead(0xffff_ffff).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp RA 0 0"],
    ),
    row(
        13,
        "data for nobody",
        || vec![to_closed(ACK).acking(5).data(b"x").packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 5 0"],
    ),
];

fn to_listener(flags: u8) -> Segment {
    Segment::new((EVIL, 4000), (TARGET, PORT)).flags(flags)
}

fn to_closed(flags: u8) -> Segment {
    Segment::new((EVIL, 4000), (TARGET, CLOSED_PORT)).flags(flags)
}

const ICMP: &[Row] = &[
    row(
        35,
        "quote of nothing",
        || vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &[])],
        &[("icmp.icmpv4_quoted_truncated", 1)],
        &[],
    ),
    row(
        35,
        "quote of a header alone",
        || {
            vec![icmp_error(
                EVIL,
                TARGET,
                3,
                1,
                [0; 4],
                &ours((TARGET, PORT), (FRIEND, 1))[..20],
            )]
        },
        &[("icmp.icmpv4_quoted_truncated", 1)],
        &[],
    ),
    row(
        35,
        "quote whose options are cut off",
        || {
            let quoted = with(ours((TARGET, PORT), (FRIEND, 1)), &[(0, 0x4f)]);
            vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &quoted[..40])]
        },
        &[("icmp.icmpv4_quoted_truncated", 1)],
        &[],
    ),
    row(
        35,
        "quote with options",
        || {
            let quoted = ipv4_with_options(TARGET, FRIEND, 6, &[1; 40], &[0; 8]);
            vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &quoted)]
        },
        &[("icmp.unreachable_received", 1)],
        &[],
    ),
    row(
        35,
        "quote of version 6",
        || vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &[0x60; 48])],
        &[("icmp.icmpv4_quoted_header_bad", 1)],
        &[],
    ),
    row(
        35,
        "quote of IHL 0",
        || vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &[0x40; 48])],
        &[("icmp.icmpv4_quoted_header_bad", 1)],
        &[],
    ),
    row(
        35,
        "about a packet of somebody else",
        || {
            vec![icmp_error(
                EVIL,
                TARGET,
                3,
                3,
                [0; 4],
                &ours((FRIEND, 7), (EVIL, 9)),
            )]
        },
        &[("icmp.quoted_not_ours", 1)],
        &[],
    ),
    row(
        35,
        "about a flow that is not",
        || {
            vec![icmp_error(
                EVIL,
                TARGET,
                3,
                3,
                [0; 4],
                &ours((TARGET, 5555), (FRIEND, 9)),
            )]
        },
        &[("icmp.unreachable_received", 1)],
        &[],
    ),
    row(
        35,
        "about a listener",
        || {
            vec![icmp_error(
                EVIL,
                TARGET,
                3,
                3,
                [0; 4],
                &ours((TARGET, PORT), ([0; 4], 0)),
            )]
        },
        &[("icmp.quoted_not_ours", 1)],
        &[],
    ),
    row(
        35,
        "about an error",
        || {
            let quoted = icmp_error(
                TARGET,
                FRIEND,
                3,
                1,
                [0; 4],
                &ours((FRIEND, 1), (TARGET, 2)),
            );
            vec![icmp_error(EVIL, TARGET, 3, 1, [0; 4], &quoted)]
        },
        &[("icmp.icmpv4_error_about_error", 1)],
        &[],
    ),
    row(
        35,
        "about the friend's connection, every kind",
        || {
            vec![
                error(3, 0, [0; 4]),
                error(3, 2, [0; 4]),
                error(3, 3, [0; 4]),
                error(11, 0, [0; 4]),
                error(12, 0, [9, 0, 0, 0]),
            ]
        },
        &[
            ("icmp.parameter_problem_received", 1),
            ("icmp.time_exceeded_received", 1),
            ("icmp.unreachable_received", 3),
        ],
        &[],
    ),
    row(
        35,
        "to everybody",
        || {
            vec![icmp_error(
                EVIL,
                EVERYBODY,
                3,
                1,
                [0; 4],
                &ours((TARGET, PORT), (FRIEND, 1)),
            )]
        },
        &[("icmp.error_to_broadcast", 1)],
        &[],
    ),
    row(
        35,
        "seven bytes",
        || vec![ipv4(EVIL, TARGET, 1, &[3, 1, 0xfc, 0xfe, 0, 0, 0])],
        &[("icmp.icmpv4_truncated", 1)],
        &[],
    ),
    row(
        35,
        "an unknown type",
        || vec![icmp(EVIL, TARGET, &[77, 0, 0, 0, 0, 0, 0, 0])],
        &[("icmp.icmpv4_type_unknown", 1)],
        &[],
    ),
    row(
        35,
        "a redirect",
        || vec![error(5, 1, EVIL)],
        &[("icmp.icmpv4_type_unknown", 1)],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU 0",
        || vec![too_big(0)],
        &[("icmp.fragmentation_needed_received", 1)],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU 68",
        || vec![too_big(68)],
        &[("icmp.fragmentation_needed_received", 1)],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU 1279",
        || vec![too_big(1279)],
        &[("icmp.fragmentation_needed_received", 1)],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU above ours",
        || vec![too_big(65535)],
        &[("icmp.fragmentation_needed_received", 1)],
        &[],
    ),
    row(
        37,
        "largest echo",
        || vec![echo(EVIL, TARGET, &[0xaa; 1472])],
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 1480"],
    ),
    row(
        37,
        "empty echo",
        || vec![echo(EVIL, TARGET, &[])],
        &[("icmp.echo_answered", 1)],
        &["icmp 0/0 of 8"],
    ),
    row(
        37,
        "echo of seven bytes",
        || vec![ipv4(EVIL, TARGET, 1, &[8, 0, 0xf7, 0xff, 0, 0, 0])],
        &[("icmp.icmpv4_truncated", 1)],
        &[],
    ),
    row(
        37,
        "echo of code 3",
        || vec![icmp(EVIL, TARGET, &[8, 3, 0, 0, 0, 0, 0, 0])],
        &[("icmp.icmpv4_echo_code_wrong", 1)],
        &[],
    ),
    row(
        37,
        "smurf",
        || vec![echo(EVIL, EVERYBODY, DATA), echo(EVIL, OUR_NETWORK, DATA)],
        &[("icmp.echo_to_broadcast", 2)],
        &[],
    ),
    row(
        37,
        "smurf with a forged source",
        || vec![echo(OUR_NETWORK, TARGET, DATA)],
        &[("ip.bad_source", 1)],
        &[],
    ),
    row(
        37,
        "an echo reply",
        || vec![icmp(EVIL, TARGET, &[0, 0, 0, 0, 0, 0, 0, 0])],
        &[("icmp.echo_reply", 1)],
        &[],
    ),
];

const UDP: &[Row] = &[
    row(
        38,
        "length 7",
        || vec![with_udp(5, 7)],
        &[("udp.udp_length_too_small", 1)],
        &[],
    ),
    row(
        38,
        "length 0",
        || vec![with_udp(5, 0)],
        &[("udp.udp_length_too_small", 1)],
        &[],
    ),
    row(
        38,
        "length past the end",
        || vec![with_udp(5, 200)],
        &[("udp.udp_length_past_end", 1)],
        &[],
    ),
    row(
        38,
        "seven bytes",
        || vec![ipv4(EVIL, TARGET, 17, &[0; 7])],
        &[("udp.udp_truncated", 1)],
        &[],
    ),
    row(
        38,
        "length below the payload, checksum of more",
        || vec![with_udp(5, 12)],
        &[("udp.udp_checksum_wrong", 1)],
        &[],
    ),
    row(
        38,
        "no checksum is legal",
        || vec![without_checksum(datagram())],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "a closed port",
        || vec![datagram()],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "from port 0",
        || vec![udp((EVIL, 0), (TARGET, 53), DATA)],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "to port 0",
        || vec![udp((EVIL, 4000), (TARGET, 0), DATA)],
        &[("udp.port_zero", 1)],
        &[],
    ),
    row(
        38,
        "to everybody",
        || vec![udp((EVIL, 4000), (EVERYBODY, 53), DATA)],
        &[("icmp.unreachable_forbidden", 1), ("udp.port_closed", 1)],
        &[],
    ),
    row(
        38,
        "two stacks that refuse each other's refusal",
        || vec![udp((FRIEND, 53), (TARGET, 53), DATA)],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &[],
    ),
];

fn with_udp(at: usize, len: u8) -> Vec<u8> {
    let mut packet = datagram();
    packet[20 + at] = len;
    packet
}

fn without_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[26..28].fill(0);
    packet
}

/// What belongs to features that the stack does not have.
const ABSENT: &[Row] = &[
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

/// Whole frames.
const LINK: &[Row] = &[
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
const ARP: &[Row] = &[
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

/// What a packet from the target is.
fn describe(packet: &[u8]) -> String {
    if let Some(segment) = parse(packet) {
        let names = ["F", "S", "R", "P", "A", "U", "E", "C"];
        let flags = (0..8).filter(|bit| segment.flags >> bit & 1 != 0);
        let flags: String = flags.map(|bit| names[bit]).collect();
        return format!("tcp {flags} {} {}", segment.seq, segment.ack);
    }
    match packet {
        [0x45, _, a, b, _, _, _, _, _, 1, .., _, _, _, _] if packet.len() >= 28 => {
            let len = u16::from_be_bytes([*a, *b]);
            assert_eq!(
                usize::from(len),
                packet.len(),
                "nothing but the packet leaks"
            );
            format!("icmp {}/{} of {}", packet[20], packet[21], len - 20)
        }
        [0, 1, 8, 0, 6, 4, 0, operation, ..] => format!("arp {operation} of {}", packet.len()),
        _ => format!("{packet:02x?}"),
    }
}

/// Sends every row's packets, as they are or in the attacker's frames, and asserts its outcome and that the friend is well.
fn check(rows: &[Row], ethernet: bool, in_frames_already: bool) {
    let mut rig = Rig::new(ethernet);
    for row in rows {
        let name = format!("class {}: {} (ethernet: {ethernet})", row.class, row.what);
        println!("{name} | {:?} | {:?}", row.counted, row.answers);
        let before = rig.counted();
        for packet in (row.packets)() {
            if in_frames_already {
                rig.inject_frame(&packet);
            } else {
                rig.inject(&packet);
            }
        }
        rig.settle();
        let counted = since(&before, &rig.counted());
        let expected: Vec<_> = row
            .counted
            .iter()
            .map(|(n, c)| (n.to_string(), *c))
            .collect();
        assert_eq!(counted, expected, "{name}");
        let answers: Vec<_> = std::mem::take(&mut rig.captured)
            .iter()
            .map(|p| describe(p))
            .collect();
        assert_eq!(answers, row.answers, "{name}");
        rig.assert_undisturbed();
        assert!(rig.target.used_bytes() <= 4 << 20, "{name}");
        // Lest errors to the attacker be limited.
        rig.pass(braidnet::Duration::from_secs(1));
        assert_eq!(rig.captured.len(), 0, "{name}: it has an afterlife");
    }
}

fn check_on_both(rows: &[Row]) {
    check(rows, false, false);
    check(rows, true, false);
}

#[test]
fn classes_1_to_5_and_12_and_21_to_25_and_46_ip() {
    check_on_both(IP);
}

#[test]
fn classes_6_7_11_13_segments_without_a_connection() {
    check_on_both(TCP);
}

#[test]
fn classes_35_to_37_icmp() {
    check_on_both(ICMP);
}

#[test]
fn class_38_udp() {
    check_on_both(UDP);
}

#[test]
fn classes_26_to_31_and_39_to_42_have_nothing_to_attack() {
    check_on_both(ABSENT);
}

#[test]
fn classes_1_4_45_link() {
    check(LINK, true, true);
}

#[test]
fn class_34_arp() {
    check(ARP, true, true);
}
