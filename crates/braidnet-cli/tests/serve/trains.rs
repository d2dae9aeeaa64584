//! Datagrams in trains, with the system's own UDP at the other end, and with the system between two stacks.

use crate::namespace::{Namespace, skipped};
use crate::server::{PATIENCE, STACK, Server};
use braidnet::StackConfig;
use braidnet::device::Device;
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::net::{Host, UdpSocket};
use braidnet::wire::address::Address;
use rustix::process::Signal;
use std::os::fd::AsRawFd;

const PORT: u16 = 7;
/// Of the system, and of another stack.
const SYSTEM: &str = "10.77.0.1";
const OTHER: &str = "10.78.0.2";

/// Bytes of all datagrams, and of each: trains as long as they may be, short ones, a last one that is shorter.
const TRAINS: [(usize, usize); 5] = [
    (32 * 1472, 1472),
    (64 * 100, 100),
    (64, 1),
    (5 * 1000 + 1, 1000),
    (1001, 1000),
];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// A device with an address of the system's, for the calling thread's namespace.
fn device(mode: Mode, offload: bool, host: [u8; 4]) -> TunDevice {
    let address = Address::v4(host);
    let device = TunDevice::create(TunConfig {
        mtu: Some(1500),
        host: Some(HostAddress {
            address,
            prefix: 24,
        }),
        offload,
        ..TunConfig::new(mode)
    });
    device.expect("a device")
}

/// Of a stack on a network of 24 bits.
fn config(address: &str) -> StackConfig {
    let address = address.parse().expect("an address");
    StackConfig {
        addresses: vec![(address, Some(24))],
        ..StackConfig::new(address)
    }
}

fn counted(host: &Host, name: &str) -> u64 {
    host.counters().get(name).copied().unwrap_or_default()
}

