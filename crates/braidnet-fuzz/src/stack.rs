//! Whole stacks that their caller turns, fed raw packets.

use crate::bytes::{double_word, mend, plain_sum, pseudo_header, word};
use braidnet::device::{Capabilities, Device, QueuePair, memory};
use braidnet::message::{Arena, Pool, Run};
use braidnet::stream::Next;
use braidnet::wire::ipv4;
use braidnet::{Connection, Duration, Event, Instant, Secrets, Stack, StackConfig};

const US: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [192, 0, 2, 2];
const TCP_PORT: u16 = 80;
const UDP_PORT: u16 = 53;
const MEMORY: usize = 1 << 20;

/// A stack, and the other end of its wire.
struct Rig {
    stack: Stack,
    wire: QueuePair,
    pool: Pool,
    now: Instant,
    sent: Vec<Vec<u8>>,
    connections: Vec<Connection>,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(MEMORY)
    }

    /// With so much memory, in bytes.
    fn with(memory: usize) -> Rig {
        let mut config = StackConfig::new(std::net::IpAddr::from(US));
        config.memory_bytes = memory;
        config.buckets = 2;
        config.connections = 16;
        config.secrets = Secrets {
            flow_key: [1, 2],
            isn_key: [3, 4],
        };
        let (near, far) = memory::wire(Capabilities::ip(1500), 64);
        let mut stack = Stack::new(&config, near).expect("the configuration makes sense");
        stack.listen(TCP_PORT, 4).expect("the port is free");
        stack.bind(UDP_PORT).expect("the port is free");
        let mut queues = Box::new(far).open().expect("a device in memory opens");
        Rig {
            stack,
            wire: queues.remove(0),
            pool: Pool::new(&Arena::new(memory)),
            now: Instant::from_millis(1_000_000),
            sent: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// A packet arrives, and what comes of it leaves.
    fn arrive(&mut self, packet: &[u8]) {
        let mut run = Run::new();
        run.extend(self.pool.bind().copy_from_slice(64, packet));
        self.wire.transmitter.transmit(&mut run);
        let before = self.sent.len();
        self.settle();
        for sent in &self.sent[before..] {
            check_sent(sent);
            check_answer(packet, sent);
        }
        assert!(
            self.sent.len() - before <= 64,
            "one packet brings about {}",
            self.sent.len() - before
        );
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let next = self.stack.turn(self.now);
            let mut run = Run::new();
            self.wire.receiver.receive(&mut self.pool, &mut run, 64);
            for message in run.drain() {
                let mut bytes = vec![0; message.total_len()];
                message.copy_to_slice(&mut bytes);
                self.sent.push(bytes);
            }
            assert!(self.stack.used_bytes() <= MEMORY);
            match next {
                Next::Again => {}
                Next::At(at) if at <= self.now => {}
                Next::At(_) | Next::Idle => return,
            }
        }
        panic!("it never comes to rest");
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let before = self.sent.len();
        self.settle();
        for sent in &self.sent[before..] {
            check_sent(sent);
        }
    }

    /// What the application does with whatever has come: it sends TCP's data back.
    fn serve(&mut self) {
        while let Some(event) = self.stack.event() {
            match event {
                Event::Accepted(connection) => self.connections.push(connection),
                Event::EndOfData(connection) => self.stack.close(connection),
                _ => {}
            }
        }
        for connection in &self.connections {
            let mut bytes = [0; 2000];
            while let Ok(read @ 1..) = self.stack.receive(*connection, &mut bytes) {
                let _ = self.stack.send(*connection, &bytes[..read]);
            }
        }
        self.settle();
    }

    /// Whatever has come: who asks is answered.
    fn is_alive(&mut self) {
        let mut ping = [0; 36];
        ping[20] = 8;
        ping[28..].copy_from_slice(b"are you?");
        mend(&[], &mut ping[20..], 2);
        head(&mut ping, 1);
        let before = self.sent.len();
        self.arrive(&ping);
        let answers = |sent: &Vec<u8>| sent[9] == 1 && sent[20] == 0 && sent.ends_with(b"are you?");
        assert!(self.sent[before..].iter().any(answers), "nobody answers");
    }
}

/// An IPv4 header for a packet from the peer.
fn head(packet: &mut [u8], protocol: u8) {
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&PEER);
    packet[16..20].copy_from_slice(&US);
    mend(&[], &mut packet[..20], 10);
}

