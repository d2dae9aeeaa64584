//! Every atomic, cell, futex and thread of this crate, in one place; and, for the crates above, the atomics by which threads agree.
//!
//! `native` is what ships; `model` is the same vocabulary over loom, and `schedule` over shuttle. Nothing else in the crate names
//! `std::sync::atomic`, `std::cell::UnsafeCell` or `std::thread`, so building with `--cfg loom` puts the shipped source of every primitive
//! under the model checker, and building with `--cfg shuttle` that of whole stacks under a scheduler. A crate above
//! takes from here what its threads agree by; what only counts it takes from std.
//!
//! loom treats `SeqCst` loads and stores as acquire and release, and only `SeqCst` fences as what they are. Code
//! here therefore uses fences, never `SeqCst` accesses, where it needs a total order.

#[cfg(not(loom))]
mod cell;
#[cfg(loom)]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(all(shuttle, not(loom)))]
mod schedule;

#[cfg(loom)]
pub use model::*;
#[cfg(not(any(loom, shuttle)))]
pub use native::*;
#[cfg(all(shuttle, not(loom)))]
pub use schedule::*;

/// What counts, or is set once for the process: it is no model's business.
#[cfg(not(loom))]
pub(crate) mod plain {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};
}

/// Whether a model checker runs the code: then bounds on spinning are as short as can be.
pub(crate) const IS_MODEL: bool = cfg!(any(loom, shuttle));

/// How a wait on a [`Futex`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Woken, interrupted, or the word was not the expected one: look again.
    LookAgain,
    /// The deadline passed.
    TimedOut,
}
