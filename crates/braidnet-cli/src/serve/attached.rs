//! A device of a stack, and who is on it.

use super::carrier::Carrier;
use super::settings::Settings;
use super::values::Prefixed;
use crate::failure::Failure;
use braidnet::device::several::MAX_DEVICES;

/// A device, and who is on it.
#[derive(Clone, Debug)]
pub struct Attached {
    pub carrier: Carrier,
    pub host: Option<Prefixed>,
    /// Of the stack: on the first device at least one.
    pub addresses: Vec<Prefixed>,
}

impl Attached {
    /// All devices that are asked for, the first one first.
    pub fn all(settings: &Settings) -> Result<Vec<Attached>, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        let first = Carrier::check(settings)?;
        let own = settings.address.clone();
        if own.is_empty() {
            return usage(
                "give the stack an address: --address ADDRESS, such as --address 10.77.0.2",
            );
        }
        if settings.device.len() >= MAX_DEVICES {
            return usage(&format!("a stack stands on at most {MAX_DEVICES} devices"));
        }
        let mut devices = vec![Attached::check(first, settings.host, own)?];
        for (number, further) in (1..).zip(&settings.device) {
            let name = further.which.name();
            let is_it = |other: &Attached| other.carrier.which.name() == name;
            if devices.iter().any(is_it) {
                return usage(&format!("{name} is named twice: each device is another"));
            }
            let carrier = Carrier::further(number, further, settings);
            let own = further.addresses.clone();
            devices.push(Attached::check(carrier, further.host, own)?);
        }
        Ok(devices)
    }

    /// Checks what can be checked before anything is made.
    fn check(
        carrier: Carrier,
        host: Option<Prefixed>,
        addresses: Vec<Prefixed>,
    ) -> Result<Attached, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        if let Some(host) = host {
            if host.prefix.is_none() {
                return usage(
                    "--host needs the prefix of the network behind the device, such as --host 10.77.0.1/24",
                );
            }
            if addresses.iter().any(|own| own.address == host.address) {
                return usage(
                    "--host and --address name the two ends of the device: they cannot be the same address",
                );
            }
        }
        Ok(Attached {
            carrier,
            host,
            addresses,
        })
    }
}
