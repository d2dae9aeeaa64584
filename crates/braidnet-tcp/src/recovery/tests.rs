//! Fast retransmit and recovery with and without SACK, and timeouts, as seen on the wire.

mod doubt;
mod rules;
mod time;

use crate::testing::{ACK, Host, SYN, Wire, sack, segment, starts, thousand, window};
use crate::{Config, CongestionControl, DropReason, Events};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;

/// Losses are found by what has overtaken them, not by time.
fn config(sack: bool) -> Config {
    Config {
        sack,
        rack: false,
        congestion: CongestionControl::NewReno,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    }
}

/// Ten segments of 1000 bytes are in flight: the initial window.
fn ten_in_flight(with_sack: bool, bytes: usize) -> Host {
    let mut host = thousand(&config(with_sack));
    host.end.send(&vec![0; bytes]);
    let sent = host.sent();
    assert_eq!(
        starts(&sent),
        (0..10).map(|at| at * 1000).collect::<Vec<_>>()
    );
    host
}

#[test]
fn without_sack() {
    let mut host = ten_in_flight(false, 40_000);
    let duplicate = segment(ACK, 0, 0, 0);
    // Limited transmit (RFC 3042), then fast retransmit (RFC 5681 §3.2): 12 segments are in flight, 10 of them count.
    for expected in [10_000, 11_000, 0] {
        host.arrive(&duplicate);
        assert_eq!(starts(&host.sent()), [expected]);
    }
    assert_eq!(host.end.tcb.status().ssthresh, 5000);
    // RFC 6582: usable is ssthresh + duplicates - flight; new data flows from the eighth duplicate on.
    let mut sent = Vec::new();
    for _ in 3..9 {
        host.arrive(&duplicate);
        sent.extend(starts(&host.sent()));
    }
    assert_eq!(sent, [12_000, 13_000]);
    // A partial ACK: the next hole, and what deflation leaves.
    host.arrive(&segment(ACK, 0, 3000, 0));
    assert_eq!(starts(&host.sent()), [3000, 14_000]);
    assert!(host.end.tcb.status().is_recovering());
    // A full ACK ends it, without a burst: min(ssthresh, flight + SMSS).
    host.arrive(&segment(ACK, 0, 12_000, 0));
    let status = host.end.tcb.status();
    assert_eq!((status.is_recovering(), status.cwnd), (false, 4000));
}

#[test]
fn without_sack_no_second_fast_retransmit_for_the_same_window() {
    let mut host = ten_in_flight(false, 10_000);
    for _ in 0..3 {
        host.arrive(&segment(ACK, 0, 0, 0));
    }
    assert_eq!(starts(&host.sent()), [0]);
    host.arrive(&segment(ACK, 0, 10_000, 0));
    host.end.send(&[0; 3000]);
    assert_eq!(
        host.sent().len(),
        2,
        "two segments are what the window holds now"
    );
    for _ in 0..5 {
        host.arrive(&segment(ACK, 0, 10_000, 0));
    }
    assert!(
        !host.end.tcb.status().is_recovering(),
        "RFC 6582 §3.2 step 2"
    );
}

#[test]
fn with_sack() {
    let mut host = ten_in_flight(true, 40_000);
    // Segments 0, 2 and 5 are lost. Two SACKed segments allow two new ones (RFC 6675 §5 step 3).
    host.arrive(&sack(0, &[(1000, 2000)]));
    assert_eq!(starts(&host.sent()), [10_000]);
    host.arrive(&sack(0, &[(3000, 4000), (1000, 2000)]));
    assert_eq!(starts(&host.sent()), [11_000]);
    // More than two segments' worth SACKed above 0: lost. The window goes to 5 in proportion to what arrives (RFC 6937): one segment
    // has, of twelve that were in flight; pipe counted 2 and 5 to 11.
    host.arrive(&sack(0, &[(3000, 5000), (1000, 2000)]));
    assert_eq!(starts(&host.sent()), [0]);
    let status = host.end.tcb.status();
    assert_eq!((status.ssthresh, status.is_recovering()), (5000, true));
    assert_eq!(status.cwnd, 8000 + 5000u32.div_ceil(12));
    // 2 is lost as well once three segments above it are SACKed, and goes when the pipe has drained to 4.
    host.arrive(&sack(0, &[(6000, 8000), (3000, 5000), (1000, 2000)]));
    assert_eq!(host.end.tcb.status().pipe, 6000);
    assert_eq!(host.sent(), []);
    host.arrive(&sack(0, &[(6000, 10_000), (3000, 5000), (1000, 2000)]));
    assert_eq!(starts(&host.sent()), [2000, 5000], "rule 1, lowest first");
    assert_eq!(host.end.tcb.status().pipe, 5000);
    // The retransmission of 0 arrives, then all.
    host.arrive(&sack(2000, &[(3000, 5000), (6000, 11_000)]));
    assert_eq!(starts(&host.sent()), [12_000, 13_000], "rule 2: new data");
    host.arrive(&segment(ACK, 0, 12_000, 0));
    let status = host.end.tcb.status();
    assert_eq!((status.is_recovering(), status.cwnd), (false, 5000));
    assert_eq!(starts(&host.sent()), [14_000, 15_000, 16_000]);
}

