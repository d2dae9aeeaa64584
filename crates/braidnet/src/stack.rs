//! A stack that its caller turns.

mod datagrams;
mod messages;
mod opening;
mod sockets;
mod status;

pub use datagrams::Received;
pub(crate) use datagrams::Segments;
pub(crate) use opening::{FirstData, LocalEnd, Opening};

use crate::config::StackConfig;
use crate::endpoint::Phase;
use crate::endpoints::Endpoints;
use crate::error::{ReceiveError, SendError, StackError};
use crate::event::Event;
use crate::inboxes::Inboxes;
use crate::limits::{Bounds, Limits};
use crate::wiring::{self, Above, Plain, Wiring};
use braidnet_device::{Alarm, Device, QueuePair};
use braidnet_inet::tcp::{ListenError, Listeners};
use braidnet_inet::{Interface, LimitError};
use braidnet_message::{Arena, Message, Pool, Run, Scarcity};
use braidnet_process::PlanError;
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{
    Buckets, Claims, Cluster, ConnectionId, Control, Direction, ModuleId, Next, Processor, Reserve,
    Tail, Verb,
};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::{Duration, Instant};
use core::mem;
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A whole TCP/IP stack on one device, or on [several](braidnet_device::several::Several), turned by whoever owns it: no thread, no lock, no clock of its own.
///
/// Connections of TCP are [opened](Stack::connect) and [listened for](Stack::listen), ports of UDP are [bound](Stack::bind).
/// Call [`turn`](Stack::turn) whenever something may have happened and at the latest when the last turn's answer says;
/// between turns open, bind, send, receive and close. Nothing blocks.
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::{Event, Instant, Stack, StackConfig};
///
/// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
/// let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
/// let mut server = Stack::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
/// server.listen(7, 16)?;
/// let call = client.connect("10.0.0.2:7".parse()?)?;
/// let mut now = Instant::ZERO;
/// for _ in 0..4 {
///     client.turn(now);
///     server.turn(now);
/// }
/// let Some(Event::Accepted(answer)) = server.event() else { panic!("nobody called") };
/// client.send(call, b"hello")?;
/// client.turn(now);
/// server.turn(now);
/// let mut heard = [0; 16];
/// let n = server.receive(answer, &mut heard)?;
/// assert_eq!(&heard[..n], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stack {
    cluster: Cluster,
    arena: Arc<Arena>,
    wiring: Wiring,
    tcp: ModuleId,
    listeners: Arc<Listeners>,
    device: QueuePair,
    /// What says when something is due that the device holds back; none where it never does.
    alarm: Option<Alarm>,
    interface: Interface,
    endpoints: Endpoints,
    /// Connections with a segment that is being filled, or with credit to report.
    listed: Vec<ConnectionId>,
    /// What goes down to TCP, or the highest module above it, with the next turn, in order.
    down: Run,
    /// Datagrams that have been read, to be freed in the next turn, when the buffers are bound to the thread.
    spent: Run,
    reserve: Reserve,
    /// What TCP is to be asked for and found no buffer, in order.
    unasked: VecDeque<(Connection, Control)>,
    /// How much of that the last turn has left for a later one.
    put_off: usize,
    now: Instant,
    next_port: u16,
    batch: usize,
    credit_threshold: u32,
    inboxes: Inboxes,
    bounds: Bounds,
}

/// A connection of a [`Stack`].
pub type Connection = ConnectionId;

impl Stack {
    /// A stack on `device`.
    ///
    /// # Errors
    /// If the configuration makes no sense or the device cannot be opened.
    pub fn new(config: &StackConfig, device: impl Device) -> Result<Stack, StackError> {
        Stack::with_modules(config, device, |_| {})
    }

