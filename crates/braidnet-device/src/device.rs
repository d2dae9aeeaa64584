//! The traits that every device shares.

use crate::capture::CaptureError;
use crate::packet::PacketError;
use crate::several::MAX_DEVICES;
use crate::tun::TunError;
use crate::xdp::XdpError;
use crate::{Alarm, Counters, MacAddress};
use braidnet_message::{Pool, Run};
use braidnet_sync::parker::Unparker;
use std::os::fd::BorrowedFd;

/// Bytes left free in front of every received packet, so that whoever forwards or answers it can prepend headers in
/// place. Room for an Ethernet header with two 802.1Q tags and for one tunnel's IPv6 header.
pub const RECEIVE_HEADROOM: usize = 64;

/// Longest Ethernet header that a device lets pass beside the MTU: two addresses, one 802.1Q tag and the type.
const ETHERNET_HEADER_MAX: usize = 6 + 6 + 4 + 2;

/// What the packets of a device begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// IP packets of either version, with no link header. The FDDI-size pseudo-device of the papers is this medium
    /// with an MTU of 4352.
    Ip,
    /// Ethernet II frames, without preamble and frame check sequence.
    Ethernet {
        /// The address that the stack on this device answers to.
        address: MacAddress,
    },
}

/// What a device does of the transports' work, or spares them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offloads {
    /// It takes packets whose checksum is [partial](braidnet_message::Checksum::Partial), and says of those that arrive whether it has verified theirs.
    pub checksum: bool,
    /// It takes [trains](braidnet_message::Message::segment_bytes) of TCP over IPv4, and hands such up. Only where `checksum` is, too.
    pub segments: bool,
    /// It takes trains of datagrams of UDP over IPv4, and hands such up: of up to 128, as one that is forwarded may have. A stack's own have
    /// 64 at most. Only where `segments` is, too.
    pub datagrams: bool,
}

impl Offloads {
    /// Every packet is as it is on the wire.
    pub const NONE: Offloads = Offloads {
        checksum: false,
        segments: false,
        datagrams: false,
    };

    /// All of it.
    pub const ALL: Offloads = Offloads {
        checksum: true,
        segments: true,
        datagrams: true,
    };
}

/// What a device can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// What packets begin with.
    pub medium: Medium,
    /// Longest IP packet in bytes, link header not counted.
    pub mtu: usize,
    /// How many queue pairs the device opens into; at least 1.
    pub queues: usize,
    /// What it does of the transports' work.
    pub offloads: Offloads,
}

impl Capabilities {
    /// The FDDI MTU of RFC 1390 §3 (4352 bytes), which the papers measured with.
    pub const FDDI_MTU: usize = 4352;

    /// A device of one queue that carries bare IP packets of at most `mtu` bytes.
    pub const fn ip(mtu: usize) -> Self {
        Capabilities {
            medium: Medium::Ip,
            mtu,
            queues: 1,
            offloads: Offloads::NONE,
        }
    }

    /// A device of one queue that carries Ethernet frames, whose IP packets have at most `mtu` bytes.
    pub const fn ethernet(address: MacAddress, mtu: usize) -> Self {
        Capabilities {
            medium: Medium::Ethernet { address },
            mtu,
            queues: 1,
            offloads: Offloads::NONE,
        }
    }

    /// The same with `queues` queues; 0 counts as 1.
    pub const fn with_queues(self, queues: usize) -> Self {
        Capabilities {
            queues: if queues == 0 { 1 } else { queues },
            ..self
        }
    }

    /// The longest packet that passes, in bytes: the MTU and what the link puts in front of it (for Ethernet 18 bytes,
    /// a header with one 802.1Q tag).
    pub const fn packet_max(&self) -> usize {
        match self.medium {
            Medium::Ip => self.mtu,
            Medium::Ethernet { .. } => self.mtu.saturating_add(ETHERNET_HEADER_MAX),
        }
    }
}

/// One receive queue of a device. One processor turns it.
pub trait Receiver: Send {
    /// Takes up to `max` waiting packets and appends them to `into` in the order of arrival; returns how many. Never
    /// blocks. Fewer than `max` means that nothing more waits, that what else was looked at was dropped, or that `pool` has no buffer
    /// left; in the last case the packets stay where they are, and nothing is dropped here. What is dropped counts towards `max`, so that a call ends whatever a peer sends;
    /// what is left waits then as [`fd`](Receiver::fd) or [`has_waiting`](Receiver::has_waiting) says. Each message is one packet; a
    /// [train](braidnet_message::Message::segment_bytes) only where the device [offloads](Offloads) segments or datagrams.
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize;

    /// What becomes readable when a packet arrives, to sleep on; `None` for devices in memory.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether a packet waits, as far as that can be told without a system call: the last look between announcing
    /// sleep and sleeping ([`Parker::announce`](braidnet_sync::parker::Parker::announce)). Devices of which only a call to
    /// the system tells say `false`: that is what their [`fd`](Receiver::fd) is for.
    fn has_waiting(&self) -> bool {
        false
    }

