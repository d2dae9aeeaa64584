//! Octets of the peer's stream, and how many of them the engine holds.

use super::super::model::Variant;
use braidnet_tcp::Payload;
use std::cell::Cell;
use std::rc::Rc;

/// Some octets of the peer's stream.
pub struct Piece {
    pub(super) len: usize,
    pub(super) variant: Variant,
    /// Where the first of them stands.
    pub(super) start: i64,
    number: usize,
    store: Rc<Store>,
}

/// Which pieces there are.
#[derive(Default)]
pub(super) struct Store {
    /// How many there are.
    alive: Cell<usize>,
    /// How many there have been, and the number of the one that was last let go of.
    made: Cell<usize>,
    dropped: Cell<usize>,
}

impl Piece {
    /// One that arrives now.
    pub(super) fn new(len: usize, variant: Variant, start: i64, store: &Rc<Store>) -> Piece {
        store.alive.set(store.alive.get() + 1);
        store.made.set(store.made.get() + 1);
        Piece {
            len,
            variant,
            start,
            number: store.made.get(),
            store: Rc::clone(store),
        }
    }
}

impl Store {
    /// How many pieces the engine holds.
    pub(super) fn alive(&self) -> usize {
        self.alive.get()
    }

    /// Whether it has let go of the one that arrived last.
    pub(super) fn has_dropped_the_last(&self) -> bool {
        self.dropped.get() == self.made.get()
    }
}

impl Payload for Piece {
    fn len(&self) -> usize {
        self.len
    }

    fn trim_front(&mut self, n: usize) {
        assert!(n <= self.len);
        self.start += n as i64;
        self.len -= n;
    }

    fn truncate(&mut self, n: usize) {
        assert!(n <= self.len);
        self.len = n;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.store.alive.set(self.store.alive.get() - 1);
        self.store
            .dropped
            .set(self.store.dropped.get().max(self.number));
    }
}
