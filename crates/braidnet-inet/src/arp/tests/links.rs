//! Several links: two Ethernets, and between them a device that carries bare packets.

use super::*;
use crate::interface::{Attachment, InterfaceConfig};
use crate::testing::{bytes_of, ipv4, seal_ipv4};
use braidnet_wire::icmpv4::unreachable;

/// By device, ours.
const OURS: [Address; 3] = [US, Address::v4([10, 78, 0, 2]), Address::v4([10, 79, 0, 2])];
/// By device, somebody there.
const THEIRS: [Address; 3] = [
    PEER,
    Address::v4([10, 78, 0, 1]),
    Address::v4([10, 79, 0, 1]),
];
const BARE: u8 = 1;
const SECOND: u8 = 2;
const SECOND_MAC: MacAddress = MacAddress([2, 0, 0, 0, 79, 2]);

fn links() -> Stack {
    let attachment = |device: u8, mac| Attachment {
        addresses: vec![(OURS[usize::from(device)], Some(24))],
        mtu: testing::MTU,
        mac,
    };
    let interface = Interface::new(InterfaceConfig {
        addresses: vec![(US, Some(24))],
        mtu: testing::MTU,
        mac: Some(OUR_MAC),
        routes: Vec::new(),
        others: vec![attachment(BARE, None), attachment(SECOND, Some(SECOND_MAC))],
        forwards: true,
    });
    Stack::new(interface.unwrap())
}

/// Lets a packet in by a device, and returns what leaves, each with its device.
fn receive(stack: &mut Stack, device: u8, packet: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut message = stack.message(&[packet]);
    message.set_device(device);
    stack.receive_for_devices(message)
}

/// An ARP packet in a frame from a station, for all.
fn arp_from(
    operation: Operation,
    (sender, station): (Address, MacAddress),
    target: Address,
) -> Vec<u8> {
    let body = packet(operation, (sender, station), (target, MacAddress::ZERO));
    frame_between(station, MacAddress::BROADCAST, ARP, &body)
}

/// Sends a datagram, and returns what leaves, each with its device.
fn send_to(stack: &mut Stack, device: u8) -> Vec<(u8, Vec<u8>)> {
    let at = usize::from(device);
    let mut message = stack.message(&[b"payload"]);
    message.set_note(Datagram {
        local: OURS[at],
        remote: THEIRS[at],
        protocol: 6,
        ..Datagram::default()
    });
    let tcp = stack.inet.layout.tcp;
    let sent = stack.send_as_they_are(tcp, message);
    sent.iter()
        .map(|message| (message.device(), bytes_of(message)))
        .collect()
}

/// Stations and what a frame holds.
fn opened(frame: &[u8], ether_type: u16) -> (MacAddress, MacAddress, &[u8]) {
    let header = braidnet_wire::ethernet::parse(frame).unwrap();
    assert_eq!(header.ether_type, ether_type);
    let body = &frame[braidnet_wire::ethernet::HEADER_LEN..];
    (header.source, header.destination, body)
}

#[test]
fn an_address_is_asked_for_on_its_link_and_answered_there() {
    let mut stack = links();
    // Where packets are bare nobody is asked.
    let sent = send_to(&mut stack, BARE);
    assert_eq!((sent.len(), sent[0].0, sent[0].1[0]), (1, BARE, 0x45));
    for (device, ours) in [(0, OUR_MAC), (SECOND, SECOND_MAC)] {
        let at = usize::from(device);
        let asked = send_to(&mut stack, device);
        assert_eq!((asked.len(), asked[0].0), (1, device));
        let (source, destination, body) = opened(&asked[0].1, ARP);
        assert_eq!((source, destination), (ours, MacAddress::BROADCAST));
        let request = arp::parse(body).unwrap();
        assert_eq!((request.sender, request.target), (OURS[at], THEIRS[at]));
        // What is said of it on the other link is said of somebody else.
        let reply = arp_from(Operation::Reply, (THEIRS[at], OTHER_MAC), OURS[at]);
        assert!(receive(&mut stack, SECOND - device, &reply).is_empty());
        let reply = arp_from(Operation::Reply, (THEIRS[at], PEER_MAC), OURS[at]);
        let sent = receive(&mut stack, device, &reply);
        assert_eq!((sent.len(), sent[0].0), (1, device));
        let (source, destination, body) = opened(&sent[0].1, IPV4);
        assert_eq!((source, destination), (ours, PEER_MAC));
        assert_eq!(&body[20..], b"payload");
    }
    assert_eq!(stack.count("arp", "unsolicited"), 2);
}

