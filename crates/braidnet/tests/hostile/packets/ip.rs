//! IPv4: headers, options, fragments, addresses, checksums.

use super::{
    DATA, EVERYBODY, GROUP, OUR_NETWORK, Row, datagram, flip, padded, part, ping, row, syn_from,
};
use crate::packet::{SYN, Segment, echo, fragment, ipv4_with_options, with};
use crate::rig::{EVIL, PORT, TARGET};

fn optioned(options: &[u8]) -> Vec<Vec<u8>> {
    let message = &ping()[20..];
    vec![ipv4_with_options(EVIL, TARGET, 1, options, message)]
}

/// IPv4 packets; each is sent bare and in a frame.
pub const IP: &[Row] = &[
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
        "a loose source route is refused",
        || optioned(&[131, 7, 4, 10, 77, 0, 1]),
        &[("ip.ipv4_source_route", 1)],
        &[],
    ),
    row(
        5,
        "a strict source route that is used up is refused",
        || optioned(&[137, 7, 8, 10, 77, 0, 1]),
        &[("ip.ipv4_source_route", 1)],
        &[],
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
        || vec![part(1, 65528, false, 1000)],
        &[("ip.ipv4_fragment_past_maximum", 1)],
        &[],
    ),
    row(
        21,
        "a first fragment of eight bytes",
        || vec![part(2, 0, true, 8), part(2, 8, false, 8)],
        &[
            ("fragments.reassembled", 1),
            ("fragments.used", 2),
            ("udp.udp_length_past_end", 1),
        ],
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
        &[("fragments.first_too_small", 1)],
        &[],
    ),
    row(
        22,
        "teardrop",
        || vec![part(3, 0, true, 40), part(3, 24, false, 4)],
        &[("fragments.ends_differ", 2)],
        &[],
    ),
    row(
        22,
        "overlap",
        || {
            vec![
                part(4, 0, true, 40),
                part(4, 32, true, 40),
                part(4, 40, false, 8),
            ]
        },
        &[("fragments.overlap", 2), ("fragments.poisoned", 1)],
        &[],
    ),
    row(
        22,
        "two different ends",
        || {
            vec![
                part(5, 40, false, 8),
                part(5, 40, false, 24),
                part(5, 0, true, 40),
            ]
        },
        &[("fragments.ends_differ", 2), ("fragments.poisoned", 1)],
        &[],
    ),
    row(
        24,
        "length no multiple of 8",
        || vec![part(6, 0, true, 41)],
        &[("ip.ipv4_fragment_uneven", 1)],
        &[],
    ),
    row(
        24,
        "nothing",
        || vec![part(7, 0, true, 0), part(7, 8, false, 0)],
        &[("fragments.empty", 2)],
        &[],
    ),
    row(
        24,
        "unequal headers",
        || {
            let first = ipv4_with_options(EVIL, TARGET, 17, &[148, 4, 0, 0], &[0x55; 24]);
            vec![
                fragment(with(first, &[(5, 8)]), 0, true),
                part(8, 24, false, 24),
            ]
        },
        &[("fragments.options_differ", 2)],
        &[],
    ),
    row(
        25,
        "a whole packet among fragments",
        || vec![part(9, 0, true, 40), ping(), part(9, 40, false, 8)],
        &[
            ("fragments.reassembled", 1),
            ("fragments.used", 2),
            ("icmp.echo_answered", 1),
            ("udp.udp_length_past_end", 1),
        ],
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
        &[("tcp.tcp_checksum_wrong", 1)],
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
