//! Segments that would be joined if one of them were not what it is (class 44).

use crate::packet::{self, PSH, Segment};
use crate::rig::{Rig, since};
use braidnet::message::Message;
use std::collections::BTreeMap;

const EACH: usize = 600;

/// What is wrong with the middle one of three segments, and what comes of the three.
struct Row {
    what: &'static str,
    make: fn(Segment) -> Vec<u8>,
    /// The counters that grow, by one for each time that they are named.
    counted: &'static [&'static str],
    /// Bytes that can be read afterwards; the peer would send the rest again.
    read: usize,
    /// In so many messages: one for a train.
    messages: usize,
}

/// With a byte of its options changed, or with options where it has none.
fn with_options(mut segment: Segment, at: usize) -> Vec<u8> {
    match segment.options.get_mut(at) {
        Some(byte) => *byte ^= 1,
        None => segment.options = vec![1; 4],
    }
    segment.packet()
}

fn damaged(segment: Segment, at: usize) -> Vec<u8> {
    let mut packet = segment.packet();
    packet[at] ^= 0x40;
    packet
}

/// With its TCP checksum one too high.
fn shifted(segment: Segment) -> Vec<u8> {
    let mut packet = segment.packet();
    packet[37] = packet[37].wrapping_add(1);
    packet
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { what: "nothing", make: |s| s.packet(), counted: &[], read: 3 * EACH, messages: 1 },
    Row { what: "PSH", make: |s| Segment { flags: s.flags | PSH, ..s }.packet(), counted: &[], read: 3 * EACH, messages: 1 },
    Row { what: "congestion experienced", make: |s| packet::with(s.packet(), &[(1, 3)]), counted: &[], read: 3 * EACH, messages: 3 },
    Row { what: "time to live", make: |s| packet::with(s.packet(), &[(8, 1)]), counted: &[], read: 3 * EACH, messages: 3 },
    Row { what: "congestion window reduced", make: |s| Segment { flags: s.flags | packet::CWR, ..s }.packet(), counted: &[], read: 3 * EACH, messages: 3 },
    Row { what: "another window", make: |s| s.window(1000).packet(), counted: &[], read: 3 * EACH, messages: 3 },
    Row { what: "other options", make: |s| with_options(s, 11), counted: &[], read: 3 * EACH, messages: 3 },
    Row { what: "TCP checksum", make: |s| damaged(s, 36), counted: &["tcp.tcp_checksum_wrong", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "TCP checksum by one", make: shifted, counted: &["tcp.tcp_checksum_wrong", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "data", make: |s| damaged(s, 100), counted: &["tcp.tcp_checksum_wrong", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "IP checksum", make: |s| damaged(s, 10), counted: &["ip.ipv4_checksum_wrong", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "a fragment", make: |s| packet::with(s.packet(), &[(7, 1)]), counted: &["tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "for another host", make: |s| packet::with(s.packet(), &[(19, 99)]), counted: &["ip.not_ours", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "an acknowledgment of what was not sent", make: |s| s.acking(1).packet(), counted: &["tcp.tcp_ack_of_unsent", "tcp.out_of_order"], read: EACH, messages: 1 },
    Row { what: "the first one again", make: |s| s.ahead(-(EACH as i64)).packet(), counted: &["tcp.tcp_old_segment", "tcp.out_of_order"], read: EACH, messages: 1 },
];

fn bytes(message: &Message) -> Vec<u8> {
    message.blocks().collect::<Vec<_>>().concat()
}

fn check(row: &Row, ethernet: bool, options: &[u8]) {
    let mut rig = Rig::new(ethernet);
    let (next, connection) = rig.connect_from(4000, options);
    let text: Vec<u8> = (0..3 * EACH).map(|at| ((at * 7) >> 2) as u8).collect();
    let mut packets: Vec<_> = text
        .chunks(EACH)
        .enumerate()
        .map(|(index, data)| {
            let segment = next.clone().data(data).ahead((index * EACH) as i64);
            if index == 1 {
                (row.make)(segment)
            } else {
                segment.packet()
            }
        })
        .collect();
    let before = rig.counted();
    rig.attack(&packets);
    let messages: Vec<_> = std::iter::from_fn(|| rig.target.receive_message(connection)).collect();
    let heard: Vec<u8> = messages.iter().flat_map(bytes).collect();
    assert_eq!(
        (heard.len(), messages.len()),
        (row.read, row.messages),
        "{} {ethernet} {options:?}",
        row.what
    );
    let mut counted = BTreeMap::new();
    for name in row.counted {
        *counted.entry((*name).to_owned()).or_insert(0) += 1;
    }
    assert_eq!(
        since(&before, &rig.counted()),
        counted.into_iter().collect::<Vec<_>>(),
        "{}",
        row.what
    );
    // The peer sends the middle one once more, as it should be.
    packets[1] = next
        .clone()
        .data(&text[EACH..2 * EACH])
        .ahead(EACH as i64)
        .packet();
    rig.attack(&packets[1..]);
    let heard = [heard, rig.read(connection)].concat();
    assert!(heard == text[..], "{}", row.what);
    rig.hang_up(connection);
    rig.assert_undisturbed();
}

#[test]
fn class_44_segments_that_differ_from_their_neighbours() {
    // Timestamps and selective acknowledgment.
    let options = [4, 2, 1, 1, 1, 1, 8, 10, 0, 0, 0x0b, 0xb8, 0, 0, 0, 0];
    for row in ROWS {
        for ethernet in [false, true] {
            check(row, ethernet, &[]);
            check(row, ethernet, &options);
        }
    }
}
