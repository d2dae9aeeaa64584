//! Devices with several queues: who gets what, and what is adopted.

use crate::system::*;
use braidnet_device::tun::{Mode, QUEUES_MAX, TunConfig, TunError};
use braidnet_device::{Device, QueuePair};
use braidnet_message::{Message, Pool, Run};
use std::net::{Ipv4Addr, UdpSocket};

const FLOWS: usize = 8;
const ROUNDS: usize = 20;

fn queues(name: &str, queues: usize) -> TunConfig {
    TunConfig {
        host: host(24),
        queues,
        ..named(Mode::Tun, name)
    }
}

/// The next UDP packet of any queue, and which that is.
fn next(pairs: &mut [QueuePair], pool: &mut Pool) -> (usize, Message) {
    let mut run = Run::new();
    loop {
        for (queue, pair) in pairs.iter_mut().enumerate() {
            pair.receiver.receive(pool, &mut run, 1);
            let is_udp = |packet: &Message| packet.bytes()[0] == 0x45 && packet.bytes()[9] == 17;
            if let Some(packet) = run.drain().find(is_udp) {
                return (queue, packet);
            }
        }
        let fds: Vec<_> = pairs
            .iter()
            .map(|pair| pair.receiver.fd().expect("a TUN device has descriptors"))
            .collect();
        wait_any(&fds);
    }
}

/// Sends a packet back to whoever sent it, by a queue; UDP over IPv4 may go without a checksum.
fn reply(pair: &mut QueuePair, mut packet: Message) {
    let bytes = packet.bytes_mut().expect("a received packet is unique");
    let (source, destination): ([u8; 4], [u8; 4]) = (
        bytes[12..16].try_into().expect("four"),
        bytes[16..20].try_into().expect("four"),
    );
    bytes[12..16].copy_from_slice(&destination);
    bytes[16..20].copy_from_slice(&source);
    bytes[20..24].rotate_left(2);
    bytes[26..28].fill(0);
    pair.transmitter.transmit(&mut Run::from_iter([packet]));
    assert_eq!(pair.transmitter.counters().drops().next(), None);
}

#[test]
fn a_flow_comes_by_the_queue_that_answers_it() {
    in_namespace("steering", || {
        let device = create(TunConfig {
            offload: false,
            ..queues("two0", 2)
        })
        .expect("root may");
        assert_eq!(device.capabilities().queues, 2);
        let mut pairs = Box::new(device).open().expect("it opens");
        let mut pool = pool();
        let sockets: Vec<UdpSocket> = (0..FLOWS)
            .map(|_| {
                let socket = UdpSocket::bind((Ipv4Addr::from(HOST), 0)).expect("the address");
                socket
                    .connect((Ipv4Addr::from(STACK), 9))
                    .expect("it is routed");
                socket
                    .set_read_timeout(Some(PATIENCE))
                    .expect("it is not zero");
                socket
            })
            .collect();
        for (flow, socket) in sockets.iter().enumerate() {
            // The first comes by any queue; half of the flows are then answered by the other one.
            let mut answering = None;
            for round in 0..ROUNDS {
                socket.send(b"there?").expect("it is routed");
                let (queue, packet) = next(&mut pairs, &mut pool);
                let answering = *answering.get_or_insert((queue + flow) % 2);
                if round > 0 {
                    assert_eq!(queue, answering, "packet {round} of flow {flow}");
                }
                reply(&mut pairs[answering], packet);
                socket.recv(&mut [0; 16]).expect("it is answered");
            }
        }
    });
}

#[test]
fn a_device_made_for_several_queues_is_adopted_with_any_number() {
    in_namespace("adopted queues", || {
        let multiple = libc::IFF_TUN | libc::IFF_MULTI_QUEUE;
        drop(system_device("many0", multiple, true));
        for count in [1, 2, 3, 1] {
            let device = create(queues("many0", count)).expect("nobody holds it");
            assert!(device.is_adopted());
            assert_eq!(device.capabilities().queues, count);
            // The system would let others in by queues of their own, and give them a share of the flows.
            let others = create(queues("many0", 1)).map(drop);
            assert!(matches!(others, Err(TunError::InUse { .. })), "{others:?}");
            assert_eq!(Box::new(device).open().expect("it opens").len(), count);
        }
        assert!(exists("many0"));

        drop(system_device("one0", libc::IFF_TUN, true));
        let refused = create(queues("one0", 2)).map(drop);
        assert!(
            matches!(refused, Err(TunError::OneQueue { queues: 2, .. })),
            "{refused:?}"
        );
        create(queues("one0", 1)).expect("nobody holds it");
    });
}

#[test]
fn numbers_of_queues_that_no_device_has_are_refused() {
    in_namespace("numbers of queues", || {
        for count in [0, QUEUES_MAX + 1] {
            let refused = create(queues("none0", count)).map(drop);
            assert!(
                matches!(refused, Err(TunError::Queues { queues, .. }) if queues == count),
                "{refused:?}"
            );
        }
        let device = create(queues("most0", QUEUES_MAX)).expect("the system has as many");
        assert_eq!(Box::new(device).open().expect("it opens").len(), QUEUES_MAX);
    });
}
