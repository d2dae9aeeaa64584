//! IPv4 packets with TCP in them, made and read the slow and obvious way, so that nothing of the stack judges itself.

use crate::segment::{Cookie, Damage, Segment, Timestamps, flag};
use crate::segment::{Options, Said};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A segment as it was on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) ecn: u8,
    pub(crate) dscp: u8,
    pub(crate) ttl: u8,
    pub(crate) ae: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sack: Vec<(u32, u32)>,
    pub(crate) fast_open: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

/// What relative numbers count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bases {
    /// The sequence number of the peer's SYN.
    pub(crate) peer: u32,
    /// That of the host's, once it is known.
    pub(crate) host: Option<u32>,
    /// What the host's last timestamp was.
    pub(crate) host_ts: u32,
    /// The cookie that it gave last, in as many bytes.
    pub(crate) cookie: ([u8; 16], usize),
}

impl Bases {
    /// The host has given this cookie.
    pub(crate) fn keep_cookie(&mut self, cookie: &[u8]) {
        let len = cookie.len().min(self.cookie.0.len());
        self.cookie.0[..len].copy_from_slice(&cookie[..len]);
        self.cookie.1 = len;
    }
}

/// The byte that stands at a place of a stream: of the peer's or the host's.
pub(crate) fn content(at: i64) -> u8 {
    (at ^ (at >> 8).wrapping_mul(31)) as u8
}

/// Bytes from `at` on.
pub(crate) fn contents(at: i64, len: usize) -> Vec<u8> {
    (at..at + len as i64).map(content).collect()
}

