//! Routes: which neighbour a packet goes to (RFC 1122 §3.3.1, RFC 1812 §5.2.4.3).
//!
//! A [`Route`] sends what is for a [`Prefix`] to a gateway, or by a device to whoever it is for. Of all that hold an address the longest decides, whether it is a route
//! or a network that the interface is on. Routes are given when a stack is made and do not change: the data path reads them without a lock.

use braidnet_wire::address::Address;
use core::fmt;
use core::str::FromStr;

/// Most [routes](Route) of a stack.
pub const MAX_ROUTES: usize = 1024;

/// The addresses that begin with the same bits: `10.0.0.0/8`.
///
/// ```
/// use braidnet_inet::route::Prefix;
///
/// let prefix: Prefix = "10.0.0.0/8".parse()?;
/// assert!(prefix.holds(&"10.77.0.1".parse::<std::net::IpAddr>()?.into()));
/// assert_eq!("default".parse::<Prefix>()?.to_string(), "0.0.0.0/0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    /// Of IPv4; all bits behind the prefix are 0.
    first: u32,
    /// 0 to 32.
    bits: u8,
}

/// Why something is not a prefix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrefixError {
    /// Not written as one.
    #[error("write the prefix of a network, such as 10.0.0.0/8, or `default`")]
    Malformed,
    /// An IPv6 address.
    #[error("{0} is an IPv6 address, and this stack speaks IPv4 only")]
    NotIpv4(Address),
    /// More than 32 bits.
    #[error("{0}/{1}: the prefix of an IPv4 address has at most 32 bits")]
    TooLong(Address, u8),
    /// Bits behind the prefix are set.
    #[error("{0}/{1} has bits behind its prefix: write {2}")]
    HostBits(Address, u8, Prefix),
}

impl Prefix {
    /// All addresses.
    pub const ALL: Prefix = Prefix { first: 0, bits: 0 };

    /// The addresses that have their first `bits` bits, 0 to 32, in common with `address`, whose others are 0.
    ///
    /// # Errors
    /// See [`PrefixError`].
    pub fn new(address: Address, bits: u8) -> Result<Prefix, PrefixError> {
        let Some(v4) = address.as_v4() else {
            return Err(PrefixError::NotIpv4(address));
        };
        if bits > 32 {
            return Err(PrefixError::TooLong(address, bits));
        }
        let number = u32::from_be_bytes(v4);
        let prefix = Prefix::of(number, bits);
        if prefix.first != number {
            return Err(PrefixError::HostBits(address, bits, prefix));
        }
        Ok(prefix)
    }

    /// The one of `bits` bits, at most 32, that holds `address`.
    pub(crate) fn of(address: u32, bits: u8) -> Prefix {
        let first = address & mask(bits);
        Prefix { first, bits }
    }

    /// Its first address.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Its last address.
    fn last(&self) -> u32 {
        self.first | !self.mask()
    }

    /// Its bits, in a number.
    pub(crate) fn mask(&self) -> u32 {
        mask(self.bits)
    }

    /// How many bits it has.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether `address` begins with it.
    pub fn holds(&self, address: &Address) -> bool {
        (address.as_v4()).is_some_and(|v4| self.has(u32::from_be_bytes(v4)))
    }

    fn has(&self, address: u32) -> bool {
        address & self.mask() == self.first
    }
}

/// The first `bits` bits, at most 32.
fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = Address::v4(self.first.to_be_bytes());
        write!(f, "{first}/{}", self.bits)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        if text == "default" {
            return Ok(Prefix::ALL);
        }
        let malformed = || PrefixError::Malformed;
        let (address, bits) = text.split_once('/').ok_or_else(malformed)?;
        let address: core::net::IpAddr = address.parse().map_err(|_| malformed())?;
        let bits = bits.parse().map_err(|_| malformed())?;
        Prefix::new(address.into(), bits)
    }
}

/// What is for a prefix goes to a gateway, by a device, or both.
///
/// ```
/// use braidnet_inet::route::Route;
///
/// let near = Route::by("10.9.0.0/24".parse()?, 1);
/// let gateway: std::net::IpAddr = "10.9.0.1".parse()?;
/// let far = Route::via("10.8.0.0/16".parse()?, gateway.into());
/// assert_eq!((near.gateway, far.device), (None, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Which addresses it is for.
    pub prefix: Prefix,
    /// The neighbour that it leads to; `None` where each of these addresses is itself a neighbour on the device.
    pub gateway: Option<Address>,
    /// By its number, from 0 on; `None` for the device on whose network the gateway is.
    pub device: Option<u8>,
}

impl Route {
    /// To a gateway on a network of the stack's own.
    pub const fn via(prefix: Prefix, gateway: Address) -> Route {
        Route {
            prefix,
            gateway: Some(gateway),
            device: None,
        }
    }

    /// By the device of this number, from 0 on, to whoever it is for.
    pub const fn by(prefix: Prefix, device: u8) -> Route {
        Route {
            prefix,
            gateway: None,
            device: Some(device),
        }
    }
}

/// For each address what the longest of the prefixes that hold it stands for.
///
/// Prefixes nest and never overlap otherwise, so they cut the address space into ranges, at most two for each and one more; a look-up is one binary search
/// among the ranges' first addresses.
#[derive(Clone, Debug)]
pub(crate) struct Routes<T> {
    /// The first address of each range, the lowest first, 0.
    starts: Box<[u32]>,
    targets: Box<[Option<T>]>,
}

