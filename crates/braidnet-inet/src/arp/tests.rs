//! Conversations on an Ethernet, in virtual time.

mod links;

use super::table::{ATTEMPTS, LIFETIME};
use super::*;
use crate::notes::Datagram;
use crate::route::Route;
use crate::testing::{
    self, FAR, OUR_MAC, PEER, PEER_MAC, ROUTER, Stack, US, ethernet_interface, frame,
    frame_between, from_us,
};
use braidnet_wire::time::Duration;

const ARP: u16 = ether_type::ARP;
const IPV4: u16 = ether_type::IPV4;
const PORT: u16 = 53;
const TICK: Duration = Duration::from_millis(5);
const OTHER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn stack() -> Stack {
    let stack = Stack::new(ethernet_interface());
    stack.inet.ports.bind(PORT).unwrap();
    stack
}

fn host(last: u8) -> Address {
    Address::v4([10, 77, 0, last])
}

fn packet(
    operation: Operation,
    sender: (Address, MacAddress),
    target: (Address, MacAddress),
) -> Vec<u8> {
    let mut bytes = vec![0; 46];
    let packet = ArpPacket {
        operation,
        sender_hardware: sender.1,
        sender: sender.0,
        target_hardware: target.1,
        target: target.0,
    };
    arp::emit(&packet, &mut bytes);
    bytes
}

/// Somebody asks for us.
fn request(sender: Address, station: MacAddress) -> Vec<u8> {
    let body = packet(
        Operation::Request,
        (sender, station),
        (US, MacAddress::ZERO),
    );
    frame_between(station, MacAddress::BROADCAST, ARP, &body)
}

/// Somebody answers us.
fn reply(sender: Address, station: MacAddress) -> Vec<u8> {
    let body = packet(Operation::Reply, (sender, station), (US, OUR_MAC));
    frame_between(station, OUR_MAC, ARP, &body)
}

/// Sends a datagram with this payload, and returns the frames that leave.
fn send(stack: &mut Stack, destination: Address, payload: &[u8]) -> Vec<Vec<u8>> {
    let mut message = stack.message(&[payload]);
    message.set_note(Datagram {
        local: US,
        remote: destination,
        protocol: 6,
        ..Datagram::default()
    });
    let tcp = stack.inet.layout.tcp;
    stack.send(tcp, message)
}

/// Asserts that the frame asks `station` (or all) for `target`.
fn assert_asks(frame: &[u8], target: Address, station: MacAddress) {
    let (destination, body) = from_us(frame, ARP);
    assert_eq!(destination, station);
    let asked = arp::parse(body).unwrap();
    assert_eq!(
        (
            asked.operation,
            asked.sender,
            asked.sender_hardware,
            asked.target
        ),
        (Operation::Request, US, OUR_MAC, target)
    );
}

/// Asserts that the frame carries this payload to `station`.
fn assert_carries(frame: &[u8], payload: &[u8], station: MacAddress) {
    let (destination, packet) = from_us(frame, IPV4);
    assert_eq!((destination, &packet[20..]), (station, payload));
}

/// Lets time pass, and what the timing wheel's ticks may be late.
fn at(stack: &mut Stack, by: Duration) -> Vec<Vec<u8>> {
    let then = stack.now() + by + TICK;
    stack.turn_at(then)
}

#[test]
fn a_conversation() {
    let mut stack = stack();
    // Asks once, and keeps what is sent meanwhile.
    let asked = send(&mut stack, PEER, b"one");
    assert_eq!(asked.len(), 1);
    assert_asks(&asked[0], PEER, MacAddress::BROADCAST);
    assert!(send(&mut stack, PEER, b"two").is_empty());
    // The answer lets it go, in order; what follows goes at once.
    let sent = stack.receive(&reply(PEER, PEER_MAC));
    assert_eq!(sent.len(), 2);
    assert_carries(&sent[0], b"one", PEER_MAC);
    assert_carries(&sent[1], b"two", PEER_MAC);
    let sent = send(&mut stack, PEER, b"three");
    assert_eq!(sent.len(), 1);
    assert_carries(&sent[0], b"three", PEER_MAC);
    assert_eq!(stack.count("arp", "requests"), 1);

    // Used, so asked in time whether it is still there; meanwhile packets go on.
    let asked = at(&mut stack, LIFETIME);
    assert_eq!(asked.len(), 1);
    assert_asks(&asked[0], PEER, PEER_MAC);
    assert_carries(&send(&mut stack, PEER, b"four")[0], b"four", PEER_MAC);
    assert!(stack.receive(&reply(PEER, PEER_MAC)).is_empty());

    // Not used, so forgotten, without a word.
    at(&mut stack, LIFETIME);
    stack.receive(&reply(PEER, PEER_MAC));
    assert!(at(&mut stack, LIFETIME).is_empty());
    assert_asks(
        &send(&mut stack, PEER, b"five")[0],
        PEER,
        MacAddress::BROADCAST,
    );
}

