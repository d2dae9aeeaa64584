//! TCP Fast Open (RFC 7413): data that travels with the SYN, from a client that has shown before, by a cookie of the server's, that it is
//! where it says.
//!
//! A **client** is told what is known of the server ([`Tcb::ask_fast_open`]). Its first SYN carries the cookie and data, or asks for a cookie;
//! a SYN that has to be sent again carries neither (§4.2.1, §4.2.2). The data stay in the queue, and SND.NXT behind the SYN: what the
//! SYN-ACK does not acknowledge is simply sent, at once. What it was good for, [`Tcb::take_fast_opened`] says afterwards.
//!
//! A **server** lets a connection open early ([`Tcb::open_early`]) when the SYN's [cookie](CookieKeys) is good: its data are delivered in
//! SYN-RECEIVED, and what the application answers leaves behind the SYN-ACK, within the initial window and what the SYN's own window
//! has room for (§4.2.2). In that state the SYN is no longer the sender's affair: SND.UNA is behind it, and the timer
//! that runs is the SYN-ACK's, which goes alone (§4.2.2); data that left behind one that was lost are sent again once the handshake is over.

mod cookie;
#[cfg(test)]
mod tests;

pub use cookie::{CookieKeys, Freshness, NoSharedKeys, SharedKeys};

use crate::connection::{Connection, LEAST_MSS};
use crate::path::FIXED_HEADERS;
use crate::sender::Sender;
use crate::state::State;
use crate::{DropReason, Payload, Sink, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{FastOpenCookie, MIN_HEADER_LEN, TcpHeader, header_len};
use braidnet_wire::time::Instant;
use core::fmt;
use core::str::FromStr;

/// Whether data travel with SYNs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FastOpen {
    /// Neither with ours nor with the peer's: options of Fast Open are ignored (RFC 7413 §4.2).
    #[default]
    Off,
    /// With ours, where the user opens a connection with data.
    Connect,
    /// With those that listeners take.
    Listen,
    /// With all.
    Both,
}

impl FastOpen {
    /// Every choice.
    pub const ALL: [FastOpen; 4] = [
        FastOpen::Off,
        FastOpen::Connect,
        FastOpen::Listen,
        FastOpen::Both,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            FastOpen::Off => "off",
            FastOpen::Connect => "connect",
            FastOpen::Listen => "listen",
            FastOpen::Both => "both",
        }
    }

    /// Whether connections that we open may use it.
    pub const fn connects(self) -> bool {
        matches!(self, FastOpen::Connect | FastOpen::Both)
    }

    /// Whether listeners may use it.
    pub const fn listens(self) -> bool {
        matches!(self, FastOpen::Listen | FastOpen::Both)
    }

    /// The same with listeners using it, or not.
    pub const fn listening(self, listens: bool) -> FastOpen {
        match (self.connects(), listens) {
            (false, false) => FastOpen::Off,
            (true, false) => FastOpen::Connect,
            (false, true) => FastOpen::Listen,
            (true, true) => FastOpen::Both,
        }
    }
}

impl fmt::Display for FastOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that says nothing of Fast Open.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} says not who opens fast; there are off, connect, listen and both")]
pub struct UnknownFastOpen(String);

impl FromStr for FastOpen {
    type Err = UnknownFastOpen;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        FastOpen::ALL
            .into_iter()
            .find(|choice| choice.name() == word)
            .ok_or_else(|| UnknownFastOpen(word.to_owned()))
    }
}

/// What is known of a server by an earlier connection (RFC 7413 §4.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownServer {
    /// The cookie that it has given.
    pub cookie: FastOpenCookie,
    /// The largest segment that it takes, in bytes: 88 at least, whatever it has said.
    pub mss: u16,
}

/// What an attempt to open fast was good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpened {
    /// What the server has said for next time.
    pub learned: Option<KnownServer>,
    /// What became of the first SYN.
    pub fate: SynFate,
}

/// What became of a SYN that carried a Fast Open option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynFate {
    /// It asked for a cookie, or brought one and no data, and was answered.
    Asked,
    /// Its data were taken, at least in part.
    Taken,
    /// It was answered, and its data were not taken.
    Refused,
    /// It got no answer, or only one that may be another SYN's.
    Unanswered,
}

