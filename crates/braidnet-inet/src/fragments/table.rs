//! The table of datagrams of which fragments are held.
//!
//! It does no input or output: it is told which fragment came and what time it is, and answers with [`Effect`]s.
//!
//! # Bounds
//!
//! Anybody can have us hold fragments, from forged addresses too, and never send the rest. So what is held is counted in bytes of memory,
//! buffers whole and what the table itself needs with them:
//!
//! - what one source makes us hold stays within its part ([`Reassembly::source_part`]). A fragment beyond that costs the source the oldest of its own
//!   datagrams, and nobody else anything;
//! - all of it stays within [`Reassembly::bytes`]. A fragment beyond that costs whoever has it the oldest datagram of all: who sends
//!   his fragments one after the other is done long before his is the oldest, however many forged ones come with them;
//! - a datagram is held for [`Reassembly::lifetime`] from its first fragment on, whatever comes later, and in at most [`Reassembly::pieces`] pieces.

use super::Reassembly;
use crate::limits::InetLimits;
use crate::live::Live;
use crate::notes::{Datagram, Fragment};
use crate::room;
use braidnet_message::Message;
use braidnet_wire::address::Address;
use braidnet_wire::ipv4::MAX_TOTAL_LEN;
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Instant;
use braidnet_wire::{icmpv4, tcp, udp};
use core::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the table needs for a datagram beside its buffers, in bytes, rounded up.
pub(crate) const DATAGRAM_BYTES: usize = 512;
/// What it needs for a piece beside its buffer, and the buffer's descriptor, rounded up.
const PIECE_BYTES: usize = 320;

/// What the table wants done.
pub(crate) enum Effect {
    /// The datagram is whole: the first fragment, and the payload of the others behind it. So many it came in.
    Whole(Message, u64),
    /// So many fragments are gone.
    Drop(Reason, u64),
    /// The time of a datagram is over whose first fragment this is.
    Expired(Message),
}

/// Why fragments are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// It has no payload.
    Empty,
    /// The first fragment ends inside the transport's header.
    FirstTooSmall,
    /// It has come before.
    Duplicate,
    /// It overlaps another, and does not say the same.
    Overlap,
    /// Two fragments disagree where the datagram ends.
    EndsDiffer,
    /// Two fragments disagree on the options that each must have.
    OptionsDiffer,
    /// Header and payload together are more than a datagram can have.
    TooLong,
    /// Too many pieces.
    TooManyPieces,
    /// Its datagram has been dropped for one of these reasons.
    Poisoned,
    /// Its source holds too much: its oldest datagram goes.
    SourceFull,
    /// All sources together hold too much: the oldest datagram goes.
    Full,
    /// The rest did not come in time.
    TimedOut,
    /// Some are marked, and others of senders that do not understand marks.
    EcnDiffers,
}

/// Which datagram (RFC 791 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    source: Address,
    destination: Address,
    identification: u16,
    protocol: u8,
}

/// A part of a datagram's payload.
struct Piece {
    start: u32,
    end: u32,
    message: Message,
}

/// A datagram of which something is held.
struct Partial {
    /// Its place among all, by age.
    age: u64,
    /// When its first fragment came.
    since: Instant,
    /// What it is charged, itself included.
    held_bytes: usize,
    /// Fragments in it.
    fragments: u64,
    /// In order, none overlapping another.
    pieces: Vec<Piece>,
    /// Bytes in all of them.
    payload_len: u32,
    /// Where the payload ends, once that is known.
    end: Option<u32>,
    /// The options that each fragment has (RFC 791 §3.1).
    copied: [u8; Fragment::MAX_COPIED],
    copied_len: u8,
    /// The ECN fields that its fragments came with: a bit for each of the four.
    ecn_seen: u8,
    /// Whatever else comes of it is dropped.
    poisoned: bool,
}

/// A fragment that came.
struct Arrival {
    key: Key,
    fragment: Fragment,
    piece: Piece,
}

/// How a fragment and what is held of its datagram go together.
enum Fit {
    /// It belongs before the piece with this index.
    At(usize),
    /// It is there already.
    Duplicate,
    /// Not at all.
    Never(Reason),
}

