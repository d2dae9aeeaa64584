//! Further devices of a stack, beside the one that it stands on in any case.

use super::values::Prefixed;
use std::str::FromStr;

/// A further device: `tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Further {
    /// The name of a TUN device.
    pub tun: String,
    /// The host's address there.
    pub host: Option<Prefixed>,
    /// The stack's: at least one.
    pub addresses: Vec<Prefixed>,
    pub mtu: Option<usize>,
}

const FORM: &str = "write a device and what the stack is there, such as tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24; mtu=BYTES may follow, and more addresses";

impl FromStr for Further {
    type Err = String;

    fn from_str(text: &str) -> Result<Further, String> {
        let mut tun = None;
        let mut host = None;
        let mut addresses = Vec::new();
        let mut mtu = None;
        for part in text.split(',') {
            let (word, value) = part.split_once('=').ok_or(FORM)?;
            let prefixed = || value.parse().map_err(|error| format!("{word}: {error}"));
            let is_again = match word {
                "tun" => tun.replace(value.to_owned()).is_some(),
                "host" => host.replace(prefixed()?).is_some(),
                "address" => {
                    addresses.push(prefixed()?);
                    false
                }
                "mtu" => {
                    let bytes = value.parse().map_err(|_| FORM)?;
                    mtu.replace(bytes).is_some()
                }
                _ => return Err(FORM.to_owned()),
            };
            if is_again {
                return Err(format!("{word} is given twice for one device"));
            }
        }
        let tun = tun.filter(|name| !name.is_empty()).ok_or(FORM)?;
        if addresses.is_empty() {
            return Err(format!("give the stack an address on {tun}: {FORM}"));
        }
        Ok(Further {
            tun,
            host,
            addresses,
            mtu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_said_in_words() {
        let read: Further =
            "tun=bn1,host=10.78.0.1/24,address=10.78.0.2/24,address=10.78.0.3,mtu=1400"
                .parse()
                .unwrap();
        let prefixed = |text: &str| text.parse::<Prefixed>().unwrap();
        let expected = Further {
            tun: "bn1".to_owned(),
            host: Some(prefixed("10.78.0.1/24")),
            addresses: vec![prefixed("10.78.0.2/24"), prefixed("10.78.0.3")],
            mtu: Some(1400),
        };
        assert_eq!(read, expected);
        for (text, part) in [
            ("", "such as"),
            ("bn1", "such as"),
            ("tap=bn1,address=10.78.0.2", "such as"),
            ("tun=,address=10.78.0.2", "such as"),
            ("address=10.78.0.2", "such as"),
            ("tun=bn1", "an address on bn1"),
            ("tun=bn1,tun=bn2,address=10.78.0.2", "tun is given twice"),
            ("tun=bn1,address=10.78.0.256", "address: write an address"),
            ("tun=bn1,address=10.78.0.2,mtu=x", "such as"),
        ] {
            let sentence = text.parse::<Further>().unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
