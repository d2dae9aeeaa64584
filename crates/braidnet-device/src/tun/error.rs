//! Why a TUN or TAP device could not be had, each with what to do about it.

use super::Mode;
use braidnet_wire::address::Address;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// Why a TUN or TAP device could not be made, adopted or set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The name is empty, too long, or holds characters that interface names may not have.
    #[error(
        "{name:?} is no interface name: use 1 to 15 bytes without '/', ':', '%' and white space, and not \".\" or \"..\""
    )]
    Name {
        /// The name asked for.
        name: String,
    },
    /// `/dev/net/tun` is not there.
    #[error(
        "there is no /dev/net/tun: load the driver with `modprobe tun` as root, or hand the device to the container (for \
         example `--device /dev/net/tun`)"
    )]
    NoDriver,
    /// `/dev/net/tun` may not be opened.
    #[error(
        "this user may not open /dev/net/tun: run as root, or have an administrator run `chmod 0666 /dev/net/tun`"
    )]
    NoAccess,
    /// A device may not be made, or that of this name not be adopted.
    #[error(
        "making or adopting {name} needs root or CAP_NET_ADMIN; or have an administrator run `ip tuntap add dev {name} \
         mode {mode} user $USER` once and use it by that name"
    )]
    NoPrivilege {
        /// The name asked for.
        name: String,
        /// Whether it was to be TUN or TAP.
        mode: Mode,
    },
    /// Another process holds the device.
    #[error("{name} is in use by another process: stop that one, or choose another name")]
    InUse {
        /// The device's name.
        name: String,
    },
    /// There is an interface of that name that is no TUN or TAP device.
    #[error(
        "{name} exists and is no TUN or TAP device (its driver is {driver}): choose another name"
    )]
    NotTun {
        /// The interface's name.
        name: String,
        /// What the interface's driver calls itself.
        driver: String,
    },
    /// There is a device of that name in the other mode.
    #[error("{name} exists in the other mode: open it as {} or choose another name", .wanted.other())]
    WrongMode {
        /// The device's name.
        name: String,
        /// The mode asked for.
        wanted: Mode,
    },
    /// There is a device of that name that was made for one queue.
    #[error(
        "{name} exists with one queue, and {queues} are wanted: make it again with `ip tuntap add dev {name} ... multi_queue`, or ask \
         for one"
    )]
    OneQueue {
        /// The device's name.
        name: String,
        /// The queues asked for.
        queues: usize,
    },
    /// No device has so many queues.
    #[error("{name} cannot have {queues} queues: use 1 to {}", super::QUEUES_MAX)]
    Queues {
        /// The device's name.
        name: String,
        /// The queues asked for.
        queues: usize,
    },
    /// No descriptor of this number is open.
    #[error(
        "there is no descriptor {number}: whoever starts this program opens it and leaves it open"
    )]
    NoDescriptor {
        /// The number asked for.
        number: RawFd,
    },
    /// No descriptor was given.
    #[error("a device has a descriptor for each queue, and none was given")]
    NoDescriptors,
    /// No descriptor came over a Unix socket.
    #[error(
        "no descriptor came from {}: {source}; whoever listens there sends a byte and the descriptors of one device (SCM_RIGHTS)",
        path.display()
    )]
    NotPassed {
        /// The socket's path.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A descriptor is no TUN or TAP device's, or not joined to one.
    #[error(
        "the descriptor passed in is of no TUN or TAP device: {0}; whoever opened it joins it with TUNSETIFF"
    )]
    NotATunDescriptor(#[source] io::Error),
    /// The descriptors are of different devices.
    #[error("the descriptors passed in are of {name} and of {other}: pass those of one device")]
    SeveralDevices {
        /// One device's name.
        name: String,
        /// Another's.
        other: String,
    },
    /// A descriptor's queue is detached: no packet passes it.
    #[error(
        "a queue of {name} that was passed in is detached: whoever opened it attaches it again (TUNSETQUEUE)"
    )]
    Detached {
        /// The device's name.
        name: String,
    },
    /// The MTU is out of range.
    #[error(
        "{name} cannot have an MTU of {mtu}: use 68 to 65535 (TAP: 65521), and at least 1280 where it has an IPv6 address"
    )]
    Mtu {
        /// The device's name.
        name: String,
        /// The MTU asked for, in bytes.
        mtu: usize,
    },
    /// The address is no host's, or the prefix too long.
    #[error(
        "{address}/{prefix} cannot be given to an interface: use a unicast address and a prefix of at most 32 (IPv4) or \
         128 (IPv6) bits"
    )]
    Address {
        /// The address asked for.
        address: Address,
        /// The prefix asked for, in bits.
        prefix: u8,
    },
    /// The address is another interface's, or was given to this one with another prefix.
    #[error("{address} is in use on {interface}: choose another address, or remove it there")]
    AddressInUse {
        /// The address asked for.
        address: Address,
        /// Who has it.
        interface: String,
    },
    /// Setting the interface up needs a privilege that adopting it did not.
    #[error(
        "{name} was adopted, but its {what} cannot be changed without CAP_NET_ADMIN: run as root, or have an administrator \
         set it with `ip`, and ask for what it has"
    )]
    NoPrivilegeToSet {
        /// The device's name.
        name: String,
        /// What was to be changed.
        what: &'static str,
    },
    /// Any other refusal of the system.
    #[error("{what} of {name} failed: {source}")]
    System {
        /// The device's name.
        name: String,
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_says_what_to_do() {
        let name = || "net0".to_string();
        let address = Address::v4([10, 0, 0, 1]);
        let rows = [
            (TunError::Name { name: "a/b".into() }, "1 to 15 bytes"),
            (TunError::NoDriver, "modprobe tun"),
            (TunError::NoAccess, "chmod"),
            (
                TunError::NoPrivilege {
                    name: name(),
                    mode: Mode::Tap,
                },
                "ip tuntap add dev net0 mode tap user $USER",
            ),
            (TunError::InUse { name: name() }, "stop that one"),
            (
                TunError::NotTun {
                    name: name(),
                    driver: "veth".into(),
                },
                "veth",
            ),
            (
                TunError::WrongMode {
                    name: name(),
                    wanted: Mode::Tun,
                },
                "open it as tap",
            ),
            (
                TunError::OneQueue {
                    name: name(),
                    queues: 2,
                },
                "multi_queue",
            ),
            (
                TunError::Queues {
                    name: name(),
                    queues: 257,
                },
                "1 to 256",
            ),
            (
                TunError::NoDescriptor { number: 7 },
                "no descriptor 7: whoever starts this program opens it",
            ),
            (TunError::NoDescriptors, "for each queue"),
            (
                TunError::NotPassed {
                    path: "/run/tun".into(),
                    source: io::ErrorKind::TimedOut.into(),
                },
                "SCM_RIGHTS",
            ),
            (
                TunError::NotATunDescriptor(io::ErrorKind::Unsupported.into()),
                "TUNSETIFF",
            ),
            (
                TunError::SeveralDevices {
                    name: name(),
                    other: "net1".into(),
                },
                "net0 and of net1",
            ),
            (TunError::Detached { name: name() }, "TUNSETQUEUE"),
            (
                TunError::Mtu {
                    name: name(),
                    mtu: 9,
                },
                "68 to 65535",
            ),
            (
                TunError::Address {
                    address,
                    prefix: 33,
                },
                "10.0.0.1/33",
            ),
            (
                TunError::AddressInUse {
                    address,
                    interface: "eth0".into(),
                },
                "eth0",
            ),
            (
                TunError::NoPrivilegeToSet {
                    name: name(),
                    what: "MTU",
                },
                "its MTU",
            ),
        ];
        for (error, part) in rows {
            let sentence = error.to_string();
            assert!(sentence.contains(part), "{sentence:?} lacks {part:?}");
        }
    }
}
