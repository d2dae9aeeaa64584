//! What one seed stands for: the network, how the hosts are set, what their applications do, and what befalls them.

use crate::random::Random;
use crate::topology::Topology;
use braidnet::tcp::{Config, CongestionControl, EcnMode, FastOpen, Keepalive, PathProbing};
use std::time::Duration;

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Most bytes that all applications of a case send together, so that a run stays short.
const BYTES: u64 = 250_000;
/// Most segments that they fill with them at least.
const SEGMENTS: u64 = 400;

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) weather: Weather,
    pub(crate) topology: Topology,
    pub(crate) hosts: Vec<HostCase>,
    pub(crate) talks: Vec<Talk>,
    pub(crate) troubles: Vec<Trouble>,
}

/// How hard the network is on its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    /// Nothing is lost, repeated, changed or overtaken, and no queue builds up.
    Perfect,
    /// Packets wait and are dropped in a queue, and nothing else happens to them.
    Congested,
    /// A few of everything.
    Fair,
    /// Much of everything.
    Foul,
}

/// What lines may come to carry that carried more.
const NARROW: [usize; 3] = [1300, 1000, 600];

/// A stack's timing wheel turns in steps of so many nanoseconds: its timers are up to two of them late.
pub(crate) const WHEEL: u64 = 1 << 20;

/// How a host is set. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct HostCase {
    pub(crate) engine: Config,
    pub(crate) memory_bytes: usize,
    pub(crate) connections: usize,
    pub(crate) backlog: u32,
    /// What its clock shows when the run begins.
    pub(crate) clock_start: u64,
    /// It looks at its timers up to this late.
    pub(crate) lateness: u64,
    /// It looks at its device up to this long after a packet has come.
    pub(crate) coalescing: u64,
    /// Most packets that its stack takes at once.
    pub(crate) batch: usize,
}

/// One application calls another.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) client: usize,
    pub(crate) server: usize,
    pub(crate) begins: u64,
    /// How often it is begun anew once it is over, and how long after.
    pub(crate) again: u32,
    pub(crate) gap: u64,
    /// Bytes of the stream from the client, at least [`HEAD_BYTES`](crate::content::HEAD_BYTES), and back.
    pub(crate) bytes: [u64; 2],
    /// How the client, and the server, read and write and end.
    pub(crate) habits: [Habit; 2],
}

/// How an application behaves.
#[derive(Clone, Debug)]
pub(crate) struct Habit {
    /// Most bytes that it writes at a time, and reads.
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    /// Longest pause between two times.
    pub(crate) pause: u64,
    /// After so many bytes read it pauses for so long, once.
    pub(crate) long_pause: Option<(u64, u64)>,
    pub(crate) end: End,
}

/// How an application ends its side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It closes once it has sent all.
    WhenSent,
    /// It closes once it has sent all, and got all.
    WhenDone,
    /// It closes once the other side has.
    Last,
    /// It aborts after so many bytes read and written.
    Abort(u64),
    /// It goes away after so many bytes read and written: what was sent still goes out, and nobody reads what comes.
    Leave(u64),
}

impl End {
    /// Whether the other side may find the connection reset.
    pub(crate) fn is_rude(self) -> bool {
        matches!(self, End::Abort(_) | End::Leave(_))
    }
}

/// What befalls hosts and lines.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) at: u64,
    pub(crate) what: What,
}

/// See [`Trouble`].
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A line is down for so long.
    Outage { link: usize, lasts: u64 },
    /// A host forgets everything and is back after so long, under the same address.
    Reboot { host: usize, lasts: u64 },
    /// A host has another address from now on; packets for the old one, and from it, are lost.
    Move { host: usize },
    /// So many SYNs from nowhere ask a host for connections, one every so often.
    Flood { host: usize, syns: u32, every: u64 },
    /// So many segments forged by somebody who sees the addresses and ports but not the numbers.
    Forge {
        host: usize,
        segments: u32,
        every: u64,
    },
    /// A line carries packets of so many bytes at most from now on; the router before it says so, or nobody does (RFC 2923 §2.1).
    Narrow {
        link: usize,
        mtu: usize,
        is_silent: bool,
    },
}

