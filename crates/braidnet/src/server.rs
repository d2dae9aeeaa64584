//! A stack that runs: services on processors of its own, under an architecture.

use crate::config::StackConfig;
use crate::error::StackError;
use crate::limits::{Bounds, Limits};
use crate::services::{DatagramService, Service, Services, Ticket};
use crate::wiring::{self, Transports};
use braidnet_device::Device;
use braidnet_inet::LimitError;
use braidnet_inet::tcp::{Listeners, TcpLocks};
use braidnet_message::{Arena, Kind, Message, Pool};
use braidnet_process::{
    Architecture, Mailboxes, NoApplication, Plan, PlanError, Refusal, Running, RunningConfig,
    Suspended, Worker,
};
use braidnet_stream::junction::Placement;
use braidnet_stream::{
    Arrival, BucketId, ConnectionId, Control, Counters, Direction, DropWatch, Exclusion, ModuleId,
    Next, Parcel, Processor, Reserve, Stream, Verb,
};
use braidnet_sync::group::MemberError;
use braidnet_sync::lock::LockKind;
use braidnet_sync::parker::{Parker, Unparker};
use braidnet_wire::time::Instant;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Puts a [`Server`] together.
///
/// ```no_run
/// use braidnet::device::tun::{Mode, TunConfig, TunDevice};
/// use braidnet::{Architecture, ServerBuilder, StackConfig};
/// # use braidnet::{Io, Service, Session, message::Message, wire::address::Tuple};
/// # struct Echo; struct Nothing;
/// # impl Service for Echo { fn open(&self, _: &Tuple) -> Box<dyn Session> { Box::new(Nothing) } }
/// # impl Session for Nothing { fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {} }
///
/// let device = TunDevice::create(TunConfig { name: Some("bn0".to_owned()), ..TunConfig::new(Mode::Tun) })?;
/// let server = ServerBuilder::new(StackConfig::new("10.77.0.2".parse()?))
///     .architecture(Architecture::Connection, 2)
///     .tcp(7, Echo)
///     .start(device)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ServerBuilder {
    config: StackConfig,
    architecture: Architecture,
    processors: usize,
    exclusion: Exclusion,
    arrival: Arrival,
    tcp_locks: TcpLocks,
    running: RunningConfig,
    backlog: u32,
    tcp: HashMap<u16, Box<dyn Service>>,
    udp: HashMap<u16, Box<dyn DatagramService>>,
}

/// Half-open connections that a port takes unless told otherwise, and as many established ones without a session yet.
const BACKLOG: u32 = 1024;

impl ServerBuilder {
    /// A server of this stack, under `connection` on one processor, with no service yet.
    pub fn new(config: StackConfig) -> ServerBuilder {
        ServerBuilder {
            config,
            architecture: Architecture::Connection,
            processors: 1,
            exclusion: Exclusion::Lock(LockKind::Adaptive),
            arrival: Arrival::AsItComes,
            tcp_locks: TcpLocks::One,
            running: RunningConfig {
                name: "braidnet".to_owned(),
                ..RunningConfig::default()
            },
            backlog: BACKLOG,
            tcp: HashMap::new(),
            udp: HashMap::new(),
        }
    }

    /// Which architecture, on how many processors.
    pub fn architecture(mut self, architecture: Architecture, processors: usize) -> ServerBuilder {
        self.architecture = architecture;
        self.processors = processors;
        self
    }

    /// The kind of lock that `message` uses.
    pub fn lock(self, lock: LockKind) -> ServerBuilder {
        self.exclusion(Exclusion::Lock(lock))
    }

    /// How processors keep out of each other's way in a bucket under `message`; any other architecture is refused with
    /// [`Exclusion::Delegation`].
    pub fn exclusion(mut self, exclusion: Exclusion) -> ServerBuilder {
        self.exclusion = exclusion;
        self
    }

    /// What of the order of arrival reaches the buckets under `message`; any other architecture is refused with more than
    /// [`Arrival::AsItComes`].
    pub fn arrival(mut self, arrival: Arrival) -> ServerBuilder {
        self.arrival = arrival;
        self
    }

