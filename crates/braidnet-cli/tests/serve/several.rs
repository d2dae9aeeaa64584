//! A server on two devices, each with the system's own stack on its other side.

use crate::Scratch;
use crate::namespace::Namespace;
use crate::server::Server;
use rustix::process::Signal;

/// The stack's addresses on the two.
const OURS: [&str; 2] = ["10.77.0.2", "10.78.0.2"];

/// Whether three echo requests to `address` are all answered.
fn answers(namespace: &Namespace, address: &str) -> bool {
    let arguments = ["-c", "3", "-i", "0.2", "-w", "30", address];
    namespace.output("ping", &arguments).status.success()
}

fn fetched(namespace: &Namespace, address: &str) -> Vec<u8> {
    let url = format!("http://{address}/file");
    let output = namespace.output("curl", &["-sS", "--max-time", "60", &url]);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn two_devices_are_served_together_and_apart() {
    let scratch = Scratch::new("several");
    let file: Vec<u8> = (0..3_000_000u32)
        .map(|n| (n.wrapping_mul(n) / 7) as u8)
        .collect();
    scratch.file("file", &file);
    let http = format!("80={}", scratch.0.display());
    let ends = [
        "--tun",
        "bn0",
        "--host",
        "10.77.0.1/24",
        "--address",
        "10.77.0.2/24",
        "--device",
        "tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24,mtu=1400",
        "--http",
        &http,
    ];
    for how in [
        &["--architecture", "connection"][..],
        &["--architecture", "connection", "--processors", "2"],
        &[
            "--architecture",
            "connection",
            "--processors",
            "2",
            "--apart",
        ],
        &["--architecture", "braid", "--processors", "2", "--apart"],
        &["--architecture", "message", "--processors", "2"],
        &["--architecture", "task", "--processors", "2"],
    ] {
        let Some(namespace) = Namespace::new("several") else {
            return;
        };
        let server = Server::start(&namespace, &[&ends[..], how].concat());
        assert!(
            server.greeting.contains("tun bn0 and tun bn1:"),
            "{}",
            server.greeting
        );
        for address in OURS {
            assert!(answers(&namespace, address), "{address} {how:?}");
            assert!(fetched(&namespace, address) == file, "{address} {how:?}");
        }
        let ended = server.stop(Signal::INT);
        assert_eq!(
            (ended.code, ended.errors.as_str()),
            (Some(0), ""),
            "{ended:?}"
        );
        assert!(ended.report.contains("served 2 connections"), "{ended:?}");
        assert!(!namespace.has_device("bn0") && !namespace.has_device("bn1"));
    }
}

/// What goes away with one device is said by nobody but the packets that were to leave by it: the other is served on.
#[test]
fn a_device_that_is_removed_leaves_the_other() {
    let Some(namespace) = Namespace::new("removed") else {
        return;
    };
    let ends = "--tun bn0 --host 10.77.0.1/24 --address 10.77.0.2/24 --device tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24";
    let ends: Vec<&str> = ends.split(' ').collect();
    let server = Server::start(&namespace, &ends);
    assert!(answers(&namespace, OURS[1]));
    namespace.ip(&["link", "del", "bn1"]);
    assert!(answers(&namespace, OURS[0]));
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