#[test]
fn with_sack_and_nothing_new_to_send() {
    // Segments 0 and 8 are lost; 8 has too little above it to be lost for certain.
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(1000, 8000)]));
    assert_eq!(
        starts(&host.sent()),
        [0, 9000],
        "rule 4, the rescue, takes the last segment in flight"
    );
    assert_eq!(host.sent(), [], "once");
    host.arrive(&sack(0, &[(9000, 10_000), (1000, 8000)]));
    assert_eq!(
        starts(&host.sent()),
        [8000],
        "the rescue has not moved HighRxt"
    );
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(9000, 10_000), (1000, 8000)]));
    assert_eq!(starts(&host.sent()), [0, 8000], "rule 3");
}

#[test]
fn a_lost_retransmission_is_sent_again_by_the_timer() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(1000, 10_000)]));
    assert_eq!(starts(&host.sent()), [0]);
    host.wait(Duration::from_secs(1));
    assert_eq!(starts(&host.sent()), [0]);
    host.arrive(&segment(ACK, 0, 10_000, 0));
    assert!(!host.end.tcb.status().is_recovering());
    assert_eq!(host.end.tcb.deadline(), None);
}

#[test]
fn a_timeout_sends_all_again_that_was_not_selectively_acknowledged() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(3000, 4000)]));
    host.wait(Duration::from_secs(1));
    assert_eq!(
        starts(&host.sent()),
        [0],
        "one segment: the loss window of RFC 5681 §3.1"
    );
    assert_eq!(host.end.tcb.status().ssthresh, 5000);
    host.wait(Duration::from_secs(1));
    assert_eq!(starts(&host.sent()), [0]);
    assert_eq!(
        host.end.tcb.status().ssthresh,
        5000,
        "not cut twice (RFC 5681 §3.1)"
    );
    host.arrive(&sack(1000, &[(3000, 4000)]));
    assert_eq!(starts(&host.sent()), [1000, 2000], "slow start");
    host.arrive(&segment(ACK, 0, 4000, 0));
    assert_eq!(starts(&host.sent()), [4000, 5000, 6000]);
    host.arrive(&segment(ACK, 0, 10_000, 0));
    assert_eq!(host.end.tcb.deadline(), None);
}

/// RFC 5681 §3.1: `ssthresh` is held constant for a segment that the timer has sent again, not for those behind it.
#[test]
fn each_segment_that_times_out_first_cuts_ssthresh() {
    for with_sack in [false, true] {
        let mut host = ten_in_flight(with_sack, 10_000);
        let mut cuts = Vec::new();
        for acks in [&[1000, 2000, 3000, 4000][..], &[]] {
            for _ in 0..2 {
                let deadline = host.end.tcb.deadline().unwrap();
                host.wait(deadline.since(host.now));
                assert_eq!(host.sent().len(), 1);
                cuts.push(host.end.tcb.status().ssthresh);
            }
            // Slow start up to the threshold.
            for &ack in acks {
                host.arrive(&segment(ACK, 0, ack, 0));
                host.sent();
            }
        }
        assert_eq!(cuts, [5000, 5000, 2500, 2500], "{with_sack}");
    }
}

#[test]
fn a_peer_that_takes_back_what_it_acknowledged() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(1000, 10_000)]));
    host.sent();
    // It acknowledges the first, and holds the others no more (RFC 2018 §8).
    host.arrive(&segment(ACK, 0, 1000, 0));
    host.sent();
    host.wait(Duration::from_secs(2));
    assert_eq!(starts(&host.sent()), [1000]);
    host.arrive(&segment(ACK, 0, 2000, 0));
    assert_eq!(starts(&host.sent()), [2000, 3000]);
}

