//! smoltcp as good as its interface allows on these loads.
//!
//! Two whole stacks on one thread. Each turn of a stack is: all that has arrived in, then the application, then all that is to be
//! sent out, so that a whole burst is answered by one acknowledgement that already opens the window again. Other than with
//! `Interface::poll`, nothing is sent between input and application. Congestion control, Nagle's algorithm, timestamps
//! and logging are off; the device is a pool of buffers with no allocation per packet ([`crate::queue_device`]). The clock is
//! read once for both stacks' turns.

mod churn;

pub use churn::churn;

use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};

use crate::machine::{Epoch, Stopwatch};
use crate::payload::{Digest, Payload};
use crate::queue_device::QueueDevice;
use crate::side::{
    BulkConfig, BulkResult, MESSAGE_BYTES, PingPongConfig, PingPongResult, WARM_UP_MESSAGES,
};

const SERVICE_PORT: u16 = 7;
const FIRST_CLIENT_PORT: u16 = 10_000;
const CLIENT_PORTS: u64 = 50_000;
/// Buffers of a connection that sends single bytes, or none.
const SMALL_BUFFER_BYTES: usize = 1024;
const CLIENT: IpAddress = IpAddress::v4(10, 0, 0, 1);
const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 2);

/// Runs a bulk load from the client to the server.
///
/// # Panics
/// If the server gets other bytes than the client sent, or the connection stands still.
pub fn bulk(config: &BulkConfig) -> BulkResult {
    let mut pair = Pair::new(config.mtu);
    // Every burst is acknowledged: a delay would only stall a window that one segment fills.
    let [client, server] = pair.connect(1, config.window_bytes, None)[0];
    let mut run = BulkRun {
        payload: Payload::new(),
        digest: Digest::default(),
        burst: config.burst_messages.unwrap_or(u64::MAX),
        client,
        server,
        sent: 0,
        sent_of_message: 0,
        received: 0,
        message: [0; MESSAGE_BYTES],
        received_of_message: 0,
    };
    let end_of_warm_up = WARM_UP_MESSAGES;
    run.turn_until(&mut pair, end_of_warm_up, BulkRun::check_whole);
    let before = [&pair.client, &pair.server].map(|stack| stack.device.packets_sent());
    let stopwatch = Stopwatch::start();
    let end = end_of_warm_up + config.messages;
    run.turn_until(&mut pair, end, BulkRun::sample);
    let (wall_ns, cpu_ns) = stopwatch.read();
    BulkResult {
        wall_ns,
        cpu_ns,
        data_packets: pair.client.device.packets_sent() - before[0],
        ack_packets: pair.server.device.packets_sent() - before[1],
        hash: run.digest.value(),
    }
}

/// Runs a ping-pong load between the client and the server.
///
/// # Panics
/// If another byte comes back than was sent, or none.
pub fn ping_pong(config: &PingPongConfig) -> PingPongResult {
    let mut pair = Pair::new(config.mtu);
    // Delayed, so that a byte's acknowledgement rides on its echo.
    let delay = Some(Duration::from_millis(10));
    let connections = pair.connect(config.idle_connections + 1, SMALL_BUFFER_BYTES, delay);
    // smoltcp looks through its sockets one by one, so the busy one stands in the middle.
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
    burst: u64,
    client: SocketHandle,
    server: SocketHandle,
    sent: u64,
    sent_of_message: usize,
    received: u64,
    message: [u8; MESSAGE_BYTES],
    received_of_message: usize,
}

