//! Datagram sockets.

use super::*;
use crate::stack::Received;

const ASKER: &str = "10.0.0.1:4000";
const ORACLE: &str = "10.0.0.2:53";

impl Pair {
    /// The client's socket, bound to [`ASKER`], and the server's to [`ORACLE`]'s port of all addresses.
    fn datagrams(&mut self) -> (Socket, Socket) {
        let asker = self.client.datagram_socket().expect("room");
        self.client.bind(asker, at(ASKER)).expect("free");
        let oracle = self.server.datagram_socket().expect("room");
        self.server.bind(oracle, at("0.0.0.0:53")).expect("free");
        (asker, oracle)
    }
}

fn count(sockets: &Sockets, name: &str) -> u64 {
    sockets.counters().get(name).copied().unwrap_or(0)
}

#[test]
fn datagrams_go_there_and_back() {
    let mut pair = Pair::new();
    let (asker, oracle) = pair.datagrams();
    assert_eq!(pair.server.readiness(oracle), Ok(OUT));
    let mut heard = [0; 64];
    let nothing = pair.server.recv_from(oracle, &mut heard);
    assert_eq!(nothing, Err(SocketError::WouldBlock));
    assert_eq!(pair.client.send_to(asker, b"who?", at(ORACLE)), Ok(4));
    assert_eq!(pair.client.send_to(asker, b"", at(ORACLE)), Ok(0));
    assert!(pair.client.has_work(), "a turn is to take them");
    pair.settle();
    assert!(!pair.client.has_work());
    assert_eq!(pair.server.changed(), Some(oracle));
    assert_eq!(pair.server.changed(), None, "once for both");
    assert_eq!(pair.server.readiness(oracle), Ok(IN | OUT));
    assert_eq!(pair.server.readable_bytes(oracle), Ok(4));
    let received = |len| Received {
        from: at(ASKER),
        copied: len,
        len,
    };
    for _ in 0..2 {
        let peeked = pair.server.peek_from(oracle, &mut heard);
        assert_eq!((peeked, &heard[..4]), (Ok(received(4)), &b"who?"[..]));
    }
    let taken = pair.server.recv_from(oracle, &mut heard);
    assert_eq!(taken, Ok(received(4)));
    // One of no bytes is a datagram, too.
    assert_eq!(pair.server.recv_from(oracle, &mut heard), Ok(received(0)));
    assert_eq!(pair.server.readiness(oracle), Ok(OUT));
    pair.server.send_to(oracle, b"I", at(ASKER)).unwrap();
    pair.settle();
    assert_eq!(pair.client.recv(asker, &mut heard), Ok(1));
}

#[test]
fn datagrams_go_several_at_once() {
    let mut pair = Pair::new();
    let (asker, oracle) = pair.datagrams();
    let refused = pair.client.send_segments(asker, b"one two three", 4);
    assert_eq!(refused, Err(SocketError::NoDestination));
    let told = (pair.client).send_segments_to(asker, b"one two three", 4, at(ORACLE));
    assert_eq!(told, Ok(13));
    assert!(pair.client.has_work(), "a turn is to take them");
    pair.client.connect(asker, at(ORACLE)).expect("it can be");
    assert_eq!(pair.client.send_segments(asker, b"four", 4), Ok(4));
    pair.settle();
    let mut heard = [0; 64];
    for expected in [&b"one "[..], b"two ", b"thre", b"e", b"four"] {
        let length = pair.server.recv(oracle, &mut heard).expect("it comes");
        assert_eq!(&heard[..length], expected);
    }
    let rows = [
        (&[7; 65][..], 1, SocketError::Invalid),
        (&[7; 65], 0, SocketError::Invalid),
        (&[7; 65_508], 1472, SocketError::TooLong),
    ];
    for (bytes, each, error) in rows {
        assert_eq!(pair.client.send_segments(asker, bytes, each), Err(error));
    }
    let stream = pair.client.socket().expect("room");
    let told = pair.client.send_segments(stream, b"x", 1);
    assert_eq!(told, Err(SocketError::NotSupported));
}

#[test]
fn what_there_is_no_room_for_is_lost_and_told() {
    let mut pair = Pair::new();
    let (asker, oracle) = pair.datagrams();
    for _ in 0..2 {
        pair.client.send_to(asker, &[7; 10], at(ORACLE)).unwrap();
    }
    pair.settle();
    let mut heard = [0; 4];
    let received = pair.server.recv_from(oracle, &mut heard).unwrap();
    assert_eq!((received.copied, received.len), (4, 10));
    assert!(received.is_truncated());
    assert_eq!(pair.server.recv(oracle, &mut heard), Ok(4), "of the second");
    assert_eq!(pair.server.readable_bytes(oracle), Ok(0));
}

