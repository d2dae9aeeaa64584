//! A stack whose memory is used up: late, but nothing is lost.

use crate::pair::{CLIENT, PORT, Pair, SERVER, closed, read, server, text};
use crate::wire::Impairment;
use braidnet::device::{Capabilities, memory};
use braidnet::message::{Message, Run};
use braidnet::stream::{BucketId, Context, Direction, Key, Module, Next, Stages, State};
use braidnet::{CloseReason, Connection, Duration, Event, Instant, Stack, StackConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A module that takes every buffer there is when all is done that something on its way down brought about, if it is told
/// to.
#[derive(Clone, Default)]
struct Hoarder {
    greedy: Arc<AtomicBool>,
    hoard: Arc<Mutex<Vec<Message>>>,
}

impl Module for Hoarder {
    fn name(&self) -> &'static str {
        "hoarder"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_DOWN | Stages::SETTLE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(())
    }

    fn core(&self, _: &mut dyn State, _: Direction, _: &mut Run, _: &mut Context<'_>) {}

    fn settle(&self, _: &mut dyn State, cx: &mut Context<'_>) {
        if self.greedy.load(Ordering::Relaxed) {
            let mut hoard = self.hoard.lock().unwrap();
            for size in [60_000, 4000, 1000, 100, 0] {
                hoard.extend(std::iter::from_fn(|| cx.pool().allocate(0, size)));
            }
        }
    }
}

/// Two stacks on a wire that lends its packets, so that receiving takes no buffer; the client's buffers can be taken away.
struct Rig {
    client: Stack,
    server: Stack,
    hoarder: Hoarder,
    now: Instant,
    events: Vec<Event>,
    /// A connection, established, and its other end.
    call: Connection,
    answer: Connection,
    /// Another one, and its other end.
    spare: Connection,
    spare_answer: Connection,
}

impl Rig {
    fn new() -> Rig {
        let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
        let hoarder = Hoarder::default();
        let config = |address: [u8; 4]| StackConfig {
            memory_bytes: 4 << 20,
            ..StackConfig::new(address.into())
        };
        let client = Stack::with_modules(&config(CLIENT), here, |above| {
            above.push(hoarder.clone());
        });
        let (mut client, mut accepting) =
            (client.unwrap(), Stack::new(&config(SERVER), there).unwrap());
        let now = Instant::from_millis(5);
        accepting.listen(PORT, 16).unwrap();
        let mut connect = || {
            let call = client.connect(server(PORT)).unwrap();
            // Idle turns too: in them, what one has freed of the other's goes home.
            for _ in 0..20 {
                client.turn(now);
                accepting.turn(now);
            }
            assert_eq!(client.event(), Some(Event::Connected(call)));
            let Some(Event::Accepted(answer)) = accepting.event() else {
                panic!("nobody called")
            };
            (call, answer)
        };
        let (call, answer) = connect();
        let (spare, spare_answer) = connect();
        Rig {
            client,
            server: accepting,
            hoarder,
            now,
            events: Vec::new(),
            call,
            spare,
            spare_answer,
            answer,
        }
    }

    /// Turns the client alone.
    fn turn(&mut self) -> Next {
        let next = self.client.turn(self.now);
        self.events
            .extend(std::iter::from_fn(|| self.client.event()));
        next
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.turn();
            self.server.turn(self.now);
        }
    }

    /// Turns the client alone whenever it asks for it, `time` long.
    fn pass_alone(&mut self, time: Duration) {
        let end = self.now + time;
        while let Next::At(at) = self.turn() {
            if at > end {
                break;
            }
            self.now = at.max(self.now + Duration::from_nanos(1));
        }
        self.now = end;
        self.turn();
    }

    /// Takes all of the client's buffers away, those of its reserve too, with a byte that finds none to leave in.
    fn exhaust(&mut self) {
        self.hoarder.greedy.store(true, Ordering::Relaxed);
        assert_eq!(self.client.send(self.call, b"x"), Ok(1));
        self.turn();
        assert_eq!(self.client.send(self.call, b"x"), Ok(0), "the last buffers");
    }

    fn release(&mut self) {
        self.hoarder.greedy.store(false, Ordering::Relaxed);
        self.hoarder.hoard.lock().unwrap().clear();
    }

    fn counted(&self, name: &str) -> u64 {
        self.client.counters().get(name).copied().unwrap_or(0)
    }
}

