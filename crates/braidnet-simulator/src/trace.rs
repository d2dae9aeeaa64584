//! What happened, for who replays a seed: lines as tcpdump prints them, and a file that it and its like read (pcapng).

use crate::network::{Fate, Packet, Witness};
use braidnet::wire::address::{Address, Tuple};
use braidnet::wire::icmpv4::{self, Icmpv4};
use braidnet::wire::ipv4;
use braidnet::wire::tcp::{self, TcpFlags, TcpHeader};
use std::fmt::Write;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) what: Happened,
}

/// See [`Entry`]. Packets are named by number.
#[derive(Clone, Debug)]
pub(crate) enum Happened {
    Sent {
        host: usize,
        packet: Packet,
    },
    Arrived {
        host: usize,
        packet: Packet,
    },
    Lost {
        packet: Packet,
        fate: Fate,
    },
    /// On a host.
    Note {
        host: usize,
        text: String,
    },
    /// To all.
    Headline(String),
}

/// Keeps entries if it is on.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) is_on: bool,
    pub(crate) entries: Vec<Entry>,
}

impl Trace {
    fn keep(&mut self, at: u64, what: impl FnOnce() -> Happened) {
        if self.is_on {
            let what = what();
            self.entries.push(Entry { at, what });
        }
    }

    pub(crate) fn sent(&mut self, at: u64, host: usize, packet: &Packet) {
        self.keep(at, || Happened::Sent {
            host,
            packet: packet.clone(),
        });
    }

    pub(crate) fn arrived(&mut self, at: u64, host: usize, packet: &Packet) {
        self.keep(at, || Happened::Arrived {
            host,
            packet: packet.clone(),
        });
    }

    pub(crate) fn note(&mut self, at: u64, host: usize, text: impl FnOnce() -> String) {
        self.keep(at, || Happened::Note { host, text: text() });
    }

    pub(crate) fn headline(&mut self, at: u64, text: impl FnOnce() -> String) {
        self.keep(at, || Happened::Headline(text()));
    }
}

impl Witness for Trace {
    fn lost(&mut self, now: u64, packet: &Packet, fate: Fate) {
        self.keep(now, || Happened::Lost {
            packet: packet.clone(),
            fate,
        });
    }
}

/// A time, in seconds.
pub(crate) fn seconds(at: u64) -> String {
    format!("{}.{:06}", at / 1_000_000_000, at / 1_000 % 1_000_000)
}

/// A packet as tcpdump prints it, without the time.
pub(crate) fn line(bytes: &[u8]) -> String {
    let Ok(header) = ipv4::parse(bytes) else {
        return format!("{} bytes that are no IP packet", bytes.len());
    };
    let payload = bytes.get(header.payload_range()).unwrap_or_default();
    let (from, to) = (Dotted(header.source), Dotted(header.destination));
    match header.protocol {
        tcp::PROTOCOL => match tcp::parse(payload) {
            Ok(parsed) => {
                let (source, destination) = (parsed.source_port, parsed.destination_port);
                let len = payload.len() - parsed.header_len;
                let field =
                    ["", "ECT(1) ", "ECT(0) ", "CE "][usize::from(header.type_of_service & 3)];
                let wrong = tcp::verify(&header.source, &header.destination, payload).is_err();
                let wrong = if wrong { " (checksum wrong)" } else { "" };
                format!(
                    "IP {field}{from}.{source} > {to}.{destination}: {}{wrong}",
                    segment(&parsed.header, len)
                )
            }
            Err(error) => format!("IP {from} > {to}: TCP: {}", error.name()),
        },
        icmpv4::PROTOCOL => match icmpv4::parse(payload) {
            Ok(Icmpv4::Unreachable {
                code, next_hop_mtu, ..
            }) => format!("IP {from} > {to}: ICMP unreachable, code {code}, mtu {next_hop_mtu}"),
            other => format!("IP {from} > {to}: ICMP {:?}", other.map(|_| "message")),
        },
        protocol => format!("IP {from} > {to}: protocol {protocol}"),
    }
}

struct Dotted(Address);

impl std::fmt::Display for Dotted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d] = self.0.as_v4().unwrap_or_default();
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// Flags as tcpdump prints them.
pub(crate) fn flags(header: &TcpHeader) -> String {
    let counts = header.has(TcpHeader::AE).then_some('e');
    [
        (TcpFlags::SYN, 'S'),
        (TcpFlags::FIN, 'F'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::ACK, '.'),
    ]
    .into_iter()
    .filter(|(flag, _)| header.flags.contains(*flag))
    .map(|(_, letter)| letter)
    .chain(counts)
    .collect()
}

