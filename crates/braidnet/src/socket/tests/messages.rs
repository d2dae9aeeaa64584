//! What is sent as messages: where its bytes are, whose memory they have and for how long, and what of it is taken.

use super::*;
use braidnet_message::{Arena, Message, Pool};

/// A message of these bytes, in the client's memory.
fn message(pair: &mut Pair, bytes: &[u8]) -> Message {
    let mut message = pair.client.allocate(bytes.len()).expect("memory");
    assert_eq!(message.extend_from_slice_summed(bytes), bytes.len());
    message
}

/// Whose memory is none of the stacks'.
fn pool() -> Pool {
    Pool::new(&Arena::new(8 << 20))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|place| ((place * 31) ^ (place >> 8)) as u8)
        .collect()
}

/// What has come, taking all of it.
fn heard(pair: &mut Pair, answer: Socket) -> Vec<u8> {
    let mut heard = Vec::new();
    while let Ok(Some(message)) = pair.server.recv_message(answer) {
        message
            .blocks()
            .for_each(|block| heard.extend_from_slice(block));
    }
    heard
}

/// The wire lends its packets, so the server sees the very bytes.
#[test]
fn bytes_stay_where_they_are_until_they_are_acknowledged() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let smss = pair.client.info(call).unwrap().smss as usize;
    let bytes = pattern(smss);
    let mut views = pool();
    let mut own = Some(message(&mut pair, &bytes));
    let at = own.as_ref().map(|own| own.bytes().as_ptr());
    assert_eq!(pair.client.send_message(call, &mut own), Ok(smss));
    assert!(own.is_none());
    pair.client.turn(pair.now);
    pair.server.turn(pair.now);
    let came = pair.server.recv_message(answer).unwrap().expect("some");
    assert_eq!(Some(came.bytes().as_ptr()), at);
    assert_eq!(came.bytes(), bytes);
    assert!(!came.is_unique(), "it may have to be sent again");
    pair.pass(1_000);
    assert!(came.is_unique(), "it is acknowledged");

    // What others see goes with headers of its own, and stays where it is as well.
    let mut seen = Some(message(&mut pair, &bytes));
    let view = seen
        .as_ref()
        .and_then(|seen| seen.share(&mut views))
        .unwrap();
    assert_eq!(pair.client.send_message(call, &mut seen), Ok(smss));
    pair.settle();
    let came = pair.server.recv_message(answer).unwrap().expect("some");
    let block = came.blocks().next().expect("one");
    assert_eq!(block.as_ptr(), view.bytes().as_ptr());
    assert_eq!(block, bytes);
    drop(came);
    pair.pass(1_000);
    assert!(view.is_unique());
}

/// Block for block, as they came.
#[test]
fn what_has_come_goes_on_as_it_is() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let smss = pair.client.info(call).unwrap().smss as usize;
    let bytes = pattern(20 * smss);
    assert_eq!(pair.client.send(call, &bytes), Ok(bytes.len()));
    pair.settle();
    let (mut back, mut places) = (Vec::new(), Vec::new());
    while let Ok(Some(came)) = pair.server.recv_message(answer) {
        places.extend(came.blocks().map(<[u8]>::as_ptr));
        let mut came = Some(came);
        pair.server.send_message(answer, &mut came).unwrap();
        assert!(came.is_none(), "there is room");
    }
    assert!(places.len() >= 20);
    pair.settle();
    let mut found = Vec::new();
    while let Ok(Some(came)) = pair.client.recv_message(call) {
        for block in came.blocks() {
            found.push(block.as_ptr());
            back.extend_from_slice(block);
        }
    }
    assert!(back == bytes);
    assert_eq!(found, places);
}

#[test]
fn as_much_is_taken_as_there_is_room_for() {
    const BUFFER: u32 = 10_000;
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let call = pair.client.socket().unwrap();
    let small = SocketOption::SendBuffer(BUFFER);
    pair.client.set_option(call, small).unwrap();
    let begun = pair.client.connect(call, server_at());
    assert_eq!(begun, Err(SocketError::InProgress));
    pair.settle();
    let (answer, _) = pair.server.accept(listener).unwrap();
    let bytes = pattern(100_000);
    let mut pool = pool();
    // Blocks that are shorter and longer than a segment, and than all room.
    let mut left = pool.copy_from_slice(0, b"");
    let lens = [1, 700, 5_000, 0, 14_299, 60_000, 20_000];
    let mut at = 0;
    for len in lens {
        let block = pool.copy_from_slice(0, &bytes[at..at + len]).unwrap();
        left.as_mut().unwrap().push_continuation(block);
        at += len;
    }
    assert_eq!(at, bytes.len());
    let (mut taken, mut all, mut times) = (0, Vec::new(), 0);
    while left.is_some() {
        while let Ok(n) = pair.client.send_message(call, &mut left) {
            taken += n;
            times += 1;
            let rest = left.as_ref().map_or(0, Message::total_len);
            assert_eq!(taken + rest, bytes.len());
            if left.is_none() {
                break;
            }
        }
        assert!(
            taken - all.len() <= BUFFER as usize,
            "{taken} and {}",
            all.len()
        );
        pair.settle();
        all.extend(heard(&mut pair, answer));
        pair.pass(50);
    }
    pair.settle();
    all.extend(heard(&mut pair, answer));
    assert!(all == bytes);
    assert!(times >= bytes.len() / BUFFER as usize, "{times}");
    assert_eq!(pair.client.send_message(call, &mut left), Ok(0));
}

