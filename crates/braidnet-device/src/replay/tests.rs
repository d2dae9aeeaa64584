use super::*;
use crate::capture::Capture;
use crate::{Capabilities, Device, DropReason, MacAddress, QueuePair, Receiver, memory};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ETHERNET: Medium = Medium::Ethernet {
    address: MacAddress([2; 6]),
};

fn open(device: impl Device) -> QueuePair {
    Box::new(device).open().unwrap().remove(0)
}

fn pool() -> Pool {
    Pool::new(&Arena::new(16 << 20))
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An IPv4 packet, as far as a device looks, of so many bytes with a number in it.
fn packet(number: u8, length: usize) -> Vec<u8> {
    let mut packet = vec![number; length];
    packet[0] = 0x45;
    packet
}

/// What [`Capture`] writes: so many packets, 10 ms apart, sent and received in turns.
fn captured(packets: u8, snaplen: usize) -> Vec<u8> {
    let file = Memory::default();
    let time = Arc::new(AtomicU64::new(7_000_000_000));
    let clock = time.clone();
    let capture = Capture::with_clock(file.clone(), snaplen, move || {
        clock.fetch_add(10_000_000, Ordering::Relaxed)
    });
    let capture = capture.unwrap();
    let (near, far) = memory::wire(Capabilities::ip(1500), 512);
    let (mut near, mut far) = (open(capture.around("near", near)), open(far));
    let mut pool = pool();
    for number in 0..packets {
        let message = pool.copy_from_slice(0, &packet(number, 100)).unwrap();
        let mut run: Run = [message].into_iter().collect();
        match number % 2 {
            0 => near.transmitter.transmit(&mut run),
            _ => {
                far.transmitter.transmit(&mut run);
                near.receiver.receive(&mut pool, &mut Run::new(), 1);
            }
        }
    }
    capture.flush().unwrap();
    file.0.lock().clone()
}

/// A pcap file, as tcpdump writes it: words in this byte order, times in millionths.
fn pcap(
    word: fn(u32) -> [u8; 4],
    magic: u32,
    link_type: u32,
    packets: &[(u32, u32, Vec<u8>)],
) -> Vec<u8> {
    let version = match word(1) {
        [1, ..] => [2, 0, 4, 0],
        _ => [0, 2, 0, 4],
    };
    let mut file = [
        word(magic),
        version,
        word(0),
        word(0),
        word(262_144),
        word(link_type),
    ]
    .concat();
    for (seconds, fraction, bytes) in packets {
        let length = bytes.len() as u32;
        file.extend([*seconds, *fraction, length, length].map(word).concat());
        file.extend(bytes);
    }
    file
}

fn all(file: &[u8]) -> Result<Vec<Record>, RecordingError> {
    let mut recording = Recording::new(io::Cursor::new(file.to_vec()))?;
    let mut records = Vec::new();
    while let Some(record) = recording.next_record()? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn what_was_captured_is_read_again() {
    let records = all(&captured(5, 0)).unwrap();
    for (number, record) in records.iter().enumerate() {
        let expected = Record {
            nanos: 7_000_000_000 + 10_000_000 * number as u64,
            direction: Some([Direction::Outbound, Direction::Inbound][number % 2]),
            link_type: 101,
            length: 100,
            bytes: packet(number as u8, 100),
            comment: None,
        };
        assert_eq!(*record, expected);
    }
    assert_eq!(records.len(), 5);
}

#[test]
fn each_section_has_interfaces_of_its_own() {
    let ethernet = {
        let file = Memory::default();
        let capture = Capture::with_clock(file.clone(), 0, || 0).unwrap();
        capture.interface("tap", &ETHERNET);
        capture.flush().unwrap();
        file.0.lock().clone()
    };
    // The first section's only interface is an Ethernet, the second's is not.
    let records = all(&[ethernet, captured(2, 0)].concat()).unwrap();
    assert_eq!(
        records
            .iter()
            .map(|record| record.link_type)
            .collect::<Vec<_>>(),
        [101; 2]
    );
}

#[test]
fn a_packet_without_a_time_has_that_of_the_one_before() {
    // A simple packet block: type, length, the packet's length, four bytes of it, length.
    let simple: Vec<u8> = [3u32, 20, 4, 0x45, 20]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let records = all(&[captured(2, 0), simple].concat()).unwrap();
    let nanos: Vec<u64> = records.iter().map(|record| record.nanos).collect();
    assert_eq!(nanos, [7_000_000_000, 7_010_000_000, 7_010_000_000]);
    assert_eq!((records[2].length, records[2].bytes.len()), (4, 4));
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_units_of_time() {
    let packets = [(3, 500_000, vec![0x45; 60]), (4, 7, vec![0x46; 1])];
    for word in [u32::to_le_bytes, u32::to_be_bytes] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let records = all(&pcap(word, magic, 101, &packets)).unwrap();
            let nanos: Vec<u64> = records.iter().map(|record| record.nanos).collect();
            assert_eq!(
                nanos,
                [3_000_000_000 + 500_000 * unit, 4_000_000_000 + 7 * unit]
            );
            assert_eq!((records[0].bytes.len(), records[1].length), (60, 1));
            assert_eq!(records[0].direction, None);
        }
    }
}

#[test]
fn files_larger_than_what_is_read_at_once_come_whole() {
    let packets: Vec<_> = (0..200u32)
        .map(|number| (number, 0, vec![0x45; 65_000]))
        .collect();
    let records = all(&pcap(u32::to_le_bytes, 0xa1b2_c3d4, 101, &packets)).unwrap();
    assert_eq!(records.len(), 200);
    assert!(records.iter().all(|record| record.bytes.len() == 65_000));
}

#[test]
fn what_is_wrong_with_a_file_has_a_name() {
    let good = captured(3, 0);
    let plain = pcap(
        u32::to_le_bytes,
        0xa1b2_c3d4,
        101,
        &[(0, 0, vec![0x45; 100])],
    );
    let with = |file: &[u8], at: usize, bytes: &[u8]| {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    // Where the second block begins, the interface, and the third, a packet.
    let length = |at: usize| u32::from_le_bytes(good[at + 4..at + 8].try_into().unwrap()) as usize;
    let second = length(0);
    let third = second + length(second);
    let huge = 0x7fff_fff0u32.to_le_bytes();
    let many_interfaces = [&good[..second], &good[second..third].repeat(4097)].concat();
    let no_room = [&good[..third], &[1, 0, 0, 0x80, 4, 0, 0, 0, 4, 0, 0, 0]].concat();
    let rows: [(&str, Vec<u8>, &str); 13] = [
        ("empty", vec![], "no recording"),
        (
            "text",
            b"GET / HTTP/1.1\r\n\r\n and so on".to_vec(),
            "no recording",
        ),
        ("half a magic number", good[..2].to_vec(), "no recording"),
        (
            "a pcap file's header alone, cut",
            plain[..20].to_vec(),
            "no recording",
        ),
        (
            "cut in a packet",
            good[..third + 40].to_vec(),
            "ends in the block at byte",
        ),
        (
            "a pcap file cut in a packet",
            plain[..plain.len() - 1].to_vec(),
            "ends in the block at byte 24",
        ),
        (
            "a packet's block without end",
            with(&good, third + 4, &huge),
            "of more than 1 MiB at byte",
        ),
        (
            "a pcap packet without end",
            with(&plain, 24 + 8, &huge),
            "of more than 1 MiB at byte 24",
        ),
        (
            "an interface that was not described",
            with(&good, third + 8, &[9]),
            "makes no sense",
        ),
        (
            "two lengths of a block",
            with(&good, third - 4, &[8]),
            "makes no sense",
        ),
        (
            "more bytes recorded than the block holds",
            with(&good, third + 20, &[0xff]),
            "ends in the block at byte",
        ),
        (
            "a process's block without room for its lengths",
            no_room,
            "makes no sense",
        ),
        (
            "interfaces without end",
            many_interfaces,
            "more than 4096 interfaces",
        ),
    ];
    for (what, file, part) in rows {
        let error = all(&file).expect_err(what).to_string();
        assert!(error.contains(part), "{what}: {error}");
    }
    let absent = Recording::open("/absent.pcap").err().unwrap();
    assert!(absent.to_string().contains("/absent.pcap cannot be opened"));
}

#[test]
fn what_is_wrong_stays_wrong() {
    let good = captured(2, 0);
    let mut recording = Recording::new(io::Cursor::new(good[..good.len() - 1].to_vec())).unwrap();
    assert!(recording.next_record().unwrap().is_some());
    for _ in 0..2 {
        assert!(matches!(
            recording.next_record(),
            Err(RecordingError::CutOff { .. })
        ));
    }
}

/// A device's medium, a link type, what was recorded, and the packet.
type Fitted<'a> = (Medium, i32, Vec<u8>, Result<&'a [u8], Skipped>);

#[test]
fn packets_are_fitted_to_the_device() {
    let ip = packet(1, 40);
    let v6 = [&[0x60], &[0; 39][..]].concat();
    let behind = |header: &[u8], packet: &[u8]| [header, packet].concat();
    let mac = [2u8; 12];
    let ethernet = |kind: &[u8], packet: &[u8]| [&mac, kind, packet].concat();
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked2 = [&[0x86, 0xdd][..], &[0; 18]].concat();
    let rows: [Fitted<'_>; 14] = [
        (Medium::Ip, 101, ip.clone(), Ok(&ip)),
        (Medium::Ip, 228, ip.clone(), Ok(&ip)),
        (Medium::Ip, 229, v6.clone(), Ok(&v6)),
        (Medium::Ip, 1, ethernet(&[8, 0], &ip), Ok(&ip)),
        (
            Medium::Ip,
            1,
            ethernet(&[0x81, 0, 0, 5, 0x86, 0xdd], &v6),
            Ok(&v6),
        ),
        (
            Medium::Ip,
            1,
            ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], &ip),
            Ok(&ip),
        ),
        (Medium::Ip, 1, ethernet(&[8, 6], &ip), Err(Skipped::NotIp)),
        (Medium::Ip, 113, behind(&cooked, &ip), Ok(&ip)),
        (Medium::Ip, 276, behind(&cooked2, &v6), Ok(&v6)),
        (Medium::Ip, 0, behind(&[2, 0, 0, 0], &ip), Ok(&ip)),
        (Medium::Ip, 101, vec![0x15, 0], Err(Skipped::NotIp)),
        (Medium::Ip, 195, ip.clone(), Err(Skipped::LinkType)),
        (ETHERNET, 1, ethernet(&[8, 6], &ip), Ok(&[])),
        (ETHERNET, 101, ip.clone(), Err(Skipped::LinkType)),
    ];
    for (medium, link_type, bytes, expected) in rows {
        let record = Record {
            nanos: 0,
            direction: None,
            link_type,
            length: bytes.len(),
            bytes: bytes.clone(),
            comment: None,
        };
        // An Ethernet frame goes as it is.
        let expected = match expected {
            Ok([]) => Ok(&bytes[..]),
            other => other,
        };
        assert_eq!(record.packet(medium), expected, "{medium:?} {link_type}");
        let cut = Record {
            length: bytes.len() + 1,
            ..record
        };
        assert_eq!(cut.packet(medium), Err(Skipped::Cut));
    }
}

