//! The caller-turned stack as its user sees it: two of them on a wire, in virtual time.

use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, RECEIVE_HEADROOM, Receiver, memory,
};
use braidnet::inet::tcp::ListenError;
use braidnet::message::{Message, Pool, Run};
use braidnet::stream::Next;
use braidnet::wire::ethernet::MacAddress;
use braidnet::{
    CloseReason, ConnectError, Connection, Duration, Event, Instant, ReceiveError, SendError,
    Stack, StackConfig,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

const CLIENT: [u8; 4] = [10, 77, 0, 1];
const SERVER: [u8; 4] = [10, 77, 0, 2];
const PORT: u16 = 7;
const BOTH_MEDIA: [Capabilities; 2] = [
    Capabilities::ip(1500),
    Capabilities::ethernet(MacAddress([2, 0, 0, 0, 0, 1]), 1500),
];

/// Two stacks on a wire.
struct Pair {
    client: Stack,
    server: Stack,
    now: Instant,
    /// What happened at the client, and at the server.
    events: [Vec<Event>; 2],
}

impl Pair {
    fn new(capabilities: Capabilities) -> Pair {
        Pair::with(capabilities, |_| {}, Impairment::default())
    }

    fn with(
        capabilities: Capabilities,
        change: impl Fn(&mut StackConfig),
        impairment: Impairment,
    ) -> Pair {
        let (here, there) = memory::wire(capabilities, 1024);
        let stack = |address: [u8; 4], end| {
            let mut config = StackConfig::new(address.into());
            config.addresses = vec![(address.into(), Some(24))];
            change(&mut config);
            let inner = end;
            Stack::new(&config, Impaired { inner, impairment }).unwrap()
        };
        let mut pair = Pair {
            client: stack(CLIENT, here),
            server: stack(SERVER, there),
            now: Instant::from_millis(5),
            events: [Vec::new(), Vec::new()],
        };
        pair.server.listen(PORT, 4096).unwrap();
        pair
    }

    /// Turns both until neither has anything to do now; when one of them will.
    fn settle(&mut self) -> Option<Instant> {
        for _ in 0..100_000 {
            let next = [self.server.turn(self.now), self.client.turn(self.now)];
            self.events[0].extend(std::iter::from_fn(|| self.client.event()));
            self.events[1].extend(std::iter::from_fn(|| self.server.event()));
            if next.contains(&Next::Again) {
                continue;
            }
            // What the client has just sent may be waiting.
            let next = [self.server.turn(self.now), next[1]];
            if next.contains(&Next::Again) {
                continue;
            }
            let at = next.into_iter().filter_map(|next| match next {
                Next::At(at) => Some(at),
                _ => None,
            });
            return at.min();
        }
        panic!("the stacks do not come to rest");
    }

    /// Lets time pass, stopping wherever something is due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.settle().filter(|due| *due <= end) {
            self.now = due.max(self.now + Duration::from_nanos(1));
        }
        self.now = end;
        self.settle();
    }

    /// A connection from the client to the server: its two ends.
    fn connected(&mut self) -> (Connection, Connection) {
        let call = self.client.connect(server(PORT)).unwrap();
        for _ in 0..100 {
            self.settle();
            let accepted = self.events[1].iter().find_map(|event| match event {
                Event::Accepted(answer) => Some(*answer),
                _ => None,
            });
            let is_open = self.events[0].contains(&Event::Connected(call));
            if let Some(answer) = accepted.filter(|_| is_open) {
                self.events = Default::default();
                return (call, answer);
            }
            self.pass(Duration::from_millis(500));
        }
        panic!("nobody answers");
    }

    fn client_closed(&self, call: Connection) -> Option<CloseReason> {
        closed(&self.events[0], call)
    }

    fn server_closed(&self, answer: Connection) -> Option<CloseReason> {
        closed(&self.events[1], answer)
    }
}

fn closed(events: &[Event], connection: Connection) -> Option<CloseReason> {
    events.iter().find_map(|event| match event {
        Event::Closed(gone, reason) if *gone == connection => Some(*reason),
        _ => None,
    })
}

fn server(port: u16) -> SocketAddr {
    (SERVER, port).into()
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 253) as u8).collect()
}

/// All that can be read now.
fn read(stack: &mut Stack, connection: Connection) -> Vec<u8> {
    let mut bytes = vec![0; stack.readable(connection)];
    if !bytes.is_empty() {
        let n = stack.receive(connection, &mut bytes).unwrap();
        assert_eq!(n, bytes.len());
    }
    bytes
}

