//! What locks cost: how often they are taken, how often somebody was in the way, how long it took.
//!
//! # Who writes what
//!
//! Each thread counts into a block of its own, by plain relaxed loads and stores: counting shares no cache line and is
//! no atomic operation. Whoever wants a sum walks the blocks of all threads. A thread that ends leaves its counts in a
//! total and its block to the next thread, both under the registry's mutex, which is taken when a thread first counts,
//! when it ends, and for a sum.
//!
//! # Time
//!
//! Reading the clock costs as much as a free lock. So only one acquisition in N is timed, from asking to having,
//! contended or not, at random intervals with mean N (a fixed interval would always hit the same lock of a
//! repeating pattern). The clock's own cost, measured when metering is switched on, is taken off. The total wait
//! is estimated by the mean of those timed times all acquisitions.

use core::cell::Cell;
use core::num::NonZeroU32;
use core::ops::{Add, AddAssign, Sub};
use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::primitives::{AtomicU32, AtomicU64, Ordering, thread_token};

/// What a lock guards, as the counts tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockClass {
    /// Buffer pools and reference counts.
    Buffers,
    /// Look-up tables.
    Map,
    /// Queues between processors.
    Queue,
    /// The state of one connection or of a group of them.
    Connection,
    /// What a user's handle shares with the stack.
    Socket,
    /// TCP: the sending half of connections, or its window alone (PLP §5.1).
    Send,
    /// TCP: data out of order (PLP §5.1).
    Reassembly,
    /// TCP: data that may have to be sent again (PLP §5.1).
    Retransmission,
    /// TCP: taking headers off (PLP §5.1).
    HeaderRemove,
    /// TCP: putting headers on (PLP §5.1).
    HeaderPrepend,
}

impl LockClass {
    /// Every class, in the order in which they are listed.
    pub const fn all() -> [LockClass; 10] {
        [
            LockClass::Buffers,
            LockClass::Map,
            LockClass::Queue,
            LockClass::Connection,
            LockClass::Socket,
            LockClass::Send,
            LockClass::Reassembly,
            LockClass::Retransmission,
            LockClass::HeaderRemove,
            LockClass::HeaderPrepend,
        ]
    }

    /// The name users read.
    pub const fn name(self) -> &'static str {
        match self {
            LockClass::Buffers => "buffers",
            LockClass::Map => "map",
            LockClass::Queue => "queue",
            LockClass::Connection => "connection",
            LockClass::Socket => "socket",
            LockClass::Send => "send",
            LockClass::Reassembly => "reassembly",
            LockClass::Retransmission => "retransmission",
            LockClass::HeaderRemove => "header remove",
            LockClass::HeaderPrepend => "header prepend",
        }
    }
}

const CLASSES: usize = LockClass::all().len();

/// Whether locks count, and whether they look at the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Metering {
    /// No counts. One predicted branch per acquisition.
    #[default]
    Off,
    /// Counts without times; a few nanoseconds per acquisition.
    Counts,
    /// Counts, and the time of one acquisition in so many.
    Timed {
        /// The mean distance between two timed acquisitions of one class on one thread.
        one_in: NonZeroU32,
    },
}

const OFF: u32 = 0;
const COUNTS: u32 = u32::MAX;

/// [`OFF`], [`COUNTS`], or the mean distance between two timed acquisitions.
static MODE: AtomicU32 = AtomicU32::new(OFF);
/// Nanoseconds that a timing of nothing shows.
static CLOCK_COST: AtomicU64 = AtomicU64::new(0);

/// Switches metering for every lock of this process, from now on. Counts made so far stay.
///
/// Switching times on may take some milliseconds, for the clock's calibration.
pub fn set_metering(metering: Metering) {
    let mode = match metering {
        Metering::Off => OFF,
        Metering::Counts => COUNTS,
        Metering::Timed { one_in } => {
            CLOCK_COST.store(clock_cost(), Ordering::Relaxed);
            one_in.get().min(COUNTS - 1)
        }
    };
    MODE.store(mode, Ordering::Relaxed);
}

/// The metering in force.
pub fn metering() -> Metering {
    let mode = MODE.load(Ordering::Relaxed);
    match (mode, NonZeroU32::new(mode)) {
        (COUNTS, _) => Metering::Counts,
        (_, None) => Metering::Off,
        (_, Some(one_in)) => Metering::Timed { one_in },
    }
}

fn clock_cost() -> u64 {
    let clock = Clock::shared();
    (0..256)
        .map(|_| {
            let asked = clock.now_nanos();
            clock.now_nanos().saturating_sub(asked)
        })
        .min()
        .unwrap_or(0)
}

