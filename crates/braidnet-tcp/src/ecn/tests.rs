//! What is agreed on, what is marked, what is told of it, and what the window does; the accurate kind is in [`counts`].

mod counts;

use super::*;
use crate::testing::{
    ACK, Bytes, ECN, End, Host, ISS, PSH, RST, SYN, Wire, reply, sack, segment, thousand, window,
};
use crate::{Config, Events, State};
use braidnet_wire::time::{Duration, Instant};

const ECE: u8 = TcpFlags::ECE.0;
const CWR: u8 = TcpFlags::CWR.0;

fn config(ecn: EcnMode) -> Config {
    Config {
        ecn,
        nagle: false,
        timestamps: false,
        ..Config::default()
    }
}

fn with(mut wire: Wire, ecn: u8) -> Wire {
    wire.header.present |= ecn;
    wire
}

/// What a listener answers to this SYN, and whether its data may be marked then.
fn answer(ecn: EcnMode, syn: &Wire) -> (u8, bool) {
    let now = Instant::from_millis(5000);
    let mut end = End::accept(&config(ecn), ISS, syn, now);
    let flags = end.poll(now)[0].header.flags.0;
    end.arrive(now, &segment(ACK, 0, 0, 0));
    end.send(b"y");
    (flags & ECN, end.poll(now)[0].header.ecn() != 0)
}

/// RFC 3168 §6.1.1.
#[test]
fn a_listener_agrees_to_what_it_is_asked_for() {
    let asks = || segment(SYN | ECN, -1, 0, 0);
    let rows = [
        (EcnMode::Passive, asks(), (ECE, true)),
        (EcnMode::On, asks(), (ECE, true)),
        (EcnMode::Off, asks(), (0, false)),
        (EcnMode::On, segment(SYN, -1, 0, 0), (0, false)),
        (EcnMode::On, segment(SYN | ECE, -1, 0, 0), (0, false)),
        (EcnMode::On, segment(SYN | CWR, -1, 0, 0), (0, false)),
        (EcnMode::On, with(asks(), TcpHeader::ECT_0), (0, false)),
        (EcnMode::On, with(asks(), TcpHeader::CE), (0, false)),
    ];
    for (mode, syn, expected) in rows {
        assert_eq!(answer(mode, &syn), expected, "{mode} {:?}", syn.header);
    }
}

/// A host whose SYN has these flags.
fn opening(ecn: EcnMode, asked: u8) -> (End, Instant) {
    let now = Instant::from_millis(5000);
    let mut end = End::connect(&config(ecn), ISS, now);
    let syn = &end.poll(now)[0];
    assert_eq!((syn.header.flags.0, syn.header.ecn()), (SYN | asked, 0));
    (end, now)
}

/// The ECN field of the first data after this SYN-ACK.
fn first_data(end: &mut End, now: Instant, answer: u8) -> u8 {
    end.arrive(now, &segment(SYN | ACK | answer, -1, 0, 0));
    end.send(b"y");
    let sent = end.poll(now);
    assert_eq!(sent.len(), 1, "with the ACK");
    sent[0].header.ecn()
}

/// RFC 3168 §6.1.1: a SYN-ACK agrees by ECE alone; one with both flags is the work of someone who sends back what he gets.
#[test]
fn an_active_opener_uses_what_it_is_granted() {
    let rows = [
        (EcnMode::On, ECN, ECE, TcpHeader::ECT_0),
        (EcnMode::On, ECN, ECN, 0),
        (EcnMode::On, ECN, CWR, 0),
        (EcnMode::On, ECN, 0, 0),
        (EcnMode::Passive, 0, ECE, 0),
        (EcnMode::Off, 0, ECE, 0),
    ];
    for (mode, asked, answer, expected) in rows {
        let (mut end, now) = opening(mode, asked);
        assert_eq!(
            first_data(&mut end, now, answer),
            expected,
            "{mode} {answer:#x}"
        );
    }
}

