//! What routers say of packets that they do not pass on: a stack behind one, in virtual time.

use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, Receiver, Transmitter, memory,
};
use braidnet::inet::Paths;
use braidnet::message::{Pool, Run};
use braidnet::tcp::PathProbing;
use braidnet::wire::checksum::Sum;
use braidnet::{
    CloseReason, Connection, Duration, Event, Instant, Stack, StackConfig, Undelivered,
    WhyUndelivered,
};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

#[path = "paths/discovery.rs"]
mod discovery;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const ROUTER: [u8; 4] = [10, 9, 9, 9];

/// What a router does with a packet: passes it on, or says type, code and the next hop's MTU.
type Verdict = Arc<dyn Fn(&[u8]) -> Option<(u8, u8, u16)> + Send + Sync>;

/// The packets that a router drops without a word.
const SILENCE: u8 = 0;

/// A next hop's MTU that says: the router lies about where the packet was to go.
const LIE: u16 = 1;

/// A device with a router behind it.
struct Routed {
    inner: Box<dyn Device>,
    verdict: Verdict,
}

/// Its way in and out.
struct Way<T: ?Sized> {
    inner: Box<T>,
    verdict: Verdict,
    /// What the router has to say.
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Device for Routed {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let verdict = self.verdict;
        let pairs = self.inner.open()?.into_iter().map(|pair| {
            let said = Arc::<Mutex<Vec<Vec<u8>>>>::default();
            QueuePair {
                receiver: Box::new(Way {
                    inner: pair.receiver,
                    verdict: verdict.clone(),
                    said: said.clone(),
                }),
                transmitter: Box::new(Way {
                    inner: pair.transmitter,
                    verdict: verdict.clone(),
                    said,
                }),
            }
        });
        Ok(pairs.collect())
    }
}

