//! The far end's headers, and the stack's packets taken apart.

use braidnet_message::{Message, Pool};
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, Ipv4Header, Template};
use braidnet_wire::tcp::{self, TcpHeader};
use braidnet_wire::udp::{self, UdpHeader};

/// Bytes that a driver leaves free in front of what it receives.
const HEADROOM: usize = braidnet_device::RECEIVE_HEADROOM;

const IP_BYTES: usize = ipv4::MIN_HEADER_LEN;

/// Makes the headers of one direction: from the far end to the stack.
pub(super) struct Framer {
    ip: Template,
    protocol: u8,
    source: Address,
    destination: Address,
}

impl Framer {
    /// For connections with this tuple's addresses, seen from the stack.
    pub(super) fn new(tuple: &Tuple, protocol: u8) -> Framer {
        let header = Ipv4Header {
            source: tuple.remote,
            destination: tuple.local,
            protocol,
            ttl: 64,
            dont_fragment: true,
            ..Ipv4Header::default()
        };
        Framer {
            ip: Template::new(&header),
            protocol,
            source: tuple.remote,
            destination: tuple.local,
        }
    }

    #[inline]
    fn pseudo(&self, len: usize) -> Sum {
        Sum::pseudo_header(&self.source, &self.destination, self.protocol, len as u32)
    }

    /// A message of the headers of a segment with `len` bytes of data, which has this sum and goes behind them.
    #[inline]
    pub(super) fn segment(
        &self,
        tuple: &Tuple,
        header: &TcpHeader,
        (len, sum): (usize, Sum),
        pool: &mut Pool,
    ) -> Option<Message> {
        let tcp_bytes = tcp::header_len(header);
        let mut message = pool.allocate(HEADROOM, IP_BYTES + tcp_bytes)?;
        let out = message.append(IP_BYTES + tcp_bytes)?;
        self.ip.emit((IP_BYTES + tcp_bytes + len) as u16, 0, out);
        let rest = self.pseudo(tcp_bytes + len).combine(sum);
        tcp::emit_sealed(
            header,
            tuple.remote_port,
            tuple.local_port,
            rest,
            &mut out[IP_BYTES..],
        );
        Some(message)
    }

    /// A message of the headers of a datagram and of its number, with `len` bytes of this sum behind them. Without checksum the
    /// field says so (RFC 768).
    #[inline]
    pub(super) fn datagram(
        &self,
        tuple: &Tuple,
        number: &[u8],
        (len, sum): (usize, Sum),
        checksum: bool,
        pool: &mut Pool,
    ) -> Option<Message> {
        let front = IP_BYTES + udp::HEADER_LEN;
        let mut message = pool.allocate(HEADROOM, front + number.len())?;
        let out = message.append(front + number.len())?;
        let udp_bytes = udp::HEADER_LEN + number.len() + len;
        self.ip.emit((IP_BYTES + udp_bytes) as u16, 0, out);
        let header = UdpHeader {
            source_port: tuple.remote_port,
            destination_port: tuple.local_port,
            len: udp_bytes as u16,
        };
        udp::emit(&header, &mut out[IP_BYTES..front]);
        out[front..].copy_from_slice(number);
        if checksum {
            let rest = self
                .pseudo(udp_bytes)
                .combine(Sum::of(number).then(sum, number.len()));
            udp::seal(&mut out[IP_BYTES..front], rest);
        }
        Some(message)
    }
}

/// Why a packet of the stack's is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    Unreadable,
    Checksum,
}

/// Reads a packet of the stack's as a real receiver would: both checksums, that of the transport over every byte if `verify` says
/// so. What remains is the transport's header and data, in the message's blocks.
#[inline]
pub(super) fn unwrap(message: &mut Message, protocol: u8, verify: bool) -> Result<(), Refused> {
    let bytes = message.bytes();
    if bytes.len() < IP_BYTES || bytes[0] != 0x45 || bytes[9] != protocol {
        return Err(Refused::Unreadable);
    }
    if usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) != message.total_len() {
        return Err(Refused::Unreadable);
    }
    let octets = |at: usize| Address::v4([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (source, destination) = (octets(12), octets(16));
    if !Sum::of(&bytes[..IP_BYTES]).is_valid() {
        return Err(Refused::Checksum);
    }
    message.strip(IP_BYTES);
    if verify {
        let mut sum =
            Sum::pseudo_header(&source, &destination, protocol, message.total_len() as u32);
        let mut offset = 0;
        for block in message.blocks() {
            sum = sum.then(Sum::of(block), offset);
            offset += block.len();
        }
        if !sum.is_valid() {
            return Err(Refused::Checksum);
        }
    }
    Ok(())
}
