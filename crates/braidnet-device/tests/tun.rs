//! TUN and TAP devices against the system's own stack.
//!
//! Every test runs on a thread of its own in a network namespace of its own, which disappears with the thread and its
//! last device. Where that is not allowed the tests print SKIPPED and why; with `CI=true` in the environment they
//! fail instead.

use std::io;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use braidnet_device::tun::{HostAddress, Mode, TunConfig, TunDevice, TunError};
use braidnet_device::{Device, DropReason, MacAddress, Medium, QueuePair, RECEIVE_HEADROOM};
use braidnet_message::{Arena, Message, Pool, Run};
use braidnet_wire::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrV4, SocketFlags, SocketType, ipproto, netdevice,
    recv, sendto, socket_with,
};

/// The system's side and the stack's side of the link.
const HOST: [u8; 4] = [10, 99, 0, 1];
const STACK: [u8; 4] = [10, 99, 0, 2];

/// The longest that a packet on its way may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `test` in a network namespace of its own, or says why not.
fn in_namespace(name: &str, test: impl FnOnce() + Send) {
    if let Err(reason) = allowed() {
        assert!(!in_ci(), "in CI this may not be skipped: {reason}");
        println!("SKIPPED {name}: {reason}");
        return;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare_network().expect("tried before");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn unshare_network() -> io::Result<()> {
    // SAFETY: a new network namespace changes which interfaces the calling thread sees, and no memory.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn allowed() -> Result<(), String> {
    let tried = std::thread::spawn(unshare_network)
        .join()
        .map_err(|_| "a thread panicked".to_string())?;
    tried.map_err(|error| format!("no network namespace can be made ({error}); run as root"))?;
    open_tun()
        .map(drop)
        .map_err(|error| format!("/dev/net/tun cannot be opened ({error})"))
}

fn open_tun() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        "/dev/net/tun",
        OFlags::RDWR | OFlags::CLOEXEC,
        FileMode::empty(),
    )?)
}

