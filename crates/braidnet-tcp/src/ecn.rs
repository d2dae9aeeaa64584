//! Explicit congestion notification (RFC 3168 §6.1, RFC 9768): what the SYNs agree on, marks that arrive, and what is said of them. How the
//! window answers to what the peer says of ours is in [`mark`](crate::recovery::mark).
//!
//! Only new data is sent as able to be marked: no SYN (RFC 3168 §6.1.1), no acknowledgment alone (§6.1.4), nothing that is sent again
//! (§6.1.5), no probe of a window (§6.1.6).
//!
//! The classic kind says that there was a mark (ECE) until it hears that this is known (CWR). The accurate kind counts: three flags, AE,
//! CWR and ECE, are the last bits of the number of marked packets that have come, five ahead (RFC 9768 §3.2.2). It is used without its
//! option. Which kind it is the first SYN and the first SYN-ACK decide, whatever comes after them (§3.1.5).

use crate::arrival::Segment;
use crate::config::EcnMode;
use crate::connection::Connection;
use crate::state::State;
use crate::{Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

/// ECE and CWR: an ECN-setup SYN has both, an ECN-setup SYN-ACK has the first alone (RFC 3168 §6.1.1).
pub(crate) const SETUP: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);

/// Where counts begin (RFC 9768 §3.2.1).
const FIRST_COUNT: u8 = 5;
/// All three flags: a SYN that asks for the accurate kind (§3.1.1). So does one with flags that are kept for what is to come (§3.1.3).
const ASKS: u8 = 7;
/// The classic kind, on a SYN without AE and on a SYN-ACK.
const ASKS_CLASSIC: u8 = 3;
const CLASSIC: u8 = 1;
/// A SYN-ACK with flags that are kept for what is to come: it agrees to the accurate kind (§3.1.3).
const AGREES_SOMEHOW: u8 = 5;
/// Marked packets without data that are told of by an acknowledgment of their own, where none is due anyway and where one is (§3.2.2.5.1).
const MARKS_UNTOLD: [u8; 2] = [3, 2];

/// How far one connection has come with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// A SYN of ours, or of the peer's, went without asking, or the field is changed on the way: nothing of ours may be marked.
    given_up: bool,
    /// The peer's count is cleared on the way, or there is none: what it says is not to be heeded.
    unheeded: bool,
    /// Marks that arrive are told of.
    pub(crate) hears: bool,
    /// They are counted.
    counts: bool,
    /// Classic: one has come, and the peer has not said that it knows.
    echoing: bool,
    /// `r.cep`, `s.cep` (RFC 9768 §3.2.1): packets marked that have come here, that have come there; what is told of them is modulo 8.
    came: u8,
    heard: u8,
    /// Of `came`, one was a SYN-ACK.
    syn_ack_came: bool,
    /// The peer has told of a mark on our SYN or SYN-ACK.
    pub(crate) handshake_marked: bool,
    /// Marked packets without data since something last left, and SND.NXT then.
    untold: (u8, SeqNumber),
    /// What is said of the ECN field of the peer's SYN or SYN-ACK.
    field: u8,
    /// Said by an acknowledgment of a SYN-ACK, which goes alone (§3.2.2.1).
    pub(crate) answer: Option<u8>,
    /// Of every segment after the handshake.
    pub(crate) flags: TcpFlags,
    pub(crate) ae: u8,
}

impl Ecn {
    /// Whether our data may be marked.
    pub(crate) fn sends(&self) -> bool {
        self.hears && !self.given_up
    }

    pub(crate) fn is_accurate(&self) -> bool {
        self.counts
    }

    /// Whether the window goes by what the peer says: of what counts even where nothing of ours should be marked (RFC 9768 §3.1.5).
    pub(crate) fn heeds(&self) -> bool {
        match self.counts {
            true => !self.unheeded,
            false => self.sends(),
        }
    }

    /// The peer does not answer: our SYN-ACK says nothing any more (RFC 9768 §3.2.3.2.2).
    pub(crate) fn agree_silently(&mut self) {
        if self.counts {
            self.given_up = true;
            self.field = 0;
        }
    }

