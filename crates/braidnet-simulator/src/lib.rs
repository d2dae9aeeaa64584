//! Whole stacks on a bad network in virtual time, decided by a seed, and what must hold of them.
//!
//! Hosts are stacks as they ship ([`braidnet::Stack`]), each on a wire of its own; between them stand lines and routers in any
//! arrangement, and what the lines do to packets is decided by the code that impairs devices, too. Applications talk over them; lines
//! fail and heal, hosts reboot and forget everything, move to another address, are flooded with SYNs and fed forged segments.
//! Beside them stand checkers, one for each law, that see every packet and ask the stack only for what RFC 9293 §3.10.6 calls its
//! status.
//!
//! A seed decides everything, and the same seed does the same on every machine. See `docs/testing.md` for how to use it, and
//! [`command`] for its flags.
//!
//! What it refuses: it does not judge how fast anything is (the grid of goodputs in `braidnet-tcp` does), and it runs no threads
//! inside a stack (`braidnet-lab`'s equivalence test does).
#![forbid(unsafe_code)]

mod application;
mod case;
mod checkers;
pub mod command;
mod content;
mod diagram;
mod fault;
mod law;
mod ledger;
mod network;
mod random;
mod shared;
mod shrink;
mod station;
mod topology;
mod trace;
mod world;
