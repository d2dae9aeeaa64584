//! Runs the cells pair by pair and draws them together.

use serde::Serialize;

use crate::side::{
    BulkConfig, BulkResult, CHURN_BATCH, ChurnConfig, ChurnResult, MESSAGE_BYTES, PingPongConfig,
    PingPongResult, Side,
};

/// One load that every side runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Bulk transfer, counted in messages.
    Bulk(BulkConfig),
    /// Round trips, counted one by one.
    PingPong(PingPongConfig),
    /// Connections opened and closed, counted one by one.
    Churn(ChurnConfig),
}

/// What one run of a cell took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of a bulk cell.
    Bulk(BulkResult),
    /// Of a ping-pong cell.
    PingPong(PingPongResult),
    /// Of a churn cell.
    Churn(ChurnResult),
}

/// Median, least and greatest of the repetitions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The value in the middle; of an even number, the mean of the two there.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// All repetitions of one side in a cell.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SideReport {
    /// The side's name.
    pub side: &'static str,
    /// Messages that its application wrote between turns; absent if the window alone decided.
    pub burst_messages: Option<u64>,
    /// Thread processor time per message, round trip or connection, in nanoseconds.
    pub cpu_ns: Spread,
    /// Wall time per message, round trip or connection, in nanoseconds.
    pub wall_ns: Spread,
    /// The first side's processor time over this one's, pair by pair: above 1, this one is faster. Absent for the first.
    pub ratio: Option<Spread>,
    /// What every run answered, in the order of the pairs.
    pub runs: Vec<Outcome>,
}

/// A cell and what every side made of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CellReport {
    /// The load.
    pub cell: Cell,
    /// The hash of the received bytes, which all runs agree on.
    pub hash: String,
    /// One entry per side.
    pub sides: Vec<SideReport>,
}

/// Bursts that are tried out, in messages.
const BURSTS: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// The cell as each side does best: of a bulk cell, with the burst of which its messages cost least. Tried in three rounds, so
/// that no slow phase of the machine decides alone.
pub fn suit(cell: Cell, sides: &[Side]) -> Vec<Cell> {
    let Cell::Bulk(config) = cell else {
        return vec![cell; sides.len()];
    };
    let mut best = vec![(u64::MAX, cell); sides.len()];
    for _ in 0..3 {
        for burst_messages in BURSTS.map(Some).into_iter().chain([None]) {
            let config = BulkConfig {
                burst_messages,
                ..config
            };
            let shorter = BulkConfig {
                messages: config.messages.div_ceil(5),
                ..config
            };
            for (side, best) in sides.iter().zip(&mut best) {
                let cpu_ns = (side.bulk)(&shorter).cpu_ns;
                if cpu_ns < best.0 {
                    *best = (cpu_ns, Cell::Bulk(config));
                }
            }
        }
    }
    best.into_iter().map(|(_, cell)| cell).collect()
}

/// Runs the same load on every side `pairs` times, in the form that `cells` has for it, interleaved: within a pair the sides follow each other directly, and every other pair
/// begins with the last one, so that neither a slow phase of the machine nor a place in the order favours one.
///
/// # Errors
/// A sentence, if two runs received different bytes.
pub fn run_cell(cells: &[Cell], sides: &[Side], pairs: usize) -> Result<CellReport, String> {
    let cell = *cells
        .first()
        .ok_or("nothing ran: at least one side is needed")?;
    let mut runs: Vec<Vec<Outcome>> = vec![Vec::with_capacity(pairs); sides.len()];
    for pair in 0..pairs {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if pair % 2 == 1 {
            order.reverse();
        }
        for side in order {
            runs[side].push(cells[side].run(&sides[side]));
        }
    }
    let hash = agreed_hash(cell, sides, &runs)?;
    let base = runs.first().cloned().unwrap_or_default();
    let sides = sides
        .iter()
        .zip(runs)
        .enumerate()
        .map(|(place, (side, runs))| SideReport {
            side: side.name,
            burst_messages: cells[place].burst_messages(),
            cpu_ns: spread(runs.iter().map(|run| cell.cpu_ns_per_unit(run))),
            wall_ns: spread(runs.iter().map(|run| cell.wall_ns_per_unit(run))),
            ratio: (place > 0).then(|| {
                spread(
                    base.iter()
                        .zip(&runs)
                        .map(|(base, run)| cell.cpu_ns_per_unit(base) / cell.cpu_ns_per_unit(run)),
                )
            }),
            runs,
        })
        .collect();
    Ok(CellReport {
        cell,
        hash: format!("{hash:016x}"),
        sides,
    })
}

