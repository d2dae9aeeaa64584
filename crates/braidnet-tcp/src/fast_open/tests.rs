//! Data on SYNs, from both sides.

use super::*;
use crate::testing::{ACK, Bytes, End, FIN, Host, PSH, RST, Reply, SYN, Wire, reply, segment};
use crate::{Config, Events};
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::time::Duration;

const COOKIE: [u8; 8] = *b"biscuit!";

fn cookie() -> FastOpenCookie {
    FastOpenCookie::new(&COOKIE).unwrap()
}

/// Without options, and without Nagle's rule to think of.
fn plain() -> Config {
    Config {
        nagle: false,
        ..Host::plain()
    }
}

/// A client that has `data` to send and knows this of the server, and its first SYN.
fn client(config: &Config, known: Option<KnownServer>, data: &[u8]) -> (Host, Wire) {
    let now = Instant::from_millis(5000);
    let mut end = End::connect(config, crate::testing::ISS, now);
    end.tcb.ask_fast_open(known);
    end.send(data);
    let mut sent = end.poll(now);
    assert_eq!(sent.len(), 1);
    (Host { end, now }, sent.remove(0))
}

fn known(mss: u16) -> Option<KnownServer> {
    Some(KnownServer {
        cookie: cookie(),
        mss,
    })
}

/// A server that has accepted a SYN with `data` early.
fn server(data: &[u8]) -> Host {
    let now = Instant::from_millis(5000);
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS;
    let mut end = End::accept(&plain(), crate::testing::ISS, &syn, now);
    let mut sink: Vec<Bytes> = Vec::new();
    let cut = end
        .tcb
        .open_early(now, Some(Bytes(data.to_vec())), &mut sink);
    assert_eq!(cut, None);
    end.received = sink.into_iter().flat_map(|bytes| bytes.0).collect();
    Host { end, now }
}

fn syn_ack(acked: i32, option: Option<FastOpenCookie>) -> Wire {
    let mut wire = segment(SYN | ACK, -1, acked, 0);
    wire.header.mss = 1200;
    wire.header.present = TcpHeader::HAS_MSS;
    if let Some(cookie) = option {
        wire.header = wire.header.with_fast_open(cookie);
    }
    wire
}

#[test]
fn choices_are_read_as_written() {
    for choice in FastOpen::ALL {
        assert_eq!(choice.to_string().parse(), Ok(choice));
        assert_eq!(choice.listening(choice.listens()), choice);
        assert!(choice.listening(true).listens());
        assert_eq!(choice.listening(false).connects(), choice.connects());
    }
    assert!("On".parse::<FastOpen>().is_err());
}

#[test]
fn cookies_are_of_both_addresses_the_secret_and_the_period() {
    let keys = CookieKeys {
        secret: [3, 4],
        period: Duration::from_secs(100),
        shared: None,
    };
    let at = Instant::from_millis;
    let tuple = Tuple {
        local: Address::v4([10, 0, 0, 1]),
        remote: Address::v4([10, 0, 0, 2]),
        local_port: 80,
        remote_port: 4000,
    };
    let given = keys.cookie(&tuple, at(250_000));
    assert_eq!(given.as_bytes().len(), 8);
    let another_port = Tuple {
        remote_port: 4001,
        ..tuple
    };
    let checks = [
        (tuple, 250_000, Some(Freshness::Fresh)),
        (another_port, 299_999, Some(Freshness::Fresh)),
        (tuple, 300_000, Some(Freshness::Old)),
        (tuple, 399_999, Some(Freshness::Old)),
        (tuple, 400_000, None),
        (tuple, 199_999, None),
        (tuple.reversed(), 250_000, None),
    ];
    for (tuple, millis, good) in checks {
        assert_eq!(keys.check(&given, &tuple, at(millis)), good, "{millis}");
    }
    let other = CookieKeys {
        secret: [3, 5],
        ..keys
    };
    assert_eq!(other.check(&given, &tuple, at(250_000)), None);
    let request = FastOpenCookie::REQUEST;
    assert_eq!(keys.check(&request, &tuple, at(250_000)), None);
}

