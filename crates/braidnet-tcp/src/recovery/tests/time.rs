//! Losses found by time, and probes of the tail (RFC 8985), as seen on the wire.

use crate::testing::{ACK, Host, SYN, Wire, sack, segment, starts};
use crate::{Config, CongestionControl};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;

const MS: u64 = 1_000_000;

pub(super) fn config() -> Config {
    Config {
        sack: true,
        congestion: CongestionControl::NewReno,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    }
}

pub(super) fn wait(host: &mut Host, millis: u64) {
    host.wait(Duration::from_millis(millis));
}

/// A connection over which a round trip takes 40 ms and the peer takes segments of 1000 bytes.
pub(super) fn connection(config: &Config) -> Host {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    if config.timestamps {
        syn.header.mss = 1012;
        syn.header.present |= TcpHeader::HAS_TIMESTAMPS;
    }
    let mut host = Host::accept(config, &syn);
    host.now += Duration::from_millis(40);
    let mut ack = segment(ACK, 0, 0, 0);
    if config.timestamps {
        ack.header.present = TcpHeader::HAS_TIMESTAMPS;
    }
    host.arrive(&ack);
    assert_eq!(host.sent(), []);
    host
}

/// The same with `count` segments in flight, each sent a millisecond after the one before, the last just now.
pub(super) fn in_flight(config: &Config, count: i32) -> Host {
    let mut host = connection(config);
    for at in 0..count {
        wait(&mut host, 1);
        host.end.send(&[0; 1000]);
        assert_eq!(starts(&host.sent()), [at * 1000]);
    }
    host
}

pub(super) fn waits(host: &Host) -> u64 {
    let deadline = host.end.tcb.deadline().unwrap();
    deadline.nanos() - host.now.nanos()
}

#[test]
fn a_quarter_of_a_round_trip_is_left_for_reordering() {
    // §6.2 step 4 and 5: one segment has overtaken.
    let mut host = in_flight(&config(), 5);
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(4000, 5000)]));
    assert_eq!(host.sent(), []);
    // The first left 44 ms ago and is overdue after 50, the fourth a millisecond before the one that arrived.
    assert_eq!(waits(&host), 9 * MS, "until all are");
    wait(&mut host, 8);
    assert_eq!(host.sent(), []);
    wait(&mut host, 1);
    assert_eq!(starts(&host.sent()), [0]);
    assert!(host.end.tcb.status().is_recovering());
}

#[test]
fn what_arrives_in_time_was_only_late() {
    let mut host = in_flight(&config(), 5);
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(4000, 5000)]));
    wait(&mut host, 5);
    host.arrive(&segment(ACK, 0, 5000, 0));
    wait(&mut host, 1000);
    assert_eq!(host.sent(), []);
    assert_eq!(host.end.tcb.status().cwnd, 10_000);
}

#[test]
fn three_that_have_overtaken_are_enough_until_something_was_reordered() {
    // §6.2 step 4: no window while nothing was ever reordered and DupThresh segments have overtaken.
    let mut host = in_flight(&config(), 5);
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(1000, 4000)]));
    assert_eq!(starts(&host.sent()), [0], "at once");
    let mut host = in_flight(&config(), 5);
    wait(&mut host, 40);
    // The fifth overtakes, then the others arrive in order: reordering is seen (step 3).
    host.arrive(&sack(0, &[(4000, 5000)]));
    host.arrive(&sack(0, &[(1000, 2000), (4000, 5000)]));
    host.arrive(&segment(ACK, 0, 5000, 0));
    for at in 5..10 {
        wait(&mut host, 1);
        host.end.send(&[0; 1000]);
        assert_eq!(starts(&host.sent()), [at * 1000]);
    }
    wait(&mut host, 40);
    host.arrive(&sack(5000, &[(6000, 9000)]));
    assert_eq!(host.sent(), [], "they may have overtaken again");
    assert_eq!(waits(&host), 7 * MS);
}

#[test]
fn what_was_sent_again_and_is_lost_again_needs_no_timeout() {
    let mut host = in_flight(&config(), 8);
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(1000, 8000)]));
    host.end.send(&[0; 3000]);
    assert_eq!(starts(&host.sent()), [0, 8000, 9000, 10_000]);
    wait(&mut host, 1);
    host.end.send(&[0; 3000]);
    // What left after it arrives a round trip later, and it does not.
    wait(&mut host, 39);
    host.arrive(&sack(0, &[(1000, 11_000)]));
    assert_eq!(starts(&host.sent())[0], 0, "§6.2 step 5");
    assert!(
        host.end.tcb.status().rto < Duration::from_millis(400),
        "no timeout has backed off"
    );
}

