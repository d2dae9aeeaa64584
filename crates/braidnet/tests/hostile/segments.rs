//! Segments into connections that stand: the attacker's own, and, forged, the friend's.

use crate::packet::{ACK, FIN, PSH, RST, SYN, Segment, URG};
use crate::rig::{Rig, since};
use braidnet::Duration;

/// A connection that a row's segments are sent into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The attacker's, on which no options are agreed.
    Plain,
    /// The attacker's, with timestamps and selective acknowledgment.
    Optioned,
    /// The friend's, with the same options: the attacker knows all its numbers.
    Friends,
}

use Way::{Friends, Optioned, Plain};

const ALL: &[Way] = &[Plain, Optioned, Friends];
const OWN: &[Way] = &[Plain, Optioned];
const WITH_OPTIONS: &[Way] = &[Optioned, Friends];

/// One attack and what is to become of it.
struct Row {
    class: u8,
    what: &'static str,
    into: &'static [Way],
    /// The segment, of the one that would be next.
    make: fn(Segment) -> Segment,
    /// The counter that grows by one; none if the segment is taken.
    counted: &'static str,
    /// Whether it is answered: by an ACK of what is expected.
    answered: bool,
}

const fn row(
    class: u8,
    what: &'static str,
    into: &'static [Way],
    make: fn(Segment) -> Segment,
    counted: &'static str,
    answered: bool,
) -> Row {
    Row {
        class,
        what,
        into,
        make,
        counted,
        answered,
    }
}

/// Beyond every window of these tests.
const FAR: i64 = 1 << 20;

/// A SACK option of blocks between these offsets from what the segment acknowledges.
fn sack(segment: Segment, blocks: &[(i64, i64)]) -> Segment {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (left, right) in blocks {
        for edge in [left, right] {
            option.extend(segment.ack.wrapping_add(*edge as u32).to_be_bytes());
        }
    }
    segment.options(&option)
}

/// Timestamps at another time of the sender's.
fn at_time(mut segment: Segment, by: i64) -> Segment {
    let mut value = [0; 4];
    value.copy_from_slice(&segment.options[4..8]);
    let value = u32::from_be_bytes(value).wrapping_add(by as u32);
    segment.options[4..8].copy_from_slice(&value.to_be_bytes());
    segment
}

