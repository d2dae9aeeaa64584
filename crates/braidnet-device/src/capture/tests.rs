use super::pcapng::*;
use super::*;
use crate::{DropReason, MacAddress, memory};
use braidnet_message::Arena;
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any disk takes; nothing waits for it where the code is right.
const PATIENCE: Duration = Duration::from_secs(60);

const NANOS: u64 = 0x1234_5678_9abc_def0;

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

fn capture(snaplen: usize) -> (Capture, Memory) {
    let file = Memory::default();
    (
        Capture::with_clock(file.clone(), snaplen, || NANOS).expect("a thread"),
        file,
    )
}

fn pool() -> Pool {
    Pool::new(&Arena::new(16 << 20))
}

fn open(device: impl Device) -> QueuePair {
    Box::new(device).open().expect("a wire opens").remove(0)
}

/// A block read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    Section,
    Interface {
        link_type: u16,
        snaplen: u32,
        name: String,
    },
    Packet {
        interface: u32,
        nanos: u64,
        length: u32,
        flags: u32,
        bytes: Vec<u8>,
    },
    Statistics {
        interface: u32,
        nanos: u64,
        received: u64,
        dropped: u64,
    },
}

/// Reads little and native endian numbers off the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count);
        self.0 = rest;
        front
    }

    fn short(&mut self) -> u16 {
        u16::from_ne_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn word(&mut self) -> u32 {
        u32::from_ne_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn padded(&mut self, count: usize) -> &'a [u8] {
        let value = self.take(count);
        let padding = self.take(count.next_multiple_of(4) - count);
        assert!(padding.iter().all(|&byte| byte == 0));
        value
    }

    /// The options up to the end of the block, which the end-of-options option closes.
    fn options(mut self) -> Vec<(u16, &'a [u8])> {
        let mut options = Vec::new();
        loop {
            let (code, length) = (self.short(), self.short());
            let value = self.padded(length.into());
            if code == OPTION_END {
                assert!(length == 0 && self.0.is_empty());
                return options;
            }
            options.push((code, value));
        }
    }
}

fn option<'a>(options: &[(u16, &'a [u8])], code: u16) -> &'a [u8] {
    options
        .iter()
        .find(|option| option.0 == code)
        .expect("the option is there")
        .1
}

/// Parses a whole file, and takes nothing on trust.
pub fn walk(file: &[u8]) -> Vec<Block> {
    let mut file = Bytes(file);
    let mut blocks = Vec::new();
    while !file.0.is_empty() {
        let (kind, length) = (file.word(), file.word() as usize);
        assert!(length >= 12 && length.is_multiple_of(4));
        let body = Bytes(file.take(length - 12));
        assert_eq!(file.word() as usize, length);
        blocks.push(parse(kind, body));
    }
    blocks
}

fn parse(kind: u32, mut body: Bytes<'_>) -> Block {
    let nanos = |body: &mut Bytes<'_>| u64::from(body.word()) << 32 | u64::from(body.word());
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    match kind {
        SECTION_HEADER => {
            assert_eq!(body.word(), 0x1a2b_3c4d);
            assert_eq!((body.short(), body.short()), (1, 0));
            assert_eq!(body.take(8), [0xff; 8]);
            assert!(option(&body.options(), SHB_USER_APPLICATION).starts_with(b"braidnet "));
            Block::Section
        }
        INTERFACE_DESCRIPTION => {
            let (link_type, _, snaplen) = (body.short(), body.short(), body.word());
            let options = body.options();
            assert_eq!(option(&options, IF_TIMESTAMP_RESOLUTION), [9]);
            let name = String::from_utf8(option(&options, IF_NAME).to_vec()).expect("UTF-8");
            Block::Interface {
                link_type,
                snaplen,
                name,
            }
        }
        ENHANCED_PACKET => {
            let (interface, nanos) = (body.word(), nanos(&mut body));
            let (recorded, length) = (body.word() as usize, body.word());
            let bytes = body.padded(recorded).to_vec();
            let options = body.options();
            let flags =
                u32::from_ne_bytes(option(&options, EPB_FLAGS).try_into().expect("four bytes"));
            Block::Packet {
                interface,
                nanos,
                length,
                flags,
                bytes,
            }
        }
        INTERFACE_STATISTICS => {
            let (interface, nanos) = (body.word(), nanos(&mut body));
            let options = body.options();
            let [received, dropped] =
                [ISB_RECEIVED, ISB_DROPPED].map(|code| number(option(&options, code)));
            Block::Statistics {
                interface,
                nanos,
                received,
                dropped,
            }
        }
        other => panic!("no such block: {other}"),
    }
}