/// What a wire does to the packets of one direction, each of so many in a thousand.
#[derive(Clone, Copy, Default)]
struct Impairment {
    seed: u64,
    dropped: u64,
    doubled: u64,
    delayed: u64,
}

/// A device that does it.
struct Impaired {
    inner: memory::WireEnd,
    impairment: Impairment,
}

impl Device for Impaired {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let seed = self.impairment.seed | 1;
        let impairment = Impairment {
            seed,
            ..self.impairment
        };
        let pairs = Box::new(self.inner.copying()).open()?;
        let impaired = |pair: QueuePair| QueuePair {
            receiver: Box::new(ImpairedReceiver {
                inner: pair.receiver,
                impairment,
                arrived: Run::new(),
                late: VecDeque::new(),
            }),
            transmitter: pair.transmitter,
        };
        Ok(pairs.into_iter().map(impaired).collect())
    }
}

struct ImpairedReceiver {
    inner: Box<dyn Receiver>,
    impairment: Impairment,
    arrived: Run,
    late: VecDeque<Message>,
}

impl ImpairedReceiver {
    /// Whether something that happens to so many in a thousand happens now (xorshift64).
    fn happens(&mut self, of_thousand: u64) -> bool {
        if of_thousand == 0 {
            return false;
        }
        let state = &mut self.impairment.seed;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 20) % 1000 < of_thousand
    }
}

impl Receiver for ImpairedReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let before = into.len();
        let late = self.late.len();
        self.inner.receive(pool, &mut self.arrived, max);
        for message in std::mem::take(&mut self.arrived).drain() {
            if self.happens(self.impairment.dropped) {
                continue;
            }
            if self.happens(self.impairment.doubled) {
                into.extend(pool.copy_from_slice(RECEIVE_HEADROOM, message.bytes()));
            }
            if self.happens(self.impairment.delayed) {
                self.late.push_back(message);
            } else {
                into.push(message);
            }
        }
        // What was late before comes behind what has come since.
        into.extend(self.late.drain(..late));
        into.len() - before
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn one_side_closes_and_the_other_goes_on() {
    for medium in BOTH_MEDIA {
        for client_first in [true, false] {
            let mut pair = Pair::new(medium);
            let (call, answer) = pair.connected();
            // The one who closes first hears the other out.
            let (sent, reply) = (text(3000), text(50_000));
            {
                let (first, connection) = if client_first {
                    (&mut pair.client, call)
                } else {
                    (&mut pair.server, answer)
                };
                assert_eq!(first.send(connection, &sent), Ok(sent.len()));
                first.close(connection);
                assert_eq!(first.send(connection, b"x"), Err(SendError::Closing));
            }
            pair.settle();
            let heard = {
                let (second, connection) = if client_first {
                    (&mut pair.server, answer)
                } else {
                    (&mut pair.client, call)
                };
                let heard = read(second, connection);
                assert_eq!(
                    second.receive(connection, &mut [0; 8]),
                    Ok(0),
                    "end of data"
                );
                assert_eq!(second.send(connection, &reply), Ok(reply.len()));
                second.close(connection);
                heard
            };
            assert!(heard == sent);
            pair.pass(Duration::from_secs(1));
            let (first, connection) = if client_first {
                (&mut pair.client, call)
            } else {
                (&mut pair.server, answer)
            };
            assert!(read(first, connection) == reply);
            assert_eq!(first.receive(connection, &mut [0; 8]), Ok(0));
            assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
            assert_eq!(pair.server_closed(answer), Some(CloseReason::Closed));
            let ends = [Event::EndOfData(call), Event::EndOfData(answer)];
            assert!(pair.events[0].contains(&ends[0]) && pair.events[1].contains(&ends[1]));
        }
    }
}

#[test]
fn both_sides_close_at_once() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, b"from here"), Ok(9));
        assert_eq!(pair.server.send(answer, b"from there"), Ok(10));
        pair.client.close(call);
        pair.server.close(answer);
        pair.pass(Duration::from_secs(1));
        assert_eq!(read(&mut pair.client, call), b"from there");
        assert_eq!(read(&mut pair.server, answer), b"from here");
        assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Closed));
    }
}

