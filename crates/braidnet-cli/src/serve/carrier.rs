//! The device that a server stands on: which it is to be, and how it is had.

use super::further::Further;
use super::placing::Queues;
use super::settings::Settings;
use super::values::Prefixed;
use crate::choices::Switch;
use crate::failure::Failure;
use crate::tunnel;
use braidnet::device::packet::{PacketConfig, PacketDevice, PacketError};
use braidnet::device::qemu::{QemuConfig, QemuDevice};
use braidnet::device::tun::{self, Mode, PassedConfig, TunConfig, TunDevice, TunError};
use braidnet::device::xdp::{XdpConfig, XdpDevice, XdpError};
use braidnet::device::{Device, MacAddress};
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// How long whoever sends descriptors may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a wait for whoever connects looks for signals.
const GLANCE: Duration = Duration::from_millis(50);

/// A device that is to be had.
#[derive(Clone, Debug)]
pub struct Carrier {
    pub which: Which,
    /// The Ethernet address that was asked for, and one for devices that bring none.
    station: Option<MacAddress>,
    fallback: MacAddress,
    mtu: Option<usize>,
    offload: bool,
}

/// Which device, and by what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// A TUN or TAP device, by its name.
    Named(Mode, String),
    /// One whose descriptors this process was started with, by their numbers.
    Inherited(Vec<i32>),
    /// One whose descriptors come from whoever listens there.
    Passed(PathBuf),
    /// An Ethernet interface of the system's, by its name.
    Packet(String),
    /// One that is taken over.
    Xdp(String),
    /// Frames of the first who connects to the Unix socket there.
    Qemu(PathBuf),
}

impl Which {
    /// What it is called before it is there.
    pub fn name(&self) -> String {
        match self {
            Which::Named(_, name) | Which::Packet(name) | Which::Xdp(name) => name.clone(),
            Which::Inherited(_) => "a device that is inherited".to_owned(),
            Which::Passed(path) | Which::Qemu(path) => path.display().to_string(),
        }
    }
}

/// A device that is there.
pub struct Carried {
    pub device: Box<dyn Device>,
    /// What it is called.
    pub name: String,
    /// The same, with what there is to be said of it.
    pub title: String,
}

