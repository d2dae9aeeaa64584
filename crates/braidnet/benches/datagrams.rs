//! Datagrams over a TUN device, one by one and in trains, between a caller-turned stack and the system's sockets.
//!
//! `cargo bench -p braidnet --bench datagrams -- 5 1000` (rounds, milliseconds of each measurement), as root: it makes a device in a namespace of its own, which goes with it. What is
//! printed are the datagrams of 1,472 bytes that have arrived in a second, in thousands, medians of interleaved rounds. Neither side waits for the other: what a queue has no room
//! for is lost, and does not count.

use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::wire::address::Address;
use braidnet::{Instant, Stack, StackConfig};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SYSTEM: [u8; 4] = [10, 99, 0, 1];
const STACK: [u8; 4] = [10, 99, 0, 2];
const PORT: u16 = 7;
/// Bytes of a datagram, and datagrams of a train: as many as an IP packet holds.
const EACH: usize = 1472;
const TRAIN: usize = 44;

/// Datagrams of a train, or 1.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    datagrams: usize,
}

const WAYS: [Way; 2] = [
    Way {
        name: "one by one",
        datagrams: 1,
    },
    Way {
        name: "in trains",
        datagrams: TRAIN,
    },
];

/// A stack, and a socket of the system's.
struct Pair {
    stack: Stack,
    socket: UdpSocket,
    begun: std::time::Instant,
}

impl Pair {
    fn new() -> Pair {
        let device = TunDevice::create(TunConfig {
            mtu: Some(1500),
            host: Some(HostAddress {
                address: Address::v4(SYSTEM),
                prefix: 24,
            }),
            ..TunConfig::new(Mode::Tun)
        });
        let config = StackConfig::new(STACK.into());
        let mut stack = Stack::new(&config, device.expect("root may")).expect("a stack");
        stack.bind(PORT).expect("it is free");
        let socket = UdpSocket::bind(SocketAddr::from((SYSTEM, PORT))).expect("it is free");
        let to = SocketAddr::from((STACK, PORT));
        socket.connect(to).expect("there is a route");
        Pair {
            stack,
            socket,
            begun: std::time::Instant::now(),
        }
    }

    fn turn(&mut self) {
        let nanos = self.begun.elapsed().as_nanos() as u64;
        self.stack.turn(Instant::from_nanos(nanos));
    }

    /// The stack sends: what the system's socket receives in a second.
    fn send(&mut self, way: Way, time: Duration) -> f64 {
        let bytes = vec![7; way.datagrams * EACH];
        let wait = Some(Duration::from_millis(1));
        self.socket.set_read_timeout(wait).expect("not zero");
        let socket = self.socket.try_clone().expect("a descriptor");
        let stop = AtomicBool::new(false);
        let begun = std::time::Instant::now();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let (mut received, mut into) = (0u64, [0; EACH]);
                while !stop.load(Ordering::Relaxed) {
                    received += u64::from(socket.recv(&mut into).is_ok());
                }
                received
            });
            let to = SocketAddr::from((SYSTEM, PORT));
            while begun.elapsed() < time {
                for _ in 0..(TRAIN / way.datagrams).max(1) {
                    let sent = self.stack.send_segments_to(PORT, to, &bytes, EACH);
                    sent.expect("there is memory");
                }
                self.turn();
            }
            stop.store(true, Ordering::Relaxed);
            receiver.join().expect("no panic")
        });
        received as f64 / begun.elapsed().as_secs_f64()
    }

    /// The system's socket sends: what the stack receives in a second.
    fn receive(&mut self, way: Way, time: Duration) -> f64 {
        let bytes = vec![7; way.datagrams * EACH];
        send_in_segments(&self.socket, EACH as _).expect("Linux 4.18");
        let socket = self.socket.try_clone().expect("a descriptor");
        let stop = AtomicBool::new(false);
        let begun = std::time::Instant::now();
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // What the device's queue has no room for is an error, or none.
                    let _ = socket.send(&bytes);
                }
            });
            let (mut received, mut into) = (0u64, [0; EACH]);
            while begun.elapsed() < time {
                self.turn();
                while self.stack.receive_from(PORT, &mut into).is_ok() {
                    received += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
            received
        });
        let rate = received as f64 / begun.elapsed().as_secs_f64();
        self.drain();
        rate
    }

    /// Takes what is left in the device.
    fn drain(&mut self) {
        let mut into = [0; EACH];
        for _ in 0..1000 {
            self.turn();
            while self.stack.receive_from(PORT, &mut into).is_ok() {}
        }
    }
}

/// Has the system send what it is given in datagrams of so many bytes (`UDP_SEGMENT`).
fn send_in_segments(socket: &UdpSocket, bytes: libc::c_int) -> io::Result<()> {
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
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Goes into a network namespace of its own.
fn leave_network() -> io::Result<()> {
    // SAFETY: a new network namespace changes which interfaces the calling thread sees, and no memory.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn main() {
    // Threads that begin later are in it, too.
    if let Err(error) = leave_network() {
        return println!("SKIPPED: no network namespace can be made ({error}); run as root");
    }
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let rounds = numbers.next().unwrap_or(3);
    let time = Duration::from_millis(numbers.next().unwrap_or(300));
    let mut pair = Pair::new();
    let mut rates = [[(); 2]; 2].map(|row| row.map(|()| Vec::new()));
    for _ in 0..rounds {
        for (way, [sent, received]) in WAYS.into_iter().zip(&mut rates) {
            sent.push(pair.send(way, time));
            received.push(pair.receive(way, time));
        }
    }
    for (way, [sent, received]) in WAYS.into_iter().zip(rates) {
        let [sent, received] = [sent, received].map(|rates| median(rates) / 1000.0);
        println!("{:<10}  sent {sent:.0}  received {received:.0}", way.name);
    }
}
