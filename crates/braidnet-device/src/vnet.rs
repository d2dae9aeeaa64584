//! `struct virtio_net_hdr`: what stands in front of each packet of a device with offloads (virtio 1.2 §5.1.6).
//!
//! TUN and TAP devices and packet sockets have it with their packets; a device of one's own that [offloads](crate::Offloads) reads and writes it by this.
//!
//! It says of a packet whose checksum it has or still needs, and of how many segments it is. Who wrote it may be the system, or whoever holds the other end of a
//! descriptor that was passed in: nothing of it is believed that the packet itself does not bear out (HOSTILE-INPUT 43).

use crate::DropReason;
use braidnet_message::Checksum;
use braidnet_wire::{ipv4, tcp, udp};

/// Its length in bytes.
pub const LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_*`: the checksum is to be made from `csum_start` on; it has been verified.
const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// `VIRTIO_NET_HDR_GSO_*`, and the bit for segments of which the first alone has CWR: a device whose offloads are agreed on is not offered such.
const GSO_ECN: u8 = 0x80;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Datagrams of UDP, over IP of either version.
const GSO_UDP_L4: u8 = 5;

/// Most datagrams that one packet stands for: the system's `UDP_MAX_SEGMENTS`, which is 64 in older ones.
const DATAGRAMS_MAX: usize = 128;

/// Bytes of an IPv6 header without extensions.
const IPV6_HEADER_LEN: usize = 40;

/// The header's fields, in the machine's byte order on the wire too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VnetHeader {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`: what a packet of several segments is of.
    pub gso_type: u8,
    /// Bytes of all headers: a hint.
    pub header_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where in the packet what the checksum is of begins.
    pub checksum_start: u16,
    /// Where the checksum stands, from there.
    pub checksum_offset: u16,
}

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// Who sees to its transport's checksum.
    pub checksum: Checksum,
    /// Where it stands for several segments.
    pub train: Option<Train>,
}

/// Segments, or datagrams, in one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Train {
    /// Bytes of all headers.
    pub header_len: usize,
    /// Payload bytes of each segment but the last.
    pub segment_bytes: usize,
}

/// Where a packet's transport begins, and whether it is TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Transport {
    start: usize,
    is_tcp: bool,
    is_v4: bool,
}

