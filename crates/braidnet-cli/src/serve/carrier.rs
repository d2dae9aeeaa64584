//! The device that a server stands on: which it is to be, and how it is had.

use super::placing::Queues;
use super::settings::Settings;
use super::values::Prefixed;
use crate::choices::Switch;
use crate::failure::Failure;
use crate::tunnel;
use braidnet::device::Device;
use braidnet::device::tun::{self, Mode, PassedConfig, TunConfig, TunDevice, TunError};
use std::path::PathBuf;
use std::time::Duration;

/// How long whoever sends descriptors may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device that is to be had.
#[derive(Clone, Debug)]
pub struct Carrier {
    pub which: Which,
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
    /// The one device that is asked for.
    pub fn check(settings: &Settings) -> Result<Carrier, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        let named = |mode, name: &Option<String>| name.clone().map(|name| Which::Named(mode, name));
        let inherited = Some(settings.tun_fd.clone()).filter(|numbers| !numbers.is_empty());
        let mut asked = [
            named(Mode::Tun, &settings.tun),
            named(Mode::Tap, &settings.tap),
            inherited.map(Which::Inherited),
            settings.tun_from.clone().map(Which::Passed),
        ]
        .into_iter()
        .flatten();
        let Some(which) = asked.next() else {
            return usage("name the device to serve on, such as --tun NAME or --tap NAME");
        };
        if asked.next().is_some() {
            return usage(
                "a stack has one device: name it with one of --tun, --tap, --tun-fd and --tun-from",
            );
        }
        let is_named = matches!(which, Which::Named(..));
        if settings.host.is_some() && !is_named {
            return usage(
                "--host needs --tun or --tap: a device that is passed in has what whoever opened it has set",
            );
        }
        if settings.queues.is_some() && !is_named {
            return usage(
                "--queues needs --tun or --tap: a device that is passed in has a queue for each descriptor",
            );
        }
        Ok(Carrier {
            which,
            mtu: settings.mtu,
            offload: settings.offload.is_none_or(Switch::is_on),
        })
    }

    /// Makes the device, or takes it over.
    pub fn carry(&self, host: Option<Prefixed>, queues: Queues) -> Result<Carried, Failure> {
        let device = match &self.which {
            Which::Named(mode, name) => self.create(*mode, name, host, queues),
            Which::Inherited(numbers) => {
                let inherited = numbers.iter().map(|number| tun::inherited(*number));
                inherited
                    .collect::<Result<_, _>>()
                    .and_then(|queues| self.adopt(queues))
            }
            Which::Passed(path) => {
                tun::received(path, PATIENCE).and_then(|queues| self.adopt(queues))
            }
        };
        let device = device.map_err(tunnel::refused)?;
        let name = device.name().to_owned();
        let how = match self.which {
            Which::Named(..) if device.is_adopted() => " (adopted)",
            Which::Named(..) => "",
            Which::Inherited(_) | Which::Passed(_) => " (passed in)",
        };
        Ok(Carried {
            title: format!("{} {name}{how}", device.mode()),
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

    fn adopt(&self, queues: Vec<std::os::fd::OwnedFd>) -> Result<TunDevice, TunError> {
        let usual = PassedConfig::default();
        let config = PassedConfig {
            mtu: self.mtu.unwrap_or(usual.mtu),
            offload: self.offload,
            ..usual
        };
        TunDevice::adopt(queues, config)
    }
}
