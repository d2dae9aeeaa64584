//! Namespaces, devices made behind the library's back, and packets by hand.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use braidnet_device::tun::{HostAddress, Mode, TunConfig, TunDevice, TunError};
use braidnet_device::{Device, QueuePair};
use braidnet_message::{Arena, Message, Pool, Run};
use braidnet_wire::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// The system's side and the stack's side of the link.
pub const HOST: [u8; 4] = [10, 99, 0, 1];
pub const STACK: [u8; 4] = [10, 99, 0, 2];

/// The longest that a packet on its way may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Tests take turns. Between its fork and its exec a child that another test starts holds every descriptor of the process, and a device that has
/// been let go of is still held then.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` in a network namespace of its own, or says why not.
pub fn in_namespace(name: &str, test: impl FnOnce() + Send) {
    if let Err(reason) = allowed() {
        assert!(!in_ci(), "in CI this may not be skipped: {reason}");
        println!("SKIPPED {name}: {reason}");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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

pub fn unshare_network() -> io::Result<()> {
    // SAFETY: a new network namespace changes which interfaces the calling thread sees, and no memory.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub fn allowed() -> Result<(), String> {
    let tried = std::thread::spawn(unshare_network)
        .join()
        .map_err(|_| "a thread panicked".to_string())?;
    tried.map_err(|error| format!("no network namespace can be made ({error}); run as root"))?;
    open_tun()
        .map(drop)
        .map_err(|error| format!("/dev/net/tun cannot be opened ({error})"))
}

pub fn open_tun() -> io::Result<OwnedFd> {
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
pub fn system_device(name: &str, flags: i32, persistent: bool) -> OwnedFd {
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
pub fn ip(arguments: &[&str]) -> bool {
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
pub fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

pub fn control() -> OwnedFd {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a socket")
}

pub fn exists(name: &str) -> bool {
    netdevice::name_to_index(control(), name).is_ok()
}

/// Whether the namespace has the address: binding to it works then, and only then.
pub fn has_address(address: [u8; 4]) -> bool {
    UdpSocket::bind((std::net::Ipv4Addr::from(address), 0)).is_ok()
}

pub fn host(prefix: u8) -> Option<HostAddress> {
    Some(HostAddress {
        address: Address::v4(HOST),
        prefix,
    })
}

pub fn create(config: TunConfig) -> Result<TunDevice, TunError> {
    TunDevice::create(config)
}

pub fn named(mode: Mode, name: &str) -> TunConfig {
    TunConfig {
        name: Some(name.to_string()),
        ..TunConfig::new(mode)
    }
}

pub fn open(device: TunDevice) -> QueuePair {
    let mut pairs = Box::new(device).open().expect("it opens");
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

pub fn pool() -> Pool {
    Pool::new(&Arena::new(16 << 20))
}

/// Receives until a packet for which `wanted` says yes; others (router solicitations and the like) are dropped.
pub fn receive(pair: &mut QueuePair, pool: &mut Pool, wanted: impl Fn(&[u8]) -> bool) -> Message {
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
pub fn wait(fd: impl AsFd) {
    wait_any(&[fd.as_fd()]);
}

/// Waits until one of them is.
pub fn wait_any(fds: &[BorrowedFd<'_>]) {
    let timeout = Timespec {
        tv_sec: PATIENCE.as_secs() as _,
        tv_nsec: 0,
    };
    let mut fds: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    assert_ne!(
        poll(&mut fds, Some(&timeout)).expect("polling works"),
        0,
        "nothing came"
    );
}

/// The internet checksum, the slow and obvious way (RFC 1071).
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
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
pub fn echo(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut icmp = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
    icmp.extend(payload);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    icmp
}

/// An IPv4 packet (RFC 791) with ICMP in it.
pub fn ipv4(from: [u8; 4], to: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = (20 + body.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, 1, 0, 0];
    packet.extend(from.iter().chain(&to));
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum);
    packet.extend(body);
    packet
}

pub fn is_icmp(kind: u8) -> impl Fn(&[u8]) -> bool {
    move |packet| packet.len() >= 28 && packet[0] == 0x45 && packet[9] == 1 && packet[20] == kind
}
