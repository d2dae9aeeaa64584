//! Data on SYNs (RFC 7413), between two stacks.

use crate::pair::{BOTH_MEDIA, CLIENT, PORT, Pair, read, server, text};
use crate::wire::Impairment;
use braidnet::device::Capabilities;
use braidnet::stream::Next;
use braidnet::tcp::{FastOpen, State};
use braidnet::{CloseReason, Connection, Duration, Event, Stack, StackConfig};

fn pair(capabilities: Capabilities, change: impl Fn(&mut StackConfig)) -> Pair {
    let change = |config: &mut StackConfig| {
        config.tcp.fast_open = FastOpen::Both;
        change(config);
    };
    Pair::with(capabilities, change, Impairment::default())
}

fn count(stack: &Stack, name: &str) -> u64 {
    stack.counters().get(name).copied().unwrap_or(0)
}

fn accepted(pair: &Pair) -> Option<Connection> {
    pair.events[1].iter().rev().find_map(|event| match event {
        Event::Accepted(answer) => Some(*answer),
        _ => None,
    })
}

/// Opens with `bytes` and lets everything happen; the server's end, and what it has heard.
fn exchange(pair: &mut Pair, bytes: &[u8]) -> (Connection, Connection, Vec<u8>) {
    let (call, taken) = pair.client.connect_with(server(PORT), bytes).unwrap();
    assert_eq!(taken, bytes.len());
    pair.pass(Duration::from_secs(5));
    let answer = accepted(pair).expect("it is open");
    let heard = read(&mut pair.server, answer);
    (call, answer, heard)
}

/// A turn of the server's alone, in which the client says nothing.
fn server_turns(pair: &mut Pair) {
    while pair.server.turn(pair.now) == Next::Again {}
    let events = std::iter::from_fn(|| pair.server.event());
    pair.events[1].extend(events);
}

#[test]
fn who_has_been_there_before_is_answered_before_the_handshake_is_over() {
    for capabilities in BOTH_MEDIA {
        let mut pair = pair(capabilities, |_| {});
        let (_, _, heard) = exchange(&mut pair, b"first");
        assert_eq!(heard, b"first");
        assert_eq!(count(&pair.server, "tcp.fast_open_cookies"), 1);
        assert_eq!(count(&pair.client, "tcp.fast_open_asked"), 1);
        assert_eq!(count(&pair.server, "tcp.fast_open_accepted"), 0);

        // More than the SYN carries, and more than is answered before the handshake is over.
        let (question, answer) = (text(5000), text(100_000));
        let (call, _) = pair.client.connect_with(server(PORT), &question).unwrap();
        pair.client.turn(pair.now);
        server_turns(&mut pair);
        let end = accepted(&pair).unwrap();
        let mut heard = read(&mut pair.server, end);
        assert_eq!(heard, &question[..1460 - 36 + 4]);
        assert_eq!(pair.server.send(end, &answer).unwrap(), answer.len());
        server_turns(&mut pair);
        let tuple = pair.server.tuple(end).unwrap();
        let half_open = pair.server.status(&tuple).expect("it is there");
        assert_eq!(half_open.state, State::SynReceived);
        assert!(half_open.pipe > 10_000, "{}", half_open.pipe);
        assert_eq!(tuple.remote, braidnet::wire::address::Address::v4(CLIENT));
        let mut said = Vec::new();
        for _ in 0..100 {
            pair.pass(Duration::from_millis(50));
            heard.extend(read(&mut pair.server, end));
            said.extend(read(&mut pair.client, call));
        }
        assert_eq!((heard, said), (question, answer));
        assert_eq!(count(&pair.server, "tcp.fast_open_accepted"), 1);
        assert_eq!(count(&pair.client, "tcp.fast_open_taken"), 1);
        assert_eq!(count(&pair.client, "tcp.retransmitted"), 0);
        assert_eq!(count(&pair.server, "tcp.retransmitted"), 0);
        assert!(pair.events[0].contains(&Event::Connected(call)));
    }
}

#[test]
fn where_the_server_does_not_want_it_data_follow_the_handshake() {
    let mut pair = pair(Capabilities::ip(1500), |config| {
        if config.addresses[0].0 != std::net::IpAddr::from(CLIENT) {
            config.tcp.fast_open = FastOpen::Connect;
        }
    });
    for expected in [1, 1] {
        let (_, _, heard) = exchange(&mut pair, &text(3000));
        assert_eq!(heard, text(3000));
        assert_eq!(count(&pair.client, "tcp.fast_open_asked"), expected);
    }
    assert_eq!(count(&pair.client, "tcp.fast_open_paused"), 1);
    assert_eq!(count(&pair.server, "tcp.fast_open_cookies"), 0);
}

