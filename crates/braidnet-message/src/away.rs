//! Nodes of other homes that were freed here: those that are used here again, and those on their way back.

use std::cell::Cell;
use std::ptr::{NonNull, null};

use crate::home::Home;
use crate::node::{CLASSES, Node};

/// Nodes of one class and of other homes that a pool uses before its own.
#[derive(Default)]
pub(crate) struct Lodgers {
    first: Cell<Option<NonNull<Node>>>,
    nodes: Cell<usize>,
}

impl Lodgers {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.get()
    }

    /// Takes in a node that the caller gives up, valid and its own alone.
    #[inline]
    pub fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        unsafe { node.as_ref() }.set_next(self.first.replace(Some(node)));
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Takes the newest out.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<Node>> {
        let node = self.first.get()?;
        // SAFETY: the nodes are valid and ours alone.
        self.first.set(unsafe { node.as_ref() }.next());
        self.nodes.set(self.nodes.get() - 1);
        Some(node)
    }
}

/// Nodes of another home on their way back.
pub(crate) struct Away {
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
    pub fn empty() -> Away {
        Away {
            home: Cell::new(null()),
            nodes: Cell::new(0),
            chains: core::array::from_fn(|_| Chain {
                first: Cell::new(None),
                last: Cell::new(NonNull::dangling()),
            }),
        }
    }

    /// Whose nodes it collects; null if nobody's.
    #[inline]
    pub fn home(&self) -> *const Home {
        self.home.get()
    }

    /// Collects for another home from now on; of the last there is none left.
    pub fn collect_for(&self, home: *const Home) {
        self.home.set(home);
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.nodes.get()
    }

    /// Adds a node of the home, which the caller gives up, valid and its own alone.
    #[inline]
    pub fn push(&self, node: NonNull<Node>) {
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
    pub fn flush(&self) {
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
