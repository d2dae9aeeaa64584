//! The accurate kind (RFC 9768): what is agreed on, what is counted and told of, and what the window does.

use super::*;
use crate::DropReason;

/// A segment with this number in AE, CWR and ECE.
fn counting(mut wire: Wire, count: u8) -> Wire {
    put_count(&mut wire.header, count);
    wire
}

/// A listener's connection over which marks are counted.
fn accurate(field: u8) -> (Host, u8) {
    let mut syn = with(counting(segment(SYN, -1, 0, 0), 7), field);
    syn.header.mss = 1000;
    syn.header.present |= TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    let now = Instant::from_millis(5000);
    let end = End::accept(&config(EcnMode::Accurate), ISS, &syn, now);
    let mut host = Host { end, now };
    let answer = count_of(&host.end.poll(now)[0].header);
    host.now += Duration::from_millis(10);
    (host, answer)
}

/// RFC 9768 §3.1.1, table 2: who can count says how the SYN came, who cannot agrees to the classic kind or to none.
#[test]
fn a_listener_that_counts_says_how_the_syn_came() {
    let fields = [
        (0, 2),
        (TcpHeader::ECT_1, 3),
        (TcpHeader::ECT_0, 4),
        (TcpHeader::CE, 6),
    ];
    for (field, expected) in fields {
        assert_eq!(accurate(field).1, expected);
    }
    let rows = [
        (EcnMode::Accurate, 3, 1),
        (EcnMode::Accurate, 0, 0),
        (EcnMode::On, 7, 1),
        (EcnMode::Passive, 7, 1),
        (EcnMode::Off, 7, 0),
    ];
    for (mode, asked, expected) in rows {
        let syn = counting(segment(SYN, -1, 0, 0), asked);
        let now = Instant::from_millis(5000);
        let mut end = End::accept(&config(mode), ISS, &syn, now);
        assert_eq!(
            count_of(&end.poll(now)[0].header),
            expected,
            "{mode} {asked}"
        );
    }
}

/// §3.2.2.1, table 4: what the acknowledgment of our SYN-ACK says decides whether ours may be marked.
#[test]
fn a_field_that_is_changed_on_the_way_marks_nothing() {
    for (said, may) in [
        (0, false),
        (1, true),
        (2, true),
        (3, false),
        (4, false),
        (5, true),
        (6, false),
        (7, true),
    ] {
        let (mut host, _) = accurate(0);
        host.arrive(&counting(segment(ACK, 0, 0, 0), said));
        host.end.send(b"y");
        let sent = host.end.poll(host.now);
        assert_eq!(sent[0].header.ecn() != 0, may, "{said}");
        assert_eq!(count_of(&sent[0].header), 5);
    }
}

/// The client's side of both tables, and what each is followed by.
#[test]
fn an_opener_that_counts_takes_what_it_gets() {
    // The SYN-ACK's flags and field; our first acknowledgment's; whether our data may be marked.
    let rows = [
        (2, 0, 2, true),
        (2, TcpHeader::ECT_0, 4, true),
        (2, TcpHeader::CE, 6, true),
        (3, 0, 2, false),
        (4, 0, 2, false),
        (6, 0, 2, false),
        (1, 0, 0, true),
        (0, 0, 0, false),
        // Kept for later, and as good as 2 (§3.1.3).
        (5, 0, 2, true),
        (7, 0, 0, false),
    ];
    for (said, field, answer, may) in rows {
        let now = Instant::from_millis(5000);
        let mut end = End::connect(&config(EcnMode::Accurate), ISS, now);
        assert_eq!(count_of(&end.poll(now)[0].header), 7);
        end.arrive(
            now,
            &with(counting(segment(SYN | ACK, -1, 0, 0), said), field),
        );
        assert_eq!(count_of(&end.poll(now)[0].header), answer, "{said}");
        end.send(b"y");
        let sent = end.poll(now);
        let counts = (2..7).contains(&said);
        let came = 5 + u8::from(field == TcpHeader::CE);
        assert_eq!(count_of(&sent[0].header), u8::from(counts) * came, "{said}");
        assert_eq!(sent[0].header.ecn() != 0, may, "{said}");
    }
}

/// §3.1.4.1: once more, and then without.
#[test]
fn a_syn_that_asks_for_counts_is_repeated_once() {
    let now = Instant::from_millis(5000);
    let mut end = End::connect(&config(EcnMode::Accurate), ISS, now);
    let mut asked = vec![count_of(&end.poll(now)[0].header)];
    for _ in 0..2 {
        let at = end.tcb.deadline().unwrap();
        end.expire(at);
        asked.push(count_of(&end.poll(at)[0].header));
    }
    assert_eq!(asked, [7, 7, 0]);
}

