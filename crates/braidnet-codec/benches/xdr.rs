//! Nanoseconds for one batch of 4096 bytes: encoding, decoding, and decoding with the application's sum, by every kernel of
//! this processor, and by the cursors that every type uses. Batches rotate through 1 MiB of distinct samples.
//!
//! `cargo bench -p braidnet-codec` measures; `cargo test` runs the same code at a smoke size. The last line is a hash of all
//! results, the same at both sizes.

use std::hint::black_box;
use std::time::Instant;

use braidnet_codec::xdr::{
    BatchShape, Decoder, Encoder, Kernel, Quality, SAMPLE_BYTES, Sample, Xdr, decode_into,
    decode_scattered_into, encode_batch, sum,
};

const BATCH_BYTES: usize = 4096;
const BATCHES: usize = 256;
/// A segment of 1448 bytes, the usual on Ethernet with timestamps.
const SEGMENT_BYTES: usize = 1448;

fn main() {
    // `cargo bench` says so; `cargo test` does not.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let rounds = if measured { 40 } else { 1 };
    let shape = BatchShape::filling(BATCH_BYTES).expect("4096 is a multiple of four");
    let batches: Vec<Vec<Sample>> = (0..BATCHES)
        .map(|batch| samples(batch, shape.samples))
        .collect();
    let mut wires = vec![vec![0u8; BATCH_BYTES]; BATCHES];
    for (wire, batch) in wires.iter_mut().zip(&batches) {
        encode_batch(batch, wire).expect("the shape fills the batch");
    }

    let mut report = Report {
        measured,
        rounds,
        hash: 0,
    };
    measure_kernels(&mut report, &batches, &wires);
    measure_cursors(&mut report, &batches, &wires);
    measure_batches(&mut report, &batches, &wires);
    println!("hash {:016x}", report.hash);
}

fn measure_kernels(report: &mut Report, batches: &[Vec<Sample>], wires: &[Vec<u8>]) {
    let mut out = vec![0u8; BATCH_BYTES];
    let mut arena: Vec<Sample> = Vec::new();
    for kernel in Kernel::available() {
        let name = kernel.name();
        report.row(&format!("{name}: encode"), |batch| {
            kernel.encode(&batches[batch], &mut out);
            u64::from(black_box(&out)[batch])
        });
        report.row(&format!("{name}: decode"), |batch| {
            arena.clear();
            kernel
                .decode(&wires[batch][4..4068], &mut arena)
                .expect("valid");
            u64::from(black_box(&arena)[batch % 127].sequence)
        });
        report.row(&format!("{name}: decode + sum"), |batch| {
            arena.clear();
            kernel
                .decode(&wires[batch][4..4068], &mut arena)
                .expect("valid");
            let totals = sum(&arena);
            totals.integral as u64 ^ totals.real.to_bits()
        });
    }
}

fn measure_cursors(report: &mut Report, batches: &[Vec<Sample>], wires: &[Vec<u8>]) {
    let mut out = vec![0u8; BATCH_BYTES];
    let mut arena: Vec<Sample> = Vec::new();
    report.row("cursor: encode", |batch| {
        let mut encoder = Encoder::new(&mut out);
        encoder.array(&batches[batch], u32::MAX).expect("room");
        u64::from(black_box(&out)[batch])
    });
    report.row("cursor: decode", |batch| {
        arena.clear();
        let mut decoder = Decoder::new(&wires[batch]);
        decoder.array(&mut arena, u32::MAX).expect("valid");
        u64::from(black_box(&arena)[batch % 127].sequence)
    });
}

fn measure_batches(report: &mut Report, batches: &[Vec<Sample>], wires: &[Vec<u8>]) {
    report.row("sum", |batch| {
        let totals = sum(black_box(&batches[batch]));
        totals.integral as u64 ^ totals.real.to_bits()
    });
    let mut out = vec![0u8; BATCH_BYTES];
    let mut arena: Vec<Sample> = Vec::new();
    report.row("encode_batch", |batch| {
        encode_batch(&batches[batch], &mut out).expect("the shape fills the batch");
        u64::from(black_box(&out)[batch])
    });
    report.row("decode_into + sum", |batch| {
        decode_into(&mut arena, &wires[batch]).expect("valid");
        let totals = sum(&arena);
        totals.integral as u64 ^ totals.real.to_bits()
    });
    report.row("decode_scattered_into + sum, 3 segments", |batch| {
        let (first, rest) = wires[batch].split_at(SEGMENT_BYTES);
        let (second, third) = rest.split_at(SEGMENT_BYTES);
        decode_scattered_into(&mut arena, &[first, second, third]).expect("valid");
        let totals = sum(&arena);
        totals.integral as u64 ^ totals.real.to_bits()
    });
}

struct Report {
    measured: bool,
    rounds: usize,
    hash: u64,
}

impl Report {
    /// Runs `work` for every batch, `rounds` times, and prints the median and the least time of a batch.
    fn row(&mut self, name: &str, mut work: impl FnMut(usize) -> u64) {
        let mut result = 0u64;
        let mut nanoseconds: Vec<f64> = (0..self.rounds)
            .map(|_| {
                let start = Instant::now();
                result = (0..BATCHES).fold(0, |hash: u64, batch| {
                    hash.rotate_left(5).wrapping_add(work(batch))
                });
                start.elapsed().as_secs_f64() * 1e9 / BATCHES as f64
            })
            .collect();
        self.hash = self.hash.rotate_left(7) ^ result;
        if self.measured {
            nanoseconds.sort_by(f64::total_cmp);
            println!(
                "{name:42} {:8.1} ns median {:8.1} ns least",
                nanoseconds[self.rounds / 2],
                nanoseconds[0]
            );
        }
    }
}

/// Distinct samples with reals that are numbers.
fn samples(batch: usize, count: usize) -> Vec<Sample> {
    assert_eq!(<Sample as Xdr>::MIN_BYTES, SAMPLE_BYTES);
    let qualities = [
        Quality::Good,
        Quality::Suspect,
        Quality::Bad,
        Quality::Missing,
    ];
    (0..count)
        .map(|index| {
            let mixed = (batch * count + index) as u64;
            let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Sample {
                channel: mixed as i32,
                sequence: index as u32,
                time_ns: (mixed >> 1) as i64,
                gain: (mixed % 1000) as f32 / 8.0,
                quality: qualities[mixed as usize % 4],
                value: (mixed >> 20) as f64 / 1024.0,
            }
        })
        .collect()
}
