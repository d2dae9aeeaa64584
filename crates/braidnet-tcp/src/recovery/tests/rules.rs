//! Single rules of RFC 5681, RFC 6675, RFC 2018 and RFC 8985, as seen on the wire, that no story of a recovery tells of.

use super::time::{config as by_time, connection, in_flight, wait, waits};
use super::*;

const MS: u64 = 1_000_000;

/// RFC 5681 §3.2, step 1.
#[test]
fn the_first_duplicates_leave_the_window() {
    let mut host = ten_in_flight(false, 40_000);
    for _ in 0..2 {
        host.arrive(&segment(ACK, 0, 0, 0));
        host.sent();
        let status = host.end.tcb.status();
        assert_eq!((status.cwnd, status.is_recovering()), (10_000, false));
    }
}

/// RFC 5681 §3.2, step 1.
#[test]
fn with_sack_a_duplicate_that_tells_nothing_lets_nothing_go() {
    let mut host = ten_in_flight(true, 40_000);
    for _ in 0..5 {
        host.arrive(&segment(ACK, 0, 0, 0));
        assert_eq!(host.sent(), []);
    }
    host.arrive(&sack(0, &[(1000, 2000)]));
    assert_eq!(starts(&host.sent()), [10_000]);
    host.arrive(&sack(0, &[(1000, 2000)]));
    assert_eq!(host.sent(), []);
}

/// RFC 6675 §5, and RFC 5681 §2 without SACK.
#[test]
fn duplicates_before_an_ack_of_new_data_do_not_count() {
    for with_sack in [false, true] {
        // What is told of with SACK is too little to be a loss by itself (RFC 6675 §4, IsLost).
        let duplicate = |ack: i32, told: i32| match with_sack {
            true => sack(ack, &[(2000, 2000 + told)]),
            false => segment(ACK, 0, ack, 0),
        };
        let mut host = ten_in_flight(with_sack, 10_000);
        for (ack, told, recovering) in [
            (0, 10, false),
            (0, 20, false),
            (500, 20, false),
            (500, 30, false),
            (500, 40, false),
            (500, 50, true),
        ] {
            host.arrive(&duplicate(ack, told));
            host.sent();
            let status = host.end.tcb.status();
            assert_eq!(
                status.is_recovering(),
                recovering,
                "{with_sack} {ack} {told}"
            );
        }
    }
}

/// RFC 6675 §4, NextSeg rule 1.
#[test]
fn what_is_lost_goes_before_what_is_new_and_shorter() {
    let mut host = thousand(&Config {
        nagle: false,
        ..config(true)
    });
    host.end.send(&[0; 10_100]);
    assert_eq!(host.sent().len(), 10);
    host.arrive(&sack(0, &[(2000, 5000)]));
    assert_eq!(starts(&host.sent()), [0]);
    // Half a segment may leave: too little for what is lost, enough for what is new.
    host.arrive(&sack(0, &[(2000, 6500)]));
    let status = host.end.tcb.status();
    assert_eq!(status.cwnd - status.pipe, 500);
    assert_eq!(host.sent(), []);
    host.arrive(&sack(0, &[(2000, 7100)]));
    assert_eq!(starts(&host.sent()), [1000, 10_000]);
}

/// RFC 6675 §5: each ACK with SACK says what the peer holds, also one that comes late; what it repeats is nothing.
#[test]
fn blocks_of_an_ack_that_another_has_overtaken_count() {
    let mut host = ten_in_flight(true, 40_000);
    host.arrive(&segment(ACK, 0, 2000, 0));
    host.sent();
    let late = sack(0, &[(3000, 6000)]);
    host.arrive(&late);
    assert_eq!(starts(&host.sent()), [2000]);
    let status = host.end.tcb.status();
    assert!(status.is_recovering(), "{status:?}");
    assert_eq!(host.end.drops, []);
    host.arrive(&late);
    assert_eq!(host.sent(), []);
    assert_eq!(host.end.drops, [DropReason::OldAck]);
    assert_eq!(host.end.tcb.status().pipe, status.pipe);
}

/// RFC 6675 §5, step (A).
#[test]
fn what_is_known_above_the_recovery_point_is_kept() {
    let mut host = ten_in_flight(true, 12_000);
    host.arrive(&sack(0, &[(1000, 4000)]));
    assert_eq!(starts(&host.sent())[0], 0);
    host.arrive(&sack(0, &[(1000, 10_000)]));
    let mut sent = starts(&host.sent());
    host.arrive(&sack(0, &[(11_000, 12_000), (1000, 10_000)]));
    sent.extend(starts(&host.sent()));
    assert!(sent.contains(&11_000), "{sent:?}");
    host.arrive(&sack(10_000, &[(11_000, 12_000)]));
    let status = host.end.tcb.status();
    assert_eq!((status.is_recovering(), status.pipe), (false, 1000));
}

/// RFC 6675 §5.1: what is lost of the flight that timed out is no second sign of congestion.
#[test]
fn after_a_timeout_no_fast_recovery_before_its_end() {
    let mut host = ten_in_flight(true, 10_000);
    host.arrive(&sack(0, &[(1000, 4000)]));
    host.sent();
    assert_eq!(host.end.tcb.status().ssthresh, 5000);
    host.wait(Duration::from_secs(1));
    host.sent();
    assert_eq!(host.end.tcb.status().ssthresh, 2500);
    // Well told, by count and by duplicates.
    for end in [6000, 7000, 8000, 9000, 10_000] {
        host.arrive(&sack(4000, &[(5000, end)]));
        host.sent();
        let status = host.end.tcb.status();
        assert_eq!((status.ssthresh, status.is_recovering()), (2500, true));
    }
    host.arrive(&segment(ACK, 0, 9999, 0));
    assert!(host.end.tcb.status().is_recovering());
    host.arrive(&segment(ACK, 0, 10_000, 0));
    assert!(!host.end.tcb.status().is_recovering());
}

