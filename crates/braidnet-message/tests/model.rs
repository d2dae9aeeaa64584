//! Messages against a model: whatever is done to a message, its bytes are those of a `Vec<u8>` to which the same was done,
//! shared bytes never change, sums are right, and in the end every node is home.

use braidnet_message::{ABSORBED_MAX, Arena, Counts, Keeping, Kind, Message, Pool};
use braidnet_wire::checksum::Sum;
use proptest::prelude::*;
use std::sync::Arc;

/// One step on one of the messages at hand.
#[derive(Clone, Debug)]
enum Step {
    Allocate { headroom: usize, size: usize },
    Prepend(usize),
    Append(usize),
    ExtendSummed(usize),
    Overwrite,
    OverwriteFront(usize),
    Strip(usize),
    Truncate(usize),
    Share,
    ShareWithHeadroom,
    ShareRange(usize, usize),
    SplitTo(usize),
    PushContinuation,
    Absorb,
    TakeContinuation,
    Read(usize),
    PullUp(usize),
    SetSum,
    Drop,
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0usize..80;
    prop_oneof![
        4 => (0usize..64, 0usize..600).prop_map(|(headroom, size)| Step::Allocate { headroom, size }),
        3 => small.clone().prop_map(Step::Prepend),
        3 => small.clone().prop_map(Step::Append),
        4 => (0usize..400).prop_map(Step::ExtendSummed),
        1 => Just(Step::Overwrite),
        1 => small.clone().prop_map(Step::OverwriteFront),
        3 => (0usize..300).prop_map(Step::Strip),
        2 => (0usize..900).prop_map(Step::Truncate),
        3 => Just(Step::Share),
        3 => Just(Step::ShareWithHeadroom),
        3 => (0usize..300, 0usize..400).prop_map(|(start, len)| Step::ShareRange(start, len)),
        3 => (0usize..400).prop_map(Step::SplitTo),
        5 => Just(Step::PushContinuation),
        5 => Just(Step::Absorb),
        2 => Just(Step::TakeContinuation),
        3 => (0usize..300).prop_map(Step::Read),
        2 => (0usize..700).prop_map(Step::PullUp),
        1 => Just(Step::SetSum),
        2 => Just(Step::Drop),
        1 => Just(Step::Free),
    ]
}

/// A message beside the blocks that it must have.
struct Pair {
    message: Message,
    blocks: Vec<Vec<u8>>,
    connection: u64,
}

impl Pair {
    fn flat(&self) -> Vec<u8> {
        self.blocks.concat()
    }

    fn check(&self) {
        let flat = self.flat();
        assert_eq!(self.message.bytes(), self.blocks[0]);
        assert_eq!(self.message.len(), self.blocks[0].len());
        assert_eq!(self.message.total_len(), flat.len());
        assert_eq!(self.message.connection(), self.connection);
        let seen: Vec<&[u8]> = self.message.blocks().collect();
        let meant: Vec<&Vec<u8>> = self
            .blocks
            .iter()
            .filter(|block| !block.is_empty())
            .collect();
        assert_eq!(seen, meant);
        let mut copy = vec![0; flat.len() + 1];
        assert_eq!(self.message.copy_to_slice(&mut copy), flat.len());
        assert_eq!(copy[..flat.len()], flat);
        assert_eq!(self.message.block_sum(), Sum::of(&self.blocks[0]));
        assert_eq!(self.message.total_sum(), Sum::of(&flat));
        if let Some(sum) = self.message.sum() {
            assert_eq!(sum, Sum::of(&self.blocks[0]));
        }
        let behind = self.message.continuation().map_or(0, Message::total_len);
        assert_eq!(behind, flat.len() - self.blocks[0].len());
        let count = self.blocks.len() - 1;
        let links =
            std::iter::successors(self.message.continuation(), |block| block.continuation());
        assert_eq!(links.count(), count);
    }
}

/// The world of one test case: the messages at hand, and the source of bytes that are all different.
struct World {
    pool: Pool,
    pairs: Vec<Pair>,
    next_byte: u8,
    next_connection: u64,
}

impl World {
    fn fresh(&mut self, n: usize) -> Vec<u8> {
        let mut byte = || {
            self.next_byte = self.next_byte.wrapping_mul(5).wrapping_add(113);
            self.next_byte
        };
        (0..n).map(|_| byte()).collect()
    }

    fn apply(&mut self, step: &Step, which: usize) {
        if let Step::Allocate { headroom, size } = *step {
            let mut message = self.pool.allocate(headroom, size).expect("memory");
            assert!(message.headroom() >= headroom && message.tailroom() >= size);
            assert_eq!(
                (message.kind(), message.connection(), message.total_len()),
                (Kind::Data, 0, 0)
            );
            self.next_connection += 1;
            message.set_connection(self.next_connection);
            self.pairs.push(Pair {
                message,
                blocks: vec![vec![]],
                connection: self.next_connection,
            });
            return;
        }
        if self.pairs.is_empty() {
            return;
        }
        let which = which % self.pairs.len();
        if let Some(made) = self.apply_to(step, which) {
            self.pairs.push(made);
        }
    }

