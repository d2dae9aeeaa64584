//! How connections begin and end.

use crate::pair::{BOTH_MEDIA, PORT, Pair, closed, read, server, text};
use crate::wire::Impairment;
use braidnet::device::{Capabilities, MacAddress, memory};
use braidnet::inet::Route;
use braidnet::inet::tcp::ListenError;
use braidnet::stream::Next;
use braidnet::wire::address::Address;
use braidnet::{
    CloseReason, ConnectError, Duration, Event, ReceiveError, SendError, SendToError, Stack,
    StackConfig,
};
use std::collections::HashSet;

#[test]
fn one_side_closes_and_the_other_goes_on() {
    for medium in BOTH_MEDIA {
        for client_first in [true, false] {
            let mut pair = Pair::new(medium);
            let (call, answer) = pair.connected();
            // The one who closes first hears the other out.
            let (sent, reply) = (text(3000), text(50_000));
            {
                let (first, connection) = if client_first {
                    (&mut pair.client, call)
                } else {
                    (&mut pair.server, answer)
                };
                assert_eq!(first.send(connection, &sent), Ok(sent.len()));
                first.close(connection);
                assert_eq!(first.send(connection, b"x"), Err(SendError::Closing));
            }
            pair.settle();
            let heard = {
                let (second, connection) = if client_first {
                    (&mut pair.server, answer)
                } else {
                    (&mut pair.client, call)
                };
                let heard = read(second, connection);
                assert_eq!(
                    second.receive(connection, &mut [0; 8]),
                    Ok(0),
                    "end of data"
                );
                assert_eq!(second.send(connection, &reply), Ok(reply.len()));
                second.close(connection);
                heard
            };
            assert!(heard == sent);
            pair.pass(Duration::from_secs(1));
            let (first, connection) = if client_first {
                (&mut pair.client, call)
            } else {
                (&mut pair.server, answer)
            };
            assert!(read(first, connection) == reply);
            assert_eq!(first.receive(connection, &mut [0; 8]), Ok(0));
            assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
            assert_eq!(pair.server_closed(answer), Some(CloseReason::Closed));
            let ends = [Event::EndOfData(call), Event::EndOfData(answer)];
            assert!(pair.events[0].contains(&ends[0]) && pair.events[1].contains(&ends[1]));
        }
    }
}

#[test]
fn both_sides_close_at_once() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, b"from here"), Ok(9));
        assert_eq!(pair.server.send(answer, b"from there"), Ok(10));
        pair.client.close(call);
        pair.server.close(answer);
        pair.pass(Duration::from_secs(1));
        assert_eq!(read(&mut pair.client, call), b"from there");
        assert_eq!(read(&mut pair.server, answer), b"from here");
        assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Closed));
    }
}

#[test]
fn an_abort_is_a_reset_at_the_other_side() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, b"last words"), Ok(10));
        pair.settle();
        pair.client.abort(call);
        pair.settle();
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Reset));
        // What had come before can still be read.
        assert_eq!(read(&mut pair.server, answer), b"last words");
        let rest = pair.server.receive(answer, &mut [0; 8]);
        assert_eq!(rest, Err(ReceiveError::Gone));
        assert_eq!(pair.server.send(answer, b"x"), Err(SendError::Gone));
        // The aborter knows nothing of it any more.
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        assert_eq!(
            pair.client.receive(call, &mut [0; 8]),
            Err(ReceiveError::Gone)
        );
        assert_eq!(pair.client.tuple(call), None);
        pair.server.forget(answer);
        assert_eq!(pair.server.tuple(answer), None);
    }
}

#[test]
fn a_closed_port_refuses_and_nobody_is_silent() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let refused = pair.client.connect(server(PORT + 1)).unwrap();
        let nobody = pair.client.connect(([10, 77, 0, 99], PORT).into()).unwrap();
        let port_zero = pair.client.connect(server(0)).unwrap();
        pair.settle();
        assert_eq!(pair.client_closed(refused), Some(CloseReason::Refused));
        assert_eq!(pair.client.send(refused, b"x"), Err(SendError::Gone));
        assert_eq!(pair.client_closed(nobody), None);
        assert_eq!(pair.client.send(nobody, b"x"), Ok(0), "not open yet");
        // RFC 9293 §3.8.3, MUST-23: a SYN is sent for three minutes at least.
        pair.pass(Duration::from_secs(180));
        assert_eq!(pair.client_closed(nobody), None);
        pair.pass(Duration::from_secs(180));
        assert_eq!(pair.client_closed(nobody), Some(CloseReason::TimedOut));
        assert_eq!(pair.client_closed(port_zero), Some(CloseReason::TimedOut));
    }
}

