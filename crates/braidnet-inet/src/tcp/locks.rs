//! How finely TCP is locked where several processors share its connections: a choice, made at start (PLP §5.1).

use core::fmt;
use core::str::FromStr;

/// With how many locks TCP guards a connection's state, under architectures that lock it at all (PLP §5.1).
///
/// The first is always the perimeter of the connection's bucket, which everything that enters the bucket takes, and under which
/// what comes of a run is handed up in order. The others are taken inside it, or, those of the headers, outside. The engine
/// is the same under all of them; `docs/decisions/008-tcp-locking.md` says what each lock guards and what can overlap.
///
/// ```
/// use braidnet_inet::tcp::TcpLocks;
/// assert_eq!("6-repaired".parse(), Ok(TcpLocks::SixRepaired));
/// assert_eq!(TcpLocks::default().to_string(), "1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TcpLocks {
    /// TCP-1: one for all of it.
    #[default]
    One,
    /// TCP-2: one for the receiving half, one for the sending half.
    Two,
    /// TCP-6 as the paper ran it: receive window, reassembly, send window, retransmission, removing headers and prepending them.
    /// Checksums are verified and made under the last two, those of each packet by itself: segments are not joined.
    Six,
    /// TCP-6 with checksums outside the locks, as in the others.
    SixRepaired,
}

impl TcpLocks {
    /// All of them, coarsest first.
    pub const ALL: [TcpLocks; 4] = [
        TcpLocks::One,
        TcpLocks::Two,
        TcpLocks::Six,
        TcpLocks::SixRepaired,
    ];

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            TcpLocks::One => "1",
            TcpLocks::Two => "2",
            TcpLocks::Six => "6",
            TcpLocks::SixRepaired => "6-repaired",
        }
    }
}

impl fmt::Display for TcpLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no locking of TCP.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("TCP cannot be locked by `{0}`: choose 1, 2, 6 or 6-repaired")]
pub struct UnknownTcpLocks(
    /// The word.
    pub String,
);

impl FromStr for TcpLocks {
    type Err = UnknownTcpLocks;

    fn from_str(name: &str) -> Result<TcpLocks, UnknownTcpLocks> {
        TcpLocks::ALL
            .into_iter()
            .find(|locks| locks.name() == name)
            .ok_or_else(|| UnknownTcpLocks(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_the_refusal_names_every_one() {
        let refusal = "7".parse::<TcpLocks>().unwrap_err().to_string();
        for locks in TcpLocks::ALL {
            assert_eq!(locks.to_string().parse(), Ok(locks));
            assert!(refusal.contains(locks.name()), "{refusal}");
        }
    }
}
