//! The TCP engine of braidnet, without IO, clocks or threads.
//!
//! A [`Tcb`] is one connection: segments, user calls and times go in; segments, events and deadlines come out. It holds
//! ranges of sequence numbers and times, never bytes to send; what arrives passes through it as handles of a type of the
//! caller's ([`Payload`]). A fake clock, a simulator and every architecture of braidnet drive it alike.
//!
//! # How to drive it
//!
//! - Open with [`Tcb::connect`], or with [`Tcb::accept`] from a SYN that [`listen`] would accept, or without keeping anything of
//!   that SYN by a [`SynCookie`]. With [`Tcb::ask_fast_open`] and [`Tcb::open_early`] data travel with the SYN. Segments without a connection are answered with [`reset_for`].
//! - Feed a run of segments to [`Tcb::on_segment`]. If the events say [`Events::ACKED`], release [`Tcb::take_acked`]
//!   bytes from the front of what there is to send.
//! - Or ask first whether the connection [expects](Tcb::expects) a segment, as it does nearly every one, and then
//!   [take](Tcb::take_expected) it.
//! - Append to what there is to send, and say so with [`Tcb::send`] or [`Tcb::send_as_fits`]; say with [`Tcb::receive`] what the application took.
//! - After a run, a deadline or a user call, as long as [`Tcb::is_transmit_due`], call [`Tcb::transmit`] until it gives
//!   nothing, or [`Tcb::poll_transmit`], which is the same. Not doing so may stall the connection: acknowledgments and
//!   timers for waiting data are decided there.
//! - Call [`Tcb::on_deadline`] when [`Tcb::deadline`] has come; late or in vain does no harm.
//! - Let go of the connection when an event says [`Events::CLOSED`] and nothing is left to transmit.
//!
//! # Parts
//!
//! The *connection* (state, handshake, teardown), the *sender* (window, retransmission, congestion) and the *receiver*
//! (reassembly, acknowledgment, window) are separate structs, and only [`Tcb`] holds all of them: its methods say which
//! parts each step of RFC 9293 §3.10 needs. When both halves are needed, the receiver goes first.
//!
//! # What it refuses
//!
//! It keeps no table of connections, no listener, no port, no IP address: those are the TCP module's. It does no I/O, reads
//! no clock, spawns no thread, takes no lock. Where it departs from an RFC, `docs/rfc-departures.md` says so and why. A peer's
//! fault is a [`DropReason`], never a panic.

mod allowance;
mod arrival;
mod config;
mod congestion;
mod connection;
mod cookie;
mod ecn;
mod fast_open;
mod flight;
mod growth;
#[cfg(test)]
mod hostile;
mod info;
pub mod isn;
#[cfg(test)]
mod loopback;
mod output;
mod pacing;
mod path;
mod reasons;
mod reassembly;
mod receiver;
mod recovery;
mod reset;
mod rtt;
mod sender;
mod setting;
mod shelf;
mod slow;
mod state;
mod tcb;
#[cfg(test)]
mod testing;
mod timers;
mod urgent;

pub use allowance::Allowance;
pub use arrival::Expected;
pub use config::{
    Config, CongestionControl, EcnMode, Keepalive, MAX_WINDOW_BYTES, PathMtuDiscovery, PathProbing,
    UnknownCongestionControl, UnknownEcnMode, UnknownPathProbing,
};
pub use cookie::{Redeemed, SynCookie};
pub use fast_open::{
    CookieKeys, FastOpen, FastOpened, Freshness, KnownServer, NoSharedKeys, SharedKeys, SynFate,
    UnknownFastOpen,
};
pub use info::{CongestionPhase, EcnAgreed, TcpInfo};
pub use output::{Outlet, Transmit};
pub use path::{Heard, Report};
pub use reasons::DropReason;
pub use reset::{Listen, listen, reset_for};
pub use setting::{PacketFields, Setting};
pub use state::State;
pub use tcb::Tcb;

/// A received segment's data, or what is left of it. Dropping it lets go of the data.
pub trait Payload {
    /// Bytes of data.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of data of the longest segment in it, where it stands for several. Its length unless told otherwise.
    fn segment_len(&self) -> usize {
        self.len()
    }

    /// Where the data of the last segment in it begins, all before it being as [long](Payload::segment_len) as the longest.
    #[inline]
    fn last_segment_at(&self) -> usize {
        let (len, each) = (self.len(), self.segment_len());
        if len > each {
            (len - 1) / each.max(1) * each
        } else {
            0
        }
    }

    /// Bytes of memory that it holds while it is kept: what counts against an [`Allowance`]. Its length unless told
    /// otherwise.
    fn footprint(&self) -> usize {
        self.len()
    }

    /// Lets go of the first `n` bytes; `n` is at most [`len`](Payload::len).
    fn trim_front(&mut self, n: usize);

    /// Lets go of all but the first `n` bytes; `n` is at most [`len`](Payload::len).
    fn truncate(&mut self, n: usize);
}

/// Where data goes once it is in order.
pub trait Sink<P> {
    /// Takes the next bytes of the stream; they count against the window until [`Tcb::receive`] gives them back.
    fn deliver(&mut self, payload: P);
}

impl<P> Sink<P> for Vec<P> {
    fn deliver(&mut self, payload: P) {
        self.push(payload);
    }
}

bitflags::bitflags! {
    /// What happened to a connection, for its user.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Events: u16 {
        /// The handshake is over.
        const CONNECTED = 1;
        /// Bytes sent were acknowledged: [`Tcb::take_acked`] says how many.
        const ACKED = 1 << 1;
        /// The peer has closed; all its data has been delivered.
        const END_OF_DATA = 1 << 2;
        /// The peer has reset the connection, or data came that nobody reads.
        const RESET = 1 << 3;
        /// The peer has refused the connection that we opened.
        const REFUSED = 1 << 4;
        /// The peer has been silent for too long (RFC 9293 §3.8.3, R2).
        const TIMED_OUT = 1 << 5;
        /// The connection is over; it may have a last RST to transmit.
        const CLOSED = 1 << 6;
        /// Data arrived that was not next.
        const OUT_OF_ORDER = 1 << 7;
        /// The peer calls data urgent, or more than before: [`Tcb::urgent_mark`] says how far.
        const URGENT = 1 << 8;
        /// The network has said that the peer, whom we wanted to connect with, cannot be reached.
        const UNREACHABLE = 1 << 9;
        /// What the network has said of the path, and was doubted, was right: full segments are shorter ([`Heard::Doubted`]).
        const PATH_SHORTENED = 1 << 10;
        /// Full segments were not acknowledged again and again, and are shorter from now on (RFC 4821 §7.7).
        const PATH_BLACK_HOLE = 1 << 11;
        /// A longer segment has arrived: full segments are as long from now on (RFC 4821 §7.6.1).
        const PATH_WIDENED = 1 << 12;
        /// A longer segment has not arrived (RFC 4821 §7.6.2).
        const PATH_PROBE_LOST = 1 << 13;
        /// The peer has not answered [`Config::silent_retransmissions`] timeouts in a row; it may yet (RFC 9293 §3.8.3, R1).
        const SILENT = 1 << 14;
        /// All that is found out of the path.
        const PATH = 15 << 10;
    }
}

/// What became of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Outcome {
    /// What it brought about.
    pub events: Events,
    /// Why it, or a part of it, was not taken.
    pub drop: Option<DropReason>,
}
