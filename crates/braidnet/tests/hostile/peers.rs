//! Peers whose every segment is played by hand: handshakes, windows and endings that no honest peer would think of.

use crate::packet::{ACK, CWR, ECE, End, FIN, RST, SYN, Segment, parse};
use crate::rig::{EVIL, PORT, Rig, TARGET};
use braidnet::{CloseReason, Connection, Duration, Event};

const RIGS: [bool; 2] = [false, true];

fn syn(port: u16) -> Segment {
    Segment::new((EVIL, port), (TARGET, PORT)).flags(SYN)
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 251) as u8).collect()
}

/// Acknowledges all that the target sends until `len` bytes have come; the bytes and the segments they came in.
fn hear(rig: &mut Rig, next: &mut Segment, len: usize) -> (Vec<u8>, usize) {
    let (mut heard, mut segments) = (Vec::new(), 0);
    let mut arrived = rig.segment(next);
    for _ in 0..10_000 {
        for segment in arrived.drain(..).filter(|s| !s.data.is_empty()) {
            if segment.seq == next.ack {
                next.ack = next.ack.wrapping_add(segment.data.len() as u32);
                heard.extend_from_slice(&segment.data);
                segments += 1;
            }
        }
        if heard.len() >= len {
            return (heard, segments);
        }
        arrived = rig.segment(next);
    }
    panic!("{} of {len} bytes come", heard.len());
}

#[test]
fn class_9_options_of_a_syn() {
    // What the SYN's options are; the longest segment that may come of them.
    let rows: [(&str, &[u8], usize); 10] = [
        ("no MSS", &[], 536),
        ("MSS 0", &[2, 4, 0, 0], 88),
        ("MSS 1", &[2, 4, 0, 1], 88),
        ("MSS 48", &[2, 4, 0, 48], 88),
        ("MSS 65535", &[2, 4, 255, 255], 1460),
        ("MSS twice", &[2, 4, 2, 0, 2, 4, 1, 0], 512),
        ("window scale 15", &[2, 4, 5, 180, 3, 3, 15, 0], 1460),
        ("window scale 255", &[2, 4, 5, 180, 3, 3, 255, 0], 1460),
        (
            "window scale twice",
            &[2, 4, 5, 180, 3, 3, 14, 3, 3, 0],
            1460,
        ),
        (
            "SACK, an unknown option",
            &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 77, 2],
            536,
        ),
    ];
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        for (port, (what, options, longest)) in (4001..).zip(rows) {
            println!("class 9: {what} (ethernet: {ethernet})");
            let (mut next, end) = rig.connect_from(port, options);
            let sent = text(20_000);
            assert_eq!(rig.target.send(end, &sent), Ok(sent.len()), "{what}");
            let (heard, segments) = hear(&mut rig, &mut next, sent.len());
            assert_eq!(heard, sent, "{what}");
            let shortest = longest.min(88);
            assert!(segments <= sent.len() / shortest + 20, "{what}: {segments}");
            assert!(segments >= sent.len() / longest, "{what}: {segments}");
            rig.hang_up(end);
            rig.assert_undisturbed();
        }
    }
}

#[test]
fn class_10_urgent_data_stays_in_the_stream() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let (next, end) = rig.connect_from(4001, &[]);
        for (at, urgent) in [0, 1, 3, 4, 5, 65535].into_iter().enumerate() {
            let segment = next.clone().ahead(4 * at as i64).data(b"data");
            rig.segment(&Segment {
                urgent,
                ..segment.flags(ACK | 32)
            });
            assert_eq!(rig.read(end), b"data", "urgent pointer {urgent}");
        }
        rig.assert_undisturbed();
    }
}

