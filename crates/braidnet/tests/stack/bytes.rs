//! Bytes, windows, bad wires.

use crate::pair::{BOTH_MEDIA, Pair, read, text};
use crate::wire::Impairment;
use braidnet::device::Capabilities;
use braidnet::{CloseReason, Connection, Duration, Event, ReceiveError, StackConfig};

#[test]
fn nothing_is_sent_or_received_of_no_bytes() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    let before = pair.client.counters();
    for _ in 0..1000 {
        assert_eq!(pair.client.send(call, &[]), Ok(0));
        assert_eq!(pair.client.receive(call, &mut []), Ok(0));
        pair.settle();
    }
    assert_eq!(pair.client.counters(), before, "nothing is sent");
    assert_eq!(
        pair.server.receive(answer, &mut [0; 8]),
        Err(ReceiveError::Empty)
    );
    assert!(pair.server.receive_message(answer).is_none());
}

#[test]
fn messages_are_taken_whole() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    let sent = text(500_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..1000 {
        at += pair.client.send(call, &sent[at..]).unwrap();
        pair.pass(Duration::from_millis(1));
        while let Some(message) = pair.server.receive_message(answer) {
            message
                .blocks()
                .for_each(|block| heard.extend_from_slice(block));
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
}

/// The client sends so many bytes, and they are heard.
fn carry(pair: &mut Pair, (call, answer): (Connection, Connection), len: usize) {
    let sent = text(len);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..1000 {
        at += pair.client.send(call, &sent[at..]).unwrap();
        pair.pass(Duration::from_millis(1));
        heard.extend(read(&mut pair.server, answer));
    }
    assert!(heard == sent, "{} bytes", heard.len());
}

#[test]
fn every_segment_of_a_train_leaves_and_is_counted() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        carry(&mut pair, (call, answer), 300_000);
        let (client, server) = (pair.client.counters(), pair.server.counters());
        assert_eq!(client["tcp.segments_out"], server["tcp.segments_in"]);
        assert_eq!(server["tcp.segments_out"], client["tcp.segments_in"]);
        let fewest = 300_000 / 1460;
        assert!(server["tcp.data_segments_in"] >= fewest, "{server:?}");
        assert_eq!(client.get("tcp.retransmitted"), None);
    }
}

/// Both ways over a wire that loses, doubles and delays; the time it took.
fn transfer(medium: Capabilities, impairment: Impairment, len: usize) -> Duration {
    let mut pair = Pair::with(medium, |_| {}, impairment);
    let (call, answer) = pair.connected();
    let (there, back) = (text(len), text(len + 1));
    let mut sent = (0, 0);
    let mut heard = (Vec::new(), Vec::new());
    let start = pair.now;
    for _ in 0..200_000 {
        if sent.0 < there.len() {
            sent.0 += pair.client.send(call, &there[sent.0..]).unwrap();
            if sent.0 == there.len() {
                pair.client.close(call);
            }
        }
        if sent.1 < back.len() {
            sent.1 += pair.server.send(answer, &back[sent.1..]).unwrap();
            if sent.1 == back.len() {
                pair.server.close(answer);
            }
        }
        pair.pass(Duration::from_millis(5));
        heard.0.extend(read(&mut pair.server, answer));
        heard.1.extend(read(&mut pair.client, call));
        let over = pair.client_closed(call).is_some() && pair.server_closed(answer).is_some();
        if over {
            break;
        }
    }
    let seed = impairment.seed;
    assert!(
        heard.0 == there,
        "seed {seed}: {} of {len} there",
        heard.0.len()
    );
    assert!(
        heard.1 == back,
        "seed {seed}: {} of {len} back",
        heard.1.len()
    );
    assert_eq!(
        pair.client_closed(call),
        Some(CloseReason::Closed),
        "seed {seed}"
    );
    assert_eq!(
        pair.server_closed(answer),
        Some(CloseReason::Closed),
        "seed {seed}"
    );
    pair.now.since(start)
}

#[test]
fn every_byte_comes_over_a_bad_wire() {
    let bad = Impairment {
        seed: 0,
        dropped: 20,
        doubled: 20,
        delayed: 50,
    };
    let rows = [
        Impairment {
            dropped: 50,
            ..Impairment::default()
        },
        Impairment {
            doubled: 300,
            ..Impairment::default()
        },
        Impairment {
            delayed: 300,
            ..Impairment::default()
        },
        bad,
        Impairment {
            dropped: 100,
            doubled: 100,
            delayed: 200,
            ..bad
        },
    ];
    for (at, row) in rows.into_iter().enumerate() {
        for seed in 1..=4 {
            let medium = BOTH_MEDIA[seed % 2];
            let seed = (seed * 1000 + at) as u64 * 0x9e37_79b9;
            println!("seed {seed}");
            transfer(medium, Impairment { seed, ..row }, 300_000);
        }
    }
}