/// The table. It has one owner.
pub(crate) struct Table {
    limits: Arc<Live<InetLimits>>,
    datagrams: HashMap<Key, Partial>,
    /// The oldest first. All live equally long.
    by_age: BTreeMap<u64, Key>,
    by_source: BTreeMap<(Address, u64), Key>,
    /// Bytes that each source is charged.
    sources: HashMap<Address, usize>,
    held_bytes: usize,
    /// The age of the next.
    next_age: u64,
}

impl Table {
    pub(crate) fn new(limits: Arc<Live<InetLimits>>) -> Table {
        Table {
            limits,
            datagrams: HashMap::new(),
            by_age: BTreeMap::new(),
            by_source: BTreeMap::new(),
            sources: HashMap::new(),
            held_bytes: 0,
            next_age: 0,
        }
    }

    /// When [`expire`](Table::expire) is to be called next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (_, key) = self.by_age.first_key_value()?;
        let lifetime = self.limits.now().reassembly.lifetime;
        let partial = self.datagrams.get(key)?;
        Some(partial.since + lifetime)
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Datagrams of which something is held, or remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// A fragment came, whose [`Fragment`] note is in `message`.
    pub(crate) fn take(&mut self, message: Message, now: Instant, emit: &mut impl FnMut(Effect)) {
        let fragment = message.note::<Fragment>();
        let (start, len) = (u32::from(fragment.offset), message.total_len() as u32);
        let is_last = fragment.more == 0;
        if len == 0 {
            return emit(Effect::Drop(Reason::Empty, 1));
        }
        if start == 0 && !is_last && len < least_header(fragment.datagram.protocol) {
            return emit(Effect::Drop(Reason::FirstTooSmall, 1));
        }
        let key = Key {
            source: fragment.datagram.remote,
            destination: fragment.datagram.local,
            identification: fragment.identification,
            protocol: fragment.datagram.protocol,
        };
        let piece = Piece {
            start,
            end: start + len,
            message,
        };
        let arrival = Arrival {
            key,
            fragment,
            piece,
        };
        let fit = match self.datagrams.get(&key) {
            Some(partial) => partial.fit(&arrival),
            None => Fit::At(0),
        };
        match fit {
            Fit::At(at) => self.put(arrival, at, now, emit),
            Fit::Duplicate => emit(Effect::Drop(Reason::Duplicate, 1)),
            Fit::Never(Reason::Poisoned) => emit(Effect::Drop(Reason::Poisoned, 1)),
            Fit::Never(reason) => self.poison(&key, reason, 1, emit),
        }
    }

    /// Drops what is due by `now`.
    pub(crate) fn expire(&mut self, now: Instant, emit: &mut impl FnMut(Effect)) {
        let lifetime = self.limits.now().reassembly.lifetime;
        while let Some((_, &key)) = self.by_age.first_key_value() {
            let is_due = |partial: &Partial| partial.since + lifetime <= now;
            if !self.datagrams.get(&key).is_none_or(is_due) {
                return;
            }
            let Some(mut partial) = self.remove(&key) else {
                return;
            };
            if partial.poisoned {
                continue;
            }
            emit(Effect::Drop(Reason::TimedOut, partial.fragments));
            // RFC 792: who sent it is told only where the first fragment is there to be quoted.
            if partial.pieces.first().is_some_and(|first| first.start == 0) {
                emit(Effect::Expired(partial.pieces.swap_remove(0).message));
            }
        }
    }

    /// Holds a fragment; if that makes the datagram whole, hands it out.
    fn put(&mut self, arrival: Arrival, at: usize, now: Instant, emit: &mut impl FnMut(Effect)) {
        let key = arrival.key;
        let limits = self.limits.now().reassembly;
        let is_new = match self.datagrams.get_mut(&key) {
            Some(partial) => {
                if partial.absorb(at, &arrival) {
                    return self.finish(&key, emit);
                }
                if partial.pieces.len() >= limits.pieces {
                    return self.poison(&key, Reason::TooManyPieces, 1, emit);
                }
                false
            }
            None => true,
        };
        let bytes = PIECE_BYTES + room::footprint(&arrival.piece.message);
        let own = if is_new { DATAGRAM_BYTES } else { 0 };
        if let Err(reason) = self.make_room(&limits, &key, bytes + own, emit) {
            return emit(Effect::Drop(reason, 1));
        }
        if is_new {
            self.begin(key, &arrival.fragment, now);
        }
        self.charge(&key, bytes);
        if let Some(partial) = self.datagrams.get_mut(&key) {
            partial.note(&arrival);
            partial.pieces.insert(at, arrival.piece);
        }
        self.finish(&key, emit);
    }

