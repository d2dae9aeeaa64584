//! Two engines back to back over a link that loses, repeats and reorders by a seed: what one user sends, the other gets.

use crate::testing::{End, Random, Wire};
use crate::{Config, CongestionControl, EcnMode, Events, PathProbing, State, reset_for};
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::{Duration, Instant};
use std::collections::BTreeMap;

/// What the link and the users do.
#[derive(Clone, Copy, Debug)]
struct Case {
    config: Config,
    /// Per mille.
    loss: u64,
    duplication: u64,
    /// Of what may be marked.
    marks: u64,
    /// Bytes that each side sends.
    bytes: usize,
    longest_cut: u32,
    /// The users take this much at a time.
    bite: usize,
}

struct Link {
    now: Instant,
    ends: [End; 2],
    /// Segments under way, by time and a number that tells them apart; with the end they go to.
    under_way: BTreeMap<(Instant, u64), (usize, Wire)>,
    number: u64,
    random: Random,
    /// User actions are due at these times.
    wakes: [Instant; 2],
    closed: [bool; 2],
    trace: bool,
    /// Segments that were marked.
    marked: usize,
}

const DELAY: Duration = Duration::from_millis(10);

impl Link {
    fn open(case: &Case, seed: u64) -> Link {
        let now = Instant::from_millis(1000);
        let mut random = Random::new(seed);
        // The streams wrap in most runs.
        let iss = [0, 1].map(|_| u32::MAX - random.below(2 * case.bytes as u64 + 2) as u32);
        let mut client = End::connect(&case.config, iss[0], now);
        let syn = client.poll(now).remove(0);
        let server = End::accept(&case.config, iss[1], &syn, now);
        let mut link = Link {
            now,
            ends: [client, server],
            under_way: BTreeMap::new(),
            number: 0,
            random,
            wakes: [now; 2],
            closed: [false; 2],
            trace: std::env::var_os("TRACE").is_some(),
            marked: 0,
        };
        for end in &mut link.ends {
            end.longest_cut = case.longest_cut;
            end.longest_train = [0, u32::MAX, 5000][(seed % 3) as usize];
        }
        link
    }

    fn transmit(&mut self, case: &Case, from: usize) {
        for mut wire in self.ends[from].poll(self.now) {
            if wire.header.ecn() != 0 && self.random.chance(case.marks) {
                wire.header.present |= TcpHeader::CE;
                self.marked += 1;
            }
            if self.trace {
                let header = &wire.header;
                println!(
                    "{} {from} seq {} ack {} flags {:#x} len {} wnd {} sack {:?}",
                    self.now.nanos(),
                    header.seq.value(),
                    header.ack.value(),
                    header.flags.0,
                    wire.data.len(),
                    header.window,
                    header.sack_blocks(),
                );
            }
            if self.random.chance(case.loss) {
                continue;
            }
            let copies = 1 + u64::from(self.random.chance(case.duplication));
            for _ in 0..copies {
                let mut at = self.now + DELAY;
                if self.random.chance(case.duplication) {
                    at += Duration::from_millis(self.random.below(30));
                }
                self.number += 1;
                self.under_way
                    .insert((at, self.number), (1 - from, wire.clone()));
            }
        }
    }

    /// An end that is gone answers as a host without the connection does.
    fn arrive(&mut self, to: usize, wire: &Wire) {
        if !self.ends[to].is_closed() {
            self.ends[to].arrive(self.now, wire);
            return;
        }
        if let Some(header) = reset_for(&wire.header, wire.data.len() as u32) {
            self.number += 1;
            let reset = Wire {
                header,
                data: Vec::new(),
            };
            self.under_way
                .insert((self.now + DELAY, self.number), (1 - to, reset));
        }
    }

    /// Users send what fits, take a bite, and close when all is sent.
    fn wake(&mut self, case: &Case, at: usize) {
        let end = &mut self.ends[at];
        end.take(case.bite);
        let left = case.bytes - end.stream.len();
        let room = left.min(end.tcb.send_space() as usize);
        if room > 0 {
            let start = end.stream.len();
            let data: Vec<u8> = (start..start + room)
                .map(|i| (i * 7 + i / 251 + at) as u8)
                .collect();
            end.send(&data);
        }
        // Before it is connected, a close would give up what waits (RFC 9293 §3.10.4).
        let connected = end.tcb.state() != State::SynSent;
        if end.stream.len() == case.bytes && connected && !self.closed[at] {
            self.closed[at] = true;
            end.tcb.close(self.now);
        }
        self.wakes[at] = self.now + Duration::from_millis(5);
    }

