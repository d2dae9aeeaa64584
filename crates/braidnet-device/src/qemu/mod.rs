//! Ethernet frames over a stream socket, framed as qemu does it (`-netdev stream`, and `-netdev socket` in its connected forms).
//!
//! In front of each frame stands its length, 32 bits, most significant byte first (qemu's `net/stream.c`). So a stack is a virtual machine's network, or half of one, without any
//! privilege; and two stacks in two processes are joined by a socket pair.
//!
//! ```
//! use braidnet_device::qemu::{QemuConfig, QemuDevice};
//! use braidnet_device::{Device, MacAddress};
//! use std::os::unix::net::UnixStream;
//!
//! let (ours, _peers) = UnixStream::pair()?;
//! let device = QemuDevice::over(ours, QemuConfig::new(MacAddress([2, 0, 10, 0, 0, 1])))?;
//! assert_eq!(device.capabilities().mtu, 1500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it refuses
//!
//! A frame that is longer than the MTU allows is skipped and counted, [`DropReason::ReceiveOversize`](crate::DropReason::ReceiveOversize), and so is one of no bytes,
//! [`DropReason::ReceiveFramingMalformed`](crate::DropReason::ReceiveFramingMalformed). A length that no frame of qemu's has, more than [`FRAME_MAX`], says that this is another protocol, or that
//! the peer is lost in its own stream: that is counted, [`DropReason::ReceiveFramingLost`](crate::DropReason::ReceiveFramingLost), nothing behind it is looked at, the socket
//! is shut down, and the device is gone.
//!
//! # When the peer does not read
//!
//! What finds no room in the socket waits, up to [`QemuConfig::queue_packets`] frames, and leaves as there is room; whoever sleeps on the receiver's descriptor is woken for
//! that, too, and goes on receiving meanwhile. What comes beyond that is dropped and counted, [`DropReason::TransmitFull`](crate::DropReason::TransmitFull).

mod receiver;
mod transmitter;
mod way;

use crate::{Capabilities, Device, DeviceError, MacAddress, QueuePair};
use receiver::QemuReceiver;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use transmitter::QemuTransmitter;
use way::Way;

/// The longest frame that qemu sends or takes, in bytes (its `NET_BUFSIZE`).
pub const FRAME_MAX: usize = 4096 + 65_536;

/// Bytes of the length in front of a frame.
const LENGTH_LEN: usize = 4;

/// What the stack's side of such a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QemuConfig {
    /// The address that the stack answers to.
    pub station: MacAddress,
    /// Longest IP packet in bytes, 68 to 65535.
    pub mtu: usize,
    /// Frames that may wait for room in the socket; 0 counts as 1. They hold buffers of the stack's meanwhile.
    pub queue_packets: usize,
}

impl QemuConfig {
    /// This address, an MTU of 1500, and 2048 frames that may wait.
    pub const fn new(station: MacAddress) -> QemuConfig {
        QemuConfig {
            station,
            mtu: 1500,
            queue_packets: 2048,
        }
    }

    /// Whether a device can be so.
    ///
    /// # Errors
    /// [`QemuError::Mtu`].
    pub fn check(&self) -> Result<(), QemuError> {
        let mtu = self.mtu;
        if (68..=65_535).contains(&mtu) {
            Ok(())
        } else {
            Err(QemuError::Mtu { mtu })
        }
    }
}

/// One end of a connected stream socket over which frames pass.
pub struct QemuDevice {
    way: Arc<Way>,
    capabilities: Capabilities,
}

/// Why a socket is no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QemuError {
    /// The MTU is out of range.
    #[error("frames over a socket cannot have an MTU of {mtu}: use 68 to 65535")]
    Mtu {
        /// The MTU asked for, in bytes.
        mtu: usize,
    },
    /// The system refused to have the socket's calls not wait, or to wait for the socket.
    #[error("the socket cannot be used: {0}")]
    Socket(#[from] io::Error),
}

impl QemuDevice {
    /// The stack's side of a connected stream socket, Unix or TCP. Its calls do not wait from now on.
    ///
    /// # Errors
    /// See [`QemuError`].
    pub fn over(socket: impl Into<OwnedFd>, config: QemuConfig) -> Result<QemuDevice, QemuError> {
        config.check()?;
        let QemuConfig {
            station,
            mtu,
            queue_packets,
        } = config;
        let socket = socket.into();
        let flags = fcntl_getfl(&socket).map_err(io::Error::from)?;
        fcntl_setfl(&socket, flags | OFlags::NONBLOCK).map_err(io::Error::from)?;
        // A frame waits for no other; what is no TCP socket has nothing to set.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let capabilities = Capabilities::ethernet(station, mtu);
        Ok(QemuDevice {
            way: Arc::new(Way::new(socket, queue_packets.max(1))?),
            capabilities,
        })
    }
}

impl Device for QemuDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let packet_max = self.capabilities.packet_max();
        Ok(vec![QueuePair {
            receiver: Box::new(QemuReceiver::new(self.way.clone(), packet_max)),
            transmitter: Box::new(QemuTransmitter::new(self.way, packet_max)),
        }])
    }
}

#[cfg(test)]
mod tests;
