//! When turns are due, and on which thread.

use crate::pair::{BOTH_MEDIA, PORT, Pair, read, server, text};
use braidnet::device::impair::{Impairment, Impairments};
use braidnet::device::{Capabilities, Device, memory};
use braidnet::message::{Arena, Pool};
use braidnet::stream::Next;
use braidnet::{Duration, Event, Instant, Stack, StackConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that holds a packet back is turned when that is due.
#[test]
fn a_turn_says_when_a_held_packet_is_due() {
    let clock = Arc::new(AtomicU64::new(0));
    let now = clock.clone();
    let impairment = Impairment::with_clock(
        &Impairments::none(),
        &"delay=3ms".parse().unwrap(),
        move || Instant::from_nanos(now.load(Ordering::Relaxed)),
    );
    let (here, there) = memory::wire(Capabilities::ip(1500), 16);
    let mut there = Box::new(there).open().unwrap();
    let config = StackConfig::new([10, 77, 0, 1].into());
    let mut stack = Stack::new(&config, impairment.around(here)).unwrap();
    assert_eq!(stack.turn(Instant::ZERO), Next::Idle);
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let mut run = pool
        .copy_from_slice(0, b"no IP packet")
        .into_iter()
        .collect();
    there[0].transmitter.transmit(&mut run);
    let due = Instant::from_millis(3);
    assert_eq!(stack.turn(Instant::ZERO), Next::At(due));
    clock.store(due.nanos(), Ordering::Relaxed);
    assert_eq!(stack.turn(due), Next::Again);
    assert_eq!(stack.turn(due), Next::Idle);
}

#[test]
fn a_turn_says_when_the_next_is_due() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    // The timer of the SYN passes in vain.
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.client.turn(pair.now), Next::Idle);
    // The server does not turn: the segment is not acknowledged.
    assert_eq!(pair.client.send(call, b"hello"), Ok(5));
    let Next::At(due) = pair.client.turn(pair.now) else {
        panic!("no retransmission is due")
    };
    let wait = due.since(pair.now);
    assert!((200..=1000).contains(&wait.as_millis()), "{wait:?}");
    assert_eq!(pair.client.counters().get("tcp.retransmitted"), None);
    // Early turns do nothing; at the time, it goes again, and then waits twice as long.
    pair.client.turn(due - Duration::from_nanos(1));
    assert_eq!(pair.client.counters().get("tcp.retransmitted"), None);
    let mut retransmitted = Vec::new();
    let mut now = due;
    for wakes in 0.. {
        assert!(wakes < 10, "wakes in vain");
        let Next::At(next) = pair.client.turn(now) else {
            panic!("nothing further is due")
        };
        let count = pair.client.counters().get("tcp.retransmitted").copied();
        if count == Some(retransmitted.len() as u64 + 1) {
            retransmitted.push(now);
            assert!(next > now, "what has been done is due again");
        }
        if retransmitted.len() == 3 {
            break;
        }
        now = next;
    }
    let waits = [0, 1].map(|at| retransmitted[at + 1].since(retransmitted[at]));
    // As exactly as a wheel of timers turns.
    let tick = Duration::from_millis(3);
    assert!(waits[1].abs_diff(waits[0] * 2) < tick, "{waits:?}");
    assert!(waits[0].abs_diff(wait * 2) < tick, "{wait:?}, {waits:?}");
    pair.now = now;
    pair.settle();
    assert_eq!(read(&mut pair.server, answer), b"hello");
}

#[test]
fn a_stack_may_turn_on_any_thread() {
    let mut pair = Pair::new(BOTH_MEDIA[1]);
    let (call, answer) = pair.connected();
    let sent = text(2_000_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..200 {
        let (before, so_far) = (at, &sent);
        (pair, at) = std::thread::scope(|scope| {
            let turn = scope.spawn(move || {
                let mut pair = pair;
                let n = pair.client.send(call, &so_far[before..]).unwrap();
                pair.pass(Duration::from_millis(10));
                (pair, before + n)
            });
            turn.join().unwrap()
        });
        // Read here, freed on the next thread.
        heard.extend(read(&mut pair.server, answer));
        if heard.len() == sent.len() {
            break;
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
    let used = pair.server.used_bytes() + pair.client.used_bytes();
    assert!(
        used <= 16 << 20,
        "buffers find their way home: {used} bytes"
    );
}

#[test]
fn two_stacks_on_two_threads() {
    let pair = Pair::new(BOTH_MEDIA[0]);
    let (mut client, mut server_stack) = (pair.client, pair.server);
    let sent = text(3_000_000);
    let expected = sent.clone();
    std::thread::scope(|scope| {
        let heard = scope.spawn(move || {
            let (mut now, mut answer, mut heard) = (Instant::ZERO, None, Vec::new());
            while heard.len() < expected.len() {
                server_stack.turn(now);
                now += Duration::from_micros(1);
                if let Some(Event::Accepted(connection)) = server_stack.event() {
                    answer = Some(connection);
                }
                match answer {
                    Some(answer) => heard.extend(read(&mut server_stack, answer)),
                    None => std::thread::yield_now(),
                }
            }
            assert!(heard == expected);
            // What the client still waits for.
            server_stack.turn(now + Duration::from_secs(1));
        });
        let call = client.connect(server(PORT)).unwrap();
        let (mut now, mut at) = (Instant::ZERO, 0);
        while !heard.is_finished() {
            at += client.send(call, &sent[at..]).unwrap();
            client.turn(now);
            now += Duration::from_micros(1);
        }
        heard.join().unwrap();
    });
}

/// RFC 6298 §2.1: a SYN's second runs from when it leaves, however long before the stack was last turned; as do those of what
/// was sent before the call.
#[test]
fn a_call_after_a_pause_is_sent_once() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (first, _) = pair.connected();
        pair.now += Duration::from_secs(10);
        assert_eq!(pair.client.send(first, b"hello"), Ok(5));
        let second = pair.client.connect(server(PORT)).unwrap();
        let third = pair.client.connect(server(PORT)).unwrap();
        pair.settle();
        for call in [second, third] {
            assert!(pair.events[0].contains(&Event::Connected(call)));
        }
        for stack in [&pair.client, &pair.server] {
            assert_eq!(stack.counters().get("tcp.retransmitted"), None);
        }
    }
}
