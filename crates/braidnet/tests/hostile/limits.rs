//! Clocks, memory, and what a stack's own user can do to it.

use crate::packet::{ACK, SYN, Segment};
use crate::rig::{EVIL, FRIEND, PORT, Rig, TARGET};
use braidnet::device::{Capabilities, memory};
use braidnet::wire::ethernet::MacAddress;
use braidnet::{Connection, Duration, Event, Instant, Stack, StackConfig};
use std::collections::BTreeMap;

#[test]
fn class_48_clocks_that_step_and_stand_still() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let (_, end) = rig.connect_from(4001, &[]);
        // Below the tick of every timer, and standing still: no round trip takes any time.
        for _ in 0..20 {
            rig.now += Duration::from_nanos(1);
            rig.assert_undisturbed();
        }
        let before = rig.now;
        rig.now = Instant::ZERO;
        rig.assert_undisturbed();
        rig.now = before;
        rig.assert_undisturbed();
        // Timestamps count milliseconds in 32 bits: around their wrap, and around that of their sign.
        for wraps in [1u64 << 31, 1 << 32, 3 << 31] {
            rig.now = Instant::from_millis(wraps - 2);
            for _ in 0..8 {
                rig.assert_undisturbed();
                rig.now += Duration::from_millis(1);
            }
        }
        assert!(rig.target.tuple(end).is_some());
    }
}

#[test]
fn class_48_the_end_of_time() {
    let mut rig = Rig::new(false);
    let (next, end) = rig.connect_from(4001, &[]);
    assert_eq!(rig.target.send(end, &[1; 5000]), Ok(5000));
    rig.settle();
    for nanos in [u64::MAX / 4, u64::MAX / 2, u64::MAX - (1 << 60)] {
        rig.now = Instant::from_nanos(nanos);
        rig.target.turn(rig.now);
        rig.inject(&next.clone().data(b"late").packet());
        for _ in 0..100 {
            rig.target.turn(rig.now);
        }
    }
}

/// Timeouts double up to their bound and end: nothing overflows, and the peer is given up.
#[test]
fn class_48_timeouts_without_end_end() {
    let mut rig = Rig::new(false);
    let (_, end) = rig.connect_from(4001, &[]);
    assert_eq!(rig.target.send(end, &[1; 5000]), Ok(5000));
    rig.pass(Duration::from_secs(24 * 3600));
    let closed = rig.take_event(|event| match event {
        Event::Closed(gone, reason) if gone == end => Some(reason),
        _ => None,
    });
    assert_eq!(closed, Some(braidnet::CloseReason::TimedOut));
    let sent = rig.captured.len();
    assert!((15..100).contains(&sent), "{sent} segments");
    rig.assert_undisturbed();
}

/// Two dozen connections both ways through a stack whose memory does not hold a window of each.
fn squeeze(memory_bytes: usize, ethernet: bool) {
    const EACH: usize = 100_000;
    let mut rig = Rig::with(ethernet, |config| config.memory_bytes = memory_bytes);
    let name = format!("{memory_bytes} bytes, ethernet: {ethernet}");
    let pairs: Vec<(Connection, Connection)> = (0..24)
        .map(|_| {
            let there = rig.friend.connect((TARGET, PORT).into()).unwrap();
            for _ in 0..40 {
                rig.pass(Duration::from_millis(500));
                if let Some(here) = rig.accepted() {
                    return (there, here);
                }
            }
            panic!("{name}: nobody is let in");
        })
        .collect();
    let text =
        |salt: usize| -> Vec<u8> { (0..EACH).map(|i| (i * 7 + i / 256 + salt) as u8).collect() };
    let mut sent = vec![(0, 0); pairs.len()];
    let mut heard = vec![(Vec::new(), Vec::new()); pairs.len()];
    let mut exhausted = false;
    for round in 0..4000 {
        for (at, (there, here)) in pairs.iter().enumerate() {
            let (from_friend, from_target) = (text(at), text(at + 100));
            sent[at].0 += rig.friend.send(*there, &from_friend[sent[at].0..]).unwrap();
            sent[at].1 += rig.target.send(*here, &from_target[sent[at].1..]).unwrap();
            let mut buffer = [0; 20_000];
            // For a while the target reads nothing: its memory fills.
            if round > 20 {
                let n = rig.target.receive(*here, &mut buffer).unwrap_or(0);
                heard[at].0.extend_from_slice(&buffer[..n]);
            }
            let n = rig.friend.receive(*there, &mut buffer).unwrap_or(0);
            heard[at].1.extend_from_slice(&buffer[..n]);
        }
        rig.pass(Duration::from_millis(100));
        assert!(rig.target.used_bytes() <= memory_bytes, "{name}");
        exhausted |= rig.target.used_bytes() > memory_bytes - (300 << 10);
        if heard
            .iter()
            .all(|(a, b)| a.len() == EACH && b.len() == EACH)
        {
            break;
        }
    }
    for (at, (a, b)) in heard.iter().enumerate() {
        assert_eq!(
            a.len(),
            EACH,
            "{name}: connection {at}, from the friend: {:?}",
            rig.target.counters()
        );
        assert_eq!(
            b.len(),
            EACH,
            "{name}: connection {at}, from the target: {:?}",
            rig.target.counters()
        );
        assert!(
            *a == text(at) && *b == text(at + 100),
            "{name}: connection {at}"
        );
    }
    assert!(exhausted, "{name}: memory was never short");
    rig.assert_undisturbed();
}