/// §3.2.2: every mark counts, modulo 8, and is told of at once.
#[test]
fn marks_that_come_are_counted() {
    let (mut host, _) = accurate(0);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.sent();
    let mut told = Vec::new();
    for number in 0..10 {
        host.arrive(&with(
            counting(segment(ACK, number * 1000, 0, 1000), 5),
            TcpHeader::CE,
        ));
        host.end.take(usize::MAX);
        told.extend(
            host.end
                .poll(host.now)
                .iter()
                .map(|wire| count_of(&wire.header)),
        );
    }
    assert_eq!(told, [6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
    // Acknowledgments, too, count if they are marked.
    host.arrive(&with(
        counting(segment(ACK, 10_000, 0, 0), 5),
        TcpHeader::CE,
    ));
    host.end.send(b"y");
    assert_eq!(count_of(&host.end.poll(host.now)[0].header), 0);
}

/// §3.2.2: the window is cut once in a round trip, by whatever is more than before, and nobody is told.
#[test]
fn marks_that_are_counted_cut_the_window() {
    let (mut host, _) = accurate(0);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.end.send(&[b'y'; 40_000]);
    assert_eq!(fields(&mut host), [TcpHeader::ECT_0; 10]);
    host.now += Duration::from_millis(10);
    host.arrive(&counting(segment(ACK, 0, 1000, 0), 5));
    assert_eq!(host.end.tcb.status().ssthresh, 1 << 30, "as it was");
    host.sent();
    host.arrive(&counting(segment(ACK, 0, 2000, 0), 6));
    let ssthresh = host.end.tcb.status().ssthresh;
    assert!(ssthresh < 10_000, "{ssthresh}");
    host.arrive(&counting(segment(ACK, 0, 3000, 0), 0));
    assert_eq!(host.end.tcb.status().ssthresh, ssthresh);
    // The same acknowledgment with an older count comes late.
    host.arrive(&counting(segment(ACK, 0, 3000, 0), 6));
    let sent = host.end.poll(host.now);
    assert!(
        sent.iter().all(|wire| count_of(&wire.header) == 5),
        "no CWR"
    );
    host.arrive(&counting(segment(ACK, 0, 11_000, 0), 0));
    host.sent();
    host.arrive(&counting(segment(ACK, 0, 14_000, 0), 0));
    assert_eq!(host.end.tcb.status().ssthresh, ssthresh);
}

/// A mark is heard of once only: in the acknowledgment that leaves the window which was cut, too.
#[test]
fn a_mark_of_the_next_window_that_is_counted_cuts_again() {
    let (mut host, _) = accurate(0);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.end.send(&[b'y'; 40_000]);
    host.sent();
    host.now += Duration::from_millis(10);
    for ack in [1000, 3000, 5000, 7000, 9000] {
        host.arrive(&counting(segment(ACK, 0, ack, 0), 6));
        host.sent();
    }
    let ssthresh = host.end.tcb.status().ssthresh;
    assert!(ssthresh < 10_000, "{ssthresh}");
    host.arrive(&counting(segment(ACK, 0, 12_000, 0), 7));
    host.sent();
    let again = host.end.tcb.status().ssthresh;
    assert!(again < ssthresh, "{again}");
    host.arrive(&counting(segment(ACK, 0, 13_000, 0), 7));
    assert_eq!(host.end.tcb.status().ssthresh, again);
}

/// §3.2.2.1: what answers the SYN-ACK counts nothing, also where it acknowledges data that left before (RFC 7413 §4.2.2).
#[test]
fn an_answer_that_acknowledges_early_data_counts_nothing() {
    let mut syn = counting(segment(SYN, -1, 0, 0), 7);
    syn.header.mss = 1000;
    syn.header.present |= TcpHeader::HAS_MSS;
    let now = Instant::from_millis(5000);
    let mut end = End::accept(&config(EcnMode::Accurate), ISS, &syn, now);
    let mut sink: Vec<Bytes> = Vec::new();
    assert_eq!(end.tcb.open_early(now, None, &mut sink), None);
    let mut host = Host { end, now };
    host.end.send(&[b'y'; 3000]);
    host.sent();
    let before = host.end.tcb.status().ssthresh;
    host.arrive(&counting(segment(ACK, 0, 1000, 0), 2));
    assert_eq!(host.end.tcb.status().snd_una, SeqNumber::new(ISS) + 1001);
    host.arrive(&counting(segment(ACK, 0, 2000, 0), 5));
    assert_eq!(host.end.tcb.status().ssthresh, before);
    host.arrive(&counting(segment(ACK, 0, 3000, 0), 6));
    assert!(host.end.tcb.status().ssthresh < before);
}

/// §3.1.3: what flags that are kept for later will mean, nobody knows; it begins with the accurate kind.
#[test]
fn flags_that_are_kept_for_later_ask_for_counts() {
    for (mode, asked, expected) in [
        (EcnMode::Accurate, 1, 2),
        (EcnMode::Accurate, 2, 2),
        (EcnMode::Accurate, 4, 2),
        (EcnMode::Accurate, 5, 2),
        (EcnMode::Accurate, 6, 2),
        (EcnMode::On, 1, 0),
        (EcnMode::On, 5, 0),
        (EcnMode::Passive, 2, 0),
    ] {
        let syn = counting(segment(SYN, -1, 0, 0), asked);
        let now = Instant::from_millis(5000);
        let mut end = End::accept(&config(mode), ISS, &syn, now);
        let said = count_of(&end.poll(now)[0].header);
        assert_eq!(said, expected, "{mode} {asked}");
    }
}

/// A client, its SYN sent, and whether data waited when the SYN-ACK came.
fn client(waits: bool) -> (Host, Vec<(u8, usize)>) {
    let now = Instant::from_millis(5000);
    let mut end = End::connect(&config(EcnMode::Accurate), ISS, now);
    end.poll(now);
    if waits {
        end.send(&[b'y'; 500]);
    }
    let mut host = Host { end, now };
    host.now += Duration::from_millis(10);
    host.arrive(&counting(segment(SYN | ACK, -1, 0, 0), 2));
    let told = told_by(&mut host);
    (host, told)
}

/// What is sent: what it tells, and bytes of data.
fn told_by(host: &mut Host) -> Vec<(u8, usize)> {
    let sent = host.end.poll(host.now);
    (sent.iter())
        .map(|wire| (count_of(&wire.header), wire.data.len()))
        .collect()
}

/// §3.2.2.1: what is said of the SYN-ACK goes alone, before data that waits, and never later, when it would be a count.
#[test]
fn what_is_said_of_a_syn_ack_goes_alone_and_first() {
    assert_eq!(client(false).1, [(2, 0)]);
    let (mut host, told) = client(true);
    assert_eq!(told, [(2, 0), (5, 500)]);
    host.arrive(&counting(segment(ACK, 0, 500, 3000), 5));
    assert_eq!(told_by(&mut host), [(5, 0)]);
}

/// §3.2.2.1: so is what is said of a SYN-ACK that comes again; it counts once if it is marked (§3.2.2.2), however often it comes.
#[test]
fn a_repeated_syn_ack_is_answered_like_the_first() {
    let (mut host, _) = client(false);
    for field in [0, TcpHeader::CE, TcpHeader::CE] {
        host.arrive(&with(counting(segment(SYN | ACK, -1, 0, 0), 2), field));
        let code = code_of(field);
        assert_eq!(told_by(&mut host), [(code, 0)]);
    }
    // Without the accurate kind it says what every acknowledgment says.
    host.arrive(&counting(segment(SYN | ACK, -1, 0, 0), 1));
    assert_eq!(told_by(&mut host), [(6, 0)]);
    host.end.send(b"y");
    assert_eq!(told_by(&mut host), [(6, 1)]);
}

/// §3.1.5: the first SYN decides which kind it is; one that does not ask is answered as asked before, and nothing may be marked.
#[test]
fn a_repeated_syn_changes_nothing_but_what_may_be_marked() {
    let (mut host, answer) = accurate(TcpHeader::ECT_0);
    assert_eq!(answer, 4);
    // What is said is of the last that came.
    host.arrive(&with(counting(segment(SYN, -1, 0, 0), 7), TcpHeader::ECT_1));
    assert_eq!(told_by(&mut host), [(3, 0)]);
    host.arrive(&segment(SYN, -1, 0, 0));
    assert_eq!(told_by(&mut host), [(2, 0)]);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.arrive(&with(counting(segment(ACK, 0, 0, 1000), 5), TcpHeader::CE));
    assert_eq!(told_by(&mut host), [(6, 0)]);
    host.end.send(b"y");
    let sent = host.end.poll(host.now);
    assert_eq!(sent[0].header.ecn(), 0);
}

/// §3.1.5: who asks for both kinds in one handshake gets none.
#[test]
fn a_syn_that_asks_otherwise_is_reset() {
    for (first, second, reset) in [(7, 3, true), (3, 7, true), (3, 5, true), (7, 5, false)] {
        let now = Instant::from_millis(5000);
        let syn = counting(segment(SYN, -1, 0, 0), first);
        let mut end = End::accept(&config(EcnMode::Accurate), ISS, &syn, now);
        end.poll(now);
        end.arrive(now, &counting(segment(SYN, -1, 0, 0), second));
        let flags = end.poll(now)[0].header.flags.0 & (RST | SYN);
        assert_eq!(flags, if reset { RST } else { SYN }, "{first} {second}");
        assert_eq!(end.tcb.state() == State::Closed, reset);
        let reason = match reset {
            true => DropReason::OtherEcnSetup,
            false => DropReason::DuplicateSyn,
        };
        assert_eq!(end.drops, [reason]);
    }
}

/// §3.2.3.2.2: a SYN-ACK that is not answered twice asks for nothing; what was agreed on stays.
#[test]
fn a_syn_ack_that_is_not_answered_says_less() {
    let (mut host, _) = accurate(0);
    let mut told = Vec::new();
    for _ in 0..2 {
        host.now = host.end.tcb.deadline().unwrap();
        host.end.expire(host.now);
        told.extend(told_by(&mut host));
    }
    assert_eq!(told, [(2, 0), (0, 0)]);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.end.send(b"y");
    let sent = host.end.poll(host.now);
    assert_eq!((count_of(&sent[0].header), sent[0].header.ecn()), (5, 0));
}

/// §3.1.5: what a peer says that counts is heeded though nothing of ours may be marked; not where its count is cleared (§3.2.2.1,
/// note 1).
#[test]
fn marks_are_heeded_where_nothing_should_be_marked() {
    for (answer, heeded) in [(3, true), (4, true), (0, false)] {
        let (mut host, _) = accurate(0);
        host.arrive(&counting(segment(ACK, 0, 0, 0), answer));
        host.end.send(&[b'y'; 40_000]);
        assert_eq!(fields(&mut host), [0; 10]);
        host.now += Duration::from_millis(10);
        host.arrive(&counting(segment(ACK, 0, 2000, 0), 6));
        let cut = host.end.tcb.status().ssthresh < 10_000;
        assert_eq!(cut, heeded, "{answer}");
    }
}

/// §3.2.2.2: a mark on a SYN or SYN-ACK is one of congestion.
#[test]
fn a_mark_in_the_handshake_makes_a_careful_start() {
    for (said, window) in [(2, 10_000), (6, 1000)] {
        let (mut host, _) = accurate(0);
        host.arrive(&counting(segment(ACK, 0, 0, 0), said));
        assert_eq!(host.end.tcb.status().cwnd, window, "{said}");
        let now = Instant::from_millis(5000);
        let mut end = End::connect(&config(EcnMode::Accurate), ISS, now);
        end.poll(now);
        let mut answer = counting(segment(SYN | ACK, -1, 0, 0), said);
        answer.header.mss = 1000;
        answer.header.present |= TcpHeader::HAS_MSS;
        end.arrive(now, &answer);
        assert_eq!(end.tcb.status().cwnd, window, "{said}");
    }
}

/// §3.2.2.5.1: marked acknowledgments are acknowledged before the count could come round; anything that leaves tells of them.
#[test]
fn marked_acknowledgments_are_told_of() {
    let (mut host, _) = accurate(0);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.end.send(&[b'y'; 10_000]);
    host.end.poll(host.now);
    let mut told = Vec::new();
    for ack in 1..=7 {
        let wire = counting(segment(ACK, 0, ack * 1000, 0), 5);
        host.arrive(&with(wire, TcpHeader::CE));
        if ack == 2 {
            host.end.send(b"y");
        }
        told.push(told_by(&mut host));
    }
    let expected: [&[_]; 7] = [&[], &[(7, 1)], &[], &[], &[(2, 0)], &[], &[]];
    assert_eq!(told, expected);
}

/// §3.2.2.2: an acknowledgment that selectively acknowledges something new is no old one.
#[test]
fn a_count_beside_new_blocks_is_heard() {
    let (mut host, _) = accurate(0);
    host.arrive(&counting(segment(ACK, 0, 0, 0), 2));
    host.end.send(&[b'y'; 10_000]);
    host.end.poll(host.now);
    host.now += Duration::from_millis(10);
    host.arrive(&counting(sack(0, &[(1000, 2000)]), 6));
    assert!(host.end.tcb.status().ssthresh < 10_000);
    assert!(!host.end.tcb.status().is_recovering());
}
