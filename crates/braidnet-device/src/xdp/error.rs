//! Why an interface could not be taken over, each with what to do about it.

use crate::packet::PacketError;
use std::io;

/// Why a stack could not take an interface over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// The interface is not there, is down, or is none of Ethernet's.
    #[error(transparent)]
    Interface(#[from] PacketError),
    /// XDP may not be used.
    #[error("XDP needs root, or CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run as root")]
    NoPrivilege,
    /// The kernel has no XDP sockets.
    #[error("this kernel has no XDP sockets (CONFIG_XDP_SOCKETS, Linux 5.9): use packet sockets")]
    NoSystem,
    /// Another program is at the interface.
    #[error(
        "{name} has an XDP program already: `ip link show {name}` names it; stop whoever put it there"
    )]
    InUse {
        /// The interface's name.
        name: String,
    },
    /// No frame is that long.
    #[error(
        "{name} cannot have an MTU of {mtu} for the stack: use 68 to {most}, which is its own, or what a frame has room for"
    )]
    Mtu {
        /// The interface's name.
        name: String,
        /// The MTU asked for, or the interface's, in bytes.
        mtu: usize,
        /// What it can be.
        most: usize,
    },
    /// There are more queues than are to be served.
    #[error(
        "{name} has {queues} queues, and {most} are to be served: give it fewer with `ethtool -L {name} combined {most}`, or ask for more"
    )]
    Queues {
        /// The interface's name.
        name: String,
        /// What it has.
        queues: usize,
        /// What is asked for.
        most: usize,
    },
    /// The system refused.
    #[error("{name} cannot be taken over: {what}: {source}")]
    System {
        /// The interface's name.
        name: String,
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl XdpError {
    /// What the system means when it refuses `what`.
    pub(super) fn refusing<'a>(
        name: &'a str,
        what: &'static str,
    ) -> impl FnOnce(io::Error) -> XdpError + use<'a> {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => XdpError::NoPrivilege,
            Some(libc::EAFNOSUPPORT | libc::ENOSYS) => XdpError::NoSystem,
            Some(libc::EBUSY | libc::EEXIST) => XdpError::InUse { name: name.into() },
            _ => XdpError::System {
                name: name.into(),
                what,
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
            XdpError::refusing("eth9", "a socket")(error).to_string()
        };
        assert!(of(libc::EPERM).contains("CAP_BPF"));
        assert!(of(libc::EAFNOSUPPORT).contains("CONFIG_XDP_SOCKETS"));
        assert!(of(libc::EBUSY).contains("eth9 has an XDP program"));
        assert!(of(libc::ENOMEM).starts_with("eth9 cannot be taken over: a socket: "));
    }
}
