//! An Ethernet interface of the system's, shared with it: Linux packet sockets (AF_PACKET).
//!
//! [`PacketDevice::attach`] joins a stack to an interface that is there: a network card, a bridge, one end of a veth pair. The stack has an Ethernet address of its own there,
//! and IP addresses of its own, beside the system's; nothing of the interface's is changed, and nothing is left behind.
//!
//! ```no_run
//! use braidnet_device::Device;
//! use braidnet_device::packet::{PacketConfig, PacketDevice};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = PacketDevice::attach(PacketConfig::on("eth0"))?;
//! println!("frames of up to {} bytes", device.capabilities().packet_max());
//! let queues = Box::new(device).open()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Whose a frame is
//!
//! Handed up is what comes in for the stack's Ethernet address, for groups and for all, as a card of that address would: the rest the system's filter leaves out, and so it does
//! what the system itself sends by this interface. So the two do not meet: to reach the stack from the same machine, go by the other end of a veth pair.
//!
//! The system takes what is for other Ethernet addresses than its own for another host's, and is silent. If it had one of the stack's IP *addresses* on any
//! interface, it would answer for it, too, and reset the stack's connections: give the stack addresses that the system has not.
//!
//! # Why frames are handed over one by one
//!
//! What arrives lies in a ring in memory that is shared with the system, and is copied out of it once, without a system call. Of its forms this is the second
//! (`TPACKET_V2`), which hands over frame by frame. The third packs frames of any length into blocks, and tells nobody of them before a block is full, or a timer of 1 ms at the
//! least is over: a round trip that takes tens of microseconds would wait for it each time. What is longer than a ring's slot is read from the socket (`PACKET_COPY_THRESH`).
//! Out goes a batch with one call (`sendmmsg`), each packet copied once, from where its blocks lie.
//!
//! # Offloads
//!
//! A veth pair, and a card that joins segments, hand up packets of up to 64 KiB that stand for many segments, and local senders leave checksums to whoever has to make them. What
//! the system says of a packet (`PACKET_VNET_HDR`) is held against it, as with a [TUN device](crate::tun). Where the configuration declines offloads, checksums
//! are made here, and packets of many segments dropped, [`DropReason::ReceiveOffloadUnsupported`](crate::DropReason::ReceiveOffloadUnsupported), because the system
//! does not cut them on their way in: have whoever sends them cut them (`ethtool -K PEER tso off gso off`, and `gro off` for a card). So it is always with
//! trains of TCP over IPv6, and before Linux 6.2, whose packet sockets know of no others, with those of UDP.
//!
//! # Several queues
//!
//! Each is a socket of its own with a ring of its own; the system deals flows among them by a hash (`PACKET_FANOUT_HASH`), in both directions the same. It is not the hash by which
//! processors have their connections, so that a part of what arrives is handed on.
//!
//! # What it refuses
//!
//! Interfaces of other links than Ethernet. What comes with a VLAN's tag ([`DropReason::ReceiveVlanTagged`](crate::DropReason::ReceiveVlanTagged)): attach to the VLAN's own
//! interface. A ring that is full drops what comes: the system counts it, and it appears as
//! [`DropReason::ReceiveRingFull`](crate::DropReason::ReceiveRingFull) with the next packet.

mod error;
mod interface;
mod receiver;
mod ring;
mod socket;
mod transmitter;

pub use error::PacketError;
pub(crate) use interface::Interface;
pub(crate) use socket::PacketSocket;

use crate::device::station_beside;
use crate::passage::Passage;
use crate::{Capabilities, Device, DeviceError, MacAddress, Offloads, QueuePair};
use receiver::PacketReceiver;
use ring::Ring;
use std::sync::Arc;
use transmitter::PacketTransmitter;

/// The most queues that share an interface (the system's default, `PACKET_FANOUT`).
pub const QUEUES_MAX: usize = 256;

/// The smallest MTU an interface can have, and the longest packet there is (RFC 791 §3.1): some interfaces say that they have no limit.
const MTU_MIN: usize = 68;
const MTU_MAX: usize = 65_535;

/// Which interface, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// The interface's name, 1 to 15 bytes, in the calling thread's network namespace.
    pub name: String,
    /// Longest IP packet in bytes, 68 to the interface's MTU and 65,535. `None`: the most.
    pub mtu: Option<usize>,
    /// The Ethernet address that the stack answers to. `None`: one made from the interface's.
    pub station: Option<MacAddress>,
    /// Whether to use what the system can do of the transports' work.
    pub offload: bool,
    /// How many queues, 1 to [`QUEUES_MAX`].
    pub queues: usize,
}

