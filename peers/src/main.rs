//! Other TCP/IP stacks side by side with braidnet: the same loads, in memory, both ends on one pinned processor.
//!
//! `cargo run --release` in this folder runs every cell on every registered side, interleaved pair by pair, and prints
//! medians with the least and the greatest. The build is portable on purpose (no `target-cpu=native`). To see how far two
//! equal sides seem to differ on this machine at this moment, name one twice: `--sides smoltcp,smoltcp`.

mod braidnet_side;
mod compare;
mod machine;
mod payload;
mod queue_device;
mod side;
mod smoltcp_side;

use std::process::ExitCode;

use clap::Parser;
use compare::{Cell, CellReport, run_cell, suit};
use side::{BulkConfig, CHURN_BATCH, ChurnConfig, PingPongConfig, SIDES, Side};

/// Runs the same loads on several TCP/IP stacks, interleaved, and compares what they cost.
#[derive(Parser)]
struct Arguments {
    /// Stacks to run, the one that others are compared with first
    #[arg(long, value_delimiter = ',')]
    sides: Vec<String>,
    /// Repetitions of every cell on every side
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// Largest IP packets of the bulk cells, in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [1500, 4352, 65535])]
    mtu: Vec<usize>,
    /// Windows of the bulk cells, in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1024])]
    window_kib: Vec<usize>,
    /// Messages of 4096 bytes in a bulk run
    #[arg(long, default_value_t = 100_000)]
    messages: u64,
    /// Messages that an application writes before the stacks get their turns [default: what suits each side best, tried
    /// out before every bulk cell]
    #[arg(long)]
    burst: Option<u64>,
    /// Numbers of idle connections of the ping-pong cells
    #[arg(long, value_delimiter = ',', default_values_t = [0, 10_000])]
    idle: Vec<usize>,
    /// Round trips in a ping-pong run without idle connections
    #[arg(long, default_value_t = 200_000)]
    round_trips: u64,
    /// Round trips in a ping-pong run with idle connections
    #[arg(long, default_value_t = 500)]
    idle_round_trips: u64,
    /// Numbers of idle connections of the cells in which connections are opened and closed
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000])]
    churn_idle: Vec<usize>,
    /// Connections opened and closed in a run without idle connections
    #[arg(long, default_value_t = 100_000)]
    churn: u64,
    /// Connections opened and closed in a run with idle connections
    #[arg(long, default_value_t = 10_000)]
    idle_churn: u64,
    /// Processor to run on
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Print everything, every run included, as JSON
    #[arg(long)]
    json: bool,
}

/// The most idle connections: the clients have 16,384 ports of their own to a server's port (RFC 6335 §6), and others want some.
const IDLE_MAX: usize = 16_000;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("peers: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let sides = chosen_sides(&arguments.sides)?;
    machine::pin(arguments.cpu)
        .map_err(|error| format!("cannot run on processor {}: {error}", arguments.cpu))?;
    let mut reports: Vec<CellReport> = Vec::new();
    for cell in cells(arguments)? {
        let cells = match arguments.burst {
            None => suit(cell, &sides),
            Some(_) => vec![cell; sides.len()],
        };
        let report = run_cell(&cells, &sides, arguments.pairs)?;
        if !arguments.json {
            println!("{}", report.text());
        }
        reports.push(report);
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&reports)
            .map_err(|error| format!("cannot write JSON: {error}"))?;
        println!("{text}");
    }
    Ok(())
}

fn too_many(idle_connections: usize) -> String {
    format!(
        "{idle_connections} idle connections leave too few ports for others ({IDLE_MAX} at most)"
    )
}

fn chosen_sides(names: &[String]) -> Result<Vec<Side>, String> {
    if names.is_empty() {
        return Ok(SIDES.to_vec());
    }
    names
        .iter()
        .map(|name| {
            let known = SIDES.iter().find(|side| side.name == name);
            known.copied().ok_or_else(|| {
                let all: Vec<&str> = SIDES.iter().map(|side| side.name).collect();
                format!("no side is called `{name}`; there are: {}", all.join(", "))
            })
        })
        .collect()
}

fn cells(arguments: &Arguments) -> Result<Vec<Cell>, String> {
    let mut cells = Vec::new();
    for &mtu in &arguments.mtu {
        if !(576..=65535).contains(&mtu) {
            return Err(format!("an MTU of {mtu} is not within 576 to 65535"));
        }
        for &window_kib in &arguments.window_kib {
            if !(4..=16_384).contains(&window_kib) {
                return Err(format!(
                    "a window of {window_kib} KiB is not within 4 to 16384"
                ));
            }
            cells.push(Cell::Bulk(BulkConfig {
                mtu,
                window_bytes: window_kib * 1024,
                messages: arguments.messages,
                burst_messages: arguments.burst,
            }));
        }
    }
    for &idle_connections in &arguments.idle {
        if idle_connections > IDLE_MAX {
            return Err(too_many(idle_connections));
        }
        cells.push(Cell::PingPong(PingPongConfig {
            mtu: 1500,
            idle_connections,
            round_trips: match idle_connections {
                0 => arguments.round_trips,
                _ => arguments.idle_round_trips,
            },
        }));
    }
    for &idle_connections in &arguments.churn_idle {
        if idle_connections > IDLE_MAX {
            return Err(too_many(idle_connections));
        }
        let connections = match idle_connections {
            0 => arguments.churn,
            _ => arguments.idle_churn,
        };
        cells.push(Cell::Churn(ChurnConfig {
            idle_connections,
            batches: connections.div_ceil(CHURN_BATCH as u64).max(1),
        }));
    }
    if arguments.pairs == 0 || arguments.messages == 0 || arguments.burst == Some(0) {
        return Err(
            "at least one pair, and one message in a run and a burst, are needed".to_owned(),
        );
    }
    Ok(cells)
}
