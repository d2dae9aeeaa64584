//! Captures as other programs read them. Where `tshark` or `capinfos` is not installed the test prints SKIPPED, and
//! with `CI=true` in the environment it fails instead; every block is read back beside the code as well.

use std::path::{Path, PathBuf};
use std::process::Command;

use braidnet_device::capture::Capture;
use braidnet_device::{Capabilities, Device, MacAddress, QueuePair, memory};
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
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!in_ci, "in CI this may not be skipped: {program}: {error}");
            println!("SKIPPED reading the capture with {program}: {error}");
            None
        }
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
