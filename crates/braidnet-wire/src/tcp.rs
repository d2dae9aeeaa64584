//! The TCP header (RFC 9293 §3.1) and the options that braidnet knows (§3.2, RFC 7323, RFC 2018, RFC 7413).
//!
//! ```
//! use braidnet_wire::address::Address;
//! use braidnet_wire::checksum::Sum;
//! use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
//!
//! let (here, there) = (Address::v4([192, 0, 2, 1]), Address::v4([192, 0, 2, 2]));
//! let header = TcpHeader { flags: TcpFlags::ACK, window: 512, ..TcpHeader::default() };
//!
//! let mut segment = [0; 64];
//! segment[20..22].copy_from_slice(b"hi");
//! let rest = Sum::pseudo_header(&here, &there, tcp::PROTOCOL, 22) + Sum::of(b"hi");
//! assert_eq!(tcp::emit_sealed(&header, 40000, 80, rest, &mut segment), 20);
//!
//! let segment = &segment[..22];
//! tcp::verify(&here, &there, segment).expect("the checksum is right");
//! let parsed = tcp::parse(segment).expect("the header is right");
//! assert_eq!((parsed.destination_port, parsed.header), (80, header));
//! ```

mod emit;
mod fast_open;
mod parse;

pub use emit::{HeaderWords, Layout, emit, emit_sealed, header_len, partly_seal, put_sum, seal};
pub use fast_open::FastOpenCookie;
pub use parse::{Parsed, TcpError, parse, parse_as, parse_usual, ports, usual_layout, verify};

use crate::seq::SeqNumber;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// TCP's protocol number (RFC 9293 §1).
pub const PROTOCOL: u8 = 6;
/// Length in bytes of a header without options (RFC 9293 §3.1).
pub const MIN_HEADER_LEN: usize = 20;
/// Length in bytes of the longest header: a data offset of 15 words.
pub const MAX_HEADER_LEN: usize = 60;
/// The largest shift that a window scale option stands for (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Option kinds (RFC 9293 §3.1, RFC 7323 §2.2 and §3.2, RFC 2018 §2 and §3, RFC 5482 §3.2, RFC 7413 §4.1.1).
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    pub(super) const USER_TIMEOUT: u8 = 28;
    pub(super) const FAST_OPEN: u8 = 34;
}

/// The options of nearly every segment: two NOPs align the timestamps (RFC 7323 appendix A), followed by eight bytes.
const ALIGNED_TIMESTAMPS: [u8; 4] = [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10];

/// The control bits of a TCP header, as one byte (RFC 9293 §3.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: TcpFlags = TcpFlags(0x10);
    /// The urgent pointer is significant.
    pub const URG: TcpFlags = TcpFlags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: TcpFlags = TcpFlags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: TcpFlags = TcpFlags(0x80);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: TcpFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    pub const fn union(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

/// One SACK block (RFC 2018 §3): `left` is the first sequence number held, `right` the one after the last.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: SeqNumber,
    /// Sequence number after the last one of the block.
    pub right: SeqNumber,
}

/// A parsed TCP header without its ports: what the engine takes in and gives out.
///
/// Plain old data of 60 bytes, in host byte order, so that a module can leave it in a message's notes between its
/// order-free and its ordered part.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct TcpHeader {
    /// SEG.SEQ.
    pub seq: SeqNumber,
    /// SEG.ACK; meaningful if [`TcpFlags::ACK`] is set.
    pub ack: SeqNumber,
    /// SEG.WND as on the wire, before scaling.
    pub window: u16,
    /// Control bits.
    pub flags: TcpFlags,
    /// Which of the optional fields below are present ([`TcpHeader::HAS_TIMESTAMPS`] and so on), and [`TcpHeader::ECN`].
    pub present: u8,
    /// TSval, if present (RFC 7323 §3).
    pub ts_value: u32,
    /// TSecr, if present.
    pub ts_echo: u32,
    /// Maximum segment size in bytes, if present (SYN only).
    pub mss: u16,
    /// Urgent pointer; meaningful if [`TcpFlags::URG`] is set.
    pub urgent: u16,
    /// Window scale shift as on the wire, if present (SYN only).
    pub window_scale: u8,
    /// Number of valid blocks in `sack`, 0 to 4. A SYN has none: there it says whether there is a
    /// [Fast Open](TcpHeader::fast_open) option, and how long.
    pub sack_count: u8,
    /// User timeout as on the wire, if present (RFC 5482 §3.2): in seconds, or with the highest bit set in minutes.
    pub user_timeout: u16,
    /// SACK blocks, the first `sack_count` valid; of a SYN, the cookie of Fast Open.
    pub sack: [SackBlock; 4],
}

impl TcpHeader {
    /// Bit of `present`: timestamps.
    pub const HAS_TIMESTAMPS: u8 = 1;
    /// Bit of `present`: maximum segment size.
    pub const HAS_MSS: u8 = 2;
    /// Bit of `present`: window scale.
    pub const HAS_WINDOW_SCALE: u8 = 4;
    /// Bit of `present`: SACK permitted.
    pub const HAS_SACK_PERMITTED: u8 = 8;
    /// Bit of `present`: user timeout.
    pub const HAS_USER_TIMEOUT: u8 = 16;
    /// Bit of `present` that is no option's: the AE flag, which was the nonce sum's (RFC 9768 §3.1).
    pub const AE: u8 = 32;
    /// Two bits of `present` that are no option's: the ECN field of the IP packet around the segment (RFC 3168 §5), highest. IP says it
    /// on the way in, TCP on the way out; parser and emitter do not look.
    pub const ECN: u8 = 0xc0;
    /// Value of [`TcpHeader::ECN`]: the transport understands marks, ECT(0).
    pub const ECT_0: u8 = 0x80;
    /// Value of [`TcpHeader::ECN`]: the same, ECT(1).
    pub const ECT_1: u8 = 0x40;
    /// Value of [`TcpHeader::ECN`]: marked, congestion was experienced.
    pub const CE: u8 = 0xc0;

    /// The valid SACK blocks.
    pub fn sack_blocks(&self) -> &[SackBlock] {
        let count = match self.flags.contains(TcpFlags::SYN) {
            true => 0,
            false => usize::from(self.sack_count).min(4),
        };
        &self.sack[..count]
    }

    /// The [ECN](TcpHeader::ECN) field of the packet; 0 if its transport does not understand marks.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.present & TcpHeader::ECN
    }

    /// Whether the option behind this bit of `present` is there.
    pub const fn has(&self, bit: u8) -> bool {
        self.present & bit != 0
    }
}

#[cfg(test)]
mod tests;
