//! A server between two hosts of the system's own stack, each in a network namespace.

use crate::namespace::Namespace;
use crate::server::Server;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

const LEFT: &str = "10.77.0.1";
const RIGHT: &str = "10.78.0.1";
/// Of the server, to the left and to the right.
const BETWEEN: [&str; 2] = ["10.77.0.2", "10.78.0.2"];

/// Two hosts, and a server between them.
struct Hosts {
    left: Namespace,
    right: Namespace,
    server: Server,
}

impl Hosts {
    fn new(test: &str, arguments: &[&str]) -> Option<Hosts> {
        Hosts::over(["tun", "tun"], "", test, arguments)
    }

    /// With devices of these kinds to the left and to the right, the right one of which is told more.
    fn over(
        [left_kind, right_kind]: [&str; 2],
        more: &str,
        test: &str,
        arguments: &[&str],
    ) -> Option<Hosts> {
        let (left, right) = (Namespace::new(test)?, Namespace::new(test)?);
        let (one, two) = (
            format!("--{left_kind}"),
            format!("{right_kind}=bn1,address=10.78.0.2/24,mtu=1400{more}"),
        );
        let ends = [
            &one,
            "bn0",
            "--host",
            "10.77.0.1/24",
            "--address",
            "10.77.0.2/24",
            "--device",
            &two,
            "--forward",
        ];
        let server = Server::start(&left, &[&ends[..], arguments].concat());
        // The right device moves to where the right host is.
        left.ip(&["link", "set", "bn1", "netns", right.name()]);
        right.ip(&["addr", "add", "10.78.0.1/24", "dev", "bn1"]);
        right.ip(&["link", "set", "bn1", "up"]);
        left.ip(&["route", "add", "default", "via", BETWEEN[0]]);
        right.ip(&["route", "add", "default", "via", BETWEEN[1]]);
        Some(Hosts {
            left,
            right,
            server,
        })
    }
}