fn packet(interface: u32, flags: u32, length: u32, bytes: &[u8]) -> Block {
    Block::Packet {
        interface,
        nanos: NANOS,
        length,
        flags,
        bytes: bytes.to_vec(),
    }
}

#[test]
fn every_block_reads_back() {
    let (capture, file) = capture(6);
    let (near, far) = memory::wire(Capabilities::ip(1500), 8);
    let mut near = open(capture.around("near", near));
    let mut far = open(capture.around("far", far));
    let mut pool = pool();
    let mut first = pool.copy_from_slice(64, b"abc").expect("room");
    first.push_continuation(pool.copy_from_slice(0, b"defgh").expect("room"));
    let mut run = Run::from_iter([first, pool.copy_from_slice(64, b"xy").expect("room")]);
    near.transmitter.transmit(&mut run);
    assert_eq!(far.receiver.receive(&mut pool, &mut run, 1), 1);
    drop((near, far));
    assert_eq!(
        capture.seen(),
        [
            Seen {
                packets: 2,
                lost: 0
            },
            Seen {
                packets: 1,
                lost: 0
            }
        ]
    );
    drop(capture);
    let interface = |name: &str| Block::Interface {
        link_type: 101,
        snaplen: 6,
        name: name.into(),
    };
    let statistics = |interface, received| Block::Statistics {
        interface,
        nanos: NANOS,
        received,
        dropped: 0,
    };
    assert_eq!(
        walk(&file.0.lock()),
        [
            Block::Section,
            interface("near"),
            interface("far"),
            packet(0, 2, 8, b"abcdef"),
            packet(0, 2, 2, b"xy"),
            packet(1, 1, 8, b"abcdef"),
            statistics(0, 2),
            statistics(1, 1),
        ]
    );
}

#[test]
fn ethernet_is_said_so_and_long_names_are_cut() {
    let (capture, file) = capture(0);
    let address = MacAddress([2, 0, 0, 0, 0, 1]);
    capture.interface(&"ü".repeat(300), &Medium::Ethernet { address });
    capture.flush().expect("memory takes all");
    let name = "ü".repeat(255);
    assert_eq!(
        walk(&file.0.lock()),
        [
            Block::Section,
            Block::Interface {
                link_type: 1,
                snaplen: 0,
                name
            }
        ]
    );
}

#[test]
fn only_what_the_device_takes_is_recorded_and_once() {
    let (capture, file) = capture(0);
    let (near, far) = memory::wire(Capabilities::ip(10), 2);
    let mut near = open(capture.around("near", near));
    let mut far = open(far);
    let mut pool = pool();
    let mut run: Run = [&b"one"[..], &[0; 11], b"two", b"three", b"four"]
        .into_iter()
        .map(|bytes| pool.copy_from_slice(0, bytes).expect("room"))
        .collect();
    near.transmitter.transmit(&mut run);
    near.transmitter.transmit(&mut run);
    assert_eq!(run.len(), 2);
    assert_eq!(
        near.transmitter
            .counters()
            .dropped(DropReason::TransmitOversize),
        1
    );
    far.receiver.receive(&mut pool, &mut Run::new(), 1);
    let mut other = near.transmitter.another().expect("another handle");
    other.transmit(&mut run);
    assert_eq!(run.len(), 1);
    assert_eq!(near.receiver.receive(&mut pool, &mut run, 8), 0);
    capture.flush().expect("memory takes all");
    let recorded: Vec<Vec<u8>> = walk(&file.0.lock())
        .into_iter()
        .filter_map(|block| match block {
            Block::Packet { bytes, .. } => Some(bytes),
            _ => None,
        })
        .collect();
    assert_eq!(recorded, [&b"one"[..], &[0; 11], b"two", b"three"]);
}

/// A writer that hands over what it is given.
struct Channel(mpsc::Sender<Vec<u8>>);

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_recorded_is_written_without_being_asked_for() {
    let (sender, receiver) = mpsc::channel();
    let capture = Capture::with_clock(Channel(sender), 0, || NANOS).expect("a thread");
    let near = capture.interface("near", &Medium::Ip);
    for length in [4, sink::HELD_BYTES / 2] {
        capture.file.sink.append(near.0, &vec![0; length], 1);
        let mut written = 0;
        while written < length {
            written += receiver.recv_timeout(PATIENCE).expect("it comes").len();
        }
    }
}