    /// A stack on `device` with further modules between TCP and the application, which `push` puts there, lowest first.
    ///
    /// # Errors
    /// As [`Stack::new`], or if the modules cannot be wired.
    pub fn with_modules(
        config: &StackConfig,
        device: impl Device,
        push: impl FnOnce(&mut Above<'_>),
    ) -> Result<Stack, StackError> {
        let devices = device.devices();
        let mut queues = Box::new(device).open()?;
        if devices.len() > 1 && queues.len() > 1 {
            // Each has packets that no other has.
            return Err(StackError::Plan(PlanError::TooManyQueues {
                queues: queues.len(),
                takers: 1,
            }));
        }
        let device = queues.pop().ok_or(StackError::NoQueue)?;
        let alarm = device.receiver.alarm();
        let arena = Arena::new(config.memory_bytes);
        let Plain {
            wiring,
            tcp,
            listeners,
            ports,
            bounds,
        } = wiring::plain(config, &devices, &arena, push)?;
        let buckets = Buckets::private(&wiring.stream, config.buckets, |_| true, |_| true);
        let mut cluster = Cluster::new(&wiring.stream, ModuleSet::ALL, buckets, &arena);
        let reserve = Reserve::new(config.memory_bytes, wiring::packet_bytes(&devices));
        reserve.replenish(cluster.pool());
        Ok(Stack {
            cluster,
            arena,
            listeners,
            device,
            alarm,
            interface: wiring::interface(config, &devices)?,
            endpoints: Endpoints::new(config.buckets, config.ended_connections),
            listed: Vec::new(),
            down: Run::new(),
            spent: Run::new(),
            reserve,
            unasked: VecDeque::new(),
            put_off: 0,
            now: Instant::ZERO,
            next_port: FIRST_EPHEMERAL,
            batch: config.batch.max(1),
            credit_threshold: (config.tcp.receive_buffer_bytes / 8).clamp(1, MOST_CREDIT),
            inboxes: Inboxes::new(ports, config.limits().inboxes()),
            bounds,
            wiring,
            tcp,
        })
    }

    /// Carries everything forward at time `now`: hands down what was sent, takes what the device has, runs it to
    /// completion, and hands the device what came of it.
    pub fn turn(&mut self, now: Instant) -> Next {
        self.now = now;
        let taken = self.pass(self.batch);
        self.put_off = self.unasked.len();
        if self.cluster.pool().scarcity() != Scarcity::Ample {
            return self.recover(taken);
        }
        self.next(taken)
    }

    #[inline]
    fn next(&self, taken: usize) -> Next {
        if taken > 0 || self.cluster.is_backed_up() {
            return Next::Again;
        }
        let at = |at: Option<Instant>| at.map_or(Next::Idle, Next::At);
        let next = at(self.cluster.deadline());
        match &self.alarm {
            None => next,
            Some(alarm) => next.sooner(at(alarm.next())),
        }
    }

    /// What memory there is again goes to what TCP is to be asked for, then to the reserve. What is to be asked for waits only
    /// while that is not complete.
    #[cold]
    fn recover(&mut self, taken: usize) -> Next {
        let waiting = !self.unasked.is_empty();
        self.ask_all();
        self.put_off = self.unasked.len();
        self.reserve.replenish(self.cluster.pool());
        let asked = match (waiting, self.unasked.is_empty()) {
            (false, _) => Next::Idle,
            (true, true) => Next::Again,
            (true, false) => Next::At(self.now + RETRY),
        };
        self.next(taken).sooner(asked)
    }

    /// Listens on `port` of every address. At most `backlog` connections may be half-open, and as many established and waiting
    /// for their [`Event::Accepted`] to be taken; who comes beyond that is not answered, and tries again.
    ///
    /// # Errors
    /// If the port is 0 or listened on already.
    pub fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError> {
        self.listeners.listen(None, port, backlog)
    }

    /// So many connections may be half-open, and as many wait, at a port that is [listened](Stack::listen) on, from now on. Where there are more, they
    /// stay. Whether it is listened on.
    pub fn set_backlog(&mut self, port: u16, backlog: u32) -> bool {
        self.listeners.set_backlog(None, port, backlog)
    }

    /// Copies `bytes` into the connection's send buffer, as many as it has room for; they leave with the next turn. How
    /// many; fewer than given means: try again when [`Stack::send_space`] has grown, or, where it says that there is room,
    /// after the next turn: memory is short.
    ///
    /// # Errors
    /// If the connection is not open for sending.
    #[inline]
    pub fn send(&mut self, connection: Connection, bytes: &[u8]) -> Result<usize, SendError> {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return Err(SendError::Gone);
        };
        if endpoint.state != Phase::Open {
            return endpoint.refuse();
        }
        if self.cluster.pool().scarcity() != Scarcity::Ample {
            // Memory is short, and what is left of it is not for more to be sent.
            return Ok(0);
        }
        let down = &mut self.down;
        let written = {
            let pool = self.cluster.pool();
            pool.withhold_reserve(true);
            let written = endpoint.write(bytes, pool, |segment| down.push(segment));
            pool.withhold_reserve(false);
            written
        };
        if !endpoint.listed {
            endpoint.listed = true;
            self.listed.push(connection);
        }
        Ok(written)
    }

    /// Bytes that [`Stack::send`] would take now. What the peer acknowledges is given back in quarters of the send buffer: more
    /// than three quarters come free sooner or later, all of it perhaps never.
    pub fn send_space(&mut self, connection: Connection) -> usize {
        self.endpoints
            .get(connection)
            .map_or(0, |endpoint| endpoint.space())
    }

