//! What the tests of this crate share: addresses, packets made by hand, and a stack turned by hand.

use crate::assemble::Inet;
use crate::flows::Flows;
use crate::interface::{Interface, InterfaceConfig};
use crate::limits::InetLimits;
use crate::live::Live;
use crate::route::{Prefix, Route};
use braidnet_message::{Arena, Checksum, Message, Pool, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{Buckets, Cluster, Direction, Module, ModuleId, Stages, Stream};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ethernet::{EthernetHeader, MacAddress};
use braidnet_wire::ipv4::Ipv4Header;
use braidnet_wire::time::Instant;
use braidnet_wire::udp::UdpHeader;
use braidnet_wire::{ethernet, ipv4 as wire_ipv4, udp as wire_udp};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const US: Address = Address::v4([10, 77, 0, 2]);
pub(crate) const PEER: Address = Address::v4([10, 77, 0, 1]);
pub(crate) const ROUTER: Address = Address::v4([10, 77, 0, 254]);
pub(crate) const FAR: Address = Address::v4([192, 0, 2, 9]);
pub(crate) const OUR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
pub(crate) const PEER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub(crate) const MTU: usize = 1500;

pub(crate) fn interface(mac: Option<MacAddress>, gateway: Option<Address>) -> Interface {
    let default = gateway.map(|gateway| Route::via(Prefix::ALL, gateway));
    routed(mac, default.into_iter().collect())
}

pub(crate) fn routed(mac: Option<MacAddress>, routes: Vec<Route>) -> Interface {
    let addresses = vec![(US, Some(24))];
    Interface::new(InterfaceConfig {
        addresses,
        mtu: MTU,
        mac,
        routes,
        others: Vec::new(),
        forwards: false,
    })
    .unwrap()
}

pub(crate) fn ip_interface() -> Interface {
    interface(None, None)
}

pub(crate) fn ethernet_interface() -> Interface {
    interface(Some(OUR_MAC), None)
}

/// An IPv4 packet.
pub(crate) fn ipv4(source: Address, destination: Address, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total_len = (wire_ipv4::MIN_HEADER_LEN + payload.len()) as u16;
    let header = Ipv4Header {
        source,
        destination,
        protocol,
        ttl: 64,
        total_len,
        ..Ipv4Header::default()
    };
    let mut packet = vec![0; wire_ipv4::MIN_HEADER_LEN];
    wire_ipv4::emit(&header, &mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// Makes the header's checksum right again after a change.
pub(crate) fn seal_ipv4(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let checksum = Sum::of(&packet[..len]).finish_bytes();
    packet[10..12].copy_from_slice(&checksum);
}

/// A UDP datagram in an IPv4 packet.
pub(crate) fn udp(source: (Address, u16), destination: (Address, u16), payload: &[u8]) -> Vec<u8> {
    let len = (wire_udp::HEADER_LEN + payload.len()) as u16;
    let header = UdpHeader {
        source_port: source.1,
        destination_port: destination.1,
        len,
    };
    let mut datagram = vec![0; wire_udp::HEADER_LEN];
    wire_udp::emit(&header, &mut datagram);
    let pseudo = Sum::pseudo_header(&source.0, &destination.0, wire_udp::PROTOCOL, len.into());
    wire_udp::seal(&mut datagram, pseudo + Sum::of(payload));
    datagram.extend_from_slice(payload);
    ipv4(source.0, destination.0, wire_udp::PROTOCOL, &datagram)
}

/// An ICMP message, its checksum made here, in an IPv4 packet.
pub(crate) fn icmp(source: Address, destination: Address, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    if message.len() >= 4 {
        message[2..4].fill(0);
        let checksum = Sum::of(&message).finish_bytes();
        message[2..4].copy_from_slice(&checksum);
    }
    ipv4(source, destination, 1, &message)
}

/// A frame from the peer to us.
pub(crate) fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    frame_between(PEER_MAC, OUR_MAC, ether_type, payload)
}

pub(crate) fn frame_between(
    source: MacAddress,
    destination: MacAddress,
    ether_type: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::emit(
        &EthernetHeader {
            source,
            destination,
            ether_type,
        },
        &mut frame,
    );
    frame.extend_from_slice(payload);
    frame
}

/// Stands for TCP: lets everything through.
pub(crate) struct Transparent;

impl Module for Transparent {
    fn name(&self) -> &'static str {
        "transparent"
    }

    fn stages(&self) -> Stages {
        Stages::empty()
    }
}

/// A stack without TCP, turned by hand: packets in, packets and datagrams out.
pub(crate) struct Stack {
    pub(crate) inet: StackParts,
    cluster: Cluster,
    stream: Arc<Stream>,
    now: Instant,
}

pub(crate) struct StackParts {
    pub(crate) layout: crate::assemble::Layout,
    pub(crate) ports: Arc<crate::udp::UdpPorts>,
    pub(crate) limits: Arc<Live<InetLimits>>,
}

impl Stack {
    pub(crate) fn new(interface: Interface) -> Stack {
        Stack::with(interface, |_| Transparent)
    }

    /// The same with a module in TCP's place.
    pub(crate) fn with<M: Module>(interface: Interface, tcp: impl FnOnce(Flows) -> M) -> Stack {
        let flows = Flows::new([1, 2], 16, &interface);
        let Inet {
            stream,
            layout,
            ports,
            limits,
        } = Inet::assemble(interface, flows, tcp(flows));
        let stream = stream.build().unwrap();
        let buckets = Buckets::private(&stream, 16, |_| true, |_| true);
        let arena = Arena::new(64 << 20);
        let cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &arena);
        Stack {
            inet: StackParts {
                layout,
                ports,
                limits,
            },
            cluster,
            stream,
            now: Instant::ZERO,
        }
    }

    /// A message of these bytes, a block for each piece.
    pub(crate) fn message(&mut self, pieces: &[&[u8]]) -> Message {
        let pool = self.cluster.pool();
        let mut pieces = pieces
            .iter()
            .map(|piece| pool.copy_from_slice(64, piece).unwrap());
        let mut message = pieces.next().unwrap();
        pieces.for_each(|piece| message.push_continuation(piece));
        message
    }

    /// Lets a packet in and returns what leaves at the tail, in order.
    pub(crate) fn receive(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.receive_pieces(&[packet])
    }

    pub(crate) fn receive_pieces(&mut self, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let message = self.message(pieces);
        self.receive_message(message)
    }

    pub(crate) fn receive_message(&mut self, message: Message) -> Vec<Vec<u8>> {
        let bottom = self.inet.layout.bottom;
        self.cluster.put_one(bottom, Direction::Up, message);
        self.turn()
    }

    /// Lets a packet in and returns what leaves at the tail, each with the device that it leaves by.
    pub(crate) fn receive_for_devices(&mut self, message: Message) -> Vec<(u8, Vec<u8>)> {
        let sent = self.receive_as_they_are(message);
        let sent = sent.iter();
        sent.map(|message| (message.device(), bytes_of(message)))
            .collect()
    }

    /// Lets a packet in and returns what leaves at the tail.
    pub(crate) fn receive_as_they_are(&mut self, message: Message) -> Vec<Message> {
        let bottom = self.inet.layout.bottom;
        self.cluster.put_one(bottom, Direction::Up, message);
        self.sent()
    }

    fn sent(&mut self) -> Vec<Message> {
        let mut sent = Vec::new();
        self.cluster.turn(self.now, &mut |run: &mut Run| {
            sent.extend(run.drain());
        });
        sent
    }

    pub(crate) fn receive_run(&mut self, packets: &[&[u8]]) -> Vec<Vec<u8>> {
        for packet in packets {
            let message = self.message(&[packet]);
            self.cluster
                .put_one(self.inet.layout.bottom, Direction::Up, message);
        }
        self.turn()
    }

    /// Hands a message down into `module`.
    pub(crate) fn send(&mut self, module: ModuleId, message: Message) -> Vec<Vec<u8>> {
        self.cluster.put_one(module, Direction::Down, message);
        self.turn()
    }

    /// Hands a message down into `module` and returns what leaves at the tail.
    pub(crate) fn send_as_they_are(&mut self, module: ModuleId, message: Message) -> Vec<Message> {
        self.cluster.put_one(module, Direction::Down, message);
        self.sent()
    }

    /// Hands messages down into what stands in TCP's place, in one run.
    pub(crate) fn send_run(&mut self, run: Vec<Message>) -> Vec<Vec<u8>> {
        for message in run {
            self.cluster
                .put_one(self.inet.layout.tcp, Direction::Down, message);
        }
        self.turn()
    }

    pub(crate) fn pool(&mut self) -> &mut Pool {
        self.cluster.pool()
    }

    /// Moves the time on and returns what leaves at the tail.
    pub(crate) fn turn_at(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.now = now;
        self.turn()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.cluster.deadline()
    }

    fn turn(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        self.cluster.turn(self.now, &mut |run: &mut Run| {
            sent.extend(run.drain().flat_map(|message| on_the_wire(&message)));
        });
        sent
    }

    /// What left at the head.
    pub(crate) fn head(&mut self) -> Vec<Message> {
        self.cluster.head().drain().collect()
    }

    /// The counters that are not zero, as `module.name`.
    pub(crate) fn counted(&mut self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        self.cluster.counters().collect(&self.stream, &mut counted);
        counted
    }

    pub(crate) fn count(&self, module: &str, name: &str) -> u64 {
        self.cluster.counters().value(&self.stream, module, name)
    }
}