    /// Sees to it that `bytes` more may be held for a datagram, at the cost of others, or of itself: then it is gone, for the reason that is
    /// returned.
    fn make_room(
        &mut self,
        limits: &Reassembly,
        key: &Key,
        bytes: usize,
        emit: &mut impl FnMut(Effect),
    ) -> Result<(), Reason> {
        let source_limit = limits.bytes / limits.source_part.max(1);
        loop {
            let of_source = self.sources.get(&key.source).copied().unwrap_or(0);
            let (reason, oldest) = if of_source.saturating_add(bytes) > source_limit {
                let all = (key.source, 0)..=(key.source, u64::MAX);
                let oldest = self.by_source.range(all).next().map(|(_, key)| *key);
                (Reason::SourceFull, oldest)
            } else if self.held_bytes.saturating_add(bytes) > limits.bytes {
                let oldest = self.by_age.first_key_value().map(|(_, key)| *key);
                (Reason::Full, oldest)
            } else {
                return Ok(());
            };
            let Some(oldest) = oldest else {
                return Err(reason);
            };
            if let Some(partial) = self.remove(&oldest) {
                emit(Effect::Drop(reason, partial.fragments));
            }
            if oldest == *key {
                return Err(reason);
            }
        }
    }

    /// Takes a datagram up of which nothing is held yet.
    fn begin(&mut self, key: Key, fragment: &Fragment, now: Instant) {
        let age = self.next_age;
        self.next_age += 1;
        let partial = Partial {
            age,
            since: now,
            held_bytes: 0,
            fragments: 0,
            pieces: Vec::new(),
            payload_len: 0,
            end: None,
            copied: fragment.copied,
            copied_len: fragment.copied_len,
            ecn_seen: 0,
            poisoned: false,
        };
        self.datagrams.insert(key, partial);
        self.by_age.insert(age, key);
        self.by_source.insert((key.source, age), key);
        self.charge(&key, DATAGRAM_BYTES);
    }

    fn charge(&mut self, key: &Key, bytes: usize) {
        if let Some(partial) = self.datagrams.get_mut(key) {
            partial.held_bytes += bytes;
            self.held_bytes += bytes;
            *self.sources.entry(key.source).or_default() += bytes;
        }
    }

