//! Where what a server sends goes, beyond the networks that it is on.

use crate::namespace::Namespace;
use crate::server::{HOST, STACK, Server};
use rustix::process::Signal;

/// Networks behind the host, which answers ARP for none of their addresses.
const BEHIND: &str = "10.99.0.1";
const ELSEWHERE: &str = "10.98.0.1";

/// How many of three echo requests from `source` are answered.
fn answered(namespace: &Namespace, source: &str, patience: &str) -> usize {
    let arguments = ["-c", "3", "-i", "0.2", "-W", patience, "-I", source, STACK];
    let output = namespace.output("ping", &arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    text.matches("bytes from").count()
}

#[test]
fn answers_go_to_the_gateway_of_a_route_or_nowhere() {
    let Some(namespace) = Namespace::new("routes") else {
        return;
    };
    for address in [BEHIND, ELSEWHERE] {
        namespace.ip(&["addr", "add", &format!("{address}/32"), "dev", "lo"]);
    }
    // Answers to ARP for addresses of the device only (arp_ignore): nobody would answer for the others.
    namespace.inside(|| {
        let written = std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
        written.expect("the namespace's own");
    });
    let address = format!("{STACK}/24");
    let ends = ["--tap", "bn0", "--host", HOST, "--address", &address];
    let route = ["--route", "10.99.0.0/16=10.77.0.1"];
    let server = Server::start(&namespace, &[&ends[..], &route].concat());
    assert_eq!(answered(&namespace, BEHIND, "30"), 3);
    assert_eq!(answered(&namespace, ELSEWHERE, "1"), 0);
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.report.contains("3  ip.no_route"), "{ended:?}");
}

/// The host's ends of two links are on one network, and the stack has no address on the second: a route tells them apart.
#[test]
fn a_route_names_its_device() {
    for kind in ["tun", "tap"] {
        let Some(namespace) = Namespace::new("by device") else {
            return;
        };
        let address = format!("{STACK}/24");
        let ends = [
            &format!("--{kind}"),
            "bn0",
            "--host",
            HOST,
            "--address",
            &address,
        ];
        let second = format!("{kind}=bn1");
        let further = ["--device", &second, "--route", "10.77.0.128/25 dev bn1"];
        let server = Server::start(&namespace, &[&ends[..], &further].concat());
        // Where the reverse path is not asked for.
        namespace.inside(|| {
            for device in ["all", "bn0", "bn1"] {
                let path = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
                std::fs::write(path, "0").expect("the namespace's own");
            }
        });
        namespace.ip(&["addr", "add", "10.77.0.200/32", "dev", "bn1"]);
        namespace.ip(&["link", "set", "bn1", "up"]);
        // Asked by the first device, it answers by the second.
        assert_eq!(answered(&namespace, "10.77.0.200", "30"), 3, "{kind}");
        let bytes = "/sys/class/net/bn1/statistics/rx_packets";
        let came = namespace.output("cat", &[bytes]);
        let came = String::from_utf8_lossy(&came.stdout);
        let came: u64 = came.trim().parse().expect("a number");
        assert!(came >= 3, "{kind}: {came}");
        let ended = server.stop(Signal::INT);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