/// A replay into a memory wire, and its other end.
fn replay(file: Vec<u8>, pace: Pace, depth: usize) -> (Replay, QueuePair) {
    let (near, far) = memory::wire(Capabilities::ip(1500), depth);
    let recording = Recording::new(io::Cursor::new(file)).unwrap();
    let transmitter = open(near).transmitter;
    let replay = Replay::new(recording, transmitter, Medium::Ip, pace);
    (replay.with_slack(Duration::ZERO), open(far))
}

fn arrived(from: &mut dyn Receiver, pool: &mut Pool) -> Vec<u8> {
    let mut run = Run::new();
    from.receive(pool, &mut run, 1000);
    run.iter().map(|packet| packet.bytes()[1]).collect()
}

fn millis(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn packets_keep_their_distance_or_a_part_of_it() {
    for (times, apart) in [(1.0, 10), (2.0, 5), (0.5, 20)] {
        let (mut replay, mut far) = replay(captured(4, 0), Pace::Recorded(times), 16);
        let mut pool = pool();
        let begun = 1000;
        for number in 0..3 {
            let next = Step::At(millis(begun + apart * (u64::from(number) + 1)));
            assert_eq!(
                replay
                    .turn(millis(begun + apart * u64::from(number)))
                    .unwrap(),
                next
            );
            assert_eq!(arrived(&mut *far.receiver, &mut pool), [number]);
        }
        let just_before = Instant::from_nanos(millis(begun + 3 * apart).nanos() - 1);
        assert_eq!(
            replay.turn(just_before).unwrap(),
            Step::At(millis(begun + 3 * apart))
        );
        assert_eq!(arrived(&mut *far.receiver, &mut pool), []);
        assert_eq!(replay.turn(millis(begun + 3 * apart)).unwrap(), Step::Done);
        assert_eq!(arrived(&mut *far.receiver, &mut pool), [3]);
        assert_eq!(replay.counters().packets, 4);
    }
}

#[test]
fn what_falls_due_within_the_slack_leaves_together_and_nothing_early() {
    let (replay, mut far) = replay(captured(7, 0), Pace::Recorded(1.0), 16);
    let mut replay = replay.with_slack(Duration::from_millis(25));
    let mut pool = pool();
    // They are due every 10 ms from here on.
    assert_eq!(replay.turn(millis(1000)).unwrap(), Step::At(millis(1035)));
    assert_eq!(arrived(&mut *far.receiver, &mut pool), [0]);
    assert_eq!(replay.turn(millis(1009)).unwrap(), Step::At(millis(1035)));
    assert_eq!(arrived(&mut *far.receiver, &mut pool), []);
    assert_eq!(replay.turn(millis(1035)).unwrap(), Step::At(millis(1065)));
    assert_eq!(arrived(&mut *far.receiver, &mut pool), [1, 2, 3]);
    assert_eq!(replay.turn(millis(1065)).unwrap(), Step::Done);
    assert_eq!(arrived(&mut *far.receiver, &mut pool), [4, 5, 6]);
}

#[test]
fn who_is_late_catches_up_and_who_goes_back_in_time_is_sent_at_once() {
    let packets = [(5, 0), (6, 0), (4, 0), (7, 0)];
    let packets = packets.map(|(seconds, fraction)| (seconds, fraction, packet(seconds as u8, 30)));
    let file = pcap(u32::to_le_bytes, 0xa1b2_c3d4, 101, &packets);
    let (mut replay, mut far) = replay(file, Pace::Recorded(1.0), 16);
    let mut pool = pool();
    assert_eq!(replay.turn(millis(0)).unwrap(), Step::At(millis(1000)));
    assert_eq!(arrived(&mut *far.receiver, &mut pool), [5]);
    assert_eq!(replay.turn(millis(1500)).unwrap(), Step::At(millis(2000)));
    assert_eq!(arrived(&mut *far.receiver, &mut pool), [6, 4]);
    assert_eq!(replay.turn(millis(9000)).unwrap(), Step::Done);
}

#[test]
fn as_fast_as_it_goes_waits_for_the_device_alone() {
    let (mut replay, mut far) = replay(captured(100, 0), Pace::Fastest, 8);
    let (mut pool, mut all, mut now) = (pool(), Vec::new(), 0);
    loop {
        now += 1;
        let step = replay.turn(millis(now)).unwrap();
        all.extend(arrived(&mut *far.receiver, &mut pool));
        match step {
            Step::Done => break,
            Step::At(at) => assert!(at <= millis(now) + RETRY),
        }
    }
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn only_one_direction_is_sent_where_that_is_asked_for() {
    for (direction, numbers) in [
        (Direction::Outbound, [0, 2, 4]),
        (Direction::Inbound, [1, 3, 5]),
    ] {
        let (replay, mut far) = replay(captured(6, 0), Pace::Fastest, 16);
        let mut replay = replay.only(direction);
        assert_eq!(replay.turn(millis(0)).unwrap(), Step::Done);
        assert_eq!(arrived(&mut *far.receiver, &mut pool()), numbers);
        assert_eq!(
            replay.skipped().collect::<Vec<_>>(),
            [(Skipped::OtherDirection, 3)]
        );
    }
}

#[test]
fn what_is_not_sent_is_counted_by_name() {
    let (mut replay, _far) = replay(captured(3, 50), Pace::Fastest, 16);
    assert_eq!(replay.turn(millis(0)).unwrap(), Step::Done);
    assert_eq!(replay.skipped().collect::<Vec<_>>(), [(Skipped::Cut, 3)]);
    let file = pcap(
        u32::to_le_bytes,
        0xa1b2_c3d4,
        101,
        &[(0, 0, packet(0, 1501))],
    );
    let (mut replay, _far) = super::tests::replay(file, Pace::Fastest, 16);
    assert_eq!(replay.turn(millis(0)).unwrap(), Step::Done);
    assert_eq!(replay.counters().dropped(DropReason::TransmitOversize), 1);
}

#[test]
fn all_in_front_of_the_damage_is_sent() {
    let good = captured(70, 0);
    let (mut replay, mut far) = replay(good[..good.len() - 9].to_vec(), Pace::Fastest, 128);
    assert_eq!(replay.turn(millis(0)).unwrap(), Step::At(millis(0)));
    let ended = (0..3).find_map(|_| replay.turn(millis(0)).err());
    assert!(
        matches!(ended, Some(RecordingError::CutOff { .. })),
        "{ended:?}"
    );
    assert!(arrived(&mut *far.receiver, &mut pool()).len() >= 69);
}

proptest! {
    /// Whatever is in a file, reading it ends, with an error that has a name or without.
    #[test]
    fn no_file_is_too_strange(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut file = match which {
            0 => captured(4, 0),
            1 => pcap(u32::to_be_bytes, 0xa1b2_3c4d, 1, &[(1, 2, packet(3, 60)), (4, 5, packet(6, 70))]),
            _ => captured(4, 20),
        };
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate(cut.index(file.len()) + file.len() / 2);
        file.extend(noise);
        if let Ok(records) = all(&file) {
            prop_assert!(records.len() <= file.len());
        }
        if let Ok(recording) = Recording::new(io::Cursor::new(file)) {
            let (near, _far) = memory::wire(Capabilities::ip(1500), 512);
            let mut replay = Replay::new(recording, open(near).transmitter, Medium::Ip, Pace::Fastest);
            let ends = (0..1000).any(|now| !matches!(replay.turn(millis(now)), Ok(Step::At(_))));
            prop_assert!(ends);
        }
    }
}
