mod alike;
mod world;

use super::*;
use crate::assemble::{Inet, Layout};
use crate::flows::Flows;
use crate::offload::Offload;
use crate::tcp::{Tcp, TcpConfig};
use crate::testing::{self, MTU, OUR_MAC, PEER, PEER_MAC, US, bytes_of, seal_ipv4};
use braidnet_message::{Arena, Checksum, Kind, Pool, Scarcity};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{Buckets, Cluster, ConnectionId, Control, Direction, Stream};
use braidnet_wire::time::{Duration, Instant};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use world::{ISS, World};

const FIN: u8 = TcpFlags::FIN.0;
const SYN: u8 = TcpFlags::SYN.0;
const RST: u8 = TcpFlags::RST.0;
const PSH: u8 = TcpFlags::PSH.0;
const ACK: u8 = TcpFlags::ACK.0;
const URG: u8 = TcpFlags::URG.0;
const PORT: u16 = 7;

/// A segment from the peer.
#[derive(Clone, Debug)]
struct Segment {
    port: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    options: Vec<u8>,
    data: Vec<u8>,
}

impl Segment {
    fn new(seq: u32, len: usize) -> Segment {
        Segment {
            port: 4000,
            seq,
            ack: 99,
            flags: ACK,
            options: Vec::new(),
            data: (0..len).map(|at| text(seq, at)).collect(),
        }
    }