/// RFC 3168 §6.1.1.1; and §6.1.1: whoever has sent a SYN that did not ask marks nothing, but hears.
#[test]
fn a_syn_that_is_not_answered_goes_again_without_asking() {
    let (mut end, now) = opening(EcnMode::On, ECN);
    let now = now + Duration::from_secs(1);
    end.expire(now);
    assert_eq!(end.poll(now)[0].header.flags.0, SYN);
    // The answer to the first.
    assert_eq!(first_data(&mut end, now, ECE), 0);
    end.arrive(now, &with(segment(ACK, 0, 1, 5), TcpHeader::CE));
    assert_eq!(reply(&end.poll(now)[0]), (ACK | ECE, 1, 5, 0));
}

#[test]
fn a_syn_that_is_refused_goes_again_without_asking_once() {
    let (mut end, now) = opening(EcnMode::On, ECN);
    let refusal = segment(RST | ACK, 0, 0, 0);
    assert_eq!(end.arrive(now, &refusal), Events::empty());
    let sent = end.poll(now);
    assert_eq!(
        sent.iter().map(reply).collect::<Vec<_>>(),
        [(SYN, -1, 0, 0)]
    );
    let over = Events::REFUSED | Events::CLOSED;
    assert_eq!(end.arrive(now, &refusal), over);
    // Whoever has not asked is refused at once.
    let (mut end, now) = opening(EcnMode::Passive, 0);
    assert_eq!(end.arrive(now, &refusal), over);
}

/// The peer has given up asking: so have we.
#[test]
fn a_repeated_syn_that_does_not_ask_is_heeded() {
    let now = Instant::from_millis(5000);
    let asking = segment(SYN | ECN, -1, 0, 0);
    let mut end = End::accept(&config(EcnMode::Passive), ISS, &asking, now);
    end.poll(now);
    for (syn, expected) in [(asking, ECE), (segment(SYN, -1, 0, 0), 0)] {
        end.arrive(now, &syn);
        assert_eq!(end.poll(now)[0].header.flags.0 & ECN, expected);
    }
}

/// Both sides ask at the same time.
#[test]
fn simultaneous_openers_agree() {
    let (mut end, now) = opening(EcnMode::On, ECN);
    end.arrive(now, &segment(SYN | ECN, -1, 0, 0));
    assert_eq!(end.poll(now)[0].header.flags.0, SYN | ACK | ECE);
    end.arrive(now, &segment(ACK, 0, 0, 0));
    end.send(b"y");
    assert_eq!(end.poll(now)[0].header.ecn(), TcpHeader::ECT_0);
}

/// A connection over which we may mark, to a peer that takes segments of 1000 bytes.
fn marking(config: &Config) -> Host {
    let mut syn = segment(SYN | ECN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    let now = Instant::from_millis(5000);
    let mut host = Host {
        end: End::accept(config, ISS, &syn, now),
        now,
    };
    host.sent();
    host.now += Duration::from_millis(10);
    host.arrive(&segment(ACK, 0, 0, 0));
    host
}

/// What is sent, by ECN field.
fn fields(host: &mut Host) -> Vec<u8> {
    let sent = host.end.poll(host.now);
    sent.iter().map(|wire| wire.header.ecn()).collect()
}

/// RFC 3168 §6.1.3: from the mark on, until CWR; CWR and a mark at once are a mark.
#[test]
fn a_mark_is_told_of_until_the_peer_has_heard() {
    let mut host = marking(&config(EcnMode::Passive));
    let data = |flags, seq, ecn| with(segment(ACK | flags, seq, 0, 1000), ecn);
    // An acknowledgment, or what is outside the window (§6.1.5), says nothing.
    host.arrive(&with(segment(ACK, 0, 0, 0), TcpHeader::CE));
    host.arrive(&with(segment(ACK, -500, 0, 500), TcpHeader::CE));
    let rows = [
        (data(0, 0, TcpHeader::ECT_0), 0),
        (data(0, 1000, TcpHeader::CE), ECE),
        (data(0, 2000, TcpHeader::ECT_0), ECE),
        (data(0, 3000, TcpHeader::ECT_0), ECE),
        (data(CWR, 4000, TcpHeader::CE), ECE),
        (data(CWR, 5000, TcpHeader::ECT_0), 0),
        (data(0, 6000, TcpHeader::ECT_1), 0),
    ];
    host.sent();
    for (wire, expected) in rows {
        host.arrive(&wire);
        host.end.take(usize::MAX);
        host.end.send(b"y");
        let sent = host.end.poll(host.now);
        let flags = sent.last().map(|wire| wire.header.flags.0 & ECN);
        assert_eq!(flags, Some(expected), "{:?}", wire.header);
    }
}

/// A mark and the peer's answer to it are acknowledged at once.
#[test]
fn news_do_not_wait() {
    let mut host = marking(&config(EcnMode::Passive));
    host.arrive(&with(segment(ACK, 0, 0, 10), TcpHeader::CE));
    assert_eq!(host.sent(), [(ACK | ECE, 0, 10, 0)]);
    host.arrive(&with(segment(ACK, 10, 0, 10), TcpHeader::CE));
    assert_eq!(host.sent(), []);
    host.arrive(&with(segment(ACK | CWR, 20, 0, 10), TcpHeader::ECT_0));
    assert_eq!(host.sent(), [(ACK, 0, 30, 0)]);
}

/// RFC 3168 §6.1.4 to §6.1.6.
#[test]
fn only_new_data_may_be_marked() {
    let mut host = marking(&config(EcnMode::Passive));
    host.arrive(&segment(ACK, 0, 0, 3000));
    assert_eq!(fields(&mut host), [0], "an acknowledgment");
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 5000]);
    assert_eq!(fields(&mut host), [TcpHeader::ECT_0; 5]);
    host.arrive(&sack(0, &[(1000, 5000)]));
    assert_eq!(fields(&mut host), [0], "sent again");
    host.arrive(&window(5000, 0));
    host.end.send(b"y");
    assert_eq!(fields(&mut host), []);
    host.wait(Duration::from_secs(1));
    assert_eq!(fields(&mut host), [0], "a probe");
    host.arrive(&window(5001, 60_000));
    host.end.send(b"y");
    host.end.tcb.close(host.now);
    assert_eq!(fields(&mut host), [TcpHeader::ECT_0]);
    host.wait(Duration::from_secs(1));
    assert_eq!(fields(&mut host), [0], "data and FIN, sent again");
}

