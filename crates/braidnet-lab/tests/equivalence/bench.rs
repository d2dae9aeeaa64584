//! The stack under test between the far end's wire and its services, whoever turns it.

use crate::cipher::Cipher;
use crate::inject::NEAR;
use crate::outside::Outside;
use crate::queues::Dealt;
use crate::random::Random;
use crate::recorder::{Book, Planted, Recorder, SERVED};
use crate::script::Length;
use crate::tap::{Gate, Injector, Moved, Tapped, Trace};
use braidnet::{Stack, StackConfig};
use braidnet_device::{Capabilities, Device, memory};
use braidnet_inet::tcp::{Tcp, TcpConfig, TcpLocks};
use braidnet_inet::{Flows, Inet, Interface, InterfaceConfig};
use braidnet_message::{Arena, Pool, Run};
use braidnet_process::{Architecture, Plan, Sharing, Worker};
use braidnet_stream::{
    Arrival, Context, Counters, Direction, Exclusion, Extent, Module, Stages, Stream,
};
use braidnet_sync::lock::LockKind;
use braidnet_sync::parker::{Parker, Unparker};
use braidnet_sync::primitives::yield_now;
use braidnet_tcp::Config;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One way of turning the stack.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub architecture: Architecture,
    pub exclusion: Exclusion,
    pub arrival: Arrival,
    pub extent: Extent,
    pub sharing: Sharing,
    pub tcp_locks: TcpLocks,
    pub processors: usize,
    /// Receive queues of the device.
    pub queues: usize,
    pub batch: usize,
    pub length: Length,
    /// Whether what services have to say is sent by applications, outside of their sessions.
    pub outside: bool,
    pub seed: u64,
    pub planted: Option<Planted>,
    /// Whether an order-free function stands between TCP and the services.
    pub between: bool,
}

/// What processors have shared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Shared {
    /// How often one has let others share its work.
    pub admitted: u64,
    /// Buckets that one has given to another for good.
    pub moved: u64,
}

impl std::ops::AddAssign for Shared {
    fn add_assign(&mut self, other: Shared) {
        self.admitted += other.admitted;
        self.moved += other.moved;
    }
}

impl Setup {
    /// Work is shared as soon as there is any, and for as long as it takes.
    pub const EAGER: Sharing = Sharing {
        behind: braidnet_wire::time::Duration::ZERO,
        spare: braidnet_wire::time::Duration::ZERO,
        calm: braidnet_wire::time::Duration::from_millis(1),
        lasting: braidnet_wire::time::Duration::from_millis(1),
    };

    /// Every legal combination on so many processors: only `message` has perimeters to choose from.
    pub fn all(processors: usize) -> Vec<Setup> {
        let setup = |architecture, exclusion, arrival, tcp_locks| Setup {
            architecture,
            exclusion,
            arrival,
            extent: Extent::Bucket,
            sharing: Sharing::default(),
            tcp_locks,
            processors,
            queues: 1,
            batch: 64,
            length: Length::Whole,
            outside: false,
            seed: 1,
            planted: None,
            between: false,
        };
        let locked = LockKind::all().into_iter().map(Exclusion::Lock);
        let mut all = Vec::new();
        for architecture in Architecture::ALL {
            if architecture != Architecture::Message {
                let exclusion = Exclusion::Lock(LockKind::Adaptive);
                let arrival = Arrival::AsItComes;
                let usual = setup(architecture, exclusion, arrival, TcpLocks::One);
                all.push(usual);
                if architecture == Architecture::Braid && processors > 1 {
                    let sharing = Setup::EAGER;
                    all.push(Setup { sharing, ..usual });
                }
                continue;
            }
            for exclusion in locked.clone().chain([Exclusion::Delegation]) {
                for arrival in [Arrival::AsItComes, Arrival::Waiting, Arrival::Numbered] {
                    let setup = |locks| setup(architecture, exclusion, arrival, locks);
                    all.extend(TcpLocks::ALL.map(setup));
                }
                let usual = setup(architecture, exclusion, Arrival::AsItComes, TcpLocks::One);
                let extent = Extent::Module;
                all.push(Setup { extent, ..usual });
            }
        }
        all
    }

