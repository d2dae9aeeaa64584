//! Datagrams: to and fro, bounds, ports, checksums.

use crate::pair::{BOTH_MEDIA, CLIENT, PORT, Pair, SERVER, server, text};
use braidnet::device::{Capabilities, Device, QueuePair, RECEIVE_HEADROOM, memory};
use braidnet::message::{Arena, Message, Pool, Run};
use braidnet::wire::{ipv4, udp};
use braidnet::{
    BindError, Duration, Instant, ReceiveFromError, Received, SendToError, Stack, StackConfig,
};
use std::net::SocketAddr;

const ASKER: u16 = 40_000;

/// A pair whose client has bound [`ASKER`] and whose server has bound [`PORT`].
fn bound(capabilities: Capabilities, change: impl Fn(&mut StackConfig)) -> Pair {
    let mut pair = Pair::with(capabilities, change, Default::default());
    pair.client.bind(ASKER).unwrap();
    pair.server.bind(PORT).unwrap();
    pair
}

fn count(stack: &Stack, name: &str) -> u64 {
    stack.counters().get(name).copied().unwrap_or(0)
}

/// The next datagram, whole, and its sender.
fn next(stack: &mut Stack, port: u16) -> Option<(SocketAddr, Vec<u8>)> {
    let mut bytes = vec![0; 1 << 16];
    match stack.receive_from(port, &mut bytes) {
        Ok(received) => {
            assert!(!received.is_truncated());
            bytes.truncate(received.len);
            Some((received.from, bytes))
        }
        Err(error) => {
            assert_eq!(error, ReceiveFromError::Empty);
            None
        }
    }
}

#[test]
fn datagrams_go_there_and_back() {
    let asker = SocketAddr::from((CLIENT, ASKER));
    for medium in BOTH_MEDIA {
        let mut pair = bound(medium, |_| {});
        for len in [0, 1, 2, 511, 1471, 1472, 1473, 5000, 20_000, 65_507] {
            let sent = text(len);
            // Before the first turn too.
            assert_eq!(pair.client.send_to(ASKER, server(PORT), &sent), Ok(()));
            pair.pass(Duration::from_millis(1));
            let (from, heard) = next(&mut pair.server, PORT).expect("a question");
            assert_eq!((from, &heard), (asker, &sent), "{len} bytes");
            assert_eq!(pair.server.send_to(PORT, from, &heard), Ok(()));
            pair.pass(Duration::from_millis(1));
            let answer = next(&mut pair.client, ASKER).expect("an answer");
            assert_eq!(answer, (server(PORT), sent), "{len} bytes");
            assert_eq!(next(&mut pair.client, ASKER), None);
        }
        // In order, and beside a connection to the port of the same number.
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, b"a stream"), Ok(8));
        for i in 0..10 {
            let sent = pair.client.send_to(ASKER, server(PORT), &[i; 3]);
            assert_eq!(sent, Ok(()));
        }
        pair.settle();
        for i in 0..10 {
            let heard = next(&mut pair.server, PORT);
            assert_eq!(heard, Some((asker, vec![i; 3])));
        }
        assert_eq!(crate::pair::read(&mut pair.server, answer), b"a stream");
    }
}

#[test]
fn several_datagrams_go_at_once() {
    for medium in BOTH_MEDIA {
        let mut pair = bound(medium, |_| {});
        // One and none are sent as they would be alone; what is longer than the MTU leaves in fragments.
        for (len, each) in [
            (0, 9),
            (9, 9),
            (9, 70_000),
            (10, 9),
            (64, 1),
            (65_507, 1472),
            (8000, 2000),
        ] {
            let sent = text(len);
            let told = pair
                .client
                .send_segments_to(ASKER, server(PORT), &sent, each);
            assert_eq!(told, Ok(()), "{len} bytes by {each}");
            pair.pass(Duration::from_millis(1));
            let mut expected: Vec<&[u8]> = sent.chunks(each).collect();
            if expected.is_empty() {
                expected.push(&[]);
            }
            for expected in expected {
                let (from, heard) = next(&mut pair.server, PORT).expect("each");
                assert_eq!(from, SocketAddr::from((CLIENT, ASKER)));
                assert!(heard == expected, "{len} bytes by {each}");
            }
            assert_eq!(next(&mut pair.server, PORT), None, "{len} bytes by {each}");
        }
    }
}