#[test]
fn what_cannot_be_listened_on_or_connected_to_is_refused() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    assert_eq!(pair.server.listen(0, 1), Err(ListenError::Zero));
    assert_eq!(pair.server.listen(PORT, 1), Err(ListenError::InUse(PORT)));
    assert_eq!(pair.server.listen(PORT + 1, 0), Ok(()));
    let six = "[2001:db8::1]:7".parse().unwrap();
    assert_eq!(pair.client.connect(six), Err(ConnectError::NotIpv4));
    // A backlog of 0 counts as 1.
    let call = pair.client.connect(server(PORT + 1)).unwrap();
    pair.settle();
    assert!(pair.events[0].contains(&Event::Connected(call)));
}

/// RFC 9293 §3.9.1.1, MUST-46.
#[test]
fn who_is_nobodys_peer_is_not_called() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    for nobody in [
        "255.255.255.255:7",
        "224.0.0.1:7",
        "239.255.255.255:7",
        "0.0.0.0:7",
        "127.0.0.1:7",
        "10.77.0.255:7",
        "10.77.0.1:7",
    ] {
        let told = pair.client.connect(nobody.parse().unwrap());
        assert_eq!(told, Err(ConnectError::NoPeer), "{nobody}");
    }
}

#[test]
fn who_is_where_no_route_leads_is_not_called() {
    let medium = Capabilities::ethernet(MacAddress([2, 0, 0, 0, 0, 1]), 1500);
    let mut config = StackConfig::new("10.77.0.1".parse().unwrap());
    config.addresses = vec![
        ("10.77.0.1".parse().unwrap(), Some(24)),
        ("10.78.0.1".parse().unwrap(), Some(24)),
    ];
    let gateway = Address::v4([10, 78, 0, 2]);
    config.routes = vec![Route::via("10.0.0.0/8".parse().unwrap(), gateway)];
    let mut stack = Stack::new(&config, memory::wire(medium, 16).0).unwrap();
    stack.bind(PORT).unwrap();
    let nowhere = "192.0.2.1:7".parse().unwrap();
    assert_eq!(stack.connect(nowhere), Err(ConnectError::NoRoute));
    let told = stack.send_to(PORT, nowhere, b"x");
    assert_eq!(told, Err(SendToError::NoRoute));
    // From the address on the network of the next hop.
    for (to, from) in [
        ("10.77.0.9:7", "10.77.0.1"),
        ("10.78.0.9:7", "10.78.0.1"),
        ("10.9.0.9:7", "10.78.0.1"),
    ] {
        let call = stack.connect(to.parse().unwrap()).unwrap();
        let tuple = stack.tuple(call).unwrap();
        assert_eq!(tuple.local.to_string(), from, "{to}");
    }
}

#[test]
fn a_close_before_the_answer_comes() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let call = pair.client.connect(server(PORT)).unwrap();
        pair.client.close(call);
        pair.client.turn(pair.now);
        pair.settle();
        assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        // Whoever answers all the same is told.
        assert!(pair.events[1].is_empty());
        pair.client.forget(call);
        // The stacks are fit for another.
        pair.pass(Duration::from_secs(300));
        pair.events = Default::default();
        pair.connected();
    }
}

#[test]
fn what_is_forgotten_is_still_delivered() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        let sent = text(200_000);
        assert_eq!(pair.client.send(call, &sent), Ok(sent.len()));
        pair.client.forget(call);
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        assert_eq!(pair.client.tuple(call), None);
        let mut heard = Vec::new();
        for _ in 0..50 {
            pair.pass(Duration::from_millis(100));
            heard.extend(read(&mut pair.server, answer));
        }
        assert!(heard == sent, "{} bytes", heard.len());
        assert_eq!(pair.server.receive(answer, &mut [0; 8]), Ok(0));
        // Nobody reads there: data is answered with a reset (RFC 9293 §3.6.1).
        assert_eq!(pair.server.send(answer, b"anybody?"), Ok(8));
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Reset));
    }
}

/// RFC 9293 §3.6.1, RFC 1122 §4.2.2.13: the peer is told by the very segment that comes in vain, before it sends it again.
#[test]
fn data_that_nobody_reads_is_answered_with_a_reset_at_once() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        pair.client.forget(call);
        pair.settle();
        assert_eq!(pair.server.send(answer, b"anybody?"), Ok(8));
        pair.settle();
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Reset));
        let refused = pair.client.counters().get("tcp.tcp_nobody_reads").copied();
        assert_eq!(refused, Some(1));
        assert_eq!(pair.server.counters().get("tcp.retransmitted"), None);
    }
}

