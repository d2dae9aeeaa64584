//! Data on the SYN (RFC 7413), with a call of its own or with the first that is sent.

use super::*;
use braidnet_tcp::FastOpen;

/// Two hosts that open fast, both ways.
fn pair(change: impl Fn(&mut StackConfig)) -> Pair {
    let stack = |address: &str, device| {
        let mut config = config(address);
        config.tcp.fast_open = FastOpen::Both;
        change(&mut config);
        Sockets::new(&config, device).expect("a stack")
    };
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    Pair {
        client: stack("10.0.0.1", here),
        server: stack("10.0.0.2", there),
        now: Instant::from_millis(1),
    }
}

/// Has the client get the server's cookie.
fn acquaint(pair: &mut Pair, listener: Socket) {
    let first = pair.client.socket().unwrap();
    let asked = pair.client.connect_with(first, server_at(), b"question");
    assert_eq!(asked, Err(SocketError::InProgress));
    pair.settle();
    pair.server.accept(listener).unwrap();
}

/// A socket of the client's that waits for data.
fn waiting(pair: &mut Pair) -> Socket {
    let call = pair.client.socket().unwrap();
    let option = SocketOption::FastOpenConnect(true);
    pair.client.set_option(call, option).unwrap();
    call
}

#[test]
fn a_connection_that_waits_for_data_begins_with_them() {
    let mut pair = pair(|_| {});
    let listener = pair.listener(4);
    acquaint(&mut pair, listener);
    let call = waiting(&mut pair);
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    // Nothing leaves, and it seems to be open.
    pair.pass(5_000);
    assert_eq!(
        pair.server.accept(listener).err(),
        Some(SocketError::WouldBlock)
    );
    assert_eq!(pair.client.readiness(call), Ok(OUT));
    assert_eq!(
        pair.client.connect(call, server_at()),
        Err(SocketError::Connected)
    );
    assert_eq!(
        pair.client.recv(call, &mut [0; 10]),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(
        pair.client.peer_address(call),
        Err(SocketError::NotConnected)
    );
    assert_ne!(pair.client.local_address(call).unwrap().port(), 0);
    let late = SocketOption::FastOpenConnect(false);
    assert_eq!(
        pair.client.set_option(call, late),
        Err(SocketError::Invalid)
    );
    // What is set meanwhile counts.
    let small = SocketOption::SendBuffer(1_000);
    pair.client.set_option(call, small).unwrap();
    assert_eq!(pair.client.send(call, &[7; 9_000]), Ok(1_000));
    pair.client.turn(pair.now);
    pair.server.turn(pair.now);
    // The handshake is not over.
    let (answer, _) = pair.server.accept(listener).unwrap();
    let mut to = [0; 9_000];
    assert_eq!(pair.server.recv(answer, &mut to), Ok(1_000));
    pair.settle();
    assert_eq!(pair.client.send(call, b"more"), Ok(4));
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    pair.settle();
    assert_eq!(pair.server.recv(answer, &mut to), Ok(4));
}

/// What the SYN does not carry is not taken.
#[test]
fn what_is_taken_travels_with_the_syn() {
    for waits in [false, true] {
        let mut pair = pair(|_| {});
        let listener = pair.listener(4);
        acquaint(&mut pair, listener);
        let bytes = [7; 9_000];
        let call = waiting(&mut pair);
        let taken = match waits {
            true => {
                assert_eq!(pair.client.connect(call, server_at()), Ok(()));
                pair.client.send(call, &bytes)
            }
            false => pair.client.connect_with(call, server_at(), &bytes),
        };
        let taken = taken.unwrap();
        assert!((1_400..1_460).contains(&taken), "{taken}");
        let more = pair.client.send(call, &bytes[taken..]);
        assert_eq!(more, Err(SocketError::WouldBlock));
        pair.client.turn(pair.now);
        pair.server.turn(pair.now);
        // The handshake is not over.
        let (answer, _) = pair.server.accept(listener).unwrap();
        assert_eq!(pair.server.recv(answer, &mut [0; 9_000]), Ok(taken));
        pair.settle();
        assert_eq!(pair.client.send(call, &bytes[taken..]), Ok(9_000 - taken));
    }
}

/// Who blocks is told once the handshake is over, and then all is taken.
#[test]
fn who_may_block_sends_the_rest_behind_the_handshake() {
    let mut pair = pair(|_| {});
    let listener = pair.listener(4);
    acquaint(&mut pair, listener);
    let Pair {
        client,
        mut server,
        now,
    } = pair;
    let shared = Shared::new(client);
    let call = shared.with(Sockets::socket).unwrap();
    let bytes = [7; 9_000];
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| shared.connect_with(call, server_at(), &bytes, None));
        while !sending.is_finished() {
            shared.with(|sockets| sockets.turn(now));
            server.turn(now);
        }
        sending.join().expect("no panic")
    });
    assert_eq!(sent, Ok(9_000));
    let again = shared.connect_with(call, server_at(), b"again", None);
    assert_eq!(again, Err(SocketError::Connected));
}

