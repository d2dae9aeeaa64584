//! Silence, data that nobody takes, and users who do not wait.

use super::{user_timeout_field, user_timeout_of};
use crate::testing::{ACK, FIN, Host, RST, Reply, SYN, Wire, segment, window};
use crate::{Config, Events, Keepalive, State};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// As a peer sees it: an ACK of what we have already acknowledged.
const PROBE: Reply = (ACK, -1, 0, 0);
const OVER: Events = Events::TIMED_OUT.union(Events::CLOSED);

fn watchful() -> Config {
    Config {
        keepalive: Keepalive {
            on: true,
            idle: 100 * SECOND,
            interval: 10 * SECOND,
            probes: 3,
        },
        ..Host::plain()
    }
}

fn established(config: &Config) -> Host {
    let mut host = Host::accept(config, &segment(SYN, -1, 0, 0));
    assert_eq!(host.arrive(&segment(ACK, 0, 0, 0)), Events::CONNECTED);
    assert_eq!(host.sent(), []);
    host
}

/// Sleeps until the next deadline, as often as it takes to pass `duration`; what happened.
fn pass(host: &mut Host, duration: Duration) -> Events {
    let end = host.now + duration;
    let mut events = Events::empty();
    while let Some(deadline) = host.end.tcb.deadline().filter(|at| *at <= end) {
        events |= host.wait(deadline.since(host.now));
        host.sent();
    }
    host.now = host.now.max(end);
    events
}

/// RFC 9293 §3.8.4, MUST-25, MUST-28.
#[test]
fn nobody_is_asked_unless_that_is_wanted() {
    let host = established(&Host::plain());
    assert_eq!(host.end.tcb.deadline(), None);
    let usual = Keepalive::default();
    assert_eq!(usual.idle, Duration::from_secs(7200));
    let mut host = established(&Host::plain());
    let now = host.now;
    host.end
        .tcb
        .set_keepalive(now, Keepalive { on: true, ..usual });
    assert_eq!(host.end.tcb.deadline(), Some(now + usual.idle));
    host.end.tcb.set_keepalive(now, usual);
    assert_eq!(host.end.tcb.deadline(), None);
}

/// RFC 9293 §3.8.4, MUST-29 and SHLD-12; HOSTILE-INPUT 19: whatever an honest peer answers a probe by is a sign of life.
#[test]
fn a_silent_peer_is_asked_and_given_up_if_it_stays_silent() {
    let answers = [
        None,
        Some(segment(ACK, 0, 0, 0)),
        Some(segment(ACK, 0, 0, 5)),
        Some(window(0, 7)),
        // Not of this connection.
        Some(segment(ACK, 5000, 0, 0)),
        Some(segment(ACK, 0, 99, 0)),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let lives = (1..=3).contains(&at);
        let mut host = established(&watchful());
        assert_eq!(host.wait(99 * SECOND), Events::empty());
        assert_eq!(host.sent(), [], "{at}");
        host.wait(SECOND);
        assert_eq!(host.sent(), [PROBE], "{at}");
        // A probe that is lost proves nothing.
        host.wait(10 * SECOND);
        assert_eq!(host.sent(), [PROBE], "{at}");
        if let Some(wire) = answer {
            host.arrive(&wire);
            pass(&mut host, SECOND);
        } else {
            pass(&mut host, SECOND);
        }
        let taken = i32::from(at == 2) * 5;
        if lives {
            assert_eq!(pass(&mut host, 98 * SECOND), Events::empty(), "{at}");
            host.wait(SECOND);
            assert_eq!(host.sent(), [(ACK, -1, taken, 0)], "{at}");
            assert_eq!(pass(&mut host, 29 * SECOND), Events::empty(), "{at}");
        } else {
            host.wait(9 * SECOND);
            assert_eq!(host.sent(), [PROBE], "{at}");
            assert_eq!(host.wait(9 * SECOND), Events::empty(), "{at}");
        }
        assert_eq!(host.wait(SECOND), OVER, "{at}");
        assert_eq!(host.sent(), [(RST | ACK, 0, taken, 0)], "{at}");
    }
}

/// RFC 9293 §3.8.4, MUST-26; silence is counted from what came last, on the fast path or not.
#[test]
fn nobody_is_asked_while_anything_else_tells() {
    let rows: [(&[Wire], i32); 3] = [
        (&[segment(ACK, 0, 0, 5)], 5),
        (&[segment(ACK, 9, 0, 5)], 0),
        (&[segment(FIN | ACK, 0, 0, 0)], 1),
    ];
    for (wires, ack) in rows {
        let mut host = established(&watchful());
        pass(&mut host, 60 * SECOND);
        for wire in wires {
            host.arrive(wire);
        }
        pass(&mut host, 99 * SECOND);
        assert_eq!(host.sent(), []);
        host.wait(SECOND);
        assert_eq!(host.sent(), [(ACK, -1, ack, 0)]);
    }
    // What is in flight is sent again, and given up after as many timeouts as ever: many more than three.
    let mut host = established(&watchful());
    host.end.send(b"data");
    assert_eq!(host.sent(), [(ACK | 8, 0, 0, 4)]);
    let mut timeouts = 0;
    while pass(&mut host, SECOND) == Events::empty() {
        timeouts += 1;
    }
    assert!(timeouts > 400, "{timeouts} seconds");
}

