//! Windows, Nagle, silly windows, probes: when new data leaves, as seen on the wire.

use crate::testing::{
    ACK, FIN, Host, PSH, RST, Reply, SYN, sack, segment, starts, thousand, window,
};
use crate::{Config, DropReason, Events, State};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;
use std::sync::Arc;

fn config() -> Config {
    Config {
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    }
}

#[test]
fn small_segments_wait_for_what_is_in_flight() {
    // RFC 9293 §3.7.4.
    let mut host = thousand(&config());
    host.end.send(&[0; 10]);
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 10)]);
    host.end.send(&[0; 10]);
    assert_eq!(host.sent(), []);
    host.end.send(&[0; 995]);
    assert_eq!(
        host.sent(),
        [(ACK, 10, 0, 1000)],
        "a full segment need not wait"
    );
    assert_eq!(host.sent(), []);
    host.end.tcb.close(host.now);
    assert_eq!(host.sent(), [(ACK | PSH | FIN, 1010, 0, 5)], "a FIN pushes");
}

#[test]
fn without_nagle_they_do_not() {
    let mut host = thousand(&Config {
        nagle: false,
        ..config()
    });
    for at in 0..3 {
        host.end.send(&[0; 10]);
        assert_eq!(host.sent(), [(ACK | PSH, at * 10, 0, 10)]);
    }
}

#[test]
fn a_fin_rides_on_the_last_segment_and_comes_last() {
    for bytes in [0, 1, 999, 1000, 1001, 2000] {
        let mut host = thousand(&config());
        host.end.send(&vec![0; bytes as usize]);
        host.end.tcb.close(host.now);
        let sent = host.sent();
        assert_eq!(sent.len() as i32, (bytes.max(1) + 999) / 1000, "{bytes}");
        let &(flags, seq, _, len) = sent.last().unwrap();
        assert_eq!((flags & FIN, seq + len as i32), (FIN, bytes), "{bytes}");
        assert!(!host.end.tcb.send(1), "nothing after the FIN");
        // It is sent again until it is acknowledged.
        host.wait(Duration::from_secs(1));
        host.sent();
        host.arrive(&segment(ACK, 0, bytes, 0));
        host.wait(Duration::from_secs(4));
        assert_eq!(host.sent(), [(ACK | FIN, bytes, 0, 0)], "{bytes}");
        host.arrive(&segment(ACK, 0, bytes + 1, 0));
        assert_eq!(host.end.tcb.state(), State::FinWait2);
        assert_eq!(host.end.tcb.deadline(), None);
    }
}

/// What is sent of `bytes` bytes in segments of at most `cut`, while the peer takes `window`, and once it has acknowledged it.
fn sent_in_trains(
    (bytes, fin, nagle): (usize, bool, bool),
    (peers_window, longest_cut): (u16, u32),
    longest_train: u32,
) -> (Vec<Reply>, usize) {
    let mut host = thousand(&Config { nagle, ..config() });
    host.end.longest_cut = longest_cut;
    host.end.longest_train = longest_train;
    host.end.transmitted = 0;
    host.arrive(&window(0, peers_window));
    host.end.send(&vec![0; bytes]);
    if fin {
        host.end.tcb.close(host.now);
    }
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.extend(host.sent());
        let acked = sent.last().map_or(0, |(_, seq, _, len)| seq + *len as i32);
        host.arrive(&window(acked, peers_window));
    }
    (sent, host.end.transmitted)
}