    /// Sets what every segment says from now on.
    fn speak(&mut self) {
        let mut header = TcpHeader::default();
        match self.counts {
            true => put_count(&mut header, self.came),
            false => header.flags.0 = u8::from(self.echoing) * TcpFlags::ECE.0,
        }
        (self.flags, self.ae) = (header.flags, header.present);
    }
}

/// AE, CWR and ECE as a number (RFC 9768 §3.2.2).
fn count_of(header: &TcpHeader) -> u8 {
    let ae = u8::from(header.present & TcpHeader::AE != 0);
    ae << 2 | header.flags.0 >> 6
}

/// Puts the last three bits of a number there.
pub(crate) fn put_count(header: &mut TcpHeader, count: u8) {
    header.flags.0 = header.flags.0 & !SETUP.0 | count << 6;
    header.present = header.present & !TcpHeader::AE | (count & 4) << 3;
}

/// What is said in a handshake of the ECN field of a SYN or SYN-ACK (RFC 9768 §3.1.1, table 2, and §3.2.2.1, table 3).
fn code_of(ecn: u8) -> u8 {
    match ecn {
        TcpHeader::ECT_1 => 3,
        TcpHeader::ECT_0 => 4,
        TcpHeader::CE => CODE_OF_CE,
        _ => CODE_OF_NONE,
    }
}

/// Of a field that says that nothing may be marked, as ours do.
const CODE_OF_NONE: u8 = 2;
/// Of one that is marked.
const CODE_OF_CE: u8 = 6;

/// Whether a SYN with these flags asks for the accurate kind.
fn asks_for_counts(said: u8) -> bool {
    !matches!(said, 0 | ASKS_CLASSIC)
}

/// Whether a SYN-ACK with these flags agrees to it.
fn grants_counts(said: u8) -> bool {
    matches!(said, CODE_OF_NONE..=CODE_OF_CE)
}

impl Connection {
    /// What our SYN asks for.
    fn wanted_ecn(&self) -> EcnMode {
        match self.config.ecn {
            mode @ (EcnMode::On | EcnMode::Accurate) if self.active && !self.ecn.given_up => mode,
            _ => EcnMode::Off,
        }
    }

    /// Sets the flags of our SYN or SYN-ACK.
    pub(crate) fn put_ecn_setup(&self, header: &mut TcpHeader) {
        let count = match self.state {
            State::SynReceived if self.ecn.counts => self.ecn.field,
            State::SynReceived => u8::from(self.ecn.sends()) * CLASSIC,
            _ => match self.wanted_ecn() {
                EcnMode::Accurate => ASKS,
                EcnMode::On => ASKS_CLASSIC,
                EcnMode::Off | EcnMode::Passive => 0,
            },
        };
        put_count(header, count);
    }

    /// Our SYN has not been answered: someone on the way may not bear with those that ask (RFC 3168 §6.1.1.1). Who asks for the accurate kind
    /// does so once more (RFC 9768 §3.1.4.1).
    pub(crate) fn ask_less_for_ecn(&mut self) {
        if self.wanted_ecn() != EcnMode::Accurate || self.handshakes_sent > 1 {
            self.ecn.given_up = true;
        }
    }

    /// The same where it was refused. Whether there is any use in another that does not ask.
    pub(crate) fn stop_asking_for_ecn(&mut self) -> bool {
        let asked = self.wanted_ecn() != EcnMode::Off;
        self.ecn.given_up = true;
        asked
    }

    /// The peer's SYN or SYN-ACK says what it thinks of it (RFC 3168 §6.1.1, RFC 9768 §3.1.1).
    pub(crate) fn agree_on_ecn(&mut self, syn: &TcpHeader) {
        let said = count_of(syn);
        self.ecn.field = code_of(syn.ecn());
        match syn.flags.contains(TcpFlags::ACK) {
            true => self.take_ecn_grant(said, syn.ecn()),
            false => self.take_ecn_request(said, syn.ecn()),
        }
        (self.ecn.came, self.ecn.heard) = (FIRST_COUNT, FIRST_COUNT);
        if self.ecn.answer.is_some() {
            self.count_syn_ack(syn.ecn());
        }
        self.ecn.speak();
        self.look_out();
    }