const ROWS: &[Row] = &[
    row(
        6,
        "data offset 4",
        ALL,
        |s| Segment {
            data_offset: Some(4),
            ..s
        },
        "tcp.tcp_data_offset_too_small",
        false,
    ),
    row(
        6,
        "data offset past the end",
        ALL,
        |s| Segment {
            data_offset: Some(15),
            ..s
        },
        "tcp.tcp_data_offset_past_end",
        false,
    ),
    row(
        7,
        "option without a length",
        ALL,
        |s| s.options(&[1, 1, 1, 8]),
        "tcp.tcp_option_without_length",
        false,
    ),
    row(
        7,
        "option of length 0",
        ALL,
        |s| s.options(&[254, 0, 0, 0]),
        "tcp.tcp_option_too_short",
        false,
    ),
    row(
        7,
        "option of length 1",
        ALL,
        |s| s.options(&[8, 1, 0, 0]),
        "tcp.tcp_option_too_short",
        false,
    ),
    row(
        7,
        "option past the end",
        ALL,
        |s| s.options(&[8, 10, 0, 0]),
        "tcp.tcp_option_past_end",
        false,
    ),
    row(
        8,
        "SACK of half a block",
        ALL,
        |s| s.options(&[5, 6, 0, 0, 0, 1, 1, 1]),
        "tcp.tcp_sack_option_length",
        false,
    ),
    row(
        8,
        "SACK of no block",
        ALL,
        |s| s.options(&[1, 1, 5, 2]),
        "tcp.tcp_sack_option_length",
        false,
    ),
    row(
        8,
        "SACK of an empty block",
        WITH_OPTIONS,
        |s| sack(s, &[(0, 0)]),
        "tcp.tcp_bad_sack_block",
        false,
    ),
    row(
        8,
        "SACK the wrong way round",
        WITH_OPTIONS,
        |s| sack(s, &[(5, 1)]),
        "tcp.tcp_bad_sack_block",
        false,
    ),
    row(
        8,
        "SACK of unsent data",
        WITH_OPTIONS,
        |s| sack(s, &[(1, 100)]),
        "tcp.tcp_bad_sack_block",
        false,
    ),
    row(
        8,
        "SACK of half the sequence space",
        WITH_OPTIONS,
        |s| sack(s, &[(0, 1 << 31)]),
        "tcp.tcp_bad_sack_block",
        false,
    ),
    row(
        8,
        "SACK of all but the window",
        WITH_OPTIONS,
        |s| sack(s, &[(1, -1)]),
        "tcp.tcp_bad_sack_block",
        false,
    ),
    row(
        8,
        "SACK nobody asked for",
        &[Plain],
        |s| sack(s, &[(5, 1)]),
        "",
        false,
    ),
    row(
        9,
        "SYN's options on another segment",
        OWN,
        |s| s.options(&[2, 4, 0, 1, 3, 3, 14, 1]),
        "",
        false,
    ),
    row(
        10,
        "urgent pointer and no data",
        OWN,
        |s| Segment {
            urgent: 1,
            ..s.flags(ACK | URG)
        },
        "",
        false,
    ),
    row(
        10,
        "urgent pointer 65535 and no data",
        OWN,
        |s| Segment {
            urgent: 65535,
            ..s.flags(ACK | URG)
        },
        "",
        false,
    ),
    row(11, "no flags", ALL, |s| s.flags(0), "tcp.tcp_no_ack", false),
    row(
        11,
        "Xmas",
        ALL,
        |s| s.flags(FIN | PSH | URG),
        "tcp.tcp_no_ack",
        false,
    ),
    row(
        11,
        "all flags, not in place",
        ALL,
        |s| s.flags(255).ahead(1),
        "tcp.tcp_reset_in_window",
        true,
    ),
    row(
        11,
        "SYN and FIN",
        ALL,
        |s| s.flags(SYN | FIN),
        "tcp.tcp_syn_on_connection",
        true,
    ),
    row(
        11,
        "SYN and RST, not in place",
        ALL,
        |s| s.flags(SYN | RST).ahead(1),
        "tcp.tcp_reset_in_window",
        true,
    ),
    row(
        13,
        "ACK of a byte that was never sent",
        ALL,
        |s| s.acking(1),
        "tcp.tcp_ack_of_unsent",
        true,
    ),
    row(
        13,
        "ACK half the sequence space ahead",
        ALL,
        |s| s.acking((1 << 31) - 1),
        "tcp.tcp_ack_of_unsent",
        true,
    ),
    row(
        13,
        "data with an ACK of what was never sent",
        ALL,
        |s| s.acking(5).data(b"evil"),
        "tcp.tcp_ack_of_unsent",
        true,
    ),
    row(
        13,
        "an old ACK",
        ALL,
        |s| s.acking(-1),
        "tcp.tcp_old_ack",
        false,
    ),
    row(
        13,
        "an ACK of long ago",
        ALL,
        |s| s.acking(-(1 << 30)),
        "tcp.tcp_ack_too_old",
        true,
    ),
    row(
        14,
        "data past the window",
        ALL,
        |s| s.ahead(FAR).data(b"evil"),
        "tcp.tcp_beyond_window",
        true,
    ),
    row(
        15,
        "blind RST in the window",
        ALL,
        |s| s.flags(RST).ahead(1),
        "tcp.tcp_reset_in_window",
        true,
    ),
    row(
        15,
        "blind RST far in the window",
        ALL,
        |s| s.flags(RST).ahead(9000),
        "tcp.tcp_reset_in_window",
        true,
    ),
    row(
        15,
        "blind RST with an ACK",
        ALL,
        |s| s.flags(RST | ACK).ahead(2),
        "tcp.tcp_reset_in_window",
        true,
    ),
    row(
        15,
        "blind RST past the window",
        ALL,
        |s| s.flags(RST).ahead(FAR),
        "tcp.tcp_beyond_window",
        false,
    ),
    row(
        15,
        "blind RST before the window",
        ALL,
        |s| s.flags(RST).ahead(-1),
        "tcp.tcp_old_segment",
        false,
    ),
    row(
        15,
        "blind SYN in place",
        ALL,
        |s| s.flags(SYN),
        "tcp.tcp_syn_on_connection",
        true,
    ),
    row(
        15,
        "blind SYN in the window",
        ALL,
        |s| s.flags(SYN).ahead(99),
        "tcp.tcp_syn_on_connection",
        true,
    ),
    row(
        15,
        "blind SYN-ACK",
        ALL,
        |s| s.flags(SYN | ACK),
        "tcp.tcp_syn_on_connection",
        true,
    ),
    row(
        15,
        "blind data",
        ALL,
        |s| s.acking(-(1 << 30)).data(b"evil"),
        "tcp.tcp_ack_too_old",
        true,
    ),
    row(
        15,
        "blind data without an ACK",
        ALL,
        |s| s.flags(PSH).data(b"evil"),
        "tcp.tcp_no_ack",
        false,
    ),
    row(17, "a segment of nothing", ALL, |s| s, "", false),
    row(
        17,
        "old data again, with other bytes",
        ALL,
        |s| s.ahead(-1).data(b"E"),
        "tcp.tcp_old_segment",
        true,
    ),
    row(
        17,
        "FIN past the window",
        ALL,
        |s| s.flags(FIN | ACK).ahead(FAR),
        "tcp.tcp_beyond_window",
        true,
    ),
    row(
        19,
        "a keep-alive probe",
        ALL,
        |s| s.ahead(-1),
        "tcp.tcp_old_segment",
        true,
    ),
    row(
        46,
        "no timestamps",
        WITH_OPTIONS,
        |s| Segment {
            options: vec![],
            ..s.data(b"evil")
        },
        "tcp.tcp_missing_timestamp",
        false,
    ),
    row(
        48,
        "timestamps of a moment ago",
        WITH_OPTIONS,
        |s| at_time(s, -1).data(b"evil"),
        "tcp.tcp_old_timestamp",
        true,
    ),
    row(
        48,
        "timestamps half a circle ago",
        WITH_OPTIONS,
        |s| at_time(s, -(1 << 30)),
        "tcp.tcp_old_timestamp",
        true,
    ),
];

