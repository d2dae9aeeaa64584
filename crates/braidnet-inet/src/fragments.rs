//! Datagrams that arrive in fragments (RFC 791 §3.2).
//!
//! [`Ip`](crate::ip::Ip) checks a fragment like any packet and sends it up to this module, whose core owns the table of what is held, and runs in
//! [`BucketId::DEVICE`], whatever the architecture: fragments of one datagram may be found by any processor. What is whole goes back down to
//! `Ip`, which turns it round to its transport, so that it goes on like a datagram that came in one packet; the transport finds its flow's bucket, and
//! with that the processor that it belongs to. Packets that are no fragments never come here.
//!
//! The payload is not copied: a whole datagram is its first fragment, the IP header still in front of it, and the others' buffers behind. Only a fragment
//! that leaves most of its buffer empty is put into another.
//!
//! # What is refused
//!
//! An overlap that does not say what is held already drops the whole datagram (as RFC 5722 §4 has it for IPv6), and so do fragments that disagree about
//! its end or about the options that each must have; the rest of such a datagram is dropped, too, until its time is over. So what goes up was never put together of two. The
//! table's documentation says what bounds the memory.

mod table;

use crate::counters::counters;
use crate::limits::{InetLimits, LimitError};
use crate::live::Live;
use crate::notes::{Datagram, Fragment};
use crate::room::{self, HEADROOM};
use braidnet_message::{Kind, Message, Pool, Run, Scarcity};
use braidnet_stream::{BucketId, Context, Direction, Key, Module, Stages, State};
use braidnet_wire::time::Duration;
use std::sync::Arc;
use table::{Effect, Reason, Table};

/// The lower link to IP.
pub(crate) const DOWN_IP: u8 = 0;
/// The lower link to ICMP, for datagrams whose time is over.
pub(crate) const DOWN_ICMP: u8 = 1;

/// A buffer of which less than this part is a fragment's is not kept for it.
const SPARSE: usize = 4;

/// What may be held of datagrams that are not whole yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reassembly {
    /// Bytes of memory, buffers counted whole: 4 MiB by default. Where they are used up, the oldest datagram goes.
    pub bytes: usize,
    /// One source may hold this part of it: a fourth by default, which is more than one datagram of the largest size needs; 1 to 65,536.
    pub source_part: usize,
    /// Pieces of one datagram that do not lie in one buffer: 256 by default, as many as the largest datagram has in packets of 296 bytes, the
    /// shortest MTU in use; 1 to 8,192. A datagram in more is dropped.
    pub pieces: usize,
    /// How long the rest of a datagram may take from its first fragment on: 30 seconds by default (RFC 1122 §3.3.2 recommends 60 to 120, of a time when
    /// packets took that long).
    pub lifetime: Duration,
}

impl Default for Reassembly {
    fn default() -> Reassembly {
        Reassembly {
            bytes: 4 << 20,
            source_part: 4,
            pieces: 256,
            lifetime: Duration::from_secs(30),
        }
    }
}

impl Reassembly {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(1..=65_536, "reassembly.source_part", self.source_part)?;
        LimitError::unless_in(1..=8192, "reassembly.pieces", self.pieces)
    }
}

/// The module.
pub struct Fragments {
    limits: Arc<Live<InetLimits>>,
}

counters! {
    /// What it counts: fragments, where nothing else is said.
    enum Counted {
        /// Datagrams that became whole.
        Reassembled: "reassembled",
        /// Fragments that these came in.
        Used: "used",
        /// Without payload.
        Empty: "empty",
        /// A first fragment that ends inside the transport's header.
        FirstTooSmall: "first_too_small",
        /// Came before.
        Duplicate: "duplicate",
        /// Of a datagram that is dropped because one overlaps another, and does not say the same.
        Overlap: "overlap",
        /// Of a datagram that is dropped because two say differently where it ends.
        EndsDiffer: "ends_differ",
        /// Of a datagram that is dropped because two have different options of those that each must have.
        OptionsDiffer: "options_differ",
        /// Of a datagram of more than 65,535 bytes, the first fragment's header included.
        TooLong: "too_long",
        /// Of a datagram in too many pieces.
        TooManyPieces: "too_many_pieces",
        /// Of a datagram that was dropped for one of these reasons before.
        Poisoned: "poisoned",
        /// Of the oldest datagram of a source that holds too much.
        SourceFull: "source_full",
        /// Of the oldest datagram, where too much is held.
        Full: "full",
        /// Of a datagram whose rest did not come in time.
        TimedOut: "timed_out",
        /// Of a datagram of which some are marked by the network, and others may not be (RFC 3168 §5.3).
        EcnDiffers: "ecn_differs",
        /// While the stack's memory is used up nothing is held.
        MemoryShort: "memory_short",
        /// For another bucket than the device's: our own fault.
        Misdirected: "misdirected",
    }
}

