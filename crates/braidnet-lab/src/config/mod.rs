//! One measurement's knobs.

mod error;
mod share;
#[cfg(test)]
mod tests;
mod words;

pub use error::ConfigError;
pub use share::{NoShare, Share};
pub use words::{
    Agents, Counts, Direction, Mode, Order, OrderAbove, Perimeter, Place, Presentation, Span,
    Transport, UnknownWord, Wait,
};

use crate::content::NUMBER_BYTES;
use braidnet_codec::record::MARK_BYTES;
use braidnet_codec::xdr::BatchShape;
use braidnet_device::impair::Impairments;
use braidnet_inet::tcp::TcpLocks;
use braidnet_process::Architecture;
use braidnet_stream::Exclusion;
use braidnet_sync::lock::LockKind;
use braidnet_tcp::{CongestionControl, MAX_WINDOW_BYTES};
use std::time::Duration;

/// One measurement: what is measured, on how many processors, under which load.
///
/// ```
/// use braidnet_lab::TtcpConfig;
/// let config = TtcpConfig { connections: 20, ..TtcpConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TtcpConfig {
    /// How processors are bound to protocol work.
    pub architecture: Architecture,
    /// How many processors, 1 to 256. Every busy thread counts, the far end's work included.
    pub processors: usize,
    /// How many connections (under UDP: pairs of ports), 1 to 10,000, dealt to processors evenly.
    pub connections: usize,
    /// TCP or UDP.
    pub transport: Transport,
    /// How many messages are measured at least, over all connections: 1 to 10^12.
    pub messages: u64,
    /// How many messages go before, unmeasured: at most 10^12.
    pub warmup: u64,
    /// Bytes of a message: 1 to 16 MiB; under UDP what a datagram can hold; under [`Presentation::Xdr`] a multiple of four of at
    /// least 8 (a record mark of four bytes stands before each under TCP and is not counted).
    pub size: usize,
    /// Longest IP packet of the device in bytes, 128 to 65,535. The FDDI device of the papers has 4352.
    pub mtu: usize,
    /// Room for received bytes, and for bytes sent and not acknowledged, of each connection: 2,048 bytes to 1 GiB.
    pub window_bytes: u32,
    /// Whether the stack makes and verifies TCP and UDP checksums. Off is a mode of the laboratory after PLP §2.3: the device
    /// says of every packet that it has verified and will fill in the checksum, which nobody does, so that what is measured is
    /// a stack whose device does that work. IP header checksums stay.
    pub checksum: bool,
    /// What stands between transport and application.
    pub presentation: Presentation,
    /// The share of one connection in all messages, the others having the rest evenly: a mix that the simulated sender keeps to,
    /// whoever is served faster. `None`: each sends as much as it can. It needs two connections and direction receive.
    pub skew: Option<Share>,
    /// Which way the messages go. [`Mode::Echo`] goes both ways and does not look at it.
    pub direction: Direction,
    /// A stream of messages, or one-message round trips.
    pub mode: Mode,
    /// What the wire between two whole stacks does to packets: to those with messages, from who sends or asks, and to those that go
    /// back. It needs TCP, and direction both or mode echo.
    pub impair: Option<Box<(Impairments, Impairments)>>,
    /// How long a module on top of the stack that receives works on each message, outside every perimeter and in no order: at most
    /// 10 ms, and none by default. It is real work that fills about this time, found out once at the start.
    pub work: Duration,
    /// What shared buckets and queues are locked with under `message`.
    pub lock: LockKind,
    /// With how many of them TCP guards a connection under `message`; elsewhere it has none (PLP §5.1).
    pub tcp_locks: TcpLocks,
    /// How references to buffers, modules and sessions are counted.
    pub counts: Counts,
    /// Whether each processor keeps free buffers of its own; else all come from one store under a lock (PLP §6).
    pub caches: bool,
    /// Whether TCP asks first, for each segment, if its connection is that of the one before (PLP §2.1).
    pub one_behind: bool,
    /// Whether that is waited for, or work is left with whoever is inside, under `message`.
    pub perimeter: Perimeter,
    /// What one of these perimeters covers under `message`; elsewhere nothing is shared, and there is none to choose.
    pub span: Span,
    /// What of the order of arrival reaches TCP under `message`.
    pub order: Order,
    /// What of TCP's order reaches an application above all else that a stack has that receives.
    pub order_above: OrderAbove,
    /// Most messages that are taken from one place at once, 1 to 1,024.
    pub batch: usize,
    /// How many queues the device has: 1 to as many as processors take from it.
    pub device_queues: usize,
    /// What carries the processors.
    pub agents: Agents,
    /// How many threads carry [`Agents::Tasks`], 1 to 256; none: as many as [`processors`](TtcpConfig::processors).
    pub threads: Option<usize>,
    /// Whether each connection, under `connection`, has an agent of its own, over as many processors (CP/MP §3.3.1): up to 255 of
    /// them. Agents that are threads stay on the first of the machine's processors, as many as there are to be.
    pub thread_per_connection: bool,
    /// How processors wait for something to do.
    pub wait: Wait,
    /// In whose memory lies what is one processor's alone; needs [`Agents::Threads`].
    pub state: Place,
    /// Whether each thread stays on a processor of its own.
    pub pin: bool,
    /// How long the measured part lasts at least; messages go on being measured until it is filled.
    pub min_duration: Duration,
    /// How the congestion window of our senders grows and shrinks.
    pub congestion: CongestionControl,
    /// Whether waits for locks are timed. That costs time itself, so it belongs into repetitions of its own.
    pub sync_sampling: bool,
    /// Whether order-free functions are timed, and the turns that they are a part of. That costs time itself, and tells something on one
    /// processor only: it belongs into repetitions of its own ([`alone`](TtcpConfig::alone)).
    pub order_free_sampling: bool,
}

