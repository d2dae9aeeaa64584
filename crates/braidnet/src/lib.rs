//! A user-space TCP/IP stack whose process architecture is chosen at run time.
//!
//! Four faces, over the same protocol code:
//!
//! - [`Stack`]: one processor that your own loop turns. No thread, no lock, no clock inside. TCP connections and
//!   UDP ports.
//! - [`socket::Sockets`]: TCP and UDP with the verbs, options, errors and readiness that POSIX has, over such a stack.
//! - [`net`]: a [`Host`](net::Host) that runs by itself, and sockets shaped like std's for any number of threads, or, with the cargo feature
//!   `tokio`, like tokio's for its tasks (`braidnet::tokio`).
//! - [`Server`]: services that run to completion on the stack's own processors, as many as you give it, under the
//!   [`Architecture`] that you choose.
//!
//! Below them, for who wants to put a module of their own into the stream or to place junctions themselves, stand the
//! crates that this one is built on, re-exported by their short names.
#![forbid(unsafe_code)]

mod config;
mod drops;
mod endpoint;
mod endpoints;
mod error;
mod event;
mod inboxes;
mod limits;
pub mod net;
mod server;
mod services;
pub mod socket;
mod stack;
#[cfg(feature = "tokio")]
pub mod tokio;
mod wiring;

pub use braidnet_codec as codec;
pub use braidnet_device as device;
pub use braidnet_inet as inet;
pub use braidnet_message as message;
pub use braidnet_process as process;
pub use braidnet_stream as stream;
pub use braidnet_sync as sync;
pub use braidnet_tcp as tcp;
pub use braidnet_wire as wire;

pub use braidnet_inet::LimitError;
pub use braidnet_process::Architecture;
pub use braidnet_tcp::TcpInfo;
pub use braidnet_wire::time::{Duration, Instant};
pub use config::{Secrets, StackConfig};
pub use drops::recording_drops;
pub use error::{
    BindError, CloseReason, ConnectError, ReceiveError, ReceiveFromError, SendError, SendToError,
    StackError, Undelivered, WhyUndelivered,
};
pub use event::Event;
pub use inboxes::DatagramPorts;
pub use limits::{Limits, MemoryParts};
pub use server::{Jobs, Processors, Server, ServerBuilder};
pub use services::{DatagramService, Io, Piece, Service, Session, Ticket};
pub use stack::{Connection, Received, Stack};
pub use wiring::Above;
