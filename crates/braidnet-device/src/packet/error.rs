//! Why an interface could not be joined, each with what to do about it.

use std::io;

/// Why a stack could not be joined to an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// There is no interface of that name.
    #[error("there is no interface {name:?}: `ip link` lists those of this network namespace")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// It is administratively down.
    #[error("{name} is down: bring it up with `ip link set {name} up`")]
    Down {
        /// The interface's name.
        name: String,
    },
    /// Its frames are not Ethernet's.
    #[error(
        "{name} is no Ethernet interface: choose one whose `ip link` says link/ether, such as one end of a veth pair"
    )]
    NotEthernet {
        /// The interface's name.
        name: String,
    },
    /// Packet sockets may not be opened.
    #[error(
        "packet sockets need root or CAP_NET_RAW: run as root, or give the program the right with `setcap cap_net_raw+ep PROGRAM`"
    )]
    NoPrivilege,
    /// The interface has no packets of that length.
    #[error("{name} cannot have an MTU of {mtu} for the stack: use 68 to its own, {most}")]
    Mtu {
        /// The interface's name.
        name: String,
        /// The MTU asked for, in bytes.
        mtu: usize,
        /// The interface's own.
        most: usize,
    },
    /// No interface is shared among so many.
    #[error(
        "{name} cannot be shared among {queues} queues: use 1 to {}",
        super::QUEUES_MAX
    )]
    Queues {
        /// The interface's name.
        name: String,
        /// The queues asked for.
        queues: usize,
    },
    /// The system refused.
    #[error("{name} cannot be joined: {source}")]
    System {
        /// The interface's name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl PacketError {
    /// What the system means.
    pub(super) fn refused(name: &str, error: io::Error) -> PacketError {
        let name = name.to_owned();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PacketError::NoPrivilege,
            Some(libc::ENODEV | libc::ENXIO) => PacketError::NoInterface { name },
            _ => PacketError::System {
                name,
                source: error,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_means_is_told_apart() {
        let of = |number| {
            let error = io::Error::from_raw_os_error(number);
            PacketError::refused("eth9", error).to_string()
        };
        assert!(of(libc::EPERM).contains("CAP_NET_RAW"));
        assert!(of(libc::ENODEV).contains("no interface \"eth9\""));
        assert!(of(libc::ENOMEM).starts_with("eth9 cannot be joined: "));
    }
}
