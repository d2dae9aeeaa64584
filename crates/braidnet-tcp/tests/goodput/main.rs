//! How much of a path TCP makes use of: goodput over loss, reordering, round trip, buffer and congestion control, and how flows
//! share a bottleneck, all in virtual time.
//!
//! The figures stand in `grid.txt`. They are the same on every run; a change that moves them shows in the diff:
//!
//! ```text
//! BRAIDNET_ACCEPT=1 cargo test -p braidnet-tcp --test goodput
//! ```
//!
//! writes the new ones. What must hold whatever they are stands in the tests below. In `linux.txt` stands what Linux reaches at the same points
//! in real time (`peers/linux-grid.sh`).

mod linux;
mod net;

use braidnet_impair::{Impairments, Rate, Reorder, Share};
use braidnet_tcp::{Config, CongestionControl, EcnMode};
use braidnet_wire::time::Duration;
use net::{Flow, Net, Outcome};
use std::fmt::Write;
use std::num::NonZeroU64;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The bottleneck's rate.
const BITS_PER_SECOND: u64 = 20_000_000;
/// What of it is data: segments of 1,448 bytes with 52 bytes of headers.
const MOST_MBIT: f64 = 20.0 * 1448.0 / 1500.0;
/// How long a flow runs, and from when on what it reaches counts as steady.
const RUN: u64 = 12 * SECOND;
const STEADY: u64 = 2 * SECOND;

/// One point of the grid.
#[derive(Clone, Copy)]
struct Path {
    rtt_ms: u64,
    /// Of the bottleneck, in hundredths of what rate and round trip hold.
    buffer_percent: u64,
    /// Of the buffer, in hundredths: a packet that finds more waiting is marked, where it can be.
    mark_percent: Option<u64>,
    /// Per mille.
    loss: u32,
    /// Per mille of packets that are held back, and for how many milliseconds.
    late: (u32, u64),
    /// The hosts' clocks move in steps of so many microseconds.
    clock_us: u64,
    seed: u64,
}

const PLAIN: Path = Path {
    rtt_ms: 40,
    buffer_percent: 100,
    mark_percent: None,
    loss: 0,
    late: (0, 0),
    clock_us: 1,
    seed: 1,
};

impl Path {
    fn run(&self, flows: &[Flow], until: u64) -> Vec<Outcome> {
        let bdp = BITS_PER_SECOND / 8 * self.rtt_ms / 1000;
        let delay = Duration::from_micros(self.rtt_ms * 500);
        let (share, late_ms) = self.late;
        let late = Duration::from_millis(late_ms);
        let queue_bytes = (bdp * self.buffer_percent / 100).max(6000);
        let forth = Impairments {
            loss: Share::per_mille(self.loss),
            delay,
            reorder: Reorder {
                share: Share::per_mille(share),
                least: late,
                most: late,
            },
            rate: NonZeroU64::new(BITS_PER_SECOND).map(|bits| Rate {
                queue_bytes,
                mark_bytes: self.mark_percent.map(|percent| queue_bytes * percent / 100),
                ..Rate::new(bits)
            }),
            seed: self.seed,
            ..Impairments::none()
        };
        let back = Impairments {
            delay,
            ..Impairments::none()
        };
        let step = Duration::from_micros(self.clock_us);
        Net::new(&forth, &back, flows, step).run(STEADY, until)
    }

    /// What one flow makes of it.
    fn alone(&self, config: Config) -> Outcome {
        let flow = Flow {
            config,
            starts_at: 0,
        };
        self.run(&[flow], RUN)[0]
    }

    /// Its steady goodput, in Mbit/s: of five seeds the median.
    fn goodput(&self, config: Config) -> f64 {
        let mut each: Vec<f64> = (1..=5)
            .map(|seed| steady(&Path { seed, ..*self }.alone(config)))
            .collect();
        each.sort_by(f64::total_cmp);
        each[2]
    }
}

fn steady(outcome: &Outcome) -> f64 {
    let bytes = outcome.delivered - outcome.by_mark;
    bytes as f64 * 8e3 / (RUN - STEADY) as f64
}

