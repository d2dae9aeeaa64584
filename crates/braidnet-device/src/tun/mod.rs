//! Linux TUN and TAP devices.
//!
//! A TUN device carries IP packets, a TAP device Ethernet frames; the far end of both is the system's own stack.
//! [`TunDevice::create`] makes a device that disappears when it is closed, or adopts a persistent one that nobody holds
//! and leaves it as it was found. Addresses, MTU and state are set without helper programs.
//!
//! ```no_run
//! use braidnet_device::Device;
//! use braidnet_device::tun::{HostAddress, Mode, TunConfig, TunDevice};
//! use braidnet_wire::address::Address;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = HostAddress { address: Address::v4([10, 7, 0, 1]), prefix: 24 };
//! let device = TunDevice::create(TunConfig { host: Some(host), ..TunConfig::new(Mode::Tun) })?;
//! println!("the stack's other side is {}", device.name());
//! let queues = Box::new(device).open()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Several queues
//!
//! A device has one queue, or as many as [`TunConfig::queues`] says, each a descriptor of its own (`IFF_MULTI_QUEUE`). The driver learns flows: it puts a packet into
//! the queue by which the last one of its flow came from this side, in either direction the same, and where there was none within three seconds, or there are more
//! than 4,096 flows, into one that a hash chooses. So a flow stays with the processor that sends by its queue ([why not a program of our own][decision]).
//!
//! An adopted device is used with any number of queues if it was made so (`ip tuntap add ... multi_queue`), and else with one.
//!
//! [decision]: https://github.com/braidnet/braidnet/blob/main/docs/decisions/009-steering.md
//!
//! # Descriptors that are passed in
//!
//! A program without privilege is given a device, also of another network namespace, as descriptors that it [inherits](inherited), or that are
//! [sent](received) to it over a Unix socket: [`TunDevice::adopt`]. Addresses, MTU and state are then whose who opened it.
//!
//! # Offloads
//!
//! Where the system has them, and the configuration does not decline them, a packet may be as long as IP allows and stand for many segments, both ways, and
//! checksums are made and verified by nobody as long as packets stay on the machine (`IFF_VNET_HDR`, `TUNSETOFFLOAD`): what the device's
//! [capabilities](Device::capabilities) then say. Of datagrams of UDP the same holds since Linux 6.2 (`TUN_F_USO4`, `TUN_F_USO6`); an older one leaves them as they are on a wire. What the system says of a packet is held against the packet, and a lie is dropped by name.

mod attachment;
mod error;
mod interface;
mod link;
mod netlink;
mod passed;
mod receiver;
mod transmitter;

pub use error::TunError;
pub use passed::{PassedConfig, inherited, received};

use crate::device::station_beside;
use crate::passage::Passage;
use crate::{Capabilities, Device, DeviceError, MacAddress, Medium, Offloads, QueuePair};
use attachment::Attachment;
use braidnet_wire::address::Address;
use link::Link;
use receiver::TunReceiver;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use transmitter::TunTransmitter;

/// The smallest MTU an interface can have (RFC 791 §3.1), and the smallest with IPv6 (RFC 8200 §5).
const MTU_MIN: usize = 68;
const MTU_MIN_V6: usize = 1280;

/// The most queues that the system gives a device (`MAX_TAP_QUEUES`).
pub const QUEUES_MAX: usize = 256;

/// Whether packets have a link header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// IP packets.
    Tun,
    /// Ethernet frames.
    Tap,
}

impl Mode {
    /// The largest MTU: the kernel counts TAP's Ethernet header against 65535.
    const fn mtu_max(self) -> usize {
        match self {
            Mode::Tun => 65535,
            Mode::Tap => 65535 - 14,
        }
    }

    const fn other(self) -> Mode {
        match self {
            Mode::Tun => Mode::Tap,
            Mode::Tap => Mode::Tun,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Tun => "tun",
            Mode::Tap => "tap",
        })
    }
}

/// An address for the system's side of the device, and the prefix that lies behind the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostAddress {
    /// A unicast address.
    pub address: Address,
    /// Bits that the device's hosts have in common: at most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

/// What a device shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunConfig {
    /// IP packets or Ethernet frames.
    pub mode: Mode,
    /// The interface's name, 1 to 15 bytes. `None`: the system chooses (`tun0`, `tap0`, ...).
    pub name: Option<String>,
    /// Longest IP packet in bytes, 68 to 65535 (TAP: 65521). `None`: what the device has, 1500 for a new one.
    pub mtu: Option<usize>,
    /// An address for the system's side. With one, the device is brought up; without, it is left as it is.
    pub host: Option<HostAddress>,
    /// TAP only: the address that the stack answers to. `None`: one made from the system side's.
    pub station: Option<MacAddress>,
    /// Whether to use what the system can do of the transports' work. Without, every packet is as it would be on a wire.
    pub offload: bool,
    /// How many queues, 1 to [`QUEUES_MAX`].
    pub queues: usize,
}

impl TunConfig {
    /// A device in this mode, everything else left to the system.
    pub const fn new(mode: Mode) -> Self {
        TunConfig {
            mode,
            name: None,
            mtu: None,
            host: None,
            station: None,
            offload: true,
            queues: 1,
        }
    }
}

