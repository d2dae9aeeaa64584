//! What was sent again though it was only late: the window comes back (RFC 3522, RFC 4015, RFC 3708, RFC 5682).

use super::time::{config, connection, echoing};
use crate::Config;
use crate::testing::{ACK, Host, sack, segment, starts};
use braidnet_wire::time::Duration;

fn wait(host: &mut Host, millis: u64) {
    host.wait(Duration::from_millis(millis));
}

/// Ten segments in flight for 40 ms, the first overtaken by three and sent again; and what the window was.
fn overtaken(config: &Config) -> Host {
    let mut host = connection(config);
    host.end.send(&[0; 10_000]);
    assert_eq!(host.sent().len(), 10);
    wait(&mut host, 40);
    let mut news = sack(0, &[(1000, 4000)]);
    if config.timestamps {
        news = echoing(&host, news, 40);
    }
    host.arrive(&news);
    assert_eq!(starts(&host.sent()), [0]);
    let status = host.end.tcb.status();
    assert!(
        status.is_recovering() && status.ssthresh == 5000,
        "{status:?}"
    );
    host
}

#[test]
fn an_echo_older_than_what_was_sent_again_answers_the_original() {
    let config = Config {
        timestamps: true,
        ..config()
    };
    // The age of what is echoed; whether it was sent before the second sending 2 ms ago.
    for (age, original) in [(42, true), (3, true), (2, false), (1, false)] {
        let mut host = overtaken(&config);
        wait(&mut host, 2);
        host.arrive(&echoing(&host, segment(ACK, 0, 4000, 0), age));
        let status = host.end.tcb.status();
        assert_eq!(!status.is_recovering(), original, "{age}: {status:?}");
        let restored = status.cwnd >= 10_000 && status.ssthresh > 10_000;
        assert_eq!(restored, original, "{age}: {status:?}");
    }
}

#[test]
fn once_all_that_was_sent_again_is_reported_twice_the_window_is_what_it_was() {
    let mut host = overtaken(&config());
    // The original was late: it is acknowledged, then its copy is reported.
    host.arrive(&segment(ACK, 0, 4000, 0));
    let status = host.end.tcb.status();
    assert!(status.is_recovering() && status.cwnd < 10_000, "{status:?}");
    host.sent();
    host.arrive(&sack(4000, &[(0, 1000)]));
    let status = host.end.tcb.status();
    assert!(
        !status.is_recovering() && status.cwnd >= 10_000,
        "{status:?}"
    );
    assert!(status.ssthresh > 10_000, "slow start as before");
}

/// RFC 2883 §5: a block below the ACK that it came with is a report of a duplicate, not one below a later ACK.
#[test]
fn what_an_overtaken_ack_tells_of_has_not_come_twice() {
    let mut host = overtaken(&config());
    host.arrive(&segment(ACK, 0, 4000, 0));
    host.sent();
    host.arrive(&sack(0, &[(1000, 4000)]));
    assert!(host.end.tcb.status().is_recovering());
    host.arrive(&segment(ACK, 0, 5000, 0));
    host.arrive(&sack(4000, &[(0, 1000)]));
    assert!(!host.end.tcb.status().is_recovering());
}

#[test]
fn a_report_of_something_else_restores_nothing() {
    let mut host = overtaken(&config());
    host.arrive(&sack(0, &[(-1000, 0), (1000, 4000)]));
    assert!(
        host.end.tcb.status().is_recovering(),
        "it lies before the loss"
    );
    // Half of what was sent again.
    host.arrive(&segment(ACK, 0, 4000, 0));
    host.arrive(&sack(4000, &[(0, 500)]));
    assert!(host.end.tcb.status().is_recovering());
}

/// Nothing but F-RTO can tell: no SACK, no timestamps.
fn timed_out() -> Host {
    let mut host = connection(&Config {
        sack: false,
        ..config()
    });
    host.end.send(&[0; 20_000]);
    assert_eq!(host.sent().len(), 10);
    wait(&mut host, 200);
    assert_eq!(starts(&host.sent()), [0]);
    assert_eq!(host.end.tcb.status().ssthresh, 5000);
    host
}

