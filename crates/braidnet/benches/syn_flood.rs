//! What a SYN flood leaves of an established connection, and of new ones: two processors, a wire in memory between them.
//!
//! `cargo bench -p braidnet --bench syn_flood -- 500000 11 500` (SYNs a second, rounds, milliseconds of each half of a round).
//! Without arguments a smoke size.
//!
//! One thread turns the stack under attack: it reads what a bulk connection brings, and accepts whoever comes to another port.
//! The other thread turns an honest peer, which writes to the bulk connection without end and, during the flood, opens short
//! connections to the port under attack; the same thread makes the SYNs, from addresses, ports and sequence numbers that are
//! never the same. In one half of a round they go to the stack, in the other to nobody: they are made and thrown
//! away. The halves change places from round to round. What is compared is the bulk connection's throughput (RFC 4987 §1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use braidnet::device::{
    Capabilities, Device, DeviceError, QueuePair, Transmitter,
    memory::{self, WireEnd},
};
use braidnet::message::{Arena, Pool, Run};
use braidnet::sync::clock::Clock;
use braidnet::wire::{address::Address, checksum::Sum, tcp};
use braidnet::{CloseReason, Connection, Event, Instant, Stack, StackConfig};

const ATTACKED: [u8; 4] = [10, 0, 0, 1];
const HONEST: [u8; 4] = [10, 0, 0, 2];
const BULK_PORT: u16 = 7;
const OPEN_PORT: u16 = 8;
/// As many as a busy server says (`listen(2)`: net.core.somaxconn of older kernels).
const BACKLOG: u32 = 128;
const MTU: usize = 1500;
/// Packets that a direction of the wire holds.
const DEPTH: usize = 2048;
/// How often an honest peer opens a connection while the flood goes on.
const CALLS_NANOS: u64 = 5_000_000;
/// The options of a SYN as common systems send it: MSS 1460, SACK permitted, timestamps, a window scale of 7.
const SYN_OPTIONS: [u8; 20] = [
    2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
];

/// What the two threads tell each other.
#[derive(Default)]
struct Shared {
    received: AtomicU64,
    accepted: AtomicU64,
    over: AtomicBool,
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .map(|word| word.parse().expect("a number"))
        .collect();
    let number = |index: usize, otherwise| numbers.get(index).copied().unwrap_or(otherwise);
    let (rate, rounds, half) = (number(0, 100_000), number(1, 1), number(2, 50));

    let (attacked, outside) = memory::wire(Capabilities::ip(MTU), DEPTH);
    let shared = Shared::default();
    thread::scope(|scope| {
        let victim = scope.spawn(|| be_attacked(attacked, &shared));
        let mut generator = Generator::new(outside, rate, &shared);
        generator.warm_up();
        generator.report(rounds, half * 1_000_000);
        shared.over.store(true, Ordering::Relaxed);
        println!("{}", victim.join().expect("no panic"));
    });
}

/// The stack under attack, until the others are through; what it counted.
fn be_attacked(device: WireEnd, shared: &Shared) -> String {
    let mut stack = Stack::new(&settings(ATTACKED), device.copying()).expect("a stack");
    stack.listen(BULK_PORT, 1).expect("a port");
    stack.listen(OPEN_PORT, BACKLOG).expect("a port");
    let clock = Clock::shared();
    let mut bulk = None;
    let mut bytes = vec![0; 64 << 10];
    while !shared.over.load(Ordering::Relaxed) {
        stack.turn(Instant::from_nanos(clock.now_nanos()));
        while let Some(event) = stack.event() {
            match event {
                Event::Accepted(end) if bulk.is_none() => bulk = Some(end),
                Event::Accepted(_) => {
                    shared.accepted.fetch_add(1, Ordering::Relaxed);
                }
                Event::EndOfData(end) => stack.close(end),
                Event::Closed(end, _) => stack.forget(end),
                _ => {}
            }
        }
        let Some(bulk) = bulk else { continue };
        while let Ok(taken) = stack.receive(bulk, &mut bytes) {
            shared.received.fetch_add(taken as u64, Ordering::Relaxed);
        }
    }
    let counters = stack.counters();
    let told = counters.iter().filter(|(name, count)| {
        **count > 0
            && ["tcp.cookie", "tcp.accept", "tcp.syn", "tcp.backlog"]
                .iter()
                .any(|start| name.starts_with(start))
    });
    told.map(|(name, count)| format!("{name} {count}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn settings(address: [u8; 4]) -> StackConfig {
    let mut config = StackConfig::new(address.into());
    config.tcp.nagle = false;
    config
}

/// The honest peer and the flood.
struct Generator<'a> {
    peer: Stack,
    bulk: Connection,
    payload: Vec<u8>,
    flood: Flood,
    calls: Calls,
    clock: Clock,
    shared: &'a Shared,
}

/// Where the SYNs of a while go.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Attacked,
    Nobody,
}

