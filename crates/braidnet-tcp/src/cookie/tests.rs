//! What a cookie remembers, and whose it is.

use super::*;
use crate::testing::{ACK, End, FIN, SYN, Wire, segment};
use crate::{Events, State};
use braidnet_wire::address::Address;
use braidnet_wire::time::Duration;
use std::sync::Arc;

const SECRET: [u64; 2] = [3, 4];
const OFFSET: u32 = 77;

fn tuple() -> Tuple {
    Tuple {
        local: Address::v4([192, 0, 2, 1]),
        remote: Address::v4([192, 0, 2, 2]),
        local_port: 80,
        remote_port: 1000,
    }
}

fn cookie(tuple: &Tuple, now: Instant) -> SynCookie<'_> {
    SynCookie {
        secret: SECRET,
        tuple,
        now,
    }
}

fn syn(present: u8, mss: u16, window_scale: u8) -> TcpHeader {
    TcpHeader {
        present,
        mss,
        window_scale,
        ts_value: 1234,
        ..segment(SYN, -1, 0, 0).header
    }
}

/// The peer's ACK of a SYN-ACK.
fn acknowledge(syn: &TcpHeader, syn_ack: &TcpHeader) -> TcpHeader {
    TcpHeader {
        seq: syn.seq + 1,
        ack: syn_ack.seq + 1,
        flags: TcpFlags::ACK,
        window: 60000,
        present: syn_ack.present & TcpHeader::HAS_TIMESTAMPS,
        ts_value: 1250,
        ts_echo: syn_ack.ts_value,
        ..TcpHeader::default()
    }
}

const MSS: u8 = TcpHeader::HAS_MSS;
const SCALE: u8 = TcpHeader::HAS_WINDOW_SCALE;
const SACK: u8 = TcpHeader::HAS_SACK_PERMITTED;
const TIMES: u8 = TcpHeader::HAS_TIMESTAMPS;

/// RFC 4987 §3.6: with timestamps nothing is lost, whatever the clock says; without them, all but the segment size.
#[test]
fn a_cookie_remembers_what_the_syn_offered() {
    let config = Config::default();
    // The SYN's options and MSS; what is agreed on, and the MSS that is remembered.
    let rows = [
        (0, 0, MSS, 536),
        (MSS, 0, MSS, 88),
        (MSS, 87, MSS, 88),
        (MSS, 535, MSS, 88),
        (MSS, 1219, MSS, 536),
        (MSS, 1460, MSS, 1460),
        (MSS, u16::MAX, MSS, 8960),
        (MSS | SCALE | SACK, 1460, MSS, 1460),
        (MSS | TIMES, 1460, MSS | TIMES, 1460),
        (MSS | TIMES | SACK, 1440, MSS | TIMES | SACK, 1440),
        (MSS | TIMES | SCALE, 1400, MSS | TIMES | SCALE, 1400),
        (
            MSS | TIMES | SCALE | SACK,
            1460,
            MSS | TIMES | SCALE | SACK,
            1460,
        ),
    ];
    let tuple = tuple();
    for (present, mss, agreed, remembered) in rows {
        for scale in [0, 7, 14, 255] {
            for millis in [0, 1, 63, 64, 100_000, 1 << 32, (1 << 32) - 78, 1 << 40] {
                let now = Instant::from_millis(millis);
                let syn = syn(present, mss, scale);
                let made = cookie(&tuple, now).answer(&Arc::new(config), 1460, &syn, OFFSET);
                let context = format!("{present:#x} {mss} {scale} {millis}");
                assert_eq!(made.present, agreed, "{context}");
                assert_eq!((made.ack, made.mss), (syn.seq + 1, 1460), "{context}");
                if agreed & TIMES != 0 {
                    let clock = (millis as u32).wrapping_add(OFFSET);
                    assert!(clock.wrapping_sub(made.ts_value) < 64, "{context}");
                    assert_eq!(made.ts_echo, 1234, "{context}");
                }
                let later = cookie(&tuple, now + Duration::from_secs(1));
                let ack = acknowledge(&syn, &made);
                let redeemed = later.redeem(&config, &ack).expect("it is ours");
                let expected = TcpHeader {
                    present: agreed,
                    mss: remembered,
                    window_scale: if agreed & SCALE != 0 {
                        scale.min(14)
                    } else {
                        0
                    },
                    ts_value: if agreed & TIMES != 0 { 1250 } else { 0 },
                    window: 0,
                    ..TcpHeader {
                        seq: syn.seq,
                        ack: SeqNumber::default(),
                        ..syn
                    }
                };
                assert_eq!(redeemed.syn, expected, "{context}");
            }
        }
    }
}