#[test]
fn a_client_that_knows_nothing_asks_and_sends_its_data_afterwards() {
    let (mut host, syn) = client(&plain(), None, b"hello");
    assert_eq!(reply(&syn), (SYN, -1, 0, 0));
    assert_eq!(syn.header.fast_open(), Some(FastOpenCookie::REQUEST));
    host.arrive(&syn_ack(0, Some(cookie())));
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 5)]);
    let learned = KnownServer {
        cookie: cookie(),
        mss: 1200,
    };
    assert_eq!(
        host.end.tcb.take_fast_opened(),
        Some(FastOpened {
            learned: Some(learned),
            fate: SynFate::Asked
        })
    );
    assert_eq!(host.end.tcb.take_fast_opened(), None);
}

#[test]
fn a_server_that_names_hardly_any_segment_size_is_known_for_the_least() {
    for (named, kept) in [(0, 88), (87, 88), (89, 89)] {
        let (mut host, _) = client(&plain(), None, b"hello");
        let mut answer = syn_ack(0, Some(cookie()));
        answer.header.mss = named;
        host.arrive(&answer);
        let opened = host.end.tcb.take_fast_opened().unwrap();
        assert_eq!(opened.learned.map(|learned| learned.mss), Some(kept));
    }
}

#[test]
fn a_client_that_knows_a_cookie_sends_a_segment_of_data_with_it() {
    // The MSS that it knows counts, its own, and the options of the SYN.
    let rows = [(1200, 1200 - 16), (9000, 1460 - 16), (80, 80 - 16)];
    for (mss, carried) in rows {
        let (_, syn) = client(&plain(), known(mss), &[7; 3000]);
        assert_eq!(reply(&syn), (SYN, -1, 0, carried), "{mss}");
        assert_eq!(syn.header.fast_open(), Some(cookie()));
    }
    let now = Instant::ZERO;
    let mut end = End::connect(&plain(), 1, now);
    end.tcb.set_path_mtu(600);
    end.tcb.ask_fast_open(known(1200));
    end.send(&[7; 3000]);
    assert_eq!(end.poll(now)[0].data.len(), 600 - 40 - 16);
}

/// What follows a SYN with 2,000 bytes to send, 1,184 of them on it, once the SYN-ACK acknowledges some.
#[test]
fn what_the_syn_ack_does_not_acknowledge_is_sent_at_once() {
    let rows: [(i32, Option<FastOpenCookie>, SynFate, &[Reply]); 4] = [
        (1184, None, SynFate::Taken, &[(ACK | PSH, 1184, 0, 816)]),
        (
            0,
            None,
            SynFate::Refused,
            &[(ACK, 0, 0, 1200), (ACK | PSH, 1200, 0, 800)],
        ),
        (
            0,
            FastOpenCookie::new(b"tart"),
            SynFate::Refused,
            &[(ACK, 0, 0, 1200), (ACK | PSH, 1200, 0, 800)],
        ),
        (
            500,
            None,
            SynFate::Taken,
            &[(ACK, 500, 0, 1200), (ACK | PSH, 1700, 0, 300)],
        ),
    ];
    for (acked, fresh, fate, expected) in rows {
        let (mut host, syn) = client(&plain(), known(1200), &[7; 2000]);
        assert_eq!(syn.data.len(), 1184);
        let events = host.arrive(&syn_ack(acked, fresh));
        assert_eq!(events.contains(Events::ACKED), acked > 0);
        assert_eq!(host.sent(), expected, "{acked}");
        let opened = host.end.tcb.take_fast_opened().unwrap();
        assert_eq!(opened.fate, fate);
        let kept = (acked > 0).then(cookie);
        assert_eq!(
            opened.learned.map(|server| server.cookie),
            fresh.or(kept),
            "{acked}"
        );
        // Then all is as ever.
        host.arrive(&segment(ACK, 0, 2000, 0));
        assert_eq!(host.end.tcb.status().snd_una, host.end.tcb.status().snd_nxt);
        assert_eq!(host.end.tcb.deadline(), None);
    }
}

