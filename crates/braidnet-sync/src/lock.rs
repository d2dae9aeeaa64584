//! Locks: what is held by one processor at a time, and how the others wait.
//!
//! [`Adaptive`], [`TestAndSet`], [`Ticket`] and [`Mcs`] are lock types; `lock_api::Mutex<Adaptive, T>` is a mutex made of one for
//! who knows at compile time which one is wanted. `Lock` holds one of them, chosen at run time, and counts on
//! request. State that one processor owns needs neither: its lock is `&mut`, which the compiler checks.
//!
//! A thread that sleeps on a lock is woken by the thread that gives it back, so a lock must never be held by a thread that
//! itself sleeps for a device or a peer: hold locks for computing only.

mod adaptive;
mod condition;
mod mcs;
mod read_write;
mod tas;
mod ticket;

#[cfg(not(loom))]
mod chosen;
#[cfg(not(loom))]
mod kind;
#[cfg(not(loom))]
mod meter;

#[cfg(all(test, loom))]
mod model;

pub use adaptive::Adaptive;
pub use condition::Condition;
pub use mcs::Mcs;
pub use read_write::ReadWrite;
pub use tas::TestAndSet;
pub use ticket::Ticket;

#[cfg(not(loom))]
pub use chosen::Lock;
#[cfg(not(loom))]
pub use kind::{LockKind, UnknownLock};
#[cfg(not(loom))]
pub use meter::{LockClass, LockCounts, LockSnapshot, Metering, metering, set_metering};
