//! Where each thread counts.
//!
//! # Who writes what
//!
//! Each thread counts into a block of its own, by plain relaxed loads and stores: counting shares no cache line and is
//! no atomic operation. Whoever wants a sum walks the blocks of all threads. A thread that ends leaves its counts in a
//! total and its block to the next thread, both under the registry's mutex, which is taken when a thread first counts,
//! when it ends, and for a sum.

use core::cell::Cell;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::class::{CLASSES, LockClass};
use super::counts::{LockCounts, LockSnapshot};
use crate::delegation::DelegationCounts;
use crate::primitives::plain::{AtomicU32, AtomicU64};
use crate::primitives::{Ordering, thread_token};

/// One thread's counts; written by that thread only, read by all.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Block {
    classes: [Cells; CLASSES],
    /// Entries of delegated values; those that left their work count as contended.
    entries: Cells,
    /// Work that had been left and was served; what it waited is timed.
    served: Cells,
}

#[derive(Debug, Default)]
pub(crate) struct Cells {
    acquisitions: AtomicU64,
    contended: AtomicU64,
    timed: AtomicU64,
    timed_nanos: AtomicU64,
    held_timed_nanos: AtomicU64,
    /// Acquisitions until one is timed; the owner's.
    until_timed: AtomicU32,
    /// State of the generator of intervals; the owner's.
    random: AtomicU32,
}

impl Block {
    fn read(&self) -> LockSnapshot {
        let (entries, served) = (self.entries.read(), self.served.read());
        LockSnapshot {
            classes: self.classes.each_ref().map(Cells::read),
            delegation: DelegationCounts {
                entries: entries.acquisitions,
                left: entries.contended,
                timed: entries.timed,
                timed_nanos: entries.timed_nanos,
                inside_timed_nanos: entries.held_timed_nanos,
                served: served.acquisitions,
                served_timed: served.timed,
                served_timed_nanos: served.timed_nanos,
            },
        }
    }

    fn clear(&self) {
        let delegation = [&self.entries, &self.served];
        self.classes.iter().chain(delegation).for_each(Cells::clear);
    }
}

impl Cells {
    fn read(&self) -> LockCounts {
        LockCounts {
            acquisitions: self.acquisitions.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            timed: self.timed.load(Ordering::Relaxed),
            timed_nanos: self.timed_nanos.load(Ordering::Relaxed),
            held_timed_nanos: self.held_timed_nanos.load(Ordering::Relaxed),
        }
    }

    fn clear(&self) {
        for cell in [
            &self.acquisitions,
            &self.contended,
            &self.timed,
            &self.timed_nanos,
            &self.held_timed_nanos,
        ] {
            cell.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this acquisition is one of those to be timed, one in `mean` on average.
    pub(crate) fn is_timed(&self, mean: u32) -> bool {
        let until = self.until_timed.load(Ordering::Relaxed);
        if until > 0 {
            // A shorter mean than the one in force when the interval was drawn applies at once.
            self.until_timed
                .store((until - 1).min(mean.saturating_mul(2)), Ordering::Relaxed);
            return false;
        }
        // Xorshift (Marsaglia 2003) with period 2^32 - 1; any seed but 0 does.
        let mut random = self.random.load(Ordering::Relaxed);
        if random == 0 {
            random = thread_token() as u32 | 1;
        }
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Ordering::Relaxed);
        // Uniform over 0..=2(mean-1): `mean - 1` skipped on average.
        self.until_timed.store(
            (u64::from(random) % (2 * u64::from(mean) - 1)) as u32,
            Ordering::Relaxed,
        );
        true
    }

    /// Counts an acquisition, with the time it waited if that was taken.
    pub(crate) fn count(&self, contended: bool, waited: Option<u64>) {
        if let Some(nanos) = waited {
            grow(&self.timed, 1);
            grow(&self.timed_nanos, nanos);
        }
        grow(&self.acquisitions, 1);
        grow(&self.contended, u64::from(contended));
    }

    /// Counts how long a timed acquisition was held.
    pub(crate) fn count_hold(&self, nanos: u64) {
        grow(&self.held_timed_nanos, nanos);
    }
}

/// Adds to a cell that no other thread writes.
#[inline(always)]
fn grow(cell: &AtomicU64, by: u64) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

#[derive(Default)]
struct Registry {
    /// The blocks of living threads. Blocks are never freed, at most one per thread that lived at one time.
    blocks: Vec<&'static Block>,
    /// Blocks of ended threads, zeroed.
    spare: Vec<&'static Block>,
    /// What ended threads have counted.
    ended: LockSnapshot,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn lock_registry() -> std::sync::MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The thread's block once it has counted; without a destructor, so that reading it is one load.
    static BLOCK: Cell<Option<&'static Block>> = const { Cell::new(None) };
    /// Gives the block back when the thread ends.
    static RETURN: ReturnBlock = const { ReturnBlock };
}

struct ReturnBlock;

impl Drop for ReturnBlock {
    fn drop(&mut self) {
        let Some(block) = BLOCK.take() else { return };
        let mut registry = lock_registry();
        registry.ended += block.read();
        block.clear();
        registry
            .blocks
            .retain(|&other| !core::ptr::eq(other, block));
        registry.spare.push(block);
    }
}

/// The calling thread's counts so far.
pub(super) fn of_this_thread() -> LockSnapshot {
    BLOCK.with(|block| block.get().map_or_else(LockSnapshot::default, Block::read))
}

/// The counts of all threads, those that have ended included.
pub(super) fn of_all_threads() -> LockSnapshot {
    let registry = lock_registry();
    registry
        .blocks
        .iter()
        .fold(registry.ended, |sum, block| sum + block.read())
}

/// Where the calling thread counts locks of this class; none while the thread is being torn down.
#[inline]
pub(super) fn own_cells(class: LockClass) -> Option<&'static Cells> {
    own_block().map(|block| &block.classes[class as usize])
}

/// Where it counts entries of delegated values.
pub(crate) fn own_entries() -> Option<&'static Cells> {
    own_block().map(|block| &block.entries)
}

/// Where it counts what it serves of what others have left there.
pub(crate) fn own_served() -> Option<&'static Cells> {
    own_block().map(|block| &block.served)
}

#[inline]
fn own_block() -> Option<&'static Block> {
    BLOCK.get().or_else(take_block)
}

#[cold]
fn take_block() -> Option<&'static Block> {
    RETURN.try_with(|_| ()).ok()?;
    let mut registry = lock_registry();
    let block = registry
        .spare
        .pop()
        .unwrap_or_else(|| Box::leak(Box::default()));
    registry.blocks.push(block);
    BLOCK.set(Some(block));
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "statistics over many rounds, and nothing unsafe")]
    fn one_in_n_is_timed() {
        let cells = Cells::default();
        for mean in [1, 2, 7, 64] {
            let timed = (0..64_000).filter(|_| cells.is_timed(mean)).count();
            let expected = 64_000 / mean as usize;
            assert!(
                timed.abs_diff(expected) <= expected / 10,
                "{timed} of {expected}"
            );
        }
    }
}
