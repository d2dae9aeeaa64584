//! TCP Fast Open (RFC 7413) with the system's own stack, both ways.

use crate::namespace::Namespace;
use crate::server::{PATIENCE, STACK, Server};
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::tcp::FastOpen;
use braidnet::wire::address::Address;
use braidnet::{Connection, Event, Stack, StackConfig};
use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// `MSG_FASTOPEN`, which rustix does not know.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);
const PORT: u16 = 7;

/// Lets the kernel send data with its SYNs, and every listener of its take such.
fn allow() {
    let knob = "/proc/sys/net/ipv4/tcp_fastopen";
    std::fs::write(knob, "0x403").expect("the kernel knows it");
}

/// One of the kernel's counters, as it is inside the namespace.
fn counted(namespace: &Namespace, name: &str) -> u64 {
    let text = namespace.inside(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
    let text = text.expect("the kernel says");
    let mut rows = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (rows.next().unwrap_or(""), rows.next().unwrap_or(""));
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let found = pairs.find(|(found, _)| *found == name);
    let value = found.and_then(|(_, value)| value.parse().ok());
    value.unwrap_or_else(|| panic!("the kernel counts no {name}"))
}

#[test]
fn a_kernel_client_sends_data_with_its_second_syn() {
    let Some(namespace) = Namespace::new("fast open, kernel client") else {
        return;
    };
    let server = Server::on_bn0(&namespace, &["--echo", "7", "--fast-open", "16"]);
    for text in [&b"asks for a cookie"[..], b"goes with the SYN"] {
        let echoed = namespace.inside(|| {
            allow();
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            let to: Ipv4Addr = STACK.parse().expect("an address");
            let sent = sendto(&socket, text, FAST_OPEN, &SocketAddrV4::new(to, PORT));
            assert_eq!(sent, Ok(text.len()));
            let mut stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
            stream.shutdown(Shutdown::Write).expect("it is open");
            let mut echoed = Vec::new();
            stream.read_to_end(&mut echoed).map(|_| echoed)
        });
        assert_eq!(echoed.expect("it is echoed"), text);
    }
    assert_eq!(counted(&namespace, "TCPFastOpenActive"), 1);
    assert_eq!(counted(&namespace, "TCPFastOpenActiveFail"), 0);
    let ended = server.stop(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Turns a stack until a connection's peer has said all; what it said.
fn converse(stack: &mut Stack, connection: Connection, begun: Instant) -> Vec<u8> {
    let (mut heard, mut bytes) = (Vec::new(), [0; 512]);
    while begun.elapsed() < PATIENCE {
        let now = braidnet::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
        stack.turn(now);
        while let Some(event) = stack.event() {
            if event == Event::EndOfData(connection) {
                stack.close(connection);
            }
        }
        match stack.receive(connection, &mut bytes) {
            Ok(0) => return heard,
            Ok(n) => heard.extend_from_slice(&bytes[..n]),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("the kernel says nothing");
}

#[test]
fn a_kernel_server_takes_data_with_the_second_syn() {
    let Some(namespace) = Namespace::new("fast open, kernel server") else {
        return;
    };
    namespace.inside(|| {
        allow();
        let device = TunDevice::create(TunConfig {
            mtu: Some(1500),
            host: Some(HostAddress {
                address: Address::v4([10, 77, 0, 1]),
                prefix: 24,
            }),
            ..TunConfig::new(Mode::Tun)
        });
        let listener = TcpListener::bind(("10.77.0.1", PORT)).expect("it is free");
        let mut config = StackConfig::new(STACK.parse().expect("an address"));
        config.tcp.fast_open = FastOpen::Connect;
        let mut stack = Stack::new(&config, device.expect("a device")).expect("a stack");
        let begun = Instant::now();
        for text in [&b"asks for a cookie"[..], b"goes with the SYN"] {
            let heard = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().expect("somebody calls");
                    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
                    let mut bytes = vec![0; text.len()];
                    stream.read_exact(&mut bytes).expect("it comes");
                    stream.write_all(&bytes).expect("it goes");
                });
                let to = ([10, 77, 0, 1], PORT).into();
                let (connection, sent) = stack.connect_with(to, text).expect("there is room");
                assert_eq!(sent, text.len());
                converse(&mut stack, connection, begun)
            });
            assert_eq!(heard, text);
        }
        let counters = stack.counters();
        assert_eq!(counters.get("tcp.fast_open_asked"), Some(&1));
        assert_eq!(counters.get("tcp.fast_open_taken"), Some(&1));
    });
    assert_eq!(counted(&namespace, "TCPFastOpenPassive"), 1);
}