    /// A SYN-ACK counts if it is marked, and none after it (RFC 9768 §3.2.2.2).
    fn count_syn_ack(&mut self, ecn: u8) {
        if ecn == TcpHeader::CE && !self.ecn.syn_ack_came {
            self.ecn.syn_ack_came = true;
            self.ecn.came = self.ecn.came.wrapping_add(1);
        }
    }

    /// The answer to a SYN that asked may come after another that did not.
    fn take_ecn_grant(&mut self, said: u8, ecn: u8) {
        let ecn_mode = match self.active {
            true => self.config.ecn,
            false => EcnMode::Off,
        };
        self.ecn.counts = ecn_mode == EcnMode::Accurate && grants_counts(said);
        let is_classic = said & 3 == CLASSIC && (ecn_mode == EcnMode::On || said == CLASSIC);
        let asked = matches!(ecn_mode, EcnMode::On | EcnMode::Accurate);
        self.ecn.hears = asked && (self.ecn.counts || is_classic);
        if self.ecn.counts {
            // Ours may not be marked: if the peer has seen it so, the field is changed on the way (§3.2.2.3).
            self.ecn.given_up |= !matches!(said, CODE_OF_NONE | AGREES_SOMEHOW);
            self.ecn.handshake_marked = said == CODE_OF_CE;
            self.ecn.answer = Some(code_of(ecn));
        }
    }

    fn take_ecn_request(&mut self, said: u8, ecn: u8) {
        let mode = match self.active {
            true => self.wanted_ecn(),
            false => self.config.ecn,
        };
        // Without counting: no SYN may be marked; if one looks as if it could be, what is in this field means something else.
        let is_classic = said & ASKS_CLASSIC == ASKS_CLASSIC && ecn == 0;
        self.ecn.counts = mode == EcnMode::Accurate && asks_for_counts(said);
        self.ecn.hears = self.ecn.counts || (mode != EcnMode::Off && is_classic);
    }

    /// The peer's SYN has come once more. What it is told of is the last one; if that does not ask any more, it may have given up, and nothing of
    /// ours may be marked (RFC 9768 §3.1.5). False if it asks for the other kind: then the two sides could not know of each other which
    /// of them is meant.
    pub(crate) fn heed_repeated_syn(&mut self, syn: &TcpHeader) -> bool {
        let said = count_of(syn);
        if self.ecn.counts {
            self.ecn.field = code_of(syn.ecn());
        }
        if !self.ecn.hears {
            return true;
        }
        let asks = match self.ecn.counts {
            true => asks_for_counts(said),
            false => said & ASKS_CLASSIC == ASKS_CLASSIC,
        };
        self.ecn.given_up |= !asks;
        let asks_otherwise = match self.ecn.counts {
            true => said == ASKS_CLASSIC,
            false => self.config.ecn == EcnMode::Accurate && asks_for_counts(said),
        };
        !asks_otherwise
    }

    /// The peer's SYN-ACK has come once more, and is answered: the acknowledgment says how that one came (RFC 9768 §3.2.2.1). Whether
    /// it does, and so is to go alone.
    pub(crate) fn heed_repeated_syn_ack(&mut self, syn_ack: &TcpHeader) -> bool {
        let says = self.ecn.counts && self.active && grants_counts(count_of(syn_ack));
        if says {
            self.ecn.answer = Some(code_of(syn_ack.ecn()));
            self.count_syn_ack(syn_ack.ecn());
            self.ecn.speak();
        }
        says
    }

    /// The acknowledgment of our SYN-ACK says how that came (RFC 9768 §3.2.2.1, table 4): not to be marked, as it was sent. 1, 5 and 7 say
    /// nothing; 0 is what a flag becomes that somebody clears, or what a peer says that does not count.
    pub(crate) fn take_ecn_answer(&mut self, ack: &TcpHeader) {
        if self.ecn.counts && ack.sack_count == 0 {
            let said = count_of(ack);
            self.ecn.given_up |= matches!(said, 0 | 3 | 4 | CODE_OF_CE);
            self.ecn.unheeded = said == 0;
            self.ecn.handshake_marked = said == CODE_OF_CE;
            self.ecn.heard += u8::from(said == CODE_OF_CE);
            self.look_out();
        }
    }

