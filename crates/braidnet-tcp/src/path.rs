//! What the network says of segments that were sent (RFC 1122 §4.2.3.9, RFC 1191, RFC 5927).
//!
//! Anybody may say it: an ICMP error carries nothing that proves that its sender has seen the segment, but the segment's own sequence number. So what
//! names none that is on its way is not heard (RFC 5927 §4), and what is heard ends nothing but an open: of an established connection the peer
//! itself is the better witness (RFC 5927 §5.2).

mod search;

use crate::connection::{Connection, TIMESTAMPS_BYTES, option_bytes};
use crate::slow::Slow;
use crate::state::State;
use crate::{Events, Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// IPv4 and TCP headers without options, in bytes.
pub(crate) const FIXED_HEADERS: u32 = 40;
use search::Believed;
pub(crate) use search::{LEAST_SMSS, Path, Spared, Turn};

/// What the network says of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Nobody listens there.
    Refused,
    /// It will not be delivered, and trying again is of no use.
    Unreachable,
    /// It was not delivered; that may pass.
    Undelivered,
    /// It is longer than a link on its way carries.
    TooLong {
        /// The longest IP packet that the link carries, in bytes.
        path_mtu: u32,
    },
}

/// What has become of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Heard {
    /// The segment that it names is not on its way.
    NotOnItsWay,
    /// It is remembered, until something is acknowledged.
    Noted,
    /// The open has failed: the connection is over.
    Ended(Events),
    /// Segments are shorter from now on, and what is on its way is sent again in shorter ones.
    Shortened,
    /// Segments are as short already.
    ShortEnough,
    /// It is none of this connection's business how long packets may be ([`PathMtuDiscovery`](crate::PathMtuDiscovery)).
    Unheeded,
    /// Segments as long as now have arrived, so that it may be a lie; it is heeded if the segment is not acknowledged in time (RFC 5927
    /// §7.2).
    Doubted,
}

impl<P: Payload> Tcb<P> {
    /// The network says something of the segment that begins with `seq`.
    pub fn on_report(&mut self, now: Instant, seq: SeqNumber, report: Report) -> Heard {
        let (una, max) = (self.sender.snd_una, self.sender.snd_max);
        let state = self.connection.state;
        // RFC 5927 §4.1: SND.UNA =< SEG.SEQ < SND.NXT, which for a SYN is its own number.
        let is_on_its_way = match state {
            State::SynSent | State::SynReceived => {
                self.connection.handshakes_sent > 0 && seq == self.sender.iss
            }
            _ => una.is_at_or_before(seq) && seq.is_before(max),
        };
        if !is_on_its_way || state == State::Closed {
            return Heard::NotOnItsWay;
        }
        let event = match report {
            Report::TooLong { .. } if !self.heeds_path_mtu() => return Heard::Unheeded,
            Report::TooLong { path_mtu } => {
                return self.on_too_long(now, seq, path_mtu);
            }
            // RFC 1122 §4.2.3.9: hard errors end a connection; here only one that is being opened (RFC 5927 §5.2).
            Report::Refused if state == State::SynSent => Events::REFUSED,
            Report::Unreachable if state == State::SynSent => Events::UNREACHABLE,
            Report::Refused | Report::Unreachable | Report::Undelivered => {
                self.connection.undelivered = Some(una);
                return Heard::Noted;
            }
        };
        let mut events = event;
        self.end(&mut events);
        Heard::Ended(events)
    }

    /// Whether the network has said that segments are not delivered, and nothing was acknowledged since. Who is told that the peer
    /// does not answer may be told this instead (RFC 1122 §4.2.3.9).
    pub fn is_undelivered(&self) -> bool {
        self.connection.undelivered == Some(self.sender.snd_una)
    }

    /// The longest packet, in bytes, that is sent to the peer.
    pub fn path_mtu(&self) -> u32 {
        self.mss() + option_bytes(self.connection.timestamps) + FIXED_HEADERS
    }

    /// Packets of more than `mtu` bytes do not get through to the peer, as is known before anything is sent (RFC 1191 §6.2). To be called
    /// before the handshake is over; without effect where that is [not heeded](crate::PathMtuDiscovery::heeds).
    pub fn set_path_mtu(&mut self, mtu: u32) {
        if !self.heeds_path_mtu() {
            return;
        }
        let connection = &mut self.connection;
        connection.path_mtu = connection.path_mtu.min(mtu);
        if !matches!(connection.state, State::SynSent) {
            connection.smss = connection.smss.min(connection.path_smss());
        }
    }

    fn heeds_path_mtu(&self) -> bool {
        self.connection.config.path_mtu_discovery.heeds()
    }

    /// Packets of more than `mtu` bytes do not get through, as is said of the segment at `seq` (RFC 1191 §6.4): full segments are as much
    /// shorter from now on. What is on its way is sent again at once, in shorter ones, which is no sign of congestion (RFC
    /// 1191 §6.5).
    fn on_too_long(&mut self, now: Instant, seq: SeqNumber, mtu: u32) -> Heard {
        if !self.connection.state.is_synchronized() {
            let before = self.connection.path_mtu;
            self.set_path_mtu(mtu);
            return match self.connection.path_mtu < before {
                true => Heard::Shortened,
                false => Heard::ShortEnough,
            };
        }
        let smss = Connection::smss_within(mtu, self.connection.timestamps);
        let believed = self.sender.on_too_long(now, seq, smss);
        self.follow_path(now);
        match believed {
            Believed::Yes => Heard::Shortened,
            Believed::Known => Heard::ShortEnough,
            Believed::Later => Heard::Doubted,
        }
    }

    /// Full segments are as long as the sender has found; a path that is narrow is tried again after a while (RFC 4821 §7.3).
    pub(crate) fn follow_path(&mut self, now: Instant) {
        self.connection.smss = self.sender.congestion.smss();
        if self.sender.path_is_narrow() && !self.connection.slow.is_running(Slow::Path) {
            let wait = self.connection.config.path_search_again;
            self.connection.slow.start(Slow::Path, now, wait);
        }
    }

    /// A search that goes on begins with the connection, or one begins that was put off.
    pub(crate) fn begin_path(&mut self, now: Instant) {
        let options = option_bytes(self.connection.timestamps);
        let most = self.connection.agreed_smss;
        self.sender.begin_path(most, options);
        self.follow_path(now);
    }
}

impl Connection {
    /// The payload of a full segment that fits a packet of `mtu` bytes; not less than a path must have.
    fn smss_within(mtu: u32, timestamps: bool) -> u32 {
        let segment = mtu.saturating_sub(FIXED_HEADERS);
        segment.max(LEAST_SMSS + TIMESTAMPS_BYTES) - option_bytes(timestamps)
    }

    /// The same of what is known of the path.
    pub(crate) fn path_smss(&self) -> u32 {
        Connection::smss_within(self.path_mtu, self.timestamps)
    }
}

#[cfg(test)]
mod tests;