/// Without agreement marks and flags mean nothing.
#[test]
fn without_agreement_nothing_is_heard() {
    let mut host = thousand(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 10_000]);
    assert_eq!(fields(&mut host), [0; 10]);
    host.arrive(&with(segment(ACK | ECE, 0, 5000, 3000), TcpHeader::CE));
    assert_eq!(host.sent(), [(ACK, 10_000, 3000, 0)]);
    assert_eq!(host.end.tcb.status().cwnd, 10_000);
}

/// An ACK that tells of a mark.
fn told(ack: i32) -> Wire {
    segment(ACK | ECE, 0, ack, 0)
}

fn cut(host: &Host) -> (u32, u32) {
    let status = host.end.tcb.status();
    (status.cwnd, status.ssthresh)
}

/// RFC 3168 §6.1.2: once in a window, and told of on the first new data.
#[test]
fn the_window_is_cut_once_and_the_peer_told() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 60_000]);
    assert_eq!(host.sent().len(), 10);
    host.now += Duration::from_millis(10);
    host.arrive(&told(1000));
    assert_eq!(host.end.tcb.status().ssthresh, 7000);
    let mut sent = Vec::new();
    for ack in [2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000] {
        sent.extend(host.sent());
        host.arrive(&told(ack));
    }
    // A share of what arrives (RFC 6937): six for nine.
    sent.extend(host.sent());
    let expected: Vec<_> = (10..16)
        .map(|number| {
            (
                ACK | if number == 10 { CWR } else { 0 },
                number * 1000,
                0,
                1000,
            )
        })
        .collect();
    assert_eq!(sent, expected);
    // All that was on its way is there, and the peer may not have heard: not again.
    host.arrive(&told(10_000));
    assert_eq!(cut(&host), (7000, 7000));
    host.arrive(&segment(ACK | ECE, 0, 10_000, 10));
    assert_eq!(cut(&host), (7000, 7000));
    // It has, and there is a mark anew.
    host.arrive(&segment(ACK, 10, 11_000, 0));
    let grown = cut(&host).0;
    assert!(grown >= 7000);
    host.sent();
    host.arrive(&segment(ACK | ECE, 10, 12_000, 0));
    assert!(cut(&host).1 < 7000, "{:?}", cut(&host));
    assert!(!host.end.tcb.status().is_recovering());
}

