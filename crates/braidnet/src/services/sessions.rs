//! What the services keep in one bucket.

use super::module::{NO_BUFFER, NO_SESSION, POISONED};
use super::{Io, Session};
use braidnet_message::Message;
use braidnet_stream::{ConnectionId, Context, Control, Verb};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::{Duration, Instant};

/// What the services keep in one bucket: sessions by slot.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) entries: Vec<Option<Entry>>,
    /// Slots with something to tell TCP; each stands here once.
    listed: Vec<u32>,
}

pub(super) struct Entry {
    pub(super) slot: Slot,
    pub(super) session: Box<dyn Session>,
}

/// A session's connection.
pub(super) struct Slot {
    pub(super) id: ConnectionId,
    pub(super) tuple: Tuple,
    pub(super) space: u64,
    /// Bytes of the largest segment, and of the longest piece that is best sent.
    pub(super) mss: u32,
    pub(super) piece: u32,
    /// Bytes dealt with that TCP has not been told of.
    pub(super) taken: u64,
    /// Bytes handed on in pieces.
    pub(super) received: u64,
    /// What TCP is to be asked for, behind all data.
    pub(super) asks: Option<Verb>,
    /// Nothing is sent any more.
    pub(super) closing: bool,
    pub(super) listed: bool,
    pub(super) wake_at: Instant,
}

/// How long what TCP is to be told waits for a buffer.
const RETRY: Duration = Duration::from_millis(20);

/// Answers a port that nothing answers to.
pub(super) struct Nobody;

impl Session for Nobody {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        io.abort();
    }

    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {}
}

impl Sessions {
    pub(super) fn enter(&mut self, entry: Entry) {
        let slot = entry.slot.id.slot();
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || None);
        }
        self.entries[slot] = Some(entry);
    }

    #[inline]
    pub(super) fn entry(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        self.entries
            .get_mut(id.slot())?
            .as_mut()
            .filter(|entry| entry.slot.id == id)
    }

    /// Lets a session do something.
    #[inline]
    pub(super) fn with(
        &mut self,
        id: ConnectionId,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        let entry = self.entries.get_mut(id.slot()).and_then(Option::as_mut);
        match entry.filter(|entry| entry.slot.id == id) {
            Some(entry) => entry.run(cx, &mut self.listed, work),
            None => cx.count(NO_SESSION, 1),
        }
    }

    /// Lets every session do something.
    pub(super) fn with_all(
        &mut self,
        cx: &mut Context<'_>,
        work: impl Fn(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        for entry in self.entries.iter_mut().flatten() {
            entry.run(cx, &mut self.listed, &work);
        }
    }

    /// Wakes every session whose time has come.
    pub(super) fn wake(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        for entry in self.entries.iter_mut().flatten() {
            if entry.slot.wake_at <= now {
                entry.slot.wake_at = Instant::MAX;
                entry.run(cx, &mut self.listed, |session, io| session.wake(io));
            }
            if entry.slot.wake_at < Instant::MAX {
                cx.wake_at(entry.slot.wake_at);
            }
        }
    }

    /// Takes the place of others, none of whose sessions is let do anything any more: their connections are reset, and dropped when TCP
    /// says so.
    pub(super) fn succeed(&mut self, other: &mut Sessions, cx: &mut Context<'_>) {
        self.entries = core::mem::take(&mut other.entries);
        let mut poisoned: Vec<Box<dyn Session>> = Vec::new();
        for entry in self.entries.iter_mut().flatten() {
            poisoned.push(core::mem::replace(&mut entry.session, Box::new(Nobody)));
            let slot = &mut entry.slot;
            (slot.taken, slot.wake_at) = (0, Instant::MAX);
            (slot.asks, slot.closing, slot.listed) = (Some(Verb::Abort), true, true);
            self.listed.push(slot.id.slot() as u32);
        }
        cx.count(POISONED, poisoned.len() as u64);
        self.tell(cx);
        // Last, for this is others' code.
        drop(poisoned);
    }

    /// Tells TCP what the sessions took and ask for. What finds no buffer is told later.
    pub(super) fn tell(&mut self, cx: &mut Context<'_>) {
        while let Some(&index) = self.listed.last() {
            if let Some(entry) = self
                .entries
                .get_mut(index as usize)
                .and_then(Option::as_mut)
                && !entry.slot.tell(cx)
            {
                cx.count(NO_BUFFER, 1);
                cx.wake_at(cx.now() + RETRY);
                return;
            }
            self.listed.pop();
        }
    }
}

impl Entry {
    #[inline]
    fn run(
        &mut self,
        cx: &mut Context<'_>,
        listed: &mut Vec<u32>,
        work: impl FnOnce(&mut dyn Session, &mut Io<'_, '_>),
    ) {
        let Entry { slot, session } = self;
        work(&mut **session, &mut Io { slot, cx });
        if (slot.taken > 0 || slot.asks.is_some()) && !slot.listed {
            slot.listed = true;
            listed.push(slot.id.slot() as u32);
        }
    }
}

impl Slot {
    /// False if there is no buffer to tell it with.
    fn tell(&mut self, cx: &mut Context<'_>) -> bool {
        if self.taken > 0 {
            let credit = Control::new(Verb::Credit).value(self.taken);
            let Some(message) = credit.message(self.id, cx.pool()) else {
                return false;
            };
            self.taken = 0;
            cx.down(message);
        }
        if let Some(verb) = self.asks {
            let Some(message) = Control::new(verb).message(self.id, cx.pool()) else {
                return false;
            };
            self.asks = None;
            cx.down(message);
        }
        self.listed = false;
        true
    }
}