#[test]
fn a_little_of_a_large_buffer_is_copied() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let mut pool = pool();
    let whole = pool.copy_from_slice(0, &pattern(60_000)).unwrap();
    for (len, is_kept) in [(1, false), (1_000, false), (10_000, false), (30_000, true)] {
        let mut part = whole.share_range(100, len, &mut pool);
        assert_eq!(pair.client.send_message(call, &mut part), Ok(len));
        assert_eq!(whole.is_unique(), !is_kept, "{len}");
        pair.pass(50);
        assert!(heard(&mut pair, answer) == pattern(60_000)[100..100 + len]);
        assert!(whole.is_unique(), "{len}");
    }
}

/// Behind bytes that fill no segment yet, and before others.
#[test]
fn messages_and_bytes_keep_their_order() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let bytes = pattern(3_000);
    pair.client.send(call, b"before ").unwrap();
    let mut own = Some(message(&mut pair, &bytes));
    pair.client.send_message(call, &mut own).unwrap();
    let mut little = pool().copy_from_slice(0, b" and ");
    pair.client.send_message(call, &mut little).unwrap();
    pair.client.send(call, b"behind").unwrap();
    pair.settle();
    let expected = [b"before ", &bytes[..], b" and behind"].concat();
    assert!(heard(&mut pair, answer) == expected);
}

#[test]
fn a_cork_puts_messages_together() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let cork = |pair: &mut Pair, on| {
        let option = SocketOption::Cork(on);
        pair.client.set_option(call, option).unwrap();
    };
    cork(&mut pair, true);
    for bytes in [&b"one "[..], b"two ", b"three"] {
        let mut own = Some(message(&mut pair, bytes));
        assert_eq!(pair.client.send_message(call, &mut own), Ok(bytes.len()));
    }
    pair.settle();
    assert_eq!(pair.server.readable_bytes(answer), Ok(0));
    cork(&mut pair, false);
    pair.settle();
    let came = pair.server.recv_message(answer).unwrap().expect("all");
    assert_eq!(came.bytes(), b"one two three");
}

#[test]
fn where_nothing_can_be_sent_the_message_stays() {
    let mut pair = Pair::new();
    let datagrams = pair.client.datagram_socket().unwrap();
    let idle = pair.client.socket().unwrap();
    let (shut, _) = pair.connected();
    pair.client.shutdown(shut, How::Write).unwrap();
    let opening = pair.client.socket().unwrap();
    let _ = pair.client.connect(opening, server_at());
    let rows = [
        (datagrams, SocketError::NotSupported),
        (idle, SocketError::BrokenPipe),
        (shut, SocketError::BrokenPipe),
        (opening, SocketError::WouldBlock),
    ];
    let mut own = Some(message(&mut pair, b"some"));
    for (socket, error) in rows {
        let said = pair.client.send_message(socket, &mut own);
        assert_eq!(said, Err(error));
        assert_eq!(own.as_ref().map(Message::bytes), Some(&b"some"[..]));
    }
    // Where there is room, too.
    pair.settle();
    assert_eq!(pair.client.send_message(opening, &mut own), Ok(4));
}

#[test]
fn who_has_taken_all_memory_can_send_it_and_has_it_again() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let hoard = |pair: &mut Pair| {
        let mut hoard = Vec::new();
        let refused = loop {
            match pair.client.allocate(1_000) {
                Ok(mut message) => {
                    message.extend_from_slice_summed(&pattern(1_000));
                    hoard.push(message);
                }
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, SocketError::NoMemory);
        hoard
    };
    let first = hoard(&mut pair);
    let (many, mut all) = (first.len(), 0);
    assert!(many > 2_000, "{many} messages of 8 MiB");
    for message in first {
        let mut left = Some(message);
        while left.is_some() {
            if pair.client.send_message(call, &mut left).is_err() {
                pair.pass(50);
                all += heard(&mut pair, answer).len();
            }
        }
    }
    pair.pass(1_000);
    all += heard(&mut pair, answer).len();
    assert_eq!(all, many * 1_000);
    pair.pass(1_000);
    let again = hoard(&mut pair).len();
    assert!(again * 10 >= many * 9, "{again} after {many}");
}

#[test]
fn no_message_is_longer_than_a_buffer() {
    let mut pair = Pair::new();
    let longest = braidnet_message::MAX_BLOCK - braidnet_inet::HEADROOM;
    assert!(pair.client.allocate(longest).is_ok());
    let longer = pair.client.allocate(longest + 1).err();
    assert_eq!(longer, Some(SocketError::Invalid));
}