    /// Where buckets are to move, a processor has several in use.
    fn buckets(&self) -> u32 {
        match self.length {
            Length::Long => 4 * BUCKETS,
            Length::Whole | Length::Short => BUCKETS,
        }
    }

    /// The same with this seed, and as many queues as that draws of those that the processors can share. Each
    /// combination of `between` and `outside` comes with one seed of four.
    pub fn drawn(self, seed: u64) -> Setup {
        // Under `task`, three processors are one pipeline and one more above.
        let most = match self.architecture {
            Architecture::Task => 1,
            Architecture::Connection
            | Architecture::Message
            | Architecture::Braid
            | Architecture::Function => self.processors as u64,
        };
        let drawn = Random::new(seed).between(1, most) as usize;
        let takers = self.processors;
        // Who waits for numbers shares one queue, or none.
        let queues = match (self.architecture).check_arrival(self.arrival, drawn, takers) {
            Ok(()) => drawn,
            Err(_) => takers,
        };
        Setup {
            seed,
            queues,
            between: seed % 2 == 1,
            outside: seed / 2 % 2 == 1,
            ..self
        }
    }
}

/// Everything but who turns it.
pub struct Bench {
    pub far: Stack,
    /// What the far end's caller sleeps on; packets wake it.
    pub rest: Parker,
    pub book: Book,
    pub outside: Outside,
    pub trace: Trace,
    pub injector: Injector,
    pub pool: Pool,
    pub gates: [Gate; 2],
    /// At the far end, and at the stack under test.
    pub moved: [Moved; 2],
    pub stream: Arc<Stream>,
    pub plan: Option<Plan>,
    pub counters: Vec<Arc<Counters>>,
}

const MTU: usize = 1500;
const BUCKETS: u32 = 16;
/// Packets that each direction of the wire holds: more than are ever under way.
const DEPTH: usize = 8192;

fn engine(length: Length) -> Config {
    let usual = Config::default();
    // Where every step is looked at, nothing that is lost is to be made good by TCP's timers.
    let rto = match length {
        Length::Whole | Length::Long => [usual.initial_rto, usual.min_rto],
        Length::Short => [Duration::from_secs(60); 2],
    };
    Config {
        receive_buffer_bytes: 20_000,
        send_buffer_bytes: 20_000,
        // Its timers follow the round trip, and that the way of turning: what is sent again would tell one way from another.
        rack: false,
        time_wait: Duration::from_millis(50),
        initial_rto: rto[0],
        min_rto: rto[1],
        ..usual
    }
}

impl Bench {
    pub fn new(setup: &Setup, gated: bool) -> Bench {
        let gate = || if gated { Gate::shut() } else { Gate::open() };
        let (gates, moved) = ([gate(), gate()], [Moved::default(), Moved::default()]);
        let (trace, injector) = (Trace::default(), Injector::default());
        let rest = Parker::new();
        let (there, here) = memory::wire(Capabilities::ip(MTU), DEPTH);
        let there = Tapped {
            device: there,
            gate: gates[0].clone(),
            moved: moved[0].clone(),
            trace: Some(trace.clone()),
            injector: injector.clone(),
            wakes: Some(rest.unparker()),
        };
        let here = Tapped {
            device: Dealt {
                device: here,
                queues: setup.queues,
            },
            gate: gates[1].clone(),
            moved: moved[1].clone(),
            trace: None,
            injector: Injector::default(),
            wakes: None,
        };
        let mut config = StackConfig::new("10.0.0.1".parse().expect("an address"));
        config.tcp = engine(setup.length);
        config.batch = setup.batch;
        config.buckets = setup.buckets();
        config.secrets.flow_key = [1, 2];
        config.secrets.isn_key = [3, 4];
        let book = Book::default();
        let outside = Outside::new(setup.architecture, setup.processors);
        let recorder = Recorder::new(&book, setup.planted, gated);
        let recorder = match setup.outside {
            true => recorder.sending_outside(&outside),
            false => recorder,
        };
        let plan = plan(setup, recorder, here);
        Bench {
            far: Stack::new(&config, there).expect("the configuration makes sense"),
            rest,
            book,
            outside,
            trace,
            injector,
            pool: Pool::new(&Arena::new(1 << 20)),
            gates,
            moved,
            stream: plan.stream.clone(),
            plan: Some(plan),
            counters: Vec::new(),
        }
    }