#[test]
fn trains_are_what_single_segments_would_be() {
    let mut shorter = 0;
    for bytes in [1, 999, 1000, 1001, 2000, 3500, 7000, 9990, 10_000, 30_000] {
        for (fin, nagle) in [(false, false), (false, true), (true, false), (true, true)] {
            for peers_window in [1, 500, 1000, 3000, 4400, 4500, 9000, 60_000] {
                for longest_cut in [1000, 999, 700, 400] {
                    let (case, room) = ((bytes, fin, nagle), (peers_window, longest_cut));
                    let (singles, count) = sent_in_trains(case, room, 0);
                    assert_eq!(singles.len(), count);
                    for longest in [1500, 2500, 65_000] {
                        let (trains, count) = sent_in_trains(case, room, longest);
                        assert_eq!(trains.len(), singles.len(), "{case:?} {room:?} {longest}");
                        for (train, single) in trains.iter().zip(&singles) {
                            assert_eq!(train, single, "{case:?} {room:?} {longest}");
                        }
                        shorter += trains.len() - count;
                    }
                }
            }
        }
    }
    assert!(shorter > 10_000, "{shorter} segments rode in trains");
}

#[test]
fn the_end_of_a_train_is_that_of_its_last_segment() {
    let rows = [
        // Nagle holds the rest back, a FIN does not; the peer's window ends at 60,000.
        (3500, false, true, vec![(ACK, 0, 0, 3000)]),
        (3500, false, false, vec![(ACK | PSH, 0, 0, 3500)]),
        (3500, true, true, vec![(ACK | PSH | FIN, 0, 0, 3500)]),
        (3000, true, true, vec![(ACK | PSH | FIN, 0, 0, 3000)]),
        (3000, false, true, vec![(ACK | PSH, 0, 0, 3000)]),
        (12_500, false, true, vec![(ACK, 0, 0, 10_000)]),
    ];
    for (bytes, fin, nagle, expected) in rows {
        let mut host = thousand(&Config { nagle, ..config() });
        host.end.send(&vec![0; bytes]);
        if fin {
            host.end.tcb.close(host.now);
        }
        host.end.longest_train = 65_000;
        host.end.cuts_trains = false;
        assert_eq!(host.sent(), expected, "{bytes} {fin} {nagle}");
    }
}

#[test]
fn the_second_of_each_pair_is_pushed_where_that_is_asked_for() {
    let mut host = thousand(&Config {
        push_pairs: true,
        ..config()
    });
    host.end.send(&vec![0; 12_500]);
    host.end.longest_train = 65_000;
    host.end.cuts_trains = false;
    let pair = |at| (ACK | PSH, at, 0, 2000);
    let pairs = [0, 2000, 4000, 6000, 8000].map(pair);
    assert_eq!(host.sent(), pairs, "the initial window");
    // One on its own is not.
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(host.sent(), [pair(10_000)]);
    host.arrive(&segment(ACK, 0, 12_000, 0));
    assert_eq!(host.sent(), [(ACK | PSH, 12_000, 0, 500)]);
    host.end.send(&vec![0; 1500]);
    assert_eq!(host.sent(), [(ACK, 12_500, 0, 1000)]);
}

#[test]
fn a_part_of_a_train_that_is_lost_is_sent_again_alone() {
    let mut host = thousand(&config());
    host.end.longest_train = 65_000;
    host.end.transmitted = 0;
    host.end.send(&[0; 8000]);
    assert_eq!((host.sent().len(), host.end.transmitted), (8, 1));
    for end in [4000, 5000, 6000, 7000] {
        host.arrive(&sack(2000, &[(3000, end)]));
    }
    assert_eq!(host.sent(), [(ACK, 2000, 0, 1000)]);
    host.arrive(&segment(ACK, 0, 8000, 0));
    // A timeout sends one segment, however much was lost.
    host.end.send(&[0; 2000]);
    assert_eq!(host.sent().len(), 2);
    host.wait(Duration::from_secs(2));
    assert_eq!(host.sent(), [(ACK, 8000, 0, 1000)]);
}

#[test]
fn the_windows_hold() {
    let mut host = thousand(&config());
    host.end.send(&[0; 30_000]);
    assert_eq!(host.sent().len(), 10, "the initial window (RFC 6928)");
    host.arrive(&window(4000, 9000));
    assert_eq!(
        starts(&host.sent()),
        [10_000, 11_000, 12_000],
        "the peer's window ends at 13,000"
    );
    host.arrive(&window(5000, 8500));
    assert_eq!(
        host.sent(),
        [],
        "half a segment is silly (RFC 9293 §3.8.6.2.1)"
    );
}