/// RFC 5681 §4.3, RFC 8985 §3.4: a second sign of congestion, and a third where that is lost as well.
#[test]
fn each_loss_of_what_was_sent_again_cuts_the_window_again() {
    let mut host = in_flight(&config(), 10);
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(1000, 10_000)]));
    host.end.send(&[0; 20_000]);
    let mut next = 10_000;
    for ssthresh in [5000, 2500, 2000] {
        assert_eq!(host.end.tcb.status().ssthresh, ssthresh);
        let sent = starts(&host.sent());
        assert_eq!(sent[0], 0);
        next = sent.iter().map(|start| start + 1000).fold(next, i32::max);
        wait(&mut host, 40);
        // What left with it has arrived. Told a second time, it is no further sign.
        for _ in 0..2 {
            host.arrive(&sack(0, &[(1000, next)]));
        }
    }
    assert!(host.end.tcb.status().is_recovering());
}

#[test]
fn reports_of_duplicates_widen_the_window() {
    // §6.2 step 4, in quarters of the round trip: with each round that sees a D-SACK.
    let mut host = in_flight(&config(), 5);
    wait(&mut host, 40);
    host.arrive(&segment(ACK, 0, 5000, 0));
    for (round, quarters) in [(1, 2), (2, 3), (3, 4), (4, 4)] {
        let una = round * 5000;
        for at in 0..5 {
            wait(&mut host, 1);
            host.end.send(&[0; 1000]);
            assert_eq!(starts(&host.sent()), [una + at * 1000]);
        }
        host.arrive(&sack(una, &[(una - 1000, una)]));
        // A second one in the same round does not count.
        host.arrive(&sack(una, &[(una - 2000, una - 1000)]));
        wait(&mut host, 40);
        host.arrive(&sack(una, &[(una + 4000, una + 5000)]));
        // The fourth, which left 41 ms ago, is waited for; the window is a round trip at most.
        let window = (quarters * 10).min(host.end.tcb.status().srtt.as_millis() as u64);
        assert!(
            waits(&host).abs_diff((window - 1) * MS) < MS,
            "{quarters} quarters: {}",
            waits(&host)
        );
        host.arrive(&segment(ACK, 0, una + 5000, 0));
        assert_eq!(host.sent(), []);
    }
}

/// A clock that moves in steps longer than the round trip: what leaves, and arrives, in one step did so at one time.
#[test]
fn a_coarse_clock_finds_no_loss_in_mild_reordering() {
    for step in [10, 100] {
        let mut host = connection(&Config {
            clock_granularity: Duration::from_millis(step),
            ..config()
        });
        for round in 0..20 {
            let una = round * 8000;
            host.end.send(&[0; 8000]);
            assert_eq!(host.sent().len(), 8);
            if round % 2 == 1 {
                wait(&mut host, step);
            }
            // Two have overtaken each time.
            host.arrive(&sack(una, &[(una + 1000, una + 2000)]));
            host.arrive(&sack(una, &[(una + 1000, una + 3000)]));
            assert_eq!(host.sent(), [], "round {round}");
            host.arrive(&segment(ACK, 0, una + 8000, 0));
            let status = host.end.tcb.status();
            assert!(
                !status.is_recovering() && status.cwnd >= 10_000,
                "round {round}: {status:?}"
            );
        }
    }
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    // §7.2 and §7.3: the last segment once more, and only once.
    let mut host = in_flight(&config(), 4);
    assert_eq!(waits(&host), 78 * MS, "since the second was sent");
    wait(&mut host, 78);
    assert_eq!(host.sent(), [], "the last left 78 ms ago");
    assert_eq!(waits(&host), 2 * MS);
    wait(&mut host, 2);
    assert!(host.end.tcb.status().probing_tail);
    assert_eq!(starts(&host.sent()), [3000]);
    assert_eq!(host.end.tcb.status().cwnd, 10_000);
    // §7.4: what is missing is told by the answer, and repaired without a timeout.
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(3000, 4000)]));
    wait(&mut host, 20);
    assert_eq!(starts(&host.sent())[0], 0);
    assert!(host.end.tcb.status().rto < Duration::from_millis(400));
}

#[test]
fn new_data_probes_the_tail_where_there_is_some() {
    let mut host = in_flight(&config(), 4);
    // Nagle holds it back (RFC 9293 §3.7.4); a probe does not wait.
    host.end.send(&[0; 10]);
    assert_eq!(host.sent(), []);
    wait(&mut host, 80);
    assert_eq!(starts(&host.sent()), [4000]);
    wait(&mut host, 40);
    host.arrive(&segment(ACK, 0, 4010, 0));
    let status = host.end.tcb.status();
    assert!(!status.probing_tail && status.cwnd >= 10_000, "{status:?}");
}

