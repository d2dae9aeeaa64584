//! A stack between two links, which the attacker on the left one has forward what should not be, or more than it can.

use crate::packet::{self, Ip, echo, fragment, icmp_error, ipv4, ipv4_with_options, udp, with};
use braidnet::device::several::Several;
use braidnet::device::{Capabilities, Device, MacAddress, QueuePair, memory};
use braidnet::message::{Arena, Pool, Run};
use braidnet::stream::Next;
use braidnet::{Instant, Stack, StackConfig};

/// Of the stack, on the left and on the right link.
const US: [Ip; 2] = [[10, 1, 0, 2], [10, 2, 0, 2]];
const EVIL: Ip = [10, 1, 0, 1];
const RIGHT: Ip = [10, 2, 0, 1];
const LEFT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 1, 2]);
const RIGHT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 2, 2]);
const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// The stack, and the other ends of its links.
struct Between {
    stack: Stack,
    sides: [QueuePair; 2],
    pool: Pool,
    ethernet: bool,
    now: Instant,
}

impl Between {
    /// The right link of which holds so many packets.
    fn new(ethernet: bool, depth: usize) -> Between {
        let medium = |station| match ethernet {
            true => Capabilities::ethernet(station, 1500),
            false => Capabilities::ip(1500),
        };
        let (left, far_left) = memory::wire(medium(LEFT_MAC), 4096);
        let (right, far_right) = memory::wire(medium(RIGHT_MAC), depth);
        let mut config = StackConfig::new(US[0].into());
        config.addresses = vec![(US[0].into(), Some(24))];
        config.further_addresses = vec![vec![(US[1].into(), Some(24))]];
        config.forwards = true;
        let devices = Several::of(left.copying()).and(right.copying());
        let sides = [far_left, far_right].map(|end| Box::new(end).open().unwrap().remove(0));
        let mut between = Between {
            stack: Stack::new(&config, devices).unwrap(),
            sides,
            pool: Pool::new(&Arena::new(64 << 20)),
            ethernet,
            now: Instant::from_millis(1000),
        };
        if ethernet {
            // Both neighbours are known.
            for (side, them) in [EVIL, RIGHT].into_iter().enumerate() {
                let request = packet::arp(1, (THEIR_MAC, them), ([0; 6], US[side]));
                between.give(side, &packet::frame(THEIR_MAC, [0xff; 6], 0x0806, &request));
            }
            let answers = between.turn();
            assert_eq!(answers.map(|answers| answers.len()), [1, 1]);
        }
        between
    }

    fn give(&mut self, side: usize, bytes: &[u8]) {
        let mut run = Run::new();
        run.extend(self.pool.copy_from_slice(0, bytes));
        self.sides[side].transmitter.transmit(&mut run);
        assert!(run.is_empty(), "the wire is full");
    }

    /// Turns until nothing is left to do; what came out to the left and to the right, without frames.
    fn turn(&mut self) -> [Vec<Vec<u8>>; 2] {
        let mut turns = 0;
        while self.stack.turn(self.now) == Next::Again {
            turns += 1;
            assert!(turns < 20_000, "it does not come to rest");
        }
        let header_len = if self.ethernet { 14 } else { 0 };
        [0, 1].map(|side| {
            let mut run = Run::new();
            while self.sides[side]
                .receiver
                .receive(&mut self.pool, &mut run, 64)
                > 0
            {}
            let packets = run.drain().map(|message| {
                let bytes: Vec<u8> = message.blocks().flatten().copied().collect();
                bytes[header_len..].to_vec()
            });
            packets.collect()
        })
    }

    /// The attacker sends; what comes back to him, and what gets past.
    fn attack(&mut self, packets: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
        for packet in packets {
            match self.ethernet {
                true => self.give(0, &packet::frame(THEIR_MAC, LEFT_MAC.0, 0x0800, packet)),
                false => self.give(0, packet),
            }
        }
        self.turn()
    }

    fn count(&self, counter: &str) -> u64 {
        self.stack.counters().get(counter).copied().unwrap_or(0)
    }

    /// What is honest goes on, a hop later, and the stack answers for itself.
    fn assert_undisturbed(&mut self) {
        let honest = udp((EVIL, 4000), (RIGHT, 7), b"honest");
        let to_us = echo(EVIL, US[1], b"are you there");
        let [back, past] = self.attack(&[honest.clone(), to_us]);
        assert_eq!(past, [with(honest, &[(8, 63)])]);
        assert_eq!((back.len(), back[0][20]), (1, 0), "an echo reply");
    }
}

