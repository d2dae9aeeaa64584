//! Header views, addresses, sequence numbers and checksums for braidnet.
//!
//! The ground floor that protocol code stands on. It holds no state, allocates nothing and never panics on input:
//! whatever arrives is either parsed or refused with a named reason.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod address;
pub mod arp;
mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod hash;
pub mod icmpv4;
pub mod ipv4;
pub mod ipv6;
mod refusal;
pub mod seq;
pub mod tcp;
pub mod time;
pub mod udp;
