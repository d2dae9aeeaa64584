//! Link, ARP, IP, ICMP, UDP and TCP as braidnet modules.
//!
//! Each protocol is a [`Module`](braidnet_stream::Module): it works on runs of messages, keeps its state by key, and
//! leaves what the next one must know in a [note](notes). Only TCP, ARP and what holds [fragments] have state on the data path, and so a core; all
//! else is order-free and runs on whatever processor has the run. [`Inet::assemble`] wires them into a stream.
//!
//! A message may be composite: headers in its first block, payload shared with whoever sent it in others. No module asks
//! for more in one piece than it reads: its own header.
//!
//! # What it refuses
//!
//! The crate spawns no thread, opens no socket and reads no clock. It forwards only what it is told to, speaks IPv4 only
//! yet, and takes no part in multicast. A packet that it does not want is dropped under a name, each of which is a
//! counter of its module; what a packet of a peer can make it hold or send is bounded: neighbours and the packets that
//! wait for them ([`arp`]), fragments ([`fragments`]), errors ([`icmp`]).
//!
//! # Departures from the RFCs
//!
//! - A wrong option length costs the packet (RFC 1122 §3.2.1.8 wants unknown options ignored, and they are, if their lengths
//!   add up).
#![forbid(unsafe_code)]

pub mod arp;
pub mod assemble;
mod counters;
pub mod ethernet;
pub mod flows;
pub mod fragments;
pub mod icmp;
pub mod interface;
pub mod ip;
mod join;
mod limits;
mod live;
pub mod notes;
mod offload;
mod oldest;
pub mod path;
mod room;
pub mod route;
mod sift;
mod stations;
mod sum;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod udp;

pub use arp::Resolution;
pub use assemble::{Inet, Layout};
pub use flows::Flows;
pub use fragments::Reassembly;
pub use icmp::ErrorRate;
pub use interface::{Attachment, Interface, InterfaceConfig, InterfaceError};
pub use limits::{InetLimits, LimitError};
pub use live::Live;
pub use offload::Offload;
pub use path::Paths;
pub use route::{Prefix, Route};
pub use tcp::HEADROOM;