impl Case {
    /// What this seed stands for.
    pub(crate) fn draw(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let random = &mut random;
        let weather = random.pick(&[
            Weather::Perfect,
            Weather::Congested,
            Weather::Fair,
            Weather::Fair,
            Weather::Foul,
        ]);
        let topology = Topology::draw(random, weather);
        let hosts: Vec<_> = (0..topology.hosts)
            .map(|_| HostCase::draw(random, weather))
            .collect();
        let talks = draw_talks(random, &hosts);
        let troubles = draw_troubles(random, &topology);
        let mut case = Case {
            seed,
            weather,
            topology,
            hosts,
            talks,
            troubles,
        };
        case.draw_paths();
        case.draw_fast_open();
        case.draw_ecn();
        case.make_patient();
        case
    }

    /// Which hosts send data with their SYNs, and take such.
    fn draw_fast_open(&mut self) {
        let mut random = Random::new(self.seed ^ 0x7413);
        for host in &mut self.hosts {
            host.engine.fast_open = random.pick(&[
                FastOpen::Off,
                FastOpen::Connect,
                FastOpen::Listen,
                FastOpen::Both,
                FastOpen::Both,
            ]);
            host.engine.fast_open_pending = random.pick(&[1, 4, 128]) as u32;
        }
    }

    /// Which hosts have their packets marked instead of lost, and how soon queues mark them.
    fn draw_ecn(&mut self) {
        let mut random = Random::new(self.seed ^ 0x3168);
        for host in &mut self.hosts {
            host.engine.ecn = random.pick(&EcnMode::ALL);
        }
        let ways = self
            .topology
            .links
            .iter_mut()
            .flat_map(|link| &mut link.ways);
        for rate in ways.filter_map(|way| way.rate.as_mut()) {
            rate.mark_bytes = random
                .chance(700)
                .then(|| random.sized(rate.queue_bytes / 2));
        }
    }

    /// How hosts find out how long packets may be, and lines that swallow the longer ones without a word. Hosts that do not look for such
    /// lines know of none.
    fn draw_paths(&mut self) {
        let mut random = Random::new(self.seed ^ 0x4821);
        let random = &mut random;
        for trouble in &mut self.troubles {
            if let What::Narrow { is_silent, .. } = &mut trouble.what {
                *is_silent = random.chance(500);
            }
        }
        let link = random.below(self.topology.links.len() as u64) as usize;
        if random.chance(80) && self.topology.may_narrow(link) {
            let what = What::Narrow {
                link,
                mtu: random.pick(&NARROW),
                is_silent: true,
            };
            let at = random.sized(4 * SECOND);
            self.troubles.push(Trouble { at, what });
            self.troubles.sort_by_key(|trouble| trouble.at);
        }
        let choices = match self.has_black_hole() {
            true => &PathProbing::ALL[1..],
            false => &PathProbing::ALL[..],
        };
        for host in &mut self.hosts {
            host.engine.path_probing = random.pick(choices);
            host.engine.path_base_segment = random.pick(&[1024, 1024, 536]) as u16;
            host.engine.path_search_again = Duration::from_secs(random.pick(&[1, 10, 600]));
        }
    }

    fn has_black_hole(&self) -> bool {
        let is_silent = |what: &What| {
            let What::Narrow { is_silent, .. } = what else {
                return false;
            };
            *is_silent
        };
        self.troubles.iter().any(|trouble| is_silent(&trouble.what))
    }

    /// Where lines are down, or half of all packets lost, a side that gives up after some tries would be right to do so.
    fn make_patient(&mut self) {
        let foul = self.weather == Weather::Foul;
        let bursts = self.topology.has_bursts();
        for host in &mut self.hosts {
            let tries = if foul || bursts { 200 } else { 40 };
            host.engine.retransmissions = tries;
            host.engine.syn_retransmissions = tries;
            // As by default, who is half-open gives up sooner: an old SYN, or a forged one, may have taken the place of a connection that the
            // peer still has, and hears of nothing else meanwhile.
            host.engine.syn_ack_retransmissions = tries / 2;
        }
    }

