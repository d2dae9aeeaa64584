//! Datagrams in fragments, to servers on several processors, under every architecture.

use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, Transmitter, memory,
};
use braidnet::message::{Arena, Message, Pool, Run};
use braidnet::stream::Exclusion;
use braidnet::sync::lock::LockKind;
use braidnet::wire::address::Tuple;
use braidnet::wire::checksum::Sum;
use braidnet::{
    Architecture, DatagramService, Instant, Io, ServerBuilder, Service, Session, Stack, StackConfig,
};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes of a fragment's payload.
const EACH: usize = 504;

/// A way out over a router that cuts whatever passes, and sends the last fragment first.
struct Cutting(Box<dyn Device>);

impl Device for Cutting {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let arena = Arena::new(64 << 20);
        let pairs = self.0.open()?.into_iter().map(|pair| QueuePair {
            receiver: pair.receiver,
            transmitter: Box::new(Cutter::new(pair.transmitter, &arena)),
        });
        Ok(pairs.collect())
    }
}

struct Cutter {
    inner: Box<dyn Transmitter>,
    arena: Arc<Arena>,
    pool: Pool,
    waiting: Run,
    identification: u16,
}

impl Cutter {
    fn new(inner: Box<dyn Transmitter>, arena: &Arc<Arena>) -> Cutter {
        Cutter {
            inner,
            arena: arena.clone(),
            pool: Pool::new(arena),
            waiting: Run::new(),
            identification: 0,
        }
    }

    fn cut(&mut self, packet: &[u8]) {
        let (header, payload) = packet.split_at(20);
        let place = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let mut identification = u16::from_be_bytes([header[4], header[5]]);
        if place == 0 {
            self.identification = self.identification.wrapping_add(1);
            identification = self.identification;
        }
        let last = payload.len().saturating_sub(1) / EACH;
        for (index, part) in payload.chunks(EACH).enumerate().rev() {
            let more = if index < last { 0x2000 } else { 0 };
            let place = (place + (index * EACH / 8) as u16) | more;
            let mut header = header.to_vec();
            header[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            header[4..6].copy_from_slice(&identification.to_be_bytes());
            header[6..8].copy_from_slice(&place.to_be_bytes());
            header[10..12].fill(0);
            let checksum = Sum::of(&header).finish_bytes();
            header[10..12].copy_from_slice(&checksum);
            let fragment = [&header, part].concat();
            let message = self.pool.copy_from_slice(128, &fragment).unwrap();
            self.waiting.push(message);
        }
    }
}

impl Transmitter for Cutter {
    fn transmit(&mut self, run: &mut Run) {
        for message in run.drain() {
            let packet: Vec<u8> = message.blocks().flatten().copied().collect();
            self.cut(&packet);
        }
        self.inner.transmit(&mut self.waiting);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(Cutter::new(self.inner.another()?, &self.arena)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

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

impl DatagramService for Echo {
    fn datagram(&self, message: Message, _: &Tuple) -> Option<Message> {
        Some(message)
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect()
}

/// What arrives in fragments goes on to the processor that has its connection, and what is too long leaves in fragments.
#[test]
fn connections_and_datagrams_pass_through_a_router_that_cuts() {
    let lock = Exclusion::Lock(LockKind::Adaptive);
    let all = Architecture::UNDIVIDED.map(|architecture| (architecture, lock));
    let all = all
        .into_iter()
        .chain([(Architecture::Message, Exclusion::Delegation)]);
    for (architecture, exclusion) in all {
        let (near, far) = memory::wire(Capabilities::ip(1500), 1024);
        let config = StackConfig::new("10.0.0.1".parse().unwrap());
        let mut client = Stack::new(&config, Cutting(Box::new(near))).unwrap();
        let server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse().unwrap()))
            .architecture(architecture, 3)
            .exclusion(exclusion)
            .tcp(7, Echo)
            .udp(7, Echo)
            .start(far)
            .unwrap();
        let to = "10.0.0.2:7".parse().unwrap();
        let calls: Vec<_> = (0..8).map(|_| client.connect(to).unwrap()).collect();
        client.bind(9).unwrap();
        let (said, asked) = (text(100_000), text(20_000));
        let mut sent = [0; 8];
        let mut heard = vec![Vec::<u8>::new(); 8];
        let mut answers = 0;
        let mut now = Instant::ZERO;
        let mut waited = 0;
        while heard.iter().any(|heard| heard.len() < said.len()) || answers < 20 {
            now = Instant::from_nanos(now.nanos() + 1000);
            client.turn(now);
            for (index, call) in calls.iter().enumerate() {
                // No more on its way than the service has space to send back.
                let end = said.len().min(heard[index].len() + 8192);
                sent[index] += client.send(*call, &said[sent[index]..end]).unwrap_or(0);
                while let Some(message) = client.receive_message(*call) {
                    message
                        .blocks()
                        .for_each(|block| heard[index].extend(block));
                }
            }
            let mut answer = vec![0; 65_536];
            if let Ok(received) = client.receive_from(9, &mut answer) {
                assert!(answer[..received.len] == asked, "{architecture}");
                answers += 1;
                waited = 0;
            }
            if waited == 0 && answers < 20 {
                client.send_to(9, to, &asked).unwrap();
            }
            // Datagrams may be lost where a queue is full.
            waited = (waited + 1) % 20_000;
            std::thread::yield_now();
        }
        assert!(heard.iter().all(|heard| *heard == said), "{architecture}");
        let counters = server.counters();
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        assert!(
            count("fragments.reassembled") > 8 * 60,
            "{architecture}: {counters:?}"
        );
        assert!(count("ip.fragmented") >= 20, "{architecture}: {counters:?}");
        assert_eq!(count("fragments.misdirected"), 0, "{architecture}");
        server.stop().unwrap();
    }
}
