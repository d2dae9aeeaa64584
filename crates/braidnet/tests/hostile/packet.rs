//! Packets made by hand: every field can be wrong, and what is not said is right.

use braidnet::wire::address::Address;
use braidnet::wire::checksum::Sum;

/// An IPv4 address.
pub type Ip = [u8; 4];

/// An address and a port.
pub type End = (Ip, u16);

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

/// An IPv4 packet whose options are padded to whole words.
pub fn ipv4_with_options(from: Ip, to: Ip, protocol: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len().next_multiple_of(4);
    let mut packet = vec![0; header_len];
    packet[0] = 0x40 | (header_len / 4) as u8;
    packet[2..4].copy_from_slice(&((header_len + body.len()) as u16).to_be_bytes());
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&from);
    packet[16..20].copy_from_slice(&to);
    packet[20..20 + options.len()].copy_from_slice(options);
    packet.extend_from_slice(body);
    reseal(&mut packet, header_len);
    packet
}

/// An IPv4 packet without options.
pub fn ipv4(from: Ip, to: Ip, protocol: u8, body: &[u8]) -> Vec<u8> {
    ipv4_with_options(from, to, protocol, &[], body)
}

/// Changes bytes of an IPv4 packet and makes its header's checksum right again.
pub fn with(mut packet: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        packet[*at] = *value;
    }
    let header_len = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
    reseal(&mut packet, header_len);
    packet
}

/// The part of a datagram that starts `offset` bytes into it.
pub fn fragment(packet: Vec<u8>, offset: u16, more: bool) -> Vec<u8> {
    let field = ((offset / 8) | (u16::from(more) << 13)).to_be_bytes();
    with(packet, &[(6, field[0]), (7, field[1])])
}

fn reseal(packet: &mut [u8], header_len: usize) {
    packet[10..12].fill(0);
    let checksum = Sum::of(&packet[..header_len]).finish_bytes();
    packet[10..12].copy_from_slice(&checksum);
}

fn transport_checksum(from: Ip, to: Ip, protocol: u8, bytes: &[u8]) -> [u8; 2] {
    let (from, to) = (Address::v4(from), Address::v4(to));
    let pseudo = Sum::pseudo_header(&from, &to, protocol, bytes.len() as u32);
    pseudo.combine(Sum::of(bytes)).finish_bytes()
}

/// An ICMP message with its checksum, in a packet.
pub fn icmp(from: Ip, to: Ip, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let checksum = Sum::of(&message).finish_bytes();
    message[2..4].copy_from_slice(&checksum);
    ipv4(from, to, ICMP, &message)
}

/// An echo request with this data.
pub fn echo(from: Ip, to: Ip, data: &[u8]) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend_from_slice(data);
    icmp(from, to, &message)
}

/// An ICMP error that quotes `quoted`; `rest` are the four bytes between checksum and quote.
pub fn icmp_error(from: Ip, to: Ip, kind: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&rest);
    message.extend_from_slice(quoted);
    icmp(from, to, &message)
}

/// A UDP datagram in a packet.
pub fn udp(from: End, to: End, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend((8 + data.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend_from_slice(data);
    let checksum = transport_checksum(from.0, to.0, UDP, &bytes);
    // RFC 768: a sum of zero goes out as all ones.
    let checksum = if checksum == [0, 0] {
        [0xff, 0xff]
    } else {
        checksum
    };
    bytes[6..8].copy_from_slice(&checksum);
    ipv4(from.0, to.0, UDP, &bytes)
}

/// A TCP segment.
#[derive(Clone, Debug)]
pub struct Segment {
    pub from: End,
    pub to: End,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<u8>,
    pub data: Vec<u8>,
    /// In words, if it is not what the options make it.
    pub data_offset: Option<u8>,
}

impl Segment {
    /// A bare ACK of nothing.
    pub fn new(from: End, to: End) -> Segment {
        Segment {
            from,
            to,
            seq: 0,
            ack: 0,
            flags: ACK,
            window: 65535,
            urgent: 0,
            options: Vec::new(),
            data: Vec::new(),
            data_offset: None,
        }
    }

    pub fn flags(self, flags: u8) -> Segment {
        Segment { flags, ..self }
    }

    /// Moves the sequence number.
    pub fn ahead(self, by: i64) -> Segment {
        let seq = self.seq.wrapping_add(by as u32);
        Segment { seq, ..self }
    }

    /// Moves the acknowledgment number.
    pub fn acking(self, by: i64) -> Segment {
        let ack = self.ack.wrapping_add(by as u32);
        Segment { ack, ..self }
    }

    pub fn window(self, window: u16) -> Segment {
        Segment { window, ..self }
    }

    pub fn data(self, data: &[u8]) -> Segment {
        let data = data.to_vec();
        Segment { data, ..self }
    }

    /// Adds options behind those that are there.
    pub fn options(mut self, options: &[u8]) -> Segment {
        self.options.extend_from_slice(options);
        self
    }

    /// The TCP segment alone.
    pub fn bytes(&self) -> Vec<u8> {
        let header_len = 20 + self.options.len().next_multiple_of(4);
        let offset = self.data_offset.unwrap_or((header_len / 4) as u8);
        let mut bytes = Vec::new();
        bytes.extend(self.from.1.to_be_bytes());
        bytes.extend(self.to.1.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([offset << 4, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend_from_slice(&self.options);
        bytes.resize(header_len, 0);
        bytes.extend_from_slice(&self.data);
        let checksum = transport_checksum(self.from.0, self.to.0, TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum);
        bytes
    }

    /// The segment in a packet.
    pub fn packet(&self) -> Vec<u8> {
        ipv4(self.from.0, self.to.0, TCP, &self.bytes())
    }
}

/// What a packet that left the stack says, if it is a TCP segment.
pub fn parse(packet: &[u8]) -> Option<Segment> {
    if packet.len() < 40 || packet[0] != 0x45 || packet[9] != TCP {
        return None;
    }
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let ip = |at: usize| [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
    let data_at = 20 + usize::from(packet[32] >> 4) * 4;
    let segment = &packet[20..];
    assert_eq!(
        transport_checksum(ip(12), ip(16), TCP, segment),
        [0, 0],
        "a wrong checksum left the stack"
    );
    Some(Segment {
        from: (ip(12), word(20)),
        to: (ip(16), word(22)),
        seq: long(24),
        ack: long(28),
        flags: packet[33],
        window: word(34),
        urgent: word(38),
        options: packet[40..data_at].to_vec(),
        data: packet[data_at..].to_vec(),
        data_offset: None,
    })
}

/// An ARP packet for IPv4 over Ethernet.
pub fn arp(operation: u8, sender: ([u8; 6], Ip), target: ([u8; 6], Ip)) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend(sender.0);
    packet.extend(sender.1);
    packet.extend(target.0);
    packet.extend(target.1);
    packet
}

/// An Ethernet frame, not padded.
pub fn frame(from: [u8; 6], to: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(14 + payload.len());
    frame.extend(to);
    frame.extend(from);
    frame.extend(ether_type.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
