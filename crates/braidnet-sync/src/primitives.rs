//! Every atomic, cell, futex and thread of this crate, in one place.
//!
//! `native` is what ships; `model` is the same vocabulary over loom. Nothing else in the crate names `std::sync::atomic`,
//! `std::cell::UnsafeCell` or `std::thread`, so building with `--cfg loom` puts the shipped source of every primitive
//! under the model checker.
//!
//! loom treats `SeqCst` loads and stores as acquire and release, and only `SeqCst` fences as what they are. Code
//! here therefore uses fences, never `SeqCst` accesses, where it needs a total order.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod native;

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use native::*;

/// How a wait on a [`Futex`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Woken, interrupted, or the word was not the expected one: look again.
    LookAgain,
    /// The deadline passed.
    TimedOut,
}
