//! What settings are written as: addresses with prefixes, sizes and times with units, ports with directories.

use crate::units;
use braidnet::device::MacAddress;
use braidnet::inet::route::{Prefix, PrefixError};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// An address, and the length in bits of its network's prefix where one is given: `10.77.0.1/24`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefixed {
    pub address: IpAddr,
    pub prefix: Option<u8>,
}

impl Prefixed {
    /// Whether `other` lies on this address's network.
    pub fn holds(&self, other: IpAddr) -> bool {
        let Some(prefix) = self.prefix else {
            return self.address == other;
        };
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(32u32.saturating_sub(prefix.into()))
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(128u32.saturating_sub(prefix.into()))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

/// A text that is not what it should be: what it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl FromStr for Prefixed {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Prefixed, Malformed> {
        let malformed =
            Malformed("write an address, with or without its prefix, such as 10.77.0.1/24");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed.clone())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.map(str::parse::<u8>) {
            None => None,
            Some(Ok(bits)) if bits <= longest => Some(bits),
            Some(_) => return Err(malformed),
        };
        Ok(Prefixed { address, prefix })
    }
}

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// A network and the way to there: `10.0.0.0/8=10.77.0.1`, or with ip-route's words `10.0.0.0/8 via 10.77.0.1 dev bn1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    pub prefix: Prefix,
    pub gateway: Option<IpAddr>,
    /// The name of a device.
    pub device: Option<String>,
}

impl FromStr for Routed {
    type Err = String;

    fn from_str(text: &str) -> Result<Routed, String> {
        let malformed = "write a network and the way to there, such as 10.0.0.0/8=10.77.0.1, \"10.0.0.0/8 via 10.77.0.1 dev bn1\" or \"default dev bn1\"";
        let words: Vec<&str> = match text.split_once('=') {
            Some((prefix, gateway)) => vec![prefix, "via", gateway],
            None => text.split_whitespace().collect(),
        };
        let (prefix, way) = words.split_first().ok_or(malformed)?;
        let (gateway, device) = match way {
            ["via", gateway] => (Some(gateway), None),
            ["dev", device] => (None, Some(device)),
            ["via", gateway, "dev", device] => (Some(gateway), Some(device)),
            _ => return Err(malformed.to_owned()),
        };
        let gateway = gateway.map(|gateway| gateway.parse().map_err(|_| malformed));
        let prefix: Result<Prefix, PrefixError> = prefix.parse();
        Ok(Routed {
            prefix: prefix.map_err(|error| error.to_string())?,
            gateway: gateway.transpose()?,
            device: device.map(|name| (*name).to_owned()),
        })
    }
}

/// A port and the directory that is served there: `80=/srv/www`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRoot {
    pub port: u16,
    pub directory: PathBuf,
}

impl FromStr for HttpRoot {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<HttpRoot, Malformed> {
        let malformed = Malformed("write a port and a directory, such as 80=/srv/www");
        let (port, directory) = text.split_once('=').ok_or(malformed.clone())?;
        match port.parse() {
            Ok(port) if port > 0 && !directory.is_empty() => Ok(HttpRoot {
                port,
                directory: PathBuf::from(directory),
            }),
            _ => Err(malformed),
        }
    }
}

/// So many bytes: `256M`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        units::size(text).map(Bytes)
    }
}

/// So long: `2s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        units::duration(text).map(Span)
    }
}

/// An Ethernet address of one station, as six pairs of hexadecimal digits with colons between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station(pub MacAddress);