#[test]
fn where_data_would_not_travel_with_the_syn_nothing_waits_for_them() {
    let mut pair = pair(|_| {});
    let listener = pair.listener(4);
    // The first asks for a cookie, the second has it.
    for waits in [false, true] {
        let call = waiting(&mut pair);
        let begun = pair.client.connect(call, server_at());
        let expected = match waits {
            true => Ok(()),
            false => Err(SocketError::InProgress),
        };
        assert_eq!(begun, expected);
        pair.settle();
        assert_eq!(pair.server.accept(listener).is_ok(), !waits);
    }
}

#[test]
fn a_connection_that_waits_for_data_can_be_given_up_and_begun_by_either_call() {
    let mut pair = pair(|_| {});
    let listener = pair.listener(4);
    acquaint(&mut pair, listener);
    for closes in [true, false] {
        let call = waiting(&mut pair);
        assert_eq!(pair.client.connect(call, server_at()), Ok(()));
        match closes {
            true => pair.client.close(call).unwrap(),
            false => pair.client.shutdown(call, How::Both).unwrap(),
        }
        pair.pass(5_000);
        assert_eq!(
            pair.server.accept(listener).err(),
            Some(SocketError::WouldBlock)
        );
    }
    let call = waiting(&mut pair);
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    let begun = pair.client.connect_with(call, server_at(), b"question");
    assert_eq!(begun, Ok(8));
    // With nothing at all it begins, too.
    let call = waiting(&mut pair);
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    assert_eq!(pair.client.send(call, &[]), Err(SocketError::InProgress));
    pair.settle();
    assert!(pair.server.accept(listener).is_ok() && pair.server.accept(listener).is_ok());
}

#[test]
fn who_has_not_turned_it_on_cannot_wait_for_data() {
    let mut pair = Pair::new();
    let call = pair.client.socket().unwrap();
    let option = SocketOption::FastOpenConnect(true);
    assert_eq!(
        pair.client.set_option(call, option),
        Err(SocketError::NotSupported)
    );
}

#[test]
fn the_send_buffer_of_what_opens_early_grows_and_does_not_shrink() {
    let mut pair = pair(|config| {
        config.tcp.send_buffer_bytes = 5_000;
        config.tcp.send_buffer_max_bytes = 0;
    });
    let listener = pair.listener(4);
    acquaint(&mut pair, listener);
    let call = pair.client.socket().unwrap();
    let begun = pair.client.connect_with(call, server_at(), b"question");
    assert_eq!(begun, Ok(8));
    pair.client.turn(pair.now);
    pair.server.turn(pair.now);
    // The handshake is not over.
    let (answer, _) = pair.server.accept(listener).unwrap();
    for (bytes, room) in [(1, 5_000), (7_000, 2_000)] {
        let buffer = SocketOption::SendBuffer(bytes);
        pair.server.set_option(answer, buffer).unwrap();
        pair.server.turn(pair.now);
        assert_eq!(pair.server.send(answer, &[0; 9_000]), Ok(room));
    }
    pair.pass(100);
    assert_eq!(pair.client.recv(call, &mut [1; 9_000]), Ok(7_000));
}

#[test]
fn of_a_message_there_travels_with_the_syn_what_can() {
    let mut pair = pair(|_| {});
    let listener = pair.listener(4);
    acquaint(&mut pair, listener);
    let call = waiting(&mut pair);
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    let mut message = pair.client.allocate(100).unwrap();
    message.extend_from_slice_summed(b"question");
    let mut message = Some(message);
    assert_eq!(pair.client.send_message(call, &mut message), Ok(8));
    assert!(message.is_none());
    pair.client.turn(pair.now);
    pair.server.turn(pair.now);
    // The handshake is not over.
    let (answer, _) = pair.server.accept(listener).unwrap();
    let came = pair.server.recv_message(answer).unwrap().expect("some");
    assert_eq!(came.bytes(), b"question");
}
