//! Nodes that come back to their home from elsewhere, and what is owed to it once its pool is gone.
//!
//! # The protocol
//!
//! One word, the top of a stack of linked nodes, or [`CLOSED`](closed).
//!
//! - Anybody who gives up nodes of this home links the last of them to the top and puts the first in its place, by
//!   compare-and-swap. Release: what was done with the nodes comes before what their home does with them.
//! - The home takes all of them with one swap. Acquire. As nodes are only ever pushed in chains and taken all together, the
//!   stack needs no protection against a top that went and came back.
//! - The home is closed by a swap that takes what is there and leaves `CLOSED` for ever. From then on nodes that come back are
//!   not kept but subtracted from what is owed; the closing adds what was out then. So the sum is zero exactly once, when
//!   both have been done for every node, and whoever makes it zero frees the home. Acquired and released: what anybody did
//!   with a node, or read of the home, comes before that.
//!
//! Whoever gives back a node may use the home until it has, and not any longer.

use std::ptr::{NonNull, null_mut, without_provenance_mut};

use crate::sync::{AtomicI64, AtomicPtr, Ordering};

/// What can be linked to another of its kind.
pub(crate) trait Linked {
    /// Links it to `next`, by whoever holds it alone.
    fn link(&self, next: Option<NonNull<Self>>);
}

/// Put in place of the top when the home is closed.
const fn closed<N>() -> *mut N {
    without_provenance_mut(1)
}

/// What has come back, and what is owed.
pub(crate) struct Returns<N> {
    /// Nodes that came back, linked; [`closed`] when the pool is gone.
    top: AtomicPtr<N>,
    /// Nodes still out when the pool is gone. It starts at zero, falls by what comes back after the closing, and is raised
    /// once by what was out then.
    owed: AtomicI64,
}

impl<N: Linked> Returns<N> {
    /// Nothing has come back.
    pub fn new() -> Returns<N> {
        Returns {
            top: AtomicPtr::new(null_mut()),
            owed: AtomicI64::new(0),
        }
    }

    /// Whether something has come back lately. Not to be asked after the closing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Takes the chain of all that came back; null if there is nothing. Only by the home, and not after the closing.
    #[inline]
    pub fn take(&self) -> *mut N {
        self.top.swap(null_mut(), Ordering::Acquire)
    }

    /// Gives back `nodes` nodes, linked from `first` to `last`; whether they were the last ones, so that the caller is to free
    /// the home. If not, the caller may not use the home any more.
    ///
    /// # Safety
    /// The nodes are valid, the caller's own alone, and of this home.
    #[inline]
    pub unsafe fn send(&self, first: *mut N, last: *mut N, nodes: u32) -> bool {
        let mut top = self.top.load(Ordering::Relaxed);
        while top != closed() {
            // SAFETY: valid, by the caller's promise.
            unsafe { &*last }.link(NonNull::new(top));
            match self
                .top
                .compare_exchange_weak(top, first, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return false,
                Err(now) => top = now,
            }
        }
        self.settle(-i64::from(nodes))
    }

    /// Closes the stack; the chain of what had come back. It is to be followed by [`owe`](Self::owe).
    pub fn close(&self) -> *mut N {
        self.top.swap(closed(), Ordering::Acquire)
    }

    /// Says, after the closing, how many nodes were out then; whether all of them are back, so that the caller is to free the
    /// home.
    pub fn owe(&self, out: i64) -> bool {
        self.settle(out)
    }

    /// Changes what is owed; whether that makes it zero.
    fn settle(&self, change: i64) -> bool {
        self.owed.fetch_add(change, Ordering::AcqRel) + change == 0
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Linked, Returns};
    use loom::cell::{Cell, UnsafeCell};
    use loom::thread;
    use std::ptr::{NonNull, null_mut};

    /// A node: whoever holds it writes both cells, and the checker fails where two do at once, or one without having seen what
    /// the other wrote.
    struct Node {
        next: Cell<Option<NonNull<Node>>>,
        uses: UnsafeCell<u32>,
    }

    impl Node {
        fn new() -> *mut Node {
            Box::into_raw(Box::new(Node {
                next: Cell::new(None),
                uses: UnsafeCell::new(0),
            }))
        }

        fn touch(&self) {
            // SAFETY: the caller holds the node, which is what the model checks.
            self.uses.with_mut(|uses| unsafe { *uses += 1 });
        }
    }