/// What does not go on, each under its name, and no answer but an error that its sender may hear.
#[test]
fn classes_5_and_12_what_is_not_to_be_forwarded() {
    let to_right = || udp((EVIL, 4000), (RIGHT, 7), b"payload");
    let from = |source| udp((source, 4000), (RIGHT, 7), b"x");
    let to = |destination| udp((EVIL, 4000), (destination, 7), b"x");
    // By way of the stack, and on from it.
    let routed = |kind| ipv4_with_options(EVIL, RIGHT, 17, &[kind, 7, 4, 10, 2, 0, 2], b"x");
    let rows: Vec<(&str, Vec<u8>, &str, usize)> = vec![
        ("TTL 0", with(to_right(), &[(8, 0)]), "ip.ttl_exceeded", 1),
        ("TTL 1", with(to_right(), &[(8, 1)]), "ip.ttl_exceeded", 1),
        ("from us, here", from(US[0]), "ip.source_is_ours", 0),
        ("from us, there", from(US[1]), "ip.source_is_ours", 0),
        ("from nobody", from([0; 4]), "ip.bad_source", 0),
        ("from loopback", from([127, 0, 0, 1]), "ip.bad_source", 0),
        ("from a group", from([224, 0, 0, 1]), "ip.bad_source", 0),
        ("from all", from([255; 4]), "ip.bad_source", 0),
        ("from all there", from([10, 2, 0, 255]), "ip.bad_source", 0),
        (
            "from class E",
            from([240, 0, 0, 1]),
            "ip.forward_martian",
            0,
        ),
        ("to nobody", to([0, 0, 0, 1]), "ip.forward_martian", 0),
        ("to loopback", to([127, 0, 0, 1]), "ip.forward_martian", 0),
        ("to class E", to([240, 0, 0, 1]), "ip.forward_martian", 0),
        (
            "to a group",
            to([224, 0, 0, 9]),
            "ip.multicast_not_joined",
            0,
        ),
        ("to all there", to([10, 2, 0, 255]), "udp.port_closed", 0),
        ("nowhere", to([192, 0, 2, 1]), "ip.forward_no_route", 1),
        (
            "options past the end",
            ipv4_with_options(EVIL, RIGHT, 17, &[131, 40, 4, 0], b"x"),
            "ip.ipv4_option_past_end",
            0,
        ),
        (
            "a loose source route",
            routed(131),
            "ip.ipv4_source_route",
            0,
        ),
        ("a strict one", routed(137), "ip.ipv4_source_route", 0),
    ];
    for ethernet in [false, true] {
        for (what, packet, counter, answers) in &rows {
            let mut between = Between::new(ethernet, 64);
            let [back, past] = between.attack(std::slice::from_ref(packet));
            assert!(past.is_empty(), "{what}: forwarded");
            assert_eq!(back.len(), *answers, "{what}");
            assert_eq!(
                between.count(counter),
                1,
                "{what}: {:?}",
                between.stack.counters()
            );
            between.assert_undisturbed();
        }
    }
}

/// Fragments are nobody's to hold but their receiver's, and what is said of one is said of the first.
#[test]
fn class_23_fragments_that_are_forwarded() {
    for ethernet in [false, true] {
        let mut between = Between::new(ethernet, 4096);
        let used = between.stack.used_bytes();
        let parts: Vec<_> = (0..1000u16)
            .map(|n| {
                let whole = ipv4(EVIL, RIGHT, 17, &n.to_be_bytes().repeat(8));
                fragment(whole, 8 * (n % 100), true)
            })
            .collect();
        let [back, past] = between.attack(&parts);
        let expected = parts.iter().map(|part| with(part.clone(), &[(8, 63)]));
        assert!(back.is_empty() && past == Vec::from_iter(expected));
        assert!(between.stack.used_bytes() <= used + (1 << 20));
        assert_eq!(between.count("fragments.full"), 0);
        let last_hop = |offset| {
            let whole = ipv4(EVIL, RIGHT, 17, &[7; 16]);
            fragment(with(whole, &[(8, 1)]), offset, true)
        };
        let [back, past] = between.attack(&[last_hop(0), last_hop(800)]);
        assert_eq!((back.len(), past.len()), (1, 0));
        between.assert_undisturbed();
    }
}

/// What cannot go on is told of as often as the limit allows, and of what tells of errors nothing is told.
#[test]
fn class_35_storms_about_what_is_forwarded() {
    for ethernet in [false, true] {
        let mut between = Between::new(ethernet, 4096);
        let expired: Vec<_> = (0..2000u16)
            .map(|n| with(udp((EVIL, n), (RIGHT, 7), b"x"), &[(8, 1)]))
            .collect();
        let [back, past] = between.attack(&expired);
        assert!(
            (1..=20).contains(&back.len()) && past.is_empty(),
            "{}",
            back.len()
        );
        assert_eq!(between.count("ip.ttl_exceeded"), 2000);
        let limited = between.count("icmp.unreachable_limited");
        assert_eq!(limited, 2000 - back.len() as u64);
        let quoted = udp((RIGHT, 7), (EVIL, 7), b"x");
        let mut between = Between::new(ethernet, 4096);
        let errors: Vec<_> = [(3, 1), (11, 0), (12, 0)]
            .map(|(kind, code)| {
                let error = icmp_error(EVIL, RIGHT, kind, code, [0; 4], &quoted);
                with(error, &[(8, 1)])
            })
            .into();
        let [back, past] = between.attack(&errors);
        assert_eq!((back.len(), past.len()), (0, 0));
        between.assert_undisturbed();
    }
}

/// A link that takes no more costs what is for it, and neither memory nor another link.
#[test]
fn class_49_a_flood_that_fills_the_way_out() {
    for ethernet in [false, true] {
        let mut between = Between::new(ethernet, 16);
        let used = between.stack.used_bytes();
        let flood: Vec<_> = (0..2000u16)
            .map(|n| udp((EVIL, n), (RIGHT, 7), &[7; 1000]))
            .collect();
        let [back, past] = between.attack(&flood);
        assert_eq!((back.len(), past.len()), (0, 16));
        assert_eq!(between.count("ip.forwarded"), 2000);
        assert!(between.stack.used_bytes() <= used + (1 << 20));
        between.assert_undisturbed();
    }
}