#[test]
fn class_49_memory_runs_out_amid_traffic() {
    for memory_bytes in [1 << 20, 2 << 20, 3 << 20] {
        for ethernet in [false, true] {
            squeeze(memory_bytes, ethernet);
        }
    }
}

/// With no memory at all, nothing works, nothing panics, and nothing lasts.
#[test]
fn class_49_no_memory() {
    for memory_bytes in [0, 1000, 70_000, 200_000] {
        let (here, _there) = memory::wire(Capabilities::ip(1500), 16);
        let mut config = StackConfig::new(TARGET.into());
        config.memory_bytes = memory_bytes;
        let mut stack = Stack::new(&config, here).unwrap();
        stack.listen(PORT, 8).unwrap();
        let mut now = Instant::ZERO;
        for _ in 0..2000 {
            let _ = stack.connect((FRIEND, 7).into());
            stack.turn(now);
            now += Duration::from_millis(10);
        }
        assert!(stack.used_bytes() <= memory_bytes);
    }
}

#[test]
fn class_50_configurations_without_sense() {
    type Change = fn(&mut StackConfig);
    let refused: [(&str, Change); 11] = [
        ("no buckets", |c| c.buckets = 0),
        ("one bucket", |c| c.buckets = 1),
        ("too many buckets", |c| c.buckets = 65_537),
        ("no address", |c| c.addresses.clear()),
        ("an IPv6 address", |c| {
            c.addresses = vec![("::1".parse().unwrap(), None)]
        }),
        ("nobody's address", |c| {
            c.addresses = vec![([0; 4].into(), None)]
        }),
        ("a group's address", |c| {
            c.addresses = vec![([224, 0, 0, 1].into(), None)]
        }),
        ("everybody's address", |c| {
            c.addresses = vec![([255; 4].into(), None)]
        }),
        ("a prefix of 33 bits", |c| c.addresses[0].1 = Some(33)),
        ("an address twice", |c| {
            c.addresses = vec![c.addresses[0]; 2]
        }),
        ("a gateway of its own", |c| c.gateway = Some(TARGET.into())),
    ];
    let device = || memory::wire(Capabilities::ethernet(MacAddress([2; 6]), 1500), 16).0;
    for (what, change) in refused {
        let mut config = StackConfig::new(TARGET.into());
        change(&mut config);
        assert!(Stack::new(&config, device()).is_err(), "{what}");
    }
    for mtu in [0, 1, 67, 65_536, usize::MAX] {
        let device = memory::wire(Capabilities::ip(mtu), 16).0;
        assert!(
            Stack::new(&StackConfig::new(TARGET.into()), device).is_err(),
            "MTU {mtu}"
        );
    }
    for address in [[0; 6], [0xff; 6], [1, 0, 0, 0, 0, 1]] {
        let device = memory::wire(Capabilities::ethernet(MacAddress(address), 1500), 16).0;
        assert!(
            Stack::new(&StackConfig::new(TARGET.into()), device).is_err(),
            "{address:?}"
        );
    }
}

