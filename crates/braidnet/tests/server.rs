//! A server on processors of its own.

use braidnet::device::{Capabilities, memory};
use braidnet::inet::tcp::TcpLocks;
use braidnet::message::Message;
use braidnet::stream::{Arrival, Exclusion, Processor};
use braidnet::sync::group::MemberError;
use braidnet::sync::lock::LockKind;
use braidnet::wire::address::Tuple;
use braidnet::{
    Architecture, DatagramService, Event, Instant, Io, Piece, ServerBuilder, Service, Session,
    Stack, StackConfig,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Sends back what it receives.
struct Echo;

impl Service for Echo {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Echo)
    }
}

impl Session for Echo {
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        io.took(message.total_len());
        let _ = io.send(message);
    }
}

/// Takes pieces in any order, and has the connection closed when all have come.
#[derive(Default)]
struct Pieces(Arc<Collected>);

#[derive(Default)]
struct Collected {
    /// Each by its offset.
    pieces: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// How many bytes they have.
    seen: AtomicU64,
    /// How many bytes there are, once that is known.
    all: AtomicU64,
}

impl Service for Pieces {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Pieces(self.0.clone()))
    }

    fn declines_order(&self) -> bool {
        true
    }

    fn piece(&self, piece: &Piece<'_>) {
        assert_eq!(piece.tuple().local_port, 9);
        let bytes: Vec<u8> = piece.blocks().flatten().copied().collect();
        assert_eq!(bytes.len(), piece.len());
        self.0.seen.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let before = self.0.pieces.lock().unwrap().insert(piece.offset(), bytes);
        assert_eq!(before, None, "each piece comes once");
    }
}

impl Session for Pieces {
    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {
        unreachable!("the service has declined order")
    }

    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        self.0.all.store(io.received(), Ordering::Release);
        io.close();
    }
}

/// Panics at every datagram, outside every bucket.
struct Datagrams;

impl DatagramService for Datagrams {
    fn datagram(&self, _: Message, _: &Tuple) -> Option<Message> {
        panic!("I was shouted at")
    }
}

/// Has a server's processor panic, and stops it.
fn break_one(architecture: Architecture) -> MemberError {
    let (near, far) = memory::wire(Capabilities::ip(1500), 256);
    let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse().unwrap()), near).unwrap();
    let server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
        .architecture(architecture, 2)
        .udp(7, Datagrams)
        .start(far)
        .unwrap();
    client.bind(8).unwrap();
    let to = "10.0.0.2:7".parse().unwrap();
    client.send_to(8, to, b"hello!").unwrap();
    while !server.is_broken() {
        client.turn(Instant::ZERO);
        std::thread::yield_now();
    }
    server.stop().unwrap_err()
}

#[test]
fn a_panic_of_a_processor_is_noticed_and_reported() {
    for architecture in Architecture::UNDIVIDED {
        let error = break_one(architecture);
        assert!(matches!(error, MemberError::Panicked(_)), "{error}");
        assert!(error.to_string().contains("I was shouted at"), "{error}");
    }
}

/// Each byte comes once, and with its place, beside a service that takes its bytes in order; on threads, and much more than a window.
#[test]
fn a_service_that_declines_order_gets_every_byte_with_its_place() {
    for architecture in Architecture::UNDIVIDED {
        for exclusion in [Exclusion::Lock(LockKind::Adaptive), Exclusion::Delegation] {
            if exclusion == Exclusion::Delegation && architecture != Architecture::Message {
                continue;
            }
            let (near, far) = memory::wire(Capabilities::ip(1500), 256);
            let mut client =
                Stack::new(&StackConfig::new("10.0.0.1".parse().unwrap()), near).unwrap();
            let service = Pieces::default();
            let collected = service.0.clone();
            let server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
                .architecture(architecture, 3)
                .exclusion(exclusion)
                .tcp(7, Echo)
                .tcp(9, service)
                .start(far)
                .unwrap();
            let call = client.connect("10.0.0.2:9".parse().unwrap()).unwrap();
            let echo = client.connect("10.0.0.2:7".parse().unwrap()).unwrap();
            let text: Vec<u8> = (0..1 << 20)
                .map(|n: u32| (n.wrapping_mul(n) >> 7) as u8)
                .collect();
            let (mut sent, mut echoed, mut back) = (0, 0, Vec::<u8>::new());
            let (mut now, mut is_closed) = (Instant::ZERO, false);
            // The last pieces may come after the news that there are no more.
            while collected.all.load(Ordering::Acquire) == 0
                || collected.seen.load(Ordering::Relaxed) < text.len() as u64
                || back.len() < 100
            {
                now = Instant::from_nanos(now.nanos() + 1000);
                client.turn(now);
                if sent < text.len() {
                    sent += client.send(call, &text[sent..]).unwrap_or(0);
                } else if !is_closed {
                    client.close(call);
                    is_closed = true;
                }
                if echoed < 100 {
                    echoed += client.send(echo, &text[echoed..100]).unwrap_or(0);
                }
                while let Some(message) = client.receive_message(echo) {
                    message.blocks().for_each(|block| back.extend(block));
                }
                std::thread::yield_now();
            }
            assert_eq!(collected.all.load(Ordering::Acquire), text.len() as u64);
            server.stop().unwrap();
            let mut bytes: Vec<u8> = Vec::new();
            for (offset, piece) in collected.pieces.lock().unwrap().iter() {
                assert_eq!(*offset, bytes.len() as u64, "{architecture} {exclusion:?}");
                bytes.extend(piece);
            }
            assert!(bytes == text, "{architecture} {exclusion:?}");
            assert!(back == text[..100], "{architecture} {exclusion:?}");
        }
    }
}

