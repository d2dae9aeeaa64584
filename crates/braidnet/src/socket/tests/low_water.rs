//! What waits unsent holds back whoever writes more.

use super::*;

const LOW_WATER: u32 = 16 << 10;

/// A connection of which the server takes little at a time, and whose client is set so.
fn narrow() -> (Pair, Socket, Socket) {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let window = SocketOption::ReceiveBuffer(8_000);
    pair.server.set_option(listener, window).unwrap();
    let call = pair.call();
    let (answer, _) = pair.server.accept(listener).unwrap();
    let low_water = SocketOption::NotSentLowWater(LOW_WATER);
    pair.client.set_option(call, low_water).unwrap();
    pair.settle();
    (pair, call, answer)
}

fn unsent(pair: &mut Pair, call: Socket) -> u32 {
    pair.client.info(call).unwrap().unsent_bytes
}

/// Has the server read until the client's socket is writable, of which it is told.
fn read_until_writable(pair: &mut Pair, call: Socket, answer: Socket) {
    for _ in 0..1_000 {
        while pair.client.changed().is_some() {}
        while pair.server.recv(answer, &mut [0; 4_096]).is_ok() {}
        pair.pass(10);
        let is_told = pair.client.changed() == Some(call);
        let is_ready = pair.client.readiness(call).unwrap().contains(OUT);
        assert!(is_told || !is_ready, "nobody hears of it");
        if is_ready {
            return;
        }
    }
    panic!("it never is");
}

#[test]
fn whoever_writes_waits_until_little_is_unsent() {
    let (mut pair, call, answer) = narrow();
    let bytes = [7; 300_000];
    assert_eq!(pair.client.readiness(call), Ok(OUT));
    // What TCP has not seen yet counts, too.
    assert_eq!(pair.client.send(call, &bytes), Ok(64 << 10));
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));
    assert_eq!(pair.client.send(call, &bytes), Err(SocketError::WouldBlock));
    let mut message = Some(pair.client.allocate(100).unwrap());
    if let Some(message) = &mut message {
        message.extend_from_slice_summed(&bytes[..100]);
    }
    let sent = pair.client.send_message(call, &mut message);
    assert_eq!(sent, Err(SocketError::WouldBlock));
    pair.settle();
    assert!(unsent(&mut pair, call) > LOW_WATER);
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));

    read_until_writable(&mut pair, call, answer);
    let left = unsent(&mut pair, call);
    assert!((1..LOW_WATER).contains(&left), "{left}");
    assert_eq!(pair.client.send_message(call, &mut message), Ok(100));
    assert_eq!(pair.client.send(call, &bytes), Ok(64 << 10));
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));
}

/// All of it comes, whatever is written when.
#[test]
fn nobody_waits_for_ever() {
    let (mut pair, call, answer) = narrow();
    let bytes: Vec<u8> = (0..400_000).map(|place| (place / 7) as u8).collect();
    let (mut heard, mut sent) = (Vec::new(), 0);
    while sent < bytes.len() {
        match pair.client.send(call, &bytes[sent..]) {
            Ok(taken) => sent += taken,
            Err(error) => {
                assert_eq!(error, SocketError::WouldBlock);
                let mut to = [0; 4_096];
                while let Ok(read) = pair.server.recv(answer, &mut to) {
                    heard.extend_from_slice(&to[..read]);
                }
                pair.pass(10);
            }
        }
        assert!(
            heard.len() + 100_000 > sent,
            "less than what was asked for waits"
        );
    }
    while heard.len() < bytes.len() {
        let mut to = [0; 4_096];
        while let Ok(read) = pair.server.recv(answer, &mut to) {
            heard.extend_from_slice(&to[..read]);
        }
        pair.pass(10);
    }
    assert!(heard == bytes);
}

#[test]
fn without_a_mark_the_send_buffer_decides() {
    let (mut pair, call, _) = narrow();
    let none = SocketOption::NotSentLowWater(0);
    assert_eq!(pair.client.send(call, &[7; 100_000]), Ok(64 << 10));
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));
    while pair.client.changed().is_some() {}
    pair.client.set_option(call, none).unwrap();
    assert_eq!(pair.client.changed(), Some(call));
    assert_eq!(pair.client.readiness(call), Ok(OUT));
    assert_eq!(pair.client.send(call, &[7; 100_000]), Ok(100_000));
    assert_eq!(
        pair.client.option(call, OptionName::NotSentLowWater),
        Ok(none)
    );
}

/// A connection has it from its listener.
#[test]
fn it_is_inherited() {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let low_water = SocketOption::NotSentLowWater(1);
    pair.server.set_option(listener, low_water).unwrap();
    pair.call();
    let (answer, _) = pair.server.accept(listener).unwrap();
    assert_eq!(pair.server.send(answer, b"one"), Ok(3));
    assert_eq!(
        pair.server.send(answer, b"two"),
        Err(SocketError::WouldBlock)
    );
    while pair.server.changed().is_some() {}
    pair.settle();
    assert_eq!(pair.server.changed(), Some(answer));
    assert_eq!(pair.server.readiness(answer), Ok(OUT));
    assert_eq!(pair.server.send(answer, b"two"), Ok(3));
}