impl Default for TtcpConfig {
    fn default() -> TtcpConfig {
        TtcpConfig {
            architecture: Architecture::Connection,
            processors: 1,
            connections: 1,
            transport: Transport::Tcp,
            messages: 20_000,
            warmup: 10_000,
            size: 4096,
            mtu: 4352,
            window_bytes: 1 << 20,
            checksum: true,
            presentation: Presentation::None,
            skew: None,
            direction: Direction::Receive,
            mode: Mode::Bulk,
            impair: None,
            work: Duration::ZERO,
            lock: LockKind::Adaptive,
            tcp_locks: TcpLocks::One,
            counts: Counts::Lean,
            caches: true,
            one_behind: true,
            perimeter: Perimeter::Locked,
            span: Span::Connection,
            order: Order::None,
            order_above: OrderAbove::None,
            batch: 64,
            device_queues: 1,
            agents: Agents::Threads,
            threads: None,
            thread_per_connection: false,
            wait: Wait::SpinSleep,
            state: Place::Together,
            pin: false,
            min_duration: Duration::from_millis(300),
            congestion: CongestionControl::Cubic,
            sync_sampling: false,
            order_free_sampling: false,
        }
    }
}

/// Fewest bytes of [`TtcpConfig::mtu`]: headers with all options, and something behind them.
pub const MIN_MTU: usize = 128;
/// Most bytes of [`TtcpConfig::mtu`] (RFC 791 §3.1).
pub const MAX_MTU: usize = 65_535;
/// Most of [`TtcpConfig::processors`].
pub const MAX_PROCESSORS: usize = 256;
/// Most connections that have an agent each: one for each bucket.
pub const MAX_AGENTS: usize = 255;
/// Most of [`TtcpConfig::connections`]: each needs a port of the far end's in its processor's share of them.
pub const MAX_CONNECTIONS: usize = 10_000;
/// Most messages, so that neither their number nor their bytes overflow.
pub const MAX_MESSAGES: u64 = 1_000_000_000_000;
/// Most bytes of [`TtcpConfig::size`].
pub const MAX_SIZE: usize = 16 << 20;
/// Most of [`TtcpConfig::batch`].
pub const MAX_BATCH: usize = 1024;
/// Most of [`TtcpConfig::work`].
pub const MAX_WORK: Duration = Duration::from_millis(10);
/// Fewest bytes of [`TtcpConfig::window_bytes`].
pub const MIN_WINDOW_BYTES: u32 = 2048;

/// Bytes of an IPv4 header without options (RFC 791 §3.1), and with a UDP header behind it (RFC 768).
const IP_HEADER_BYTES: usize = 20;
const UDP_HEADERS_BYTES: usize = IP_HEADER_BYTES + 8;

