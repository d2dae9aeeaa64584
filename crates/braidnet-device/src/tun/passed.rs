//! Devices that somebody else has opened: descriptors that were inherited, or come over a Unix socket.
//!
//! So a program without any privilege gets a device, also one of another network namespace. What such a device is, the system says (`TUNGETIFF`); what its
//! interface has, addresses and MTU, it says only to who is in its namespace, so nothing of that is looked at or changed here.

use super::attachment::Attachment;
use super::{Mode, TunError};
use crate::{MacAddress, ioctl};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The most descriptors that one message carries (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// How often a wait for descriptors looks whether to go on.
const GLANCE: Duration = Duration::from_millis(50);

/// What is to be known of a device whose descriptors are passed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedConfig {
    /// Longest IP packet in bytes, 68 to 65535 (TAP: 65521): what its interface has, 1500 unless somebody has changed it.
    pub mtu: usize,
    /// TAP only: the address that the stack answers to. `None`: one made from the system side's.
    pub station: Option<MacAddress>,
    /// Whether to use what the system can do of the transports' work, if the device was made with `IFF_VNET_HDR`.
    pub offload: bool,
}

impl Default for PassedConfig {
    fn default() -> PassedConfig {
        PassedConfig {
            mtu: 1500,
            station: None,
            offload: true,
        }
    }
}

/// The descriptor of this number that this process was started with, by another number; the first stays open as long as the process lives, and programs
/// that it starts have neither. A descriptor that is closed on exec (`FD_CLOEXEC`), as all are that this crate and std open, is none: it did not come with the process, or was asked for
/// before.
///
/// # Errors
/// [`TunError::NoDescriptor`] if there is none, [`TunError::System`] if there can be no other number for it.
pub fn inherited(number: RawFd) -> Result<OwnedFd, TunError> {
    ioctl::inherited(number).map_err(|error| match error.raw_os_error() {
        Some(libc::EBADF) => TunError::NoDescriptor { number },
        _ => TunError::System {
            name: format!("descriptor {number}"),
            what: "copying",
            source: error,
        },
    })
}

/// The descriptors that whoever listens on the Unix stream socket at `path` sends in one message with at least one byte (`SCM_RIGHTS`), at most 253.
/// Meanwhile it asks, every 50 ms, whether to go on waiting.
///
/// # Errors
/// [`TunError::NotPassed`], also if nothing comes within `patience`, or before `goes_on` says no.
pub fn received(
    path: &Path,
    patience: Duration,
    goes_on: impl FnMut() -> bool,
) -> Result<Vec<OwnedFd>, TunError> {
    take(path, patience, goes_on).map_err(|source| TunError::NotPassed {
        path: path.to_owned(),
        source,
    })
}

fn take(
    path: &Path,
    patience: Duration,
    mut goes_on: impl FnMut() -> bool,
) -> io::Result<Vec<OwnedFd>> {
    let until = Instant::now() + patience;
    let socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(GLANCE))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let received = loop {
        match recvmsg(&socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() >= until => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(Errno::AGAIN | Errno::INTR) if goes_on() => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                return Err(io::Error::other("stopped before anything came"));
            }
            Err(error) => return Err(error.into()),
        }
    };
    // There is room for as many as a message carries.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "this process may not have as many open files as came (`ulimit -n`)",
        ));
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors: Vec<OwnedFd> = rights.flatten().collect();
    if descriptors.is_empty() {
        return Err(io::Error::other("what came brought no descriptor"));
    }
    Ok(descriptors)
}

/// Checks that these are the queues of one device, and takes them into use; which mode it is of.
pub fn attach(queues: Vec<OwnedFd>) -> Result<(Attachment, Mode), TunError> {
    let mut found: Option<(String, i32)> = None;
    for queue in &queues {
        let (name, flags) = ioctl::attached(queue).map_err(TunError::NotATunDescriptor)?;
        if flags & libc::IFF_DETACH_QUEUE != 0 {
            return Err(TunError::Detached { name });
        }
        match &found {
            Some((first, _)) if *first != name => {
                return Err(TunError::SeveralDevices {
                    name: first.clone(),
                    other: name,
                });
            }
            _ => found = Some((name, flags)),
        }
    }
    let Some((name, flags)) = found else {
        return Err(TunError::NoDescriptors);
    };
    // Of a device with one queue, several descriptors are all of that.
    if queues.len() > 1 && flags & libc::IFF_MULTI_QUEUE == 0 {
        return Err(TunError::OneQueue {
            name,
            queues: queues.len(),
        });
    }
    let mode = if flags & libc::IFF_TAP != 0 {
        Mode::Tap
    } else {
        Mode::Tun
    };
    for queue in &queues {
        rustix::fs::fcntl_getfl(queue)
            .and_then(|flags| rustix::fs::fcntl_setfl(queue, flags | OFlags::NONBLOCK))
            .map_err(|error| TunError::System {
                name: name.clone(),
                what: "having reads not wait",
                source: error.into(),
            })?;
    }
    let has_vnet = flags & libc::IFF_VNET_HDR != 0;
    let attachment = Attachment {
        interface: None,
        name,
        queues,
        has_vnet,
    };
    attachment.begin()?;
    Ok((attachment, mode))
}
