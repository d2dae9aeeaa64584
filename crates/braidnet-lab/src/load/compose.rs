//! Fills a source's shells, and puts them back into order.

use super::source::Shell;
use super::with_buffer;
use crate::config::{Presentation, TtcpConfig};
use crate::content::{Content, samples};
use braidnet_codec::record::{MARK_BYTES, RecordMark};
use braidnet_codec::xdr::{Sample, encode_batch};
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Counter, Direction, Key, Module, Stages, State,
};
use std::sync::Arc;

/// The module between a source and TCP.
///
/// `before`: bytes are copied and summed into segments in one pass, or samples encoded and then so copied; order-free. `core`:
/// under `message` two processors may fill shells of one connection at the same time, so what comes too early waits here for
/// what is missing, and nobody waits for anybody.
pub(crate) struct Compose {
    content: Arc<Content>,
    /// Samples of every record of the cycle; none if the stream is raw.
    records: Vec<Vec<Sample>>,
    record_bytes: usize,
    checksum: bool,
}

const REJOINED: Counter = Counter(0);
const UNFILLED: Counter = Counter(1);

#[derive(Default)]
struct Order {
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    id: ConnectionId,
    next: u64,
    /// What came too early.
    early: Vec<Message>,
}

impl Compose {
    pub(crate) fn new(config: &TtcpConfig, content: Arc<Content>) -> Compose {
        let record_bytes = config.size + MARK_BYTES;
        let records = match config.presentation {
            Presentation::None => Vec::new(),
            Presentation::Xdr => {
                let count = (content.cycle() / record_bytes) as u64;
                (0..count)
                    .map(|record| samples(record, config.size))
                    .collect()
            }
        };
        Compose {
            content,
            records,
            record_bytes,
            checksum: config.checksum,
        }
    }

    /// Fills one shell and puts the segments that it makes into `out`. False if a block has no room: our own fault.
    fn fill(&self, shell: Message, out: &mut Run) -> bool {
        let note = shell.note::<Shell>();
        let len = note.len as usize;
        if self.records.is_empty() {
            return self.cut(shell, note, self.content.at(note.position, len), out);
        }
        with_buffer(len, |buffer| {
            let buffer = &mut buffer[..len];
            let record = note.position / self.record_bytes as u64;
            let samples = &self.records[(record % self.records.len() as u64) as usize];
            let (mark, body) = buffer.split_at_mut(MARK_BYTES);
            let Some(word) = RecordMark::new(body.len() as u32, true) else {
                return false;
            };
            mark.copy_from_slice(&word.to_bytes());
            encode_batch(samples, body).is_ok() && self.cut(shell, note, buffer, out)
        })
    }

    /// Copies bytes into the blocks of a shell, each of which becomes a segment.
    fn cut(&self, shell: Message, note: Shell, bytes: &[u8], out: &mut Run) -> bool {
        let (bucket, connection) = (shell.bucket(), shell.connection());
        let mut rest = Some(shell);
        let mut position = note.position;
        for piece in bytes.chunks(note.mss as usize) {
            let Some(mut segment) = rest.take() else {
                return false;
            };
            rest = segment.take_continuation();
            let copied = if self.checksum {
                segment.extend_from_slice_summed(piece) == piece.len()
            } else {
                segment
                    .append(piece.len())
                    .map(|to| to.copy_from_slice(piece))
                    .is_some()
            };
            if !copied {
                return false;
            }
            segment.set_kind(Kind::Data);
            segment.set_bucket(bucket);
            segment.set_connection(connection);
            segment.set_position(position);
            position += piece.len() as u64;
            out.push(segment);
        }
        true
    }
}

impl Slot {
    /// Lets a segment pass if it is the next, and those that waited for it; else it waits.
    fn pass(&mut self, segment: Message, out: &mut Run, cx: &mut Context<'_>) {
        if segment.position() != self.next {
            cx.count(REJOINED, 1);
            self.early.push(segment);
            return;
        }
        self.next += segment.total_len() as u64;
        out.push(segment);
        while let Some(index) = self
            .early
            .iter()
            .position(|early| early.position() == self.next)
        {
            let segment = self.early.swap_remove(index);
            self.next += segment.total_len() as u64;
            out.push(segment);
        }
    }
}

/// Segments that one turn may make at most of the usual windows.
const SHELLS: usize = 1 << 13;

thread_local! {
    /// Empty between calls; kept for its memory.
    static PASSED: core::cell::RefCell<Run> =
        core::cell::RefCell::new(Run::with_capacity(SHELLS));
}

impl Module for Compose {
    fn name(&self) -> &'static str {
        "compose"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_DOWN | Stages::CORE_DOWN
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["rejoined", "unfilled"]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Order::default())
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        PASSED.with_borrow_mut(|filled| {
            for message in run.drain() {
                if message.kind() != Kind::Data {
                    filled.push(message);
                } else if !self.fill(message, filled) {
                    cx.count(UNFILLED, 1);
                }
            }
            run.append(filled);
        });
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let order = state.of::<Order>();
        PASSED.with_borrow_mut(|passed| {
            for message in run.drain() {
                if message.kind() != Kind::Data {
                    passed.push(message);
                    continue;
                }
                let id = ConnectionId(message.connection());
                if order.slots.len() <= id.slot() {
                    order.slots.resize_with(id.slot() + 1, Slot::default);
                }
                let slot = &mut order.slots[id.slot()];
                if slot.id != id {
                    *slot = Slot {
                        id,
                        next: 0,
                        early: Vec::with_capacity(64),
                    };
                }
                slot.pass(message, passed, cx);
            }
            run.append(passed);
        });
    }
}
