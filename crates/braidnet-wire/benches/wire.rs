//! Speeds of the checksum over distinct data, and of what every packet goes through.
//!
//! `cargo bench -p braidnet-wire` prints the best of several rounds: the machine is shared, and what is asked is what
//! the code can do, not how busy the neighbours are. `-- --test` runs the smoke size.

use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::checksum::{Sum, copy, copy_and_sum};
use braidnet_wire::flow::flow_of;
use braidnet_wire::hash::FlowHasher;
use braidnet_wire::ipv4::{self, Ipv4Header, Template};
use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 25;
/// Distinct bytes read in turn: they stay in the second-level cache, or, the small ones, in the first.
const POOLS: [usize; 2] = [256 * 1024, 16 * 1024];

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--test");
    let calls = if smoke { 100 } else { 100_000 };
    for pool in POOLS {
        println!("distinct data: {} KiB", pool / 1024);
        sums(pool, calls);
        copies(pool, calls);
    }
    copies_within_a_page(calls);
    headers(calls);
}

fn sums(pool: usize, calls: usize) {
    let pool = Pool::new(pool);
    for len in [20, 40, 60, 65, 128, 256, 576, 1448, 1460, 4096, 8192] {
        let ns = nanos_per_call(calls, |turn| {
            black_box(Sum::of(pool.slice(turn, len)));
        });
        report("sum", len, ns);
    }
}

/// With a plain copy beside each, which is the most that the machine allows.
fn copies(pool: usize, calls: usize) {
    let pool = Pool::new(pool);
    let mut out = Pool::new(16 * 1024);
    for len in [20, 64, 256, 1448, 1460, 4096, 8192] {
        let ns = nanos_per_call(calls, |turn| {
            black_box(copy_and_sum(out.slice_mut(len), pool.slice(turn, len)));
        });
        report("copy_and_sum", len, ns);
        let ns = nanos_per_call(calls, |turn| {
            copy(out.slice_mut(len), pool.slice(turn, len));
            black_box(&mut out);
        });
        report("copy", len, ns);
        let ns = nanos_per_call(calls, |turn| {
            out.slice_mut(len).copy_from_slice(pool.slice(turn, len));
            black_box(&mut out);
        });
        report("copy alone", len, ns);
    }
}

/// 4 KiB to where it lies some bytes further in its page: what a plain copy takes hangs on that.
fn copies_within_a_page(calls: usize) {
    const LEN: usize = 4096;
    let mut memory = vec![7; 4 * LEN];
    let start = memory.as_ptr().align_offset(LEN);
    let (from, to) = memory[start..].split_at_mut(LEN);
    for further in [0, 8, 64, 1024] {
        let to = &mut to[further..further + LEN];
        let ns = nanos_per_call(calls, |_| {
            black_box(copy_and_sum(black_box(&mut *to), black_box(from)));
        });
        report(&format!("copy_and_sum, +{further}"), LEN, ns);
        let ns = nanos_per_call(calls, |_| {
            black_box(&mut *to).copy_from_slice(black_box(from));
        });
        report(&format!("copy alone, +{further}"), LEN, ns);
    }
}

fn headers(calls: usize) {
    let (here, there) = (Address::v4([192, 0, 2, 1]), Address::v4([192, 0, 2, 2]));
    let ip = Ipv4Header {
        source: there,
        destination: here,
        protocol: 6,
        total_len: 52,
        ..Ipv4Header::default()
    };
    let header = TcpHeader {
        flags: TcpFlags::ACK,
        present: TcpHeader::HAS_TIMESTAMPS,
        ..TcpHeader::default()
    };
    let mut packet = [0; 52];
    ipv4::emit(&ip, &mut packet);
    tcp::emit(&header, 40000, 80, &mut packet[20..]);
    let template = Template::new(&ip);
    let v4 = Tuple {
        local: here,
        remote: there,
        local_port: 80,
        remote_port: 40000,
    };
    let v6 = Tuple {
        local: Address::v6([0x20; 16]),
        ..v4
    };
    let hasher = FlowHasher::new([1, 2]);
    let mut out = [0; 64];

    header_time("ipv4::parse", calls, || ipv4::parse(black_box(&packet)));
    header_time("ipv4 template emit", calls, || {
        black_box(&template).emit(black_box(52), black_box(7), black_box(&mut out))
    });
    header_time("tcp::parse", calls, || tcp::parse(black_box(&packet[20..])));
    header_time("tcp::emit", calls, || {
        tcp::emit(black_box(&header), 40000, 80, black_box(&mut out))
    });
    header_time("tcp::seal", calls, || {
        tcp::seal(black_box(&mut out[..32]), black_box(Sum(7)))
    });
    header_time("tcp::emit_sealed", calls, || {
        tcp::emit_sealed(
            black_box(&header),
            40000,
            80,
            black_box(Sum(7)),
            black_box(&mut out),
        )
    });
    header_time("Sum::pseudo_header", calls, || {
        Sum::pseudo_header(black_box(&here), black_box(&there), 6, black_box(1480))
    });
    header_time("flow_of", calls, || flow_of(black_box(&packet)));
    header_time("FlowHasher::hash v4", calls, || {
        hasher.hash(black_box(&v4), 6)
    });
    header_time("siphasher crate, v4", calls, || by_crate(black_box(&v4), 6));
    header_time("siphasher crate, v6", calls, || by_crate(black_box(&v6), 6));
    header_time("FlowHasher::hash v6", calls, || {
        hasher.hash(black_box(&v6), 6)
    });
}

/// What `FlowHasher` computes, by the crate whose interface takes any bytes.
fn by_crate(tuple: &Tuple, protocol: u8) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(black_box(1), black_box(2));
    match (tuple.local.as_v4(), tuple.remote.as_v4()) {
        (Some(local), Some(remote)) => {
            hasher.write(&local);
            hasher.write(&remote);
        }
        _ => {
            hasher.write(tuple.local.octets());
            hasher.write(tuple.remote.octets());
        }
    }
    hasher.write_u16(tuple.local_port);
    hasher.write_u16(tuple.remote_port);
    hasher.write_u8(protocol);
    hasher.finish()
}

fn header_time<T>(what: &str, calls: usize, mut call: impl FnMut() -> T) {
    let ns = nanos_per_call(calls, |_| {
        // By reference: a copy of what was just written in fields would be what is measured.
        black_box(&call());
    });
    println!("{what:<24}{ns:>19.1} ns");
}

/// Bytes on cache lines, as payloads in buffers are.
struct Pool {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pool {
    fn new(len: usize) -> Pool {
        let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
        let bytes: Vec<u8> = (0..len as u32 + 64).map(byte).collect();
        let start = bytes.as_ptr().align_offset(64);
        Pool { bytes, start, len }
    }

    /// `len` bytes of the pool, others at every turn.
    fn slice(&self, turn: usize, len: usize) -> &[u8] {
        let stride = len.next_multiple_of(64);
        let at = (turn * stride) & (self.len - 1);
        let at = if at + len > self.len { 0 } else { at };
        &self.bytes[self.start + at..][..black_box(len)]
    }

    fn slice_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..black_box(len)]
    }
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
