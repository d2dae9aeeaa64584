//! One row per rule of RFC 9293 §3.10.7 and of the RFCs that amend it: a state, a segment, what becomes of it.

use crate::testing::{
    ACK, Bytes, ECN, FIN, Host, PSH, RST, Reply, SYN, URG, WINDOW, Wire, segment,
};
use crate::{Config, DropReason, Events, State};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;

/// A state with three bytes in flight, a segment, why it is dropped, the answers, the state afterwards.
type Row = (State, Wire, Option<DropReason>, &'static [Reply], State);

fn check(rows: &[Row]) {
    for (at, (state, wire, drop, replies, after)) in rows.iter().enumerate() {
        let mut host = Host::in_state(*state, 3);
        host.arrive(wire);
        let context = format!("row {at}: {state} {:?}", wire.header);
        assert_eq!(
            host.end.drops,
            drop.iter().copied().collect::<Vec<_>>(),
            "{context}"
        );
        assert_eq!(host.sent(), *replies, "{context}");
        assert_eq!(host.end.tcb.state(), *after, "{context}");
    }
}

#[test]
fn what_is_expected_is_taken_as_if_it_had_arrived() {
    use State::{CloseWait, Established, FinWait1};
    // A state with three bytes in flight, a segment, and how many bytes it acknowledges if it is expected.
    let rows = [
        (Established, segment(ACK, 0, 0, 5), Some(0)),
        (Established, segment(ACK, 0, 3, 0), Some(3)),
        (Established, segment(ACK | PSH, 0, 2, 9), Some(2)),
        (Established, segment(ACK, 0, 0, 0), None),
        (Established, segment(ACK, 1, 0, 5), None),
        (Established, segment(ACK, 0, 4, 5), None),
        (Established, segment(FIN | ACK, 0, 3, 5), None),
        (FinWait1, segment(ACK, 0, 4, 0), None),
        (CloseWait, segment(ACK, 0, 3, 0), None),
    ];
    for (state, wire, acked) in rows {
        let context = format!("{state} {:?}", wire.header);
        let mut arrived = Host::in_state(state, 3);
        arrived.arrive(&wire);
        let Host { end, now, .. } = &mut Host::in_state(state, 3);
        let expected = end.tcb.expects(*now, &wire.header, wire.data.len());
        assert_eq!(expected.is_some(), acked.is_some(), "{context}");
        let Some(expected) = expected else { continue };
        let (data, mut taken) = (Some(Bytes(wire.data)), Vec::new());
        let released = end.tcb.take_expected(*now, expected, data, &mut taken);
        assert_eq!(Some(released), acked, "{context}");
        assert_eq!(end.tcb.take_acked(), 0, "{context}");
        assert_eq!(end.tcb.status(), arrived.end.tcb.status(), "{context}");
        assert_eq!(
            end.tcb.send_space(),
            arrived.end.tcb.send_space(),
            "{context}"
        );
        let taken: Vec<u8> = taken.into_iter().flat_map(|bytes| bytes.0).collect();
        assert_eq!(taken, arrived.end.received, "{context}");
    }
}

#[test]
#[rustfmt::skip]
fn syn_sent() {
    use DropReason::*;
    use State::{Closed, Established, SynReceived, SynSent};
    check(&[
        // First check: ACKs of what we have not sent, one too low and one too high, are answered with a RST.
        (SynSent, segment(ACK, 0, -1, 0), Some(AckNotOfSyn), &[(RST, -1, 0, 0)], SynSent),
        (SynSent, segment(SYN | ACK, -1, 1, 0), Some(AckNotOfSyn), &[(RST, 1, 0, 0)], SynSent),
        (SynSent, segment(RST | ACK, 0, 1, 0), Some(AckNotOfSyn), &[], SynSent),
        // Second check: RST.
        (SynSent, segment(RST | ACK, 0, 0, 0), None, &[], Closed),
        (SynSent, segment(RST, 0, 0, 0), Some(ResetWithoutAck), &[], SynSent),
        (SynSent, segment(SYN | RST, 0, 0, 0), Some(ResetWithoutAck), &[], SynSent),
        // Fourth check: SYN.
        (SynSent, segment(SYN | ACK, -1, 0, 0), None, &[(ACK, 0, 0, 0)], Established),
        (SynSent, segment(SYN | ACK | ECN, -1, 0, 0), None, &[(ACK, 0, 0, 0)], Established),
        (SynSent, segment(SYN | ACK, -1, 0, 9), Some(TextOnSyn), &[(ACK, 0, 0, 0)], Established),
        (SynSent, segment(SYN | ACK | FIN, -1, 0, 0), Some(TextOnSyn), &[(ACK, 0, 0, 0)], Established),
        (SynSent, segment(SYN, -1, 0, 0), None, &[(SYN | ACK, -1, 0, 0)], SynReceived),
        // Fifth check: neither.
        (SynSent, segment(ACK, 0, 0, 0), Some(NeitherSynNorReset), &[], SynSent),
        (SynSent, segment(0, 0, 0, 0), Some(NeitherSynNorReset), &[], SynSent),
        (SynSent, segment(FIN | PSH | URG, 0, 0, 0), Some(NeitherSynNorReset), &[], SynSent),
    ]);
}

#[test]
#[rustfmt::skip]
fn syn_received() {
    use DropReason::*;
    use State::{CloseWait, Closed, Established, SynReceived};
    check(&[
        (SynReceived, segment(ACK, 0, 0, 0), None, &[], Established),
        (SynReceived, segment(FIN | ACK, 0, 0, 2), None, &[(ACK, 0, 3, 0)], CloseWait),
        // Fifth check: any other ACK is answered with a RST (HOSTILE-INPUT 13, one too low).
        (SynReceived, segment(ACK, 0, -1, 0), Some(BadHandshakeAck), &[(RST, -1, 0, 0)], SynReceived),
        (SynReceived, segment(ACK, 0, 1, 0), Some(BadHandshakeAck), &[(RST, 1, 0, 0)], SynReceived),
        (SynReceived, segment(0, 0, 0, 0), Some(NoAck), &[], SynReceived),
        // The SYN once more is answered by ours; another one in the window is challenged.
        (SynReceived, segment(SYN, -1, 0, 0), Some(DuplicateSyn), &[(SYN | ACK, -1, 0, 0)], SynReceived),
        (SynReceived, segment(SYN, 5, 0, 0), Some(SynOnConnection), &[(ACK, 0, 0, 0)], SynReceived),
        // Simultaneous open: the peer's SYN-ACK.
        (SynReceived, segment(SYN | ACK, -1, 0, 0), None, &[(ACK, 0, 0, 0)], Established),
        (SynReceived, segment(RST, 0, 0, 0), None, &[], Closed),
        (SynReceived, segment(RST, 5, 0, 0), Some(ResetInWindow), &[(ACK, 0, 0, 0)], SynReceived),
        (SynReceived, segment(RST, -1, 0, 0), Some(OldSegment), &[], SynReceived),
    ]);
}

#[test]
#[rustfmt::skip]
fn sequence_numbers() {
    use DropReason::*;
    use State::Established;
    let right = i32::from(WINDOW);
    let answered: &[Reply] = &[(ACK, 3, 0, 0)];
    check(&[
        // The table of RFC 9293 §3.10.7.4. Data in order waits for company.
        (Established, segment(ACK, 0, 0, 9), None, &[], Established),
        (Established, segment(ACK, 1, 0, 9), None, answered, Established),
        (Established, segment(ACK, -9, 0, 9), Some(OldSegment), answered, Established),
        (Established, segment(ACK, -9, 0, 10), Some(PartlyOld), &[(ACK, 3, 1, 0)], Established),
        (Established, segment(ACK, -9, 0, 0), Some(OldSegment), answered, Established),
        (Established, segment(ACK, right, 0, 1), Some(BeyondWindow), answered, Established),
        (Established, segment(ACK, right - 1, 0, 2), Some(PartlyBeyondWindow), answered, Established),
        (Established, segment(FIN | ACK, right, 0, 0), Some(BeyondWindow), answered, Established),
        (Established, segment(FIN | ACK, right - 1, 0, 1), Some(PartlyBeyondWindow), answered, Established),
        // docs/rfc-departures.md: an ACK at the right edge counts.
        (Established, segment(ACK, right, 3, 0), None, &[], Established),
        (Established, segment(ACK, right + 1, 3, 0), Some(BeyondWindow), answered, Established),
        (Established, segment(ACK, i32::MAX, 3, 0), Some(BeyondWindow), answered, Established),
        (Established, segment(ACK, i32::MIN, 3, 0), Some(OldSegment), answered, Established),
    ]);
}

#[test]
#[rustfmt::skip]
fn resets() {
    use DropReason::*;
    use State::Closed;
    use State::*;
    let challenge: &[Reply] = &[(ACK, 3, 0, 0)];
    let right = i32::from(WINDOW);
    check(&[
        // RFC 5961 §3.2: at the left edge, inside, outside.
        (Established, segment(RST, 0, 0, 0), None, &[], Closed),
        (Established, segment(RST | ACK, 0, 99, 0), None, &[], Closed),
        (Established, segment(RST, 1, 0, 0), Some(ResetInWindow), challenge, Established),
        (Established, segment(RST, right - 1, 0, 0), Some(ResetInWindow), challenge, Established),
        (Established, segment(RST, right, 0, 0), Some(BeyondWindow), &[], Established),
        (Established, segment(RST, -1, 0, 0), Some(OldSegment), &[], Established),
        (Established, segment(RST | SYN, 0, 0, 0), None, &[], Closed),
        (FinWait1, segment(RST, 0, 0, 0), None, &[], Closed),
        (FinWait2, segment(RST, 0, 0, 0), None, &[], Closed),
        (CloseWait, segment(RST, 1, 0, 0), None, &[], Closed),
        (Closing, segment(RST, 1, 0, 0), None, &[], Closed),
        (LastAck, segment(RST, 1, 0, 0), None, &[], Closed),
        // RFC 1337 §3.
        (TimeWait, segment(RST, 1, 0, 0), Some(ResetInTimeWait), &[], TimeWait),
    ]);
}

#[test]
#[rustfmt::skip]
fn syns_and_acks() {
    use DropReason::*;
    use State::*;
    let challenge: &[Reply] = &[(ACK, 3, 0, 0)];
    check(&[
        // RFC 5961 §4: whatever its sequence number.
        (Established, segment(SYN, 0, 0, 0), Some(SynOnConnection), challenge, Established),
        (Established, segment(SYN | ACK, 5, 0, 0), Some(SynOnConnection), challenge, Established),
        (Established, segment(SYN | FIN, 0, 0, 0), Some(SynOnConnection), challenge, Established),
        (Established, segment(SYN | ACK, -1, 0, 0), Some(OldSegment), challenge, Established),
        (TimeWait, segment(SYN, 1, 0, 0), Some(SynOnConnection), &[(ACK, 4, 1, 0)], TimeWait),
        // No ACK: null, Xmas, bare data.
        (Established, segment(0, 0, 0, 0), Some(NoAck), &[], Established),
        (Established, segment(FIN | PSH | URG, 0, 0, 0), Some(NoAck), &[], Established),
        (Established, segment(PSH, 0, 0, 5), Some(NoAck), &[], Established),
        // RFC 5961 §5.
        (Established, segment(ACK, 0, 4, 0), Some(AckOfUnsent), challenge, Established),
        (Established, segment(ACK, 0, 4, 5), Some(AckOfUnsent), challenge, Established),
        (Established, segment(ACK, 0, -1, 0), Some(OldAck), &[], Established),
        (Established, segment(ACK, 0, -60000, 0), Some(OldAck), &[], Established),
        (Established, segment(ACK, 0, -60001, 0), Some(AckTooOld), challenge, Established),
        (Established, segment(ACK, 0, 3, 0), None, &[], Established),
        // Urgent data stays in the stream, wherever the pointer points (RFC 6093; HOSTILE-INPUT 10).
        (Established, segment(ACK | URG, 0, 3, 1), None, &[], Established),
        (Established, segment(ACK | ECN, 0, 3, 1), None, &[], Established),
    ]);
}

#[test]
#[rustfmt::skip]
fn fins() {
    use DropReason::*;
    use State::Closed;
    use State::*;
    check(&[
        (Established, segment(FIN | ACK, 0, 3, 0), None, &[(ACK, 3, 1, 0)], CloseWait),
        (Established, segment(FIN | ACK, 0, 3, 5), None, &[(ACK, 3, 6, 0)], CloseWait),
        (Established, segment(FIN | ACK, 4, 3, 5), None, &[(ACK, 3, 0, 0)], Established),
        (FinWait1, segment(ACK, 0, 4, 0), None, &[], FinWait2),
        (FinWait1, segment(ACK, 0, 3, 0), None, &[], FinWait1),
        (FinWait1, segment(FIN | ACK, 0, 3, 0), None, &[(ACK, 4, 1, 0)], Closing),
        (FinWait1, segment(FIN | ACK, 0, 4, 0), None, &[(ACK, 4, 1, 0)], TimeWait),
        (FinWait2, segment(FIN | ACK, 0, 4, 0), None, &[(ACK, 4, 1, 0)], TimeWait),
        (FinWait2, segment(ACK, 0, 4, 500), None, &[], FinWait2),
        (Closing, segment(ACK, 1, 4, 0), None, &[], TimeWait),
        (LastAck, segment(ACK, 1, 4, 0), None, &[], Closed),
        // The FIN once more; data after it (HOSTILE-INPUT 17).
        (CloseWait, segment(FIN | ACK, 0, 3, 0), Some(OldSegment), &[(ACK, 3, 1, 0)], CloseWait),
        (CloseWait, segment(ACK, 1, 3, 5), Some(TextAfterFin), &[(ACK, 3, 1, 0)], CloseWait),
        (CloseWait, segment(FIN | ACK, 1, 3, 5), Some(TextAfterFin), &[(ACK, 3, 1, 0)], CloseWait),
        (TimeWait, segment(FIN | ACK, 0, 4, 0), Some(OldSegment), &[(ACK, 4, 1, 0)], TimeWait),
    ]);
}

#[test]
fn a_fin_out_of_order_waits_for_what_is_missing() {
    let mut host = Host::in_state(State::Established, 0);
    host.arrive(&segment(FIN | ACK, 5, 0, 5));
    assert_eq!(host.arrive(&segment(ACK, 8, 0, 9)), Events::OUT_OF_ORDER);
    assert_eq!(
        host.end.drops,
        [DropReason::TextAfterFin],
        "data past the FIN"
    );
    assert_eq!(host.arrive(&segment(ACK, 0, 0, 5)), Events::END_OF_DATA);
    assert_eq!(host.end.received.len(), 10);
    assert_eq!(host.sent().last(), Some(&(ACK, 0, 11, 0)));
}

/// RFC 7323 §5.3, R3: it is SEG.SEQ that counts, though what is new of the segment begins behind what was acknowledged last.
#[test]
fn the_timestamp_of_what_is_partly_old_is_taken() {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present |= TcpHeader::HAS_TIMESTAMPS;
    syn.header.ts_value = 100;
    let at = |mut wire: Wire, ts_value| {
        wire.header.present |= TcpHeader::HAS_TIMESTAMPS;
        wire.header.ts_value = ts_value;
        wire
    };
    let config = Config {
        timestamps: true,
        ..Host::plain()
    };
    let mut host = Host::accept(&config, &syn);
    host.arrive(&at(segment(ACK, 0, 0, 0), 101));
    host.arrive(&at(segment(ACK, 0, 0, 100), 102));
    host.arrive(&at(segment(ACK, 0, 0, 200), 103));
    let sent = host.end.poll(host.now);
    let acks: Vec<_> = (sent.iter())
        .map(|wire| (wire.header.ts_echo, wire.data.len()))
        .collect();
    assert_eq!(acks, [(103, 0)]);
}

/// The first FIN stands; where another is, before or behind it, is named.
#[test]
fn of_two_fins_the_first_stands() {
    // The second segment: where it begins, bytes of data; what is said of it.
    let rows = [
        (5, 5, None),
        (10, 0, None),
        (7, 0, Some(DropReason::FinMoved)),
        (12, 0, Some(DropReason::FinMoved)),
        (5, 7, Some(DropReason::TextAfterFin)),
    ];
    for (seq, len, reason) in rows {
        let mut host = Host::in_state(State::Established, 0);
        host.arrive(&segment(FIN | ACK, 5, 0, 5));
        host.arrive(&segment(FIN | ACK, seq, 0, len));
        let told: Vec<_> = (host.end.drops.iter().copied())
            .filter(|drop| *drop != DropReason::Overlap)
            .collect();
        assert_eq!(told, Vec::from_iter(reason), "{seq} {len}");
        assert_eq!(host.arrive(&segment(ACK, 0, 0, 5)), Events::END_OF_DATA);
        assert_eq!(host.end.received.len(), 10, "{seq} {len}");
    }
}

/// What is held past a FIN that comes later, and the FIN with the rest; afterwards the stream is 15 bytes and a FIN.
#[test]
fn a_fin_before_what_is_held_ends_the_stream() {
    type Held = &'static [(i32, usize)];
    type Rest = &'static [(u8, i32, usize)];
    let rows: [(Held, Rest); 5] = [
        // Inside a piece; between two; with what fills the gap before it; alone; alone with nothing missing.
        (&[(10, 10)], &[(FIN, 10, 5), (0, 0, 10)]),
        (&[(10, 5), (15, 5), (30, 5)], &[(FIN, 10, 5), (0, 0, 10)]),
        (&[(15, 10)], &[(0, 0, 10), (FIN, 10, 5)]),
        (&[(5, 15)], &[(FIN, 15, 0), (0, 0, 5)]),
        (&[(20, 5)], &[(0, 0, 15), (FIN, 15, 0)]),
    ];
    for (held, rest) in rows {
        let mut host = Host::in_state(State::Established, 0);
        for &(seq, len) in held {
            host.arrive(&segment(ACK, seq, 0, len));
        }
        assert_eq!(host.end.drops, [], "{held:?}");
        let mut events = Events::empty();
        for &(fin, seq, len) in rest {
            events |= host.arrive(&segment(ACK | fin, seq, 0, len));
        }
        assert!(events.contains(Events::END_OF_DATA), "{held:?}");
        assert_eq!(host.end.drops, [DropReason::TextAfterFin], "{held:?}");
        assert_eq!(host.end.received.len(), 15, "{held:?}");
        assert_eq!(host.sent().last(), Some(&(ACK, 0, 16, 0)), "{held:?}");
        assert_eq!(host.end.tcb.state(), State::CloseWait);
    }
}

/// RFC 5961 §7; per connection, since a shared count would leak (HOSTILE-INPUT 15).
#[test]
fn challenges_are_limited() {
    let mut host = Host::in_state(State::Established, 0);
    let mut answers = 0;
    for _ in 0..100 {
        host.arrive(&segment(RST, 5, 0, 0));
        answers += host.sent().len();
    }
    assert_eq!(answers, 10);
    host.wait(Duration::from_secs(5));
    host.arrive(&segment(SYN, 5, 0, 0));
    assert_eq!(host.sent().len(), 1);
}

#[test]
fn challenges_are_limited_as_configured() {
    let config = Config {
        challenge_acks: 3,
        challenge_period: Duration::from_secs(1),
        ..Host::plain()
    };
    let mut host = Host::accept(&config, &segment(SYN, -1, 0, 0));
    host.arrive(&segment(ACK, 0, 0, 0));
    let answers = |host: &mut Host| {
        let answer = |_| {
            host.arrive(&segment(RST, 5, 0, 0));
            host.sent().len()
        };
        (0..20).map(answer).sum::<usize>()
    };
    assert_eq!(answers(&mut host), 3);
    host.wait(Duration::from_millis(999));
    assert_eq!(answers(&mut host), 0);
    host.wait(Duration::from_millis(1));
    assert_eq!(answers(&mut host), 3);
}

/// HOSTILE-INPUT 13.
#[test]
fn a_storm_of_old_acks_is_not_answered() {
    let mut host = Host::in_state(State::Established, 3);
    host.arrive(&segment(ACK, 0, 3, 0));
    for _ in 0..1000 {
        host.arrive(&segment(ACK, 0, 0, 0));
        assert_eq!(host.sent(), []);
    }
    assert_eq!(host.end.drops, [DropReason::OldAck; 1000]);
}

#[test]
fn time_wait_ends_after_two_segment_lifetimes() {
    let mut host = Host::in_state(State::TimeWait, 0);
    host.wait(Duration::from_secs(59));
    host.arrive(&segment(FIN | ACK, 0, 1, 0));
    assert_eq!(host.sent(), [(ACK, 1, 1, 0)]);
    assert_eq!(
        host.wait(Duration::from_secs(59)),
        Events::empty(),
        "the FIN restarted it"
    );
    assert_eq!(host.wait(Duration::from_secs(1)), Events::CLOSED);
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn time_wait_gives_way_to_a_new_syn() {
    let mut host = Host::in_state(State::TimeWait, 0);
    let rows = [
        (SYN, 1, false),
        (SYN, 2, true),
        (SYN, -1, false),
        (SYN | ACK, 2, false),
        (SYN | RST, 2, false),
        (ACK, 2, false),
    ];
    for (flags, seq, expected) in rows {
        let wire = segment(flags, seq, 0, 0);
        assert_eq!(
            host.end.tcb.reusable_by(&wire.header),
            expected,
            "{flags:#x} {seq}"
        );
    }
    host.end.tcb.connection.timestamps = true;
    host.end.tcb.receiver.ts_recent = u32::MAX;
    // RFC 6191 §2: the timestamp decides; if it is the same, the sequence number.
    for (ts_value, seq, expected) in [
        (0, -5, true),
        (u32::MAX, 2, true),
        (u32::MAX, 1, false),
        (9, 1, true),
        (1 << 31, 2, false),
    ] {
        let mut syn = segment(SYN, seq, 0, 0).header;
        syn.present = TcpHeader::HAS_TIMESTAMPS;
        syn.ts_value = ts_value;
        assert_eq!(host.end.tcb.reusable_by(&syn), expected, "{ts_value} {seq}");
    }
    let syn = segment(SYN, 2, 0, 0).header;
    assert!(!Host::in_state(State::LastAck, 0).end.tcb.reusable_by(&syn));
}

/// RFC 7323 §5.
mod timestamps {
    use super::*;

    fn with_timestamp(mut wire: Wire, ts_value: u32) -> Wire {
        wire.header.present |= TcpHeader::HAS_TIMESTAMPS;
        wire.header.ts_value = ts_value;
        wire
    }

    fn host() -> Host {
        let config = Config {
            timestamps: true,
            ..Host::plain()
        };
        let mut host = Host::accept(&config, &with_timestamp(segment(SYN, -1, 0, 0), 100));
        host.arrive(&with_timestamp(segment(ACK, 0, 0, 0), 100));
        host.sent();
        host
    }

    #[test]
    fn old_and_missing_ones() {
        use DropReason::*;
        let rows = [
            (
                with_timestamp(segment(ACK, 0, 0, 5), 99),
                Some(OldTimestamp),
                1,
            ),
            (with_timestamp(segment(ACK, 0, 0, 5), 100), None, 0),
            (
                with_timestamp(segment(ACK, 0, 0, 5), 100 + (1 << 31)),
                Some(OldTimestamp),
                1,
            ),
            (segment(ACK, 0, 0, 5), Some(MissingTimestamp), 0),
            // Who has restarted without them is to hear of it (RFC 5961 §4.2).
            (segment(SYN, 0, 0, 0), Some(SynOnConnection), 1),
            (segment(SYN, -9000, 0, 0), Some(SynOnConnection), 1),
            // A RST needs none (§5.2).
            (segment(RST, 0, 0, 0), None, 0),
        ];
        for (wire, drop, replies) in rows {
            let mut host = host();
            host.arrive(&wire);
            assert_eq!(
                host.end.drops,
                drop.into_iter().collect::<Vec<_>>(),
                "{wire:?}"
            );
            assert_eq!(host.sent().len(), replies, "{wire:?}");
        }
    }

    #[test]
    fn after_24_days_of_silence_anything_is_new() {
        let mut host = host();
        host.wait(Duration::from_secs(24 * 24 * 3600 + 1));
        host.arrive(&with_timestamp(segment(ACK, 0, 0, 5), 99));
        assert_eq!(host.end.drops, [], "§5.5");
        assert_eq!(host.end.received.len(), 5);
    }

    #[test]
    fn the_earliest_unacknowledged_segment_is_echoed() {
        let mut host = host();
        host.arrive(&with_timestamp(segment(ACK, 0, 0, 5), 200));
        host.arrive(&with_timestamp(segment(ACK, 5, 0, 5), 300));
        host.wait(Duration::from_millis(40));
        assert_eq!(
            host.end.poll(host.now)[0].header.ts_echo,
            200,
            "§4.3 case A"
        );
        // A segment out of order is not echoed, the one that fills the gap is (§4.3 cases B and C).
        host.arrive(&with_timestamp(segment(ACK, 20, 0, 5), 400));
        assert_eq!(host.end.poll(host.now)[0].header.ts_echo, 200);
        host.arrive(&with_timestamp(segment(ACK, 10, 0, 10), 500));
        assert_eq!(host.end.poll(host.now)[0].header.ts_echo, 500);
    }
}
