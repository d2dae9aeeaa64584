//! Many segments in one packet, and checksums that nobody makes, with the system's TCP at the other end.

use crate::system::*;
use braidnet_device::tun::{Mode, TunConfig};
use braidnet_device::{Device, DropReason, Offloads, QueuePair};
use braidnet_message::{Checksum, Message, Pool, Run};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, Ipv4Header};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

const PORT: u16 = 7;
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 2), PORT);
const MSS: u16 = 1000;
/// What nobody answers is given up then.
const WAIT: Duration = Duration::from_millis(300);

/// The stack's side of one connection, by hand.
struct Far {
    pair: QueuePair,
    pool: Pool,
    remote_port: u16,
    next: SeqNumber,
    expected: SeqNumber,
}

impl Far {
    /// Answers the system's SYN.
    fn accept(pair: QueuePair) -> Far {
        let mut far = Far {
            pair,
            pool: pool(),
            remote_port: 0,
            next: SeqNumber::new(77),
            expected: SeqNumber::new(0),
        };
        let (_, syn) = far.receive();
        assert!(syn.flags.contains(TcpFlags::SYN));
        far.expected = syn.seq + 1;
        far.send(TcpFlags::SYN.union(TcpFlags::ACK), &[], 0);
        far.next += 1;
        far
    }

    /// The next segment of the system's.
    fn receive(&mut self) -> (Message, TcpHeader) {
        let is_tcp = |packet: &[u8]| packet[0] == 0x45 && packet[9] == tcp::PROTOCOL;
        let mut packet = receive(&mut self.pair, &mut self.pool, is_tcp);
        let total_len = u16::from_be_bytes([packet.bytes()[2], packet.bytes()[3]]);
        assert_eq!(usize::from(total_len), packet.total_len());
        packet.strip(ipv4::MIN_HEADER_LEN);
        assert_eq!(packet.checksum(), Checksum::Partial);
        let parsed = tcp::parse(packet.bytes()).expect("the system's headers are right");
        (self.remote_port, _) = tcp::ports(packet.bytes()).expect("there are ports");
        packet.strip(parsed.header_len);
        (packet, parsed.header)
    }

    /// Sends `data`, in segments of `each` bytes if that is not 0, whose checksums the system makes.
    fn send(&mut self, flags: TcpFlags, data: &[u8], each: usize) {
        let is_syn = flags.contains(TcpFlags::SYN);
        let header = TcpHeader {
            seq: self.next,
            ack: self.expected,
            window: 65_535,
            flags,
            mss: MSS,
            present: if is_syn { TcpHeader::HAS_MSS } else { 0 },
            ..TcpHeader::default()
        };
        let (first, rest) = data.split_at(each.min(data.len()));
        let mut message = self.pool.copy_from_slice(64, first).expect("room");
        if !rest.is_empty() {
            let rest = self.pool.copy_from_slice(0, rest).expect("room");
            message.push_continuation(rest);
            message.set_segment_bytes(each as u32);
        }
        let len = tcp::header_len(&header) + data.len();
        let front = message.prepend(tcp::header_len(&header)).expect("room");
        tcp::emit(&header, PORT, self.remote_port, front);
        let [stack, host] = [STACK, HOST].map(Address::v4);
        let pseudo_header = Sum::pseudo_header(&stack, &host, tcp::PROTOCOL, len as u32);
        tcp::partly_seal(front, pseudo_header);
        let front = message.prepend(ipv4::MIN_HEADER_LEN).expect("room");
        let header = Ipv4Header {
            source: stack,
            destination: host,
            protocol: tcp::PROTOCOL,
            ttl: 64,
            total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
            dont_fragment: true,
            ..Ipv4Header::default()
        };
        ipv4::emit(&header, front);
        message.set_checksum(Checksum::Partial);
        self.pair
            .transmitter
            .transmit(&mut Run::from_iter([message]));
        assert_eq!(self.pair.transmitter.counters().drops().next(), None);
        self.next += data.len() as u32;
    }