    /// Whether all is over, apart from waiting in TIME-WAIT.
    fn is_done(&self) -> bool {
        self.ends.iter().all(|end| {
            matches!(end.tcb.state(), State::Closed | State::TimeWait)
                && end.received.len() == end.taken
        })
    }

    fn run(&mut self, case: &Case, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while !self.is_done() {
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.ends.iter().filter_map(|end| end.tcb.deadline());
            let next = deadlines.chain(arrival).chain(self.wakes).min().unwrap();
            assert!(
                next < until,
                "stalled: {:#?}",
                self.ends.each_ref().map(|end| end.tcb.status())
            );
            self.now = self.now.max(next);
            while let Some(entry) = self.under_way.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, wire) = entry.remove();
                self.arrive(to, &wire);
            }
            for at in [0, 1] {
                if self.ends[at]
                    .tcb
                    .deadline()
                    .is_some_and(|deadline| deadline <= self.now)
                {
                    self.ends[at].expire(self.now);
                }
                if self.wakes[at] <= self.now {
                    self.wake(case, at);
                }
                self.transmit(case, at);
            }
        }
    }
}

/// How many segments were marked.
fn check(case: &Case, seed: u64) -> usize {
    let mut link = Link::open(case, seed);
    link.run(case, 3600);
    let [client, server] = link.ends;
    let context = format!(
        "seed {seed}, {:?} {:?}, {case:?}",
        client.events, server.events
    );
    assert!(client.received == server.stream, "{context}");
    assert!(server.received == client.stream, "{context}");
    for end in [client, server] {
        assert_eq!(end.stream.len(), case.bytes);
        let expected = Events::CONNECTED | Events::ACKED | Events::END_OF_DATA;
        let unexpected = Events::RESET | Events::REFUSED | Events::TIMED_OUT;
        assert!(end.events.contains(expected), "{context}: {:?}", end.events);
        assert!(
            !end.events.intersects(unexpected),
            "{context}: {:?}",
            end.events
        );
        if case.loss + case.duplication == 0 {
            assert_eq!(end.repeated, 0, "{context}: in vain");
        }
    }
    link.marked
}

fn configs() -> Vec<Config> {
    let mut configs = Vec::new();
    for congestion in CongestionControl::ALL {
        for options in 0..8 {
            for receive_buffer_bytes in [3000, 100_000] {
                configs.push(Config {
                    congestion,
                    sack: options & 1 == 0,
                    timestamps: options & 2 == 0,
                    window_scale: options & 4 == 0,
                    path_probing: PathProbing::ALL[options % 3],
                    path_base_segment: 700,
                    receive_buffer_bytes,
                    send_buffer_bytes: 50_000,
                    ..Config::default()
                });
            }
        }
    }
    configs
}

#[test]
fn a_perfect_link() {
    for (seed, config) in configs().into_iter().enumerate() {
        let case = Case {
            config,
            loss: 0,
            duplication: 0,
            marks: 0,
            bytes: 300_000,
            longest_cut: u32::MAX,
            bite: usize::MAX,
        };
        check(&case, seed as u64);
    }
}

/// What is marked is not lost: nothing is sent again.
#[test]
fn a_marking_link() {
    let mut marked = 0;
    for (seed, config) in configs().into_iter().enumerate() {
        let case = Case {
            config: Config {
                ecn: [EcnMode::On, EcnMode::Accurate][seed % 2],
                ..config
            },
            loss: 0,
            duplication: 0,
            marks: [10, 100, 1000][seed % 3],
            bytes: 100_000,
            longest_cut: u32::MAX,
            bite: usize::MAX,
        };
        marked += check(&case, seed as u64);
    }
    assert!(marked > 500, "{marked}");
}

#[test]
fn a_lossy_link() {
    for (at, config) in configs().into_iter().enumerate() {
        for seed in 0..6 {
            let case = Case {
                config: Config {
                    ecn: [EcnMode::Passive, EcnMode::On, EcnMode::Accurate][seed % 3],
                    ..config
                },
                loss: [10, 50, 200][seed % 3],
                duplication: [0, 50, 200][seed / 2 % 3],
                marks: [0, 100][seed % 2],
                bytes: 60_000,
                longest_cut: [u32::MAX, 700][seed % 2],
                bite: [usize::MAX, 500][seed / 2 % 2],
            };
            check(&case, (at * 100 + seed) as u64);
        }
    }
}

#[test]
fn a_trickle_in_single_bytes() {
    for seed in 0..20 {
        let config = Config {
            receive_buffer_bytes: 1,
            nagle: seed % 2 == 0,
            ..Config::default()
        };
        let case = Case {
            config,
            loss: 100,
            duplication: 100,
            marks: 0,
            bytes: 40,
            longest_cut: 1,
            bite: 1,
        };
        check(&case, seed);
    }
}
