//! Packets that need no connection, in tables: what is sent, what is counted, what comes in answer.

mod absent;
mod icmp;
mod ip;
mod link;
mod transport;

use crate::packet::{End, Ip, SYN, Segment, echo, fragment, ipv4, parse, udp, with};
use crate::rig::{EVIL, PORT, Rig, TARGET, since};

/// One attack and what is to become of it.
struct Row {
    class: u8,
    what: &'static str,
    packets: fn() -> Vec<Vec<u8>>,
    /// Every counter that grows, beside those of traffic that goes well.
    counted: &'static [(&'static str, u64)],
    /// What comes in answer, as [`describe`] says it.
    answers: &'static [&'static str],
}

const fn row(
    class: u8,
    what: &'static str,
    packets: fn() -> Vec<Vec<u8>>,
    counted: &'static [(&'static str, u64)],
    answers: &'static [&'static str],
) -> Row {
    Row {
        class,
        what,
        packets,
        counted,
        answers,
    }
}

const GROUP: Ip = [224, 0, 0, 1];
const EVERYBODY: Ip = [255; 4];
const OUR_NETWORK: Ip = [10, 77, 0, 255];
const DATA: &[u8] = b"0123456789abcdef";

fn ping() -> Vec<u8> {
    echo(EVIL, TARGET, DATA)
}

fn datagram() -> Vec<u8> {
    udp((EVIL, 4000), (TARGET, 53), DATA)
}

/// A part of a datagram with this identification.
fn part(identification: u8, offset: u16, more: bool, len: usize) -> Vec<u8> {
    let packet = with(
        ipv4(EVIL, TARGET, 17, &vec![0x55; len]),
        &[(5, identification)],
    );
    fragment(packet, offset, more)
}

/// A SYN from this end.
fn syn_from(from: End) -> Vec<u8> {
    Segment::new(from, (TARGET, PORT)).flags(SYN).packet()
}

fn flip(mut packet: Vec<u8>, at: usize) -> Vec<u8> {
    packet[at] ^= 0x10;
    packet
}

fn padded(mut packet: Vec<u8>, to: usize) -> Vec<u8> {
    packet.resize(to.max(packet.len()), 0xee);
    packet
}

/// What a packet from the target is.
fn describe(packet: &[u8]) -> String {
    if let Some(segment) = parse(packet) {
        let names = ["F", "S", "R", "P", "A", "U", "E", "C"];
        let flags = (0..8).filter(|bit| segment.flags >> bit & 1 != 0);
        let flags: String = flags.map(|bit| names[bit]).collect();
        return format!("tcp {flags} {} {}", segment.seq, segment.ack);
    }
    match packet {
        [0x45, _, a, b, _, _, _, _, _, 1, .., _, _, _, _] if packet.len() >= 28 => {
            let len = u16::from_be_bytes([*a, *b]);
            assert_eq!(
                usize::from(len),
                packet.len(),
                "nothing but the packet leaks"
            );
            format!("icmp {}/{} of {}", packet[20], packet[21], len - 20)
        }
        [0, 1, 8, 0, 6, 4, 0, operation, ..] => format!("arp {operation} of {}", packet.len()),
        _ => format!("{packet:02x?}"),
    }
}

/// Sends every row's packets, as they are or in the attacker's frames, and asserts its outcome and that the friend is well.
fn check(rows: &[Row], ethernet: bool, in_frames_already: bool) {
    let mut rig = Rig::new(ethernet);
    for row in rows {
        let name = format!("class {}: {} (ethernet: {ethernet})", row.class, row.what);
        println!("{name} | {:?} | {:?}", row.counted, row.answers);
        let before = rig.counted();
        for packet in (row.packets)() {
            if in_frames_already {
                rig.inject_frame(&packet);
            } else {
                rig.inject(&packet);
            }
        }
        rig.settle();
        let counted = since(&before, &rig.counted());
        let expected: Vec<_> = row
            .counted
            .iter()
            .map(|(n, c)| (n.to_string(), *c))
            .collect();
        assert_eq!(counted, expected, "{name}");
        let answers: Vec<_> = std::mem::take(&mut rig.captured)
            .iter()
            .map(|p| describe(p))
            .collect();
        assert_eq!(answers, row.answers, "{name}");
        rig.assert_undisturbed();
        assert!(rig.target.used_bytes() <= 4 << 20, "{name}");
        // Lest errors to the attacker be limited.
        rig.pass(braidnet::Duration::from_secs(1));
        assert_eq!(rig.captured.len(), 0, "{name}: it has an afterlife");
    }
}

fn check_on_both(rows: &[Row]) {
    check(rows, false, false);
    check(rows, true, false);
}

#[test]
fn classes_1_to_5_and_12_and_21_to_25_and_46_ip() {
    check_on_both(ip::IP);
}

#[test]
fn classes_6_7_11_13_segments_without_a_connection() {
    check_on_both(transport::TCP);
}

#[test]
fn classes_35_to_37_icmp() {
    check_on_both(icmp::ICMP);
}

#[test]
fn class_38_udp() {
    check_on_both(transport::UDP);
}

#[test]
fn classes_26_to_31_and_39_to_42_have_nothing_to_attack() {
    check_on_both(absent::ABSENT);
}

#[test]
fn classes_1_4_45_link() {
    check(link::LINK, true, true);
}

#[test]
fn class_34_arp() {
    check(link::ARP, true, true);
}