#[test]
fn a_timeout_that_came_too_early_sends_nothing_else_again() {
    // RFC 5682 §2.1: the ACK of the original lets two new segments go; the next one decides.
    let mut host = timed_out();
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(starts(&host.sent()), [10_000, 11_000], "step 2b");
    host.arrive(&segment(ACK, 0, 2000, 0));
    let status = host.end.tcb.status();
    assert!(
        !status.is_recovering() && status.ssthresh >= 10_000,
        "step 3b: {status:?}"
    );
    assert_eq!(
        starts(&host.sent()),
        [12_000, 13_000],
        "RFC 4015 §3.2: as much as has arrived, and slow start"
    );
    for ack in 3..=12 {
        host.arrive(&segment(ACK, 0, ack * 1000, 0));
        let again = starts(&host.sent()).iter().any(|start| *start < 14_000);
        assert!(!again, "nothing is sent again");
    }
}

#[test]
fn a_timeout_for_a_loss_goes_on_as_ever() {
    let mut host = timed_out();
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(starts(&host.sent()), [10_000, 11_000]);
    // Step 3a: the new segments are answered, what was in flight is not.
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(
        starts(&host.sent()),
        [1000],
        "three segments are what the window holds"
    );
    assert!(host.end.tcb.status().is_recovering());
    host.arrive(&segment(ACK, 0, 2000, 0));
    assert!(starts(&host.sent()).starts_with(&[2000]));
}

#[test]
fn a_duplicate_after_a_timeout_asks_no_more() {
    // Step 2a.
    let mut host = timed_out();
    host.arrive(&segment(ACK, 0, 0, 0));
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(
        starts(&host.sent()),
        [1000, 2000],
        "slow start from the loss"
    );
}

#[test]
fn without_new_data_a_timeout_is_not_questioned() {
    let mut host = connection(&Config {
        sack: false,
        ..config()
    });
    host.end.send(&[0; 10_000]);
    host.sent();
    wait(&mut host, 200);
    assert_eq!(starts(&host.sent()), [0]);
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(starts(&host.sent()), [1000, 2000]);
}

#[test]
fn what_nagles_rule_holds_back_answers_no_question() {
    let mut host = connection(&Config {
        sack: false,
        ..config()
    });
    host.end.send(&[0; 10_010]);
    assert_eq!(host.sent().len(), 10);
    wait(&mut host, 200);
    assert_eq!(starts(&host.sent()), [0]);
    host.arrive(&segment(ACK, 0, 1000, 0));
    assert_eq!(starts(&host.sent()), [1000, 2000]);
}

#[test]
fn data_of_the_peer_is_no_answer_to_the_question() {
    let mut host = timed_out();
    host.arrive(&segment(ACK, 0, 0, 10));
    host.arrive(&segment(ACK, 10, 1000, 0));
    assert_eq!(starts(&host.sent()), [10_000, 11_000], "step 2b");
    host.arrive(&segment(ACK, 10, 1000, 10));
    host.arrive(&segment(ACK, 20, 2000, 0));
    assert!(!host.end.tcb.status().is_recovering(), "step 3b");
}

#[test]
fn the_answer_to_the_first_of_two_sendings_again_is_none_to_the_original() {
    // RFC 3522 §3.2: RetransmitTS stays what it was at a second timeout.
    for (before, original) in [(0, false), (1, true)] {
        let mut host = connection(&Config {
            timestamps: true,
            ..config()
        });
        host.end.send(&[0; 1000]);
        assert_eq!(starts(&host.sent()), [0]);
        let mut times = Vec::new();
        for _ in 0..2 {
            let deadline = host.end.tcb.deadline().unwrap();
            host.wait(deadline.since(host.now));
            assert_eq!(starts(&host.sent()), [0]);
            times.push(host.now.millis());
        }
        host.end.send(&[0; 3000]);
        wait(&mut host, 10);
        let age = host.now.millis() - times[0] + before;
        host.arrive(&echoing(&host, segment(ACK, 0, 1000, 0), age));
        let status = host.end.tcb.status();
        assert_eq!(status.ssthresh > 10_000, original, "{status:?}");
    }
}