/// Sizes out of range are moved to the nearest that works, and the stack does work.
#[test]
fn class_50_sizes_at_their_ends() {
    type Change = fn(&mut StackConfig);
    let rows: [(&str, Change); 8] = [
        ("2 buckets", |c| c.buckets = 2),
        ("65536 buckets", |c| c.buckets = 65_536),
        ("no batch", |c| c.batch = 0),
        ("an endless batch", |c| c.batch = usize::MAX),
        ("buffers of a byte", |c| {
            c.tcp.receive_buffer_bytes = 1;
            c.tcp.send_buffer_bytes = 1;
        }),
        ("buffers without bounds", |c| {
            c.tcp.receive_buffer_bytes = u32::MAX;
            c.tcp.send_buffer_bytes = u32::MAX;
        }),
        ("no connections", |c| c.connections = 0),
        ("endless connections", |c| c.connections = 1 << 24),
    ];
    for (what, change) in rows {
        println!("class 50: {what}");
        let (here, there) = memory::wire(Capabilities::ip(1500), 64);
        let mut config = StackConfig::new(TARGET.into());
        change(&mut config);
        let mut stack = Stack::new(&config, here).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut friend = Stack::new(&StackConfig::new(FRIEND.into()), there).unwrap();
        stack.listen(PORT, 8).unwrap();
        let call = friend.connect((TARGET, PORT).into()).unwrap();
        let mut now = Instant::ZERO;
        let (mut answer, mut heard) = (None, Vec::new());
        let text = b"hello, whatever your size";
        let (mut sent, mut returned, mut back) = (0, 0, Vec::new());
        for _ in 0..40_000 {
            friend.turn(now);
            stack.turn(now);
            now += Duration::from_millis(5);
            if let Some(Event::Accepted(connection)) = stack.event() {
                answer = Some(connection);
            }
            sent += friend.send(call, &text[sent..]).unwrap();
            let mut buffer = [0; 64];
            if let Some(answer) = answer {
                let n = stack.receive(answer, &mut buffer).unwrap_or(0);
                heard.extend_from_slice(&buffer[..n]);
                returned += stack.send(answer, &heard[returned..]).unwrap();
            }
            let n = friend.receive(call, &mut buffer).unwrap_or(0);
            back.extend_from_slice(&buffer[..n]);
            if back.len() == text.len() {
                break;
            }
        }
        assert_eq!((&heard[..], &back[..]), (&text[..], &text[..]), "{what}");
    }
}

#[test]
fn class_50_local_abuse() {
    let mut rig = Rig::new(false);
    let (next, end) = rig.connect_from(4001, &[]);
    let stranger = Connection::new(end.bucket(), 77_777, 3);
    let device = Connection::default();
    for _ in 0..1000 {
        assert_eq!(rig.target.send(end, &[]), Ok(0));
        assert!(rig.target.receive(end, &mut []).is_ok());
        for nobody in [stranger, device] {
            assert!(rig.target.send(nobody, b"x").is_err());
            assert!(rig.target.receive(nobody, &mut [0; 8]).is_err());
            rig.target.close(nobody);
            rig.target.abort(nobody);
            rig.target.forget(nobody);
            assert!(
                rig.target.receive_message(nobody).is_none() && rig.target.tuple(nobody).is_none()
            );
        }
        rig.settle();
    }
    assert_eq!(rig.captured.len(), 0, "nothing of it is heard");
    rig.segment(&next.clone().data(b"x"));
    assert_eq!(rig.read(end), b"x");
    rig.assert_undisturbed();
    // A number of another stack, whose bucket this one does not have.
    let foreign = Connection::new(braidnet::stream::BucketId(60_000), 0, 0);
    assert!(rig.target.send(foreign, b"x").is_err() && rig.target.tuple(foreign).is_none());
    rig.target.close(foreign);
    rig.target.abort(foreign);
    rig.target.forget(foreign);
    rig.settle();
    rig.assert_undisturbed();
}

/// A stack that goes away with packets inside, at every stage of a connection, and a peer that outlives its messages.
#[test]
fn class_50_a_stack_gone_amid_traffic() {
    for steps in 0..12 {
        let (here, there) = memory::wire(Capabilities::ip(1500), 64);
        let mut stack = Stack::new(&StackConfig::new(TARGET.into()), here).unwrap();
        let mut friend = Stack::new(&StackConfig::new(FRIEND.into()), there).unwrap();
        stack.listen(PORT, 8).unwrap();
        let call = friend.connect((TARGET, PORT).into()).unwrap();
        let mut now = Instant::ZERO;
        for _ in 0..steps {
            friend.turn(now);
            stack.turn(now);
            let _ = friend.send(call, &[9; 30_000]);
            now += Duration::from_millis(1);
        }
        drop(stack);
        for _ in 0..100 {
            friend.turn(now);
            // An idle connection would stand for ever.
            let _ = friend.send(call, b"still there?");
            now += Duration::from_secs(10);
        }
        let mut events = std::iter::from_fn(|| friend.event());
        assert!(
            events.any(|event| matches!(event, Event::Closed(..))),
            "after {steps} steps"
        );
    }
}

/// What the rig says of itself: a stack that loses a byte, or says nothing, fails these tests.
#[test]
fn counters_are_compared_by_name() {
    let before = BTreeMap::from([("a".to_string(), 1), ("b".to_string(), 1)]);
    let after = BTreeMap::from([
        ("a".to_string(), 3),
        ("b".to_string(), 1),
        ("c".to_string(), 1),
    ]);
    let grown = crate::rig::since(&before, &after);
    assert_eq!(grown, [("a".to_string(), 2), ("c".to_string(), 1)]);
    let mut rig = Rig::new(false);
    let answers = rig.segment(&Segment::new((EVIL, 1), (TARGET, PORT)).flags(SYN));
    assert_eq!(answers[0].flags, SYN | ACK);
}
