//! UDP on a device that carries bare IP packets.

use super::*;
use crate::testing::{self, FAR, PEER, Stack, US, bytes_of, ip_interface, ipv4, seal_ipv4};
use braidnet_wire::address::Address;
use proptest::prelude::*;

const PORT: u16 = 53;
const FLOW: Tuple = Tuple {
    local: US,
    remote: PEER,
    local_port: PORT,
    remote_port: 4000,
};

fn stack() -> Stack {
    let stack = Stack::new(ip_interface());
    stack.inet.ports.bind(PORT).unwrap();
    stack
}

/// A datagram that gets through, changed behind the IP header.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = testing::udp((PEER, 4000), (US, PORT), b"payload");
    change(&mut packet[20..]);
    packet
}

#[test]
fn hostile_datagrams_are_dropped_by_name() {
    let udp = |payload: &[u8]| ipv4(PEER, US, PROTOCOL, payload);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("38: nothing", udp(&[]), "udp.udp_truncated"),
        ("38: 7 bytes", udp(&[0; 7]), "udp.udp_truncated"),
        (
            "38: length 0",
            changed(|udp| udp[4..6].fill(0)),
            "udp.udp_length_too_small",
        ),
        (
            "38: length 7",
            changed(|udp| udp[5] = 7),
            "udp.udp_length_too_small",
        ),
        (
            "38: length beyond",
            changed(|udp| udp[5] += 1),
            "udp.udp_length_past_end",
        ),
        (
            "38: length 65535",
            changed(|udp| udp[4..6].fill(255)),
            "udp.udp_length_past_end",
        ),
        (
            "38: length short",
            changed(|udp| udp[5] -= 1),
            "udp.udp_checksum_wrong",
        ),
        (
            "46: checksum wrong",
            changed(|udp| udp[6] ^= 1),
            "udp.udp_checksum_wrong",
        ),
        (
            "46: payload wrong",
            changed(|udp| udp[14] ^= 1),
            "udp.udp_checksum_wrong",
        ),
        (
            "port 0",
            testing::udp((PEER, 4000), (US, 0), b""),
            "udp.port_zero",
        ),
    ];
    for (class, packet, counter) in rows {
        let pieces: Vec<&[u8]> = packet.chunks(3).collect();
        for pieces in [&[&packet[..]][..], &pieces] {
            let mut stack = stack();
            assert!(
                stack.receive_pieces(pieces).is_empty(),
                "class {class} is answered"
            );
            assert!(stack.head().is_empty(), "class {class} gets through");
            let counted: Vec<(String, u64)> = stack.counted().into_iter().collect();
            assert_eq!(counted, [(counter.to_string(), 1)], "class {class}");
        }
    }
}

#[test]
fn what_is_right_comes_up_with_its_flow() {
    // Without a checksum, and with more IP payload than the datagram has.
    let unchecked = changed(|udp| udp[6..8].fill(0));
    let mut trailed = changed(|_| {});
    trailed.extend([0xee; 5]);
    trailed[3] += 5;
    seal_ipv4(&mut trailed);
    let flows = Flows::new([1, 2], 16, &ip_interface());
    for (what, packet) in [
        ("plain", changed(|_| {})),
        ("38: checksum 0", unchecked),
        ("trailer", trailed),
    ] {
        let mut stack = stack();
        assert!(stack.receive(&packet).is_empty(), "{what}");
        let [message] = &stack.head()[..] else {
            panic!("{what}: {:?}", stack.counted())
        };
        assert_eq!(bytes_of(message), b"payload", "{what}");
        assert_eq!(
            message.note::<UdpFlow>(),
            UdpFlow {
                tuple: FLOW,
                ..UdpFlow::default()
            },
            "{what}"
        );
        assert_eq!(
            message.bucket(),
            flows.bucket_of(&FLOW, PROTOCOL).0.0,
            "{what}"
        );
        assert_eq!(
            message.bucket(),
            flows.classify(&packet, 0).0,
            "{what}: the filter agrees"
        );
    }
}