#[test]
fn the_end_of_a_connection_is_told_when_there_is_memory_again() {
    let mut rig = Rig::new();
    rig.exhaust();
    // Nobody answers: the connection is given up.
    rig.pass_alone(Duration::from_secs(2000));
    assert!(rig.counted("tcp.untold") > 0, "{:?}", rig.client.counters());
    rig.release();
    rig.pass_alone(Duration::from_secs(1));
    assert_eq!(
        closed(&rig.events, rig.call),
        Some(CloseReason::TimedOut),
        "{:?}",
        rig.events
    );
    rig.client.forget(rig.call);
    assert_eq!(rig.turn(), Next::Idle);
}

#[test]
fn data_for_which_there_is_no_memory_comes_again() {
    let mut rig = Rig::new();
    rig.exhaust();
    assert_eq!(rig.server.send(rig.answer, b"last words"), Ok(10));
    rig.server.close(rig.answer);
    rig.settle();
    assert_eq!(rig.events, []);
    assert_eq!(rig.client.readable(rig.call), 0);
    assert!(rig.counted("tcp.text_refused") > 0);
    rig.release();
    for _ in 0..20 {
        rig.now += Duration::from_millis(200);
        rig.settle();
    }
    assert_eq!(rig.events, [Event::EndOfData(rig.call)]);
    assert_eq!(read(&mut rig.client, rig.call), b"last words");
    assert_eq!(read(&mut rig.server, rig.answer), b"x");
}

#[test]
fn a_reset_is_told_when_there_is_memory_again() {
    let mut rig = Rig::new();
    // Without anything of its own to send, the connection frees nothing when it ends.
    let answer = rig.spare_answer;
    rig.exhaust();
    rig.server.abort(answer);
    rig.settle();
    assert_eq!(rig.events, []);
    assert!(rig.counted("tcp.untold") > 0, "{:?}", rig.client.counters());
    rig.release();
    rig.pass_alone(Duration::from_secs(1));
    let reset = Event::Closed(rig.spare, CloseReason::Reset);
    assert_eq!(rig.events, [reset]);
}

#[test]
fn a_connection_opens_without_memory_and_its_data_follows() {
    let mut rig = Rig::new();
    let second = rig.client.connect(server(PORT)).unwrap();
    rig.turn();
    rig.exhaust();
    rig.settle();
    assert!(rig.events.contains(&Event::Connected(second)));
    rig.release();
    for _ in 0..20 {
        rig.now += Duration::from_millis(200);
        rig.settle();
    }
    let answer = std::iter::from_fn(|| rig.server.event())
        .find_map(|event| match event {
            Event::Accepted(answer) => Some(answer),
            _ => None,
        })
        .expect("the handshake ends");
    assert_eq!(rig.client.send(second, b"hello"), Ok(5));
    rig.settle();
    assert_eq!(read(&mut rig.server, answer), b"hello");
}

#[test]
fn what_is_asked_for_without_memory_is_done_when_there_is_some() {
    let mut rig = Rig::new();
    rig.exhaust();
    let calls: Vec<_> = std::iter::repeat_with(|| rig.client.connect(server(PORT)))
        .take(4)
        .flatten()
        .collect();
    for call in &calls {
        rig.client.close(*call);
    }
    rig.client.close(rig.call);
    rig.turn();
    rig.release();
    for _ in 0..20 {
        rig.now += Duration::from_millis(200);
        rig.settle();
    }
    // RFC 9293 §3.9.1.4: what was sent before has come, and then the end.
    assert_eq!(read(&mut rig.server, rig.answer), b"x");
    assert_eq!(rig.server.receive(rig.answer, &mut [0; 8]), Ok(0));
}

#[test]
fn bytes_that_come_one_by_one_and_are_not_read_share_buffers() {
    const BYTES: usize = 20_000;
    let mut pair = Pair::with(
        Capabilities::ip(1500),
        |config| {
            config.memory_bytes = 2 << 20;
            // A segment for each byte.
            config.tcp.nagle = false;
        },
        Impairment::default(),
    );
    let (call, answer) = pair.connected();
    let sent = text(BYTES);
    for byte in sent.chunks(1) {
        assert_eq!(pair.client.send(call, byte), Ok(1));
        pair.settle();
    }
    assert_eq!(pair.server.readable(answer), BYTES);
    assert_eq!(pair.server.send(answer, b"still here"), Ok(10));
    let mut heard = vec![0; BYTES];
    assert_eq!(pair.server.receive(answer, &mut heard), Ok(BYTES));
    assert!(heard == sent);
}

