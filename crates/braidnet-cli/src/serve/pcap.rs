//! What is recorded of what passes through the device, and where.

use super::settings::Settings;
use super::values::Bytes;
use crate::failure::Failure;
use braidnet::device::capture::Ring;
use std::path::PathBuf;

/// Where packets are recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pcap {
    pub file: PathBuf,
    /// Where it is not one file.
    pub ring: Option<Ring>,
}

impl Pcap {
    /// What of it is asked for, if anything.
    pub fn check(settings: &Settings) -> Result<Option<Pcap>, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        let ring = match (settings.pcap_size, settings.pcap_ring) {
            (None, None) => None,
            (Some(_), _) if settings.pcap.is_none() => {
                return usage("--pcap-size needs --pcap FILE: which files?");
            }
            (Some(Bytes(0)), _) | (_, Some(0)) => {
                return usage("--pcap-size and --pcap-ring need more than 0");
            }
            (Some(Bytes(size)), files) => Some(Ring {
                files: files.unwrap_or(0),
                file_bytes: size as u64,
            }),
            (None, Some(_)) => {
                return usage("--pcap-ring needs --pcap-size: when is a file full?");
            }
        };
        let file = settings.pcap.clone();
        Ok(file.map(|file| Pcap { file, ring }))
    }
}
