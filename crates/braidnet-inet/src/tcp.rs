//! TCP as a module: the engine of `braidnet-tcp` over messages.
//!
//! - *before*, on the way up: parse, verify the checksum, find flow and bucket. Order-free.
//! - *core*: look the connection up, run the engine; hand data and [`Control`](braidnet_stream::Control)s up, take data
//!   and verbs from above. Owns the bucket's connections.
//! - *settle*: once for each entry of the perimeter, let every connection that was touched say what it has to say: one
//!   acknowledgment for a run of segments, data that the window lets out, consecutive segments of it as one message: a train.
//! - *after*, on the way down: header and checksum, from the payload's sum where it is known; one header for a train, whose
//!   checksums are made where it is cut. Order-free.
//!
//! Above it stand modules that speak [`Verb`](braidnet_stream::Verb)s: they get `Connected`, data, `Space`, `EndOfData`
//! and `Closed`; they send `Accepted` once they have taken up a connection, data (at most what `Connected` and `Space` gave
//! them), `Credit` for what they took, `Close`, `Abort` and `Connect`.

pub(crate) mod after;
mod awaited;
mod before;
mod connection;
mod core;
mod fast_open;
mod limits;
mod listen;
pub(crate) mod locked;
mod locks;
mod marks;
mod news;
mod open;
mod repeats;
mod send_queue;
mod spent;
mod status;
mod table;

pub use after::HEADROOM;
pub use fast_open::FastOpening;
pub use limits::{TcpLimits, TcpMemory, TcpParts};
pub use listen::{ListenError, Listeners, Listening};
pub use locks::{TcpLocks, UnknownTcpLocks};
pub use send_queue::RECORD_END;
pub use status::{any, status, statuses, unsent};

use crate::flows::Flows;
use crate::live::Live;
use crate::offload::Offload;
use crate::path::{PathMtus, Paths};
use braidnet_message::{Arena, Run};
use braidnet_stream::{BucketId, Context, Counter, Direction, Key, Module, Stages, State};
use fast_open::Servers;
use std::sync::Arc;
use table::Table;

/// What TCP needs to know.
#[derive(Clone)]
pub struct TcpConfig {
    /// How the engine of every connection is set.
    pub engine: braidnet_tcp::Config,
    /// Largest IP packet of the device, in bytes: bounds the segments that are sent and asked for.
    pub mtu: usize,
    /// Most connections in one bucket, half-open and in TIME-WAIT included; one more is refused by name.
    pub connections_per_bucket: usize,
    /// What listeners do when they are full.
    pub listening: Listening,
    /// What is remembered for Fast Open, where [`engine`](TcpConfig::engine) has it.
    pub fast_opening: FastOpening,
    /// Secret of the initial sequence numbers (RFC 6528), SYN cookies and the cookies of Fast Open, random at every start.
    pub isn_secret: [u64; 2],
}

/// The TCP module.
pub struct Tcp {
    config: TcpConfig,
    /// How connections are set, for all that are.
    engine: Arc<braidnet_tcp::Config>,
    flows: Flows,
    listeners: Arc<Listeners>,
    offload: Offload,
    one_behind: bool,
    memory: TcpMemory,
    /// What may be set otherwise while it runs.
    limits: Arc<Live<TcpLimits>>,
    paths: PathMtus,
    servers: Servers,
}

impl Tcp {
    /// TCP for connections that `flows` deals to buckets.
    pub fn new(config: TcpConfig, flows: Flows) -> Tcp {
        let limits = TcpLimits {
            connections_per_bucket: config.connections_per_bucket,
            listening: config.listening,
            paths: Paths::default(),
            fast_opening: config.fast_opening,
        };
        Tcp {
            servers: Servers::new(),
            engine: Arc::new(config.engine),
            config,
            flows,
            listeners: Arc::new(Listeners::default()),
            offload: Offload::Nothing,
            one_behind: true,
            memory: TcpMemory::new(&Arena::new(usize::MAX)),
            limits: Arc::new(Live::new(limits)),
            paths: PathMtus::new(),
        }
    }

    /// The same with every connection's state charged against `memory`; where it is used up, connections are refused by name.
    /// All connections together keep data out of order in at most a quarter of it, so that what is missing finds room, and their
    /// receive buffers grow by a quarter of it at most.
    pub fn within(self, memory: &Arc<Arena>) -> Tcp {
        Tcp {
            memory: TcpMemory::new(memory),
            ..self
        }
    }

