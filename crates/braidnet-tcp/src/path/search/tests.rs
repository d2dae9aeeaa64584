//! Connections over paths that are narrower than their ends think, in virtual time.

use crate::path::{Heard, Report};
use crate::testing::{ACK, End, Host, Wire, sack, segment, starts, thousand};
use crate::{Config, CongestionControl, Events, PathMtuDiscovery, PathProbing};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::{Duration, Instant};
use std::collections::BTreeMap;

const DELAY: Duration = Duration::from_millis(10);
/// Headers of a full segment with timestamps.
const HEADERS: u32 = 52;

/// A client that sends to a server over a path that carries packets of at most `mtu` bytes; what is longer gets lost, and the
/// router says so or not.
struct Road {
    now: Instant,
    ends: [End; 2],
    flying: BTreeMap<(Instant, u64), (usize, Wire)>,
    number: u64,
    mtu: u32,
    says: bool,
    /// Every `n`th segment of data gets lost.
    loses: u64,
    /// Packets that were too long.
    too_long: u64,
    /// Bytes of data in the longest segment that has arrived.
    longest: u32,
}

impl Road {
    fn new(config: &Config, mtu: u32) -> Road {
        let now = Instant::from_millis(1000);
        let mut client = End::connect(config, 1, now);
        let syn = client.poll(now).remove(0);
        let mut server = End::accept(config, 9, &syn, now);
        let answer = server.poll(now).remove(0);
        client.arrive(now, &answer);
        client.longest_train = u32::MAX;
        Road {
            now,
            ends: [client, server],
            flying: BTreeMap::new(),
            number: 0,
            mtu,
            says: false,
            loses: u64::MAX,
            too_long: 0,
            longest: 0,
        }
    }

    fn leave(&mut self, from: usize) {
        for wire in self.ends[from].poll(self.now) {
            let len = wire.data.len() as u32;
            self.number += 1;
            if from == 0 && len > 0 && len + HEADERS > self.mtu {
                self.too_long += 1;
                let report = Report::TooLong { path_mtu: self.mtu };
                if self.says {
                    let tcb = &mut self.ends[0].tcb;
                    let _ = tcb.on_report(self.now, wire.header.seq, report);
                }
                continue;
            }
            if from == 0 && self.number.is_multiple_of(self.loses) {
                continue;
            }
            self.longest = self.longest.max(len);
            let at = self.now + DELAY;
            self.flying.insert((at, self.number), (1 - from, wire));
        }
    }

    /// Lets so much time pass.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.run(until, |_| false);
    }

    /// Whether it came to that before `until`.
    fn run(&mut self, until: Instant, done: impl Fn(&Road) -> bool) -> bool {
        loop {
            self.leave(0);
            self.leave(1);
            if done(self) {
                return true;
            }
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.ends.iter().filter_map(|end| end.tcb.deadline());
            let next = deadlines.chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = until;
                return false;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, wire) = entry.remove();
                self.ends[to].arrive(self.now, &wire);
                self.ends[to].take(usize::MAX);
            }
            for end in &mut self.ends {
                if end.tcb.deadline().is_some_and(|at| at <= self.now) {
                    end.expire(self.now);
                }
            }
        }
    }

    /// Sends `bytes` more; how long it takes until all has arrived, a minute at most.
    fn carry(&mut self, bytes: usize) -> Duration {
        let begun = self.now;
        let mut left = bytes;
        while left > 0 || self.ends[0].stream.len() != self.ends[1].received.len() {
            let room = left.min(self.ends[0].tcb.send_space() as usize);
            let from = self.ends[0].stream.len();
            let text: Vec<u8> = (from..from + room)
                .map(|at| (at * 7 + at / 251) as u8)
                .collect();
            if room > 0 {
                self.ends[0].send(&text);
                left -= room;
            }
            let before = self.ends[0].tcb.status().snd_una;
            let until = begun + Duration::from_secs(60);
            let moves = self.run(until, |road| {
                let tcb = &road.ends[0].tcb;
                tcb.status().snd_una != before && tcb.send_space() > 0
                    || road.ends[0].stream.len() == road.ends[1].received.len()
            });
            assert!(moves, "nothing moves: {:#?}", self.ends[0].tcb.status());
        }
        assert!(self.ends[0].stream == self.ends[1].received);
        self.now.since(begun)
    }

    /// Carries more until no search goes on.
    fn settle(&mut self) {
        let mut carried = 0;
        while self.ends[0].tcb.sender.path.is_searching() {
            self.carry(100_000);
            carried += 1;
            assert!(carried < 200, "a search without end");
        }
    }

    fn smss(&self) -> u32 {
        self.ends[0].tcb.mss()
    }

    fn has(&self, events: Events) -> bool {
        self.ends[0].events.intersects(events)
    }
}

fn config(probing: PathProbing) -> Config {
    Config {
        path_probing: probing,
        ..Config::default()
    }
}

