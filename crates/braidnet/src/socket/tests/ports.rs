//! Which port a socket gets whose owner names none.

use super::*;

/// A socket of the client's whose port is one of these.
fn socket(pair: &mut Pair, first: u16, last: u16) -> Socket {
    let socket = pair.client.socket().unwrap();
    let ports = SocketOption::LocalPorts(first, last);
    pair.client.set_option(socket, ports).unwrap();
    socket
}

fn port(pair: &mut Pair, socket: Socket) -> u16 {
    pair.client.local_address(socket).unwrap().port()
}

fn connect(pair: &mut Pair, call: Socket) -> Result<(), SocketError> {
    pair.client.connect(call, server_at())
}

const BEGUN: Result<(), SocketError> = Err(SocketError::InProgress);
const NONE_LEFT: SocketError = SocketError::AddressNotAvailable;

#[test]
fn connections_come_from_the_ports_that_are_named_and_then_from_none() {
    let mut pair = Pair::new();
    let mut had = Vec::new();
    for _ in 0..3 {
        let call = socket(&mut pair, 60_000, 60_002);
        assert_eq!(connect(&mut pair, call), BEGUN);
        had.push(port(&mut pair, call));
    }
    had.sort_unstable();
    assert_eq!(had, [60_000, 60_001, 60_002]);
    let one_more = socket(&mut pair, 60_000, 60_002);
    assert_eq!(connect(&mut pair, one_more), Err(NONE_LEFT));
    let other = socket(&mut pair, 0, 0);
    assert_eq!(connect(&mut pair, other), BEGUN);
}

/// A side that lies outside of what can be chosen has no say.
#[test]
fn ports_are_chosen_of_those_that_can_be() {
    for (first, last, all) in [
        (1, 49_152, 49_152..=49_152),
        (65_535, 0, 65_535..=65_535),
        (65_534, 65_535, 65_534..=65_535),
        (7, 9, 49_152..=65_535),
    ] {
        let mut pair = Pair::new();
        for _ in 0..2 {
            let call = socket(&mut pair, first, last);
            let begun = connect(&mut pair, call);
            match port(&mut pair, call) {
                0 => assert_eq!(begun, Err(NONE_LEFT)),
                port => assert!(all.contains(&port), "{port} of {first} to {last}"),
            }
        }
        assert!(!pair.client.stack().statuses().is_empty());
    }
}

#[test]
fn listeners_and_datagrams_get_such_ports_too() {
    let mut pair = Pair::new();
    let listener = socket(&mut pair, 60_000, 60_000);
    pair.client.listen(listener, 1).unwrap();
    assert_eq!(port(&mut pair, listener), 60_000);
    let bound = socket(&mut pair, 60_000, 60_001);
    pair.client.bind(bound, at("10.0.0.1:0")).unwrap();
    assert_eq!(port(&mut pair, bound), 60_001);
    let none = socket(&mut pair, 60_000, 60_001);
    assert_eq!(pair.client.bind(none, at("10.0.0.1:0")), Err(NONE_LEFT));
    let ports = SocketOption::LocalPorts(60_000, 60_000);
    for refused in [None, Some(SocketError::AddressInUse)] {
        let asker = pair.client.datagram_socket().unwrap();
        pair.client.set_option(asker, ports).unwrap();
        let bound = pair.client.bind(asker, at("10.0.0.1:0"));
        assert_eq!(bound.err(), refused);
        assert_eq!(port(&mut pair, asker), refused.map_or(60_000, |_| 0));
    }
}

/// Bound without a port, two sockets have the same one to different peers.
#[test]
fn a_port_that_is_not_chosen_when_bound_is_when_connected() {
    let mut pair = Pair::new();
    let later = SocketOption::BindWithoutPort(true);
    for peer in ["10.0.0.2:7", "10.0.0.2:8"] {
        let call = socket(&mut pair, 60_000, 60_000);
        pair.client.set_option(call, later).unwrap();
        pair.client.bind(call, at("10.0.0.1:0")).unwrap();
        assert_eq!(pair.client.local_address(call), Ok(at("10.0.0.1:0")));
        assert_eq!(pair.client.connect(call, at(peer)), BEGUN);
        assert_eq!(pair.client.local_address(call), Ok(at("10.0.0.1:60000")));
    }
    let listener = socket(&mut pair, 60_001, 60_001);
    pair.client.set_option(listener, later).unwrap();
    pair.client.bind(listener, at("10.0.0.1:0")).unwrap();
    pair.client.listen(listener, 1).unwrap();
    assert_eq!(
        pair.client.local_address(listener),
        Ok(at("10.0.0.1:60001"))
    );
}
