//! A device with a queue for each processor.

use crate::namespace::Namespace;
use crate::server::{Server, connect};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::thread;

/// As many that some are each processor's, whatever ports they have.
const CONNECTIONS: usize = 32;
const BYTES: usize = 512 << 10;

#[test]
fn connections_stay_on_the_queue_of_their_processor() {
    each_has_a_queue("connection");
}

#[test]
fn connections_stay_on_the_queue_of_their_processor_under_braid() {
    each_has_a_queue("braid");
}

fn each_has_a_queue(architecture: &str) {
    let Some(namespace) = Namespace::new(architecture) else {
        return;
    };
    let arguments = [
        "--echo",
        "7",
        "--processors",
        "2",
        "--architecture",
        architecture,
    ];
    let server = Server::on_bn0(&namespace, &arguments);
    assert!(
        server.greeting.contains("2 processors, 2 queues"),
        "{}",
        server.greeting
    );
    namespace.inside(|| {
        thread::scope(|scope| {
            for number in 0..CONNECTIONS {
                scope.spawn(move || exchange(number, BYTES));
            }
        });
    });
    let ended = server.stop(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = ended.report.lines().find_map(|line| {
        let (packets, handed) = line
            .strip_prefix("in by queue: ")?
            .split_once(" packets; ")?;
        let packets: Vec<u64> = packets
            .split(", ")
            .map(|count| count.parse().expect("a number"))
            .collect();
        let handed: u64 = handed.split_once(' ')?.0.parse().expect("a number");
        Some((packets, handed))
    });
    let (packets, handed) = line.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(packets.iter().all(|count| *count > 100), "{ended:?}");
    // Every SYN may come by either; what comes before the first answer, too.
    // Under braid what a guest works on is handed to its home as well.
    let least = if architecture == "connection" { 10 } else { 4 };
    let total: u64 = packets.iter().sum();
    assert!(handed * least < total, "{ended:?}");
}

#[test]
fn a_device_made_for_one_queue_is_shared_unless_more_were_asked_for() {
    let Some(namespace) = Namespace::new("one queue") else {
        return;
    };
    namespace.ip(&["tuntap", "add", "dev", "bn0", "mode", "tun"]);
    let server = Server::on_bn0(&namespace, &["--echo", "7", "--processors", "2"]);
    assert!(
        server.greeting.contains("2 processors, 1 queue,"),
        "{}",
        server.greeting
    );
    namespace.inside(|| exchange(0, BYTES));
    let ended = server.stop(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.report.contains("in by queue"), "{ended:?}");

    let asked = "serve --tun bn0 --address 10.77.0.2 --processors 2 --queues 2";
    let arguments: Vec<&str> = asked.split(' ').collect();
    let refused = namespace.output(env!("CARGO_BIN_EXE_braidnet"), &arguments);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("bn0 exists with one queue, and 2 are wanted"),
        "{errors}"
    );
}

/// Sends bytes of its own, and hears them again.
pub fn exchange(number: usize, length: usize) {
    let bytes: Vec<u8> = (0..length)
        .map(|at| (at * 31 + at / 251 + number) as u8)
        .collect();
    let mut stream = connect(7);
    let mut sending = stream.try_clone().expect("a descriptor");
    let mut heard = vec![0; length];
    thread::scope(|scope| {
        scope.spawn(|| sending.write_all(&bytes).expect("the stack takes it"));
        stream.read_exact(&mut heard).expect("the stack answers");
    });
    assert!(heard == bytes, "the bytes of connection {number}");
}
