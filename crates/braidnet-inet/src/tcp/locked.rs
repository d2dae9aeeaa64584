//! TCP behind more locks than its bucket's one (PLP §5.1).
//!
//! [`LockedTcp`] is [`Tcp`] with locks around its functions, a set for each bucket. It is wired in place of the bare module only
//! where they are asked for, so that whoever does without pays nothing for them.
//!
//! # Who holds what
//!
//! The **perimeter** of the bucket is the first lock of every one of these ways. It guards the receiving half of the engine (of
//! which six locks make the receive window), its connection part, the table, and all that stands above TCP: what TCP hands up
//! is handed on under it, in order. Whoever works inside takes what else it needs, in the order **reassembly, send,
//! retransmission**, and gives it back before it leaves the perimeter:
//!
//! | in the core | reassembly | send | retransmission |
//! |---|---|---|---|
//! | segments, deadlines, settling | yes | yes | yes |
//! | data to send | | yes | yes |
//! | credit for data read | | | |
//! | other verbs: open, close, abort | yes | yes | yes |
//!
//! Two locks are the perimeter and *send*, which stands for the retransmission buffer as well.
//!
//! The two **header locks** are taken outside the perimeter, for one message at a time, with nothing else held and no other of these taken
//! inside them. So all locks of a bucket have one order, that of their [classes](LockClass), which debug builds check; no two
//! buckets are ever held together, and nobody waits in a circle.
//!
//! The inner locks hold no value: the engine is one struct, and the perimeter is what makes `&mut` of it. Acquire and release
//! of the perimeter carry what one holder wrote to the next. The header locks guard nothing at all; a message is its
//! processor's own. They are here because SICS's TCP had them, to be measured.

use super::before::{Removal, Unlocked, is_taken};
use super::{HEADROOM, NO_BUFFER, Tcp, TcpLocks};
use crate::notes::Departure;
use crate::sift::keep;
use crate::sum;
use bitflags::bitflags;
use braidnet_message::{Kind, Message, Pool, Run};
use braidnet_stream::{
    BucketId, Context, Control, Direction, Divisible, Key, Module, Stages, State as ModuleState,
    Verb,
};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_wire::tcp::TcpFlags;

/// TCP behind two locks or six.
pub(crate) struct LockedTcp {
    tcp: Tcp,
    headers: Headers,
    buckets: Box<[Locks]>,
}

/// What is done under the header locks, if there are any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Headers {
    Unlocked,
    Locked,
    /// Checksums as well.
    LockedOverSums,
}

/// The locks of a bucket, beside its perimeter. Away from those of its neighbours.
#[repr(align(128))]
struct Locks {
    /// In the order in which they are taken.
    inner: Box<[(Needs, Lock<()>)]>,
    remove: Lock<()>,
    prepend: Lock<()>,
}

bitflags! {
    /// What of TCP a piece of work needs beside the perimeter.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Needs: u8 {
        const REASSEMBLY = 1;
        const SEND = 2;
        const RETRANSMISSION = 4;
    }
}

impl Needs {
    /// What user calls need, all of a run together.
    fn of_calls(run: &Run) -> Needs {
        run.iter().fold(Needs::empty(), |needs, message| {
            if message.kind() == Kind::Data {
                return needs | Needs::SEND | Needs::RETRANSMISSION;
            }
            match Control::of(message).and_then(|control| control.verb()) {
                Some(Verb::Credit) => needs,
                _ => Needs::all(),
            }
        })
    }
}