pub(crate) fn bytes_of(message: &Message) -> Vec<u8> {
    message.blocks().flatten().copied().collect()
}

/// What a device that does so much of TCP's and UDP's work makes of a message.
pub(crate) fn on_the_wire(message: &Message) -> Vec<Vec<u8>> {
    let bytes = bytes_of(message);
    let link = match bytes.first() {
        Some(0x45) => 0,
        _ => ethernet::HEADER_LEN,
    };
    let segments = match message.segment_bytes() as usize {
        0 => vec![bytes],
        each => cut(&bytes, link + wire_ipv4::MIN_HEADER_LEN, each),
    };
    match message.checksum() {
        Checksum::Partial => segments
            .into_iter()
            .map(|segment| completed(segment, link + wire_ipv4::MIN_HEADER_LEN))
            .collect(),
        _ => segments,
    }
}

/// The packets of a train whose transport's header begins at `at`, the sum of the pseudo-header in each.
fn cut(train: &[u8], at: usize, each: usize) -> Vec<Vec<u8>> {
    match train[at - wire_ipv4::MIN_HEADER_LEN + 9] {
        wire_udp::PROTOCOL => cut_datagrams(train, at, each),
        _ => cut_segments(train, at, each),
    }
}

fn cut_datagrams(train: &[u8], udp: usize, each: usize) -> Vec<Vec<u8>> {
    let (headers, payload) = train.split_at(udp + wire_udp::HEADER_LEN);
    assert_eq!(
        headers[udp + 4..udp + 6],
        (train[udp..].len() as u16).to_be_bytes()
    );
    let ip = udp - wire_ipv4::MIN_HEADER_LEN;
    let first = u16::from_be_bytes([headers[ip + 4], headers[ip + 5]]);
    let of_piece = |(number, piece): (usize, &[u8])| {
        let mut packet = [headers, piece].concat();
        let own = (packet.len() - udp) as u16;
        packet[udp + 4..udp + 6].copy_from_slice(&own.to_be_bytes());
        exchange_len(&mut packet[udp + 6..udp + 8], train.len() - udp, own);
        let len = (packet.len() - ip) as u16;
        packet[ip + 2..ip + 4].copy_from_slice(&len.to_be_bytes());
        let identification = first.wrapping_add(number as u16);
        packet[ip + 4..ip + 6].copy_from_slice(&identification.to_be_bytes());
        seal_ipv4(&mut packet[ip..]);
        packet
    };
    payload.chunks(each).enumerate().map(of_piece).collect()
}

