//! A connection as RFC 9293 §3.10.7 describes it: one octet after the other, simple and slow. It shares nothing with the engine.
//!
//! It is told what arrives and what the user does, and says what a peer could know: what has been delivered, RCV.NXT, SND.UNA, SND.WND, the
//! state. Where the engine departs from the RFCs on purpose (`docs/rfc-departures.md`), so does it, and says where.
//!
//! Places are counted from a SYN, which has place 0; the first octet of data has place 1. They do not wrap.

mod opening;

use braidnet_tcp::{EcnMode, State};
use braidnet_wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::collections::VecDeque;

/// Which kind of octet stands somewhere: there are several streams of the peer's, one for each variant.
pub type Variant = u8;

/// A place behind RCV.NXT: the octet that is held there, if any.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Octet {
    variant: Variant,
    /// The number of the segment that brought it, 0 if nothing is held.
    piece: u32,
}

/// What both SYNs agree on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Agreed {
    pub timestamps: bool,
    pub sack: bool,
    pub snd_shift: u8,
    pub rcv_shift: u8,
}

/// A RST that must leave next, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// `<SEQ=SEG.ACK><CTL=RST>`, with an echo of the segment's timestamp.
    To { seq: u32, echo: Option<u32> },
    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=RST,ACK>`, because of a segment.
    Answer { echo: Option<u32> },
    /// The same, because the user or a timer wants it.
    Ours,
}

impl Reset {
    /// What a RST echoes of the segment that it answers (RFC 7323 §5.2): nothing of a SYN-ACK (departure).
    fn echo(header: &TcpHeader) -> Option<u32> {
        let is_syn_ack = [TcpFlags::SYN, TcpFlags::ACK]
            .iter()
            .all(|flag| header.flags.contains(*flag));
        (header.has(TcpHeader::HAS_TIMESTAMPS) && !is_syn_ack).then_some(header.ts_value)
    }

    fn to(header: &TcpHeader) -> Reset {
        Reset::To {
            seq: header.ack.value(),
            echo: Reset::echo(header),
        }
    }
}

#[derive(Clone)]
pub struct Model {
    pub state: State,
    pub agreed: Agreed,
    // The receiver.
    irs: u32,
    pub rcv_nxt: i64,
    /// The right edge of the window as announced.
    pub rcv_edge: i64,
    /// What is held from RCV.NXT on.
    pub held: VecDeque<Octet>,
    /// How many segments have been held, at least in part.
    pieces: u32,
    /// Where the peer's stream ends.
    fin: Option<i64>,
    fin_taken: bool,
    /// Where data out of order came last.
    pub latest: Option<i64>,
    /// What came twice and has not been told (RFC 2883 §4).
    pub twice: Option<(i64, i64)>,
    pub ts_recent: u32,
    ts_recent_at: Instant,
    /// Last.ACK.sent (RFC 7323 §4.3).
    pub last_ack: i64,
    /// An ACK is owed at once.
    pub owes_ack: bool,
    /// Nobody reads.
    pub unread: bool,
    // The sender.
    iss: u32,
    pub snd_una: i64,
    /// One past the last place that has been sent.
    pub snd_max: i64,
    pub snd_wnd: i64,
    wl1: i64,
    wl2: i64,
    max_wnd: i64,
    /// The furthest right edge that the peer has ever announced.
    pub snd_edge: i64,
    /// Octets that the user has sent.
    pub written: i64,
    /// The user has closed.
    pub closed: bool,
    pub reset: Option<Reset>,
    // The handshake.
    /// Data were taken from the peer's SYN, whose cookie was good (RFC 7413 §4.2.2).
    pub early: bool,
    /// Octets that our SYN has carried, and how many of these its answer acknowledges.
    pub carried: i64,
    pub taken: i64,
    /// The Fast Open option of that answer.
    pub answer: Option<FastOpenCookie>,
    /// Our SYN, or SYN-ACK, must leave next.
    pub owes_syn: bool,
    /// How many SYNs and SYN-ACKs have left, and whether the last SYN has asked for congestion notification.
    pub syns: u32,
    pub asks: bool,
    ecn: EcnMode,
    /// Both SYNs agree on it.
    pub may_mark: bool,
}

/// What a segment brings.
pub struct Arriving<'a> {
    pub header: &'a TcpHeader,
    pub variant: Variant,
    pub len: usize,
}

/// Which octets, by their variants, went to the user.
pub type Delivered = Vec<Variant>;

impl Model {
    pub fn new(iss: u32, active: bool, ecn: EcnMode, now: Instant) -> Model {
        Model {
            state: if active {
                State::SynSent
            } else {
                State::SynReceived
            },
            agreed: Agreed::default(),
            irs: 0,
            rcv_nxt: 0,
            rcv_edge: 0,
            held: VecDeque::new(),
            pieces: 0,
            fin: None,
            fin_taken: false,
            latest: None,
            twice: None,
            ts_recent: 0,
            ts_recent_at: now,
            last_ack: 0,
            owes_ack: false,
            unread: false,
            iss,
            snd_una: 0,
            snd_max: 0,
            snd_wnd: 0,
            wl1: 0,
            wl2: 0,
            max_wnd: 0,
            snd_edge: 0,
            written: 0,
            closed: false,
            reset: None,
            early: false,
            carried: 0,
            taken: 0,
            answer: None,
            owes_syn: true,
            ecn,
            syns: 0,
            asks: false,
            may_mark: false,
        }
    }

    /// The sequence number of a place of the peer's.
    pub fn rcv_seq(&self, place: i64) -> u32 {
        self.irs.wrapping_add(place as u32)
    }

    /// The sequence number of a place of ours.
    pub fn snd_seq(&self, place: i64) -> u32 {
        self.iss.wrapping_add(place as u32)
    }

    /// The place behind a sequence number of the peer's, the one nearest to RCV.NXT.
    pub fn rcv_place(&self, seq: u32) -> i64 {
        self.rcv_nxt + i64::from(seq.wrapping_sub(self.rcv_seq(self.rcv_nxt)) as i32)
    }

    /// The place behind a sequence number of ours, the one nearest to SND.UNA.
    pub fn snd_place(&self, seq: u32) -> i64 {
        self.snd_una + i64::from(seq.wrapping_sub(self.snd_seq(self.snd_una)) as i32)
    }

    fn set_window(&mut self, seq: i64, ack: i64, header: &TcpHeader, shift: u8) {
        self.snd_wnd = i64::from(header.window) << shift;
        self.max_wnd = self.max_wnd.max(self.snd_wnd);
        (self.wl1, self.wl2) = (seq, ack);
    }

    /// SEGMENT ARRIVES (RFC 9293 §3.10.7), but in LISTEN. `offers` and `scales` as in [`Model::take_syn`].
    pub fn arrive(
        &mut self,
        now: Instant,
        segment: &Arriving<'_>,
        offers: &Agreed,
        scales: bool,
    ) -> Delivered {
        match self.state {
            State::Closed => Vec::new(),
            State::SynSent => {
                self.arrive_in_syn_sent(now, segment, offers, scales);
                Vec::new()
            }
            _ => self.arrive_later(now, segment),
        }
    }

    /// RFC 9293 §3.10.7.4.
    fn arrive_later(&mut self, now: Instant, segment: &Arriving<'_>) -> Delivered {
        let header = segment.header;
        let has = |flag| header.flags.contains(flag);
        let whole = self.rcv_place(header.seq.value());
        let (mut start, mut end) = (whole, whole + segment.len as i64);
        let mut fin = has(TcpFlags::FIN);
        let bare = segment.len == 0 && !fin;
        let mut known_syn = false;
        if self.state == State::SynReceived
            && has(TcpFlags::SYN)
            && !has(TcpFlags::RST)
            && whole == 0
        {
            if !has(TcpFlags::ACK) {
                return Vec::new();
            }
            // Simultaneous open (§3.5, figure 7). What comes with a SYN is not taken (departure). A peer whose data have opened the connection
            // cannot be in one.
            if !self.early {
                (start, end, fin, known_syn) = (1, 1, false, true);
                self.owes_ack = true;
            }
        }
        // RFC 7323 §5.3, R1, and §3.2.
        if self.agreed.timestamps && !has(TcpFlags::RST) {
            if !header.has(TcpHeader::HAS_TIMESTAMPS) {
                return Vec::new();
            }
            if self.is_old(now, header.ts_value) {
                if self.agreed.sack {
                    self.note_twice(start, end.min(self.rcv_nxt));
                }
                self.owes_ack |= end > start || fin;
                return Vec::new();
            }
        }
        if self.agreed.sack {
            self.note_twice(start, end.min(self.rcv_nxt));
        }
        // First: sequence numbers. What lies outside the window is cut off.
        let len = end - start + i64::from(fin);
        if start < self.rcv_nxt && start + len <= self.rcv_nxt {
            self.owes_ack |= len > 0 && !has(TcpFlags::RST);
            return Vec::new();
        }
        // A segment that carries nothing may stand at the very edge (departure).
        let carries = len > 0 || has(TcpFlags::RST);
        if start > self.rcv_edge
            || (start == self.rcv_edge && carries && self.rcv_edge > self.rcv_nxt)
        {
            self.owes_ack |= len > 0 && !has(TcpFlags::RST);
            return Vec::new();
        }
        if start < self.rcv_nxt {
            start = self.rcv_nxt;
            end = end.max(start);
            self.owes_ack = true;
        }
        if end + i64::from(fin) > self.rcv_edge {
            self.owes_ack |= end > start || fin;
            fin = false;
            end = end.min(self.rcv_edge).max(start);
        }
        // Second: RST (RFC 5961 §3); TIME-WAIT ignores it (RFC 1337 §3).
        if has(TcpFlags::RST) {
            if self.state != State::TimeWait && whole == self.rcv_nxt {
                self.end();
            }
            return Vec::new();
        }
        // Fourth: SYN (RFC 5961 §4).
        if has(TcpFlags::SYN) && !known_syn {
            return Vec::new();
        }
        // RFC 7323 §5.3, R3.
        if self.agreed.timestamps && whole <= self.last_ack {
            self.ts_recent = header.ts_value;
            self.ts_recent_at = now;
        }
        // Fifth: ACK.
        if !has(TcpFlags::ACK) || !self.take_ack(segment, start, known_syn) {
            return Vec::new();
        }
        // Seventh and eighth: text and FIN.
        match self.state {
            State::Established | State::FinWait1 | State::FinWait2 => {
                self.take_text(segment, start, end, fin)
            }
            _ => {
                self.owes_ack |= self.state != State::Closed && (end > start || fin) && !bare;
                Vec::new()
            }
        }
    }

    /// RFC 7323 §5.3 and §5.5.
    fn is_old(&self, now: Instant, value: u32) -> bool {
        const OUTDATED: Duration = Duration::from_secs(24 * 24 * 3600);
        (value.wrapping_sub(self.ts_recent) as i32) < 0 && now.since(self.ts_recent_at) <= OUTDATED
    }

    fn note_twice(&mut self, left: i64, right: i64) {
        if left < right {
            self.twice = Some((left, right));
        }
    }

    /// Whether the segment is to be looked at any further.
    fn take_ack(&mut self, segment: &Arriving<'_>, seq: i64, known_syn: bool) -> bool {
        let header = segment.header;
        let ack = self.snd_place(header.ack.value());
        if self.state == State::SynReceived {
            // SND.UNA < SEG.ACK =< SND.NXT.
            if ack < 1 || ack > self.snd_max {
                self.reset = Some(Reset::to(header));
                return false;
            }
            let shift = if known_syn { 0 } else { self.agreed.snd_shift };
            self.set_window(seq, ack, header, shift);
            self.establish(header);
            if known_syn {
                return true;
            }
        }
        // RFC 5961 §5.
        if ack > self.snd_max || ack < self.snd_una - self.max_wnd {
            return false;
        }
        if ack < self.snd_una {
            return true;
        }
        let newer = ack > self.snd_una;
        self.snd_una = ack;
        let seq = self.rcv_place(header.seq.value());
        // A newer ACK brings its window, whatever its sequence number (departure).
        if newer || self.wl1 < seq || (self.wl1 == seq && self.wl2 <= ack) {
            self.set_window(seq, ack, header, self.agreed.snd_shift);
        }
        self.snd_edge = self.snd_edge.max(self.snd_una + self.snd_wnd);
        if self.closed && ack == self.written + 2 {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => State::Closed,
                state => state,
            };
            if self.state == State::Closed {
                self.end();
            }
        }
        true
    }

    fn take_text(
        &mut self,
        segment: &Arriving<'_>,
        start: i64,
        mut end: i64,
        fin: bool,
    ) -> Delivered {
        let stream_end = end;
        if fin && self.fin.is_none() {
            // Whoever has sent data beyond its FIN has lost it.
            self.held.truncate((end - self.rcv_nxt).max(0) as usize);
            self.trim();
        }
        if end > start && self.unread {
            // §3.6.1: nobody would read it.
            self.end();
            self.answer_by_reset(segment.header);
            return Vec::new();
        }
        if self.agreed.sack {
            // RFC 2883 §4: of what is held already, the first run has come twice.
            let is_held = |place: &i64| self.held_to(*place) > *place;
            if let Some(first) = (start.max(self.rcv_nxt)..end).find(is_held) {
                self.note_twice(first, end.min(self.held_to(first)));
            }
        }
        if start != self.rcv_nxt && end > start {
            self.owes_ack = true;
            if start < self.fin.unwrap_or(i64::MAX) {
                self.latest = Some(start);
            }
        }
        // A FIN that contradicts an earlier one says nothing.
        let sound = fin && self.fin.is_none_or(|known| known == stream_end);
        self.owes_ack |= sound || (end > start && !self.held.is_empty());
        end = end.min(self.fin.unwrap_or(end));
        self.hold(segment.variant, start, end);
        let mut delivered = Vec::new();
        while let Some(octet) = self.held.front().filter(|octet| octet.piece > 0) {
            delivered.push(octet.variant);
            self.held.pop_front();
            self.rcv_nxt += 1;
        }
        if self.held.is_empty() {
            self.latest = None;
        }
        if fin && self.fin.is_none() {
            self.fin = Some(stream_end);
        }
        if self.fin == Some(self.rcv_nxt) && !self.fin_taken {
            self.take_fin();
        }
        delivered
    }

    /// One past the last of the octets held in one piece from here on.
    pub fn held_to(&self, start: i64) -> i64 {
        let mut at = start;
        while self.is_held(at) {
            at += 1;
        }
        at
    }

    fn is_held(&self, place: i64) -> bool {
        self.piece_at(place) > 0
    }

    fn piece_at(&self, place: i64) -> u32 {
        let octet = usize::try_from(place - self.rcv_nxt).map(|at| self.held.get(at));
        octet.ok().flatten().map_or(0, |octet| octet.piece)
    }

    /// Keeps what is missing from `start` on. What came first stays, but what lies inside the segment and ends before it does gives way.
    fn hold(&mut self, variant: Variant, start: i64, end: i64) {
        self.pieces += 1;
        let octet = Octet {
            variant,
            piece: self.pieces,
        };
        for at in self.held_to(start)..end {
            let held = self.piece_at(at);
            let mut behind = at;
            while held > 0 && self.piece_at(behind) == held {
                behind += 1;
            }
            if behind >= end {
                break;
            }
            let index = (at - self.rcv_nxt) as usize;
            if self.held.len() <= index {
                self.held.resize(index + 1, Octet::default());
            }
            self.held[index] = octet;
        }
    }

    /// There was no room for what [`Model::arrive`] has kept of a segment, and so for the FIN behind it.
    pub fn forget(&mut self, before: &Model) {
        for (at, octet) in self.held.iter_mut().enumerate() {
            *octet = before.held.get(at).copied().unwrap_or_default();
        }
        self.trim();
        self.fin = before.fin;
    }

    /// What is held ends with an octet.
    fn trim(&mut self) {
        while self.held.back() == Some(&Octet::default()) {
            self.held.pop_back();
        }
    }

    fn take_fin(&mut self) {
        self.fin_taken = true;
        self.rcv_nxt += 1;
        self.rcv_edge = self.rcv_edge.max(self.rcv_nxt);
        self.held.clear();
        self.latest = None;
        self.owes_ack = true;
        self.state = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            state => state,
        };
    }

    /// The connection has ended because of this segment.
    fn answer_by_reset(&mut self, header: &TcpHeader) {
        let echo = Reset::echo(header).filter(|_| self.agreed.timestamps);
        self.reset = Some(Reset::Answer { echo });
    }

    pub fn end(&mut self) {
        self.state = State::Closed;
        self.held.clear();
        self.latest = None;
        self.reset = None;
        self.owes_ack = false;
    }

    /// CLOSE (§3.10.4).
    pub fn close(&mut self) {
        match self.state {
            State::SynSent => self.end(),
            State::SynReceived => self.closed = true,
            State::Established => (self.state, self.closed) = (State::FinWait1, true),
            State::CloseWait => (self.state, self.closed) = (State::LastAck, true),
            _ => {}
        }
    }

    /// ABORT (§3.10.5).
    pub fn abort(&mut self) {
        let told = match self.state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => true,
            // Here they begin when the user closes: until the FIN has left, the RFC is in one of those above.
            State::Closing | State::LastAck => self.snd_max < self.written + 2,
            _ => false,
        };
        self.end();
        self.reset = told.then_some(Reset::Ours);
    }

    /// The user reads no more.
    pub fn shut_receive(&mut self) {
        self.unread = true;
        self.held.clear();
        self.latest = None;
    }

    /// What is held, in whole pieces.
    pub fn ranges(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (at, octet) in self.held.iter().enumerate() {
            let place = self.rcv_nxt + at as i64;
            match ranges.last_mut() {
                _ if octet.piece == 0 => {}
                Some((_, right)) if *right == place => *right += 1,
                _ => ranges.push((place, place + 1)),
            }
        }
        ranges
    }
}
