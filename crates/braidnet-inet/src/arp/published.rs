//! The neighbours as every processor sees them.
//!
//! The table belongs to ARP's core. It publishes what the data path needs, address and station of each neighbour that is
//! known, as a snapshot: a map that is never changed, exchanged for another as a whole. Who looks at one keeps it for a
//! run, without waiting and without a count that others write.
//!
//! The data path says two things back, by flags that belong to the table's slots and outlive snapshots: that a neighbour
//! was *used* (packets went to it) and that it was *heard* (packets came through it). Flags are set with plain stores,
//! and only when they are not set yet, so that their cache line stays shared; the core clears them when it asks. A snapshot
//! may be old, and its slot may have another tenant by now, who then lives one round longer than deserved: nothing else
//! depends on them.

use arc_swap::{ArcSwap, Guard};
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::MacAddress;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

/// A map from the addresses of neighbours to where they are, with the standard library's keyed hash: who picks addresses
/// cannot make them collide.
pub(super) type Snapshot = HashMap<Address, Place>;

/// Where a neighbour is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Its station.
    pub(super) station: MacAddress,
    /// Its slot in the table.
    pub(super) slot: usize,
}

/// What the table publishes, and what the data path says back.
pub(crate) struct Neighbours {
    snapshot: ArcSwap<Snapshot>,
    used: Box<[AtomicBool]>,
    heard: Box<[AtomicBool]>,
}

impl Neighbours {
    /// No neighbours, and flags for `slots` of them.
    pub(crate) fn new(slots: usize) -> Neighbours {
        let flags = || (0..slots).map(|_| AtomicBool::new(false)).collect();
        Neighbours {
            snapshot: ArcSwap::default(),
            used: flags(),
            heard: flags(),
        }
    }

    /// The neighbours as they are now, for one run.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View {
            neighbours: self,
            snapshot: self.snapshot.load(),
            last: None,
        }
    }

    pub(super) fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Whether the neighbour in this slot was used since the last call.
    pub(super) fn take_used(&self, slot: usize) -> bool {
        take(&self.used, slot)
    }

    /// Whether the neighbour in this slot was heard since the last call.
    pub(super) fn take_heard(&self, slot: usize) -> bool {
        take(&self.heard, slot)
    }
}

/// The neighbours as they were when a run began.
pub(crate) struct View<'a> {
    neighbours: &'a Neighbours,
    snapshot: Guard<Arc<Snapshot>>,
    /// The last answer: most packets of a run go the same way.
    last: Option<(Address, Place)>,
}

impl View<'_> {
    /// The station to send packets for `address` to, if it is known. Counts as use.
    #[inline]
    pub(crate) fn station(&mut self, address: &Address) -> Option<MacAddress> {
        let place = self.find(address)?;
        set(&self.neighbours.used, place.slot);
        Some(place.station)
    }

    /// Whether it is known that `address` is behind `station`. If so, it counts as heard.
    #[inline]
    pub(crate) fn hears(&mut self, address: &Address, station: &MacAddress) -> bool {
        let Some(place) = self.find(address).filter(|place| place.station == *station) else {
            return false;
        };
        set(&self.neighbours.heard, place.slot);
        true
    }

    #[inline]
    fn find(&mut self, address: &Address) -> Option<Place> {
        match self.last {
            Some((last, place)) if last == *address => Some(place),
            _ => {
                let place = *self.snapshot.get(address)?;
                self.last = Some((*address, place));
                Some(place)
            }
        }
    }
}

#[inline]
fn set(flags: &[AtomicBool], slot: usize) {
    if let Some(flag) = flags.get(slot).filter(|flag| !flag.load(Ordering::Relaxed)) {
        flag.store(true, Ordering::Relaxed);
    }
}

fn take(flags: &[AtomicBool], slot: usize) -> bool {
    flags
        .get(slot)
        .is_some_and(|flag| flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed))
}
