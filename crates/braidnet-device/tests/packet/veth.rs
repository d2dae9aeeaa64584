//! A veth pair, and frames by hand.

use crate::system::{HOST, STACK, in_namespace, ip};
use braidnet_device::{MacAddress, QueuePair};
use braidnet_message::{Message, Pool, Run};
use std::net::UdpSocket;

pub const STATION: MacAddress = MacAddress([2, 0, 10, 99, 0, 2]);
pub const OTHER: MacAddress = MacAddress([2, 0, 10, 99, 0, 9]);

/// A namespace with a pair of interfaces: `v0` has the system's address and knows the stack's, `v1` is the stack's.
pub fn over_veth(name: &str, test: impl FnOnce() + Send) {
    in_namespace(name, || {
        let stack = "10.99.0.2";
        let station = "02:00:0a:63:00:02";
        let lines = [
            "link add v0 type veth peer name v1",
            "addr add 10.99.0.1/24 dev v0",
            "link set v0 up",
            "link set v1 up",
            &format!("neigh add {stack} lladdr {station} dev v0"),
        ];
        let made = lines
            .iter()
            .all(|line| ip(&line.split(' ').collect::<Vec<_>>()));
        if made {
            test();
        }
    });
}

/// A UDP socket of the system's whose datagrams go to the stack.
pub fn towards_stack() -> UdpSocket {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::from(HOST), 0)).expect("the address");
    let stack = (std::net::Ipv4Addr::from(STACK), 9);
    socket.connect(stack).expect("it is routed");
    socket
}

pub fn is_udp(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[14 + 9] == 17
}

pub fn is_ours(frame: &[u8]) -> bool {
    frame[..6] == STATION.0
}

/// A frame from `v0` with a number and `length` bytes.
pub fn frame(pool: &mut Pool, to: MacAddress, number: u32, length: usize) -> Message {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&OTHER.0);
    // A type for experiments (IEEE 802).
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    pool.copy_from_slice(0, &frame).expect("room")
}

pub fn send(pair: &mut QueuePair, messages: impl IntoIterator<Item = Message>) {
    let mut run = Run::from_iter(messages);
    while !run.is_empty() {
        pair.transmitter.transmit(&mut run);
    }
    assert_eq!(pair.transmitter.counters().drops().next(), None);
}
