//! Time and memory: what is given up, whose, and what is said of it.

use super::*;

/// Class 23: what never becomes whole is forgotten, and its sender told where RFC 792 says so.
#[test]
fn what_is_missing_for_too_long_is_reported_to_who_sent_the_first_fragment() {
    let packet = datagram(PEER, 7, &pattern(88));
    let mut to_all = packet.clone();
    to_all[16..20].fill(255);
    let rows = [
        ("the first", part(&packet, 0, 48), true),
        ("another", part(&packet, 48, 96), false),
        ("the first, to all", part(&to_all, 0, 48), false),
    ];
    for (what, fragment, is_told) in rows {
        let mut stack = stack();
        assert!(stack.turn_at(Instant::from_millis(5000)).is_empty());
        stack.receive(&fragment);
        let almost = stack.turn_at(Instant::from_millis(34_900));
        assert!(almost.is_empty(), "{what}");
        let sent = stack.turn_at(Instant::from_millis(35_000) + TICK);
        assert_eq!(sent.len(), usize::from(is_told), "{what}");
        assert_eq!(stack.count("fragments", "timed_out"), 1, "{what}");
        if let [report] = &sent[..] {
            let header = ipv4::parse(report).unwrap();
            assert_eq!((header.source, header.destination), (US, PEER));
            let Ok(Icmpv4::TimeExceeded { code: 1, quoted }) =
                icmpv4::parse(&report[header.payload_range()])
            else {
                panic!("{report:x?}");
            };
            assert_eq!(quoted.packet, fragment);
        }
        // It is forgotten: the rest alone makes nothing.
        stack.receive(&part(&packet, 48, 96));
        stack.receive(&part(&packet, 0, 48));
        assert_eq!(came(&mut stack).len(), 1, "{what}");
    }
}

/// The deadline is that of the first fragment that came: nobody can put it off.
#[test]
fn later_fragments_do_not_put_the_end_off() {
    let packet = datagram(PEER, 7, &pattern(800));
    let mut stack = stack();
    for index in 1..30 {
        stack.turn_at(Instant::from_millis(index * 1000));
        let start = index as usize * 16;
        stack.receive(&part(&packet, start, start + 8));
    }
    stack.turn_at(Instant::from_millis(31_000) + TICK);
    assert_eq!(stack.count("fragments", "timed_out"), 29);
    assert_eq!(stack.deadline(), None);
}

/// A datagram that was dropped stays so until its time is over, and then a new one may have its name.
#[test]
fn the_poison_passes() {
    let packet = datagram(PEER, 7, &pattern(88));
    let mut stack = stack();
    stack.receive(&part(&packet, 0, 48));
    stack.receive(&part(&packet, 40, 96));
    for (start, end) in [(0, 48), (48, 96)] {
        stack.receive(&part(&packet, start, end));
    }
    assert_eq!(stack.count("fragments", "poisoned"), 2);
    assert!(came(&mut stack).is_empty());
    let late = stack.now() + Duration::from_secs(30) + TICK;
    assert!(stack.turn_at(late).is_empty());
    for (start, end) in [(0, 48), (48, 96)] {
        stack.receive(&part(&packet, start, end));
    }
    assert_eq!(came(&mut stack), [pattern(88)]);
}

/// Class 23: one source that never ends its datagrams takes nothing from others.
#[test]
fn a_source_that_holds_too_much_loses_its_own() {
    let mut stack = limited(Reassembly {
        bytes: 1 << 20,
        source_part: 4,
        ..Reassembly::default()
    });
    let honest = datagram(PEER, 7, &pattern(2000));
    stack.receive(&part(&honest, 0, 1000));
    for identification in 0..5000 {
        let packet = datagram(FAR, identification, &pattern(2000));
        stack.receive(&part(&packet, 1000, 2008));
    }
    let dropped = stack.count("fragments", "source_full");
    let held = 5000 - dropped;
    let each = (DATAGRAM_BYTES + 2112) as u64;
    assert!(
        held <= (1 << 18) / each && held > (1 << 18) / each / 2,
        "{held}"
    );
    assert_eq!(stack.count("fragments", "full"), 0);
    stack.receive(&part(&honest, 1000, 2008));
    assert_eq!(came(&mut stack), [pattern(2000)]);
    // Its newest is still there.
    let newest = datagram(FAR, 4999, &pattern(2000));
    stack.receive(&part(&newest, 0, 1000));
    assert_eq!(came(&mut stack), [pattern(2000)]);
}