    /// The workers of each processor.
    pub fn workers(&mut self, setup: &Setup, wakers: &[Unparker]) -> Vec<Vec<Worker>> {
        let plan = self.plan.take().expect("workers are made once");
        let top = plan.split.expect("there are services");
        let outside = &self.outside;
        let workers = plan.workers(setup.architecture, wakers, &mut |processor| {
            Box::new(outside.sender(processor, top))
        });
        let mut workers = workers.expect("the architecture can be placed");
        self.counters = workers
            .iter_mut()
            .flatten()
            .map(|worker| worker.cluster().counters().clone())
            .collect();
        workers
    }

    /// Every counter of the stack under test, summed over its workers.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for counters in &self.counters {
            counters.collect(&self.stream, &mut all);
        }
        all
    }

    /// What processors have shared.
    pub fn shared(&self) -> Shared {
        let counted = self.counted();
        let of = |name: &str| counted.get(name).copied().unwrap_or(0);
        Shared {
            admitted: of("shared.admitted"),
            moved: of("shared.moved"),
        }
    }

    /// Connections that the stack under test has, in whatever state.
    pub fn open_connections(&self) -> u64 {
        let counted = self.counted();
        let of = |name: &str| counted.get(name).copied().unwrap_or(0);
        of("tcp.opened") - of("tcp.closed")
    }

    pub fn discarded(&self, port: u16) -> usize {
        self.book
            .lock()
            .expect("no test thread panicked")
            .get(&port)
            .map_or(0, |record| record.bytes.len())
    }
}

/// Order-free, and now and then slow: what comes of one run may overtake what came of another.
struct Between;

impl Module for Between {
    fn name(&self) -> &'static str {
        "between"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn before(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        for _ in 0..run.iter().map(|message| message.position() % 3).sum() {
            yield_now();
        }
    }
}

fn plan(setup: &Setup, recorder: Recorder, device: impl Device + 'static) -> Plan {
    let interface = Interface::new(InterfaceConfig {
        addresses: vec![(NEAR, None)],
        mtu: MTU,
        mac: None,
        routes: Vec::new(),
        others: Vec::new(),
        forwards: false,
    });
    let interface = interface.expect("the interface makes sense");
    let flows = Flows::new([5, 6], setup.buckets(), &interface);
    let tcp = TcpConfig {
        engine: engine(setup.length),
        mtu: MTU,
        connections_per_bucket: 100,
        listening: Default::default(),
        fast_opening: Default::default(),
        isn_secret: [7, 8],
    };
    let tcp = Tcp::new(tcp, flows);
    for port in SERVED {
        tcp.listeners()
            .listen(None, port, 100)
            .expect("the port is free");
    }
    let mut inet = Inet::assemble_locked(
        interface,
        flows,
        tcp,
        setup.tcp_locks,
        setup.exclusion.lock(),
    );
    let mut below = inet.layout.tcp;
    if setup.architecture == Architecture::Function {
        let cipher = inet.stream.module(Cipher);
        inet.stream.link(below, cipher);
        below = cipher;
    }
    if setup.between {
        let between = inet.stream.module(Between);
        inet.stream.link(below, between);
        below = between;
    }
    let top = inet.stream.module(recorder);
    inet.stream.link(below, top);
    Plan {
        stream: inet.stream.build().expect("the modules can be wired"),
        split: Some(top),
        buckets: setup.buckets(),
        arena: Arena::new(64 << 20),
        queues: Box::new(device).open().expect("a wire can be opened"),
        classify: Arc::new(flows),
        exclusion: setup.exclusion,
        extent: setup.extent,
        arrival: setup.arrival,
        sharing: setup.sharing,
        batch: setup.batch,
        water_marks: (50_000, 100_000),
    }
}