impl<'a> Generator<'a> {
    fn new(device: WireEnd, rate: u64, shared: &'a Shared) -> Self {
        let mut pairs = Box::new(device.copying()).open().expect("a wire");
        let pair = pairs.remove(0);
        let flood = Flood::new(pair.transmitter.another().expect("another handle"), rate);
        let opened = Opened(Capabilities::ip(MTU), pair);
        let mut peer = Stack::new(&settings(HONEST), opened).expect("a stack");
        let bulk = peer.connect((ATTACKED, BULK_PORT).into()).expect("room");
        Generator {
            peer,
            bulk,
            payload: vec![7; 64 << 10],
            flood,
            calls: Calls::default(),
            clock: Clock::shared(),
            shared,
        }
    }

    /// Until the bulk connection stands and its windows have grown.
    fn warm_up(&mut self) {
        let until = self.clock.now_nanos() + 100_000_000;
        while self.clock.now_nanos() < until || self.shared.received.load(Ordering::Relaxed) == 0 {
            self.turn();
        }
    }

    fn turn(&mut self) -> u64 {
        let now = self.clock.now_nanos();
        let _ = self.peer.send(self.bulk, &self.payload);
        self.peer.turn(Instant::from_nanos(now));
        while let Some(event) = self.peer.event() {
            self.calls.note(event, &mut self.peer, self.bulk);
        }
        now
    }

    /// Bytes a second that the bulk connection brings while SYNs go to `target`.
    fn measure(&mut self, target: Target, nanos: u64) -> f64 {
        let start = self.clock.now_nanos();
        let before = self.shared.received.load(Ordering::Relaxed);
        self.flood.begin(start);
        let mut call_at = start;
        loop {
            let now = self.turn();
            if now >= start + nanos {
                let received = self.shared.received.load(Ordering::Relaxed) - before;
                return received as f64 * 1e9 / (now - start) as f64;
            }
            self.flood.go_on(now, target);
            if target == Target::Attacked && now >= call_at {
                call_at += CALLS_NANOS;
                self.calls.open(&mut self.peer);
            }
        }
    }

    fn report(&mut self, rounds: u64, nanos: u64) {
        let mut ratios = Vec::new();
        for round in 0..rounds {
            let halves = [Target::Nobody, Target::Attacked];
            let mut reached = [0.0; 2];
            for step in 0..2 {
                let which = (step + round as usize) % 2;
                reached[which] = self.measure(halves[which], nanos);
            }
            let [alone, attacked] = reached;
            println!(
                "bulk: {:.0} MB/s alone, {:.0} MB/s attacked: {:.2}",
                alone / 1e6,
                attacked / 1e6,
                attacked / alone
            );
            ratios.push(attacked / alone);
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "median {:.2} of the throughput alone",
            ratios[ratios.len() / 2]
        );
        println!("{}", self.flood.told());
        self.finish_calls();
        println!(
            "honest connections during the flood: {} asked for, {} stood, {} accepted",
            self.calls.asked,
            self.calls.stood,
            self.shared.accepted.load(Ordering::Relaxed)
        );
    }