/// Class 23: from however many forged addresses, what is held is bounded, and who sends his fragments together is served.
#[test]
fn a_flood_from_everywhere_costs_the_oldest() {
    let mut stack = limited(Reassembly {
        bytes: 1 << 20,
        ..Reassembly::default()
    });
    for round in 0..3000u32 {
        let [_, _, high, low] = round.to_be_bytes();
        let packet = datagram(Address::v4([172, 16, high, low]), 7, &pattern(2000));
        stack.receive(&part(&packet, 1000, 2008));
        if round % 100 == 0 {
            let honest = datagram(PEER, round as u16, &pattern(3000));
            for fragment in cut(&honest, &[1000, 2000]) {
                stack.receive(&fragment);
            }
            assert_eq!(came(&mut stack), [pattern(3000)], "{round}");
        }
    }
    let held = 3000 - stack.count("fragments", "full");
    let each = (DATAGRAM_BYTES + 2112) as u64;
    assert!(
        held <= (1 << 20) / each && held > (1 << 20) / each / 2,
        "{held}"
    );
    assert_eq!(stack.count("fragments", "source_full"), 0);
}

/// Class 23: a datagram that its source's part cannot hold never becomes whole.
#[test]
fn a_datagram_beyond_its_part_is_dropped() {
    let mut stack = limited(Reassembly {
        bytes: 40_000,
        ..Reassembly::default()
    });
    for fragment in cut(
        &datagram(PEER, 7, &pattern(9000)),
        &[1480, 2960, 4440, 5920, 7400, 8880],
    ) {
        stack.receive(&fragment);
    }
    assert!(came(&mut stack).is_empty());
    assert!(stack.count("fragments", "source_full") >= 3);
}

/// Class 16: fragments of 8 bytes are put together in few buffers.
#[test]
fn few_bytes_hold_few_buffers() {
    let mut pool = Pool::new(&braidnet_message::Arena::new(16 << 20));
    let mut table = Table::new(Arc::new(Live::new(InetLimits::default())));
    let payload = pattern(60_000);
    let mut most = 0;
    for start in (0..60_000).step_by(8) {
        let end = start + 8;
        let message = noted(&mut pool, (start, &payload[start..end]), end < 60_000);
        let message = compact(message, &mut pool);
        let whole = take(&mut table, message, Instant::ZERO);
        most = most.max(table.held_bytes());
        assert_eq!(whole.len(), usize::from(end == 60_000));
    }
    assert!(most < 4 * 60_000, "{most}");
    assert_eq!((table.held_bytes(), table.len()), (0, 0));
}

/// Class 23: a few bytes in a large buffer do not keep it.
#[test]
fn a_sparse_buffer_is_let_go() {
    let mut pool = Pool::new(&braidnet_message::Arena::new(16 << 20));
    let payload = pattern(800);
    for (start, kept) in [(0, 28), (800, 0)] {
        let mut message = pool.allocate(HEADROOM, 60_000).unwrap();
        let header: Vec<u8> = vec![9; 28];
        let packet = [&header[..], &payload[..]].concat();
        message
            .append(packet.len())
            .unwrap()
            .copy_from_slice(&packet);
        message.strip(28);
        let like = noted(&mut pool, (start, &[]), true).note::<Fragment>();
        message.set_note(Fragment {
            datagram: Datagram {
                header_len: 28,
                ..like.datagram
            },
            ..like
        });
        message.set_bucket(5);
        let mut compacted = compact(message, &mut pool);
        assert!(room::footprint(&compacted) < 4 * 800);
        assert_eq!(compacted.bytes(), payload);
        assert_eq!(
            (compacted.bucket(), compacted.note::<Fragment>().more),
            (5, 1)
        );
        assert_eq!(compacted.prepend(kept).unwrap(), &header[..kept]);
    }
}
