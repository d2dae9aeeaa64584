//! A session that panics takes the connections of its bucket with it, and nothing else.

use braidnet::device::{Capabilities, memory};
use braidnet::message::Message;
use braidnet::stream::Processor;
use braidnet::wire::address::Tuple;
use braidnet::{
    Architecture, CloseReason, Connection, Event, Instant, Io, Server, ServerBuilder, Service,
    Session, Stack, StackConfig,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Sends back what it receives. At an exclamation mark it panics; and again when it is dropped for that.
#[derive(Default)]
struct Touchy {
    is_hurt: bool,
}

impl Service for Touchy {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Touchy::default())
    }
}

impl Session for Touchy {
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        for block in message.blocks() {
            self.is_hurt |= block.contains(&b'!');
        }
        assert!(!self.is_hurt, "I was shouted at");
        io.took(message.total_len());
        assert!(
            io.send(message).is_ok(),
            "there is space for what is under way"
        );
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(
            !self.is_hurt || std::thread::panicking(),
            "I was not to be touched"
        );
    }
}

/// Callers; of some buckets each has several.
const CALLERS: usize = 40;
/// Bytes that each says.
const LENGTH: usize = 20_000;
/// Who shouts, and when.
const SHOUTS: [(usize, usize); 3] = [(7, 0), (11, 9_999), (30, LENGTH - 1)];

fn config(address: &str) -> StackConfig {
    let mut config = StackConfig::new(address.parse().unwrap());
    config.buckets = 64;
    config
}

/// What a caller says.
fn text(caller: usize) -> Vec<u8> {
    let mut text: Vec<u8> = (0..LENGTH)
        .map(|at| b'a' + ((at + caller) % 23) as u8)
        .collect();
    for (_, at) in SHOUTS.iter().filter(|(who, _)| *who == caller) {
        text[*at] = b'!';
    }
    text
}

struct Callers {
    stack: Stack,
    now: Instant,
    calls: HashMap<Connection, usize>,
    said: Vec<usize>,
    heard: Vec<Vec<u8>>,
    reset: BTreeSet<usize>,
}

impl Callers {
    fn call(device: memory::WireEnd, count: usize) -> Callers {
        let mut stack = Stack::new(&config("10.0.0.1"), device).unwrap();
        let to = "10.0.0.2:7".parse().unwrap();
        Callers {
            calls: (0..count)
                .map(|caller| (stack.connect(to).unwrap(), caller))
                .collect(),
            stack,
            now: Instant::ZERO,
            said: vec![0; count],
            heard: vec![Vec::new(); count],
            reset: BTreeSet::new(),
        }
    }

    /// Goes on; whether everybody has heard all or has been reset.
    fn turn(&mut self) -> bool {
        self.now = Instant::from_nanos(self.now.nanos() + 1_000);
        self.stack.turn(self.now);
        while let Some(event) = self.stack.event() {
            if let Event::Closed(call, reason) = event {
                assert_eq!(reason, CloseReason::Reset);
                self.reset.insert(self.calls[&call]);
            }
        }
        for (&call, &caller) in &self.calls {
            let (said, heard) = (&mut self.said[caller], &mut self.heard[caller]);
            let end = LENGTH.min(heard.len() + 4_096);
            *said += self
                .stack
                .send(call, &text(caller)[*said..end])
                .unwrap_or(0);
            while let Some(message) = self.stack.receive_message(call) {
                message.blocks().for_each(|block| heard.extend(block));
            }
        }
        let over = |caller| self.reset.contains(&caller) || self.heard[caller].len() == LENGTH;
        self.calls.values().copied().all(over)
    }

    /// What was heard is right, and as many were reset as the server says.
    fn check<D>(&self, server: &Server<D>, what: &str) {
        for (caller, heard) in self.heard.iter().enumerate() {
            let text = text(caller);
            // Who shares a bucket may be reset after it has heard all.
            let is_over = heard.len() == LENGTH || self.reset.contains(&caller);
            assert!(is_over, "{what}, caller {caller}");
            assert!(text.starts_with(heard), "{what}, caller {caller}");
        }
        for (shouter, _) in SHOUTS {
            assert!(self.reset.contains(&shouter), "{what}, caller {shouter}");
        }
        // Those who share a bucket with one that shouts; by far not all.
        assert!(self.reset.len() < CALLERS / 2, "{what}: {:?}", self.reset);
        let counters = server.counters();
        assert_eq!(
            counters["services.poisoned"],
            self.reset.len() as u64,
            "{what}"
        );
        assert_eq!(
            server.connections(),
            (CALLERS - self.reset.len()) as u64,
            "{what}"
        );
        assert_eq!(counters.get("services.no_session"), None, "{what}");
    }
}

fn wired(architecture: Architecture) -> (memory::WireEnd, memory::WireEnd, ServerBuilder) {
    let (near, far) = memory::wire(Capabilities::ip(1500), 4_096);
    let builder = ServerBuilder::new(config("10.0.0.2"))
        .architecture(architecture, 3)
        .tcp(7, Touchy::default());
    (near, far, builder)
}

#[test]
fn others_go_on_where_the_server_is_turned() {
    for architecture in Architecture::UNDIVIDED {
        let (near, far, builder) = wired(architecture);
        let mut server = builder.turned(far).unwrap();
        let mut callers = Callers::call(near, CALLERS);
        while !callers.turn() {
            server.turn(callers.now, usize::MAX);
        }
        for _ in 0..10 {
            callers.turn();
            server.turn(callers.now, usize::MAX);
        }
        callers.check(&server, architecture.name());
    }
}

/// And who calls afterwards, into a bucket that was poisoned as into any other, is answered.
#[test]
fn others_go_on_where_the_server_runs() {
    for architecture in Architecture::UNDIVIDED {
        let (near, far, builder) = wired(architecture);
        let server = builder.start(far).unwrap();
        let mut callers = Callers::call(near, CALLERS);
        while !callers.turn() {
            std::thread::yield_now();
        }
        while server.connections() != (CALLERS - callers.reset.len()) as u64 {
            callers.turn();
            std::thread::yield_now();
        }
        callers.check(&server, architecture.name());
        let again: Vec<Connection> = (0..200)
            .map(|_| {
                callers
                    .stack
                    .connect("10.0.0.2:7".parse().unwrap())
                    .unwrap()
            })
            .collect();
        let mut answered = HashSet::new();
        while answered.len() < again.len() {
            callers.turn();
            for &call in &again {
                let _ = callers.stack.send(call, b"?");
                if callers.stack.receive_message(call).is_some() {
                    answered.insert(call);
                }
            }
            std::thread::yield_now();
        }
        assert!(!server.is_broken(), "{architecture}");
        server.stop().unwrap();
    }
}