    /// Copies received bytes out, in order. How many; 0 means that the peer has sent everything it will.
    ///
    /// # Errors
    /// [`ReceiveError::Empty`] if nothing is there yet, [`ReceiveError::Gone`] if nothing will ever come.
    #[inline]
    pub fn receive(
        &mut self,
        connection: Connection,
        to: &mut [u8],
    ) -> Result<usize, ReceiveError> {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return Err(ReceiveError::Gone);
        };
        let n = endpoint.read(to, self.cluster.pool());
        if n == 0 && !to.is_empty() {
            return match (endpoint.end_of_data, endpoint.state) {
                (true, _) => Ok(0),
                (false, Phase::Gone(_)) => Err(ReceiveError::Gone),
                (false, _) => Err(ReceiveError::Empty),
            };
        }
        if !endpoint.listed {
            endpoint.listed = true;
            self.listed.push(connection);
        }
        Ok(n)
    }

    /// Received bytes that can be read now.
    pub fn readable(&mut self, connection: Connection) -> usize {
        self.endpoints
            .get(connection)
            .map_or(0, |endpoint| endpoint.readable())
    }

    /// Calls all that was sent and is not acknowledged urgent (RFC 6093; what is sent stays where it is in the stream). New
    /// protocols do better without (§6).
    pub fn mark_urgent(&mut self, connection: Connection) {
        self.flush_one(connection);
        self.ask(connection, Control::new(Verb::Urgent));
    }

    /// Bytes that are still to be read until all is that the peer has called urgent ([`Event::Urgent`]), those included that have
    /// not come yet; 0 if nothing is.
    pub fn urgent(&mut self, connection: Connection) -> u64 {
        self.endpoints
            .get(connection)
            .map_or(0, |endpoint| endpoint.urgent())
    }

    /// Says that no more will be sent; what was sent before still goes out (RFC 9293 §3.9.1.4). Receiving goes on.
    pub fn close(&mut self, connection: Connection) {
        self.flush_one(connection);
        self.ask(connection, Control::new(Verb::Close));
        if let Some(endpoint) = self.endpoints.get(connection)
            && !matches!(endpoint.state, Phase::Gone(_))
        {
            endpoint.state = Phase::Closing;
        }
    }

    /// Resets the connection (RFC 9293 §3.9.1.5) and forgets it.
    pub fn abort(&mut self, connection: Connection) {
        self.ask(connection, Control::new(Verb::Abort));
        self.forget(connection);
    }

    /// Lets go of what is kept of a connection. One that is not gone yet is closed: what was sent still goes out, and
    /// what still comes is answered with a reset (RFC 9293 §3.6.1).
    pub fn forget(&mut self, connection: Connection) {
        self.flush_one(connection);
        let open = self
            .endpoints
            .get(connection)
            .is_some_and(|endpoint| !matches!(endpoint.state, Phase::Gone(_)));
        if open {
            self.ask(connection, Control::new(Verb::Release));
        }
        self.endpoints.remove(connection);
    }

    /// Both ends of the connection; `None` if it is not known.
    pub fn tuple(&mut self, connection: Connection) -> Option<Tuple> {
        self.endpoints
            .get(connection)
            .map(|endpoint| endpoint.tuple)
    }

    /// The next thing that happened.
    pub fn event(&mut self) -> Option<Event> {
        let event = self.endpoints.event()?;
        if let Event::Accepted(connection) = event {
            self.accept(connection);
        }
        Some(event)
    }

    /// Tells TCP that a connection has been taken up, at once: the next caller may come with the next turn.
    #[inline(never)]
    fn accept(&mut self, connection: Connection) {
        let accepted = Control::new(Verb::Accepted);
        let message = accepted.message(connection, self.cluster.pool());
        match message {
            Some(message) => self.pass_alone(message),
            None => self.ask(connection, accepted),
        }
    }

    /// The stack may hold so much from now on. [`Limits::sockets`] is of no account here.
    ///
    /// # Errors
    /// If a limit is not in its range; none is changed then.
    pub fn set_limits(&mut self, limits: &Limits) -> Result<(), LimitError> {
        limits.check()?;
        self.bounds.set(limits);
        self.inboxes.set_limits(limits.inboxes());
        self.endpoints.set_most_left(limits.ended_connections);
        Ok(())
    }

    /// Bytes of memory for buffers that are in use or kept for use: at most
    /// [`StackConfig::memory_bytes`](crate::StackConfig::memory_bytes).
    pub fn used_bytes(&self) -> usize {
        self.arena.used_bytes()
    }

    /// Every counter that is not zero, as `module.name`.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        self.cluster
            .counters()
            .collect(&self.wiring.stream, &mut all);
        let dropped = self.inboxes.counters().chain(self.endpoints.counters());
        all.extend(dropped.map(|(name, count)| (name.to_owned(), count)));
        all
    }

    /// Asks TCP for something, behind all that it was asked for; where there is no buffer, with a later turn.
    fn ask(&mut self, connection: Connection, control: Control) {
        self.unasked.push_back((connection, control));
        self.ask_all();
    }

    fn ask_all(&mut self) {
        while let Some(&(connection, control)) = self.unasked.front() {
            let Some(message) = control.message(connection, self.cluster.pool()) else {
                return;
            };
            self.unasked.pop_front();
            self.down.push(message);
        }
    }

    fn flush_one(&mut self, connection: Connection) {
        if let Some(endpoint) = self.endpoints.get(connection) {
            endpoint.flush(|segment| self.down.push(segment));
        }
    }

    /// Hands down what was sent, unfinished segments and credit.
    #[inline]
    fn hand_down(&mut self) {
        while let Some(connection) = self.listed.pop() {
            let Some(endpoint) = self.endpoints.get(connection) else {
                continue;
            };
            endpoint.listed = false;
            endpoint.flush(|segment| self.down.push(segment));
            if let Some(credit) = endpoint.credit(self.credit_threshold) {
                self.ask(
                    connection,
                    Control::new(Verb::Credit).value(u64::from(credit)),
                );
            }
        }
        self.cluster
            .put(self.wiring.top, Direction::Down, &mut self.down);
    }

    /// Hands down this and nothing else, between turns. What waits for the next turn goes on waiting: it would be timed from the
    /// last one.
    fn pass_alone(&mut self, message: Message) {
        let (down, listed) = (mem::take(&mut self.down), mem::take(&mut self.listed));
        self.down.push(message);
        self.pass(0);
        (self.down, self.listed) = (down, listed);
    }

    /// Hands down what was sent, takes up to `max` packets, runs the cluster, and takes what has reached the head. How many
    /// packets.
    fn pass(&mut self, max: usize) -> usize {
        self.hand_down();
        let mut port = Port {
            device: &mut self.device,
            spent: &mut self.spent,
            reserve: &self.reserve,
            max,
            taken: 0,
        };
        self.cluster.turn(self.now, &mut port);
        let taken = port.taken;
        let spares_memory = self.cluster.pool().scarcity() != Scarcity::Ample;
        for message in self.cluster.head().drain() {
            if let Some(message) = self.endpoints.take(message) {
                self.inboxes.take(message, spares_memory, &mut self.spent);
            }
        }
        taken
    }
}

