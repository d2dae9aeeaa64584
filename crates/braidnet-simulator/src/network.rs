//! Packets under way over a [`Topology`]: lines that impair them, routers that send them on.

use crate::topology::Topology;
use braidnet::wire::address::Address;
use braidnet::wire::checksum::Sum;
use braidnet::wire::icmpv4::{self, Icmpv4, Quoted, unreachable};
use braidnet::wire::ipv4::{self, Ipv4Header};
use braidnet_impair::{Dropped, Line, Link, Tally};

/// An IP packet, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Which connection's life it was sent in; 0: no connection's.
    pub(crate) birth: u32,
    /// How many packets had been sent before it.
    pub(crate) number: u64,
}

/// What became of a packet, for the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Dropped by a line.
    Dropped(Dropped),
    /// The line was down.
    LineDown,
    /// No way leads there.
    NoRoute,
    /// Too long for the next line, and not to be fragmented.
    TooLong,
    /// Damaged so that a router saw it.
    Damaged,
    /// It went round and round.
    HopsUsedUp,
    /// Nobody has the address any more.
    NobodyThere,
}

/// Who hears of what becomes of packets.
pub(crate) trait Witness {
    /// This packet goes no further.
    fn lost(&mut self, now: u64, packet: &Packet, fate: Fate);
}

/// The address of a host's `number`th station.
pub(crate) fn address(host: usize, number: u8) -> Address {
    Address::v4([10, 0, host as u8, number])
}

fn host_of(address: &Address) -> Option<usize> {
    match address.as_v4()? {
        [10, 0, host, _] => Some(usize::from(host)),
        _ => None,
    }
}

/// Everything between the hosts.
pub(crate) struct Network {
    topology: Topology,
    routes: Vec<Vec<Option<usize>>>,
    ways: Vec<[Way; 2]>,
}

/// One direction of a line.
struct Way {
    link: Link,
    line: Line<Packet>,
}

impl Network {
    pub(crate) fn new(topology: &Topology) -> Network {
        let way = |number: usize, joint: &crate::topology::Joint, from: usize| Way {
            link: Link::new(&joint.ways[from], (2 * number + from) as u64),
            line: Line::new(joint.ways[from].limit_packets),
        };
        Network {
            routes: topology.routes(),
            ways: topology
                .links
                .iter()
                .enumerate()
                .map(|(number, joint)| [way(number, joint, 0), way(number, joint, 1)])
                .collect(),
            topology: topology.clone(),
        }
    }

    /// A line carries packets of so many bytes from now on, and nobody tells of it or somebody does.
    pub(crate) fn narrow(&mut self, link: usize, mtu: usize, is_silent: bool) {
        if let Some(joint) = self.topology.links.get_mut(link) {
            (joint.mtu, joint.is_silent) = (mtu, is_silent);
        }
    }

    /// Takes a packet that `node` sends; `down` says which lines are.
    pub(crate) fn send(
        &mut self,
        (now, down): (u64, &[bool]),
        node: usize,
        packet: Packet,
        witness: &mut impl Witness,
    ) {
        let header = match ipv4::parse(&packet.bytes) {
            Ok(header) => header,
            Err(_) => return witness.lost(now, &packet, Fate::Damaged),
        };
        let route =
            host_of(&header.destination).and_then(|host| *self.routes.get(node)?.get(host)?);
        let Some(number) = route else {
            return witness.lost(now, &packet, Fate::NoRoute);
        };
        let joint = &self.topology.links[number];
        if packet.bytes.len() > joint.mtu {
            let (mtu, is_silent) = (joint.mtu, joint.is_silent);
            witness.lost(now, &packet, Fate::TooLong);
            if !is_silent {
                self.tell_mtu((now, down), node, (&header, &packet, mtu), witness);
            }
            return;
        }
        if down.get(number).is_some_and(|down| *down) {
            return witness.lost(now, &packet, Fate::LineDown);
        }
        let from = usize::from(joint.ends[0] != node);
        let Way { link, line } = &mut self.ways[number][from];
        let sent = (now, packet.bytes.len());
        let lost = packet.clone();
        if let Err(dropped) = line.offer(link, sent, packet, |packet| Some(packet.clone())) {
            witness.lost(now, &lost, Fate::Dropped(dropped));
        }
    }