/// What `ping` says.
fn ping(from: &Namespace, arguments: &[&str]) -> (bool, String) {
    let output = from.output("ping", &[&["-c", "1", "-w", "30"], arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

/// Answers one request for anything, on port 8000 of `host`, with these bytes.
fn answer(host: &Namespace, bytes: &[u8]) -> JoinHandle<()> {
    let listener = host.inside(|| TcpListener::bind("0.0.0.0:8000"));
    let listener = listener.expect("nobody else has the port");
    let bytes = bytes.to_vec();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody asks");
        let mut lines = BufReader::new(&stream).lines();
        while lines
            .next()
            .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
        {}
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
        (&stream).write_all(head.as_bytes()).expect("it listens");
        (&stream).write_all(&bytes).expect("it listens");
    })
}

fn fetch(from: &Namespace, url: &str) -> Vec<u8> {
    let output = from.output("curl", &["-sS", "--max-time", "60", url]);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn hosts_reach_each_other_and_hear_why_not() {
    let Some(hosts) = Hosts::new("forwarding", &[]) else {
        return;
    };
    // Both ways, and the server itself at each of its addresses.
    for to in [RIGHT, BETWEEN[0], BETWEEN[1]] {
        let (answered, text) = ping(&hosts.left, &[to]);
        assert!(answered, "{to}: {text}");
    }
    let (answered, text) = ping(&hosts.right, &[LEFT]);
    assert!(answered && text.contains("ttl=63"), "{text}");
    // As traceroute does it.
    let (answered, text) = ping(&hosts.left, &["-t", "1", RIGHT]);
    assert!(!answered, "{text}");
    assert!(
        text.contains("From 10.77.0.2") && text.contains("Time to live exceeded"),
        "{text}"
    );
    let (answered, text) = ping(&hosts.left, &["192.0.2.1"]);
    assert!(!answered, "{text}");
    assert!(
        text.contains("From 10.77.0.2") && text.contains("Net Unreachable"),
        "{text}"
    );
    // Nobody's on the link itself: it does not go back.
    let (answered, text) = ping(&hosts.left, &["10.77.0.9"]);
    assert!(!answered, "{text}");
    assert!(
        text.contains("From 10.77.0.2") && text.contains("Host Unreachable"),
        "{text}"
    );
    // Longer than the right link carries: told of, or cut.
    let long = ["-s", "1450", RIGHT];
    let (answered, text) = ping(&hosts.left, &[&["-M", "do"], &long[..]].concat());
    assert!(!answered && text.contains("mtu = 1400"), "{text}");
    let (answered, text) = ping(&hosts.left, &[&["-M", "dont"], &long[..]].concat());
    assert!(answered, "{text}");
    let ended = hosts.server.stop(Signal::INT);
    assert_eq!(
        (ended.code, ended.errors.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    for counter in [
        "ip.ttl_exceeded",
        "ip.forward_no_route",
        "ip.forward_no_host",
        "ip.forward_too_long",
    ] {
        assert!(
            ended.report.contains(&format!("1  {counter}")),
            "{counter}: {ended:?}"
        );
    }
}

#[test]
fn frames_go_on_as_frames_and_as_bare_packets() {
    let file: Vec<u8> = (0..300_000u32)
        .map(|n| (n.wrapping_mul(n) / 7) as u8)
        .collect();
    for kinds in [["tap", "tun"], ["tun", "tap"], ["tap", "tap"]] {
        let Some(hosts) = Hosts::over(kinds, "", "frames", &[]) else {
            return;
        };
        for (from, to) in [(&hosts.left, RIGHT), (&hosts.right, LEFT)] {
            let (answered, text) = ping(from, &[to]);
            assert!(answered && text.contains("ttl=63"), "{kinds:?}: {text}");
        }
        // The server itself, at its address on the far link.
        let (answered, text) = ping(&hosts.left, &[BETWEEN[1]]);
        assert!(answered, "{kinds:?}: {text}");
        let (answered, text) = ping(&hosts.left, &["-t", "1", RIGHT]);
        assert!(
            !answered && text.contains("From 10.77.0.2") && text.contains("Time to live exceeded"),
            "{kinds:?}: {text}"
        );
        for (host, from, address) in [
            (&hosts.left, &hosts.right, LEFT),
            (&hosts.right, &hosts.left, RIGHT),
        ] {
            let answering = answer(host, &file);
            let url = format!("http://{address}:8000/file");
            assert!(fetch(from, &url) == file, "{kinds:?}");
            answering.join().expect("it has answered");
        }
        let ended = hosts.server.stop(Signal::INT);
        let (code, errors) = (ended.code, ended.errors.as_str());
        assert_eq!((code, errors), (Some(0), ""), "{kinds:?}: {ended:?}");
    }
}

/// Segments of the system's, whole trains of them where devices offload, under each architecture.
#[test]
fn files_are_fetched_through_it() {
    let file: Vec<u8> = (0..3_000_000u32)
        .map(|n| (n.wrapping_mul(n) / 7) as u8)
        .collect();
    for how in [
        &["--architecture", "connection"][..],
        &[
            "--architecture",
            "connection",
            "--processors",
            "2",
            "--apart",
        ],
        &["--architecture", "connection", "--offload", "off"],
        &["--architecture", "braid", "--processors", "2"],
        &["--architecture", "message", "--processors", "2"],
        &["--architecture", "task", "--processors", "2"],
    ] {
        let Some(hosts) = Hosts::new("fetching", how) else {
            return;
        };
        fetch_both_ways(hosts, &file);
    }
}

/// The right device takes no trains and makes no checksums: what comes in trains by the left one is cut for it.
#[test]
fn trains_are_cut_for_the_device_that_takes_none() {
    let file: Vec<u8> = (0..3_000_000u32)
        .map(|n| (n.wrapping_mul(n) / 7) as u8)
        .collect();
    for kinds in [["tun", "tun"], ["tun", "tap"]] {
        let Some(hosts) = Hosts::over(kinds, ",offload=off", "cutting", &[]) else {
            return;
        };
        let greeting = &hosts.server.greeting;
        let left = greeting.contains("bn0 checksums, segments");
        assert!(
            left && greeting.contains("bn1 without offloads"),
            "{greeting}"
        );
        fetch_both_ways(hosts, &file);
    }
}

/// Fetches what each host has from the other one, and ends the server.
fn fetch_both_ways(hosts: Hosts, file: &[u8]) {
    for (host, from, address) in [
        (&hosts.left, &hosts.right, LEFT),
        (&hosts.right, &hosts.left, RIGHT),
    ] {
        let answering = answer(host, file);
        let url = format!("http://{address}:8000/file");
        assert!(fetch(from, &url) == file, "{}", hosts.server.greeting);
        answering.join().expect("it has answered");
    }
    let ended = hosts.server.stop(Signal::INT);
    assert_eq!(
        (ended.code, ended.errors.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
}
