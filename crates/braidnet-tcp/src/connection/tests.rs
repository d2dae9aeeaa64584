//! What the handshake offers and agrees on.

use crate::testing::{ACK, Host, IRS, SYN, Wire, segment};
use crate::{Config, Events, State};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Duration;
use std::sync::Arc;

const MSS: u8 = TcpHeader::HAS_MSS;
const SCALE: u8 = TcpHeader::HAS_WINDOW_SCALE;
const SACK: u8 = TcpHeader::HAS_SACK_PERMITTED;
const TIMES: u8 = TcpHeader::HAS_TIMESTAMPS;

fn large() -> Config {
    Config {
        receive_buffer_bytes: 1 << 20,
        ..Config::default()
    }
}

/// What an option-laden SYN-ACK says to a SYN with these options.
fn answer(config: &Config, present: u8) -> TcpHeader {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present = present;
    syn.header.mss = 1460;
    syn.header.ts_value = 77;
    let now = braidnet_wire::time::Instant::from_millis(5);
    crate::testing::End::accept(config, 1, &syn, now).poll(now)[0].header
}

#[test]
fn a_syn_ack_repeats_only_what_the_syn_offered() {
    let rows = [
        (large(), 0, MSS),
        (
            large(),
            MSS | SCALE | SACK | TIMES,
            MSS | SCALE | SACK | TIMES,
        ),
        (large(), SCALE, MSS | SCALE),
        (large(), SACK, MSS | SACK),
        (large(), TIMES, MSS | TIMES),
        (
            Config {
                window_scale: false,
                ..large()
            },
            SCALE | SACK,
            MSS | SACK,
        ),
        (
            Config {
                sack: false,
                timestamps: false,
                ..large()
            },
            SCALE | SACK | TIMES,
            MSS | SCALE,
        ),
    ];
    for (config, offered, expected) in rows {
        let header = answer(&config, offered);
        assert_eq!(header.present, expected, "{offered:#x}");
        assert_eq!(header.window, 65535, "never scaled (RFC 7323 §2.2)");
        assert_eq!(
            header.window_scale,
            if expected & SCALE != 0 { 5 } else { 0 }
        );
        assert_eq!(header.ts_echo, if expected & TIMES != 0 { 77 } else { 0 });
        assert_eq!(header.mss, 1460);
    }
}

#[test]
fn a_syn_offers_what_is_configured() {
    let mut host = Host::connect(&large());
    host.wait(braidnet_wire::time::Duration::from_secs(1));
    let syn = host.end.poll(host.now).remove(0).header;
    assert_eq!(
        (syn.present, syn.mss, syn.window_scale),
        (MSS | SCALE | SACK | TIMES, 1460, 5)
    );
    assert_eq!((syn.window, syn.ts_echo), (65535, 0));
}

#[test]
fn windows_are_scaled_from_the_first_segment_after_the_syns() {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present = SCALE;
    syn.header.window_scale = 14;
    let mut host = Host::accept(&Arc::new(large()), &syn);
    assert_eq!(host.end.tcb.status().snd_wnd, 60_000);
    host.arrive(&segment(ACK, 0, 0, 0));
    assert_eq!(host.end.tcb.status().snd_wnd, 60_000 << 14);
    // In a simultaneous open, the ACK comes with a SYN, whose window is not.
    let mut host = Host::connect(&large());
    host.arrive(&syn);
    host.sent();
    let mut syn_ack = segment(SYN | ACK, -1, 0, 0);
    syn_ack.header.present = SCALE;
    syn_ack.header.window_scale = 14;
    host.arrive(&syn_ack);
    assert_eq!(host.end.tcb.state(), State::Established);
    assert_eq!(host.end.tcb.status().snd_wnd, 60_000);
}

/// RFC 7323 §2.3.
#[test]
fn the_window_that_leaves_is_scaled() {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.present = SCALE;
    let mut host = Host::accept(&Arc::new(large()), &syn);
    host.arrive(&segment(ACK, 0, 0, 0));
    host.arrive(&segment(ACK, 0, 0, 1000));
    host.wait(Duration::from_millis(200));
    let windows: Vec<u16> = (host.end.poll(host.now).iter())
        .map(|wire| wire.header.window)
        .collect();
    assert_eq!(windows, [(((1 << 20) - 1000) >> 5) as u16]);
}

