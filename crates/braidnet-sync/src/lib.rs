//! Locks, rings, parkers, thread groups, the clock and the kernel's counts: what processors are made of.
//!
//! | module | holds |
//! |---|---|
//! | [`lock`] | adaptive, test-and-set, ticket and MCS locks, [`Lock`](lock::Lock) that chooses between them at run time and counts |
//! | [`ring`] | bounded FIFO rings for one or many producers and one consumer |
//! | [`parker`] | sleeping without losing a wake-up, on a word or on a device |
//! | [`baton`] | taking turns without waiting |
//! | [`gate`] | many wait, one opens |
//! | [`board`] | jobs in pieces, for whoever has time, joined by count |
//! | [`delegation`] | entering with work, and leaving it with whoever is inside |
//! | [`ticket`] | numbers that say in which order things were taken |
//! | [`rejoin`] | what comes in any order goes on in the order of its tickets |
//! | [`release`] | the same between threads, without waiting |
//! | [`blocking_order`] | the same, by waiting |
//! | [`lease`] | one processor's own until others ask for a share in it |
//! | [`brake`] | all who go round stop at their next boundary, and go on |
//! | [`outbox`] | carrying away, in order, what leaves a critical section |
//! | [`roster`] | many tasks, carried in turns by few threads |
//! | `group` | threads spawned suspended, pinned, suspended and resumed together, cancelled, joined |
//! | `clock` | nanoseconds from the time stamp counter |
//! | [`primitives`] | the atomics by which threads agree, for this crate and those above |
//! | `usage` | switches and processor time as the kernel counts them |
//!
//! The crate knows nothing of messages and protocols. It refuses to wait where a caller could do something else: a
//! full ring and a held baton are answers, not delays. It refuses systems other than Linux, whose
//! futex, affinity and counts it is built on.
//!
//! Each primitive explains its protocol in prose above its code: who may touch what when, and which memory order
//! carries it. Every atomic, cell and thread comes from one private module, so that `--cfg loom` replaces them all and
//! the model checker runs the source that ships:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p braidnet-sync --release --lib
//! ```
//!
//! Under `--cfg loom` only the model-checked primitives exist; `group`, `clock`, `usage` and the run-time chosen
//! `Lock` talk to the kernel and are left out.
//!
//! `--cfg shuttle` replaces the same by shuttle's, and the clock and the kernel's sleep as well, so that whole stacks run in orders that
//! a seed draws; `schedules`, which exists only then, begins such runs.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!("braidnet-sync is built on Linux's futex, affinity and resource counts");

pub mod primitives;
mod spin;

pub mod baton;
pub mod blocking_order;
pub mod board;
pub mod brake;
pub mod delegation;
pub mod gate;
pub mod lease;
pub mod lock;
pub mod outbox;
pub mod parker;
pub mod rejoin;
pub mod release;
pub mod ring;
pub mod roster;
pub mod ticket;

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod group;
#[cfg(all(shuttle, not(loom)))]
pub mod schedules;
#[cfg(not(loom))]
pub mod usage;