    /// How long nothing at all may happen to a talk while the network lets packets through.
    pub(crate) fn patience(&self) -> u64 {
        let max_rto = self.max_rto();
        let pauses = self
            .talks
            .iter()
            .flat_map(|talk| &talk.habits)
            .map(|habit| habit.pause + habit.long_pause.map_or(0, |(_, pause)| pause))
            .max()
            .unwrap_or(0);
        let rounds = match self.weather {
            // Bursts end with packets, a tenth of which end one: of what is sent once a minute many can be lost in a row.
            _ if self.topology.has_bursts() => 100,
            Weather::Perfect => 3,
            Weather::Congested | Weather::Fair => 14,
            Weather::Foul => 40,
        };
        // Three timeouts tell that segments are too long, and those that follow may be, too (RFC 4821 §7.7).
        let rounds = rounds + if self.has_black_hole() { 12 } else { 0 };
        // Who has lost its state may meet its former self in TIME-WAIT, which lets nobody in before its time but who is
        // certain to be new (RFC 9293 §3.6.1, RFC 1337).
        let reboots = |trouble: &Trouble| matches!(trouble.what, What::Reboot { .. });
        let time_wait = match self.troubles.iter().any(reboots) {
            true => self
                .hosts
                .iter()
                .map(|host| nanos(host.engine.time_wait))
                .max(),
            false => None,
        };
        let waits = time_wait.unwrap_or(0);
        rounds * max_rto + 2 * pauses + 4 * self.topology.span() + waits + 2 * SECOND
    }

    pub(crate) fn max_rto(&self) -> u64 {
        let hosts = self.hosts.iter();
        hosts
            .map(|host| nanos(host.engine.max_rto))
            .max()
            .unwrap_or(0)
    }
}

impl HostCase {
    /// How late it may look at a timer, by its own clock.
    pub(crate) fn tardiness(&self) -> u64 {
        // A distant timer is looked at once before, as the wheel turns: late twice.
        2 * (self.lateness + nanos(self.engine.clock_granularity) + WHEEL)
            + nanos(self.engine.clock_granularity)
    }

    fn draw(random: &mut Random, weather: Weather) -> HostCase {
        let anywhere = random.word() as u32;
        HostCase {
            engine: draw_engine(random, weather),
            memory_bytes: random.pick(&[8 << 20, 8 << 20, 32 << 20]),
            // More than the half-open ones can take (what a listener may hold, its backlog says).
            connections: random.pick(&[256, 512]),
            backlog: random.pick(&[1, 4, 16, 16, 64]) as u32,
            clock_start: random.pick(&[0, SECOND, u64::from(anywhere) << 18]),
            lateness: random.pick(&[0, 0, 50 * MICROSECOND, 5 * MILLISECOND]),
            coalescing: random.pick(&[0, 0, 0, 100 * MICROSECOND, 2 * MILLISECOND]),
            batch: random.pick(&[1, 1, 8, 64]) as usize,
        }
    }
}

fn draw_engine(random: &mut Random, weather: Weather) -> Config {
    let millis = Duration::from_millis;
    let buffer = |random: &mut Random| match random.below(8) {
        // Small windows fill no queue.
        _ if weather == Weather::Congested => random.between(20_000, 1 << 20) as u32,
        0 => 1 + random.below(200) as u32,
        1..4 => random.sized(20_000) as u32,
        _ => random.sized(1 << 20) as u32,
    };
    let granularity = [1, 1, MICROSECOND, MILLISECOND, 10 * MILLISECOND];
    Config {
        receive_buffer_bytes: buffer(random),
        send_buffer_bytes: buffer(random),
        receive_buffer_max_bytes: random.pick(&[0, 0, 1 << 20]),
        send_buffer_max_bytes: random.pick(&[0, 0, 1 << 20]),
        congestion: random.pick(&CongestionControl::ALL),
        pacing: random.chance(300),
        nagle: random.chance(500),
        timestamps: random.chance(600),
        sack: random.chance(700),
        rack: random.chance(700),
        window_scale: random.chance(600),
        delayed_ack: millis(random.pick(&[0, 1, 40, 150])),
        // RFC 6298's own lower bound, with which no delayed ACK looks like a loss: over a perfect network nothing goes twice.
        min_rto: match weather {
            Weather::Perfect => millis(1000),
            _ => millis(random.pick(&[200, 200, 1000])),
        },
        max_rto: millis(random.pick(&[2000, 10_000, 60_000])),
        clock_granularity: Duration::from_nanos(random.pick(&granularity)),
        time_wait: millis(random.pick(&[1, 2000, 60_000])),
        fin_wait_2: millis(random.pick(&[1000, 60_000])),
        reassembly_segments: random.pick(&[8192, 8192, 64, 2]),
        flight_pieces: random.pick(&[8192, 8192, 64, 8]),
        keepalive: Keepalive {
            on: random.chance(250),
            idle: millis(random.pick(&[2_000, 20_000])),
            interval: millis(1_000),
            probes: 40,
        },
        user_timeout: random
            .chance(60)
            .then(|| millis(random.pick(&[5_000, 60_000]))),
        ..Config::default()
    }
}