/// What the handshake of one connection has of Fast Open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// What our SYN or SYN-ACK carries when it leaves for the first time.
    option: FastOpenCookie,
    /// The largest segment that the peer is known to take.
    peer_mss: u16,
    /// Bytes of data that our SYN has carried.
    carried: u32,
    /// What the SYN-ACK has said.
    answer: Option<FastOpened>,
}

/// The segment size of a server that has named none (RFC 7413 §4.2.2).
const DEFAULT_MSS: u16 = 536;

impl<P: Payload> Tcb<P> {
    /// Has our SYN ask for a cookie or, where one is known, carry it and what there is to send by then, a segment at most (RFC 7413
    /// §4.2.1, §4.2.2). To be called before the first segment is transmitted, on a connection that we open.
    pub fn ask_fast_open(&mut self, known: Option<KnownServer>) {
        debug_assert_eq!(self.connection.state, State::SynSent);
        debug_assert_eq!(self.connection.handshakes_sent, 0);
        let (option, peer_mss) = match known {
            Some(known) => (known.cookie, known.mss),
            None => (FastOpenCookie::REQUEST, DEFAULT_MSS),
        };
        self.connection.fast_open = Some(Box::new(Attempt::new(option, peer_mss)));
    }

    /// Has our SYN-ACK give the peer this cookie. To be called before it is transmitted.
    pub fn give_cookie(&mut self, cookie: FastOpenCookie) {
        debug_assert_eq!(self.connection.state, State::SynReceived);
        self.connection.fast_open = Some(Box::new(Attempt::new(cookie, DEFAULT_MSS)));
    }

    /// Opens the connection before its handshake is over: `payload`, the data of the SYN, is delivered as far as the window goes,
    /// and what is to be sent may leave behind the SYN-ACK (RFC 7413 §4.2.2). To be called right after [`accept`](Tcb::accept), for a SYN
    /// whose [cookie](CookieKeys::check) is good.
    ///
    /// Why a part of the data was not taken, if so.
    pub fn open_early<S: Sink<P>>(
        &mut self,
        now: Instant,
        payload: Option<P>,
        sink: &mut S,
    ) -> Option<DropReason> {
        debug_assert_eq!(self.connection.state, State::SynReceived);
        self.connection.early = Some(self.sender.iss + 1);
        self.sender.start_early(self.connection.smss);
        let mut payload = payload.filter(|payload| !payload.is_empty())?;
        let room = self.receiver.rcv_wnd() as usize;
        let cut = (payload.len() > room).then_some(DropReason::PartlyBeyondWindow);
        if cut.is_some() {
            payload.truncate(room);
        }
        if payload.is_empty() {
            return cut;
        }
        let first = self.receiver.rcv_nxt;
        let taken = self.receiver.take_text(now, first, payload, sink);
        taken.err().or(cut)
    }

    /// Whether data were taken before the handshake was over: the peer's, or ours.
    pub fn has_opened_fast(&self) -> bool {
        self.connection.early.is_some()
    }

    /// Whether data were taken with our SYN, and the peer has said nothing since but that: neither has anything come from it, nor has it
    /// acknowledged more. What is on the path may let SYNs with data pass, and nothing after them (RFC 7413 §7.1).
    pub fn is_silent_since_opening(&self) -> bool {
        let nothing_came = self.receiver.rcv_nxt == self.receiver.irs + 1;
        self.connection.active && nothing_came && self.connection.early == Some(self.sender.snd_una)
    }

    /// What an [attempt](Tcb::ask_fast_open) to open fast was good for, once, as soon as that is known: when the handshake is over, or
    /// the connection is. Who only [gives](Tcb::give_cookie) a cookie attempts nothing.
    pub fn take_fast_opened(&mut self) -> Option<FastOpened> {
        let connection = &mut self.connection;
        if !connection.active {
            return None;
        }
        let attempt = connection.fast_open.as_ref()?;
        let is_over = connection.state == State::Closed && connection.handshakes_sent > 0;
        let unanswered = is_over.then_some(FastOpened {
            learned: None,
            fate: SynFate::Unanswered,
        });
        let opened = attempt.answer.or(unanswered)?;
        connection.fast_open = None;
        Some(opened)
    }