#[test]
fn too_many_datagrams_at_once_are_refused_whole() {
    let mut pair = bound(BOTH_MEDIA[0], |_| {});
    let max = Stack::SEGMENTS_MAX;
    let rows = [
        (1, 0, SendToError::SegmentEmpty),
        (
            max + 1,
            1,
            SendToError::TooManySegments {
                count: max + 1,
                max,
            },
        ),
        (
            65_508,
            1472,
            SendToError::TooLong {
                len: 65_508,
                max: 65_507,
            },
        ),
    ];
    for (len, each, refused) in rows {
        let bytes = text(len);
        let told = pair
            .client
            .send_segments_to(ASKER, server(PORT), &bytes, each);
        assert_eq!(told, Err(refused));
    }
    let told = pair.client.send_segments_to(9, server(PORT), b"x", 1);
    assert_eq!(told, Err(SendToError::Unbound(9)));
    pair.settle();
    assert_eq!(next(&mut pair.server, PORT), None);
}

#[test]
fn the_longest_datagram_of_the_largest_mtu() {
    // One finds room even where it is more than a port's part of the memory.
    for memory_bytes in [1 << 20, 16 << 20] {
        let mut pair = bound(Capabilities::ip(65_535), |config| {
            config.memory_bytes = memory_bytes;
        });
        let sent = text(65_507);
        for _ in 0..2 {
            assert_eq!(pair.client.send_to(ASKER, server(PORT), &sent), Ok(()));
            pair.pass(Duration::from_secs(1));
            let heard = next(&mut pair.server, PORT).map(|(_, bytes)| bytes);
            assert!(heard == Some(sent.clone()), "{memory_bytes}");
        }
    }
}

#[test]
fn what_is_cut_off_is_told() {
    let mut pair = bound(BOTH_MEDIA[0], |_| {});
    for room in [0, 1, 9, 10, 11] {
        assert_eq!(pair.client.send_to(ASKER, server(PORT), &text(10)), Ok(()));
        pair.settle();
        let mut heard = vec![0xee; room];
        let received = pair.server.receive_from(PORT, &mut heard).unwrap();
        let expected = Received {
            from: (CLIENT, ASKER).into(),
            copied: room.min(10),
            len: 10,
        };
        assert_eq!(received, expected);
        assert_eq!(received.is_truncated(), room < 10, "{room}");
        assert_eq!(heard[..received.copied], text(10)[..received.copied]);
        // The rest of it is no datagram.
        assert_eq!(next(&mut pair.server, PORT), None, "{room}");
    }
}

#[test]
fn who_does_not_read_loses_what_is_beyond_the_bound() {
    let mut pair = bound(BOTH_MEDIA[0], |config| config.memory_bytes = 4 << 20);
    pair.server.bind(PORT + 1).unwrap();
    let flood = |pair: &mut Pair, port: u16| {
        for i in 0..400u32 {
            let sent = pair.client.send_to(ASKER, server(port), &i.to_le_bytes());
            assert_eq!(sent, Ok(()));
            if i % 16 == 15 {
                pair.settle();
            }
        }
    };
    flood(&mut pair, PORT);
    let dropped = count(&pair.server, "udp.receive_queue_full");
    let waiting = 400 - dropped;
    // A 64th of the memory is 64 KiB, and the smallest datagram counts as 256 bytes and its buffer.
    assert!((64..=256).contains(&waiting), "{waiting}");
    // Another port has room of its own.
    flood(&mut pair, PORT + 1);
    assert_eq!(count(&pair.server, "udp.receive_queue_full"), 2 * dropped);
    // The oldest are kept.
    for port in [PORT, PORT + 1] {
        for i in 0..waiting as u32 {
            let heard = next(&mut pair.server, port).map(|(_, bytes)| bytes);
            assert_eq!(heard, Some(i.to_le_bytes().to_vec()));
        }
        assert_eq!(next(&mut pair.server, port), None);
    }
    // And there is room again, for as many.
    flood(&mut pair, PORT);
    assert_eq!(count(&pair.server, "udp.receive_queue_full"), 3 * dropped);
}

