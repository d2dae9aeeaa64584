//! Modules, junctions, perimeters, buckets and processors: the framework that braidnet's protocols live in.
//!
//! One idea carries the crate: **modules do the work, junctions decide who does it.**
//!
//! - A [`Module`] holds protocol code as three functions over a [`Run`](braidnet_message::Run) of messages: an
//!   order-free *before*, an ordered *core* that owns the state, an order-free *after*. It never knows which thread
//!   runs it, sees no lock, and calls no other module: what it makes leaves through its [`Context`].
//! - A [`Stream`] is a head, modules and a tail, wired once.
//! - A [`Bucket`] holds the state that all modules keep for a group of connections. It is `Send` and moves whole.
//! - A [`Buckets`] store is the perimeter: it says whether buckets are *private* to one processor (plain `&mut`, no
//!   lock) or *shared* behind locks. It is entered with a piece of work, never by handing out a guard.
//! - A [`Cluster`] turns some of a stream's modules over its buckets, run to completion, on the caller's thread.
//! - A [`Junction`](junction::Junction) is where work changes hands. A [`Placement`](junction::Placement) of junctions
//!   *is* a process architecture.
//! - A [`Reserve`] of buffers sees to it that a cluster whose memory is used up still hears what frees it.
//! - A [`Processor`] is whatever has [`turn`](Processor::turn): a spawned thread, a caller's loop and a simulator are
//!   equal callers.
//!
//! The crate spawns no thread and knows no protocol. The words are those of System V STREAMS and of ASX (§2.3): a
//! module is a pair of tasks, the read side (up) and the write side (down); `put` borrows the caller's thread, `svc` is
//! a junction's server turning the same functions, `put_next` hands on to the neighbour.
#![forbid(unsafe_code)]

pub mod bucket;
pub mod cluster;
pub mod context;
pub mod control;
pub mod counted;
pub mod counters;
pub mod dividing;
pub mod drops;
mod groups;
pub mod junction;
pub mod map;
pub mod migration;
pub mod module;
mod pass;
pub mod perimeter;
mod poison;
pub mod processor;
pub mod queue;
mod queues;
pub mod reserve;
mod rising;
mod session;
pub mod stream;
pub mod timed;
mod visit;
pub mod wheel;
mod work;

pub use bucket::{Bucket, BucketId, ConnectionId};
pub use cluster::{Cluster, Parcel, Tail};
pub use context::Context;
pub use control::{Control, Verb};
pub use counted::References;
pub use counters::{Counter, Counters, StreamCounter};
pub use dividing::{Dividing, Divisible};
pub use drops::{DropWatch, Dropped, Trace};
pub use migration::Migrant;
pub use module::{Direction, Key, Module, ModuleId, Stages, State};
pub use perimeter::{Arrival, Buckets, Claims, Exclusion, Extent, Neighbours};
pub use processor::{Next, Processor};
pub use reserve::Reserve;
pub use stream::{Stream, StreamBuilder, StreamError};
pub use timed::OrderFree;
pub use work::Answer;
