//! Reports of the network, as connections in every state hear them.

use super::*;
use crate::testing::{ACK, Host, IRS, ISS, SYN, segment, starts, thousand};
use crate::{Config, CongestionControl};
use braidnet_wire::time::Duration;

/// The sequence number so far from our first byte.
fn at(offset: i32) -> SeqNumber {
    SeqNumber::new(ISS.wrapping_add(1).wrapping_add_signed(offset))
}

fn hear(host: &mut Host, offset: i32, report: Report) -> Heard {
    host.end.tcb.on_report(host.now, at(offset), report)
}

/// Class 36, RFC 5927 §4.1: SND.UNA =< SEG.SEQ < SND.NXT.
#[test]
fn what_is_not_on_its_way_is_not_heard() {
    for report in [
        Report::Refused,
        Report::Unreachable,
        Report::Undelivered,
        Report::TooLong { path_mtu: 600 },
    ] {
        let mut host = Host::in_state(State::Established, 500);
        host.arrive(&segment(ACK, 0, 100, 0));
        for offset in [-1, 0, 99, 500, 501, 1 << 30, i32::MIN] {
            assert_eq!(hear(&mut host, offset, report), Heard::NotOnItsWay);
        }
        assert!(!host.end.tcb.is_undelivered());
        for offset in [100, 499] {
            assert_ne!(hear(&mut host, offset, report), Heard::NotOnItsWay);
        }
        let mut host = Host::in_state(State::SynSent, 0);
        for offset in [-2, 0, 1] {
            assert_eq!(hear(&mut host, offset, report), Heard::NotOnItsWay);
        }
    }
    // Nothing is on its way.
    let mut host = Host::in_state(State::Established, 0);
    assert_eq!(hear(&mut host, 0, Report::Refused), Heard::NotOnItsWay);
}

/// RFC 1122 §4.2.3.9, RFC 5927 §5.2: what is for good ends an open, and nothing else.
#[test]
fn only_an_open_ends() {
    let rows = [
        (Report::Refused, Some(Events::REFUSED)),
        (Report::Unreachable, Some(Events::UNREACHABLE)),
        (Report::Undelivered, None),
    ];
    for (report, event) in rows {
        let mut host = Host::in_state(State::SynSent, 0);
        let expected = match event {
            Some(event) => Heard::Ended(event | Events::CLOSED),
            None => Heard::Noted,
        };
        assert_eq!(hear(&mut host, -1, report), expected);
        assert_eq!(host.end.is_closed(), event.is_some());
        for state in [
            State::SynReceived,
            State::Established,
            State::FinWait1,
            State::CloseWait,
            State::LastAck,
            State::Closing,
        ] {
            let mut host = Host::in_state(state, 100);
            let first = if state == State::SynReceived { -1 } else { 0 };
            assert_eq!(hear(&mut host, first, report), Heard::Noted, "{state:?}");
            assert_eq!(host.end.tcb.state(), state);
            assert!(host.end.tcb.is_undelivered());
        }
    }
}

/// What was said is void once something arrives.
#[test]
fn an_acknowledgment_says_otherwise() {
    let mut host = Host::in_state(State::Established, 500);
    assert_eq!(hear(&mut host, 0, Report::Unreachable), Heard::Noted);
    assert!(host.end.tcb.is_undelivered());
    host.arrive(&segment(ACK, 0, 1, 0));
    assert!(!host.end.tcb.is_undelivered());
}

/// Ten segments of 1000 bytes are in flight, and more waits.
fn flying() -> Host {
    let mut host = thousand(&Config {
        sack: true,
        congestion: CongestionControl::NewReno,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    });
    host.end.send(&[0; 40_000]);
    assert_eq!(host.sent().len(), 10);
    host
}

/// RFC 1191 §6.5: what did not fit is sent again at once, in segments that fit, and the window is not cut for it.
#[test]
fn what_is_too_long_goes_again_in_shorter_segments() {
    let mut host = flying();
    let before = host.end.tcb.status();
    let report = Report::TooLong { path_mtu: 640 };
    let reported = host.now;
    assert_eq!(hear(&mut host, 3000, report), Heard::Shortened);
    let sent = host.sent();
    assert!(sent.iter().all(|reply| reply.3 == 600), "{sent:?}");
    let expected: Vec<i32> = (0..10).map(|index| index * 600).collect();
    assert_eq!(starts(&sent), expected);
    let status = host.end.tcb.status();
    assert_eq!((status.smss, status.ssthresh), (600, before.cwnd));
    // The same again, from another that was on its way, changes nothing.
    assert_eq!(hear(&mut host, 3000, report), Heard::ShortEnough);
    assert_eq!(host.sent(), []);
    // All of it arrives, and the rest goes on as short.
    let mut acked = 0;
    let mut longest = 0;
    while acked < 40_000 {
        acked = (acked + 600).min(40_000);
        host.arrive(&segment(ACK, 0, acked, 0));
        longest = (host.sent().iter().map(|reply| reply.3)).fold(longest, usize::max);
        host.now += Duration::from_millis(1);
    }
    assert_eq!(longest, 600);
    assert_eq!(host.end.tcb.status().unsent_bytes, 0);
    // Nothing is waited for but that the path becomes wider (RFC 1191 §6.3).
    let again = reported + Duration::from_secs(600);
    assert_eq!(host.end.tcb.deadline(), Some(again));
}

/// Class 36: longer than what is sent, or less than any path has.
#[test]
fn a_path_only_becomes_shorter_and_not_too_short() {
    let mut host = flying();
    for path_mtu in [1040, 1041, 9000, u32::MAX] {
        let report = Report::TooLong { path_mtu };
        assert_eq!(hear(&mut host, 0, report), Heard::ShortEnough);
    }
    assert_eq!(host.sent(), []);
    let report = Report::TooLong { path_mtu: 0 };
    assert_eq!(hear(&mut host, 0, report), Heard::Shortened);
    assert_eq!(host.end.tcb.mss(), 88);
}

/// What is known of the path before the handshake is over bounds what it agrees on, and not what we announce.
#[test]
fn a_path_that_is_known_bounds_new_connections() {
    for timestamps in [false, true] {
        let config = Config {
            timestamps,
            ..Host::plain()
        };
        let mut host = Host::connect(&config);
        host.end.tcb.set_path_mtu(640);
        let mut answer = segment(SYN | ACK, -1, 0, 0);
        answer.header.seq = SeqNumber::new(IRS);
        answer.header.mss = 1460;
        answer.header.present =
            braidnet_wire::tcp::TcpHeader::HAS_MSS | braidnet_wire::tcp::TcpHeader::HAS_TIMESTAMPS;
        host.arrive(&answer);
        let options = if timestamps { 12 } else { 0 };
        assert_eq!(host.end.tcb.mss(), 600 - options);
        host.end.send(&[0; 3000]);
        let longest = host.sent().iter().map(|reply| reply.3).max();
        assert_eq!(longest, Some(600 - options as usize));
    }
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1460;
    syn.header.present = braidnet_wire::tcp::TcpHeader::HAS_MSS;
    let mut host = Host::accept(&Host::plain(), &syn);
    host.end.tcb.set_path_mtu(640);
    assert_eq!(host.end.tcb.mss(), 600);
}
