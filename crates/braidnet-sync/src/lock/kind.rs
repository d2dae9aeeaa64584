//! The kinds of locks, and a raw lock that is one of them.

use core::fmt;
use core::str::FromStr;

use super::{Adaptive, Mcs, TestAndSet, Ticket};

/// The locks to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LockKind {
    /// [`Adaptive`]: spins while its holder may be running, sleeps otherwise, barges.
    #[default]
    Adaptive,
    /// [`TestAndSet`]: spins, gives way after a bound, never sleeps, barges.
    TestAndSet,
    /// [`Ticket`]: first come, first served, everybody watching one word.
    Ticket,
    /// [`Mcs`]: first come, first served, each watching a word of its own.
    Mcs,
}

impl LockKind {
    /// Every kind, in the order in which they are listed to users.
    pub const fn all() -> [LockKind; 4] {
        [
            LockKind::Adaptive,
            LockKind::TestAndSet,
            LockKind::Ticket,
            LockKind::Mcs,
        ]
    }

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            LockKind::Adaptive => "adaptive",
            LockKind::TestAndSet => "tas",
            LockKind::Ticket => "ticket",
            LockKind::Mcs => "mcs",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No lock has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no lock is called '{0}': there are adaptive, tas, ticket and mcs")]
pub struct UnknownLock(
    /// The name that was asked for.
    pub String,
);

impl FromStr for LockKind {
    type Err = UnknownLock;

    fn from_str(name: &str) -> Result<Self, UnknownLock> {
        Self::all()
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownLock(name.to_owned()))
    }
}

/// The raw lock: a branch on a field beside the lock word, which is in the cache by then, and no virtual call.
#[derive(Debug)]
pub(super) enum Raw {
    Adaptive(Adaptive),
    TestAndSet(TestAndSet),
    Ticket(Ticket),
    Mcs(Mcs),
}

impl Raw {
    pub(super) const fn new(kind: LockKind) -> Self {
        match kind {
            LockKind::Adaptive => Raw::Adaptive(Adaptive::new()),
            LockKind::TestAndSet => Raw::TestAndSet(TestAndSet::new()),
            LockKind::Ticket => Raw::Ticket(Ticket::new()),
            LockKind::Mcs => Raw::Mcs(Mcs::new()),
        }
    }

    pub(super) const fn kind(&self) -> LockKind {
        match self {
            Raw::Adaptive(_) => LockKind::Adaptive,
            Raw::TestAndSet(_) => LockKind::TestAndSet,
            Raw::Ticket(_) => LockKind::Ticket,
            Raw::Mcs(_) => LockKind::Mcs,
        }
    }

    #[inline(always)]
    pub(super) fn lock(&self) {
        match self {
            Raw::Adaptive(lock) => lock.lock(),
            Raw::TestAndSet(lock) => lock.lock(),
            Raw::Ticket(lock) => lock.lock(),
            Raw::Mcs(lock) => lock.lock(),
        }
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        match self {
            Raw::Adaptive(lock) => lock.try_lock(),
            Raw::TestAndSet(lock) => lock.try_lock(),
            Raw::Ticket(lock) => lock.try_lock(),
            Raw::Mcs(lock) => lock.try_lock(),
        }
    }

    /// # Safety
    ///
    /// The caller must hold the lock.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        match self {
            // SAFETY: the caller holds the lock.
            Raw::Adaptive(lock) => unsafe { lock.unlock() },
            // SAFETY: the caller holds the lock.
            Raw::TestAndSet(lock) => unsafe { lock.unlock() },
            // SAFETY: the caller holds the lock.
            Raw::Ticket(lock) => unsafe { lock.unlock() },
            // SAFETY: the caller holds the lock.
            Raw::Mcs(lock) => unsafe { lock.unlock() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for kind in LockKind::all() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "spin".parse::<LockKind>(),
            Err(UnknownLock("spin".to_owned()))
        );
    }

    #[test]
    fn the_unknown_lock_sentence_names_every_kind() {
        let sentence = UnknownLock(String::new()).to_string();
        for kind in LockKind::all() {
            assert!(sentence.contains(kind.name()), "{sentence}");
        }
    }
}
