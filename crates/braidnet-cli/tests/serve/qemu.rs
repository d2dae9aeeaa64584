//! A server on frames over a Unix socket, and a peer that speaks qemu's framing by hand.

use crate::Scratch;
use crate::server::{PATIENCE, Server};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 9];
const STATION: [u8; 6] = [2, 0, 10, 77, 0, 2];
const HOST: [u8; 4] = [10, 77, 0, 1];
const STACK: [u8; 4] = [10, 77, 0, 2];

fn connect(path: &Path) -> UnixStream {
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
                return stream;
            }
            Err(error) => assert!(Instant::now() < until, "nobody listens: {error}"),
        }
        std::thread::yield_now();
    }
}

fn send(stream: &mut UnixStream, frame: &[u8]) {
    let framed = [&(frame.len() as u32).to_be_bytes()[..], frame].concat();
    // In two parts, neither of which is a frame.
    let (first, second) = framed.split_at(10);
    stream.write_all(first).expect("it listens");
    stream.write_all(second).expect("it listens");
}

/// The next frame for which `wanted` says yes.
fn receive(stream: &mut UnixStream, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("it answers");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).expect("it answers");
        if wanted(&frame) {
            return frame;
        }
    }
}

/// An ARP request (RFC 826) from us for the stack's address.
fn arp() -> Vec<u8> {
    let mut frame = [[0xff; 6], OURS].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(OURS.iter().chain(&HOST).chain(&[0; 6]).chain(&STACK));
    frame
}

/// The internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// An ICMP echo request (RFC 792) from us to the stack.
fn ping() -> Vec<u8> {
    let mut icmp = *b"\x08\0\0\0\x12\x34\0\x01there?";
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let mut header = [0x45, 0, 0, 34, 0, 0, 0x40, 0, 64, 1, 0, 0].to_vec();
    header.extend(HOST.iter().chain(&STACK));
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [&STATION[..], &OURS, &[8, 0], &header, &icmp].concat()
}

/// A server, and its peer.
fn launch(path: &Path) -> (Server, UnixStream) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidnet"));
    command.args([
        "serve",
        "--address",
        "10.77.0.2/24",
        "--echo",
        "7",
        "--qemu",
    ]);
    command.arg(path);
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| connect(path));
        let server = Server::launch(command);
        (server, peer.join().expect("no panic"))
    })
}

#[test]
fn frames_over_a_socket_are_answered_until_the_peer_leaves() {
    let scratch = Scratch::new("qemu");
    let path = scratch.0.join("net");
    let (server, mut peer) = launch(&path);
    assert!(!path.exists(), "nobody else is let in");
    assert!(server.greeting.contains("qemu "), "{}", server.greeting);
    send(&mut peer, &arp());
    let reply = receive(&mut peer, |frame| frame[12..14] == [8, 6] && frame[21] == 2);
    assert_eq!(reply[6..12], STATION);
    assert_eq!(reply[22..32], [&STATION[..], &STACK].concat());
    send(&mut peer, &ping());
    // Who asked for its address has told its own.
    let answer = receive(&mut peer, |frame| frame[12..14] == [8, 0] && frame[34] == 0);
    assert_eq!(answer[42..48], *b"there?");
    drop(peer);
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("its peer has left"), "{ended:?}");
}

#[test]
fn a_peer_that_speaks_something_else_is_cut_off_and_told_of() {
    let scratch = Scratch::new("qemu-lost");
    let (server, mut peer) = launch(&scratch.0.join("net"));
    peer.write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("it listens");
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = "sent a length that no frame has, more than 69632 bytes";
    assert!(ended.errors.contains(said), "{ended:?}");
    let counted = "1  device.receive-framing-lost";
    assert!(ended.report.contains(counted), "{ended:?}");
    // What the server had sent may lie there, and then the end.
    peer.read_to_end(&mut Vec::new()).expect("it has ended");
}

#[test]
fn a_signal_ends_the_wait_for_a_peer() {
    let scratch = Scratch::new("qemu-alone");
    let path = scratch.0.join("net");
    let mut child = Command::new(env!("CARGO_BIN_EXE_braidnet"))
        .args(["serve", "--address", "10.77.0.2/24", "--qemu"])
        .arg(&path)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let until = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < until, "it listens");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    let ended = child.wait().expect("it is ours");
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut errors).expect("UTF-8");
    assert_eq!(ended.code(), Some(1));
    assert!(errors.contains("before anybody connected"), "{errors}");
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_is_refused_before_anybody_connects() {
    let scratch = Scratch::new("qemu-refused");
    let path = scratch.0.join("net");
    let nowhere = scratch.0.join("missing/net");
    let rows = [
        (&path, &["--mtu", "67"][..], 2, "use 68 to 65535"),
        (&path, &[], 1, "remove it if nobody listens there"),
        (&nowhere, &[], 1, "does not exist: make it"),
    ];
    std::fs::write(&path, []).expect("a directory of its own");
    for (path, arguments, code, sentence) in rows {
        let refused = Command::new(env!("CARGO_BIN_EXE_braidnet"))
            .args(["serve", "--address", "10.77.0.2/24"])
            .args(arguments)
            .arg("--qemu")
            .arg(path)
            .output()
            .expect("it runs");
        let errors = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(code), "{errors}");
        assert!(errors.contains(sentence), "{errors}");
    }
}