#[test]
fn all_ports_together_leave_memory_to_others() {
    let mut pair = bound(BOTH_MEDIA[0], |config| config.memory_bytes = 4 << 20);
    let ports: Vec<u16> = (1000..1100).collect();
    for port in &ports {
        pair.server.bind(*port).unwrap();
        for _ in 0..40 {
            let sent = pair.client.send_to(ASKER, server(*port), &text(1400));
            assert_eq!(sent, Ok(()));
        }
        pair.settle();
    }
    let used = pair.server.used_bytes();
    assert!(used <= 3 << 20, "{used} bytes in use");
    assert_eq!(count(&pair.server, "udp.memory_short"), 0);
    let (call, answer) = pair.connected();
    let sent = text(100_000);
    assert_eq!(pair.client.send(call, &sent), Ok(sent.len()));
    pair.pass(Duration::from_secs(1));
    assert!(crate::pair::read(&mut pair.server, answer) == sent);
    // What is released makes room, and is not forgotten.
    let waiting = 4000 - count(&pair.server, "udp.receive_queue_full");
    assert!(ports.iter().all(|port| pair.server.release(*port)));
    assert_eq!(count(&pair.server, "udp.released_unread"), waiting);
    assert_eq!(
        pair.client.send_to(ASKER, server(PORT), &text(1400)),
        Ok(())
    );
    pair.settle();
    assert!(next(&mut pair.server, PORT).is_some());
}

#[test]
fn what_cannot_be_sent_is_refused_in_words() {
    let mut pair = bound(BOTH_MEDIA[0], |_| {});
    let v6 = "[2001:db8::1]:7".parse().unwrap();
    let rows: [(u16, SocketAddr, usize, &str); 5] = [
        (ASKER + 1, server(PORT), 1, "UDP port 40001 is not bound"),
        (0, server(PORT), 1, "UDP port 0 is not bound"),
        (
            ASKER,
            v6,
            1,
            "the peer's address is an IPv6 one, and this stack speaks IPv4 only",
        ),
        (ASKER, server(0), 1, "nothing can be sent to port 0"),
        (
            ASKER,
            server(PORT),
            65_508,
            "a datagram of 65508 bytes is too long: there is room for 65507 in one",
        ),
    ];
    for (port, to, len, sentence) in rows {
        let refused = pair.client.send_to(port, to, &text(len)).unwrap_err();
        assert_eq!(refused.to_string(), sentence);
    }
    pair.settle();
    assert_eq!(pair.client.counters(), Default::default());
}

#[test]
fn what_memory_has_no_room_for_is_refused() {
    let mut pair = bound(BOTH_MEDIA[0], |config| config.memory_bytes = 1 << 20);
    let mut sent = 0;
    let refused = loop {
        match pair.client.send_to(ASKER, server(PORT), &text(1472)) {
            Ok(()) => sent += 1,
            Err(refused) => break refused,
        }
        assert!(sent < 1000, "no bound");
    };
    assert_eq!(refused, SendToError::NoMemory);
    pair.pass(Duration::from_secs(1));
    let heard = std::iter::from_fn(|| next(&mut pair.server, PORT)).count() as u64;
    let dropped = count(&pair.server, "udp.receive_queue_full");
    assert_eq!(heard + dropped, sent, "{:?}", pair.server.counters());
    // It comes back.
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.client.send_to(ASKER, server(PORT), b"x"), Ok(()));
    pair.settle();
    assert!(next(&mut pair.server, PORT).is_some());
}

