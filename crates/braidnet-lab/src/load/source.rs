//! What sends a stream: takes the space that TCP gives and asks for segments to be filled.

use super::{Numbers, accept};
use crate::config::{Presentation, TtcpConfig};
use braidnet_codec::record::MARK_BYTES;
use braidnet_inet::HEADROOM;
use braidnet_message::{Kind, Message, Pool, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::address::Tuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The top module of a stack that sends.
///
/// In its core it only decides *what* goes out: it hands shells down, segments with room and no bytes, each with its place in
/// the stream. [`Compose`](super::compose::Compose) below it fills them outside every perimeter and puts them back into order.
pub(crate) struct Source {
    numbers: Numbers,
    /// Bytes of a marked record, if the stream consists of such.
    record_bytes: Option<usize>,
}

/// What a shell says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Shell {
    /// Where in the stream its first byte belongs.
    pub(crate) position: u64,
    /// How many bytes it is to hold, over all its blocks.
    pub(crate) len: u32,
    /// Bytes of a full segment: each block but the last has so many.
    pub(crate) mss: u32,
}

const NO_BUFFER: Counter = Counter(0);

#[derive(Default)]
struct Sending {
    slots: Vec<Option<Slot>>,
}

struct Slot {
    id: ConnectionId,
    mss: usize,
    space: u64,
    position: u64,
}

impl Source {
    pub(crate) fn new(numbers: Numbers, config: &TtcpConfig) -> Source {
        let records = config.presentation == Presentation::Xdr;
        Source {
            numbers,
            record_bytes: records.then_some(config.size + MARK_BYTES),
        }
    }

    fn told(&self, message: &Message, sending: &mut Sending, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some(control) = Control::of(message) else {
            return;
        };
        match control.verb() {
            Some(Verb::Connected) if self.is_ours(&control.tuple) => {
                accept(id, NO_BUFFER, cx);
                if sending.slots.len() <= id.slot() {
                    sending.slots.resize_with(id.slot() + 1, || None);
                }
                // Space is reported in quarters of the buffer: half of it comes free for certain.
                let most = usize::try_from(control.value / 2).unwrap_or(usize::MAX);
                let mss = (control.mss() as usize).min(most).max(1);
                sending.slots[id.slot()] = Some(Slot {
                    id,
                    mss,
                    space: control.value,
                    position: 0,
                });
            }
            Some(Verb::Space) => match sending.slots.get_mut(id.slot()) {
                Some(Some(slot)) if slot.id == id => slot.space += control.value,
                _ => return,
            },
            _ => return,
        }
        if let Some(Some(slot)) = sending.slots.get_mut(id.slot()) {
            self.fill(slot, cx);
        }
    }

    /// Whether it is one of the connections that are measured, at whichever end.
    fn is_ours(&self, tuple: &Tuple) -> bool {
        self.numbers.of(tuple) != u32::MAX || self.numbers.of(&tuple.reversed()) != u32::MAX
    }

    /// Hands shells down for as much as there is space for.
    fn fill(&self, slot: &mut Slot, cx: &mut Context<'_>) {
        loop {
            let len = self.record_bytes.unwrap_or(slot.mss);
            if slot.space < len as u64 {
                return;
            }
            let Some(mut shell) = shell(len, slot.mss, cx.pool()) else {
                // The next report of space tries again.
                return cx.count(NO_BUFFER, 1);
            };
            shell.set_kind(Kind::Data);
            shell.set_connection(slot.id.0);
            shell.set_note(Shell {
                position: slot.position,
                len: len as u32,
                mss: slot.mss as u32,
            });
            cx.down(shell);
            slot.position += len as u64;
            slot.space -= len as u64;
        }
    }
}

/// Empty blocks for `len` bytes in segments of `mss`.
fn shell(len: usize, mss: usize, pool: &mut Pool) -> Option<Message> {
    let mut shell = pool.allocate(HEADROOM, len.min(mss))?;
    let mut left = len - len.min(mss);
    while left > 0 {
        shell.push_continuation(pool.allocate(HEADROOM, left.min(mss))?);
        left -= left.min(mss);
    }
    Some(shell)
}

impl Module for Source {
    fn name(&self) -> &'static str {
        "source"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["no_buffer"]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Sending::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let sending = state.of::<Sending>();
        for message in run.drain() {
            if message.kind() != Kind::Data {
                self.told(&message, sending, cx);
            }
        }
    }
}