/// The place of a segment's first byte: behind its SYN, if it has one.
pub(crate) fn first_place(flags: u8, seq: i64) -> i64 {
    seq + i64::from(flags & flag::SYN != 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// The internet checksum (RFC 1071).
fn checksum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let mut sum: u32 = all
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn pseudo_header(from: Ipv4Addr, to: Ipv4Addr, len: usize) -> Vec<u8> {
    let mut bytes = [from.octets(), to.octets()].concat();
    bytes.extend([0, 6]);
    bytes.extend((len as u16).to_be_bytes());
    bytes
}

/// A segment that arrives, as bytes of an IPv4 packet.
pub(crate) fn build(
    segment: &Segment,
    bases: Bases,
    from: SocketAddrV4,
    to: SocketAddrV4,
) -> Vec<u8> {
    let options = option_bytes(&segment.options, bases);
    let payload = contents(first_place(segment.flags, segment.seq), segment.len);
    let offset = match segment.damage {
        Damage::DataOffset(words) => words,
        _ => (5 + options.len() / 4) as u8,
    };
    let ack = match segment.flags & flag::ACK {
        0 => 0,
        _ => bases.host.unwrap_or(0).wrapping_add(segment.ack as u32),
    };
    let push = u8::from(segment.push == Some(true)) * flag::PSH;
    let mut tcp = Vec::new();
    tcp.extend(from.port().to_be_bytes());
    tcp.extend(to.port().to_be_bytes());
    tcp.extend(bases.peer.wrapping_add(segment.seq as u32).to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([offset << 4 | u8::from(segment.ae), segment.flags | push]);
    tcp.extend(segment.window.unwrap_or(65535).to_be_bytes());
    tcp.extend([0, 0]);
    tcp.extend(segment.urgent.unwrap_or(0).to_be_bytes());
    tcp.extend(options);
    tcp.extend(payload);
    let pseudo = pseudo_header(*from.ip(), *to.ip(), tcp.len());
    let mut sum = checksum(&[&pseudo, &tcp]);
    if segment.damage == Damage::Checksum {
        sum ^= 0x5555;
    }
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let total = ((20 + tcp.len()) as u16).to_be_bytes();
    let ecn = segment.ecn.unwrap_or(0);
    let mut packet = vec![0x45, ecn, total[0], total[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    let sum = checksum(&[&packet]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(tcp);
    packet
}

fn option_bytes(options: &Options, bases: Bases) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Said::There(mss) = options.mss {
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    if let Said::There(()) = options.sack_permitted {
        bytes.extend([1, 1, 4, 2]);
    }
    if let Said::There(Timestamps { value, echo }) = options.timestamps {
        let echo = match bases.host_ts {
            0 => 0,
            last => last.wrapping_sub(echo),
        };
        bytes.extend([1, 1, 8, 10]);
        bytes.extend(value.to_be_bytes());
        bytes.extend(echo.to_be_bytes());
    }
    if let Said::There(shift) = options.window_scale {
        bytes.extend([1, 3, 3, shift]);
    }
    if let Said::There(blocks) = &options.sack {
        let base = bases.host.unwrap_or(0);
        bytes.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for edge in blocks.iter().flat_map(|(left, right)| [left, right]) {
            bytes.extend(base.wrapping_add(*edge as u32).to_be_bytes());
        }
    }
    if let Said::There(cookie) = &options.fast_open {
        let cookie = match cookie {
            Cookie::Bytes(bytes) => bytes.as_slice(),
            Cookie::OfHost => &bases.cookie.0[..bases.cookie.1],
        };
        bytes.extend([34, 2 + cookie.len() as u8]);
        bytes.extend(cookie);
        // Filled up by what is no option.
        while !bytes.len().is_multiple_of(4) {
            bytes.push(1);
        }
    }
    bytes.extend(&options.raw);
    while !bytes.len().is_multiple_of(4) {
        bytes.push(0);
    }
    bytes
}

impl Packet {
    /// A TCP segment over IPv4 whose checksums are right.
    ///
    /// # Errors
    /// What is wrong with it; `None` if it is no TCP over IPv4 at all.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Packet, Option<String>> {
        let is_tcp = bytes.first().is_some_and(|first| first >> 4 == 4) && bytes.get(9) == Some(&6);
        if !is_tcp {
            return Err(None);
        }
        Packet::read(bytes).ok_or_else(|| Some(format!("a malformed packet: {bytes:02x?}")))
    }

    fn read(bytes: &[u8]) -> Option<Packet> {
        let header_len = usize::from(bytes.first()? & 15) * 4;
        let total = usize::from(half(bytes, 2)?);
        let ip = bytes.get(..header_len)?;
        let tcp = bytes.get(header_len..total)?;
        let from = Ipv4Addr::from(word(ip, 12)?);
        let to = Ipv4Addr::from(word(ip, 16)?);
        let pseudo = pseudo_header(from, to, tcp.len());
        if checksum(&[ip]) != 0 || checksum(&[&pseudo, tcp]) != 0 || bytes.len() != total {
            return None;
        }
        let offset = usize::from(tcp.get(12)? >> 4) * 4;
        let mut packet = Packet {
            from: SocketAddrV4::new(from, half(tcp, 0)?),
            to: SocketAddrV4::new(to, half(tcp, 2)?),
            flags: *tcp.get(13)?,
            seq: word(tcp, 4)?,
            ack: word(tcp, 8)?,
            window: half(tcp, 14)?,
            urgent: half(tcp, 18)?,
            ecn: *ip.get(1)? & 3,
            dscp: *ip.get(1)? >> 2,
            ttl: *ip.get(8)?,
            ae: *tcp.get(12)? & 1 != 0,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
            sack: Vec::new(),
            fast_open: None,
            payload: tcp.get(offset..)?.to_vec(),
        };
        packet.read_options(tcp.get(20..offset)?)?;
        Some(packet)
    }

    fn read_options(&mut self, mut options: &[u8]) -> Option<()> {
        loop {
            match options {
                [] | [0, ..] => return Some(()),
                [1, rest @ ..] => options = rest,
                [kind, len, ..] => {
                    let option = options.get(..usize::from(*len))?;
                    match (kind, len) {
                        (2, 4) => self.mss = half(option, 2),
                        (3, 3) => self.window_scale = option.get(2).copied(),
                        (4, 2) => self.sack_permitted = true,
                        (8, 10) => self.timestamps = Some((word(option, 2)?, word(option, 6)?)),
                        (5, len) if len % 8 == 2 => {
                            for block in option[2..].chunks(8) {
                                self.sack.push((word(block, 0)?, word(block, 4)?));
                            }
                        }
                        (34, 2..) => self.fast_open = Some(option[2..].to_vec()),
                        (_, 0 | 1) => return None,
                        _ => {}
                    }
                    options = options.get(usize::from(*len)..)?;
                }
                _ => return None,
            }
        }
    }

    /// The same as a script would write it.
    pub(crate) fn as_segment(&self, bases: Bases) -> Segment {
        let relative = |number: u32, base: u32| i64::from(number.wrapping_sub(base) as i32);
        let host = bases.host.unwrap_or(self.seq);
        Segment {
            flags: self.flags & !flag::PSH,
            seq: relative(self.seq, host),
            ack: match self.flags & flag::ACK {
                0 => 0,
                _ => relative(self.ack, bases.peer),
            },
            len: self.payload.len(),
            window: Some(self.window),
            push: Some(self.flags & flag::PSH != 0),
            urgent: (self.flags & flag::URG != 0).then_some(self.urgent),
            ecn: Some(self.ecn),
            dscp: Some(self.dscp),
            ttl: Some(self.ttl),
            ae: self.ae,
            options: Options {
                mss: self.mss.map_or(Said::Nothing, Said::There),
                window_scale: self.window_scale.map_or(Said::Nothing, Said::There),
                sack_permitted: match self.sack_permitted {
                    true => Said::There(()),
                    false => Said::Nothing,
                },
                timestamps: self.timestamps.map_or(Said::Nothing, |(value, echo)| {
                    Said::There(Timestamps { value, echo })
                }),
                sack: match self.sack.is_empty() {
                    true => Said::Nothing,
                    false => Said::There(
                        self.sack
                            .iter()
                            .map(|(left, right)| {
                                (relative(*left, bases.peer), relative(*right, bases.peer))
                            })
                            .collect(),
                    ),
                },
                fast_open: match &self.fast_open {
                    None => Said::Nothing,
                    Some(bytes) => Said::There(Cookie::Bytes(bytes.clone())),
                },
                raw: Vec::new(),
            },
            damage: Damage::None,
            is_ack_free: false,
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} ", self.from, self.to)?;
        self.as_segment(Bases::default()).fmt(f)
    }
}
