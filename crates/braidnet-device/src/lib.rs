//! Devices: where packets enter and leave a stack.
//!
//! A [`Device`] opens into one [`QueuePair`] per queue. A queue's [`Receiver`] is turned by one processor; a
//! [`Transmitter`] belongs to one processor, and [`Transmitter::another`] makes one for each further processor. Both
//! work on runs, so that virtual calls, clock reads and wake-ups are paid per run and not per packet.
//!
//! | device | for |
//! |---|---|
//! | [`memory::wire`] | two stacks joined in one process: measurements, simulations, tests |
//! | [`tun::TunDevice`] | Linux TUN (IP packets) and TAP (Ethernet frames) |
//! | [`packet::PacketDevice`] | an Ethernet interface of the system's, shared with it (AF_PACKET) |
//! | [`xdp::XdpDevice`] | an Ethernet interface of the system's that is the stack's alone (AF_XDP) |
//! | [`qemu::QemuDevice`] | Ethernet frames over a stream socket, as qemu frames them |
//! | [`several::Several`] | several devices as one, for a stack that stands on all of them |
//! | [`impair::Impaired`] | middleware that does to packets what a bad network does |
//! | [`capture::Captured`] | middleware that records what passes through any other device as pcapng |
//!
//! [`relay::Relay`] joins two, [`replay::Replay`] sends through one what was recorded.
//!
//! # What it refuses
//!
//! Nothing here looks above the link: no address is resolved, no header verified, no packet answered. A device never
//! blocks and never waits; whoever turns it sleeps on [`Receiver::fd`], or on a parker given to
//! [`Receiver::wake_with`], and where it holds packets back no longer than its [`Receiver::alarm`] says. Nothing is lost without a name: every packet that a device drops is counted under a
//! [`DropReason`].

mod alarm;
mod counters;
mod device;
mod ioctl;
mod mapping;
mod overflow;
mod passage;

pub mod capture;
pub mod impair;
pub mod memory;
pub mod packet;
pub mod qemu;
pub mod relay;
pub mod replay;
pub mod several;
pub mod tun;
pub mod vnet;
pub mod xdp;

pub use alarm::Alarm;
pub use braidnet_wire::ethernet::MacAddress;
pub use counters::{Counters, DropReason};
pub use device::{
    Capabilities, Device, DeviceError, Medium, Offloads, QueuePair, RECEIVE_HEADROOM, Receiver,
    Transmitter,
};