#[test]
fn user_timeouts_are_told_in_seconds_or_minutes() {
    let rows = [
        (Duration::ZERO, 1, 1),
        (Duration::from_millis(1), 1, 1),
        (Duration::from_secs(300), 300, 300),
        (Duration::from_secs(32767), 32767, 32767),
        (Duration::from_secs(32768), 0x8000 | 547, 547 * 60),
        (Duration::MAX, 0xffff, 32767 * 60),
    ];
    for (timeout, field, seconds) in rows {
        assert_eq!(user_timeout_field(timeout), field, "{timeout:?}");
        assert_eq!(user_timeout_of(field), Some(Duration::from_secs(seconds)));
    }
    // RFC 5482 §3.2: reserved.
    assert_eq!((user_timeout_of(0), user_timeout_of(0x8000)), (None, None));
}

/// How long the peer bears it that we acknowledge nothing, or all that it sends but what is in flight.
fn lived(host: &mut Host, answer: Option<&Wire>) -> u64 {
    let start = host.now;
    loop {
        let deadline = host.end.tcb.deadline().expect("something is to happen");
        let events = host.wait(deadline.since(host.now));
        if events == OVER {
            return host.now.since(start).as_secs();
        }
        assert_eq!(events, Events::empty());
        if !host.sent().is_empty()
            && let Some(wire) = answer
        {
            host.arrive(wire);
        }
        assert!(host.now.since(start) < 100_000 * SECOND, "it lives on");
    }
}

/// RFC 5482 §3.1, RFC 9293 §3.9.1.1.
#[test]
fn a_user_timeout_is_kept_to_the_second() {
    let patient = Config {
        user_timeout: Some(90 * SECOND),
        ..Host::plain()
    };
    // In flight and unanswered; a handshake, ours and theirs; a window that stays closed, of a peer that answers.
    let mut host = established(&patient);
    host.end.send(b"data");
    host.sent();
    assert_eq!(lived(&mut host, None), 90);
    let mut host = Host::connect(&patient);
    assert_eq!(lived(&mut host, None), 90);
    let mut host = Host::accept(
        &Config {
            user_timeout: Some(20 * SECOND),
            ..patient
        },
        &segment(SYN, -1, 0, 0),
    );
    assert_eq!(lived(&mut host, None), 20);
    let mut host = established(&patient);
    host.arrive(&window(0, 0));
    host.end.send(b"data");
    host.sent();
    assert_eq!(lived(&mut host, Some(&window(0, 0))), 90);
    // What is taken gives time again; the number of timeouts does not count.
    let mut host = established(&patient);
    host.end.send(b"data");
    host.sent();
    pass(&mut host, 80 * SECOND);
    host.arrive(&segment(ACK, 0, 2, 0));
    host.sent();
    assert_eq!(lived(&mut host, None), 90);
    let mut host = established(&Config {
        retransmissions: 2,
        ..patient
    });
    host.end.send(b"data");
    host.sent();
    assert_eq!(lived(&mut host, None), 90);
    // Set while something is stuck already, it counts from when that was.
    let mut host = established(&Host::plain());
    host.end.tcb.set_user_timeout(Some(500 * SECOND));
    host.end.send(b"data");
    host.sent();
    pass(&mut host, 30 * SECOND);
    host.end.tcb.set_user_timeout(Some(50 * SECOND));
    assert_eq!(lived(&mut host, None), 20);
    // Where the tail is probed first, that does not make it shorter.
    let mut host = Host::accept(
        &Config {
            rack: true,
            user_timeout: Some(Duration::from_millis(500)),
            ..Config::default()
        },
        &segment(SYN, -1, 0, 0),
    );
    host.now += Duration::from_millis(100);
    host.arrive(&segment(ACK, 0, 0, 0));
    host.end.send(&[b'y'; 3000]);
    host.sent();
    let almost = pass(&mut host, Duration::from_millis(499));
    assert_eq!(almost, Events::empty());
    // With nothing to send it means nothing.
    let mut host = established(&patient);
    host.end.send(b"data");
    host.sent();
    host.wait(SECOND);
    host.sent();
    host.arrive(&segment(ACK, 0, 4, 0));
    assert_eq!(pass(&mut host, 1000 * SECOND), Events::empty());
}

