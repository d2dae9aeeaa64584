//! When acknowledgments leave and what window they announce.

use crate::testing::{ACK, FIN, Host, SYN, segment, thousand};
use crate::{Config, Events};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;

fn config() -> Config {
    Config {
        receive_buffer_bytes: 20_000,
        ..Host::plain()
    }
}

/// The window that the last segment announced, if one was sent.
fn announced(host: &mut Host) -> Option<u16> {
    host.end
        .poll(host.now)
        .last()
        .map(|wire| wire.header.window)
}

#[test]
fn every_second_full_segment() {
    let mut host = thousand(&config());
    let mut sent = Vec::new();
    for at in 0..6 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
        host.end.take(1000);
        sent.push(host.sent().len());
    }
    // The first is longer than any seen before, and counts as two of them.
    assert_eq!(sent, [0, 1, 0, 1, 0, 1], "RFC 9293 §3.8.6.3");
}

#[test]
fn one_for_a_run() {
    let mut host = thousand(&Config {
        receive_buffer_bytes: 40_000,
        ..config()
    });
    for at in 0..9 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    assert_eq!(host.sent(), [(ACK, 0, 9000, 0)]);
}

#[test]
fn much_that_is_unread_is_acknowledged_when_it_is_read() {
    let mut host = thousand(&config());
    for at in 0..5 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    // A quarter of the buffer.
    assert_eq!(host.sent(), [(ACK, 0, 5000, 0)]);
    for at in 5..9 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
        assert_eq!(host.sent(), []);
    }
    host.end.take(3999);
    assert_eq!(host.sent(), []);
    host.end.take(1);
    assert_eq!(announced(&mut host), Some(15_000));
    // Who does not read lets nobody wait for long.
    for at in 9..11 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    assert_eq!(host.sent(), []);
    host.wait(Duration::from_millis(40));
    assert_eq!(host.sent(), [(ACK, 0, 11_000, 0)]);
}