    fn apply_to(&mut self, step: &Step, which: usize) -> Option<Pair> {
        let other = (self.pairs.len() > 1).then(|| (which + 1) % self.pairs.len());
        let fresh = self.fresh(600);
        match *step {
            Step::PushContinuation => {
                let pair = self.pairs.swap_remove(other?);
                let which = which.min(self.pairs.len() - 1);
                self.pairs[which].message.push_continuation(pair.message);
                self.pairs[which].blocks.extend(pair.blocks);
                return None;
            }
            Step::Absorb => {
                let pair = self.pairs.swap_remove(other?);
                let which = which.min(self.pairs.len() - 1);
                let Pair {
                    message, blocks, ..
                } = &mut self.pairs[which];
                if message.absorb(&pair.message) {
                    assert!(pair.flat().len() <= ABSORBED_MAX);
                    blocks.last_mut()?.extend(pair.flat());
                } else if blocks.len() == 1 {
                    let len = pair.flat().len();
                    let fits = message.is_unique() && len <= message.tailroom();
                    assert!(!fits || len > ABSORBED_MAX);
                }
                return None;
            }
            Step::Drop => {
                self.pairs.swap_remove(which);
                return None;
            }
            Step::Free => {
                let pair = self.pairs.swap_remove(which);
                self.pool.free(pair.message);
                return None;
            }
            _ => {}
        }
        let Pair {
            message,
            blocks,
            connection,
        } = &mut self.pairs[which];
        let total: usize = blocks.iter().map(Vec::len).sum();
        let unique = message.is_unique();
        match *step {
            Step::Allocate { .. }
            | Step::PushContinuation
            | Step::Absorb
            | Step::Drop
            | Step::Free => {}
            Step::Prepend(n) => {
                let fits = n <= message.headroom();
                let room = message.prepend(n);
                // Not unique, it may still own its headroom: that others do not see what is written is checked below.
                assert!(room.is_some() == fits || !unique);
                assert!(room.is_none() || fits);
                room?.copy_from_slice(&fresh[..n]);
                blocks[0].splice(0..0, fresh[..n].iter().copied());
            }
            Step::Append(n) => {
                let fits = unique && n <= message.tailroom();
                let room = message.append(n);
                assert_eq!(room.is_some(), fits);
                room?.copy_from_slice(&fresh[..n]);
                blocks[0].extend(&fresh[..n]);
            }
            Step::ExtendSummed(n) => {
                let known = message.is_empty() || message.sum().is_some();
                let room = if unique { message.tailroom().min(n) } else { 0 };
                assert_eq!(message.extend_from_slice_summed(&fresh[..n]), room);
                blocks[0].extend(&fresh[..room]);
                assert!(
                    room == 0 || message.sum().is_some() == known,
                    "the sum is kept"
                );
            }
            Step::Overwrite => {
                let bytes = message.bytes_mut();
                assert_eq!(bytes.is_some(), unique);
                bytes?.copy_from_slice(
                    &fresh[..blocks[0].len().min(600)].repeat(3)[..blocks[0].len()],
                );
                blocks[0] = message.bytes().to_vec();
                assert!(message.is_empty() || message.sum().is_none());
            }
            Step::OverwriteFront(n) => {
                let front = message.front_mut(n);
                let fits = n <= blocks[0].len();
                assert!(front.is_some() == fits || !unique);
                assert!(front.is_none() || fits);
                front?.copy_from_slice(&fresh[..n]);
                blocks[0][..n].copy_from_slice(&fresh[..n]);
            }
            Step::Strip(n) => {
                assert_eq!(message.strip(n), n.min(total));
                strip(blocks, n);
            }
            Step::Truncate(n) => {
                message.truncate(n);
                truncate(blocks, n);
            }
            Step::Share => {
                let message = message.share(&mut self.pool).expect("memory");
                return Some(Pair {
                    message,
                    blocks: blocks.clone(),
                    connection: *connection,
                });
            }
            Step::ShareWithHeadroom => {
                let shared = message.share_with_headroom(&mut self.pool);
                assert_eq!(shared.is_some(), unique && blocks.len() == 1);
                let mut message = shared?;
                let headroom = message.headroom();
                assert!(!message.is_unique());
                assert_eq!(message.prepend(0).is_some(), headroom > 0);
                let blocks = blocks.clone();
                return Some(Pair {
                    message,
                    blocks,
                    connection: *connection,
                });
            }
            Step::ShareRange(start, len) => {
                let shared = message.share_range(start, len, &mut self.pool);
                assert_eq!(shared.is_some(), start + len <= total);
                let blocks = range(blocks, start, len);
                return shared.map(|message| Pair {
                    message,
                    blocks,
                    connection: *connection,
                });
            }
            Step::SplitTo(n) => {
                let front = message.split_to(n, &mut self.pool);
                assert_eq!(front.is_some(), n <= total);
                let message = front?;
                let front = range(blocks, 0, n);
                strip(blocks, n);
                return Some(Pair {
                    message,
                    blocks: front,
                    connection: *connection,
                });
            }
            Step::TakeContinuation => {
                let rest = message.take_continuation();
                assert_eq!(rest.is_some(), blocks.len() > 1);
                let message = rest?;
                let connection = message.connection();
                let rest = blocks.split_off(1);
                return Some(Pair {
                    message,
                    blocks: rest,
                    connection,
                });
            }
            Step::Read(n) => {
                let mut to = vec![0; n];
                let copied = message.read(&mut to, &mut self.pool);
                assert_eq!(copied, n.min(total));
                assert_eq!(to[..copied], blocks.concat()[..copied]);
                read(blocks, copied);
            }
            Step::PullUp(n) => {
                assert_eq!(message.pull_up(n, &mut self.pool), n <= total);
                if n <= total && n > blocks[0].len() {
                    let front: Vec<u8> = blocks.concat()[..n].to_vec();
                    strip(blocks, n);
                    blocks[0] = front;
                }
            }
            Step::SetSum => {
                let sum = Sum::of(message.bytes());
                message.set_sum(Some(sum));
                assert_eq!(message.sum(), Some(sum));
            }
        }
        None
    }
}

