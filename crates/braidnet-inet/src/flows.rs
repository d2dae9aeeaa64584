//! Which bucket a packet, or a flow, belongs to.

use crate::interface::Interface;
use braidnet_message::Run;
use braidnet_stream::BucketId;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::ethernet::{self, ether_type};
use braidnet_wire::flow::{flow_of, plain_flow_of};
use braidnet_wire::hash::FlowHasher;

/// How a stack deals flows to its buckets: the keyed hash, and how many buckets there are.
///
/// One value, copied to everybody who asks, so that the packet filter above the driver, the modules, and whoever picks a
/// port for a connection going out agree.
#[derive(Clone, Copy, Debug)]
pub struct Flows {
    hasher: FlowHasher,
    buckets: u32,
    /// A bit for each device that carries Ethernet frames.
    framed: u16,
}

impl Flows {
    /// The flows of a stack of so many buckets (2 to 65,536) on this interface, hashed under a key that is random at
    /// every start.
    pub fn new(key: [u64; 2], buckets: u32, interface: &Interface) -> Flows {
        Flows {
            hasher: FlowHasher::new(key),
            buckets,
            framed: framed(interface),
        }
    }

    /// Whether they look for packets where `interface` has them.
    pub(crate) fn is_for(&self, interface: &Interface) -> bool {
        self.framed == framed(interface)
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of a flow and the flow's hash, all bits of which are fit for use inside the bucket but the upper 32, which
    /// chose it.
    #[inline(never)]
    pub fn bucket_of(&self, tuple: &Tuple, protocol: u8) -> (BucketId, u64) {
        let hash = self.hasher.hash(tuple, protocol);
        (BucketId::of_hash(hash, self.buckets), hash)
    }

    /// The bucket of a packet as `device` delivers it: what a packet filter above the driver assigns it by.
    ///
    /// TCP and UDP go by their tuple; ICMP errors by that of the packet that they quote, so that they arrive where its
    /// connection is; fragments, and all other protocols, by the pair of hosts. What is not IP or cannot be told (ARP,
    /// runts) goes to [`BucketId::DEVICE`]. Nothing is validated here.
    #[inline]
    pub fn classify(&self, packet: &[u8], device: u8) -> BucketId {
        self.bucket_of_flow(self.flow_of(packet, self.has_frames(device)))
    }

    /// Sets the bucket of each packet of a run, the same as [`classify`](Flows::classify) tells. Neighbours of one flow, of
    /// which there are many, are hashed once.
    pub fn classify_run(&self, run: &mut Run) {
        let (mut last, mut last_plain, mut bucket) = (None, None, BucketId::DEVICE);
        for message in run.iter_mut() {
            let packet = message.bytes();
            let is_framed = self.framed != 0 && self.has_frames(message.device());
            let plain = match is_framed {
                false => plain_flow_of(packet),
                true => None,
            };
            if plain.is_none() || plain != last_plain {
                let flow = self.flow_of(packet, is_framed);
                if flow != last {
                    (last, bucket) = (flow, self.bucket_of_flow(flow));
                }
                last_plain = plain;
            }
            message.set_bucket(bucket.0);
        }
    }

    /// Whether a device's packets lie in frames.
    #[inline]
    fn has_frames(&self, device: u8) -> bool {
        self.framed >> device.min(15) & 1 != 0
    }

    /// The flow and the protocol of a packet as a device delivers it; none if it cannot be told.
    #[inline]
    fn flow_of(&self, packet: &[u8], is_framed: bool) -> Option<(Tuple, u8)> {
        match is_framed {
            false => flow_of(packet),
            true => flow_of(payload_of(packet)?),
        }
    }

    #[inline]
    fn bucket_of_flow(&self, flow: Option<(Tuple, u8)>) -> BucketId {
        flow.map_or(BucketId::DEVICE, |(tuple, protocol)| {
            self.bucket_of(&tuple, protocol).0
        })
    }

    /// A hash of all that two hosts say to each other.
    #[inline]
    pub(crate) fn pair_hash(&self, local: Address, remote: Address) -> u64 {
        self.hasher.hash(
            &Tuple {
                local,
                remote,
                ..Tuple::default()
            },
            0,
        )
    }

    /// The `index`-th of a series of numbers that nobody can foretell who does not know the key.
    pub(crate) fn secret_number(&self, index: u64) -> u64 {
        // Beside all flows: its addresses are of IPv6, and unspecified.
        let [a, b, c, d, ..] = index.to_le_bytes();
        let (local_port, remote_port) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let none = Address::v6([0; 16]);
        self.hasher.hash(
            &Tuple {
                local: none,
                remote: none,
                local_port,
                remote_port,
            },
            u8::MAX,
        )
    }
}

/// A bit for each device that carries frames, of which an interface has 16 at most.
fn framed(interface: &Interface) -> u16 {
    let stations = interface.stations().iter().zip(0..16u32);
    let bits = stations.map(|(station, device)| u16::from(station.is_some()) << device);
    bits.fold(0, |all, bit| all | bit)
}

/// What a frame holds, if it is IP.
#[inline]
fn payload_of(frame: &[u8]) -> Option<&[u8]> {
    let (header, payload) = frame.split_at_checked(ethernet::HEADER_LEN)?;
    let (_, ether_type) = header.split_last_chunk::<2>()?;
    matches!(
        u16::from_be_bytes(*ether_type),
        ether_type::IPV4 | ether_type::IPV6
    )
    .then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, PEER, US};
    use braidnet_message::{Arena, Message, Pool};
    use braidnet_wire::{tcp, udp};
    use std::collections::HashSet;

