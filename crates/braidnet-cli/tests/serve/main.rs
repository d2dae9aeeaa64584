//! `braidnet serve` against the system's own stack and programs.
//!
//! Every test has a network namespace of its own. As root on a machine with `/dev/net/tun` they run; elsewhere they print
//! SKIPPED and why, and with `CI=true` in the environment they fail instead. Needs `ip`, `curl`,
//! `ping` and `tshark`; those in `interop` say which of `iperf3`, `nuttcp`, `socat`, `wrk` and `nginx` they miss.

mod examples;
mod fast_open;
mod forwarding;
mod impaired;
mod interop;
mod namespace;
mod packet;
mod passed;
mod programs;
mod qemu;
mod queues;
mod refusals;
mod relay;
mod replay;
mod routes;
mod server;
mod services;
mod several;
mod trains;
mod xdp;

use namespace::Namespace;
use rustix::process::Signal;
use server::{HOST, PATIENCE, STACK, Server, connect};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// A directory of a test's own; it is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braidnet-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory for temporary files can be written");
        Scratch(path)
    }

    /// A file in it.
    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("it can be written");
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn sigterm_lets_connections_finish_and_leaves_nothing_behind() {
    let Some(namespace) = Namespace::new("sigterm") else {
        return;
    };
    let scratch = Scratch::new("sigterm");
    let http = format!("80={}", scratch.0.display());
    let server = Server::on_bn0(
        &namespace,
        &["--echo", "7", "--http", &http, "--drain", "30s"],
    );
    assert!(
        server.greeting.contains("echo on 10.77.0.2:7; try:"),
        "{}",
        server.greeting
    );
    let (mut busy, mut idle) = namespace.inside(|| (connect(7), connect(80)));
    echo(&mut busy, b"before");
    server.signal(Signal::TERM);
    // The idle HTTP connection is closed; one that is at work goes on; nobody else is let in.
    assert_eq!(idle.read(&mut [0; 16]).expect("it is closed in order"), 0);
    drop(idle);
    echo(&mut busy, b"after");
    let refused = namespace.inside(|| TcpStream::connect((STACK, 7)).map(|_| ()));
    assert_eq!(
        refused.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionRefused)
    );
    assert!(namespace.has_device("bn0"));
    drop(busy);
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.took < Duration::from_secs(25),
        "it waits no longer than it must: {ended:?}"
    );
    assert!(ended.report.contains("served 2 connections"), "{ended:?}");
    assert_eq!(
        ended.errors, "",
        "nothing but sentences is printed, and no status in a pipe"
    );
    assert!(!namespace.has_device("bn0"));
}

#[test]
fn what_does_not_finish_is_reset_when_the_time_is_over() {
    let Some(namespace) = Namespace::new("drain") else {
        return;
    };
    let server = Server::on_bn0(&namespace, &["--echo", "7", "--drain", "100ms"]);
    let mut held = namespace.inside(|| connect(7));
    echo(&mut held, b"x");
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let read = held.read(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset));
    assert!(!namespace.has_device("bn0"));
}

#[test]
fn a_second_signal_cuts_the_drain_short() {
    let Some(namespace) = Namespace::new("second signal") else {
        return;
    };
    let server = Server::on_bn0(&namespace, &["--echo", "7", "--drain", "10min"]);
    let mut held = namespace.inside(|| connect(7));
    echo(&mut held, b"x");
    server.signal(Signal::INT);
    // It is draining once it lets nobody in.
    namespace.inside(|| while TcpStream::connect((STACK, 7)).is_ok() {});
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.took < PATIENCE, "{ended:?}");
}

#[test]
fn an_adopted_device_stays_as_it_was() {
    let Some(namespace) = Namespace::new("adopted") else {
        return;
    };
    for mode in ["tun", "tap"] {
        namespace.ip(&["tuntap", "add", "dev", "bn0", "mode", mode]);
        let device = format!("--{mode}");
        let arguments = [
            &device,
            "bn0",
            "--host",
            HOST,
            "--address",
            STACK,
            "--echo",
            "7",
            "--mtu",
            "1400",
        ];
        let server = Server::start(&namespace, &arguments);
        assert!(server.greeting.contains("(adopted)"), "{}", server.greeting);
        assert!(namespace.addresses("bn0").contains("10.77.0.1/24"));
        namespace.inside(|| echo(&mut connect(7), b"hello"));
        let ended = server.stop(Signal::TERM);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let left = namespace.addresses("bn0");
        assert!(
            !left.contains("10.77") && left.contains("mtu 1500") && !left.contains(",UP"),
            "{left}"
        );
        namespace.ip(&["link", "del", "bn0"]);
    }
}

#[test]
fn a_device_that_is_removed_ends_the_run_with_a_sentence() {
    let Some(namespace) = Namespace::new("removed") else {
        return;
    };
    let server = Server::on_bn0(&namespace, &["--echo", "7"]);
    namespace.ip(&["link", "del", "bn0"]);
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("bn0 was removed while it was in use"),
        "{ended:?}"
    );
}

#[test]
fn a_file_says_what_the_line_can_say() {
    let Some(namespace) = Namespace::new("configuration") else {
        return;
    };
    let scratch = Scratch::new("configuration");
    let capture = scratch.0.join("packets.pcapng").display().to_string();
    let config = scratch.file(
        "stack.toml",
        b"tap = 'bn0'\nhost = '10.77.0.1/24'\naddress = ['10.77.0.2', '10.77.0.3']\necho = 1007\n\
          architecture = 'message'\nprocessors = 2\nlock = 'mcs'\ntcp-locks = '6-repaired'\ncongestion = 'new-reno'\nbatch = 1\n",
    );
    let server = Server::start(
        &namespace,
        &["-c", &config, "--echo", "7", "--pcap", &capture],
    );
    assert!(
        server.greeting.contains("tap bn0: message on 2 processors"),
        "{}",
        server.greeting
    );
    namespace.inside(|| {
        echo(&mut connect(7), b"hello");
        let mut other =
            TcpStream::connect(("10.77.0.3", 7)).expect("the second address answers too");
        echo(&mut other, b"hello");
    });
    assert_eq!(server.stop(Signal::TERM).code, Some(0));
    check_capture(&namespace, &capture);
}

/// A capture holds what was said, and other programs read it.
fn check_capture(namespace: &Namespace, path: &str) {
    let bytes = std::fs::read(path).expect("the capture is there");
    assert_eq!(
        bytes[..4],
        [0x0a, 0x0d, 0x0d, 0x0a],
        "the block type of a pcapng section"
    );
    assert!(bytes.windows(5).filter(|window| window == b"hello").count() >= 4);
    let read = namespace.output(
        "tshark",
        &[
            "-r",
            path,
            "-Y",
            "tcp.len > 0",
            "-T",
            "fields",
            "-e",
            "tcp.payload",
        ],
    );
    if read.status.code() == Some(255) || read.status.code() == Some(127) {
        namespace::skipped("reading the capture with tshark", "it is not installed");
        return;
    }
    let listed = String::from_utf8_lossy(&read.stdout);
    assert!(
        read.status.success() && listed.matches("68656c6c6f").count() == 4,
        "{read:?}"
    );
}

/// Says something to an echo service and hears it again.
fn echo(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).expect("the stack takes it");
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).expect("the stack answers");
    assert_eq!(heard, text);
}
