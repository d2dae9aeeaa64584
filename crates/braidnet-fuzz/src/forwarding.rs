//! A stack between two networks, fed packets that are for hosts of either, for itself and for nobody, against the plainest reading of RFC 1812.

use crate::bytes::{mend, plain_sum, word};
use braidnet::device::several::Several;
use braidnet::device::{Capabilities, Device, QueuePair, memory};
use braidnet::inet::{Prefix, Route};
use braidnet::message::{Arena, Pool, Run};
use braidnet::stream::Next;
use braidnet::wire::address::Address;
use braidnet::wire::ipv4;
use braidnet::{Duration, Instant, Stack, StackConfig};

type Ip = [u8; 4];

/// Of the stack: on the left network, 10.1.0.0/24, and on the right one, 10.2.0.0/24.
const US: [Ip; 2] = [[10, 1, 0, 2], [10, 2, 0, 2]];
/// To whom leads what is for 10.3.0.0/16.
const GATEWAY: Ip = [10, 2, 0, 1];
/// What the links carry from here.
const MTU: [usize; 2] = [1500, 576];
const MEMORY: usize = 1 << 20;

/// Bytes that stand for a packet.
pub const RECORD: usize = 16;

/// From where and to where packets are.
const ADDRESSES: [Ip; 16] = [
    [10, 1, 0, 9],
    [10, 2, 0, 9],
    [10, 3, 1, 1],
    GATEWAY,
    US[0],
    US[1],
    [198, 51, 100, 1],
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [127, 0, 0, 1],
    [224, 0, 0, 1],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
    [10, 1, 0, 255],
    [10, 2, 0, 255],
    [169, 254, 1, 1],
];

/// The stack, and the other ends of its links.
struct Between {
    stack: Stack,
    sides: [QueuePair; 2],
    pool: Pool,
    now: Instant,
}

/// What RFC 1812 has of a packet.
#[derive(PartialEq, Debug)]
enum Fate {
    /// Nothing leaves.
    Dropped,
    /// It is for the stack itself, whose answers go to its sender.
    Ours,
    /// Its sender is told why it does not go on, by an ICMP message of this type and code, and of the MTU.
    Refused(u8, u8, usize),
    /// It leaves by a side.
    Onward(usize),
}

impl Between {
    fn new() -> Between {
        let mut config = StackConfig::new(US[0].into());
        config.addresses = vec![(US[0].into(), Some(24))];
        config.further_addresses = vec![vec![(US[1].into(), Some(24))]];
        let beyond = Prefix::new(Address::v4([10, 3, 0, 0]), 16).expect("a prefix");
        config.routes = vec![Route::via(beyond, Address::v4(GATEWAY))];
        config.forwards = true;
        config.memory_bytes = MEMORY;
        config.buckets = 2;
        let wires = MTU.map(|mtu| memory::wire(Capabilities::ip(mtu), 64));
        let [(left, far_left), (right, far_right)] = wires;
        let devices = Several::of(left.copying()).and(right.copying());
        let open = |end: memory::WireEnd| {
            let mut queues = Box::new(end.sending(65_535)).open().expect("it opens");
            queues.remove(0)
        };
        Between {
            stack: Stack::new(&config, devices).expect("the configuration makes sense"),
            sides: [far_left, far_right].map(open),
            pool: Pool::new(&Arena::new(MEMORY)),
            now: Instant::from_millis(1_000_000),
        }
    }

    /// A packet arrives by a side; what leaves by either.
    fn arrive(&mut self, side: usize, packet: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let mut run = Run::new();
        run.extend(self.pool.copy_from_slice(64, packet));
        self.sides[side].transmitter.transmit(&mut run);
        assert!(run.is_empty(), "the link takes it");
        // Errors are limited to 50 a second.
        self.now += Duration::from_millis(25);
        let mut turns = 0;
        while let Next::Again = self.stack.turn(self.now) {
            turns += 1;
            assert!(turns < 10_000, "it never comes to rest");
        }
        assert!(self.stack.used_bytes() <= MEMORY);
        let pool = &mut self.pool;
        self.sides.each_mut().map(|side| {
            let mut run = Run::new();
            side.receiver.receive(pool, &mut run, 64);
            let bytes_of = |message: braidnet::message::Message| {
                let mut bytes = vec![0; message.total_len()];
                message.copy_to_slice(&mut bytes);
                bytes
            };
            run.drain().map(bytes_of).collect()
        })
    }
}

