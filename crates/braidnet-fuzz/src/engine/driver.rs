//! One engine, its user, and the model, step by step.

mod checks;
mod opening;
mod piece;
mod record;

use super::input::{Kind, Record};
use super::model::{Agreed, Arriving, Model, Reset, Variant};
use super::setup::Setup;
use braidnet_tcp::{DropReason, EcnMode, Events, Heard, Report, State, Tcb, Transmit};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{FastOpenCookie, SackBlock, TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
pub use opening::cookie;
use piece::{Piece, Store};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// More segments than any poll may have to say at once.
const ENDLESS: usize = 20_000;

/// Segments that have arrived.
pub static SEGMENTS: AtomicU64 = AtomicU64::new(0);

/// The Fast Open options of the peer's SYNs.
const FAST_OPEN_OPTIONS: [Option<&[u8]>; 4] = [None, Some(b"biscuits"), Some(b"tart"), Some(&[])];

static TRACED: OnceLock<bool> = OnceLock::new();

pub struct Driver {
    pub(super) setup: Setup,
    pub(super) model: Model,
    pub(super) tcb: Tcb<Piece>,
    offers: (Agreed, bool),
    pub(super) now: Instant,
    /// What the engine holds of what has arrived.
    store: Rc<Store>,
    /// Octets released, delivered, and taken by the user.
    released: i64,
    delivered: i64,
    taken: i64,
    /// The last value that the peer's clock had.
    peer_clock: u32,
    /// When TIME-WAIT began.
    waiting_since: Option<Instant>,
    /// The path has been said to be narrow, and only then are segments shorter than was agreed on.
    pub(super) shortened: bool,
    /// The user waits only so long for everything to be taken.
    lingers: bool,
    /// What an attempt to open fast was good for has been told.
    told: bool,
    traced: bool,
    /// What was sent, while a session is recorded.
    sent: Vec<Transmit>,
}

impl Driver {
    /// Says what happens where somebody looks on: `BRAIDNET_FUZZ_TRACE=1`.
    fn trace(&self, what: impl FnOnce() -> String) {
        if self.traced {
            eprintln!(
                "{} {} {}",
                self.now.nanos(),
                self.tcb.state().name(),
                what()
            );
        }
    }

    pub fn step(&mut self, record: Record<'_>) {
        self.trace(|| format!("{:?} {:?}", Kind::of(record), record.0));
        match Kind::of(record) {
            Kind::Segment => {
                let (header, variant, len) = self.segment(record);
                self.arrive(&header, variant, len);
                if record.bit(1, 7) {
                    // One of a run.
                    return;
                }
            }
            Kind::Time => {
                let unit = record.one_of(
                    1,
                    [
                        1_000_000,
                        1000,
                        100_000_000,
                        20_000_000_000,
                        3_600_000_000_000,
                    ],
                );
                self.now += Duration::from_nanos(u64::from(record.word(2)) * unit / 16);
            }
            Kind::Deadline => {
                self.now = self.tcb.deadline().map_or(self.now, |at| at.max(self.now));
            }
            Kind::Send => self.send(record.word(2)),
            Kind::Receive => self.receive(record.word(2)),
            Kind::Call => self.call(record),
            Kind::Report => self.report(record),
        }
        if self
            .tcb
            .deadline()
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.expire();
        }
        self.poll();
    }

    /// The segment that a record stands for.
    fn segment(&mut self, record: Record<'_>) -> (TcpHeader, Variant, usize) {
        let model = &self.model;
        let hole = model.ranges();
        let (first, last) = (hole.first().copied(), hole.last().copied());
        let seq = match record.byte(2) & 7 {
            0..=2 => model.rcv_nxt,
            3 => model.rcv_edge,
            4 => first.map_or(model.rcv_nxt + 100, |(left, _)| left),
            5 => last.map_or(model.rcv_nxt, |(_, right)| right),
            6 => last.map_or(1, |(left, _)| left),
            _ => 0,
        } + record.distance(4);
        let ack = match record.byte(2) >> 3 & 3 {
            0 | 1 => model.snd_max,
            2 => model.snd_una,
            _ => model.written + 1,
        } + record.distance(6);
        let mut flags = record.byte(1) & 0x7f;
        // Most are plain ACKs; a bit takes the ACK away.
        flags ^= TcpFlags::ACK.0;
        if record.byte(2) & 0x20 != 0 {
            flags |= TcpFlags::CWR.0;
        }
        let mut header = TcpHeader {
            seq: match model.state {
                // The peer's first number is not known yet, but to the peer.
                State::SynSent => self.setup.syn.seq + record.distance(4) as u32,
                _ => SeqNumber::new(model.rcv_seq(seq)),
            },
            ack: SeqNumber::new(model.snd_seq(ack)),
            flags: TcpFlags(flags),
            window: record.word(10),
            urgent: record.word(12),
            ..TcpHeader::default()
        };
        self.timestamp(record, &mut header);
        if flags & TcpFlags::SYN.0 != 0 {
            header.present |= self.setup.syn.present & !TcpHeader::HAS_TIMESTAMPS;
            header.mss = self.setup.syn.mss;
            header.window_scale = self.setup.syn.window_scale;
            let option = record.one_of(14, FAST_OPEN_OPTIONS);
            if let Some(cookie) = option.and_then(FastOpenCookie::new) {
                header = header.with_fast_open(cookie);
            }
        } else {
            self.sack(record, &mut header);
            header.present |= record.byte(3) & TcpHeader::AE;
        }
        // What the network says of congestion (RFC 3168 §5).
        header.present |= record.byte(2) & TcpHeader::ECN;
        let len = usize::from(record.word(8));
        // Mostly short, so that much happens within a window.
        let len = if len & 0x8000 != 0 {
            len % 3000
        } else {
            len % 300
        };
        (header, record.byte(3) >> 7, len)
    }

    fn timestamp(&mut self, record: Record<'_>, header: &mut TcpHeader) {
        let agreed = self.model.state == State::SynSent || self.model.agreed.timestamps;
        let step = u32::from(record.byte(15) & 15);
        match record.byte(3) & 7 {
            0..=4 if agreed => self.peer_clock = self.peer_clock.wrapping_add(step),
            0..=4 => return,
            5 => return,
            6 => {}
            _ => self.peer_clock = self.peer_clock.wrapping_add(step << 28),
        }
        let late = if record.byte(3) & 7 == 6 { 1 + step } else { 0 };
        header.present = TcpHeader::HAS_TIMESTAMPS;
        header.ts_value = self.peer_clock.wrapping_sub(late);
        let ours = self.now.millis() as u32;
        header.ts_echo = ours.wrapping_sub(u32::from(record.byte(15) >> 4));
    }

    fn sack(&self, record: Record<'_>, header: &mut TcpHeader) {
        let count = record.byte(3) >> 3 & 3;
        let mut left = self.model.snd_una + i64::from(record.byte(14)) * 16;
        for block in &mut header.sack[..usize::from(count)] {
            let right = left + 1 + i64::from(record.word(12) >> 4);
            *block = SackBlock {
                left: SeqNumber::new(self.model.snd_seq(left)),
                right: SeqNumber::new(self.model.snd_seq(right)),
            };
            left = right + i64::from(record.word(12) & 15) * 50 - 50;
            header.sack_count += 1;
        }
    }

    /// Hands a segment to both, and holds what they make of it against each other.
    fn arrive(&mut self, header: &TcpHeader, variant: Variant, len: usize) {
        SEGMENTS.fetch_add(1, Ordering::Relaxed);
        let before = (self.store.alive(), self.model.clone());
        let start = self.model.rcv_place(header.seq.value());
        let piece = Piece::new(len, variant, start, &self.store);
        self.trace(|| {
            format!(
                "< {} and {len} octets ({variant}), {header:?}",
                self.places(header)
            )
        });
        let arriving = Arriving {
            header,
            variant,
            len,
        };
        let expected = self
            .model
            .arrive(self.now, &arriving, &self.offers.0, self.offers.1);
        let mut sink: Vec<Piece> = Vec::new();
        let outcome = self
            .tcb
            .on_segment(self.now, header, Some(piece), &mut sink);
        if outcome.drop == Some(DropReason::OtherEcnSetup) {
            assert_eq!(self.setup.config.ecn, EcnMode::Accurate);
            self.model.refuse(header);
        }
        self.take_delivered(before.1.rcv_nxt, sink, &expected);
        self.check_kept(before.0, &before.1, expected.is_empty(), outcome.drop);
        let acked = i64::from(self.tcb.take_acked());
        self.released += acked;
        assert_eq!(acked > 0, outcome.events.contains(Events::ACKED));
        let state = self.model.state;
        assert_eq!(
            outcome.events.contains(Events::CLOSED),
            state == State::Closed && outcome.drop != Some(DropReason::Closed)
        );
        self.check();
    }

    fn send(&mut self, bytes: u16) {
        let space = self.tcb.send_space();
        let bytes = u32::from(bytes % 4000).min(space);
        let may = matches!(
            self.model.state,
            State::SynSent | State::SynReceived | State::Established | State::CloseWait
        ) && !self.model.closed;
        assert_eq!(self.tcb.send(bytes), may);
        if may {
            self.model.written += i64::from(bytes);
        }
    }

    fn receive(&mut self, bytes: u16) {
        let bytes = i64::from(bytes).min(self.delivered - self.taken);
        if !self.model.unread {
            self.taken += bytes;
            self.tcb.receive(bytes as u32);
        }
    }

    fn call(&mut self, record: Record<'_>) {
        match record.byte(1) % 16 {
            0..=5 => {
                self.tcb.close(self.now);
                self.model.close();
            }
            6 => {
                self.tcb.abort();
                self.model.abort();
            }
            7 => {
                self.tcb.close_within(self.now, Duration::from_secs(2));
                self.model.close();
                self.lingers = true;
            }
            8 | 9 => {
                self.tcb.shut_receive(self.now);
                self.model.shut_receive();
            }
            10 | 11 => self.tcb.mark_urgent(),
            _ => {}
        }
        self.check();
    }

    fn report(&mut self, record: Record<'_>) {
        let base = record.one_of(2, [self.model.snd_una, self.model.snd_max, 0]);
        let place = base + record.distance(4);
        let report = match record.byte(1) % 4 {
            0 => Report::Refused,
            1 => Report::Unreachable,
            2 => Report::Undelivered,
            _ => Report::TooLong {
                path_mtu: u32::from(record.word(6)),
            },
        };
        let model = &self.model;
        let on_its_way = match model.state {
            State::Closed => false,
            State::SynSent | State::SynReceived => place == 0 && model.snd_max > 0,
            _ => model.snd_una <= place && place < model.snd_max,
        };
        let seq = SeqNumber::new(model.snd_seq(place));
        let heard = self.tcb.on_report(self.now, seq, report);
        assert_eq!(heard != Heard::NotOnItsWay, on_its_way, "{heard:?}");
        match heard {
            Heard::Ended(_) => {
                // Only an open ends by what anybody may have said (RFC 5927 §5.2).
                assert_eq!(model.state, State::SynSent);
                self.model.end();
            }
            Heard::Shortened => self.shortened = true,
            _ => {}
        }
        self.check();
    }

    fn expire(&mut self) {
        let events = self.tcb.on_deadline(self.now);
        if events.contains(Events::CLOSED) {
            let model = &self.model;
            if let (State::TimeWait, Some(since)) = (model.state, self.waiting_since) {
                let stayed = self.now.since(since);
                assert!(
                    stayed >= self.setup.config.time_wait,
                    "TIME-WAIT lasted {stayed:?}"
                );
            } else if !(model.state == State::FinWait2 && model.unread) {
                assert!(events.contains(Events::TIMED_OUT), "{events:?}");
                let waits = model.snd_una < model.written + 1 + i64::from(model.closed)
                    || !model.state.is_synchronized();
                assert!(
                    waits || self.setup.config.keepalive.on || self.lingers,
                    "nothing was waited for"
                );
            }
            let told = model.state != State::SynSent;
            self.model.end();
            self.model.reset = told.then_some(Reset::Ours);
        }
        self.check();
    }

    /// Lets out what is to be sent.
    fn poll(&mut self) {
        let (due, mut sent, mut acks) = (self.tcb.is_transmit_due(), 0, 0);
        loop {
            let longest = self.setup.longest_piece;
            let Some(transmit) = self.tcb.poll_transmit(self.now, |_, max| max.min(longest)) else {
                break;
            };
            self.check_sent(&transmit);
            acks += usize::from(transmit.header.flags.contains(TcpFlags::ACK));
            sent += 1;
            assert!(sent < ENDLESS, "transmits without end");
        }
        assert!(due || sent == 0, "what was not due is sent");
        assert!(
            !self.model.owes_syn || self.model.state == State::Closed,
            "a SYN is owed"
        );
        self.trace(|| format!("sent {sent}: {:?}", self.tcb.status()));
        assert!(
            !self.model.owes_ack || acks > 0 || self.model.state == State::Closed,
            "an ACK is owed"
        );
        self.model.owes_ack = false;
        if let Some(reset) = self.model.reset {
            // Where the handshake went on, it is past; where a connection ends without a word, none is due.
            let due = !self.model.state.is_synchronized() && matches!(reset, Reset::To { .. });
            assert!(!due, "a RST is owed: {reset:?}");
            self.model.reset = None;
        }
        self.check();
        let status = self.tcb.status();
        let waiting = status.snd_una != status.snd_nxt || status.unsent_bytes > 0;
        if waiting && status.state != State::Closed {
            assert!(
                self.tcb.deadline().is_some(),
                "nothing will happen: {status:?}"
            );
        }
    }

    fn check_sent(&mut self, transmit: &Transmit) {
        self.trace(|| {
            format!(
                "> {} and {} octets, {:?}",
                self.places(&transmit.header),
                transmit.len,
                transmit.header
            )
        });
        let place = self.released + 1 + i64::from(transmit.offset);
        self.check_outgoing(transmit, place);
        self.sent.push(*transmit);
    }

    /// What has been sent since this was last asked.
    pub fn take_sent(&mut self) -> Vec<Transmit> {
        std::mem::take(&mut self.sent)
    }

    /// What the connection's clock shows.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the connection next has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.tcb.deadline()
    }

    /// The peer's initial sequence number.
    pub fn irs(&self) -> SeqNumber {
        self.setup.syn.seq
    }

    /// Once the connection is gone, so is all that it held.
    pub fn end(self) {
        let store = Rc::clone(&self.store);
        drop(self);
        assert_eq!(store.alive(), 0);
    }
}
