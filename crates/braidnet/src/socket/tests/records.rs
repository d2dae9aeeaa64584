//! What ends a record ends a segment.

use super::*;

/// The segments in which what is sent leaves: how many, of which the server counts those with data.
fn segments(pair: &mut Pair, send: impl FnOnce(&mut Sockets)) -> u64 {
    let count = |pair: &Pair| {
        let counters = pair.server.counters();
        counters.get("tcp.data_segments_in").copied().unwrap_or(0)
    };
    let before = count(pair);
    send(&mut pair.client);
    pair.settle();
    count(pair) - before
}

#[test]
fn what_is_sent_behind_a_record_shares_no_segment_with_it() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let smss = pair.client.info(call).unwrap().smss as usize;
    let bytes = vec![7; 2 * smss];
    let sends = |sockets: &mut Sockets, len: usize| sockets.send(call, &bytes[..len]);
    let ends = |sockets: &mut Sockets, len: usize| sockets.send_record(call, &bytes[..len]);
    let together = segments(&mut pair, |sockets| {
        assert_eq!(sends(sockets, 100), Ok(100));
        assert_eq!(sends(sockets, 100), Ok(100));
    });
    assert_eq!(together, 1);
    let apart = segments(&mut pair, |sockets| {
        assert_eq!(sends(sockets, 100), Ok(100));
        assert_eq!(ends(sockets, 100), Ok(100));
        assert_eq!(sends(sockets, 100), Ok(100));
    });
    assert_eq!(apart, 2);
    let cut = segments(&mut pair, |sockets| {
        assert_eq!(ends(sockets, smss + 100), Ok(smss + 100));
        assert_eq!(sends(sockets, 100), Ok(100));
    });
    assert_eq!(cut, 3);
    // What is full ends with its record anyway, and none of nothing ends what came before.
    let full = segments(&mut pair, |sockets| {
        assert_eq!(ends(sockets, smss), Ok(smss));
        assert_eq!(sends(sockets, 100), Ok(100));
        assert_eq!(ends(sockets, 0), Ok(0));
        assert_eq!(sends(sockets, 100), Ok(100));
    });
    assert_eq!(full, 2);
    // A cork does not hold it back.
    let cork = SocketOption::Cork(true);
    pair.client.set_option(call, cork).unwrap();
    let corked = segments(&mut pair, |sockets| {
        assert_eq!(ends(sockets, 100), Ok(100));
        assert_eq!(sends(sockets, 100), Ok(100));
    });
    assert_eq!(corked, 1);
    while pair.server.recv(answer, &mut [0; 4096]).is_ok() {}
}

/// Also where they wait for the window together.
#[test]
fn what_waits_behind_a_record_stays_apart() {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let window = SocketOption::ReceiveBuffer(2_000);
    pair.server.set_option(listener, window).unwrap();
    let call = pair.call();
    let (answer, _) = pair.server.accept(listener).unwrap();
    pair.client.send(call, &[7; 2_000]).unwrap();
    pair.settle();
    for _ in 0..3 {
        pair.client.send_record(call, &[8; 100]).unwrap();
        pair.settle();
    }
    let waiting = segments(&mut pair, |sockets| {
        assert_eq!(sockets.info(call).unwrap().unsent_bytes, 300);
    });
    assert_eq!(waiting, 0);
    let before = pair.server.counters()["tcp.data_segments_in"];
    assert_eq!(pair.server.recv(answer, &mut [0; 2_000]), Ok(2_000));
    pair.settle();
    let after = pair.server.counters()["tcp.data_segments_in"];
    assert_eq!(after - before, 3);
    assert_eq!(pair.server.recv(answer, &mut [0; 2_000]), Ok(300));
}