    /// Waits for those that were opened last: their SYN or its answer may have been lost.
    fn finish_calls(&mut self) {
        let until = self.clock.now_nanos() + 4_000_000_000;
        while self.calls.stood + self.calls.failed < self.calls.asked
            && self.clock.now_nanos() < until
        {
            self.turn();
        }
    }
}

/// Short connections of the honest peer.
#[derive(Default)]
struct Calls {
    asked: u64,
    stood: u64,
    failed: u64,
}

impl Calls {
    fn open(&mut self, peer: &mut Stack) {
        if peer.connect((ATTACKED, OPEN_PORT).into()).is_ok() {
            self.asked += 1;
        }
    }

    fn note(&mut self, event: Event, peer: &mut Stack, bulk: Connection) {
        match event {
            Event::Connected(end) if end != bulk => {
                self.stood += 1;
                peer.close(end);
            }
            Event::Closed(end, reason) => {
                self.failed += u64::from(reason != CloseReason::Closed);
                peer.forget(end);
            }
            _ => {}
        }
    }
}

/// Forged SYNs at a rate.
struct Flood {
    out: Box<dyn Transmitter>,
    pool: Pool,
    run: Run,
    rate: u64,
    began: u64,
    due: u64,
    number: u64,
    sent: u64,
    refused: u64,
}

impl Flood {
    /// Most SYNs that are made at once.
    const BATCH: u64 = 64;

    fn new(out: Box<dyn Transmitter>, rate: u64) -> Self {
        Flood {
            out,
            pool: Pool::new(&Arena::new(16 << 20)),
            run: Run::new(),
            rate,
            began: 0,
            due: 0,
            number: 0,
            sent: 0,
            refused: 0,
        }
    }

    fn begin(&mut self, now: u64) {
        (self.began, self.due) = (now, 0);
    }

    /// Makes what has become due, at most a batch. What the wire has no room for is lost, as it would be on any.
    fn go_on(&mut self, now: u64, target: Target) {
        let due = (now - self.began) * self.rate / 1_000_000_000;
        let count = (due - self.due).min(Self::BATCH);
        self.due += count;
        for _ in 0..count {
            self.number += 1;
            self.run
                .extend(self.pool.copy_from_slice(64, &forged(self.number)));
        }
        if target == Target::Attacked {
            self.sent += count;
            self.out.transmit(&mut self.run);
            self.refused += self.run.len() as u64;
        }
        self.run.clear();
    }

    fn told(&self) -> String {
        format!(
            "SYNs: {} sent, {} of them found the wire full",
            self.sent, self.refused
        )
    }
}

/// The `number`th forged SYN, with everything in it that an attacker would draw anew.
fn forged(number: u64) -> [u8; 60] {
    let drawn = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    // Addresses set apart for benchmarks (RFC 2544 appendix C.2.2).
    let source = [198, 18 | (drawn[0] & 1), drawn[1], drawn[2]];
    let mut packet = [0; 60];
    packet[0] = 0x45;
    packet[3] = 60;
    packet[8] = 64;
    packet[9] = tcp::PROTOCOL;
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&ATTACKED);
    let sum = Sum::of(&packet[..20]).finish_bytes();
    packet[10..12].copy_from_slice(&sum);
    let segment = &mut packet[20..];
    segment[..2].copy_from_slice(&[drawn[3] | 4, drawn[4]]);
    segment[2..4].copy_from_slice(&OPEN_PORT.to_be_bytes());
    segment[4..8].copy_from_slice(&drawn[4..8]);
    segment[12] = 0xa0;
    segment[13] = 2;
    segment[14] = 0xff;
    segment[20..].copy_from_slice(&SYN_OPTIONS);
    let pseudo = Sum::pseudo_header(
        &Address::v4(source),
        &Address::v4(ATTACKED),
        tcp::PROTOCOL,
        40,
    );
    let sum = pseudo.combine(Sum::of(segment)).finish_bytes();
    segment[16..18].copy_from_slice(&sum);
    packet
}

/// A device that somebody else has opened.
struct Opened(Capabilities, QueuePair);

impl Device for Opened {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        Ok(vec![self.1])
    }
}