    /// With how many locks `message` guards a connection; any other architecture is refused with more than one.
    pub fn tcp_locks(mut self, locks: TcpLocks) -> ServerBuilder {
        self.tcp_locks = locks;
        self
    }

    /// How the threads are named, placed and idle.
    pub fn running(mut self, running: RunningConfig) -> ServerBuilder {
        self.running = running;
        self
    }

    /// Most half-open connections of each port, and most established ones whose session has not been opened yet.
    pub fn backlog(mut self, backlog: u32) -> ServerBuilder {
        self.backlog = backlog;
        self
    }

    /// Tells this of each packet that is dropped: [`StackConfig::drop_watch`].
    pub fn watch_drops(mut self, watch: DropWatch) -> ServerBuilder {
        self.config.drop_watch = Some(watch);
        self
    }

    /// Answers TCP connections to `port`; a second service of the port replaces the first.
    pub fn tcp(mut self, port: u16, service: impl Service) -> ServerBuilder {
        self.tcp.insert(port, Box::new(service));
        self
    }

    /// Answers UDP datagrams to `port`.
    pub fn udp(mut self, port: u16, service: impl DatagramService) -> ServerBuilder {
        self.udp.insert(port, Box::new(service));
        self
    }

    /// Whether the stack makes sense on this device: for who has something to make before it starts.
    ///
    /// # Errors
    /// What [`start`](ServerBuilder::start) would say of the architecture and what was chosen with it, of the stack's addresses, its
    /// buckets and the device's MTU.
    pub fn check(&self, device: &impl Device) -> Result<(), StackError> {
        let capabilities = device.capabilities();
        let architecture = self.architecture;
        if !Architecture::UNDIVIDED.contains(&architecture) {
            // A service is called with whole messages.
            return Err(PlanError::from(Refusal::NothingToDivide).into());
        }
        (architecture.check_processors(self.processors))
            .and_then(|()| architecture.check_locks(self.tcp_locks))
            .and_then(|()| architecture.check_sharing(self.exclusion, self.arrival))
            .and_then(|()| {
                architecture.check_arrival(self.arrival, capabilities.queues, self.processors)
            })
            .map_err(PlanError::from)?;
        wiring::interface(&self.config, &device.devices()).map(drop)
    }

    /// Opens the device, wires the stack, spawns and starts its processors.
    ///
    /// # Errors
    /// If anything of that cannot be done; nothing is left behind then.
    pub fn start(self, device: impl Device) -> Result<Server, StackError> {
        self.check(&device)?;
        let suspended = Suspended::spawn(&self.running, self.processors)?;
        let Server { driver, parts } = self.wire(device, suspended.wakers())?;
        Ok(Server {
            driver: suspended.start(driver),
            parts,
        })
    }

    /// The same server without a thread of its own, for a caller who turns it: a simulation, or a loop that has other things
    /// to do as well.
    ///
    /// # Errors
    /// If the device cannot be opened or the stack not be wired.
    pub fn turned(self, device: impl Device) -> Result<Server<Processors>, StackError> {
        self.check(&device)?;
        let wakers: Vec<Unparker> = (0..self.processors)
            .map(|_| Parker::new().unparker())
            .collect();
        self.wire(device, &wakers)
    }