impl TtcpConfig {
    /// Says whether this can be measured.
    ///
    /// # Errors
    /// [`ConfigError`], a sentence for whoever set it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |what, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange {
                    what,
                    value,
                    least,
                    most,
                })
            }
        };
        let sized = |what, value: usize, least: usize, most: usize| {
            within(what, value as u64, least as u64, most as u64)
        };
        sized("processors", self.processors, 1, MAX_PROCESSORS)?;
        sized("connections", self.connections, 1, MAX_CONNECTIONS)?;
        sized("the size of a message", self.size, 1, MAX_SIZE)?;
        sized("the MTU", self.mtu, MIN_MTU, MAX_MTU)?;
        sized("the batch", self.batch, 1, MAX_BATCH)?;
        let (least, most) = (MIN_WINDOW_BYTES.into(), MAX_WINDOW_BYTES.into());
        within("the window", self.window_bytes.into(), least, most)?;
        if self.messages == 0 {
            return Err(ConfigError::NoMessages);
        }
        within("the number of messages", self.messages, 1, MAX_MESSAGES)?;
        within(
            "the number of messages before",
            self.warmup,
            0,
            MAX_MESSAGES,
        )?;
        self.validate_message()?;
        self.validate_load()?;
        self.validate_agents()?;
        self.architecture.check_processors(self.carried())?;
        self.validate_sharing()?;
        let takers = self.takers();
        let arrival = self.order.arrival();
        (self.architecture).check_arrival(arrival, self.device_queues, takers)?;
        if self.device_queues == 0 || self.device_queues > takers {
            return Err(ConfigError::DeviceQueues {
                queues: self.device_queues,
                takers,
            });
        }
        Ok(())
    }

    /// What belongs to connections that processors share.
    fn validate_sharing(&self) -> Result<(), ConfigError> {
        self.architecture.check_locks(self.tcp_locks)?;
        if self.transport == Transport::Udp && self.tcp_locks != TcpLocks::One {
            return Err(ConfigError::LocksWithoutTcp);
        }
        if self.span != Span::Connection && self.architecture != Architecture::Message {
            return Err(ConfigError::NothingToSpan {
                span: self.span,
                architecture: self.architecture,
            });
        }
        self.architecture
            .check_extent(self.span.extent(), self.order.arrival())?;
        (self.architecture).check_sharing(self.exclusion(), self.order.arrival())?;
        if self.lock != LockKind::default() && !self.is_locking() {
            return Err(ConfigError::NothingLocked {
                lock: self.lock,
                architecture: self.architecture,
            });
        }
        Ok(())
    }

    fn validate_agents(&self) -> Result<(), ConfigError> {
        if self.threads.is_some() && self.agents != Agents::Tasks {
            return Err(ConfigError::ThreadsWithoutTasks);
        }
        if self.state == Place::Apart && self.agents == Agents::Tasks {
            return Err(ConfigError::TasksNowhere);
        }
        let threads = self.threads.unwrap_or(self.processors);
        if threads == 0 || threads > MAX_PROCESSORS {
            return Err(ConfigError::OutOfRange {
                what: "the threads that carry tasks",
                value: threads as u64,
                least: 1,
                most: MAX_PROCESSORS as u64,
            });
        }
        if !self.thread_per_connection {
            return Ok(());
        }
        if self.architecture != Architecture::Connection {
            return Err(ConfigError::NotByConnection {
                architecture: self.architecture,
            });
        }
        if self.connections > MAX_AGENTS {
            return Err(ConfigError::TooManyAgents {
                connections: self.connections,
            });
        }
        Ok(())
    }

    fn validate_load(&self) -> Result<(), ConfigError> {
        if self.work > MAX_WORK {
            return Err(ConfigError::TooMuchWork { work: self.work });
        }
        if self.work.is_zero() && self.architecture == Architecture::Function {
            return Err(ConfigError::NothingToDivide);
        }
        if !self.work.is_zero() && (self.mode == Mode::Echo || self.direction == Direction::Send) {
            return Err(ConfigError::NobodyWorks);
        }
        let receives = self.mode == Mode::Bulk && self.direction != Direction::Send;
        if self.order_above != OrderAbove::None && (self.transport == Transport::Udp || !receives) {
            return Err(ConfigError::NothingInOrder);
        }
        if self.order_above != OrderAbove::None && self.span == Span::QueuePair {
            return Err(ConfigError::OrderByModule);
        }
        let is_between = self.mode == Mode::Echo || self.direction == Direction::Both;
        if self.impair.is_some() && (!is_between || self.transport != Transport::Tcp) {
            return Err(ConfigError::NothingToImpair);
        }
        if self.skew.is_some() && self.connections < 2 {
            return Err(ConfigError::NothingToMix);
        }
        if self.skew.is_some() && (self.mode == Mode::Echo || self.direction != Direction::Receive)
        {
            return Err(ConfigError::NobodyMixes);
        }
        Ok(())
    }

    fn validate_message(&self) -> Result<(), ConfigError> {
        let size = self.size;
        if self.transport == Transport::Udp && size > self.mtu - UDP_HEADERS_BYTES {
            return Err(ConfigError::DatagramTooLong {
                size,
                room: self.mtu - UDP_HEADERS_BYTES,
                mtu: self.mtu,
            });
        }
        if self.transport == Transport::Udp && size < self.least_datagram() {
            return Err(ConfigError::DatagramTooShort {
                size,
                least: self.least_datagram(),
            });
        }
        if self.presentation == Presentation::Xdr {
            if BatchShape::filling(size).is_err() {
                return Err(ConfigError::UnevenRecord { size });
            }
            // The framer gives a record's bytes back to the window when it is whole, so one and a half must fit.
            let least = (size + MARK_BYTES) * 2;
            if self.transport == Transport::Tcp && (self.window_bytes as usize) < least {
                return Err(ConfigError::RecordAboveWindow {
                    size,
                    window_bytes: self.window_bytes,
                    least,
                });
            }
            if self.mode == Mode::Echo {
                return Err(ConfigError::EchoPresentation);
            }
        }
        if self.mode == Mode::Echo
            && self.transport == Transport::Tcp
            && size > self.window_bytes as usize / 2
        {
            return Err(ConfigError::EchoAboveWindow {
                size,
                window_bytes: self.window_bytes,
            });
        }
        Ok(())
    }

    /// A datagram carries its number, eight bytes, and under XDR a batch behind it.
    fn least_datagram(&self) -> usize {
        match self.presentation {
            Presentation::None => NUMBER_BYTES,
            Presentation::Xdr => 2 * NUMBER_BYTES,
        }
    }

    /// Whether there is anything that is locked with [`lock`](TtcpConfig::lock).
    pub fn is_locking(&self) -> bool {
        let connections = self.architecture == Architecture::Message
            && (self.perimeter == Perimeter::Locked || self.tcp_locks != TcpLocks::One);
        connections || self.counts == Counts::Locked || !self.caches
    }

    /// The same as this architecture can be set: what belongs to connections that processors share is as by default where they do
    /// not, and a lock where nothing is locked.
    pub(crate) fn suited(self) -> TtcpConfig {
        let default = TtcpConfig::default();
        let mut suited = self;
        if suited.architecture != Architecture::Message {
            suited.tcp_locks = default.tcp_locks;
            suited.perimeter = default.perimeter;
            suited.span = default.span;
            suited.order = default.order;
        }
        if !suited.is_locking() {
            suited.lock = default.lock;
        }
        suited
    }

    /// The repetition that times the order-free functions of this load: under `connection` on one processor, where nobody waits for
    /// anybody, a third as long.
    pub fn alone(&self) -> TtcpConfig {
        TtcpConfig {
            architecture: Architecture::Connection,
            processors: 1,
            device_queues: 1,
            agents: Agents::Threads,
            threads: None,
            thread_per_connection: false,
            min_duration: self.min_duration / 3,
            sync_sampling: false,
            order_free_sampling: true,
            ..self.clone()
        }
        .suited()
    }

    /// What the stack is asked to do for [`perimeter`](TtcpConfig::perimeter).
    pub(crate) fn exclusion(&self) -> Exclusion {
        match self.perimeter {
            Perimeter::Locked => Exclusion::Lock(self.lock),
            Perimeter::Delegated => Exclusion::Delegation,
        }
    }

    /// The share of connection `number` in all messages, where a mix is asked for, or else what an even one would be.
    pub(crate) fn share_of(&self, number: usize) -> f64 {
        match (self.skew, number) {
            (None, _) => 1.0 / self.connections as f64,
            (Some(share), 0) => share.value(),
            (Some(share), _) => (1.0 - share.value()) / (self.connections - 1) as f64,
        }
    }

    /// How many processors take from the device: all, but under `task` one of each pipeline.
    pub fn takers(&self) -> usize {
        match self.architecture {
            Architecture::Task => (self.processors / 2).max(1),
            Architecture::Connection
            | Architecture::Message
            | Architecture::Braid
            | Architecture::Function => self.carried(),
        }
    }

    /// What agents carry: so many processors of the architecture.
    pub fn carried(&self) -> usize {
        if self.thread_per_connection {
            self.connections
        } else {
            self.processors
        }
    }
}