#[test]
fn ports_are_given_and_taken() {
    let mut pair = Pair::new();
    let (asker, _) = pair.datagrams();
    let sockets = &mut pair.client;
    assert_eq!(
        sockets.bind(asker, at("0.0.0.0:1")),
        Err(SocketError::Invalid)
    );
    let other = sockets.datagram_socket().unwrap();
    let bind = |sockets: &mut Sockets, to| sockets.bind(other, at(to));
    assert_eq!(bind(sockets, ASKER), Err(SocketError::AddressInUse));
    let foreign = bind(sockets, "10.0.0.9:5");
    assert_eq!(foreign, Err(SocketError::AddressNotAvailable));
    // Ports of TCP are others.
    let stream = sockets.socket().unwrap();
    assert_eq!(sockets.bind(stream, at(ASKER)), Ok(()));
    assert_eq!(bind(sockets, "0.0.0.0:0"), Ok(()));
    let port = sockets.local_address(other).unwrap().port();
    assert!(port >= 49_152, "{port}");
    sockets.close(asker).unwrap();
    let again = sockets.datagram_socket().unwrap();
    assert_eq!(sockets.bind(again, at(ASKER)), Ok(()));
    // Who sends without a port gets one.
    let fresh = sockets.datagram_socket().unwrap();
    assert_eq!(sockets.local_address(fresh), Ok(at("0.0.0.0:0")));
    assert_eq!(sockets.send_to(fresh, b"x", at(ORACLE)), Ok(1));
    assert!(sockets.local_address(fresh).unwrap().port() >= 49_152);
    // As many as the stack may bind.
    sockets
        .set_limits(&crate::Limits {
            datagram_ports: crate::DatagramPorts {
                bound: 3,
                ..Default::default()
            },
            ..config("10.0.0.1").limits()
        })
        .unwrap();
    let one_more = sockets.datagram_socket().unwrap();
    let unbound = sockets.send_to(one_more, b"x", at(ORACLE));
    assert_eq!(unbound, Err(SocketError::NoMemory));
}

#[test]
fn a_connected_socket_hears_its_peer_only() {
    let mut pair = Pair::new();
    let (asker, oracle) = pair.datagrams();
    assert_eq!(
        pair.client.peer_address(asker),
        Err(SocketError::NotConnected)
    );
    let nowhere = pair.client.send(asker, b"x");
    assert_eq!(nowhere, Err(SocketError::NoDestination));
    let nobody = pair.client.connect(asker, at("10.0.0.2:0"));
    assert_eq!(nobody, Err(SocketError::AddressNotAvailable));
    assert_eq!(pair.client.connect(asker, at(ORACLE)), Ok(()));
    assert_eq!(pair.client.peer_address(asker), Ok(at(ORACLE)));
    assert_eq!(pair.client.send(asker, b"who?"), Ok(4));
    pair.settle();
    let stranger = pair.server.datagram_socket().unwrap();
    pair.server.send_to(stranger, b"me!", at(ASKER)).unwrap();
    pair.server.send_to(oracle, b"I", at(ASKER)).unwrap();
    pair.settle();
    let mut heard = [0; 8];
    assert_eq!(pair.client.recv(asker, &mut heard), Ok(1));
    let more = pair.client.recv(asker, &mut heard);
    assert_eq!(more, Err(SocketError::WouldBlock));
    assert_eq!(count(&pair.client, "udp.not_from_peer"), 1);
    // Connected anew, to the stranger; and it may still send to anybody.
    let stranger_at = SocketAddr::new(
        at(ORACLE).ip(),
        pair.server.local_address(stranger).unwrap().port(),
    );
    assert_eq!(pair.client.connect(asker, stranger_at), Ok(()));
    pair.client.send_to(asker, b"to you", at(ORACLE)).unwrap();
    pair.server.send_to(stranger, b"me!", at(ASKER)).unwrap();
    pair.settle();
    assert_eq!(pair.client.recv(asker, &mut heard), Ok(3));
    assert_eq!(pair.server.recv(oracle, &mut heard), Ok(4));
    assert_eq!(pair.server.recv(oracle, &mut heard), Ok(6));
}

#[test]
fn connecting_says_from_where() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let mut two = config("10.0.0.1");
    two.addresses = ["10.0.0.1", "10.1.0.1"]
        .map(|address| (address.parse().unwrap(), Some(24)))
        .into();
    let mut pair = Pair {
        client: Sockets::new(&two, here).unwrap(),
        server: Sockets::new(&config("10.0.0.2"), there).unwrap(),
        now: Instant::from_millis(1),
    };
    let (_, oracle) = pair.datagrams();
    let caller = pair.client.datagram_socket().unwrap();
    pair.client.connect(caller, at(ORACLE)).unwrap();
    let from = pair.client.local_address(caller).unwrap();
    assert_eq!(from.ip(), at(ASKER).ip());
    // One that is bound to another address speaks from there, and hears what comes there only.
    let bound = pair.client.datagram_socket().unwrap();
    pair.client.bind(bound, at("10.1.0.1:9")).unwrap();
    pair.client.send_to(bound, b"x", at(ORACLE)).unwrap();
    pair.settle();
    let mut heard = [0; 8];
    let received = pair.server.recv_from(oracle, &mut heard).unwrap();
    assert_eq!(received.from, at("10.1.0.1:9"));
    pair.server
        .send_to(oracle, b"no", at("10.0.0.1:9"))
        .unwrap();
    pair.server
        .send_to(oracle, b"yes", at("10.1.0.1:9"))
        .unwrap();
    pair.settle();
    assert_eq!(pair.client.recv(bound, &mut heard), Ok(3));
    assert_eq!(count(&pair.client, "udp.not_for_address"), 1);
}

