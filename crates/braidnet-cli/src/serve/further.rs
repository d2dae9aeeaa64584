//! Further devices of a stack, beside the one that it stands on in any case.

use super::carrier::{Which, no_frames};
use super::values::{Prefixed, Station};
use crate::choices::Switch;
use braidnet::device::tun::Mode;
use std::str::FromStr;

/// A further device: `tap=bn1,host=10.78.0.1/24,address=10.78.0.2/24`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Further {
    pub which: Which,
    /// The host's address there.
    pub host: Option<Prefixed>,
    /// The stack's: none where routes say what the device is for.
    pub addresses: Vec<Prefixed>,
    /// The stack's Ethernet address there.
    pub mac: Option<Station>,
    pub mtu: Option<usize>,
    /// Whether it offloads; as all others where that is not said.
    pub offload: Option<Switch>,
}

const FORM: &str = "write a device and what the stack is there, such as tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24; the device is one of tun, tap, packet, xdp and qemu; mac=ADDRESS, mtu=BYTES and offload=off may follow, and more addresses";

impl FromStr for Further {
    type Err = String;

    fn from_str(text: &str) -> Result<Further, String> {
        let mut which = None;
        let mut host = None;
        let mut addresses = Vec::new();
        let mut mac = None;
        let mut mtu = None;
        let mut offload = None;
        for part in text.split(',') {
            let (word, value) = part.split_once('=').ok_or(FORM)?;
            let prefixed = || value.parse().map_err(|error| format!("{word}: {error}"));
            let is_again = match word {
                "host" => host.replace(prefixed()?).is_some(),
                "address" => {
                    addresses.push(prefixed()?);
                    false
                }
                "mac" => {
                    let station: Result<Station, _> = value.parse();
                    mac.replace(station.map_err(|error| format!("{word}: {error}"))?)
                        .is_some()
                }
                "mtu" => {
                    let bytes = value.parse().map_err(|_| FORM)?;
                    mtu.replace(bytes).is_some()
                }
                "offload" => {
                    let switch = value.parse().map_err(|_| FORM)?;
                    offload.replace(switch).is_some()
                }
                _ => {
                    let named = of_word(word, value).ok_or(FORM)?;
                    if let Some(before) = which.replace(named) {
                        return Err(format!(
                            "{word}={value} is a device beside {}: give it a --device of its own",
                            before.name()
                        ));
                    }
                    false
                }
            };
            if is_again {
                return Err(format!("{word} is given twice for one device"));
            }
        }
        let which = which.ok_or(FORM)?;
        if host.is_some() && !matches!(which, Which::Named(..)) {
            return Err(format!(
                "host is for tun and tap: it is not for this side to set addresses of {}",
                which.name()
            ));
        }
        if mac.is_some() && matches!(which, Which::Named(Mode::Tun, _)) {
            return Err(no_frames("mac"));
        }
        if offload.is_some() && matches!(which, Which::Xdp(_) | Which::Qemu(_)) {
            return Err(format!(
                "offload is for tun, tap and packet: {} offloads nothing",
                which.name()
            ));
        }
        Ok(Further {
            which,
            host,
            addresses,
            mac,
            mtu,
            offload,
        })
    }
}

/// The device that a word and a name mean.
fn of_word(word: &str, name: &str) -> Option<Which> {
    if name.is_empty() {
        return None;
    }
    let owned = name.to_owned();
    Some(match word {
        "tun" => Which::Named(Mode::Tun, owned),
        "tap" => Which::Named(Mode::Tap, owned),
        "packet" => Which::Packet(owned),
        "xdp" => Which::Xdp(owned),
        "qemu" => Which::Qemu(name.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_said_in_words() {
        let read: Further =
            "tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24,address=10.78.0.3,mtu=1400,offload=off"
                .parse()
                .unwrap();
        let prefixed = |text: &str| text.parse::<Prefixed>().unwrap();
        let expected = Further {
            which: Which::Named(Mode::Tun, "bn1".to_owned()),
            host: Some(prefixed("10.78.0.1/24")),
            addresses: vec![prefixed("10.78.0.2/24"), prefixed("10.78.0.3")],
            mac: None,
            mtu: Some(1400),
            offload: Some(Switch::Off),
        };
        assert_eq!(read, expected);
        for (word, which) in [
            ("tap", Which::Named(Mode::Tap, "x".to_owned())),
            ("packet", Which::Packet("x".to_owned())),
            ("xdp", Which::Xdp("x".to_owned())),
            ("qemu", Which::Qemu("x".into())),
        ] {
            let text = format!("{word}=x,address=10.78.0.2,mac=02:00:00:00:00:07");
            let read: Further = text.parse().unwrap();
            assert_eq!(read.which, which);
            assert_eq!(read.mac.unwrap().0.0, [2, 0, 0, 0, 0, 7]);
        }
        for (text, part) in [
            ("", "such as"),
            ("bn1", "such as"),
            ("bridge=bn1,address=10.78.0.2", "such as"),
            ("tun=,address=10.78.0.2", "such as"),
            ("address=10.78.0.2", "such as"),
            ("tun=bn1,tap=bn2,address=10.78.0.2", "a device beside bn1"),
            (
                "tun=bn1,address=10.78.0.2,mtu=1400,mtu=1400",
                "mtu is given twice",
            ),
            (
                "xdp=eth0,host=10.78.0.1/24,address=10.78.0.2",
                "addresses of eth0",
            ),
            (
                "tun=bn1,address=10.78.0.2,mac=02:00:00:00:00:07",
                "a TUN device has none",
            ),
            ("tap=bn1,address=10.78.0.2,mac=x", "mac: write an Ethernet"),
            ("tun=bn1,address=10.78.0.256", "address: write an address"),
            ("tun=bn1,address=10.78.0.2,mtu=x", "such as"),
            ("tun=bn1,offload=maybe", "such as"),
            ("qemu=x,offload=off", "x offloads nothing"),
            ("xdp=eth0,offload=on", "eth0 offloads nothing"),
        ] {
            let sentence = text.parse::<Further>().unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
