//! Far ends, with a stack played by hand in front of them.

use super::*;
use crate::config::Presentation;
use braidnet_message::{Arena, Message, Pool, Run};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, Ipv4Header};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, TcpFlags, TcpHeader};
use braidnet_wire::udp;

const ISS: u32 = 0xffff_ff00;
const NEAR: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];

/// A stack of one's own: a device queue, and what it has received.
struct ByHand {
    pair: QueuePair,
    pool: Pool,
    content: Arc<Content>,
    watch: FarWatch,
}

/// A packet of the far end's, taken apart.
struct Heard {
    port: u16,
    header: TcpHeader,
    data: Vec<u8>,
}

fn by_hand(config: &TtcpConfig) -> ByHand {
    config.validate().unwrap();
    let content = Arc::new(Content::of(config));
    let line = |number: u16| Tuple {
        local: Address::v4(NEAR),
        remote: Address::v4(PEER),
        local_port: 5001,
        remote_port: 2000 + number,
    };
    let lines: Vec<Tuple> = (0..config.connections as u16).map(line).collect();
    let scope = Scope::of(config, false);
    let far = FarEnd::new(config, content.clone(), scope, &lines, vec![0; lines.len()]);
    let watch = far.watch();
    let mut queues = Box::new(far.device(config.transport)).open().unwrap();
    ByHand {
        pair: queues.remove(0),
        pool: Pool::new(&Arena::new(64 << 20)),
        content,
        watch,
    }
}

impl ByHand {
    /// What the far end has to say, at most `max` packets; every checksum in it is right.
    fn receive(&mut self, max: usize) -> Vec<Heard> {
        let mut run = Run::new();
        let count = self.pair.receiver.receive(&mut self.pool, &mut run, max);
        assert_eq!(count, run.len());
        run.drain().map(|message| heard(&message)).collect()
    }

    fn send(&mut self, port: u16, header: TcpHeader, data: &[u8]) {
        let mut segment = vec![0; tcp::header_len(&header)];
        let (near, peer) = (Address::v4(NEAR), Address::v4(PEER));
        let len = (segment.len() + data.len()) as u32;
        let rest = Sum::pseudo_header(&near, &peer, tcp::PROTOCOL, len).combine(Sum::of(data));
        tcp::emit_sealed(&header, 5001, port, rest, &mut segment);
        segment.extend_from_slice(data);
        self.send_packet(tcp::PROTOCOL, &segment);
    }

    fn send_packet(&mut self, protocol: u8, payload: &[u8]) {
        let mut packet = vec![0; 20];
        let header = Ipv4Header {
            source: Address::v4(NEAR),
            destination: Address::v4(PEER),
            protocol,
            ttl: 64,
            total_len: (20 + payload.len()) as u16,
            ..Ipv4Header::default()
        };
        ipv4::emit(&header, &mut packet);
        packet.extend_from_slice(payload);
        let message = self.pool.copy_from_slice(0, &packet).unwrap();
        let mut run = Run::from_iter([message]);
        self.pair.transmitter.transmit(&mut run);
        assert!(run.is_empty(), "a far end takes everything");
    }

    /// Answers every SYN with this window.
    fn open(&mut self, window: u16) {
        for syn in self.receive(64) {
            assert_eq!(syn.header.flags, TcpFlags::SYN);
            let header = TcpHeader {
                seq: SeqNumber::new(ISS),
                ack: SeqNumber::new(syn.header.seq.value() + 1),
                flags: TcpFlags::SYN.union(TcpFlags::ACK),
                window,
                present: TcpHeader::HAS_MSS
                    | TcpHeader::HAS_WINDOW_SCALE
                    | TcpHeader::HAS_TIMESTAMPS,
                mss: 4312,
                window_scale: 0,
                ts_value: 7,
                ..TcpHeader::default()
            };
            self.send(syn.port, header, &[]);
        }
    }