#[test]
fn an_ack_brings_its_window_though_its_text_is_old() {
    let mut host = thousand(&config());
    host.end.send(&[0; 30_000]);
    assert_eq!(host.sent().len(), 10);
    // The peer's ACK from past the data that it sends next, and for the second time.
    let mut ahead = window(0, 20_000);
    ahead.header.seq += 10;
    host.arrive(&ahead);
    let mut again = segment(ACK, 0, 10_000, 10);
    again.header.window = 2000;
    host.arrive(&again);
    assert_eq!(host.end.tcb.status().snd_wnd, 2000);
    let starts = starts(&host.sent());
    assert_eq!(starts, [10_000, 11_000], "the peer's window ends at 12,000");
}

/// RFC 6298 §3: once in each, however many ACKs there are.
#[test]
fn each_round_trip_is_measured() {
    let mut host = thousand(&config());
    let mut una = 0;
    for millis in [20, 400, 30, 500] {
        let before = host.end.tcb.status().srtt;
        host.end.send(&[0; 5000]);
        assert_eq!(host.sent().len(), 5);
        host.now += Duration::from_millis(millis);
        for _ in 0..5 {
            una += 1000;
            host.arrive(&segment(ACK, 0, una, 0));
        }
        let measured = Duration::from_millis(millis);
        let expected = before - before / 8 + measured / 8;
        let after = host.end.tcb.status().srtt;
        assert!(after.abs_diff(expected) < Duration::from_micros(1));
    }
}

#[test]
fn an_unused_congestion_window_does_not_grow() {
    let mut host = thousand(&config());
    for at in 1..50 {
        host.end.send(&[0; 1000]);
        assert_eq!(host.sent().len(), 1);
        host.arrive(&segment(ACK, 0, at * 1000, 0));
    }
    assert_eq!(host.end.tcb.status().cwnd, 10_000);
}

#[test]
fn after_idling_the_window_starts_anew() {
    let mut host = thousand(&config());
    host.end.send(&[0; 30_000]);
    host.sent();
    host.arrive(&segment(ACK, 0, 10_000, 0));
    host.sent();
    host.arrive(&segment(ACK, 0, 30_000, 0));
    assert!(host.end.tcb.status().cwnd > 10_000);
    host.wait(Duration::from_secs(5));
    host.end.send(&[0; 30_000]);
    assert_eq!(host.sent().len(), 10, "RFC 5681 §4.1");
}

#[test]
fn a_closed_window_is_probed() {
    let mut host = thousand(&config());
    host.arrive(&window(0, 0));
    host.end.send(&[0; 500]);
    assert_eq!(host.sent(), []);
    // RFC 9293 §3.8.6.1: one byte, ever more rarely; the peer answers, so it is never given up (MUST-37).
    let mut waited = Vec::new();
    for _ in 0..30 {
        let deadline = host.end.tcb.deadline().expect("a probe is due");
        waited.push(deadline.since(host.now).as_millis());
        assert_eq!(host.wait(deadline.since(host.now)), Events::empty());
        assert_eq!(host.sent(), [(ACK, 0, 0, 1)]);
        host.arrive(&window(0, 0));
        assert_eq!(host.sent(), []);
    }
    let expected = [
        200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
    ];
    assert_eq!(waited[..11], expected);
    // The window opens.
    host.arrive(&window(0, 5000));
    assert_eq!(host.sent(), [(ACK | PSH, 0, 0, 500)]);
    host.arrive(&window(500, 0));
    assert_eq!(host.end.tcb.deadline(), None);
    // Closed again, the waiting starts anew.
    host.end.send(&[0; 500]);
    host.sent();
    let wait = host.end.tcb.deadline().unwrap().since(host.now);
    assert_eq!(wait, Duration::from_millis(200));
}

