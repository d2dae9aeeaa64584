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
use braidnet_wire::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The counters of [`Records`] itself: records completed; connections reset because their stream cannot be cut into records;
/// pieces of no connection, or of one that is being reset, dropped.
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
    /// processor. What it leaves in the run goes on to the module above.
    fn records(&self, records: &mut Run, cx: &mut Context<'_>);
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
/// Dropped: data of no connection, or of one that is being reset.
const LOST: Counter = Counter(2);

/// How long what TCP is to be told waits for a buffer.
const RETRY: Duration = Duration::from_millis(20);

/// The streams of one bucket, by slot.
#[derive(Default)]
struct Streams {
    slots: Vec<Option<Stream>>,
    /// Slots that have something to report, each once. Empty between calls, but for what waits for a buffer.
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

    /// Gives windows back what whole records have taken, and gives connections up that cannot be framed. What finds no
    /// buffer is reported later.
    fn report(&mut self, cx: &mut Context<'_>) {
        while let Some(&slot) = self.touched.last() {
            if let Some(stream) = self.slots[slot].as_mut() {
                if !stream.report(cx) {
                    return cx.wake_at(cx.now() + RETRY);
                }
                stream.touched = false;
            }
            self.touched.pop();
        }
    }

    /// Forgets a connection.
    fn close(&mut self, id: ConnectionId) {
        if let Some(stream) = self.slot(id) {
            if stream.touched {
                self.touched.retain(|slot| *slot != id.slot());
            }
            self.slots[id.slot()] = None;
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
                Some(partial) => {
                    if !partial.absorb(&piece) {
                        partial.push_continuation(piece);
                    }
                }
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

    /// Gives the window back what whole records have taken, or gives the connection up; false if there is no buffer for it.
    fn report(&mut self, cx: &mut Context<'_>) -> bool {
        let control = if self.failed {
            Control::new(Verb::Abort)
        } else if self.credit > 0 {
            Control::new(Verb::Credit).value(self.credit)
        } else {
            return true;
        };
        let Some(message) = control.message(self.id, cx.pool()) else {
            return false;
        };
        self.credit = 0;
        cx.down(message);
        true
    }
}

impl<U: RecordUser> Records<U> {
    fn told(&self, message: Message, streams: &mut Streams, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some(control) = Control::of(&message) else {
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
                cx.down(Control::new(Verb::Accepted).carried_by(message, id));
            }
            Some(Verb::Closed) => streams.close(id),
            _ => {}
        }
    }
}

impl<U: RecordUser> Module for Records<U> {
    fn name(&self) -> &'static str {
        "records"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::AFTER_UP | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        U::COUNTERS
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
                self.told(message, streams, cx);
            }
        }
        streams.report(cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        state.of::<Streams>().report(cx);
    }

    fn after(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.user.records(run, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};
    use braidnet_stream::cluster::ModuleSet;
    use braidnet_stream::{Buckets, Cluster, ModuleId, Stream as Wired};
    use braidnet_wire::time::Instant;
    use std::sync::Arc;

    /// Counts the records that it sees, and sums their bytes.
    struct Counting;

    const SEEN: Counter = Counter(OWN_COUNTERS.len() as u16);
    const SUM: Counter = Counter(OWN_COUNTERS.len() as u16 + 1);

    impl RecordUser for Counting {
        const COUNTERS: &'static [&'static str] = &["records", "unframed", "lost", "seen", "sum"];

        fn records(&self, records: &mut Run, cx: &mut Context<'_>) {
            for record in records.drain() {
                cx.count(SEEN, 1);
                let bytes = record.blocks().flatten();
                cx.count(SUM, bytes.map(|byte| u64::from(*byte)).sum());
            }
        }
    }

    /// The module alone, with one connection.
    struct Rig {
        cluster: Cluster,
        stream: Arc<Wired>,
        module: ModuleId,
        id: ConnectionId,
        arena: Arc<Arena>,
        /// What it has told TCP.
        told: Vec<(Verb, u64)>,
    }

    impl Rig {
        fn new(memory_bytes: usize) -> Rig {
            let mut builder = Wired::builder();
            let module = builder.push(Records::new(1 << 20, Counting));
            let stream = builder.build().unwrap();
            let arena = Arena::new(memory_bytes);
            let buckets = Buckets::private(&stream, 2, |_| true, |_| true);
            let mut rig = Rig {
                cluster: Cluster::new(&stream, ModuleSet::ALL, buckets, &arena),
                stream,
                module,
                id: ConnectionId::new(BucketId(1), 0, 0),
                arena,
                told: Vec::new(),
            };
            let connected = Control::new(Verb::Connected).message(rig.id, rig.cluster.pool());
            rig.up(connected.unwrap());
            rig.turn(Instant::ZERO);
            assert_eq!(rig.told.drain(..).as_slice(), [(Verb::Accepted, 0)]);
            rig
        }

        fn up(&mut self, message: Message) {
            self.cluster.put_one(self.module, Direction::Up, message);
        }

        /// A piece of the connection's stream, in a buffer as a device would use.
        fn piece(&mut self, bytes: &[u8]) -> Message {
            let mut piece = self.cluster.pool().allocate(64, 1500).unwrap();
            piece.append(bytes.len()).unwrap().copy_from_slice(bytes);
            piece.set_connection(self.id.0);
            piece.set_bucket(self.id.bucket().0);
            piece
        }

        fn turn(&mut self, now: Instant) {
            let told = &mut self.told;
            self.cluster.turn(now, &mut |run: &mut Run| {
                for message in run.drain() {
                    let control = Control::of(&message).unwrap();
                    told.push((control.verb().unwrap(), control.value));
                }
            });
        }

        fn count(&self, name: &str) -> u64 {
            self.cluster.counters().value(&self.stream, "records", name)
        }
    }

    /// Every buffer there is.
    fn everything(pool: &mut Pool) -> Vec<Message> {
        let sizes = [60_000, 4000, 1000, 100, 0];
        sizes
            .into_iter()
            .flat_map(|size| std::iter::from_fn(|| pool.allocate(0, size)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn what_the_user_counts_has_its_own_name() {
        let mut rig = Rig::new(1 << 20);
        let piece = rig.piece(b"\x80\0\0\x02\x03\x04\x80\0\0\x01\x05");
        rig.up(piece);
        rig.turn(Instant::ZERO);
        let counted = ["records", "seen", "sum", "lost"].map(|name| rig.count(name));
        assert_eq!(counted, [2, 2, 12, 0]);
        assert_eq!(rig.told, [(Verb::Credit, 11)]);
    }

    #[test]
    fn what_finds_no_buffer_is_told_later() {
        for (piece, told) in [
            (&b"\x80\0\0\x02ok"[..], (Verb::Credit, 6)),
            (b"\xff\xff\xff\xff", (Verb::Abort, 0)),
        ] {
            let mut rig = Rig::new(1 << 20);
            let piece = rig.piece(piece);
            let mut hoard = vec![piece.share(rig.cluster.pool()).unwrap()];
            rig.up(piece);
            hoard.extend(everything(rig.cluster.pool()));
            rig.turn(Instant::ZERO);
            assert_eq!(rig.told, []);
            let at = rig.cluster.deadline().expect("it tries again");
            rig.turn(at);
            assert_eq!(rig.told, []);
            drop(hoard);
            let at = rig.cluster.deadline().expect("it goes on trying");
            rig.turn(at);
            assert_eq!(rig.told, [told]);
            assert_eq!(rig.cluster.deadline(), None);
        }
    }

    #[test]
    fn a_connection_that_is_closed_has_nothing_more_to_tell() {
        let mut rig = Rig::new(1 << 20);
        let piece = rig.piece(b"\x80\0\0\x02ok");
        let closed = Control::new(Verb::Closed).message(rig.id, rig.cluster.pool());
        rig.up(piece);
        let hoard = everything(rig.cluster.pool());
        rig.turn(Instant::ZERO);
        rig.up(closed.unwrap());
        rig.turn(Instant::ZERO);
        drop(hoard);
        rig.turn(Instant::from_millis(1000));
        assert_eq!(rig.told, []);
        assert_eq!(rig.cluster.deadline(), None);
    }

    #[test]
    fn a_record_that_comes_byte_by_byte_shares_buffers() {
        const BYTES: u32 = 20_000;
        let mut rig = Rig::new(1 << 20);
        let mark = rig.piece(&(0x8000_0000 | BYTES).to_be_bytes());
        rig.up(mark);
        for at in 0..BYTES {
            let piece = rig.piece(&[(at % 7) as u8]);
            rig.up(piece);
            rig.turn(Instant::ZERO);
        }
        let sum = (0..u64::from(BYTES)).map(|at| at % 7).sum();
        let counted = ["records", "sum", "unframed"].map(|name| rig.count(name));
        assert_eq!(counted, [1, sum, 0]);
        assert!(
            rig.arena.used_bytes() < 256 << 10,
            "{}",
            rig.arena.used_bytes()
        );
    }
}