/// Options of a SYN that agree on everything.
const SYN_OPTIONS: &[u8] = &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0x0b, 0xb8, 0, 0, 0, 0];

#[test]
fn classes_6_to_19_and_48_segments_into_a_connection() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let (plain, plain_end) = rig.connect_from(4001, &[]);
        let (optioned, optioned_end) = rig.connect_from(4002, SYN_OPTIONS);
        for row in ROWS {
            for into in row.into {
                let name = format!(
                    "class {}: {} ({into:?}, ethernet: {ethernet})",
                    row.class, row.what
                );
                println!("{name} | {} | {}", row.counted, row.answered);
                let next = match into {
                    Plain => plain.clone(),
                    Optioned => optioned.clone(),
                    Friends => rig.forged(),
                };
                let before = rig.counted();
                let answers = rig.segment(&(row.make)(next.clone()));
                let counted = since(&before, &rig.counted());
                let expected: Vec<_> = [(row.counted.to_string(), 1)]
                    .into_iter()
                    .filter(|(name, _)| !name.is_empty())
                    .collect();
                assert_eq!(counted, expected, "{name}");
                // What answers a forger goes to the friend.
                let expected = usize::from(row.answered && *into != Friends);
                assert_eq!(answers.len(), expected, "{name}: {answers:?}");
                for answer in answers {
                    assert_eq!(
                        (answer.flags, answer.seq, answer.ack),
                        (ACK, next.ack, next.seq),
                        "{name}"
                    );
                }
                rig.assert_undisturbed();
                // Lest challenges be limited.
                rig.pass(Duration::from_secs(5));
                rig.introduce();
            }
        }
        // The attacker's own connections stand as well, and nothing of all this has got into them.
        for (next, end) in [(plain, plain_end), (optioned, optioned_end)] {
            rig.segment(&next.data(b"honest"));
            assert_eq!(rig.read(end), b"honest");
        }
        assert!(rig.target.used_bytes() <= 4 << 20);
    }
}

/// Class 46: checksums of segments into a connection, of odd and even lengths.
#[test]
fn class_46_checksums_in_a_connection() {
    let mut rig = Rig::new(false);
    let (mut next, end) = rig.connect_from(4001, &[]);
    let mut expected = Vec::new();
    for len in [1, 2, 3, 7, 100, 101, 1459] {
        let data: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        let segment = next.clone().data(&data);
        for at in [20, 33, 36, 37, 39 + data.len()] {
            let before = rig.counted();
            let mut packet = segment.packet();
            packet[at] ^= 0x40;
            assert!(rig.attack(&[packet]).is_empty());
            let counted = since(&before, &rig.counted());
            assert_eq!(
                counted,
                [("tcp.tcp_checksum_wrong".to_string(), 1)],
                "{len} bytes, {at}"
            );
        }
        rig.segment(&segment);
        expected.extend_from_slice(&data);
        next = next.ahead(data.len() as i64);
    }
    assert_eq!(rig.read(end), expected);
    rig.assert_undisturbed();
}
