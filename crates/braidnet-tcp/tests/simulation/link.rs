//! The link: two directions, each impaired by the code that stands in front of devices, too.

use crate::case::Path;
use braidnet_impair::{Impairments, Line, Link as Direction, Rate, Reorder, Share, Tally};
use braidnet_wire::address::Address;
use braidnet_wire::time::Duration;
use std::num::NonZeroU64;

/// The addresses of the two hosts, for the pseudo header.
pub const ADDRESSES: [Address; 2] = [Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2])];

/// A TCP segment as it stands on the wire.
pub type Packet = Vec<u8>;

/// Bytes of the headers below TCP, which take time on the line too.
const LOWER_HEADERS: usize = 34;

/// Packets under way, each with its time of arrival and for whom it is.
pub struct Link {
    /// To each host.
    directions: [Direction; 2],
    line: Line<(usize, Packet)>,
}

impl Link {
    pub fn new(paths: &[Path; 2], seed: u64) -> Link {
        let direction = |to: usize| Direction::new(&impairments(&paths[1 - to], seed), to as u64);
        Link {
            directions: [0, 1].map(direction),
            line: Line::default(),
        }
    }

    /// Takes a packet for host `to`.
    pub fn send(&mut self, now: u64, to: usize, packet: Packet) {
        let bytes = packet.len() + LOWER_HEADERS;
        let copy = |packet: &(usize, Packet)| Some(packet.clone());
        // What is dropped the tally counts.
        let _ = self
            .line
            .offer(&mut self.directions[to], (now, bytes), (to, packet), copy);
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<u64> {
        self.line.next()
    }

    /// The next packet that has arrived, and for whom.
    pub fn arrived(&mut self, now: u64) -> Option<(usize, Packet)> {
        let delivery = self.line.take(now)?;
        let (to, mut packet) = delivery.packet;
        if let Some(damage) = delivery.damage {
            damage.flip(&mut packet);
        }
        Some((to, packet))
    }

    /// What became of packets.
    pub fn tallies(&self) -> [Tally; 2] {
        self.directions
            .each_ref()
            .map(|direction| *direction.tally())
    }
}

fn impairments(path: &Path, seed: u64) -> Impairments {
    let share = |per_mille: u64| Share::per_mille(per_mille as u32);
    let rate = NonZeroU64::new(8 * path.rate).map(|bits| Rate {
        queue_bytes: path.queue_bytes,
        ..Rate::new(bits)
    });
    Impairments {
        loss: share(path.loss),
        duplicate: share(path.duplication),
        corrupt: share(path.corruption),
        delay: Duration::from_nanos(path.delay),
        reorder: Reorder {
            share: share(path.reordering),
            least: Duration::ZERO,
            most: Duration::from_nanos(path.jitter),
        },
        rate,
        seed,
        ..Impairments::none()
    }
}