#[test]
fn what_was_probed_with_is_sent_again() {
    let mut host = thousand(&config());
    host.arrive(&window(0, 0));
    host.end.send(&[0; 500]);
    host.sent();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.sent(), [(ACK, 0, 0, 1)]);
    host.arrive(&window(0, 5000));
    let now = host.now;
    let transmit = host.end.tcb.poll_transmit(now, |_, max| max);
    assert!(transmit.is_some_and(|transmit| transmit.len == 500 && transmit.retransmission));
}

#[test]
fn a_probe_may_be_taken() {
    let mut host = thousand(&config());
    host.arrive(&window(0, 0));
    host.end.send(&[0; 2]);
    host.sent();
    for at in 0..2 {
        let deadline = host.end.tcb.deadline().unwrap();
        host.wait(deadline.since(host.now));
        assert_eq!(starts(&host.sent()), [at]);
        host.arrive(&window(at + 1, 0));
        assert_eq!(host.end.drops, [], "what a probe sent may be acknowledged");
        host.sent();
    }
    assert_eq!(host.end.tcb.deadline(), None);
    assert_eq!(host.end.tcb.send_space(), 1 << 20);
}

#[test]
fn a_closed_window_that_never_answers_is_given_up() {
    let mut host = thousand(&config());
    host.arrive(&window(0, 0));
    host.end.tcb.close(host.now);
    let mut probes = 0;
    loop {
        host.sent();
        let deadline = host.end.tcb.deadline().unwrap();
        if host
            .wait(deadline.since(host.now))
            .contains(Events::TIMED_OUT)
        {
            break;
        }
        assert_eq!(host.sent(), [(ACK | FIN, 0, 0, 0)]);
        probes += 1;
    }
    assert_eq!(probes, 15);
}

#[test]
fn a_silly_window_is_used_in_the_end() {
    let mut host = thousand(&config());
    host.end.send(&[0; 1000]);
    host.sent();
    host.arrive(&window(1000, 10));
    host.end.send(&[0; 1000]);
    assert_eq!(host.sent(), [], "10 of 60,000");
    let deadline = host
        .end
        .tcb
        .deadline()
        .expect("the override timeout of RFC 9293 §3.8.6.2.1");
    host.wait(deadline.since(host.now));
    assert_eq!(host.sent(), [(ACK, 1000, 0, 10)]);
}

#[test]
fn the_segment_size_is_the_lesser_of_both() {
    // The peer's option, ours, timestamps; bytes in a full segment (RFC 6691 §2, RFC 9293 §3.7.1).
    let rows = [
        (Some(1000), 1460, false, 1000),
        (Some(1000), 1460, true, 988),
        (Some(9000), 1460, false, 1460),
        (None, 1460, false, 536),
        // HOSTILE-INPUT 9.
        (Some(0), 1460, false, 88),
        (Some(48), 1460, true, 76),
        (Some(1000), 0, true, 76),
    ];
    for (peer, ours, timestamps, expected) in rows {
        let mut syn = segment(SYN, -1, 0, 0).header;
        syn.present = TcpHeader::HAS_TIMESTAMPS;
        if let Some(mss) = peer {
            syn.present |= TcpHeader::HAS_MSS;
            syn.mss = mss;
        }
        let config = Config {
            timestamps,
            ..config()
        };
        let now = braidnet_wire::time::Instant::ZERO;
        let tcb = crate::Tcb::<crate::testing::Bytes>::accept(
            &Arc::new(config),
            syn.seq,
            ours,
            &syn,
            now,
        );
        assert_eq!(tcb.mss(), expected, "{peer:?} {ours} {timestamps}");
    }
}

#[test]
fn syns_are_sent_again_and_given_up() {
    let mut host = Host::connect(&config());
    let mut seconds = 0;
    let mut sent = 1;
    loop {
        let deadline = host.end.tcb.deadline().unwrap();
        seconds += deadline.since(host.now).as_secs();
        if host.wait(deadline.since(host.now)) == Events::TIMED_OUT | Events::CLOSED {
            break;
        }
        assert_eq!(host.sent(), [(SYN, -1, 0, 0)]);
        sent += 1;
    }
    assert!(seconds >= 180, "RFC 9293 §3.8.3, MUST-23: {seconds}");
    assert_eq!(sent, 8);
}