/// What the kernel's `ifreq` is for the requests below: a name and flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// A device made behind the library's back, as `ip tuntap add` does; persistent if `persistent`.
fn system_device(name: &str, flags: i32, persistent: bool) -> OwnedFd {
    let tun = open_tun().expect("allowed");
    let mut request = Request {
        name: [0; 16],
        flags: (flags | libc::IFF_NO_PI) as i16,
        rest: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is as large as.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    // SAFETY: TUNSETPERSIST takes a number.
    let result = unsafe {
        libc::ioctl(
            tun.as_raw_fd(),
            libc::TUNSETPERSIST as _,
            i32::from(persistent),
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    tun
}

/// Runs `ip` in the thread's namespace, as an administrator would; `false` if there is none, where that is allowed.
fn ip(arguments: &[&str]) -> bool {
    match std::process::Command::new("ip").args(arguments).status() {
        Ok(status) => {
            assert!(status.success(), "ip {arguments:?}");
            true
        }
        Err(error) => {
            assert!(!in_ci(), "in CI this may not be skipped: ip: {error}");
            println!("SKIPPED what needs `ip`: {error}");
            false
        }
    }
}

/// Whether nothing may be skipped.
fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

fn control() -> OwnedFd {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a socket")
}

fn exists(name: &str) -> bool {
    netdevice::name_to_index(control(), name).is_ok()
}

/// Whether the namespace has the address: binding to it works then, and only then.
fn has_address(address: [u8; 4]) -> bool {
    UdpSocket::bind((std::net::Ipv4Addr::from(address), 0)).is_ok()
}

fn host(prefix: u8) -> Option<HostAddress> {
    Some(HostAddress {
        address: Address::v4(HOST),
        prefix,
    })
}

fn create(config: TunConfig) -> Result<TunDevice, TunError> {
    TunDevice::create(config)
}

fn named(mode: Mode, name: &str) -> TunConfig {
    TunConfig {
        name: Some(name.to_string()),
        ..TunConfig::new(mode)
    }
}

fn open(device: TunDevice) -> QueuePair {
    let mut pairs = Box::new(device).open().expect("it opens");
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

fn pool() -> Pool {
    Pool::new(&Arena::new(16 << 20))
}

/// Receives until a packet for which `wanted` says yes; others (router solicitations and the like) are dropped.
fn receive(pair: &mut QueuePair, pool: &mut Pool, wanted: impl Fn(&[u8]) -> bool) -> Message {
    let mut run = Run::new();
    loop {
        pair.receiver.receive(pool, &mut run, 1);
        for message in run.drain() {
            if wanted(message.bytes()) {
                return message;
            }
        }
        let fd = pair.receiver.fd().expect("a TUN device has a descriptor");
        wait(fd.as_fd());
    }
}

/// Waits until `fd` is readable.
fn wait(fd: impl AsFd) {
    let timeout = Timespec {
        tv_sec: PATIENCE.as_secs() as _,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_ne!(
        poll(&mut fds, Some(&timeout)).expect("polling works"),
        0,
        "nothing came"
    );
}

/// The internet checksum, the slow and obvious way (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An ICMP echo request or reply (RFC 792) of kind 8 or 0.
fn echo(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut icmp = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
    icmp.extend(payload);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    icmp
}

/// An IPv4 packet (RFC 791) with ICMP in it.
fn ipv4(from: [u8; 4], to: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = (20 + body.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, 1, 0, 0];
    packet.extend(from.iter().chain(&to));
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum);
    packet.extend(body);
    packet
}

fn is_icmp(kind: u8) -> impl Fn(&[u8]) -> bool {
    move |packet| packet.len() >= 28 && packet[0] == 0x45 && packet[9] == 1 && packet[20] == kind
}

#[test]
fn a_ping_of_the_system_is_a_packet_and_its_answer_arrives() {
    in_namespace("ping out", || {
        let config = TunConfig {
            host: host(24),
            mtu: Some(1400),
            ..named(Mode::Tun, "ping0")
        };
        let device = create(config).expect("root may");
        assert_eq!((device.name(), device.is_adopted()), ("ping0", false));
        assert_eq!(
            (device.capabilities().medium, device.capabilities().mtu),
            (Medium::Ip, 1400)
        );
        let mut pair = open(device);
        let mut pool = pool();

        let kind = SocketType::RAW;
        let socket = socket_with(
            AddressFamily::INET,
            kind,
            SocketFlags::CLOEXEC,
            Some(ipproto::ICMP),
        )
        .expect("root");
        let request = echo(8, b"are you there?");
        sendto(
            &socket,
            &request,
            SendFlags::empty(),
            &SocketAddrV4::new(STACK.into(), 0),
        )
        .expect("it is routed");
        let mut packet = receive(&mut pair, &mut pool, is_icmp(8));
        assert_eq!(packet.bytes()[12..20], [HOST, STACK].concat());
        assert_eq!(packet.bytes()[20..], request);
        assert!(packet.headroom() >= RECEIVE_HEADROOM);

        // Answered in place, and sent in two blocks and in twenty.
        let bytes = packet.bytes_mut().expect("a received packet is unique");
        bytes[12..20].copy_from_slice(&[STACK, HOST].concat());
        bytes[20..].copy_from_slice(&echo(0, b"are you there?"));
        let all = packet.bytes().to_vec();
        for size in [20, 2] {
            let mut blocks = all
                .chunks(size)
                .map(|part| pool.copy_from_slice(0, part).expect("room"));
            let mut answer = blocks.next().expect("a first block");
            blocks.for_each(|block| answer.push_continuation(block));
            let mut run = Run::from_iter([answer]);
            pair.transmitter.transmit(&mut run);
            assert!(run.is_empty());
            assert_eq!(pair.transmitter.counters().drops().next(), None);
            wait(&socket);
            let mut buffer = [MaybeUninit::uninit(); 256];
            let ((got, _), _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("an answer");
            assert_eq!(got[20..], echo(0, b"are you there?"));
        }
        assert_eq!(pair.transmitter.counters().packets, 2);
        assert_eq!(pair.transmitter.counters().bytes, 2 * all.len() as u64);
    });
}

#[test]
fn the_system_answers_a_ping_over_several_handles() {
    in_namespace("ping in", || {
        let mut pair = open(
            create(TunConfig {
                host: host(30),
                ..TunConfig::new(Mode::Tun)
            })
            .expect("root may"),
        );
        let mut pool = pool();
        let mut other = pair.transmitter.another().expect("another handle");
        let long = vec![7; 1500 - 28];
        for (payload, transmitter) in [(&b"one"[..], &mut pair.transmitter), (&long, &mut other)] {
            let packet = ipv4(STACK, HOST, &echo(8, payload));
            transmitter.transmit(&mut Run::from_iter([pool
                .copy_from_slice(0, &packet)
                .expect("room")]));
            assert_eq!(transmitter.counters().packets, 1);
        }
        for payload in [&b"one"[..], &long] {
            let answer = receive(&mut pair, &mut pool, is_icmp(0));
            assert_eq!(answer.bytes()[28..], *payload);
        }
    });
}

#[test]
fn what_the_system_refuses_is_dropped_by_name() {
    in_namespace("refusals", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "drop0")
        })
        .expect("root may");
        let mut pair = open(device);
        let mut pool = pool();
        let rows = [
            (vec![0x45; 1501], DropReason::TransmitOversize),
            (vec![], DropReason::TransmitEmpty),
            (vec![0x15; 40], DropReason::TransmitMalformed),
        ];
        for (packet, reason) in rows {
            let before = pair.transmitter.counters().dropped(reason);
            let mut run = Run::from_iter([pool.copy_from_slice(0, &packet).expect("room")]);
            pair.transmitter.transmit(&mut run);
            assert!(run.is_empty());
            assert_eq!(
                pair.transmitter.counters().dropped(reason),
                before + 1,
                "{reason}"
            );
        }
        assert_eq!(pair.transmitter.counters().packets, 0);

        // Without an address the interface is left down.
        let mut down = open(create(named(Mode::Tun, "drop1")).expect("root may"));
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        down.transmitter.transmit(&mut Run::from_iter([pool
            .copy_from_slice(0, &packet)
            .expect("room")]));
        assert_eq!(
            down.transmitter
                .counters()
                .dropped(DropReason::InterfaceDown),
            1
        );
    });
}

#[test]
fn a_spent_pool_leaves_packets_where_they_are() {
    in_namespace("spent pool", || {
        let mut pair = open(
            create(TunConfig {
                host: host(24),
                ..TunConfig::new(Mode::Tun)
            })
            .expect("root may"),
        );
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        socket
            .send_to(b"wait for me", ("10.99.0.2", 9))
            .expect("it is routed");
        let mut spent = Pool::new(&Arena::new(0));
        wait(pair.receiver.fd().expect("a descriptor"));
        assert_eq!(pair.receiver.receive(&mut spent, &mut Run::new(), 8), 0);
        let got = receive(&mut pair, &mut pool(), |packet| {
            packet[0] == 0x45 && packet[9] == 17
        });
        assert_eq!(got.bytes()[28..], *b"wait for me");
    });
}

#[test]
fn packets_longer_than_the_device_was_opened_with_are_dropped_by_name() {
    in_namespace("raised MTU", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "long0")
        })
        .expect("root may");
        let mut pair = open(device);
        if !ip(&["link", "set", "long0", "mtu", "3000"]) {
            return;
        }
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        for length in [1501 - 28, 1500 - 28] {
            socket
                .send_to(&vec![7; length], ("10.99.0.2", 9))
                .expect("it is routed");
        }
        let got = receive(&mut pair, &mut pool(), |packet| {
            packet[0] == 0x45 && packet[9] == 17
        });
        assert_eq!(got.len(), 1500);
        assert_eq!(
            pair.receiver
                .counters()
                .dropped(DropReason::ReceiveOversize),
            1
        );
    });
}