/// A TUN or TAP device that this process holds.
///
/// What [`create`](TunDevice::create) made disappears when the device, or the last receiver and transmitter it opened
/// into, is dropped. An adopted device stays then, and gets back the MTU and state it had; an address is removed from it
/// if it was added here.
///
/// Of a device whose descriptors were [passed in](TunDevice::adopt) nothing was set, and nothing is given back but that it offloads no more. It stays as long as whoever
/// opened it, or anyone else, has a descriptor of it, or if it is persistent.
pub struct TunDevice {
    attachment: Arc<Attachment>,
    capabilities: Capabilities,
    host_station: Option<MacAddress>,
}

impl TunDevice {
    /// Makes a device, or adopts the persistent one of the name in `config`, and sets it up.
    ///
    /// It lies in the calling thread's network namespace and stays there.
    ///
    /// # Errors
    ///
    /// See [`TunError`]: each says what to do. Nothing is left behind.
    pub fn create(config: TunConfig) -> Result<Self, TunError> {
        if let Some(name) = &config.name {
            check_name(name)?;
        }
        let wanted = config.name.as_deref().unwrap_or(match config.mode {
            Mode::Tun => "tun%d",
            Mode::Tap => "tap%d",
        });
        let (attachment, mtu) = Attachment::new(wanted, &config)?;
        let passed = PassedConfig {
            mtu,
            station: config.station,
            offload: config.offload,
        };
        TunDevice::of(attachment, config.mode, passed)
    }

    /// Takes a device that somebody else has opened: a descriptor for each of its queues, [inherited] or [received].
    ///
    /// Whoever passes them in reads and writes no more while this one does. The descriptors' reads and writes do not wait from now on, which holds for all who share
    /// them.
    ///
    /// # Errors
    /// See [`TunError`]: they are no descriptors of one TUN or TAP device, or the MTU is out of range. Whether it was opened with `IFF_NO_PI` cannot be
    /// told (`TUNGETIFF` has another meaning for that bit): it must have been, or no packet is understood. That they are of one device is told by its name: devices of
    /// one name in two network namespaces look alike, and so do two descriptors of one queue of a device that has several.
    pub fn adopt(queues: Vec<OwnedFd>, config: PassedConfig) -> Result<Self, TunError> {
        let (attachment, mode) = passed::attach(queues)?;
        if !(MTU_MIN..=mode.mtu_max()).contains(&config.mtu) {
            return Err(TunError::Mtu {
                name: attachment.name.clone(),
                mtu: config.mtu,
            });
        }
        TunDevice::of(attachment, mode, config)
    }

    fn of(attachment: Attachment, mode: Mode, config: PassedConfig) -> Result<Self, TunError> {
        let (capabilities, host_station) = match mode {
            Mode::Tun => (Capabilities::ip(config.mtu), None),
            Mode::Tap => {
                let host = attachment.host_station()?;
                let station = config.station.unwrap_or(station_beside(host));
                (Capabilities::ethernet(station, config.mtu), Some(host))
            }
        };
        let mut capabilities = capabilities.with_queues(attachment.queues.len());
        if attachment.has_vnet && config.offload {
            capabilities.offloads = attachment.offload();
        }
        Ok(TunDevice {
            attachment: Arc::new(attachment),
            capabilities,
            host_station,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.attachment.name
    }

    /// Whether it carries IP packets or Ethernet frames.
    pub fn mode(&self) -> Mode {
        match self.capabilities.medium {
            Medium::Ip => Mode::Tun,
            Medium::Ethernet { .. } => Mode::Tap,
        }
    }

    /// Whether the device was there before, or its descriptors were passed in.
    pub fn is_adopted(&self) -> bool {
        self.attachment.is_adopted()
    }

    /// TAP only: the Ethernet address of the system's side.
    pub fn host_station(&self) -> Option<MacAddress> {
        self.host_station
    }
}

impl Device for TunDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn decline_offloads(&mut self) {
        if self.capabilities.offloads != Offloads::NONE {
            self.attachment.decline_offloads();
            self.capabilities.offloads = Offloads::NONE;
        }
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let link = |queue| Link {
            attachment: self.attachment.clone(),
            queue,
            has_vnet: self.attachment.has_vnet,
            passage: Passage::of(&self.capabilities),
        };
        let pair = |queue| QueuePair {
            receiver: Box::new(TunReceiver::new(link(queue))),
            transmitter: Box::new(TunTransmitter::new(link(queue))),
        };
        Ok((0..self.capabilities.queues).map(pair).collect())
    }
}

/// The kernel's rule (`dev_valid_name`), and no `%`, which would ask it for a number.
fn check_name(name: &str) -> Result<(), TunError> {
    let allowed = |byte: u8| byte > b' ' && byte < 0x7f && !b"/:%".contains(&byte);
    if name.is_empty()
        || name.len() >= libc::IFNAMSIZ
        || !name.bytes().all(allowed)
        || name == "."
        || name == ".."
    {
        return Err(TunError::Name {
            name: name.to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_kernel_does() {
        for name in ["a", "tun0", "fifteen-bytes-x", "...", "a.b_c-9"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
        for name in [
            "",
            ".",
            "..",
            "sixteen-bytes-xx",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "tun%d",
            "a\0b",
            "tü",
        ] {
            assert!(
                matches!(check_name(name), Err(TunError::Name { .. })),
                "{name:?}"
            );
        }
    }
}