/// The device as the stack's cluster sees it.
struct Port<'a> {
    device: &'a mut QueuePair,
    spent: &'a mut Run,
    reserve: &'a Reserve,
    max: usize,
    taken: usize,
}

impl Tail for Port<'_> {
    #[inline]
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, _: &mut Claims<'_>) {
        self.spent.clear();
        let receiver = &mut self.device.receiver;
        self.taken = self
            .reserve
            .receive(pool, self.max, |pool, max| receiver.receive(pool, run, max));
    }

    #[inline]
    fn transmit(&mut self, run: &mut Run) {
        self.device.transmitter.transmit(run);
    }
}

impl Processor for Stack {
    fn turn(&mut self, now: Instant, _budget: usize) -> Next {
        Stack::turn(self, now)
    }
}

/// Bytes read of which TCP is always told: half of the largest window where the peer does not scale it (RFC 7323 §2.2), however
/// large the receive buffer is. Were it more than that window, who has read all would wait for ever for who may send nothing.
const MOST_CREDIT: u32 = 65_535 / 2;

/// Start of the dynamic ports (RFC 6335 §6).
const FIRST_EPHEMERAL: u16 = 49_152;

/// The ports that one is chosen from who asks for one from `first` to `last`: neither has a say where it lies elsewhere.
fn ephemeral((first, last): (u16, u16)) -> RangeInclusive<u16> {
    let last = match last {
        FIRST_EPHEMERAL.. => last,
        _ => u16::MAX,
    };
    first.max(FIRST_EPHEMERAL)..=last
}

/// How long what TCP is to be asked for waits for a buffer.
const RETRY: Duration = Duration::from_millis(20);

const PROTOCOL_TCP: u8 = 6;