#[test]
fn a_tap_carries_frames_and_has_two_addresses() {
    in_namespace("tap", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tap, "tap7")
        })
        .expect("root may");
        let host_station = device.host_station().expect("a TAP has one");
        let Medium::Ethernet { address } = device.capabilities().medium else {
            panic!("a TAP is Ethernet");
        };
        assert_ne!(address, host_station);
        assert_eq!(device.capabilities().packet_max(), 1518);
        let mut pair = open(device);
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        socket
            .send_to(b"hello", ("10.99.0.2", 9))
            .expect("it is routed");
        // The system asks for the neighbour first (RFC 826).
        let request = receive(&mut pair, &mut pool(), |frame| frame[12..14] == [8, 6]);
        assert_eq!(request.bytes()[..6], MacAddress::BROADCAST.0);
        assert_eq!(request.bytes()[6..12], host_station.0);
        assert_eq!(request.bytes()[38..42], STACK);

        let asked = MacAddress([2, 9, 9, 9, 9, 9]);
        let device = create(TunConfig {
            station: Some(asked),
            ..TunConfig::new(Mode::Tap)
        })
        .expect("root may");
        assert_eq!(
            device.capabilities().medium,
            Medium::Ethernet { address: asked }
        );
    });
}

#[test]
fn ipv6_addresses_are_usable_at_once() {
    in_namespace("ipv6", || {
        let [mut host, mut stack] = [[0; 16]; 2];
        host[..2].copy_from_slice(&[0xfd, 0x99]);
        stack[..2].copy_from_slice(&[0xfd, 0x99]);
        (host[15], stack[15]) = (1, 2);
        for mode in [Mode::Tun, Mode::Tap] {
            let address = Some(HostAddress {
                address: Address::v6(host),
                prefix: 64,
            });
            let small = TunConfig {
                host: address,
                mtu: Some(1279),
                ..TunConfig::new(mode)
            };
            assert!(matches!(
                create(small),
                Err(TunError::Mtu { mtu: 1279, .. })
            ));
            let mut pair = open(
                create(TunConfig {
                    host: address,
                    ..TunConfig::new(mode)
                })
                .expect("root may"),
            );
            let socket = UdpSocket::bind((std::net::Ipv6Addr::from(host), 0))
                .expect("usable without detection");
            socket
                .send_to(b"six", (std::net::Ipv6Addr::from(stack), 9))
                .expect("it is routed");
            let (skip, last) = if mode == Mode::Tun { (0, 17) } else { (14, 58) };
            let got = receive(&mut pair, &mut pool(), |packet| {
                packet.len() >= skip + 40
                    && packet[skip] >> 4 == 6
                    && packet[skip + 6] == last
                    && packet[skip + 8..skip + 24] == host
            });
            assert!(got.len() > skip + 40);
        }
    });
}

