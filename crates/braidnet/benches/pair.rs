//! Two caller-turned stacks on one thread, joined in memory: what a message and a round trip cost.
//!
//! `cargo bench -p braidnet --bench pair -- bulk 4352 65536 100000` (MTU, window in bytes, 4 KiB messages) or `-- ping
//! 100000` (one-byte round trips). Without arguments a smoke size of both. The clock of the stacks is virtual, so that
//! an instruction count of a run repeats exactly.

use braidnet::device::{Capabilities, memory};
use braidnet::sync::usage::Usage;
use braidnet::{Connection, Event, Instant, ReceiveError, Stack, StackConfig};

const MESSAGE: usize = 4096;

/// Messages that the sending application writes before it turns the stack: few enough that what is sent is still in the
/// cache when it is received.
const BURST: u64 = 8;

struct Pair {
    client: Stack,
    server: Stack,
    call: Connection,
    answer: Connection,
    now: u64,
}

impl Pair {
    fn new(mtu: usize, window: u32) -> Pair {
        let (here, there) = memory::wire(Capabilities::ip(mtu), 2048);
        let stack = |address: &str, end| {
            let mut config = StackConfig::new(address.parse().expect("an address"));
            config.tcp.receive_buffer_bytes = window;
            config.tcp.send_buffer_bytes = window;
            config.tcp.nagle = false;
            config.tcp.timestamps = false;
            Stack::new(&config, end).expect("a stack")
        };
        let (mut client, mut server) = (stack("10.0.0.1", here), stack("10.0.0.2", there));
        server.listen(7, 1).expect("a port");
        let call = client
            .connect("10.0.0.2:7".parse().expect("an address"))
            .expect("room");
        for _ in 0..4 {
            client.turn(Instant::ZERO);
            server.turn(Instant::ZERO);
        }
        let Some(Event::Accepted(answer)) = server.event() else {
            panic!("no call")
        };
        Pair {
            client,
            server,
            call,
            answer,
            now: 0,
        }
    }

    fn tick(&mut self) -> Instant {
        self.now += 1000;
        Instant::from_nanos(self.now)
    }

    fn bulk(&mut self, messages: u64) {
        let payload: Vec<u8> = (0..64 * MESSAGE).map(|i| ((i * 31) >> 3) as u8).collect();
        let (mut sent, mut received, mut message) = (0, 0, [0; MESSAGE]);
        let total = messages * MESSAGE as u64;
        while received < total {
            let until = total.min(sent + BURST * MESSAGE as u64);
            while sent < until {
                let at = (sent % payload.len() as u64) as usize;
                let end = (at + MESSAGE)
                    .min(payload.len())
                    .min(at + (total - sent) as usize);
                let taken = self
                    .client
                    .send(self.call, &payload[at..end])
                    .expect("open");
                sent += taken as u64;
                if taken < end - at {
                    break;
                }
            }
            let now = self.tick();
            self.client.turn(now);
            self.server.turn(now);
            loop {
                match self.server.receive(self.answer, &mut message) {
                    Ok(taken) => received += taken as u64,
                    Err(ReceiveError::Empty) => break,
                    Err(ReceiveError::Gone) => panic!("gone"),
                }
            }
        }
    }

    fn ping(&mut self, round_trips: u64) {
        let mut byte = [7];
        for _ in 0..round_trips {
            let now = self.tick();
            self.client.send(self.call, &byte).expect("open");
            self.client.turn(now);
            self.server.turn(now);
            assert_eq!(self.server.receive(self.answer, &mut byte), Ok(1));
            self.server.send(self.answer, &byte).expect("open");
            self.server.turn(now);
            self.client.turn(now);
            assert_eq!(self.client.receive(self.call, &mut byte), Ok(1));
        }
    }
}

fn report(what: &str, count: u64, work: impl FnOnce()) {
    let start = Usage::thread();
    work();
    let nanos = (Usage::thread() - start).cpu_nanos();
    println!("{what}: {:.1} ns each", nanos as f64 / count as f64);
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let number = |index: usize, otherwise: u64| {
        arguments
            .get(index)
            .map_or(otherwise, |word| word.parse().expect("a number"))
    };
    let what = arguments.first().map_or("", String::as_str);
    if what != "ping" {
        let (mtu, window, messages) = (number(1, 4352), number(2, 65_536), number(3, 1000));
        let mut pair = Pair::new(mtu as usize, window as u32);
        pair.bulk(1000);
        report("4 KiB messages", messages, || pair.bulk(messages));
    }
    if what != "bulk" {
        let round_trips = number(1, 1000);
        let mut pair = Pair::new(1500, 65_535);
        pair.ping(1000);
        report("one-byte round trips", round_trips, || {
            pair.ping(round_trips)
        });
    }
}
