//! Interfaces that a stack shares with the system: one end of a veth pair each, in a network namespace of the test's own.
//!
//! Where that is not allowed the tests print SKIPPED and why; with `CI=true` in the environment they fail instead.

#[allow(dead_code)]
#[path = "../tun/system.rs"]
mod system;
mod veth;

use braidnet_device::packet::{PacketConfig, PacketDevice, QUEUES_MAX};
use braidnet_device::{Device, DropReason, MacAddress, QueuePair};
use braidnet_message::{Checksum, Message, Pool, Run};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, Ipv4Header};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
use braidnet_wire::udp::{self, UdpHeader};
use std::collections::BTreeMap;
use std::time::Instant;
use system::{HOST, PATIENCE, STACK, ip, pool, receive, wait};
use veth::*;

const MSS: usize = 1000;

fn on(name: &str) -> PacketConfig {
    PacketConfig {
        station: Some(STATION),
        ..PacketConfig::on(name)
    }
}

fn open(config: PacketConfig) -> QueuePair {
    let device = PacketDevice::attach(config).expect("root may");
    let mut pairs = Box::new(device).open().expect("it opens");
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

/// Protocols of which the system's packet sockets take trains.
fn protocols_of_trains() -> Vec<u8> {
    let device = PacketDevice::attach(on("v0")).expect("root may");
    let mut protocols = vec![tcp::PROTOCOL];
    if device.capabilities().offloads.datagrams {
        protocols.push(udp::PROTOCOL);
    }
    protocols
}

/// Segments of TCP, or datagrams of UDP, in one message, as many as `data` has [`MSS`] bytes, their checksum left to the device.
fn train(pool: &mut Pool, data: &[u8], protocol: u8) -> Message {
    let (first, rest) = data.split_at(MSS);
    let mut message = pool.copy_from_slice(64, first).expect("room");
    message.push_continuation(pool.copy_from_slice(0, rest).expect("room"));
    message.set_segment_bytes(MSS as u32);
    let header = TcpHeader {
        seq: SeqNumber::new(7),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let header_len = match protocol {
        tcp::PROTOCOL => tcp::header_len(&header),
        _ => udp::HEADER_LEN,
    };
    let len = header_len + data.len();
    let [source, destination] = [HOST, STACK].map(Address::v4);
    let pseudo_header = Sum::pseudo_header(&source, &destination, protocol, len as u32);
    let front = message.prepend(header_len).expect("room");
    if protocol == tcp::PROTOCOL {
        tcp::emit(&header, 7, 8, front);
        tcp::partly_seal(front, pseudo_header);
    } else {
        let header = UdpHeader {
            source_port: 7,
            destination_port: 8,
            len: len as u16,
        };
        udp::emit(&header, front);
        udp::partly_seal(front, pseudo_header);
    }
    let front = message.prepend(ipv4::MIN_HEADER_LEN).expect("room");
    let header = Ipv4Header {
        source,
        destination,
        protocol,
        ttl: 64,
        total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
        dont_fragment: true,
        ..Ipv4Header::default()
    };
    ipv4::emit(&header, front);
    let front = message.prepend(14).expect("room");
    front[..6].copy_from_slice(&STATION.0);
    front[6..12].copy_from_slice(&OTHER.0);
    front[12..].copy_from_slice(&[8, 0]);
    message.set_checksum(Checksum::Partial);
    message
}

fn all_bytes(message: &Message) -> Vec<u8> {
    message.blocks().collect::<Vec<_>>().concat()
}

#[test]
fn checksums_are_left_out_or_made() {
    over_veth("checksums over veth", || {
        for offload in [true, false] {
            let mut pair = open(PacketConfig {
                offload,
                ..on("v1")
            });
            let mut pool = pool();
            let socket = towards_stack();
            socket.send(b"hello, stack").expect("it is routed");
            let got = receive(&mut pair, &mut pool, is_udp);
            let datagram = &got.bytes()[14 + 20..];
            assert_eq!(datagram[8..], *b"hello, stack");
            let [source, destination] = [HOST, STACK].map(Address::v4);
            let length = datagram.len() as u32;
            let whole =
                Sum::pseudo_header(&source, &destination, 17, length).combine(Sum::of(datagram));
            assert_eq!(whole.is_valid(), !offload);
            let said = if offload {
                Checksum::Partial
            } else {
                Checksum::Verified
            };
            assert_eq!(got.checksum(), said);
        }
    });
}

#[test]
fn what_leaves_arrives_at_the_system() {
    over_veth("out over veth", || {
        let mut pair = open(on("v1"));
        let mut pool = pool();
        let socket = towards_stack();
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        socket.send(b"hello").expect("it is routed");
        let mut back = receive(&mut pair, &mut pool, is_udp);
        let bytes = back.bytes_mut().expect("a received frame is unique");
        bytes[..12].rotate_left(6);
        bytes[26..34].rotate_left(4);
        bytes[34..38].rotate_left(2);
        // UDP over IPv4 may go without a checksum.
        bytes[40..42].fill(0);
        back.set_checksum(Checksum::Stands);
        send(&mut pair, [back]);
        let mut heard = [0; 16];
        assert_eq!(socket.recv(&mut heard).expect("it comes back"), 5);
        assert_eq!(heard[..5], *b"hello");
    });
}

#[test]
fn trains_travel_whole_in_the_ring_and_beside_it() {
    over_veth("trains over veth", || {
        let protocols = protocols_of_trains();
        let mut left = open(PacketConfig {
            station: Some(OTHER),
            ..on("v0")
        });
        let mut right = open(on("v1"));
        let mut pool = pool();
        for protocol in &protocols {
            // The first lies in a slot of the ring, the others are too long for one; a frame behind them keeps its place.
            for length in [MSS + 500, 30 * MSS, 63 * MSS + 1] {
                let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let sent = train(&mut pool, &data, *protocol);
                let expected = all_bytes(&sent);
                let behind = frame(&mut pool, STATION, 1, 60);
                send(&mut left, [sent, behind]);
                let got = receive(&mut right, &mut pool, is_ours);
                let counters = right.receiver.counters();
                let each = got.segment_bytes();
                assert_eq!(each, MSS as u32, "{length} bytes: {counters:?}");
                assert_eq!(got.checksum(), Checksum::Partial);
                assert!(all_bytes(&got) == expected, "{length} bytes");
                assert_eq!(receive(&mut right, &mut pool, is_ours).len(), 60);
            }
        }
        assert_eq!(right.receiver.counters().drops().next(), None);
        let packets = protocols.len() as u64 * (2 + 30 + 64 + 3);
        assert_eq!(right.receiver.counters().packets, packets);
    });
}

#[test]
fn trains_are_dropped_by_name_where_offloads_are_declined() {
    over_veth("declined over veth", || {
        let protocols = protocols_of_trains();
        let mut left = open(PacketConfig {
            station: Some(OTHER),
            ..on("v0")
        });
        let mut right = open(PacketConfig {
            offload: false,
            ..on("v1")
        });
        let mut pool = pool();
        for (protocol, rounds) in protocols.into_iter().zip(1..) {
            let mut of = |length| train(&mut pool, &vec![7; length], protocol);
            let trains = [MSS + 500, 30 * MSS].map(&mut of);
            let behind = frame(&mut pool, STATION, 1, 60);
            send(&mut left, trains.into_iter().chain([behind]));
            assert_eq!(receive(&mut right, &mut pool, is_ours).len(), 60);
            let counters = right.receiver.counters();
            let dropped = counters.dropped(DropReason::ReceiveOffloadUnsupported);
            assert_eq!((dropped, counters.packets), (rounds * (2 + 30), rounds));
        }
    });
}

#[test]
fn only_what_is_for_the_stack_comes_in_and_tags_do_not() {
    over_veth("filter over veth", || {
        let mut left = open(PacketConfig {
            station: Some(OTHER),
            ..on("v0")
        });
        let mut right = open(on("v1"));
        let mut pool = pool();
        let tagged = |pool: &mut Pool, tag: u16| {
            let mut frame = frame(pool, STATION, 0, 64);
            let bytes = frame.bytes_mut().expect("unique");
            bytes[12..14].copy_from_slice(&[0x81, 0]);
            bytes[14..16].copy_from_slice(&tag.to_be_bytes());
            bytes[16..18].copy_from_slice(&[0x88, 0xb5]);
            frame
        };
        let frames = [
            frame(&mut pool, OTHER, 1, 60),
            frame(&mut pool, STATION, 2, 60),
            tagged(&mut pool, 5),
            frame(&mut pool, MacAddress::BROADCAST, 3, 60),
            // No VLAN, but a priority.
            tagged(&mut pool, 3 << 13),
            frame(&mut pool, MacAddress([1, 0, 0x5e, 0, 0, 1]), 4, 1514),
        ];
        send(&mut left, frames);
        let mut run = Run::new();
        let is_test = |frame: &[u8]| frame[12..14] == [0x88, 0xb5];
        while run.iter().filter(|frame| is_test(frame.bytes())).count() < 4 {
            wait(right.receiver.fd().expect("a socket"));
            right.receiver.receive(&mut pool, &mut run, 8);
        }
        let lengths: Vec<_> = run
            .iter()
            .filter(|frame| is_test(frame.bytes()))
            .map(Message::len)
            .collect();
        assert_eq!(lengths, [60, 60, 60, 1514]);
        let counters = right.receiver.counters();
        assert_eq!(counters.dropped(DropReason::ReceiveVlanTagged), 1);
        // Nor does what the stack itself has sent come back.
        send(&mut right, [frame(&mut pool, MacAddress::BROADCAST, 5, 60)]);
        assert_eq!(receive(&mut left, &mut pool, is_test).len(), 60);
        right.receiver.receive(&mut pool, &mut run, 8);
        assert_eq!(run.iter().filter(|got| is_test(got.bytes())).count(), 4);
    });
}

#[test]
fn what_finds_no_room_in_the_ring_is_counted() {
    over_veth("full ring", || {
        let mut left = open(PacketConfig {
            station: Some(OTHER),
            ..on("v0")
        });
        let mut right = open(on("v1"));
        let mut pool = pool();
        let count = 3000;
        for first in (0..count).step_by(500) {
            let frames: Vec<_> = (first..first + 500)
                .map(|number| frame(&mut pool, STATION, number, 60))
                .collect();
            send(&mut left, frames);
        }
        let (mut run, mut got) = (Run::new(), Vec::new());
        let mut number = count;
        // The last is the one that tells of those that were lost before it.
        while right
            .receiver
            .counters()
            .dropped(DropReason::ReceiveRingFull)
            == 0
        {
            assert!(number < count + 1000, "nothing was lost: {}", got.len());
            send(&mut left, [frame(&mut pool, STATION, number, 60)]);
            number += 1;
            wait(right.receiver.fd().expect("a socket"));
            right.receiver.receive(&mut pool, &mut run, 5000);
            got.extend(
                run.drain()
                    .filter(|frame| is_ours(frame.bytes()))
                    .map(|frame| {
                        u32::from_be_bytes(*frame.bytes()[14..].first_chunk().expect("a number"))
                    }),
            );
        }
        assert!(got.is_sorted() && got.len() >= 1000, "{}", got.len());
        let lost = right
            .receiver
            .counters()
            .dropped(DropReason::ReceiveRingFull);
        assert_eq!(got.len() as u64 + lost, number.into());
    });
}

#[test]
fn flows_are_dealt_among_queues_and_stay_there() {
    over_veth("queues over veth", || {
        let device = PacketDevice::attach(PacketConfig {
            queues: 2,
            ..on("v1")
        });
        let mut pairs = Box::new(device.expect("root may"))
            .open()
            .expect("it opens");
        let mut pool = pool();
        let sockets: Vec<_> = (0..32).map(|_| towards_stack()).collect();
        for round in 0..4u8 {
            for socket in &sockets {
                socket.send(&[round]).expect("it is routed");
            }
        }
        let mut queue_of = BTreeMap::new();
        let mut run = Run::new();
        let mut got = 0;
        let begun = Instant::now();
        while got < 4 * sockets.len() {
            assert!(begun.elapsed() < PATIENCE, "{got} came");
            for (queue, pair) in pairs.iter_mut().enumerate() {
                pair.receiver.receive(&mut pool, &mut run, 64);
                for frame in run.drain().filter(|frame| is_udp(frame.bytes())) {
                    let port = [frame.bytes()[34], frame.bytes()[35]];
                    assert_eq!(*queue_of.entry(port).or_insert(queue), queue);
                    got += 1;
                }
            }
        }
        assert_eq!((queue_of.len(), got), (32, 128));
        assert!((0..2).all(|queue| queue_of.values().any(|other| *other == queue)));
        for pair in &mut pairs {
            assert_eq!(
                pair.receiver.receive(&mut pool, &mut run, 64),
                0,
                "each once"
            );
        }
    });
}

#[test]
fn an_interface_that_is_down_or_removed_is_told_apart() {
    over_veth("removed", || {
        let mut pair = open(on("v1"));
        let mut pool = pool();
        let socket = towards_stack();
        for how in ["down", "up"] {
            ip(&["link", "set", "v1", how]);
            look(&mut pair, &mut pool);
            assert!(!pair.receiver.is_gone());
        }
        // The other end notices by and by that the wire is back.
        let (begun, mut run) = (Instant::now(), Run::new());
        while !run.iter().any(|frame| is_udp(frame.bytes())) {
            assert!(begun.elapsed() < PATIENCE);
            socket.send(b"back").expect("it is routed");
            pair.receiver.receive(&mut pool, &mut run, 64);
        }
        assert!(pair.receiver.alarm().expect("an alarm").next().is_none());
        ip(&["link", "set", "v1", "down"]);
        let mut run = Run::from_iter([frame(&mut pool, OTHER, 0, 60)]);
        pair.transmitter.transmit(&mut run);
        ip(&["link", "del", "v1"]);
        let begun = Instant::now();
        while !pair.receiver.is_gone() {
            assert!(begun.elapsed() < PATIENCE);
            look(&mut pair, &mut pool);
        }
        let mut run = Run::from_iter([frame(&mut pool, OTHER, 0, 60)]);
        pair.transmitter.transmit(&mut run);
        let counters = pair.transmitter.counters();
        let of = |reason| counters.dropped(reason);
        assert_eq!(
            (of(DropReason::InterfaceDown), of(DropReason::DeviceGone)),
            (1, 1)
        );
    });
}

#[test]
fn packets_beside_the_ring_keep_their_places_when_the_interface_goes_down() {
    over_veth("down beside the ring", || {
        for name in ["v0", "v1"] {
            ip(&["link", "set", name, "mtu", "9000"]);
        }
        let mut left = open(PacketConfig {
            station: Some(OTHER),
            ..on("v0")
        });
        let mut right = open(PacketConfig {
            mtu: Some(1500),
            ..on("v1")
        });
        let mut pool = pool();
        // It is skipped, for it has a tag, and the socket has an error by then.
        let mut tagged = frame(&mut pool, STATION, 0, 5000);
        let bytes = tagged.bytes_mut().expect("unique");
        bytes[12..18].copy_from_slice(&[0x81, 0, 0, 5, 0x88, 0xb5]);
        send(&mut left, [tagged]);
        wait(right.receiver.fd().expect("a socket"));
        for how in ["down", "up"] {
            ip(&["link", "set", "v1", how]);
        }
        let data: Vec<u8> = (0..30 * MSS).map(|at| (at % 251) as u8).collect();
        let expected = all_bytes(&train(&mut pool, &data, tcp::PROTOCOL));
        let (begun, mut run) = (Instant::now(), Run::new());
        let mut got = None;
        while got.is_none() {
            let counters = right.receiver.counters();
            assert!(begun.elapsed() < PATIENCE, "{counters:?}");
            let sent = train(&mut pool, &data, tcp::PROTOCOL);
            send(&mut left, [sent]);
            right.receiver.receive(&mut pool, &mut run, 64);
            got = run.drain().find(|frame| is_ours(frame.bytes()));
        }
        assert!(got.is_some_and(|got| all_bytes(&got) == expected));
        let counters = right.receiver.counters();
        assert_eq!(counters.dropped(DropReason::ReceiveVlanTagged), 1);
        assert_eq!(counters.drops().count(), 1, "{counters:?}");
        // What is read takes the error along that says so.
        let sent = train(&mut pool, &data, tcp::PROTOCOL);
        while right.receiver.receive(&mut pool, &mut run, 64) > 0 {}
        send(&mut left, [sent]);
        wait(right.receiver.fd().expect("a socket"));
        ip(&["link", "del", "v1"]);
        run.clear();
        while !right.receiver.is_gone() {
            assert!(begun.elapsed() < PATIENCE);
            right.receiver.receive(&mut pool, &mut run, 64);
        }
        assert!(run.iter().any(|got| all_bytes(got) == expected));
    });
}

/// Looks as often as whoever finds it readable, or is asked to look again, does.
fn look(pair: &mut QueuePair, pool: &mut Pool) {
    for _ in 0..40 {
        pair.receiver.receive(pool, &mut Run::new(), 8);
    }
    std::thread::yield_now();
}

#[test]
fn interfaces_that_cannot_be_joined_are_refused() {
    over_veth("refused interfaces", || {
        ip(&["link", "add", "v2", "type", "veth", "peer", "name", "v3"]);
        let attach = |config: PacketConfig| PacketDevice::attach(config).map(drop);
        let sized = |mtu| PacketConfig {
            mtu: Some(mtu),
            ..on("v1")
        };
        let dealt = |queues| PacketConfig { queues, ..on("v1") };
        let rows = [
            (on("absent0"), "no interface \"absent0\""),
            (on(""), "no interface"),
            (on("lo"), "lo is no Ethernet interface"),
            (on("v2"), "v2 is down"),
            (sized(67), "use 68 to its own, 1500"),
            (sized(1501), "use 68 to its own, 1500"),
            (dealt(0), "use 1 to 256"),
            (dealt(QUEUES_MAX + 1), "use 1 to 256"),
        ];
        for (config, part) in rows {
            let refused = attach(config).map_err(|error| error.to_string());
            assert!(
                matches!(&refused, Err(said) if said.contains(part)),
                "{refused:?}"
            );
        }
        for mtu in [68, 1500] {
            attach(sized(mtu)).expect("it can be");
        }
    });
}