#[test]
fn a_connected_socket_hears_that_nobody_is_there() {
    let mut pair = Pair::new();
    let (asker, _) = pair.datagrams();
    let closed = at("10.0.0.2:54");
    let mut heard = [0; 8];
    // One that is not connected has to ask the stack.
    pair.client.send_to(asker, b"x", closed).unwrap();
    pair.settle();
    assert_eq!(pair.client.readiness(asker), Ok(OUT));
    let port = at(ASKER).port();
    let undelivered = pair.client.stack().undelivered(port);
    assert_eq!(undelivered.map(|undelivered| undelivered.to), Some(closed));
    // More than are kept, and nobody asks.
    for _ in 0..20 {
        pair.client.send_to(asker, b"x", closed).unwrap();
        pair.pass(1000);
    }
    assert!(count(&pair.client, "udp.reports_full") > 0);
    pair.client.connect(asker, closed).unwrap();
    pair.client.send_to(asker, b"x", at(ORACLE)).unwrap();
    pair.settle();
    let old = pair.client.recv(asker, &mut heard);
    assert_eq!(old, Err(SocketError::WouldBlock), "of before");
    while pair.client.changed().is_some() {}
    for _ in 0..2 {
        pair.client.send(asker, b"x").unwrap();
        pair.settle();
        assert_eq!(pair.client.changed(), Some(asker));
        assert_eq!(pair.client.readiness(asker), Ok(OUT | ERR));
        let told = pair.client.recv(asker, &mut heard);
        assert_eq!(told, Err(SocketError::Refused));
        let once = pair.client.recv(asker, &mut heard);
        assert_eq!(once, Err(SocketError::WouldBlock));
    }
    pair.client.send(asker, b"x").unwrap();
    pair.settle();
    let told = pair.client.send(asker, b"x");
    assert_eq!(told, Err(SocketError::Refused), "and nothing is sent");
    // What is said of another destination is not said of the peer.
    pair.client.connect(asker, at(ORACLE)).unwrap();
    pair.client.send_to(asker, b"x", closed).unwrap();
    pair.settle();
    assert_eq!(pair.client.take_error(asker), Ok(None));
}

#[test]
fn what_cannot_be_sent() {
    let mut pair = Pair::new();
    let (asker, _) = pair.datagrams();
    let sockets = &mut pair.client;
    let send =
        |sockets: &mut Sockets, len: usize, to: &str| sockets.send_to(asker, &vec![0; len], at(to));
    assert_eq!(send(sockets, 65_507, ORACLE), Ok(65_507));
    assert_eq!(send(sockets, 65_508, ORACLE), Err(SocketError::TooLong));
    assert_eq!(send(sockets, 1, "10.0.0.2:0"), Err(SocketError::Invalid));
    let v6 = send(sockets, 1, "[::1]:5");
    assert_eq!(v6, Err(SocketError::FamilyNotSupported));
    let everybody = "255.255.255.255:5";
    assert_eq!(send(sockets, 1, everybody), Err(SocketError::Forbidden));
    let connected = sockets.connect(asker, at(everybody));
    assert_eq!(connected, Err(SocketError::Forbidden));
    let name = OptionName::from_numbers(1, 6).unwrap();
    assert_eq!(
        sockets.option(asker, name),
        Ok(SocketOption::Broadcast(false))
    );
    sockets
        .set_option(asker, SocketOption::Broadcast(true))
        .unwrap();
    assert_eq!(send(sockets, 1, everybody), Ok(1));
}

#[test]
fn what_datagrams_have_no_use_for() {
    let mut pair = Pair::new();
    let (asker, _) = pair.datagrams();
    let sockets = &mut pair.client;
    let refused = SocketError::NotSupported;
    assert_eq!(sockets.listen(asker, 1), Err(refused));
    assert_eq!(sockets.accept(asker).map(|_| ()), Err(refused));
    assert_eq!(sockets.shutdown(asker, How::Both), Err(refused));
    assert_eq!(sockets.connect_with(asker, at(ORACLE), b"x"), Err(refused));
    let option = SocketOption::NoDelay(true);
    let set = sockets.set_option(asker, option);
    assert_eq!(set, Err(SocketError::NoSuchOption));
    let found = sockets.option(asker, OptionName::NoDelay);
    assert_eq!(found, Err(SocketError::NoSuchOption));
    assert_eq!(sockets.info(asker), Err(SocketError::NotConnected));
    let stream = sockets.socket().unwrap();
    assert_eq!(sockets.send_to(stream, b"x", at(ORACLE)), Err(refused));
    let received = sockets.recv_from(stream, &mut [0; 4]);
    assert_eq!(received, Err(refused));
}
