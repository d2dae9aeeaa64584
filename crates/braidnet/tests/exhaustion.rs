//! A server whose memory is used up, by data that it cannot get rid of and by data that it does not read: it still hears
//! what frees the memory, and then goes on.

use braidnet::device::{Capabilities, memory};
use braidnet::message::Message;
use braidnet::stream::Processor;
use braidnet::wire::address::Tuple;
use braidnet::{
    Architecture, Connection, Duration, Event, Instant, Io, Limits, Processors, Secrets, Server,
    ServerBuilder, Service, Session, Stack, StackConfig,
};

const RETRY: Duration = Duration::from_millis(20);
const FOUNTAIN: u16 = 19;
const SPONGE: u16 = 9;
/// Until this time the sponges keep what they get, and the clients do not read.
const HELD_UNTIL: Instant = Instant::from_millis(60_000);
const MEMORY: usize = 4 << 20;
const EACH: usize = 24;
/// What each connection carries in the end, several times its part of the memory.
const BYTES: usize = 400_000;

struct Fountains;

impl Service for Fountains {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Fountain { left: BYTES })
    }
}

/// Sends as much as it can, as soon as it can.
struct Fountain {
    left: usize,
}

impl Fountain {
    fn fill(&mut self, io: &mut Io<'_, '_>) {
        while io.space() > 0 && self.left > 0 {
            let written = io.write(&[7; 1400][..self.left.min(1400)]);
            self.left -= written;
            if written == 0 {
                return io.wake_at(io.now() + RETRY);
            }
        }
    }
}

impl Session for Fountain {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }

    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {}

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }
}

struct Sponges;

impl Service for Sponges {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Sponge::default())
    }
}

/// Keeps what it gets, until it lets go of everything.
#[derive(Default)]
struct Sponge(Vec<Message>);

impl Sponge {
    fn squeeze(&mut self, io: &mut Io<'_, '_>) {
        io.took(self.0.drain(..).map(|message| message.total_len()).sum());
    }
}

impl Session for Sponge {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        io.wake_at(HELD_UNTIL);
    }

    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        self.0.push(message);
        if io.now() >= HELD_UNTIL {
            self.squeeze(io);
        }
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        self.squeeze(io);
    }
}

struct World {
    client: Stack,
    server: Server<Processors>,
    now: Instant,
}

impl World {
    fn new(architecture: Architecture, processors: usize) -> World {
        let config = StackConfig {
            memory_bytes: MEMORY,
            ..StackConfig::new("10.0.0.2".parse().unwrap())
        };
        World::with(config, architecture, processors)
    }

    fn with(config: StackConfig, architecture: Architecture, processors: usize) -> World {
        let (near, far) = memory::wire(Capabilities::ip(1500), 4096);
        let client = Stack::new(
            &StackConfig::new("10.0.0.1".parse().unwrap()),
            near.copying(),
        )
        .unwrap();
        let server = ServerBuilder::new(config)
            .architecture(architecture, processors)
            .tcp(FOUNTAIN, Fountains)
            .tcp(SPONGE, Sponges)
            .turned(far.copying())
            .unwrap();
        World {
            client,
            server,
            now: Instant::from_millis(1000),
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(2);
        for _ in 0..4 {
            self.client.turn(self.now);
            self.server.turn(self.now, 256);
        }
        while let Some(event) = self.client.event() {
            assert!(!matches!(event, Event::Closed(..)), "{event:?}");
        }
    }

    fn connect(&mut self, port: u16) -> Vec<Connection> {
        let to = ([10, 0, 0, 2], port).into();
        let calls: Vec<_> = (0..EACH)
            .map(|_| self.client.connect(to).unwrap())
            .collect();
        (0..10).for_each(|_| self.step());
        calls
    }
}

#[test]
fn a_server_without_memory_hears_what_frees_it() {
    for architecture in Architecture::UNDIVIDED {
        for processors in [1, 2, 3] {
            let name = format!("{architecture} on {processors}");
            let mut world = World::new(architecture, processors);
            let sponges = world.connect(SPONGE);
            let fountains = world.connect(FOUNTAIN);
            let mut sent = [0; EACH];
            let mut heard = [0; EACH];
            let mut refused = 0;
            let end = HELD_UNTIL + Duration::from_secs(200);
            while sent.iter().chain(&heard).any(|bytes| *bytes < BYTES) {
                assert!(
                    world.now < end,
                    "{name}: {sent:?} {heard:?} {:?}",
                    world.server.counters()
                );
                for (at, call) in sponges.iter().enumerate() {
                    let left = [1; BYTES].get(sent[at]..).unwrap_or_default();
                    sent[at] += world.client.send(*call, left).unwrap();
                }
                if world.now >= HELD_UNTIL {
                    let mut buffer = [0; 16 << 10];
                    for (at, call) in fountains.iter().enumerate() {
                        heard[at] += world.client.receive(*call, &mut buffer).unwrap_or(0);
                    }
                } else {
                    let counters = world.server.counters();
                    refused = counters.get("tcp.text_refused").copied().unwrap_or(0);
                }
                world.step();
            }
            assert!(refused > 0, "{name}: memory was not used up");
        }
    }
}

/// More connections, and fewer again, while its processors turn.
#[test]
fn a_running_server_takes_new_limits() {
    for architecture in Architecture::UNDIVIDED {
        for processors in [1, 2] {
            let name = format!("{architecture} on {processors}");
            // Three buckets for connections, with room for sixteen each, and more than that dealt to each.
            let config = StackConfig {
                buckets: 4,
                connections: 0,
                secrets: Secrets {
                    flow_key: [1, 2],
                    isn_key: [3, 4],
                },
                ..StackConfig::new("10.0.0.2".parse().unwrap())
            };
            let fewer = config.limits();
            let more = Limits {
                connections: 1000,
                ..fewer
            };
            let mut world = World::with(config, architecture, processors);
            let refused = |world: &World| world.server.counters().get("tcp.table_full").copied();
            for _ in 0..3 {
                world.connect(SPONGE);
            }
            assert!(world.server.connections() <= 48, "{name}");
            assert!(refused(&world) >= Some(24), "{name}");
            world.server.set_limits(&more).unwrap();
            // Their SYNs come again.
            for _ in 0..1000 {
                world.step();
            }
            assert_eq!(world.server.connections(), 72, "{name}");
            world.server.set_limits(&fewer).unwrap();
            let before = refused(&world);
            let calls = world.connect(SPONGE);
            assert_eq!(world.server.connections(), 72, "{name}: all stay");
            assert!(refused(&world) > before, "{name}");
            calls.iter().for_each(|call| world.client.abort(*call));
            world.step();
        }
    }
}
