//! Segments, times and calls drawn by a seed, most of them near where they hurt: nothing panics, nothing goes on for ever,
//! and what an end may hold stays bounded.

use crate::testing::{End, Random, Wire};
use crate::{Config, CongestionControl, Heard, Keepalive, PathProbing, Report, State};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{SackBlock, TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};

/// A sequence number near one of those that matter.
fn near(random: &mut Random, places: &[SeqNumber]) -> SeqNumber {
    let place = places[random.below(places.len() as u64) as usize];
    let far = [2, 3000, 70_000, u64::from(u32::MAX)][random.below(4) as usize];
    place + random.below(far) as u32 - (far / 2) as u32
}

fn segment(random: &mut Random, end: &End, irs: SeqNumber) -> Wire {
    let status = end.tcb.status();
    let receive = [
        irs,
        status.rcv_nxt,
        status.rcv_nxt,
        status.rcv_nxt + status.rcv_wnd,
    ];
    let send = [
        status.snd_una,
        status.snd_nxt,
        status.snd_nxt,
        status.snd_nxt + status.unsent_bytes,
    ];
    let usual = random.chance(700);
    let mut header = TcpHeader {
        seq: if usual {
            status.rcv_nxt
        } else {
            near(random, &receive)
        },
        ack: if usual {
            status.snd_nxt
        } else {
            near(random, &send)
        },
        flags: if random.chance(900) {
            TcpFlags::ACK
        } else {
            TcpFlags(random.below(256) as u8)
        },
        window: [0, 1, 500, 65535][random.below(4) as usize],
        present: random.below(32) as u8,
        user_timeout: random.below(1 << 16) as u16,
        ts_value: random.below(3) as u32,
        ts_echo: random.below(1 << 32) as u32,
        mss: random.below(1 << 16) as u16,
        urgent: random.below(1 << 16) as u16,
        window_scale: random.below(256) as u8,
        sack_count: random.below(6) as u8,
        ..TcpHeader::default()
    };
    for block in &mut header.sack {
        *block = SackBlock {
            left: near(random, &send),
            right: near(random, &send),
        };
    }
    if usual && header.flags == TcpFlags::ACK {
        header.present = if status.timestamps {
            TcpHeader::HAS_TIMESTAMPS
        } else {
            0
        };
        header.ts_value = 3;
    }
    if !random.chance(50) {
        // Lest most connections end young.
        header.flags.0 &= !TcpFlags::RST.0;
    }
    let len = [0, 0, 1, 100, 1460, 5000][random.below(6) as usize];
    Wire {
        header,
        data: vec![0; len],
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let config = Config {
        receive_buffer_bytes: [1, 3000, 65536, 1 << 20][random.below(4) as usize],
        send_buffer_bytes: [1, 100_000][random.below(2) as usize],
        congestion: CongestionControl::ALL
            [random.below(CongestionControl::ALL.len() as u64) as usize],
        timestamps: random.chance(500),
        sack: random.chance(800),
        path_probing: PathProbing::ALL[random.below(3) as usize],
        path_base_segment: [0, 500, 1024][random.below(3) as usize],
        keepalive: Keepalive {
            on: random.chance(300),
            idle: Duration::from_secs(3),
            ..Keepalive::default()
        },
        advertised_user_timeout: random.chance(300).then_some(Duration::from_secs(5)),
        ..Config::default()
    };
    let mut now = Instant::from_millis(random.below(100_000));
    let (iss, irs) = (
        random.below(1 << 32) as u32,
        SeqNumber::new(random.below(1 << 32) as u32),
    );
    let mut end = if random.chance(300) {
        End::connect(&config, iss, now)
    } else {
        let mut syn = Wire {
            header: TcpHeader::default(),
            data: Vec::new(),
        };
        syn.header.seq = irs;
        syn.header.present = random.below(16) as u8;
        syn.header.mss = random.below(1 << 16) as u16;
        syn.header.window_scale = random.below(256) as u8;
        End::accept(&config, iss, &syn, now)
    };
    for _ in 0..random.below(200) {
        match random.below(20) {
            0..12 => {
                let wire = segment(&mut random, &end, irs);
                end.arrive(now, &wire);
            }
            12..15 => {
                let room = u64::from(end.tcb.send_space());
                if end.tcb.send(0) && room > 0 {
                    end.send(&vec![0; random.below(room) as usize]);
                }
            }
            15..17 => end.take(random.below(5000) as usize),
            17 => now += Duration::from_millis(random.below(1000)),
            18 => now = end.tcb.deadline().map_or(now, |deadline| deadline.max(now)),
            _ if random.chance(300) => {
                let status = end.tcb.status();
                let seq = near(&mut random, &[status.snd_una, status.snd_nxt]);
                let report = match random.below(8) {
                    0 => Report::Refused,
                    1 => Report::Unreachable,
                    2 => Report::Undelivered,
                    _ => Report::TooLong {
                        path_mtu: random.below(3000) as u32,
                    },
                };
                if let Heard::Ended(_) = end.tcb.on_report(now, seq, report) {
                    assert_eq!(end.tcb.state(), State::Closed);
                }
            }
            _ if random.chance(50) => end.tcb.abort(),
            _ if random.chance(100) => end.tcb.mark_urgent(),
            _ if random.chance(50) => end.tcb.shut_receive(now),
            _ if random.chance(50) => end.tcb.close_within(now, Duration::from_secs(2)),
            _ if random.chance(200) => end.tcb.close(now),
            _ => {}
        }
        if end.tcb.deadline().is_some_and(|deadline| deadline <= now) {
            end.expire(now);
        }
        if random.chance(700) {
            end.poll(now);
            let status = end.tcb.status();
            let waiting = status.snd_una != status.snd_nxt || status.unsent_bytes > 0;
            if waiting && status.state != State::Closed {
                assert!(
                    end.tcb.deadline().is_some(),
                    "seed {seed}: nothing will happen: {status:?}"
                );
            }
            assert!(
                status.unread_bytes + status.rcv_wnd <= config.receive_buffer_bytes.max(1) + 16
            );
        }
    }
}

#[test]
fn whatever_comes() {
    for seed in 0..20_000 {
        run(seed);
    }
}