#[test]
fn what_was_made_disappears_and_what_failed_leaves_nothing() {
    in_namespace("nothing left", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "gone0")
        })
        .expect("root may");
        assert!(exists("gone0") && has_address(HOST));
        let QueuePair {
            receiver,
            transmitter,
        } = open(device);
        drop(receiver);
        assert!(exists("gone0"), "the transmitter holds it");
        drop(transmitter);
        assert!(!exists("gone0") && !has_address(HOST));

        let wrong = HostAddress {
            address: Address::v4([224, 0, 0, 1]),
            prefix: 24,
        };
        let failed = create(TunConfig {
            host: Some(wrong),
            ..named(Mode::Tun, "gone0")
        });
        assert!(matches!(failed, Err(TunError::Address { .. })));
        assert!(!exists("gone0"));
    });
}

#[test]
fn an_adopted_device_is_left_as_it_was() {
    in_namespace("adoption", || {
        drop(system_device("keep0", libc::IFF_TUN, true));
        assert!(exists("keep0"));
        let config = || TunConfig {
            host: host(24),
            mtu: Some(1300),
            ..named(Mode::Tun, "keep0")
        };
        let device = create(config()).expect("nobody holds it");
        assert!(device.is_adopted() && has_address(HOST));
        assert_eq!(device.capabilities().mtu, 1300);
        drop(device);
        assert!(exists("keep0") && !has_address(HOST));
        let device = create(named(Mode::Tun, "keep0")).expect("nobody holds it");
        assert_eq!(device.capabilities().mtu, 1500, "as before");
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        let mut pair = open(device);
        let mut run = Run::from_iter([pool().copy_from_slice(0, &packet).expect("room")]);
        pair.transmitter.transmit(&mut run);
        assert_eq!(
            pair.transmitter
                .counters()
                .dropped(DropReason::InterfaceDown),
            1,
            "as before"
        );
    });
}