#[test]
fn where_the_client_does_not_want_it_nothing_is_asked() {
    let mut pair = pair(Capabilities::ip(1500), |config| {
        config.tcp.fast_open = FastOpen::Listen;
    });
    for _ in 0..2 {
        let (_, _, heard) = exchange(&mut pair, b"hello");
        assert_eq!(heard, b"hello");
    }
    assert_eq!(count(&pair.server, "tcp.fast_open_cookies"), 0);
}

#[test]
fn a_cookie_is_good_for_two_periods_of_the_key_and_is_replaced_in_the_second() {
    let period = Duration::from_secs(100);
    let mut pair = pair(Capabilities::ip(1500), |config| {
        config.fast_opening.key_period = period;
    });
    // Each exchange takes five seconds; the clock begins at 0.
    exchange(&mut pair, b"asks");
    exchange(&mut pair, b"taken");
    pair.pass(Duration::from_secs(100));
    exchange(&mut pair, b"taken, and replaced");
    assert_eq!(count(&pair.server, "tcp.fast_open_cookies"), 2);
    pair.pass(Duration::from_secs(100));
    exchange(&mut pair, b"taken, and replaced");
    pair.pass(Duration::from_secs(200));
    let (_, _, heard) = exchange(&mut pair, b"too late");
    assert_eq!(heard, b"too late");
    assert_eq!(count(&pair.server, "tcp.fast_open_accepted"), 3);
    assert_eq!(count(&pair.server, "tcp.fast_open_cookies_wrong"), 1);
    assert_eq!(count(&pair.client, "tcp.fast_open_refused"), 1);
    exchange(&mut pair, b"taken again");
    assert_eq!(count(&pair.server, "tcp.fast_open_accepted"), 4);
    assert_eq!(count(&pair.client, "tcp.fast_open_taken"), 4);
}

/// A client's cookie is good with another server that has the same keys, and with each for as long as these know the key.
#[test]
fn servers_with_the_same_keys_take_the_same_cookies() {
    let keys = |text: &str| Some(text.parse().unwrap());
    let mut pair = pair(Capabilities::ip(1500), |config| {
        config.fast_opening.shared_keys = keys("1-2-3-4");
    });
    let fared = |pair: &Pair| {
        let names = ["accepted", "cookies", "cookies_wrong"];
        names.map(|name| count(&pair.server, &format!("tcp.fast_open_{name}")))
    };
    exchange(&mut pair, b"asks");
    pair.pass(Duration::from_secs(100_000));
    exchange(&mut pair, b"taken");
    assert_eq!(fared(&pair), [1, 1, 0]);
    let mut limits = StackConfig::new(CLIENT.into()).limits();
    for (text, expected) in [
        ("5-6-7-8,1-2-3-4", [2, 2, 0]),
        ("5-6-7-8", [3, 2, 0]),
        ("9-9-9-9", [3, 3, 1]),
    ] {
        limits.fast_opening.shared_keys = keys(text);
        pair.server.set_limits(&limits).unwrap();
        let (_, _, heard) = exchange(&mut pair, b"hello");
        assert_eq!(
            (&heard[..], fared(&pair)),
            (&b"hello"[..], expected),
            "{text}"
        );
    }
}

#[test]
fn fewer_and_more_servers_are_remembered_while_it_runs() {
    let mut pair = pair(Capabilities::ip(1500), |_| {});
    let mut limits = StackConfig::new(CLIENT.into()).limits();
    let fared = |pair: &Pair| {
        let names = ["asked", "taken", "refused", "forgotten"];
        names.map(|name| count(&pair.client, &format!("tcp.fast_open_{name}")))
    };
    exchange(&mut pair, b"asks");
    // A cookie of another period than the server's are now is none of its own.
    pair.pass(Duration::from_secs(300));
    limits.fast_opening.key_period = Duration::from_secs(100);
    pair.server.set_limits(&limits).unwrap();
    exchange(&mut pair, b"refused, and answered by another cookie");
    assert_eq!(count(&pair.server, "tcp.fast_open_cookies_wrong"), 1);
    exchange(&mut pair, b"taken");
    assert_eq!(fared(&pair), [1, 1, 1, 0]);
    // The cookie that is there is used, and when that is learned to be good, forgotten.
    limits.fast_opening.servers = 0;
    pair.client.set_limits(&limits).unwrap();
    exchange(&mut pair, b"taken");
    let [.., forgotten] = fared(&pair);
    assert_eq!(fared(&pair), [1, 2, 1, forgotten]);
    assert!(forgotten > 0);
    exchange(&mut pair, b"asks");
    assert_eq!(fared(&pair), [2, 2, 1, forgotten + 1]);
    limits.fast_opening.servers = 1;
    pair.client.set_limits(&limits).unwrap();
    exchange(&mut pair, b"asks");
    let (_, _, heard) = exchange(&mut pair, b"taken");
    assert_eq!(fared(&pair), [3, 3, 1, forgotten + 1]);
    assert_eq!(heard, b"taken");
}