    /// Acknowledges so many bytes of a connection.
    fn acknowledge(&mut self, port: u16, bytes: u64, window: u16) {
        let header = TcpHeader {
            seq: SeqNumber::new(ISS.wrapping_add(1)),
            ack: SeqNumber::new((line::ISS + 1).wrapping_add(bytes as u32)),
            flags: TcpFlags::ACK,
            window,
            present: TcpHeader::HAS_TIMESTAMPS,
            ts_value: 8,
            ..TcpHeader::default()
        };
        self.send(port, header, &[]);
    }

    fn count(&self, name: &str) -> u64 {
        let mut all = BTreeMap::new();
        self.watch.collect(&mut all);
        all.get(name).copied().unwrap_or(0)
    }
}

fn heard(message: &Message) -> Heard {
    let mut packet = vec![0; message.total_len()];
    message.copy_to_slice(&mut packet);
    let header = ipv4::parse(&packet).unwrap();
    let segment = &packet[header.payload_range()];
    tcp::verify(&header.source, &header.destination, segment).unwrap();
    let parsed = tcp::parse(segment).unwrap();
    assert_eq!(parsed.destination_port, 5001);
    Heard {
        port: parsed.source_port,
        header: parsed.header,
        data: segment[parsed.header_len..].to_vec(),
    }
}

fn config() -> TtcpConfig {
    TtcpConfig::default()
}

#[test]
fn the_sender_opens_keeps_to_the_window_and_sends_its_content_in_order() {
    let xdr = TtcpConfig {
        presentation: Presentation::Xdr,
        ..config()
    };
    for config in [config(), xdr] {
        let mut stack = by_hand(&config);
        stack.open(20_000);
        let first = stack.receive(64);
        // The handshake's ACK, then as many full segments as the window holds.
        assert_eq!(first.len(), 1 + 20_000 / 4300);
        assert!(first[0].data.is_empty());
        let mut position = 0;
        let mut window = 20_000;
        let mut segments: Vec<Heard> = first.into_iter().skip(1).collect();
        for _ in 0..200 {
            for segment in segments {
                assert_eq!(segment.data, stack.content.at(position, segment.data.len()));
                assert_eq!(
                    segment.header.seq.value(),
                    (line::ISS + 1).wrapping_add(position as u32)
                );
                assert_eq!(segment.header.ack.value(), ISS.wrapping_add(1));
                position += segment.data.len() as u64;
                assert!(position <= window);
            }
            assert!(stack.receive(64).is_empty(), "the window is full");
            stack.acknowledge(2000, position, 60_000);
            window = position + 60_000;
            segments = stack.receive(64);
        }
        assert!(position > 3 * stack.content.cycle() as u64 / 2);
        assert_eq!(stack.count("far.went_back"), 0);
    }
}

#[test]
fn connections_take_turns_in_bursts() {
    let mut stack = by_hand(&TtcpConfig {
        connections: 3,
        ..config()
    });
    stack.open(65_535);
    let ports: Vec<u16> = stack
        .receive(64)
        .iter()
        .map(|segment| segment.port)
        .collect();
    for port in 2000..2003 {
        assert_eq!(
            ports.iter().filter(|seen| **seen == port).count(),
            1 + 65_535 / 4300
        );
    }
}

#[test]
fn the_sender_goes_back_after_duplicate_acknowledgments() {
    let mut stack = by_hand(&config());
    stack.open(20_000);
    assert_eq!(stack.receive(64).len(), 5);
    stack.acknowledge(2000, 4300, 20_000);
    let more = stack.receive(64);
    assert_eq!(more[0].header.seq.value(), line::ISS + 1 + 4 * 4300);
    for _ in 0..3 {
        assert_eq!(stack.count("far.went_back"), 0);
        stack.acknowledge(2000, 4300, 20_000);
    }
    let again = stack.receive(64);
    assert_eq!(again[0].header.seq.value(), line::ISS + 1 + 4300);
    assert_eq!(again.len(), 4, "all that is not acknowledged");
    assert_eq!(stack.count("far.went_back"), 1);
}

