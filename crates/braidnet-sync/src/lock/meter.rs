//! What locks cost: how often they are taken, how often somebody was in the way, how long it took, and how long they were held. The
//! same of [delegation](crate::delegation), which is switched, counted and timed with them.
//!
//! Reading the clock costs as much as a free lock. So only one acquisition in N is timed, from asking to having and on to
//! giving back, contended or not, at random intervals with mean N (a fixed interval would always hit the same lock of a
//! repeating pattern). The clock's own cost, measured when metering is switched on, is taken off. The total wait and the total
//! hold are estimated by the mean of those timed times all acquisitions. What waits for a condition does not hold meanwhile: it
//! is an acquisition before and one after.

use core::num::NonZeroU32;

use super::blocks::{Cells, own_cells};
use super::class::LockClass;
use super::watch::{self, MOST_METERING};
use crate::clock::Clock;
use crate::primitives::Ordering;
use crate::primitives::plain::AtomicU64;

/// Whether locks and delegated values count, and whether they look at the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Metering {
    /// No counts. One predicted branch per acquisition.
    #[default]
    Off,
    /// Counts without times; a few nanoseconds per acquisition.
    Counts,
    /// Counts, and the times that one acquisition in so many waits and holds.
    Timed {
        /// The mean distance between two timed acquisitions of one class on one thread, up to 2^31 - 2.
        one_in: NonZeroU32,
    },
}

/// A mode is this, [`COUNTS`], or the mean distance between two timed acquisitions.
const OFF: u32 = 0;
const COUNTS: u32 = MOST_METERING;

/// Nanoseconds that a timing of nothing shows.
static CLOCK_COST: AtomicU64 = AtomicU64::new(0);

/// Switches metering for every lock and every [delegated](crate::delegation::Delegated) value of this process, from now on. Counts
/// made so far stay.
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
    watch::set_metering(mode);
}

/// The metering in force.
pub fn metering() -> Metering {
    let mode = watch::metering();
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

/// The mode, where anything is to be counted.
#[inline(always)]
pub(crate) fn mode() -> Option<u32> {
    let mode = watch::metering();
    (mode != OFF).then_some(mode)
}

/// When what these cells count was asked for, if it is to be timed.
pub(crate) fn asked(mode: u32, cells: &Cells) -> Option<u64> {
    (mode != COUNTS && cells.is_timed(mode)).then(now)
}

/// The time that costs are measured by, in nanoseconds.
pub(crate) fn now() -> u64 {
    Clock::shared().now_nanos()
}

/// Nanoseconds since then, without what a reading of the clock takes.
pub(crate) fn since(then: u64) -> u64 {
    without_clock(now().saturating_sub(then))
}

/// Takes a lock by `try_lock` or, if that fails, by `lock`, and counts what happened, as `mode` says; since when it is
/// held, if that is to be [timed](leave).
pub(super) fn take(
    mode: u32,
    class: LockClass,
    try_lock: impl FnOnce() -> bool,
    lock: impl FnOnce(),
) -> Option<u64> {
    let cells = if mode == OFF { None } else { own_cells(class) };
    let asked = cells.and_then(|cells| asked(mode, cells));
    let free = try_lock();
    if !free {
        lock();
    }
    let cells = cells?;
    let had = asked.map(|_| now());
    let waited = had.zip(asked).map(|(had, asked)| had.saturating_sub(asked));
    cells.count(!free, waited.map(without_clock));
    had
}

/// Counts how long a timed lock was held, right before it is given back; `held` says it from the time.
pub(super) fn leave(class: LockClass, held: impl FnOnce(u64) -> u64) {
    if let Some(cells) = own_cells(class) {
        cells.count_hold(without_clock(held(now())));
    }
}

/// A time between two readings of the clock without what a reading takes.
fn without_clock(nanos: u64) -> u64 {
    nanos.saturating_sub(CLOCK_COST.load(Ordering::Relaxed))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::lock::{Lock, LockCounts, LockKind, LockSnapshot};
    use std::sync::{Mutex, PoisonError};

    /// Metering is one switch for the process, so its tests take turns.
    static TURN: Mutex<()> = Mutex::new(());

    pub(crate) fn metered<R>(metering: Metering, run: impl FnOnce() -> R) -> R {
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
                ..LockCounts::default()
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
            let free = take(1, LockClass::Queue, || true, || unreachable!("it is free"));
            assert!(free.is_some());
            let held = take(1, LockClass::Queue, || false, || waited = true);
            assert!(held.is_some());
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

    /// Spins for ten microseconds and more; for how long in fact.
    pub(crate) fn dawdle() -> u64 {
        let clock = Clock::shared();
        let start = clock.now_nanos();
        let mut took = 0;
        while took < 10_000 {
            took = clock.now_nanos() - start;
        }
        took
    }

    /// What is taken off each time for reading the clock.
    pub(crate) fn reading() -> u64 {
        CLOCK_COST.load(Ordering::Relaxed)
    }

    #[test]
    fn waiting_and_holding_take_their_time() {
        let one_in = NonZeroU32::MIN;
        let (counts, waited, held) = metered(Metering::Timed { one_in }, || {
            let before = LockSnapshot::thread();
            let mut waited = 0;
            let taken = take(1, LockClass::Map, || false, || waited = dawdle());
            let held = dawdle() + dawdle();
            leave(LockClass::Map, |now| now - taken.unwrap());
            (
                (LockSnapshot::thread() - before).of(LockClass::Map),
                waited,
                held,
            )
        });
        let cost = reading();
        assert!(counts.waited_nanos() + cost >= waited);
        assert!(counts.held_nanos() + cost >= held);
    }

    /// Through the lock itself.
    #[test]
    fn a_lock_counts_its_holds() {
        let one_in = NonZeroU32::MIN;
        let lock = Lock::new(LockKind::Ticket, LockClass::Socket, ());
        let (counts, held) = metered(Metering::Timed { one_in }, || {
            let before = LockSnapshot::thread();
            let held = lock.with(|()| dawdle());
            lock.try_with(|()| ());
            (
                (LockSnapshot::thread() - before).of(LockClass::Socket),
                held,
            )
        });
        assert_eq!((counts.acquisitions, counts.timed), (2, 2));
        assert!(counts.held_nanos() + 2 * reading() >= held);
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
}