/// The model of `Message::strip`: the first block stays, blocks behind it that become empty go.
fn strip(blocks: &mut Vec<Vec<u8>>, n: usize) {
    let here = n.min(blocks[0].len());
    blocks[0].drain(..here);
    let mut left = n - here;
    while left > 0 && blocks.len() > 1 {
        let there = left.min(blocks[1].len());
        blocks[1].drain(..there);
        left -= there;
        if blocks[1].is_empty() {
            blocks.remove(1);
        }
    }
}

/// The model of `Message::read`: blocks of which nothing is left go, but the last.
fn read(blocks: &mut Vec<Vec<u8>>, n: usize) {
    let mut left = n;
    loop {
        let here = left.min(blocks[0].len());
        blocks[0].drain(..here);
        left -= here;
        if !blocks[0].is_empty() || blocks.len() == 1 {
            return;
        }
        blocks.remove(0);
    }
}

/// The model of `Message::truncate`: blocks behind the last byte kept go.
fn truncate(blocks: &mut Vec<Vec<u8>>, n: usize) {
    if n >= blocks.iter().map(Vec::len).sum() {
        return;
    }
    let mut left = n;
    let mut kept = 0;
    for (index, block) in blocks.iter_mut().enumerate() {
        if index > 0 && left == 0 {
            break;
        }
        block.truncate(left);
        left -= block.len();
        kept = index + 1;
    }
    blocks.truncate(kept);
}

/// The model of `Message::share_range`: the parts of the blocks that it touches, and at least one.
fn range(blocks: &[Vec<u8>], start: usize, len: usize) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let (mut skip, mut left) = (start, len);
    for block in blocks {
        let from = skip.min(block.len());
        let part = &block[from..block.len().min(from + left)];
        skip -= from;
        left -= part.len();
        if !part.is_empty() {
            parts.push(part.to_vec());
        }
    }
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    parts
}

fn counts() -> impl Strategy<Value = Counts> {
    prop::sample::select(vec![Counts::Lean, Counts::Atomic, Counts::Locked])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 12 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_message_is_what_was_done_to_it(
        steps in proptest::collection::vec((step(), any::<prop::sample::Index>()), 1..60),
        bound in any::<bool>(),
        (caches, counts) in (any::<bool>(), counts()),
    ) {
        let keeping = Keeping { caches, counts, ..Keeping::default() };
        let arena = Arena::keeping(64 << 20, keeping);
        let mut world = World {
            pool: Pool::new(&arena),
            pairs: Vec::new(),
            next_byte: 1,
            next_connection: 0,
        };
        let mut other = Pool::new(&arena);
        let guard = bound.then(|| other.bind());
        for (step, which) in &steps {
            world.apply(step, which.index(1 << 16));
            world.pairs.iter().for_each(Pair::check);
        }
        world.pairs.clear();
        drop(guard);
        drop(world);
        drop(other);
        prop_assert!(!caches || arena.used_bytes() == 0, "every node is home");
        prop_assert_eq!(Arc::strong_count(&arena), 1, "every node is home");
    }
}
