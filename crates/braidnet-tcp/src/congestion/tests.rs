//! The window through its life, under every rule.

use super::path::{Path, Transfer};
use super::*;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Duration;

/// The rules by which losses move the window.
const BY_LOSS: [CongestionControl; 2] = [CongestionControl::Cubic, CongestionControl::NewReno];

fn open(control: CongestionControl, smss: u32) -> Congestion {
    let config = Config {
        congestion: control,
        ..Config::default()
    };
    Congestion::new(&config, smss)
}

fn acked(bytes: u32) -> Acked {
    Acked {
        now: Instant::ZERO,
        bytes,
        srtt: 1_000_000,
    }
}

/// An acknowledgment that measures nothing.
fn on_ack(congestion: &mut Congestion, acked: Acked) {
    let echo = Echo {
        rtt: None,
        snd_una: SeqNumber::default(),
        snd_nxt: SeqNumber::default(),
        granularity: 1,
    };
    match congestion.is_slow_start() {
        true => congestion.start_slowly(acked, echo),
        false => congestion.avoid(acked),
    }
}

#[test]
fn initial_windows() {
    for (smss, window) in [
        (536, 5360),
        (1448, 14480),
        (1460, 14600),
        (4312, 14600),
        (8960, 17920),
    ] {
        assert_eq!(initial_window(smss), window, "RFC 6928 §2, {smss}");
    }
    let mut congestion = open(CongestionControl::Cubic, 536);
    congestion.start(1000, true);
    assert_eq!(congestion.cwnd(), 1000, "a SYN was lost");
}

#[test]
fn every_rule_keeps_its_bounds() {
    for control in BY_LOSS {
        let mut congestion = open(control, 1000);
        on_ack(&mut congestion, acked(1000));
        assert_eq!(
            congestion.cwnd(),
            11000,
            "{control}: slow start, RFC 5681 §3.1"
        );
        congestion.on_loss(20000);
        assert!(
            (5500..=7700).contains(&congestion.cwnd()),
            "{control}: cut from cwnd, not more"
        );
        assert_eq!(congestion.cwnd(), congestion.ssthresh());
        congestion.on_loss(1);
        assert_eq!(
            congestion.ssthresh(),
            2000,
            "{control}: never below two segments"
        );
        congestion.on_timeout(1000, true);
        assert_eq!(
            (congestion.cwnd(), congestion.ssthresh()),
            (1000, 2000),
            "{control}"
        );
        for _ in 0..100_000 {
            on_ack(&mut congestion, acked(1 << 29));
        }
        assert!(congestion.cwnd() <= MAX_CWND, "{control}");
    }
}

#[test]
fn ssthresh_stays_when_the_same_segment_times_out_again() {
    let mut congestion = open(CongestionControl::NewReno, 1000);
    congestion.on_timeout(10000, true);
    congestion.on_timeout(1000, false);
    assert_eq!(
        (congestion.cwnd(), congestion.ssthresh()),
        (1000, 5000),
        "RFC 5681 §3.1"
    );
}

#[test]
fn leaving_recovery_and_idling_allow_no_burst() {
    let mut congestion = open(CongestionControl::NewReno, 1000);
    congestion.on_loss(10000);
    congestion.on_recovered(1000);
    assert_eq!(congestion.cwnd(), 2000, "RFC 6582 §3.2 step 3");
    on_ack(&mut congestion, acked(60000));
    congestion.window.cwnd = 50000;
    congestion.on_idle();
    assert_eq!(congestion.cwnd(), 10000, "RFC 5681 §4.1");
}

/// A bottleneck of 40 Mbit/s and 60 ms, with a queue of `queue` times what fills the path.
fn path(control: CongestionControl, queue: f64) -> Path {
    let mut path = Path {
        config: Config {
            congestion: control,
            send_buffer_bytes: 4 << 20,
            receive_buffer_bytes: 4 << 20,
            ..Config::default()
        },
        rate: 40_000_000,
        queue_bytes: 0,
        rtt: Duration::from_millis(60),
        loss: 0,
    };
    path.queue_bytes = (path.bdp() as f64 * queue) as u64;
    path
}

/// RFC 9406: the queue is seen to grow before it overflows, and the path is full by then.
#[test]
fn slow_start_ends_before_a_queue_overflows() {
    for control in BY_LOSS {
        // The round after the one that first overfills the path sees it; five more at a quarter of the pace make three times of that.
        let path = path(control, 10.0);
        let mut transfer = Transfer::open(path);
        transfer.run(5000, |transfer| {
            let status = transfer.sender.tcb.status();
            transfer.overflowed > 0 || status.cwnd >= status.ssthresh
        });
        let status = transfer.sender.tcb.status();
        assert_eq!(transfer.overflowed, 0, "{control}: {status:?}");
        assert!(status.cwnd >= status.ssthresh, "{control}: {status:?}");
        let full = path.bdp() as u32;
        assert!(
            (full..11 * full).contains(&status.cwnd),
            "{control}: {} of {full}",
            status.cwnd
        );
        let share = transfer.share(2000);
        assert!(share > 0.95, "{control}: {share}");
    }
}

