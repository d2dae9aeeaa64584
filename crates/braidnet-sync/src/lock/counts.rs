//! The figures of locks: what they are, and their arithmetic.

use core::ops::{Add, AddAssign, Sub};

use super::blocks;
use super::class::{CLASSES, LockClass};
use crate::delegation::counts::{DelegationCounts, scaled};

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
    /// Nanoseconds between having and giving back, over those that were timed.
    pub held_timed_nanos: u64,
}

impl LockCounts {
    /// Estimated nanoseconds between asking and having, over all acquisitions; 0 if none was timed.
    pub fn waited_nanos(&self) -> u64 {
        scaled(self.timed_nanos, self.acquisitions, self.timed)
    }

    /// Estimated nanoseconds between having and giving back, over all acquisitions; 0 if none was timed.
    pub fn held_nanos(&self) -> u64 {
        scaled(self.held_timed_nanos, self.acquisitions, self.timed)
    }

    fn combine(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        LockCounts {
            acquisitions: each(self.acquisitions, other.acquisitions),
            contended: each(self.contended, other.contended),
            timed: each(self.timed, other.timed),
            timed_nanos: each(self.timed_nanos, other.timed_nanos),
            held_timed_nanos: each(self.held_timed_nanos, other.held_timed_nanos),
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

/// The counts of every class of locks, and those of delegation, at one moment.
///
/// Counts only grow, so the difference of two snapshots is what happened between them. Threads that are counting while
/// the snapshot is taken are seen somewhere in their course.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockSnapshot {
    pub(super) classes: [LockCounts; CLASSES],
    pub(super) delegation: DelegationCounts,
}

impl LockSnapshot {
    /// The calling thread's counts so far.
    pub fn thread() -> Self {
        blocks::of_this_thread()
    }

    /// The counts of all threads, those that have ended included.
    pub fn process() -> Self {
        blocks::of_all_threads()
    }

    /// The counts of one class.
    pub const fn of(&self, class: LockClass) -> LockCounts {
        self.classes[class as usize]
    }

    /// The counts of delegated values, which have no classes.
    pub const fn delegation(&self) -> DelegationCounts {
        self.delegation
    }

    /// The counts of all classes together. The estimate of the wait is better made class by class and then added.
    pub fn total(&self) -> LockCounts {
        self.classes
            .iter()
            .fold(LockCounts::default(), |sum, &counts| sum + counts)
    }

    /// Estimated nanoseconds between asking and having, over all acquisitions of all classes.
    pub fn waited_nanos(&self) -> u64 {
        self.classes.iter().fold(0, |sum: u64, counts| {
            sum.saturating_add(counts.waited_nanos())
        })
    }

    fn combine(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        LockSnapshot {
            classes: core::array::from_fn(|class| {
                self.classes[class].combine(other.classes[class], each)
            }),
            delegation: self.delegation.combine(other.delegation, each),
        }
    }
}

impl Add for LockSnapshot {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::wrapping_add)
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
        self.combine(earlier, u64::saturating_sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_timed_is_scaled_to_all() {
        let counts = LockCounts {
            acquisitions: 100,
            contended: 9,
            timed: 4,
            timed_nanos: 60,
            held_timed_nanos: 20,
        };
        assert_eq!((counts.waited_nanos(), counts.held_nanos()), (1_500, 500));
        let delegation = DelegationCounts {
            entries: 100,
            left: 9,
            timed: 4,
            timed_nanos: 8,
            inside_timed_nanos: 60,
            served: 8,
            served_timed: 2,
            served_timed_nanos: 70,
        };
        let nanos = (delegation.entering_nanos(), delegation.inside_nanos());
        assert_eq!((nanos, delegation.deferred_nanos()), ((200, 1_500), 280));
        let snapshot = LockSnapshot {
            classes: [counts; CLASSES],
            delegation,
        };
        assert_eq!(snapshot.waited_nanos(), 1_500 * CLASSES as u64);
        assert_eq!((snapshot + snapshot - snapshot), snapshot);
        assert_eq!(LockCounts::default().held_nanos(), 0);
    }
}
