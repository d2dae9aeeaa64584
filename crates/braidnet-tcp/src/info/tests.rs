//! What is told, against scripts whose numbers are known. That it agrees with itself is looked at wherever the crate's tests poll
//! ([`check`]).

use super::{CongestionPhase, EcnAgreed, TcpInfo};
use crate::testing::{ACK, ECN, Host, SYN, sack, segment, window};
use crate::{Config, CongestionControl, EcnMode, State};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::{Duration, Instant};

/// What holds of every connection at any time.
pub(crate) fn check(info: &TcpInfo) {
    let flight = info.flight_size();
    assert!(info.sacked_bytes + info.lost_bytes <= flight, "{info:?}");
    assert!(info.pipe <= flight, "{info:?}");
    let on_way = info.sent_bytes().wrapping_sub(info.acked_bytes());
    // The SYN is in flight, too, and no byte of the stream.
    let syn = u32::from(info.snd_una == info.iss && info.snd_nxt != info.iss);
    assert_eq!(on_way + syn, flight, "{info:?}");
    assert_eq!(info.min_rtt.is_zero(), info.srtt.is_zero(), "{info:?}");
    assert_eq!(
        info.out_of_order_bytes == 0,
        info.out_of_order_segments == 0,
        "{info:?}"
    );
    assert!(info.snd_wnd <= info.max_snd_wnd, "{info:?}");
    let shifts = (info.snd_wind_shift, info.rcv_wind_shift);
    assert!(info.window_scale || shifts == (0, 0), "{info:?}");
    let is_model = info.congestion == CongestionControl::Bbr;
    assert!(is_model || info.delivery_rate.is_none(), "{info:?}");
}

fn config() -> Config {
    Config {
        sack: true,
        rack: false,
        congestion: CongestionControl::NewReno,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    }
}

/// A connection whose peer takes segments of 1000 bytes and answers the SYN-ACK after 100 ms.
fn opened(config: &Config) -> Host {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    let mut host = Host::accept(config, &syn);
    host.wait(Duration::from_millis(100));
    host.arrive(&segment(ACK, 0, 0, 0));
    host
}

#[test]
fn the_handshake() {
    let mut host = Host::connect(&config());
    let info = host.end.tcb.status();
    assert_eq!((info.state, info.is_active), (State::SynSent, true));
    assert_eq!((info.flight_size(), info.sent_bytes()), (1, 0));
    assert_eq!(
        (info.srtt, info.rto),
        (Duration::ZERO, Duration::from_secs(1))
    );
    host.wait(Duration::from_secs(1));
    assert_eq!(host.end.tcb.status().unanswered, 1);
    assert_eq!(host.end.tcb.status().rto, Duration::from_secs(2));

    let info = opened(&config()).end.tcb.status();
    assert_eq!((info.state, info.is_active), (State::Established, false));
    assert_eq!(
        (info.sack, info.timestamps, info.window_scale),
        (true, false, false)
    );
    // RFC 6298 §2.2: R, R/2, R + 4 R/2.
    let millis = Duration::from_millis;
    assert_eq!((info.srtt, info.rttvar), (millis(100), millis(50)));
    assert_eq!((info.min_rtt, info.rto), (millis(100), millis(300)));
    assert_eq!((info.smss, info.path_mtu), (1000, 1040));
    assert_eq!((info.cwnd, info.ssthresh), (10_000, 1 << 30));
    assert_eq!(info.congestion, CongestionControl::NewReno);
    assert_eq!(info.phase, CongestionPhase::SlowStart);
    assert_eq!((info.snd_wnd, info.max_snd_wnd), (60_000, 60_000));
    assert_eq!((info.rcv_wnd, info.receive_buffer_bytes), (1000, 1000));
    assert_eq!((info.sent_bytes(), info.acked_bytes()), (0, 0));
    assert_eq!((info.pacing_rate, info.delivery_rate), (None, None));
    assert_eq!(info.last_heard, Instant::from_millis(5100));
    assert_eq!(info.ecn, EcnAgreed::No);
}