impl Receiver for Way<dyn Receiver> {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut said = self.said.lock().unwrap();
        let count = said.len().min(max);
        for packet in said.drain(..count) {
            into.push(pool.copy_from_slice(64, &packet).unwrap());
        }
        count + self.inner.receive(pool, into, max - count)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_waiting(&self) -> bool {
        !self.said.lock().unwrap().is_empty() || self.inner.has_waiting()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl Transmitter for Way<dyn Transmitter> {
    fn transmit(&mut self, run: &mut Run) {
        let mut passed = Run::new();
        for message in run.drain() {
            let packet: Vec<u8> = message.blocks().flatten().copied().collect();
            match (self.verdict)(&packet) {
                None => passed.push(message),
                Some((SILENCE, ..)) => {}
                Some(said) => self.said.lock().unwrap().push(error(said, &packet)),
            }
        }
        self.inner.transmit(&mut passed);
        run.append(&mut passed);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(Way {
            inner: self.inner.another()?,
            verdict: self.verdict.clone(),
            said: self.said.clone(),
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

fn seal(bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let checksum = Sum::of(bytes).finish_bytes();
    bytes[at..at + 2].copy_from_slice(&checksum);
}

/// An ICMP error about a packet, with as much of it as RFC 792 asks for.
fn error((kind, code, mtu): (u8, u8, u16), about: &[u8]) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    let mut message = vec![kind, code, 0, 0, 0, 0, high, low];
    message.extend_from_slice(&about[..28]);
    if mtu == LIE {
        // Another port of the same host.
        message[8 + 23] ^= 1;
    }
    seal(&mut message, 2);
    let mut header = vec![
        0x45,
        0,
        0,
        20 + message.len() as u8,
        0,
        0,
        0,
        0,
        64,
        1,
        0,
        0,
    ];
    header.extend_from_slice(&ROUTER);
    header.extend_from_slice(&about[12..16]);
    seal(&mut header, 10);
    [header, message].concat()
}

/// Two stacks with a router between them, that judges what the client sends.
struct World {
    client: Stack,
    server: Stack,
    now: Instant,
    events: Vec<Event>,
}

impl World {
    fn new(
        change: impl FnOnce(&mut StackConfig),
        verdict: impl Fn(&[u8]) -> Option<(u8, u8, u16)> + Send + Sync + 'static,
    ) -> World {
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let routed = Routed {
            inner: Box::new(near),
            verdict: Arc::new(verdict),
        };
        let mut config = StackConfig::new(CLIENT.into());
        change(&mut config);
        let client = Stack::new(&config, routed).unwrap();
        let mut server = Stack::new(&StackConfig::new(SERVER.into()), far).unwrap();
        server.listen(7, 16).unwrap();
        World {
            client,
            server,
            now: Instant::from_millis(1000),
            events: Vec::new(),
        }
    }

    fn turn(&mut self) {
        self.now += Duration::from_millis(1);
        self.client.turn(self.now);
        self.server.turn(self.now);
        self.events
            .extend(core::iter::from_fn(|| self.client.event()));
    }

    /// Sends `text` over a new connection, and returns what arrives within a minute.
    fn transfer(&mut self, text: &[u8]) -> Vec<u8> {
        let (call, heard) = self.converse(text, usize::MAX);
        self.client.close(call);
        heard
    }

    /// The same in pieces of at most so many bytes, over a connection that stays.
    fn transfer_in(&mut self, text: &[u8], pieces: usize) -> Connection {
        let (call, heard) = self.converse(text, pieces);
        assert!(heard == text, "in {pieces}");
        call
    }

    fn converse(&mut self, text: &[u8], pieces: usize) -> (Connection, Vec<u8>) {
        let call = self.client.connect((SERVER, 7).into()).unwrap();
        let (mut sent, mut heard) = (0, Vec::new());
        let mut answer = None;
        for _ in 0..60_000 {
            self.turn();
            // Twenty bytes in a microsecond, so that a text takes many round trips.
            let until = text.len().min(sent + 20_000);
            while sent < until {
                let piece = &text[sent..text.len().min(sent.saturating_add(pieces))];
                match self.client.send(call, piece) {
                    Ok(bytes) if bytes > 0 => sent += bytes,
                    _ => break,
                }
            }
            while let Some(event) = self.server.event() {
                if let Event::Accepted(accepted) = event {
                    answer = Some(accepted);
                }
            }
            while let Some(message) = answer.and_then(|call| self.server.receive_message(call)) {
                message.blocks().for_each(|block| heard.extend(block));
            }
            if heard.len() == text.len() {
                break;
            }
        }
        (call, heard)
    }

    /// How an attempt to connect ends, and after how many milliseconds.
    fn attempt(&mut self) -> (CloseReason, u64) {
        let call = self.client.connect((SERVER, 7).into()).unwrap();
        for passed in 0..300_000 {
            self.turn();
            for event in self.events.drain(..) {
                match event {
                    Event::Closed(closed, reason) if closed == call => return (reason, passed),
                    Event::Connected(_) => panic!("connected"),
                    _ => {}
                }
            }
        }
        panic!("nothing happens");
    }

    fn count(&self, name: &str) -> u64 {
        self.client.counters().get(name).copied().unwrap_or(0)
    }
}

fn text() -> Vec<u8> {
    (0..300_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect()
}

/// A router whose next link carries packets of at most `mtu` bytes, and says `said` of it.
fn narrow(mtu: usize, said: u16) -> impl Fn(&[u8]) -> Option<(u8, u8, u16)> {
    move |packet| {
        let is_uncut = packet[6] & 0x40 != 0;
        (packet.len() > mtu).then(|| {
            assert!(is_uncut, "TCP says that its packets are not to be cut");
            (3, 4, said)
        })
    }
}

/// RFC 1191 §6.4, §6.5: the first segments that are too long are sent again in shorter ones at once; later connections to the same host begin with
/// those; and ten minutes later the device's MTU is tried again.
#[test]
fn a_path_that_is_narrow_is_found_and_remembered() {
    for (mtu, said) in [(1400, 1400), (1000, 1000), (552, 552), (576, 0), (600, 68)] {
        let mut world = World::new(|_| {}, narrow(mtu, said));
        let begun = world.now;
        assert!(world.transfer(&text()) == text(), "{mtu}");
        // No timeout was waited for.
        assert!(world.now.since(begun) < Duration::from_secs(1), "{mtu}");
        assert_eq!(world.count("tcp.path_shortened"), 1, "{mtu}");
        let told = world.count("icmp.fragmentation_needed_received");
        assert!(world.transfer(&text()) == text(), "{mtu}");
        let again = world.count("icmp.fragmentation_needed_received");
        assert_eq!((told > 0, again), (true, told), "{mtu}");
        world.now += Duration::from_secs(601);
        world.turn();
        assert!(world.transfer(&text()) == text(), "{mtu}");
        assert_eq!(world.count("tcp.path_shortened"), 2, "{mtu}");
    }
}

/// What is remembered is bounded, and can be nothing at all: each connection finds out for itself then.
#[test]
fn a_path_that_is_not_remembered_is_found_again() {
    let forgetful = Paths {
        lifetime: Duration::ZERO,
        ..Paths::default()
    };
    let mut world = World::new(|config| config.paths = forgetful, narrow(1000, 1000));
    for found in 1..=3 {
        assert!(world.transfer(&text()) == text());
        assert_eq!(world.count("tcp.path_shortened"), found);
    }
}

/// What is remembered is what the limits say at the time.
#[test]
fn a_running_stack_may_be_told_to_forget_paths() {
    let mut world = World::new(|_| {}, narrow(1000, 1000));
    let mut limits = StackConfig::new(CLIENT.into()).limits();
    let shortened = |world: &mut World| {
        assert!(world.transfer(&text()) == text());
        world.count("tcp.path_shortened")
    };
    assert_eq!([shortened(&mut world), shortened(&mut world)], [1, 1]);
    limits.paths.lifetime = Duration::ZERO;
    world.client.set_limits(&limits).unwrap();
    assert_eq!(shortened(&mut world), 1, "what is known stays known");
    world.now += Duration::from_secs(601);
    world.turn();
    assert_eq!([shortened(&mut world), shortened(&mut world)], [2, 3]);
    limits.paths.lifetime = Duration::from_secs(60);
    world.client.set_limits(&limits).unwrap();
    assert_eq!([shortened(&mut world), shortened(&mut world)], [4, 4]);
}

/// RFC 4821 §7.7, RFC 2923 §2.1: packets that are too long vanish, and nobody says so. Applications that write pieces of any length hear nothing of it.
#[test]
fn a_black_hole_is_found_and_measured() {
    for (mtu, pieces) in [(1400, 300_000), (1400, 700), (1100, 1460), (1000, 300_000)] {
        let vanish = move |packet: &[u8]| (packet.len() > mtu).then_some((SILENCE, 0, 0));
        let mut world = World::new(|_| {}, vanish);
        let call = world.transfer_in(&text().repeat(8), pieces);
        assert!(world.count("tcp.path_black_holes") > 0, "{mtu}");
        assert!(world.count("tcp.path_shortened") == 0, "{mtu}");
        let longer = world.count("tcp.path_widened");
        assert!(longer > 0 || mtu < 1064, "{mtu} in {pieces}");
        world.client.close(call);
    }
}

/// RFC 4821 §7.2: with probing from the first on, no timeout is needed.
#[test]
fn a_path_that_is_probed_always_is_found_without_a_timeout() {
    let vanish = |packet: &[u8]| (packet.len() > 1400).then_some((SILENCE, 0, 0));
    let mut world = World::new(
        |config| config.tcp.path_probing = PathProbing::Always,
        vanish,
    );
    let begun = world.now;
    let call = world.transfer_in(&text().repeat(8), usize::MAX);
    assert!(world.now.since(begun) < Duration::from_millis(600));
    world.client.close(call);
    assert_eq!(world.count("tcp.path_black_holes"), 0);
    assert!(world.count("tcp.path_widened") > 0);
    assert!(world.count("tcp.path_probes_lost") > 0);
}

/// RFC 5927 §7.2: a router may say what it likes of segments that arrive.
#[test]
fn segments_that_arrive_are_not_too_long() {
    let count = std::sync::atomic::AtomicU64::new(0);
    let mut world = World::new(
        |_| {},
        move |packet| {
            let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Of what is long, one in fifty is lost, with a lie.
            (packet.len() == 1500 && count % 50 == 49).then_some((3, 4, 600))
        },
    );
    assert!(world.transfer(&text()) == text());
    assert!(world.count("tcp.report_doubted") > 0);
    assert_eq!(world.count("tcp.path_shortened"), 0);
}

/// RFC 1122 §4.1.3.3: who sent a datagram hears what has become of it, from a router or the host itself.
#[test]
fn who_sends_datagrams_hears_of_those_that_are_not_delivered() {
    let rows = [
        (3, 3, WhyUndelivered::Refused),
        (3, 2, WhyUndelivered::Unreachable),
        (3, 13, WhyUndelivered::Unreachable),
        (3, 4, WhyUndelivered::TooLong { path_mtu: 20 }),
        (3, 0, WhyUndelivered::Lost),
        (11, 0, WhyUndelivered::Lost),
    ];
    let to = SocketAddr::from((SERVER, 9));
    for (kind, code, why) in rows {
        let mut world = World::new(|_| {}, move |_| Some((kind, code, 20)));
        world.client.bind(5000).unwrap();
        world.client.send_to(5000, to, b"hello").unwrap();
        assert_eq!(world.client.undelivered(5000), None);
        world.turn();
        world.turn();
        let heard = world.client.undelivered(5000);
        assert_eq!(heard, Some(Undelivered { to, why }), "{kind}/{code}");
        assert_eq!(world.client.undelivered(5000), None);
    }
    // Nobody listens there, and the host says so.
    let mut world = World::new(|_| {}, |_| None);
    world.client.bind(5000).unwrap();
    world.client.send_to(5000, to, b"hello").unwrap();
    (0..3).for_each(|_| world.turn());
    let why = WhyUndelivered::Refused;
    assert_eq!(
        world.client.undelivered(5000),
        Some(Undelivered { to, why })
    );
    // What nobody asks for is bounded, and what is said of a port that is gone finds nobody.
    let mut world = World::new(|_| {}, |_| Some((3, 1, 0)));
    world.client.bind(5000).unwrap();
    for _ in 0..40 {
        world.client.send_to(5000, to, b"hello").unwrap();
        world.turn();
    }
    world.client.send_to(5000, to, b"last").unwrap();
    world.turn();
    world.client.release(5000);
    world.turn();
    assert_eq!(world.count("udp.report_stale"), 1);
    assert!((23..=24).contains(&world.count("udp.reports_full")));
}

/// Class 35: what is said of datagrams that did not leave from here is not told.
#[test]
fn nobody_hears_of_datagrams_that_were_not_sent() {
    // The router says of each datagram that it went elsewhere.
    let mut world = World::new(|_| {}, |_| Some((3, 3, LIE)));
    world.client.bind(5000).unwrap();
    let to = SocketAddr::from((SERVER, 9));
    world.client.send_to(5000, to, b"hello").unwrap();
    (0..3).for_each(|_| world.turn());
    assert_eq!(world.client.undelivered(5000), None);
    assert_eq!(world.count("udp.report_not_sent_there"), 1);
}

/// RFC 1122 §4.2.3.9: what is for good ends an attempt at once, what may pass does not, but is what it is told in the end.
#[test]
fn attempts_end_as_the_network_says() {
    let rows = [
        (3, 3, CloseReason::Refused, true),
        (3, 2, CloseReason::Unreachable, true),
        (3, 9, CloseReason::Unreachable, true),
        (3, 10, CloseReason::Unreachable, true),
        (3, 13, CloseReason::Unreachable, true),
        (3, 0, CloseReason::Unreachable, false),
        (3, 1, CloseReason::Unreachable, false),
        (3, 5, CloseReason::Unreachable, false),
        (11, 0, CloseReason::Unreachable, false),
        (12, 0, CloseReason::Unreachable, false),
        (SILENCE, 0, CloseReason::TimedOut, false),
        // Source quench (RFC 6633 §3).
        (4, 0, CloseReason::TimedOut, false),
    ];
    for (kind, code, reason, at_once) in rows {
        let mut world = World::new(|_| {}, move |_| Some((kind, code, 0)));
        let (ended, after) = world.attempt();
        assert_eq!((ended, after < 10), (reason, at_once), "{kind}/{code}");
    }
}

/// RFC 5927 §5.2: an established connection outlives whatever is said of it.
#[test]
fn a_connection_outlives_what_is_said() {
    for (kind, code) in [(3, 0), (3, 2), (3, 3), (3, 13), (11, 0), (12, 0)] {
        let count = std::sync::atomic::AtomicU64::new(0);
        let mut world = World::new(
            |_| {},
            move |packet| {
                let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                // The handshake passes, and of the rest all but every seventh.
                (packet.len() > 100 && count % 7 == 3).then_some((kind, code, 0))
            },
        );
        assert!(world.transfer(&text()) == text(), "{kind}/{code}");
        assert!(world.count("tcp.undelivered") > 0, "{kind}/{code}");
        assert_eq!(world.count("tcp.unreachable"), 0);
    }
}
