//! `braidnet relay`: the system's own stack on both sides, in a namespace each, and a bad network between them.

use crate::Scratch;
use crate::namespace::Namespace;
use crate::server::{Ended, PATIENCE, Server};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::time::{Duration, Instant};

const RIGHT: &str = "10.9.0.2";

/// Bytes of one TCP connection.
const UPLOAD: usize = 1 << 20;

/// Two hosts, joined by a relay.
struct Hosts {
    left: Namespace,
    right: Namespace,
    relay: Server,
}

impl Hosts {
    fn new(test: &str, mode: &str, arguments: &[&str]) -> Option<Hosts> {
        let (left, right) = (Namespace::new(test)?, Namespace::new(test)?);
        let from = format!("{mode}:rl0@{}", left.name());
        let to = format!("{mode}:rr0@{}", right.name());
        let ends = [
            "relay",
            "--from",
            &from,
            "--from-host",
            "10.9.0.1/24",
            "--to",
            &to,
            "--to-host",
            "10.9.0.2/24",
        ];
        let relay = Server::run(&left, &[&ends, arguments].concat());
        Some(Hosts { left, right, relay })
    }

    /// Ends the relay, which takes its devices with it.
    fn stop(self) -> Ended {
        let ended = self.relay.stop(Signal::INT);
        assert_eq!(
            (ended.code, ended.errors.as_str()),
            (Some(0), ""),
            "{ended:?}"
        );
        assert!(!self.left.has_device("rl0") && !self.right.has_device("rr0"));
        ended
    }
}

/// What `ping` says at the end: how many answers came, and the shortest and the middle round trip.
fn ping(from: &Namespace, arguments: &[&str]) -> (u64, Duration, Duration) {
    let output = from.output("ping", &[&["-q"], arguments, &[RIGHT]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |before: &str, at: usize, between: char| {
        let (_, rest) = text.split_once(before)?;
        rest.split(between).nth(at)?.trim().parse::<f64>().ok()
    };
    let answers = number("transmitted, ", 0, ' ').unwrap_or_else(|| panic!("{text}"));
    let millis = |at| Duration::from_secs_f64(number("mdev = ", at, '/').unwrap_or(0.0) / 1000.0);
    (answers as u64, millis(0), millis(1))
}

/// Sends bytes from left to right; how long it took until all were there as they were.
fn upload(hosts: &Hosts) -> Duration {
    let listener = (hosts.right).inside(|| TcpListener::bind((RIGHT, 9)).expect("it is free"));
    let sent: Vec<u8> = (0..UPLOAD).map(|at| ((at * at) >> 9) as u8).collect();
    let begun = Instant::now();
    let got = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("somebody calls");
            stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("all comes");
            got
        });
        hosts.left.inside(|| {
            let mut stream = TcpStream::connect((RIGHT, 9)).expect("somebody answers");
            stream.set_write_timeout(Some(PATIENCE)).expect("not zero");
            stream.write_all(&sent).expect("it is taken");
        });
        reader.join().expect("it does not panic")
    });
    assert!(got == sent, "the bytes are as they were");
    begun.elapsed()
}

#[test]
fn loss_and_delay_are_what_was_asked_for() {
    let scratch = Scratch::new("relay-loss");
    let file = scratch.file("report.json", b"");
    let bad = [
        "--impair",
        "loss=10%,delay=15ms",
        "--impair-back",
        "delay=5ms",
    ];
    let Some(hosts) = Hosts::new(
        "relay loss",
        "tun",
        &[&bad[..], &["--report", &file]].concat(),
    ) else {
        return;
    };
    let (answers, shortest, middle) = ping(&hosts.left, &["-c", "1000", "-i", "0.002", "-W", "2"]);
    // 900 of 1,000, within four standard deviations; nothing is lost on the way back.
    assert!((862..=938).contains(&answers), "{answers} answers");
    let millis = Duration::from_millis;
    assert!((millis(20)..millis(25)).contains(&shortest), "{shortest:?}");
    assert!(middle < millis(100), "{middle:?}");
    hosts.stop();
    let report = std::fs::read_to_string(file).expect("it was written");
    let count = |name: &str| {
        let counts = report
            .lines()
            .filter(|line| line.contains(&format!("\"{name}\"")));
        let count = |line: &str| line.split_once(": ")?.1.trim_end_matches(',').parse().ok();
        counts.filter_map(count).collect::<Vec<u64>>()
    };
    let (offered, lost) = (count("offered"), count("lost"));
    assert_eq!((offered.len(), lost.len()), (2, 2), "{report}");
    // The system says a little by itself, such as who its neighbours are.
    assert!(
        offered[0] - lost[0] >= answers && offered[0] < 1100,
        "{report}"
    );
    assert!(lost[0] >= 1000 - answers && lost[1] == 0, "{report}");
}