/// Whatever a stack sends is sound: header, addresses, length, checksums.
fn check_sent(packet: &[u8]) {
    let header = ipv4::parse(packet).expect("a sound header");
    assert_eq!(usize::from(header.total_len), packet.len());
    assert!(packet.len() <= 1500);
    assert_eq!(packet[12..16], US, "its own address");
    assert!(packet[16] & 0xf0 != 0xe0 && packet[16..20] != [255; 4] && packet[16..20] != [0; 4]);
    if header.is_fragment() {
        return;
    }
    let payload = &packet[header.payload_range()];
    let (from, to) = (US, [packet[16], packet[17], packet[18], packet[19]]);
    let pseudo = pseudo_header(from, to, header.protocol, payload.len());
    match header.protocol {
        1 => assert_eq!(plain_sum(&[payload]), 0xffff),
        6 => assert_eq!(plain_sum(&[&pseudo, payload]), 0xffff),
        17 => assert!(word(payload, 6) == 0 || plain_sum(&[&pseudo, payload]) == 0xffff),
        protocol => panic!("protocol {protocol}"),
    }
}

/// RFC 9293 §3.10.7.1: no RST answers a RST. RFC 1122 §3.2.2: no error answers an error, a broadcast or a later fragment.
fn check_answer(packet: &[u8], answer: &[u8]) {
    let Ok(asked) = ipv4::parse(packet) else {
        return;
    };
    let is = |packet: &[u8], protocol: u8| packet[9] == protocol;
    let payload = &packet[asked.payload_range()];
    if is(packet, 6)
        && is(answer, 6)
        && payload.len() >= 20
        && payload[13] & 4 != 0
        && payload[..2] == answer[22..24]
    {
        let reset = answer[20 + 13] & 4 != 0;
        assert!(!reset, "a RST is answered by a RST");
    }
    let is_error = |message: &[u8]| matches!(message.first(), Some(3 | 4 | 5 | 11 | 12));
    if is(answer, 1) && is_error(&answer[20..]) {
        assert!(
            !(is(packet, 1) && is_error(payload)),
            "an error about an error"
        );
        assert!(
            asked.fragment_offset == 0,
            "an error about a later fragment"
        );
        assert_eq!(
            packet[16..20],
            US,
            "an error about what was not for us alone"
        );
    }
}

/// Packets as bytes have them, some of them mended so that they get further: each behind a byte that says how, and its length.
pub fn packets(input: &[u8]) {
    let mut rig = Rig::new();
    let mut rest = input;
    let mut packets = 0;
    while let [how, len, behind @ ..] = rest {
        let len = usize::from(*len).min(behind.len());
        let (bytes, behind) = behind.split_at(len);
        rest = behind;
        packets += 1;
        if packets > 100 {
            break;
        }
        if *how & 0xc0 == 0xc0 {
            let unit = if bytes.is_empty() { 20_000 } else { 10 };
            rig.pass(Duration::from_millis(unit * u64::from(how & 0x3f)));
            rig.serve();
        }
        let mut packet = bytes.to_vec();
        prepare(&mut packet, *how, rig.sent.last());
        rig.arrive(&packet);
    }
    rig.serve();
    rig.is_alive();
}

/// Mends what `how` says: addresses and lengths, TCP's numbers, checksums.
fn prepare(packet: &mut [u8], how: u8, last: Option<&Vec<u8>>) {
    if packet.len() < 28 {
        return;
    }
    if how & 1 == 0 {
        let (protocol, fragment) = (packet[9], [packet[6], packet[7]]);
        head(packet, protocol);
        packet[6..8].copy_from_slice(&fragment);
        mend(&[], &mut packet[..20], 10);
    }
    let header = usize::from(packet[0] & 15) * 4;
    let (front, transport) = packet.split_at_mut(header.clamp(20, 28));
    let ends = (
        [front[12], front[13], front[14], front[15]],
        [front[16], front[17], front[18], front[19]],
    );
    let pseudo = pseudo_header(ends.0, ends.1, front[9], transport.len());
    match front[9] {
        6 if transport.len() >= 20 => {
            if how & 2 == 0 {
                transport[2..4].copy_from_slice(&TCP_PORT.to_be_bytes());
            }
            // What it has just been told is what a peer goes on from.
            if let Some(last) = last.filter(|last| how & 4 == 0 && last[9] == 6 && last.len() >= 40)
            {
                let syn = u32::from(last[33] >> 1 & 1);
                let ack = double_word(last, 24)
                    .wrapping_add(syn + last.len() as u32 - 20 - u32::from(last[32] >> 4) * 4);
                transport[4..8].copy_from_slice(&last[28..32]);
                transport[8..12].copy_from_slice(&ack.to_be_bytes());
            }
            mend(&[&pseudo], transport, 16);
        }
        17 if transport.len() >= 8 => {
            if how & 2 == 0 {
                transport[2..4].copy_from_slice(&UDP_PORT.to_be_bytes());
            }
            mend(&[&pseudo], transport, 6);
        }
        1 if transport.len() >= 8 => mend(&[], transport, 2),
        _ => {}
    }
}

/// Memory of which a source's part holds all fragments of an input: the model knows nothing of what is given up for want of it.
const AMPLE: usize = 64 << 20;

