//! Explicit congestion notification (RFC 3168 §6.1): what the SYNs agree on, marks that arrive, and what is said of them. How the window
//! answers to what the peer says of ours is in [`mark`](crate::recovery::mark).
//!
//! Only new data is sent as able to be marked: no SYN (§6.1.1), no acknowledgment alone (§6.1.4), nothing that is sent again (§6.1.5),
//! no probe of a window (§6.1.6).

use crate::arrival::Segment;
use crate::config::EcnMode;
use crate::connection::Connection;
use crate::{Payload, Tcb};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

/// ECE and CWR: an ECN-setup SYN has both, an ECN-setup SYN-ACK has the first alone (RFC 3168 §6.1.1).
pub(crate) const SETUP: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);

/// How far one connection has come with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// A SYN of ours went without asking, or one of the peer's came without.
    given_up: bool,
    /// Marks that arrive are told of.
    pub(crate) hears: bool,
    /// One has come, and the peer has not said that it knows: every segment tells of it.
    echoing: bool,
}

impl Ecn {
    /// Flags of every segment after the handshake.
    #[inline]
    pub(crate) fn flags(&self) -> TcpFlags {
        TcpFlags(u8::from(self.echoing) * TcpFlags::ECE.0)
    }

    /// Whether our data may be marked.
    pub(crate) fn sends(&self) -> bool {
        self.hears && !self.given_up
    }
}

impl Connection {
    /// Whether our SYN is to ask for it.
    fn asks_for_ecn(&self) -> bool {
        self.active && self.config.ecn == EcnMode::On && !self.ecn.given_up
    }

    /// Flags of our SYN or SYN-ACK.
    pub(crate) fn ecn_setup(&self, is_syn_ack: bool) -> TcpFlags {
        match is_syn_ack {
            true if self.ecn.hears => TcpFlags::ECE,
            false if self.asks_for_ecn() => SETUP,
            _ => TcpFlags(0),
        }
    }

    /// Our SYN was not answered, or by a RST: someone on the way may not bear with those that ask (RFC 3168 §6.1.1.1). Whether there is
    /// any use in another, that does not.
    pub(crate) fn stop_asking_for_ecn(&mut self) -> bool {
        let asked = self.asks_for_ecn();
        self.ecn.given_up = true;
        asked
    }

    /// The peer's SYN or SYN-ACK says what it thinks of it (RFC 3168 §6.1.1).
    pub(crate) fn agree_on_ecn(&mut self, syn: &TcpHeader) {
        let said = syn.flags.0 & SETUP.0;
        self.ecn.hears = if syn.flags.contains(TcpFlags::ACK) {
            // The answer to one that asked may come after another that did not.
            self.active && self.config.ecn == EcnMode::On && said == TcpFlags::ECE.0
        } else {
            // No SYN may be marked: if one looks as if it could be, what is in this field means something else on the way.
            let asked = said == SETUP.0 && syn.ecn() == 0;
            asked && self.config.ecn != EcnMode::Off && (!self.active || self.asks_for_ecn())
        };
        self.look_out();
    }

    /// The peer's SYN has come once more, and this time does not ask: it has given up.
    pub(crate) fn heed_repeated_syn(&mut self, syn: &TcpHeader) {
        if syn.flags.0 & SETUP.0 != SETUP.0 {
            self.ecn.hears = false;
            self.look_out();
        }
    }

    /// Sets what segments look like of which there is nothing to be said.
    pub(crate) fn look_out(&mut self) {
        let plain =
            TcpFlags::FIN.0 | TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::ACK.0 | TcpFlags::URG.0;
        let marks = u8::from(self.ecn.hears);
        self.usual = Usual {
            looked_at: [
                plain | (marks * SETUP.0),
                // Marked or ECT(1): the bit that both have.
                !TcpHeader::ECN | (marks * TcpHeader::ECT_1),
            ],
            found: [
                TcpFlags::ACK.0,
                u8::from(self.timestamps) * TcpHeader::HAS_TIMESTAMPS,
            ],
        };
    }
}

/// What the flags and the options of nearly every segment are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    looked_at: [u8; 2],
    found: [u8; 2],
}

impl Usual {
    /// Whether those of this one are. Both fields are side by side, and compared in one go.
    #[inline]
    pub(crate) fn is(&self, header: &TcpHeader) -> bool {
        let word = u16::from_ne_bytes([header.flags.0, header.present]);
        word & u16::from_ne_bytes(self.looked_at) == u16::from_ne_bytes(self.found)
    }
}

impl<P: Payload> Tcb<P> {
    /// What a segment inside the window says (RFC 3168 §6.1.3 and §6.1.5): that the peer has heard of a mark, or that it is marked. Only
    /// data counts; what is both is marked anew.
    pub(crate) fn take_mark(&mut self, segment: &Segment<'_, P>) {
        let ecn = &mut self.connection.ecn;
        if !ecn.hears || segment.len() == 0 {
            return;
        }
        let before = ecn.echoing;
        if segment.has(TcpFlags::CWR) {
            ecn.echoing = false;
            // Its window may hold so little now that it waits for this.
            self.receiver.ack_now = true;
        }
        ecn.echoing |= segment.header.ecn() == TcpHeader::CE;
        self.receiver.ack_now |= ecn.echoing && !before;
    }
}

#[cfg(test)]
mod tests;
