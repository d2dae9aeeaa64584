//! A device of a stack, and who is on it.

use super::carrier::Carrier;
use super::values::Prefixed;
use crate::failure::Failure;

/// A device, and who is on it.
#[derive(Clone, Debug)]
pub struct Attached {
    pub carrier: Carrier,
    pub host: Option<Prefixed>,
    /// Of the stack: on the first device at least one.
    pub addresses: Vec<Prefixed>,
}

impl Attached {
    /// Checks what can be checked before anything is made.
    pub fn check(
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