/// RFC 7323 §5.4.
#[test]
fn timestamps_tick_every_millisecond() {
    let host = Host::connect(&large());
    let at = |millis| {
        let now = braidnet_wire::time::Instant::from_millis(millis);
        host.end.tcb.connection.ts_value(now)
    };
    assert_eq!(at(1005).wrapping_sub(at(5)), 1000);
    assert_eq!(at((1 << 32) + 5), at(5));
}

#[test]
fn a_shift_above_14_counts_as_14() {
    let mut syn = segment(SYN, -1, 0, 0).header;
    syn.present = SCALE;
    syn.window_scale = 255;
    let now = braidnet_wire::time::Instant::ZERO;
    let tcb =
        crate::Tcb::<crate::testing::Bytes>::accept(&Arc::new(large()), syn.seq, 1460, &syn, now);
    assert_eq!(
        tcb.status().snd_wind_shift,
        14,
        "RFC 7323 §2.3; HOSTILE-INPUT 9"
    );
    assert_eq!(tcb.status().rcv_nxt.value(), IRS.wrapping_add(1));
}

#[test]
fn a_close_before_the_handshake_is_over() {
    let mut host = Host::in_state(State::SynSent, 0);
    host.end.tcb.close(host.now);
    assert_eq!(
        (host.end.tcb.state(), host.sent()),
        (State::Closed, vec![]),
        "RFC 9293 §3.10.4"
    );
    let mut host = Host::in_state(State::SynReceived, 0);
    host.end.tcb.close(host.now);
    assert!(!host.end.tcb.send(1));
    assert_eq!(host.sent(), []);
    host.arrive(&segment(ACK, 0, 0, 0));
    assert_eq!(host.sent(), [(ACK | crate::testing::FIN, 0, 0, 0)]);
    assert_eq!(host.end.tcb.state(), State::FinWait1);
}

/// RFC 9293 §3.6: who has closed may go on receiving for as long as the peer likes; who does not read either does not wait.
#[test]
fn fin_wait_2_ends_only_where_nobody_reads() {
    let stay = Config::default().fin_wait_2;
    let a_year = Duration::from_secs(365 * 24 * 3600);
    let mut reading = Host::in_state(State::FinWait2, 0);
    assert_eq!(reading.end.tcb.deadline(), None);
    assert_eq!(reading.wait(a_year), Events::empty());
    reading.arrive(&segment(ACK, 0, 1, 5));
    assert_eq!(reading.end.received, b"xxxxx");
    // Whether it is there already when the application goes, or gets there afterwards.
    for state in [State::FinWait1, State::FinWait2] {
        let mut host = Host::in_state(state, 0);
        let now = host.now;
        host.end.tcb.shut_receive(now);
        if state == State::FinWait1 {
            host.arrive(&segment(ACK, 0, 1, 0));
        }
        assert_eq!(host.end.tcb.state(), State::FinWait2);
        assert_eq!(host.end.tcb.deadline(), Some(now + stay));
        let almost = stay - Duration::from_millis(1);
        assert_eq!(host.wait(almost), Events::empty());
        assert_eq!(host.wait(Duration::from_millis(1)), Events::CLOSED);
        assert_eq!(host.sent(), [], "the peer is told when it says something");
    }
}

/// RFC 6928 §2 and RFC 6298 §5.7: only a SYN that was sent again by its timer was lost.
#[test]
fn only_a_timeout_is_a_lost_syn() {
    let lost = |host: &Host| {
        let status = host.end.tcb.status();
        assert_eq!(status.state, State::Established);
        let signs = (status.cwnd == status.smss, status.rto.as_secs() == 3);
        assert_eq!(signs.0, signs.1);
        signs.0
    };
    let syn = segment(SYN, -1, 0, 0);
    // The peer's SYN comes a second time.
    let mut doubled = Host::accept(&Host::plain(), &syn);
    doubled.arrive(&syn);
    assert_eq!(doubled.sent(), [(SYN | ACK, -1, 0, 0)]);
    doubled.arrive(&segment(ACK, 0, 0, 0));
    assert!(!lost(&doubled));
    // Both sides open at once.
    let mut simultaneous = Host::connect(&Host::plain());
    simultaneous.arrive(&syn);
    assert_eq!(simultaneous.sent(), [(SYN | ACK, -1, 0, 0)]);
    simultaneous.arrive(&segment(SYN | ACK, -1, 0, 0));
    assert!(!lost(&simultaneous));
    // The SYN, or its answer, is sent again since nothing came.
    let mut silent = Host::accept(&Host::plain(), &syn);
    silent.wait(Duration::from_secs(1));
    assert_eq!(silent.sent(), [(SYN | ACK, -1, 0, 0)]);
    silent.arrive(&segment(ACK, 0, 0, 0));
    assert!(lost(&silent));
}