#[test]
fn as_many_open_early_as_may_and_others_as_ever() {
    let mut pair = pair(Capabilities::ip(1500), |config| {
        config.tcp.fast_open_pending = 2;
    });
    exchange(&mut pair, b"asks");
    // Three at once: none of their handshakes is over when the last SYN arrives.
    let calls: Vec<Connection> = (0..3)
        .map(|_| pair.client.connect_with(server(PORT), b"hello").unwrap().0)
        .collect();
    pair.pass(Duration::from_secs(5));
    assert_eq!(count(&pair.server, "tcp.fast_open_accepted"), 2);
    assert_eq!(count(&pair.server, "tcp.fast_open_limited"), 1);
    let heard: usize = pair.events[1]
        .clone()
        .iter()
        .map(|event| match event {
            Event::Accepted(answer) => read(&mut pair.server, *answer).len(),
            _ => 0,
        })
        .sum();
    assert_eq!(heard, 3 * 5);
    for call in calls {
        assert!(pair.events[0].contains(&Event::Connected(call)));
    }
}

#[test]
fn an_application_may_close_and_abort_before_the_handshake_is_over() {
    let mut pair = pair(Capabilities::ip(1500), |_| {});
    exchange(&mut pair, b"asks");
    for aborts in [false, true] {
        pair.events = Default::default();
        let (call, _) = pair.client.connect_with(server(PORT), b"question").unwrap();
        pair.client.turn(pair.now);
        server_turns(&mut pair);
        let end = accepted(&pair).unwrap();
        assert_eq!(read(&mut pair.server, end), b"question");
        pair.server.send(end, b"answer").unwrap();
        match aborts {
            true => pair.server.abort(end),
            false => pair.server.close(end),
        }
        pair.pass(Duration::from_secs(1));
        if aborts {
            let closed = pair.client_closed(call);
            assert_eq!(closed, Some(CloseReason::Reset));
        } else {
            assert_eq!(read(&mut pair.client, call), b"answer");
            assert!(pair.events[0].contains(&Event::EndOfData(call)));
        }
    }
}

/// Opens with data that are taken, and hears of it: the client's end, and the server's.
fn opened(pair: &mut Pair, bytes: &[u8]) -> (Connection, Connection) {
    let (call, _) = pair.client.connect_with(server(PORT), bytes).unwrap();
    pair.client.turn(pair.now);
    server_turns(pair);
    let end = accepted(pair).expect("it is open at once");
    pair.client.turn(pair.now);
    (call, end)
}

#[test]
fn a_path_that_swallows_what_follows_the_syn_is_spared_data_on_it() {
    let mut pair = pair(Capabilities::ip(1500), |_| {});
    exchange(&mut pair, b"asks");
    let (call, _) = opened(&mut pair, b"taken");
    assert_eq!(count(&pair.client, "tcp.fast_open_taken"), 1);
    pair.client.send(call, b"lost").unwrap();
    while pair.client_closed(call).is_none() {
        pair.now += Duration::from_secs(1);
        pair.client.turn(pair.now);
        pair.events[0].extend(std::iter::from_fn(|| pair.client.event()));
    }
    assert_eq!(pair.client_closed(call), Some(CloseReason::TimedOut));
    assert_eq!(count(&pair.client, "tcp.fast_open_unanswered"), 1);
    pair.client.connect_with(server(PORT), b"later").unwrap();
    assert_eq!(count(&pair.client, "tcp.fast_open_paused"), 1);
}

#[test]
fn a_reset_after_anything_that_was_heard_is_no_refusal() {
    // What the client sends behind its SYN, and whether the server hears it.
    for (more, is_heard, refusals) in [(0, false, 0), (100_000, true, 0), (1000, false, 1)] {
        let mut pair = pair(Capabilities::ip(1500), |_| {});
        exchange(&mut pair, b"asks");
        let (call, end) = opened(&mut pair, b"taken");
        pair.client.send(call, &text(more)).unwrap();
        if is_heard {
            pair.pass(Duration::from_secs(1));
        } else {
            pair.client.turn(pair.now);
        }
        pair.server.abort(end);
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.client_closed(call), Some(CloseReason::Reset));
        let unanswered = count(&pair.client, "tcp.fast_open_unanswered");
        assert_eq!(unanswered, refusals, "{more} more");
    }
}