#[test]
fn an_abort_is_a_reset_at_the_other_side() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        assert_eq!(pair.client.send(call, b"last words"), Ok(10));
        pair.settle();
        pair.client.abort(call);
        pair.settle();
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Reset));
        // What had come before can still be read.
        assert_eq!(read(&mut pair.server, answer), b"last words");
        let rest = pair.server.receive(answer, &mut [0; 8]);
        assert_eq!(rest, Err(ReceiveError::Gone));
        assert_eq!(pair.server.send(answer, b"x"), Err(SendError::Gone));
        // The aborter knows nothing of it any more.
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        assert_eq!(
            pair.client.receive(call, &mut [0; 8]),
            Err(ReceiveError::Gone)
        );
        assert_eq!(pair.client.tuple(call), None);
        pair.server.forget(answer);
        assert_eq!(pair.server.tuple(answer), None);
    }
}

#[test]
fn a_closed_port_refuses_and_nobody_is_silent() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let refused = pair.client.connect(server(PORT + 1)).unwrap();
        let nobody = pair.client.connect(([10, 77, 0, 99], PORT).into()).unwrap();
        let port_zero = pair.client.connect(server(0)).unwrap();
        pair.settle();
        assert_eq!(pair.client_closed(refused), Some(CloseReason::Refused));
        assert_eq!(pair.client.send(refused, b"x"), Err(SendError::Gone));
        assert_eq!(pair.client_closed(nobody), None);
        assert_eq!(pair.client.send(nobody, b"x"), Ok(0), "not open yet");
        // RFC 9293 §3.8.3, MUST-23: a SYN is sent for three minutes at least.
        pair.pass(Duration::from_secs(180));
        assert_eq!(pair.client_closed(nobody), None);
        pair.pass(Duration::from_secs(180));
        assert_eq!(pair.client_closed(nobody), Some(CloseReason::TimedOut));
        assert_eq!(pair.client_closed(port_zero), Some(CloseReason::TimedOut));
    }
}

#[test]
fn what_cannot_be_listened_on_or_connected_to_is_refused() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    assert_eq!(pair.server.listen(0, 1), Err(ListenError::Zero));
    assert_eq!(pair.server.listen(PORT, 1), Err(ListenError::InUse(PORT)));
    assert_eq!(pair.server.listen(PORT + 1, 0), Ok(()));
    let six = "[2001:db8::1]:7".parse().unwrap();
    assert_eq!(pair.client.connect(six), Err(ConnectError::NotIpv4));
    // A backlog of 0 counts as 1.
    let call = pair.client.connect(server(PORT + 1)).unwrap();
    pair.settle();
    assert!(pair.events[0].contains(&Event::Connected(call)));
}

#[test]
fn a_close_before_the_answer_comes() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let call = pair.client.connect(server(PORT)).unwrap();
        pair.client.close(call);
        pair.client.turn(pair.now);
        pair.settle();
        assert_eq!(pair.client_closed(call), Some(CloseReason::Closed));
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        // Whoever answers all the same is told.
        assert!(pair.events[1].is_empty());
        pair.client.forget(call);
        // The stacks are fit for another.
        pair.pass(Duration::from_secs(300));
        pair.events = Default::default();
        pair.connected();
    }
}

#[test]
fn what_is_forgotten_is_still_delivered() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, answer) = pair.connected();
        let sent = text(200_000);
        assert_eq!(pair.client.send(call, &sent), Ok(sent.len()));
        pair.client.forget(call);
        assert_eq!(pair.client.send(call, b"x"), Err(SendError::Gone));
        assert_eq!(pair.client.tuple(call), None);
        let mut heard = Vec::new();
        for _ in 0..50 {
            pair.pass(Duration::from_millis(100));
            heard.extend(read(&mut pair.server, answer));
        }
        assert!(heard == sent, "{} bytes", heard.len());
        assert_eq!(pair.server.receive(answer, &mut [0; 8]), Ok(0));
        // Nobody reads there: data is answered with a reset (RFC 9293 §3.6.1).
        assert_eq!(pair.server.send(answer, b"anybody?"), Ok(8));
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.server_closed(answer), Some(CloseReason::Reset));
    }
}

