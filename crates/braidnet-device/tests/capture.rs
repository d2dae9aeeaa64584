//! Captures as other programs read them. Where `tshark` or `capinfos` is not installed the test prints SKIPPED, and
//! with `CI=true` in the environment it fails instead; every block is read back beside the code as well. So it is with a disk that
//! is full, which is a file system of a test's own where one may be made.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use braidnet_device::capture::{Capture, CaptureError, Ring};
use braidnet_device::replay::Recording;
use braidnet_device::{Capabilities, Device, MacAddress, QueuePair, Transmitter, memory};
use braidnet_message::{Arena, Pool, Run};

/// An IPv4 packet with an ICMP echo request (RFC 792) in it, right in every sum.
const PING: [u8; 32] = [
    0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 1, 0x26, 0x15, 10, 99, 0, 1, 10, 99, 0, 2, // IPv4
    8, 0, 0xa3, 0x64, 0, 1, 0, 2, 0x29, 0x30, 0x2b, 0x68, // ICMP
];

/// 2026-11-21 12:00:00 UTC and 123456789 ns.
const NANOS: u64 = 1_795_262_400_123_456_789;

/// A file that disappears.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open(device: impl Device) -> QueuePair {
    Box::new(device).open().expect("a wire opens").remove(0)
}

/// A ping over IP, recorded at both ends, and over Ethernet, recorded at one.
fn record(path: &Path) {
    let file = std::fs::File::create(path).expect("a temporary file");
    let capture = Capture::with_clock(file, 0, || NANOS).expect("a thread");
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let (near, far) = memory::wire(Capabilities::ip(1500), 8);
    let (mut near, mut far) = (
        open(capture.around("near", near)),
        open(capture.around("far", far)),
    );
    let mut run = Run::from_iter([pool.copy_from_slice(0, &PING).expect("room")]);
    near.transmitter.transmit(&mut run);
    far.receiver.receive(&mut pool, &mut run, 8);

    let mut frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0].to_vec();
    frame.extend(PING);
    let address = MacAddress([2, 0, 0, 0, 0, 2]);
    let (near, _far) = memory::wire(Capabilities::ethernet(address, 1500), 8);
    let mut near = open(capture.around("ether", near));
    near.transmitter.transmit(&mut Run::from_iter([pool
        .copy_from_slice(0, &frame)
        .expect("room")]));
}

/// What a program says, or `None` and a line if it is not there.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(String::from_utf8(output.stdout).expect("text"))
        }
        Err(error) => {
            skipped(&format!("reading the capture with {program}"), &error);
            None
        }
    }
}

fn skipped(what: &str, reason: &io::Error) {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "in CI this may not be skipped: {what}: {reason}");
    println!("SKIPPED {what}: {reason}");
}

/// Sends packets with numbers in them, each of so many bytes.
fn send(to: &mut dyn Transmitter, numbers: std::ops::Range<u8>, length: usize) {
    let mut pool = Pool::new(&Arena::new(1 << 20));
    for number in numbers {
        let packet = pool.copy_from_slice(0, &vec![number; length]);
        to.transmit(&mut Run::from_iter([packet.expect("room")]));
    }
}

#[test]
fn wireshark_reads_what_was_recorded() {
    let path = std::env::temp_dir().join(format!("braidnet-capture-{}.pcapng", std::process::id()));
    let path = Temporary(path);
    record(&path.0);
    let name = path.0.to_str().expect("a plain name");
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "frame.packet_flags_direction",
        "frame.len",
        "ip.checksum.status",
        "icmp.checksum.status",
        "icmp.seq",
        "eth.src",
    ];
    let mut arguments = vec![
        "-n",
        "-r",
        name,
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
    ];
    fields
        .iter()
        .for_each(|field| arguments.extend(["-e", field]));
    if let Some(text) = output("tshark", &arguments) {
        let time = "1795262400.123456789";
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                format!("near\t{time}\t0x00000002\t32\t1\t1\t2\t"),
                format!("far\t{time}\t0x00000001\t32\t1\t1\t2\t"),
                format!("ether\t{time}\t0x00000002\t46\t1\t1\t2\t02:00:00:00:00:02"),
            ]
        );
    }
    if let Some(text) = output("capinfos", &["-c", "-E", "-M", name]) {
        let count = text
            .lines()
            .find(|line| line.starts_with("Number of packets"))
            .expect("a count");
        assert!(count.ends_with('3'), "{text}");
    }
}

#[test]
fn wireshark_shows_why_a_packet_was_dropped() {
    let directory = Directory::new("dropped");
    let path = directory.0.join("packets.pcapng");
    let capture = Capture::create(&path, 0).expect("a file");
    capture.note_drops();
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let (near, far) = memory::wire(Capabilities::ip(1500), 8);
    let (mut near, mut far) = (open(capture.around("near", near)), open(far));
    far.transmitter.transmit(&mut Run::from_iter([pool
        .copy_from_slice(0, &PING)
        .expect("room")]));
    let mut run = Run::new();
    assert_eq!(near.receiver.receive(&mut pool, &mut run, 8), 1);
    let mut message = run.pop().expect("it has come");
    // As modules leave it: without the headers that they have seen.
    message.strip(20);
    let address = message.bytes().as_ptr().addr();
    drop(message);
    capture.dropped(address, ("icmp", "echo_to_broadcast"));
    // Of what never arrived nothing is known.
    capture.dropped(1, ("icmp", "echo_to_broadcast"));
    drop((near, far, capture));
    let name = path.to_str().expect("a plain name");
    let fields = [
        "frame.interface_name",
        "frame.len",
        "icmp.seq",
        "frame.comment",
    ];
    let mut arguments = vec!["-n", "-r", name, "-T", "fields"];
    fields
        .iter()
        .for_each(|field| arguments.extend(["-e", field]));
    if let Some(text) = output("tshark", &arguments) {
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "near\t32\t2\t",
                "near dropped\t32\t2\tdropped: icmp.echo_to_broadcast",
            ]
        );
    }
}