/// Has the system send what it is given in datagrams of so many bytes (`UDP_SEGMENT`).
fn send_in_segments(socket: &std::net::UdpSocket, bytes: libc::c_int) {
    // SAFETY: the option is an `int`, which is borrowed for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as _,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Trains go both ways between the system and a stack on this device; whether the device was to offload.
fn talk(mode: Mode, offload: bool) {
    let device = device(mode, offload, [10, 77, 0, 1]);
    let takes_trains = device.capabilities().offloads.datagrams;
    assert!(offload || !takes_trains);
    if offload && !takes_trains {
        return skipped("datagrams in trains", "the kernel is older than Linux 6.2");
    }
    let host = Host::start(&config(STACK), device).expect("a stack");
    let stack = UdpSocket::bind(&host, (STACK, PORT)).expect("it is free");
    stack.set_read_timeout(Some(patience())).expect("not zero");
    let system = std::net::UdpSocket::bind((SYSTEM, 0)).expect("it is free");
    system.set_read_timeout(Some(PATIENCE)).expect("not zero");
    system.connect((STACK, PORT)).expect("there is a route");
    let (mut all, mut heard) = (0, vec![0; 2000]);
    for (len, each) in TRAINS {
        let sent = text(len);
        // To a device that makes no checksums, not every Linux sends datagrams in this way.
        if takes_trains {
            send_in_segments(&system, each as _);
            assert_eq!(system.send(&sent).expect("it fits"), len);
        } else {
            let mut pieces = sent.chunks(each);
            assert!(pieces.all(|piece| system.send(piece).is_ok()));
        }
        for expected in sent.chunks(each) {
            let (length, from) = stack.recv_from(&mut heard).expect("it comes");
            assert!(heard[..length] == *expected, "{len} bytes by {each}");
            assert_eq!(from, system.local_addr().expect("it is bound"));
        }
        let to = system.local_addr().expect("it is bound");
        let told = stack.send_segments_to(&sent, each, to).expect("it fits");
        assert_eq!(told, len);
        for expected in sent.chunks(each) {
            let length = system.recv(&mut heard).expect("it comes");
            assert!(heard[..length] == *expected, "{len} bytes by {each}");
        }
        all += len.div_ceil(each) as u64;
    }
    let in_trains = if takes_trains { all } else { 0 };
    assert_eq!(counted(&host, "udp.received_in_trains"), in_trains);
    assert_eq!(counted(&host, "udp.sent_in_trains"), in_trains);
}

fn patience() -> braidnet::Duration {
    braidnet::Duration::from_secs(PATIENCE.as_secs())
}

#[test]
fn the_systems_trains_are_received_and_ours_by_it() {
    for (mode, offload) in [(Mode::Tun, true), (Mode::Tap, true), (Mode::Tun, false)] {
        let Some(namespace) = Namespace::new("trains") else {
            return;
        };
        namespace.inside(|| talk(mode, offload));
    }
}

/// A service gets each datagram by itself, in any architecture, and its answers come as they were asked for.
#[test]
fn the_datagrams_of_a_train_are_served_one_by_one() {
    let Some(namespace) = Namespace::new("trains, served") else {
        return;
    };
    for architecture in ["task", "connection", "message", "braid"] {
        let arguments = [
            "--echo",
            "7",
            "--architecture",
            architecture,
            "--processors",
            "2",
        ];
        let server = Server::on_bn0(&namespace, &arguments);
        namespace.inside(|| {
            let system = std::net::UdpSocket::bind((SYSTEM, 0)).expect("it is free");
            system.set_read_timeout(Some(PATIENCE)).expect("not zero");
            system.connect((STACK, PORT)).expect("there is a route");
            let takes_trains = server.greeting.contains("datagrams offloaded");
            if takes_trains {
                send_in_segments(&system, 1000);
            }
            let mut heard = vec![0; 2000];
            for len in [20_500, 64_000] {
                let sent = text(len);
                let mut left: Vec<&[u8]> = sent.chunks(1000).collect();
                let pieces = match takes_trains {
                    true => vec![&sent[..]],
                    false => left.clone(),
                };
                for piece in pieces {
                    system.send(piece).expect("it fits");
                }
                while !left.is_empty() {
                    let length = system.recv(&mut heard).expect("it comes");
                    let found = left.iter().position(|piece| *piece == &heard[..length]);
                    left.swap_remove(found.expect("it was sent, and not yet heard"));
                }
            }
        });
        let ended = server.stop(Signal::INT);
        assert_eq!(ended.code, Some(0), "{architecture}: {ended:?}");
    }
}

/// The system cuts a train where it goes on by a device that takes none, and makes the checksums, which the other stack verifies.
#[test]
fn what_the_system_makes_of_our_trains_is_whole() {
    let Some(namespace) = Namespace::new("trains, forwarded") else {
        return;
    };
    namespace.inside(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("the kernel knows it");
        let start = |address, device| Host::start(&config(address), device).expect("a stack");
        let ours = device(Mode::Tun, true, [10, 77, 0, 1]);
        let takes_trains = ours.capabilities().offloads.datagrams;
        let one = start(STACK, ours);
        let other = start(OTHER, device(Mode::Tun, false, [10, 78, 0, 1]));
        let mouth = UdpSocket::bind(&one, (STACK, PORT)).expect("it is free");
        let ear = UdpSocket::bind(&other, (OTHER, PORT)).expect("it is free");
        ear.set_read_timeout(Some(patience())).expect("not zero");
        let (mut all, mut heard) = (0, vec![0; 2000]);
        for (len, each) in TRAINS {
            let sent = text(len);
            all += len.div_ceil(each) as u64;
            let told = mouth.send_segments_to(&sent, each, (OTHER, PORT));
            assert_eq!(told.expect("it fits"), len);
            for expected in sent.chunks(each) {
                let length = ear.recv(&mut heard).expect("it comes");
                assert!(heard[..length] == *expected, "{len} bytes by {each}");
            }
        }
        assert_eq!(counted(&other, "udp.udp_checksum_wrong"), 0);
        let in_trains = if takes_trains { all } else { 0 };
        assert_eq!(counted(&one, "udp.sent_in_trains"), in_trains);
    });
}
