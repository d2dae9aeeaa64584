//! Services that a braidnet stack offers, and what is counted on its device.
//!
//! | service | protocol |
//! |---|---|
//! | [`Echo`] | RFC 862: sends back what it receives, over TCP and UDP |
//! | [`Discard`] | RFC 863: throws away what it receives, over TCP and UDP |
//! | [`Daytime`] | RFC 867: says what time it is, and closes |
//! | [`Chargen`] | RFC 864: sends a pattern as fast as it is taken |
//! | [`http`] | RFC 9110 and RFC 9112: the files of a directory |
//! | [`meter`] | middleware that counts what passes through a device |
//!
//! A service runs to completion on the processor that has its connection, inside the connection's perimeter, and never
//! blocks; files are read elsewhere. What a peer can make a service hold is bounded by the connection's window and send
//! buffer, and lies in the stack's own buffers.
//!
//! # What it refuses
//!
//! No service knows an architecture, a thread of the data path or a socket. Chargen and daytime are not offered over
//! UDP: both answer a forged datagram with a bigger one. HTTP serves files and nothing else: no listing of directories,
//! no program, no upload, no TLS.
#![forbid(unsafe_code)]

mod chargen;
mod daytime;
mod discard;
mod echo;
pub mod http;
pub mod meter;
mod pending;

pub use chargen::Chargen;
pub use daytime::Daytime;
pub use discard::Discard;
pub use echo::Echo;
