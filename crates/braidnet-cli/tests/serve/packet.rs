//! A server beside the system on one end of a veth pair, and real clients in another namespace at the other end.

use crate::namespace::Namespace;
use crate::queues::exchange;
use crate::server::{STACK, Server, connect};
use crate::{Scratch, echo};
use rustix::process::Signal;
use std::thread;

/// Bytes of the file that is fetched.
const FILE: usize = 64 << 20;
const UPLOAD: usize = 16 << 20;
const CONNECTIONS: usize = 16;

/// The namespaces of the clients and of the server, joined by `bn0` and `bn1`.
pub fn joined(test: &str) -> Option<(Namespace, Namespace)> {
    let (clients, servers) = (Namespace::new(test)?, Namespace::new(test)?);
    let veth = ["link", "add", "bn0", "type", "veth", "peer", "name", "bn1"];
    clients.ip(&[&veth[..], &["netns", servers.name()]].concat());
    clients.ip(&["addr", "add", "10.77.0.1/24", "dev", "bn0"]);
    clients.ip(&["link", "set", "bn0", "up"]);
    servers.ip(&["link", "set", "bn1", "up"]);
    Some((clients, servers))
}

fn serve(servers: &Namespace, arguments: &[&str]) -> Server {
    let ends = ["--packet", "bn1", "--address", "10.77.0.2/24"];
    Server::start(servers, &[&ends, arguments].concat())
}

/// How many look at all that passes there, as `ip` prints it, and whether it is up.
pub fn state(servers: &Namespace) -> String {
    let shown = servers.output("ip", &["-d", "link", "show", "bn1"]);
    String::from_utf8(shown.stdout).expect("text")
}

#[test]
fn clients_are_served_over_veth_and_nothing_is_left_behind() {
    let Some((clients, servers)) = joined("veth") else {
        return;
    };
    let before = state(&servers);
    let scratch = Scratch::new("veth");
    let file: Vec<u8> = (0..FILE).map(|at| (at * 31 + at / 251) as u8).collect();
    scratch.file("big", &file);
    let http = format!("80={}", scratch.0.display());
    let server = serve(&servers, &["--echo", "7", "--http", &http]);
    assert!(
        server.greeting.contains(
            "packet bn1: connection on 1 processor, 1 queue, checksums, segments and datagrams offloaded"
        ),
        "{}",
        server.greeting
    );
    let url = format!("http://{STACK}/big");
    let got = clients.output("curl", &["-sS", "--max-time", "60", &url]);
    assert!(
        got.status.success(),
        "{}",
        String::from_utf8_lossy(&got.stderr)
    );
    assert!(got.stdout == file, "the file arrives as it is");
    let ping = clients.output("ping", &["-c", "3", "-i", "0.2", "-s", "4000", STACK]);
    assert!(ping.status.success(), "{ping:?}");
    clients.inside(|| {
        let mut stream = connect(7);
        for _ in 0..100 {
            echo(&mut stream, b"x");
        }
        drop(stream);
        exchange(7, UPLOAD);
    });
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        !ended.report.contains("receive-"),
        "nothing is dropped: {ended:?}"
    );
    assert_eq!(state(&servers), before);
}

#[test]
fn without_offloads_packets_are_as_on_a_wire() {
    let Some((clients, servers)) = joined("plain veth") else {
        return;
    };
    // What `ethtool -K bn0 tso off gso off` does to what TCP sends.
    clients.ip(&["link", "set", "bn0", "gso_max_segs", "1"]);
    let server = serve(&servers, &["--echo", "7", "--offload", "off"]);
    assert!(
        server.greeting.contains("without offloads"),
        "{}",
        server.greeting
    );
    clients.inside(|| exchange(1, 1 << 20));
    let ended = server.stop(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn two_processors_share_what_comes_over_veth() {
    for architecture in ["connection", "braid"] {
        let Some((clients, servers)) = joined("fanout") else {
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
        let server = serve(&servers, &arguments);
        assert!(
            server.greeting.contains("2 processors, 2 queues"),
            "{}",
            server.greeting
        );
        clients.inside(|| {
            thread::scope(|scope| {
                for number in 0..CONNECTIONS {
                    scope.spawn(move || exchange(number, 256 << 10));
                }
            });
        });
        let ended = server.stop(Signal::TERM);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let line = ended.report.lines().find_map(|line| {
            let (packets, _) = line.strip_prefix("in by queue: ")?.split_once(" packets")?;
            let counts = packets.split(", ").map(|count| count.parse::<u64>());
            counts.collect::<Result<Vec<_>, _>>().ok()
        });
        let packets = line.unwrap_or_else(|| panic!("{ended:?}"));
        assert!(packets.iter().all(|count| *count > 50), "{ended:?}");
    }
}

#[test]
fn an_interface_that_is_removed_ends_the_run_with_a_sentence() {
    let Some((clients, servers)) = joined("veth removed") else {
        return;
    };
    let server = serve(&servers, &["--echo", "7"]);
    clients.inside(|| echo(&mut connect(7), b"hello"));
    clients.ip(&["link", "del", "bn0"]);
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("bn1 was removed while it was in use"),
        "{ended:?}"
    );
}

#[test]
fn interfaces_that_cannot_be_joined_are_refused() {
    let Some((_clients, servers)) = joined("veth refused") else {
        return;
    };
    servers.ip(&["link", "set", "bn1", "down"]);
    let rows = [
        ("--packet absent0", 1, "there is no interface \"absent0\""),
        ("--packet lo", 1, "lo is no Ethernet interface"),
        ("--packet bn1", 1, "bn1 is down: bring it up"),
    ];
    for (device, code, part) in rows {
        let asked = format!("serve {device} --address 10.77.0.2/24");
        let arguments: Vec<&str> = asked.split(' ').collect();
        let refused = servers.output(env!("CARGO_BIN_EXE_braidnet"), &arguments);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
}