/// RFC 4821 §7.7, RFC 2923 §2.1: full segments vanish, and nobody says why. What passes is found, to within a few bytes.
#[test]
fn a_black_hole_is_found_and_measured() {
    for congestion in CongestionControl::ALL {
        for sack in [true, false] {
            // Of segments as small as the last, the receiver keeps few out of order; without SACK each of the others is a round trip.
            let mtus = [1480, 1400, 1100, 900, 300];
            for &mtu in &mtus[..if sack { 5 } else { 4 }] {
                let config = Config {
                    congestion,
                    sack,
                    ..config(PathProbing::BlackHoles)
                };
                let mut road = Road::new(&config, mtu);
                let context = format!("{congestion} sack {sack} mtu {mtu}");
                let took = road.carry(600_000);
                assert!(took < Duration::from_secs(20), "{context}: {took:?}");
                road.settle();
                assert!(road.has(Events::PATH_BLACK_HOLE), "{context}");
                let carried = mtu - HEADERS;
                assert_eq!(road.longest, road.smss(), "{context}");
                assert!(road.smss() <= carried, "{context}");
                assert!(road.smss() + 8 > carried, "{context}: {}", road.smss());
            }
        }
    }
}

/// The same where no full segment is there to vanish, but what there is does.
#[test]
fn a_black_hole_is_found_by_what_is_not_full() {
    // Bytes that are sent alone, the packets that the path carries, whether shorter ones are needed.
    for (bytes, mtu, is_hole) in [
        (1400, 1300, true),
        (1000, 1000, true),
        (600, 640, true),
        (512, 576, false),
        (900, 1000, false),
    ] {
        let mut road = Road::new(&Config::default(), mtu);
        road.carry(bytes);
        assert!(road.longest <= mtu - HEADERS);
        let is_shorter = road.ends[0].tcb.status().smss < 1448;
        assert_eq!(
            (road.too_long > 0, is_shorter),
            (is_hole, is_hole),
            "{bytes}"
        );
    }
    // A path that is down for a while makes none of what is short anyway.
    let mut road = Road::new(&Config::default(), 1500);
    road.loses = 1;
    road.ends[0].send(&[7; 500]);
    road.pass(Duration::from_secs(10));
    assert_eq!(road.ends[0].tcb.status().smss, 1448);
}

/// Off, or where routers may cut: as ever, nothing gets through.
#[test]
fn a_black_hole_stays_one_where_nothing_is_probed() {
    let cut = Config {
        path_mtu_discovery: PathMtuDiscovery::Dont,
        ..config(PathProbing::Always)
    };
    for config in [config(PathProbing::Off), cut] {
        let mut road = Road::new(&config, 1400);
        road.ends[0].send(&[0; 100_000]);
        road.pass(Duration::from_secs(60));
        assert_eq!((road.longest, road.smss()), (0, 1448));
        assert!(!road.has(Events::PATH_BLACK_HOLE));
    }
}

/// RFC 4821 §7.2, §7.3: from a segment that nearly every path carries on, and the longest is tried first.
#[test]
fn a_path_is_measured_from_the_first_on() {
    let always = config(PathProbing::Always);
    let mut road = Road::new(&always, 1500);
    assert_eq!(road.smss(), 1012);
    road.carry(100_000);
    assert_eq!((road.smss(), road.longest), (1448, 1448));
    assert!(!road.has(Events::PATH_PROBE_LOST));
    // Nothing is sought any more.
    road.pass(Duration::from_secs(1));
    assert_eq!(road.ends[0].tcb.deadline(), None);

    let mut road = Road::new(&always, 1300);
    road.settle();
    assert!((1241..=1248).contains(&road.smss()), "{}", road.smss());
    assert!(!road.has(Events::PATH_BLACK_HOLE));
}

/// RFC 4821 §7.5: of what is lost of probes the window takes no notice, with SACK and without.
#[test]
fn a_lost_probe_is_no_congestion() {
    for sack in [true, false] {
        for rack in [true, false] {
            let config = Config {
                sack,
                rack,
                congestion: CongestionControl::NewReno,
                ..config(PathProbing::Always)
            };
            let mut road = Road::new(&config, 1250);
            let before = road.ends[0].tcb.status();
            road.settle();
            let after = road.ends[0].tcb.status();
            assert!(road.has(Events::PATH_PROBE_LOST) && road.too_long > 2);
            assert_eq!(after.ssthresh, before.ssthresh, "sack {sack} rack {rack}");
            assert!(
                after.cwnd > 100_000,
                "sack {sack} rack {rack}: {}",
                after.cwnd
            );
            assert_eq!(after.rto, Duration::from_millis(200), "no timeout");
        }
    }
}