impl<T: Copy> Routes<T> {
    /// Of prefixes that are different from each other.
    pub(crate) fn new(prefixes: impl IntoIterator<Item = (Prefix, T)>) -> Routes<T> {
        let mut prefixes = Vec::from_iter(prefixes);
        // Who holds others comes before them.
        prefixes.sort_unstable_by_key(|(prefix, _)| (prefix.first, prefix.bits));
        let mut ranges = Ranges {
            starts: vec![0],
            targets: vec![None],
            open: Vec::new(),
        };
        for (prefix, target) in prefixes {
            ranges.close_before(prefix.first);
            ranges.begin(prefix.first, Some(target));
            ranges.open.push((prefix.last(), target));
        }
        while !ranges.open.is_empty() {
            ranges.close();
        }
        Routes {
            starts: ranges.starts.into(),
            targets: ranges.targets.into(),
        }
    }

    /// What the longest prefix that holds `address` stands for; `None` if none does.
    #[inline]
    pub(crate) fn find(&self, address: u32) -> Option<T> {
        let range = self.starts.partition_point(|start| *start <= address) - 1;
        self.targets[range]
    }
}

/// The ranges, while they are found from the lowest address up.
struct Ranges<T> {
    starts: Vec<u32>,
    targets: Vec<Option<T>>,
    /// The last address of each prefix that holds the place reached, the longest last, and what it stands for.
    open: Vec<(u32, T)>,
}

impl<T: Copy> Ranges<T> {
    /// From `start` on, to which all ranges before end, it is `target`.
    fn begin(&mut self, start: u32, target: Option<T>) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.targets.pop();
        }
        self.starts.push(start);
        self.targets.push(target);
    }

    fn close_before(&mut self, start: u32) {
        while (self.open.last()).is_some_and(|(last, _)| *last < start) {
            self.close();
        }
    }

    /// Behind the longest prefix that is open, the next longest goes on.
    fn close(&mut self) {
        let Some((last, _)) = self.open.pop() else {
            return;
        };
        if let Some(behind) = last.checked_add(1) {
            let target = self.open.last().map(|(_, target)| *target);
            self.begin(behind, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn prefixes_are_written_with_their_first_address() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.77.0.1/32",
            "255.255.255.255/32",
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        let rows = [
            (
                "10.0.0.1/8",
                "10.0.0.1/8 has bits behind its prefix: write 10.0.0.0/8",
            ),
            (
                "10.0.0.0/33",
                "10.0.0.0/33: the prefix of an IPv4 address has at most 32 bits",
            ),
            (
                "fd00::/8",
                "fd00:: is an IPv6 address, and this stack speaks IPv4 only",
            ),
            (
                "10.0.0.0",
                "write the prefix of a network, such as 10.0.0.0/8, or `default`",
            ),
            (
                "10.0.0.0/",
                "write the prefix of a network, such as 10.0.0.0/8, or `default`",
            ),
            (
                "",
                "write the prefix of a network, such as 10.0.0.0/8, or `default`",
            ),
        ];
        for (text, sentence) in rows {
            assert_eq!(
                text.parse::<Prefix>().unwrap_err().to_string(),
                sentence,
                "{text}"
            );
        }
    }

    #[test]
    fn a_prefix_holds_what_begins_with_it() {
        let rows = [
            ("0.0.0.0/0", "255.255.255.255", true),
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.4/31", "10.0.0.5", true),
            ("10.0.0.4/31", "10.0.0.6", false),
            ("10.0.0.4/32", "10.0.0.5", false),
            ("0.0.0.0/0", "::1", false),
        ];
        for (prefix, address, held) in rows {
            let address: core::net::IpAddr = address.parse().unwrap();
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(prefix.holds(&address.into()), held, "{prefix} {address}");
        }
    }

    /// The table that cannot be wrong: all prefixes are asked.
    fn naive(prefixes: &HashMap<Prefix, u32>, address: u32) -> Option<u32> {
        let held = prefixes.iter().filter(|(prefix, _)| prefix.has(address));
        held.max_by_key(|(prefix, _)| prefix.bits)
            .map(|(_, target)| *target)
    }

    proptest! {
        /// Few bits differ, so that prefixes nest, meet and repeat, at both ends of the space too.
        #[test]
        fn the_longest_prefix_decides(
            prefixes in proptest::collection::hash_map(
                (0u32..16, 0u32..16, 0u8..=32).prop_map(|(high, low, bits)| Prefix::of(high << 28 | low, bits)),
                any::<u32>(), 0..40,
            ),
            others in proptest::collection::vec(any::<u32>(), 0..20),
        ) {
            let routes = Routes::new(prefixes.iter().map(|(prefix, target)| (*prefix, *target)));
            let edges = prefixes.keys().flat_map(|prefix| {
                let (first, last) = (prefix.first(), prefix.last());
                [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
            });
            for address in edges.chain(others).chain([0, u32::MAX]) {
                prop_assert_eq!(routes.find(address), naive(&prefixes, address), "{:08x}", address);
            }
            prop_assert!(routes.starts.len() <= 2 * prefixes.len() + 1);
        }
    }
}