    /// Asks for `unparker` to be called whenever packets have arrived, and when nothing will arrive any more; it
    /// replaces an earlier one. `false` if this device wakes by its [`fd`](Receiver::fd) only.
    ///
    /// The first call comes before another thread sends to this queue (handing the other end to its thread after
    /// the call does it); later calls may come at any time.
    fn wake_with(&mut self, unparker: Unparker) -> bool {
        let _ = unparker;
        false
    }

    /// What says when the queue wants to be asked again though nothing arrives; the same for the queue's whole life: when packets that are
    /// [held back](crate::impair) are due, or an interface is to be looked after of which its [`fd`](Receiver::fd) would not say that it is gone. `None` for a
    /// device that never wants that: then nobody need look.
    fn alarm(&self) -> Option<Alarm> {
        None
    }

    /// Whether nothing will ever arrive again: the device was removed, or the other end closed and all it sent was
    /// taken. Its fd should no longer be waited on then: it stays ready for ever.
    fn is_gone(&self) -> bool {
        false
    }

    /// What this queue has received and dropped.
    fn counters(&self) -> Counters;
}

/// A way out of a device. Each processor has its own.
pub trait Transmitter: Send {
    /// Takes from the front of `run`, in order, what the device can take now. What it cannot take stays in `run`,
    /// still in order. A packet that can never leave is taken, dropped and counted by name. Never blocks.
    fn transmit(&mut self, run: &mut Run);

    /// Another handle on the same queue, for another processor.
    ///
    /// # Errors
    ///
    /// Only what the particular device says; the devices of this crate do not fail here.
    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError>;

    /// What becomes writable when a device that was full can take packets again; `None` for devices in memory, to which
    /// whoever has packets left offers them again in its next turn.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// What this handle has sent and dropped.
    fn counters(&self) -> Counters;
}

/// A device that is set up and not yet in use.
pub trait Device: Send {
    /// What the device can do.
    fn capabilities(&self) -> &Capabilities;

    /// The capabilities of each device that there is in it, in order: its own, unless it is [several](crate::several::Several). Wrappers say those of what they are around.
    fn devices(&self) -> Vec<Capabilities> {
        vec![*self.capabilities()]
    }

    /// From now on every packet is as it is on the wire, both ways, and the [capabilities](Device::capabilities) say so: for wrappers that look at packets or do
    /// something to them. A device without offloads has nothing to do.
    fn decline_offloads(&mut self) {}

    /// Turns the device into its queue pairs, one per queue. The device is in use until the last receiver and
    /// transmitter are dropped.
    ///
    /// # Errors
    ///
    /// Only what the particular device says; the devices of this crate do not fail here.
    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError>;
}

/// One queue of an open device.
pub struct QueuePair {
    /// The way in.
    pub receiver: Box<dyn Receiver>,
    /// The way out.
    pub transmitter: Box<dyn Transmitter>,
}

/// Why a device could not be opened, or another handle not be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A TUN or TAP device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// An interface of the system's.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// An interface of the system's, taken over.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// A capture around a device.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// More devices than a stack can have.
    #[error("a stack has at most {MAX_DEVICES} devices, and {0} are given")]
    TooMany(usize),
    /// The system gave no descriptor to wait for several devices with.
    #[error("no descriptor to wait for several devices with: {0}")]
    Wait(#[source] std::io::Error),
}

impl<R: Receiver + ?Sized> Receiver for Box<R> {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        (**self).receive(pool, into, max)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn has_waiting(&self) -> bool {
        (**self).has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        (**self).wake_with(unparker)
    }

    fn alarm(&self) -> Option<Alarm> {
        (**self).alarm()
    }

    fn is_gone(&self) -> bool {
        (**self).is_gone()
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }
}

impl<T: Transmitter + ?Sized> Transmitter for Box<T> {
    fn transmit(&mut self, run: &mut Run) {
        (**self).transmit(run);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        (**self).another()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }

    fn devices(&self) -> Vec<Capabilities> {
        (**self).devices()
    }

    fn decline_offloads(&mut self) {
        (**self).decline_offloads();
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        (*self).open()
    }
}

/// An address for the stack on the other side of `host`: another one, individual and locally administered.
pub(crate) fn station_beside(host: MacAddress) -> MacAddress {
    let [first, middle @ .., last] = host.0;
    let [b, c, d, e] = middle;
    MacAddress([first & !0x01 | 0x02, b, c, d, e, last ^ 0x01])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_gets_a_local_address_that_is_not_the_hosts() {
        for host in [[0; 6], [0xff; 6], [2, 1, 2, 3, 4, 5]].map(MacAddress) {
            let station = station_beside(host);
            assert_ne!(station, host);
            assert_eq!(station.0[0] & 0x03, 0x02, "{station:?}");
        }
    }
}
