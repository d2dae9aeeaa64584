use super::*;
use crate::assemble::{Inet, Layout};
use crate::flows::Flows;
use crate::tcp::{Tcp, TcpConfig};
use crate::testing::{self, MTU, OUR_MAC, PEER, PEER_MAC, US, bytes_of, seal_ipv4};
use braidnet_message::{Arena, Kind, Pool};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{Buckets, Cluster, ConnectionId, Control, Direction, Stream};
use braidnet_wire::time::{Duration, Instant};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    let rows: [(&str, Change); 25] = [
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
        ("ECE", |p| p[33] |= TcpFlags::ECE.0),
        ("CWR", |p| p[33] |= TcpFlags::CWR.0),
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
    let rows: [(&str, Change); 14] = [
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
        ("CWR", |p| p[33] |= TcpFlags::CWR.0),
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
    let interface = testing::ip_interface().leaving_checksums();
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

/// A whole stack up to TCP, and the peer's two connections to it.
struct World {
    cluster: Cluster,
    layout: Layout,
    stream: Arc<Stream>,
    now: Instant,
    /// What has left at the tail, and of each connection at the head: data, and verbs.
    sent: Vec<Vec<u8>>,
    delivered: BTreeMap<u64, Vec<u8>>,
    told: Vec<(u64, String)>,
    /// Messages with data that came to the head.
    messages: usize,
    /// Our side's first sequence number plus one, by connection.
    acks: Vec<u32>,
}

/// What the peer's stream begins behind.
const ISS: u32 = u32::MAX - 3000;

impl World {
    fn new(with_timestamps: bool) -> World {
        let interface = testing::ip_interface();
        let flows = Flows::new([1, 2], 16, &interface);
        let engine = braidnet_tcp::Config {
            timestamps: with_timestamps,
            receive_buffer_bytes: 20_000,
            ..braidnet_tcp::Config::default()
        };
        let config = TcpConfig {
            engine,
            mtu: MTU,
            connections_per_bucket: 16,
            isn_secret: [3, 4],
        };
        let tcp = Tcp::new(config, flows);
        tcp.listeners().listen(None, PORT, 4).unwrap();
        let Inet { stream, layout, .. } = Inet::assemble(interface, flows, tcp);
        let stream = stream.build().unwrap();
        let buckets = Buckets::private(&stream, 16, |_| true, |_| true);
        let cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &Arena::new(64 << 20));
        let mut world = World {
            cluster,
            layout,
            stream,
            now: Instant::from_millis(1000),
            sent: Vec::new(),
            delivered: BTreeMap::new(),
            told: Vec::new(),
            messages: 0,
            acks: Vec::new(),
        };
        for port in [4000, 4001] {
            let options = if with_timestamps {
                timestamps(1, 0)
            } else {
                Vec::new()
            };
            let syn = Segment {
                port,
                flags: SYN,
                options,
                ack: 0,
                ..Segment::new(ISS, 0)
            };
            world.arrive(&[syn.packet()]);
            let syn_ack = world.sent.pop().unwrap();
            let seq = u32_at(syn_ack.first_chunk().unwrap(), 24);
            world.acks.push(seq.wrapping_add(1));
            let options = if with_timestamps {
                timestamps(1, 0)
            } else {
                Vec::new()
            };
            let ack = seq.wrapping_add(1);
            world.arrive(&[Segment {
                port,
                ack,
                options,
                ..Segment::new(ISS + 1, 0)
            }
            .packet()]);
        }
        assert_eq!(world.told.len(), 2, "both are established");
        world
    }

    fn arrive(&mut self, packets: &[Vec<u8>]) {
        let mut run = Run::new();
        for packet in packets {
            run.push(self.cluster.pool().copy_from_slice(64, packet).unwrap());
        }
        self.cluster
            .put(self.layout.bottom, Direction::Up, &mut run);
        self.turn();
    }

    fn turn(&mut self) {
        let sent = &mut self.sent;
        self.cluster.turn(self.now, &mut |run: &mut Run| {
            sent.extend(run.drain().map(|message| bytes_of(&message)));
        });
        for message in self.cluster.head().drain() {
            let connection = message.connection();
            assert_eq!(message.segment_bytes(), 0, "a train ends at TCP");
            if message.kind() == Kind::Data {
                let bucket = ConnectionId(connection).bucket();
                assert_eq!(message.bucket(), bucket.0, "for modules above");
                let stream = self.delivered.entry(connection).or_default();
                assert_eq!(message.position(), stream.len() as u64);
                stream.extend(bytes_of(&message));
                self.messages += 1;
            } else {
                let control = Control::of(&message).unwrap();
                self.told.push((connection, format!("{control:?}")));
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    fn counted(&mut self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        self.cluster.counters().collect(&self.stream, &mut counted);
        counted
    }

    /// The segment of the first connection that begins `at` bytes into its stream.
    fn segment(&self, at: u32, len: usize) -> Segment {
        Segment {
            ack: self.acks[0],
            ..Segment::new(ISS.wrapping_add(1 + at), len)
        }
    }
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

/// One segment of a generated run.
#[derive(Clone, Debug)]
struct Step {
    other_flow: bool,
    /// Where it begins, from where the flow's last one ended.
    offset: i32,
    len: usize,
    flags: u8,
    /// How the time of its timestamps differs.
    later: u32,
    ack_offset: u32,
    window_high: u8,
    type_of_service: u8,
    damage: Option<(usize, u8)>,
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![
        12 => Just(0), 1 => Just(1000), 1 => -2500..2500i32, 1 => Just(-1000), 1 => Just(-2000)
    ];
    let len = prop_oneof![
        8 => Just(1000usize), 2 => Just(777), 2 => 0..1400usize, 1 => Just(512), 1 => Just(513), 1 => Just(1)
    ];
    let flags = prop_oneof![
        16 => Just(ACK), 4 => Just(ACK | PSH), 1 => Just(ACK | URG), 1 => Just(ACK | 0x40),
        1 => prop_oneof![9 => Just(ACK), 2 => Just(ACK | FIN), 1 => Just(RST), 1 => Just(SYN | ACK), 1 => Just(0)],
    ];
    let rare = |value: u8| prop_oneof![20 => Just(0u8), 1 => Just(value)];
    let damage = prop_oneof![
        20 => Just(None), 1 => (0..1040usize, 1..=255u8).prop_map(Some)
    ];
    let numbers = (
        prop_oneof![12 => Just(0u32), 1 => 0..3u32],
        rare(1),
        rare(3),
        rare(3),
    );
    (
        prop_oneof![6 => Just(false), 1 => Just(true)],
        offset,
        len,
        flags,
        numbers,
        damage,
    )
        .prop_map(
            |(
                other_flow,
                offset,
                len,
                flags,
                (later, ack_offset, window_high, type_of_service),
                damage,
            )| Step {
                other_flow,
                offset,
                len,
                flags,
                later,
                ack_offset: ack_offset.into(),
                window_high,
                type_of_service,
                damage,
            },
        )
}

/// The packets of some steps; `places` and `clock` are where each flow stands and the peer's time.
fn packets_of(
    steps: &[Step],
    acks: &[u32],
    places: &mut [u32; 2],
    clock: &mut u32,
    with_timestamps: bool,
) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for step in steps {
        let flow = usize::from(step.other_flow);
        *clock += step.later;
        let seq = places[flow].wrapping_add_signed(step.offset);
        if step.offset >= -100 {
            places[flow] = seq.wrapping_add(step.len as u32);
        }
        let options = if with_timestamps {
            timestamps(*clock, 0)
        } else {
            Vec::new()
        };
        let segment = Segment {
            port: 4000 + flow as u16,
            ack: acks[flow].wrapping_add(step.ack_offset),
            flags: step.flags,
            options,
            ..Segment::new(seq, step.len)
        };
        let mut packet = segment.packet();
        packet[1] = step.type_of_service;
        packet[34] ^= step.window_high;
        seal(&mut packet);
        if let Some((at, bits)) = step.damage {
            let at = at % packet.len();
            packet[at] ^= bits;
        }
        packets.push(packet);
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Two stacks get the same runs, one of them with a runt between any two packets, so that nothing joins there, the other with
    /// as many at the end. Both say and deliver the same, to the byte, and count the same.
    #[test]
    fn trains_change_nothing(
        runs in proptest::collection::vec(proptest::collection::vec(step(), 1..24), 1..5),
        with_timestamps: bool,
    ) {
        let (mut whole, mut apart) = (World::new(with_timestamps), World::new(with_timestamps));
        prop_assert_eq!(&whole.acks, &apart.acks);
        let (mut places, mut clock) = ([ISS + 1; 2], 1);
        for steps in runs {
            let packets = packets_of(&steps, &whole.acks, &mut places, &mut clock, with_timestamps);
            let runt = vec![0x45u8; 8];
            let separated: Vec<_> = packets.iter().flat_map(|packet| [packet.clone(), runt.clone()]).collect();
            let runts = vec![runt; packets.len()];
            whole.arrive(&[packets, runts].concat());
            apart.arrive(&separated);
            for world in [&mut whole, &mut apart] {
                world.wait(Duration::from_millis(50));
            }
            prop_assert_eq!(&whole.sent, &apart.sent);
            prop_assert_eq!(&whole.delivered, &apart.delivered);
            prop_assert_eq!(&whole.told, &apart.told);
            prop_assert_eq!(whole.counted(), apart.counted());
        }
        prop_assert!(whole.messages <= apart.messages);
        for stream in whole.delivered.values() {
            prop_assert!(stream.iter().enumerate().all(|(at, byte)| *byte == text(ISS + 1, at)));
        }
    }
}