#[test]
fn class_11_a_syn_is_a_syn_whatever_else_it_says() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        for (port, flags) in (4001..).zip([ECE | CWR, ECE, CWR, FIN, FIN | ECE, 8, 32]) {
            let answers = rig.segment(&syn(port).flags(SYN | flags).ahead(99));
            let [answer] = &answers[..] else {
                panic!("{flags:#x}: {answers:?}")
            };
            // Both bits ask whether marks are understood, one alone asks nothing (RFC 3168 §6.1.1).
            let marks = if flags == ECE | CWR { ECE } else { 0 };
            let expected = (SYN | ACK | marks, 100);
            assert_eq!((answer.flags, answer.ack), expected, "{flags:#x}");
            rig.segment(&syn(port).flags(RST).ahead(100));
        }
        // The bit that was once NS: reserved, and ignored.
        let mut packet = syn(5000).packet();
        packet[32] |= 1;
        let sum = u16::from_be_bytes([packet[36], packet[37]]) - 0x100;
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(rig.attack(&[packet]).len(), 1);
        rig.assert_undisturbed();
    }
}

#[test]
fn class_12_data_on_a_syn_is_left_to_be_sent_again() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let answers = rig.segment(&syn(4001).data(b"early"));
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].flags, answers[0].ack), (SYN | ACK, 1));
        assert_eq!(rig.count("tcp.tcp_text_on_syn"), 1);
        let next = Segment {
            seq: 1,
            ack: answers[0].seq.wrapping_add(1),
            ..syn(4001).flags(ACK)
        };
        rig.segment(&next.data(b"early"));
        let end = rig.accepted().expect("the handshake is over");
        assert_eq!(rig.read(end), b"early");
        rig.assert_undisturbed();
    }
}

#[test]
fn class_13_handshakes_gone_wrong() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        for (port, off) in (4001..).zip([-1i64, 1, 1 << 20, i64::from(u32::MAX / 2)]) {
            let answers = rig.segment(&syn(port));
            let wrong = answers[0].seq.wrapping_add(1).wrapping_add(off as u32);
            let bad = Segment {
                seq: 1,
                ack: wrong,
                ..syn(port).flags(ACK)
            };
            let answers = rig.segment(&bad);
            assert_eq!(answers.len(), 1, "{off}");
            assert_eq!((answers[0].flags, answers[0].seq), (RST, wrong), "{off}");
            assert!(rig.accepted().is_none(), "{off}");
        }
        assert_eq!(rig.count("tcp.tcp_bad_handshake_ack"), 4);
        // A SYN once more is answered with the same SYN-ACK once more.
        let first = rig.segment(&syn(4010));
        let again = rig.segment(&syn(4010));
        assert_eq!(
            (first[0].seq, first[0].flags),
            (again[0].seq, again[0].flags)
        );
        assert_eq!(rig.count("tcp.tcp_duplicate_syn"), 1);
        rig.assert_undisturbed();
    }
}

/// Classes 13 and 48: sequence numbers that wrap.
#[test]
fn class_13_and_48_sequence_numbers_wrap() {
    for (port, iss) in (4001..).zip([
        u32::MAX,
        u32::MAX - 1,
        u32::MAX - 700,
        i32::MAX as u32,
        i32::MAX as u32 - 700,
    ]) {
        let mut rig = Rig::new(false);
        let (mut next, end) = rig.connect_at(port, iss, &[]);
        let sent = text(3000);
        let (last, first) = (
            next.clone().ahead(1000).data(&sent[1000..2000]),
            next.clone().data(&sent[..1000]),
        );
        // Out of order, too.
        rig.segment(&last);
        rig.segment(&first);
        rig.segment(&next.clone().ahead(2000).data(&sent[2000..]));
        assert_eq!(rig.read(end), sent, "{iss}");
        next = next.ahead(3000);
        assert_eq!(rig.target.send(end, &sent), Ok(sent.len()));
        assert_eq!(hear(&mut rig, &mut next, sent.len()).0, sent, "{iss}");
        rig.assert_undisturbed();
    }
}

