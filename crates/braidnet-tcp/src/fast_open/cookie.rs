//! The cookies of a server (RFC 7413 §4.1.2).

use crate::isn;
use braidnet_wire::address::Tuple;
use braidnet_wire::tcp::FastOpenCookie;
use braidnet_wire::time::{Duration, Instant};
use core::hash::Hasher;

/// What makes and recognises cookies: SipHash-2-4 of both addresses under a secret, and of the number of the period in which the cookie is
/// given, so that the key is another in each (§4.1.2, §5.1). Nothing is kept of a client.
///
/// ```
/// use braidnet_tcp::{CookieKeys, Freshness};
/// use braidnet_wire::{address::Tuple, time::{Duration, Instant}};
/// let keys = CookieKeys { secret: [1, 2], period: Duration::from_secs(60) };
/// let (tuple, start) = (Tuple::default(), Instant::ZERO);
/// let cookie = keys.cookie(&tuple, start);
/// let after = |secs| keys.check(&cookie, &tuple, start + Duration::from_secs(secs));
/// assert_eq!(after(59), Some(Freshness::Fresh));
/// assert_eq!(after(119), Some(Freshness::Old));
/// assert_eq!(after(120), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CookieKeys {
    /// Drawn at random once per stack and kept to it.
    pub secret: [u64; 2],
    /// How long cookies are given under one key; they are good until the next such period is over, too. At least a second.
    pub period: Duration,
}

/// How old a good cookie is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// It is of this period.
    Fresh,
    /// It is of the period before, and will not be good for long.
    Old,
}

impl CookieKeys {
    /// The cookie that a client is given now. Of the tuple, which is seen from the server, the addresses count.
    pub fn cookie(&self, tuple: &Tuple, now: Instant) -> FastOpenCookie {
        self.cookie_of(tuple, self.period_at(now))
    }

    /// Whether a client's cookie is good, and how old it is.
    pub fn check(&self, cookie: &FastOpenCookie, tuple: &Tuple, now: Instant) -> Option<Freshness> {
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
