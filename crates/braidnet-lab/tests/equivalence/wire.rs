//! What must hold on the wire, whoever turns the stack: ACKs never go back, every byte is sent and always the same, and
//! nothing goes past the window that the far end has announced.

use crate::tap::{Packets, Way};
use braidnet_wire::ipv4;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
use std::collections::BTreeMap;

/// A TCP segment of a packet, by the far end's port.
pub struct Segment<'a> {
    pub port: u16,
    pub header: TcpHeader,
    pub data: &'a [u8],
}

pub fn segment(way: Way, packet: &[u8]) -> Option<Segment<'_>> {
    let ip = ipv4::parse(packet)
        .ok()
        .filter(|ip| ip.protocol == tcp::PROTOCOL)?;
    let bytes = &packet[ip.payload_range()];
    tcp::verify(&ip.source, &ip.destination, bytes).ok()?;
    let parsed = tcp::parse(bytes).ok()?;
    let port = if way == Way::ToFarEnd {
        parsed.destination_port
    } else {
        parsed.source_port
    };
    Some(Segment {
        port,
        header: parsed.header,
        data: &bytes[parsed.header_len..],
    })
}

/// The packets of each connection, by the far end's port.
pub fn by_connection(trace: &[(Way, Vec<u8>)]) -> BTreeMap<u16, Packets> {
    let mut all: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for (way, packet) in trace {
        if let Some(segment) = segment(*way, packet) {
            all.entry(segment.port)
                .or_default()
                .push((*way, packet.clone()));
        }
    }
    all
}

/// One connection as the wire shows it. Places are counted from the SYNs.
#[derive(Default)]
struct Flow {
    /// The SYNs of the stack under test and of the far end.
    syns: [Option<TcpHeader>; 2],
    /// What the stack has sent, from its first byte on.
    sent: Vec<Option<u8>>,
    acked: u32,
    /// The right edge that the far end has announced.
    edge: u32,
}

/// The stack's side of every connection: the bytes that it sent, by the far end's port.
///
/// # Errors
/// The first law that was broken, in words.
pub fn check(trace: &[(Way, Vec<u8>)]) -> Result<BTreeMap<u16, Vec<u8>>, String> {
    let mut flows: BTreeMap<u16, Flow> = BTreeMap::new();
    for (way, packet) in trace {
        let Some(segment) = segment(*way, packet) else {
            continue;
        };
        if segment.header.flags.contains(TcpFlags::RST) {
            continue;
        }
        let flow = flows.entry(segment.port).or_default();
        match way {
            Way::FromFarEnd => flow.arrives(&segment),
            Way::ToFarEnd => flow.departs(&segment)?,
        }
    }
    flows
        .into_iter()
        .map(|(port, flow)| Ok((port, flow.bytes(port)?)))
        .collect()
}

impl Flow {
    fn arrives(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        let scaled = self
            .syns
            .iter()
            .all(|syn| syn.is_some_and(|syn| syn.has(TcpHeader::HAS_WINDOW_SCALE)));
        let syn = header.flags.contains(TcpFlags::SYN);
        if syn {
            self.syns[1].get_or_insert(*header);
        }
        if header.flags.contains(TcpFlags::ACK)
            && let [Some(ours), Some(theirs)] = self.syns
        {
            let shift = if scaled && !syn {
                theirs.window_scale
            } else {
                0
            };
            let edge = (header.ack - ours.seq).wrapping_add(u32::from(header.window) << shift);
            // An injected segment may acknowledge what was never sent; its window means nothing.
            if (header.ack - ours.seq) as usize <= self.sent.len() + 2 {
                self.edge = self.edge.max(edge);
            }
        }
    }

