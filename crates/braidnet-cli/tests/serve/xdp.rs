//! A server that has taken one end of a veth pair over, and real clients in another namespace at the other end.

use crate::namespace::Namespace;
use crate::packet::{joined, state};
use crate::queues::exchange;
use crate::server::{PATIENCE, STACK, Server, connect};
use crate::{Scratch, echo};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::Signal;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Bytes of the file that is fetched.
const FILE: usize = 16 << 20;
const UPLOAD: usize = 4 << 20;

/// As `ethtool -K bn0 tx off`: the system makes the checksums of what it sends there itself.
fn checksums_in_software(clients: &Namespace) {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        value: *mut Value,
        rest: [u8; 16],
    }
    clients.inside(|| {
        let mut value = Value {
            command: 0x17, // ETHTOOL_STXCSUM
            data: 0,
        };
        let mut request = Request {
            name: *b"bn0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            value: &raw mut value,
            rest: [0; 16],
        };
        let control = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let control = control.expect("a socket");
        // SAFETY: SIOCETHTOOL reads an `ifreq`, which `request` is as large as, and the two words that it points to.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), 0x8946 as _, &raw mut request) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    });
}

fn serve(servers: &Namespace, arguments: &[&str]) -> Server {
    let ends = ["--xdp", "bn1", "--address", "10.77.0.2/24"];
    Server::start(servers, &[&ends, arguments].concat())
}

#[test]
fn clients_are_served_and_the_interface_is_given_back() {
    let Some((clients, servers)) = joined("xdp") else {
        return;
    };
    let before = state(&servers);
    let scratch = Scratch::new("xdp");
    let file: Vec<u8> = (0..FILE).map(|at| (at * 31 + at / 251) as u8).collect();
    scratch.file("big", &file);
    let http = format!("80={}", scratch.0.display());
    let server = serve(&servers, &["--echo", "7", "--http", &http]);
    checksums_in_software(&clients);
    assert!(
        server.greeting.contains(
            "xdp bn1 (in the driver): connection on 1 processor, 1 queue, without offloads"
        ),
        "{}",
        server.greeting
    );
    assert!(state(&servers).contains("xdp"));
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
    assert_eq!(state(&servers), before);
}

#[test]
fn two_processors_share_what_comes_by_one_queue() {
    let Some((clients, servers)) = joined("xdp shared") else {
        return;
    };
    let server = serve(&servers, &["--echo", "7", "--processors", "2"]);
    checksums_in_software(&clients);
    assert!(
        server.greeting.contains("2 processors, 1 queue"),
        "{}",
        server.greeting
    );
    clients.inside(|| {
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || exchange(number, 256 << 10));
            }
        });
    });
    assert_eq!(server.stop(Signal::TERM).code, Some(0));
}

#[test]
fn who_is_killed_leaves_no_program_behind() {
    let Some((clients, servers)) = joined("xdp killed") else {
        return;
    };
    let server = serve(&servers, &["--echo", "7"]);
    checksums_in_software(&clients);
    clients.inside(|| echo(&mut connect(7), b"hello"));
    assert!(state(&servers).contains("xdp"));
    server.signal(Signal::KILL);
    server.wait();
    let begun = Instant::now();
    while state(&servers).contains("xdp") {
        assert!(begun.elapsed() < PATIENCE);
    }
    // And somebody else may.
    let server = serve(&servers, &["--echo", "7"]);
    clients.inside(|| echo(&mut connect(7), b"hello"));
    assert_eq!(server.stop(Signal::TERM).code, Some(0));
}

#[test]
fn an_interface_that_is_removed_ends_the_run_with_a_sentence() {
    let Some((clients, servers)) = joined("xdp removed") else {
        return;
    };
    let server = serve(&servers, &["--echo", "7"]);
    clients.ip(&["link", "del", "bn0"]);
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("bn1 was removed while it was in use"),
        "{ended:?}"
    );
}