    /// Whether an acknowledgment tells of marks; where they are counted, of others than were heard of.
    pub(crate) fn tells_of_marks(&self, header: &TcpHeader) -> bool {
        match self.ecn.counts {
            true => self.untold_by(header) > 0,
            false => header.flags.contains(TcpFlags::ECE),
        }
    }

    /// They are heard of: the acknowledgment is no old one.
    pub(crate) fn hear_of_marks(&mut self, header: &TcpHeader) {
        if self.ecn.counts {
            self.ecn.heard = self.ecn.heard.wrapping_add(self.untold_by(header));
            self.look_out();
        }
    }

    /// By how many a count is ahead of what was heard of, as far as three bits tell.
    fn untold_by(&self, header: &TcpHeader) -> u8 {
        count_of(header).wrapping_sub(self.ecn.heard) & 7
    }

    /// Sets what segments look like of which there is nothing to be said.
    pub(crate) fn look_out(&mut self) {
        let plain =
            TcpFlags::FIN.0 | TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::ACK.0 | TcpFlags::URG.0;
        let (hears, counts) = (u8::from(self.ecn.hears), u8::from(self.ecn.counts));
        let mut found = TcpHeader::default();
        if self.ecn.counts {
            put_count(&mut found, self.ecn.heard);
        }
        let options = !(TcpHeader::ECN | TcpHeader::AE);
        self.usual = Usual {
            looked_at: [
                plain | (hears * SETUP.0),
                // Marked or ECT(1): the bit that both have.
                options | (hears * TcpHeader::ECT_1) | (counts * TcpHeader::AE),
            ],
            found: [
                TcpFlags::ACK.0 | found.flags.0,
                (u8::from(self.timestamps) * TcpHeader::HAS_TIMESTAMPS) | found.present,
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
    /// data counts, where nobody counts; what is both is marked anew.
    pub(crate) fn take_mark(&mut self, segment: &Segment<'_, P>) {
        let ecn = &mut self.connection.ecn;
        let is_marked = segment.header.ecn() == TcpHeader::CE;
        if ecn.counts && is_marked {
            ecn.came = ecn.came.wrapping_add(1);
            ecn.speak();
            return self.tell_of_count(segment.len() > 0);
        }
        if ecn.counts || !ecn.hears || segment.len() == 0 {
            return;
        }
        let before = ecn.echoing;
        if segment.has(TcpFlags::CWR) {
            ecn.echoing = false;
            // Its window may hold so little now that it waits for this.
            self.receiver.ack_now = true;
        }
        ecn.echoing |= is_marked;
        self.receiver.ack_now |= ecn.echoing && !before;
        ecn.speak();
    }

    /// RFC 9768 §3.2.2.5.1: a mark on data is told of at once, and others before there are so many that the count comes round.
    fn tell_of_count(&mut self, on_data: bool) {
        let snd_nxt = self.sender.snd_nxt;
        let (untold, since) = &mut self.connection.ecn.untold;
        if *since != snd_nxt {
            // What has left meanwhile has told of them.
            (*untold, *since) = (0, snd_nxt);
        }
        *untold += 1;
        let most = MARKS_UNTOLD[usize::from(self.receiver.has_unacknowledged())];
        if on_data || *untold >= most {
            self.receiver.ack_now = true;
        }
    }
}

impl Ecn {
    /// An acknowledgment leaves alone, with so many SACK blocks. What it says of a SYN-ACK, if it answers one; with blocks it would be
    /// taken for a count.
    pub(crate) fn take_answer(&mut self, sack_count: u8) -> Option<u8> {
        self.untold.0 = 0;
        self.answer.take().filter(|_| sack_count == 0)
    }
}

#[cfg(test)]
mod tests;
