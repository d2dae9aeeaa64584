//! What leaves by a device that does less, against what one that does all makes of it.

use super::*;
use crate::interface::{Attachment, Interface, InterfaceConfig};
use crate::notes::UdpFlow;
use crate::offload::Offload;
use crate::testing::{self, Stack, bytes_of, on_the_wire, seal_ipv4};
use braidnet_wire::address::{Address, Tuple};

const US: [Address; 2] = [Address::v4([10, 1, 0, 2]), Address::v4([10, 2, 0, 2])];
const LEFT: Address = Address::v4([10, 1, 0, 1]);
const RIGHT: Address = Address::v4([10, 2, 0, 1]);
const OFFLOADS: [Offload; 3] = [Offload::Nothing, Offload::Checksums, Offload::Segments];

/// A stack whose left device does all, and the right one so much.
fn stack(right: Offload) -> Stack {
    let interface = Interface::new(InterfaceConfig {
        addresses: vec![(US[0], Some(24))],
        mtu: 1500,
        others: vec![Attachment {
            addresses: vec![(US[1], Some(24))],
            mtu: 1500,
            mac: None,
        }],
        forwards: true,
        ..InterfaceConfig::default()
    });
    Stack::new(interface.unwrap().offloading(&[Offload::Datagrams, right]))
}

/// A header of TCP of `options` bytes of options, and the sum of the pseudo-header in it.
fn tcp_header(source: Address, options: usize, flags: u8, payload: usize) -> Vec<u8> {
    let len = 20 + options;
    let mut header = vec![1; len];
    header[SEQ].copy_from_slice(&0xffff_fe00u32.to_be_bytes());
    header[DATA_OFFSET] = (len as u8 / 4) << 4;
    header[FLAGS] = flags;
    let len = (len + payload) as u32;
    let pseudo = Sum::pseudo_header(&source, &RIGHT, tcp::PROTOCOL, len);
    tcp::partly_seal(&mut header, pseudo);
    header
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * at / 7) as u8).collect()
}

/// What is on the wire of the right device, and how many messages left by it.
fn wired(sent: &[Message]) -> (Vec<Vec<u8>>, usize) {
    assert!(sent.iter().all(|message| message.device() == 1));
    let packets = sent.iter().flat_map(on_the_wire).collect();
    (packets, sent.len())
}

/// Trains of others, of the last segment's every length, come by the left device in two blocks, as it hands them up.
#[test]
fn a_train_that_goes_on_is_cut_for_who_does_not() {
    let each = 100;
    for (options, flags, len) in [
        (0, 0x10, 3 * each),
        (12, 0x19, 2 * each + 1),
        (40, 0x98, 4 * each - 1),
        (12, 0x10, each + 1),
    ] {
        let data = payload(len);
        let segment = [tcp_header(LEFT, options, flags, len), data].concat();
        let packet = testing::ipv4(LEFT, RIGHT, tcp::PROTOCOL, &segment);
        let (first, rest) = packet.split_at(20 + 20 + options + each);
        let sent = |right| {
            let mut stack = stack(right);
            let mut train = stack.message(&[first, rest]);
            train.set_segment_bytes(each as u32);
            train.set_checksum(Checksum::Partial);
            let sent = stack.receive_as_they_are(train);
            let count = stack.count("ip", "forwarded");
            assert_eq!(count as usize, len.div_ceil(each));
            wired(&sent)
        };
        let (expected, whole) = sent(Offload::Datagrams);
        assert_eq!((whole, expected.len()), (1, len.div_ceil(each)));
        for right in OFFLOADS {
            let (mut packets, messages) = sent(right);
            let takes_trains = right == Offload::Segments;
            assert_eq!(messages == 1, takes_trains, "{right:?}");
            for (number, packet) in packets.iter_mut().enumerate() {
                // Each packet has a number of its own, where nobody else numbers them.
                let number = if takes_trains { 0 } else { number as u8 };
                assert_eq!(packet[4..6], [0, number]);
                packet[5] = 0;
                seal_ipv4(packet);
            }
            assert!(packets == expected, "{right:?} {options} {len}");
        }
    }
}