fn config(congestion: CongestionControl) -> Config {
    Config {
        congestion,
        ..Config::default()
    }
}

/// (Σx)² / (n Σx²): 1 if all have the same (Jain, Chiu, Hawe 1984).
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

fn grid() -> String {
    let mut text = String::from(
        "Steady goodput in Mbit/s of one flow over a bottleneck of 20 Mbit/s (19.31 of data), by seed 1, and data sent again in %\n\n",
    );
    for control in CongestionControl::ALL {
        for rtt_ms in [10, 40, 200] {
            for buffer_percent in [25, 100] {
                let _ = writeln!(
                    text,
                    "{control}, round trip {rtt_ms} ms, buffer {buffer_percent} % of it"
                );
                let _ = writeln!(
                    text,
                    "{:>14}{:>16}{:>16}{:>16}",
                    "loss", "in order", "3 % by 5 ms", "3 % by 20 ms"
                );
                for loss in [0, 1, 10, 30] {
                    let _ = write!(text, "{:>12.1} %", f64::from(loss) / 10.0);
                    for late in [(0, 0), (30, 5), (30, 20)] {
                        let path = Path {
                            rtt_ms,
                            buffer_percent,
                            loss,
                            late,
                            ..PLAIN
                        };
                        let outcome = path.alone(config(control));
                        let again = outcome.repeated as f64 * 100.0 / outcome.segments as f64;
                        let _ = write!(text, "{:>8.2} {:>5.1} %", steady(&outcome), again);
                    }
                    text.push('\n');
                }
                text.push('\n');
            }
        }
    }
    marked(&mut text);
    text.push_str("Flows that share it for 60 s, from when the last has begun: goodput of each, and Jain's index\n\n");
    use CongestionControl::{Cubic, NewReno};
    let rows: [(&str, &[CongestionControl]); 4] = [
        ("2 cubic", &[Cubic; 2]),
        ("2 new-reno", &[NewReno; 2]),
        ("8 cubic", &[Cubic; 8]),
        ("2 cubic, 2 new-reno", &[Cubic, NewReno, Cubic, NewReno]),
    ];
    for (name, controls) in rows {
        let shares = shared(controls);
        let each: Vec<String> = shares.iter().map(|share| format!("{share:.2}")).collect();
        let _ = writeln!(text, "{name:>20}  {:.3}  {}", jain(&shares), each.join(" "));
    }
    text
}

/// What the same flow reaches where the bottleneck drops what finds it full, and where it marks what finds half of it full.
fn marked(text: &mut String) {
    text.push_str(
        "Round trip 40 ms, packets marked that find half of the buffer full (RFC 3168)\n",
    );
    let _ = writeln!(
        text,
        "{:>20}{:>8}{:>16}{:>16}{:>16}",
        "", "buffer", "off", "on", "accurate"
    );
    for control in CongestionControl::ALL {
        for buffer_percent in [25, 100] {
            let _ = write!(text, "{:>20}{buffer_percent:>6} %", control.to_string());
            for ecn in [EcnMode::Off, EcnMode::On, EcnMode::Accurate] {
                let path = Path {
                    buffer_percent,
                    mark_percent: Some(50),
                    ..PLAIN
                };
                let outcome = path.alone(Config {
                    ecn,
                    ..config(control)
                });
                let again = outcome.repeated as f64 * 100.0 / outcome.segments as f64;
                let _ = write!(text, "{:>8.2} {:>5.1} %", steady(&outcome), again);
            }
            text.push('\n');
        }
    }
    text.push('\n');
}

/// What flows that begin a tenth of a second apart have of the bottleneck.
fn shared(controls: &[CongestionControl]) -> Vec<f64> {
    let flow = |(at, control): (usize, &CongestionControl)| Flow {
        config: config(*control),
        starts_at: at as u64 * 100 * MS,
    };
    let flows: Vec<Flow> = controls.iter().enumerate().map(flow).collect();
    let outcomes = PLAIN.run(&flows, STEADY + 60 * SECOND);
    let share = |outcome: &Outcome| {
        (outcome.delivered - outcome.by_mark) as f64 * 8e3 / (60 * SECOND) as f64
    };
    outcomes.iter().map(share).collect()
}

