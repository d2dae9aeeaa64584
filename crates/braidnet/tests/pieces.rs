//! Where a device takes several segments at once, what is written goes down in long pieces, and in short ones where there are no long buffers.

use braidnet::device::memory::{self, WireEnd};
use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, Offloads, QueuePair, Transmitter,
};
use braidnet::message::{Checksum, Message, Run};
use braidnet::stream::Processor;
use braidnet::wire::address::Tuple;
use braidnet::wire::checksum::Sum;
use braidnet::{
    Architecture, Instant, Io, Processors, Server, ServerBuilder, Service, Session, Stack,
    StackConfig,
};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PORT: u16 = 19;
const HEADROOM: usize = 128;

/// One end of a wire in memory that takes trains, and makes checksums of what is none.
struct Cutting {
    capabilities: Capabilities,
    wire: WireEnd,
}

impl Cutting {
    fn over(wire: WireEnd) -> Cutting {
        let offloads = Offloads::ALL;
        let capabilities = Capabilities {
            offloads,
            ..*wire.capabilities()
        };
        Cutting { capabilities, wire }
    }
}

impl Device for Cutting {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let mut queues = Box::new(self.wire).open()?;
        for queue in &mut queues {
            let wire = queue.transmitter.another()?;
            queue.transmitter = Box::new(Completing(wire));
        }
        Ok(queues)
    }
}

/// What leaves has its checksum; trains get lost.
struct Completing(Box<dyn Transmitter>);

impl Transmitter for Completing {
    fn transmit(&mut self, run: &mut Run) {
        let mut left: Run = run.drain().filter_map(completed).collect();
        self.0.transmit(&mut left);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(Completing(self.0.another()?)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

fn completed(mut message: Message) -> Option<Message> {
    if message.segment_bytes() != 0 {
        return None;
    }
    if message.checksum() == Checksum::Partial {
        let packet: Vec<u8> = message.blocks().flatten().copied().collect();
        let checksum = Sum::of(&packet[20..]).finish_bytes();
        message.front_mut(38)?[36..].copy_from_slice(&checksum);
        message.set_checksum(Checksum::Stands);
    }
    Some(message)
}

/// Has all long buffers taken away, and writes.
#[derive(Clone)]
struct Writing {
    without_long: bool,
    written: Arc<AtomicUsize>,
}

impl Service for Writing {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(self.clone())
    }
}

impl Session for Writing {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        assert!(io.piece() > 10 * io.mss());
        let piece = io.piece().min(20_000);
        let few = |io: &mut Io<'_, '_>| Vec::from_iter((0..32).map_while(|_| io.allocate(1460)));
        let short = few(io);
        let mut long = Vec::new();
        while self.without_long
            && let Some(buffer) = io.pool().allocate_spare(HEADROOM, piece)
        {
            long.push(buffer);
        }
        drop(short);
        let written = io.write(&vec![7; piece]);
        self.written.store(written, Ordering::Relaxed);
    }

    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {}
}

#[test]
fn a_service_writes_in_short_buffers_where_there_are_no_long_ones() {
    for without_long in [false, true] {
        let written = Arc::new(AtomicUsize::new(0));
        let (near, far) = memory::wire(Capabilities::ip(1500), 64);
        let config = |address: &str| StackConfig {
            memory_bytes: 4 << 20,
            ..StackConfig::new(address.parse().unwrap())
        };
        let mut client = Stack::new(&config("10.0.0.1"), near.copying()).unwrap();
        let service = Writing {
            without_long,
            written: written.clone(),
        };
        let mut server: Server<Processors> = ServerBuilder::new(config("10.0.0.2"))
            .architecture(Architecture::Connection, 1)
            .tcp(PORT, service)
            .turned(Cutting::over(far.copying()))
            .unwrap();
        client.connect(([10, 0, 0, 2], PORT).into()).unwrap();
        for turn in 0..10 {
            let now = Instant::from_millis(1000 + turn);
            client.turn(now);
            server.turn(now, 256);
        }
        assert_eq!(written.load(Ordering::Relaxed), 20_000, "{without_long}");
    }
}