impl PacketConfig {
    /// The interface of this name, everything else as usual.
    pub fn on(name: impl Into<String>) -> PacketConfig {
        PacketConfig {
            name: name.into(),
            mtu: None,
            station: None,
            offload: true,
            queues: 1,
        }
    }
}

/// An interface that a stack shares with the system.
pub struct PacketDevice {
    name: String,
    capabilities: Capabilities,
    interface: u32,
    queues: Vec<(PacketSocket, Ring)>,
    outlet: PacketSocket,
}

impl PacketDevice {
    /// Joins the interface. From here on packets wait for the stack.
    ///
    /// # Errors
    /// See [`PacketError`]: each says what to do.
    pub fn attach(config: PacketConfig) -> Result<PacketDevice, PacketError> {
        if !(1..=QUEUES_MAX).contains(&config.queues) {
            return Err(PacketError::Queues {
                name: config.name,
                queues: config.queues,
            });
        }
        let interface = Interface::find(&config.name)?;
        let mtu = mtu(&config, interface.mtu)?;
        let station = config.station.unwrap_or(station_beside(interface.address));
        let mut capabilities = Capabilities::ethernet(station, mtu).with_queues(config.queues);
        if config.offload {
            capabilities.offloads = Offloads {
                datagrams: joins_datagrams(&release()),
                ..Offloads::ALL
            };
        }
        let refused = |error| PacketError::refused(&config.name, error);
        let queues = interface.share(&capabilities).map_err(refused)?;
        let outlet = PacketSocket::open()
            .and_then(|socket| socket.begin_sending(interface.index).map(|()| socket));
        Ok(PacketDevice {
            outlet: outlet.map_err(refused)?,
            interface: interface.index,
            name: config.name,
            capabilities,
            queues,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The MTU that is asked for, or the most, of an interface that has this one.
fn mtu(config: &PacketConfig, interface: usize) -> Result<usize, PacketError> {
    let most = interface.min(MTU_MAX);
    let mtu = config.mtu.unwrap_or(most);
    if (MTU_MIN..=most).contains(&mtu) {
        return Ok(mtu);
    }
    Err(PacketError::Mtu {
        name: config.name.clone(),
        mtu,
        most,
    })
}

/// Whether packet sockets of this release of Linux know packets of many datagrams (`VIRTIO_NET_HDR_GSO_UDP_L4` in `linux/virtio_net.h`, since 6.2). Nothing else says so
/// before one is sent.
fn joins_datagrams(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    next().zip(next()) >= Some((6, 2))
}

/// The system's release; nothing where it cannot be read.
fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Whether this process may open packet sockets, and the system's can do what is asked of them here.
///
/// # Errors
/// See [`PacketError`].
pub fn check_system() -> Result<(), PacketError> {
    let tried = PacketSocket::open().and_then(|socket| {
        socket.describe_packets()?;
        Ring::of(
            &socket,
            Capabilities::ethernet(MacAddress::ZERO, 1500).packet_max(),
        )
    });
    tried
        .map(drop)
        .map_err(|error| PacketError::refused("packet sockets", error))
}

impl Device for PacketDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn decline_offloads(&mut self) {
        self.capabilities.offloads = Offloads::NONE;
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let passage = Passage::of(&self.capabilities);
        let outlet = Arc::new(self.outlet);
        let pair = |(socket, ring)| QueuePair {
            receiver: Box::new(PacketReceiver::new(socket, ring, passage, self.interface)),
            transmitter: Box::new(PacketTransmitter::new(outlet.clone(), passage)),
        };
        Ok(self.queues.into_iter().map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_from_each_other() {
        for release in ["6.2.0", "6.18.44-generic\n", "6.10", "7.0.1", "10.1"] {
            assert!(joins_datagrams(release), "{release:?}");
        }
        for release in [
            "6.1.99",
            "5.15.0-91-generic",
            "6",
            "",
            "x.y",
            "4.18.0-553.el8",
        ] {
            assert!(!joins_datagrams(release), "{release:?}");
        }
    }

    #[test]
    fn an_interface_without_a_limit_has_that_of_ip() {
        let rows = [
            (None, 1500, Some(1500)),
            (Some(68), 1500, Some(68)),
            (Some(1501), 1500, None),
            (None, 1 << 31, Some(65_535)),
            (Some(65_536), 1 << 31, None),
            (None, 67, None),
        ];
        for (asked, interface, expected) in rows {
            let config = PacketConfig {
                mtu: asked,
                ..PacketConfig::on("eth9")
            };
            let found = mtu(&config, interface).ok();
            assert_eq!(found, expected, "{asked:?} of {interface}");
        }
    }
}
