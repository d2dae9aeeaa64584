//! Shares of a whole: how many packets out of all.

/// A share of packets, in parts per billion: from none to all.
///
/// ```
/// use braidnet_impair::Share;
/// assert_eq!(Share::per_mille(15).to_string(), "1.5%");
/// assert_eq!("0.0000001%".parse(), Ok(Share::parts_per_billion(1)));
/// assert!("101%".parse::<Share>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share(u32);

/// The whole.
pub(crate) const WHOLE: u32 = 1_000_000_000;

impl Share {
    /// None.
    pub const NONE: Share = Share(0);
    /// All.
    pub const ALL: Share = Share(WHOLE);

    /// So many of a billion; more than a billion is all.
    pub const fn parts_per_billion(parts: u32) -> Share {
        Share(if parts > WHOLE { WHOLE } else { parts })
    }

    /// So many of a thousand; more than a thousand is all.
    pub const fn per_mille(parts: u32) -> Share {
        Share::parts_per_billion(parts.saturating_mul(WHOLE / 1000))
    }

    /// As a number from 0 to 1.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// Its parts per billion.
    pub const fn parts(self) -> u32 {
        self.0
    }

    /// Whether it is none at all.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}