#[test]
fn who_does_not_answer_is_asked_three_times() {
    let mut stack = stack();
    for payload in [b"one", b"two"] {
        send(&mut stack, PEER, payload);
    }
    for _ in 1..ATTEMPTS {
        assert!(at(&mut stack, Duration::from_millis(990)).is_empty());
        let asked = at(&mut stack, Duration::from_millis(5));
        assert_eq!(asked.len(), 1);
        assert_asks(&asked[0], PEER, MacAddress::BROADCAST);
    }
    assert!(at(&mut stack, Duration::from_secs(1)).is_empty());
    assert_eq!(stack.count("arp", "host_unreachable"), 2);
    assert_eq!(stack.deadline(), None);
    // Late, and for nothing.
    assert!(stack.receive(&reply(PEER, PEER_MAC)).is_empty());
    assert_eq!(stack.count("arp", "unsolicited"), 1);
}

#[test]
fn who_falls_silent_is_given_up() {
    let mut stack = stack();
    send(&mut stack, PEER, b"one");
    stack.receive(&reply(PEER, PEER_MAC));
    send(&mut stack, PEER, b"two");
    for wait in [LIFETIME, Duration::from_secs(1), Duration::from_secs(1)] {
        assert_asks(&at(&mut stack, wait)[0], PEER, PEER_MAC);
    }
    assert!(at(&mut stack, Duration::from_secs(1)).is_empty());
    assert_asks(
        &send(&mut stack, PEER, b"three")[0],
        PEER,
        MacAddress::BROADCAST,
    );
}

#[test]
fn requests_for_us_are_answered_and_remembered() {
    let mut stack = stack();
    let sent = stack.receive(&request(PEER, PEER_MAC));
    assert_eq!(sent.len(), 1);
    let (destination, body) = from_us(&sent[0], ARP);
    let answer = arp::parse(body).unwrap();
    assert_eq!(destination, PEER_MAC);
    assert_eq!(
        (answer.operation, answer.sender, answer.sender_hardware),
        (Operation::Reply, US, OUR_MAC)
    );
    assert_eq!((answer.target, answer.target_hardware), (PEER, PEER_MAC));
    assert_carries(&send(&mut stack, PEER, b"at once")[0], b"at once", PEER_MAC);

    // A probe is answered, and says nothing about its sender.
    let probe = packet(
        Operation::Request,
        (Address::v4([0; 4]), OTHER_MAC),
        (US, MacAddress::ZERO),
    );
    let sent = stack.receive(&frame_between(
        OTHER_MAC,
        MacAddress::BROADCAST,
        ARP,
        &probe,
    ));
    assert_eq!(from_us(&sent[0], ARP).0, OTHER_MAC);
    assert_eq!(stack.count("arp", "replies"), 2);
}