impl From<Reason> for Counted {
    fn from(reason: Reason) -> Counted {
        match reason {
            Reason::Empty => Counted::Empty,
            Reason::FirstTooSmall => Counted::FirstTooSmall,
            Reason::Duplicate => Counted::Duplicate,
            Reason::Overlap => Counted::Overlap,
            Reason::EndsDiffer => Counted::EndsDiffer,
            Reason::OptionsDiffer => Counted::OptionsDiffer,
            Reason::TooLong => Counted::TooLong,
            Reason::TooManyPieces => Counted::TooManyPieces,
            Reason::Poisoned => Counted::Poisoned,
            Reason::SourceFull => Counted::SourceFull,
            Reason::Full => Counted::Full,
            Reason::TimedOut => Counted::TimedOut,
            Reason::EcnDiffers => Counted::EcnDiffers,
        }
    }
}

impl Fragments {
    /// Within these limits, which may change. Where more is held than they allow then, the oldest goes with the next fragment that comes.
    pub(crate) fn new(limits: Arc<Live<InetLimits>>) -> Fragments {
        Fragments { limits }
    }
}

impl Module for Fragments {
    fn name(&self) -> &'static str {
        "fragments"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Device
    }

    fn counters(&self) -> &'static [&'static str] {
        Counted::NAMES
    }

    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        if bucket == BucketId::DEVICE {
            Box::new(Table::new(self.limits.clone()))
        } else {
            Box::new(())
        }
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let Some(table) = table(state, cx) else {
            debug_assert!(false, "fragments belong to the device's bucket");
            return drop_all(run, Counted::Misdirected, cx);
        };
        if cx.pool().scarcity() != Scarcity::Ample {
            return drop_all(run, Counted::MemoryShort, cx);
        }
        let now = cx.now();
        for message in run.drain() {
            let message = compact(message, cx.pool());
            table.take(message, now, &mut |effect| act(effect, cx));
        }
        wake(table, cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        if let Some(table) = table(state, cx) {
            let now = cx.now();
            table.expire(now, &mut |effect| act(effect, cx));
            wake(table, cx);
        }
    }
}

/// The table, which the device's bucket has and no other.
fn table<'a>(state: &'a mut dyn State, cx: &Context<'_>) -> Option<&'a mut Table> {
    (cx.bucket() == Some(BucketId::DEVICE)).then(|| state.of::<Table>())
}

fn wake(table: &Table, cx: &mut Context<'_>) {
    if let Some(at) = table.next() {
        cx.wake_at(at);
    }
}

fn drop_all(run: &mut Run, reason: Counted, cx: &mut Context<'_>) {
    for message in run.drain() {
        cx.drop(message, reason.counter());
    }
}

/// Does what the table wants done.
fn act(effect: Effect, cx: &mut Context<'_>) {
    match effect {
        Effect::Whole(message, fragments) => {
            cx.count(Counted::Reassembled.counter(), 1);
            cx.count(Counted::Used.counter(), fragments);
            hand_down(message, DOWN_IP, Datagram::WHOLE, cx);
        }
        Effect::Drop(reason, fragments) => cx.count(Counted::from(reason).counter(), fragments),
        Effect::Expired(first) => hand_down(first, DOWN_ICMP, Datagram::EXPIRED, cx),
    }
}

/// Sends a datagram down a link that is not to leave there: its kind tells, and this flag.
fn hand_down(mut message: Message, link: u8, flag: u8, cx: &mut Context<'_>) {
    let datagram = message.note::<Fragment>().datagram;
    message.set_kind(Kind::Control);
    message.set_note(Datagram {
        flags: datagram.flags | flag,
        ..datagram
    });
    cx.down_link(usize::from(link), message);
}

/// Puts a fragment into a smaller buffer if it leaves most of its own empty, and there is one. Else single bytes could keep whole buffers.
fn compact(mut message: Message, pool: &mut Pool) -> Message {
    let len = message.total_len();
    if room::footprint(&message) <= SPARSE * len {
        return message;
    }
    let note = message.note::<Fragment>();
    // In front of the first fragment the header stays.
    let header_len = match note.offset {
        0 => usize::from(note.datagram.header_len),
        _ => 0,
    };
    if message.prepend(header_len).is_none() {
        return message;
    }
    let bucket = message.bucket();
    let copied = pool.allocate(HEADROOM, header_len + len);
    if let Some(mut copy) = copied
        && let Some(room) = copy.append(header_len + len)
    {
        message.copy_to_slice(room);
        message = copy;
        message.set_bucket(bucket);
        message.set_note(note);
    }
    message.strip(header_len);
    message
}

#[cfg(test)]
mod tests;