    /// Receives so many bytes, acknowledging them; the most segments that came in one packet.
    fn take(&mut self, bytes: usize) -> (Vec<u8>, usize) {
        let (mut taken, mut most) = (Vec::new(), 0);
        while taken.len() < bytes {
            let (segment, header) = self.receive();
            if header.seq != self.expected || segment.total_len() == 0 {
                continue;
            }
            most = most.max(segment.segments());
            assert!(segment.len() <= MSS.into());
            segment
                .blocks()
                .for_each(|block| taken.extend_from_slice(block));
            self.expected += segment.total_len() as u32;
            self.send(TcpFlags::ACK, &[], 0);
        }
        (taken, most)
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|number| (number * 31 + number / 251) as u8)
        .collect()
}

#[test]
fn the_systems_tcp_hands_over_many_segments_and_takes_many() {
    in_namespace("offloads", || {
        let device = create(TunConfig {
            host: host(24),
            ..TunConfig::new(Mode::Tun)
        })
        .expect("root may");
        assert_eq!(device.capabilities().offloads, Offloads::ALL);
        let (sent, answer) = (bytes(300_000), bytes(3_500));
        let (reply, expected) = (answer.clone(), sent.clone());
        let far = thread::spawn({
            let pair = open(device);
            move || {
                let mut far = Far::accept(pair);
                let (taken, most) = far.take(expected.len());
                assert!(taken == expected, "the bytes are the system's");
                assert!(most > 10, "{most} segments at most came at once");
                far.send(TcpFlags::ACK, &reply, MSS.into());
                far
            }
        });
        let mut stream = TcpStream::connect(ADDRESS).expect("answered by hand");
        stream.write_all(&sent).expect("acknowledged by hand");
        let mut received = vec![0; answer.len()];
        stream.read_exact(&mut received).expect("it arrives");
        assert!(received == answer, "the bytes are ours");
        let far = far.join().expect("no panic");
        assert_eq!(far.pair.receiver.counters().drops().next(), None);
    });
}

#[test]
fn a_device_that_declines_hands_over_what_a_wire_would() {
    in_namespace("no offloads", || {
        for (offload, declines) in [(true, true), (false, false)] {
            let mut device = create(TunConfig {
                host: host(24),
                offload,
                ..TunConfig::new(Mode::Tun)
            })
            .expect("root may");
            if declines {
                device.decline_offloads();
            }
            assert_eq!(device.capabilities().offloads, Offloads::NONE);
            let mut pair = open(device);
            let mut pool = pool();
            let connecting = thread::spawn(|| TcpStream::connect_timeout(&ADDRESS.into(), WAIT));
            let is_tcp = |packet: &[u8]| packet[0] == 0x45 && packet[9] == tcp::PROTOCOL;
            let mut syn = receive(&mut pair, &mut pool, is_tcp);
            assert_eq!(syn.checksum(), Checksum::Stands);
            syn.strip(ipv4::MIN_HEADER_LEN);
            let len = syn.total_len() as u32;
            let [stack, host] = [STACK, HOST].map(Address::v4);
            let sum = Sum::pseudo_header(&stack, &host, tcp::PROTOCOL, len);
            assert!((sum + Sum::of(syn.bytes())).is_valid());

            // Nobody finishes a checksum for it, or cuts a train.
            let mut partial = pool
                .copy_from_slice(64, &ipv4(STACK, HOST, &[0; 20]))
                .expect("room");
            partial.bytes_mut().expect("unique")[9] = tcp::PROTOCOL;
            partial.set_checksum(Checksum::Partial);
            pair.transmitter.transmit(&mut Run::from_iter([partial]));
            let refused = pair
                .transmitter
                .counters()
                .dropped(DropReason::TransmitMalformed);
            assert_eq!(refused, 1);
            drop(pair);
            assert!(connecting.join().expect("no panic").is_err());
        }
    });
}