#[test]
fn a_good_wire_takes_no_time() {
    for medium in BOTH_MEDIA {
        let took = transfer(medium, Impairment::default(), 1_000_000);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn who_does_not_read_stops_the_other_and_starts_him_again() {
    for medium in BOTH_MEDIA {
        for (receive, pause) in [(256 << 10, 1), (256 << 10, 600), (4096, 60), (1000, 60)] {
            let change = |config: &mut StackConfig| config.tcp.receive_buffer_bytes = receive;
            let mut pair = Pair::with(medium, change, Impairment::default());
            let (call, answer) = pair.connected();
            let sent = text(1_000_000);
            let (mut at, mut heard) = (0, Vec::new());
            let fill = |pair: &mut Pair, at: &mut usize| {
                for _ in 0..4 {
                    *at += pair.client.send(call, &sent[*at..]).unwrap();
                    pair.pass(Duration::from_millis(50));
                }
            };
            fill(&mut pair, &mut at);
            pair.pass(Duration::from_secs(pause));
            fill(&mut pair, &mut at);
            let waiting = pair.server.readable(answer);
            assert!(waiting <= receive as usize, "{waiting} of {receive}");
            assert!(waiting >= receive as usize / 2, "{waiting} of {receive}");
            assert!(at < sent.len() && pair.client.send_space(call) == 0);
            // He reads again, at first a byte at a time.
            for _ in 0..100 {
                let mut byte = [0];
                assert_eq!(pair.server.receive(answer, &mut byte), Ok(1));
                heard.push(byte[0]);
                pair.settle();
            }
            let resumed = pair.now;
            while heard.len() < sent.len() {
                heard.extend(read(&mut pair.server, answer));
                at += pair.client.send(call, &sent[at..]).unwrap();
                pair.pass(Duration::from_micros(100));
                // Window updates are not lost: no probe has to find out.
                let took = pair.now.since(resumed);
                assert!(
                    took < Duration::from_secs(5),
                    "{receive}: {} bytes",
                    heard.len()
                );
            }
            assert!(heard == sent);
        }
    }
}

#[test]
fn a_lost_window_update_is_found_out() {
    let lossy = Impairment {
        seed: 77,
        dropped: 300,
        ..Impairment::default()
    };
    let change = |config: &mut StackConfig| config.tcp.receive_buffer_bytes = 8192;
    let mut pair = Pair::with(Capabilities::ip(1500), change, lossy);
    let (call, answer) = pair.connected();
    let sent = text(60_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..20_000 {
        at += pair.client.send(call, &sent[at..]).unwrap();
        pair.pass(Duration::from_millis(100));
        // Only when everything has come to a stand.
        if pair.server.readable(answer) >= 4096 || at == sent.len() {
            heard.extend(read(&mut pair.server, answer));
        }
        if heard.len() == sent.len() {
            break;
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
}

/// How much room is certain to come back: no application may wait for more in one piece.
#[test]
fn three_quarters_of_the_send_buffer_come_free() {
    const BUFFER: usize = 40_000;
    for len in [1, BUFFER / 4 - 1, BUFFER / 4, BUFFER / 2 + 7, BUFFER] {
        let change = |config: &mut braidnet::StackConfig| {
            config.tcp.send_buffer_bytes = BUFFER as u32;
        };
        let mut pair = Pair::with(BOTH_MEDIA[0], change, Impairment::default());
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send_space(call), BUFFER);
        for _ in 0..20 {
            let n = len.min(pair.client.send_space(call));
            assert_eq!(pair.client.send(call, &text(n)), Ok(n));
            pair.pass(Duration::from_secs(1));
            assert_eq!(read(&mut pair.server, answer).len(), n);
            let space = pair.client.send_space(call);
            assert!(space > BUFFER * 3 / 4, "{len}: {space}");
        }
    }
}

#[test]
fn the_largest_packets_carry_a_stream() {
    let mut pair = Pair::with(
        Capabilities::ip(65_535),
        |config| {
            config.tcp.send_buffer_bytes = 1 << 20;
            config.tcp.receive_buffer_bytes = 1 << 20;
        },
        Impairment::default(),
    );
    let (call, answer) = pair.connected();
    carry(&mut pair, (call, answer), 2_000_000);
}

/// RFC 6093: the mark and the data arrive, in line, and the application that is slow hears of the mark once.
#[test]
fn urgent_data_is_in_line_and_its_mark_is_told() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        pair.client.send(call, b"before").unwrap();
        pair.settle();
        pair.client.send(call, b"urgent").unwrap();
        pair.client.mark_urgent(call);
        pair.client.send(call, b"after").unwrap();
        pair.settle();
        let told = pair.events[1]
            .iter()
            .filter(|event| **event == Event::Urgent(answer));
        assert_eq!(told.count(), 1);
        assert_eq!(pair.server.urgent(answer), 12);
        let mut heard = [0; 8];
        assert_eq!(pair.server.receive(answer, &mut heard), Ok(8));
        assert_eq!(pair.server.urgent(answer), 4);
        assert_eq!(read(&mut pair.server, answer), b"gentafter");
        assert_eq!(pair.server.urgent(answer), 0);
    }
}