impl Carrier {
    /// The first device that is asked for.
    pub fn check(settings: &Settings) -> Result<Carrier, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        let named = |mode, name: &Option<String>| name.clone().map(|name| Which::Named(mode, name));
        let inherited = Some(settings.tun_fd.clone()).filter(|numbers| !numbers.is_empty());
        let mut asked = [
            named(Mode::Tun, &settings.tun),
            named(Mode::Tap, &settings.tap),
            inherited.map(Which::Inherited),
            settings.tun_from.clone().map(Which::Passed),
            settings.packet.clone().map(Which::Packet),
            settings.xdp.clone().map(Which::Xdp),
            settings.qemu.clone().map(Which::Qemu),
        ]
        .into_iter()
        .flatten();
        let Some(which) = asked.next() else {
            return usage("name the device to serve on, such as --tun NAME or --tap NAME");
        };
        if asked.next().is_some() {
            return usage(
                "name the first device with one of --tun, --tap, --tun-fd, --tun-from, --packet, --xdp and --qemu, and further ones with --device",
            );
        }
        let is_named = matches!(which, Which::Named(..));
        if settings.host.is_some() && !is_named {
            return usage(
                "--host needs --tun or --tap: it is not for this side to set addresses of other devices",
            );
        }
        let has_queues = is_named || matches!(which, Which::Packet(_));
        if settings.queues.is_some() && !has_queues {
            return usage(
                "--queues needs --tun, --tap or --packet: a device that is passed in has a queue for each descriptor, one that is taken over those that it has, a socket one",
            );
        }
        let is_plain = matches!(which, Which::Qemu(_) | Which::Xdp(_));
        if settings.offload.is_some() && is_plain {
            return usage(
                "--offload is for TUN and TAP devices and --packet: nothing else offloads anything",
            );
        }
        if let Which::Inherited(numbers) = &which {
            let is_again = |(at, number)| numbers[..at].contains(number);
            if numbers.iter().enumerate().any(is_again) {
                return usage("--tun-fd names each descriptor once: each is a queue of its own");
            }
        }
        let has_station = !matches!(which, Which::Named(Mode::Tun, _));
        let station = match settings.mac {
            Some(_) if !has_station => return Err(Failure::Usage(no_frames("--mac"))),
            station => station.map(|station| station.0),
        };
        Ok(Carrier {
            which,
            station,
            fallback: settings
                .address
                .first()
                .map_or(MacAddress::ZERO, station_of),
            mtu: settings.mtu,
            offload: settings.offload.is_none_or(Switch::is_on),
        })
    }

    /// A further device, the `number`th beside the first.
    pub fn further(number: u8, further: &Further, settings: &Settings) -> Carrier {
        let fallback = match (further.addresses.first(), settings.address.first()) {
            (Some(own), _) => station_of(own),
            (None, Some(first)) => station_on(number, first),
            (None, None) => MacAddress::ZERO,
        };
        Carrier {
            which: further.which.clone(),
            station: further.mac.map(|station| station.0),
            fallback,
            mtu: further.mtu,
            offload: (further.offload.or(settings.offload)).is_none_or(Switch::is_on),
        }
    }

    /// Makes the device, or takes it over.
    pub fn carry(
        &self,
        host: Option<Prefixed>,
        queues: Queues,
        signals: &Receiver<i32>,
    ) -> Result<Carried, Failure> {
        let device = match &self.which {
            Which::Named(mode, name) => self.create(*mode, name, host, queues),
            Which::Inherited(numbers) => {
                let queues = numbers.iter().map(|number| tun::inherited(*number));
                queues
                    .collect::<Result<_, _>>()
                    .and_then(|queues| self.adopt(queues))
            }
            Which::Passed(path) => {
                let goes_on = || matches!(signals.try_recv(), Err(TryRecvError::Empty));
                tun::received(path, PATIENCE, goes_on).and_then(|queues| self.adopt(queues))
            }
            Which::Packet(name) => return self.joined(name, queues),
            Which::Xdp(name) => return self.taken_over(name, queues),
            Which::Qemu(path) => return self.connected(path, signals),
        };
        let device = device.map_err(tunnel::refused)?;
        if self.station.is_some() && device.mode() == Mode::Tun {
            return Err(Failure::Usage(no_frames("--mac")));
        }
        let name = device.name().to_owned();
        let how = match self.which {
            Which::Named(..) if device.is_adopted() => " (adopted)",
            Which::Named(..) => "",
            _ => " (passed in)",
        };
        Ok(Carried {
            title: format!("{} {name}{how}", device.mode()),
            name,
            device: Box::new(device),
        })
    }

    /// Joins an interface, beside the system.
    fn joined(&self, name: &str, queues: Queues) -> Result<Carried, Failure> {
        let config = PacketConfig {
            mtu: self.mtu,
            // Others may join the same interface: what differs are the addresses of their stacks.
            station: Some(self.station.unwrap_or(self.fallback)),
            offload: self.offload,
            queues: queues.count(),
            ..PacketConfig::on(name)
        };
        let device = PacketDevice::attach(config).map_err(|error| match error {
            PacketError::Mtu { .. } | PacketError::Queues { .. } => {
                Failure::Usage(error.to_string())
            }
            _ => Failure::Runtime(error.to_string()),
        })?;
        Ok(Carried {
            title: format!("packet {name}"),
            name: name.to_owned(),
            device: Box::new(device),
        })
    }

    /// Takes an interface over. It has as many queues as it has.
    fn taken_over(&self, name: &str, queues: Queues) -> Result<Carried, Failure> {
        let config = XdpConfig {
            mtu: self.mtu,
            station: self.station,
            queues: queues.count(),
            ..XdpConfig::on(name)
        };
        let device = XdpDevice::attach(config).map_err(|error| match error {
            XdpError::Mtu { .. } => Failure::Usage(error.to_string()),
            _ => Failure::Runtime(error.to_string()),
        })?;
        let how = match (device.is_native(), device.is_zero_copy()) {
            (true, true) => "in the driver, without copies by the kernel",
            (true, false) => "in the driver",
            _ => "behind the driver",
        };
        Ok(Carried {
            title: format!("xdp {name} ({how})"),
            name: name.to_owned(),
            device: Box::new(device),
        })
    }

    /// Waits at a Unix socket for the first who connects.
    fn connected(&self, path: &Path, signals: &Receiver<i32>) -> Result<Carried, Failure> {
        let name = path.display().to_string();
        let failed = |error: &dyn Display| Failure::Runtime(format!("{name}: {error}"));
        let usual = QemuConfig::new(self.station.unwrap_or(self.fallback));
        let config = QemuConfig {
            mtu: self.mtu.unwrap_or(usual.mtu),
            ..usual
        };
        config
            .check()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let listener = UnixListener::bind(path).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                failed(&"the file is there already: remove it if nobody listens there")
            }
            io::ErrorKind::NotFound => failed(
                &"the folder that it is to be in does not exist: make it, or name another path",
            ),
            _ => failed(&error),
        })?;
        // Nobody else is let in, and nothing is left behind.
        let accepted = accept(&listener, signals);
        let _ = std::fs::remove_file(path);
        let Some(socket) = accepted.map_err(|error| failed(&error))? else {
            return Err(failed(&"stopped before anybody connected"));
        };
        let device = QemuDevice::over(socket, config).map_err(|error| failed(&error))?;
        Ok(Carried {
            title: format!("qemu {name}"),
            name,
            device: Box::new(device),
        })
    }

    /// With fewer queues than there could be where nobody has asked for more.
    fn create(
        &self,
        mode: Mode,
        name: &str,
        host: Option<Prefixed>,
        queues: Queues,
    ) -> Result<TunDevice, TunError> {
        let config = TunConfig {
            name: Some(name.to_owned()),
            mtu: self.mtu,
            offload: self.offload,
            host: host.map(tunnel::host_address),
            queues: queues.count(),
            station: self.station,
            ..TunConfig::new(mode)
        };
        match (TunDevice::create(config.clone()), queues) {
            (Err(TunError::OneQueue { .. }), Queues::AtBest(_)) => TunDevice::create(TunConfig {
                queues: 1,
                ..config
            }),
            (device, _) => device,
        }
    }

    fn adopt(&self, queues: Vec<OwnedFd>) -> Result<TunDevice, TunError> {
        let usual = PassedConfig::default();
        let config = PassedConfig {
            mtu: self.mtu.unwrap_or(usual.mtu),
            offload: self.offload,
            station: self.station,
        };
        TunDevice::adopt(queues, config)
    }
}

