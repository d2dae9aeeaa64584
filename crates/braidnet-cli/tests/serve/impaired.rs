//! `braidnet serve --impair`: what a bad network does, under every architecture.

use crate::namespace::Namespace;
use crate::server::{STACK, Server, connect};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::time::Duration;

/// Bytes that are echoed, over a network that loses and delays.
const ECHO: usize = 256 << 10;

/// Packets that are held back go on at their time though nothing else wakes who turns the device.
#[test]
fn held_packets_leave_on_time() {
    let Some(namespace) = Namespace::new("held") else {
        return;
    };
    let rows = [
        "--architecture connection --wait sleep",
        "--architecture connection --processors 2 --wait sleep",
        "--architecture message --processors 2 --wait sleep",
        "--architecture task --processors 2 --wait sleep",
        "--architecture braid --processors 2",
        "--architecture connection --processors 2 --agents tasks --threads 1 --wait sleep",
    ];
    for row in rows {
        let impaired = ["--impair", "delay=70ms", "--impair-back", "delay=30ms"];
        let arguments: Vec<&str> = row.split_whitespace().chain(impaired).collect();
        let server = Server::on_bn0(&namespace, &arguments);
        let round_trips = ping(&namespace);
        let shortest = round_trips.iter().min().expect("there were some");
        let bounds = Duration::from_millis(100)..Duration::from_millis(150);
        assert!(bounds.contains(shortest), "{row}: {round_trips:?}");
        let ended = server.stop(Signal::TERM);
        assert_eq!(ended.code, Some(0), "{row}: {ended:?}");
    }
}

/// Round trip times, as `ping` measures them while nothing else goes on.
fn ping(namespace: &Namespace) -> Vec<Duration> {
    let output = namespace.output("ping", &["-c", "3", "-i", "0.2", "-W", "5", STACK]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let times = text.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        let millis: f64 = time.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_secs_f64(millis / 1000.0))
    });
    times.collect()
}

#[test]
fn bytes_come_whole_over_a_bad_network_and_the_report_says_how_bad() {
    let Some(namespace) = Namespace::new("impaired") else {
        return;
    };
    for architecture in ["connection", "message"] {
        let server = Server::on_bn0(
            &namespace,
            &[
                "--echo",
                "7",
                "--architecture",
                architecture,
                "--processors",
                "2",
                "--impair",
                "loss=2%,duplicate=5%,corrupt=2%,reorder=10%:2ms,delay=2ms",
                "--impair-back",
                "burst-loss=1%:50%,delay=2ms,jitter=1ms",
            ],
        );
        let sent: Vec<u8> = (0..ECHO).map(|at| ((at * at) >> 7) as u8).collect();
        let heard = namespace.inside(|| {
            let (mut writer, mut heard) = (connect(7), vec![0; ECHO]);
            let mut reader = writer.try_clone().expect("there are descriptors");
            std::thread::scope(|scope| {
                scope.spawn(|| writer.write_all(&sent).expect("the stack takes it"));
                reader.read_exact(&mut heard).expect("all comes back");
            });
            heard
        });
        assert!(heard == sent, "the bytes come back as they were");
        let ended = server.stop(Signal::TERM);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for said in [
            "device.impaired-lost",
            "impaired out: ",
            " duplicated, ",
            " corrupted, ",
            " held-back",
            "impaired in: ",
            " lost-in-bursts",
        ] {
            assert!(ended.report.contains(said), "{said}: {}", ended.report);
        }
    }
}