#[test]
fn who_asks_for_an_address_of_another_link_hears_nothing() {
    let mut stack = links();
    for (device, address, answered) in [
        (0, OURS[0], Some(OUR_MAC)),
        (0, OURS[1], None),
        (0, OURS[2], None),
        (SECOND, OURS[0], None),
        (SECOND, OURS[2], Some(SECOND_MAC)),
    ] {
        let asker = THEIRS[usize::from(device)];
        let request = arp_from(Operation::Request, (asker, PEER_MAC), address);
        let sent = receive(&mut stack, device, &request);
        assert_eq!(sent.len(), answered.iter().count(), "{device} {address}");
        for ((by, frame), station) in sent.iter().zip(answered) {
            let (source, destination, body) = opened(frame, ARP);
            let answer = arp::parse(body).unwrap();
            assert_eq!((*by, source, destination), (device, station, PEER_MAC));
            assert_eq!((answer.sender, answer.target), (address, asker));
        }
    }
    // Our own station on the other link, where both are one, claims nothing.
    let request = arp_from(Operation::Request, (OURS[2], SECOND_MAC), PEER);
    assert!(receive(&mut stack, 0, &request).is_empty());
    assert_eq!(stack.count("arp", "own_packet"), 1);
    assert_eq!(stack.count("arp", "address_conflict"), 0);
    // Each packet for us is taken, whichever link it comes by.
    let request = testing::icmp(PEER, OURS[2], &[8, 0, 0, 0, 1, 2, 3, 4]);
    receive(&mut stack, 0, &frame(IPV4, &request));
    assert_eq!(stack.count("icmp", "echo_answered"), 1);
}

/// A flood on one link costs nobody on another his place.
#[test]
fn each_link_has_places_of_its_own() {
    let mut stack = links();
    send_to(&mut stack, SECOND);
    let reply = arp_from(
        Operation::Reply,
        (THEIRS[2], PEER_MAC),
        OURS[usize::from(SECOND)],
    );
    receive(&mut stack, SECOND, &reply);
    let most = Resolution {
        neighbours: 4,
        ..Resolution::default()
    };
    stack.inet.limits.set(InetLimits {
        resolution: most,
        ..InetLimits::default()
    });
    for last in 10..30 {
        let request = arp_from(Operation::Request, (host(last), OTHER_MAC), US);
        assert_eq!(receive(&mut stack, 0, &request).len(), 1);
    }
    assert_eq!(stack.count("arp", "evicted"), 16);
    let sent = send_to(&mut stack, SECOND);
    assert_eq!(opened(&sent[0].1, IPV4).1, PEER_MAC);
}

#[test]
fn what_is_forwarded_is_framed_as_its_way_on_asks() {
    let mut stack = links();
    let a_hop_later = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        packet[8] -= 1;
        seal_ipv4(&mut packet);
        packet
    };
    // Bare packets get a frame, when it is known for whom.
    let on = ipv4(THEIRS[1], THEIRS[2], 6, b"payload!");
    let asked = receive(&mut stack, BARE, &on);
    assert_eq!((asked.len(), asked[0].0), (1, SECOND));
    let reply = arp_from(Operation::Reply, (THEIRS[2], PEER_MAC), OURS[2]);
    let sent = receive(&mut stack, SECOND, &reply);
    let (source, destination, body) = opened(&sent[0].1, IPV4);
    assert_eq!(
        (sent[0].0, source, destination),
        (SECOND, SECOND_MAC, PEER_MAC)
    );
    assert_eq!(body, a_hop_later(&on));
    // In fragments, too.
    let long = ipv4(THEIRS[1], THEIRS[2], 6, &[7; 2000]);
    let sent = receive(&mut stack, BARE, &long);
    assert_eq!(sent.len(), 2);
    for (device, frame) in &sent {
        assert_eq!((*device, opened(frame, IPV4).1), (SECOND, PEER_MAC));
    }
    // Frames are taken off.
    let back = ipv4(THEIRS[2], THEIRS[1], 6, b"payload!");
    let framed = frame_between(PEER_MAC, SECOND_MAC, IPV4, &back);
    assert_eq!(
        receive(&mut stack, SECOND, &framed),
        [(BARE, a_hop_later(&back))]
    );
    // A neighbour who does not know better sends by us what is for another on its own link.
    let aside = ipv4(THEIRS[2], Address::v4([10, 79, 0, 9]), 6, b"payload!");
    let framed = frame_between(PEER_MAC, SECOND_MAC, IPV4, &aside);
    let asked = receive(&mut stack, SECOND, &framed);
    assert_eq!((asked.len(), asked[0].0), (1, SECOND));
    // What came to a group of stations stays here.
    for station in [MacAddress::BROADCAST, MacAddress([1, 0, 0x5e, 0, 0, 1])] {
        let framed = frame_between(PEER_MAC, station, IPV4, &back);
        assert!(receive(&mut stack, SECOND, &framed).is_empty());
    }
    assert_eq!(stack.count("ip", "group_frame"), 2);
}

/// RFC 1812 §5.2.7.1: the sender hears of it, but not the stack of its own packets.
#[test]
fn the_sender_hears_that_no_neighbour_answers() {
    let mut stack = links();
    let on = ipv4(THEIRS[1], THEIRS[2], 6, b"payload!");
    receive(&mut stack, BARE, &on);
    send_to(&mut stack, SECOND);
    for _ in 1..ATTEMPTS {
        at(&mut stack, Duration::from_secs(1));
    }
    let told = at(&mut stack, Duration::from_secs(1));
    assert_eq!(told.len(), 1);
    let header = braidnet_wire::ipv4::parse(&told[0]).unwrap();
    let ends = (header.source, header.destination);
    assert_eq!(ends, (OURS[1], THEIRS[1]));
    assert_eq!(told[0][20..22], [3, unreachable::HOST]);
    assert_eq!(stack.count("ip", "forward_no_host"), 1);
    assert_eq!(stack.count("arp", "host_unreachable"), 1);
}