    /// Says that a packet was too long for a line (RFC 1191 §4).
    fn tell_mtu(
        &mut self,
        when: (u64, &[bool]),
        node: usize,
        (header, packet, mtu): (&Ipv4Header, &Packet, usize),
        witness: &mut impl Witness,
    ) {
        let about_error = header.protocol == icmpv4::PROTOCOL;
        if about_error || header.is_fragment() {
            return;
        }
        let quoted = packet.bytes.len().min(icmpv4::MAX_QUOTED_LEN);
        let Some(quoted) = packet
            .bytes
            .get(..quoted)
            .and_then(|bytes| Quoted::parse(bytes).ok())
        else {
            return;
        };
        let message = Icmpv4::Unreachable {
            code: unreachable::FRAGMENTATION_NEEDED,
            next_hop_mtu: mtu as u16,
            quoted,
        };
        let len = icmpv4::message_len(&message);
        let mut bytes = vec![0; 20 + len];
        let answer = Ipv4Header {
            source: Address::v4([10, 1, 0, node as u8]),
            destination: header.source,
            protocol: icmpv4::PROTOCOL,
            ttl: 64,
            total_len: (20 + len) as u16,
            ..Ipv4Header::default()
        };
        ipv4::emit(&answer, &mut bytes);
        icmpv4::emit(&message, &mut bytes[20..]);
        let answer = Packet {
            bytes,
            birth: 0,
            number: packet.number,
        };
        self.send(when, node, answer, witness);
    }

    /// When the next packet arrives somewhere.
    pub(crate) fn next(&self) -> Option<u64> {
        let ways = self.ways.iter().flatten();
        ways.filter_map(|way| way.line.next()).min()
    }

    /// The next packet that has arrived at a host; routers send on what has come to them.
    pub(crate) fn arrived(
        &mut self,
        (now, down): (u64, &[bool]),
        witness: &mut impl Witness,
    ) -> Option<(usize, Packet)> {
        loop {
            let (at, number, from) = self.earliest().filter(|(at, ..)| *at <= now)?;
            let delivery = self.ways[number][from].line.take(at)?;
            let mut packet = delivery.packet;
            if delivery.marked {
                mark(&mut packet.bytes);
            }
            if let Some(damage) = delivery.damage {
                damage.flip(&mut packet.bytes);
            }
            let node = self.topology.links[number].ends[1 - from];
            if node < self.topology.hosts {
                return Some((node, packet));
            }
            self.forward((at, down), node, packet, witness);
        }
    }

    fn earliest(&self) -> Option<(u64, usize, usize)> {
        let mut earliest: Option<(u64, usize, usize)> = None;
        for (number, ways) in self.ways.iter().enumerate() {
            for (from, way) in ways.iter().enumerate() {
                let Some(at) = way.line.next() else { continue };
                if earliest.is_none_or(|(before, ..)| at < before) {
                    earliest = Some((at, number, from));
                }
            }
        }
        earliest
    }

    /// What a router does (RFC 1812 §5.2).
    fn forward(
        &mut self,
        when: (u64, &[bool]),
        node: usize,
        mut packet: Packet,
        witness: &mut impl Witness,
    ) {
        let Ok(header) = ipv4::parse(&packet.bytes) else {
            return witness.lost(when.0, &packet, Fate::Damaged);
        };
        if header.ttl <= 1 {
            return witness.lost(when.0, &packet, Fate::HopsUsedUp);
        }
        change(&mut packet.bytes, 8, |ttl| ttl - 1);
        self.send(when, node, packet, witness);
    }

    /// What became of packets, over all lines.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        let ways = self.ways.iter().flatten();
        ways.map(|way| *way.link.tally()).collect()
    }
}

/// Sets both congestion bits where one is set (RFC 3168 §5).
fn mark(bytes: &mut [u8]) {
    if bytes.get(1).is_some_and(|tos| matches!(tos & 3, 1 | 2)) {
        change(bytes, 1, |tos| tos | 3);
    }
}

/// Changes a byte of an IPv4 header, and its checksum with it.
pub(crate) fn change(bytes: &mut [u8], at: usize, how: impl FnOnce(u8) -> u8) {
    let len = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    let Some(header) = bytes.get_mut(..len).filter(|header| header.len() >= 20) else {
        return;
    };
    header[at] = how(header[at]);
    header[10..12].fill(0);
    let sum = Sum::of(header).finish_bytes();
    header[10..12].copy_from_slice(&sum);
}
