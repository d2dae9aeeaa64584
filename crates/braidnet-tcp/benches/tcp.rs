//! Nanoseconds that the engine takes per segment, two engines back to back in this thread, without payload or buffers.
//!
//! `cargo bench -p braidnet-tcp` prints the best of several rounds: the machine is shared, and what is asked is what the
//! code can do, not how busy the neighbours are. With `--test`, a few turns only.

use braidnet_tcp::{Config, Payload, Sink, State, Tcb, Transmit};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::{Duration, Instant};
use std::hint::black_box;
use std::sync::Arc;

/// Segments that are passed on together.
const RUN: usize = 32;
const ROUNDS: usize = 15;

struct Range(usize);

impl Payload for Range {
    fn len(&self) -> usize {
        self.0
    }

    fn trim_front(&mut self, n: usize) {
        self.0 -= n;
    }

    fn truncate(&mut self, n: usize) {
        self.0 = n;
    }
}

/// Counts bytes.
#[derive(Default)]
struct Count(u32);

impl Sink<Range> for Count {
    #[inline]
    fn deliver(&mut self, payload: Range) {
        self.0 += payload.0 as u32;
    }
}

struct Bench {
    now: Instant,
    ends: [Tcb<Range>; 2],
}

impl Bench {
    fn open() -> Bench {
        let config = Config {
            receive_buffer_bytes: 1 << 20,
            send_buffer_bytes: 1 << 20,
            ..Config::default()
        };
        let now = Instant::from_millis(1);
        let mut client = Tcb::connect(&Arc::new(config), SeqNumber::new(1), 1460, now);
        let syn = transmit(&mut client, now).expect("a SYN");
        let server = Tcb::accept(&Arc::new(config), SeqNumber::new(2), 1460, &syn.header, now);
        let mut bench = Bench {
            now,
            ends: [client, server],
        };
        for from in [1, 0, 1] {
            bench.pass(from);
        }
        assert!(
            bench
                .ends
                .iter()
                .all(|end| end.state() == State::Established)
        );
        bench
    }

    /// Passes on what one end has to transmit; the application takes it all.
    fn pass(&mut self, from: usize) {
        while let Some(segment) = transmit(&mut self.ends[from], self.now) {
            let taken = receive(&mut self.ends[1 - from], self.now, &segment);
            self.ends[1 - from].receive(taken);
        }
    }
}

#[inline(never)]
fn transmit(end: &mut Tcb<Range>, now: Instant) -> Option<Transmit> {
    end.poll_transmit(now, |_, max| max)
}

#[inline(never)]
fn receive(end: &mut Tcb<Range>, now: Instant, segment: &Transmit) -> u32 {
    let mut sink = Count::default();
    let payload = (segment.len > 0).then_some(Range(segment.len as usize));
    let outcome = end.on_segment(now, &segment.header, payload, &mut sink);
    assert_eq!(outcome.drop, None);
    black_box(end.take_acked());
    sink.0
}

/// Time spent in each of the parts of a bulk transfer.
#[derive(Clone, Copy, Default)]
struct Spent {
    sent: f64,
    received: f64,
    acknowledged: f64,
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--test");
    let (rounds, turns) = if smoke { (1, 10) } else { (ROUNDS, 20_000) };
    let mut best = Spent {
        sent: f64::MAX,
        received: f64::MAX,
        acknowledged: f64::MAX,
    };
    let mut one_ack = f64::MAX;
    let mut ping_pong = f64::MAX;
    for _ in 0..rounds {
        let round = bulk(turns);
        best.sent = best.sent.min(round.sent);
        best.received = best.received.min(round.received);
        best.acknowledged = best.acknowledged.min(round.acknowledged);
        one_ack = one_ack.min(acks(turns));
        ping_pong = ping_pong.min(round_trip(turns));
    }
    println!(
        "data segment sent, run of {RUN}         {:>7.1} ns",
        best.sent
    );
    println!(
        "data segment received, run of {RUN}     {:>7.1} ns",
        best.received
    );
    println!(
        "ACK of a run, made and taken, per run {:>7.1} ns",
        best.acknowledged
    );
    println!("ACK of one segment taken              {one_ack:>7.1} ns");
    println!("1-byte ping-pong, both ends, per trip {ping_pong:>7.1} ns");
    println!(
        "one connection's state                {:>7} B",
        size_of::<Tcb<Range>>()
    );
}

/// Runs of full segments one way, one ACK each the other way.
fn bulk(turns: usize) -> Spent {
    let mut bench = Bench::open();
    let mss = bench.ends[0].mss();
    let mut spent = Spent::default();
    let mut run = Vec::with_capacity(RUN);
    // Let the window grow to a run.
    for warm_up in [true, false] {
        let turns = if warm_up { 100 } else { turns };
        spent = Spent::default();
        for _ in 0..turns {
            bench.now += Duration::from_micros(50);
            let now = bench.now;
            bench.ends[0].send(mss * RUN as u32);
            let start = std::time::Instant::now();
            run.clear();
            while let Some(segment) = transmit(&mut bench.ends[0], now) {
                run.push(segment);
            }
            let sent = std::time::Instant::now();
            let mut taken = 0;
            for segment in &run {
                taken += receive(&mut bench.ends[1], now, segment);
            }
            bench.ends[1].receive(taken);
            let received = std::time::Instant::now();
            bench.pass(1);
            let acknowledged = received.elapsed();
            if !warm_up {
                assert_eq!(run.len(), RUN);
                let per = (turns * RUN) as f64;
                spent.sent += (sent - start).as_nanos() as f64 / per;
                spent.received += (received - sent).as_nanos() as f64 / per;
                spent.acknowledged += acknowledged.as_nanos() as f64 / turns as f64;
            }
        }
    }
    spent
}

/// A run of segments, each acknowledged on its own: what taking such an ACK costs.
fn acks(turns: usize) -> f64 {
    let mut bench = Bench::open();
    let mss = bench.ends[0].mss();
    let mut nanos = 0;
    let mut count = 0;
    for turn in 0..turns + 100 {
        bench.now += Duration::from_micros(50);
        let now = bench.now;
        bench.ends[0].send(mss * RUN as u32);
        let mut acks = Vec::with_capacity(RUN);
        while let Some(segment) = transmit(&mut bench.ends[0], now) {
            let taken = receive(&mut bench.ends[1], now, &segment);
            bench.ends[1].receive(taken);
            while let Some(mut ack) = transmit(&mut bench.ends[1], now) {
                ack.header.ack = segment.header.seq + segment.len;
                acks.push(ack);
            }
        }
        let start = std::time::Instant::now();
        for ack in &acks {
            receive(&mut bench.ends[0], now, ack);
        }
        if turn >= 100 {
            nanos += start.elapsed().as_nanos();
            count += acks.len();
        }
        // What a delayed ACK holds back.
        bench.now += Duration::from_millis(41);
        bench.ends[1].on_deadline(bench.now);
        bench.pass(1);
    }
    nanos as f64 / count as f64
}

/// One byte there and one back; each carries the ACK of the other.
fn round_trip(turns: usize) -> f64 {
    let mut bench = Bench::open();
    let start = std::time::Instant::now();
    for _ in 0..turns {
        bench.now += Duration::from_micros(20);
        for from in [0, 1] {
            bench.ends[from].send(1);
            bench.pass(from);
        }
    }
    start.elapsed().as_nanos() as f64 / turns as f64
}
