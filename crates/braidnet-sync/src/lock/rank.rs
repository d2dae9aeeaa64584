//! The order of locks.
//!
//! Each thread keeps the highest rank of the locks it holds in a cell of its own. An entry puts its rank there and remembers
//! what was there before; since entries of one thread end in the reverse of their order, leaving puts that back.

use core::cell::Cell;
use core::fmt;

use super::class::LockClass;

/// Where a lock stands in the order: by its class first, then by its place within.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank {
    class: LockClass,
    within: u8,
}

impl Rank {
    pub(super) const fn new(class: LockClass, within: u8) -> Self {
        Rank { class, within }
    }

    pub(super) const fn class(self) -> LockClass {
        self.class
    }

    /// A number that is above those of lower ranks, and above 0. 13 bits.
    const fn code(self) -> u16 {
        1 + ((self.class as u16) << 8 | self.within as u16)
    }

    /// The rank of this code; none for 0.
    fn of(code: u16) -> Option<Self> {
        let code = code.checked_sub(1)?;
        let class = *LockClass::all().get(usize::from(code >> 8))?;
        Some(Rank::new(class, code as u8))
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class;
        write!(
            f,
            "a {} lock of rank {}.{}",
            class.name(),
            class as u8,
            self.within
        )
    }
}

crate::primitives::thread_local! {
    /// The code of the highest rank among the locks that the thread holds; 0 if there is none.
    static HIGHEST: Cell<u16> = const { Cell::new(0) };
}

/// # Panics
///
/// If the thread holds a lock whose rank is not below `asked`.
pub(super) fn check(asked: Rank) {
    if let Some(held) = Rank::of(HIGHEST.get()).filter(|&held| held >= asked) {
        panic!("locks out of order: {asked} is entered inside {held}, and ranks must rise");
    }
}

/// Notes that the thread holds `rank`; what to give to [`leave`].
pub(super) fn hold(rank: Rank) -> u16 {
    let outer = HIGHEST.get();
    HIGHEST.set(outer.max(rank.code()));
    outer
}

/// Notes that the thread has left what it entered when this was the highest.
pub(super) fn leave(outer: u16) {
    HIGHEST.set(outer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Lock, LockKind, rank_check, set_rank_check};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The sentence of the refusal, if there is one.
    fn refusal(work: impl FnOnce()) -> Option<String> {
        let refused = catch_unwind(AssertUnwindSafe(work)).err()?;
        Some(*refused.downcast::<String>().expect("a sentence"))
    }

    fn lock(class: LockClass, within: u8) -> Lock<()> {
        Lock::new(LockKind::Mcs, class, ()).ranked(within)
    }

    /// One test, for the check is one switch for the process.
    #[test]
    fn ranks_must_rise() {
        assert_eq!(rank_check(), cfg!(debug_assertions));
        set_rank_check(true);
        for (row, one) in LockClass::all().into_iter().enumerate() {
            for (column, other) in LockClass::all().into_iter().enumerate() {
                let refused = refusal(|| lock(one, 0).with(|()| lock(other, 0).with(|()| ())));
                assert_eq!(refused.is_none(), row < column, "{one:?} {other:?}");
            }
        }

        let (low, high) = (lock(LockClass::Map, 3), lock(LockClass::Map, 4));
        low.with(|()| high.with(|()| ()));
        assert_eq!(
            refusal(|| high.with(|()| low.with(|()| ()))).as_deref(),
            Some(
                "locks out of order: a map lock of rank 7.3 is entered inside a map lock of rank 7.4, and ranks must rise"
            )
        );
        assert!(refusal(|| low.with(|()| low.with(|()| ()))).is_some());

        // An attempt is not refused, and what it enters counts as held, but not instead of what is higher.
        let lower = lock(LockClass::Connection, 0);
        high.with(|()| {
            lower
                .try_with(|()| assert!(refusal(|| low.with(|()| ())).is_some()))
                .expect("free")
        });
        assert!(
            refusal(|| lower.with(|()| lower
                .try_with(|()| ())
                .is_none()
                .then_some(())
                .expect("held")))
            .is_none()
        );

        // A refusal has taken nothing, and what was held is given back on the way out.
        assert!(refusal(|| high.with(|()| low.with(|()| ()))).is_some());
        low.with(|()| high.with(|()| ()));

        // Switched off while a lock is held, and on again.
        high.with(|()| {
            set_rank_check(false);
            low.with(|()| ());
            set_rank_check(true);
            assert!(refusal(|| low.with(|()| ())).is_some());
        });
        set_rank_check(cfg!(debug_assertions));
    }
}
