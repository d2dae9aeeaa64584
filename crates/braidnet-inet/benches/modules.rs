//! Nanoseconds per packet through the modules below TCP: runs of 64 packets, one processor, everything in the first-level
//! cache, the same messages again and again. What the cluster costs around the modules is in it, and a packet that is
//! not checksummed is not read.
//!
//! `cargo bench -p braidnet-inet --bench modules`. `cargo test` runs it at smoke size, where it proves only that every
//! packet comes through.

use braidnet_inet::notes::{Datagram, UdpFlow};
use braidnet_inet::{Flows, Inet, Interface, InterfaceConfig, Layout};
use braidnet_message::{Arena, Message, Run};
use braidnet_stream::cluster::ModuleSet;
use braidnet_stream::{Buckets, Cluster, Direction, Module, ModuleId, Stages};
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::checksum::Sum;
use braidnet_wire::ethernet::{self, EthernetHeader, MacAddress, ether_type};
use braidnet_wire::ipv4::{self, Ipv4Header};
use braidnet_wire::time::Instant;
use braidnet_wire::udp::{self, UdpHeader};
use std::hint::black_box;

const US: Address = Address::v4([10, 77, 0, 2]);
const PEER: Address = Address::v4([10, 77, 0, 1]);
const OUR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const PEER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const RUN: usize = 64;
const PORT: u16 = 9;

/// Stands for TCP.
struct Transparent;

impl Module for Transparent {
    fn name(&self) -> &'static str {
        "transparent"
    }

    fn stages(&self) -> Stages {
        Stages::empty()
    }
}

struct Bench {
    cluster: Cluster,
    layout: Layout,
    run: Run,
}

impl Bench {
    fn new(mac: Option<MacAddress>) -> Bench {
        let addresses = vec![(US, Some(24))];
        let config = InterfaceConfig {
            addresses,
            mtu: 65535,
            mac,
            routes: Vec::new(),
            others: Vec::new(),
            forwards: false,
        };
        let interface = Interface::new(config).expect("the interface is right");
        let flows = Flows::new([1, 2], 256, &interface);
        let Inet {
            stream,
            layout,
            ports,
            ..
        } = Inet::assemble(interface, flows, Transparent);
        ports.bind(PORT).expect("nobody else has bound it");
        let stream = stream.build().expect("the stream is right");
        let buckets = Buckets::private(&stream, 256, |_| true, |_| true);
        let cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &Arena::new(64 << 20));
        Bench {
            cluster,
            layout,
            run: Run::with_capacity(RUN),
        }
    }

    /// A packet in one block, or with its payload in another from `cut` on.
    fn packet(&mut self, bytes: &[u8], cut: usize) -> Message {
        let pool = self.cluster.pool();
        let mut message = pool
            .copy_from_slice(128, &bytes[..cut])
            .expect("the arena is not spent");
        if cut < bytes.len() {
            message.push_continuation(
                pool.copy_from_slice(0, &bytes[cut..])
                    .expect("the arena is not spent"),
            );
        }
        message
    }

    /// Nanoseconds per packet of `rounds` runs up: `strip` is how many bytes of headers come off.
    fn up(&mut self, packets: Vec<Message>, strip: usize, rounds: usize) -> f64 {
        let count = packets.len();
        self.run.extend(packets);
        let from = std::time::Instant::now();
        for _ in 0..rounds {
            self.cluster
                .put(self.layout.bottom, Direction::Up, &mut self.run);
            self.cluster.turn(Instant::ZERO, &mut |_: &mut Run| {});
            self.run.append(self.cluster.head());
            assert_eq!(self.run.len(), count, "all came up");
            for message in self.run.iter_mut() {
                black_box(message.prepend(strip));
            }
        }
        from.elapsed().as_nanos() as f64 / (rounds * count) as f64
    }

    /// The same down from `module`: `note` is left in each message, and `strip` bytes of headers are taken off again.
    fn down(
        &mut self,
        module: ModuleId,
        packets: Vec<Message>,
        note: impl Fn(&mut Message),
        (strip, rounds): (usize, usize),
    ) -> f64 {
        let count = packets.len();
        self.run.extend(packets);
        let from = std::time::Instant::now();
        for _ in 0..rounds {
            self.run.iter_mut().for_each(&note);
            self.cluster.put(module, Direction::Down, &mut self.run);
            let (cluster, run) = (&mut self.cluster, &mut self.run);
            cluster.turn(Instant::ZERO, &mut |sent: &mut Run| run.append(sent));
            assert_eq!(self.run.len(), count, "all left");
            for message in self.run.iter_mut() {
                message.strip(strip);
            }
        }
        from.elapsed().as_nanos() as f64 / (rounds * count) as f64
    }
}

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total_len = (20 + payload.len()) as u16;
    let (source, destination) = (PEER, US);
    let header = Ipv4Header {
        source,
        destination,
        protocol,
        ttl: 64,
        total_len,
        ..Ipv4Header::default()
    };
    let mut packet = vec![0; 20];
    ipv4::emit(&header, &mut packet);
    [&packet[..], payload].concat()
}