    /// The same on a device that does so much of its work.
    pub fn offloading(self, offload: Offload) -> Tcp {
        Tcp { offload, ..self }
    }

    /// The same whose maps of connections look every segment's up, and do not ask first whether it is that of the one before (PLP
    /// §2.1): to measure what that is worth.
    pub fn without_one_behind(self) -> Tcp {
        Tcp {
            one_behind: false,
            ..self
        }
    }

    /// What may be set otherwise while it runs.
    pub fn limits(&self) -> &Arc<Live<TcpLimits>> {
        &self.limits
    }

    /// The memory that it may use, which may become more or less while it runs.
    pub fn memory(&self) -> &TcpMemory {
        &self.memory
    }

    /// The ports that are listened on.
    pub fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }
}

/// Index of each counter of TCP.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "one list makes both the names and their numbers")]
        enum Numbered { $($name),* }
        $($(#[$doc])* pub(crate) const $name: Counter = Counter(Numbered::$name as u16);)*
        /// The module's own counters; the engine's drop reasons follow them, then the parser's refusals.
        const OWN: &[&str] = &[$($text),*];
    };
}

counters! {
    /// Segments that reached the core, and what ICMP says of segments of ours.
    SEGMENTS_IN = "segments_in",
    /// Segments with data that were not the next expected ones.
    OUT_OF_ORDER = "out_of_order",
    /// Segments with data that reached the core.
    DATA_SEGMENTS_IN = "data_segments_in",
    /// Look-ups of a connection that the one-behind cache did not answer.
    WALKS = "walks",
    /// Segments sent.
    SEGMENTS_OUT = "segments_out",
    /// Segments sent again.
    RETRANSMITTED = "retransmitted",
    /// Connections established.
    OPENED = "opened",
    /// Connections gone.
    CLOSED = "closed",
    /// Resets sent for segments of no connection (RFC 9293 §3.10.7.1).
    RESETS_OUT = "resets_out",
    /// Dropped: port 0, or sent to many (RFC 1122 §4.2.3.10); IP has seen to the source.
    BAD_ADDRESS = "bad_address",
    /// Dropped: for no connection, and no reply is called for.
    NO_CONNECTION = "no_connection",
    /// Dropped: the listener has as many half-open connections as it may, and gives no cookies, or none in place of a connection in
    /// TIME-WAIT.
    SYN_QUEUE_FULL = "syn_queue_full",
    /// SYNs answered by a cookie: the listener has as many half-open connections as it may.
    COOKIES_SENT = "cookies_sent",
    /// Connections opened by an ACK that brought a cookie back.
    COOKIES_TAKEN = "cookies_taken",
    /// ACKs that answered no SYN-ACK of a connection's while cookies were out, and brought none.
    COOKIES_WRONG = "cookies_wrong",
    /// ACKs that brought a cookie back once more: it has opened a connection before.
    COOKIES_SPENT = "cookies_spent",
    /// Dropped: such ACKs that brought no cookie, but may follow one that does and has not arrived within half a minute.
    COOKIES_AWAITED = "cookies_awaited",
    /// Dropped: a SYN; the listener has sent as many cookies as it may in this time.
    COOKIES_LIMITED = "cookies_limited",
    /// Dropped: a SYN, or what would end the handshake; the listener has as many connections as it may that are established and
    /// that nobody has accepted. The peer tries again.
    ACCEPT_QUEUE_FULL = "accept_queue_full",
    /// Dropped or refused: the bucket has as many connections as it may.
    TABLE_FULL = "table_full",
    /// Dropped or refused: the stack's memory is used up.
    NO_MEMORY = "no_memory",
    /// Dropped: data or a verb for a connection that is no more.
    STALE = "stale",
    /// Dropped: data sent by the application after its close, or beyond the space it was given.
    NOT_SENDABLE = "not_sendable",
    /// Not sent, or not taken during the handshake: no buffer; the retransmission timer, ours or the peer's, makes good.
    NO_BUFFER = "no_buffer",
    /// Not taken: the data of a segment that would only be kept, while the stack's memory is used up.
    TEXT_REFUSED = "text_refused",
    /// Reset: a panic inside has poisoned their bucket.
    POISONED = "poisoned",
    /// Of those, not told to the peer: the engine has panicked again.
    POISONED_UNSENT = "poisoned_unsent",
    /// What ICMP says of a segment of no connection.
    REPORT_STALE = "report_stale",
    /// What ICMP says of a segment that is not on its way (RFC 5927 §4.1).
    REPORT_NOT_ON_ITS_WAY = "report_not_on_its_way",
    /// What ICMP says of a segment too long for its path, where segments are no longer than that.
    REPORT_SHORT_ENOUGH = "report_short_enough",
    /// What ICMP says of a segment too long for its path, to a connection that does not heed that.
    REPORT_UNHEEDED = "report_unheeded",
    /// Heard: segments are not delivered.
    UNDELIVERED = "undelivered",
    /// Heard: the peer cannot be reached; the open has failed.
    UNREACHABLE = "unreachable",
    /// Heard: the path is shorter than was thought.
    PATH_SHORTENED = "path_shortened",
    /// Of those, paths that made others be forgotten.
    PATH_FORGOTTEN = "path_forgotten",
    /// What ICMP says of a segment too long for its path, while segments as long arrive: a timeout decides (RFC 5927 §7.2).
    REPORT_DOUBTED = "report_doubted",
    /// Full segments got no answer again and again, and are shorter (RFC 4821 §7.7).
    PATH_BLACK_HOLES = "path_black_holes",
    /// Probes of a path that have arrived: segments are longer (RFC 4821 §7.6.1).
    PATH_WIDENED = "path_widened",
    /// Probes of a path that were lost (RFC 4821 §7.6.2).
    PATH_PROBES_LOST = "path_probes_lost",
    /// SYN-ACKs that gave a cookie of Fast Open (RFC 7413 §4.2.1).
    FAST_OPEN_COOKIES = "fast_open_cookies",
    /// SYNs whose cookie was not, or is no more, one of ours: their data was not taken, and they got another.
    FAST_OPEN_COOKIES_WRONG = "fast_open_cookies_wrong",
    /// SYNs with a good cookie that opened no connection early: as many of the listener are opening that way as may be (RFC 7413 §4.2), or memory is
    /// short.
    FAST_OPEN_LIMITED = "fast_open_limited",
    /// Connections that a SYN with a good cookie has opened, before their handshake was over.
    FAST_OPEN_ACCEPTED = "fast_open_accepted",
    /// Of those, reset before it was: they count as opening for a while longer (RFC 7413 §5.1).
    FAST_OPEN_RESET = "fast_open_reset",
    /// SYNs of ours that asked for a cookie, or brought one and no data, and were answered.
    FAST_OPEN_ASKED = "fast_open_asked",
    /// SYNs of ours whose data the server took.
    FAST_OPEN_TAKEN = "fast_open_taken",
    /// SYNs of ours that were answered and whose data the server did not take; they were sent again at once.
    FAST_OPEN_REFUSED = "fast_open_refused",
    /// SYNs of ours with a cookie, or asking for one, that were not answered, and connections that opened by one and then heard nothing.
    FAST_OPEN_UNANSWERED = "fast_open_unanswered",
    /// Connections that were asked for with data and sent none with their SYN: the server did not take any lately (RFC 7413 §4.1.3.1).
    FAST_OPEN_PAUSED = "fast_open_paused",
    /// Servers that had to be forgotten for others.
    FAST_OPEN_FORGOTTEN = "fast_open_forgotten",
    /// Put off: no buffer for what the application is to be told; it is told when there is one.
    UNTOLD = "untold",
    /// Rounds after which a receive buffer that holds its peer back has stayed as it is: all together have grown as far as they may.
    GROWTH_REFUSED = "growth_refused",
}

impl Module for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
            | Stages::CORE_UP
            | Stages::CORE_DOWN
            | Stages::AFTER_DOWN
            | Stages::SETTLE
            | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        core::counter_names()
    }

    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        Box::new(Table::new(bucket, self.one_behind))
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.parse(run, cx);
    }

    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        match direction {
            Direction::Up => self.segments_arrive(state, run, cx),
            Direction::Down => self.user_calls(state, run, cx),
        }
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.transmit(state.of::<Table>(), cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        self.deadlines(state.of::<Table>(), cx);
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        self.reset_all(old.of::<Table>(), fresh.of::<Table>(), cx);
    }

    fn after(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.emit(run, cx);
    }
}