/// What Nagle's rule would keep back has left before, with the SYN.
#[test]
fn nagles_rule_does_not_hold_back_what_the_syn_has_carried() {
    let nagle = Config {
        nagle: true,
        ..plain()
    };
    let rows: [(i32, &[Reply]); 3] = [
        (0, &[(ACK, 0, 0, 800), (ACK | PSH, 800, 0, 300)]),
        (100, &[(ACK, 100, 0, 800), (ACK | PSH, 900, 0, 200)]),
        // All that is left is new.
        (900, &[(ACK | PSH, 900, 0, 200)]),
    ];
    for (acked, expected) in rows {
        let (mut host, syn) = client(&nagle, known(1200), &[7; 1100]);
        assert_eq!(syn.data.len(), 1100);
        let mut answer = syn_ack(acked, None);
        answer.header.mss = 800;
        host.arrive(&answer);
        assert_eq!(host.sent(), expected, "{acked}");
        // What comes later waits for its answer.
        host.end.send(&[7; 50]);
        assert_eq!(host.sent(), [], "{acked}");
        host.arrive(&segment(ACK, 0, 1100, 0));
        assert_eq!(host.sent(), [(ACK | PSH, 1100, 0, 50)], "{acked}");
    }
}

#[test]
fn a_syn_that_is_sent_again_carries_neither_data_nor_option() {
    let (mut host, syn) = client(&plain(), known(1200), b"hello");
    assert_eq!(reply(&syn), (SYN, -1, 0, 5));
    host.wait(Duration::from_secs(1));
    let again = host.end.poll(host.now).remove(0);
    assert_eq!(reply(&again), (SYN, -1, 0, 0));
    assert_eq!(again.header.fast_open(), None);
    // The answer may be to either.
    let mut late = syn_ack(5, None);
    late.header.mss = 1000;
    assert!(host.arrive(&late).contains(Events::ACKED));
    assert_eq!(host.sent(), [(ACK, 5, 0, 0)]);
    assert_eq!(
        host.end.tcb.take_fast_opened().map(|opened| opened.fate),
        Some(SynFate::Taken)
    );
    let (mut host, _) = client(&plain(), known(1200), b"hello");
    host.wait(Duration::from_secs(1));
    host.sent();
    host.arrive(&syn_ack(0, None));
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 5)]);
    let opened = host.end.tcb.take_fast_opened().unwrap();
    assert_eq!((opened.fate, opened.learned), (SynFate::Unanswered, None));
}

#[test]
fn a_connection_that_ends_before_an_answer_says_so() {
    let (mut host, _) = client(&plain(), known(1200), b"hello");
    assert_eq!(host.end.tcb.take_fast_opened(), None);
    assert!(
        host.arrive(&segment(RST | ACK, -1, 5, 0))
            .contains(Events::REFUSED)
    );
    assert_eq!(
        host.end.tcb.take_fast_opened().map(|opened| opened.fate),
        Some(SynFate::Unanswered)
    );
}

/// A SYN that asked for marks is not sent again where it was not refused, but has opened a connection that is over.
#[test]
fn a_reset_of_what_the_data_have_opened_is_no_refusal() {
    let asking = Config {
        ecn: crate::EcnMode::On,
        ..plain()
    };
    for (seq, goes_again) in [(0, true), (0x5000, false)] {
        let (mut host, _) = client(&asking, known(1000), b"question");
        let mut reset = segment(RST | ACK, 0, 8, 0);
        reset.header.seq = SeqNumber::new(seq);
        let events = host.arrive(&reset);
        assert_eq!(events.contains(Events::REFUSED), !goes_again, "{seq}");
        assert_eq!(host.sent().len(), usize::from(goes_again), "{seq}");
    }
}

