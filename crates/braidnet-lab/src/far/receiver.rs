//! The far end's mouth: what it says to the stack over TCP.

use super::frame::Framer;
use super::line::{ISS, Line, State};
use super::mix::{FAVOURED, Mix};
use super::payload::Payload;
use super::{Counts, Role, Shared};
use braidnet_device::{Counters, Receiver};
use braidnet_message::{Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_sync::parker::Unparker;
use braidnet_wire::checksum::Sum;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{PROTOCOL, TcpFlags, TcpHeader};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Segments of one connection before it is the next one's turn.
const BURST: usize = 16;

/// Silence after which what is not acknowledged is sent again, and a shut window asked about.
const SILENCE_NANOS: u64 = 20_000_000;

/// The far end's half of one device queue.
pub(super) struct TcpReceiver {
    shared: Arc<Shared>,
    queue: usize,
    framer: Option<Framer>,
    payload: Option<Payload>,
    /// The connections of this queue, and whose turn it is.
    mine: Vec<Said>,
    turn: usize,
    /// The connection whose news are to be looked at first.
    heard: u32,
    /// Bits of the connections of this queue, and for each bit's connection its place in `mine`.
    marks: Vec<u64>,
    place_of: Vec<u32>,
    /// Connections whose SYN has not been sent, from the end.
    unopened: usize,
    clock: Clock,
    silent_since: Option<u64>,
    /// Our clock for timestamps: packets made, in 1,024s (RFC 7323 §5.4 asks for no more than that it goes on).
    ticks: u64,
    shift: u8,
    counters: Counters,
}

/// What the far end has said on one connection.
#[derive(Clone, Copy)]
struct Said {
    number: u32,
    /// Bytes of our stream that have been sent.
    sent: u64,
    /// Bytes of the stack's stream that have been acknowledged.
    acknowledged: u64,
    /// As far as had come when this was last looked at.
    seen: u64,
    /// The handshake's ACK has been sent.
    greeted: bool,
}

/// Where the packets of one call go.
struct Out<'a> {
    pool: &'a mut Pool,
    into: &'a mut Run,
    max: usize,
    made: usize,
}

impl Out<'_> {
    fn room(&self) -> usize {
        self.max - self.made
    }
}

impl TcpReceiver {
    pub(super) fn new(shared: Arc<Shared>, queue: usize) -> TcpReceiver {
        let numbers = shared.lines.of_queue(queue);
        let mut marks = vec![0; shared.lines.words()];
        let mut place_of = vec![0; shared.lines.words() * 64];
        for (place, number) in numbers.iter().enumerate() {
            marks[*number as usize / 64] |= 1 << (number % 64);
            place_of[*number as usize] = place as u32;
        }
        let framer = numbers
            .first()
            .map(|number| Framer::new(&shared.lines.get(*number).tuple, PROTOCOL));
        let sends = shared.role == Role::Sender && !numbers.is_empty();
        let payload = sends.then(|| Payload::new(shared.content.clone(), shared.mss));
        let said = |number| Said {
            number,
            sent: 0,
            acknowledged: 0,
            seen: 0,
            greeted: false,
        };
        TcpReceiver {
            queue,
            framer,
            payload,
            unopened: numbers.len(),
            mine: numbers.into_iter().map(said).collect(),
            turn: 0,
            heard: 0,
            marks,
            place_of,
            clock: Clock::shared(),
            silent_since: None,
            ticks: 1024,
            shift: shift_for(shared.window_bytes),
            counters: Counters::default(),
            shared,
        }
    }

    /// A header of ours on this connection, acknowledging what has come up to `received`.
    #[inline]
    fn header(&self, line: &Line, sent: u64, received: u64) -> TcpHeader {
        TcpHeader {
            seq: SeqNumber::new((ISS + 1).wrapping_add(sent as u32)),
            ack: SeqNumber::new(line.their_seq(received)),
            window: (self.shared.window_bytes >> self.shift).min(0xffff) as u16,
            flags: TcpFlags::ACK,
            present: TcpHeader::HAS_TIMESTAMPS,
            ts_value: (self.ticks >> 10) as u32,
            ts_echo: line.their_time(),
            ..TcpHeader::default()
        }
    }

    /// Makes one packet; false without a buffer.
    #[inline]
    fn make(
        &mut self,
        line: &Line,
        header: &TcpHeader,
        (position, len): (u64, usize),
        out: &mut Out<'_>,
    ) -> bool {
        let shared = &self.shared;
        let sum = if len == 0 {
            Sum::ZERO
        } else {
            shared.content.sum(shared.content.place(position), len)
        };
        let message = self
            .framer
            .as_ref()
            .and_then(|framer| framer.segment(&line.tuple, header, (len, sum), out.pool));
        let Some(mut message) = message else {
            return false;
        };
        if len > 0 {
            let put = self
                .payload
                .as_ref()
                .is_some_and(|payload| payload.put_behind(&mut message, position, len, out.pool));
            if !put {
                return false;
            }
        }
        self.counters.count_packet(message.total_len());
        self.ticks += 1;
        out.into.push(message);
        out.made += 1;
        true
    }