/// Class 34.
#[test]
fn hostile_packets_are_dropped_by_name() {
    let us = (US, OUR_MAC);
    let with = |at: usize, bytes: &[u8]| {
        let mut body = packet(Operation::Request, (PEER, PEER_MAC), us);
        body[at..at + bytes.len()].copy_from_slice(bytes);
        body
    };
    let from = |address, station| packet(Operation::Request, (address, station), us);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "arp.arp_truncated"),
        ("27 bytes", with(0, &[])[..27].to_vec(), "arp.arp_truncated"),
        (
            "hardware length",
            with(4, &[0]),
            "arp.arp_hardware_length_wrong",
        ),
        (
            "protocol length",
            with(5, &[16]),
            "arp.arp_protocol_length_wrong",
        ),
        ("operation", with(7, &[9]), "arp.arp_operation_unknown"),
        (
            "zero sender",
            with(8, &[0; 6]),
            "arp.arp_sender_hardware_bad",
        ),
        (
            "broadcast sender",
            with(8, &[255; 6]),
            "arp.arp_sender_hardware_bad",
        ),
        (
            "from all",
            from(Address::v4([255; 4]), PEER_MAC),
            "arp.arp_sender_protocol_bad",
        ),
        (
            "from all of the network",
            from(host(255), PEER_MAC),
            "arp.bad_sender",
        ),
        (
            "from loopback",
            from(Address::v4([127, 0, 0, 1]), PEER_MAC),
            "arp.bad_sender",
        ),
        ("with our station", from(PEER, OUR_MAC), "arp.own_packet"),
        (
            "with our address",
            from(US, PEER_MAC),
            "arp.address_conflict",
        ),
    ];
    for (what, body, counter) in rows {
        let whole = frame(ARP, &body);
        let pieces: Vec<&[u8]> = whole.chunks(11).collect();
        for pieces in [&[&whole[..]][..], &pieces] {
            let mut stack = stack();
            assert!(
                stack.receive_pieces(pieces).is_empty(),
                "{what} is answered"
            );
            let counted: Vec<(String, u64)> = stack.counted().into_iter().collect();
            assert_eq!(counted, [(counter.to_string(), 1)], "{what}");
            // And nothing was learned.
            assert_asks(
                &send(&mut stack, PEER, b"x")[0],
                PEER,
                MacAddress::BROADCAST,
            );
        }
    }
}

#[test]
fn gratuitous_packets_move_neighbours_that_are_known_and_no_others() {
    let gratuitous = |station| {
        let body = packet(
            Operation::Request,
            (PEER, station),
            (PEER, MacAddress::ZERO),
        );
        frame_between(station, MacAddress::BROADCAST, ARP, &body)
    };
    let mut stack = stack();
    assert!(stack.receive(&gratuitous(OTHER_MAC)).is_empty());
    assert_asks(
        &send(&mut stack, PEER, b"one")[0],
        PEER,
        MacAddress::BROADCAST,
    );
    stack.receive(&reply(PEER, PEER_MAC));
    // Not within a second.
    stack.receive(&gratuitous(OTHER_MAC));
    assert_eq!(stack.count("arp", "flapping"), 1);
    assert_carries(&send(&mut stack, PEER, b"two")[0], b"two", PEER_MAC);
    at(&mut stack, Duration::from_secs(1));
    stack.receive(&gratuitous(OTHER_MAC));
    assert_eq!(stack.count("arp", "moved"), 1);
    assert_carries(&send(&mut stack, PEER, b"three")[0], b"three", OTHER_MAC);
}

#[test]
fn few_packets_wait_and_the_oldest_go_first() {
    let mut stack = stack();
    let count = Resolution::default().waiting as u8 + 3;
    for number in 0..count {
        send(&mut stack, PEER, &[number]);
    }
    assert_eq!(stack.count("arp", "waiting_full"), 3);
    let sent = stack.receive(&reply(PEER, PEER_MAC));
    let payloads: Vec<u8> = sent.iter().map(|frame| frame[34]).collect();
    assert_eq!(payloads, (3..count).collect::<Vec<u8>>());
}

/// A datagram from beyond our networks, through `station`.
fn from_afar(station: MacAddress) -> Vec<u8> {
    frame_between(
        station,
        OUR_MAC,
        IPV4,
        &testing::udp((FAR, 4000), (US, PORT), b"hello"),
    )
}

#[test]
fn without_a_gateway_answers_go_the_way_that_packets_came() {
    let mut stack = stack();
    assert!(stack.receive(&from_afar(PEER_MAC)).is_empty());
    assert_eq!(stack.head().len(), 1);
    assert_carries(&send(&mut stack, FAR, b"one")[0], b"one", PEER_MAC);
    // Known: nothing more is said about it, and it lives as long as packets come.
    for _ in 0..3 {
        stack.receive(&from_afar(PEER_MAC));
        assert!(at(&mut stack, LIFETIME).is_empty());
        assert_carries(&send(&mut stack, FAR, b"two")[0], b"two", PEER_MAC);
    }
    assert_eq!(stack.count("arp", "learned"), 1);
    // It comes through another.
    stack.receive(&from_afar(OTHER_MAC));
    assert_carries(&send(&mut stack, FAR, b"three")[0], b"three", OTHER_MAC);
    // It comes no more.
    assert!(at(&mut stack, LIFETIME).is_empty());
    assert_asks(
        &send(&mut stack, FAR, b"four")[0],
        FAR,
        MacAddress::BROADCAST,
    );
    // It answers for itself, and outweighs what others send in its name.
    stack.receive(&reply(FAR, PEER_MAC));
    at(&mut stack, Duration::from_secs(2));
    stack.receive(&from_afar(OTHER_MAC));
    assert_carries(&send(&mut stack, FAR, b"five")[0], b"five", PEER_MAC);
}

