//! Hosts on threads of their own, joined in memory, and the threads that use their sockets: what std promises of its streams.
//!
//! Time is the system's here. A test waits for what must come, however long that takes, and never for nothing to come; where it has to show that
//! somebody still waits, others are seen to go on meanwhile.

mod bulk;
mod ends;
mod events;
mod faulty;
mod messages;
mod stream;
mod waits;

use braidnet::StackConfig;
use braidnet::device::{Capabilities, memory};
use braidnet::net::{Host, TcpListener, TcpStream};
use std::net::SocketAddr;

fn config(address: &str) -> StackConfig {
    let mut config = StackConfig::new(address.parse().expect("an address"));
    config.buckets = 16;
    config.memory_bytes = 64 << 20;
    config
}

/// Two hosts on a wire: the one that calls, and the one that is called.
fn hosts() -> (Host, Host) {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let client = Host::start(&config("10.0.0.1"), here).expect("a host");
    let server = Host::start(&config("10.0.0.2"), there).expect("a host");
    (client, server)
}

/// A listener at a port that it chooses.
fn listener(server: &Host) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(server, "10.0.0.2:0").expect("a free port");
    let at = listener.local_addr().expect("bound");
    assert_ne!(at.port(), 0);
    (listener, at)
}

/// A connection: the caller's end, and the other.
fn connected(client: &Host, server: &Host) -> (TcpStream, TcpStream) {
    let (listener, at) = listener(server);
    let call = TcpStream::connect(client, at).expect("it listens");
    let (answer, from) = listener.accept().expect("it has called");
    assert_eq!(from, call.local_addr().expect("connected"));
    assert_eq!(answer.peer_addr().expect("connected"), from);
    assert_eq!(call.peer_addr().expect("connected"), at);
    (call, answer)
}

/// Bytes that tell one place of one stream from the others.
fn pattern(stream: usize, len: usize) -> Vec<u8> {
    let byte = |place: usize| (place.wrapping_mul(31) ^ place >> 8 ^ stream.wrapping_mul(97)) as u8;
    (0..len).map(byte).collect()
}