/// What the target has sent since, as far as it fits the window that the peer last announced.
fn absorb(rig: &mut Rig, next: &mut Segment, heard: &mut Vec<u8>) {
    let right = usize::from(next.window);
    let mut room = right;
    for packet in std::mem::take(&mut rig.captured) {
        let Some(segment) = parse(&packet) else {
            continue;
        };
        let skip = next.ack.wrapping_sub(segment.seq) as usize;
        if skip < segment.data.len() && room > 0 {
            let data = &segment.data[skip..];
            let data = &data[..data.len().min(room)];
            heard.extend_from_slice(data);
            next.ack = next.ack.wrapping_add(data.len() as u32);
            room -= data.len();
        }
    }
}

#[test]
fn class_14_a_window_that_shrinks() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let (mut next, end) = rig.connect_from(4001, &[2, 4, 5, 180]);
        let sent = text(100_000);
        let mut heard = Vec::new();
        next = next.window(20_000);
        rig.inject(&next.packet());
        rig.settle();
        assert_eq!(rig.target.send(end, &sent), Ok(sent.len()));
        rig.settle();
        assert!(!rig.captured.is_empty());
        // Shut with much in flight, which is outside now; then every size on the way up and down.
        for window in [0, 0, 1, 0, 100, 1, 2000, 0, 65_535, 1000, 0, 1] {
            next = next.window(window);
            rig.inject(&next.packet());
            for _ in 0..8 {
                rig.pass(Duration::from_secs(1));
                absorb(&mut rig, &mut next, &mut heard);
                rig.inject(&next.packet());
            }
            rig.introduce();
            rig.assert_undisturbed();
        }
        next = next.window(65_535);
        for _ in 0..200 {
            rig.inject(&next.packet());
            rig.pass(Duration::from_secs(1));
            absorb(&mut rig, &mut next, &mut heard);
        }
        assert_eq!(heard.len(), sent.len());
        assert!(heard == sent);
        rig.assert_undisturbed();
    }
}

#[test]
fn class_17_overlaps_and_fins_out_of_order() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        // What arrives, each at its offset, F for a FIN behind it; what is read, and what is counted.
        type Step = (i64, &'static [u8], bool);
        type Row = (
            &'static str,
            &'static [Step],
            &'static [u8],
            &'static [&'static str],
        );
        let rows: [Row; 9] = [
            (
                "later bytes do not replace earlier ones",
                &[(4, b"efgh", false), (2, b"CDEF", false), (0, b"ab", false)],
                b"abCDefgh",
                &["tcp_overlap"],
            ),
            (
                "a segment over two others",
                &[(2, b"c", false), (6, b"g", false), (0, b"ABCDEFGH", false)],
                b"ABCDEFGH",
                &["tcp_overlap"],
            ),
            (
                "the same again with other bytes",
                &[(0, b"abcd", false), (0, b"WXYZ", false), (4, b"ef", false)],
                b"abcdef",
                &["tcp_old_segment"],
            ),
            (
                "half old, half new",
                &[(0, b"abcd", false), (2, b"YZef", false)],
                b"abcdef",
                &["tcp_partly_old"],
            ),
            (
                "FIN before the data",
                &[(4, b"ef", true), (0, b"abcd", false)],
                b"abcdef",
                &[],
            ),
            (
                "FIN alone before the data",
                &[(4, b"", true), (0, b"abcd", false)],
                b"abcd",
                &[],
            ),
            (
                "data after the FIN",
                &[(0, b"ab", true), (3, b"evil", false)],
                b"ab",
                &["tcp_text_after_fin"],
            ),
            (
                "data past a FIN that waits",
                &[(2, b"cd", true), (3, b"devil", false), (0, b"ab", false)],
                b"abcd",
                &["tcp_text_after_fin"],
            ),
            (
                "two FINs, the second further on",
                &[(2, b"cd", true), (6, b"", true), (0, b"ab", false)],
                b"abcd",
                &[],
            ),
        ];
        for (port, (what, steps, expected, counted)) in (4001..).zip(rows) {
            println!("class 17: {what} (ethernet: {ethernet})");
            let (next, end) = rig.connect_from(port, &[]);
            let before = rig.counted();
            for (at, data, fin) in steps {
                let flags = if *fin { ACK | FIN } else { ACK };
                let answers = rig.segment(&next.clone().ahead(*at).data(data).flags(flags));
                assert!(answers.iter().all(|answer| answer.flags == ACK), "{what}");
            }
            rig.pass(Duration::from_millis(100));
            assert_eq!(rig.read(end), expected, "{what}");
            let grown = crate::rig::since(&before, &rig.counted());
            for name in counted {
                assert!(
                    grown.iter().any(|(n, _)| n == &format!("tcp.{name}")),
                    "{what}: {grown:?}"
                );
            }
            let ended = rig.take_event(|event| (event == Event::EndOfData(end)).then_some(()));
            assert_eq!(ended.is_some(), steps.iter().any(|step| step.2), "{what}");
            rig.hang_up(end);
            rig.assert_undisturbed();
        }
    }
}

