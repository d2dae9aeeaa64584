//! One-message round trips.

use super::{accept, give_credit};
use crate::config::TtcpConfig;
use crate::content::Content;
use crate::measure::Phase;
use braidnet_inet::HEADROOM;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_sync::clock::Clock;
use hdrhistogram::Histogram;
use std::sync::{Arc, Mutex, PoisonError};

const BYTES: Counter = Counter(0);
const LOST: Counter = Counter(1);
const UNSENT: Counter = Counter(2);
const COUNTERS: &[&str] = &["bytes", "lost", "unsent"];

/// Longest round trip that is told apart, in nanoseconds: 10 s.
const LONGEST_NANOS: u64 = 10_000_000_000;

/// An empty histogram of three digits.
fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, LONGEST_NANOS, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are constant and right"),
    }
}

/// Where the times of all round trips come together.
#[derive(Clone)]
pub(crate) struct Times(Arc<Mutex<Histogram<u64>>>);

impl Times {
    pub(crate) fn new() -> Times {
        Times(Arc::new(Mutex::new(histogram())))
    }

    /// Notes one round trip, of a load that keeps no state of its own.
    pub(crate) fn record(&self, nanos: u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(nanos.max(1));
    }

    /// The times of all connections whose state has been dropped.
    pub(crate) fn take(&self) -> Histogram<u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The end that asks.
pub(crate) struct Client {
    size: usize,
    content: Arc<Content>,
    phase: Arc<Phase>,
    times: Times,
    clock: Clock,
}

/// The connections of one bucket.
struct Asking {
    slots: Vec<Option<Slot>>,
    /// Made with the first connection.
    histogram: Option<Histogram<u64>>,
    times: Times,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(histogram) = self.histogram.take() {
            let mut all = self.times.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Both have the same bounds.
            let _ = all.add(histogram);
        }
    }
}

struct Slot {
    id: ConnectionId,
    mss: usize,
    asked_at: u64,
    to_come: usize,
    out: Outgoing,
}

/// Bytes that are to go out, and space for them.
#[derive(Clone, Copy, Default)]
struct Outgoing {
    space: u64,
    /// Bytes that wait for space.
    waiting: usize,
}

impl Outgoing {
    /// Sends as much of what waits as there is space for, from `bytes`, which is as long as a message.
    fn send(&mut self, id: ConnectionId, mss: usize, bytes: &[u8], cx: &mut Context<'_>) {
        while self.waiting > 0 {
            let piece = self
                .waiting
                .min(mss)
                .min(usize::try_from(self.space).unwrap_or(usize::MAX));
            if piece == 0 {
                return;
            }
            let Some(mut segment) = cx.pool().allocate(HEADROOM, piece) else {
                return cx.count(UNSENT, 1);
            };
            let from = bytes.len() - self.waiting;
            segment.extend_from_slice_summed(&bytes[from..from + piece]);
            segment.set_connection(id.0);
            cx.down(segment);
            self.waiting -= piece;
            self.space -= piece as u64;
        }
    }
}

impl Client {
    pub(crate) fn new(
        config: &TtcpConfig,
        content: Arc<Content>,
        phase: Arc<Phase>,
        times: Times,
    ) -> Client {
        Client {
            size: config.size,
            content,
            phase,
            times,
            clock: Clock::shared(),
        }
    }

    fn ask(&self, slot: &mut Slot, cx: &mut Context<'_>) {
        slot.asked_at = self.clock.now_nanos();
        slot.to_come = self.size;
        slot.out.waiting = self.size;
        slot.out
            .send(slot.id, slot.mss, self.content.at(0, self.size), cx);
    }

    fn told(&self, message: &Message, asking: &mut Asking, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some(control) = Control::of(message) else {
            return;
        };
        match control.verb() {
            Some(Verb::Connected) => {
                if asking.slots.len() <= id.slot() {
                    asking.slots.resize_with(id.slot() + 1, || None);
                }
                asking.histogram.get_or_insert_with(histogram);
                let mss = control.mss() as usize;
                let out = Outgoing {
                    space: control.value,
                    waiting: 0,
                };
                let slot = asking.slots[id.slot()].insert(Slot {
                    id,
                    mss,
                    asked_at: 0,
                    to_come: 0,
                    out,
                });
                self.ask(slot, cx);
            }
            Some(Verb::Space) => {
                if let Some(Some(slot)) = asking.slots.get_mut(id.slot()) {
                    slot.out.space += control.value;
                    slot.out
                        .send(id, slot.mss, self.content.at(0, self.size), cx);
                }
            }
            _ => {}
        }
    }