impl FromStr for Station {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Station, Malformed> {
        let pair = |pair: &str| match pair.len() {
            2 => u8::from_str_radix(pair, 16).ok(),
            _ => None,
        };
        let octets: Option<Vec<u8>> = text.split(':').map(pair).collect();
        let octets = octets.and_then(|octets| <[u8; 6]>::try_from(octets).ok());
        match octets.map(MacAddress) {
            None => Err(Malformed(
                "write an Ethernet address, such as 02:00:0a:4d:00:02",
            )),
            Some(address) if address.is_group() || address == MacAddress::ZERO => Err(Malformed(
                "an Ethernet address of one station is wanted, not of a group",
            )),
            Some(address) => Ok(Station(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_behind_its_port() {
        for (text, valid) in [
            ("80=/srv", true),
            ("80=a=b", true),
            ("0=/srv", false),
            ("=/srv", false),
            ("80=", false),
            ("/srv", false),
            ("70000=/srv", false),
        ] {
            assert_eq!(text.parse::<HttpRoot>().is_ok(), valid, "{text}");
        }
    }

    #[test]
    fn the_way_stands_behind_its_network() {
        let rows = [
            ("default=10.77.0.1", "0.0.0.0/0", Some("10.77.0.1"), None),
            (
                "10.0.0.0/8=10.77.0.1",
                "10.0.0.0/8",
                Some("10.77.0.1"),
                None,
            ),
            (
                "10.0.0.0/8 via 10.77.0.1",
                "10.0.0.0/8",
                Some("10.77.0.1"),
                None,
            ),
            ("default  dev bn1", "0.0.0.0/0", None, Some("bn1")),
            (
                "10.0.0.0/8 via 10.77.0.1 dev bn1",
                "10.0.0.0/8",
                Some("10.77.0.1"),
                Some("bn1"),
            ),
        ];
        for (text, prefix, gateway, device) in rows {
            let expected = Routed {
                prefix: prefix.parse().unwrap(),
                gateway: gateway.map(|gateway| gateway.parse().unwrap()),
                device: device.map(str::to_owned),
            };
            assert_eq!(text.parse::<Routed>(), Ok(expected), "{text}");
        }
        let read = |text: &str| text.parse::<Routed>();
        for (text, part) in [
            ("", "such as"),
            ("10.0.0.0/8", "such as"),
            ("10.0.0.0/8 dev", "such as"),
            ("10.0.0.0/8 dev bn1 via 10.77.0.1", "such as"),
            ("10.0.0.0/8 via bn1", "such as"),
            ("10.0.0.1/8 dev bn1", "write 10.0.0.0/8"),
            ("10.77.0.1", "such as"),
            ("default=", "such as"),
            ("=10.77.0.1", "prefix of a network"),
            ("10.0.0.1/8=10.77.0.1", "write 10.0.0.0/8"),
            ("fd00::/8=fd00::1", "IPv4 only"),
        ] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }

    #[test]
    fn addresses_may_have_prefixes() {
        for text in ["10.77.0.1/24", "10.77.0.1", "0.0.0.0/0", "fd00::1/64"] {
            assert_eq!(text.parse::<Prefixed>().unwrap().to_string(), text);
        }
        for text in ["10.77.0.1/33", "10.77.0/24", "10.77.0.1/", "", "host"] {
            assert!(text.parse::<Prefixed>().is_err(), "{text}");
        }
        let host: Prefixed = "10.77.0.1/24".parse().unwrap();
        assert!(host.holds([10, 77, 0, 9].into()) && !host.holds([10, 77, 1, 9].into()));
        let any: Prefixed = "10.77.0.1/0".parse().unwrap();
        assert!(any.holds([192, 0, 2, 1].into()));
        let alone: Prefixed = "10.77.0.1".parse().unwrap();
        assert!(!alone.holds([10, 77, 0, 2].into()));
    }

    #[test]
    fn stations_are_six_pairs_of_digits() {
        let read = |text: &str| text.parse::<Station>().map(|station| station.0.0);
        assert_eq!(read("02:00:0a:4d:00:fe"), Ok([2, 0, 10, 77, 0, 254]));
        for text in [
            "",
            "02:00:0a:4d:00",
            "02:00:0a:4d:00:02:03",
            "+2:00:0a:4d:00:02 ",
            "2:0:a:4d:0:2",
        ] {
            assert!(read(text).unwrap_err().0.contains("such as"), "{text}");
        }
        for text in [
            "01:00:5e:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
        ] {
            assert!(read(text).unwrap_err().0.contains("one station"), "{text}");
        }
    }
}
