//! Datagrams in fragments, on a device that carries bare IP packets, in virtual time.

mod limits;

use super::table::DATAGRAM_BYTES;
use super::*;
use crate::testing::{self, FAR, PEER, Stack, US, bytes_of, ip_interface, seal_ipv4};
use braidnet_wire::address::Address;
use braidnet_wire::icmpv4::{self, Icmpv4};
use braidnet_wire::ipv4;
use braidnet_wire::time::Instant;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PORT: u16 = 53;
const UDP: u8 = 17;
/// What the timing wheel's ticks may be late.
const TICK: Duration = Duration::from_millis(50);

/// A part of a packet: of its payload the bytes from `start` to `end`, with more to follow unless that is its end.
fn part(packet: &[u8], start: usize, end: usize) -> Vec<u8> {
    let header_len = usize::from(packet[0] & 15) * 4;
    let payload = &packet[header_len..];
    let more = u16::from(end < payload.len()) << 13;
    fragment(packet, &payload[start..end], more | (start / 8) as u16)
}

/// A fragment with the header of `packet`.
fn fragment(packet: &[u8], payload: &[u8], word: u16) -> Vec<u8> {
    let header_len = usize::from(packet[0] & 15) * 4;
    let mut part = packet[..header_len].to_vec();
    part.extend_from_slice(payload);
    let total_len = part.len() as u16;
    part[2..4].copy_from_slice(&total_len.to_be_bytes());
    part[6..8].copy_from_slice(&word.to_be_bytes());
    seal_ipv4(&mut part);
    part
}

const MORE: u16 = 0x2000;

/// A packet cut at these places.
fn cut(packet: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let header_len = usize::from(packet[0] & 15) * 4;
    let mut places = vec![0];
    places.extend_from_slice(cuts);
    places.push(packet.len() - header_len);
    (places.windows(2))
        .map(|place| part(packet, place[0], place[1]))
        .collect()
}

/// A datagram with this identification and payload.
fn datagram(source: Address, identification: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = testing::udp((source, 4000), (US, PORT), payload);
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    seal_ipv4(&mut packet);
    packet
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

fn stack() -> Stack {
    limited(Reassembly::default())
}

fn limited(limits: Reassembly) -> Stack {
    let stack = Stack::new(ip_interface());
    stack.inet.ports.bind(PORT).unwrap();
    set(&stack, limits);
    stack
}

fn set(stack: &Stack, reassembly: Reassembly) {
    stack.inet.limits.set(InetLimits {
        reassembly,
        ..InetLimits::default()
    });
}

/// What left at the head.
fn came(stack: &mut Stack) -> Vec<Vec<u8>> {
    stack.head().iter().map(bytes_of).collect()
}

fn counted(stack: &mut Stack) -> BTreeMap<String, u64> {
    stack.counted()
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter()
        .map(|(name, count)| (name.to_string(), *count))
        .collect()
}

#[test]
fn fragments_in_any_order_make_one_datagram() {
    let payload = pattern(3000);
    let fragments = cut(&datagram(PEER, 7, &payload), &[1024, 2048]);
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut stack = stack();
        for (count, index) in order.into_iter().enumerate() {
            assert!(came(&mut stack).is_empty(), "{order:?} after {count}");
            assert!(stack.receive(&fragments[index]).is_empty(), "{order:?}");
        }
        assert_eq!(came(&mut stack), [&payload[..]], "{order:?}");
        let counters = [("fragments.reassembled", 1), ("fragments.used", 3)];
        assert_eq!(counted(&mut stack), expected(&counters));
        // Nothing is left to wait for.
        let late = stack.now() + Duration::from_secs(60);
        assert!(stack.turn_at(late).is_empty());
        assert_eq!(counted(&mut stack), expected(&counters));
    }
}

#[test]
fn fragments_of_one_run_and_in_blocks_of_a_few_bytes_are_taken() {
    let payload = pattern(900);
    let fragments = cut(&datagram(PEER, 7, &payload), &[8, 400, 408]);
    let mut stack = stack();
    let run: Vec<&[u8]> = fragments.iter().map(|fragment| &fragment[..]).collect();
    stack.receive_run(&run);
    assert_eq!(came(&mut stack), [&payload[..]]);
    for fragment in &fragments {
        stack.receive_pieces(&fragment.chunks(5).collect::<Vec<_>>());
    }
    assert_eq!(came(&mut stack), [&payload[..]]);
}

