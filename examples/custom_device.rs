//! A device of our own: IP packets as datagrams of a Unix socket, between two hosts that could as well be two programs.
//!
//! `cargo run -p braidnet --example custom_device`

use braidnet::StackConfig;
use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, DropReason, QueuePair, RECEIVE_HEADROOM, Receiver,
    Transmitter,
};
use braidnet::message::{Pool, Run};
use braidnet::net::{Host, TcpListener, TcpStream};
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

const MTU: usize = 1500;

/// A device before it is used: what it can do, and how to open it.
struct Datagrams {
    socket: UnixDatagram,
    capabilities: Capabilities,
}

impl Datagrams {
    fn new(socket: UnixDatagram) -> io::Result<Datagrams> {
        // A device never blocks.
        socket.set_nonblocking(true)?;
        Ok(Datagrams {
            socket,
            capabilities: Capabilities::ip(MTU),
        })
    }
}

impl Device for Datagrams {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// One queue, in and out. More of them would let more processors receive.
    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let socket = Arc::new(self.socket);
        let counters = Counters::default();
        Ok(vec![QueuePair {
            receiver: Box::new(Incoming {
                socket: socket.clone(),
                counters,
            }),
            transmitter: Box::new(Outgoing {
                socket,
                counters,
                packet: Vec::with_capacity(MTU),
            }),
        }])
    }
}

/// The way in.
struct Incoming {
    socket: Arc<UnixDatagram>,
    counters: Counters,
}

impl Receiver for Incoming {
    /// Takes what waits, each packet into a buffer of the pool, with room in front for who forwards it. Where there is no buffer, packets
    /// stay in the socket: nothing is dropped without a name.
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        while taken < max {
            // A byte more than may come tells what is too long.
            let Some(mut message) = pool.allocate(RECEIVE_HEADROOM, MTU + 1) else {
                break;
            };
            let read = message.append(MTU + 1).map(|room| self.socket.recv(room));
            match read {
                Some(Ok(length)) if length <= MTU => {
                    message.truncate(length);
                    self.counters.count_packet(length);
                    into.push(message);
                    taken += 1;
                }
                Some(Ok(_)) => {
                    self.counters.count_drop(DropReason::ReceiveOversize);
                    pool.free(message);
                }
                Some(Err(_)) | None => {
                    pool.free(message);
                    break;
                }
            }
        }
        taken
    }

    /// What the host's processor sleeps on.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// The way out, for one processor.
struct Outgoing {
    socket: Arc<UnixDatagram>,
    counters: Counters,
    packet: Vec<u8>,
}

impl Transmitter for Outgoing {
    /// Sends from the front what the socket takes, and leaves the rest for the next time. A message may lie in several blocks.
    fn transmit(&mut self, run: &mut Run) {
        let mut gone = 0;
        for message in run.iter() {
            self.packet.resize(message.total_len(), 0);
            message.copy_to_slice(&mut self.packet);
            match self.socket.send(&self.packet) {
                Ok(length) => self.counters.count_packet(length),
                Err(full) if full.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.counters.count_drop(DropReason::DeviceGone),
            }
            gone += 1;
        }
        drop(run.drain_front(gone));
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(Outgoing {
            socket: self.socket.clone(),
            counters: Counters::default(),
            packet: Vec::with_capacity(MTU),
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = UnixDatagram::pair()?;
    let client = StackConfig::new("10.0.0.1".parse()?);
    let client = Host::start(&client, Datagrams::new(here)?)?;
    let server = StackConfig::new("10.0.0.2".parse()?);
    let server = Host::start(&server, Datagrams::new(there)?)?;

    let listener = TcpListener::bind(&server, "10.0.0.2:7")?;
    let echo = std::thread::spawn(move || -> io::Result<u64> {
        let (stream, _) = listener.accept()?;
        io::copy(&mut &stream, &mut &stream)
    });
    let mut stream = TcpStream::connect(&client, "10.0.0.2:7")?;
    let sent = vec![7; 100_000];
    let mut reads = stream.try_clone()?;
    let reader = std::thread::spawn(move || {
        let mut heard = Vec::new();
        reads.read_to_end(&mut heard).map(|_| heard)
    });
    stream.write_all(&sent)?;
    stream.shutdown(Shutdown::Write)?;
    let heard = reader.join().expect("no panic")?;
    assert_eq!(heard, sent);
    println!("{} bytes there and back", echo.join().expect("no panic")?);
    Ok(())
}