impl BulkRun {
    /// Goes on until the server has received `end` messages in all, handing each to `look`.
    fn turn_until(&mut self, pair: &mut Pair, end: u64, look: fn(&mut BulkRun)) {
        let mut idle_turns = 0;
        while self.received < end {
            let before = (self.received, self.received_of_message);
            let now = pair.now_as_instant();
            pair.client.take_in(now);
            let until = end.min(self.sent.saturating_add(self.burst));
            self.send(pair.client.socket(self.client), until);
            pair.client.send_out(now, usize::MAX);
            pair.client.device.carry_to(&mut pair.server.device);
            pair.server.take_in(now);
            self.receive(pair.server.socket(self.server), look);
            pair.server.send_out(now, usize::MAX);
            pair.server.device.carry_to(&mut pair.client.device);
            if (self.received, self.received_of_message) == before {
                idle_turns += 1;
                assert!(idle_turns < 1000, "smoltcp stands still");
            } else {
                idle_turns = 0;
            }
        }
    }

    /// The sending application: copies in what there is room for.
    fn send(&mut self, socket: &mut tcp::Socket<'_>, end: u64) {
        while self.sent < end {
            let rest = &self.payload.message(self.sent)[self.sent_of_message..];
            let taken = socket.send_slice(rest).expect("the connection is open");
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
    fn receive(&mut self, socket: &mut tcp::Socket<'_>, look: fn(&mut BulkRun)) {
        loop {
            let room = &mut self.message[self.received_of_message..];
            let taken = socket.recv_slice(room).expect("the connection is open");
            if taken == 0 {
                return;
            }
            self.received_of_message += taken;
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

/// Two stacks, joined by a link.
struct Pair {
    client: Stack,
    server: Stack,
    epoch: Epoch,
}

impl Pair {
    fn new(mtu: usize) -> Pair {
        Pair {
            client: Stack::new(mtu, CLIENT),
            server: Stack::new(mtu, SERVER),
            epoch: Epoch::start(),
        }
    }

    /// Nanoseconds since the pair was made.
    fn now(&self) -> u64 {
        self.epoch.now_ns()
    }

    fn now_as_instant(&self) -> Instant {
        Instant::from_micros((self.now() / 1000) as i64)
    }

    /// Opens `count` connections at once and waits until all are established: the sockets at both ends, client first.
    fn connect(
        &mut self,
        count: usize,
        buffer_bytes: usize,
        ack_delay: Option<Duration>,
    ) -> Vec<[SocketHandle; 2]> {
        let remote = IpEndpoint::new(SERVER, SERVICE_PORT);
        for index in 0..count {
            let listener = self.server.add_socket(buffer_bytes, ack_delay);
            let listening = self.server.socket(listener).listen(SERVICE_PORT);
            listening.expect("a new socket can listen");
            let opener = self.client.add_socket(buffer_bytes, ack_delay);
            let port = FIRST_CLIENT_PORT + u16::try_from(index).expect("ports for all");
            let context = self.client.interface.context();
            let socket = self.client.sockets.get_mut::<tcp::Socket<'_>>(opener);
            let opening = socket.connect(context, remote, port);
            opening.expect("a new socket can connect");
        }
        let mut moved = true;
        while moved {
            let now = self.now_as_instant();
            self.client.take_in(now);
            self.client.send_out(now, usize::MAX);
            moved = self.client.device.carry_to(&mut self.server.device);
            self.server.take_in(now);
            self.server.send_out(now, usize::MAX);
            moved |= self.server.device.carry_to(&mut self.client.device);
        }
        self.ends(count)
    }

    /// Joins both ends of each connection by the client's port.
    fn ends(&self, count: usize) -> Vec<[SocketHandle; 2]> {
        let mut by_port = vec![[None, None]; count];
        for (end, stack) in [&self.client, &self.server].into_iter().enumerate() {
            for (handle, socket) in stack.sockets.iter() {
                let smoltcp::socket::Socket::Tcp(socket) = socket;
                assert_eq!(socket.state(), tcp::State::Established);
                let endpoints = [socket.local_endpoint(), socket.remote_endpoint()];
                let port = endpoints[end].expect("established").port;
                by_port[usize::from(port - FIRST_CLIENT_PORT)][end] = Some(handle);
            }
        }
        by_port
            .into_iter()
            .map(|ends| ends.map(|end| end.expect("a socket at each end")))
            .collect()
    }

    /// Sends one byte at time `now_ns` to the server, which sends it back; answers what came.
    ///
    /// There is one packet each way and the application knows it, so each turn asks for output once.
    fn round_trip(&mut self, now_ns: u64, [client, server]: [SocketHandle; 2], byte: u8) -> u8 {
        let now = Instant::from_micros((now_ns / 1000) as i64);
        let mut byte = [byte];
        let taken = self.client.socket(client).send_slice(&byte);
        assert_eq!(taken, Ok(1));
        self.client.send_out(now, 1);
        self.client.device.carry_to(&mut self.server.device);

        self.server.take_in(now);
        let socket = self.server.socket(server);
        assert_eq!(socket.recv_slice(&mut byte), Ok(1));
        assert_eq!(socket.send_slice(&byte), Ok(1));
        self.server.send_out(now, 1);
        self.server.device.carry_to(&mut self.client.device);

        self.client.take_in(now);
        let mut echoed = [!byte[0]];
        assert_eq!(self.client.socket(client).recv_slice(&mut echoed), Ok(1));
        assert_eq!(echoed, byte, "another byte came back");
        echoed[0]
    }
}

/// One smoltcp stack with its device and sockets.
struct Stack {
    device: QueueDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Stack {
    fn new(mtu: usize, address: IpAddress) -> Stack {
        let mut device = QueueDevice::new(mtu);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = 0x6272_6169;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let added = addresses.push(IpCidr::new(address, 24));
            added.expect("room for one address");
        });
        Stack {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    fn add_socket(&mut self, buffer_bytes: usize, ack_delay: Option<Duration>) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; buffer_bytes]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(ack_delay);
        self.sockets.add(socket)
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Processes everything that has arrived.
    fn take_in(&mut self, now: Instant) {
        while self
            .interface
            .poll_ingress_single(now, &mut self.device, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
    }

    /// Sends until nothing is left to send, or each socket has sent `rounds` packets.
    fn send_out(&mut self, now: Instant, rounds: usize) {
        for _ in 0..rounds {
            let outcome = self
                .interface
                .poll_egress(now, &mut self.device, &mut self.sockets);
            if outcome == PollResult::None {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_gives_the_same_hash_whatever_cuts_it() {
        let run = |mtu, window_bytes, burst_messages| {
            bulk(&BulkConfig {
                mtu,
                window_bytes,
                messages: 300,
                burst_messages,
            })
        };
        let reference = run(1500, 65536, None);
        for mtu in [1500, 4352, 65535] {
            for window_bytes in [65536, 262_144, 1_048_576] {
                for burst in [None, Some(4)] {
                    let result = run(mtu, window_bytes, burst);
                    assert_eq!(
                        result.hash, reference.hash,
                        "{mtu} {window_bytes} {burst:?}"
                    );
                    // 40 bytes of headers, no offload: as many packets as the bytes need, or a few more.
                    let least = (300 * MESSAGE_BYTES as u64).div_ceil(mtu as u64 - 40);
                    assert!(result.data_packets >= least);
                    assert!(result.ack_packets > 0);
                }
            }
        }
        let longer = bulk(&BulkConfig {
            mtu: 1500,
            window_bytes: 65536,
            messages: 301,
            burst_messages: None,
        });
        assert_ne!(longer.hash, reference.hash);
    }

    #[test]
    fn ping_pong_works_beside_idle_connections() {
        let run = |idle_connections| {
            ping_pong(&PingPongConfig {
                mtu: 1500,
                idle_connections,
                round_trips: 50,
            })
        };
        let alone = run(0);
        assert!(alone.p50_ns > 0 && alone.p50_ns <= alone.p99_ns);
        assert_eq!(run(99).hash, alone.hash);
    }
}