fn agreed_hash(cell: Cell, sides: &[Side], runs: &[Vec<Outcome>]) -> Result<u64, String> {
    let mut agreed: Option<(u64, &str)> = None;
    for (side, runs) in sides.iter().zip(runs) {
        for run in runs {
            let hash = run.hash();
            match agreed {
                None => agreed = Some((hash, side.name)),
                Some((first, _)) if first == hash => {}
                Some((first, name)) => {
                    return Err(format!(
                        "{}: {name} received {first:016x}, {} received {hash:016x}: they did not do the same work",
                        cell.title(),
                        side.name
                    ));
                }
            }
        }
    }
    agreed
        .map(|(hash, _)| hash)
        .ok_or_else(|| "nothing ran: at least one side and one pair are needed".to_owned())
}

impl Cell {
    fn run(&self, side: &Side) -> Outcome {
        match self {
            Cell::Bulk(config) => Outcome::Bulk((side.bulk)(config)),
            Cell::PingPong(config) => Outcome::PingPong((side.ping_pong)(config)),
            Cell::Churn(config) => Outcome::Churn((side.churn)(config)),
        }
    }

    fn burst_messages(&self) -> Option<u64> {
        match self {
            Cell::Bulk(config) => config.burst_messages,
            Cell::PingPong(_) | Cell::Churn(_) => None,
        }
    }

    /// Messages, round trips or connections of one run.
    fn units(&self) -> f64 {
        match self {
            Cell::Bulk(config) => config.messages as f64,
            Cell::PingPong(config) => config.round_trips as f64,
            Cell::Churn(config) => (config.batches * CHURN_BATCH as u64) as f64,
        }
    }

    fn cpu_ns_per_unit(&self, outcome: &Outcome) -> f64 {
        let ns = match outcome {
            Outcome::Bulk(result) => result.cpu_ns,
            Outcome::PingPong(result) => result.cpu_ns,
            Outcome::Churn(result) => result.cpu_ns,
        };
        ns as f64 / self.units()
    }

    fn wall_ns_per_unit(&self, outcome: &Outcome) -> f64 {
        let ns = match outcome {
            Outcome::Bulk(result) => result.wall_ns,
            Outcome::PingPong(result) => result.wall_ns,
            Outcome::Churn(result) => result.wall_ns,
        };
        ns as f64 / self.units()
    }

    fn title(&self) -> String {
        match self {
            Cell::Bulk(config) => format!(
                "bulk, MTU {}, window {} KiB",
                config.mtu,
                config.window_bytes / 1024
            ),
            Cell::PingPong(config) => {
                format!("ping-pong, {} idle connections", config.idle_connections)
            }
            Cell::Churn(config) => format!(
                "connections opened and closed, {} idle ones",
                config.idle_connections
            ),
        }
    }
}

impl Outcome {
    fn hash(&self) -> u64 {
        match self {
            Outcome::Bulk(result) => result.hash,
            Outcome::PingPong(result) => result.hash,
            Outcome::Churn(result) => result.hash,
        }
    }
}