    /// The Fast Open option that our SYN or SYN-ACK carries; only when it leaves for the first time (RFC 7413 §4.2.1, §4.2.2).
    pub(crate) fn put_fast_open(&mut self, header: TcpHeader) -> TcpHeader {
        let first = self.connection.handshakes_sent == 1;
        match &self.connection.fast_open {
            Some(attempt) if first => header.with_fast_open(attempt.option),
            _ => header,
        }
    }

    /// Bytes of data that this SYN may carry (RFC 7413 §4.2.2): no longer a segment than the server has said that it takes, and the path
    /// carries, its options included.
    pub(crate) fn room_on_syn(&self, syn: &TcpHeader) -> u32 {
        let connection = &self.connection;
        let Some(attempt) = &connection.fast_open else {
            return 0;
        };
        let carries = syn.fast_open().is_some_and(|cookie| !cookie.is_request());
        if !carries || connection.state != State::SynSent {
            return 0;
        }
        let path = connection.path_mtu.saturating_sub(FIXED_HEADERS);
        let mss = u32::from(attempt.peer_mss.min(connection.mss)).min(path);
        let options = header_len(syn) - MIN_HEADER_LEN;
        mss.saturating_sub(options as u32).min(self.sender.queued())
    }

    /// Our SYN leaves with so many bytes of data.
    pub(crate) fn note_carried(&mut self, bytes: u32) {
        if let Some(attempt) = &mut self.connection.fast_open {
            attempt.carried = bytes;
        }
        self.sender.on_syn_text_sent(bytes);
    }
}

impl Attempt {
    fn new(option: FastOpenCookie, peer_mss: u16) -> Attempt {
        Attempt {
            option,
            peer_mss,
            carried: 0,
            answer: None,
        }
    }
}

impl Connection {
    /// The answer to our SYN has come; it acknowledges `taken` bytes of data.
    pub(crate) fn heed_fast_open(&mut self, answer: &TcpHeader, taken: u32) {
        let again = self.handshakes_sent > 1;
        let Some(attempt) = &mut self.fast_open else {
            return;
        };
        let cookie = answer.fast_open().filter(|cookie| !cookie.is_request());
        let mss = match answer.has(TcpHeader::HAS_MSS) {
            true => answer.mss.max(LEAST_MSS),
            false => DEFAULT_MSS,
        };
        // A cookie that brought no data was not refused, so far as anybody can know: a server says nothing of a good one (RFC 7413 §4.2.2).
        let is_good = taken > 0 || (attempt.carried == 0 && !attempt.option.is_request() && !again);
        let kept = is_good.then_some(attempt.option);
        let fate = match (taken, attempt.carried) {
            (1.., _) => SynFate::Taken,
            // The SYN that is answered may be the one that had no option (RFC 7413 §4.2.2).
            _ if again && cookie.is_none() => SynFate::Unanswered,
            (0, 0) => SynFate::Asked,
            _ => SynFate::Refused,
        };
        if taken > 0 {
            self.early = Some(answer.ack);
        }
        attempt.answer = Some(FastOpened {
            learned: cookie.or(kept).map(|cookie| KnownServer { cookie, mss }),
            fate,
        });
    }
}

impl Sender {
    /// Data leave with our SYN. They are not in flight, as what a probe of a closed window brings is not: SND.NXT stays behind the SYN until
    /// the peer says what it has taken.
    fn on_syn_text_sent(&mut self, bytes: u32) {
        self.snd_max = self.snd_max.latest(self.snd_nxt + bytes);
    }

    /// The answer to our SYN acknowledges everything before `ack`, data that came with it perhaps. How many bytes of these.
    pub(crate) fn take_handshake_ack(&mut self, ack: SeqNumber) -> u32 {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.latest(ack);
        ack - (self.iss + 1)
    }

    /// Data may leave though our SYN is not acknowledged: it is none of the sender's any more.
    fn start_early(&mut self, smss: u32) {
        let first = self.iss + 1;
        (self.snd_una, self.snd_nxt, self.snd_max) = (first, first, first);
        self.congestion.start(smss, false);
        self.restart();
    }
}