    fn heard(&self, message: Message, asking: &mut Asking, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some(Some(slot)) = asking
            .slots
            .get_mut(id.slot())
            .filter(|slot| slot.as_ref().is_some_and(|s| s.id == id))
        else {
            return cx.drop(message, LOST);
        };
        let len = message.total_len();
        super::with_buffer(len, |buffer| message.copy_to_slice(&mut buffer[..len]));
        drop(message);
        give_credit(id, len as u64, LOST, cx);
        slot.to_come = slot.to_come.saturating_sub(len);
        if slot.to_come > 0 {
            return;
        }
        if self.phase.is_measuring()
            && let Some(histogram) = &mut asking.histogram
        {
            histogram
                .saturating_record(self.clock.now_nanos().saturating_sub(slot.asked_at).max(1));
        }
        cx.count(BYTES, self.size as u64);
        self.ask(slot, cx);
    }
}

impl Module for Client {
    fn name(&self) -> &'static str {
        "client"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        COUNTERS
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Asking {
            slots: Vec::new(),
            histogram: None,
            times: self.times.clone(),
        })
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let asking = state.of::<Asking>();
        for message in run.drain() {
            match message.kind() {
                Kind::Data => self.heard(message, asking, cx),
                _ => self.told(&message, asking, cx),
            }
        }
    }
}

/// The end that answers: sends back what comes.
pub(crate) struct Server;

#[derive(Default)]
struct Answering {
    slots: Vec<Option<Answer>>,
}

struct Answer {
    id: ConnectionId,
    mss: usize,
    space: u64,
    /// What could not be sent back yet, in order.
    waiting: std::collections::VecDeque<Message>,
}

impl Answer {
    /// Sends back copies of what has come, as far as there is space.
    fn send(&mut self, cx: &mut Context<'_>) {
        while let Some(front) = self.waiting.front_mut() {
            let piece = front
                .total_len()
                .min(self.mss)
                .min(usize::try_from(self.space).unwrap_or(usize::MAX));
            if piece == 0 {
                return;
            }
            let Some(mut segment) = cx.pool().allocate(HEADROOM, piece) else {
                return cx.count(UNSENT, 1);
            };
            super::with_buffer(piece, |buffer| {
                front.copy_to_slice(&mut buffer[..piece]);
                segment.extend_from_slice_summed(&buffer[..piece]);
            });
            segment.set_connection(self.id.0);
            cx.down(segment);
            self.space -= piece as u64;
            give_credit(self.id, piece as u64, LOST, cx);
            cx.count(BYTES, piece as u64);
            if front.strip(piece) == 0 || front.total_len() == 0 {
                self.waiting.pop_front();
            }
        }
    }
}

impl Module for Server {
    fn name(&self) -> &'static str {
        "server"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        COUNTERS
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Answering::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let answering = state.of::<Answering>();
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            let control = Control::of(&message);
            if let Some(control) = control.filter(|control| control.verb() == Some(Verb::Connected))
            {
                if answering.slots.len() <= id.slot() {
                    answering.slots.resize_with(id.slot() + 1, || None);
                }
                accept(id, LOST, cx);
                let mss = control.mss() as usize;
                let waiting = std::collections::VecDeque::with_capacity(64);
                answering.slots[id.slot()] = Some(Answer {
                    id,
                    mss,
                    space: control.value,
                    waiting,
                });
                continue;
            }
            let Some(Some(answer)) = answering.slots.get_mut(id.slot()) else {
                cx.count(LOST, u64::from(message.kind() == Kind::Data));
                continue;
            };
            match control.and_then(|control| Some((control.verb()?, control.value))) {
                Some((Verb::Space, value)) => answer.space += value,
                None if message.kind() == Kind::Data => answer.waiting.push_back(message),
                _ => continue,
            }
            answer.send(cx);
        }
    }
}