/// RFC 5482 §3: ENABLED, CHANGEABLE, and the limits.
#[test]
fn a_peers_user_timeout_is_heeded_within_limits() {
    let telling = Config {
        advertised_user_timeout: Some(200 * SECOND),
        user_timeout_limits: (100 * SECOND, 400 * SECOND),
        ..Host::plain()
    };
    let silent = Config {
        user_timeout: Some(600 * SECOND),
        ..Host::plain()
    };
    let set = Config {
        user_timeout: Some(60 * SECOND),
        ..telling
    };
    let rows = [
        (telling, None, 200),
        (telling, Some(300), 300),
        (telling, Some(0), 200),
        (telling, Some(5), 200),
        (telling, Some(0xffff), 400),
        (
            Config {
                advertised_user_timeout: Some(SECOND),
                ..telling
            },
            Some(5),
            100,
        ),
        (silent, Some(300), 600),
        // Who has set one has decided.
        (set, Some(300), 60),
    ];
    for (config, field, expected) in rows {
        for on_syn in [true, false] {
            let with_option = |mut wire: Wire, on: bool| {
                if let Some(field) = field.filter(|_| on) {
                    wire.header.present |= TcpHeader::HAS_USER_TIMEOUT;
                    wire.header.user_timeout = field;
                }
                wire
            };
            let mut host = Host::accept(&config, &with_option(segment(SYN, -1, 0, 0), on_syn));
            host.arrive(&with_option(segment(ACK, 0, 0, 0), !on_syn));
            host.end.send(b"data");
            host.sent();
            assert_eq!(lived(&mut host, None), expected, "{field:?} {on_syn}");
        }
    }
}

/// RFC 5482 §3: in the SYN, and once more in a segment that is none; from nobody who was not asked to.
#[test]
fn the_user_timeout_is_told_twice() {
    for advertised in [None, Some(70 * SECOND)] {
        let config = Config {
            advertised_user_timeout: advertised,
            ..Host::plain()
        };
        let told = |host: &mut Host| -> Vec<u16> {
            let sent = host.end.poll(host.now);
            let told = sent
                .iter()
                .filter(|wire| wire.header.has(TcpHeader::HAS_USER_TIMEOUT));
            told.map(|wire| wire.header.user_timeout).collect()
        };
        let expected: &[u16] = if advertised.is_some() { &[70] } else { &[] };
        let mut host = Host::connect(&config);
        host.wait(SECOND);
        assert_eq!(told(&mut host), expected);
        host.arrive(&segment(SYN | ACK, -1, 0, 0));
        assert_eq!(told(&mut host), expected);
        host.arrive(&segment(ACK, 9, 0, 5));
        assert_eq!(told(&mut host), []);
    }
}

/// A close with a limit: what is acknowledged in time ends as ever, all else with a RST.
#[test]
fn a_close_that_waits_no_longer() {
    // The state in which the user closes, what arrives afterwards, the events at the end of the limit, what is sent then.
    let close = 5 * SECOND;
    type Row = (State, Option<Wire>, Events, &'static [Reply]);
    let rows: [Row; 6] = [
        (State::Established, None, OVER, &[(RST | ACK, 4, 0, 0)]),
        (State::SynReceived, None, OVER, &[(RST | ACK, 0, 0, 0)]),
        (State::CloseWait, None, OVER, &[(RST | ACK, 4, 1, 0)]),
        (
            State::Established,
            Some(segment(ACK, 0, 3, 0)),
            OVER,
            &[(RST | ACK, 4, 0, 0)],
        ),
        (
            State::Established,
            Some(segment(ACK, 0, 4, 0)),
            Events::empty(),
            &[],
        ),
        (
            State::Established,
            Some(segment(FIN | ACK, 0, 4, 0)),
            Events::empty(),
            &[],
        ),
    ];
    for (state, wire, expected, last) in rows {
        let mut host = Host::in_state(state, 3);
        let now = host.now;
        host.end.tcb.close_within(now, close);
        host.sent();
        if let Some(wire) = &wire {
            host.arrive(wire);
            host.sent();
        }
        let context = format!("{state} {wire:?}");
        let almost = pass(&mut host, close - Duration::from_millis(1));
        assert_eq!(almost, Events::empty(), "{context}");
        assert_eq!(host.wait(Duration::from_millis(1)), expected, "{context}");
        if expected == OVER {
            assert_eq!(host.sent(), last, "{context}");
        }
    }
    let mut host = Host::in_state(State::SynSent, 0);
    let now = host.now;
    host.end.tcb.close_within(now, close);
    assert_eq!(
        (host.end.tcb.state(), host.end.tcb.deadline()),
        (State::Closed, None)
    );
}
