//! ICMP: errors about what was never sent, and echoes.

use super::{DATA, EVERYBODY, OUR_NETWORK, Row, row};
use crate::packet::{End, Segment, echo, icmp, icmp_error, ipv4, ipv4_with_options, with};
use crate::rig::{EVIL, FRIEND, PORT, TARGET};

/// A segment that the target could have sent.
fn ours(from: End, to: End) -> Vec<u8> {
    Segment::new(from, to).packet()
}

/// An error about a segment of 1500 bytes of the target's to the friend.
fn error(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
    let quoted = ours((TARGET, PORT), (FRIEND, 49152));
    let quoted = with(quoted, &[(2, 5), (3, 0xdc)]);
    icmp_error(EVIL, TARGET, kind, code, rest, &quoted[..28])
}

fn too_big(mtu: u16) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    error(3, 4, [0, 0, high, low])
}

pub const ICMP: &[Row] = &[
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
        &[("icmp.unreachable_received", 1), ("tcp.report_stale", 1)],
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
        &[("icmp.unreachable_received", 1), ("tcp.report_stale", 1)],
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
            ("tcp.report_not_on_its_way", 5),
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
        &[
            ("icmp.fragmentation_needed_received", 1),
            ("tcp.report_not_on_its_way", 1),
        ],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU 68",
        || vec![too_big(68)],
        &[
            ("icmp.fragmentation_needed_received", 1),
            ("tcp.report_not_on_its_way", 1),
        ],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU 1279",
        || vec![too_big(1279)],
        &[
            ("icmp.fragmentation_needed_received", 1),
            ("tcp.report_not_on_its_way", 1),
        ],
        &[],
    ),
    row(
        36,
        "fragmentation needed, MTU above ours",
        || vec![too_big(65535)],
        &[("icmp.quoted_not_too_long", 1)],
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