/// How often locks were taken and what that cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockCounts {
    /// Acquisitions, including successful attempts.
    pub acquisitions: u64,
    /// Acquisitions that found the lock held.
    pub contended: u64,
    /// Acquisitions that were timed.
    pub timed: u64,
    /// Nanoseconds between asking and having, over those that were timed.
    pub timed_nanos: u64,
}

impl LockCounts {
    /// Estimated nanoseconds between asking and having, over all acquisitions; 0 if none was timed.
    pub fn waited_nanos(&self) -> u64 {
        let total = u128::from(self.timed_nanos) * u128::from(self.acquisitions);
        u64::try_from(total.checked_div(u128::from(self.timed)).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    fn combine(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        LockCounts {
            acquisitions: each(self.acquisitions, other.acquisitions),
            contended: each(self.contended, other.contended),
            timed: each(self.timed, other.timed),
            timed_nanos: each(self.timed_nanos, other.timed_nanos),
        }
    }
}

impl Add for LockCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::wrapping_add)
    }
}

impl Sub for LockCounts {
    type Output = Self;

    /// What was added since `earlier`; zero where `earlier` is in fact later.
    fn sub(self, earlier: Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }
}

/// The counts of every class at one moment.
///
/// Counts only grow, so the difference of two snapshots is what happened between them. Threads that are counting while
/// the snapshot is taken are seen somewhere in their course.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockSnapshot([LockCounts; CLASSES]);

impl LockSnapshot {
    /// The calling thread's counts so far.
    pub fn thread() -> Self {
        BLOCK.with(|block| block.get().map_or_else(LockSnapshot::default, Block::read))
    }

    /// The counts of all threads, those that have ended included.
    pub fn process() -> Self {
        let registry = lock_registry();
        registry
            .blocks
            .iter()
            .fold(registry.ended, |sum, block| sum + block.read())
    }

    /// The counts of one class.
    pub const fn of(&self, class: LockClass) -> LockCounts {
        self.0[class as usize]
    }

    /// The counts of all classes together. The estimate of the wait is better made class by class and then added.
    pub fn total(&self) -> LockCounts {
        self.0
            .iter()
            .fold(LockCounts::default(), |sum, &counts| sum + counts)
    }

    /// Estimated nanoseconds between asking and having, over all acquisitions of all classes.
    pub fn waited_nanos(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, counts| {
            sum.saturating_add(counts.waited_nanos())
        })
    }
}

impl Add for LockSnapshot {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        LockSnapshot(core::array::from_fn(|class| self.0[class] + other.0[class]))
    }
}

impl AddAssign for LockSnapshot {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for LockSnapshot {
    type Output = Self;

    /// What was added since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        LockSnapshot(core::array::from_fn(|class| {
            self.0[class] - earlier.0[class]
        }))
    }
}

/// Whether metering is off.
#[inline(always)]
pub(super) fn is_off() -> bool {
    MODE.load(Ordering::Relaxed) == OFF
}

/// Counts an acquisition of a lock that was free.
#[cold]
pub(super) fn count_free(class: LockClass) {
    count(class, || true, || ());
}

/// Takes a lock by `try_lock` or, if that fails, by `lock`, and counts what happened.
pub(super) fn count(class: LockClass, try_lock: impl FnOnce() -> bool, lock: impl FnOnce()) {
    let mode = MODE.load(Ordering::Relaxed);
    let cells = own_block().map(|block| &block.0[class as usize]);
    let timed = cells.is_some_and(|cells| mode != COUNTS && cells.is_timed(mode));
    let asked = if timed {
        Clock::shared().now_nanos()
    } else {
        0
    };
    let free = try_lock();
    if !free {
        lock();
    }
    let Some(cells) = cells else { return };
    if timed {
        let took = Clock::shared().now_nanos().saturating_sub(asked);
        grow(&cells.timed, 1);
        grow(
            &cells.timed_nanos,
            took.saturating_sub(CLOCK_COST.load(Ordering::Relaxed)),
        );
    }
    grow(&cells.acquisitions, 1);
    grow(&cells.contended, u64::from(!free));
}

/// One thread's counts; written by that thread only, read by all.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Block([Cells; CLASSES]);

#[derive(Debug, Default)]
struct Cells {
    acquisitions: AtomicU64,
    contended: AtomicU64,
    timed: AtomicU64,
    timed_nanos: AtomicU64,
    /// Acquisitions until one is timed; the owner's.
    until_timed: AtomicU32,
    /// State of the generator of intervals; the owner's.
    random: AtomicU32,
}

impl Block {
    fn read(&self) -> LockSnapshot {
        LockSnapshot(core::array::from_fn(|class| {
            let cells = &self.0[class];
            LockCounts {
                acquisitions: cells.acquisitions.load(Ordering::Relaxed),
                contended: cells.contended.load(Ordering::Relaxed),
                timed: cells.timed.load(Ordering::Relaxed),
                timed_nanos: cells.timed_nanos.load(Ordering::Relaxed),
            }
        }))
    }

