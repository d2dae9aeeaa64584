//! The connections of one bucket.

use super::connection::Connection;
use braidnet_stream::map::Map;
use braidnet_stream::{BucketId, ConnectionId, Control};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::Instant;
use std::collections::VecDeque;

/// What TCP keeps in one bucket.
pub(super) struct Table {
    bucket: BucketId,
    by_tuple: Map<Tuple, u32>,
    /// Of its walks, those that have been counted.
    walked: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that were touched since the last settling; each stands here once.
    touched: Vec<u32>,
    /// What the head is to be told and found no buffer, in order. Nothing is told before it, so a slot's next tenant is not
    /// announced before the end of the one before. At most a few for each connection: space in quarters of a buffer, the end
    /// of data, the end.
    pub(super) untold: VecDeque<(ConnectionId, Control)>,
}

/// A place for a connection.
pub(super) struct Slot {
    connection: Option<Box<Connection>>,
    generation: u16,
    touched: bool,
    /// When the connection wants to be woken.
    pub(super) deadline: Instant,
}

impl Slot {
    /// The connection, if there is one.
    #[inline]
    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_deref_mut()
    }
}

impl Table {
    pub(super) fn new(bucket: BucketId, one_behind: bool) -> Table {
        Table {
            bucket,
            by_tuple: Map::new(usize::MAX, one_behind),
            walked: 0,
            slots: Vec::new(),
            free: Vec::new(),
            touched: Vec::new(),
            untold: VecDeque::new(),
        }
    }

    /// The slot of the connection with this tuple.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, tuple: &Tuple) -> Option<usize> {
        self.by_tuple.get(hash, tuple).map(|slot| *slot as usize)
    }

    /// Look-ups since this was last asked that the one-behind cache did not answer.
    #[inline]
    pub(super) fn take_walks(&mut self) -> u64 {
        let walks = self.by_tuple.walks();
        walks - core::mem::replace(&mut self.walked, walks)
    }

    /// The connection in a slot that [`find`](Table::find) gave.
    #[inline]
    pub(super) fn connection(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.connection()
    }

    /// Every connection, half-open and in TIME-WAIT included.
    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| slot.connection.as_deref())
    }

    /// The same, marked to be looked at when the perimeter's entry settles.
    #[inline]
    pub(super) fn touch(&mut self, slot: usize) -> Option<&mut Connection> {
        mark(&mut self.touched, self.slots.get_mut(slot)?, slot)
    }

    /// This connection, if it is still there, marked in the same way.
    #[inline]
    pub(super) fn touch_connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let entry = self.slots.get_mut(id.slot())?;
        if entry.generation != id.generation() {
            return None;
        }
        mark(&mut self.touched, entry, id.slot())
    }

    /// Takes the mark off one of the slots that bear it.
    #[inline]
    pub(super) fn next_touched(&mut self) -> Option<(usize, &mut Slot)> {
        let slot = self.touched.pop()? as usize;
        let entry = self.slots.get_mut(slot)?;
        entry.touched = false;
        Some((slot, entry))
    }

    /// Puts a connection into a slot; `make` is given its number. `None` if the bucket has `limit` of them.
    pub(super) fn insert(
        &mut self,
        limit: usize,
        (hash, tuple): (u64, Tuple),
        make: impl FnOnce(ConnectionId) -> Connection,
    ) -> Option<usize> {
        if self.by_tuple.len() >= limit {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                self.slots.push(Slot {
                    connection: None,
                    generation: 0,
                    touched: false,
                    deadline: Instant::MAX,
                });
                self.slots.len() - 1
            }
        };
        if self.by_tuple.insert(hash, tuple, slot as u32).is_err() {
            self.free.push(slot as u32);
            return None;
        }
        let entry = &mut self.slots[slot];
        let id = ConnectionId::new(self.bucket, slot as u32, entry.generation);
        entry.connection = Some(Box::new(make(id)));
        entry.deadline = Instant::MAX;
        Some(slot)
    }

    /// Takes the connection out of its slot; the slot's next tenant has another number.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Box<Connection>> {
        let entry = self.slots.get_mut(slot)?;
        let connection = entry.connection.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.deadline = Instant::MAX;
        self.by_tuple.remove(connection.hash, &connection.tuple);
        self.free.push(slot as u32);
        Some(connection)
    }

    /// Takes the place of another table, whose connections it gives. What is still to be told is kept, and so is which tenant of its
    /// slot each was: what comes for it yet does not reach the next.
    pub(super) fn succeed(&mut self, other: &mut Table) -> Vec<Connection> {
        self.untold = core::mem::take(&mut other.untold);
        self.free = (0..other.slots.len() as u32).rev().collect();
        self.slots = (other.slots.iter())
            .map(|slot| Slot {
                connection: None,
                generation: slot.generation.wrapping_add(1),
                touched: false,
                deadline: Instant::MAX,
            })
            .collect();
        let slots = other.slots.iter_mut();
        slots
            .filter_map(|slot| Some(*slot.connection.take()?))
            .collect()
    }

    /// Takes the deadline of a slot at or after `from` whose time has come; what it waits for next is known when it settles.
    pub(super) fn take_due(&mut self, from: usize, now: Instant) -> Option<usize> {
        let slot = (from..self.slots.len()).find(|&slot| self.slots[slot].deadline <= now)?;
        self.slots[slot].deadline = Instant::MAX;
        Some(slot)
    }

    /// The earliest deadline of all.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.slots
            .iter()
            .map(|slot| slot.deadline)
            .min()
            .filter(|at| *at < Instant::MAX)
    }
}

/// Marks an entry, the one of `slot`, unless it is marked.
#[inline]
fn mark<'a>(
    touched: &mut Vec<u32>,
    entry: &'a mut Slot,
    slot: usize,
) -> Option<&'a mut Connection> {
    if !entry.touched {
        entry.touched = true;
        touched.push(slot as u32);
    }
    entry.connection()
}