#[test]
fn a_lone_segment_is_given_time_for_a_delayed_ack() {
    // §7.2: the timeout, 200 ms at least, comes before two round trips and 200 ms.
    let mut host = in_flight(&config(), 1);
    assert_eq!(waits(&host), 200 * MS);
    wait(&mut host, 200);
    assert!(!host.end.tcb.status().probing_tail && host.end.tcb.status().is_recovering());
}

#[test]
fn a_probe_that_has_repaired_a_loss_is_paid_for() {
    // §7.4.2. Whether the peer reports a duplicate, whether the window is cut.
    for (twice, cut) in [(true, false), (false, true)] {
        let mut host = in_flight(&config(), 4);
        wait(&mut host, 80);
        assert_eq!(starts(&host.sent()), [3000]);
        host.end.send(&[0; 1000]);
        assert_eq!(starts(&host.sent()), [4000]);
        wait(&mut host, 40);
        host.arrive(&segment(ACK, 0, 4000, 0));
        if twice {
            host.arrive(&sack(4000, &[(3000, 4000)]));
        }
        host.arrive(&segment(ACK, 0, 5000, 0));
        let status = host.end.tcb.status();
        assert_eq!(status.cwnd < 10_000, cut, "{status:?}");
        assert!(!status.probing_tail);
    }
}

#[test]
fn while_a_probe_is_awaited_data_leave_in_trains() {
    let mut host = in_flight(&config(), 4);
    host.end.longest_train = 65_000;
    wait(&mut host, 80);
    assert_eq!(starts(&host.sent()), [3000]);
    // It may answer the probe, or what the probe repeats: more is waited for.
    host.arrive(&segment(ACK, 0, 4000, 0));
    assert!(host.end.tcb.status().probing_tail);
    host.end.transmitted = 0;
    host.end.send(&[0; 8000]);
    assert_eq!(host.sent().len(), 8);
    assert_eq!(host.end.transmitted, 1);
}

#[test]
fn a_probe_that_is_due_leaves_before_a_train() {
    let mut host = in_flight(&config(), 4);
    host.end.longest_train = 65_000;
    wait(&mut host, 80);
    host.end.transmitted = 0;
    host.end.send(&[0; 6000]);
    assert_eq!(host.sent().len(), 6);
    assert_eq!(host.end.transmitted, 2, "the probe, and what follows");
}

#[test]
fn while_a_cut_is_in_doubt_data_leave_in_trains() {
    let mut host = in_flight(&config(), 8);
    host.end.longest_train = 65_000;
    wait(&mut host, 40);
    host.arrive(&sack(0, &[(1000, 8000)]));
    wait(&mut host, 20);
    assert_eq!(starts(&host.sent())[0], 0);
    wait(&mut host, 40);
    host.arrive(&segment(ACK, 0, 8000, 0));
    let status = host.end.tcb.status();
    assert!(
        !status.is_recovering() && status.cwnd < 10_000,
        "{status:?}"
    );
    assert!(host.end.tcb.is_transmit_due(), "the cut may be in vain yet");
    host.end.transmitted = 0;
    host.end.send(&[0; 8000]);
    assert!(host.sent().len() > 2);
    assert_eq!(host.end.transmitted, 1);
}

/// §7.4.2: what a probe seems to have repaired had only been late, as a late D-SACK tells.
#[test]
fn a_probe_that_was_needless_is_paid_back() {
    let mut host = in_flight(&config(), 4);
    wait(&mut host, 80);
    assert_eq!(starts(&host.sent()), [3000]);
    host.end.send(&[0; 1000]);
    assert_eq!(starts(&host.sent()), [4000]);
    wait(&mut host, 40);
    let before = host.end.tcb.status();
    host.arrive(&segment(ACK, 0, 5000, 0));
    assert!(host.end.tcb.status().cwnd < before.cwnd);
    host.arrive(&sack(5000, &[(3000, 4000)]));
    let after = host.end.tcb.status();
    assert_eq!((after.cwnd, after.ssthresh), (before.cwnd, before.ssthresh));
}

