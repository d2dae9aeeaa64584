//! What connections cost that do nothing, and what their opening and closing does: two caller-turned stacks on one thread, joined in
//! memory.
//!
//! `cargo bench -p braidnet --bench connections -- idle 10000` (bytes for each endpoint of so many, everything that the heap gave
//! counted), or `-- churn 1000000 1000` (so many connections opened, one byte sent, and closed on both sides, beside so many that are idle). Without
//! arguments a smoke size of both.

use braidnet::device::{Capabilities, memory};
use braidnet::{CloseReason, Connection, Duration, Event, Instant, Stack, StackConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

/// The system's allocator, with the sum of what it has given and not got back.
struct Weighing;

static HELD: AtomicIsize = AtomicIsize::new(0);

fn weigh(bytes: isize) {
    HELD.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        weigh(-(layout.size() as isize));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        weigh(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

fn held() -> isize {
    HELD.load(Ordering::Relaxed)
}

/// The most bytes that an idle connection may hold at each end.
const BYTES_MAX: isize = 1536;
/// Connections that are opened at a time.
const BATCH: usize = 64;
/// Ports of the server: a client has 16,384 of its own for each.
const PORTS: u16 = 16;

struct Pair {
    client: Stack,
    server: Stack,
    now: Instant,
}

impl Pair {
    fn new(connections: usize) -> Pair {
        let (here, there) = memory::wire(Capabilities::ip(1500), 2048);
        let stack = |address: &str, end| {
            let mut config = StackConfig::new(address.parse().expect("an address"));
            // Buckets divide the limit, and flows do not fill them evenly.
            config.connections = (4 * connections).max(65_536);
            config.tcp.time_wait = Duration::ZERO;
            Stack::new(&config, end).expect("a stack")
        };
        let (client, mut server) = (stack("10.0.0.1", here), stack("10.0.0.2", there));
        for port in 1..=PORTS {
            server.listen(port, 4 * BATCH as u32).expect("a port");
        }
        let now = Instant::from_millis(1);
        Pair {
            client,
            server,
            now,
        }
    }

    fn turn(&mut self) {
        self.now += Duration::from_micros(10);
        self.client.turn(self.now);
        self.server.turn(self.now);
    }

    /// Opens so many, and says which they are at both ends.
    fn open(&mut self, count: usize, port: u16) -> [Vec<Connection>; 2] {
        let to = ([10, 0, 0, 2], port).into();
        let calls: Vec<_> = (0..count)
            .map(|_| self.client.connect(to).expect("room"))
            .collect();
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            self.turn();
            while let Some(event) = self.server.event() {
                if let Event::Accepted(answer) = event {
                    answers.push(answer);
                }
            }
        }
        while self.client.event().is_some() {}
        [calls, answers]
    }

    /// Opens so many, has each say a byte, closes them on both sides, and waits until nobody knows of them any more.
    fn churn(&mut self, count: usize, port: u16) {
        let [calls, answers] = self.open(count, port);
        for call in &calls {
            assert_eq!(self.client.send(*call, b"x"), Ok(1));
            self.client.close(*call);
        }
        let (mut heard, mut gone) = (0, [0, 0]);
        while gone != [count, count] {
            self.turn();
            while let Some(event) = self.server.event() {
                match event {
                    Event::Closed(answer, reason) => {
                        assert_eq!(reason, CloseReason::Closed);
                        self.server.forget(answer);
                        gone[1] += 1;
                    }
                    Event::EndOfData(answer) => {
                        heard += self.server.receive(answer, &mut [0; 2]).expect("a byte");
                        self.server.close(answer);
                    }
                    _ => {}
                }
            }
            while let Some(event) = self.client.event() {
                if let Event::Closed(call, reason) = event {
                    assert_eq!(reason, CloseReason::Closed);
                    self.client.forget(call);
                    gone[0] += 1;
                }
            }
        }
        assert_eq!((heard, answers.len()), (count, count));
    }

    fn open_many(&mut self, count: usize) {
        for batch in 0..count.div_ceil(BATCH) {
            let port = (batch % usize::from(PORTS)) as u16 + 1;
            self.open(BATCH.min(count - batch * BATCH), port);
        }
    }
}

fn idle(connections: usize) {
    let mut pair = Pair::new(connections);
    // What the first connections need, all need but once.
    pair.churn(BATCH, 1);
    let before = held();
    pair.open_many(connections);
    // What delayed acknowledgments and timers still hold.
    for _ in 0..100 {
        pair.now += Duration::from_millis(100);
        pair.turn();
    }
    let each = (held() - before) / (2 * connections) as isize;
    println!("{connections} idle connections: {each} bytes for each endpoint");
    assert!(each <= BYTES_MAX, "more than {BYTES_MAX}");
}

fn churn(connections: usize, idle: usize) {
    let mut pair = Pair::new(idle + BATCH);
    pair.open_many(idle);
    let batches = connections.div_ceil(BATCH);
    let warm_up = (batches / 10).max(1);
    for batch in 0..warm_up {
        pair.churn(BATCH, (batch % usize::from(PORTS)) as u16 + 1);
    }
    let (before, begin) = (held(), std::time::Instant::now());
    for batch in 0..batches {
        pair.churn(BATCH, (batch % usize::from(PORTS)) as u16 + 1);
    }
    let rate = (batches * BATCH) as f64 / begin.elapsed().as_secs_f64();
    println!(
        "{} connections opened and closed beside {idle} idle ones: {rate:.0} a second; the heap holds {} bytes more than at the start",
        batches * BATCH,
        held() - before
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let number = |at: usize, otherwise| {
        let given: Option<&String> = arguments.get(at);
        given.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    match arguments.first().map(String::as_str) {
        Some("idle") => idle(number(1, 10_000)),
        Some("churn") => churn(number(1, 100_000), number(2, 0)),
        Some(other) => panic!("idle or churn, not {other}"),
        None => {
            idle(256);
            churn(256, 64);
        }
    }
}