/// What acknowledges more than was on its way when the window was cut, and tells of a mark, tells of another.
#[test]
fn a_mark_of_the_next_window_cuts_again() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 60_000]);
    host.sent();
    host.now += Duration::from_millis(10);
    for ack in [1000, 3000, 5000, 7000, 9000] {
        host.arrive(&told(ack));
        host.sent();
    }
    assert_eq!(host.end.tcb.status().ssthresh, 7000);
    // The first of it has told the peer that its marks are known (CWR).
    host.arrive(&told(12_000));
    let ssthresh = host.end.tcb.status().ssthresh;
    assert!(ssthresh <= 4900, "{ssthresh}");
}

/// No growth by what tells of a mark (RFC 3168 §6.1.2), nor a cut where all is acknowledged in one go: half of what was on its way.
#[test]
fn one_ack_for_all_cuts_by_what_was_on_its_way() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 30_000]);
    assert_eq!(host.sent().len(), 10);
    host.arrive(&told(10_000));
    assert_eq!(cut(&host), (7000, 7000));
    let sent = host.sent();
    assert_eq!(sent.len(), 7);
    assert_eq!((sent[0].0, sent[1].0), (ACK | CWR, ACK));
}

/// A loss in the same window is the same congestion; the first new data tells of either.
#[test]
fn a_loss_beside_a_mark_does_not_cut_twice() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 10_000]);
    host.sent();
    host.now += Duration::from_millis(10);
    host.arrive(&told(1000));
    assert_eq!(host.end.tcb.status().ssthresh, 7000);
    host.arrive(&sack(1000, &[(2000, 8000)]));
    assert_eq!(host.sent(), [(ACK, 1000, 0, 1000)]);
    assert!(host.end.tcb.status().is_recovering());
    assert_eq!(host.end.tcb.status().ssthresh, 7000);
    host.end.send(&[b'y'; 1000]);
    host.arrive(&told(10_000));
    assert_eq!(cut(&host), (7000, 7000));
    assert_eq!(host.sent(), [(ACK | PSH | CWR, 10_000, 0, 1000)]);
}

/// After a loss, too, the peer is told, and what it says of marks of that window changes nothing.
#[test]
fn a_mark_beside_a_loss_does_not_cut_twice() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 10_000]);
    host.sent();
    host.arrive(&sack(0, &[(1000, 9000)]));
    host.sent();
    let ssthresh = host.end.tcb.status().ssthresh;
    let mut wire = sack(0, &[(1000, 10_000)]);
    wire.header.flags.0 |= ECE;
    host.arrive(&wire);
    host.arrive(&told(10_000));
    assert_eq!(cut(&host), (ssthresh, ssthresh));
    host.end.send(&[b'y'; 1000]);
    assert_eq!(host.sent(), [(ACK | PSH | CWR, 10_000, 0, 1000)]);
}

/// RFC 3168 §6.1.2: from a window of one segment on, one for each timeout.
#[test]
fn a_window_of_one_segment_waits_for_the_timer() {
    let mut host = marking(&config(EcnMode::Passive));
    host.end.send(&[b'y'; 1000]);
    assert_eq!(host.sent().len(), 1);
    host.wait(Duration::from_secs(1));
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 1000)]);
    // The timeout leaves one segment; its ACK ends that.
    host.arrive(&segment(ACK, 0, 1000, 0));
    host.end.tcb.sender.congestion.reduce_to(1000);
    host.end.send(&[b'y'; 4000]);
    assert_eq!(host.sent(), [(ACK | CWR, 1000, 0, 1000)]);
    host.now += Duration::from_millis(10);
    host.arrive(&segment(ACK, 0, 1500, 0));
    host.arrive(&told(2000));
    host.end.tcb.sender.congestion.reduce_to(1000);
    assert_eq!(host.sent().len(), 1);
    host.arrive(&told(3000));
    assert_eq!(host.sent(), []);
    let deadline = host.end.tcb.deadline().expect("the timer");
    assert!(deadline >= host.now + Duration::from_millis(200));
    host.now = deadline;
    host.end.expire(deadline);
    let sent = host.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    host.arrive(&segment(ACK, 0, 4000, 0));
    assert!(!host.sent().is_empty());
    assert_eq!(host.end.tcb.state(), State::Established);
}