impl VnetHeader {
    /// The header that these bytes are.
    pub fn from_bytes(bytes: &[u8; LEN]) -> VnetHeader {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = *bytes;
        VnetHeader {
            flags,
            gso_type,
            header_len: u16::from_ne_bytes([a, b]),
            gso_size: u16::from_ne_bytes([c, d]),
            checksum_start: u16::from_ne_bytes([e, f]),
            checksum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; LEN] {
        let [a, b] = self.header_len.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// The same, without a word on which segments of a train have the CWR of the first. In a train they all have it, which its receiver takes as it takes one: they
    /// came together, with one mark of congestion for all, and what it says is to send no more echoes of those before (RFC 3168 §6.1.3).
    pub fn without_congestion(self) -> VnetHeader {
        VnetHeader {
            gso_type: self.gso_type & !GSO_ECN,
            ..self
        }
    }

    /// Whether it says that a packet stands for several segments, of any kind.
    pub fn is_train(self) -> bool {
        self.gso_type != GSO_NONE
    }

    /// Whether they are of TCP over IPv4.
    pub fn is_train_of_v4(self) -> bool {
        self.gso_type == GSO_TCPV4
    }

    /// Whether they are datagrams of UDP, over either version.
    pub fn is_train_of_datagrams(self) -> bool {
        self.gso_type == GSO_UDP_L4
    }

    /// How many segments a packet of `total` bytes stands for that begins with `front`, as far as this can be believed: to count what is dropped.
    pub fn segments(self, front: &[u8], link_len: usize, total: usize) -> usize {
        let end = |transport: Transport| transport.header_end(front);
        let header_len = (Transport::of(front, link_len).and_then(end)).unwrap_or(link_len);
        let data = total.saturating_sub(header_len);
        match usize::from(self.gso_size) {
            size if self.is_train() && size > 0 => data.div_ceil(size).max(1),
            _ => 1,
        }
    }

    /// What is to be said of a packet that leaves, whose headers lie in `front`, behind `link_len` bytes of link header; `None` if it is nothing that a device
    /// could finish.
    pub fn describing(
        front: &[u8],
        link_len: usize,
        segment_bytes: u32,
        checksum: Checksum,
    ) -> Option<VnetHeader> {
        if checksum != Checksum::Partial {
            return (segment_bytes == 0).then(VnetHeader::default);
        }
        let transport = Transport::of(front, link_len)?;
        let offset = transport.checksum_offset();
        let plain = VnetHeader {
            flags: NEEDS_CHECKSUM,
            checksum_start: transport.start as u16,
            checksum_offset: offset as u16,
            ..VnetHeader::default()
        };
        if segment_bytes == 0 {
            return Some(plain);
        }
        let header_len = transport.header_end(front)?;
        Some(VnetHeader {
            gso_type: match transport {
                Transport { is_tcp: false, .. } => GSO_UDP_L4,
                Transport { is_v4: true, .. } => GSO_TCPV4,
                _ => GSO_TCPV6,
            },
            header_len: header_len as u16,
            gso_size: u16::try_from(segment_bytes).ok()?,
            ..plain
        })
    }

    /// What it says of a packet of `total` bytes that arrived, the first of which are `front`, the link's header `link_len` of them; of these, `front` holds all
    /// headers.
    ///
    /// # Errors
    /// If the packet does not bear it out.
    pub fn of(self, front: &[u8], link_len: usize, total: usize) -> Result<Described, DropReason> {
        const LIE: DropReason = DropReason::ReceiveOffloadMalformed;
        let checksum = if self.flags & NEEDS_CHECKSUM != 0 {
            Checksum::Partial
        } else if self.flags & DATA_VALID != 0 {
            Checksum::Verified
        } else {
            Checksum::Stands
        };
        let transport = Transport::of(front, link_len);
        if checksum == Checksum::Partial {
            let transport = transport.ok_or(LIE)?;
            let (start, offset) = (self.checksum_start.into(), self.checksum_offset.into());
            let is_there = transport.start == start && transport.checksum_offset() == offset;
            if !is_there || start + offset + 2 > total {
                return Err(LIE);
            }
        }
        if self.gso_type == GSO_NONE {
            let train = None;
            return Ok(Described { checksum, train });
        }
        let transport = transport.ok_or(LIE)?;
        let header_len = transport.header_end(front).ok_or(LIE)?;
        let segment_bytes = usize::from(self.gso_size);
        let data = total.checked_sub(header_len).ok_or(LIE)?;
        let Transport { is_tcp, is_v4, .. } = transport;
        let is_of_its_kind = match self.gso_type {
            GSO_TCPV4 => is_tcp && is_v4 && transport.carries_data_alone(front),
            GSO_TCPV6 => is_tcp && !is_v4 && transport.carries_data_alone(front),
            GSO_UDP_L4 => {
                // Whoever joins them has verified their checksums, or makes one of all of them (virtio 1.2 §5.1.6.4).
                !is_tcp
                    && transport.udp_len(front) == Some(total - transport.start)
                    && data <= segment_bytes * DATAGRAMS_MAX
            }
            _ => false,
        };
        let is_honest = is_of_its_kind
            && transport.ip_len(front, link_len) == Some(total - link_len)
            && checksum != Checksum::Stands
            && usize::from(self.header_len) <= total
            && (1..=data).contains(&segment_bytes);
        if !is_honest {
            return Err(LIE);
        }
        let train = (segment_bytes < data).then_some(Train {
            header_len,
            segment_bytes,
        });
        Ok(Described { checksum, train })
    }
}

impl Transport {
    /// The transport of a packet that is no fragment and has no IPv6 extension header.
    fn of(front: &[u8], link_len: usize) -> Option<Transport> {
        let packet = front.get(link_len..)?;
        let (header_len, protocol, is_v4) = match packet.first()? >> 4 {
            4 => {
                let header: &[u8; ipv4::MIN_HEADER_LEN] = packet.first_chunk()?;
                let header_len = usize::from(header[0] & 0x0f) * 4;
                // Any offset, or more to come.
                let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
                if header_len < ipv4::MIN_HEADER_LEN || is_fragment {
                    return None;
                }
                (header_len, header[9], true)
            }
            6 => (IPV6_HEADER_LEN, *packet.get(6)?, false),
            _ => return None,
        };
        let is_tcp = match protocol {
            tcp::PROTOCOL => true,
            udp::PROTOCOL => false,
            _ => return None,
        };
        let start = link_len + header_len;
        let transport = Transport {
            start,
            is_tcp,
            is_v4,
        };
        (start + transport.checksum_offset() + 2 <= front.len()).then_some(transport)
    }

    fn checksum_offset(self) -> usize {
        if self.is_tcp {
            tcp::CHECKSUM_OFFSET
        } else {
            udp::CHECKSUM_OFFSET
        }
    }

    /// Where the transport's header ends, if all of it lies in `front`.
    fn header_end(self, front: &[u8]) -> Option<usize> {
        let header_len = if self.is_tcp {
            let len = usize::from(front.get(self.start + 12)? >> 4) * 4;
            Some(len).filter(|len| *len >= tcp::MIN_HEADER_LEN)?
        } else {
            udp::HEADER_LEN
        };
        Some(self.start + header_len).filter(|end| *end <= front.len())
    }

    /// Bytes of the datagram as UDP has it.
    fn udp_len(self, front: &[u8]) -> Option<usize> {
        let len = front.get(self.start + 4..)?.first_chunk()?;
        Some(u16::from_be_bytes(*len).into())
    }

    /// Bytes of the packet as IP has it.
    fn ip_len(self, front: &[u8], link_len: usize) -> Option<usize> {
        let at = |offset: usize| front.get(link_len + offset).copied().map(usize::from);
        if self.is_v4 {
            Some(at(2)? << 8 | at(3)?)
        } else {
            Some((at(4)? << 8 | at(5)?) + IPV6_HEADER_LEN)
        }
    }

    /// Whether the TCP flags are such that several segments can have them: no SYN or RST, and an ACK.
    fn carries_data_alone(self, front: &[u8]) -> bool {
        use tcp::TcpFlags;
        let never = TcpFlags::SYN.0 | TcpFlags::RST.0;
        let flags = front.get(self.start + 13).copied().unwrap_or(never);
        flags & never == 0 && flags & TcpFlags::ACK.0 != 0
    }
}

#[cfg(test)]
mod tests;