/// Packets in records of sixteen bytes: how, addresses, what their headers say, how long they are, and what is amiss with them.
pub fn packets(input: &[u8]) {
    let mut between = Between::new();
    let (records, _) = input.as_chunks::<RECORD>();
    for record in records.iter().take(100) {
        let side = usize::from(record[0] & 1);
        let packet = packet_of(record);
        let left = between.arrive(side, &packet);
        judge(side, &packet, &left);
    }
    // Whatever has come: who asks is answered, and what is honest goes on.
    for (side, to) in [(0, 1), (1, 0), (0, 4), (1, 5), (0, 2)] {
        let mut record = [0; RECORD];
        (record[0], record[1], record[2], record[9]) = (0x40 | side, (side << 4) | to, 64, 64);
        record[13] = 8;
        let packet = packet_of(&record);
        let left = between.arrive(side.into(), &packet);
        judge(side.into(), &packet, &left);
        assert_eq!(left.concat().len(), 1);
    }
}

fn packet_of(record: &[u8; RECORD]) -> Vec<u8> {
    let how = record[0];
    let options_len = usize::from(record[10] % 11) * 4;
    let header_len = 20 + options_len;
    let payload_len = usize::from(word(record, 8) % 2001);
    let mut packet = vec![0; header_len];
    packet[0] = 0x40 | (header_len / 4) as u8;
    packet[1] = record[3];
    packet[2..4].copy_from_slice(&((header_len + payload_len) as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&record[4..6]);
    if how & 32 != 0 {
        packet[6..8].copy_from_slice(&(word(record, 6) & 0x1fff).to_be_bytes());
    }
    // Don't fragment; more fragments.
    packet[6] |= (how & 2) << 5 | (how & 4) << 3;
    packet[8] = record[2];
    packet[9] = [17, 1, 6, record[13]][usize::from(how >> 6)];
    packet[12..16].copy_from_slice(&ADDRESSES[usize::from(record[1] >> 4)]);
    packet[16..20].copy_from_slice(&ADDRESSES[usize::from(record[1] & 15)]);
    for (byte, value) in packet[20..].iter_mut().zip(&record[11..14]) {
        *byte = *value;
    }
    packet.extend((0..payload_len).map(|at| (at as u8).wrapping_mul(167) ^ record[4]));
    if payload_len >= 8 {
        packet[header_len] = record[13];
        packet[header_len + 1] = 0;
        if packet[9] == 1 {
            mend(&[], &mut packet[header_len..], 2);
        }
    }
    if how & 8 != 0 {
        let at = usize::from(record[14]) % packet.len();
        packet[at] ^= record[15];
    }
    mend(&[], &mut packet[..header_len], 10);
    if how & 16 != 0 {
        // Padding of the link.
        packet.extend_from_slice(&record[12..16]);
    }
    packet
}

/// Holds what left against what was to leave.
fn judge(side: usize, packet: &[u8], left: &[Vec<Vec<u8>>; 2]) {
    for (packets, mtu) in left.iter().zip(MTU) {
        for packet in packets {
            let header = ipv4::parse(packet).expect("a sound header");
            assert_eq!(usize::from(header.total_len), packet.len());
            assert!(packet.len() <= mtu);
        }
    }
    let expected = fate(side, packet);
    let all = left.concat();
    match expected {
        Fate::Dropped => assert_eq!(all, Vec::<Vec<u8>>::new()),
        Fate::Ours => is_answered(packet, left),
        Fate::Refused(..) if !may_be_told(packet) => assert!(all.is_empty()),
        Fate::Refused(kind, code, mtu) => {
            is_answered(packet, left);
            if route(address(packet, 12)).is_some() {
                tells(&all[0], packet, (kind, code, mtu));
                assert_eq!(all.len(), 1);
            }
        }
        Fate::Onward(to) => {
            assert!(left[1 - to].is_empty());
            goes_on(packet, &left[to], MTU[to]);
        }
    }
}

fn address(packet: &[u8], at: usize) -> Ip {
    [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]
}

/// By which side, and to whom.
fn route(to: Ip) -> Option<(usize, Ip)> {
    match to {
        [10, 1, 0, _] => Some((0, to)),
        [10, 2, 0, _] => Some((1, to)),
        [10, 3, _, _] => Some((1, GATEWAY)),
        _ => None,
    }
}

/// RFC 1812 §5.2, §5.3; what is for all hosts of a network here is the stack's own, and directed broadcasts are not passed on (RFC 2644).
fn fate(side: usize, packet: &[u8]) -> Fate {
    let Ok(header) = ipv4::parse(packet) else {
        return Fate::Dropped;
    };
    let (from, to) = (address(packet, 12), address(packet, 16));
    let is_for_all = |address: Ip| matches!(address, [10, 1 | 2, 0, 255] | [255, 255, 255, 255]);
    let is_nobody = |address: Ip| matches!(address[0], 0 | 127 | 224..=239);
    if US.contains(&from) || is_for_all(from) || is_nobody(from) {
        return Fate::Dropped;
    }
    if US.contains(&to) || is_for_all(to) {
        return Fate::Ours;
    }
    let stays = |address: Ip| address[0] >= 240 || address[..2] == [169, 254];
    if is_nobody(to) || stays(to) || stays(from) {
        return Fate::Dropped;
    }
    if header.ttl < 2 {
        return Fate::Refused(11, 0, 0);
    }
    let Some((out, hop)) = route(to) else {
        return Fate::Refused(3, 0, 0);
    };
    if out == side && hop == to {
        return Fate::Refused(3, 1, 0);
    }
    if usize::from(header.total_len) > MTU[out] && header.dont_fragment {
        return Fate::Refused(3, 4, MTU[out]);
    }
    Fate::Onward(out)
}

/// RFC 1812 §4.3.2.7: nobody is told of an error, nor of a later fragment. Nor of what has no eight bytes to quote (RFC 792).
fn may_be_told(packet: &[u8]) -> bool {
    let payload = usize::from(packet[0] & 15) * 4;
    let is_first = word(packet, 6) & 0x1fff == 0;
    let is_error = packet[9] == 1 && matches!(packet.get(payload), Some(3 | 4 | 5 | 11 | 12));
    is_first && !is_error && usize::from(word(packet, 2)) >= payload + 8
}

/// Whatever answers a packet is from the stack and goes to its sender.
fn is_answered(packet: &[u8], left: &[Vec<Vec<u8>>; 2]) {
    let from = address(packet, 12);
    for (side, answers) in left.iter().enumerate() {
        for answer in answers {
            assert_eq!(route(from).map(|(out, _)| out), Some(side));
            assert!(US.contains(&address(answer, 12)));
            assert_eq!(address(answer, 16), from);
            let is_fragment = word(answer, 6) & 0x3fff != 0;
            assert!(answer[9] != 1 || is_fragment || plain_sum(&[&answer[20..]]) == 0xffff);
        }
    }
}

/// RFC 1812 §4.3.2: a message says why, and quotes as much as fits of what it is about, as it came.
fn tells(error: &[u8], packet: &[u8], (kind, code, mtu): (u8, u8, usize)) {
    assert_eq!((error[9], error[20], error[21]), (1, kind, code));
    assert_eq!(usize::from(word(error, 26)), mtu);
    let whole = &packet[..usize::from(word(packet, 2))];
    assert_eq!(error[28..], whole[..whole.len().min(576 - 28)]);
}

/// It is the same packet, a hop later, whole or in fragments (RFC 791 §3.2).
fn goes_on(packet: &[u8], left: &[Vec<u8>], mtu: usize) {
    let header_len = usize::from(packet[0] & 15) * 4;
    let whole = &packet[..usize::from(word(packet, 2))];
    let fragments = usize::from(whole.len() > mtu);
    let mut place = word(packet, 6) & 0x1fff;
    let mut payload = &whole[header_len..];
    for (at, one) in left.iter().enumerate() {
        let is_last = at + 1 == left.len();
        let options = match at {
            0 => packet[20..header_len].to_vec(),
            _ => copied(&packet[20..header_len]),
        };
        let mut header = packet[..20].to_vec();
        header.extend_from_slice(&options);
        header[0] = 0x40 | (header.len() / 4) as u8;
        header[2..4].copy_from_slice(&(one.len() as u16).to_be_bytes());
        // The reserved flag stays with what is not cut; more to come is before the last and as it was.
        let flags = packet[6] & 0xe0 | if is_last { 0 } else { 0x20 };
        header[6..8].copy_from_slice(&(u16::from(flags) << 8 | place).to_be_bytes());
        header[8] -= 1;
        header[10..12].copy_from_slice(&one[10..12]);
        let (front, part) = one.split_at(header.len());
        assert_eq!(front, header);
        let (expected, rest) = payload.split_at(part.len());
        assert_eq!(part, expected);
        assert!(is_last || (part.len() % 8 == 0 && one.len() + 8 > mtu));
        place += (part.len() / 8) as u16;
        payload = rest;
    }
    assert!(payload.is_empty() && left.len() > fragments);
}

/// The options that each fragment has, padded (RFC 791 §3.1).
fn copied(mut options: &[u8]) -> Vec<u8> {
    let mut copied = Vec::new();
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            0 => break,
            1 => options = rest,
            _ => {
                let (option, behind) = options.split_at(rest[0].into());
                if kind & 0x80 != 0 {
                    copied.extend_from_slice(option);
                }
                options = behind;
            }
        }
    }
    copied.resize(copied.len().next_multiple_of(4), 0);
    copied
}
