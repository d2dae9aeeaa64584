//! Packets as they are made: honest ones by their fields, others by what is then done to their bytes.

use std::net::Ipv4Addr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, TcpHeader};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

/// Bytes of an IPv4 header without options.
pub const IP_HEADER: usize = 20;

/// The names of control bits, as RFC 9293 has them.
pub fn bits(flags: u8) -> String {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = names
        .iter()
        .enumerate()
        .filter(|(i, _)| flags >> i & 1 == 1);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() {
        return "no bits".into();
    }
    set.join(",")
}

/// A TCP segment.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub source: u16,
    pub destination: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<u8>,
    pub text: Vec<u8>,
}

impl Segment {
    pub fn seq(self, seq: u32) -> Segment {
        Segment { seq, ..self }
    }

    pub fn ack(self, ack: u32) -> Segment {
        Segment { ack, ..self }
    }

    pub fn window(self, window: u16) -> Segment {
        Segment { window, ..self }
    }

    pub fn urgent(self, urgent: u16) -> Segment {
        Segment { urgent, ..self }
    }

    pub fn options(self, options: impl Into<Vec<u8>>) -> Segment {
        Segment {
            options: options.into(),
            ..self
        }
    }

    pub fn text(self, text: impl Into<Vec<u8>>) -> Segment {
        Segment {
            text: text.into(),
            ..self
        }
    }

    /// SEG.LEN: octets, SYN and FIN counted.
    pub fn len(&self) -> u32 {
        self.text.len() as u32 + u32::from(self.flags & SYN != 0) + u32::from(self.flags & FIN != 0)
    }

    /// The bytes, the checksum among them. Options are filled up with zeros.
    pub fn bytes(&self, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        let mut header = TcpHeader::new(self.source, self.destination, self.seq, self.window);
        header.acknowledgment_number = self.ack;
        header.fin = self.flags & FIN != 0;
        header.syn = self.flags & SYN != 0;
        header.rst = self.flags & RST != 0;
        header.psh = self.flags & PSH != 0;
        header.ack = self.flags & ACK != 0;
        header.urg = self.flags & URG != 0;
        header.urgent_pointer = self.urgent;
        header
            .set_options_raw(&self.options)
            .expect("a case gives at most 40 bytes of options");
        header.checksum = header
            .calc_checksum_ipv4_raw(from.octets(), to.octets(), &self.text)
            .expect("a case gives no longer text than IP carries");
        [header.to_bytes().as_slice(), &self.text].concat()
    }
}

/// The Internet checksum (RFC 1071) of some bytes, zero where theirs will be.
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    Sum16BitWords::new()
        .add_slice(bytes)
        .ones_complement()
        .to_ne_bytes()
}

/// The checksum of a UDP datagram or a TCP segment (RFC 9293 §3.1), over the pseudo-header as well.
pub fn pseudo_checksum(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, bytes: &[u8]) -> [u8; 2] {
    Sum16BitWords::new()
        .add_4bytes(from.octets())
        .add_4bytes(to.octets())
        .add_2bytes([0, protocol])
        .add_2bytes((bytes.len() as u16).to_be_bytes())
        .add_slice(bytes)
        .ones_complement()
        .to_ne_bytes()
}

/// A UDP datagram.
pub fn udp(ports: (u16, u16), from: Ipv4Addr, to: Ipv4Addr, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = 8 + text.len() as u16;
    for field in [ports.0, ports.1, len, 0] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend(text);
    let sum = pseudo_checksum(17, from, to, &bytes);
    bytes[6..8].copy_from_slice(&if sum == [0, 0] { [0xff, 0xff] } else { sum });
    bytes
}

/// An ICMP message (RFC 792): type, code, the four bytes behind the checksum, and what follows.
pub fn icmp(kind: u8, code: u8, rest: [u8; 4], text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(rest);
    bytes.extend(text);
    let sum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&sum);
    bytes
}

/// An IPv4 header with the usual fields.
pub fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, id: u16) -> Ipv4Header {
    let mut header = Ipv4Header::new(0, 64, IpNumber(protocol), from.octets(), to.octets())
        .expect("no payload fits any packet");
    header.identification = id;
    header.dont_fragment = false;
    header
}

/// A packet: the header, its length and checksum as the payload has it.
pub fn packet(mut header: Ipv4Header, payload: &[u8]) -> Vec<u8> {
    header
        .set_payload_len(payload.len())
        .expect("a case gives no longer payload than IP carries");
    header.header_checksum = header.calc_header_checksum();
    [header.to_bytes().as_slice(), payload].concat()
}

/// A fragment: octets from `offset` of a payload, which is a multiple of eight; more fragments follow or not.
pub fn fragment(mut header: Ipv4Header, offset: usize, part: &[u8], more: bool) -> Vec<u8> {
    header.fragment_offset =
        IpFragOffset::try_new((offset / 8) as u16).expect("an offset has thirteen bits");
    header.more_fragments = more;
    packet(header, part)
}

/// The same packet with a header checksum that fits it again.
pub fn resummed(mut packet: Vec<u8>) -> Vec<u8> {
    let len = (usize::from(packet[0] & 15) * 4).clamp(IP_HEADER, packet.len());
    packet[10..12].fill(0);
    let sum = checksum(&packet[..len]);
    packet[10..12].copy_from_slice(&sum);
    packet
}

/// TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018).
pub mod option {
    pub const NOP: [u8; 1] = [1];
    pub const SACK_PERMITTED: [u8; 2] = [4, 2];

    pub fn mss(bytes: u16) -> Vec<u8> {
        let [high, low] = bytes.to_be_bytes();
        vec![2, 4, high, low]
    }

    pub fn window_scale(shift: u8) -> Vec<u8> {
        vec![3, 3, shift]
    }

    pub fn timestamps(value: u32, echo: u32) -> Vec<u8> {
        [&[8, 10], &value.to_be_bytes()[..], &echo.to_be_bytes()].concat()
    }

    pub fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
        let mut option = vec![5, 2 + 8 * blocks.len() as u8];
        for (left, right) in blocks {
            option.extend(left.to_be_bytes());
            option.extend(right.to_be_bytes());
        }
        option
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071 §3: the words 0001 f203 f4f5 f6f7 sum up to ddf2.
    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), [!0xdd, !0xf2]);
    }

    #[test]
    fn what_is_made_is_read_as_it_was() {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let segment = Segment {
            source: 1,
            destination: 2,
            seq: 3,
            ack: 4,
            flags: ACK | FIN,
            window: 5,
            options: option::sack(&[(6, 7)]),
            text: b"text".to_vec(),
            ..Segment::default()
        };
        let whole = packet(ip(from, to, 6, 9), &segment.bytes(from, to));
        let seen = crate::seen::Seen::read(&whole).expect("it has a header");
        let read = seen.tcp().expect("it is a segment");
        assert_eq!((read.seq, read.ack, read.flags), (3, 4, ACK | FIN));
        assert_eq!(
            (read.options.sack.as_slice(), &read.text[..]),
            (&[(6, 7)][..], &b"text"[..])
        );
        let mut damaged = whole.clone();
        damaged[30] ^= 1;
        let seen = crate::seen::Seen::read(&damaged).expect("it has a header");
        assert!(seen.tcp().is_none());
    }
}
