//! What the device does of the transports' work.

use braidnet_message::{Checksum, Message};
use braidnet_wire::ipv4::{self, MAX_TOTAL_LEN};
use braidnet_wire::tcp;

/// Most payload bytes in a train: what one IP packet holds beside the longest headers, so that a device may take it whole.
pub(crate) const TRAIN_BYTES: usize = MAX_TOTAL_LEN - ipv4::MIN_HEADER_LEN - tcp::MAX_HEADER_LEN;

/// What a device does of what the transports would do otherwise, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Offload {
    /// Nothing: checksums are made and verified here, and each segment is cut here.
    #[default]
    Nothing,
    /// It makes checksums where a packet leaves with the sum of the pseudo-header in their place, and says of packets that arrive whether it has verified
    /// theirs ([`Checksum`]).
    Checksums,
    /// That, and it takes [trains](Message::segment_bytes) of TCP's segments as they are.
    Segments,
    /// That, and it takes trains of UDP's datagrams as they are.
    Datagrams,
    /// Nobody makes checksums, and nobody verifies them: packets leave with a checksum of zero. For a laboratory, as PLP §2.3 measured.
    LeftOut,
}

impl Offload {
    /// Whether the checksum of a packet that arrived is to be verified here.
    #[inline(always)]
    pub(crate) fn verifies(self, message: &Message) -> bool {
        match self {
            Offload::Nothing => true,
            Offload::Checksums | Offload::Segments | Offload::Datagrams => {
                message.checksum() == Checksum::Stands
            }
            Offload::LeftOut => false,
        }
    }

    /// Whether the device takes a message as it is: a train of this protocol, or a packet whose checksum is left to it.
    #[inline]
    pub(crate) fn takes(self, message: &Message, protocol: u8) -> bool {
        match (message.segment_bytes(), message.checksum()) {
            (0, Checksum::Partial) => self.completes(),
            (0, _) => true,
            _ if protocol == tcp::PROTOCOL => {
                matches!(self, Offload::Segments | Offload::Datagrams)
            }
            _ => self == Offload::Datagrams,
        }
    }

    /// Whether the device makes the checksum of what leaves in one packet.
    #[inline(always)]
    pub(crate) fn completes(self) -> bool {
        matches!(
            self,
            Offload::Checksums | Offload::Segments | Offload::Datagrams
        )
    }

    /// How many segments of so many bytes leave in one packet: those of a train where the device takes trains, else one.
    pub(crate) fn segments_at_once(self, mss: u32) -> u32 {
        match self {
            Offload::Segments | Offload::Datagrams => (TRAIN_BYTES as u32 / mss.max(1)).max(1),
            Offload::Nothing | Offload::Checksums | Offload::LeftOut => 1,
        }
    }
}