#[test]
fn the_timer_backs_off_and_gives_up() {
    let mut host = ten_in_flight(false, 10_000);
    let mut waited = Vec::new();
    loop {
        let before = host.now;
        let deadline = host.end.tcb.deadline().unwrap();
        let events = host.wait(deadline.since(before));
        waited.push(deadline.since(before).as_millis());
        if events == Events::TIMED_OUT | Events::CLOSED {
            break;
        }
        // Segments become shorter (RFC 4821 §7.7), and that is all.
        assert_eq!(events - Events::PATH, Events::empty());
        assert_eq!(starts(&host.sent()), [0]);
    }
    // RFC 6298 §5.5 and §2.5; RFC 9293 §3.8.3: at least 100 seconds.
    let expected = [
        200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
    ];
    assert_eq!(waited[..11], expected);
    assert_eq!(waited.len(), 16);
    assert_eq!(host.sent(), []);
    assert_eq!(host.end.tcb.deadline(), None);
}

/// RFC 9293 §3.8.3: R1, SHLD-9 and SHLD-10. Told for each silence once.
#[test]
fn silence_is_told_once() {
    for (silent_retransmissions, told) in [(3, 3), (5, 5), (0, 0), (20, 0)] {
        let config = Config {
            silent_retransmissions,
            ..Host::plain()
        };
        let mut host = thousand(&config);
        host.end.send(&[b'y'; 2000]);
        host.sent();
        for ack in [1000, 2000] {
            let mut timeouts = Vec::new();
            for number in 1..=8 {
                let wait = host.end.tcb.deadline().unwrap().since(host.now);
                let events = host.wait(wait);
                assert_eq!(events - Events::PATH - Events::SILENT, Events::empty());
                if events.contains(Events::SILENT) {
                    timeouts.push(number);
                }
                host.sent();
            }
            assert_eq!(timeouts, Vec::from_iter((told > 0).then_some(told)));
            host.arrive(&segment(ACK, 0, ack, 0));
            host.sent();
        }
    }
}

/// RFC 3465 §2.3: however much an ACK covers, L is one segment then.
#[test]
fn after_a_timeout_an_ack_widens_the_window_by_one_segment() {
    let mut host = ten_in_flight(false, 10_000);
    host.wait(Duration::from_secs(1));
    assert_eq!(starts(&host.sent()), [0]);
    assert_eq!(host.end.tcb.status().cwnd, 1000);
    host.arrive(&segment(ACK, 0, 6000, 0));
    assert_eq!(host.end.tcb.status().cwnd, 2000);
    assert_eq!(starts(&host.sent()), [6000, 7000]);
}

#[test]
fn nonsense_in_sack_blocks_is_named_and_ignored() {
    // HOSTILE-INPUT 8. Blocks, whether they are nonsense.
    let rows: [(&[(i32, i32)], bool); 8] = [
        (&[(2000, 1000)], true),
        (&[(1000, 1000)], true),
        (&[(9000, 10_001)], true),
        (&[(20_000, 30_000)], true),
        (&[(1000, i32::MIN)], true),
        (&[(1000, 2000), (5, 4)], true),
        // D-SACK of what is acknowledged (RFC 2883 §4), and one that a later ACK has overtaken.
        (&[(-2000, -1000)], false),
        (&[(-1000, 1000)], false),
    ];
    for (blocks, nonsense) in rows {
        let mut host = ten_in_flight(true, 10_000);
        host.arrive(&sack(0, blocks));
        let expected: &[_] = if nonsense {
            &[DropReason::BadSackBlock]
        } else {
            &[]
        };
        assert_eq!(host.end.drops, expected, "{blocks:?}");
        host.arrive(&segment(ACK, 0, 10_000, 0));
        assert_eq!(host.end.tcb.deadline(), None, "{blocks:?}");
    }
}

#[test]
fn a_window_that_closes_over_what_is_in_flight() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&window(1000, 0));
    // Probes by the timer, no sign of congestion; the peer answers, so it is never given up (MUST-37).
    for _ in 0..40 {
        let deadline = host.end.tcb.deadline().unwrap();
        assert_eq!(host.wait(deadline.since(host.now)), Events::empty());
        assert_eq!(starts(&host.sent()), [1000]);
        host.arrive(&window(1000, 0));
        assert_eq!(host.sent(), []);
    }
    assert_eq!(host.end.tcb.status().cwnd, 10_000);
    // It opens: what was thrown away goes again at once.
    host.arrive(&window(1000, 3000));
    assert_eq!(starts(&host.sent()), [1000, 2000, 3000]);
}

/// A connection with timestamps, opened in 20 ms.
fn with_timestamps() -> Host {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present = TcpHeader::HAS_TIMESTAMPS;
    let mut host = Host::accept(
        &Config {
            timestamps: true,
            ..Host::plain()
        },
        &syn,
    );
    host.now += Duration::from_millis(20);
    host.arrive(&echoing(0, 0));
    assert_eq!(host.end.tcb.status().srtt, Duration::from_millis(20));
    host
}