#[test]
fn ports_are_bound_once_and_again_after_release() {
    let mut pair = bound(BOTH_MEDIA[0], |_| {});
    let stack = &mut pair.server;
    let refused = |stack: &mut Stack, port| stack.bind(port).unwrap_err().to_string();
    assert_eq!(refused(stack, 0), "0 is not a port that can be bound");
    assert_eq!(refused(stack, PORT), "UDP port 7 is in use");
    for port in 1000..2023 {
        assert_eq!(stack.bind(port), Ok(()), "{port}");
    }
    assert_eq!(stack.bind(1000), Err(BindError::PortInUse(1000)));
    assert_eq!(
        refused(stack, 3000),
        "at most 1024 UDP ports may be bound at a time"
    );
    assert!(stack.release(1000));
    assert_eq!(stack.bind(3000), Ok(()));
    assert!(!stack.release(1000) && !stack.release(0));

    // Whoever binds it next hears nothing that was for the one before.
    assert_eq!(pair.client.send_to(ASKER, server(PORT), b"old"), Ok(()));
    pair.settle();
    assert!(pair.server.release(PORT));
    assert_eq!(count(&pair.server, "udp.released_unread"), 1);
    let unbound = pair.server.receive_from(PORT, &mut []);
    assert_eq!(unbound, Err(ReceiveFromError::Unbound(PORT)));
    assert_eq!(pair.server.bind(PORT), Ok(()));
    assert_eq!(next(&mut pair.server, PORT), None);
    assert_eq!(pair.client.send_to(ASKER, server(PORT), b"new"), Ok(()));
    pair.settle();
    let heard = next(&mut pair.server, PORT).map(|(_, bytes)| bytes);
    assert_eq!(heard.as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_closed_port_is_unreachable() {
    for medium in BOTH_MEDIA {
        let mut pair = bound(medium, |_| {});
        let tell = |pair: &mut Pair, port| {
            assert_eq!(pair.client.send_to(ASKER, server(port), b"x"), Ok(()));
            pair.pass(Duration::from_secs(1));
            let closed = count(&pair.server, "udp.port_closed");
            assert_eq!(count(&pair.server, "icmp.unreachable_sent"), closed);
            assert_eq!(count(&pair.client, "icmp.unreachable_received"), closed);
            closed
        };
        assert_eq!(tell(&mut pair, PORT), 0);
        // That TCP listens on a port opens it to nobody else.
        pair.server.listen(PORT + 1, 1).unwrap();
        assert_eq!(tell(&mut pair, PORT + 1), 1);
        assert!(pair.server.release(PORT));
        assert_eq!(tell(&mut pair, PORT), 2);
    }
}

/// Packets that a wire holds.
const DEPTH: usize = 16;

/// A stack that has bound [`PORT`], and the other end of its wire.
struct Wired {
    stack: Stack,
    far: QueuePair,
    pool: Pool,
}

impl Wired {
    fn new() -> Wired {
        let (here, there) = memory::wire(Capabilities::ip(1500), DEPTH);
        let config = StackConfig {
            memory_bytes: 1 << 20,
            ..StackConfig::new(SERVER.into())
        };
        let mut stack = Stack::new(&config, here).unwrap();
        stack.bind(PORT).unwrap();
        Wired {
            stack,
            far: Box::new(there).open().unwrap().pop().unwrap(),
            pool: Pool::new(&Arena::new(1 << 20)),
        }
    }

    /// What the stack has sent, as far as the wire holds it.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut run = Run::new();
        self.far.receiver.receive(&mut self.pool, &mut run, DEPTH);
        let bytes_of = |packet: Message| packet.blocks().flatten().copied().collect();
        run.drain().map(bytes_of).collect()
    }

    /// What the stack sends when it is turned: one packet.
    fn sends(&mut self) -> Vec<u8> {
        self.stack.turn(Instant::ZERO);
        let [packet] = <[_; 1]>::try_from(self.sent()).unwrap();
        packet
    }

    fn give(&mut self, packet: &[u8]) {
        let message = self.pool.copy_from_slice(RECEIVE_HEADROOM, packet);
        let mut run = Run::new();
        run.push(message.unwrap());
        self.far.transmitter.transmit(&mut run);
        self.stack.turn(Instant::ZERO);
    }
}

const CHECKSUM: std::ops::Range<usize> = 26..28;

#[test]
fn a_checksum_of_zero_means_none_and_is_never_sent() {
    let mut wired = Wired::new();
    let peer = SocketAddr::from((CLIENT, ASKER));
    wired.stack.send_to(PORT, peer, &[0, 0]).unwrap();
    let packet = wired.sends();
    // To what its complement would be zero: with this in the data, the sum comes to all ones.
    let checksum = [packet[26], packet[27]];
    assert_ne!(checksum, [0, 0]);
    wired.stack.send_to(PORT, peer, &checksum).unwrap();
    let packet = wired.sends();
    assert_eq!(packet[CHECKSUM], [0xff, 0xff], "RFC 768");
    let header = ipv4::parse(&packet).unwrap();
    let datagram = &packet[header.payload_range()];
    let verified = udp::verify(&header.source, &header.destination, datagram);
    assert_eq!(verified, Ok(()));

    // The same turned round, to the stack: with the checksum, with a wrong one, without one.
    let mut question = turned_round(packet);
    for (field, data, heard) in [
        ([0xff, 0xff], checksum, true),
        ([0xff, 0xff], *b"xy", false),
        ([0, 0], *b"xy", true),
    ] {
        question[CHECKSUM].copy_from_slice(&field);
        question[28..30].copy_from_slice(&data);
        wired.give(&question);
        let expected = heard.then(|| (peer, data.to_vec()));
        assert_eq!(next(&mut wired.stack, PORT), expected, "{field:x?}");
    }
    assert_eq!(count(&wired.stack, "udp.udp_checksum_wrong"), 1);
}

/// A packet from the stack as one to it: the sums stay what they were.
fn turned_round(mut packet: Vec<u8>) -> Vec<u8> {
    packet[12..20].rotate_left(4);
    packet[20..24].rotate_left(2);
    packet
}

#[test]
fn while_memory_is_short_datagrams_get_none() {
    let mut wired = Wired::new();
    let peer = SocketAddr::from((CLIENT, ASKER));
    wired.stack.send_to(PORT, peer, b"x").unwrap();
    let question = turned_round(wired.sends());
    wired.give(&question);
    assert_eq!(next(&mut wired.stack, PORT), Some((peer, b"x".to_vec())));

    for dropped in 1..4 {
        // The wire takes a few, and the others hold all there is.
        let refused = std::iter::repeat_with(|| wired.stack.send_to(PORT, peer, &text(1472)))
            .take(1000)
            .find_map(Result::err);
        assert_eq!(refused, Some(SendToError::NoMemory));
        wired.give(&question);
        assert_eq!(next(&mut wired.stack, PORT), None);
        assert_eq!(count(&wired.stack, "udp.memory_short"), dropped);
    }

    for _ in 0..100 {
        wired.sent();
        wired.stack.turn(Instant::ZERO);
    }
    wired.give(&question);
    assert_eq!(next(&mut wired.stack, PORT), Some((peer, b"x".to_vec())));
    assert_eq!(wired.stack.send_to(PORT, peer, b"x"), Ok(()));
    assert_eq!(count(&wired.stack, "udp.memory_short"), 3);
}
