use super::*;
use crate::Medium;
use crate::capture::tests::{Block, walk};
use crate::capture::{Capture, Interface, Seen};
use proptest::prelude::*;

/// A directory that disappears.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("braidnet-capture-{name}-{id}"));
        fs::create_dir(&path).expect("a name of its own");
        Scratch(path)
    }

    /// Its files, by name.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&self.0)
            .expect("it is there")
            .map(|entry| {
                let path = entry.expect("it is there").path();
                let name = path.file_name().expect("it has one").to_string_lossy();
                (name.into_owned(), fs::read(&path).expect("it is there"))
            })
            .collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Records a packet with this number in it.
fn record(capture: &Capture, Interface(interface): Interface, number: u32, length: usize) {
    let mut bytes = vec![0; length.max(4)];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    let header = pcapng::PacketHeader {
        interface,
        nanos: number.into(),
        direction: pcapng::Direction::Inbound,
        length: bytes.len(),
        snaplen: usize::MAX,
    };
    let mut block = Vec::new();
    pcapng::enhanced_packet(&mut block, header, [&bytes[..]].into_iter(), None);
    capture.file.sink.append(interface, &block, 1);
}

/// The numbers of a file's packets, which has so many interfaces in front of the first.
fn numbers(file: &[u8], interfaces: usize) -> Vec<u32> {
    let blocks = walk(file);
    assert_eq!(blocks[0], Block::Section);
    let described = blocks
        .iter()
        .filter(|block| matches!(block, Block::Interface { .. }));
    assert_eq!(described.count(), interfaces);
    let numbers = blocks.iter().filter_map(|block| match block {
        Block::Packet { bytes, .. } => Some(u32::from_ne_bytes(*bytes.first_chunk()?)),
        _ => None,
    });
    numbers.collect()
}

#[test]
fn the_last_files_are_kept_and_each_is_whole() {
    let scratch = Scratch::new("ring");
    let ring = Ring {
        files: 3,
        file_bytes: 4096,
    };
    let capture = Capture::create_ring(scratch.0.join("a.b.pcapng"), ring, 0).expect("a file");
    let near = capture.interface("near", &Medium::Ip);
    for number in 0..100 {
        record(&capture, near, number, 300);
    }
    capture.flush().expect("there is room");
    // What is described later is in the files behind.
    let far = capture.interface("far", &Medium::Ip);
    for number in 100..200 {
        record(&capture, far, number, 300);
        if number % 7 == 0 {
            capture.flush().expect("there is room");
        }
    }
    let lost_none = |packets| Seen { packets, lost: 0 };
    assert_eq!(capture.seen(), [lost_none(100), lost_none(100)]);
    drop(capture);
    let files = scratch.files();
    // A header, two interfaces and eleven packets of 344 bytes.
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["a.b_00017.pcapng", "a.b_00018.pcapng", "a.b_00019.pcapng"]
    );
    assert!(files.iter().all(|(_, file)| file.len() <= 4096));
    let all: Vec<u32> = files
        .iter()
        .flat_map(|(_, file)| numbers(file, 2))
        .collect();
    let first = 200 - all.len() as u32;
    assert!(
        all.len() > 22 && all.iter().copied().eq(first..200),
        "{all:?}"
    );
}

#[test]
fn names_carry_numbers_in_front_of_their_extension() {
    let ring = Some(Ring {
        files: 0,
        file_bytes: 0,
    });
    for (path, number, name) in [
        ("/tmp/a.pcapng", 1, "/tmp/a_00001.pcapng"),
        ("a", 12, "a_00012"),
        ("b/.hidden", 99_999, "b/.hidden_99999"),
        ("a.pcapng", 100_000, "a_100000.pcapng"),
    ] {
        assert_eq!(numbered(Path::new(path), ring, number), Path::new(name));
        assert_eq!(numbered(Path::new(path), None, number), Path::new(path));
    }
}

#[test]
fn what_cannot_be_cut_off_is_the_end() {
    // A device that is always full, of which nothing can be cut.
    let capture = Capture::create("/dev/full", 0).expect("it is there");
    let near = capture.interface("near", &Medium::Ip);
    for number in 0..3 {
        record(&capture, near, number, 100);
        capture.flush().expect_err("it is full");
    }
    assert_eq!(
        capture.seen(),
        [Seen {
            packets: 3,
            lost: 3
        }]
    );
    let error = capture.flush().expect_err("it was full").to_string();
    assert!(error.contains("No space left"), "{error}");
}

proptest! {
    /// Whatever the packets and when they are written: with all files kept each packet is in one, in order, and no file is too long that has more than one packet.
    #[test]
    fn no_packet_is_missing_where_files_change(
        packets in proptest::collection::vec((0usize..2000, any::<bool>()), 1..40),
        file_bytes in 0u64..4000,
    ) {
        let scratch = Scratch::new(&format!("law-{:?}", std::thread::current().id()));
        let path = scratch.0.join("all");
        let ring = Ring { files: 0, file_bytes };
        let capture = Capture::create_ring(path, ring, 0).expect("a file");
        let near = capture.interface("near", &Medium::Ip);
        for (number, (length, flushes)) in (0u32..).zip(&packets) {
            record(&capture, near, number, *length);
            if *flushes {
                capture.flush().expect("there is room");
            }
        }
        capture.flush().expect("there is room");
        let mut all = Vec::new();
        for (_, file) in scratch.files() {
            let numbers = numbers(&file, 1);
            prop_assert!(file.len() as u64 <= file_bytes || numbers.len() == 1);
            all.extend(numbers);
        }
        prop_assert!(all.into_iter().eq(0..packets.len() as u32));
    }
}