    fn packet(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.port.to_be_bytes());
        segment.extend(PORT.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([((20 + self.options.len()) * 4) as u8, self.flags]);
        segment.extend([0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(&self.options);
        segment.extend(&self.data);
        let mut packet = testing::ipv4(PEER, US, PROTOCOL, &segment);
        seal(&mut packet);
        packet
    }
}

/// The byte of the stream that is `at` places behind `seq`.
fn text(seq: u32, at: usize) -> u8 {
    let place = seq.wrapping_add(at as u32);
    (place ^ (place >> 8) ^ (place >> 16)) as u8
}

/// Timestamps as nearly every segment has them.
fn timestamps(value: u32, echo: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options
}

/// Makes all checksums right after a change.
fn seal(packet: &mut [u8]) {
    seal_ipv4(packet);
    let header_len = usize::from(packet[0] & 15) * 4;
    let (ip, segment) = packet.split_at_mut(header_len);
    segment[16..18].fill(0);
    let pseudo = Sum::of(&ip[12..20]) + Sum::of_words([u32::from(ip[9]), segment.len() as u32]);
    let checksum = (pseudo + Sum::of(segment)).finish_bytes();
    segment[16..18].copy_from_slice(&checksum);
}

/// What becomes of a run of these packets: of each message that is left, the bytes of its blocks.
fn joined_in(
    interface: &Interface,
    frames: Option<&[Frame]>,
    packets: &[Vec<u8>],
) -> Vec<Vec<usize>> {
    let mut pool = Pool::new(&Arena::new(8 << 20));
    let mut pool = pool.bind();
    let mut run = Run::new();
    for (index, packet) in packets.iter().enumerate() {
        let mut message = pool.copy_from_slice(0, packet).unwrap();
        message.set_note(frames.map_or(Frame::default(), |frames| frames[index]));
        run.push(message);
    }
    let joiner = Joiner {
        interface,
        framed: frames.is_some(),
    };
    joiner.join(&mut run);
    // Nothing is lost, and what is left alone is left as it was.
    let mut left = packets.iter();
    for message in &run {
        let first = left.next().unwrap();
        assert_eq!(message.bytes(), first);
        assert_eq!(message.segments(), message.blocks().count());
        assert_eq!(message.segment_bytes() != 0, message.segments() > 1);
        for block in message.blocks().skip(1) {
            assert!(left.next().unwrap().ends_with(block));
        }
    }
    assert!(left.next().is_none());
    run.iter()
        .map(|message| message.blocks().map(<[u8]>::len).collect())
        .collect()
}

fn joined(packets: &[Vec<u8>]) -> Vec<Vec<usize>> {
    joined_in(&testing::ip_interface(), None, packets)
}

/// Segments of these lengths, one behind the other.
fn segments(seq: u32, lengths: &[usize]) -> Vec<Segment> {
    let mut seq = seq;
    let mut next = |len| {
        let segment = Segment::new(seq, len);
        seq = seq.wrapping_add(len as u32);
        segment
    };
    lengths.iter().map(|len| next(*len)).collect()
}

fn packets(segments: &[Segment]) -> Vec<Vec<u8>> {
    segments.iter().map(Segment::packet).collect()
}

#[test]
fn consecutive_segments_become_one_message() {
    let rows: [(&[usize], &[&[usize]]); 9] = [
        (&[], &[]),
        (&[600], &[&[640]]),
        (&[600, 600, 600], &[&[640, 600, 600]]),
        (&[601, 601, 601], &[&[641, 601, 601]]),
        // A shorter one is the last.
        (&[600, 600, 513, 513, 513], &[&[640, 600, 513], &[553, 513]]),
        (&[513, 600, 600, 513], &[&[553], &[640, 600, 513]]),
        // Too short to join.
        (&[600, 512, 512], &[&[640], &[552], &[552]]),
        (&[0, 0, 1, 1], &[&[40], &[40], &[41], &[41]]),
        (&[1400, 1400, 1, 1400], &[&[1440, 1400], &[41], &[1440]]),
    ];
    for seq in [1000, u32::MAX - 700] {
        for (lengths, expected) in rows {
            assert_eq!(joined(&packets(&segments(seq, lengths))), expected);
        }
    }
}

#[test]
fn a_train_is_no_longer_than_a_datagram() {
    let lengths = joined(&packets(&segments(0, &[1400; 60])));
    assert_eq!(
        lengths.iter().map(Vec::len).collect::<Vec<_>>(),
        [46, 14],
        "40 + 46 * 1400 < 65535"
    );
    let most = joined(&packets(&segments(0, &[MIN_PAYLOAD; 200])));
    assert_eq!(most[0].len(), 127);
}

type Change = fn(&mut Vec<u8>);

#[test]
#[rustfmt::skip]
fn what_may_differ_between_the_segments_of_a_train() {
    let rows: [(&str, Change); 2] = [
        ("identification", |p| p[4..6].copy_from_slice(&[8, 9])),
        ("PSH", |p| p[33] |= PSH),
    ];
    for (what, change) in rows {
        for which in 0..3 {
            let mut packets = packets(&segments(5, &[600; 3]));
            change(&mut packets[which]);
            seal(&mut packets[which]);
            assert_eq!(joined(&packets), [[640, 600, 600]], "{what} of {which}");
        }
    }
    let mut all = segments(5, &[600; 3]);
    all.iter_mut().for_each(|segment| segment.options = timestamps(3, 4));
    assert_eq!(joined(&packets(&all)), [[652, 600, 600]], "timestamps");
}

/// One segment of three is changed: it joins neither neighbour, and these do not join over it.
#[test]
#[rustfmt::skip]
fn what_may_not_differ() {
    let rows: [(&str, Change); 23] = [
        ("version", |p| p[0] = 0x55),
        ("type of service", |p| p[1] = 4),
        ("congestion experienced", |p| p[1] = 3),
        ("don't fragment", |p| p[6] = 0x40),
        ("more fragments", |p| p[6] = 0x20),
        ("fragment offset", |p| p[7] = 1),
        ("time to live", |p| p[8] = 63),
        ("protocol", |p| p[9] = 17),
        ("source", |p| p[15] = 9),
        ("destination", |p| p[19] = 9),
        ("source port", |p| p[21] ^= 1),
        ("destination port", |p| p[23] ^= 1),
        ("sequence number", |p| p[27] ^= 1),
        ("acknowledgment", |p| p[31] ^= 1),
        ("reserved bits", |p| p[32] |= 1),
        ("FIN", |p| p[33] |= FIN),
        ("SYN", |p| p[33] |= SYN),
        ("RST", |p| p[33] |= RST),
        ("no ACK", |p| p[33] = 0),
        ("URG", |p| p[33] |= URG),
        ("window", |p| p[34] = 1),
        ("urgent pointer", |p| p[39] = 1),
        ("data offset", |p| p[32] = 0x60),
    ];
    for (what, change) in rows {
        for which in 0..3 {
            let mut packets = packets(&segments(5, &[600; 3]));
            change(&mut packets[which]);
            seal(&mut packets[which]);
            let expected: &[&[usize]] = match which {
                0 => &[&[640], &[640, 600]],
                1 => &[&[640], &[640], &[640]],
                _ => &[&[640, 600], &[640]],
            };
            assert_eq!(joined(&packets), expected, "{what} of {which}");
        }
    }
}

/// In all segments alike.
#[test]
#[rustfmt::skip]
fn what_no_segment_of_a_train_has() {
    let rows: [(&str, Change); 13] = [
        ("version 5", |p| p[0] = 0x55),
        ("fragments", |p| p[6] = 0x20),
        ("another protocol", |p| p[9] = 17),
        ("not for us", |p| p[19] = 9),
        ("for everybody", |p| p[19] = 255),
        ("from us", |p| p[12..16].copy_from_slice(&[10, 77, 0, 2])),
        ("FIN", |p| p[33] |= FIN),
        ("SYN", |p| p[33] |= SYN),
        ("RST", |p| p[33] |= RST),
        ("URG", |p| p[33] |= URG),
        ("no ACK", |p| p[33] = PSH),
        ("urgent pointer", |p| p[39] = 1),
        ("data offset", |p| p[32] = 0x40),
    ];
    for (what, change) in rows {
        let mut packets = packets(&segments(5, &[600; 3]));
        for packet in &mut packets {
            change(packet);
            seal(packet);
        }
        assert_eq!(joined(&packets).len(), 3, "{what}");
    }
    let mut packets = packets(&segments(5, &[600; 3]));
    for packet in &mut packets {
        packet.splice(20..20, [1, 1, 1, 0]);
        packet[0] = 0x46;
        packet[3] += 4;
        seal(packet);
    }
    assert_eq!(joined(&packets).len(), 3, "options of IP");
}

#[test]
fn damaged_segments_join_nothing() {
    // A byte of each header's checksums, of its lengths, and of data.
    for at in [2, 3, 4, 10, 11, 36, 37, 40, 639] {
        for which in 0..3 {
            for damage in [1, 0x80, 0xff] {
                let mut packets = packets(&segments(5, &[600; 3]));
                packets[which][at] ^= damage;
                assert_eq!(
                    joined(&packets).len(),
                    if which == 1 { 3 } else { 2 },
                    "byte {at} of {which}"
                );
            }
        }
    }
}

#[test]
fn a_device_that_verifies_is_believed() {
    let interface = testing::ip_interface().offloading(&[Offload::LeftOut]);
    let mut packets = packets(&segments(5, &[600; 3]));
    packets.iter_mut().for_each(|packet| packet[36] ^= 1);
    assert_eq!(joined_in(&interface, None, &packets).len(), 1);
    packets[1][10] ^= 1;
    assert_eq!(
        joined_in(&interface, None, &packets).len(),
        3,
        "IP's are its own"
    );
}

#[test]
fn options_are_the_same_byte_for_byte() {
    for other in [
        timestamps(3, 5),
        timestamps(4, 4),
        vec![1; 12],
        vec![1; 16],
        vec![],
    ] {
        let mut all = segments(5, &[600; 3]);
        all.iter_mut()
            .for_each(|segment| segment.options = timestamps(3, 4));
        all[1].options = other;
        assert_eq!(joined(&packets(&all)).len(), 3);
    }
}

#[test]
fn a_gap_a_repetition_and_an_overlap_join_nothing() {
    for seq in [5, 6, 604, 606, 1205, 0x8000_0605, 4] {
        let [first, _] = [0, 1].map(|_| Segment::new(5, 600));
        let second = Segment::new(seq, 600);
        assert_eq!(joined(&packets(&[first, second])).len(), 2, "{seq}");
    }
}

#[test]
fn padded_packets_and_packets_in_pieces_join_nothing() {
    for which in 0..2 {
        let mut packets = packets(&segments(5, &[600; 2]));
        packets[which].push(0);
        assert_eq!(joined(&packets).len(), 2, "padding");
    }
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let mut pool = pool.bind();
    for which in 0..2 {
        let mut run = Run::new();
        for (index, packet) in packets(&segments(5, &[1200; 2])).iter().enumerate() {
            let cut = if index == which { 700 } else { packet.len() };
            let mut message = pool.copy_from_slice(0, &packet[..cut]).unwrap();
            if cut < packet.len() {
                message.push_continuation(pool.copy_from_slice(0, &packet[cut..]).unwrap());
            }
            run.push(message);
        }
        let interface = &testing::ip_interface();
        let joiner = Joiner {
            interface,
            framed: false,
        };
        joiner.join(&mut run);
        assert_eq!(run.len(), 2);
    }
}

#[test]
fn packets_that_came_in_frames_came_from_one_station() {
    let interface = testing::ethernet_interface();
    let frame = |station, flags| Frame {
        station,
        flags,
        ..Frame::default()
    };
    let rows = [
        ([PEER_MAC, PEER_MAC], [0, 0], 1),
        ([PEER_MAC, OUR_MAC], [0, 0], 2),
        ([PEER_MAC, PEER_MAC], [0, Frame::GROUP], 2),
        ([PEER_MAC, PEER_MAC], [Frame::GROUP, Frame::GROUP], 2),
    ];
    for (stations, flags, left) in rows {
        let frames = [0, 1].map(|index| frame(stations[index], flags[index]));
        let packets = packets(&segments(5, &[600; 2]));
        assert_eq!(joined_in(&interface, Some(&frames), &packets).len(), left);
    }
}

#[test]
fn flows_that_alternate_do_not_join_and_those_behind_each_other_do() {
    let one = segments(5, &[600; 4]);
    let other: Vec<Segment> = one
        .iter()
        .cloned()
        .map(|segment| Segment {
            port: 4001,
            ..segment
        })
        .collect();
    let alternating: Vec<Segment> = one
        .iter()
        .zip(&other)
        .flat_map(|(a, b)| [a.clone(), b.clone()])
        .collect();
    assert_eq!(joined(&packets(&alternating)).len(), 8);
    assert_eq!(joined(&packets(&[one, other].concat())).len(), 2);
}

#[test]
fn a_train_is_delivered_once_and_counted_by_segments() {
    let mut world = World::new(false);
    let before = world.counted();
    let run: Vec<_> = (0..5)
        .map(|index| world.segment(index * 1000, 1000).packet())
        .collect();
    world.arrive(&run);
    assert_eq!(
        (world.messages, world.sent.len()),
        (1, 1),
        "and one acknowledgment"
    );
    let counted = world.counted();
    let more = |name| counted[name] - before.get(name).unwrap_or(&0);
    assert_eq!(
        (more("tcp.segments_in"), more("tcp.data_segments_in")),
        (5, 5)
    );
    let stream = world.delivered.values().next().unwrap();
    let expected: Vec<u8> = (0..5000).map(|at| text(ISS + 1, at)).collect();
    assert_eq!(stream, &expected);
}

/// Between sound ones of which four would be a train.
#[test]
fn a_damaged_segment_is_dropped_by_name_and_the_others_arrive() {
    let mut world = World::new(false);
    let mut run: Vec<_> = (0..5)
        .map(|index| world.segment(index * 1000, 1000).packet())
        .collect();
    run[2][700] ^= 1;
    world.arrive(&run);
    assert_eq!(world.counted()["tcp.tcp_checksum_wrong"], 1);
    assert_eq!(world.delivered.values().next().unwrap().len(), 2000);
    let again = world.segment(2000, 1000).packet();
    world.arrive(&[again]);
    assert_eq!(world.delivered.values().next().unwrap().len(), 5000);
}

#[test]
fn a_train_that_is_dropped_counts_by_segments() {
    let mut world = World::new(false);
    let mut run: Vec<_> = (0..3)
        .map(|index| world.segment(index * 600, 600))
        .collect();
    run.iter_mut().for_each(|segment| segment.port = 0);
    world.arrive(&packets(&run));
    assert_eq!(world.counted()["tcp.bad_address"], 3);
}

/// A segment size that a peer never sends would let it wait for acknowledgments.
#[test]
fn a_train_is_not_taken_for_a_large_segment() {
    let mut world = World::new(false);
    let run: Vec<_> = (0..3)
        .map(|index| world.segment(index * 600, 600).packet())
        .collect();
    world.arrive(&run);
    let sent = world.sent.len();
    // Two full segments are acknowledged, in runs of their own, without waiting.
    for index in 3..5 {
        let packet = world.segment(index * 600, 600).packet();
        world.arrive(&[packet]);
    }
    assert_eq!(world.sent.len(), sent + 1);
}

/// Flags that tell of marks are alike in a train (RFC 9768 counts with them); where they change, another begins.
#[test]
fn flags_of_marks_are_alike_in_a_train() {
    for flags in [TcpFlags::ECE.0, TcpFlags::CWR.0] {
        let mut packets = packets(&segments(5, &[600; 4]));
        for packet in &mut packets[2..] {
            packet[33] |= flags;
            seal(packet);
        }
        let expected: &[&[usize]] = &[&[640, 600], &[640, 600]];
        assert_eq!(joined(&packets), expected);
    }
}