#[test]
fn a_small_segment_waits() {
    let mut host = thousand(&config());
    host.arrive(&segment(ACK, 0, 0, 10));
    assert_eq!(host.sent(), []);
    assert_eq!(host.wait(Duration::from_millis(39)), Events::empty());
    assert_eq!(host.sent(), []);
    host.wait(Duration::from_millis(1));
    assert_eq!(host.sent(), [(ACK, 0, 10, 0)]);
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn data_carries_the_acknowledgment() {
    let mut host = thousand(&config());
    host.arrive(&segment(ACK, 0, 0, 10));
    host.end.send(&[0; 10]);
    assert_eq!(host.sent().len(), 1);
    host.arrive(&segment(ACK, 10, 10, 0));
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn disorder_is_told_at_once() {
    let mut host = thousand(&config());
    for at in [2, 3, 4] {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    // Without SACK, each segment is answered, so that the peer can count (RFC 5681 §4.2).
    assert_eq!(host.sent(), [(ACK, 0, 0, 0); 3]);
    // What fills a part of the gap is answered at once, too.
    host.arrive(&segment(ACK, 0, 0, 100));
    assert_eq!(host.sent(), [(ACK, 0, 100, 0)]);
    host.arrive(&segment(ACK, 100, 0, 1900));
    assert_eq!(host.sent(), [(ACK, 0, 5000, 0)]);
    assert_eq!(host.end.received.len(), 5000);
}

#[test]
fn disorder_is_told_with_blocks() {
    let mut host = thousand(&Config {
        sack: true,
        ..config()
    });
    for at in [2, 3, 6] {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    host.end.send(&[0; 10]);
    let out = host.end.poll(host.now);
    assert_eq!(out.len(), 2, "one ACK for the run, bare, before the data");
    let blocks: Vec<(u32, u32)> = out[0]
        .header
        .sack_blocks()
        .iter()
        .map(|block| {
            (
                block.left - out[0].header.ack,
                block.right - out[0].header.ack,
            )
        })
        .collect();
    assert_eq!(blocks, [(6000, 7000), (2000, 4000)], "RFC 2018 §4");
    assert_eq!(out[1].header.sack_count, 0);
}

#[test]
fn the_window_closes_and_opens_by_what_is_worth_it() {
    let mut host = thousand(&config());
    for at in 0..20 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    host.wait(Duration::from_millis(40));
    assert_eq!(announced(&mut host), Some(0));
    // RFC 9293 §3.8.6.2.2: not by less than two segments (or half the buffer).
    host.end.take(1999);
    assert_eq!(announced(&mut host), None);
    host.end.take(1);
    assert_eq!(announced(&mut host), Some(2000));
    // Nor by less than one segment if there is something to say anyway.
    host.end.take(999);
    host.end.tcb.receiver.ack_now = true;
    assert_eq!(announced(&mut host), Some(2000));
    host.end.take(1);
    host.end.tcb.receiver.ack_now = true;
    assert_eq!(announced(&mut host), Some(3000));
    // Beyond half the buffer, the peer hears of it with the next ACK.
    host.end.take(8000);
    assert_eq!(announced(&mut host), Some(11_000));
    host.end.take(9000);
    assert_eq!(announced(&mut host), None);
    host.arrive(&segment(ACK, 20_000, 0, 1000));
    host.wait(Duration::from_millis(40));
    assert_eq!(announced(&mut host), Some(19_000));
}

#[test]
fn a_probe_of_a_closed_window_is_answered_and_its_ack_counts() {
    let mut host = thousand(&config());
    host.end.send(&[0; 10]);
    host.sent();
    for at in 0..20 {
        host.arrive(&segment(ACK, at * 1000, 0, 1000));
    }
    host.sent();
    assert_eq!(host.arrive(&segment(ACK, 20_000, 10, 1)), Events::ACKED);
    assert_eq!(host.sent(), [(ACK, 10, 20_000, 0)]);
    assert_eq!(host.end.received.len(), 20_000);
}

#[test]
fn the_right_edge_never_moves_back() {
    let config = Config {
        window_scale: true,
        receive_buffer_bytes: 1_000_000,
        ..Host::plain()
    };
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_WINDOW_SCALE;
    let mut host = Host::accept(&config, &syn);
    host.arrive(&segment(ACK, 0, 0, 0));
    let mut edge = 0;
    let mut at = 0;
    for turn in 0..2000 {
        let len = 1 + turn * 37 % 1000;
        host.arrive(&segment(ACK, at, 0, len as usize));
        at += len;
        host.end.take(if turn % 3 == 0 { 1300 } else { 0 });
        for wire in host.end.poll(host.now) {
            let window = u32::from(wire.header.window) << 4;
            let right = (wire.header.ack - host.end.tcb.receiver.irs) + window;
            // Rounding apart (RFC 7323 §2.4).
            assert!(right + 16 > edge, "turn {turn}");
            edge = edge.max(right);
        }
    }
    assert_eq!(host.end.drops, [], "what was announced was taken");
}

/// RFC 2883 §4: what arrives twice is reported first, in the ACK that answers it, and once.
#[test]
fn what_arrives_twice_is_reported() {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present = TcpHeader::HAS_SACK_PERMITTED;
    let mut host = Host::accept(
        &Config {
            sack: true,
            receive_buffer_bytes: 60_000,
            ..Host::plain()
        },
        &syn,
    );
    host.arrive(&segment(ACK, 0, 0, 0));
    // Where a segment begins, how long it is, and the blocks of its ACK.
    type Row = (i32, usize, &'static [(i32, i32)]);
    let rows: [Row; 9] = [
        (0, 1000, &[]),
        (0, 500, &[(0, 500)]),
        // Partly new (§4.1.2): the rest is taken.
        (500, 1000, &[(500, 1000)]),
        (3000, 1000, &[(3000, 4000)]),
        // Held already (§4.2.1): what holds it follows.
        (3000, 1000, &[(3000, 4000), (3000, 4000)]),
        (3500, 1000, &[(3500, 4000), (3000, 4500)]),
        // Below the ACK while something is held (§4.1.1).
        (0, 10, &[(0, 10), (3000, 4500)]),
        // Held amid what is new, out of order and in order.
        (2000, 1500, &[(3000, 3500), (2000, 4500)]),
        (1500, 4000, &[(2000, 4500)]),
    ];
    for (seq, len, expected) in rows {
        host.arrive(&segment(ACK, seq, 0, len));
        host.wait(Duration::from_millis(200));
        let sent = host.end.poll(host.now);
        let header = &sent[0].header;
        let start = header.ack - host.end.received.len() as u32;
        let offset = |seq: SeqNumber| (seq - start) as i32;
        let told = header.sack_blocks().iter();
        let blocks: Vec<_> = told
            .map(|block| (offset(block.left), offset(block.right)))
            .collect();
        assert_eq!((sent.len(), &blocks[..]), (1, expected), "{seq} {len}");
    }
}

#[test]
fn the_first_ones_do_not_wait_where_they_are_not_to() {
    let mut host = thousand(&Config {
        quick_acks: 3,
        ..config()
    });
    let mut sent = Vec::new();
    for at in 0..6 {
        host.arrive(&segment(ACK, at * 100, 0, 100));
        host.end.take(100);
        sent.push(host.sent().len());
    }
    assert_eq!(sent, [1, 1, 1, 0, 0, 0]);
    host.wait(Duration::from_millis(40));
    assert_eq!(host.sent(), [(ACK, 0, 600, 0)]);
}

#[test]
fn that_of_a_fin_behind_data_waits_where_it_may() {
    for (fin_ack_waits, len, sent) in [(false, 100, 1), (true, 0, 1), (true, 100, 0)] {
        let mut host = thousand(&Config {
            fin_ack_waits,
            ..config()
        });
        if len > 0 {
            host.arrive(&segment(ACK, 0, 0, len));
            host.end.take(len);
            host.wait(Duration::from_millis(40));
            host.sent();
        }
        let end = len as i32;
        host.arrive(&segment(ACK | FIN, end, 0, 0));
        assert_eq!(host.sent().len(), sent, "{fin_ack_waits} {len}");
        host.wait(Duration::from_millis(40));
        let expected = vec![(ACK, 0, end + 1, 0); 1 - sent];
        assert_eq!(host.sent(), expected);
    }
}
