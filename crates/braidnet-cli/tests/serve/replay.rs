//! `braidnet replay`: recorded packets come to the system's own sockets.

use crate::Scratch;
use crate::namespace::Namespace;
use crate::server::{PATIENCE, STACK, Server, connect};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::Output;
use std::time::{Duration, Instant};

/// A pcap file as tcpdump writes it on Ethernet: UDP datagrams from 10.77.0.2 to 10.77.0.1, port 9, so many milliseconds apart, and
/// an ARP request first.
fn recording(datagrams: u8, millis: u32) -> Vec<u8> {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]);
    let mut put = |at: u32, frame: &[u8]| {
        let length = frame.len() as u32;
        file.extend(words(&[
            1_700_000_000 + at / 1000,
            at % 1000 * 1000,
            length,
            length,
        ]));
        file.extend(frame);
    };
    let stations = [2; 12];
    put(0, &[&stations[..], &[8, 6], &[0; 28]].concat());
    for number in 0..datagrams {
        let mut ip = [
            0x45, 0, 0, 29, 0, number, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1,
        ];
        let sum: u32 = (0..10)
            .map(|at| u32::from(ip[2 * at]) << 8 | u32::from(ip[2 * at + 1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        // Without a checksum, which IPv4 allows.
        let udp = [0, 7, 0, 9, 0, 9, 0, 0, number];
        put(
            u32::from(number) * millis,
            &[&stations[..], &[8, 0], &ip, &udp].concat(),
        );
    }
    file
}

fn replay(namespace: &Namespace, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_braidnet");
    namespace.output(program, &[&["replay"], arguments].concat())
}

#[test]
fn recorded_packets_arrive_as_far_apart_as_they_were() {
    let Some(namespace) = Namespace::new("replay") else {
        return;
    };
    let scratch = Scratch::new("replay");
    let file = scratch.file("packets.pcap", &recording(5, 100));
    let socket = namespace.inside(|| UdpSocket::bind("0.0.0.0:9").expect("it is free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    for (speed, least) in [("1", 400), ("4", 100), ("max", 0)] {
        let arguments = [
            &file,
            "--to",
            "tun:bn0",
            "--host",
            "10.77.0.1/24",
            "--speed",
            speed,
        ];
        let times = std::thread::scope(|scope| {
            let sender = scope.spawn(|| replay(&namespace, &arguments));
            let times: Vec<Instant> = (0..5)
                .map(|number| {
                    let mut datagram = [0; 16];
                    assert_eq!(socket.recv(&mut datagram).expect("it comes"), 1);
                    assert_eq!(datagram[0], number);
                    Instant::now()
                })
                .collect();
            let output = sender.join().expect("it does not panic");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{output:?}");
            assert!(text.contains("5 packets, 145 bytes"), "{text}");
            assert!(text.contains("1  not-ip skipped"), "{text}");
            times
        });
        let took = times[4].duration_since(times[0]);
        // A reader that was late for the first found the others waiting: no more than that much is missing.
        let least = Duration::from_millis(least).saturating_sub(Duration::from_millis(20));
        assert!(took >= least, "speed {speed}: {took:?}");
        assert!(!namespace.has_device("bn0"));
    }
}

#[test]
fn what_serve_records_is_replayed() {
    let Some(namespace) = Namespace::new("replay serve") else {
        return;
    };
    let scratch = Scratch::new("replay-serve");
    let file = scratch.file("packets.pcapng", b"");
    let server = Server::on_bn0(&namespace, &["--echo", "7", "--pcap", &file]);
    namespace.inside(|| {
        let mut stream = connect(7);
        stream.write_all(b"hello").expect("it is taken");
        stream.read_exact(&mut [0; 5]).expect("it is answered");
        let socket = UdpSocket::bind("10.77.0.1:0").expect("the host's address");
        socket.connect((STACK, 99)).expect("it is there");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        socket.send(b"anybody?").expect("it is sent");
        socket.recv(&mut [0; 8]).expect_err("nobody is there");
    });
    assert_eq!(server.stop(Signal::TERM).code, Some(0));
    let recorded = std::fs::read(&file).expect("it is there");
    let mut texts = recorded.windows(24);
    assert!(texts.any(|text| text == b"dropped: udp.port_closed"));
    let count = |only: &[&str]| {
        let arguments = [
            &[
                &file,
                "--to",
                "tun:bn0",
                "--host",
                "10.77.0.1/24",
                "--speed",
                "max",
            ],
            only,
        ]
        .concat();
        let output = replay(&namespace, &arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        // What it says of a packet that was dropped is no packet more.
        assert!(
            !only.is_empty() || text.contains("  dropped skipped"),
            "{text}"
        );
        let packets = text
            .split_once(": ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        packets.unwrap_or_else(|| panic!("{text}"))
    };
    let [all, sent, received]: [u64; 3] =
        [&[][..], &["--only", "sent"], &["--only", "received"]].map(count);
    // A handshake, data and its acknowledgment at the least.
    assert!(
        sent >= 3 && received >= 3 && all == sent + received,
        "{sent} {received} {all}"
    );
}

#[test]
fn what_serve_records_in_a_ring_is_the_end_of_it() {
    let Some(namespace) = Namespace::new("replay ring") else {
        return;
    };
    let scratch = Scratch::new("replay-ring");
    let file = scratch.0.join("packets.pcapng").display().to_string();
    let ring = ["--pcap", &file, "--pcap-size", "1K", "--pcap-ring", "2"];
    let server = Server::on_bn0(&namespace, &[&["--echo", "7"][..], &ring].concat());
    namespace.inside(|| {
        let mut stream = connect(7);
        for _ in 0..20 {
            stream.write_all(b"hello").expect("it is taken");
            stream.read_exact(&mut [0; 5]).expect("it is answered");
        }
    });
    let ended = server.stop(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.report.contains("recorded "), "{ended:?}");
    let files = std::fs::read_dir(&scratch.0).expect("it is there");
    let mut files: Vec<String> = files
        .map(|entry| entry.expect("it is there").path().display().to_string())
        .collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let arguments = [&file, "--to", "tun:bn0", "--speed", "max"];
        let output = replay(&namespace, &arguments);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_sentence() {
    let Some(namespace) = Namespace::new("replay refusals") else {
        return;
    };
    let scratch = Scratch::new("replay-refusals");
    let text = scratch.file("text", b"no recording at all, but long enough");
    let mut bytes = recording(3, 0);
    bytes.truncate(bytes.len() - 1);
    let cut = scratch.file("cut.pcap", &bytes);
    let rows = [
        (
            vec!["/absent.pcap", "--to", "tun:bn0"],
            2,
            "/absent.pcap cannot be opened",
        ),
        (vec![&text, "--to", "tun:bn0"], 1, "this is no recording"),
        (
            vec![&cut, "--to", "tun:bn0", "--speed", "max"],
            1,
            "the recording is cut off",
        ),
        (
            vec![&cut, "--to", "tun:bn0", "--speed", "0"],
            2,
            "write a number above 0",
        ),
        (vec![&cut, "--to", "bn0"], 2, "write tun:NAME or tap:NAME"),
        (vec![&cut, "--to", "tun:a/b"], 2, "no interface name"),
    ];
    for (arguments, code, part) in rows {
        let output = replay(&namespace, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
        assert!(!namespace.has_device("bn0"));
    }
}