#[test]
fn a_disk_that_stands_still_costs_records_and_nothing_else() {
    let (sender, receiver) = mpsc::sync_channel(0);
    struct Slow(mpsc::SyncSender<Vec<u8>>);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let capture = Capture::with_clock(Slow(sender), 0, || NANOS).expect("a thread");
    let near = capture.interface("near", &Medium::Ip);
    let quarter = vec![0; sink::HELD_BYTES / 4];
    for _ in 0..16 {
        capture.file.sink.append(near.0, &quarter, 3);
    }
    // The writer holds one buffer at most, and has swapped it for another at most once.
    let [seen] = capture.seen()[..] else {
        panic!("one interface")
    };
    assert_eq!(seen.packets, 48);
    assert!((48 - 24..=48 - 9).contains(&seen.lost), "{seen:?}");
    let reader =
        std::thread::spawn(move || receiver.iter().map(|bytes| bytes.len()).sum::<usize>());
    drop(capture);
    let recorded = (seen.packets - seen.lost) as usize / 3 * quarter.len();
    let written = reader.join().expect("it reads");
    assert!(
        written > recorded && written < recorded + 1000,
        "{written} {recorded}"
    );
}

#[test]
fn a_writer_that_fails_or_panics_is_reported_and_holds_nobody_up() {
    struct Failing(bool);
    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            assert!(!self.0, "planted");
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for panics in [false, true] {
        let capture = Capture::with_clock(Failing(panics), 0, || NANOS).expect("a thread");
        for _ in 0..2 {
            let Err(CaptureError::Write(error)) = capture.flush() else {
                panic!("it cannot be written");
            };
            assert_eq!(
                error.kind() == io::ErrorKind::StorageFull,
                !panics,
                "{error}"
            );
        }
        let near = capture.interface("near", &Medium::Ip);
        capture.file.sink.append(near.0, &[0; 4], 1);
        assert_eq!(
            capture.seen(),
            [Seen {
                packets: 1,
                lost: 1
            }]
        );
    }
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let Err(error) = Capture::create("/nowhere/at/all.pcapng", 0) else {
        panic!("there is no such directory");
    };
    assert!(
        error.to_string().contains("/nowhere/at/all.pcapng"),
        "{error}"
    );
}

proptest! {
    /// Whatever the packets, their blocks and the snap length: each reads back with its length and its front.
    #[test]
    fn packets_of_any_shape_read_back(
        packets in vec(vec(vec(any::<u8>(), 0..40), 1..5), 1..20),
        snaplen in 0usize..80,
        nanos: u64,
    ) {
        let limit = if snaplen == 0 { usize::MAX } else { snaplen };
        let mut file = Vec::new();
        for blocks in &packets {
            let length = blocks.iter().map(Vec::len).sum();
            let header = PacketHeader { interface: 7, nanos, direction: Direction::Inbound, length, snaplen: limit };
            enhanced_packet(&mut file, header, blocks.iter().map(Vec::as_slice), None);
        }
        let expected: Vec<Block> = packets.iter().map(|blocks| {
            let all = blocks.concat();
            let bytes = all[..all.len().min(limit)].to_vec();
            Block::Packet { interface: 7, nanos, length: all.len() as u32, flags: 1, bytes }
        }).collect();
        prop_assert_eq!(walk(&file), expected);
    }
}

#[test]
fn less_and_more_waits_to_be_written() {
    let (sender, receiver) = mpsc::channel();
    let capture = Capture::with_clock(Channel(sender), 0, || NANOS).expect("a thread");
    let near = capture.interface("near", &Medium::Ip);
    let record = |held_bytes: usize, length: usize| {
        capture.set_held_bytes(held_bytes);
        capture.file.sink.append(near.0, &vec![0; length], 1);
        capture.seen()[0].lost
    };
    assert_eq!(record(1000, 10_000), 1);
    assert_eq!(record(100_000, 10_000), 1);
    assert_eq!(record(0, 4), 2, "what waits is of no account");
    assert_eq!(record(1 << 20, 50_000), 2);
    drop(capture);
    let written: usize = receiver.iter().map(|bytes| bytes.len()).sum();
    assert!((60_000..61_000).contains(&written), "{written}");
}
