//! What the modules of this crate leave in a message for each other.

use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::ethernet::MacAddress;
use braidnet_wire::tcp::TcpHeader;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Between IP and what stands on it. On the way up IP leaves it, its header stripped; on the way down the transport
/// leaves it, and IP makes the header of it.
///
/// The addresses are those of this host's view, as in a [`Tuple`], and lie where a `Tuple` has them: a note of one kind
/// becomes one of the other without moving them.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Datagram {
    /// This host's address: on the way up the one that the datagram came to, which may be everybody's.
    pub local: Address,
    /// The peer's address.
    pub remote: Address,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Time to live; 0 on the way down means the stack's default.
    pub ttl: u8,
    /// Bit set [`Datagram::BROADCAST`] and its neighbours.
    pub flags: u8,
    /// On the way up the length in bytes of the IP header, which still stands in front of the message's first byte; 0
    /// on the way down.
    pub header_len: u8,
    /// The Differentiated Services Code Point (RFC 2474 §3), six bits; 0 on the way up to TCP where the header has no options.
    pub differentiated_services: u8,
    /// On the way up to ICMP, of a packet that was not for this host: why it cannot go on, [`Refusal::TTL_EXCEEDED`] or one of its neighbours; else 0.
    pub refusal: u8,
    /// With [`Refusal::TOO_LONG`] the longest packet in bytes that the way on carries.
    pub path_mtu: u16,
}

/// Why a packet for another host cannot go on.
pub enum Refusal {}

impl Refusal {
    /// It has no hop left.
    pub const TTL_EXCEEDED: u8 = 1;
    /// No route is for it.
    pub const NO_ROUTE: u8 = 2;
    /// It is longer than the way on carries, and not to be fragmented.
    pub const TOO_LONG: u8 = 3;
    /// It is for the network of the link that it came by, and not for whoever is on the other end.
    pub const NO_HOST: u8 = 4;
}

impl Datagram {
    /// Bit of `flags`: it came to a broadcast or multicast address, and nothing may be said in reply that RFC 1122
    /// §3.2.2 forbids.
    pub const BROADCAST: u8 = 1;
    /// Bit of `flags`, on the way down, in a control message: it arrived in fragments and is whole now, and goes up.
    pub const WHOLE: u8 = 2;
    /// Bit of `flags`, on the way down: nobody may fragment it (DF).
    pub const UNCUT: u8 = 8;
    /// Bit of `flags`, on the way down, in a control message: it is the first fragment of a datagram whose time is over.
    pub const EXPIRED: u8 = 4;
    /// Two bits of `flags`, highest: the ECN field of the IP header (RFC 3168 §5), both ways, where a [`TcpHeader`] has it.
    pub const ECN: u8 = TcpHeader::ECN;

    /// [`Datagram::ECN`] of a header with this type of service.
    #[inline]
    pub const fn ecn_of(type_of_service: u8) -> u8 {
        type_of_service << 6
    }
}

/// Between IP and [`Fragments`](crate::fragments::Fragments), on the way up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Fragment {
    /// What IP says of it as of any datagram.
    pub datagram: Datagram,
    /// Names the datagram.
    pub identification: u16,
    /// Where its payload belongs in the datagram, in bytes.
    pub offset: u16,
    /// Not 0 if it is not the last.
    pub more: u8,
    /// Bytes of `copied`.
    pub copied_len: u8,
    /// The options of its header that each fragment of a datagram has (RFC 791 §3.1, the copied flag), one behind the other; zeros behind
    /// them.
    pub copied: [u8; Fragment::MAX_COPIED],
    /// Zero.
    pub reserved: [u8; 2],
}

impl Fragment {
    /// The options of the longest header.
    pub const MAX_COPIED: usize = 40;
}

/// Between the order-free part of TCP on the way up and its core.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Arrival {
    /// The flow, seen from this host. In front, so that its addresses lie where copies of the note have their seams.
    pub tuple: Tuple,
    /// The parsed header.
    pub header: TcpHeader,
    /// The flow's keyed hash.
    pub hash: u64,
}

/// Between ICMP and TCP or UDP, in a control message without data: what the network says of a segment or datagram of ours. It has the shape of the arrival
/// of a segment that no connection expects.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct News {
    /// Whose segment it is, and its sequence number.
    pub arrival: Arrival,
    /// [`News::REFUSED`] or one of its neighbours.
    pub what: u32,
    /// With [`News::TOO_LONG`] the longest packet in bytes that a link on the way carries.
    pub path_mtu: u32,
}

impl News {
    /// Nobody listens there.
    pub const REFUSED: u32 = 1;
    /// It will not be delivered, and trying again is of no use.
    pub const UNREACHABLE: u32 = 2;
    /// It was not delivered; that may pass.
    pub const UNDELIVERED: u32 = 3;
    /// It is longer than a link on its way carries.
    pub const TOO_LONG: u32 = 4;
}

/// Between the core of TCP and the order-free part on the way down, which makes header and checksum of it.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Departure {
    /// The flow, seen from this host.
    pub tuple: Tuple,
    /// The header to make.
    pub header: TcpHeader,
    /// As in a [`Datagram`].
    pub ttl: u8,
    /// As in a [`Datagram`].
    pub differentiated_services: u8,
    /// Not 0 if routers may fragment it.
    pub may_be_cut: u8,
    /// Says nothing.
    pub reserved: u8,
}

const _: () = {
    assert!(offset_of!(Datagram, local) == offset_of!(Tuple, local));
    assert!(offset_of!(Datagram, remote) == offset_of!(Tuple, remote));
};

/// Between UDP and what stands on it, both ways: the flow, seen from this host. On the way down each datagram of a train lies in a block of its own.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct UdpFlow {
    /// The flow.
    pub tuple: Tuple,
    /// On the way down [`Datagram::UNCUT`] if nobody may fragment it; else 0.
    pub flags: u8,
    /// Says nothing.
    pub reserved: [u8; 3],
}

/// Between Link and what stands on it. On the way up Link leaves it, its header stripped; on the way down IP and ARP
/// leave it, and Link makes the header of it, if the device carries Ethernet frames. Where there are several devices, what comes by one without a link header, and
/// what leaves by it, has it, too.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Frame {
    /// On the way down the neighbour that the packet goes to, if `station` is zero.
    pub hop: Address,
    /// On the way up the station that sent the frame, on the way down the one that it is for; zero if that is to be
    /// found out. Zero on the way up of what came in no frame.
    pub station: MacAddress,
    /// What the frame holds.
    pub ether_type: u16,
    /// Bit set [`Frame::GROUP`] and its neighbours.
    pub flags: u8,
    /// On the way up the device that it came by, on the way down the one that it leaves by.
    pub device: u8,
}

impl Frame {
    /// Bit of `flags`, on the way up: the frame was for a group of stations.
    pub const GROUP: u8 = 1;
}