    fn departs(&mut self, segment: &Segment<'_>) -> Result<(), String> {
        let Segment { port, header, data } = segment;
        if header.flags.contains(TcpFlags::SYN) {
            self.syns[0].get_or_insert(*header);
            return Ok(());
        }
        let [Some(ours), Some(theirs)] = self.syns else {
            return Err(format!("port {port}: a segment before the handshake"));
        };
        let ack = header.ack - theirs.seq;
        if ack < self.acked {
            return Err(format!("port {port}: ACK {ack} after {}", self.acked));
        }
        self.acked = ack;
        let start = (header.seq - ours.seq) as usize - 1;
        let end = start + data.len();
        if data.len() > 1 && end >= self.edge as usize {
            return Err(format!(
                "port {port}: bytes {start} to {end}, the window ends at {}",
                self.edge
            ));
        }
        // A segment without data may stand behind the FIN.
        if !data.is_empty() && self.sent.len() < end {
            self.sent.resize(end, None);
        }
        for (place, byte) in self.sent.iter_mut().skip(start).zip(*data) {
            if place.is_some_and(|before| before != *byte) {
                return Err(format!(
                    "port {port}: other bytes in {start} to {end} than before"
                ));
            }
            *place = Some(*byte);
        }
        Ok(())
    }

    fn bytes(self, port: u16) -> Result<Vec<u8>, String> {
        let bytes: Option<Vec<u8>> = self.sent.into_iter().collect();
        bytes.ok_or_else(|| format!("port {port}: a byte was never sent"))
    }
}

/// Where one connection stands, for a test that aims at it.
pub struct Aim {
    /// The far end's last header.
    pub last: TcpHeader,
    /// What the stack expects next.
    pub rcv_nxt: SeqNumber,
}

/// Where connection `port` stands, from all that passed so far.
pub fn aim(trace: &[(Way, Vec<u8>)], port: u16) -> Option<Aim> {
    let of = |wanted: Way| {
        let segments = trace.iter().filter(move |(way, _)| *way == wanted).rev();
        segments
            .filter_map(move |(way, packet)| segment(*way, packet))
            .filter(move |segment| segment.port == port)
    };
    let ours = of(Way::ToFarEnd).next()?.header;
    let last = of(Way::FromFarEnd).next()?.header;
    Some(Aim {
        last,
        rcv_nxt: ours.ack,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(way: Way, header: TcpHeader, data: &[u8]) -> (Way, Vec<u8>) {
        (way, crate::inject::packet(way, 5000, 7, &header, data))
    }

    fn header(seq: u32, ack: u32, flags: TcpFlags, window: u16) -> TcpHeader {
        TcpHeader {
            seq: SeqNumber::new(seq),
            ack: SeqNumber::new(ack),
            flags,
            window,
            ..TcpHeader::default()
        }
    }

    fn opened() -> Packets {
        vec![
            packet(Way::FromFarEnd, header(99, 0, TcpFlags::SYN, 10), b""),
            packet(
                Way::ToFarEnd,
                header(999, 100, TcpFlags::SYN.union(TcpFlags::ACK), 10),
                b"",
            ),
            packet(Way::FromFarEnd, header(100, 1000, TcpFlags::ACK, 10), b""),
        ]
    }

    /// Each row breaks one law; what comes before it breaks none.
    #[test]
    fn every_law_can_be_broken() {
        let ack = TcpFlags::ACK;
        let first = packet(Way::ToFarEnd, header(1000, 104, ack, 10), b"good");
        for (row, law) in [
            (
                packet(Way::ToFarEnd, header(1004, 103, ack, 10), b""),
                "ACK",
            ),
            (
                packet(Way::ToFarEnd, header(1000, 104, ack, 10), b"evil"),
                "other bytes",
            ),
            (
                packet(Way::ToFarEnd, header(1006, 104, ack, 10), b"late"),
                "never sent",
            ),
            (
                packet(Way::ToFarEnd, header(1004, 104, ack, 10), b"much too much"),
                "window",
            ),
        ] {
            let mut trace = opened();
            trace.push(first.clone());
            assert_eq!(check(&trace).unwrap()[&5000], b"good");
            trace.push(row);
            let error = check(&trace).expect_err(law);
            assert!(error.contains(law), "{error}");
        }
    }
}