#[test]
fn the_receiver_acknowledges_every_other_segment_and_tells_again_what_is_missing() {
    let config = TtcpConfig {
        direction: Direction::Send,
        ..config()
    };
    let mut stack = by_hand(&config);
    stack.open(65_535);
    assert_eq!(stack.receive(64).len(), 1, "the handshake's ACK");
    let data = |stack: &mut ByHand, number: u64| {
        let position = number * 4300;
        let header = TcpHeader {
            seq: SeqNumber::new(ISS.wrapping_add(1 + position as u32)),
            ack: SeqNumber::new(line::ISS + 1),
            flags: TcpFlags::ACK,
            window: 100,
            ..TcpHeader::default()
        };
        let bytes = stack.content.at(position, 4300).to_vec();
        stack.send(2000, header, &bytes);
    };
    let acks = |stack: &mut ByHand| -> Vec<u32> {
        let covered = |ack: &Heard| ack.header.ack.value().wrapping_sub(ISS.wrapping_add(1));
        stack.receive(64).iter().map(covered).collect()
    };
    for number in 0..5 {
        data(&mut stack, number);
    }
    assert_eq!(acks(&mut stack), [2 * 4300, 4 * 4300]);
    assert_eq!(acks(&mut stack), [5 * 4300], "nothing more has come");
    assert_eq!(acks(&mut stack), [0u32; 0]);
    // The sixth is lost.
    data(&mut stack, 6);
    assert_eq!(acks(&mut stack), [5 * 4300], "a duplicate");
    data(&mut stack, 5);
    data(&mut stack, 6);
    assert_eq!(acks(&mut stack), [7 * 4300]);
    assert_eq!(stack.watch.bytes(), 7 * 4300);
    assert_eq!(stack.watch.order(), (8, 1));
    assert_eq!(stack.watch.tally().1, (7u64 * 4300).div_ceil(1024));
}

#[test]
fn wrong_checksums_and_strangers_are_counted_and_not_taken() {
    let config = TtcpConfig {
        direction: Direction::Send,
        ..config()
    };
    let mut stack = by_hand(&config);
    stack.open(65_535);
    let header = TcpHeader {
        seq: SeqNumber::new(ISS.wrapping_add(1)),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let mut segment = vec![0; 20];
    tcp::emit(&header, 5001, 2000, &mut segment);
    segment.push(1);
    stack.send_packet(tcp::PROTOCOL, &segment);
    stack.send(4, header, &[1]);
    assert_eq!(
        (stack.count("far.bad_checksum"), stack.count("far.unknown")),
        (1, 1)
    );
    assert_eq!(stack.watch.bytes(), 0);
}

#[test]
fn datagrams_carry_their_numbers_and_right_checksums() {
    let config = TtcpConfig {
        transport: Transport::Udp,
        connections: 2,
        ..config()
    };
    let mut stack = by_hand(&config);
    let mut run = Run::new();
    for _ in 0..4 {
        assert_eq!(
            stack.pair.receiver.receive(&mut stack.pool, &mut run, 32),
            32
        );
    }
    let mut next = [0u64; 2];
    for message in run.drain() {
        let mut packet = vec![0; message.total_len()];
        message.copy_to_slice(&mut packet);
        let header = ipv4::parse(&packet).unwrap();
        let datagram = &packet[header.payload_range()];
        udp::verify(&header.source, &header.destination, datagram).unwrap();
        let line = usize::from(udp::parse(datagram).unwrap().source_port - 2000);
        let (number, content) = crate::load::datagrams::split_number(&datagram[8..]);
        assert_eq!(number, next[line]);
        assert_eq!(content, stack.content.at(number * 4088, 4088));
        next[line] += 1;
    }
    assert_eq!(next, [64, 64]);
}