/// A clock whose steps are longer than the round trip sees no queue, and a path without one has none: slow start goes on.
#[test]
fn slow_start_goes_on_where_no_queue_is_seen() {
    let free = Path {
        rate: 1_000_000_000,
        ..path(CongestionControl::Cubic, 10.0)
    };
    let mut coarse = Path {
        rtt: Duration::from_millis(8),
        ..free
    };
    coarse.config.clock_granularity = Duration::from_millis(10);
    // A queue of 8 ms at most.
    coarse.config.send_buffer_bytes = 2 << 20;
    for path in [free, coarse] {
        let mut transfer = Transfer::open(path);
        transfer.step = nanos(path.config.clock_granularity);
        transfer.run(2000, |_| false);
        assert_eq!(transfer.sender.tcb.status().ssthresh, MAX_CWND, "{path:?}");
    }
}

/// RFC 9438 §4.9: all that a loss has changed comes back where there was none.
#[test]
fn what_was_no_loss_changes_nothing() {
    for control in BY_LOSS {
        let mut congestion = open(control, 1000);
        for _ in 0..2 {
            congestion.on_loss(30_000);
            for _ in 0..50 {
                on_ack(&mut congestion, acked(3000));
            }
        }
        let state = |congestion: &Congestion| {
            let Window { cwnd, ssthresh, .. } = congestion.window;
            format!("{cwnd} {ssthresh} {:?}", congestion.rule)
        };
        let before = state(&congestion);
        congestion.remember();
        congestion.on_loss(20_000);
        assert_ne!(state(&congestion), before, "{control}");
        congestion.take_back_loss();
        assert_eq!(state(&congestion), before, "{control}");
    }
}

/// Paced, no more leaves in any time than the rate makes of it and a quantum, and the path is as full as without.
#[test]
fn paced_transfers_leave_evenly() {
    for control in BY_LOSS {
        let mut path = path(control, 2.0);
        path.config.pacing = true;
        let mut transfer = Transfer::open(path);
        let share = transfer.share(6000);
        assert!(share > 0.9, "{control}: {share}");
        // Unpaced, the first window leaves at once: ten segments.
        let first = transfer.departures[0].0;
        let at_once: u64 = (transfer.departures.iter())
            .take_while(|(at, _)| *at == first)
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(at_once <= 2 * 1448, "{control}: {at_once}");
        // No rate is higher than twice the largest window in the shortest round trip.
        let window = (path.bdp() + path.queue_bytes) as f64;
        let rate = 2.4 * window / path.rtt.as_secs_f64();
        for span in [1, 10, 100] {
            let departures = &transfer.departures;
            for (first, last) in departures
                .iter()
                .zip(&departures[span.min(departures.len())..])
            {
                let seconds = last.0.since(first.0).as_secs_f64();
                let bytes = 1448.0 * (span + 1) as f64;
                assert!(
                    bytes <= rate * seconds + 65_536.0,
                    "{control}: {bytes} in {seconds} s"
                );
            }
        }
    }
}

/// A bottleneck of 10 Mbit/s and 40 ms under a model of it.
fn modelled(queue: f64, loss: u64) -> Path {
    let mut path = Path {
        rate: 10_000_000,
        rtt: Duration::from_millis(40),
        loss,
        ..path(CongestionControl::Bbr, 0.0)
    };
    path.queue_bytes = (path.bdp() as f64 * queue) as u64;
    path
}

/// The path is full whatever its queue, and a long queue is not used up.
#[test]
fn a_model_fills_the_path_and_not_its_queue() {
    for (queue, loss) in [(0.5, 0), (1.0, 0), (10.0, 0), (1.0, 10), (10.0, 10)] {
        let path = modelled(queue, loss);
        let mut transfer = Transfer::open(path);
        let starting = transfer.share(2000);
        transfer.longest_queue = 0;
        let share = transfer.share(18_000);
        let queued = transfer.longest_queue as f64 / path.bdp() as f64;
        let status = transfer.sender.tcb.status();
        println!(
            "queue {queue}, loss {loss}: {starting:.3}, {share:.3}, {queued:.2}, {} lost, {} overflowed, {status:?}",
            transfer.lost, transfer.overflowed
        );
        assert!(starting > 0.7, "queue {queue}, loss {loss}: {starting}");
        assert!(share > 0.9, "queue {queue}, loss {loss}: {share}");
        assert!(queued < 1.5, "queue {queue}, loss {loss}: {queued}");
    }
}

/// What a loss-based rule makes of the same loss.
#[test]
fn a_model_is_not_misled_by_random_loss() {
    let by_model = Transfer::open(modelled(1.0, 10)).share(20_000);
    let mut path = modelled(1.0, 10);
    path.config.congestion = CongestionControl::NewReno;
    let by_loss = Transfer::open(path).share(20_000);
    assert!(by_model > by_loss + 0.1, "{by_model} against {by_loss}");
}
