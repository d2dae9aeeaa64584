//! What decorates a lock: counts, times and the order of locks, all behind one word that is zero when none is wanted.
//!
//! An entry looks at the word once. Where it is zero, that is all; leaving then tests what the entry has kept. Otherwise the entry
//! goes another way, out of line, and keeps what leaving must finish: so switching something on or off while a lock is held
//! does no harm. The word is read and written without ordering; it orders nothing.

use core::num::NonZeroU64;

use super::class::LockClass;
use super::meter;
use super::rank::{self, Rank};
use crate::primitives::Ordering;
use crate::primitives::plain::AtomicU32;

/// Whether ranks are checked; the other bits are the meter's.
const RANKS: u32 = 1 << 31;

/// The greatest mode that a meter may have.
pub(super) const MOST_METERING: u32 = RANKS - 1;

/// Builds that check their own assumptions check the order of locks.
static WATCH: AtomicU32 = AtomicU32::new(if cfg!(debug_assertions) { RANKS } else { 0 });

/// Whether nothing is watched.
#[inline(always)]
pub(super) fn is_off() -> bool {
    WATCH.load(Ordering::Relaxed) == 0
}

/// The meter's mode.
pub(super) fn metering() -> u32 {
    WATCH.load(Ordering::Relaxed) & MOST_METERING
}

pub(super) fn set_metering(mode: u32) {
    change(|word| word & RANKS | mode);
}

/// Whether the order of locks is checked, in every thread of this process.
pub fn rank_check() -> bool {
    WATCH.load(Ordering::Relaxed) & RANKS != 0
}

/// Switches the check of the order of locks for every [`Lock`](super::Lock) of this process, from now on.
///
/// Who enters a lock of a rank that is not above that of every lock it holds is refused: a panic whose sentence names both. Two
/// threads that take two locks in opposite orders wait for each other for ever, on the day when they meet; the check
/// finds it on any day. A lock's rank is that of its [`LockClass`](super::LockClass), refined by [`Lock::ranked`](super::Lock::ranked).
///
/// It is on at first where debug assertions are, and else off, where it costs nothing. What [`try_with`](super::Lock::try_with) enters
/// is never refused, for it does not wait, but counts as held.
///
/// ```
/// use braidnet_sync::lock::{Lock, LockClass, LockKind, set_rank_check};
/// set_rank_check(true);
/// let connection = Lock::new(LockKind::Adaptive, LockClass::Connection, ());
/// let queue = Lock::new(LockKind::Adaptive, LockClass::Queue, ());
/// connection.with(|()| queue.with(|()| ()));
/// let wrong = std::thread::scope(|scope| {
///     scope.spawn(|| queue.with(|()| connection.with(|()| ()))).join()
/// });
/// assert!(wrong.is_err());
/// ```
pub fn set_rank_check(on: bool) {
    change(|word| word & MOST_METERING | if on { RANKS } else { 0 });
}

fn change(to: impl Fn(u32) -> u32) {
    let mut seen = WATCH.load(Ordering::Relaxed);
    while let Err(now) =
        WATCH.compare_exchange(seen, to(seen), Ordering::Relaxed, Ordering::Relaxed)
    {
        seen = now;
    }
}

/// What an entry that was watched has left to finish, in one word: an entry that was not carries a zero in a register.
///
/// From the top: one, whether it is timed, whether it is ranked, the code of the highest rank that the thread held before, and
/// the lower bits of the time since when the lock is held, which wrap after three days.
#[derive(Clone, Copy)]
pub(super) struct Watched(NonZeroU64);

const WATCHED: NonZeroU64 = NonZeroU64::new(1 << 63).unwrap();
const TIMED: u64 = 1 << 62;
const RANKED: u64 = 1 << 61;
const OUTER_SHIFT: u32 = 48;
const SINCE: u64 = (1 << OUTER_SHIFT) - 1;

impl Watched {
    /// Takes a lock of this rank by `try_lock` or, if that fails, by `lock`.
    ///
    /// # Panics
    ///
    /// If ranks are checked and this one is not above all that the thread holds.
    pub(super) fn lock(
        rank: Rank,
        try_lock: impl FnOnce() -> bool,
        lock: impl FnOnce(),
    ) -> Watched {
        if rank_check() {
            rank::check(rank);
        }
        Watched::take(rank, try_lock, lock)
    }

    /// The same for a lock that has just been taken by an attempt.
    pub(super) fn taken(rank: Rank) -> Watched {
        Watched::take(rank, || true, || ())
    }

    fn take(rank: Rank, try_lock: impl FnOnce() -> bool, lock: impl FnOnce()) -> Watched {
        let word = WATCH.load(Ordering::Relaxed);
        let since = meter::take(word & MOST_METERING, rank.class(), try_lock, lock);
        let mut watched = WATCHED;
        if let Some(since) = since {
            watched |= TIMED | since & SINCE;
        }
        if word & RANKS != 0 {
            watched |= RANKED | u64::from(rank::hold(rank)) << OUTER_SHIFT;
        }
        Watched(watched)
    }

    /// Finishes, right before the lock of this class is given back.
    #[cold]
    #[inline(never)]
    pub(super) fn leave(self, class: LockClass) {
        let word = self.0.get();
        if word & RANKED != 0 {
            rank::leave(((word & (RANKED - 1)) >> OUTER_SHIFT) as u16);
        }
        if word & TIMED != 0 {
            meter::leave(class, |now| now.wrapping_sub(word) & SINCE);
        }
    }
}