fn datagram(payload: usize) -> Vec<u8> {
    let len = 8 + payload as u16;
    let mut bytes = vec![0; 8 + payload];
    udp::emit(
        &UdpHeader {
            source_port: 4000,
            destination_port: PORT,
            len,
        },
        &mut bytes,
    );
    udp::seal(
        &mut bytes[..8],
        Sum::pseudo_header(&PEER, &US, udp::PROTOCOL, len.into()),
    );
    ip(udp::PROTOCOL, &bytes)
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    let header = EthernetHeader {
        source: PEER_MAC,
        destination: OUR_MAC,
        ether_type: ether_type::IPV4,
    };
    ethernet::emit(&header, &mut bytes);
    [&bytes[..], packet].concat()
}

/// What is measured, how many bytes of it, and the least time of many short measurements: a neighbour on the machine can
/// only add to it.
fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions);
    let (rounds, repetitions) = if is_test { (10, 1) } else { (500, 300) };
    let report = |what: &str, bytes: usize, measure: &mut dyn FnMut(usize) -> f64| {
        let least = (0..repetitions)
            .map(|_| measure(rounds))
            .fold(f64::INFINITY, f64::min);
        println!("{what:<44} {bytes:>6} B {least:>8.1} ns");
    };

    let segment = ip(6, &[7; 1480]);
    for (what, cut) in [
        ("up, TCP through IP, in one block", 1500),
        ("up, TCP through IP, payload apart", 40),
    ] {
        report(what, segment.len(), &mut |rounds| {
            let mut bench = Bench::new(None);
            let packets = (0..RUN).map(|_| bench.packet(&segment, cut)).collect();
            bench.up(packets, 20, rounds)
        });
    }
    let framed = frame(&segment);
    report("up, TCP through Link and IP", framed.len(), &mut |rounds| {
        let mut bench = Bench::new(Some(OUR_MAC));
        let packets = (0..RUN)
            .map(|_| bench.packet(&framed, framed.len()))
            .collect();
        bench.up(packets, 34, rounds)
    });
    for payload in [1, 4096] {
        let bytes = datagram(payload);
        report(
            "up, UDP through IP and UDP, checksum read",
            bytes.len(),
            &mut |rounds| {
                let mut bench = Bench::new(None);
                let packets = (0..RUN)
                    .map(|_| bench.packet(&bytes, bytes.len()))
                    .collect();
                bench.up(packets, 28, rounds)
            },
        );
    }

    let body = [7; 1480];
    let note = Datagram {
        local: US,
        remote: PEER,
        protocol: 6,
        flags: Datagram::UNCUT,
        ..Datagram::default()
    };
    report("down, TCP through IP", 1500, &mut |rounds| {
        let mut bench = Bench::new(None);
        let packets = (0..RUN).map(|_| bench.packet(&body, body.len())).collect();
        let tcp = bench.layout.tcp;
        bench.down(tcp, packets, |message| message.set_note(note), (20, rounds))
    });
    let flow = UdpFlow {
        tuple: Tuple {
            local: US,
            remote: PEER,
            local_port: PORT,
            remote_port: 4000,
        },
        ..UdpFlow::default()
    };
    report(
        "down, UDP through UDP and IP, sum known",
        1508,
        &mut |rounds| {
            let mut bench = Bench::new(None);
            let packets = (0..RUN).map(|_| bench.packet(&body, body.len())).collect();
            let udp = bench.layout.udp;
            let sum = Some(Sum::of(&body));
            let note = |message: &mut Message| {
                message.set_sum(sum);
                message.set_note(flow);
            };
            bench.down(udp, packets, note, (28, rounds))
        },
    );
}