impl Locks {
    fn new(locks: TcpLocks, kind: LockKind) -> Locks {
        let order = [
            (Needs::REASSEMBLY, LockClass::Reassembly),
            (Needs::SEND, LockClass::Send),
            (Needs::RETRANSMISSION, LockClass::Retransmission),
        ];
        let all = match locks {
            TcpLocks::One => Needs::empty(),
            TcpLocks::Two => Needs::SEND,
            TcpLocks::Six | TcpLocks::SixRepaired => Needs::all(),
        };
        let inner = order
            .into_iter()
            .filter(|(part, _)| all.contains(*part))
            .map(|(part, class)| (part, Lock::new(kind, class, ())))
            .collect();
        Locks {
            inner,
            remove: Lock::new(kind, LockClass::HeaderRemove, ()),
            prepend: Lock::new(kind, LockClass::HeaderPrepend, ()),
        }
    }
}

/// Does `work` with those of the locks held that it `needs`, taken from the first to the last.
fn hold(locks: &[(Needs, Lock<()>)], needs: Needs, work: &mut dyn FnMut()) {
    match locks {
        [] => work(),
        [(part, lock), rest @ ..] if needs.contains(*part) => {
            lock.with(|()| hold(rest, needs, work));
        }
        [_, rest @ ..] => hold(rest, needs, work),
    }
}

impl LockedTcp {
    pub(crate) fn new(tcp: Tcp, locks: TcpLocks, kind: LockKind) -> LockedTcp {
        let buckets = 0..tcp.flows.buckets();
        LockedTcp {
            headers: match locks {
                TcpLocks::One | TcpLocks::Two => Headers::Unlocked,
                TcpLocks::Six => Headers::LockedOverSums,
                TcpLocks::SixRepaired => Headers::Locked,
            },
            buckets: buckets.map(|_| Locks::new(locks, kind)).collect(),
            tcp,
        }
    }

    fn locks_of(&self, bucket: BucketId) -> &Locks {
        &self.buckets[bucket.index()]
    }

    /// Inside the perimeter of the context's bucket.
    fn inside(&self, needs: Needs, cx: &mut Context<'_>, mut work: impl FnMut(&mut Context<'_>)) {
        let bucket = cx.bucket().unwrap_or(BucketId::DEVICE);
        hold(&self.locks_of(bucket).inner, needs, &mut || work(cx));
    }

    /// Whether a segment is taken, its header removed under its bucket's lock.
    fn remove(&self, before: &[Message], message: &mut Message, cx: &mut Context<'_>) -> bool {
        let parsed = if self.headers == Headers::LockedOverSums {
            let bucket = self.tcp.bucket_ahead(before, message);
            let lock = &self.locks_of(bucket).remove;
            lock.with(|()| self.tcp.parse_one(before, message, &Unlocked, cx))
        } else {
            self.tcp.parse_one(before, message, self, cx)
        };
        is_taken(parsed, message, cx)
    }

    /// Puts the header in front of a segment under its bucket's lock; false as in [`Tcp::emit_any`].
    fn prepend(&self, message: &mut Message) -> bool {
        let lock = &self.locks_of(BucketId(message.bucket())).prepend;
        if message.segment_bytes() != 0 {
            // Its checksums are made where it is cut.
            return lock.with(|()| self.tcp.emit_any(message));
        }
        if self.headers == Headers::LockedOverSums {
            // The sum that came with the copy is not used: that TCP had none.
            return lock.with(|()| {
                let sum = self.tcp.payload_sum(message, sum::read);
                self.tcp.emit_summed(message, sum)
            });
        }
        let sum = self.tcp.payload_sum(message, Message::total_sum);
        lock.with(|()| self.tcp.emit_summed(message, sum))
    }

    /// Each segment by itself, with its checksum.
    fn prepend_apart(&self, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            let mut next = Some(message);
            while let Some(mut message) = next {
                next = take_apart(&mut message, cx);
                match self.prepend(&mut message) {
                    true => cx.down(message),
                    false => cx.count(NO_BUFFER, 1),
                }
            }
        }
    }
}

impl Removal for LockedTcp {
    fn within<R>(&self, bucket: BucketId, remove: impl FnOnce() -> R) -> R {
        self.locks_of(bucket).remove.with(|()| remove())
    }
}

