//! Speeds of the checksum over distinct data that stays in the second-level cache.
//!
//! `cargo bench -p braidnet-wire` prints the best of several rounds: the machine is shared, and what is asked is what
//! the code can do, not how busy the neighbours are.

use braidnet_wire::checksum::{Sum, copy_and_sum};
use std::hint::black_box;
use std::time::Instant;

/// Distinct bytes read in turn.
const POOL: usize = 256 * 1024;
const ROUNDS: usize = 15;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--test");
    let calls = if smoke { 100 } else { 200_000 };
    let pool: Vec<u8> = (0..POOL as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut out = vec![0u8; 65536];

    for len in [
        20, 40, 60, 65, 128, 256, 576, 1448, 1460, 4096, 16384, 65483,
    ] {
        let ns = nanos_per_call(calls.min(calls * 4096 / len), |turn| {
            black_box(Sum::of(slice(&pool, turn, len)));
        });
        report("sum", len, ns);
    }
    for len in [20, 64, 256, 1448, 1460, 4096, 16384, 65483] {
        let ns = nanos_per_call(calls.min(calls * 4096 / len), |turn| {
            black_box(copy_and_sum(&mut out[..len], slice(&pool, turn, len)));
        });
        report("copy_and_sum", len, ns);
    }
}

/// `len` bytes of the pool, others at every turn, on cache lines as payloads in buffers are.
fn slice(pool: &[u8], turn: usize, len: usize) -> &[u8] {
    let places = (POOL - len) / 64;
    let start = (turn * len.div_ceil(64)) % places * 64;
    &pool[start..start + black_box(len)]
}

fn nanos_per_call(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for turn in 0..calls {
            call(turn);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    best
}

fn report(what: &str, len: usize, ns: f64) {
    println!(
        "{what:<24}{len:>7} B {ns:>9.1} ns {:>7.1} GB/s",
        len as f64 / ns
    );
}
