//! Packets as they are read: every length and checksum verified, since who sends them must get these right.

use std::fmt;
use std::net::Ipv4Addr;

use etherparse::{Ipv4Header, TcpHeader, TcpOptionElement};

use crate::packet::{self, bits};

/// A packet of the stack under test.
#[derive(Clone, Debug)]
pub struct Seen {
    pub ip: Ipv4Header,
    /// What the IP header is followed by.
    pub payload: Vec<u8>,
    pub body: Body,
}

/// What a packet carries.
#[derive(Clone, Debug)]
pub enum Body {
    Tcp(Arrived),
    Udp {
        ports: (u16, u16),
        text: Vec<u8>,
    },
    Icmp {
        kind: u8,
        code: u8,
        rest: [u8; 4],
        text: Vec<u8>,
    },
    Fragment,
    Other,
    /// Nobody could read it, and why.
    Wrong(&'static str),
}

/// A TCP segment that has come.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub source: u16,
    pub destination: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub text: Vec<u8>,
    pub options: Options,
}

/// What a segment's options say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
}

impl Arrived {
    /// SEG.LEN: octets, SYN and FIN counted.
    pub fn len(&self) -> u32 {
        let control =
            (self.flags & packet::SYN != 0) as u32 + (self.flags & packet::FIN != 0) as u32;
        self.text.len() as u32 + control
    }

    /// The control bits but PSH, which says nothing that has to be.
    pub fn control(&self) -> u8 {
        self.flags & !packet::PSH
    }

    /// The number behind its last octet.
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len())
    }
}

/// Where a packet comes from, so far as it can be told.
pub fn source(packet: &[u8]) -> Option<Ipv4Addr> {
    address(packet, 12)
}

/// Where a packet goes, so far as it can be told.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    address(packet, 16)
}

fn address(packet: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
    Some(octets.into())
}

impl Seen {
    /// Reads a packet; none if it has no IPv4 header.
    pub fn read(packet: &[u8]) -> Option<Seen> {
        let (ip, rest) = Ipv4Header::from_slice(packet).ok()?;
        let payload = rest.to_vec();
        let wrong = |why| Some(Body::Wrong(why));
        let body = if usize::from(ip.total_len) != packet.len() {
            wrong("the total length is not that of the packet")
        } else if ip.header_checksum != ip.calc_header_checksum() {
            wrong("the header checksum is wrong")
        } else if ip.is_fragmenting_payload() {
            Some(Body::Fragment)
        } else {
            match ip.protocol.0 {
                1 => Some(icmp(&payload)),
                6 => Some(tcp(&ip, &payload)),
                17 => Some(udp(&ip, &payload)),
                _ => Some(Body::Other),
            }
        };
        body.map(|body| Seen { ip, payload, body })
    }

    /// The same packet whole again, its payload put together from fragments.
    pub fn whole(&self, payload: Vec<u8>) -> Option<Seen> {
        let mut ip = self.ip.clone();
        ip.more_fragments = false;
        ip.fragment_offset = etherparse::IpFragOffset::ZERO;
        Seen::read(&packet::packet(ip, &payload))
    }

    /// The segment that it carries.
    pub fn tcp(&self) -> Option<&Arrived> {
        match &self.body {
            Body::Tcp(segment) => Some(segment),
            _ => None,
        }
    }

    /// Type and code of the ICMP message that it carries.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        match self.body {
            Body::Icmp { kind, code, .. } => Some((kind, code)),
            _ => None,
        }
    }
}

fn icmp(payload: &[u8]) -> Body {
    if payload.len() < 8 {
        return Body::Wrong("an ICMP message shorter than its header");
    }
    if packet::checksum(payload) != [0, 0] {
        return Body::Wrong("the ICMP checksum is wrong");
    }
    Body::Icmp {
        kind: payload[0],
        code: payload[1],
        rest: [payload[4], payload[5], payload[6], payload[7]],
        text: payload[8..].to_vec(),
    }
}

fn udp(ip: &Ipv4Header, payload: &[u8]) -> Body {
    let field = |at: usize| {
        payload
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let (Some(from), Some(to), Some(len), Some(sum)) = (field(0), field(2), field(4), field(6))
    else {
        return Body::Wrong("a UDP datagram shorter than its header");
    };
    if usize::from(len) != payload.len() {
        return Body::Wrong("the UDP length is not that of the datagram");
    }
    let whole = packet::pseudo_checksum(17, ip.source.into(), ip.destination.into(), payload);
    if sum != 0 && whole != [0, 0] {
        return Body::Wrong("the UDP checksum is wrong");
    }
    Body::Udp {
        ports: (from, to),
        text: payload[8..].to_vec(),
    }
}

fn tcp(ip: &Ipv4Header, payload: &[u8]) -> Body {
    let Ok((header, text)) = TcpHeader::from_slice(payload) else {
        return Body::Wrong("a TCP segment shorter than its header");
    };
    if packet::pseudo_checksum(6, ip.source.into(), ip.destination.into(), payload) != [0, 0] {
        return Body::Wrong("the TCP checksum is wrong");
    }
    let mut options = Options::default();
    for element in header.options_iterator() {
        match element {
            Ok(TcpOptionElement::MaximumSegmentSize(bytes)) => options.mss = Some(bytes),
            Ok(TcpOptionElement::WindowScale(shift)) => options.window_scale = Some(shift),
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) => {
                options.sack_permitted = true
            }
            Ok(TcpOptionElement::Timestamp(value, echo)) => {
                options.timestamps = Some((value, echo))
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(first, more)) => {
                options.sack.push(first);
                options.sack.extend(more.into_iter().flatten());
            }
            Ok(TcpOptionElement::Noop) => {}
            Err(_) => return Body::Wrong("a TCP option that nobody knows, or of a wrong length"),
        }
    }
    Body::Tcp(Arrived {
        source: header.source_port,
        destination: header.destination_port,
        seq: header.sequence_number,
        ack: header.acknowledgment_number,
        flags: payload[13],
        window: header.window_size,
        text: text.to_vec(),
        options,
    })
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Tcp(segment) => {
                write!(f, "TCP {} seq {}", bits(segment.flags), segment.seq)?;
                if segment.flags & packet::ACK != 0 {
                    write!(f, " ack {}", segment.ack)?;
                }
                write!(
                    f,
                    " window {} {} octets",
                    segment.window,
                    segment.text.len()
                )?;
                let options = &segment.options;
                if *options != Options::default() {
                    write!(f, " {options:?}")?;
                }
                Ok(())
            }
            Body::Udp { ports, text } => {
                write!(f, "UDP {} > {} {} octets", ports.0, ports.1, text.len())
            }
            Body::Icmp {
                kind, code, text, ..
            } => {
                write!(f, "ICMP type {kind} code {code} {} octets", text.len())
            }
            Body::Fragment => write!(
                f,
                "fragment of {} at {}, {} octets{}",
                self.ip.identification,
                self.ip.fragment_offset.value() * 8,
                self.payload.len(),
                if self.ip.more_fragments { ", more" } else { "" }
            ),
            Body::Other => write!(f, "protocol {}", self.ip.protocol.0),
            Body::Wrong(why) => write!(f, "{why}"),
        }
    }
}