#[test]
fn tcp_goes_through_a_bad_network() {
    for mode in ["tun", "tap"] {
        let bad = "loss=1%,duplicate=1%,corrupt=0.5%,delay=10ms,reorder=1%:2ms,rate=100mbit";
        let Some(hosts) = Hosts::new(
            "relay tcp",
            mode,
            &["--impair", bad, "--impair-back", "delay=10ms"],
        ) else {
            return;
        };
        assert!(
            hosts.relay.greeting.contains(bad),
            "{}",
            hosts.relay.greeting
        );
        let took = upload(&hosts);
        // A round trip for the handshake, and the megabyte's time on the line.
        assert!(took >= Duration::from_millis(20 + 83), "{mode}: {took:?}");
        let report = hosts.stop().report;
        for said in [
            " lost",
            " duplicated",
            " held-back",
            "device.impaired-lost dropped",
        ] {
            assert!(report.contains(said), "{said}: {report}");
        }
    }
}

#[test]
fn a_device_that_is_removed_ends_it_with_a_sentence() {
    let Some(hosts) = Hosts::new("relay removed", "tun", &[]) else {
        return;
    };
    hosts.right.ip(&["link", "del", "rr0"]);
    let ended = hosts.relay.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("was removed while it was in use"),
        "{ended:?}"
    );
    assert!(!hosts.left.has_device("rl0"));
}

#[test]
fn what_cannot_be_relayed_is_refused_with_a_sentence() {
    let Some(namespace) = Namespace::new("relay refusals") else {
        return;
    };
    let rows = [
        (
            "--from tun:a --to tap:b",
            2,
            "must both be tun or both be tap",
        ),
        (
            "--from tun:a@absent --to tun:b",
            1,
            "the network namespace absent cannot be entered",
        ),
        ("--from tun:a/b --to tun:b", 2, "no interface name"),
        ("--from tun:a --to tun:b --mtu 60", 2, "68 to 65535"),
        ("--from tun:a --to tun:a", 1, "in use by another process"),
        (
            "--from tun:a --to tun:b --impair los=1%",
            2,
            "`los` is not known here: there are loss, ",
        ),
        (
            "--from tun:a --to tun:b --impair queue=5k",
            2,
            "queue needs a rate",
        ),
        ("--from a --to tun:b", 2, "write tun:NAME or tap:NAME"),
    ];
    for (arguments, code, part) in rows {
        let arguments: Vec<&str> = ["relay"].into_iter().chain(arguments.split(' ')).collect();
        let Output {
            status,
            stdout,
            stderr,
        } = namespace.output(env!("CARGO_BIN_EXE_braidnet"), &arguments);
        let errors = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(
            errors.contains(part) && stdout.is_empty(),
            "{arguments:?}: {errors}"
        );
        assert!(!namespace.has_device("a") && !namespace.has_device("b"));
    }
    let program = env!("CARGO_BIN_EXE_braidnet");
    let unprivileged = [
        "--bounding-set=-net_admin",
        "--inh-caps=-net_admin",
        program,
        "relay",
    ];
    let ends = ["--from", "tun:a", "--to", "tun:b"];
    let output = namespace.output("setpriv", &[&unprivileged[..], &ends].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("needs root or CAP_NET_ADMIN"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
}
