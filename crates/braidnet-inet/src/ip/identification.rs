//! The identification of datagrams that routers may fragment.

use crate::flows::Flows;
use core::sync::atomic::{AtomicU16, Ordering};

/// Groups of host pairs with a counter each.
const GROUPS: usize = 256;

/// Numbers the datagrams between two hosts so that their fragments cannot be confused (RFC 6864 §4.3).
///
/// One counter for all would tell every host how much is said to the others, and let it guess the next number (RFC 7739
/// §3). So pairs of hosts are told apart by the keyed hash, and each group has a counter that starts at a secret
/// place. Processors that send to one group share its counter; the others do not meet.
pub(super) struct Identification {
    next: Box<[AtomicU16]>,
}

impl Identification {
    pub(super) fn new(flows: &Flows) -> Identification {
        let start = |group| AtomicU16::new(flows.secret_number(group) as u16);
        Identification {
            next: (0..GROUPS as u64).map(start).collect(),
        }
    }

    /// The number of the next datagram between the hosts whose hash is `pair`, and of those of its train behind it: of each one more.
    #[inline]
    pub(super) fn next(&self, pair: u64, datagrams: u16) -> u16 {
        // Relaxed: the number stands for itself. It wraps.
        self.next[pair as usize % GROUPS].fetch_add(datagrams, Ordering::Relaxed)
    }
}
