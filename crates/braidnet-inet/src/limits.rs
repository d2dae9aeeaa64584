//! What bounds the tables below the transports, and what is said of a limit that makes no sense.

use crate::arp::Resolution;
use crate::fragments::Reassembly;
use crate::icmp::ErrorRate;
use core::ops::RangeInclusive;

/// What of the limits of ARP, IP and ICMP may be set otherwise while they run ([`Inet::limits`](crate::Inet::limits)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InetLimits {
    /// What is known of neighbours.
    pub resolution: Resolution,
    /// What may be held of datagrams that arrive in fragments.
    pub reassembly: Reassembly,
    /// How many errors may be sent.
    pub icmp_errors: ErrorRate,
}

/// A limit that is not in its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{limit} may be {least} to {most}, and {asked} is asked for")]
pub struct LimitError {
    /// Which, as its field is called.
    pub limit: &'static str,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
    /// What is asked for.
    pub asked: u64,
}

impl LimitError {
    /// Refuses what is `asked` for of `limit` outside of `range`.
    ///
    /// # Errors
    /// If it is.
    pub fn unless_in(
        range: RangeInclusive<usize>,
        limit: &'static str,
        asked: usize,
    ) -> Result<(), LimitError> {
        if range.contains(&asked) {
            return Ok(());
        }
        Err(LimitError {
            limit,
            least: *range.start() as u64,
            most: *range.end() as u64,
            asked: asked as u64,
        })
    }
}
