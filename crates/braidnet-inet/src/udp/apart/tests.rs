//! Trains of datagrams: what comes up of one, what leaves of one, and what goes on.

use super::super::*;
use crate::testing::{self, PEER, Stack, US, bytes_of, ip_interface};
use proptest::prelude::*;

const PORT: u16 = 53;
const FLOW: Tuple = Tuple {
    local: US,
    remote: PEER,
    local_port: PORT,
    remote_port: 4000,
};
const OFFLOADS: [Offload; 5] = [
    Offload::Nothing,
    Offload::Checksums,
    Offload::Segments,
    Offload::Datagrams,
    Offload::LeftOut,
];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// A packet as a device that offloads hands it up: the first datagram with all headers in one block, the others in another.
fn arriving(stack: &mut Stack, payload: &[u8], each: usize) -> Message {
    let header = UdpHeader {
        source_port: FLOW.remote_port,
        destination_port: PORT,
        len: (HEADER_LEN + payload.len()) as u16,
    };
    let mut datagram = vec![0; HEADER_LEN];
    udp::emit(&header, &mut datagram);
    let pseudo = Sum::pseudo_header(&PEER, &US, PROTOCOL, header.len.into());
    udp::partly_seal(&mut datagram, pseudo);
    datagram.extend_from_slice(payload);
    let packet = testing::ipv4(PEER, US, PROTOCOL, &datagram);
    let (first, rest) = packet.split_at(ipv4::MIN_HEADER_LEN + HEADER_LEN + each);
    let mut message = stack.message(&[first, rest]);
    message.set_segment_bytes(each as u32);
    message.set_checksum(Checksum::Partial);
    message
}

fn stack() -> Stack {
    let stack = Stack::new(ip_interface().offloading(&[Offload::Datagrams]));
    stack.inet.ports.bind(PORT).unwrap();
    stack
}

#[test]
fn each_datagram_of_a_train_comes_up_by_itself() {
    // The shortest leaves less in the first block than TCP's header has.
    for (each, len) in [
        (1, 2),
        (1, 128),
        (11, 30),
        (1000, 4000),
        (1472, 1473),
        (1472, 60_000),
    ] {
        let mut stack = stack();
        let payload = text(len);
        let message = arriving(&mut stack, &payload, each);
        assert!(stack.receive_message(message).is_empty());
        let datagrams = stack.head();
        let expected: Vec<&[u8]> = payload.chunks(each).collect();
        let heard: Vec<Vec<u8>> = datagrams.iter().map(bytes_of).collect();
        assert!(heard == expected, "{len} bytes by {each}");
        for datagram in &datagrams {
            assert_eq!(
                datagram.note::<UdpFlow>(),
                UdpFlow {
                    tuple: FLOW,
                    ..UdpFlow::default()
                }
            );
            assert_eq!(datagram.bucket(), datagrams[0].bucket());
            assert_eq!(datagram.segment_bytes(), 0);
            assert_eq!(datagram.checksum(), Checksum::Stands);
        }
        // None keeps a buffer for all.
        let behind = &datagrams[1..];
        assert!(behind.iter().all(|one| room::footprint(one) < 3000));
        let counted = Vec::from_iter(stack.counted());
        let name = "udp.received_in_trains".to_owned();
        assert_eq!(counted, [(name, expected.len() as u64)]);
    }
}

#[test]
fn a_train_for_a_port_that_is_not_open_is_counted_by_datagrams_and_reported_once() {
    let mut stack = Stack::new(ip_interface().offloading(&[Offload::Datagrams]));
    let message = arriving(&mut stack, &text(3500), 1000);
    assert_eq!(stack.receive_message(message).len(), 1);
    assert!(stack.head().is_empty());
    assert_eq!(stack.count("udp", "port_closed"), 4);
}

#[test]
fn what_finds_no_buffer_is_counted_by_datagrams() {
    let mut stack = stack();
    let message = arriving(&mut stack, &text(60_000), 1000);
    let mut taken = Vec::new();
    while let Some(buffer) = stack.pool().allocate(room::HEADROOM, 1000) {
        taken.push(buffer);
    }
    taken.truncate(taken.len() - 3);
    stack.receive_message(message);
    let (up, lost) = (stack.head().len() as u64, stack.count("udp", "no_buffer"));
    assert!(up >= 1 && lost >= 1, "{up} and {lost}");
    assert_eq!(up + lost, 60);
}

/// A train of this payload that is to leave, in a block for each datagram.
fn leaving(stack: &mut Stack, payload: &[u8], each: usize) -> Message {
    let mut message = stack.message(&payload.chunks(each).collect::<Vec<_>>());
    message.set_segment_bytes(each as u32);
    message.set_note(UdpFlow {
        tuple: FLOW,
        ..UdpFlow::default()
    });
    message
}

#[test]
fn a_train_leaves_whole_where_the_device_takes_it() {
    for (offload, each, messages) in [
        (Offload::Datagrams, 1000, 1),
        (Offload::Segments, 1000, 4),
        // Longer than the MTU: each leaves in two fragments.
        (Offload::Datagrams, 2000, 4),
    ] {
        let mut stack = Stack::new(ip_interface().offloading(&[offload]));
        let message = leaving(&mut stack, &text(4000), each);
        let udp = stack.inet.layout.udp;
        let sent = stack.send_as_they_are(udp, message);
        assert_eq!(sent.len(), messages, "{offload:?} {each}");
        let in_trains = stack.count("udp", "sent_in_trains");
        assert_eq!(in_trains, if messages == 1 { 4 } else { 0 });
    }
}

#[test]
fn identifications_of_a_train_are_not_used_again() {
    let mut stack = Stack::new(ip_interface().offloading(&[Offload::Datagrams]));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let message = leaving(&mut stack, &text(3001), 1000);
        let udp = stack.inet.layout.udp;
        for packet in stack.send(udp, message) {
            assert!(seen.insert([packet[4], packet[5]]), "each has its own");
        }
    }
    assert_eq!(seen.len(), 12);
}

proptest! {
    #[test]
    fn what_leaves_of_a_train_are_its_datagrams(
        each in 1usize..1472,
        count in 2usize..64,
        last in 1usize..1472,
        offload in prop::sample::select(OFFLOADS.to_vec()),
    ) {
        let len = ((count - 1) * each + last.min(each)).min(65_507);
        let mut stack = Stack::new(ip_interface().offloading(&[offload]));
        let payload = text(len);
        let message = leaving(&mut stack, &payload, each);
        let udp = stack.inet.layout.udp;
        let sent = stack.send(udp, message);
        prop_assert_eq!(sent.len(), len.div_ceil(each));
        for (packet, expected) in sent.iter().zip(payload.chunks(each)) {
            let header = braidnet_wire::ipv4::parse(packet).unwrap();
            let datagram = &packet[header.payload_range()];
            if offload != Offload::LeftOut {
                prop_assert_eq!(udp::verify(&header.source, &header.destination, datagram), Ok(()));
            }
            let parsed = udp::parse(datagram).unwrap();
            prop_assert_eq!((parsed.source_port, parsed.destination_port), (PORT, 4000));
            prop_assert_eq!(&datagram[parsed.payload_range()], expected);
        }
    }
}