/// What is said where an Ethernet address is for nobody.
pub fn no_frames(word: &str) -> String {
    format!("{word} needs a device of Ethernet frames: a TUN device has none")
}

/// The first who connects; none if a signal comes before.
fn accept(listener: &UnixListener, signals: &Receiver<i32>) -> io::Result<Option<UnixStream>> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match signals.recv_timeout(GLANCE) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(None),
        }
    }
}

/// A locally administered Ethernet address for a stack of this IP address: as different from its neighbours' as that is.
fn station_of(own: &Prefixed) -> MacAddress {
    station_on(0, own)
}

/// The same for one on a device of this number that has no address of its own: two of its devices may be on one link.
fn station_on(number: u8, own: &Prefixed) -> MacAddress {
    let [a, b, c, d] = match own.address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d]
        }
    };
    MacAddress([2, number, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_another_station() {
        let text = "packet = 'eth0'\naddress = '10.77.0.2/24'\ndevice = ['packet=eth1', 'packet=eth2', 'packet=eth3,address=10.77.0.3']";
        let settings: Settings = toml::from_str(text).unwrap();
        let further = (1..).zip(&settings.device);
        let further = further.map(|(number, device)| Carrier::further(number, device, &settings));
        let first = Carrier::check(&settings).unwrap();
        let stations: Vec<_> = std::iter::once(first)
            .chain(further)
            .map(|one| one.fallback.0)
            .collect();
        let expected = [
            [2, 0, 10, 77, 0, 2],
            [2, 1, 10, 77, 0, 2],
            [2, 2, 10, 77, 0, 2],
            [2, 0, 10, 77, 0, 3],
        ];
        assert_eq!(stations, expected);
    }
}
