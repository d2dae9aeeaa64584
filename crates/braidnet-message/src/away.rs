//! Nodes of other homes that were freed here: those that are used here again, and those on their way back.

use std::cell::Cell;
use std::ptr::{NonNull, null};

use crate::home::{Home, add};
use crate::node::{CLASSES, Node};

/// Nodes of one home that are collected before they are sent there.
const AWAY_BATCH: u32 = 32;

/// Homes for which one pool collects at a time.
const AWAY_HOMES: usize = 4;

/// What a pool has of other homes.
pub(crate) struct Foreign {
    /// By class.
    lodgers: [Lodgers; CLASSES],
    away: [Away; AWAY_HOMES],
    /// Nodes in all of `away`.
    collected: Cell<u32>,
    /// The slot of `away` to flush next when all are taken.
    evict: Cell<usize>,
    /// Nodes that have been flushed so far.
    flushed: Cell<u64>,
}

impl Foreign {
    /// Nothing.
    pub fn none() -> Foreign {
        Foreign {
            lodgers: core::array::from_fn(|_| Lodgers::default()),
            away: core::array::from_fn(|_| Away::empty()),
            collected: Cell::new(0),
            evict: Cell::new(0),
            flushed: Cell::new(0),
        }
    }

    /// Nodes that were sent home so far, or are to be sent with the next chain.
    pub fn sent(&self) -> u64 {
        self.flushed.get() + u64::from(self.collected.get())
    }

    /// The newest node of `class` that is kept to be used here.
    #[inline]
    pub fn take(&self, class: usize) -> Option<NonNull<Node>> {
        self.lodgers[class].pop()
    }

    /// How many nodes of `class` are kept to be used here.
    #[inline]
    pub fn staying(&self, class: usize) -> usize {
        self.lodgers[class].nodes.get()
    }

    /// Keeps a node to be used here, which the caller gives up, valid and its own alone.
    #[inline]
    pub fn keep(&self, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        let class = unsafe { node.as_ref() }.class.get() as usize;
        self.lodgers[class].push(node);
    }

    /// Sends a node home as soon as there are enough of them, which the caller gives up, valid and its own alone.
    pub fn send(&self, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        let home = unsafe { node.as_ref() }.home.get();
        let slot = self.slot(home);
        slot.push(node);
        self.collected.set(self.collected.get() + 1);
        if slot.nodes.get() >= AWAY_BATCH {
            self.flush_slot(slot);
        }
    }

    /// The slot that collects for `home`.
    #[inline]
    fn slot(&self, home: *const Home) -> &Away {
        self.away
            .iter()
            .find(|slot| slot.home.get() == home)
            .unwrap_or_else(|| self.new_slot(home))
    }

    /// A slot for a home for which nothing has been collected.
    #[cold]
    fn new_slot(&self, home: *const Home) -> &Away {
        let slots = &self.away;
        let slot = slots
            .iter()
            .find(|slot| slot.nodes.get() == 0)
            .unwrap_or_else(|| {
                let evict = self.evict.get();
                self.evict.set((evict + 1) % AWAY_HOMES);
                self.flush_slot(&slots[evict]);
                &slots[evict]
            });
        slot.home.set(home);
        slot
    }

    /// Sends all nodes home, also those that would be used here again.
    pub fn send_all(&self) {
        for lodgers in &self.lodgers {
            while let Some(node) = lodgers.pop() {
                self.send(node);
            }
        }
        self.flush();
    }

    /// Sends home what waits for more.
    #[inline]
    pub fn flush(&self) {
        if self.collected.get() != 0 {
            self.flush_all();
        }
    }

    #[inline(never)]
    fn flush_all(&self) {
        for slot in &self.away {
            self.flush_slot(slot);
        }
    }

    /// Sends what a slot has collected.
    #[inline(never)]
    fn flush_slot(&self, slot: &Away) {
        let (collected, nodes) = (&self.collected, slot.nodes.get());
        collected.set(collected.get() - nodes);
        add(&self.flushed, u64::from(nodes));
        slot.flush();
    }
}

/// Nodes of one class and of other homes that a pool uses before its own.
#[derive(Default)]
struct Lodgers {
    first: Cell<Option<NonNull<Node>>>,
    nodes: Cell<usize>,
}

impl Lodgers {
    /// Takes in a node that the caller gives up, valid and its own alone.
    #[inline]
    fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        unsafe { node.as_ref() }.set_next(self.first.replace(Some(node)));
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Takes the newest out.
    #[inline]
    fn pop(&self) -> Option<NonNull<Node>> {
        let node = self.first.get()?;
        // SAFETY: the nodes are valid and ours alone.
        self.first.set(unsafe { node.as_ref() }.next());
        self.nodes.set(self.nodes.get() - 1);
        Some(node)
    }
}

/// Nodes of another home on their way back.
struct Away {
    home: Cell<*const Home>,
    /// In all chains.
    nodes: Cell<u32>,
    /// By class: so each goes on a free list at once when it is home.
    chains: [Chain; CLASSES],
}

/// Free nodes of one class, linked.
struct Chain {
    first: Cell<Option<NonNull<Node>>>,
    /// Means something only where there is a first.
    last: Cell<NonNull<Node>>,
}

impl Away {
    /// None, and of no home.
    fn empty() -> Away {
        Away {
            home: Cell::new(null()),
            nodes: Cell::new(0),
            chains: core::array::from_fn(|_| Chain {
                first: Cell::new(None),
                last: Cell::new(NonNull::dangling()),
            }),
        }
    }

    /// Adds a node of the home, which the caller gives up, valid and its own alone.
    #[inline]
    fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller gives up the node, valid and its own alone.
        let free = unsafe { node.as_ref() };
        let chain = &self.chains[free.class.get() as usize];
        let first = chain.first.replace(Some(node));
        free.set_next(first);
        if first.is_none() {
            chain.last.set(node);
        }
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Sends the chains home, all at once.
    fn flush(&self) {
        let nodes = self.nodes.replace(0);
        let mut uncounted = nodes;
        let mut all: Option<(NonNull<Node>, NonNull<Node>)> = None;
        for chain in &self.chains {
            let Some(first) = chain.first.take() else {
                continue;
            };
            let last = chain.last.get();
            // SAFETY: the nodes are ours alone.
            unsafe { first.as_ref() }.head_chain(last, core::mem::take(&mut uncounted));
            // SAFETY: likewise.
            unsafe { last.as_ref() }.set_next(all.map(|(first, _)| first));
            all = Some((first, all.map_or(last, |(_, last)| last)));
        }
        if let Some((first, last)) = all {
            Home::send_back(self.home.get(), first, last, nodes);
        }
        // The home may be gone as soon as its nodes are back, and another one lie at its address.
        self.home.set(null());
    }
}