/// A client whose memory is one slab of buffers, for what it sends and for all that is said about it; a server, and a connection's
/// two ends.
fn narrow() -> (Stack, Stack, Connection, Connection) {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let config = StackConfig {
        memory_bytes: 160_000,
        ..StackConfig::new(CLIENT.into())
    };
    let mut client = Stack::new(&config, here.copying()).unwrap();
    let mut server_stack = Stack::new(&StackConfig::new(SERVER.into()), there.copying()).unwrap();
    server_stack.listen(PORT, 16).unwrap();
    let call = client.connect(server(PORT)).unwrap();
    for _ in 0..20 {
        client.turn(Instant::from_millis(5));
        server_stack.turn(Instant::from_millis(5));
    }
    let answer = std::iter::from_fn(|| server_stack.event()).find_map(|event| match event {
        Event::Accepted(answer) => Some(answer),
        _ => None,
    });
    (client, server_stack, call, answer.expect("connected"))
}

#[test]
fn what_fills_the_memory_finds_a_buffer_to_leave_in() {
    // As much as can be written: once to learn how much that is, then so much and no more, so that nobody is refused.
    let (mut client, _, call, _) = narrow();
    let all = text(1 << 20);
    let most = client.send(call, &all).unwrap();
    assert!(
        0 < most && most < client.send_space(call),
        "memory ends first"
    );

    let (mut client, mut server, call, answer) = narrow();
    assert_eq!(client.send(call, &all[..most]), Ok(most));
    let mut heard = Vec::new();
    let mut now = Instant::from_millis(5);
    while heard.len() < most {
        assert!(
            now < Instant::from_millis(60_000),
            "{} {:?}",
            heard.len(),
            client.counters()
        );
        now += Duration::from_millis(5);
        client.turn(now);
        server.turn(now);
        heard.extend(read(&mut server, answer));
    }
    assert!(heard == all[..most]);
}

/// Of the stack's memory a part is for receive buffers to grow by, more of it or less while it runs.
#[test]
fn a_smaller_and_a_larger_part_for_buffers_that_grow() {
    const BEGINS_WITH: u32 = 16 << 10;
    let mut pair = Pair::with(
        Capabilities::ip(1500),
        |config| {
            config.tcp.receive_buffer_bytes = BEGINS_WITH;
            config.batch = 4;
        },
        Impairment::default(),
    );
    // It takes some milliseconds until the client answers, and the server's application has read a few packets before the next come.
    let turn = |pair: &mut Pair, answer: Option<Connection>| {
        pair.now += Duration::from_millis(5);
        while pair.client.turn(pair.now) == Next::Again {}
        while pair.server.turn(pair.now) == Next::Again {
            answer.map(|answer| read(&mut pair.server, answer));
        }
    };
    let call = pair.client.connect(server(PORT)).unwrap();
    (0..4).for_each(|_| turn(&mut pair, None));
    let Some(Event::Accepted(answer)) = pair.server.event() else {
        panic!("nobody has called");
    };
    let tuple = pair.server.tuple(answer).unwrap();
    let mut limits = StackConfig::new(SERVER.into()).limits();
    // The client has more to send than the server's window takes, which is read at once; what the window has become.
    let mut window_with = |part: usize, refused: bool| {
        limits.parts.tcp.growth = part;
        pair.server.set_limits(&limits).unwrap();
        let refusals = |pair: &Pair| pair.server.counters().get("tcp.growth_refused").copied();
        let before = refusals(&pair);
        for _ in 0..60 {
            pair.client.send(call, &[7; 1 << 20]).unwrap();
            turn(&mut pair, Some(answer));
        }
        assert_eq!(refusals(&pair) > before, refused, "{part}");
        pair.server.status(&tuple).unwrap().rcv_wnd
    };
    // Of 256 MiB, 4 KiB, 64 KiB and 64 MiB.
    let rows = [
        (65_536, true, 0..=BEGINS_WITH),
        (4096, true, 2 * BEGINS_WITH..=4 * BEGINS_WITH),
        (4, false, 1 << 20..=4 << 20),
        (65_536, false, 1 << 20..=4 << 20),
    ];
    for (part, refused, windows) in rows {
        let window = window_with(part, refused);
        assert!(windows.contains(&window), "{part}: {window}");
    }
}
