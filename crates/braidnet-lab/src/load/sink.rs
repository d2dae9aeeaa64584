//! What receives a stream and copies it out.

use super::{Numbers, accept, give_credit, with_buffer};
use crate::tally::{Scope, Tally};
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A sink above TCP.
pub(crate) struct Sink {
    numbers: Numbers,
    scope: Scope,
    /// Whether there is a module above for what has been copied out.
    hands_on: bool,
}

/// What the core leaves in a message for the order-free part.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Line {
    number: u32,
}

const BYTES: Counter = Counter(0);
const HASH: Counter = Counter(1);
const SAMPLES: Counter = Counter(2);
const DISORDER: Counter = Counter(3);
const LOST: Counter = Counter(4);

/// The connections of one bucket, by slot.
#[derive(Default)]
struct Taken {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Which connection it is, plus one; 0 for none.
    line: u32,
    /// Bytes received.
    position: u64,
}

impl Sink {
    pub(crate) fn new(numbers: Numbers, scope: Scope, hands_on: bool) -> Sink {
        Sink {
            numbers,
            scope,
            hands_on,
        }
    }

    fn told(&self, message: &Message, taken: &mut Taken, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let slot = id.slot();
        let Some(control) = Control::of(message) else {
            return;
        };
        if control.verb() == Some(Verb::Connected) {
            accept(id, LOST, cx);
            if taken.slots.len() <= slot {
                taken.slots.resize(slot + 1, Slot::default());
            }
            taken.slots[slot] = Slot {
                line: self.numbers.of(&control.tuple).wrapping_add(1),
                position: 0,
            };
        }
    }

    /// Counts a message, and leaves its connection's number in it. How many bytes it has; `None` if it is for no connection.
    #[inline]
    fn take(&self, message: &mut Message, taken: &mut Taken, cx: &mut Context<'_>) -> Option<u64> {
        let len = message.total_len() as u64;
        let slot = taken
            .slots
            .get_mut(ConnectionId(message.connection()).slot())
            .filter(|slot| slot.line > 0)?;
        // TCP hands up in order; that it does is what this counts.
        if slot.position != message.position() {
            cx.count(DISORDER, 1);
        }
        slot.position = message.position() + len;
        message.set_note(Line {
            number: slot.line - 1,
        });
        Some(len)
    }
}

impl Module for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::AFTER_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["bytes", "hash", "samples", "disorder", "lost"]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Taken::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let taken = state.of::<Taken>();
        let (mut current, mut credit) = (ConnectionId::default(), 0);
        run.retain_mut(|message| {
            if message.kind() != Kind::Data {
                self.told(message, taken, cx);
                return false;
            }
            let id = ConnectionId(message.connection());
            if id != current && credit > 0 {
                give_credit(current, core::mem::take(&mut credit), LOST, cx);
            }
            current = id;
            match self.take(message, taken, cx) {
                Some(len) => credit += len,
                None => {
                    cx.count(LOST, 1);
                    return false;
                }
            }
            true
        });
        if credit > 0 {
            give_credit(current, credit, LOST, cx);
        }
    }

    fn after(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let mut bytes = 0;
        let mut tally = Tally::default();
        for message in run.iter() {
            let len = message.total_len();
            with_buffer(len, |buffer| {
                message.copy_to_slice(&mut buffer[..len]);
                tally.stream(
                    &self.scope,
                    message.note::<Line>().number,
                    message.position(),
                    &buffer[..len],
                );
            });
            bytes += len as u64;
        }
        cx.count(HASH, tally.hash);
        cx.count(SAMPLES, tally.samples);
        cx.count(BYTES, bytes);
        if !self.hands_on {
            run.clear();
        }
    }
}