/// Such a one whose first segment leaves four times, after 0, 1, 4 and 12 seconds; and the timestamps.
fn sent_four_times() -> (Host, [u32; 4]) {
    let mut host = with_timestamps();
    host.end.send(&[0; 500]);
    let stamps = [0, 1, 3, 8].map(|seconds| {
        host.wait(Duration::from_secs(seconds));
        let sent = host.end.poll(host.now);
        assert_eq!(sent.len(), 1);
        sent[0].header.ts_value
    });
    host.now += Duration::from_millis(30);
    (host, stamps)
}

fn echoing(ack: i32, ts_echo: u32) -> Wire {
    let mut wire = segment(ACK, 0, ack, 0);
    wire.header.present = TcpHeader::HAS_TIMESTAMPS;
    wire.header.ts_echo = ts_echo;
    wire
}

#[test]
fn an_old_echo_is_no_round_trip() {
    let (_, stamps) = sent_four_times();
    // A peer that had the segment all along, and whose ACKs were lost, echoes its first sending for ever (RFC 7323 §4.3).
    let rows = [
        (stamps[0], false),
        (stamps[1], false),
        (stamps[3] - 1, false),
        (stamps[3], true),
        (stamps[3] + 20, true),
        (stamps[3] + 31, false),
        (stamps[3] + (1 << 31), false),
        (0, false),
    ];
    for (echo, is_measured) in rows {
        let (mut host, _) = sent_four_times();
        let before = host.end.tcb.status();
        host.arrive(&echoing(500, echo));
        let after = host.end.tcb.status();
        assert_eq!(after.snd_una, before.snd_nxt);
        assert_eq!(before.srtt != after.srtt, is_measured, "{echo}");
        assert!(after.srtt <= Duration::from_millis(30), "{echo}");
        // Karn's rule: the backoff stays until something is measured.
        assert_eq!(before.rto != after.rto, is_measured, "{echo}");
        // What is sent once is measured again, and the backoff forgotten.
        host.end.send(&[0; 500]);
        host.sent();
        host.now += Duration::from_millis(40);
        host.arrive(&echoing(1000, 0));
        assert!(host.end.tcb.status().rto < Duration::from_millis(300));
    }
}

/// RFC 6298 §5: the backoff ends with the first measurement, and what of this flight comes after it is not sent that late.
#[test]
fn a_backoff_does_not_outlast_the_first_answer() {
    let mut host = with_timestamps();
    // All are in flight when the first is measured.
    host.end.send(&[0; 2000]);
    let sent = host.end.poll(host.now);
    assert!(sent.len() > 1);
    host.now += Duration::from_millis(30);
    let first = sent[0].data.len();
    host.arrive(&echoing(first as i32, sent[0].header.ts_value));
    let mut again = Vec::new();
    for _ in 0..6 {
        let deadline = host.end.tcb.deadline().unwrap();
        host.wait(deadline.since(host.now));
        again = host.end.poll(host.now);
    }
    assert!(host.end.tcb.status().rto > Duration::from_secs(10));
    host.now += Duration::from_millis(30);
    let end = first + again[0].data.len();
    host.arrive(&echoing(end as i32, again[0].header.ts_value));
    assert!(host.end.tcb.status().rto < Duration::from_millis(300));
}

#[test]
fn what_waits_behind_a_hole_measures_no_round_trip() {
    let mut host = ten_in_flight(true, 20_000);
    let before = host.end.tcb.status();
    host.arrive(&sack(0, &[(1000, 10_000)]));
    assert_eq!(starts(&host.sent())[..2], [0, 10_000]);
    // The new segments arrive; the one sent again is late.
    host.now += Duration::from_millis(900);
    host.arrive(&segment(ACK, 0, 11_000, 0));
    let after = host.end.tcb.status();
    assert_eq!((before.srtt, before.rto), (after.srtt, after.rto));
}

/// RFC 5681 §3.1: what proportional rate reduction allows for the moment is no measure of the path.
#[test]
fn a_timeout_amid_fast_recovery_cuts_what_that_led_to() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(7000, 10_000)]));
    assert_eq!(starts(&host.sent())[0], 0);
    let status = host.end.tcb.status();
    assert_eq!((status.ssthresh, status.is_recovering()), (5000, true));
    assert!(status.cwnd < 5000, "{}", status.cwnd);
    host.wait(Duration::from_secs(1));
    let status = host.end.tcb.status();
    assert_eq!((status.ssthresh, status.cwnd), (2500, 1000));
}