#[test]
fn neighbours_are_not_learned_from_traffic() {
    let mut stack = stack();
    let near = frame_between(
        OTHER_MAC,
        OUR_MAC,
        IPV4,
        &testing::udp((PEER, 4000), (US, PORT), b"hello"),
    );
    stack.receive(&near);
    assert_eq!(stack.count("arp", "learned"), 0);
    assert_asks(
        &send(&mut stack, PEER, b"one")[0],
        PEER,
        MacAddress::BROADCAST,
    );
}

#[test]
fn with_a_gateway_all_that_is_far_goes_there() {
    let mut stack = Stack::new(testing::interface(Some(OUR_MAC), Some(ROUTER)));
    stack.inet.ports.bind(PORT).unwrap();
    stack.receive(&from_afar(PEER_MAC));
    assert_asks(
        &send(&mut stack, FAR, b"one")[0],
        ROUTER,
        MacAddress::BROADCAST,
    );
    assert_carries(
        &stack.receive(&reply(ROUTER, OTHER_MAC))[0],
        b"one",
        OTHER_MAC,
    );
    assert_asks(
        &send(&mut stack, PEER, b"two")[0],
        PEER,
        MacAddress::BROADCAST,
    );
    // A request from beyond it is answered, and makes nobody a neighbour.
    assert_eq!(stack.receive(&request(FAR, PEER_MAC)).len(), 1);
    assert_carries(&send(&mut stack, FAR, b"three")[0], b"three", OTHER_MAC);
}

#[test]
fn the_longest_route_decides_and_without_one_nothing_leaves() {
    let routes = [("192.0.2.0/24", ROUTER), ("192.0.2.0/30", host(253))];
    let routes = routes.map(|(prefix, gateway)| Route::via(prefix.parse().unwrap(), gateway));
    let mut stack = Stack::new(testing::routed(Some(OUR_MAC), routes.to_vec()));
    stack.inet.ports.bind(PORT).unwrap();
    let near = Address::v4([192, 0, 2, 1]);
    for (to, gateway) in [(FAR, ROUTER), (near, host(253)), (PEER, PEER)] {
        let sent = send(&mut stack, to, b"one");
        assert_asks(&sent[0], gateway, MacAddress::BROADCAST);
    }
    // Neither a short datagram nor one that would be cut.
    let nowhere = Address::v4([198, 51, 100, 1]);
    for len in [1, 5000] {
        let mut message = stack.message(&[&vec![7; len]]);
        message.set_note(Datagram {
            local: US,
            remote: nowhere,
            protocol: 17,
            ..Datagram::default()
        });
        let tcp = stack.inet.layout.tcp;
        assert!(stack.send(tcp, message).is_empty());
    }
    assert_eq!(stack.count("ip", "no_route"), 2);
    assert_eq!(stack.count("ip", "fragmented"), 0);
}

/// Class 34: what anybody can make us hear of does not push out who has answered us.
#[test]
fn a_flood_does_not_push_out_who_has_answered() {
    let mut stack = stack();
    send(&mut stack, PEER, b"one");
    stack.receive(&reply(PEER, PEER_MAC));
    for number in 0..3000u16 {
        let [high, low] = number.to_be_bytes();
        let source = Address::v4([192, 168, high, low]);
        let packet = testing::udp((source, 4000), (US, PORT), b"x");
        stack.receive(&frame_between(OTHER_MAC, OUR_MAC, IPV4, &packet));
    }
    assert_eq!(stack.count("arp", "evicted"), 3001 - 1024);
    assert_carries(&send(&mut stack, PEER, b"two")[0], b"two", PEER_MAC);
    // Nor does it keep us from asking for others.
    assert_asks(
        &send(&mut stack, host(9), b"three")[0],
        host(9),
        MacAddress::BROADCAST,
    );
}
