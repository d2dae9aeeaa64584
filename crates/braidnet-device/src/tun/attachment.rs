//! An open device: its queues, and what dropping it takes back.

use super::interface::Interface;
use super::{Mode, QUEUES_MAX, TunConfig, TunError};
use crate::{MacAddress, Offloads, ioctl, vnet};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// What the system may leave to us (`linux/if_tun.h`): checksums, segments of TCP over IPv4, and datagrams of UDP, which it leaves over both versions or over none
/// (`set_offload` in `drivers/net/tun.c`, since Linux 6.2).
const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_USO: u32 = 0x20 | 0x40;

/// The open device, shared by all who use it.
///
/// The fields are dropped in this order: what was set is taken back before the device is let go.
pub struct Attachment {
    /// None where the descriptors were passed in: it may lie in another network namespace.
    pub interface: Option<Interface>,
    pub name: String,
    /// One descriptor for each queue, at least one.
    pub queues: Vec<OwnedFd>,
    /// Whether packets have a [`vnet::VnetHeader`].
    pub has_vnet: bool,
}

impl Attachment {
    /// Makes the interface `name`, or adopts it, joins it with as many queues as are asked for, and sets it up; the MTU that it has then.
    pub fn new(name: &str, config: &TunConfig) -> Result<(Attachment, usize), TunError> {
        let count = config.queues;
        if !(1..=QUEUES_MAX).contains(&count) {
            return Err(TunError::Queues {
                name: name.to_string(),
                queues: count,
            });
        }
        let mut interface = Interface::find(name, config.mode)?;
        let is_multiple = match interface.channels()? {
            Some(channels) if channels.used > 0 => {
                return Err(TunError::InUse {
                    name: name.to_string(),
                });
            }
            Some(channels) if channels.max < count => {
                return Err(TunError::OneQueue {
                    name: name.to_string(),
                    queues: count,
                });
            }
            Some(channels) => channels.max > 1,
            None => count > 1,
        };
        let first = open(&interface)?;
        let known = ioctl::features(&first).unwrap_or_default();
        let kind = match config.mode {
            Mode::Tun => libc::IFF_TUN,
            Mode::Tap => libc::IFF_TAP,
        };
        let vnet = if config.offload {
            known & libc::IFF_VNET_HDR
        } else {
            0
        };
        let multiple = if is_multiple {
            libc::IFF_MULTI_QUEUE
        } else {
            0
        };
        let flags = kind | libc::IFF_NO_PI | vnet | multiple;
        let mut queues = vec![first];
        for _ in 1..count {
            queues.push(open(&interface)?);
        }
        for queue in &queues {
            let attached = ioctl::attach(queue, interface.name(), flags);
            // The others join by the name that the system gave with the first.
            interface.attached(attached.map_err(|error| refused(error, &interface, config.mode))?);
        }
        // From here on, whatever fails, dropping the interface takes back what was set.
        let mtu = interface.set_up(config)?;
        let attachment = Attachment {
            name: interface.name().to_owned(),
            interface: Some(interface),
            queues,
            has_vnet: vnet != 0,
        };
        attachment.begin()?;
        Ok((attachment, mtu))
    }

    /// Sets what whoever held the device before may have set otherwise.
    pub fn begin(&self) -> Result<(), TunError> {
        // It keeps what it was left to leave to its holder, even if that was killed.
        self.decline_offloads();
        if !self.has_vnet {
            return Ok(());
        }
        ioctl::set_vnet_header_len(self.first(), vnet::LEN as _).map_err(|source| {
            TunError::System {
                name: self.name.clone(),
                what: "setting the length of packets' descriptions",
                source,
            }
        })
    }

    /// Whether the device was there before, or its descriptors were passed in.
    pub fn is_adopted(&self) -> bool {
        self.interface.as_ref().is_none_or(Interface::is_adopted)
    }

    /// The Ethernet address of the system's side.
    pub fn host_station(&self) -> Result<MacAddress, TunError> {
        let octets = ioctl::attached_address(self.first());
        octets.map(MacAddress).map_err(|source| TunError::System {
            name: self.name.clone(),
            what: "reading the Ethernet address",
            source,
        })
    }

    /// Lets the system leave to us what it can; what that is.
    pub fn offload(&self) -> Offloads {
        let segments = Offloads {
            datagrams: false,
            ..Offloads::ALL
        };
        let checksum = Offloads {
            checksum: true,
            ..Offloads::NONE
        };
        let offers = [
            (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_USO, Offloads::ALL),
            (TUN_F_CSUM | TUN_F_TSO4, segments),
            (TUN_F_CSUM, checksum),
        ];
        let taken = |(flags, _): &(u32, _)| ioctl::set_offload(self.first(), *flags).is_ok();
        let taken = offers.into_iter().find(taken);
        taken.map_or(Offloads::NONE, |(_, offloads)| offloads)
    }

    /// Has the system do all again. It has done so before it offered anything, so it can.
    pub fn decline_offloads(&self) {
        let _ = ioctl::set_offload(self.first(), 0);
    }

    /// What is set is the device's, and set by any of its queues.
    fn first(&self) -> &OwnedFd {
        &self.queues[0]
    }
}

/// Whoever holds an adopted device next need not know of offloads.
impl Drop for Attachment {
    fn drop(&mut self) {
        if self.is_adopted() {
            self.decline_offloads();
        }
    }
}

/// A descriptor that can be joined to the interface.
fn open(interface: &Interface) -> Result<OwnedFd, TunError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open("/dev/net/tun", flags, FileMode::empty());
    opened.map_err(|error| match error {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => TunError::NoDriver,
        Errno::ACCESS | Errno::PERM => TunError::NoAccess,
        other => interface.failed("opening /dev/net/tun")(other.into()),
    })
}

/// What `TUNSETIFF` means by its errors. That the interface is a TUN device of the right mode is checked before.
fn refused(error: io::Error, interface: &Interface, mode: Mode) -> TunError {
    let name = interface.name().to_string();
    match error.raw_os_error() {
        Some(libc::EPERM) => TunError::NoPrivilege { name, mode },
        Some(libc::EBUSY) => TunError::InUse { name },
        _ => interface.failed("joining /dev/net/tun to the interface")(error),
    }
}
