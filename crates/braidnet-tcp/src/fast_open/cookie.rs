//! The cookies of a server (RFC 7413 §4.1.2).

use crate::isn;
use braidnet_wire::address::Tuple;
use braidnet_wire::tcp::FastOpenCookie;
use braidnet_wire::time::{Duration, Instant};
use core::fmt;
use core::hash::Hasher;
use core::str::FromStr;
use siphasher::sip::SipHasher24;

/// What makes and recognises cookies: SipHash-2-4 of both addresses under a secret, and of the number of the period in which the cookie is
/// given, so that the key is another in each (§4.1.2, §5.1). Nothing is kept of a client.
///
/// ```
/// use braidnet_tcp::{CookieKeys, Freshness};
/// use braidnet_wire::{address::Tuple, time::{Duration, Instant}};
/// let keys = CookieKeys { secret: [1, 2], period: Duration::from_secs(60), shared: None };
/// let (tuple, start) = (Tuple::default(), Instant::ZERO);
/// let cookie = keys.cookie(&tuple, start);
/// let after = |secs| keys.check(&cookie, &tuple, start + Duration::from_secs(secs));
/// assert_eq!(after(59), Some(Freshness::Fresh));
/// assert_eq!(after(119), Some(Freshness::Old));
/// assert_eq!(after(120), None);
/// ```
#[derive(Clone, Copy)]
pub struct CookieKeys {
    /// Drawn at random once per stack and kept to it.
    pub secret: [u64; 2],
    /// How long cookies are given under one key; they are good until the next such period is over, too. At least a second.
    pub period: Duration,
    /// What stands for both where several servers have one address.
    pub shared: Option<SharedKeys>,
}

/// Keys that several servers share which stand behind one address, so that a client's cookie is good with each (RFC 7413 §4.1.2). Cookies
/// are made as Linux makes them (`net.ipv4.tcp_fastopen_key`): SipHash-2-4 of the client's address and the server's. They are good until the keys
/// are changed, which is for who has set them to do at all servers, once in a while.
///
/// As text they are Linux's, too: four words of at most eight hexadecimal digits, and behind a comma perhaps those of the former key.
///
/// ```
/// use braidnet_tcp::SharedKeys;
/// let keys: SharedKeys = "00000001-0-0-ff000000,a-b-c-d".parse()?;
/// assert_eq!((keys.key[0], keys.key[15]), (1, 0xff));
/// assert!(keys.former.is_some() && "1-2-3".parse::<SharedKeys>().is_err());
/// # Ok::<(), braidnet_tcp::NoSharedKeys>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SharedKeys {
    /// The key under which cookies are given.
    pub key: [u8; 16],
    /// The one before, whose cookies are still good, and replaced.
    pub former: Option<[u8; 16]>,
}

/// A secret is shown to nobody.
impl fmt::Debug for CookieKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieKeys")
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

/// A secret is shown to nobody.
impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKeys").finish_non_exhaustive()
    }
}

/// A text that has no keys in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a key is four words of hexadecimal digits with - between them; behind it may stand another, with a comma between"
)]
pub struct NoSharedKeys;

impl FromStr for SharedKeys {
    type Err = NoSharedKeys;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, former) = match text.split_once(',') {
            Some((key, former)) => (key, Some(former)),
            None => (text, None),
        };
        Ok(SharedKeys {
            key: key_of(key)?,
            former: former.map(key_of).transpose()?,
        })
    }
}

fn key_of(text: &str) -> Result<[u8; 16], NoSharedKeys> {
    let mut words = text.split('-');
    let mut key = [0; 16];
    for bytes in key.as_chunks_mut::<4>().0 {
        let is_word = |word: &&str| word.len() <= 8 && !word.starts_with('+');
        let word = words.next().filter(is_word);
        let word = word.and_then(|word| u32::from_str_radix(word, 16).ok());
        *bytes = word.ok_or(NoSharedKeys)?.to_le_bytes();
    }
    match words.next() {
        None => Ok(key),
        Some(_) => Err(NoSharedKeys),
    }
}

/// How old a good cookie is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// It is of this period, or under the shared key.
    Fresh,
    /// It is of the period before, or under the former key, and will not be good for long.
    Old,
}