#[test]
fn nothing_is_sent_or_received_of_no_bytes() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    let before = pair.client.counters();
    for _ in 0..1000 {
        assert_eq!(pair.client.send(call, &[]), Ok(0));
        assert_eq!(pair.client.receive(call, &mut []), Ok(0));
        pair.settle();
    }
    assert_eq!(pair.client.counters(), before, "nothing is sent");
    assert_eq!(
        pair.server.receive(answer, &mut [0; 8]),
        Err(ReceiveError::Empty)
    );
    assert!(pair.server.receive_message(answer).is_none());
}

#[test]
fn messages_are_taken_whole() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    let sent = text(500_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..1000 {
        at += pair.client.send(call, &sent[at..]).unwrap();
        pair.pass(Duration::from_millis(1));
        while let Some(message) = pair.server.receive_message(answer) {
            message
                .blocks()
                .for_each(|block| heard.extend_from_slice(block));
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
}

/// Opens and closes so many, all at a time, each with a word both ways.
fn crowd(pair: &mut Pair, count: usize) {
    let calls: Vec<_> = (0..count)
        .map(|_| pair.client.connect(server(PORT)).unwrap())
        .collect();
    pair.pass(Duration::from_secs(2));
    let accepted = |event: &Event| match event {
        Event::Accepted(answer) => Some(*answer),
        _ => None,
    };
    let answers: Vec<_> = pair.events[1].iter().filter_map(accepted).collect();
    assert_eq!(answers.len(), count);
    for call in &calls {
        assert_eq!(pair.client.send(*call, b"ping"), Ok(4));
    }
    pair.pass(Duration::from_secs(1));
    for answer in &answers {
        assert_eq!(read(&mut pair.server, *answer), b"ping");
        assert_eq!(pair.server.send(*answer, b"pong"), Ok(4));
        pair.server.close(*answer);
    }
    pair.pass(Duration::from_secs(1));
    for call in &calls {
        assert_eq!(read(&mut pair.client, *call), b"pong");
        pair.client.close(*call);
    }
    pair.pass(Duration::from_secs(1));
    for (call, answer) in calls.iter().zip(&answers) {
        assert_eq!(pair.client_closed(*call), Some(CloseReason::Closed));
        pair.client.forget(*call);
        pair.server.forget(*answer);
    }
    pair.events = Default::default();
    // TIME-WAIT passes.
    pair.pass(Duration::from_secs(120));
}

#[test]
fn connections_come_and_go_without_growth() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let mut used = Vec::new();
        for round in 1..=4 {
            crowd(&mut pair, 2000);
            used.push((pair.client.used_bytes(), pair.server.used_bytes()));
            for stack in [&pair.client, &pair.server] {
                let counters = stack.counters();
                let expected = [("tcp.opened", 2000 * round), ("tcp.closed", 2000 * round)];
                for (name, count) in expected {
                    assert_eq!(counters.get(name), Some(&count), "{name}: {counters:?}");
                }
            }
            assert_eq!(pair.settle(), None, "no timer is left");
        }
        assert_eq!(used[1], used[3], "{used:?}");
    }
}

/// Both ways over a wire that loses, doubles and delays; the time it took.
fn transfer(medium: Capabilities, impairment: Impairment, len: usize) -> Duration {
    let mut pair = Pair::with(medium, |_| {}, impairment);
    let (call, answer) = pair.connected();
    let (there, back) = (text(len), text(len + 1));
    let mut sent = (0, 0);
    let mut heard = (Vec::new(), Vec::new());
    let start = pair.now;
    for _ in 0..200_000 {
        if sent.0 < there.len() {
            sent.0 += pair.client.send(call, &there[sent.0..]).unwrap();
            if sent.0 == there.len() {
                pair.client.close(call);
            }
        }
        if sent.1 < back.len() {
            sent.1 += pair.server.send(answer, &back[sent.1..]).unwrap();
            if sent.1 == back.len() {
                pair.server.close(answer);
            }
        }
        pair.pass(Duration::from_millis(5));
        heard.0.extend(read(&mut pair.server, answer));
        heard.1.extend(read(&mut pair.client, call));
        let over = pair.client_closed(call).is_some() && pair.server_closed(answer).is_some();
        if over {
            break;
        }
    }
    let seed = impairment.seed;
    assert!(
        heard.0 == there,
        "seed {seed}: {} of {len} there",
        heard.0.len()
    );
    assert!(
        heard.1 == back,
        "seed {seed}: {} of {len} back",
        heard.1.len()
    );
    assert_eq!(
        pair.client_closed(call),
        Some(CloseReason::Closed),
        "seed {seed}"
    );
    assert_eq!(
        pair.server_closed(answer),
        Some(CloseReason::Closed),
        "seed {seed}"
    );
    pair.now.since(start)
}

