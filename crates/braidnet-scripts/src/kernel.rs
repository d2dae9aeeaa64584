//! Linux as a script's host: real sockets in a network namespace, whose packets come and go through a TUN device.
//!
//! All scripts are played at once, each with an address of its peer's and a port of its own, over one device. A thread takes
//! what the device has and deals it out by the peer's address.

use crate::host::{Answer, Call, Choice, ERR, HUP, Host, IN, OUT, Punctuality, RDHUP};
use crate::{Failure, Play, Script};
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::device::{Device, QueuePair, Receiver, Transmitter};
use braidnet::message::{Arena, Pool, Run};
use braidnet::wire::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, send, sendto, shutdown, socket_with, sockopt,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::HashMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The first peer; each script has one of its own.
const PEERS: u32 = u32::from_be_bytes([10, 99, 1, 1]);
/// The first port of the host; each script has one of its own, outside the ports that the system hands out.
const PORTS: u16 = 10_000;

/// `MSG_FASTOPEN`, which rustix does not know.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000).union(SendFlags::NOSIGNAL);

/// How often what a busy machine has been late for is played again, beside fewer others.
const ROUNDS: u16 = 3;

/// Plays scripts against the kernel of this machine, all at once; those that it does not do as told, three times.
///
/// # Errors
/// Why that cannot be done here.
pub fn play_all(scripts: &[Script]) -> Result<Vec<Failure>, String> {
    let namespace = Namespace::create()?;
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            namespace.enter()?;
            namespace.tune();
            let mut left = scripts.to_vec();
            let mut failures = Vec::new();
            for round in 0..ROUNDS {
                failures = play_inside(&left, round)?;
                let has_failed = |script: &Script| {
                    let name = script.name;
                    failures.iter().any(|failure| failure.script() == name)
                };
                left.retain(has_failed);
                if left.is_empty() {
                    break;
                }
            }
            Ok(failures)
        });
        match inside.join() {
            Ok(failures) => failures,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The same on a thread that is in the namespace.
fn play_inside(scripts: &[Script], round: u16) -> Result<Vec<Failure>, String> {
    let device = TunDevice::create(TunConfig {
        mtu: Some(1500),
        host: Some(HostAddress {
            address: Address::v4(HOST.octets()),
            prefix: 8,
        }),
        offload: false,
        ..TunConfig::new(Mode::Tun)
    })
    .map_err(|error| error.to_string())?;
    let interface = device.name().to_owned();
    let QueuePair {
        receiver,
        transmitter,
    } = Box::new(device)
        .open()
        .map_err(|error| error.to_string())?
        .remove(0);
    let wire = Mutex::new(Wire {
        transmitter,
        pool: Pool::new(&Arena::new(16 << 20)),
    });
    let is_over = AtomicBool::new(false);
    let start = Instant::now();
    let (seats, sinks): (Vec<_>, HashMap<_, _>) = scripts
        .iter()
        .zip(1000 * round..)
        .map(|(script, number)| {
            let (sink, packets) = mpsc::channel();
            let peer = Ipv4Addr::from(PEERS + u32::from(number));
            ((script, number, packets), (peer, sink))
        })
        .unzip();
    std::thread::scope(|scope| {
        let (wire, interface) = (&wire, &interface[..]);
        let reader = scope.spawn(|| deal(receiver, &sinks, &is_over));
        let plays: Vec<_> = seats
            .into_iter()
            .map(|(script, number, packets)| {
                scope.spawn(move || {
                    let mut host = Linux {
                        wire,
                        interface,
                        packets,
                        start,
                        host: SocketAddrV4::new(HOST, PORTS + number),
                        peer: SocketAddrV4::new(Ipv4Addr::from(PEERS + u32::from(number)), 4242),
                        listener: None,
                        connection: None,
                    };
                    Play::run(script, &mut host).err()
                })
            })
            .collect();
        let failures = plays.into_iter().filter_map(|play| match play.join() {
            Ok(failure) => failure,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let failures = failures.collect();
        is_over.store(true, Ordering::Relaxed);
        match reader.join() {
            Ok(()) => Ok(failures),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A packet, and when it was taken from the device.
type Stamped = (Instant, Vec<u8>);

/// Takes what leaves the kernel and hands each packet to the script whose peer it is for.
fn deal(
    mut receiver: Box<dyn Receiver>,
    sinks: &HashMap<Ipv4Addr, mpsc::Sender<Stamped>>,
    is_over: &AtomicBool,
) {
    let mut pool = Pool::new(&Arena::new(16 << 20));
    let mut run = Run::new();
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    while !is_over.load(Ordering::Relaxed) {
        if let Some(fd) = receiver.fd() {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&tick));
        }
        receiver.receive(&mut pool, &mut run, 64);
        let now = Instant::now();
        for message in run.drain() {
            let mut bytes = vec![0; message.total_len()];
            message.copy_to_slice(&mut bytes);
            let to = bytes
                .get(16..20)
                .and_then(|to| <[u8; 4]>::try_from(to).ok());
            let sink = to.and_then(|to| sinks.get(&Ipv4Addr::from(to)));
            if let Some(sink) = sink {
                // A script that is over does not care.
                let _ = sink.send((now, bytes));
            }
        }
    }
}

/// The way into the kernel.
struct Wire {
    transmitter: Box<dyn Transmitter>,
    pool: Pool,
}

/// The kernel, as one script sees it.
struct Linux<'a> {
    wire: &'a Mutex<Wire>,
    /// What the device is called.
    interface: &'a str,
    packets: mpsc::Receiver<Stamped>,
    start: Instant,
    host: SocketAddrV4,
    peer: SocketAddrV4,
    listener: Option<OwnedFd>,
    connection: Option<OwnedFd>,
}

impl Host for Linux<'_> {
    fn name(&self) -> &'static str {
        "Linux"
    }

    fn ends(&self) -> (SocketAddrV4, SocketAddrV4) {
        (self.host, self.peer)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn punctuality(&self) -> Punctuality {
        Punctuality {
            early: Duration::from_millis(15),
            late: Duration::from_millis(400),
            at_once: Duration::from_millis(400),
            linger: Duration::from_millis(20),
        }
    }

    fn arrives(&mut self, packet: &[u8]) {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let Wire { transmitter, pool } = &mut *wire;
        let mut run = Run::new();
        run.extend(pool.bind().copy_from_slice(64, packet));
        transmitter.transmit(&mut run);
        assert!(run.is_empty(), "the device takes a packet at any time");
    }

    fn leaves(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)> {
        let left = until.saturating_sub(self.now());
        match self.packets.recv_timeout(left) {
            Ok((at, bytes)) => Some((at.saturating_duration_since(self.start), bytes)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn call(&mut self, call: &Call, bytes: &[u8]) -> Result<Answer, String> {
        self.asked(call, bytes).map_err(name_of)
    }
}

impl Linux<'_> {
    fn subject(&mut self) -> Result<&OwnedFd, Errno> {
        if self.connection.is_none() && self.listener.is_some() {
            return self.listener.as_ref().ok_or(Errno::BADF);
        }
        if self.connection.is_none() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &self.host)?;
            self.connection = Some(socket);
        }
        self.connection.as_ref().ok_or(Errno::BADF)
    }

    fn asked(&mut self, call: &Call, bytes: &[u8]) -> Result<Answer, Errno> {
        let peer = self.peer;
        let mut number = 0;
        match *call {
            Call::Listen(backlog) => {
                let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
                listen(self.subject()?, backlog)?;
                self.listener = self.connection.take();
            }
            Call::Connect => connect(self.subject()?, &peer)?,
            Call::ConnectWith(_) => {
                number = sendto(self.subject()?, bytes, FAST_OPEN, &peer)? as i64;
            }
            Call::Accept => {
                let listener = self.listener.as_ref().ok_or(Errno::BADF)?;
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                self.connection = Some(soon(|| accept_with(listener, flags))?);
            }
            Call::Send(_) => {
                number = send(self.subject()?, bytes, SendFlags::NOSIGNAL)? as i64;
            }
            Call::SendMore(_) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
                number = send(self.subject()?, bytes, flags)? as i64;
            }
            Call::Recv(most) | Call::Peek(most) => {
                let flags = match call {
                    Call::Peek(_) => RecvFlags::PEEK,
                    _ => RecvFlags::empty(),
                };
                let mut to = vec![0; most];
                let (n, _) = recv(self.subject()?, &mut to[..], flags)?;
                to.truncate(n);
                return Ok(Answer::Bytes(to));
            }
            Call::ShutdownWrite => shutdown(self.subject()?, Shutdown::Write)?,
            Call::ShutdownRead => shutdown(self.subject()?, Shutdown::Read)?,
            Call::Close => drop(self.connection.take().ok_or(Errno::BADF)?),
            Call::CloseListener => drop(self.listener.take().ok_or(Errno::BADF)?),
            Call::Error => sockopt::socket_error(self.subject()?)??,
            Call::Readable => number = rustix::io::ioctl_fionread(self.subject()?)? as i64,
            Call::Ready => number = ready(self.subject()?)?,
            Call::Set(Choice::Ecn) => self.ask_for_ecn()?,
            // Every listener of the namespace has it.
            Call::Set(Choice::FastOpen(_)) => {}
            Call::Set(choice) => set(self.subject()?, choice)?,
        }
        Ok(Answer::Number(number))
    }

    /// Sockets have no such option, but routes have; each script has a peer of its own.
    fn ask_for_ecn(&self) -> Result<(), Errno> {
        let peer = self.peer.ip().to_string();
        let route = ["route", "add", &peer, "dev", self.interface];
        ip(&[&route[..], &["features", "ecn"]].concat()).map_err(|_| Errno::OPNOTSUPP)
    }
}

/// The kernel takes what arrives on the device before the write returns, but for the end of a handshake, now and then.
fn soon<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..20 {
        match attempt() {
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    attempt()
}

fn ready(socket: &OwnedFd) -> Result<i64, Errno> {
    let bits = [
        (PollFlags::IN, IN),
        (PollFlags::OUT, OUT),
        (PollFlags::ERR, ERR),
        (PollFlags::HUP, HUP),
        (PollFlags::RDHUP, RDHUP),
    ];
    let all = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
    let mut fds = [PollFd::new(socket, all)];
    poll(&mut fds, Some(&Timespec::default()))?;
    let found = fds[0].revents();
    let found = bits.into_iter().filter(|(flag, _)| found.contains(*flag));
    Ok(found.map(|(_, bit)| bit).sum())
}

fn set(socket: &OwnedFd, choice: Choice) -> Result<(), Errno> {
    match choice {
        Choice::NoDelay(on) => sockopt::set_tcp_nodelay(socket, on),
        Choice::Cork(on) => sockopt::set_tcp_cork(socket, on),
        Choice::AbortOnClose => sockopt::set_socket_linger(socket, Some(Duration::ZERO)),
        Choice::KeepAlive(idle, interval, probes) => {
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle.into()))?;
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval.into()))?;
            sockopt::set_tcp_keepcnt(socket, probes.into())?;
            sockopt::set_socket_keepalive(socket, true)
        }
        Choice::UserTimeout(millis) => sockopt::set_tcp_user_timeout(socket, millis),
        Choice::TimeToLive(hops) => sockopt::set_ip_ttl(socket, hops.into()),
        Choice::DifferentiatedServices(point) => sockopt::set_ip_tos(socket, point << 2),
        // Some are said for routes, the others for a whole host.
        Choice::Ecn | Choice::AccurateEcn | Choice::FastOpen(_) | Choice::FastOpenWithoutCookie => {
            Err(Errno::NOPROTOOPT)
        }
        // Linux doubles what it is given, and announces half of that.
        Choice::ReceiveBuffer(bytes) => {
            sockopt::set_socket_recv_buffer_size(socket, bytes as usize)
        }
    }
}