/// Leaves only the first segment of a train that is to leave, and returns the others as a train of their own. Where there is no buffer for their headers these are
/// lost, and what they end is not ended by the first.
fn take_apart(train: &mut Message, cx: &mut Context<'_>) -> Option<Message> {
    let each = train.segment_bytes() as usize;
    if each == 0 {
        return None;
    }
    train.set_segment_bytes(0);
    let mut rest = train.take_continuation()?;
    let mut departure = train.note::<Departure>();
    let first = train.note_mut::<Departure>();
    first.header.flags.0 &= !(TcpFlags::PSH.0 | TcpFlags::FIN.0);
    if rest.len() > each || rest.room_in_front() < HEADROOM {
        rest = match with_front(rest, each, cx.pool()) {
            Ok(rest) => rest,
            Err(lost) => {
                cx.count(NO_BUFFER, lost.total_len().div_ceil(each) as u64);
                return None;
            }
        };
    }
    if rest.total_len() > each {
        rest.set_segment_bytes(each as u32);
    }
    departure.header.seq += train.total_len() as u32;
    rest.set_bucket(train.bucket());
    rest.set_note(departure);
    Some(rest)
}

/// Copies the first segment out of a block of several, or one that cannot carry headers, so that it can.
fn with_front(mut rest: Message, each: usize, pool: &mut Pool) -> Result<Message, Message> {
    let len = each.min(rest.len());
    let Some(mut first) = pool.copy_from_slice_summed(HEADROOM, &rest.bytes()[..len], len) else {
        return Err(rest);
    };
    rest.strip(len);
    if rest.is_empty() {
        match rest.take_continuation() {
            Some(behind) => first.push_continuation(behind),
            None => return Ok(first),
        }
    } else {
        first.push_continuation(rest);
    }
    Ok(first)
}

// What is not forwarded would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl Module for LockedTcp {
    fn name(&self) -> &'static str {
        self.tcp.name()
    }

    fn stages(&self) -> Stages {
        self.tcp.stages()
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        self.tcp.divisible()
    }

    fn key(&self) -> Key {
        self.tcp.key()
    }

    fn counters(&self) -> &'static [&'static str] {
        self.tcp.counters()
    }

    fn open(&self, bucket: BucketId) -> Box<dyn ModuleState> {
        self.tcp.open(bucket)
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        match self.headers {
            Headers::Unlocked => self.tcp.before(direction, run, cx),
            _ => keep(0, run, |before, message| self.remove(before, message, cx)),
        }
    }

    fn core(
        &self,
        state: &mut dyn ModuleState,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let needs = match direction {
            Direction::Up => Needs::all(),
            Direction::Down => Needs::of_calls(run),
        };
        self.inside(needs, cx, |cx| self.tcp.core(state, direction, run, cx));
    }

    fn poisoned(
        &self,
        old: &mut dyn ModuleState,
        fresh: &mut dyn ModuleState,
        cx: &mut Context<'_>,
    ) {
        self.inside(Needs::all(), cx, |cx| self.tcp.poisoned(old, fresh, cx));
    }

    fn settle(&self, state: &mut dyn ModuleState, cx: &mut Context<'_>) {
        self.inside(Needs::all(), cx, |cx| self.tcp.settle(state, cx));
    }

    fn expire(&self, state: &mut dyn ModuleState, cx: &mut Context<'_>) {
        self.inside(Needs::all(), cx, |cx| self.tcp.expire(state, cx));
    }

    fn after(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        match self.headers {
            Headers::Unlocked => self.tcp.after(direction, run, cx),
            Headers::LockedOverSums => self.prepend_apart(run, cx),
            Headers::Locked => keep(0, run, |_, message| {
                let made = self.prepend(message);
                if !made {
                    cx.count(NO_BUFFER, message.segments() as u64);
                }
                made
            }),
        }
    }
}

#[cfg(test)]
mod tests;