    fn clear(&self) {
        for cells in &self.0 {
            for cell in [
                &cells.acquisitions,
                &cells.contended,
                &cells.timed,
                &cells.timed_nanos,
            ] {
                cell.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl Cells {
    /// Whether this acquisition is one of those to be timed, one in `mean` on average.
    fn is_timed(&self, mean: u32) -> bool {
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
}

/// Adds to a cell that no other thread writes.
#[inline(always)]
fn grow(cell: &AtomicU64, by: u64) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

struct Registry {
    /// The blocks of living threads. Blocks are never freed, at most one per thread that lived at one time.
    blocks: Vec<&'static Block>,
    /// Blocks of ended threads, zeroed.
    spare: Vec<&'static Block>,
    /// What ended threads have counted.
    ended: LockSnapshot,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    blocks: Vec::new(),
    spare: Vec::new(),
    ended: LockSnapshot([NO_COUNTS; CLASSES]),
});

const NO_COUNTS: LockCounts = LockCounts {
    acquisitions: 0,
    contended: 0,
    timed: 0,
    timed_nanos: 0,
};

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

/// The calling thread's block; none while the thread is being torn down.
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
    use crate::lock::{Lock, LockKind};

    /// Metering is one switch for the process, so its tests take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn metered<R>(metering: Metering, run: impl FnOnce() -> R) -> R {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        set_metering(metering);
        assert_eq!(super::metering(), metering);
        let result = run();
        set_metering(Metering::Off);
        result
    }

    #[test]
    fn counts_only_while_on() {
        let lock = Lock::new(LockKind::Adaptive, LockClass::Socket, ());
        let before = LockSnapshot::thread();
        metered(Metering::Off, || lock.with(|()| ()));
        assert_eq!(LockSnapshot::thread(), before);
        metered(Metering::Counts, || {
            lock.with(|()| ());
            lock.try_with(|()| assert_eq!(lock.try_with(|()| ()), None));
        });
        let counts = (LockSnapshot::thread() - before).of(LockClass::Socket);
        assert_eq!(
            counts,
            LockCounts {
                acquisitions: 2,
                ..NO_COUNTS
            }
        );
        assert_eq!(counts.waited_nanos(), 0);
    }

    #[test]
    fn counts_and_times_who_was_in_the_way() {
        let one_in = NonZeroU32::MIN;
        let (counts, waited) = metered(Metering::Timed { one_in }, || {
            let before = LockSnapshot::thread();
            let mut waited = false;
            count(
                LockClass::Queue,
                || true,
                || unreachable!("a free lock is not waited for"),
            );
            count(LockClass::Queue, || false, || waited = true);
            (
                (LockSnapshot::thread() - before).of(LockClass::Queue),
                waited,
            )
        });
        assert!(waited);
        assert_eq!(
            (counts.acquisitions, counts.contended, counts.timed),
            (2, 1, 2)
        );
    }

    #[test]
    fn the_time_taken_is_the_time_waited() {
        let one_in = NonZeroU32::MIN;
        let (counts, at_least) = metered(Metering::Timed { one_in }, || {
            let clock = Clock::shared();
            let before = LockSnapshot::thread();
            let mut at_least = 0;
            count(
                LockClass::Map,
                || false,
                || {
                    let start = clock.now_nanos();
                    while at_least < 10_000 {
                        at_least = clock.now_nanos() - start;
                    }
                },
            );
            (
                (LockSnapshot::thread() - before).of(LockClass::Map),
                at_least,
            )
        });
        assert!(counts.waited_nanos() + CLOCK_COST.load(Ordering::Relaxed) >= at_least);
    }

    #[test]
    fn an_ended_thread_stays_in_the_sum() {
        let lock = Lock::new(LockKind::Mcs, LockClass::Buffers, ());
        metered(Metering::Counts, || {
            let before = LockSnapshot::process();
            for _ in 0..3 {
                std::thread::scope(|scope| {
                    scope
                        .spawn(|| (0..10).for_each(|_| lock.with(|()| ())))
                        .join()
                        .unwrap();
                });
            }
            let counts = LockSnapshot::process() - before;
            assert_eq!(counts.of(LockClass::Buffers).acquisitions, 30);
            assert_eq!(counts.total().acquisitions, 30);
        });
    }

    #[test]
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

    #[test]
    fn the_wait_is_scaled_to_all() {
        let counts = LockCounts {
            acquisitions: 100,
            contended: 9,
            timed: 4,
            timed_nanos: 60,
        };
        assert_eq!(counts.waited_nanos(), 1_500);
        let snapshot = LockSnapshot([counts; CLASSES]);
        assert_eq!(snapshot.waited_nanos(), 1_500 * CLASSES as u64);
        assert_eq!((snapshot + snapshot - snapshot), snapshot);
    }
}