/// Opens and closes so many, all at a time, each with a word both ways.
fn crowd(pair: &mut Pair, count: usize) {
    let calls: Vec<_> = (0..count)
        .map(|_| pair.client.connect(server(PORT)).unwrap())
        .collect();
    pair.pass(Duration::from_secs(2));
    let accepted = |event: &Event| match event {
        Event::Accepted(answer) => Some(*answer),
        _ => None,
    };
    let answers: Vec<_> = pair.events[1].iter().filter_map(accepted).collect();
    assert_eq!(answers.len(), count);
    for call in &calls {
        assert_eq!(pair.client.send(*call, b"ping"), Ok(4));
    }
    pair.pass(Duration::from_secs(1));
    for answer in &answers {
        assert_eq!(read(&mut pair.server, *answer), b"ping");
        assert_eq!(pair.server.send(*answer, b"pong"), Ok(4));
        pair.server.close(*answer);
    }
    pair.pass(Duration::from_secs(1));
    for call in &calls {
        assert_eq!(read(&mut pair.client, *call), b"pong");
        pair.client.close(*call);
    }
    pair.pass(Duration::from_secs(1));
    for (call, answer) in calls.iter().zip(&answers) {
        assert_eq!(pair.client_closed(*call), Some(CloseReason::Closed));
        pair.client.forget(*call);
        pair.server.forget(*answer);
    }
    pair.events = Default::default();
    // TIME-WAIT passes, and the time for which neighbours are remembered.
    pair.pass(Duration::from_secs(240));
}

/// A processor that was away finds the acknowledgment in the device, and that the time to send again has passed.
#[test]
fn what_came_is_heard_before_what_is_due() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, &text(1000)), Ok(1000));
        pair.client.turn(pair.now);
        pair.server.turn(pair.now);
        assert!(read(&mut pair.server, answer) == text(1000));
        pair.now += Duration::from_secs(10);
        pair.server.turn(pair.now);
        pair.settle();
        let counters = pair.client.counters();
        assert_eq!(counters.get("tcp.retransmitted"), None, "{counters:?}");
    }
}

#[test]
fn connections_come_and_go_without_growth() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let mut used = Vec::new();
        for round in 1..=4 {
            crowd(&mut pair, 2000);
            used.push((pair.client.used_bytes(), pair.server.used_bytes()));
            for stack in [&pair.client, &pair.server] {
                let counters = stack.counters();
                let expected = [("tcp.opened", 2000 * round), ("tcp.closed", 2000 * round)];
                for (name, count) in expected {
                    assert_eq!(counters.get(name), Some(&count), "{name}: {counters:?}");
                }
            }
            assert_eq!(pair.settle(), None, "no timer is left");
        }
        assert_eq!(used[1], used[3], "{used:?}");
    }
}

#[test]
fn a_peer_that_vanishes_is_given_up() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, _) = pair.connected();
        assert_eq!(pair.client.send(call, b"hello?"), Ok(6));
        // Only the client turns from here on.
        let mut now = pair.now;
        let mut events = Vec::new();
        for _ in 0..1000 {
            if let Next::At(at) = pair.client.turn(now) {
                now = at.max(now + Duration::from_nanos(1));
            }
            events.extend(std::iter::from_fn(|| pair.client.event()));
        }
        assert_eq!(closed(&events, call), Some(CloseReason::TimedOut));
        let silent = Event::Silent(call, CloseReason::TimedOut);
        let told = (events.iter()).filter(|event| **event == silent);
        assert_eq!(told.count(), 1, "between R1 and R2");
        assert_eq!(events[0], silent);
        let took = now.since(pair.now);
        // RFC 9293 §3.8.3: R2 corresponds to at least 100 seconds.
        assert!((100..1800).contains(&took.as_secs()), "{took:?}");
    }
}

#[test]
fn a_port_that_is_in_use_is_not_given_out_again() {
    const PORTS: usize = 1 << 14;
    let mut pair = Pair::with(
        Capabilities::ip(1500),
        |config| config.connections = 2 * PORTS,
        Impairment::default(),
    );
    // Nobody answers: the connections stay half-open.
    let nobody = ([10, 77, 0, 99], PORT).into();
    let calls: HashSet<_> = (0..PORTS)
        .map(|_| pair.client.connect(nobody).unwrap())
        .collect();
    assert_eq!(calls.len(), PORTS);
    assert_eq!(pair.client.connect(nobody), Err(ConnectError::NoPort));
    // Another peer has ports of its own.
    let other = pair.client.connect(([10, 77, 0, 98], PORT).into()).unwrap();
    assert!(!calls.contains(&other));
}

#[test]
fn a_connection_for_which_there_is_no_memory_is_refused_at_once() {
    let mut pair = Pair::with(
        Capabilities::ip(1500),
        |config| config.memory_bytes = 2 << 20,
        Impairment::default(),
    );
    let nobody = ([10, 77, 0, 99], PORT).into();
    let refused = (0..1 << 14).find_map(|_| {
        pair.settle();
        pair.client.connect(nobody).err()
    });
    assert_eq!(refused, Some(ConnectError::NoMemory));
    let counted = pair.client.counters();
    assert_eq!(counted.get("tcp.no_memory"), Some(&1), "{counted:?}");
}
