//! What the network says of segments that were sent (RFC 1122 §4.2.3.9, RFC 1191, RFC 5927).
//!
//! Anybody may say it: an ICMP error carries nothing that proves that its sender has seen the segment, but the segment's own sequence number. So what
//! names none that is on its way is not heard (RFC 5927 §4), and what is heard ends nothing but an open: of an established connection the peer
//! itself is the better witness (RFC 5927 §5.2).

use crate::connection::TIMESTAMPS_BYTES;
use crate::sender::Sender;
use crate::state::State;
use crate::{Events, Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

/// IPv4 and TCP headers without options, in bytes.
const FIXED_HEADERS: u32 = 40;
/// The least payload of a full segment, whatever is said of the path.
const LEAST_SMSS: u32 = 76;

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
            Report::TooLong { path_mtu } => {
                return match self.set_path_mtu(now, path_mtu) {
                    true => Heard::Shortened,
                    false => Heard::ShortEnough,
                };
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

    /// Packets of more than `mtu` bytes do not get through to the peer (RFC 1191 §6.4): segments are as much shorter from now on. Whether they are
    /// shorter than before. What is on its way is sent again at once, in shorter ones, which is no sign of congestion (RFC 1191
    /// §6.5).
    pub fn set_path_mtu(&mut self, now: Instant, mtu: u32) -> bool {
        let connection = &mut self.connection;
        connection.path_mtu = connection.path_mtu.min(mtu);
        let options = match connection.timestamps {
            true => TIMESTAMPS_BYTES,
            false => 0,
        };
        let smss = connection.longest_segment() - options;
        if smss >= connection.smss || matches!(connection.state, State::SynSent | State::Closed) {
            return false;
        }
        connection.smss = smss;
        self.sender.shorten(now, smss);
        true
    }
}

impl crate::connection::Connection {
    /// Bytes that the path lets a segment have, options included.
    pub(crate) fn longest_segment(&self) -> u32 {
        let room = self.path_mtu.saturating_sub(FIXED_HEADERS);
        room.max(LEAST_SMSS + TIMESTAMPS_BYTES)
    }
}

impl Sender {
    /// Full segments have so few bytes from now on. All that is in flight counts as lost.
    fn shorten(&mut self, now: Instant, smss: u32) {
        self.congestion.shorten(smss);
        if self.flight_size() > 0 && self.snd_una != self.iss {
            self.retransmit_all(now);
            self.flight.lose_all();
            self.refresh();
            self.arm_timeout(now);
        }
    }
}

#[cfg(test)]
mod tests;