    fn wire(
        self,
        device: impl Device,
        wakers: &[Unparker],
    ) -> Result<Server<Processors>, StackError> {
        let devices = device.devices();
        let tcp_ports: Vec<u16> = self.tcp.keys().copied().collect();
        let udp_ports: Vec<u16> = self.udp.keys().copied().collect();
        let arena = Arena::new(self.config.memory_bytes);
        let transports = Transports {
            config: &self.config,
            devices: &devices,
            memory: &arena,
            locks: (self.tcp_locks, self.exclusion.lock()),
        };
        let wired = wiring::server(transports, self.tcp, self.udp)?;
        for port in tcp_ports {
            wired.listeners.listen(None, port, self.backlog)?;
        }
        for port in udp_ports {
            wired.ports.bind(port)?;
        }
        let stream = wired.wiring.stream;
        let plan = Plan {
            stream: stream.clone(),
            split: Some(wired.services),
            buckets: self.config.buckets,
            arena: arena.clone(),
            queues: Box::new(device).open()?,
            classify: Arc::new(wired.wiring.flows),
            exclusion: self.exclusion,
            extent: Default::default(),
            arrival: self.arrival,
            sharing: Default::default(),
            batch: self.config.batch,
            water_marks: WATER_MARKS,
        };
        let placement = plan
            .placement(self.architecture, self.processors)
            .map_err(PlanError::from)?;
        let mut processors =
            plan.workers(self.architecture, wakers, &mut |_| Box::new(NoApplication))?;
        let share = self.config.memory_bytes / processors.iter().flatten().count().max(1);
        for worker in processors.iter_mut().flatten() {
            worker.keep(Reserve::new(share, wiring::packet_bytes(&devices)));
        }
        let workers = processors.iter_mut().flatten();
        let (counters, gone) = workers
            .map(|worker| (worker.cluster().counters().clone(), worker.gone().clone()))
            .unzip();
        let jobs = Jobs {
            services: wired.services,
            stream: stream.clone(),
            mailboxes: processors[0][0].mailboxes(),
            arena,
        };
        let parts = Parts {
            placement,
            jobs,
            listeners: wired.listeners,
            stream,
            counters,
            gone,
            buckets: self.config.buckets,
            bounds: wired.bounds,
        };
        Ok(Server {
            driver: processors,
            parts,
        })
    }
}

/// Bytes between the clusters of `task`: where the lower one stops, and where it goes on.
const WATER_MARKS: (usize, usize) = (1 << 20, 4 << 20);

/// What turns a [`Server`] that has no thread of its own: for each processor its workers.
pub type Processors = Vec<Vec<Worker>>;

/// A stack with services: on processors of its own until it is stopped or dropped, or turned by whoever
/// [asked for that](ServerBuilder::turned).
pub struct Server<Driver = Running<Vec<Worker>>> {
    driver: Driver,
    parts: Parts,
}

/// What is the same whoever turns it.
struct Parts {
    placement: Placement,
    jobs: Jobs,
    listeners: Arc<Listeners>,
    stream: Arc<Stream>,
    counters: Vec<Arc<Counters>>,
    /// Per worker whether its share of the device is gone.
    gone: Vec<Arc<AtomicBool>>,
    buckets: u32,
    bounds: Bounds,
}

impl<Driver> Server<Driver> {
    /// The stack may hold so much from now on, while its processors run. What only caller-turned stacks have is of no account here: sockets,
    /// connections that have ended, datagrams that wait.
    ///
    /// # Errors
    /// If a limit is not in its range; none is changed then.
    pub fn set_limits(&self, limits: &Limits) -> Result<(), LimitError> {
        limits.check()?;
        self.parts.bounds.set(limits);
        Ok(())
    }

    /// At most so many connections of each port may be half-open from now on, and as many established ones without a session yet. Where there are
    /// more, they stay.
    pub fn set_backlog(&self, backlog: u32) {
        self.parts.listeners.set_every_backlog(backlog);
    }

    /// How its junctions are placed.
    pub fn placement(&self) -> &Placement {
        &self.parts.placement
    }

    /// The name of every counter that there is, as `module.name`.
    pub fn counter_names(&self) -> impl Iterator<Item = String> {
        let names = self.parts.stream.counter_names();
        names.map(|(module, name)| format!("{module}.{name}"))
    }

