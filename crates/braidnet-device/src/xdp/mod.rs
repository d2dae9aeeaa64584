//! An Ethernet interface of the system's that is the stack's alone while it runs: Linux XDP sockets (AF_XDP).
//!
//! [`XdpDevice::attach`] takes what arrives at an interface before the system's own stack sees any of it: a program of five instructions at the driver redirects each frame to the
//! socket of the queue by which it came. Frames lie in memory that is shared with the kernel, and travel both ways as descriptors in rings; where the driver can, the
//! card itself reads and writes that memory ([`XdpDevice::is_zero_copy`]), else the kernel copies.
//!
//! ```no_run
//! use braidnet_device::Device;
//! use braidnet_device::xdp::{XdpConfig, XdpDevice};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = XdpDevice::attach(XdpConfig::on("eth0"))?;
//! println!("{} queues", device.capabilities().queues);
//! let queues = Box::new(device).open()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What the system sees
//!
//! Of what arrives nothing, as long as the device is there: give the stack an interface that nothing else needs, or share one with [packet sockets](crate::packet). The program goes
//! with the device, however this process ends: the kernel holds it by a descriptor of this process (a BPF link).
//!
//! # Copies
//!
//! Frames are copied between the shared memory and a pool's buffers, once each way: messages stay with applications for as long as they like, and the kernel's frames are few.
//!
//! # Need-wakeup
//!
//! The rings say when the kernel wants to be told that there is work (`XDP_USE_NEED_WAKEUP`): a system call is made then, for a whole batch, and else none.
//!
//! # Queues
//!
//! As many as the interface has for what it receives: each has to have a socket, or what comes by it would go to the system. The interface's own hash deals flows among them; it is
//! not the hash by which processors have their connections, so that a part of what arrives is handed on.
//!
//! # What it refuses
//!
//! Offloads: there are none. In particular a sender on the same machine, at the other end of a veth pair, must make its checksums itself (`ethtool -K PEER tx off`), for
//! the kernel makes them nowhere on this way, and tells nobody. MTUs that are larger than a frame of [4 KiB](MTU_MAX).

mod error;
mod frames;
mod program;
mod receiver;
mod ring;
mod socket;
mod transmitter;

pub use error::XdpError;

use crate::packet::Interface;
use crate::passage::Passage;
use crate::{Capabilities, Device, DeviceError, MacAddress, QueuePair};
use program::Redirection;
use receiver::XdpReceiver;
use socket::{Kind, XdpSocket};
use std::sync::Arc;
use transmitter::{Sending, XdpTransmitter};

/// The largest MTU: a page holds a frame, its header, and what the kernel keeps free in front of it.
pub const MTU_MAX: usize = 4096 - 256 - 18;

/// The most queues that are served.
pub const QUEUES_MAX: usize = 256;

/// The smallest MTU an interface can have (RFC 791 §3.1).
const MTU_MIN: usize = 68;

/// Which interface, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XdpConfig {
    /// The interface's name, 1 to 15 bytes, in the calling thread's network namespace.
    pub name: String,
    /// Longest IP packet in bytes, 68 to the interface's MTU. `None`: that.
    pub mtu: Option<usize>,
    /// The Ethernet address that the stack answers to. `None`: the interface's.
    pub station: Option<MacAddress>,
    /// Whether the card may read and write frames itself, where its driver can.
    pub zero_copy: bool,
    /// The most queues that the interface may have, 1 to [`QUEUES_MAX`].
    pub queues: usize,
}

impl XdpConfig {
    /// The interface of this name, everything else as usual.
    pub fn on(name: impl Into<String>) -> XdpConfig {
        XdpConfig {
            name: name.into(),
            mtu: None,
            station: None,
            zero_copy: true,
            queues: QUEUES_MAX,
        }
    }
}

/// An interface that is a stack's alone.
pub struct XdpDevice {
    name: String,
    capabilities: Capabilities,
    /// Ends before the sockets to which it leads.
    redirection: Redirection,
    sockets: Vec<XdpSocket>,
}

impl XdpDevice {
    /// Takes the interface over. From here on what arrives there waits for the stack.
    ///
    /// # Errors
    /// See [`XdpError`]: each says what to do. Nothing is left behind.
    pub fn attach(config: XdpConfig) -> Result<XdpDevice, XdpError> {
        let interface = Interface::find(&config.name)?;
        let name = || config.name.clone();
        let mtu = config.mtu.unwrap_or(interface.mtu);
        let most = interface.mtu.min(MTU_MAX);
        if !(MTU_MIN..=most).contains(&mtu) {
            return Err(XdpError::Mtu {
                name: name(),
                mtu,
                most,
            });
        }
        if interface.queues > config.queues.min(QUEUES_MAX) {
            return Err(XdpError::Queues {
                name: name(),
                queues: interface.queues,
                most: config.queues.min(QUEUES_MAX),
            });
        }
        let station = config.station.unwrap_or(interface.address);
        let capabilities = Capabilities::ethernet(station, mtu).with_queues(interface.queues);
        let refused = |what| XdpError::refusing(&config.name, what);
        let mut redirection = Redirection::new(interface.queues).map_err(refused("the program"))?;
        let kind = Kind {
            interface: interface.index,
            packet_max: capabilities.packet_max(),
            zero_copy: config.zero_copy,
        };
        let mut sockets = Vec::new();
        for queue in 0..capabilities.queues as u32 {
            let socket = XdpSocket::new(kind, queue).map_err(refused("a socket"))?;
            redirection
                .add(queue, &socket)
                .map_err(refused("a socket"))?;
            sockets.push(socket);
        }
        redirection
            .attach(interface.index)
            .map_err(refused("the program"))?;
        if station != interface.address {
            interface
                .listen_for(station)
                .map(|socket| redirection.keep(socket))
                .map_err(refused("the address"))?;
        }
        Ok(XdpDevice {
            name: config.name,
            capabilities,
            redirection,
            sockets,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the card reads and writes frames itself, on all queues.
    pub fn is_zero_copy(&self) -> bool {
        self.sockets.iter().all(XdpSocket::is_zero_copy)
    }

    /// Whether the program runs in the interface's driver, and not behind it.
    pub fn is_native(&self) -> bool {
        self.redirection.is_native()
    }
}

/// Whether this process may have XDP sockets and the program that they need, and the system can.
///
/// # Errors
/// See [`XdpError`].
pub fn check_system() -> Result<(), XdpError> {
    let tried = XdpSocket::open().and_then(|_| Redirection::new(1)?.check());
    tried.map_err(XdpError::refusing("XDP", "trying it"))
}

impl Device for XdpDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let passage = Passage::of(&self.capabilities);
        let redirection = Arc::new(self.redirection);
        let pair = |socket: XdpSocket| {
            let (inward, outward) = socket.split();
            let sending = Arc::new(Sending::new(outward));
            QueuePair {
                receiver: Box::new(XdpReceiver::new(
                    inward,
                    passage,
                    sending.clone(),
                    redirection.clone(),
                )),
                transmitter: Box::new(XdpTransmitter::new(sending, passage)),
            }
        };
        Ok(self.sockets.into_iter().map(pair).collect())
    }
}