#[test]
fn at_a_timeout_only_what_is_old_is_lost() {
    // §6.3: what has just left may still arrive.
    let mut host = in_flight(&config(), 2);
    wait(&mut host, 40);
    host.arrive(&segment(ACK, 0, 1000, 0));
    // The timer runs from the ACK; new segments leave late.
    wait(&mut host, 190);
    host.sent();
    host.end.send(&[0; 2000]);
    host.sent();
    wait(&mut host, 40);
    let status = host.end.tcb.status();
    assert!(status.is_recovering(), "{status:?}");
    assert_eq!(starts(&host.sent()), [1000]);
    assert_eq!(
        host.end.tcb.status().pipe,
        3000,
        "two in flight, one sent again"
    );
}

#[test]
fn no_probe_goes_before_its_time_where_the_timeout_comes_first() {
    // §7.2: the last segment is given two round trips, or until the timeout.
    let mut host = connection(&Config {
        nagle: false,
        ..config()
    });
    for at in 0..39 {
        host.end.send(&[0; 250]);
        assert_eq!(starts(&host.sent()), [at * 250], "after {} ms", at * 5);
        wait(&mut host, 5);
    }
    wait(&mut host, 5);
    assert!(host.end.tcb.status().is_recovering(), "after 200 ms");
}

#[test]
fn what_is_lost_of_small_segments_needs_no_timeout() {
    let mut host = connection(&Config {
        nagle: false,
        ..config()
    });
    for at in 0..6 {
        host.end.send(&[0; 100]);
        assert_eq!(starts(&host.sent()), [at * 100]);
    }
    wait(&mut host, 40);
    // Two are missing; one is sent again at once, the other for what its answer leaves room for (RFC 9937 §7).
    host.arrive(&sack(0, &[(300, 400), (100, 200)]));
    host.arrive(&sack(0, &[(300, 500), (100, 200)]));
    host.arrive(&sack(0, &[(300, 600), (100, 200)]));
    let mut sent = starts(&host.sent());
    wait(&mut host, 10);
    sent.extend(starts(&host.sent()));
    wait(&mut host, 30);
    host.arrive(&sack(200, &[(300, 600)]));
    sent.extend(starts(&host.sent()));
    assert_eq!(sent, [0, 200]);
    assert!(host.end.tcb.status().is_recovering());
}

#[test]
fn a_recovery_that_lasts_as_long_as_the_timeout_is_not_cut_short_by_it() {
    // RFC 6675 §6. A round trip that never varies: the timeout comes next to it.
    let mut host = connection(&Config {
        min_rto: Duration::from_millis(1),
        ..config()
    });
    for round in 1..=40 {
        host.end.send(&[0; 1000]);
        assert_eq!(host.sent().len(), 1);
        wait(&mut host, 40);
        host.arrive(&segment(ACK, 0, round * 1000, 0));
    }
    let rto = host.end.tcb.status().rto;
    assert!(rto < Duration::from_millis(41), "{rto:?}");
    host.end.send(&[0; 8000]);
    assert_eq!(host.sent().len(), 8);
    wait(&mut host, 40);
    host.arrive(&sack(40_000, &[(41_000, 48_000)]));
    assert_eq!(starts(&host.sent()), [40_000]);
    wait(&mut host, 40);
    assert_eq!(host.sent(), []);
    host.arrive(&segment(ACK, 0, 48_000, 0));
    let status = host.end.tcb.status();
    assert!(!status.is_recovering() && status.cwnd > 2000, "{status:?}");
}

#[test]
fn a_timeout_amid_recovery_does_not_go_by_what_recovery_let_out() {
    let mut host = connection(&config());
    host.end.send(&[0; 200_000]);
    let mut una = 0;
    while host.end.tcb.status().cwnd < 40_000 {
        una += 1000 * host.sent().len() as i32;
        wait(&mut host, 40);
        host.arrive(&segment(ACK, 0, una, 0));
    }
    let end = una + 1000 * host.sent().len() as i32;
    wait(&mut host, 40);
    host.arrive(&sack(una, &[(end - 3000, end)]));
    host.sent();
    let status = host.end.tcb.status();
    assert!(status.is_recovering() && status.cwnd < 5000, "{status:?}");
    assert_eq!(status.ssthresh, 20_000);
    while host.end.tcb.status().rto == status.rto {
        let wait = waits(&host);
        host.wait(Duration::from_nanos(wait));
        host.sent();
    }
    assert_eq!(host.end.tcb.status().ssthresh, 10_000);
}

/// The wire of a peer that acknowledges `ack` and echoes the timestamp that left `age` ms ago.
pub(super) fn echoing(host: &Host, wire: Wire, age: u64) -> Wire {
    let mut wire = wire;
    wire.header.present |= TcpHeader::HAS_TIMESTAMPS;
    wire.header.ts_echo = (host.now.millis() - age) as u32;
    wire
}
