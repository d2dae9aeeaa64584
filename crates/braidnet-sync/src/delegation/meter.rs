//! What accompanies an entry to see what it costs.

/// Sees one entry of a [`Delegated`](super::Delegated) value come and go.
pub(super) trait Meter: Sized {
    /// What sees the end of being inside, by being dropped.
    type Stay;

    /// Somebody is about to enter.
    fn asks() -> Self;

    /// What the work carries that must be left; not 0 if whoever serves it is to [be told](Self::serves).
    fn note(&self) -> u64;

    /// The work has been left, and the entry is over.
    fn leaves(self);

    /// The entry is inside.
    fn stays(self) -> Self::Stay;

    /// Whoever is inside is about to serve work that carries this.
    fn serves(note: u64);
}

/// Nobody wants to know.
pub(super) struct Off;

impl Meter for Off {
    type Stay = ();

    #[inline(always)]
    fn asks() -> Off {
        Off
    }

    #[inline(always)]
    fn note(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn leaves(self) {}

    #[inline(always)]
    fn stays(self) {}

    #[inline(always)]
    fn serves(_: u64) {}
}