#[test]
fn what_acknowledges_more_than_the_syn_carried_is_none_of_ours() {
    let (mut host, _) = client(&plain(), known(1200), b"hello");
    assert_eq!(host.arrive(&syn_ack(6, None)), Events::empty());
    assert_eq!(host.end.drops, [DropReason::AckNotOfSyn]);
    assert_eq!(host.sent(), [(RST, 6, 0, 0)]);
}

#[test]
fn in_a_simultaneous_open_the_data_go_with_the_handshakes_end() {
    let (mut host, _) = client(&plain(), known(1200), b"hello");
    host.arrive(&segment(SYN, -1, 0, 0));
    assert_eq!(host.sent(), [(SYN | ACK, -1, 0, 0)]);
    host.arrive(&segment(ACK, 0, 0, 0));
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 5)]);
}

#[test]
fn a_server_delivers_what_the_syn_brings_and_answers_behind_its_syn_ack() {
    let mut host = server(b"question");
    assert_eq!(host.end.received, b"question");
    assert!(host.end.tcb.has_opened_fast());
    host.end.send(&[1; 2500]);
    assert_eq!(
        host.sent(),
        [
            (SYN | ACK, -1, 8, 0),
            (ACK, 0, 8, 1000),
            (ACK, 1000, 8, 1000),
            (ACK | PSH, 2000, 8, 500),
        ]
    );
    assert_eq!(host.arrive(&segment(ACK, 8, 0, 0)), Events::CONNECTED);
    assert_eq!(host.sent(), []);
    assert_eq!(host.end.tcb.status().pipe, 2500);
    assert_eq!(host.arrive(&segment(ACK, 8, 1000, 0)), Events::ACKED);
    assert_eq!(
        host.arrive(&segment(ACK | FIN, 8, 2500, 0)),
        Events::ACKED | Events::END_OF_DATA
    );
    assert_eq!(host.end.drops, []);
}

#[test]
fn what_ends_the_handshake_may_acknowledge_data() {
    let mut host = server(b"question");
    host.end.send(&[1; 1500]);
    host.sent();
    let events = host.arrive(&segment(ACK, 8, 1500, 3));
    assert_eq!(events, Events::CONNECTED | Events::ACKED);
    assert_eq!(host.end.received, b"questionxxx");
    assert_eq!(host.end.tcb.status().pipe, 0);
    let mut host = server(b"question");
    host.end.send(&[1; 1500]);
    host.sent();
    host.arrive(&segment(ACK, 8, 1501, 0));
    assert_eq!(host.end.drops, [DropReason::BadHandshakeAck]);
}

#[test]
fn before_the_handshake_is_over_initial_window_and_the_syns_window_bound_what_leaves() {
    let mut host = server(b"question");
    host.end.send(&[1; 100_000]);
    // The SYN announced 60,000 bytes; the initial window is ten segments.
    let sent: usize = host.sent().iter().map(|reply| reply.3).sum();
    assert_eq!(sent, 10_000);
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.window = 2 * 536;
    let now = Instant::from_millis(5000);
    let mut end = End::accept(&plain(), crate::testing::ISS, &syn, now);
    end.tcb.open_early(now, None, &mut Vec::new());
    end.send(&[1; 10_000]);
    let sent: usize = end.poll(now).iter().map(|wire| wire.data.len()).sum();
    assert_eq!(sent, 2 * 536);
}