/// HOSTILE-INPUT 13 and 20: of another tuple, secret, sequence number or time, or one bit off.
#[test]
fn nobody_elses_cookie_is_taken() {
    let config = Config::default();
    let tuple = tuple();
    let start = Instant::from_millis(1_000_000);
    let syn = syn(MSS | TIMES, 1460, 0);
    let made = cookie(&tuple, start).answer(&Arc::new(config), 1460, &syn, OFFSET);
    let ack = acknowledge(&syn, &made);
    assert!(cookie(&tuple, start).redeem(&config, &ack).is_some());
    for bit in 0..32 {
        for flip_seq in [false, true] {
            let mut wrong = ack;
            let field = if flip_seq {
                &mut wrong.seq
            } else {
                &mut wrong.ack
            };
            // What the sequence number before is, is flipped: a carry would flip others.
            *field = SeqNumber::new((*field - 1).value() ^ (1 << bit)) + 1;
            assert_eq!(cookie(&tuple, start).redeem(&config, &wrong), None, "{bit}");
        }
    }
    let others = [
        Tuple {
            local_port: 81,
            ..tuple
        },
        Tuple {
            remote_port: 1001,
            ..tuple
        },
        Tuple {
            local: tuple.remote,
            ..tuple
        },
        Tuple {
            remote: tuple.local,
            ..tuple
        },
    ];
    for other in &others {
        assert_eq!(cookie(other, start).redeem(&config, &ack), None);
    }
    let other = SynCookie {
        secret: [3, 5],
        ..cookie(&tuple, start)
    };
    assert_eq!(other.redeem(&config, &ack), None);
    // It is good for two minutes at least and for three at most, and for none an hour later, when the five bits are the same.
    for (seconds, good) in [
        (0, true),
        (120, true),
        (192, false),
        (64 * 32, false),
        (64 * 33, false),
    ] {
        let later = cookie(&tuple, start + Duration::from_secs(seconds));
        assert_eq!(later.redeem(&config, &ack).is_some(), good, "{seconds}");
    }
    // A stack that has only just begun.
    assert_eq!(cookie(&tuple, Instant::ZERO).redeem(&config, &ack), None);
}

/// What comes of it is the connection that the listener would have had, but for the time of the handshake.
#[test]
fn the_connection_is_as_if_the_syn_had_been_kept() {
    let config = Config {
        receive_buffer_bytes: 1 << 20,
        ..Config::default()
    };
    let tuple = tuple();
    let now = Instant::from_millis(5000);
    for present in [0, MSS, MSS | TIMES | SCALE | SACK] {
        for (flags, data) in [(ACK, 0), (ACK, 700), (ACK | FIN, 9)] {
            let syn = syn(present, 1460, 7);
            let made = cookie(&tuple, now).answer(&Arc::new(config), 1460, &syn, OFFSET);
            let header = TcpHeader {
                flags: TcpFlags(flags),
                ..acknowledge(&syn, &made)
            };
            let ack = Wire {
                header,
                data: vec![b'x'; data],
            };
            let redeemed = cookie(&tuple, now).redeem(&config, &header).expect("ours");
            let mut stateless = End::new(Tcb::accept_redeemed(
                &Arc::new(config),
                1460,
                &redeemed,
                OFFSET,
                now,
            ));
            let mut kept = End::new(Tcb::accept(&Arc::new(config), made.seq, 1460, &syn, now));
            kept.tcb.set_timestamp_offset(OFFSET);
            assert_eq!(kept.poll(now).len(), 1);
            for end in [&mut stateless, &mut kept] {
                assert_eq!(end.poll(now).len(), 0);
                assert!(end.arrive(now, &ack).contains(Events::CONNECTED));
                assert_eq!(end.received.len(), data);
                end.send(&[b'y'; 3000]);
            }
            let same = |end: &End| {
                let status = end.tcb.status();
                let agreed = (status.timestamps, status.sack, status.snd_wind_shift);
                let places = (status.snd_una, status.rcv_nxt, status.rcv_wnd);
                (
                    agreed,
                    places,
                    status.snd_wnd,
                    status.smss,
                    status.cwnd,
                    status.state,
                )
            };
            assert_eq!(same(&stateless), same(&kept), "{present:#x} {flags:#x}");
            assert_eq!(
                stateless.poll(now),
                kept.poll(now),
                "{present:#x} {flags:#x}"
            );
        }
    }
}

/// The ACK that brings it may get lost on its way through the stack: then the SYN-ACK goes again, and is answered again.
#[test]
fn a_redeemed_connection_is_not_left_without_a_timer() {
    let config = Config::default();
    let tuple = tuple();
    let now = Instant::from_millis(5000);
    let syn = syn(MSS | TIMES, 1460, 0);
    let made = cookie(&tuple, now).answer(&Arc::new(config), 1460, &syn, OFFSET);
    let ack = acknowledge(&syn, &made);
    let redeemed = cookie(&tuple, now).redeem(&config, &ack).expect("ours");
    let mut end = End::new(Tcb::accept_redeemed(
        &Arc::new(config),
        1460,
        &redeemed,
        OFFSET,
        now,
    ));
    assert_eq!(end.tcb.state(), State::SynReceived);
    assert_eq!(end.poll(now), []);
    let deadline = end.tcb.deadline().expect("a timer");
    end.expire(deadline);
    let again = end.poll(deadline).remove(0).header;
    assert_eq!(
        (again.seq, again.ack, again.flags),
        (made.seq, made.ack, made.flags)
    );
}

/// What comes behind an ACK that was lost is not answered with a reset, which would end an honest handshake; of what is behind no
/// cookie hardly anything is taken for that.
#[test]
fn what_may_follow_a_cookie_is_told_from_most_else() {
    let (ends, now) = (tuple(), Instant::from_millis(1_000_000));
    let cookie = |now| cookie(&ends, now);
    let syn = syn(MSS, 1460, 0);
    let given = cookie(now).answer(&Arc::new(Config::default()), 1460, &syn, 0);
    let behind = |ack: SeqNumber| TcpHeader {
        seq: syn.seq + 4321,
        ack,
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let segment = behind(given.seq + 1);
    assert_eq!(cookie(now).redeem(&Config::default(), &segment), None);
    assert!(cookie(now).may_follow(&segment));
    let later = now + Duration::from_secs(300);
    assert!(!cookie(later).may_follow(&segment), "it is too old");
    let guesses = (0..100_000u32).map(|n| SeqNumber::new(n.wrapping_mul(0x9e37_79b9)));
    let taken = guesses.filter(|ack| cookie(now).may_follow(&behind(*ack)));
    let taken = taken.count();
    assert!(
        (300..900).contains(&taken),
        "{taken} of 100,000, three in 512 expected"
    );
}
