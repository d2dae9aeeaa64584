//! Header views, addresses, sequence numbers and checksums for braidnet.
//!
//! The ground floor that protocol code stands on. It holds no state, allocates nothing and never panics on input:
//! whatever arrives is either parsed or refused with a named reason.
//!
//! - Vocabulary: [`address`], [`seq`], [`time`].
//! - One module per header: [`ethernet`], [`arp`], [`ipv4`], [`ipv6`], [`icmpv4`], [`udp`], [`tcp`]. Each has `parse`,
//!   which returns plain values in host byte order and a refusal otherwise, and `emit`, which writes to the front of a
//!   slice and panics only if the caller made it too short. A refusal is a small enum; its `name` is a counter's name.
//! - What every packet needs: [`checksum`], [`flow`], [`hash`].
//!
//! Refused, because nothing here or above would know what to do with it: IEEE 802.3 lengths and VLAN tags, IPv6
//! extension headers, jumbograms, ARP for anything but IPv4 over Ethernet, and ICMP types other than echo and the three
//! errors. IP options and unknown TCP options are checked for their lengths and skipped.
//!
//! `unsafe` stands in [`checksum`] only, for vector instructions.

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
