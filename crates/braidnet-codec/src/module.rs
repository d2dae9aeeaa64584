//! Records as a module above TCP: framing in the core, decoding behind it.
//!
//! The core cuts the stream into records ([`RecordFramer`]) and hands each on as one message, whose blocks are views of the
//! segments that brought it: no byte is copied. It gives the window back what whole records took of it. What
//! is done with a record is order-free: a [`RecordUser`] sees it outside every perimeter, on whichever processor has it.

use crate::record::RecordFramer;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::address::Tuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The counters of [`Records`] itself: records completed; connections reset because their stream cannot be cut into records;
/// pieces and credits lost for want of a buffer or of a connection.
pub const OWN_COUNTERS: [&str; 3] = ["records", "unframed", "lost"];

/// What is done with records.
pub trait RecordUser: Send + Sync + 'static {
    /// The module's counters: [`OWN_COUNTERS`], and behind them those that [`records`](RecordUser::records) counts under.
    const COUNTERS: &'static [&'static str] = &OWN_COUNTERS;

    /// A connection has been established; the word that this gives stands in the note of each of its records.
    fn connected(&self, tuple: &Tuple) -> u64 {
        let _ = tuple;
        0
    }

    /// Sees the records of a run, one after the other, none of them empty of meaning to another: they may be seen in any order, by any
    /// processor.
    fn records(&self, records: &Run, cx: &mut Context<'_>);
}

/// What stands in the note of a record.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RecordNote {
    /// What [`RecordUser::connected`] gave.
    pub word: u64,
    /// Which record of its connection it is, from 0.
    pub number: u64,
}

/// The record module.
pub struct Records<U> {
    user: U,
    record_limit: u32,
}

impl<U: RecordUser> Records<U> {
    /// Records of at most `record_limit` bytes, marks not counted, for `user`.
    pub fn new(record_limit: u32, user: U) -> Records<U> {
        debug_assert!(
            U::COUNTERS.starts_with(&OWN_COUNTERS),
            "the module's own counters come first"
        );
        Records { user, record_limit }
    }
}

/// Records completed.
const RECORDS: Counter = Counter(0);
/// Connections reset because their stream cannot be cut into records.
const UNFRAMED: Counter = Counter(1);
/// Dropped, or a credit not given: no buffer; or data of no connection.
const LOST: Counter = Counter(2);

/// The streams of one bucket, by slot.
#[derive(Default)]
struct Streams {
    slots: Vec<Option<Stream>>,
    /// Slots that have something to report; empty between calls, kept for its memory.
    touched: Vec<usize>,
}

/// One connection's stream.
struct Stream {
    id: ConnectionId,
    framer: RecordFramer,
    word: u64,
    number: u64,
    /// What has come of the record at hand, and how many bytes of the stream that is, marks included.
    partial: Option<Message>,
    partial_bytes: u64,
    /// Bytes of whole records that the window has not been given back.
    credit: u64,
    touched: bool,
    failed: bool,
}

impl Streams {
    fn slot(&mut self, id: ConnectionId) -> Option<&mut Stream> {
        self.slots
            .get_mut(id.slot())?
            .as_mut()
            .filter(|stream| stream.id == id)
    }

    /// Takes a piece of a stream and hands the records on that it completes.
    fn take(&mut self, piece: Message, cx: &mut Context<'_>) {
        let id = ConnectionId(piece.connection());
        let Some(stream) = self.slot(id).filter(|stream| !stream.failed) else {
            return cx.drop(piece, LOST);
        };
        if !stream.take(piece, cx) {
            stream.failed = true;
            stream.partial = None;
            cx.count(UNFRAMED, 1);
        }
        if !core::mem::replace(&mut stream.touched, true) {
            self.touched.push(id.slot());
        }
    }

    /// Gives windows back what whole records have taken, and gives connections up that cannot be framed.
    fn report(&mut self, cx: &mut Context<'_>) {
        for slot in self.touched.drain(..) {
            if let Some(stream) = self.slots[slot].as_mut() {
                stream.touched = false;
                report(stream, cx);
            }
        }
    }
}

impl Stream {
    /// Takes a piece of the stream and hands the records on that it completes. False if there is no telling any more where
    /// records begin.
    fn take(&mut self, mut piece: Message, cx: &mut Context<'_>) -> bool {
        loop {
            let Some(chunk) = piece.blocks().next() else {
                return true;
            };
            let Ok(step) = self.framer.step(chunk) else {
                return false;
            };
            piece.strip(step.mark_bytes);
            self.partial_bytes += step.bytes() as u64;
            if step.body_bytes == 0 && !step.complete {
                continue;
            }
            let rest = if step.body_bytes == piece.total_len() {
                None
            } else {
                match piece.split_to(step.body_bytes, cx.pool()) {
                    Some(body) => Some(core::mem::replace(&mut piece, body)),
                    None => return false,
                }
            };
            match &mut self.partial {
                Some(partial) => partial.push_continuation(piece),
                partial => *partial = Some(piece),
            }
            if step.complete
                && let Some(mut record) = self.partial.take()
            {
                record.set_kind(Kind::Data);
                record.set_connection(self.id.0);
                record.set_note(RecordNote {
                    word: self.word,
                    number: self.number,
                });
                self.number += 1;
                self.credit += core::mem::take(&mut self.partial_bytes);
                cx.count(RECORDS, 1);
                cx.up(record);
            }
            match rest {
                Some(rest) => piece = rest,
                None => return true,
            }
        }
    }
}

impl<U: RecordUser> Records<U> {
    fn told(&self, message: &Message, streams: &mut Streams) {
        let id = ConnectionId(message.connection());
        let Some(control) = Control::of(message) else {
            return;
        };
        match control.verb() {
            Some(Verb::Connected) => {
                if streams.slots.len() <= id.slot() {
                    streams.slots.resize_with(id.slot() + 1, || None);
                }
                streams.slots[id.slot()] = Some(Stream {
                    id,
                    framer: RecordFramer::new(self.record_limit),
                    word: self.user.connected(&control.tuple),
                    number: 0,
                    partial: None,
                    partial_bytes: 0,
                    credit: 0,
                    touched: false,
                    failed: false,
                });
            }
            Some(Verb::Closed) if streams.slot(id).is_some() => streams.slots[id.slot()] = None,
            _ => {}
        }
    }
}

/// Gives the window back what whole records have taken, or gives the connection up.
fn report(stream: &mut Stream, cx: &mut Context<'_>) {
    let control = if stream.failed {
        Control::new(Verb::Abort)
    } else if stream.credit > 0 {
        Control::new(Verb::Credit).value(stream.credit)
    } else {
        return;
    };
    match control.message(stream.id, cx.pool()) {
        Some(message) => {
            stream.credit = 0;
            cx.down(message);
        }
        // The next record's credit carries this one's.
        None => cx.count(LOST, 1),
    }
}

impl<U: RecordUser> Module for Records<U> {
    fn name(&self) -> &'static str {
        "records"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::AFTER_UP
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &[
            "records",
            "unframed",
            "lost",
            "bytes",
            "hash",
            "samples",
            "undecoded",
        ]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Streams::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let streams = state.of::<Streams>();
        for message in run.drain() {
            if message.kind() == Kind::Data {
                streams.take(message, cx);
            } else {
                self.told(&message, streams);
            }
        }
        streams.report(cx);
    }

    fn after(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.user.records(run, cx);
        run.clear();
    }
}