    fn discharge(&mut self, source: Address, bytes: usize) {
        self.held_bytes -= bytes;
        if let Some(held) = self.sources.get_mut(&source) {
            *held -= bytes;
            if *held == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Lets go of all that is held of a datagram, and remembers until its time is over that nothing may come of it any more. With what is held,
    /// `more` fragments are dropped.
    fn poison(&mut self, key: &Key, reason: Reason, more: u64, emit: &mut impl FnMut(Effect)) {
        let Some(partial) = self.datagrams.get_mut(key) else {
            return emit(Effect::Drop(reason, more));
        };
        partial.poisoned = true;
        partial.pieces = Vec::new();
        let fragments = core::mem::take(&mut partial.fragments);
        let freed = partial.held_bytes - DATAGRAM_BYTES;
        partial.held_bytes = DATAGRAM_BYTES;
        self.discharge(key.source, freed);
        emit(Effect::Drop(reason, fragments + more));
    }

    fn remove(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.datagrams.remove(key)?;
        self.by_age.remove(&partial.age);
        self.by_source.remove(&(key.source, partial.age));
        self.discharge(key.source, partial.held_bytes);
        Some(partial)
    }

    /// Hands a datagram out if it is whole.
    fn finish(&mut self, key: &Key, emit: &mut impl FnMut(Effect)) {
        let is_whole = |partial: &&mut Partial| partial.end == Some(partial.payload_len);
        let Some(partial) = self.datagrams.get_mut(key).filter(is_whole) else {
            return;
        };
        let header_len = partial.pieces.first().map_or(0, |first| {
            first.message.note::<Fragment>().datagram.header_len
        });
        if partial.payload_len as usize + usize::from(header_len) > MAX_TOTAL_LEN {
            return self.poison(key, Reason::TooLong, 0, emit);
        }
        let Some(ecn) = whole_ecn(partial.ecn_seen) else {
            return self.poison(key, Reason::EcnDiffers, 0, emit);
        };
        let Some(partial) = self.remove(key) else {
            return;
        };
        let mut pieces = partial.pieces.into_iter();
        let Some(Piece { mut message, .. }) = pieces.next() else {
            return;
        };
        let flags = &mut message.note_mut::<Fragment>().datagram.flags;
        *flags = *flags & !Datagram::ECN | ecn;
        pieces.for_each(|piece| message.push_continuation(piece.message));
        emit(Effect::Whole(message, partial.fragments));
    }
}

impl Partial {
    /// Where a fragment belongs.
    fn fit(&self, arrival: &Arrival) -> Fit {
        let Arrival {
            fragment, piece, ..
        } = arrival;
        if self.poisoned {
            return Fit::Never(Reason::Poisoned);
        }
        let copied = (self.copied_len, &self.copied);
        if copied != (fragment.copied_len, &fragment.copied) {
            return Fit::Never(Reason::OptionsDiffer);
        }
        let is_last = fragment.more == 0;
        let held_to = self.pieces.last().map_or(0, |last| last.end);
        let ends_differ = match self.end {
            Some(end) => piece.end > end || (is_last && piece.end != end),
            None => is_last && piece.end < held_to,
        };
        if ends_differ {
            return Fit::Never(Reason::EndsDiffer);
        }
        let place = self.pieces.binary_search_by(|held| {
            if held.end <= piece.start {
                Ordering::Less
            } else if held.start >= piece.end {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        });
        match place {
            Err(at) => Fit::At(at),
            Ok(at) => match self.pieces.get(at) {
                Some(held) if held.says(piece) => Fit::Duplicate,
                _ => Fit::Never(Reason::Overlap),
            },
        }
    }

    /// Puts few bytes into the buffer of the piece in front of them, where they fit; whether they did.
    fn absorb(&mut self, at: usize, arrival: &Arrival) -> bool {
        let piece = &arrival.piece;
        let before = at.checked_sub(1).and_then(|at| self.pieces.get_mut(at));
        let Some(before) = before.filter(|before| before.end == piece.start) else {
            return false;
        };
        if !before.message.absorb(&piece.message) {
            return false;
        }
        before.end = piece.end;
        self.note(arrival);
        true
    }

    /// Takes down what a fragment says that is held.
    fn note(
        &mut self,
        Arrival {
            fragment, piece, ..
        }: &Arrival,
    ) {
        self.fragments += 1;
        self.ecn_seen |= bit_of(fragment.datagram.flags);
        self.payload_len += piece.end - piece.start;
        if fragment.more == 0 {
            self.end = Some(piece.end);
        }
    }
}

impl Piece {
    /// Whether all of `other` is here, and is the same.
    fn says(&self, other: &Piece) -> bool {
        if other.start < self.start || other.end > self.end {
            return false;
        }
        let skip = (other.start - self.start) as usize;
        let len = (other.end - other.start) as usize;
        let here = self.message.blocks().flatten().skip(skip).take(len);
        here.eq(other.message.blocks().flatten())
    }
}

/// The bit of `ecn_seen` that stands for the ECN field in a datagram's flags.
fn bit_of(flags: u8) -> u8 {
    1 << (flags >> Datagram::ECN.trailing_zeros())
}

/// The ECN field of a datagram whose fragments came with these (RFC 3168 §5.3): marked if one of them is; not marked, and not for marking,
/// if one is not for marking. `None` if both are true: who does not understand marks is told by a loss.
fn whole_ecn(seen: u8) -> Option<u8> {
    let [none, zero, ce] = [0, TcpHeader::ECT_0, TcpHeader::CE].map(|ecn| seen & bit_of(ecn) != 0);
    match (ce, none) {
        (true, true) => None,
        (true, false) => Some(TcpHeader::CE),
        (false, true) => Some(0),
        (false, false) if zero => Some(TcpHeader::ECT_0),
        (false, false) => Some(TcpHeader::ECT_1),
    }
}

/// Bytes of a transport's fixed header, which a first fragment must have whole: what a filter on the way could not see was not let through
/// by it (RFC 1858 §3). No host need cut so short (RFC 791 §3.2: every link carries 68 bytes).
fn least_header(protocol: u8) -> u32 {
    let len = match protocol {
        tcp::PROTOCOL => tcp::MIN_HEADER_LEN,
        udp::PROTOCOL => udp::HEADER_LEN,
        icmpv4::PROTOCOL => icmpv4::HEADER_LEN,
        _ => 0,
    };
    len as u32
}