fn segment(header: &TcpHeader, len: usize) -> String {
    let mut text = format!("Flags [{}]", flags(header));
    let seq = header.seq.value();
    match len {
        0 => write!(text, ", seq {seq}"),
        _ => write!(text, ", seq {seq}:{}", (header.seq + len as u32).value()),
    }
    .ok();
    if header.flags.contains(TcpFlags::ACK) {
        write!(text, ", ack {}", header.ack.value()).ok();
    }
    write!(text, ", win {}", header.window).ok();
    let mut options = Vec::new();
    if header.has(TcpHeader::HAS_MSS) {
        options.push(format!("mss {}", header.mss));
    }
    if header.has(TcpHeader::HAS_SACK_PERMITTED) {
        options.push("sackOK".to_owned());
    }
    if header.has(TcpHeader::HAS_TIMESTAMPS) {
        options.push(format!("TS val {} ecr {}", header.ts_value, header.ts_echo));
    }
    if header.has(TcpHeader::HAS_WINDOW_SCALE) {
        options.push(format!("wscale {}", header.window_scale));
    }
    let blocks = header.sack_blocks();
    if !blocks.is_empty() {
        let blocks = blocks
            .iter()
            .map(|block| format!("{{{}:{}}}", block.left.value(), block.right.value()));
        let blocks: String = blocks.collect();
        options.push(format!("sack {} {blocks}", header.sack_count));
    }
    if !options.is_empty() {
        write!(text, ", options [{}]", options.join(",")).ok();
    }
    write!(text, ", length {len}").ok();
    text
}

/// The segment in a packet, and the ends that it goes between, seen from who sends it.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Tuple, TcpHeader, usize)> {
    let header = ipv4::parse(bytes).ok()?;
    let payload = bytes.get(header.payload_range())?;
    if header.protocol != tcp::PROTOCOL || header.is_fragment() {
        return None;
    }
    tcp::verify(&header.source, &header.destination, payload).ok()?;
    let mut parsed = tcp::parse(payload).ok()?;
    parsed.header.present |= header.type_of_service << TcpHeader::ECN.trailing_zeros();
    let tuple = Tuple {
        local: header.source,
        remote: header.destination,
        local_port: parsed.source_port,
        remote_port: parsed.destination_port,
    };
    Some((tuple, parsed.header, payload.len() - parsed.header_len))
}

/// Every entry as a line.
pub(crate) fn text(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let line = match &entry.what {
            Happened::Sent { host, packet } => {
                format!(
                    "host {host} sends  #{} {}",
                    packet.number,
                    line(&packet.bytes)
                )
            }
            Happened::Arrived { host, packet } => {
                format!(
                    "host {host} gets   #{} {}",
                    packet.number,
                    line(&packet.bytes)
                )
            }
            Happened::Lost { packet, fate } => format!("lost          #{} {fate:?}", packet.number),
            Happened::Note { host, text } => format!("host {host}        {text}"),
            Happened::Headline(text) => format!("---- {text}"),
        };
        writeln!(text, "{} {line}", seconds(entry.at)).ok();
    }
    text
}

/// What hosts sent and got, as a pcapng file with an interface for each host (draft-ietf-opsawg-pcapng §4).
pub(crate) fn pcapng(entries: &[Entry], hosts: usize) -> Vec<u8> {
    const LINK_RAW: u16 = 101;
    const NANOSECONDS: u8 = 9;
    let mut out = Vec::new();
    block(&mut out, 0x0A0D_0D0A, |out| {
        out.extend(0x1A2B_3C4Du32.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend((-1i64).to_le_bytes());
    });
    for host in 0..hosts {
        block(&mut out, 1, |out| {
            out.extend(LINK_RAW.to_le_bytes());
            out.extend([0; 6]);
            option(out, 2, format!("host {host}").as_bytes());
            option(out, 9, &[NANOSECONDS]);
            option(out, 0, &[]);
        });
    }
    for entry in entries {
        let (host, packet, direction) = match &entry.what {
            Happened::Sent { host, packet } => (host, packet, 2u32),
            Happened::Arrived { host, packet } => (host, packet, 1),
            _ => continue,
        };
        block(&mut out, 6, |out| {
            let len = packet.bytes.len() as u32;
            out.extend((*host as u32).to_le_bytes());
            out.extend(((entry.at >> 32) as u32).to_le_bytes());
            out.extend((entry.at as u32).to_le_bytes());
            out.extend(len.to_le_bytes());
            out.extend(len.to_le_bytes());
            out.extend(&packet.bytes);
            pad(out);
            option(out, 2, &direction.to_le_bytes());
            option(out, 0, &[]);
        });
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    body(&mut content);
    let len = (content.len() as u32 + 12).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(len);
    out.extend(content);
    out.extend(len);
}

/// Inside a block, whose parts all end on multiples of four.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
