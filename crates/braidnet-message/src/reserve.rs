//! Nodes that a pool keeps back for need.
//!
//! They are off the free lists, so that whoever empties those does not get them. A pool that finds nothing else hands them out
//! one by one: what frees memory, an acknowledgment taken or a segment sent, needs a node itself, and must not wait for memory
//! to come free. For those who can wait the reserve is withheld meanwhile; they are refused as if there were none.
//!
//! All of it belongs to whoever uses the pool, as its free lists do.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::home::{Home, Scarcity};
use crate::node::Node;

/// The nodes.
#[derive(Default)]
pub(crate) struct Reserve {
    first: Cell<Option<NonNull<Node>>>,
    nodes: Cell<usize>,
    withheld: Cell<bool>,
}

impl Reserve {
    /// Takes in a node that the caller gives up, valid and its own alone.
    fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        unsafe { node.as_ref() }.set_next(self.first.replace(Some(node)));
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Takes a node of at least this class out.
    fn pop(&self, class: usize) -> Option<NonNull<Node>> {
        let node = self.first.get()?;
        // SAFETY: the nodes are valid and ours alone.
        let first = unsafe { node.as_ref() };
        if usize::from(first.class.get()) < class {
            return None;
        }
        self.first.set(first.next());
        self.nodes.set(self.nodes.get() - 1);
        Some(node)
    }
}

impl Home {
    /// Puts nodes of `class` or a larger one into the reserve until it has `nodes`, or there are no more; how many it has.
    pub(crate) fn fill_reserve(&self, nodes: usize, class: usize) -> usize {
        let reserve = self.reserve();
        // What is another pool's would not come back here.
        self.send_all_away();
        while reserve.nodes.get() < nodes
            && let Some(node) = self.take_unreserved(class)
        {
            reserve.push(node);
        }
        reserve.nodes.get()
    }

    /// Puts all of the reserve back on the free lists; how many nodes.
    pub(crate) fn spend_reserve(&self) -> usize {
        let nodes = self.reserve().nodes.get();
        while let Some(node) = self.reserve().pop(0) {
            // SAFETY: the node was free, and is given up.
            unsafe { self.keep(node) };
        }
        if nodes > 0 {
            self.be_short();
        }
        nodes
    }

    /// Takes a node of at least this class out of the reserve, unless that is withheld. In any case there is nothing else now.
    #[cold]
    pub(crate) fn draw_on_reserve(&self, class: usize) -> Option<NonNull<Node>> {
        let reserve = self.reserve();
        if reserve.nodes.get() > 0 {
            self.be_short();
        }
        (!reserve.withheld.get()).then(|| reserve.pop(class))?
    }

    /// Says whether the reserve is withheld.
    #[inline]
    pub(crate) fn withhold_reserve(&self, withheld: bool) {
        self.reserve().withheld.set(withheld);
    }

    fn be_short(&self) {
        let scarcity = self.scarcity().max(Scarcity::Short as u8);
        self.set_scarcity_to(scarcity);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arena, Keeping, Message, Pool, Scarcity};
    use std::sync::Arc;

    /// All that the pool hands out without its reserve.
    fn hoard(pool: &mut Pool, size: usize) -> Vec<Message> {
        pool.withhold_reserve(true);
        let all = std::iter::from_fn(|| pool.allocate(0, size)).collect();
        pool.withhold_reserve(false);
        all
    }

    fn with_and_without_caches(test: impl Fn(Arc<Arena>)) {
        for caches in [true, false] {
            let keeping = Keeping {
                caches,
                ..Keeping::default()
            };
            test(Arena::keeping(1 << 20, keeping));
        }
    }

    #[test]
    fn it_is_handed_out_last_one_by_one_and_not_while_it_is_withheld() {
        with_and_without_caches(|arena| {
            let mut pool = Pool::new(&arena);
            assert_eq!(pool.fill_reserve(3, 1500), 3);
            let mut most = hoard(&mut pool, 1500);
            most.extend(hoard(&mut pool, 0));
            assert!(!most.is_empty());
            assert_eq!(pool.refused(), 2);
            assert_eq!(pool.scarcity(), Scarcity::Short);

            // Whatever is asked for: a buffer, a view, a small one.
            pool.set_scarcity(Scarcity::Ample);
            let buffer = pool.allocate(0, 1500).unwrap();
            assert_eq!(pool.scarcity(), Scarcity::Short);
            let view = most[0].share(&mut pool).unwrap();
            assert!(hoard(&mut pool, 0).is_empty());
            assert!(pool.allocate(0, 9000).is_none(), "none is as large");
            let small = pool.allocate(0, 0).unwrap();
            assert!(pool.allocate(0, 0).is_none());

            drop((buffer, view, small));
            assert_eq!(pool.fill_reserve(3, 1500), 3);
            let rest = hoard(&mut pool, 1500);
            assert!(rest.is_empty());
        });
    }

    #[test]
    fn what_is_spent_is_there_for_all() {
        with_and_without_caches(|arena| {
            let mut pool = Pool::new(&arena);
            assert_eq!(pool.spend_reserve(), 0);
            assert_eq!(pool.scarcity(), Scarcity::Ample);
            pool.fill_reserve(3, 1500);
            let most = hoard(&mut pool, 1500);
            pool.set_scarcity(Scarcity::Ample);
            assert_eq!(pool.spend_reserve(), 3);
            assert_eq!(pool.scarcity(), Scarcity::Short);
            assert_eq!(hoard(&mut pool, 1500).len(), 3);
            drop(most);
        });
    }

    #[test]
    fn it_goes_with_its_pool() {
        with_and_without_caches(|arena| {
            let mut pool = Pool::new(&arena);
            pool.fill_reserve(3, 1500);
            let message = pool.allocate(0, 1500);
            drop(pool);
            drop(message);
            assert_eq!(Arc::strong_count(&arena), 1, "all has come back");
        });
    }

    #[test]
    fn only_a_pools_own_nodes_are_set_aside() {
        let arena = Arena::new(1 << 20);
        let (mut pool, mut other) = (Pool::new(&arena), Pool::new(&arena));
        drop(pool.allocate(0, 1500));
        let theirs = other.allocate(0, 1500).unwrap();
        pool.bind().free(theirs);
        let before = pool.counters();
        pool.fill_reserve(2, 1500);
        let after = pool.counters();
        assert_eq!(after.away, 1, "the lodger has gone home");
        assert_eq!(after.allocated - before.allocated, 2);
    }
}