#[test]
fn checksums_that_others_left_are_made_for_who_does_not() {
    let segment = [tcp_header(LEFT, 0, 0x18, 50), payload(50)].concat();
    let packet = testing::ipv4(LEFT, RIGHT, tcp::PROTOCOL, &segment);
    let sent = |right| {
        let mut stack = stack(right);
        let mut message = stack.message(&[&packet]);
        message.set_checksum(Checksum::Partial);
        let sent = stack.receive_as_they_are(message);
        (sent[0].checksum(), wired(&sent).0)
    };
    let (_, expected) = sent(Offload::Datagrams);
    let (checksum, packets) = sent(Offload::Nothing);
    assert!(checksum == Checksum::Stands && packets == expected);
    assert_eq!(sent(Offload::Checksums), (Checksum::Partial, expected));
}

/// What the transports of this stack leave to the left device, of one segment and of several.
#[test]
fn what_is_sent_is_the_same_by_whichever_device() {
    let each = 100;
    for lens in [&[50][..], &[each, each, each], &[each, each, 1]] {
        let len = lens.iter().sum();
        let header = tcp_header(US[1], 12, 0x18, len);
        let sent = |right| {
            let mut stack = stack(right);
            let data = payload(len);
            let mut blocks = Vec::new();
            let mut rest = &data[..];
            for len in lens {
                let (block, behind) = rest.split_at(*len);
                blocks.push(block.to_vec());
                rest = behind;
            }
            blocks[0].splice(0..0, header.iter().copied());
            let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            let mut message = stack.message(&blocks);
            if lens.len() > 1 {
                message.set_segment_bytes(each as u32);
            }
            message.set_checksum(Checksum::Partial);
            message.set_note(Datagram {
                local: US[1],
                remote: RIGHT,
                protocol: tcp::PROTOCOL,
                ..Datagram::default()
            });
            let tcp = stack.inet.layout.tcp;
            wired(&stack.send_as_they_are(tcp, message))
        };
        let (expected, whole) = sent(Offload::Datagrams);
        assert_eq!((whole, expected.len()), (1, lens.len()));
        for right in OFFLOADS {
            let (packets, messages) = sent(right);
            let takes = right == Offload::Segments;
            assert_eq!(messages, if takes { 1 } else { lens.len() }, "{right:?}");
            assert!(packets == expected, "{right:?} {lens:?}");
        }
    }
}

/// UDP asks by which device its datagrams leave.
#[test]
fn datagrams_are_sealed_and_cut_for_the_device_that_they_leave_by() {
    for (right, trains, checksum) in [
        (Offload::Datagrams, 1, Checksum::Partial),
        (Offload::Segments, 3, Checksum::Stands),
        (Offload::Nothing, 3, Checksum::Stands),
    ] {
        let mut stack = stack(right);
        let data = payload(100);
        let mut message = stack.message(&[&data, &data, &data]);
        message.set_segment_bytes(100);
        let tuple = Tuple {
            local: US[1],
            remote: RIGHT,
            local_port: 9,
            remote_port: 7,
        };
        message.set_note(UdpFlow {
            tuple,
            ..UdpFlow::default()
        });
        let udp = stack.inet.layout.udp;
        let sent = stack.send_as_they_are(udp, message);
        assert_eq!((sent.len(), sent[0].checksum()), (trains, checksum));
        for packet in wired(&sent).0 {
            let pseudo = Sum::pseudo_header(&US[1], &RIGHT, udp::PROTOCOL, 108);
            let sum = pseudo + Sum::of(&packet[20..]);
            assert!(packet.len() == 128 && sum.is_valid(), "{right:?}");
        }
        assert!(bytes_of(&sent[0]).starts_with(&[0x45]));
    }
}