#[test]
fn a_lost_syn_makes_for_a_small_start() {
    let mut host = Host::connect(&config());
    host.wait(Duration::from_secs(1));
    host.sent();
    host.arrive(&segment(SYN | ACK, -1, 0, 0));
    let status = host.end.tcb.status();
    assert_eq!(status.cwnd, 536, "RFC 6928 §2");
    assert_eq!(status.rto, Duration::from_secs(3), "RFC 6298 §5.7");
    assert_eq!(status.srtt, Duration::ZERO, "Karn");
}

#[test]
fn an_ack_of_the_unsent_releases_nothing() {
    let mut host = thousand(&config());
    host.end.send(&[0; 20_000]);
    host.sent();
    host.arrive(&segment(ACK, 0, 10_001, 0));
    assert_eq!(host.end.drops, [DropReason::AckOfUnsent]);
    assert_eq!(host.end.tcb.send_space(), (1 << 20) - 20_000);
}

#[test]
fn aborts() {
    let mut host = Host::in_state(State::Established, 3);
    host.end.tcb.abort();
    assert_eq!(host.end.tcb.state(), State::Closed);
    assert_eq!(host.sent(), [(RST | ACK, 3, 0, 0)], "RFC 9293 §3.10.5");
    assert_eq!(host.end.tcb.deadline(), None);
    for state in [
        State::SynSent,
        State::LastAck,
        State::Closing,
        State::TimeWait,
    ] {
        let mut host = Host::in_state(state, 3);
        host.end.tcb.abort();
        assert_eq!(host.sent(), [], "{state}");
    }
}

#[test]
fn data_that_nobody_reads_is_refused_from_the_next_segment_on() {
    let mut host = Host::in_state(State::Established, 0);
    host.end.tcb.shut_receive(host.now);
    host.arrive(&segment(ACK, 0, 0, 5));
    assert_eq!((host.end.is_closed(), host.end.received.len()), (true, 0));
}

#[test]
fn data_that_nobody_reads_is_answered_with_a_reset() {
    let mut host = Host::in_state(State::FinWait2, 0);
    host.end.tcb.shut_receive(host.now);
    assert!(host.end.tcb.deadline().is_some(), "FIN-WAIT-2 is bounded");
    host.arrive(&segment(ACK, 0, 1, 5));
    assert_eq!(host.end.drops, [DropReason::NobodyReads]);
    assert_eq!(host.sent(), [(RST | ACK, 1, 0, 0)], "RFC 9293 §3.6.1");
    assert!(host.end.is_closed());
}

/// What waits behind a closed window has no FIN yet: in the RFC's terms the user is still closing, and the peer is told
/// (RFC 9293 §3.10.4, §3.10.5).
#[test]
fn who_aborts_before_the_fin_has_left_tells_the_peer() {
    for (state, closed) in [
        (State::CloseWait, State::LastAck),
        (State::Established, State::Closing),
    ] {
        for (room, last) in [(0, RST), (9, 0)] {
            let mut host = Host::in_state(state, 0);
            let at = i32::from(state == State::CloseWait);
            host.arrive(&window(0, 0));
            let mut wider = segment(ACK, at, 0, 0);
            wider.header.window = room;
            host.arrive(&wider);
            host.end.send(b"data");
            host.end.tcb.close(host.now);
            let mut fin = segment(FIN | ACK, 0, 0, 0);
            fin.header.window = room;
            host.arrive(&fin);
            host.sent();
            assert_eq!(host.end.tcb.state(), closed);
            host.end.tcb.abort();
            let flags: Vec<u8> = host.sent().iter().map(|sent| sent.0 & RST).collect();
            assert_eq!(
                flags,
                Vec::from_iter((last != 0).then_some(last)),
                "{state} {room}"
            );
        }
    }
}