impl CellReport {
    /// The cell as lines for a person.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{} (hash {})", self.cell.title(), self.hash)];
        for side in &self.sides {
            let mut line = format!(
                "  {:10} {:9.1} ns cpu [{:.1} .. {:.1}] {:9.1} ns wall  {}",
                side.side,
                side.cpu_ns.median,
                side.cpu_ns.min,
                side.cpu_ns.max,
                side.wall_ns.median,
                self.particulars(side)
            );
            if let Some(ratio) = side.ratio {
                line.push_str(&format!(
                    "  {:.3}x [{:.3} .. {:.3}]",
                    ratio.median, ratio.min, ratio.max
                ));
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    fn particulars(&self, side: &SideReport) -> String {
        match side.runs.last() {
            Some(Outcome::Bulk(run)) => format!(
                "{:6.1} Gbit/s per processor second, bursts of {}, an ACK per {:.1} segments",
                MESSAGE_BYTES as f64 * 8.0 / side.cpu_ns.median,
                side.burst_messages
                    .map_or("a window".to_owned(), |messages| messages.to_string()),
                run.data_packets as f64 / run.ack_packets.max(1) as f64
            ),
            Some(Outcome::PingPong(_)) => {
                let p50 = spread(side.runs.iter().filter_map(|run| match run {
                    Outcome::PingPong(run) => Some(run.p50_ns as f64),
                    Outcome::Bulk(_) | Outcome::Churn(_) => None,
                }));
                format!(
                    "p50 {:.0} ns, {:.0} round trips per second",
                    p50.median,
                    1e9 / side.wall_ns.median
                )
            }
            Some(Outcome::Churn(_)) => {
                format!("{:.0} connections per second", 1e9 / side.wall_ns.median)
            }
            None => String::new(),
        }
    }
}

/// The spread of some values; zeros for none.
fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    };
    Spread {
        median,
        min: values.first().copied().unwrap_or(0.0),
        max: values.last().copied().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    fn answer(name: &'static str, cpu_ns: u64, hash: u64) -> BulkResult {
        ORDER.lock().expect("not poisoned").push(name);
        BulkResult {
            wall_ns: cpu_ns * 2,
            cpu_ns,
            data_packets: 8,
            ack_packets: 2,
            hash,
        }
    }

    fn no_ping_pong(_: &PingPongConfig) -> PingPongResult {
        unreachable!("the test runs bulk only")
    }

    fn no_churn(_: &ChurnConfig) -> ChurnResult {
        unreachable!("the test runs bulk only")
    }

    const SLOW: Side = Side {
        name: "slow",
        bulk: |_| answer("slow", 3000, 7),
        ping_pong: no_ping_pong,
        churn: no_churn,
    };
    const FAST: Side = Side {
        name: "fast",
        bulk: |_| answer("fast", 1000, 7),
        ping_pong: no_ping_pong,
        churn: no_churn,
    };
    const WRONG: Side = Side {
        name: "wrong",
        bulk: |config| answer("wrong", 1000, config.messages),
        ping_pong: no_ping_pong,
        churn: no_churn,
    };
    const CELL: Cell = Cell::Bulk(BulkConfig {
        mtu: 1500,
        window_bytes: 65536,
        messages: 10,
        burst_messages: None,
    });

    #[test]
    fn sides_are_interleaved_compared_and_held_to_the_same_bytes() {
        let report = run_cell(&[CELL; 2], &[SLOW, FAST], 3).expect("same bytes");
        let order = std::mem::take(&mut *ORDER.lock().expect("not poisoned"));
        assert_eq!(order, ["slow", "fast", "fast", "slow", "slow", "fast"]);
        assert_eq!(report.sides[0].ratio, None);
        let threefold = Spread {
            median: 3.0,
            min: 3.0,
            max: 3.0,
        };
        assert_eq!(report.sides[1].ratio, Some(threefold));
        assert_eq!(report.sides[1].cpu_ns.median, 100.0);
        assert_eq!(report.sides[1].wall_ns.median, 200.0);
        assert_eq!(report.hash, "0000000000000007");
        assert!(report.text().contains("an ACK per 4.0 segments"));

        let refused = run_cell(&[CELL; 2], &[SLOW, WRONG], 2).expect_err("other bytes");
        assert!(refused.contains("did not do the same work"), "{refused}");
        assert!(run_cell(&[], &[], 2).is_err());
    }

    #[test]
    fn spreads() {
        let rows: &[(&[f64], f64, f64, f64)] = &[
            (&[], 0.0, 0.0, 0.0),
            (&[2.0], 2.0, 2.0, 2.0),
            (&[3.0, 1.0], 2.0, 1.0, 3.0),
            (&[9.0, 1.0, 2.0], 2.0, 1.0, 9.0),
        ];
        for (values, median, min, max) in rows {
            let expected = Spread {
                median: *median,
                min: *min,
                max: *max,
            };
            assert_eq!(spread(values.iter().copied()), expected);
        }
    }
}