    /// Every counter that is not zero, as `module.name`, summed over the processors.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for counters in &self.parts.counters {
            counters.collect(&self.parts.stream, &mut all);
        }
        all
    }

    /// Connections that the services answer now. Those in TIME-WAIT are TCP's own affair and do not count.
    pub fn connections(&self) -> u64 {
        let sum = |name| {
            let of_one =
                |counters: &Arc<Counters>| counters.value(&self.parts.stream, Services::NAME, name);
            self.parts.counters.iter().map(of_one).sum::<u64>()
        };
        sum("opened").saturating_sub(sum("closed"))
    }

    /// Whether the device, or a queue of it, is gone: removed, or closed at its other end. Nothing will arrive from it again.
    pub fn is_gone(&self) -> bool {
        let mut gone = self.parts.gone.iter();
        gone.any(|gone| gone.load(Ordering::Relaxed))
    }

    /// A way to give sessions work back that was done elsewhere.
    pub fn jobs(&self) -> Jobs {
        self.parts.jobs.clone()
    }

    /// Takes no new connections; those that exist go on.
    pub fn stop_listening(&self) {
        self.parts.listeners.stop_all();
    }

    /// Takes no new connections, and lets every [`Session`](crate::Session) know that it should finish.
    pub fn drain(&self) {
        self.stop_listening();
        self.tell_all(Verb::Stopping);
    }

    /// Resets every connection, so that its peer need not find out by itself.
    pub fn abort_all(&self) {
        self.tell_all(Verb::Abort);
    }

    fn tell_all(&self, verb: Verb) {
        let Jobs {
            services,
            mut mailboxes,
            ..
        } = self.parts.jobs.clone();
        let mut pool = self.parts.jobs.pool();
        // Bucket 0 is the device's and has no connections.
        for bucket in 1..self.parts.buckets {
            let everybody = ConnectionId::new(BucketId(bucket as u16), u32::MAX, 0);
            // Where the stack's memory is used up, the connections of the bucket end without a word.
            if let Some(message) = Control::new(verb).message(everybody, &mut pool) {
                mailboxes.send(Parcel::new(
                    &self.parts.stream,
                    services,
                    Direction::Up,
                    message,
                ));
            }
        }
    }
}

impl Server {
    /// Whether a processor has panicked outside every bucket, in a [`DatagramService`], say. Its connections are lost then, and others may
    /// wait for it in vain: stop. A [`Session`](crate::Session) that panics breaks none.
    pub fn is_broken(&self) -> bool {
        self.driver.has_finished_one()
    }

    /// Waits until every processor stands between two turns, and keeps it there until [`resume`](Server::resume): what comes in
    /// meanwhile waits in the device, as long as there is room, and peers send again what was lost. Suspensions nest: each needs a
    /// resumption of its own. Not to be called from a service.
    ///
    /// # Panics
    /// With more than 32,767 suspensions at a time.
    pub fn suspend(&self) {
        self.driver.suspend();
    }

    /// Takes one suspension back; with the last, all processors go on. False if there was none.
    pub fn resume(&self) -> bool {
        self.driver.resume()
    }

    /// Ends every processor after its current turn, and takes the stack down.
    ///
    /// # Errors
    /// If a processor had panicked.
    pub fn stop(self) -> Result<(), MemberError> {
        self.driver.stop().map(drop)
    }
}

impl Processor for Server<Processors> {
    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        self.driver.turn(now, budget)
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn rest(&mut self) {
        self.driver.rest();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.driver.fd()
    }
}

/// Where work that was done elsewhere is handed back to the sessions that gave it away. One for each thread that does such
/// work.
#[derive(Clone)]
pub struct Jobs {
    services: ModuleId,
    stream: Arc<Stream>,
    mailboxes: Mailboxes,
    arena: Arc<Arena>,
}

impl Jobs {
    /// Buffers for a thread that does such work.
    pub fn pool(&self) -> Pool {
        Pool::new(&self.arena)
    }

    /// Hands `message` to the session behind `ticket`, whose [`job`](crate::Session::job) gets it; dropped by name if that
    /// is no more.
    pub fn hand_back(&mut self, ticket: Ticket, mut message: Message) {
        message.set_kind(Kind::HighPriority);
        message.set_connection(ticket.connection.0);
        message.set_bucket(ticket.connection.bucket().0);
        self.mailboxes.send(Parcel::new(
            &self.stream,
            self.services,
            Direction::Up,
            message,
        ));
    }
}