#[test]
fn a_device_that_is_gone_is_noticed() {
    for architecture in Architecture::UNDIVIDED {
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let mut server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
            .architecture(architecture, 2)
            .tcp(7, Echo)
            .turned(far)
            .unwrap();
        server.turn(Instant::ZERO, 1);
        assert!(!server.is_gone(), "{architecture}");
        drop(near);
        server.turn(Instant::ZERO, 1);
        assert!(server.is_gone(), "{architecture}");
    }
}

/// A session takes a connection up as soon as it is opened: one place is enough for any number of callers.
#[test]
fn a_service_accepts_at_once() {
    for architecture in Architecture::UNDIVIDED {
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse().unwrap()), near).unwrap();
        let mut server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
            .architecture(architecture, 2)
            .backlog(1)
            .tcp(7, Echo)
            .turned(far)
            .unwrap();
        for callers in 1..=50 {
            let call = client.connect("10.0.0.2:7".parse().unwrap()).unwrap();
            for _ in 0..10 {
                client.turn(Instant::ZERO);
                server.turn(Instant::ZERO, usize::MAX);
            }
            assert_eq!(client.event(), Some(Event::Connected(call)));
            assert_eq!(server.connections(), callers, "{architecture}");
        }
    }
}

/// Under traffic: while it is suspended nothing moves, and nothing is lost by it.
#[test]
fn a_suspended_server_stands_still_and_goes_on() {
    for architecture in Architecture::UNDIVIDED {
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse().unwrap()), near).unwrap();
        let server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
            .architecture(architecture, 2)
            .tcp(7, Echo)
            .start(far)
            .unwrap();
        let call = client.connect("10.0.0.2:7".parse().unwrap()).unwrap();
        let text: Vec<u8> = (0..1 << 20).map(|n: u32| b'a' + (n % 23) as u8).collect();
        let (mut sent, mut back) = (0, Vec::new());
        let mut now = Instant::ZERO;
        let mut turn = |client: &mut Stack, sent: &mut usize, back: &mut Vec<u8>| {
            now = Instant::from_nanos(now.nanos() + 1000);
            client.turn(now);
            // No more on its way than the service has space to send back.
            let end = text.len().min(back.len() + 8192);
            *sent += client.send(call, &text[*sent..end]).unwrap_or(0);
            while let Some(message) = client.receive_message(call) {
                message.blocks().for_each(|block| back.extend(block));
            }
        };
        let mut suspensions = 0;
        while back.len() < text.len() {
            turn(&mut client, &mut sent, &mut back);
            std::thread::yield_now();
            if back.len() >= suspensions * 50_000 {
                suspensions += 1;
                server.suspend();
                server.suspend();
                assert!(server.resume());
                let before = server.counters();
                turn(&mut client, &mut sent, &mut back);
                std::thread::yield_now();
                assert_eq!(server.counters(), before, "{architecture}");
                assert!(server.resume() && !server.resume());
            }
        }
        assert!(back == text, "{architecture}");
        server.suspend();
        server.stop().unwrap();
    }
}

/// Before a thread or a file is made.
#[test]
fn what_an_architecture_cannot_be_is_refused_beforehand() {
    let server = || ServerBuilder::new(StackConfig::new([10, 0, 0, 2].into()));
    let (device, _far) = memory::wire(Capabilities::ip(1500), 1);
    let rows = [
        (
            server().architecture(Architecture::Braid, 66),
            "65 processors at most",
        ),
        (
            server().architecture(Architecture::Task, 0),
            "at least one processor",
        ),
        (
            server().architecture(Architecture::Function, 2),
            "divide its work",
        ),
        (server().tcp_locks(TcpLocks::Six), "there is none"),
        (
            server().exclusion(Exclusion::Delegation),
            "delegated perimeters",
        ),
        (server().arrival(Arrival::Numbered), "an order of arrival"),
    ];
    for (builder, words) in rows {
        let refusal = builder.check(&device).unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
    let most = server().architecture(Architecture::Braid, 65);
    assert!(most.check(&device).is_ok());
    let shared = server()
        .architecture(Architecture::Message, 2)
        .exclusion(Exclusion::Delegation)
        .arrival(Arrival::Numbered)
        .tcp_locks(TcpLocks::Six);
    assert!(shared.check(&device).is_ok());
}