/// What is lost beside a probe is a loss like any other, and says nothing of the probe's length (RFC 4821 §7.6.4).
#[test]
fn losses_beside_a_probe_count() {
    let mut host = thousand(&Config {
        sack: true,
        rack: false,
        congestion: CongestionControl::NewReno,
        path_probing: PathProbing::Always,
        path_base_segment: 500,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    });
    host.end.send(&[0; 60_000]);
    let sent = host.sent();
    let lens: Vec<usize> = sent.iter().map(|reply| reply.3).collect();
    assert_eq!(lens, [1000, 500, 500, 500, 500, 500, 500, 500, 500]);
    let before = host.end.tcb.status();
    // The probe is missing: it is sent again in two, and nothing is cut.
    let mut alone = host;
    alone.arrive(&sack(0, &[(1000, 2500)]));
    assert_eq!(starts(&alone.sent())[..2], [0, 500]);
    assert_eq!(
        alone.end.events & Events::PATH_PROBE_LOST,
        Events::PATH_PROBE_LOST
    );
    // Another one is found missing meanwhile: it is.
    alone.arrive(&sack(0, &[(3000, 4500), (1000, 2500)]));
    let status = alone.end.tcb.status();
    assert!(status.ssthresh < before.cwnd, "{status:?}");
}

/// RFC 4821 §7.3: ten minutes later more is tried.
#[test]
fn a_path_that_has_grown_is_found_to_have() {
    for (says, probing) in [
        (true, PathProbing::BlackHoles),
        (false, PathProbing::BlackHoles),
        (true, PathProbing::Always),
        (false, PathProbing::Always),
    ] {
        let mut road = Road::new(&config(probing), 1200);
        road.says = says;
        road.carry(100_000);
        road.settle();
        let narrow = road.smss();
        assert!(
            (1141..=1148).contains(&narrow),
            "{says} {probing}: {narrow}"
        );
        road.mtu = 1500;
        road.pass(Duration::from_secs(590));
        road.carry(200_000);
        assert_eq!(road.smss(), narrow, "{says} {probing}: not so soon");
        road.pass(Duration::from_secs(20));
        road.carry(200_000);
        assert_eq!(road.smss(), 1448, "{says} {probing}");
    }
}

/// A peer that was away comes back: segments are soon as long as before.
#[test]
fn a_peer_that_was_away_is_no_narrow_path() {
    let mut road = Road::new(&config(PathProbing::BlackHoles), 1500);
    road.carry(100_000);
    road.mtu = 0;
    road.ends[0].send(&[1; 50_000]);
    road.pass(Duration::from_secs(10));
    assert!(road.smss() < 1448);
    road.mtu = 1500;
    let left = road.ends[0].stream.len() - road.ends[1].received.len();
    assert!(left > 0);
    road.carry(300_000);
    assert_eq!(road.smss(), 1448);
}

/// Under loss of all kinds the search ends, right, and no byte is lost.
#[test]
fn a_path_is_measured_amid_losses() {
    for loses in [17, 40, 90] {
        let mut road = Road::new(&config(PathProbing::Always), 1400);
        road.loses = loses;
        road.settle();
        assert!(road.smss() <= 1348, "{loses}");
        assert!(road.smss() >= 1012, "{loses}: {}", road.smss());
    }
}

/// RFC 5927 §7.2: while full segments arrive, a report that they are too long is a lie, or comes of a path that has changed. A
/// timeout tells one from the other.
#[test]
fn reports_wait_where_full_segments_arrive() {
    let at = |offset: u32| SeqNumber::new(2) + offset;
    let report = Report::TooLong { path_mtu: 600 };
    // A lie: all arrives.
    let mut road = Road::new(&config(PathProbing::BlackHoles), 1500);
    road.carry(50_000);
    road.ends[0].send(&[2; 20_000]);
    road.leave(0);
    let now = road.now;
    let heard = road.ends[0].tcb.on_report(now, at(51_000), report);
    assert_eq!(heard, Heard::Doubted);
    road.carry(50_000);
    // A timeout of something else does not bring it back.
    road.mtu = 0;
    road.ends[0].send(&[3; 5_000]);
    road.pass(Duration::from_millis(700));
    assert_eq!(road.smss(), 1448);
    assert!(!road.has(Events::PATH_SHORTENED));

    // The path has changed, and a router says so: at the first timeout.
    let mut road = Road::new(&config(PathProbing::Off), 1500);
    road.carry(50_000);
    (road.mtu, road.says) = (1000, true);
    let took = road.carry(50_000);
    assert!(road.has(Events::PATH_SHORTENED));
    assert_eq!(road.smss(), 948);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// What a router says bounds a search, and is tried first; what it says of segments that pass is doubted.
#[test]
fn a_router_shortens_a_search() {
    let mut road = Road::new(&config(PathProbing::Always), 1337);
    road.says = true;
    road.carry(200_000);
    assert_eq!(road.smss(), 1337 - HEADERS);
    assert_eq!(road.too_long, 1);
}

/// An end that says nothing of a probe but takes less at a time: it waits for the window.
#[test]
fn a_probe_keeps_to_the_peers_window() {
    let mut host = thousand(&Config {
        congestion: CongestionControl::NewReno,
        path_probing: PathProbing::Always,
        path_base_segment: 500,
        send_buffer_bytes: 1 << 20,
        ..Host::plain()
    });
    let mut small = segment(ACK, 0, 0, 0);
    small.header.window = 2900;
    host.arrive(&small);
    host.end.send(&[0; 60_000]);
    let lens: Vec<usize> = host.sent().iter().map(|reply| reply.3).collect();
    assert_eq!(lens, [500; 5]);
}