impl CookieKeys {
    /// The cookie that a client is given now. Of the tuple, which is seen from the server, the addresses count.
    pub fn cookie(&self, tuple: &Tuple, now: Instant) -> FastOpenCookie {
        match self.shared {
            Some(shared) => cookie_under(shared.key, tuple),
            None => self.cookie_of(tuple, self.period_at(now)),
        }
    }

    /// Whether a client's cookie is good, and how old it is.
    pub fn check(&self, cookie: &FastOpenCookie, tuple: &Tuple, now: Instant) -> Option<Freshness> {
        if let Some(shared) = self.shared {
            let is_under = |key| *cookie == cookie_under(key, tuple);
            return match is_under(shared.key) {
                true => Some(Freshness::Fresh),
                false => (shared.former.is_some_and(is_under)).then_some(Freshness::Old),
            };
        }
        let period = self.period_at(now);
        if *cookie == self.cookie_of(tuple, period) {
            return Some(Freshness::Fresh);
        }
        let before = period.checked_sub(1)?;
        (*cookie == self.cookie_of(tuple, before)).then_some(Freshness::Old)
    }

    fn period_at(&self, now: Instant) -> u64 {
        let period = self.period.max(Duration::from_secs(1)).as_nanos();
        now.nanos() / u64::try_from(period).unwrap_or(u64::MAX)
    }

    fn cookie_of(&self, tuple: &Tuple, period: u64) -> FastOpenCookie {
        let hosts = Tuple {
            local_port: 0,
            remote_port: 0,
            ..*tuple
        };
        let mut hasher = isn::keyed(self.secret, &hosts);
        hasher.write_u64(period);
        hasher.write_u8(b'f');
        FastOpenCookie::new(&hasher.finish().to_be_bytes()).unwrap_or(FastOpenCookie::REQUEST)
    }
}

/// A cookie as Linux makes it.
fn cookie_under(key: [u8; 16], tuple: &Tuple) -> FastOpenCookie {
    let mut hasher = SipHasher24::new_with_key(&key);
    for address in [&tuple.remote, &tuple.local] {
        match address.as_v4() {
            Some(v4) => hasher.write(&v4),
            None => hasher.write(address.octets()),
        }
    }
    FastOpenCookie::new(&hasher.finish().to_le_bytes()).unwrap_or(FastOpenCookie::REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::address::Address;

    /// The two that Linux's own scripts bring, made by Linux under the key that these set, and under one of zeros.
    #[test]
    fn under_shared_keys_cookies_are_those_of_linux() {
        let tuple = Tuple {
            local: Address::v4([192, 168, 0, 1]),
            remote: Address::v4([192, 0, 2, 1]),
            local_port: 8080,
            remote_port: 4000,
        };
        let under = |text: &str| CookieKeys {
            secret: [3, 4],
            period: Duration::from_secs(100),
            shared: Some(text.parse().unwrap()),
        };
        let key = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";
        let late = Instant::from_millis(1 << 40);
        for (keys, cookie) in [
            (key, 0x3021_b9d8_8901_7eeb_u64),
            ("0-0-0-0", 0xb7c1_2350_a90d_c8f5),
        ] {
            let cookie = FastOpenCookie::new(&cookie.to_be_bytes()).unwrap();
            assert_eq!(under(keys).cookie(&tuple, Instant::ZERO), cookie);
            let good = [
                under(keys),
                under(&format!("1-2-3-4,{keys}")),
                under("1-2-3-4"),
            ]
            .map(|keys| keys.check(&cookie, &tuple, late));
            assert_eq!(good, [Some(Freshness::Fresh), Some(Freshness::Old), None]);
        }
        let request = FastOpenCookie::REQUEST;
        assert_eq!(under(key).check(&request, &tuple, late), None);
        for wrong in [
            "",
            "1-2-3",
            "1-2-3-4-5",
            "1-2-3-4,",
            "1-2-3-g",
            "+1-2-3-4",
            "123456789-2-3-4",
        ] {
            assert_eq!(wrong.parse::<SharedKeys>(), Err(NoSharedKeys), "{wrong:?}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let keys = CookieKeys {
            secret: [0xdead_beef, 0xdead_beef],
            period: Duration::from_secs(100),
            shared: Some("deadbeef-deadbeef-deadbeef-deadbeef".parse().unwrap()),
        };
        let shown = format!("{keys:?} {keys:x?}");
        assert!(shown.contains("100s"), "{shown}");
        for secret in ["3735928559", "deadbeef", "ef, be", "239"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
