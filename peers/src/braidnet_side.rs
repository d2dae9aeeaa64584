//! braidnet on these loads: two caller-turned stacks joined in memory, on one thread.
//!
//! Nagle's algorithm and timestamps are off, as on the other side; congestion control stays on. The wire hands over
//! pointers, and the receiver verifies every checksum all the same. The clock is read once for both stacks' turns.

mod churn;

pub use churn::churn;

use braidnet::device::{Capabilities, memory};
use braidnet::{Connection, Duration, Event, Instant, ReceiveError, Stack, StackConfig};

use crate::machine::{Epoch, Stopwatch};
use crate::payload::{Digest, Payload};
use crate::side::{
    BulkConfig, BulkResult, CHURN_BATCH, MESSAGE_BYTES, PingPongConfig, PingPongResult,
    WARM_UP_MESSAGES,
};

const SERVICE_PORT: u16 = 7;
/// Packets that the wire holds in each direction.
const WIRE_DEPTH: usize = 2048;
/// Longer than any timer of a connection that loses nothing: where nothing moves for so long, nothing will.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Buffers of a connection that sends single bytes, or none.
const SMALL_BUFFER_BYTES: u32 = 65_535;

/// Runs a bulk load from the client to the server.
///
/// # Panics
/// If the server gets other bytes than the client sent, or the connection stands still.
pub fn bulk(config: &BulkConfig) -> BulkResult {
    let mut pair = Pair::new(config.mtu, config.window_bytes as u32, 1);
    let [client, server] = pair.connect(1)[0];
    let mut run = BulkRun {
        payload: Payload::new(),
        digest: Digest::default(),
        client,
        server,
        burst: config.burst_messages.unwrap_or(u64::MAX),
        sent: 0,
        sent_of_message: 0,
        received: 0,
        message: [0; MESSAGE_BYTES],
        received_of_message: 0,
    };
    run.turn_until(&mut pair, WARM_UP_MESSAGES, BulkRun::check_whole);
    let before = [&pair.client, &pair.server].map(segments_out);
    let stopwatch = Stopwatch::start();
    run.turn_until(
        &mut pair,
        WARM_UP_MESSAGES + config.messages,
        BulkRun::sample,
    );
    let (wall_ns, cpu_ns) = stopwatch.read();
    BulkResult {
        wall_ns,
        cpu_ns,
        data_packets: segments_out(&pair.client) - before[0],
        ack_packets: segments_out(&pair.server) - before[1],
        hash: run.digest.value(),
    }
}

/// Runs a ping-pong load between the client and the server.
///
/// # Panics
/// If another byte comes back than was sent, or none.
pub fn ping_pong(config: &PingPongConfig) -> PingPongResult {
    let mut pair = Pair::new(config.mtu, SMALL_BUFFER_BYTES, config.idle_connections + 1);
    let connections = pair.connect(config.idle_connections + 1);
    let ends = connections[config.idle_connections / 2];
    let payload = Payload::new();
    let mut digest = Digest::default();
    for index in 0..config.round_trips / 10 {
        let now = pair.now();
        pair.round_trip(now, ends, payload.byte(index));
    }
    let mut times_ns = Vec::with_capacity(config.round_trips as usize);
    let stopwatch = Stopwatch::start();
    let mut last = pair.now();
    for index in 0..config.round_trips {
        let echoed = pair.round_trip(last, ends, payload.byte(index));
        digest.all(&[echoed]);
        let now = pair.now();
        times_ns.push(now - last);
        last = now;
    }
    let (wall_ns, cpu_ns) = stopwatch.read();
    times_ns.sort_unstable();
    let percentile = |percent: usize| times_ns.get(times_ns.len() * percent / 100).copied();
    PingPongResult {
        wall_ns,
        cpu_ns,
        p50_ns: percentile(50).unwrap_or(0),
        p99_ns: percentile(99).unwrap_or(0),
        hash: digest.value(),
    }
}

/// A bulk transfer and both its applications.
struct BulkRun {
    payload: Payload,
    digest: Digest,
    client: Connection,
    server: Connection,
    burst: u64,
    sent: u64,
    sent_of_message: usize,
    received: u64,
    message: [u8; MESSAGE_BYTES],
    received_of_message: usize,
}

impl BulkRun {
    /// Goes on until the server has received `end` messages in all, handing each to `look`. Each application writes and reads
    /// between two turns of its stack, as on the other side: after what has come, before what is to go.
    fn turn_until(&mut self, pair: &mut Pair, end: u64, look: fn(&mut BulkRun)) {
        let mut moved = pair.now();
        while self.received < end {
            let before = (self.received, self.received_of_message);
            let now = pair.now();
            let until = end.min(self.sent.saturating_add(self.burst));
            let time = Instant::from_nanos(now);
            pair.client.turn(time);
            self.send(&mut pair.client, until);
            pair.client.turn(time);
            pair.server.turn(time);
            self.receive(&mut pair.server, look);
            pair.server.turn(time);
            if (self.received, self.received_of_message) != before {
                moved = now;
            }
            assert!(now - moved < PATIENCE_NS, "braidnet stands still");
        }
    }

