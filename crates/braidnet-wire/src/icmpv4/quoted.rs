//! The packet that an ICMP error quotes.

use super::{Icmpv4Error, PROTOCOL, is_error};
use crate::address::{Address, Tuple};
use crate::bytes::{array_at, u16_at, u32_at};
use crate::seq::SeqNumber;
use crate::{ipv4, tcp, udp};

/// How much of the quoted packet's payload must be there (RFC 792; RFC 1812 §4.3.2.3 asks for more, but not all send
/// more).
const MIN_PAYLOAD_LEN: usize = 8;

/// The start of a packet that this host is told to have sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted<'a> {
    /// Who sent the packet: this host, if the error is true.
    pub source: Address,
    /// Whom it was for.
    pub destination: Address,
    /// Protocol number of its payload.
    pub protocol: u8,
    /// Where its payload belongs in the datagram, in bytes: the transport header is at 0.
    pub fragment_offset: u16,
    /// The start of its payload: at least 8 bytes.
    pub payload: &'a [u8],
    /// All that is quoted, IP header included.
    pub packet: &'a [u8],
}

impl<'a> Quoted<'a> {
    /// Looks into a packet's start. Its lengths beyond the header and its checksum are not judged: it went through
    /// routers and comes back cut.
    ///
    /// Serves for making an error as well: `packet` is then the packet that arrived.
    ///
    /// # Errors
    ///
    /// [`Icmpv4Error::QuotedTruncated`], [`Icmpv4Error::QuotedHeader`] or [`Icmpv4Error::ErrorAboutError`].
    pub fn parse(packet: &'a [u8]) -> Result<Quoted<'a>, Icmpv4Error> {
        let fixed = packet
            .first_chunk::<{ ipv4::MIN_HEADER_LEN }>()
            .ok_or(Icmpv4Error::QuotedTruncated)?;
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        if fixed[0] >> 4 != 4 || header_len < ipv4::MIN_HEADER_LEN {
            return Err(Icmpv4Error::QuotedHeader);
        }
        let payload = packet
            .get(header_len..)
            .filter(|payload| payload.len() >= MIN_PAYLOAD_LEN)
            .ok_or(Icmpv4Error::QuotedTruncated)?;
        let quoted = Quoted {
            source: Address::v4(array_at(fixed, 12)),
            destination: Address::v4(array_at(fixed, 16)),
            protocol: fixed[9],
            fragment_offset: (u16_at(fixed, 6) & 0x1fff) * 8,
            payload,
            packet,
        };
        if quoted.protocol == PROTOCOL && quoted.fragment_offset == 0 && is_error(payload[0]) {
            return Err(Icmpv4Error::ErrorAboutError);
        }
        Ok(quoted)
    }

    /// How long the packet was, header included, as its header says.
    pub fn total_len(&self) -> u16 {
        self.packet
            .first_chunk::<4>()
            .map_or(0, |fixed| u16_at(fixed, 2))
    }

    /// The sequence number of the quoted segment, if it is one of TCP and has its header's start.
    pub fn tcp_seq(&self) -> Option<SeqNumber> {
        let fixed = self.payload.first_chunk::<MIN_PAYLOAD_LEN>()?;
        let is_start = self.protocol == tcp::PROTOCOL && self.fragment_offset == 0;
        is_start.then(|| SeqNumber::new(u32_at(fixed, 4)))
    }

    /// The flow of the quoted packet, seen from the host that sent it: its source is local. `None` if there are no
    /// ports to read: neither TCP nor UDP, or not the first fragment.
    pub fn tuple(&self) -> Option<Tuple> {
        let has_ports = matches!(self.protocol, tcp::PROTOCOL | udp::PROTOCOL);
        let ports = self.payload.first_chunk::<4>()?;
        (has_ports && self.fragment_offset == 0).then_some(Tuple {
            local: self.source,
            remote: self.destination,
            local_port: u16_at(ports, 0),
            remote_port: u16_at(ports, 2),
        })
    }
}