#[test]
fn wireshark_reads_each_file_of_a_ring_by_itself() {
    let directory = Directory::new("ring");
    let ring = Ring {
        files: 2,
        file_bytes: 2000,
    };
    let path = directory.0.join("packets.pcapng");
    let capture = Capture::create_ring(path, ring, 0).expect("a file");
    let (near, _far) = memory::wire(Capabilities::ip(1500), 256);
    let mut near = open(capture.around("near", near));
    send(&mut *near.transmitter, 0..60, 200);
    drop((near, capture));
    let mut files: Vec<_> = std::fs::read_dir(&directory.0)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 2);
    let mut numbers = Vec::new();
    for file in files {
        let name = file.to_str().expect("a plain name");
        let fields = ["-e", "frame.interface_name", "-e", "frame.len"];
        let arguments = [&["-n", "-r", name, "-T", "fields"][..], &fields].concat();
        let mut recording = Recording::open(&file).expect("it is one");
        let before = numbers.len();
        while let Some(record) = recording.next_record().expect("it is whole") {
            numbers.push(record.bytes[0]);
        }
        if let Some(text) = output("tshark", &arguments) {
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines, vec!["near\t200"; numbers.len() - before]);
        }
    }
    let first = 60 - numbers.len() as u8;
    assert!(numbers.into_iter().eq(first..60));
}

/// A directory that disappears.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("braidnet-{name}-{id}"));
        std::fs::create_dir(&path).expect("a name of its own");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Has the calling thread, and those that it starts, see a file system of 64 KiB there; it goes with them.
fn mount_small_disk(at: &Path) -> io::Result<()> {
    let at = CString::new(at.as_os_str().as_bytes())?;
    let (root, size, no_data) = (c"/", c"size=64k".as_ptr().cast(), ptr::null());
    let done = |result| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: a new mount namespace changes which files the calling thread sees, and no memory.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings are terminated, and what is null may be.
    done(unsafe { libc::mount(ptr::null(), root.as_ptr(), ptr::null(), private, no_data) })?;
    let kind = c"tmpfs".as_ptr();
    // SAFETY: likewise.
    done(unsafe { libc::mount(kind, at.as_ptr(), kind, 0, size) })
}

/// Calls this with a small disk.
fn on_small_disk(name: &str, fill: impl FnOnce(&Path) + Send) {
    let directory = Directory::new(name);
    std::thread::scope(|scope| {
        scope.spawn(|| match mount_small_disk(&directory.0) {
            Ok(()) => fill(&directory.0),
            Err(error) => skipped("a full disk", &error),
        });
    });
}

/// The first bytes of all packets that are recorded there.
fn recorded(path: &Path) -> Vec<u8> {
    let mut recording = Recording::open(path).expect("it is one");
    let mut numbers = Vec::new();
    while let Some(record) = recording.next_record().expect("it is whole") {
        numbers.push(record.bytes[0]);
    }
    numbers
}

#[test]
fn what_a_full_disk_refuses_is_counted_and_what_finds_room_again_is_recorded() {
    on_small_disk("full", fill);
}

#[test]
fn a_disk_that_is_full_at_first_keeps_no_packet_from_being_read_later() {
    on_small_disk("full-at-first", |disk| {
        let (path, filler) = (disk.join("packets.pcapng"), disk.join("filler"));
        let capture = Capture::create(&path, 0).expect("a file without a byte");
        std::fs::write(&filler, vec![0; 128 << 10]).expect_err("it is larger than the disk");
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let mut near = open(capture.around("near", near));
        send(&mut *near.transmitter, 0..3, 1000);
        capture.flush().expect_err("it is full");
        std::fs::remove_file(filler).expect("it is there");
        send(&mut *near.transmitter, 3..8, 1000);
        capture.flush().expect_err("it is not whole");
        assert_eq!(capture.seen()[0].lost, 3);
        drop((near, far, capture));
        assert_eq!(recorded(&path), [3, 4, 5, 6, 7]);
    });
}

fn fill(disk: &Path) {
    let (path, filler) = (disk.join("packets.pcapng"), disk.join("filler"));
    std::fs::write(&filler, vec![0; 32 << 10]).expect("there is room");
    let capture = Capture::create(&path, 0).expect("a file");
    let (near, far) = memory::wire(Capabilities::ip(1500), 256);
    let mut near = open(capture.around("near", near));
    let mut sent = 0;
    while capture.flush().is_ok() {
        send(&mut *near.transmitter, sent..sent + 3, 1000);
        sent += 3;
    }
    // The stack is none the wiser.
    assert_eq!(near.transmitter.counters().packets, u64::from(sent));
    assert_eq!(capture.seen()[0].lost, 3);
    std::fs::remove_file(filler).expect("it is there");
    send(&mut *near.transmitter, sent..sent + 5, 1000);
    let Err(CaptureError::Write(error)) = capture.flush() else {
        panic!("it is not whole");
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let seen = capture.seen()[0];
    assert_eq!((seen.packets, seen.lost), (u64::from(sent) + 5, 3));
    drop((near, far, capture));
    let expected = (0..sent - 3).chain(sent..sent + 5);
    assert!(recorded(&path).into_iter().eq(expected));
}