fn draw_talks(random: &mut Random, hosts: &[HostCase]) -> Vec<Talk> {
    let count = hosts.len() as u64;
    // Bulk, a few, many short ones, churn.
    let (talks, again) = match random.below(5) {
        0 => (random.between(1, 2), 0),
        1 | 2 => (random.between(2, 6), random.below(3)),
        3 => (random.between(8, 24), random.below(2)),
        _ => (random.between(1, 4), random.between(4, 12)),
    };
    let mut all = Vec::new();
    for _ in 0..talks {
        let client = random.below(count);
        let server = (client + 1 + random.below(count - 1)) % count;
        let (client, server) = (client as usize, server as usize);
        let habits = [(); 2].map(|()| Habit::draw(random));
        let grain = |from: usize, to: usize, habit: &Habit| {
            let (from, to) = (&hosts[from].engine, &hosts[to].engine);
            let window = from.send_buffer_bytes.min(to.receive_buffer_bytes);
            u64::from(window).min(habit.writes).min(400)
        };
        let times = talks * (again + 1) * 2;
        let mut size = |grain: u64| {
            let most = (SEGMENTS * grain).min(BYTES) / times;
            match random.below(10) {
                0 => 0,
                1 => 1,
                _ => random.below(most + 1),
            }
        };
        let request = size(grain(client, server, &habits[0]));
        let response = size(grain(server, client, &habits[1]));
        let mut talk = Talk {
            client,
            server,
            begins: random.sized(SECOND),
            again: again as u32,
            gap: random.sized(3 * SECOND),
            bytes: [request.max(crate::content::HEAD_BYTES), response],
            habits,
        };
        talk.settle_ends();
        all.push(talk);
    }
    all
}

impl Talk {
    /// Not both can wait for the other to close.
    fn settle_ends(&mut self) {
        let [client, server] = &mut self.habits;
        if client.end == End::Last && server.end == End::Last {
            server.end = End::WhenDone;
        }
    }

    /// Whether one side may leave the other with a reset.
    pub(crate) fn is_rude(&self) -> bool {
        self.habits.iter().any(|habit| habit.end.is_rude())
    }
}

impl Habit {
    fn draw(random: &mut Random) -> Habit {
        let after = random.sized(20_000);
        let end = match random.below(12) {
            0..4 => End::WhenSent,
            4..8 => End::WhenDone,
            8..10 => End::Last,
            10 => End::Abort(after),
            _ => End::Leave(after),
        };
        Habit {
            writes: random.pick(&[u64::MAX, u64::MAX, u64::MAX, 10_000, 1000, 100, 1]),
            reads: random.pick(&[u64::MAX, u64::MAX, u64::MAX, 10_000, 1000, 100, 1]),
            pause: random.pick(&[0, 0, MILLISECOND, 20 * MILLISECOND]),
            long_pause: random
                .chance(150)
                .then(|| (random.sized(20_000), random.sized(8 * SECOND))),
            end,
        }
    }
}

fn draw_troubles(random: &mut Random, topology: &Topology) -> Vec<Trouble> {
    let count = random.pick(&[0, 0, 1, 1, 2, 3]);
    let mut all = Vec::new();
    for _ in 0..count {
        let at = random.sized(8 * SECOND);
        let host = random.below(topology.hosts as u64) as usize;
        let link = random.below(topology.links.len() as u64) as usize;
        let what = match random.below(8) {
            0 | 1 => What::Outage {
                link,
                lasts: random.sized(20 * SECOND),
            },
            2 | 3 => What::Reboot {
                host,
                lasts: random.sized(3 * SECOND),
            },
            4 => What::Move { host },
            5 if topology.may_narrow(link) => What::Narrow {
                link,
                mtu: random.pick(&NARROW),
                is_silent: false,
            },
            5 | 6 => What::Flood {
                host,
                syns: random.between(20, 300) as u32,
                every: random.sized(5 * MILLISECOND),
            },
            _ => What::Forge {
                host,
                segments: random.between(20, 200) as u32,
                every: random.sized(20 * MILLISECOND),
            },
        };
        all.push(Trouble { at, what });
    }
    all.sort_by_key(|trouble| trouble.at);
    all
}

/// What the receive buffer may become.
pub(crate) fn largest_receive_buffer(config: &Config) -> u32 {
    config
        .receive_buffer_bytes
        .max(config.receive_buffer_max_bytes)
}

/// What the send buffer may become.
pub(crate) fn largest_send_buffer(config: &Config) -> u32 {
    config.send_buffer_bytes.max(config.send_buffer_max_bytes)
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
