//! The process architectures of braidnet: who turns which part of a stream.
//!
//! A [`Plan`] holds a wired stream, its buckets, buffers and device queues; an [`Architecture`] names how junctions are
//! placed in it. [`Plan::workers`] makes of both one [`Worker`] for each processor. A worker is a
//! [`Processor`](braidnet_stream::Processor): a caller's loop, a simulator or [`Running`], which spawns a thread for each,
//! turn it alike.
//!
//! | architecture | junctions | buckets |
//! |---|---|---|
//! | [`Task`](Architecture::Task) | between two clusters of modules, one server each, both directions | private to each cluster |
//! | [`Connection`](Architecture::Connection) | above the driver, packet filter, a queue per processor | private |
//! | [`Message`](Architecture::Message) | above the driver, every processor asks it | shared, by lock or delegation |
//! | [`Braid`](Architecture::Braid) | above the driver, packet filter, a queue per processor, which others take from while they are its guests | private until another processor asks, then delegated |
//! | [`Function`](Architecture::Function) | those of `connection`; inside each module that divides its work, the pieces of one message for whoever has time | private |
//!
//! The crate is the only one that spawns threads of the data path. It holds no protocol code.
#![forbid(unsafe_code)]

mod architecture;
mod exchange;
mod filtered;
mod intake;
mod leased;
mod moving;
mod patience;
mod plan;
mod portion;
mod running;
mod seats;
mod sharing;
mod tasks;
mod threads;
mod worker;

pub use architecture::{Architecture, Places, Refusal, UnknownArchitecture, top_processor_of};
pub use exchange::Mailboxes;
pub use plan::{Application, Classify, NoApplication, Plan, PlanError};
pub use running::{Agents, Idle, Running, RunningConfig, Suspended};
pub use seats::processor_of;
pub use sharing::Sharing;
pub use worker::Worker;