/// The pseudo-header's sum has the length of all in it: a packet has its own.
fn exchange_len(sum: &mut [u8], whole: usize, own: u16) {
    let (old, whole) = (
        Sum(u16::from_ne_bytes([sum[0], sum[1]])),
        Sum::word(whole as u16),
    );
    sum.copy_from_slice(&old.replace(whole, Sum::word(own)).0.to_ne_bytes());
}

fn cut_segments(train: &[u8], tcp: usize, each: usize) -> Vec<Vec<u8>> {
    let (headers, payload) = train.split_at(tcp + usize::from(train[tcp + 12] >> 4) * 4);
    let pieces = payload.chunks(each).enumerate();
    let last = payload.len().div_ceil(each) - 1;
    let of_piece = |(number, piece): (usize, &[u8])| {
        let mut segment = [headers, piece].concat();
        let seq = u32::from_be_bytes(*segment[tcp + 4..].first_chunk().unwrap());
        let seq = seq.wrapping_add((number * each) as u32);
        segment[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
        if number < last {
            segment[tcp + 13] &= !9;
        }
        if number > 0 {
            segment[tcp + 13] &= !0x80;
        }
        let own = (segment.len() - tcp) as u16;
        exchange_len(&mut segment[tcp + 16..tcp + 18], train.len() - tcp, own);
        let ip = tcp - wire_ipv4::MIN_HEADER_LEN;
        let len = (segment.len() - ip) as u16;
        segment[ip + 2..ip + 4].copy_from_slice(&len.to_be_bytes());
        seal_ipv4(&mut segment[ip..]);
        segment
    };
    pieces.map(of_piece).collect()
}

/// A packet with the checksum of its transport, whose header begins at `transport` and has the sum of the pseudo-header.
fn completed(mut packet: Vec<u8>, transport: usize) -> Vec<u8> {
    let ip = transport - wire_ipv4::MIN_HEADER_LEN;
    let is_udp = packet[ip + 9] == wire_udp::PROTOCOL;
    let field = transport + if is_udp { 6 } else { 16 };
    let sum = Sum::of(&packet[transport..]);
    let sum = if is_udp {
        sum.finish_nonzero_bytes()
    } else {
        sum.finish_bytes()
    };
    packet[field..field + 2].copy_from_slice(&sum);
    packet
}

/// The payload of a frame from us, and whom it is for.
pub(crate) fn from_us(frame: &[u8], expected: u16) -> (MacAddress, &[u8]) {
    let header = ethernet::parse(frame).unwrap();
    assert_eq!((header.source, header.ether_type), (OUR_MAC, expected));
    (header.destination, &frame[ethernet::HEADER_LEN..])
}
