//! What a caller-turned stack keeps for applications that take their time.

use braidnet::device::{Capabilities, memory};
use braidnet::tcp::Config;
use braidnet::{Connection, Duration, Event, Instant, Stack, StackConfig};
use std::ops::Range;

/// Two stacks on one wire, set like this, with a listener on port 7 of the second.
fn pair(tcp: Config) -> [Stack; 2] {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let stack = |address: &str, wire| {
        let mut config = StackConfig::new(address.parse().unwrap());
        // The fewer buckets, the sooner a place in one is given to another.
        config.buckets = 2;
        config.tcp = tcp;
        Stack::new(&config, wire).unwrap()
    };
    let (client, mut server) = (stack("10.0.0.1", here), stack("10.0.0.2", there));
    server.listen(7, 64).unwrap();
    [client, server]
}

fn settle(stacks: &mut [Stack; 2], now: Instant) {
    for _ in 0..40 {
        for stack in &mut *stacks {
            stack.turn(now);
        }
    }
}

/// TCP is done with a connection long before an application has read all that came over it, and gives its place to the next.
#[test]
fn what_was_received_can_be_read_though_the_connection_has_a_successor() {
    let mut stacks = pair(Config {
        time_wait: Duration::from_millis(1),
        ..Config::default()
    });
    let mut now = Instant::from_millis(1000);
    let mut slow = Vec::new();
    for round in 0..40u8 {
        let call = stacks[0].connect("10.0.0.2:7".parse().unwrap()).unwrap();
        settle(&mut stacks, now);
        stacks[0].send(call, &[round; 100]).unwrap();
        stacks[0].close(call);
        settle(&mut stacks, now);
        while let Some(event) = stacks[1].event() {
            if let Event::Accepted(connection) = event {
                slow.push(connection);
                stacks[1].close(connection);
            }
        }
        now += Duration::from_millis(100);
        settle(&mut stacks, now);
        stacks[0].forget(call);
    }
    assert_eq!(slow.len(), 40);
    assert!(
        stacks[1].statuses().is_empty(),
        "TCP has none of them any more"
    );
    for (round, connection) in (0..).zip(&slow) {
        let mut heard = [0xff; 200];
        assert_eq!(stacks[1].receive(*connection, &mut heard), Ok(100));
        assert_eq!(heard[..100], [round; 100]);
        assert_eq!(stacks[1].receive(*connection, &mut heard), Ok(0), "the end");
        stacks[1].forget(*connection);
        assert!(stacks[1].receive(*connection, &mut heard).is_err());
    }
}

/// Connections that bring their number and end, and of which the second stack's application forgets none; its ends of them.
fn come_and_go(stacks: &mut [Stack; 2], rounds: Range<u32>) -> Vec<Connection> {
    let mut kept = Vec::new();
    for round in rounds {
        let now = |more: u32| Instant::from_millis(1000 + u64::from(round + more) * 100);
        let call = stacks[0].connect("10.0.0.2:7".parse().unwrap()).unwrap();
        settle(stacks, now(0));
        stacks[0].send(call, &round.to_be_bytes()).unwrap();
        stacks[0].close(call);
        settle(stacks, now(0));
        while let Some(event) = stacks[1].event() {
            if let Event::Accepted(connection) = event {
                kept.push(connection);
                stacks[1].close(connection);
            }
        }
        settle(stacks, now(1));
        stacks[0].forget(call);
    }
    kept
}

/// An application that forgets nothing keeps the last thousand or so, and their unread data; those before are counted.
#[test]
fn of_connections_that_nobody_forgets_only_so_many_are_remembered() {
    let mut stacks = pair(Config {
        time_wait: Duration::from_millis(1),
        ..Config::default()
    });
    let kept = come_and_go(&mut stacks, 0..1100);
    assert_eq!(kept.len(), 1100);
    // Those in the places that TCP gives to the next are remembered as well.
    let places = (kept.iter())
        .map(|connection| (connection.bucket(), connection.slot()))
        .collect::<std::collections::HashSet<_>>();
    let forgotten = 1100 - 1024 - places.len();
    let counters = stacks[1].counters();
    assert_eq!(counters["tcp.gone_forgotten"], forgotten as u64);
    for (round, connection) in (0u32..).zip(kept) {
        let mut heard = [0; 4];
        let got = stacks[1].receive(connection, &mut heard);
        match (round as usize) < forgotten {
            true => assert!(got.is_err(), "{round}"),
            false => assert_eq!((got, heard), (Ok(4), round.to_be_bytes())),
        }
    }
}

/// A receive buffer of a megabyte, and a peer that scales no windows: what it may send is 65,535 bytes, however much room there is.
#[test]
fn a_window_without_scale_opens_again_when_all_has_been_read() {
    let mut stacks = pair(Config {
        receive_buffer_bytes: 1 << 20,
        window_scale: false,
        ..Config::default()
    });
    let mut now = Instant::from_millis(1000);
    let call = stacks[0].connect("10.0.0.2:7".parse().unwrap()).unwrap();
    settle(&mut stacks, now);
    let Some(Event::Accepted(answer)) = stacks[1].event() else {
        panic!("nobody called");
    };
    let (mut sent, mut heard) = (0, 0);
    let mut buffer = vec![0; 1 << 20];
    // Two seconds: a timeout or a probe would take 200 ms and bring one byte.
    for _ in 0..200 {
        if sent < 300_000 {
            sent += stacks[0].send(call, &[7; 1000]).unwrap();
        }
        settle(&mut stacks, now);
        heard += stacks[1].receive(answer, &mut buffer).unwrap_or(0);
        now += Duration::from_millis(10);
    }
    settle(&mut stacks, now);
    heard += stacks[1].receive(answer, &mut buffer).unwrap_or(0);
    assert_eq!((sent, heard), (200_000, 200_000));
}

/// As many as are to be: fewer with the next that ends, or more.
#[test]
fn fewer_and_more_that_nobody_forgets_are_remembered() {
    let mut stacks = pair(Config {
        time_wait: Duration::from_millis(1),
        ..Config::default()
    });
    let mut limits = StackConfig::new("10.0.0.2".parse().unwrap()).limits();
    let mut kept = come_and_go(&mut stacks, 0..50);
    let known = |stacks: &mut [Stack; 2], kept: &[Connection]| {
        let mut known = |end: &Connection| stacks[1].receive(*end, &mut []).is_ok();
        kept.iter().filter(|end| known(end)).count()
    };
    let forgotten = |stacks: &[Stack; 2]| {
        let counters = stacks[1].counters();
        counters.get("tcp.gone_forgotten").copied().unwrap_or(0) as usize
    };
    limits.ended_connections = 10;
    stacks[1].set_limits(&limits).unwrap();
    assert_eq!(known(&mut stacks, &kept), 50, "all stay");
    kept.extend(come_and_go(&mut stacks, 50..60));
    let few = known(&mut stacks, &kept);
    assert!(
        (11..20).contains(&few),
        "ten, and those in TCP's places: {few}"
    );
    assert_eq!(forgotten(&stacks), 60 - few);
    limits.ended_connections = 1000;
    stacks[1].set_limits(&limits).unwrap();
    kept.extend(come_and_go(&mut stacks, 60..120));
    assert_eq!(known(&mut stacks, &kept), few + 60);
    assert_eq!(forgotten(&stacks), 60 - few);
    limits.ended_connections = 0;
    stacks[1].set_limits(&limits).unwrap();
    kept.extend(come_and_go(&mut stacks, 120..130));
    assert_eq!(known(&mut stacks, &kept), few - 10, "those in TCP's places");
}
