//! The system's side of a device: what it is, what is set on it, and what is taken back at the end.

use super::netlink::{InterfaceAddress, Netlink};
use super::{HostAddress, MTU_MIN, MTU_MIN_V6, Mode, TunConfig, TunError};
use crate::ioctl::{self, Channels};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::OwnedFd;

/// `IFF_UP`, in the width that the kernel uses.
const UP: u16 = libc::IFF_UP as u16;

/// One interface, and what dropping it takes back. The sockets hold on to the network namespace it lies in.
pub struct Interface {
    name: String,
    index: u32,
    adopted: bool,
    control: OwnedFd,
    netlink: Netlink,
    restore: Restore,
}

/// What an adopted interface had before, where it was changed.
#[derive(Default)]
struct Restore {
    address: Option<InterfaceAddress>,
    mtu: Option<usize>,
    down: bool,
}

impl Interface {
    /// Looks for the interface `name`, which may not exist yet; one that does must be a device of this mode.
    pub fn find(name: &str, mode: Mode) -> Result<Self, TunError> {
        let failed = |source| TunError::System {
            name: name.to_string(),
            what: "looking for the interface",
            source,
        };
        let kind = SocketType::DGRAM;
        let control = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        let netlink = Netlink::open().map_err(failed)?;
        let adopted = match ioctl::flags(&control, name) {
            Ok(_) => true,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => false,
            Err(error) => return Err(failed(error)),
        };
        if adopted {
            check_driver(&control, name, mode)?;
        }
        let restore = Restore::default();
        Ok(Interface {
            name: name.to_string(),
            index: 0,
            adopted,
            control,
            netlink,
            restore,
        })
    }

    /// The name: as asked for, and after [`attached`](Interface::attached) as it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the interface was there before.
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Takes the name that the system gave.
    pub fn attached(&mut self, name: String) {
        self.name = name;
    }

    /// Sets what the configuration says; the MTU in bytes that it has then.
    pub fn set_up(&mut self, config: &TunConfig) -> Result<usize, TunError> {
        self.note_index()?;
        if let Some(mtu) = config.mtu {
            self.set_mtu(mtu, config.mode.mtu_max())?;
        }
        if let Some(host) = config.host {
            self.set_address(host)?;
            self.bring_up()?;
        }
        self.mtu()
    }

    /// Learns the interface's index.
    fn note_index(&mut self) -> Result<(), TunError> {
        let index = netdevice::name_to_index(&self.control, &self.name);
        self.index = index.map_err(|error| self.failed("looking up the index")(error.into()))?;
        Ok(())
    }