    impl Linked for Node {
        fn link(&self, next: Option<NonNull<Node>>) {
            self.next.set(next);
        }
    }

    /// A home: `alive` is read by whoever uses it, and written by whoever frees it.
    struct Home {
        returns: Returns<Node>,
        alive: UnsafeCell<bool>,
    }

    #[derive(Clone, Copy)]
    struct Place(*const Home);

    // SAFETY: homes are used by whoever holds a node of theirs, which is what the model checks.
    unsafe impl Send for Place {}

    /// Nodes on their way to a thread.
    struct Chain(Vec<*mut Node>);

    // SAFETY: the nodes are given up by one thread and the other's own from then on.
    unsafe impl Send for Chain {}

    impl Place {
        fn use_it(self) -> &'static Home {
            // SAFETY: a home is leaked until `free`, after which nobody comes here: that is what the model checks.
            let home = unsafe { &*self.0 };
            // SAFETY: a read of a flag that only `free` writes.
            home.alive.with(|alive| assert!(unsafe { *alive }));
            home
        }

        fn give_back(self, nodes: &[*mut Node]) {
            let home = self.use_it();
            for pair in nodes.windows(2) {
                // SAFETY: nodes are leaked until the model's end.
                unsafe { &*pair[0] }.link(NonNull::new(pair[1]));
            }
            for node in nodes {
                // SAFETY: as above.
                unsafe { &**node }.touch();
            }
            let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
            // SAFETY: they are linked, ours alone, and of this home.
            if unsafe { home.returns.send(first, last, nodes.len() as u32) } {
                self.free();
            }
        }

        fn free(self) {
            // SAFETY: as in `use_it`.
            let home = unsafe { &*self.0 };
            home.alive.with_mut(|alive| {
                // SAFETY: whoever is told to free the home is alone with it.
                assert!(
                    unsafe { core::mem::replace(&mut *alive, false) },
                    "freed twice"
                );
            });
        }
    }

    /// Puts a chain that came back on the owner's list.
    fn collect(mut chain: *mut Node, list: &mut Vec<*mut Node>) {
        // SAFETY: nodes are leaked until the model's end.
        while let Some(node) = unsafe { chain.as_ref() } {
            node.touch();
            list.push(chain);
            chain = node.next.get().map_or(null_mut(), NonNull::as_ptr);
        }
    }

    /// Threads give back so many nodes each, in one chain, while the owner takes `takes` times and then closes, with one node
    /// on its list from the start. All come back, the home is freed once, and after everything else.
    fn comes_back_once(chains: &'static [usize], takes: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let home = Box::into_raw(Box::new(Home {
                returns: Returns::new(),
                alive: UnsafeCell::new(true),
            }));
            let place = Place(home);
            let out: usize = chains.iter().sum();
            let all: Vec<*mut Node> = (0..=out).map(|_| Node::new()).collect();
            let mut list = vec![all[0]];
            let mut given = 1;
            let others: Vec<_> = chains
                .iter()
                .map(|&nodes| {
                    let chain = Chain(all[given..given + nodes].to_vec());
                    given += nodes;
                    thread::spawn(move || {
                        let (chain, place) = (chain, place);
                        place.give_back(&chain.0);
                    })
                })
                .collect();
            for _ in 0..takes {
                if !place.use_it().returns.is_empty() {
                    collect(place.use_it().returns.take(), &mut list);
                }
            }
            let returns = &place.use_it().returns;
            collect(returns.close(), &mut list);
            if returns.owe((all.len() - list.len()) as i64) {
                place.free();
            }
            for other in others {
                other.join().unwrap();
            }
            // SAFETY: the others have ended.
            let home = unsafe { Box::from_raw(home) };
            // SAFETY: likewise.
            home.alive
                .with(|alive| assert!(!unsafe { *alive }, "never freed"));
            for node in all {
                // SAFETY: likewise.
                drop(unsafe { Box::from_raw(node) });
            }
        });
    }

    #[test]
    fn a_chain_comes_back_while_its_home_is_closed() {
        comes_back_once(&[2], 1);
    }

    #[test]
    fn two_threads_bring_the_last_nodes() {
        comes_back_once(&[1, 1], 1);
    }

    #[test]
    fn chains_and_single_nodes_meet() {
        comes_back_once(&[2, 1], 0);
    }
}