/// Plays a peer that answers every segment by `answer`, and by `blink` after every second; how long the connection lives, and
/// how it ends.
fn outlived(host: &mut Host, answer: &Wire, blink: Option<&Wire>) -> (Duration, Events) {
    let start = host.now;
    host.arrive(answer);
    for turn in 0..200 {
        host.sent();
        let Some(deadline) = host.end.tcb.deadline() else {
            break;
        };
        let events = host.wait(deadline.since(host.now));
        if events.contains(Events::CLOSED) {
            return (host.now.since(start), events);
        }
        if !host.sent().is_empty() {
            host.arrive(answer);
            if let Some(blink) = blink.filter(|_| turn % 2 == 1) {
                host.arrive(blink);
                host.sent();
                host.arrive(answer);
            }
        }
    }
    (host.now.since(start), Events::empty())
}

/// RFC 6429: a peer that answers and takes nothing is kept for its application (MUST-37), and not where there is none.
#[test]
fn who_takes_nothing_is_given_up_once_the_application_is_gone() {
    let with_window = |state, window| {
        let seq = i32::from(matches!(state, State::Closing | State::LastAck));
        let mut wire = segment(ACK, seq, 0, 0);
        wire.header.window = window;
        wire
    };
    for state in [State::FinWait1, State::Closing, State::LastAck] {
        let (shut, ajar) = (with_window(state, 0), with_window(state, 1));
        for in_flight in [0, 500] {
            for blink in [None, Some(&ajar)] {
                let mut kept = Host::in_state(state, in_flight);
                assert_eq!(outlived(&mut kept, &shut, blink).1, Events::empty());
                let mut host = Host::in_state(state, in_flight);
                let now = host.now;
                host.end.tcb.shut_receive(now);
                let (lived, events) = outlived(&mut host, &shut, blink);
                let case = format!("{state}, {in_flight}, {}: {lived:?}", blink.is_some());
                assert_eq!(events, Events::TIMED_OUT | Events::CLOSED, "{case}");
                // R2 of RFC 9293 §3.8.3.
                assert!((100..1800).contains(&lived.as_secs()), "{case}");
            }
        }
    }
    // With data that waits for the window to open, and was never sent.
    let mut host = Host::in_state(State::Established, 0);
    let shut = with_window(State::Established, 0);
    host.arrive(&shut);
    host.end.send(&[0; 500]);
    let now = host.now;
    host.end.tcb.close(now);
    host.end.tcb.shut_receive(now);
    let (lived, events) = outlived(&mut host, &shut, None);
    assert_eq!(events, Events::TIMED_OUT | Events::CLOSED, "{lived:?}");
    // What it takes gives it time again.
    let mut host = Host::in_state(State::FinWait1, 500);
    let now = host.now;
    host.end.tcb.shut_receive(now);
    for taken in [100, 200, 300] {
        let mut shut = with_window(State::FinWait1, 0);
        shut.header.ack += taken;
        host.arrive(&shut);
        for _ in 0..14 {
            host.sent();
            let deadline = host.end.tcb.deadline().unwrap();
            assert_eq!(host.wait(deadline.since(host.now)), Events::empty());
            host.arrive(&shut);
        }
    }
}

#[test]
fn what_fits_is_sent_as_long_as_the_user_may_send() {
    let space = Host::plain().send_buffer_bytes;
    let rows = [
        (State::SynSent, space),
        (State::SynReceived, space),
        (State::Established, space - 3),
        (State::CloseWait, space - 3),
        (State::FinWait1, 0),
        (State::TimeWait, 0),
    ];
    for (state, fits) in rows {
        let mut host = Host::in_state(state, 3);
        let unsent = host.end.tcb.status().unsent_bytes;
        let mut told = None;
        host.end.tcb.send_as_fits(|space| {
            told = Some(space);
            space.min(7)
        });
        assert_eq!(told, Some(fits), "{state}");
        let sent = host.end.tcb.status().unsent_bytes - unsent;
        assert_eq!(sent, fits.min(7), "{state}");
    }
}