#[test]
fn ports_open_and_close() {
    let mut stack = stack();
    let packet = changed(|_| {});
    assert!(stack.receive(&packet).is_empty());
    assert_eq!(stack.head().len(), 1);
    assert!(stack.inet.ports.unbind(PORT));
    assert_eq!(stack.receive(&packet).len(), 1, "reported");
    assert!(stack.head().is_empty());
    assert_eq!(stack.count("udp", "port_closed"), 1);
}

fn send(stack: &mut Stack, tuple: Tuple, payload: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut message = stack.message(payload);
    message.set_note(UdpFlow {
        tuple,
        ..UdpFlow::default()
    });
    let udp = stack.inet.layout.udp;
    stack.send(udp, message)
}

#[test]
fn what_cannot_be_sent_is_dropped_by_name() {
    let mut stack = stack();
    assert!(
        send(
            &mut stack,
            Tuple {
                remote_port: 0,
                ..FLOW
            },
            &[b"x"]
        )
        .is_empty()
    );
    assert_eq!(stack.count("udp", "port_zero"), 1);
    let half = vec![0; 40_000];
    assert!(send(&mut stack, FLOW, &[&half, &half]).is_empty());
    assert_eq!(stack.count("udp", "too_long"), 1);
    let mut verb = stack.message(&[b""]);
    verb.set_kind(Kind::Control);
    let udp = stack.inet.layout.udp;
    assert!(stack.send(udp, verb).is_empty());
    assert_eq!(stack.count("udp", "not_data"), 1);
}

#[test]
fn our_address_is_filled_in() {
    let mut stack = stack();
    let sent = send(
        &mut stack,
        Tuple {
            local: Address::v4([0; 4]),
            remote: FAR,
            ..FLOW
        },
        &[b"x"],
    );
    assert_eq!(sent[0][12..16], [10, 77, 0, 2]);
}

proptest! {
    /// Class 46: checksums that we make verify, whatever the blocks, their sums known or not; an odd block does not put
    /// the rest out of step.
    #[test]
    fn what_is_sent_comes_up_at_the_other_end(
        blocks in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..5),
        shared: bool,
        offload in prop::sample::select(vec![Offload::Nothing, Offload::Checksums, Offload::Segments]),
        headroom in 0usize..=64,
        came_partial: bool,
    ) {
        let mut stack = Stack::new(ip_interface().offloading(&[offload]));
        let mut messages = blocks.iter().map(|(bytes, summed)| {
            let mut message = stack.pool().allocate(headroom, 64).unwrap();
            if *summed {
                assert_eq!(message.extend_from_slice_summed(bytes), bytes.len());
            } else {
                message.append(bytes.len()).unwrap().copy_from_slice(bytes);
            }
            message
        }).collect::<Vec<_>>().into_iter();
        let mut message = messages.next().unwrap();
        messages.for_each(|block| message.push_continuation(block));
        let kept = shared.then(|| message.share(stack.pool()).unwrap());
        message.set_note(UdpFlow { tuple: FLOW, ..UdpFlow::default() });
        if came_partial {
            message.set_checksum(Checksum::Partial);
        }
        let udp = stack.inet.layout.udp;
        let sent = stack.send(udp, message);
        drop(kept);

        let payload: Vec<u8> = blocks.iter().flat_map(|(bytes, _)| bytes).copied().collect();
        // The far end's way of looking at it.
        let header = braidnet_wire::ipv4::parse(&sent[0]).unwrap();
        let datagram = &sent[0][header.payload_range()];
        prop_assert_eq!(udp::verify(&header.source, &header.destination, datagram), Ok(()));
        let parsed = udp::parse(datagram).unwrap();
        prop_assert_eq!((parsed.source_port, parsed.destination_port), (PORT, 4000));
        prop_assert_eq!(&datagram[parsed.payload_range()], payload);
    }
}