    /// Opens connections: SYN with what we offer (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2).
    #[cold]
    fn open(&mut self, out: &mut Out<'_>) -> bool {
        let shared = self.shared.clone();
        while self.unopened > 0 && out.room() > 0 {
            let line = shared.lines.get(self.mine[self.unopened - 1].number);
            let header = TcpHeader {
                seq: SeqNumber::new(ISS),
                window: shared.window_bytes.min(0xffff) as u16,
                flags: TcpFlags::SYN,
                present: TcpHeader::HAS_MSS
                    | TcpHeader::HAS_WINDOW_SCALE
                    | TcpHeader::HAS_TIMESTAMPS,
                mss: (shared.mtu - 40) as u16,
                window_scale: self.shift,
                ts_value: (self.ticks >> 10) as u32,
                ..TcpHeader::default()
            };
            if line.state() == State::Opening && !self.make(line, &header, (0, 0), out) {
                return false;
            }
            self.unopened -= 1;
        }
        true
    }

    /// Says what connections with news have to say: the handshake's ACK, acknowledgments. It begins behind the one that came
    /// last, so that none is left out for long.
    fn answer(&mut self, out: &mut Out<'_>) -> bool {
        let shared = self.shared.clone();
        let words = self.marks.len();
        let first = self.heard as usize / 64;
        // The first word comes in two parts: its upper bits first, its lower ones at the end.
        let upper = u64::MAX << (self.heard % 64);
        for step in 0..=words {
            let word = (first + step) % words;
            let part = match step {
                0 => upper,
                step if step == words => !upper,
                _ => u64::MAX,
            };
            let mut news = shared.lines.take_marks(word, self.marks[word] & part);
            while news != 0 {
                let number = word as u32 * 64 + news.trailing_zeros();
                if out.room() == 0 {
                    shared.lines.mark_all(word, news);
                    self.heard = number;
                    return true;
                }
                news &= news - 1;
                let place = self.place_of[number as usize] as usize;
                if !self.acknowledge(place, shared.lines.get(number), out) {
                    shared.lines.mark(number);
                    shared.lines.mark_all(word, news);
                    return false;
                }
            }
        }
        true
    }

    /// Acknowledges every other segment of a connection, as BSD's Net/2 does (PLP §2.3); what remains when nothing more has come
    /// since it was last looked at, as if the timer of RFC 9293 §3.8.6.3 had run out.
    fn acknowledge(&mut self, place: usize, line: &Line, out: &mut Out<'_>) -> bool {
        let mut said = self.mine[place];
        let received = line.received();
        let step = 2 * line.mss().min(self.shared.mss).max(1) as u64;
        let again = line.take_tell_again();
        let mut answers = 0;
        let mut fine = true;
        if !said.greeted || again {
            let upto = if again { received } else { said.acknowledged };
            let header = self.header(line, said.sent, upto);
            fine = self.make(line, &header, (0, 0), out);
            if fine {
                said.greeted = true;
                said.acknowledged = upto;
            }
        }
        while fine && out.room() > 0 && answers < BURST as u64 && received > said.acknowledged {
            let next = said.acknowledged + step;
            let whole = next <= received;
            if !whole && said.seen != received {
                break;
            }
            let upto = if whole { next } else { received };
            let header = self.header(line, said.sent, upto);
            fine = self.make(line, &header, (0, 0), out);
            if fine {
                said.acknowledged = upto;
                answers += 1;
            }
        }
        said.seen = received;
        if received > said.acknowledged {
            self.shared.lines.mark(said.number);
        }
        Counts::add(&self.shared.counts.acknowledged, answers);
        self.mine[place] = said;
        fine
    }

    /// Sends on every connection what its window lets out, and its share in a mix, a burst of each in turn.
    fn send(&mut self, out: &mut Out<'_>) -> bool {
        let shared = self.shared.clone();
        let before = out.made;
        let floor = shared.mix.as_ref().map_or(0.0, Mix::floor);
        let (mut in_vain, mut favoured) = (0, 0);
        let mut fine = true;
        while fine && out.room() > 0 && in_vain < self.mine.len() {
            let place = self.turn;
            let made = out.made;
            let number = self.mine[place].number;
            let reach = match &shared.mix {
                None => u64::MAX,
                Some(mix) => mix.reach(number, floor),
            };
            fine = self.send_burst(place, shared.lines.get(number), reach, out);
            if let Some(mix) = &shared.mix {
                mix.note(number, self.mine[place].sent);
                if number == FAVOURED {
                    favoured += (out.made - made) as u64;
                }
            }
            in_vain = if out.made == made { in_vain + 1 } else { 0 };
            self.turn = if place + 1 == self.mine.len() {
                0
            } else {
                place + 1
            };
        }
        if let Some(mix) = shared.mix.as_ref().filter(|_| out.made > before) {
            mix.moved();
        }
        Counts::add(&shared.counts.made, (out.made - before) as u64);
        Counts::add(&shared.counts.favoured, favoured);
        fine
    }