    /// The sending application: copies in what there is room for.
    fn send(&mut self, stack: &mut Stack, end: u64) {
        while self.sent < end {
            let rest = &self.payload.message(self.sent)[self.sent_of_message..];
            let taken = stack
                .send(self.client, rest)
                .expect("the connection is open");
            if taken == 0 {
                return;
            }
            self.sent_of_message += taken;
            if self.sent_of_message == MESSAGE_BYTES {
                self.sent_of_message = 0;
                self.sent += 1;
            }
        }
    }

    /// The receiving application: copies out what there is.
    fn receive(&mut self, stack: &mut Stack, look: fn(&mut BulkRun)) {
        loop {
            let room = &mut self.message[self.received_of_message..];
            match stack.receive(self.server, room) {
                Ok(taken) => self.received_of_message += taken,
                Err(ReceiveError::Empty) => return,
                Err(ReceiveError::Gone) => panic!("the connection is open"),
            }
            if self.received_of_message == MESSAGE_BYTES {
                self.received_of_message = 0;
                look(self);
                self.received += 1;
            }
        }
    }

    fn check_whole(&mut self) {
        let expected = self.payload.message(self.received);
        assert!(
            self.message == expected,
            "message {} differs",
            self.received
        );
        self.digest.all(&self.message);
    }

    fn sample(&mut self) {
        self.digest.sample(self.received, &self.message);
    }
}

/// Two stacks, joined by a wire.
struct Pair {
    client: Stack,
    server: Stack,
    epoch: Epoch,
}

impl Pair {
    fn new(mtu: usize, buffer_bytes: u32, connections: usize) -> Pair {
        let (here, there) = memory::wire(Capabilities::ip(mtu), WIRE_DEPTH);
        let config = |address: &str| {
            let mut config = StackConfig::new(address.parse().expect("an address"));
            config.tcp.receive_buffer_bytes = buffer_bytes;
            config.tcp.send_buffer_bytes = buffer_bytes;
            config.tcp.nagle = false;
            config.tcp.timestamps = false;
            // On the other side it ends when its socket is opened anew.
            config.tcp.time_wait = Duration::ZERO;
            config.connections = connections.max(1024);
            config
        };
        let stack = |address, end| Stack::new(&config(address), end).expect("a stack");
        Pair {
            client: stack("10.0.0.1", here),
            server: stack("10.0.0.2", there),
            epoch: Epoch::start(),
        }
    }

    /// Nanoseconds since the pair was made.
    fn now(&self) -> u64 {
        self.epoch.now_ns()
    }

    fn now_as_instant(&self) -> Instant {
        Instant::from_nanos(self.now())
    }

    /// Opens `count` connections and waits until all are established: both ends of each, client first. A batch of others may follow.
    fn connect(&mut self, count: usize) -> Vec<[Connection; 2]> {
        self.server
            .listen(SERVICE_PORT, (count + CHURN_BATCH) as u32)
            .expect("a port to listen on");
        let to = "10.0.0.2:7".parse().expect("an address");
        (0..count)
            .map(|_| {
                let client = self.client.connect(to).expect("a connection");
                let server = loop {
                    let now = self.now_as_instant();
                    self.client.turn(now);
                    self.server.turn(now);
                    if let Some(Event::Accepted(server)) = self.server.event() {
                        break server;
                    }
                };
                while self.client.event() != Some(Event::Connected(client)) {
                    self.client.turn(self.now_as_instant());
                }
                [client, server]
            })
            .collect()
    }

    /// Sends one byte at time `now_ns` to the server, which sends it back; answers what came.
    fn round_trip(&mut self, now_ns: u64, [client, server]: [Connection; 2], byte: u8) -> u8 {
        let now = Instant::from_nanos(now_ns);
        let mut byte = [byte];
        assert_eq!(self.client.send(client, &byte), Ok(1));
        self.client.turn(now);
        self.server.turn(now);
        assert_eq!(self.server.receive(server, &mut byte), Ok(1));
        assert_eq!(self.server.send(server, &byte), Ok(1));
        self.server.turn(now);
        self.client.turn(now);
        let mut echoed = [!byte[0]];
        assert_eq!(self.client.receive(client, &mut echoed), Ok(1));
        assert_eq!(echoed, byte, "another byte came back");
        echoed[0]
    }
}

fn segments_out(stack: &Stack) -> u64 {
    stack
        .counters()
        .get("tcp.segments_out")
        .copied()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_loads_answer_like_the_other_stack() {
        let bulk_config = BulkConfig {
            mtu: 1500,
            window_bytes: 65_536,
            messages: 200,
            burst_messages: None,
        };
        assert_eq!(
            bulk(&bulk_config).hash,
            crate::smoltcp_side::bulk(&bulk_config).hash
        );
        let config = PingPongConfig {
            mtu: 1500,
            idle_connections: 3,
            round_trips: 200,
        };
        assert_eq!(
            ping_pong(&config).hash,
            crate::smoltcp_side::ping_pong(&config).hash
        );
    }
}