#[test]
fn a_loss_and_its_repair() {
    let mut host = opened(&config());
    host.end.send(&[0; 20_000]);
    host.sent();
    let info = host.end.tcb.status();
    assert_eq!((info.flight_size(), info.pipe), (10_000, 10_000));
    assert_eq!((info.unsent_bytes, info.sent_bytes()), (10_000, 10_000));
    assert_eq!(info.last_sent, host.now);
    host.wait(Duration::from_millis(100));
    // The fifth of ten is missing.
    host.arrive(&sack(4000, &[(5000, 8000)]));
    let info = host.end.tcb.status();
    assert_eq!(info.phase, CongestionPhase::FastRecovery);
    assert!(info.is_recovering());
    assert_eq!((info.acked_bytes(), info.flight_size()), (4000, 6000));
    assert_eq!((info.sacked_bytes, info.lost_bytes), (3000, 1000));
    assert_eq!((info.ever_lost_bytes, info.pipe), (1000, 2000));
    host.sent();
    let info = host.end.tcb.status();
    assert_eq!((info.lost_bytes, info.ever_lost_bytes), (0, 1000));
    host.arrive(&segment(ACK, 0, info.sent_bytes() as i32, 0));
    let all = host.end.tcb.status();
    assert_eq!(all.acked_bytes(), info.sent_bytes());
    assert_eq!((all.flight_size(), all.sacked_bytes), (0, 0));
    // Half of the 6000 bytes that were in flight when it was found (RFC 5681 §3.1).
    assert_eq!((all.phase, all.cwnd), (CongestionPhase::Avoidance, 3000));
}

#[test]
fn a_timeout() {
    let mut host = opened(&config());
    host.end.send(&[0; 5000]);
    host.sent();
    host.wait(Duration::from_millis(300));
    let info = host.end.tcb.status();
    assert_eq!(info.phase, CongestionPhase::Timeout);
    assert_eq!((info.unanswered, info.cwnd), (1, 1000));
    assert_eq!((info.lost_bytes, info.pipe), (5000, 0));
    assert_eq!(info.rto, Duration::from_millis(600));
}

#[test]
fn a_window_that_has_been_wider() {
    let mut host = opened(&config());
    host.end.send(&[0; 100]);
    host.sent();
    host.arrive(&window(100, 500));
    let info = host.end.tcb.status();
    assert_eq!((info.snd_wnd, info.max_snd_wnd), (500, 60_000));
}

#[test]
fn what_is_received() {
    let mut host = opened(&config());
    host.arrive(&segment(ACK, 200, 0, 100));
    let info = host.end.tcb.status();
    assert_eq!((info.received_bytes(), info.unread_bytes), (0, 0));
    assert_eq!(
        (info.out_of_order_bytes, info.out_of_order_segments),
        (100, 1)
    );
    host.wait(Duration::from_millis(7));
    host.arrive(&segment(ACK, 0, 0, 200));
    let info = host.end.tcb.status();
    assert_eq!(info.last_heard, host.now);
    assert_eq!((info.received_bytes(), info.unread_bytes), (300, 300));
    assert_eq!((info.out_of_order_bytes, info.rcv_wnd), (0, 700));
}

#[test]
fn what_is_paced_and_modelled() {
    let paced = Config {
        pacing: true,
        ..config()
    };
    // Twice the window in a round trip, in slow start.
    let info = opened(&paced).end.tcb.status();
    assert_eq!(
        (info.pacing_rate, info.delivery_rate),
        (Some(200_000), None)
    );
    let mut host = opened(&Config {
        congestion: CongestionControl::Bbr,
        ..config()
    });
    assert_eq!(host.end.tcb.status().delivery_rate, None);
    host.end.send(&[0; 2000]);
    host.sent();
    host.wait(Duration::from_millis(100));
    host.arrive(&segment(ACK, 0, 2000, 0));
    let info = host.end.tcb.status();
    assert_eq!(info.delivery_rate, Some(20_000), "2000 bytes in 100 ms");
    assert_eq!(info.phase, CongestionPhase::SlowStart);
}

#[test]
fn what_is_agreed_on() {
    for (mode, agreed) in [
        (EcnMode::Off, EcnAgreed::No),
        (EcnMode::Passive, EcnAgreed::Classic),
    ] {
        let config = Config {
            ecn: mode,
            window_scale: true,
            receive_buffer_bytes: 1 << 18,
            ..config()
        };
        let mut syn = segment(SYN | ECN, -1, 0, 0);
        syn.header.present = TcpHeader::HAS_WINDOW_SCALE;
        syn.header.window_scale = 7;
        let end = crate::testing::End::accept(&config, 1, &syn, Instant::from_millis(1));
        let info = end.tcb.status();
        assert_eq!(info.ecn, agreed, "{mode}");
        assert_eq!(
            (info.window_scale, info.snd_wind_shift, info.rcv_wind_shift),
            (true, 7, 3)
        );
    }
}
