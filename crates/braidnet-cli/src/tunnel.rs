//! What commands that join devices have in common: how devices are named and made, and how they are told to stop.

use crate::failure::Failure;
use crate::serve::values::Prefixed;
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice, TunError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;

/// A device at one end: `tun:NAME`, `tap:NAME`, with `@NAMESPACE` in a network namespace that `ip netns` knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub mode: Mode,
    pub name: String,
    pub namespace: Option<String>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<End, String> {
        let malformed = || {
            "write tun:NAME or tap:NAME, and tun:NAME@NAMESPACE for a device in another network namespace"
                .to_owned()
        };
        let (mode, rest) = text.split_once(':').ok_or_else(malformed)?;
        let mode = match mode {
            "tun" => Mode::Tun,
            "tap" => Mode::Tap,
            _ => return Err(malformed()),
        };
        let (name, namespace) = match rest.split_once('@') {
            Some((name, namespace)) => (name, Some(namespace)),
            None => (rest, None),
        };
        let is_path = |namespace: &str| namespace.is_empty() || namespace.contains('/');
        if name.is_empty() || namespace.is_some_and(is_path) {
            return Err(malformed());
        }
        Ok(End {
            mode,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        match &self.namespace {
            Some(namespace) => write!(f, "@{namespace}"),
            None => Ok(()),
        }
    }
}

impl End {
    /// Makes the device, or adopts it, in its namespace.
    pub fn create(&self, host: Option<Prefixed>, mtu: Option<usize>) -> Result<TunDevice, Failure> {
        let config = TunConfig {
            name: Some(self.name.clone()),
            mtu,
            host: host.map(host_address),
            // Impairments and captures are of what the wire carries.
            offload: false,
            ..TunConfig::new(self.mode)
        };
        let Some(namespace) = &self.namespace else {
            return TunDevice::create(config).map_err(refused);
        };
        // A thread of its own is there, and ends there; the device stays.
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                enter(namespace)?;
                TunDevice::create(config).map_err(refused)
            });
            match there.join() {
                Ok(device) => device,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

fn enter(namespace: &str) -> Result<(), Failure> {
    let path = format!("/run/netns/{namespace}");
    let entered = File::open(&path).and_then(|file| {
        let kind = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(file.as_fd(), kind)?)
    });
    entered.map_err(|error| {
        Failure::Runtime(format!(
            "the network namespace {namespace} cannot be entered: {error}; `ip netns` lists them, and root enters them"
        ))
    })
}

/// What serving and joining give the system's side of a device.
pub fn host_address(host: Prefixed) -> HostAddress {
    let whole = if host.address.is_ipv4() { 32 } else { 128 };
    HostAddress {
        address: host.address.into(),
        prefix: host.prefix.unwrap_or(whole),
    }
}

/// Which failure it is that a device cannot be had.
pub fn refused(error: TunError) -> Failure {
    match error {
        TunError::Name { .. }
        | TunError::Mtu { .. }
        | TunError::Queues { .. }
        | TunError::Address { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Runtime(error.to_string()),
    }
}

/// Becomes readable when a signal asks for the end.
pub struct Signalled {
    told: UnixStream,
}

impl Signalled {
    /// From here on Ctrl-C, SIGTERM and SIGHUP end nothing by themselves.
    pub fn new() -> Result<Signalled, Failure> {
        let watched = || {
            let (told, tell) = UnixStream::pair()?;
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
            }
            Ok(Signalled { told })
        };
        watched().map_err(|error: std::io::Error| {
            Failure::Runtime(format!("signals cannot be watched: {error}"))
        })
    }

    /// What becomes readable.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_as_they_are_read() {
        let rows = [
            ("tun:bn0", Some((Mode::Tun, "bn0", None, "bn0"))),
            ("tap:x@left", Some((Mode::Tap, "x", Some("left"), "x@left"))),
            ("tun:x@a@b", Some((Mode::Tun, "x", Some("a@b"), "x@a@b"))),
            ("bn0", None),
            ("veth:bn0", None),
            ("tun:", None),
            ("tun:@left", None),
            ("tun:x@", None),
            ("tun:x@../left", None),
        ];
        for (text, expected) in rows {
            let read = text.parse::<End>();
            let read = read.as_ref().map(|end| {
                let namespace = end.namespace.as_deref();
                (end.mode, end.name.as_str(), namespace, end.to_string())
            });
            let expected = expected
                .map(|(mode, name, namespace, shown)| (mode, name, namespace, shown.to_owned()));
            assert_eq!(read.ok(), expected, "{text}");
        }
    }
}