#[test]
fn an_address_that_was_there_stays() {
    in_namespace("kept address", || {
        // One library device adopts what another process has set up; here the set-up is made by hand.
        drop(system_device("keep1", libc::IFF_TUN, true));
        if !ip(&["addr", "add", "10.99.0.1/24", "dev", "keep1"]) {
            return;
        }
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "keep1")
        })
        .expect("nobody holds it");
        assert!(has_address(HOST));
        drop(device);
        assert!(has_address(HOST), "it was not ours to remove");
        let other_prefix = create(TunConfig {
            host: host(16),
            ..named(Mode::Tun, "keep1")
        });
        assert!(
            matches!(other_prefix, Err(TunError::AddressInUse { interface, .. }) if interface == "keep1")
        );
    });
}

#[test]
fn every_obstacle_has_its_own_error() {
    in_namespace("errors", || {
        let refused = |config| {
            create(config)
                .map(|device| device.name().to_string())
                .expect_err("it cannot be")
        };

        let held = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "held0")
        })
        .expect("root may");
        let error = refused(named(Mode::Tun, "held0"));
        assert!(
            matches!(&error, TunError::InUse { name } if name == "held0"),
            "{error}"
        );

        let error = refused(TunConfig {
            host: host(24),
            ..TunConfig::new(Mode::Tun)
        });
        assert!(
            matches!(&error, TunError::AddressInUse { interface, .. } if interface == "held0"),
            "{error}"
        );
        assert!(held.name() == "held0" && has_address(HOST), "undisturbed");

        let error = refused(named(Mode::Tun, "lo"));
        assert!(
            matches!(&error, TunError::NotTun { name, .. } if name == "lo"),
            "{error}"
        );

        drop(system_device("tap9", libc::IFF_TAP, true));
        let error = refused(named(Mode::Tun, "tap9"));
        assert!(
            matches!(
                error,
                TunError::WrongMode {
                    wanted: Mode::Tun,
                    ..
                }
            ),
            "{error}"
        );

        drop(system_device(
            "many0",
            libc::IFF_TUN | libc::IFF_MULTI_QUEUE,
            true,
        ));
        let error = refused(named(Mode::Tun, "many0"));
        assert!(matches!(error, TunError::SeveralQueues { .. }), "{error}");

        for name in ["", "much-too-long-name", "a/b"] {
            let error = refused(named(Mode::Tun, name));
            assert!(matches!(error, TunError::Name { .. }), "{error}");
        }
        for (mode, mtu) in [(Mode::Tun, 67), (Mode::Tun, 65536), (Mode::Tap, 65522)] {
            let error = refused(TunConfig {
                mtu: Some(mtu),
                ..TunConfig::new(mode)
            });
            assert!(matches!(error, TunError::Mtu { .. }), "{error}");
        }
        for (mode, mtu) in [(Mode::Tun, 68), (Mode::Tun, 65535), (Mode::Tap, 65521)] {
            let device = create(TunConfig {
                mtu: Some(mtu),
                ..TunConfig::new(mode)
            })
            .expect("in range");
            assert_eq!(device.capabilities().mtu, mtu);
        }
    });
}

#[test]
fn a_thread_without_privilege_learns_what_to_do() {
    in_namespace("privilege", || {
        drop_capabilities();
        let error = create(named(Mode::Tun, "mine0"))
            .map(|_| ())
            .expect_err("no privilege");
        // Which of the two depends on the mode of /dev/net/tun.
        assert!(
            matches!(error, TunError::NoPrivilege { .. } | TunError::NoAccess),
            "{error}"
        );
        assert!(!exists("mine0"));
    });
}

/// Gives up every capability of this thread.
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [0u32; 6];
    // SAFETY: the header is of version 3, whose data is two times three words, and concerns the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_device_that_is_removed_is_gone() {
    in_namespace("removal", || {
        let mut pair = open(create(named(Mode::Tun, "del0")).expect("root may"));
        if !ip(&["link", "del", "del0"]) {
            return;
        }
        let mut pool = pool();
        assert!(!pair.receiver.is_gone());
        assert_eq!(pair.receiver.receive(&mut pool, &mut Run::new(), 8), 0);
        assert!(pair.receiver.is_gone());
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        pair.transmitter.transmit(&mut Run::from_iter([pool
            .copy_from_slice(0, &packet)
            .expect("room")]));
        assert_eq!(
            pair.transmitter.counters().dropped(DropReason::DeviceGone),
            1
        );
    });
}
