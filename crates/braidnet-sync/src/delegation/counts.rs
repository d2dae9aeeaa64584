//! The figures of delegation: what they are, and their arithmetic.

/// How often delegated values were entered and what that cost; [`LockSnapshot::delegation`](crate::lock::LockSnapshot::delegation) has
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelegationCounts {
    /// Entries, those included that left their work and those that went on where another had stopped; attempts only if they got in.
    pub entries: u64,
    /// Entries that found somebody inside, and left their work there.
    pub left: u64,
    /// Entries that were timed.
    pub timed: u64,
    /// Nanoseconds between asking and being inside, or having left the work, over those that were timed.
    pub timed_nanos: u64,
    /// Nanoseconds between being inside and being out again, whoever's work was served meanwhile, over those that were timed.
    pub inside_timed_nanos: u64,
    /// Pieces of work that had been left and were served.
    pub served: u64,
    /// Pieces whose wait was timed.
    pub served_timed: u64,
    /// Nanoseconds between leaving and serving, over those pieces.
    pub served_timed_nanos: u64,
}

impl DelegationCounts {
    /// Estimated nanoseconds between asking and being inside, or having left the work, over all entries; 0 if none was timed.
    pub fn entering_nanos(&self) -> u64 {
        scaled(self.timed_nanos, self.entries, self.timed)
    }

    /// Estimated nanoseconds inside, over all entries; 0 if none was timed.
    pub fn inside_nanos(&self) -> u64 {
        scaled(self.inside_timed_nanos, self.entries, self.timed)
    }

    /// Estimated nanoseconds that work lay there between being left and being served, over all pieces; 0 if none was timed. No
    /// processor waits for it.
    pub fn deferred_nanos(&self) -> u64 {
        scaled(self.served_timed_nanos, self.served, self.served_timed)
    }

    pub(crate) fn combine(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        DelegationCounts {
            entries: each(self.entries, other.entries),
            left: each(self.left, other.left),
            timed: each(self.timed, other.timed),
            timed_nanos: each(self.timed_nanos, other.timed_nanos),
            inside_timed_nanos: each(self.inside_timed_nanos, other.inside_timed_nanos),
            served: each(self.served, other.served),
            served_timed: each(self.served_timed, other.served_timed),
            served_timed_nanos: each(self.served_timed_nanos, other.served_timed_nanos),
        }
    }
}

/// What was measured over so many, `timed`, scaled to all; 0 if none was.
pub(crate) fn scaled(nanos: u64, all: u64, timed: u64) -> u64 {
    let total = u128::from(nanos) * u128::from(all);
    u64::try_from(total.checked_div(u128::from(timed)).unwrap_or(0)).unwrap_or(u64::MAX)
}
