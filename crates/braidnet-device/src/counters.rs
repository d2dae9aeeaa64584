//! What a queue has carried and what it has dropped, by name.

use core::fmt;

/// Why a device dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// What arrived is longer than the device's MTU and link header allow.
    ReceiveOversize,
    /// What is said of the segments or of the checksum of what arrived cannot be so.
    ReceiveOffloadMalformed,
    /// There was no buffer for what arrived in many segments at once.
    ReceiveNoBuffer,
    /// A frame of a stream has no bytes, or the stream ended in the middle of one.
    ReceiveFramingMalformed,
    /// The length in front of a frame of a stream is more than any frame has: the peer speaks another protocol, or is lost in its own stream. It is the device's end.
    ReceiveFramingLost,
    /// What arrived stands for several segments of a kind that is not taken here, and the system does not cut it: whoever sends it has to, with its segmentation offload
    /// switched off.
    ReceiveOffloadUnsupported,
    /// What arrived has a VLAN's tag.
    ReceiveVlanTagged,
    /// There was no room for what arrived where the system puts packets until they are taken.
    ReceiveRingFull,
    /// What was to leave is longer than the device's MTU and link header allow.
    TransmitOversize,
    /// What was to leave is empty.
    TransmitEmpty,
    /// The system refused the packet's form: an IP version that is neither 4 nor 6, or a frame shorter than its header.
    TransmitMalformed,
    /// The interface is administratively down.
    InterfaceDown,
    /// The device was removed while it was in use, or the other end of a memory wire is gone.
    DeviceGone,
    /// The system refused the packet for a reason that has no name here.
    TransmitRefused,
    /// As many packets as may be wait for room in the socket, or the queue of the interface, or of one of [several](crate::several) devices, has none: the peer does
    /// not read as fast as this side sends.
    TransmitFull,
    /// What was to leave has the number of none of [several](crate::several) devices.
    TransmitNoDevice,
    /// An [impairment](crate::impair) lost it, by itself.
    ImpairedLost,
    /// An impairment lost it in a burst.
    ImpairedLostInBurst,
    /// The queue in front of an impairment's line was full.
    ImpairedQueueFull,
    /// As many packets as may be were under way in an impairment.
    ImpairedTooMany,
    /// There was no buffer to damage or mark a copy in.
    ImpairedNoBuffer,
}

impl DropReason {
    /// Every reason, in the order of their counters.
    pub const ALL: [DropReason; 21] = [
        DropReason::ReceiveOversize,
        DropReason::ReceiveOffloadMalformed,
        DropReason::ReceiveNoBuffer,
        DropReason::ReceiveFramingMalformed,
        DropReason::ReceiveFramingLost,
        DropReason::ReceiveOffloadUnsupported,
        DropReason::ReceiveVlanTagged,
        DropReason::ReceiveRingFull,
        DropReason::TransmitOversize,
        DropReason::TransmitEmpty,
        DropReason::TransmitMalformed,
        DropReason::InterfaceDown,
        DropReason::DeviceGone,
        DropReason::TransmitRefused,
        DropReason::TransmitFull,
        DropReason::TransmitNoDevice,
        DropReason::ImpairedLost,
        DropReason::ImpairedLostInBurst,
        DropReason::ImpairedQueueFull,
        DropReason::ImpairedTooMany,
        DropReason::ImpairedNoBuffer,
    ];

    /// The reason as reports and metrics spell it.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::ReceiveOversize => "receive-oversize",
            DropReason::ReceiveOffloadMalformed => "receive-offload-malformed",
            DropReason::ReceiveNoBuffer => "receive-no-buffer",
            DropReason::ReceiveFramingMalformed => "receive-framing-malformed",
            DropReason::ReceiveFramingLost => "receive-framing-lost",
            DropReason::ReceiveOffloadUnsupported => "receive-offload-unsupported",
            DropReason::ReceiveVlanTagged => "receive-vlan-tagged",
            DropReason::ReceiveRingFull => "receive-ring-full",
            DropReason::TransmitOversize => "transmit-oversize",
            DropReason::TransmitEmpty => "transmit-empty",
            DropReason::TransmitMalformed => "transmit-malformed",
            DropReason::InterfaceDown => "interface-down",
            DropReason::DeviceGone => "device-gone",
            DropReason::TransmitRefused => "transmit-refused",
            DropReason::TransmitFull => "transmit-full",
            DropReason::TransmitNoDevice => "transmit-no-device",
            DropReason::ImpairedLost => "impaired-lost",
            DropReason::ImpairedLostInBurst => "impaired-lost-in-burst",
            DropReason::ImpairedQueueFull => "impaired-queue-full",
            DropReason::ImpairedTooMany => "impaired-too-many",
            DropReason::ImpairedNoBuffer => "impaired-no-buffer",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one receiver or transmitter has carried and dropped since it was opened.
///
/// A plain value: each end counts for itself, without sharing a cache line, and hands out copies.
///
/// ```
/// use braidnet_device::{Counters, DropReason};
/// let mut counters = Counters::default();
/// counters.count_drop(DropReason::TransmitOversize);
/// assert_eq!(counters.dropped(DropReason::TransmitOversize), 1);
/// assert_eq!(counters.drops().map(|(reason, count)| (reason.name(), count)).next(), Some(("transmit-oversize", 1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets carried.
    pub packets: u64,
    /// Bytes carried, link headers included.
    pub bytes: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// How many packets were dropped for `reason`.
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// The reasons that have occurred, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .into_iter()
            .map(|reason| (reason, self.dropped(reason)))
            .filter(|&(_, count)| count > 0)
    }

    /// Counts one packet of `bytes` bytes as carried.
    #[inline]
    pub fn count_packet(&mut self, bytes: usize) {
        self.count_packets(1, bytes);
    }

    /// Counts so many packets, of `bytes` bytes together, as carried.
    #[inline]
    pub fn count_packets(&mut self, packets: usize, bytes: usize) {
        self.packets = self.packets.wrapping_add(packets as u64);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }

    /// Counts one packet as dropped for `reason`.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.count_drops(reason, 1);
    }

    /// Counts so many packets as dropped for `reason`.
    pub fn count_drops(&mut self, reason: DropReason, packets: u64) {
        let count = &mut self.dropped[reason as usize];
        *count = count.wrapping_add(packets);
    }

    /// Adds what another end has counted, to sum over queues or processors.
    pub fn add(&mut self, other: &Counters) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        for (mine, theirs) in self.dropped.iter_mut().zip(other.dropped) {
            *mine = mine.wrapping_add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_its_own_name() {
        for (position, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, position, "{reason}");
            let mut counters = Counters::default();
            counters.count_drop(reason);
            assert_eq!(counters.drops().collect::<Vec<_>>(), [(reason, 1)]);
            assert_eq!(
                DropReason::ALL
                    .iter()
                    .filter(|other| other.name() == reason.name())
                    .count(),
                1
            );
        }
    }

    #[test]
    fn sums_add_up() {
        let mut one = Counters::default();
        one.count_packet(40);
        one.count_drop(DropReason::DeviceGone);
        let mut two = one;
        two.count_packet(60);
        two.add(&one);
        assert_eq!(
            (two.packets, two.bytes, two.dropped(DropReason::DeviceGone)),
            (3, 140, 2)
        );
    }
}