/// A connection that the target has opened to the attacker's `port`: its end, and the target's SYN.
fn called(rig: &mut Rig, port: u16) -> (Connection, Segment) {
    let end = rig.target.connect((EVIL, port).into()).unwrap();
    rig.settle();
    let syn = rig.captured.drain(..).find_map(|p| parse(&p)).unwrap();
    assert_eq!(syn.flags, SYN);
    (end, syn)
}

fn answer_to(segment: &Segment) -> Segment {
    let (from, to): (End, End) = (segment.to, segment.from);
    Segment {
        seq: 5000,
        ack: segment.seq.wrapping_add(1),
        ..Segment::new(from, to)
    }
}

#[test]
fn class_18_simultaneous_open_and_close() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let (end, syn) = called(&mut rig, 5001);
        let answer = answer_to(&syn);
        let crossed = rig.segment(&Segment {
            ack: 0,
            ..answer.clone().flags(SYN)
        });
        assert_eq!(crossed.len(), 1);
        assert_eq!(
            (crossed[0].flags, crossed[0].seq, crossed[0].ack),
            (SYN | ACK, syn.seq, 5001)
        );
        rig.segment(&answer.clone().flags(SYN | ACK));
        assert!(
            rig.take_event(|event| (event == Event::Connected(end)).then_some(()))
                .is_some()
        );
        let next = answer.ahead(1);
        rig.segment(&next.clone().data(b"crossed"));
        assert_eq!(rig.read(end), b"crossed");
        let next = next.ahead(7);

        // Both FINs cross as well.
        rig.target.close(end);
        rig.settle();
        rig.captured.clear();
        let answers = rig.segment(&next.clone().flags(FIN | ACK));
        assert!(
            answers.iter().any(|a| a.ack == next.seq.wrapping_add(1)),
            "{answers:?}"
        );
        rig.segment(&next.clone().ahead(1).acking(1));
        let closed = rig.take_event(|event| match event {
            Event::Closed(gone, reason) if gone == end => Some(reason),
            _ => None,
        });
        assert_eq!(closed, Some(CloseReason::Closed));
        rig.assert_undisturbed();
    }
}