    fn flows(interface: &Interface) -> Flows {
        Flows::new([3, 4], 257, interface)
    }

    #[test]
    fn packets_and_their_flows_meet_in_one_bucket() {
        let tuple = Tuple {
            local: US,
            remote: PEER,
            local_port: 7,
            remote_port: 4000,
        };
        let segment = |protocol| testing::ipv4(PEER, US, protocol, &[0x0f, 0xa0, 0, 7, 0, 8, 0, 0]);
        let mut quoting = vec![3, 3, 0, 0, 0, 0, 0, 0];
        quoting.extend(testing::ipv4(
            US,
            PEER,
            tcp::PROTOCOL,
            &[0, 7, 0x0f, 0xa0, 0, 0, 0, 0],
        ));
        let mut fragment = testing::ipv4(PEER, US, udp::PROTOCOL, &[0x0f, 0xa0, 0, 7, 0, 8, 0, 0]);
        fragment[6] = 0x20;
        let pair = Tuple {
            local_port: 0,
            remote_port: 0,
            ..tuple
        };
        let rows = [
            ("TCP", segment(tcp::PROTOCOL), Some((tuple, tcp::PROTOCOL))),
            ("UDP", segment(udp::PROTOCOL), Some((tuple, udp::PROTOCOL))),
            (
                "error",
                testing::ipv4(testing::ROUTER, US, 1, &quoting),
                Some((tuple, tcp::PROTOCOL)),
            ),
            ("fragment", fragment, Some((pair, 0))),
            (
                "echo",
                testing::ipv4(PEER, US, 1, &[8, 0, 0, 0, 0, 0, 0, 0]),
                Some((pair, 1)),
            ),
            ("empty", vec![], None),
            ("runt", vec![0x45; 19], None),
            ("version", vec![0x05; 40], None),
        ];
        let (bare, framed) = (testing::ip_interface(), testing::ethernet_interface());
        for (what, packet, flow) in rows {
            let expected = flow.map_or(BucketId::DEVICE, |(tuple, protocol)| {
                flows(&bare).bucket_of(&tuple, protocol).0
            });
            assert_eq!(flows(&bare).classify(&packet, 0), expected, "{what}");
            let frame = testing::frame(ether_type::IPV4, &packet);
            assert_eq!(
                flows(&framed).classify(&frame, 0),
                expected,
                "{what} in a frame"
            );
        }
    }

    #[test]
    fn each_packet_of_a_mixed_run_is_classified_as_if_alone() {
        let flows = flows(&testing::ip_interface());
        let mut pool = Pool::new(&Arena::new(1 << 20));
        // 0 stands for what is not IP, which stands for no flow; 9 for a fragment.
        let ports: [u8; 13] = [1, 1, 0, 1, 2, 1, 0, 0, 2, 2, 9, 2, 2];
        let packets = ports.map(|port| match port {
            0 => vec![0x05; 40],
            9 => {
                let mut first = testing::ipv4(PEER, US, udp::PROTOCOL, &[0, 2, 0, 7, 0, 8, 0, 0]);
                first[6] |= 0x20;
                first
            }
            port => testing::ipv4(PEER, US, udp::PROTOCOL, &[0, port, 0, 7, 0, 8, 0, 0]),
        });
        let mut run: Run = packets
            .iter()
            .map(|packet| pool.copy_from_slice(0, packet).unwrap())
            .collect();
        flows.classify_run(&mut run);
        for (message, packet) in run.iter().zip(&packets) {
            assert_eq!(message.bucket(), flows.classify(packet, 0).0);
        }
        let buckets: HashSet<u16> = run.iter().map(Message::bucket).collect();
        assert_eq!(buckets.len(), 4);
    }

    #[test]
    fn what_is_not_ip_belongs_to_the_device() {
        let flows = flows(&testing::ethernet_interface());
        let segment = testing::ipv4(PEER, US, 6, &[0; 20]);
        assert_ne!(
            flows.classify(&testing::frame(ether_type::IPV4, &segment), 0),
            BucketId::DEVICE
        );
        assert_eq!(
            flows.classify(&testing::frame(ether_type::ARP, &segment), 0),
            BucketId::DEVICE
        );
        for len in 0..14 {
            let frame = testing::frame(ether_type::IPV4, &segment);
            assert_eq!(
                flows.classify(&frame[..len], 0),
                BucketId::DEVICE,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn secret_numbers_depend_on_index_and_key() {
        let one = flows(&testing::ip_interface());
        let two = Flows::new([3, 5], 257, &testing::ip_interface());
        assert_ne!(one.secret_number(0), one.secret_number(1));
        assert_ne!(one.secret_number(0), one.secret_number(1 << 16));
        assert_ne!(one.secret_number(0), two.secret_number(0));
    }
}
