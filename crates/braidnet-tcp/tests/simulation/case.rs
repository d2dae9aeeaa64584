//! What one seed stands for: the link, the two hosts, and how their applications behave.

use crate::random::Random;
use braidnet_tcp::{Config, CongestionControl};
use braidnet_wire::time::Duration;

pub const MICROSECOND: u64 = 1_000;
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Most segments' worth of data that one side sends, so that a run stays short whatever the sizes.
const SEGMENTS: u64 = 500;
/// Most bytes that one side sends.
const BYTES: u64 = 1_000_000;

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    /// From host 0 to host 1, and back.
    pub paths: [Path; 2],
    pub hosts: [Side; 2],
    /// Both sides call each other.
    pub simultaneous_open: bool,
    /// How hard the link is on its packets.
    pub weather: Weather,
    /// Per mille of segments whose header is changed in a way that no checksum finds.
    pub damage: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    /// Nothing is lost, repeated, changed or overtaken, and no queue builds up.
    Perfect,
    /// Packets wait and are dropped in a queue, and nothing else happens to them.
    Congested,
    /// A few of everything.
    Fair,
    /// Much of everything.
    Foul,
}

/// One direction of the link. Probabilities are per mille, times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Path {
    pub delay: u64,
    pub loss: u64,
    pub duplication: u64,
    pub corruption: u64,
    /// How many packets are held up, by up to `jitter`, so that others overtake them.
    pub reordering: u64,
    pub jitter: u64,
    /// Bytes per second; 0 is as fast as may be.
    pub rate: u64,
    /// Bytes that may wait for the line.
    pub queue_bytes: u64,
}

/// One host: its engine and its application. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Side {
    pub config: Config,
    pub mss: u16,
    pub iss: u32,
    pub timestamp_offset: u32,
    /// What its clock shows when the run begins.
    pub clock_start: u64,
    /// Its clock moves in steps of this.
    pub granularity: u64,
    /// It looks at its timers up to this late.
    pub lateness: u64,
    /// It looks at its device up to this long after a packet has come.
    pub coalescing: u64,
    /// Most segments that are fed to the engine before it is polled.
    pub batch: usize,
    /// Longest piece of data that it puts into one segment.
    pub longest_cut: u32,
    /// Most bytes that it takes from the engine as a train of segments, and cuts itself; 0 if it takes none.
    pub longest_train: u32,
    /// Bytes that its application sends.
    pub bytes: usize,
    pub write: Habit,
    pub read: Habit,
    /// It closes only when the other side has.
    pub closes_last: bool,
    /// It does not close before this time.
    pub closes_at: u64,
}

/// How an application reads or writes.
#[derive(Clone, Debug)]
pub struct Habit {
    /// Most bytes at a time.
    pub most: u64,
    /// Longest usual pause between two times.
    pub pause: u64,
    /// Length of a long pause.
    pub long_pause: u64,
    /// How many long pauses there are.
    pub long_pauses: u64,
}

impl Case {
    pub fn draw(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let random = &mut random;
        let weather = random.pick(&[
            Weather::Perfect,
            Weather::Congested,
            Weather::Fair,
            Weather::Fair,
            Weather::Foul,
        ]);
        let paths = [(); 2].map(|()| Path::draw(random, weather));
        let mut hosts = [(); 2].map(|()| Side::draw(random, weather));
        let smallest = hosts.iter().map(Side::grain).min().unwrap_or(1);
        for host in &mut hosts {
            let most = (SEGMENTS * smallest).min(BYTES);
            host.bytes = match random.below(12) {
                0 => 0,
                1 => 1,
                _ => random.below(most) as usize,
            };
            // Two streams in three wrap somewhere, or pass the middle, where the sign of a difference turns.
            let before = random.below(2 * host.bytes as u64 + 4) as u32;
            let anywhere = random.word() as u32;
            host.iss = random.pick(&[u32::MAX - before, (1 << 31) - before.min(1 << 30), anywhere]);
        }
        let last = random.below(6) as usize;
        if let Some(host) = hosts.get_mut(last) {
            host.closes_last = true;
        }
        if random.chance(200) {
            // Both close at the same time, or nearly so.
            let at = random.below(2 * SECOND);
            for host in &mut hosts {
                host.closes_at = at + random.below(2) * random.below(MILLISECOND);
            }
        }
        Case {
            seed,
            paths,
            hosts,
            simultaneous_open: random.chance(150),
            weather,
            damage: 0,
        }
    }

    /// The same with headers changed in `damage` of a thousand segments.
    pub fn damaged(self, damage: u64) -> Case {
        Case { damage, ..self }
    }

    /// How long nothing at all may happen: see the head of `main.rs`.
    pub fn patience(&self) -> u64 {
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        let max_rto = self
            .hosts
            .iter()
            .map(|host| nanos(host.config.max_rto))
            .max()
            .unwrap_or(0);
        let pause = |habit: &Habit| habit.pause + habit.long_pause;
        let pauses: u64 = self
            .hosts
            .iter()
            .map(|host| pause(&host.write) + pause(&host.read) + host.closes_at)
            .sum();
        let line: u64 = self
            .paths
            .iter()
            .map(|path| path.delay + path.jitter + path.drain())
            .sum();
        let rounds = match self.weather {
            Weather::Perfect => 2,
            Weather::Congested | Weather::Fair => 12,
            Weather::Foul => 40,
        };
        rounds * max_rto + pauses + 4 * line + SECOND
    }
}