#[test]
fn class_18_reset_and_syn_in_time_wait() {
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let (next, end) = rig.connect_from(4001, &[]);
        rig.target.close(end);
        rig.settle();
        rig.captured.clear();
        let over = next.clone().flags(FIN | ACK).acking(1);
        assert_eq!(rig.segment(&over).len(), 1);
        rig.target.forget(end);

        // RFC 1337: a RST does not end TIME-WAIT.
        assert!(rig.segment(&over.clone().flags(RST).ahead(1)).is_empty());
        assert_eq!(rig.count("tcp.tcp_reset_in_time_wait"), 1);
        // The FIN again is acknowledged again.
        assert_eq!(rig.segment(&over).len(), 1);
        // A SYN that may be old is answered with an ACK; one that is new opens a connection.
        let answers = rig.segment(&over.clone().flags(SYN).ahead(-100));
        assert!(answers.iter().all(|a| a.flags == ACK), "{answers:?}");
        let answers = rig.segment(&over.clone().flags(SYN).ahead(100));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].flags, SYN | ACK);
        let again = Segment {
            seq: answers[0].ack,
            ack: answers[0].seq.wrapping_add(1),
            ..over.flags(ACK)
        };
        rig.segment(&again.data(b"again"));
        let end = rig.accepted().expect("a new incarnation");
        assert_eq!(rig.read(end), b"again");
        rig.assert_undisturbed();
    }
}

/// RFC 9293 §3.6.1: what the old connection has sent, faster than a sequence number in 4 us, cannot be taken for the new one's.
#[test]
fn class_18_a_syn_in_the_time_wait_of_a_fast_connection() {
    const LEN: usize = 200_000;
    for ethernet in RIGS {
        let mut rig = Rig::new(ethernet);
        let (mut next, end) = rig.connect_from(4001, &[]);
        assert_eq!(rig.target.send(end, &text(LEN)), Ok(LEN));
        rig.settle();
        hear(&mut rig, &mut next, LEN);
        rig.segment(&next);
        rig.target.close(end);
        rig.settle();
        rig.captured.clear();
        let over = next.flags(FIN | ACK).acking(1);
        assert_eq!(rig.segment(&over).len(), 1);
        let answers = rig.segment(&over.clone().flags(SYN).ahead(100));
        assert_eq!((answers.len(), answers[0].flags), (1, SYN | ACK));
        let beyond = answers[0].seq.wrapping_sub(over.ack) as i32;
        assert!(beyond >= 0, "{beyond}");
        rig.target.forget(end);
        rig.assert_undisturbed();
    }
}

#[test]
fn class_19_a_window_that_stays_shut() {
    let mut rig = Rig::new(false);
    let (next, end) = rig.connect_from(4001, &[]);
    let next = next.window(0);
    rig.segment(&next);
    let sent = text(50_000);
    assert_eq!(rig.target.send(end, &sent), Ok(sent.len()));
    let used = rig.target.used_bytes();
    // An hour in which every probe is answered: still shut.
    let mut probes = 0;
    for _ in 0..3600 {
        rig.pass(Duration::from_secs(1));
        let arrived = std::mem::take(&mut rig.captured).len();
        probes += arrived;
        if arrived > 0 {
            rig.segment(&next);
        }
    }
    assert!((50..200).contains(&probes), "{probes} probes in an hour");
    assert_eq!(rig.target.used_bytes(), used);
    rig.assert_undisturbed();
    // Then it falls silent, and is given up.
    rig.pass(Duration::from_secs(3600));
    let closed = rig.take_event(|event| match event {
        Event::Closed(gone, reason) if gone == end => Some(reason),
        _ => None,
    });
    assert_eq!(closed, Some(CloseReason::TimedOut));
    rig.assert_undisturbed();
}

#[test]
fn class_19_silly_windows() {
    let mut rig = Rig::new(false);
    let (mut next, end) = rig.connect_from(4001, &[]);
    next = next.window(1);
    rig.segment(&next);
    assert_eq!(rig.target.send(end, &text(5000)), Ok(5000));
    let mut sent = 0;
    for _ in 0..100 {
        // One byte more each time.
        let answers = rig.segment(&next);
        for segment in &answers {
            if segment.seq == next.ack {
                next.ack = next.ack.wrapping_add(segment.data.len() as u32);
            }
        }
        sent += answers.len();
    }
    assert!(sent <= 5, "{sent} segments of a byte");
    rig.assert_undisturbed();
}
