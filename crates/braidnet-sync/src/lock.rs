//! Locks: what is held by one processor at a time, and how the others wait.
//!
//! [`Adaptive`], [`TestAndSet`], [`Ticket`] and [`Mcs`] are lock types; `lock_api::Mutex<Adaptive, T>` is a mutex made of one for
//! who knows at compile time which one is wanted. `Lock` holds one of them, chosen at run time, and counts on
//! request. State that one processor owns needs neither: its lock is `&mut`, which the compiler checks.
//!
//! | what | who goes in | who waits |
//! |---|---|---|
//! | [`Adaptive`] | one, whoever comes at the right moment | spins while the holder may be running, then sleeps |
//! | [`TestAndSet`] | one, likewise | spins, then gives way again and again |
//! | [`Ticket`] | one, in order | spins on a word that all watch if it is near, then sleeps |
//! | [`Mcs`] | one, in order | spins on a word of its own, then sleeps |
//! | [`ReadWrite`] | many readers or one writer, in turns | spins, then sleeps |
//! | `Lock` | one, by any of the first four | as that one |
//! | `Recursive` | one, again and again | as the lock inside |
//! | `Monitor` | one | as the lock inside; on a [`Condition`] it sleeps until woken |
//!
//! The stack's data path uses `Lock` alone; the others are for what surrounds it, and for applications.
//!
//! A thread that sleeps on a lock is woken by the thread that gives it back, so a lock must never be held by a thread that
//! itself sleeps for a device or a peer: hold locks for computing only.

mod adaptive;
mod condition;
mod guarded;
mod mcs;
mod read_write;
mod tas;
mod ticket;

#[cfg(any(not(loom), test))]
mod recursive;

#[cfg(not(loom))]
pub(crate) mod blocks;
#[cfg(not(loom))]
mod chosen;
#[cfg(not(loom))]
mod class;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod kind;
#[cfg(not(loom))]
pub(crate) mod meter;
#[cfg(not(loom))]
mod monitor;
#[cfg(not(loom))]
mod rank;
#[cfg(not(loom))]
mod watch;

#[cfg(all(test, loom))]
mod model;

pub use adaptive::Adaptive;
pub use condition::Condition;
pub(crate) use guarded::Guarded;
pub use mcs::Mcs;
pub use read_write::ReadWrite;
pub use tas::TestAndSet;
pub use ticket::Ticket;

#[cfg(not(loom))]
pub use chosen::Lock;
#[cfg(not(loom))]
pub use class::LockClass;
#[cfg(not(loom))]
pub use counts::{LockCounts, LockSnapshot};
#[cfg(not(loom))]
pub use kind::{LockKind, UnknownLock};
#[cfg(not(loom))]
pub use meter::{Metering, metering, set_metering};
#[cfg(not(loom))]
pub use monitor::{Inside, Monitor};
#[cfg(not(loom))]
pub use recursive::Recursive;
#[cfg(not(loom))]
pub use watch::{rank_check, set_rank_check};