#[test]
fn the_grid_is_as_it_was() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goodput/grid.txt");
    let found = grid();
    if std::env::var_os("BRAIDNET_ACCEPT").is_some() {
        std::fs::write(path, &found).unwrap();
        return;
    }
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let rows = found
        .lines()
        .zip(before.lines().chain(std::iter::repeat("")));
    let moved: Vec<String> = rows
        .filter(|(now, before)| now != before)
        .map(|(now, before)| format!("- {before}\n+ {now}"))
        .collect();
    assert!(
        found == before,
        "goodput has moved:\n{}\nif that is meant: BRAIDNET_ACCEPT=1 cargo test -p braidnet-tcp --test goodput",
        moved.join("\n")
    );
}

#[test]
fn a_clean_path_is_filled() {
    for control in CongestionControl::ALL {
        for rtt_ms in [10, 40] {
            let path = Path { rtt_ms, ..PLAIN };
            let goodput = path.goodput(config(control));
            assert!(
                goodput > 0.97 * MOST_MBIT,
                "{control}, {rtt_ms} ms: {goodput}"
            );
        }
    }
}

/// Three packets in a hundred come 5 ms late: that is no loss.
#[test]
fn mild_reordering_costs_nothing() {
    for rtt_ms in [20, 40] {
        let path = Path { rtt_ms, ..PLAIN };
        let late = Path {
            late: (30, 5),
            ..path
        };
        let in_order = path.goodput(Config::default());
        let reordered = late.goodput(Config::default());
        assert!(
            reordered >= 0.95 * in_order,
            "{rtt_ms} ms: {reordered} of {in_order}"
        );
    }
}

/// Nor is it one for clocks that see no time between what is sent together, or none between sending and acknowledgment.
#[test]
fn coarse_clocks_do_not_see_losses() {
    for clock_us in [1_000, 10_000, 100_000] {
        let late = Path {
            late: (30, 5),
            clock_us,
            ..PLAIN
        };
        let goodput = late.goodput(Config::default());
        assert!(goodput >= 0.9 * MOST_MBIT, "{clock_us} us: {goodput}");
    }
}

/// Marks say in time what else only losses say (RFC 3168 §5): next to nothing has to be sent again, and hardly anything of the path is
/// left unused. What is lost is lost in slow start, before the first mark has come back.
#[test]
fn marks_come_before_losses() {
    let path = Path {
        mark_percent: Some(50),
        ..PLAIN
    };
    for control in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let with = |ecn| {
            path.alone(Config {
                ecn,
                ..config(control)
            })
        };
        let dropped = with(EcnMode::Off);
        for ecn in [EcnMode::On, EcnMode::Accurate] {
            let marked = with(ecn);
            assert!(
                marked.repeated * 10 < dropped.repeated,
                "{control}, {ecn}: {marked:?} {dropped:?}"
            );
            let goodput = steady(&marked);
            assert!(goodput > 0.95 * MOST_MBIT, "{control}, {ecn}: {goodput}");
        }
    }
}

/// Finding losses by time is better than counting what has overtaken where packets are late, and never worse by much: it finds that
/// what was sent again is lost, too, and cuts the window for it (RFC 5681 §4.3).
#[test]
fn time_finds_losses_better_than_counting() {
    let counting = Config {
        rack: false,
        ..Config::default()
    };
    for (loss, late, factor) in [(0, (30, 5), 1.0), (10, (0, 0), 0.9), (30, (0, 0), 0.9)] {
        let path = Path {
            loss,
            late,
            ..PLAIN
        };
        let (by_time, by_count) = (path.goodput(Config::default()), path.goodput(counting));
        assert!(
            by_time >= factor * by_count,
            "{loss} {late:?}: {by_time} against {by_count}"
        );
    }
}

#[test]
fn flows_alike_share_alike() {
    for controls in [
        [CongestionControl::Cubic; 4],
        [CongestionControl::NewReno; 4],
    ] {
        let shares = shared(&controls);
        assert!(jain(&shares) > 0.9, "{shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.95 * MOST_MBIT, "{shares:?}");
    }
}