impl Path {
    fn draw(random: &mut Random, weather: Weather) -> Path {
        let mut most = |perfect: u64, fair: u64, foul: u64| {
            let most = match weather {
                Weather::Perfect | Weather::Congested => perfect,
                Weather::Fair => fair,
                Weather::Foul => foul,
            };
            random.below(most + 1)
        };
        let (loss, duplication) = (most(0, 30, 250), most(0, 30, 250));
        let (corruption, reordering) = (most(0, 20, 100), most(0, 100, 500));
        let (rate, queue_bytes) = match weather {
            Weather::Perfect => (0, 0),
            Weather::Congested => (
                random.between(50_000, 5_000_000),
                random.between(3_000, 60_000),
            ),
            _ => random.pick(&[(0, 0), (1_000_000, 200_000), (100_000, 20_000)]),
        };
        Path {
            delay: random.sized(200 * MILLISECOND),
            loss,
            duplication,
            corruption,
            reordering,
            jitter: random.sized(300 * MILLISECOND),
            rate,
            queue_bytes,
        }
    }

    /// Time in which a full queue empties.
    pub fn drain(&self) -> u64 {
        (self.queue_bytes * SECOND)
            .checked_div(self.rate)
            .unwrap_or(0)
    }
}

impl Side {
    fn draw(random: &mut Random, weather: Weather) -> Side {
        let config = draw_config(random, weather);
        let mss = random.pick(&[88, 536, 1220, 1460, 1460, 1460, 4312, 8960]);
        let anywhere = random.word() as u32;
        Side {
            mss,
            iss: 0,
            timestamp_offset: random.pick(&[0, u32::MAX - 500, (1 << 31) - 500, anywhere]),
            clock_start: random.pick(&[0, SECOND, u64::from(anywhere) << 18]),
            granularity: nanos_of(config.clock_granularity),
            lateness: random.pick(&[0, 0, 50 * MICROSECOND, 5 * MILLISECOND]),
            coalescing: random.pick(&[0, 0, 100 * MICROSECOND, 2 * MILLISECOND]),
            batch: random.pick(&[1, 1, 2, 8, 64]),
            longest_cut: random.pick(&[u32::MAX, u32::MAX, u32::MAX, 1000, 100]),
            longest_train: random.pick(&[0, 0, u32::MAX, 65_000]),
            bytes: 0,
            write: Habit::draw(random, weather),
            read: Habit::draw(random, weather),
            closes_last: false,
            closes_at: 0,
            config,
        }
    }

    /// About how many bytes its segments carry at least.
    fn grain(&self) -> u64 {
        let window = u64::from(
            self.config
                .receive_buffer_bytes
                .min(self.config.send_buffer_bytes),
        );
        let cut = u64::from(self.longest_cut).min(u64::from(self.mss));
        window.min(cut).min(self.write.most).max(1)
    }
}

impl Habit {
    fn draw(random: &mut Random, weather: Weather) -> Habit {
        let perfect = weather == Weather::Perfect;
        Habit {
            most: random.pick(&[u64::MAX, u64::MAX, u64::MAX, 10_000, 10_000, 1000, 100, 1]),
            pause: random.pick(&[0, 0, MILLISECOND, 20 * MILLISECOND]),
            long_pause: if perfect { 0 } else { random.sized(8 * SECOND) },
            long_pauses: if perfect { 0 } else { random.below(4) },
        }
    }

    /// How long until the next time.
    pub fn pause(&mut self, random: &mut Random) -> u64 {
        if self.long_pauses > 0 && random.chance(100) {
            self.long_pauses -= 1;
            return self.long_pause;
        }
        random.below(self.pause + 1)
    }
}

fn draw_config(random: &mut Random, weather: Weather) -> Config {
    let millis = Duration::from_millis;
    let buffer = |random: &mut Random| match random.below(8) {
        // Small windows fill no queue.
        _ if weather == Weather::Congested => random.between(20_000, 1 << 20) as u32,
        0 => 1 + random.below(200) as u32,
        1 => 1 << 30,
        2..5 => random.sized(20_000) as u32,
        _ => random.sized(1 << 22) as u32,
    };
    // Under weather that loses every other exchange, a side that gives up after some tries would be right to do so.
    let patient = if weather == Weather::Foul { 200 } else { 40 };
    // RFC 6298's own lower bound, with which no delayed ACK looks like a loss: over a perfect link nothing goes twice.
    let perfect = weather == Weather::Perfect;
    Config {
        receive_buffer_bytes: buffer(random),
        send_buffer_bytes: buffer(random),
        congestion: random.pick(&CongestionControl::ALL),
        nagle: random.chance(500),
        timestamps: random.chance(500),
        sack: random.chance(600),
        window_scale: random.chance(600),
        delayed_ack: random.pick(&[millis(0), millis(1), millis(40), millis(150)]),
        min_rto: if perfect {
            millis(1000)
        } else {
            random.pick(&[millis(200), millis(200), millis(1000)])
        },
        max_rto: random.pick(&[millis(2000), millis(10_000), millis(60_000)]),
        clock_granularity: Duration::from_nanos(random.pick(&[
            1,
            1,
            MICROSECOND,
            MILLISECOND,
            10 * MILLISECOND,
        ])),
        time_wait: random.pick(&[millis(1), millis(2000), millis(60_000)]),
        retransmissions: patient,
        syn_retransmissions: patient,
        syn_ack_retransmissions: patient,
        reassembly_segments: random.pick(&[8192, 8192, 64, 2]),
        rack: random.chance(700),
        flight_pieces: random.pick(&[8192, 8192, 64, 8]),
        receive_buffer_max_bytes: random.pick(&[0, 0, 4 << 20]),
        send_buffer_max_bytes: random.pick(&[0, 0, 4 << 20]),
        ..Config::default()
    }
}

/// What the receive buffer may become.
pub fn largest_receive_buffer(config: &Config) -> u32 {
    config
        .receive_buffer_bytes
        .max(config.receive_buffer_max_bytes)
}

pub fn nanos_of(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
