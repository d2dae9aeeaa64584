//! The handshake, until the connection is established (RFC 9293 §3.10.7.2 and §3.10.7.3, RFC 7413 §4.2.2, RFC 3168 §6.1.1).

use super::{Agreed, Arriving, Delivered, Model, Reset, Variant};
use braidnet_tcp::{EcnMode, State};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

impl Model {
    /// The peer's SYN, in LISTEN or SYN-SENT. `offers` is what we offer.
    pub fn take_syn(&mut self, now: Instant, syn: &TcpHeader, offers: &Agreed, scales: bool) {
        self.irs = syn.seq.value();
        self.rcv_nxt = 1;
        self.rcv_edge += 1;
        self.last_ack = 1;
        let scaled = scales && syn.has(TcpHeader::HAS_WINDOW_SCALE);
        self.agreed = Agreed {
            timestamps: offers.timestamps && syn.has(TcpHeader::HAS_TIMESTAMPS),
            sack: offers.sack && syn.has(TcpHeader::HAS_SACK_PERMITTED),
            snd_shift: if scaled { syn.window_scale.min(14) } else { 0 },
            rcv_shift: if scaled { offers.rcv_shift } else { 0 },
        };
        if self.agreed.timestamps {
            self.ts_recent = syn.ts_value;
            self.ts_recent_at = now;
        }
        let ack = self.snd_place(syn.ack.value());
        self.set_window(0, ack, syn, 0);
        self.may_mark = self.agrees_on_marks(syn);
    }

    /// Whether the peer's SYN, or SYN-ACK, and ours agree on congestion notification, so that data of ours may be marked (RFC 3168 §6.1.1,
    /// RFC 9768 §3.1.1).
    fn agrees_on_marks(&self, syn: &TcpHeader) -> bool {
        let flag = |flag| u8::from(syn.flags.contains(flag));
        let ae = u8::from(syn.has(TcpHeader::AE));
        let said = 4 * ae + 2 * flag(TcpFlags::CWR) + flag(TcpFlags::ECE);
        let counts = self.ecn == EcnMode::Accurate;
        let wants = match self.state {
            State::SynSent => self.asks,
            _ => self.ecn != EcnMode::Off,
        };
        let agrees = match syn.flags.contains(TcpFlags::ACK) {
            true if counts => matches!(said, 1 | 2 | 5),
            true => said & 3 == 1,
            false => {
                (said & 3 == 3 && syn.ecn() == 0)
                    || (counts && said & 3 != 3 && said != 0)
                    || (counts && said == 7)
            }
        };
        wants && agrees
    }

    /// The data of a SYN whose cookie is good: as much as our SYN-ACK will have room for (RFC 7413 §4.2.2).
    pub fn open_early(&mut self, variant: Variant, len: usize, window: usize) -> Delivered {
        let taken = len.min(window);
        self.early = true;
        // A SYN takes none of the window: what we answer goes as far as the peer's has room.
        self.snd_edge = 1 + self.snd_wnd;
        self.rcv_edge = 1 + window as i64;
        self.rcv_nxt = 1 + taken as i64;
        vec![variant; taken]
    }

    /// RFC 9293 §3.10.7.3.
    pub(super) fn arrive_in_syn_sent(
        &mut self,
        now: Instant,
        segment: &Arriving<'_>,
        offers: &Agreed,
        scales: bool,
    ) {
        let header = segment.header;
        let has = |flag| header.flags.contains(flag);
        // SND.UNA < SEG.ACK =< SND.NXT: the SYN, and data that it carried perhaps (RFC 7413 §4.2.2).
        let ack = self.snd_place(header.ack.value());
        if has(TcpFlags::ACK) && (ack < 1 || ack > self.snd_max) {
            if !has(TcpFlags::RST) {
                self.reset = Some(Reset::to(header));
            }
            return;
        }
        if has(TcpFlags::RST) {
            // With numbers of its own, and our data acknowledged, it ends what these had opened (RFC 7413 §4.2.2), and refuses nothing.
            let was_open = header.seq.value() != 0 && ack > 1;
            if has(TcpFlags::ACK) && self.asks && !was_open {
                // Somebody on the way may not bear with what it asks for: once more without (RFC 3168 §6.1.1.1).
                (self.asks, self.owes_syn) = (false, true);
            } else if has(TcpFlags::ACK) {
                self.end();
            }
            return;
        }
        if !has(TcpFlags::SYN) {
            return;
        }
        self.take_syn(now, header, offers, scales);
        if has(TcpFlags::ACK) {
            self.establish(header);
            self.owes_ack = true;
        } else {
            self.state = State::SynReceived;
            self.owes_syn = true;
        }
    }

    /// Our SYN is acknowledged, and data that left with it or behind it perhaps.
    pub(super) fn establish(&mut self, answer: &TcpHeader) {
        self.state = State::Established;
        self.owes_syn = false;
        self.snd_una = self.snd_place(answer.ack.value());
        self.snd_max = self.snd_max.max(1);
        self.snd_edge = self.snd_edge.max(self.snd_una + self.snd_wnd);
        self.taken = (self.snd_una - 1).min(self.carried);
        self.answer = answer.fast_open();
        if self.closed {
            self.state = State::FinWait1;
        }
    }

    /// The peer's SYN has come once more, and asks for another kind of congestion notification than the first (RFC 9768 §3.1.5).
    pub fn refuse(&mut self, syn: &TcpHeader) {
        assert_eq!(self.state, State::SynReceived);
        self.end();
        self.answer_by_reset(syn);
    }

    /// Our SYN leaves, with so many octets of data.
    pub fn send_syn(&mut self, octets: u32, asks: bool) {
        if self.syns == 0 {
            self.carried = octets.into();
        }
        self.asks = asks;
        self.syns += 1;
        self.snd_max = self.snd_max.max(1 + i64::from(octets));
    }

    /// Whether our next SYN asks for congestion notification: the first; and the second, if nobody has refused the first and counts of
    /// marks were asked for (RFC 3168 §6.1.1.1, RFC 9768 §3.1.4.1).
    pub fn asks_next(&self, mode: EcnMode) -> bool {
        match (mode, self.syns) {
            (EcnMode::On | EcnMode::Accurate, 0) => true,
            (EcnMode::Accurate, 1) => self.asks,
            _ => false,
        }
    }
}
