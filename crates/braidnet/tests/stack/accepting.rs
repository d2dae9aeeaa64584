//! Who is let in, and who waits: a listener's two queues.

use crate::pair::{BOTH_MEDIA, PORT, Pair, read, server};
use crate::wire::Impairment;
use braidnet::{Connection, Duration, Event, Stack, StackConfig};

/// Where the server listens with a backlog of its own.
const NARROW: u16 = PORT + 1;

fn count(stack: &Stack, name: &str) -> u64 {
    stack.counters().get(name).copied().unwrap_or(0)
}

fn accepted(events: &[Event]) -> Vec<Connection> {
    let accepted = |event: &Event| match event {
        Event::Accepted(answer) => Some(*answer),
        _ => None,
    };
    events.iter().filter_map(accepted).collect()
}

#[test]
fn callers_wait_while_nobody_accepts() {
    for medium in BOTH_MEDIA {
        // Without cookies, who finds no place is not answered.
        let change = |config: &mut StackConfig| config.listening.syn_cookies = false;
        let mut pair = Pair::with(medium, change, Impairment::default());
        pair.server.listen(NARROW, 2).unwrap();
        pair.nobody_accepts = true;
        let calls: Vec<_> = (0..5)
            .map(|_| pair.client.connect(server(NARROW)).unwrap())
            .collect();
        // A SYN is sent again after 1, 3, 7, 15 and 31 s.
        pair.pass(Duration::from_secs(2));
        assert_eq!(count(&pair.server, "tcp.opened"), 2);
        assert_eq!(count(&pair.server, "tcp.syn_queue_full"), 3);
        assert_eq!(count(&pair.server, "tcp.accept_queue_full"), 3);
        // One more for each that is accepted.
        let mut answers = Vec::new();
        for (opened, seconds) in [(3, 6), (4, 8), (5, 16)] {
            let Some(Event::Accepted(answer)) = pair.server.event() else {
                panic!("nobody waits")
            };
            answers.push(answer);
            pair.pass(Duration::from_secs(seconds));
            assert_eq!(count(&pair.server, "tcp.opened"), opened);
        }
        pair.nobody_accepts = false;
        pair.settle();
        answers.extend(accepted(&pair.events[1]));
        assert_eq!(answers.len(), 5);
        for call in &calls {
            assert!(pair.events[0].contains(&Event::Connected(*call)));
            assert_eq!(pair.client.send(*call, b"here"), Ok(4));
        }
        pair.settle();
        for answer in answers {
            assert_eq!(read(&mut pair.server, answer), b"here");
        }
    }
}

/// Two are half in when the last place goes to one of them; the other has heard the SYN-ACK and takes itself for connected.
#[test]
fn who_is_half_in_loses_nothing() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        pair.server.listen(NARROW, 2).unwrap();
        pair.nobody_accepts = true;
        let mut calls = vec![pair.client.connect(server(NARROW)).unwrap()];
        pair.settle();
        calls.extend((0..2).map(|_| pair.client.connect(server(NARROW)).unwrap()));
        pair.settle();
        assert_eq!(count(&pair.server, "tcp.opened"), 2);
        assert_eq!(count(&pair.server, "tcp.accept_queue_full"), 1);
        for call in &calls {
            assert!(pair.events[0].contains(&Event::Connected(*call)));
            assert_eq!(pair.client.send(*call, b"here"), Ok(4));
        }
        pair.pass(Duration::from_secs(5));
        assert_eq!(count(&pair.server, "tcp.opened"), 2);
        assert!(count(&pair.server, "tcp.accept_queue_full") > 2);
        pair.nobody_accepts = false;
        pair.pass(Duration::from_secs(20));
        let answers = accepted(&pair.events[1]);
        assert_eq!(answers.len(), 3);
        for answer in answers {
            assert_eq!(read(&mut pair.server, answer), b"here");
        }
    }
}

#[test]
fn who_dies_before_being_accepted_leaves_nothing() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        pair.server.listen(NARROW, 1).unwrap();
        pair.nobody_accepts = true;
        for opened in 1..=100 {
            let call = pair.client.connect(server(NARROW)).unwrap();
            pair.settle();
            assert_eq!(pair.client.send(call, b"nobody reads this"), Ok(17));
            pair.settle();
            pair.client.abort(call);
            pair.settle();
            assert_eq!(count(&pair.server, "tcp.opened"), opened);
            assert_eq!(count(&pair.server, "tcp.closed"), opened);
        }
        let call = pair.client.connect(server(NARROW)).unwrap();
        pair.settle();
        pair.nobody_accepts = false;
        pair.settle();
        assert_eq!(count(&pair.server, "tcp.accept_queue_full"), 0);
        let [Event::Accepted(answer)] = pair.events[1][..] else {
            panic!("{:?}", pair.events[1])
        };
        assert_eq!(pair.client.send(call, b"here"), Ok(4));
        pair.settle();
        assert_eq!(read(&mut pair.server, answer), b"here");
    }
}

/// The next caller is let in though its SYN comes with the turn after the event was taken.
#[test]
fn a_place_is_free_once_its_event_is_taken() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        pair.server.listen(NARROW, 1).unwrap();
        // The neighbours know each other from then on.
        pair.connected();
        for _ in 0..50 {
            pair.client.connect(server(NARROW)).unwrap();
            for _ in 0..3 {
                pair.client.turn(pair.now);
                pair.server.turn(pair.now);
            }
            assert!(matches!(pair.server.event(), Some(Event::Accepted(_))));
        }
        assert_eq!(count(&pair.server, "tcp.accept_queue_full"), 0);
    }
}