#[test]
fn a_syn_ack_that_is_lost_goes_again_alone_and_so_do_the_data_afterwards() {
    let mut host = server(b"question");
    host.end.send(&[1; 1500]);
    assert_eq!(host.sent().len(), 3);
    host.wait(Duration::from_secs(1));
    assert_eq!(host.sent(), [(SYN | ACK, -1, 8, 0)]);
    host.arrive(&segment(ACK, 8, 0, 0));
    // One segment: a SYN-ACK was lost (RFC 6928 §2).
    assert_eq!(host.sent(), [(ACK, 0, 8, 1000)]);
    host.arrive(&segment(ACK, 8, 1000, 0));
    assert_eq!(host.sent(), [(ACK | PSH, 1000, 8, 500)]);
    host.arrive(&segment(ACK, 8, 1500, 0));
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn data_lost_behind_a_syn_ack_that_arrived_are_sent_again_by_the_timer() {
    let mut host = server(b"question");
    host.end.send(&[1; 500]);
    host.sent();
    host.wait(Duration::from_millis(100));
    host.arrive(&segment(ACK, 8, 0, 0));
    assert_eq!(host.sent(), []);
    let deadline = host.end.tcb.deadline().expect("something is on its way");
    assert!(deadline <= host.now + Duration::from_secs(1));
    host.now = deadline;
    host.end.expire(deadline);
    assert_eq!(host.sent(), [(ACK | PSH, 0, 8, 500)]);
}

#[test]
fn the_same_syn_again_is_answered_and_not_delivered_twice() {
    let mut host = server(b"question");
    host.sent();
    let mut again = segment(SYN, -1, 0, 0);
    again.data = b"question".to_vec();
    host.arrive(&again);
    assert_eq!(host.sent(), [(SYN | ACK, -1, 8, 0)]);
    assert_eq!(host.end.received, b"question");
    assert_eq!(host.end.drops, [DropReason::DuplicateSyn]);
    host.arrive(&segment(ACK, 8, 0, 0));
    host.arrive(&again);
    assert_eq!(host.end.received, b"question");
}

#[test]
fn a_close_waits_for_the_handshake_and_the_answer_does_not() {
    let mut host = server(b"question");
    host.end.send(b"answer");
    host.end.tcb.close(host.now);
    assert_eq!(host.sent(), [(SYN | ACK, -1, 8, 0), (ACK | PSH, 0, 8, 6)]);
    host.arrive(&segment(ACK, 8, 6, 0));
    assert_eq!(host.sent(), [(FIN | ACK, 6, 8, 0)]);
}

#[test]
fn a_window_too_small_cuts_what_the_syn_brings() {
    let now = Instant::from_millis(5000);
    let config = Config {
        receive_buffer_bytes: 5,
        ..plain()
    };
    let syn = segment(SYN, -1, 0, 0);
    let mut end = End::accept(&config, crate::testing::ISS, &syn, now);
    let mut sink: Vec<Bytes> = Vec::new();
    let cut = end
        .tcb
        .open_early(now, Some(Bytes(b"question".to_vec())), &mut sink);
    assert_eq!(cut, Some(DropReason::PartlyBeyondWindow));
    assert_eq!(sink, [Bytes(b"quest".to_vec())]);
    let mut host = Host { end, now };
    assert_eq!(host.sent(), [(SYN | ACK, -1, 5, 0)]);
}

#[test]
fn a_reset_ends_an_early_connection_at_the_edge_only() {
    let mut host = server(b"question");
    host.sent();
    host.arrive(&segment(RST, 0, 0, 0));
    assert_eq!(host.end.drops, [DropReason::OldSegment]);
    let events = host.arrive(&segment(RST, 8, 0, 0));
    assert_eq!(events, Events::RESET | Events::CLOSED);
}

#[test]
fn a_syn_that_comes_again_and_again_does_not_hold_the_handshake_open() {
    let mut host = server(b"question");
    host.end.send(b"answer");
    host.sent();
    let again = segment(SYN, -1, 0, 0);
    for _ in 0..1000 {
        host.wait(Duration::from_millis(600));
        host.arrive(&again);
        host.sent();
    }
    assert!(host.end.events.contains(Events::TIMED_OUT));
    assert!(host.end.is_closed());
}

#[test]
fn a_cookie_that_went_without_data_stays_known() {
    let (mut host, syn) = client(&plain(), known(1200), b"");
    assert_eq!(reply(&syn), (SYN, -1, 0, 0));
    assert_eq!(syn.header.fast_open(), Some(cookie()));
    host.arrive(&syn_ack(0, None));
    let opened = host.end.tcb.take_fast_opened().unwrap();
    assert_eq!((opened.fate, opened.learned), (SynFate::Asked, known(1200)));
}

#[test]
fn a_period_of_any_length_divides_time() {
    let keys = CookieKeys {
        secret: [1, 2],
        // 2^64 nanoseconds.
        period: Duration::new(18_446_744_073, 709_551_616),
        shared: None,
    };
    let cookie = keys.cookie(&Tuple::default(), Instant::ZERO);
    let later = Instant::ZERO + Duration::from_secs(9_000_000_000);
    assert_eq!(
        keys.check(&cookie, &Tuple::default(), later),
        Some(Freshness::Fresh)
    );
}

#[test]
fn the_room_that_an_early_connection_has_stays() {
    let mut host = server(b"question");
    let space = host.end.tcb.send_space();
    host.end.tcb.set(host.now, crate::Setting::SendBuffer(1));
    assert_eq!(host.end.tcb.send_space(), space);
}

#[test]
fn what_was_on_the_syn_may_be_acknowledged_after_the_syn_ack() {
    let (mut host, syn) = client(&plain(), known(1200), &[7; 2000]);
    assert_eq!(syn.data.len(), 1184);
    let mut closed = syn_ack(0, None);
    closed.header.window = 0;
    host.arrive(&closed);
    assert_eq!(host.sent(), [(ACK, 0, 0, 0)]);
    host.arrive(&crate::testing::window(1184, 0));
    assert_eq!(host.sent(), []);
    host.arrive(&crate::testing::window(1184, 60_000));
    assert_eq!(host.sent(), [(ACK | PSH, 1184, 0, 816)]);
    host.arrive(&segment(ACK, 0, 2000, 0));
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn who_only_gives_a_cookie_attempts_nothing() {
    let now = Instant::from_millis(5000);
    let syn = segment(SYN, -1, 0, 0);
    let mut end = End::accept(&plain(), crate::testing::ISS, &syn, now);
    end.tcb.give_cookie(cookie());
    let mut host = Host { end, now };
    assert_eq!(host.sent(), [(SYN | ACK, -1, 0, 0)]);
    host.arrive(&segment(RST, 0, 0, 0));
    assert!(host.end.is_closed());
    assert_eq!(host.end.tcb.take_fast_opened(), None);
}

#[test]
fn what_a_syn_brings_does_not_make_the_receive_buffer_grow() {
    let now = Instant::from_millis(5000);
    let config = Config {
        receive_buffer_bytes: 1000,
        receive_buffer_max_bytes: 50_000,
        ..plain()
    };
    // Wherever the peer's numbers begin.
    for irs in [5, 1 << 20, 1 << 31, u32::MAX - 300] {
        let mut syn = segment(SYN, -1, 0, 0);
        syn.header.seq = SeqNumber::new(irs);
        let mut end = End::accept(&config, crate::testing::ISS, &syn, now);
        let mut sink: Vec<Bytes> = Vec::new();
        end.tcb
            .open_early(now, Some(Bytes(vec![7; 600])), &mut sink);
        assert_eq!(sink.len(), 1);
        assert_eq!(end.poll(now)[0].header.window, 400, "{irs}");
    }
}

#[test]
fn an_early_connection_is_in_no_simultaneous_open() {
    let mut host = server(b"question");
    host.end.send(b"answer");
    host.sent();
    // It would acknowledge the answer.
    let mut both = segment(SYN | ACK, -1, 6, 0);
    both.data = b"question and more".to_vec();
    assert_eq!(host.arrive(&both), Events::empty());
    assert_eq!(host.end.drops, [DropReason::SynOnConnection]);
    assert_eq!(host.sent(), [(ACK, 6, 8, 0)]);
    assert_eq!(host.end.received, b"question");
    assert!(
        host.arrive(&segment(ACK, 8, 6, 0))
            .contains(Events::CONNECTED)
    );
}