#[test]
fn every_byte_comes_over_a_bad_wire() {
    let bad = Impairment {
        seed: 0,
        dropped: 20,
        doubled: 20,
        delayed: 50,
    };
    let rows = [
        Impairment {
            dropped: 50,
            ..Impairment::default()
        },
        Impairment {
            doubled: 300,
            ..Impairment::default()
        },
        Impairment {
            delayed: 300,
            ..Impairment::default()
        },
        bad,
        Impairment {
            dropped: 100,
            doubled: 100,
            delayed: 200,
            ..bad
        },
    ];
    for (at, row) in rows.into_iter().enumerate() {
        for seed in 1..=4 {
            let medium = BOTH_MEDIA[seed % 2];
            let seed = (seed * 1000 + at) as u64 * 0x9e37_79b9;
            println!("seed {seed}");
            transfer(medium, Impairment { seed, ..row }, 300_000);
        }
    }
}

#[test]
fn a_good_wire_takes_no_time() {
    for medium in BOTH_MEDIA {
        let took = transfer(medium, Impairment::default(), 1_000_000);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn who_does_not_read_stops_the_other_and_starts_him_again() {
    for medium in BOTH_MEDIA {
        for (receive, pause) in [(256 << 10, 1), (256 << 10, 600), (4096, 60), (1000, 60)] {
            let change = |config: &mut StackConfig| config.tcp.receive_buffer_bytes = receive;
            let mut pair = Pair::with(medium, change, Impairment::default());
            let (call, answer) = pair.connected();
            let sent = text(1_000_000);
            let (mut at, mut heard) = (0, Vec::new());
            let fill = |pair: &mut Pair, at: &mut usize| {
                for _ in 0..4 {
                    *at += pair.client.send(call, &sent[*at..]).unwrap();
                    pair.pass(Duration::from_millis(50));
                }
            };
            fill(&mut pair, &mut at);
            pair.pass(Duration::from_secs(pause));
            fill(&mut pair, &mut at);
            let waiting = pair.server.readable(answer);
            assert!(waiting <= receive as usize, "{waiting} of {receive}");
            assert!(waiting >= receive as usize / 2, "{waiting} of {receive}");
            assert!(at < sent.len() && pair.client.send_space(call) == 0);
            // He reads again, at first a byte at a time.
            for _ in 0..100 {
                let mut byte = [0];
                assert_eq!(pair.server.receive(answer, &mut byte), Ok(1));
                heard.push(byte[0]);
                pair.settle();
            }
            let resumed = pair.now;
            while heard.len() < sent.len() {
                heard.extend(read(&mut pair.server, answer));
                at += pair.client.send(call, &sent[at..]).unwrap();
                pair.pass(Duration::from_micros(100));
                // Window updates are not lost: no probe has to find out.
                let took = pair.now.since(resumed);
                assert!(
                    took < Duration::from_secs(5),
                    "{receive}: {} bytes",
                    heard.len()
                );
            }
            assert!(heard == sent);
        }
    }
}

#[test]
fn a_lost_window_update_is_found_out() {
    let lossy = Impairment {
        seed: 77,
        dropped: 300,
        ..Impairment::default()
    };
    let change = |config: &mut StackConfig| config.tcp.receive_buffer_bytes = 8192;
    let mut pair = Pair::with(Capabilities::ip(1500), change, lossy);
    let (call, answer) = pair.connected();
    let sent = text(60_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..20_000 {
        at += pair.client.send(call, &sent[at..]).unwrap();
        pair.pass(Duration::from_millis(100));
        // Only when everything has come to a stand.
        if pair.server.readable(answer) >= 4096 || at == sent.len() {
            heard.extend(read(&mut pair.server, answer));
        }
        if heard.len() == sent.len() {
            break;
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
}

#[test]
fn a_turn_says_when_the_next_is_due() {
    let mut pair = Pair::new(Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.client.turn(pair.now), Next::Idle);
    // The server does not turn: the segment is not acknowledged.
    assert_eq!(pair.client.send(call, b"hello"), Ok(5));
    let Next::At(due) = pair.client.turn(pair.now) else {
        panic!("no retransmission is due")
    };
    let wait = due.since(pair.now);
    assert!((200..=1000).contains(&wait.as_millis()), "{wait:?}");
    assert_eq!(pair.client.counters().get("tcp.retransmitted"), None);
    // Early turns do nothing; at the time, it goes again, and then waits twice as long.
    pair.client.turn(due - Duration::from_nanos(1));
    assert_eq!(pair.client.counters().get("tcp.retransmitted"), None);
    let mut retransmitted = Vec::new();
    let mut now = due;
    for wakes in 0.. {
        assert!(wakes < 10, "wakes in vain");
        let Next::At(next) = pair.client.turn(now) else {
            panic!("nothing further is due")
        };
        let count = pair.client.counters().get("tcp.retransmitted").copied();
        if count == Some(retransmitted.len() as u64 + 1) {
            retransmitted.push(now);
        }
        if retransmitted.len() == 3 {
            break;
        }
        now = next;
    }
    let waits = [0, 1].map(|at| retransmitted[at + 1].since(retransmitted[at]));
    // As exactly as a wheel of timers turns.
    let tick = Duration::from_millis(3);
    assert!(waits[1].abs_diff(waits[0] * 2) < tick, "{waits:?}");
    assert!(waits[0].abs_diff(wait * 2) < tick, "{wait:?}, {waits:?}");
    pair.now = now;
    pair.settle();
    assert_eq!(read(&mut pair.server, answer), b"hello");
}

#[test]
fn a_peer_that_vanishes_is_given_up() {
    for medium in BOTH_MEDIA {
        let mut pair = Pair::new(medium);
        let (call, _) = pair.connected();
        assert_eq!(pair.client.send(call, b"hello?"), Ok(6));
        // Only the client turns from here on.
        let mut now = pair.now;
        let mut events = Vec::new();
        for _ in 0..1000 {
            if let Next::At(at) = pair.client.turn(now) {
                now = at.max(now + Duration::from_nanos(1));
            }
            events.extend(std::iter::from_fn(|| pair.client.event()));
        }
        assert_eq!(closed(&events, call), Some(CloseReason::TimedOut));
        let took = now.since(pair.now);
        // RFC 9293 §3.8.3: R2 corresponds to at least 100 seconds.
        assert!((100..1800).contains(&took.as_secs()), "{took:?}");
    }
}

#[test]
fn a_stack_may_turn_on_any_thread() {
    let mut pair = Pair::new(BOTH_MEDIA[1]);
    let (call, answer) = pair.connected();
    let sent = text(2_000_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..200 {
        let (before, so_far) = (at, &sent);
        (pair, at) = std::thread::scope(|scope| {
            let turn = scope.spawn(move || {
                let mut pair = pair;
                let n = pair.client.send(call, &so_far[before..]).unwrap();
                pair.pass(Duration::from_millis(10));
                (pair, before + n)
            });
            turn.join().unwrap()
        });
        // Read here, freed on the next thread.
        heard.extend(read(&mut pair.server, answer));
        if heard.len() == sent.len() {
            break;
        }
    }
    assert!(heard == sent, "{} bytes", heard.len());
    let used = pair.server.used_bytes() + pair.client.used_bytes();
    assert!(
        used <= 16 << 20,
        "buffers find their way home: {used} bytes"
    );
}

#[test]
fn two_stacks_on_two_threads() {
    let pair = Pair::new(BOTH_MEDIA[0]);
    let (mut client, mut server_stack) = (pair.client, pair.server);
    let sent = text(3_000_000);
    let expected = sent.clone();
    std::thread::scope(|scope| {
        let heard = scope.spawn(move || {
            let (mut now, mut answer, mut heard) = (Instant::ZERO, None, Vec::new());
            while heard.len() < expected.len() {
                server_stack.turn(now);
                now += Duration::from_micros(1);
                if let Some(Event::Accepted(connection)) = server_stack.event() {
                    answer = Some(connection);
                }
                match answer {
                    Some(answer) => heard.extend(read(&mut server_stack, answer)),
                    None => std::thread::yield_now(),
                }
            }
            assert!(heard == expected);
            // What the client still waits for.
            server_stack.turn(now + Duration::from_secs(1));
        });
        let call = client.connect(server(PORT)).unwrap();
        let (mut now, mut at) = (Instant::ZERO, 0);
        while !heard.is_finished() {
            at += client.send(call, &sent[at..]).unwrap();
            client.turn(now);
            now += Duration::from_micros(1);
        }
        heard.join().unwrap();
    });
}