    /// The queues of an adopted device; `None` for one that is still to be made, and where the system does not say (before Linux 4.17).
    pub fn channels(&self) -> Result<Option<Channels>, TunError> {
        if !self.adopted {
            return Ok(None);
        }
        match ioctl::channels(&self.control, &self.name) {
            Ok(channels) => Ok(Some(channels)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(self.failed("asking for the queues")(error)),
        }
    }

    /// The MTU in bytes.
    fn mtu(&self) -> Result<usize, TunError> {
        ioctl::mtu(&self.control, &self.name).map_err(self.failed("reading the MTU"))
    }

    /// Sets the MTU, at most `max`, unless it is set already.
    fn set_mtu(&mut self, mtu: usize, max: usize) -> Result<(), TunError> {
        if !(MTU_MIN..=max).contains(&mtu) {
            return Err(TunError::Mtu {
                name: self.name.clone(),
                mtu,
            });
        }
        let before = self.mtu()?;
        if before == mtu {
            return Ok(());
        }
        ioctl::set_mtu(&self.control, &self.name, mtu).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EINVAL) => TunError::Mtu {
                    name: self.name.clone(),
                    mtu,
                },
                _ => self.refused("MTU", "setting the MTU", error),
            }
        })?;
        self.restore.mtu = self.adopted.then_some(before);
        Ok(())
    }

    /// Gives the interface an address, unless it has it already.
    fn set_address(&mut self, host: HostAddress) -> Result<(), TunError> {
        let HostAddress { address, prefix } = host;
        let v4 = address.is_v4();
        if prefix > if v4 { 32 } else { 128 }
            || address.is_unspecified()
            || address.is_multicast_or_broadcast()
        {
            return Err(TunError::Address { address, prefix });
        }
        if !v4 && self.mtu()? < MTU_MIN_V6 {
            return Err(TunError::Mtu {
                name: self.name.clone(),
                mtu: self.mtu()?,
            });
        }
        let wanted = InterfaceAddress {
            index: self.index,
            address,
            prefix,
        };
        let present = self
            .netlink
            .addresses()
            .map_err(self.failed("reading the addresses"))?;
        match present.into_iter().find(|other| other.address == address) {
            Some(same) if same == wanted => return Ok(()),
            Some(other) => {
                return Err(TunError::AddressInUse {
                    address,
                    interface: self.name_of(other.index),
                });
            }
            None => {}
        }
        self.netlink
            .add(wanted)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EEXIST) => TunError::AddressInUse {
                    address,
                    interface: self.name.clone(),
                },
                _ => self.refused("address", "adding the address", error),
            })?;
        self.restore.address = self.adopted.then_some(wanted);
        Ok(())
    }

    /// Brings the interface up, unless it is up already.
    fn bring_up(&mut self) -> Result<(), TunError> {
        let flags =
            ioctl::flags(&self.control, &self.name).map_err(self.failed("reading the flags"))?;
        if flags & UP != 0 {
            return Ok(());
        }
        ioctl::set_flags(&self.control, &self.name, flags | UP)
            .map_err(|error| self.refused("state", "bringing up the interface", error))?;
        self.restore.down = self.adopted;
        Ok(())
    }

    /// Makes an error of what the system said while `what` was being done.
    pub fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> TunError + use<> {
        let name = self.name.clone();
        move |source| TunError::System { name, what, source }
    }

    /// The same, where a missing privilege has a sentence of its own.
    fn refused(&self, noun: &'static str, what: &'static str, error: io::Error) -> TunError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TunError::NoPrivilegeToSet {
                name: self.name.clone(),
                what: noun,
            },
            _ => self.failed(what)(error),
        }
    }

    fn name_of(&self, index: u32) -> String {
        netdevice::index_to_name(&self.control, index)
            .unwrap_or_else(|_| format!("interface {index}"))
    }
}

/// An adopted interface is left as it was found, as far as the system allows: there is nobody left to tell.
impl Drop for Interface {
    fn drop(&mut self) {
        if self.restore.down
            && let Ok(flags) = ioctl::flags(&self.control, &self.name)
        {
            let _ = ioctl::set_flags(&self.control, &self.name, flags & !UP);
        }
        if let Some(address) = self.restore.address {
            let _ = self.netlink.remove(address);
        }
        if let Some(mtu) = self.restore.mtu {
            let _ = ioctl::set_mtu(&self.control, &self.name, mtu);
        }
    }
}

/// Refuses what is no TUN or TAP device, or one of the other mode.
fn check_driver(control: &OwnedFd, name: &str, mode: Mode) -> Result<(), TunError> {
    let (driver, bus) = match ioctl::driver(control, name) {
        Ok(names) => names,
        // An interface without a driver to ask: the loopback interface, a bridge's port, ...
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            ("unnamed".to_string(), String::new())
        }
        Err(source) => {
            return Err(TunError::System {
                name: name.to_string(),
                what: "asking for the driver",
                source,
            });
        }
    };
    if driver != "tun" {
        return Err(TunError::NotTun {
            name: name.to_string(),
            driver,
        });
    }
    if bus != mode.to_string() {
        return Err(TunError::WrongMode {
            name: name.to_string(),
            wanted: mode,
        });
    }
    Ok(())
}