/// What a model knows of a datagram in fragments.
#[derive(Clone, Default)]
struct Datagram {
    bytes: Vec<Option<u8>>,
    end: Option<usize>,
    /// A fragment has lied, or said again only a part of what another has said: nothing is demanded but that the bytes are not of two.
    doubtful: bool,
    /// One has contradicted another: it must never be delivered.
    contradicted: bool,
}

/// Fragments of four datagrams, in any order and with any overlaps, against the plainest model (RFC 791 §3.2, RFC 5722 §4): what is
/// whole is delivered once, and nothing is ever put together of two.
pub fn fragments(input: &[u8]) {
    let mut rig = Rig::with(AMPLE);
    let mut model: [Datagram; 4] = Default::default();
    for record in input.as_chunks::<4>().0.iter().take(200) {
        let id = usize::from(record[0] & 3);
        let variant = record[0] >> 2 & 1;
        let more = record[0] & 8 == 0;
        let at = usize::from(record[1] & 63) * 8;
        let len = if more {
            usize::from(record[2] & 31) * 8
        } else {
            usize::from(record[2])
        };
        if !more && at == 0 {
            continue;
        }
        let bytes: Vec<u8> = (at..at + len)
            .map(|place| octet(id, place, variant))
            .collect();
        let mut packet = vec![0; 20];
        packet.extend_from_slice(&bytes);
        packet[5] = id as u8;
        let offset = (at / 8) as u16 | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&offset.to_be_bytes());
        head(&mut packet, 17);
        rig.arrive(&packet);
        let whole = model[id].take(at, &bytes, more);
        let mut to = [0; 2000];
        let received = rig.stack.receive_from(UDP_PORT, &mut to).ok();
        assert!(
            rig.stack.receive_from(UDP_PORT, &mut [0]).is_err(),
            "one fragment brings one datagram"
        );
        match (&received, &whole) {
            (None, None) => {}
            (Some(got), Some(whole)) => assert_eq!(&to[..got.copied], &whole[8..]),
            (Some(got), None) => {
                let of = &model[id];
                assert!(
                    of.doubtful && !of.contradicted,
                    "{} bytes are delivered that are not whole",
                    got.len
                );
                // All of one, and what there is of it.
                for (place, byte) in to[..got.copied].iter().enumerate() {
                    let place = place + 8;
                    assert!(
                        [0, 1]
                            .iter()
                            .any(|variant| octet(id, place, *variant) == *byte)
                    );
                }
            }
            (None, Some(_)) => panic!("a whole datagram is not delivered"),
        }
        if received.is_some() {
            model[id] = Datagram::default();
        }
    }
    rig.is_alive();
}

/// What stands somewhere in a datagram: a UDP header without a checksum first, then bytes that differ by variant.
fn octet(id: usize, place: usize, variant: u8) -> u8 {
    let [high, low] = (DATAGRAM[id] as u16).to_be_bytes();
    match place {
        0 | 1 => 9,
        2 => 0,
        3 => UDP_PORT as u8,
        4 => high,
        5 => low,
        6 | 7 => 0,
        _ => (place as u8).wrapping_mul(31) ^ (id as u8) ^ (variant << 7),
    }
}

/// How long they are.
const DATAGRAM: [usize; 4] = [40, 256, 300, 700];

impl Datagram {
    /// A fragment comes; the datagram, if it is whole with it and beyond doubt.
    fn take(&mut self, at: usize, bytes: &[u8], more: bool) -> Option<Vec<u8>> {
        if bytes.is_empty() || self.contradicted {
            return None;
        }
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, None);
        }
        let held = self.bytes[at..end].iter().zip(bytes);
        let contradicts = held
            .clone()
            .any(|(held, byte)| held.is_some_and(|held| held != *byte));
        let (old, all) = (held.filter(|(held, _)| held.is_some()).count(), bytes.len());
        let beyond = self
            .end
            .is_some_and(|known| end > known || (!more && end != known));
        let before = !more && self.bytes[end..].iter().any(Option::is_some);
        self.contradicted |= contradicts;
        // What is said twice is ignored if it was said in one piece; a last fragment that stands within is no clear word.
        self.doubtful |= old > 0 || beyond || before || (old == all && !more);
        if !more {
            self.end.get_or_insert(end);
        }
        for (place, byte) in self.bytes[at..end].iter_mut().zip(bytes) {
            place.get_or_insert(*byte);
        }
        let len = self.end.filter(|end| self.bytes.len() == *end)?;
        let whole: Option<Vec<u8>> = self.bytes.iter().copied().collect();
        let whole = whole.filter(|_| !self.doubtful && !self.contradicted)?;
        let udp = usize::from(word(&whole, 4));
        if udp > len {
            // UDP refuses it: it has more to say than came.
            *self = Datagram::default();
            return None;
        }
        Some(whole[..udp].to_vec())
    }
}