    #[inline]
    fn send_burst(&mut self, place: usize, line: &Line, reach: u64, out: &mut Out<'_>) -> bool {
        if line.state() != State::Open {
            return true;
        }
        let mut said = self.mine[place];
        let (acknowledged, edge) = line.window();
        let edge = edge.min(reach);
        if said.sent < acknowledged || said.sent > acknowledged && line.take_loss() {
            Counts::add(
                &self.shared.counts.went_back,
                u64::from(said.sent > acknowledged),
            );
            said.sent = acknowledged;
        }
        let mss = line.mss().saturating_sub(12).min(self.shared.mss).max(1);
        let mut header = self.header(line, said.sent, 0);
        let mut fine = true;
        for _ in 0..BURST.min(out.room()) {
            let len = edge.saturating_sub(said.sent).min(mss as u64) as usize;
            // No small segments into a window that will open further (RFC 9293 §3.8.6.2.1).
            if len < mss && (len == 0 || said.sent > acknowledged) {
                break;
            }
            header.seq = SeqNumber::new((ISS + 1).wrapping_add(said.sent as u32));
            fine = self.make(line, &header, (said.sent, len), out);
            if !fine {
                break;
            }
            said.sent += len as u64;
        }
        self.mine[place] = said;
        fine
    }

    /// Nothing could be said for a while: goes back to what is acknowledged, asks about shut windows, opens again.
    #[cold]
    fn break_silence(&mut self, out: &mut Out<'_>) {
        let now = self.clock.now_nanos();
        let since = *self.silent_since.get_or_insert(now);
        if now.saturating_sub(since) < SILENCE_NANOS {
            return;
        }
        self.silent_since = Some(now);
        self.unopened = self.mine.len();
        self.open(out);
        let shared = self.shared.clone();
        for place in 0..self.mine.len() {
            let line = shared.lines.get(self.mine[place].number);
            let (acknowledged, _) = line.window();
            if line.state() != State::Open || out.room() == 0 {
                continue;
            }
            if self.mine[place].sent > acknowledged {
                Counts::add(&shared.counts.went_back, 1);
                self.mine[place].sent = acknowledged;
            }
            // One before the window must be answered with its edge (RFC 9293 §3.10.7.4).
            let probe = TcpHeader {
                seq: SeqNumber::new(ISS.wrapping_add(acknowledged as u32)),
                ..self.header(line, 0, line.received())
            };
            if shared.role == Role::Sender && !self.make(line, &probe, (0, 0), out) {
                break;
            }
        }
    }
}

impl Receiver for TcpReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        if let Some(mix) = &self.shared.mix {
            mix.wakes(self.queue);
        }
        let mut out = Out {
            pool,
            into,
            max,
            made: 0,
        };
        let mut fine = self.unopened == 0 || self.open(&mut out);
        fine = fine && (self.mine.is_empty() || self.answer(&mut out));
        if self.shared.role == Role::Sender {
            fine = fine && self.send(&mut out);
        }
        if !fine {
            Counts::add(&self.shared.counts.no_buffer, 1);
        }
        if out.made == 0 {
            self.break_silence(&mut out);
        } else {
            self.silent_since = None;
        }
        out.made
    }

    /// In a mix, whether a connection may go on. What else makes one go on has come through the stack, on the processor that asks.
    fn has_waiting(&self) -> bool {
        let shared = &self.shared;
        let open = self.mine.iter().filter_map(|said| {
            let line = shared.lines.get(said.number);
            let room = line.window().1.saturating_sub(said.sent);
            let is_open = line.state() == State::Open && room >= shared.mss as u64;
            is_open.then_some((said.number, said.sent))
        });
        (shared.mix.as_ref()).is_some_and(|mix| !mix.rests(self.queue, open))
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        if let Some(mix) = &self.shared.mix {
            mix.wake_with(self.queue, unparker);
        }
        true
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// The window scale that announces so many bytes (RFC 7323 §2.2).
fn shift_for(window_bytes: u32) -> u8 {
    (0..14)
        .find(|shift| window_bytes >> shift <= 0xffff)
        .unwrap_or(14)
}