/// What differs in one of these is another datagram.
#[test]
fn datagrams_are_told_apart_by_source_destination_protocol_and_identification() {
    let payload = pattern(100);
    let mine = cut(&datagram(PEER, 7, &payload), &[64]);
    let others = [
        cut(&datagram(FAR, 7, &payload), &[64]),
        cut(&datagram(PEER, 8, &payload), &[64]),
        {
            let mut packet = datagram(PEER, 7, &payload);
            packet[9] = 200;
            cut(&packet, &[64])
        },
        {
            let mut packet = datagram(PEER, 7, &payload);
            packet[16..20].fill(255);
            cut(&packet, &[64])
        },
    ];
    for other in others {
        let mut stack = stack();
        stack.receive(&mine[0]);
        stack.receive(&other[1]);
        assert!(came(&mut stack).is_empty());
        assert_eq!(counted(&mut stack), expected(&[]));
        stack.receive(&mine[1]);
        assert_eq!(came(&mut stack), [&payload[..]]);
    }
}

/// With what a datagram came in fragments, UDP and ICMP fare as with any other.
#[test]
fn a_whole_datagram_goes_the_way_of_any_other() {
    let echo: Vec<u8> = [&[8, 0, 0, 0, 0, 1, 0, 2][..], &pattern(600)].concat();
    let echo = testing::icmp(PEER, US, &echo);
    let closed = {
        let packet = testing::udp((PEER, 4000), (US, PORT + 1), &pattern(600));
        cut(&packet, &[256])
    };
    let unknown = cut(&testing::ipv4(PEER, US, 200, &pattern(600)), &[256]);
    let rows = [
        ("echo", cut(&echo, &[8, 256]), "icmp.echo_answered"),
        ("closed port", closed.clone(), "udp.port_closed"),
        ("unknown protocol", unknown, "ip.unknown_protocol"),
    ];
    for (what, fragments, counter) in rows {
        let mut stack = stack();
        let mut sent = Vec::new();
        for fragment in &fragments {
            sent.extend(stack.receive(fragment));
        }
        let [answer] = &sent[..] else {
            panic!("{what}: {:?}", counted(&mut stack));
        };
        assert_eq!(counted(&mut stack)[counter], 1, "{what}");
        let header = ipv4::parse(answer).unwrap();
        let message = icmpv4::parse(&answer[header.payload_range()]).unwrap();
        match message {
            Icmpv4::EchoReply(reply) => assert_eq!(reply.data, pattern(600), "{what}"),
            // What is quoted is the first fragment, as it came.
            Icmpv4::Unreachable { quoted, .. } => {
                assert_eq!(quoted.packet[..20], fragments[0][..20], "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_segment_goes_up_to_tcp() {
    let mut stack = stack();
    let segment = testing::ipv4(PEER, US, 6, &pattern(200));
    for fragment in cut(&segment, &[64]) {
        assert!(stack.receive(&fragment).is_empty());
    }
    let [message] = &stack.head()[..] else {
        panic!("{:?}", counted(&mut stack));
    };
    assert_eq!(bytes_of(message), pattern(200));
    assert_eq!(message.kind(), Kind::Data);
    let datagram = message.note::<Datagram>();
    assert_eq!((datagram.remote, datagram.flags), (PEER, 0));
}

/// Classes 3, 21, 22 and 24.
#[test]
fn what_makes_no_datagram_is_dropped_by_name() {
    let packet = datagram(PEER, 7, &pattern(88));
    let other = datagram(PEER, 7, &[0xee; 88]);
    let with_options = |options: &[u8]| {
        let mut packet = packet.clone();
        packet[0] = 0x45 + (options.len() / 4) as u8;
        packet.splice(20..20, options.iter().copied());
        packet
    };
    let part = |start, end| part(&packet, start, end);
    let alert = with_options(&[148, 4, 0, 0]);
    let tcp = testing::ipv4(PEER, US, 6, &pattern(60));
    let longest = {
        let mut packet = testing::ipv4(PEER, US, 200, &pattern(65512));
        packet.splice(20..20, [1; 40]);
        packet[0] = 0x4f;
        packet
    };
    type Row<'a> = (&'a str, Vec<Vec<u8>>, &'a [(&'a str, u64)]);
    let rows: Vec<Row> = vec![
        (
            "21: TCP in 8 bytes",
            vec![
                super::tests::part(&tcp, 0, 8),
                super::tests::part(&tcp, 8, 60),
            ],
            &[("fragments.first_too_small", 1), ("fragments.timed_out", 1)],
        ),
        (
            "nothing, and more of it",
            vec![fragment(&packet, &[], MORE)],
            &[("fragments.empty", 1)],
        ),
        (
            "nothing at the end",
            vec![part(0, 48), fragment(&packet, &[], 6)],
            &[("fragments.empty", 1), ("fragments.timed_out", 1)],
        ),
        (
            "22: inside another, and different (teardrop)",
            vec![part(0, 48), super::tests::part(&other, 8, 16), part(48, 96)],
            &[("fragments.overlap", 2), ("fragments.poisoned", 1)],
        ),
        (
            "22: across the end of another, and no different",
            vec![part(0, 48), part(40, 96), part(48, 96)],
            &[("fragments.overlap", 2), ("fragments.poisoned", 1)],
        ),
        (
            "22: over all that is held",
            vec![part(8, 16), part(32, 48), part(0, 88), part(88, 96)],
            &[("fragments.overlap", 3), ("fragments.poisoned", 1)],
        ),
        (
            "22: two ends",
            vec![part(48, 96), fragment(&packet, &[0; 8], 12), part(0, 48)],
            &[("fragments.ends_differ", 2), ("fragments.poisoned", 1)],
        ),
        (
            "22: an end before what is held",
            vec![part(48, 56), fragment(&packet, &[0; 8], 1), part(0, 48)],
            &[("fragments.ends_differ", 2), ("fragments.poisoned", 1)],
        ),
        (
            "22: more behind the end",
            vec![part(48, 96), fragment(&packet, &[0; 8], MORE | 12)],
            &[("fragments.ends_differ", 2)],
        ),
        (
            "24: an option in one, and not in the other",
            vec![super::tests::part(&alert, 0, 48), part(48, 96)],
            &[("fragments.options_differ", 2)],
        ),
        (
            "24: different options",
            vec![
                super::tests::part(&alert, 0, 48),
                super::tests::part(&with_options(&[136, 4, 0, 0]), 48, 96),
            ],
            &[("fragments.options_differ", 2)],
        ),
        (
            "3: the header makes it too long",
            cut(&longest, &[32768])
                .into_iter()
                .enumerate()
                .map(|(index, part)| match index {
                    0 => part,
                    _ => fragment(&packet_of(200), &part[60..], 32768 / 8),
                })
                .collect(),
            &[("fragments.too_long", 2)],
        ),
        (
            "16: too many pieces",
            (0..=Reassembly::default().pieces)
                .map(|index| fragment(&packet, &[0; 8], MORE | (2 * index + 1) as u16))
                .collect(),
            &[("fragments.too_many_pieces", 257)],
        ),
    ];
    for (what, fragments, counters) in rows {
        let mut stack = stack();
        for fragment in &fragments {
            assert!(stack.receive(fragment).is_empty(), "{what} is answered");
        }
        let late = stack.now() + Duration::from_secs(30) + TICK;
        let sent = stack.turn_at(late);
        assert!(came(&mut stack).is_empty(), "{what} gets through");
        let mut counted = counted(&mut stack);
        assert_eq!(
            counted.remove("icmp.time_exceeded_sent").unwrap_or(0),
            sent.len() as u64
        );
        assert_eq!(counted, expected(counters), "{what}");
    }
}

/// A packet of another protocol with the identification that [`testing::ipv4`] gives.
fn packet_of(protocol: u8) -> Vec<u8> {
    testing::ipv4(PEER, US, protocol, &[])
}

/// Options that a router need not copy are the first fragment's alone, and make no difference (RFC 791 §3.1).
#[test]
fn options_that_are_not_copied_may_differ() {
    let packet = datagram(PEER, 7, &pattern(88));
    let mut first = packet.clone();
    first.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    first[0] = 0x47;
    let mut stack = stack();
    stack.receive(&part(&packet, 48, 96));
    stack.receive(&part(&first, 0, 48));
    assert_eq!(came(&mut stack), [pattern(88)]);
}

#[test]
fn what_came_before_is_dropped_alone() {
    let packet = datagram(PEER, 7, &pattern(88));
    let mut stack = stack();
    for (start, end) in [(0, 48), (0, 48), (8, 16), (64, 96), (64, 96), (48, 64)] {
        stack.receive(&part(&packet, start, end));
    }
    assert_eq!(came(&mut stack), [pattern(88)]);
    assert_eq!(stack.count("fragments", "duplicate"), 3);
}

#[test]
fn a_datagram_may_come_in_fewer_pieces_or_more() {
    let mut stack = stack();
    let at_most = |stack: &Stack, pieces| {
        let limits = Reassembly {
            pieces,
            ..Reassembly::default()
        };
        limits.check().unwrap();
        set(stack, limits);
    };
    // Each second fragment, the last one first, so that none finds room behind another.
    let packet = datagram(PEER, 1, &pattern(8000));
    let gaps = |stack: &mut Stack, identification: u16, count: usize| {
        let mut packet = packet.clone();
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        seal_ipv4(&mut packet);
        for index in (0..count).rev() {
            stack.receive(&part(&packet, index * 16 + 8, index * 16 + 16));
        }
    };
    let refused = |stack: &Stack| stack.count("fragments", "too_many_pieces");
    gaps(&mut stack, 1, 20);
    // What is there stays until more comes of it.
    at_most(&stack, 10);
    assert_eq!(refused(&stack), 0);
    stack.receive(&part(&packet, 4000, 4008));
    assert_eq!(refused(&stack), 21);
    gaps(&mut stack, 2, 11);
    assert_eq!(refused(&stack), 21 + 11);
    at_most(&stack, 400);
    gaps(&mut stack, 3, 400);
    assert_eq!(refused(&stack), 21 + 11);
    gaps(&mut stack, 4, 401);
    assert_eq!(refused(&stack), 21 + 11 + 401);
    for pieces in [0, 8193] {
        let limits = Reassembly {
            pieces,
            ..Reassembly::default()
        };
        assert_eq!(
            limits.check().map_err(|error| error.asked),
            Err(pieces as u64)
        );
    }
}

/// Class 25: a fragment that somebody else looks at too is not written.
#[test]
fn shared_fragments_stay_as_they_are() {
    let payload = pattern(1200);
    let fragments = cut(&datagram(PEER, 7, &payload), &[600]);
    let mut stack = stack();
    let mut kept = Vec::new();
    for fragment in &fragments {
        let message = stack.message(&[fragment]);
        kept.push(message.share(stack.pool()).unwrap());
        stack.receive_message(message);
    }
    assert_eq!(came(&mut stack), [payload]);
    let kept: Vec<&[u8]> = kept.iter().map(|message| message.bytes()).collect();
    assert_eq!(kept, fragments);
}

/// Puts a fragment into the table, and takes what becomes whole.
fn take(table: &mut Table, message: Message, now: Instant) -> Vec<Vec<u8>> {
    let mut whole = Vec::new();
    table.take(message, now, &mut |effect| {
        if let Effect::Whole(message, _) = effect {
            whole.push(bytes_of(&message));
        }
    });
    whole
}

fn noted(pool: &mut Pool, (start, payload): (usize, &[u8]), more: bool) -> Message {
    let mut message = pool.copy_from_slice(HEADROOM, payload).unwrap();
    message.set_note(Fragment {
        datagram: Datagram {
            local: US,
            remote: PEER,
            protocol: UDP,
            ..Datagram::default()
        },
        identification: 1,
        offset: start as u16,
        more: u8::from(more),
        copied_len: 0,
        copied: [0; 40],
        reserved: [0; 2],
    });
    message
}

/// A datagram's bytes, and where it is cut.
fn cuts(len: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::btree_set(1..len / 8, 1..12)
        .prop_map(|places| places.into_iter().map(|place| place * 8).collect())
}

proptest! {
    /// Whatever the order and however often each comes, a datagram goes up once each time that all its fragments have come.
    #[test]
    fn any_order_and_repetition_yields_the_datagram(
        len in 200usize..2000,
        (cuts, order) in cuts(200).prop_flat_map(|cuts| {
            let count = cuts.len() + 1;
            (Just(cuts), proptest::collection::vec(0..count, 0..40))
        }),
        rest in any::<u64>(),
    ) {
        let payload = pattern(len);
        let fragments = cut(&datagram(PEER, 7, &payload), &cuts);
        let mut stack = stack();
        let mut order = order;
        let count = fragments.len();
        order.extend((0..count).map(|index| (index + rest as usize % count) % count));
        let mut missing: Vec<usize> = (0..count).collect();
        for index in order {
            stack.receive(&fragments[index]);
            missing.retain(|other| *other != index);
            let came = came(&mut stack);
            if missing.is_empty() {
                prop_assert_eq!(came, [&payload[..]]);
                missing = (0..count).collect();
            } else {
                prop_assert!(came.is_empty());
            }
        }
    }

    /// What goes up says the same as each fragment that came since the last, or it does not go up: no overlap makes one of two.
    #[test]
    fn no_overlap_makes_one_of_two(
        parts in proptest::collection::vec(
            (0usize..12, 1usize..6, any::<bool>(), 0u8..8), 1..60,
        ),
    ) {
        let mut pool = Pool::new(&braidnet_message::Arena::new(16 << 20));
        let mut table = Table::new(Arc::new(Live::new(InetLimits::default())));
        let mut came: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut time = Instant::ZERO;
        for (start, len, is_last, what) in parts {
            // Mostly of one datagram, sometimes of another that says it is the same.
            let payload = vec![u8::from(what == 0); len * 8];
            let (start, end) = (start * 8, (start + len) * 8);
            let more = !(is_last && end >= 64);
            let message = noted(&mut pool, (start, &payload), more);
            came.push((start, payload));
            for whole in take(&mut table, message, time) {
                for (start, payload) in came.drain(..) {
                    prop_assert_eq!(&whole[start..start + payload.len()], payload);
                }
            }
            if what == 1 {
                time += Duration::from_secs(31);
                table.expire(time, &mut |_| {});
                came.clear();
                prop_assert_eq!((table.held_bytes(), table.len()), (0, 0));
            }
        }
    }
}

/// RFC 3168 §5.3: a mark on one fragment is a mark on the datagram, unless another says that nobody there understands it.
#[test]
fn marks_of_fragments_are_marks_of_the_datagram() {
    let [none, one, zero, ce] = [0, 1, 2, 3];
    let rows = [
        ([none, none], Some(none)),
        ([zero, zero], Some(zero)),
        ([one, one], Some(one)),
        ([ce, ce], Some(ce)),
        ([ce, zero], Some(ce)),
        ([one, ce], Some(ce)),
        ([zero, one], Some(zero)),
        ([none, zero], Some(none)),
        ([ce, none], None),
        ([none, ce], None),
    ];
    let segment = testing::ipv4(PEER, US, 6, &pattern(200));
    for (fields, expected) in rows {
        let mut stack = stack();
        for (mut part, field) in cut(&segment, &[64]).into_iter().zip(fields) {
            part[1] = field;
            seal_ipv4(&mut part);
            assert!(stack.receive(&part).is_empty());
        }
        let head = stack.head();
        let came = head
            .first()
            .map(|message| message.note::<Datagram>().flags >> 6);
        assert_eq!(came, expected, "{fields:?}");
        assert_eq!(
            stack.count("fragments", "ecn_differs"),
            2 * u64::from(expected.is_none())
        );
    }
}