/// The name of an error, as far as scripts expect it.
fn name_of(error: Errno) -> String {
    let names = [
        (Errno::AGAIN, "EAGAIN"),
        (Errno::BADF, "EBADF"),
        (Errno::INVAL, "EINVAL"),
        (Errno::PIPE, "EPIPE"),
        (Errno::ADDRINUSE, "EADDRINUSE"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::INPROGRESS, "EINPROGRESS"),
        (Errno::ALREADY, "EALREADY"),
        (Errno::ISCONN, "EISCONN"),
        (Errno::NOTCONN, "ENOTCONN"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::CONNABORTED, "ECONNABORTED"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    ];
    let known = names.into_iter().find(|(known, _)| *known == error);
    known.map_or_else(|| error.to_string(), |(_, name)| name.to_owned())
}

/// A network namespace of this run's own, removed with the value.
struct Namespace {
    name: String,
}

impl Namespace {
    fn create() -> Result<Namespace, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("namespaces and devices are made by root only".to_owned());
        }
        File::options()
            .write(true)
            .open("/dev/net/tun")
            .map_err(|error| format!("/dev/net/tun cannot be opened: {error}"))?;
        let name = format!("braidnet-scripts-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Namespace { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Moves this thread inside, and whatever threads it starts.
    fn enter(&self) -> Result<(), String> {
        let file = File::open(format!("/run/netns/{}", self.name)).map_err(|e| e.to_string())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| error.to_string())
    }

    /// What scripts ask of every host is what the RFCs have: intervals between SYNs that double (RFC 6298 §5.5), which newer kernels
    /// keep even at first. Older ones have no such choice. And Fast Open: for who asks for it with data, and for every listener.
    fn tune(&self) {
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", "0");
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "0x403");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The scripts have said by then what went wrong, if anything did.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let failed = |reason: &str| format!("ip {}: {}", arguments.join(" "), reason.trim());
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
    }
}