/// RFC 2018 §8: the peer may still throw it away.
#[test]
fn what_is_selectively_acknowledged_is_kept() {
    let mut host = ten_in_flight(true, 10_000);
    let space = host.end.tcb.send_space();
    host.arrive(&sack(0, &[(1000, 10_000)]));
    assert_eq!(host.end.tcb.take_acked(), 0);
    assert_eq!(host.end.tcb.send_space(), space);
}

/// RFC 2883 §5: what an ACK tells of lies above its own number, though a later ACK has moved SND.UNA past it.
#[test]
fn an_ack_that_was_overtaken_reports_nothing_twice() {
    for (overtaken, quarters) in [(true, 1), (false, 2)] {
        let mut host = in_flight(&by_time(), 5);
        wait(&mut host, 40);
        host.arrive(&segment(ACK, 0, 5000, 0));
        for at in 5..10 {
            wait(&mut host, 1);
            host.end.send(&[0; 1000]);
            assert_eq!(starts(&host.sent()), [at * 1000]);
        }
        wait(&mut host, 40);
        host.arrive(&segment(ACK, 0, 8000, 0));
        let told = match overtaken {
            true => sack(6000, &[(7000, 8000)]),
            false => sack(8000, &[(7000, 8000)]),
        };
        host.arrive(&told);
        host.arrive(&sack(8000, &[(9000, 10_000)]));
        // The one before it left 41 ms ago.
        let expected = (quarters * 10 - 1) * MS;
        let waits = waits(&host);
        assert!(waits.abs_diff(expected) < MS, "{overtaken}: {waits}");
    }
}

/// RFC 8985 §4.
#[test]
fn without_sack_losses_are_not_found_by_time() {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS;
    let mut host = Host::accept(&by_time(), &syn);
    host.now += Duration::from_millis(40);
    host.arrive(&segment(ACK, 0, 0, 0));
    host.end.send(&[0; 4000]);
    assert_eq!(host.sent().len(), 4);
    assert_eq!(waits(&host), 200 * MS, "no probe of the tail");
    wait(&mut host, 40);
    host.arrive(&segment(ACK, 0, 0, 0));
    wait(&mut host, 100);
    assert_eq!(host.sent(), []);
}

/// RFC 8985 §7.2: with no round trip known there is a timeout only.
#[test]
fn what_is_not_measured_yet_is_not_probed() {
    let mut host = Host::connect(&by_time());
    host.wait(Duration::from_secs(1));
    assert_eq!(host.sent().len(), 1, "the SYN again");
    let mut answer = segment(SYN | ACK, -1, 0, 0);
    answer.header.mss = 1000;
    answer.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    host.arrive(&answer);
    host.sent();
    host.end.send(&[0; 1000]);
    assert_eq!(host.sent().len(), 1);
    assert_eq!(waits(&host), 3000 * MS);
    wait(&mut host, 3000);
    let status = host.end.tcb.status();
    assert!(!status.probing_tail && status.is_recovering(), "{status:?}");
}

/// RFC 8985 §7.3.
#[test]
fn after_a_probe_the_timeout_is_awaited() {
    let mut host = in_flight(&by_time(), 4);
    wait(&mut host, 80);
    assert_eq!(starts(&host.sent()), [3000]);
    let status = host.end.tcb.status();
    let next = waits(&host);
    assert!(status.probing_tail && next >= 80 * MS, "{next}");
    host.wait(Duration::from_nanos(next));
    assert_eq!(starts(&host.sent()), [0]);
    assert!(host.end.tcb.status().rto > status.rto, "by the timeout");
}

/// RFC 8985 §7.3: probes whose answers measure nothing are not to keep the timeout from learning.
#[test]
fn no_second_probe_before_a_round_trip_is_measured() {
    let mut host = in_flight(&by_time(), 4);
    wait(&mut host, 80);
    assert_eq!(starts(&host.sent()), [3000]);
    wait(&mut host, 40);
    // It answers what was sent twice (Karn's rule), and the peer says that it came twice: the probe is over (§7.4.2).
    host.arrive(&segment(ACK, 0, 4000, 0));
    host.arrive(&sack(4000, &[(3000, 4000)]));
    assert!(!host.end.tcb.status().probing_tail);
    host.end.send(&[0; 2000]);
    assert_eq!(starts(&host.sent()), [4000, 5000]);
    wait(&mut host, 85);
    assert_eq!(host.sent(), [], "not probed");
    host.arrive(&segment(ACK, 0, 6000, 0));
    host.end.send(&[0; 2000]);
    assert_eq!(starts(&host.sent()), [6000, 7000]);
    let probe = waits(&host);
    assert!(probe < 190 * MS, "{probe}");
    host.wait(Duration::from_nanos(probe));
    assert_eq!(starts(&host.sent()), [7000], "probed again");
}

/// A connection to compare with: what is sent on it goes by time.
#[test]
fn with_sack_they_are() {
    let mut host = connection(&by_time());
    host.end.send(&[0; 4000]);
    assert_eq!(host.sent().len(), 4);
    assert!(waits(&host) < 100 * MS);
}
