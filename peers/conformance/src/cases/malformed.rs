//! Headers that are wrong (RFC 791 §3.1, RFC 1122 §3.2.1, RFC 9293 §3.1): each in a packet that would be answered without.

use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{self, ACK, IP_HEADER, SYN, Segment, option};
use crate::peer::{ECHO, Outcome, Peer, SERVER};

pub fn add(table: &mut Table) {
    table.class("malformed-ip");
    ip_headers(table);
    ip_options(table);
    table.class("malformed-tcp");
    tcp_headers(table);
}

/// A SYN to the echo service, with something changed; the header's checksum fits again where that is wanted.
fn changed(peer: &mut Peer, resum: bool, change: impl Fn(&mut Vec<u8>)) -> Outcome {
    let mut packet = honest(peer);
    change(&mut packet);
    let packet = if resum {
        packet::resummed(packet)
    } else {
        packet
    };
    peer.send(&packet)
}

/// What would be answered.
fn honest(peer: &mut Peer) -> Vec<u8> {
    let syn = Segment {
        source: 5000,
        destination: ECHO,
        seq: 700,
        flags: SYN,
        window: 1000,
        options: option::mss(1000),
        ..Segment::default()
    };
    let bytes = syn.bytes(peer.address, SERVER);
    packet::packet(peer.ip(6), &bytes)
}

fn expect_syn_ack(peer: &mut Peer) -> Outcome {
    let is = |seen: &crate::seen::Seen| {
        seen.tcp()
            .is_some_and(|s| s.control() == SYN | ACK && s.ack == 701)
    };
    peer.expect("a SYN-ACK that acknowledges 701", is).map(drop)
}

fn ip_headers(table: &mut Table) {
    table.must("RFC 791", "a SYN with nothing wrong is answered", |peer| {
        changed(peer, true, |_| {})?;
        expect_syn_ack(peer)
    });
    for version in (0..16u8).filter(|version| *version != 4) {
        table.must(
            "RFC 1122 §3.2.1.1",
            format!("version {version} is dropped"),
            move |peer| {
                changed(peer, true, |packet| packet[0] = version << 4 | 5)?;
                peer.expect_nothing()
            },
        );
    }
    for words in (0..5u8).chain(12..16) {
        table.must(
            "RFC 791 §3.1",
            format!("a header of {words} words, which it has not, is dropped"),
            move |peer| {
                changed(peer, true, |packet| packet[0] = 0x40 | words)?;
                peer.expect_nothing()
            },
        );
    }
    for len in [0u16, 1, 19, 20, 39, 45, 1500, 65_535] {
        table.must(
            "RFC 791 §3.1",
            format!("a packet of 44 bytes that says {len} is dropped"),
            move |peer| {
                changed(peer, true, |packet| {
                    packet[2..4].copy_from_slice(&len.to_be_bytes())
                })?;
                peer.expect_nothing()
            },
        );
    }
    for len in 1..44usize {
        table.must(
            "RFC 791 §3.1",
            format!("the first {len} bytes of a packet of 44 are dropped"),
            move |peer| {
                changed(peer, false, |packet| packet.truncate(len))?;
                peer.expect_nothing()
            },
        );
    }
    table.must(
        "RFC 791 §3.1",
        "bytes behind the packet's end are no part of it",
        |peer| {
            changed(peer, false, |packet| packet.extend([0x55; 6]))?;
            expect_syn_ack(peer)
        },
    );
    for bit in 0..16u8 {
        table.must(
            "RFC 1122 §3.2.1.2",
            format!("a header whose checksum has bit {bit} wrong is dropped"),
            move |peer| {
                changed(peer, false, |packet| {
                    packet[10 + usize::from(bit / 8)] ^= 1 << (bit % 8)
                })?;
                peer.expect_nothing()
            },
        );
    }
    for byte in [1usize, 2, 4, 6, 8, 9, 12, 14, 16] {
        table.must(
            "RFC 1122 §3.2.1.2",
            format!("a header whose byte {byte} was damaged on its way is dropped"),
            move |peer| {
                changed(peer, false, |packet| packet[byte] ^= 0x20)?;
                peer.expect_nothing()
            },
        );
    }
    for ttl in [1u8, 2, 255] {
        table.must(
            "RFC 1122 §3.2.1.7",
            format!("what has {ttl} hops left when it arrives is taken"),
            move |peer| {
                changed(peer, true, |packet| packet[8] = ttl)?;
                expect_syn_ack(peer)
            },
        );
    }
    table.must(
        "RFC 791 §3.1",
        "Don't Fragment on what is whole changes nothing",
        |peer| {
            changed(peer, true, |packet| packet[6] |= 0x40)?;
            expect_syn_ack(peer)
        },
    );
}

/// Options of IP: taken or ignored if they are right, and never followed beyond the header.
fn ip_options(table: &mut Table) {
    let good: [(&str, &[u8]); 5] = [
        ("no operation", &[1, 1, 1, 1]),
        ("the end of the list", &[0, 0, 0, 0]),
        ("what follows the end", &[0, 7, 9, 9]),
        ("a router alert", &[0x94, 4, 0, 0]),
        ("an option nobody knows", &[0x5e, 4, 1, 2]),
    ];
    for (what, options) in good {
        table.must(
            "RFC 1122 §3.2.1.8",
            format!("a SYN with an IP option is answered: {what}"),
            |peer| {
                with_options(peer, options)?;
                expect_syn_ack(peer)
            },
        );
    }
    for source_route in [0x83u8, 0x89] {
        let what = if source_route == 0x83 {
            "loose"
        } else {
            "strict"
        };
        table.should(
            "RFC 7126 §4.3",
            format!("a {what} source route to somewhere else is not followed"),
            move |peer| {
                with_options(peer, &[source_route, 7, 4, 10, 77, 0, 2, 0])?;
                peer.expect_nothing()
            },
        );
    }
}

fn with_options(peer: &mut Peer, options: &[u8]) -> Outcome {
    let mut packet = honest(peer);
    packet.splice(IP_HEADER..IP_HEADER, options.iter().copied());
    packet[0] = 0x45 + (options.len() / 4) as u8;
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    peer.send(&packet::resummed(packet))
}

/// Changes the segment of a packet, and lets its checksum fit it again.
fn segment_changed(peer: &mut Peer, change: impl Fn(&mut Vec<u8>)) -> Outcome {
    let mut segment = honest(peer)[IP_HEADER..].to_vec();
    change(&mut segment);
    if let Some(field) = segment.get_mut(16..18) {
        field.fill(0);
        let sum = packet::pseudo_checksum(6, peer.address, SERVER, &segment);
        segment[16..18].copy_from_slice(&sum);
    }
    let packet = packet::packet(peer.ip(6), &segment);
    peer.send(&packet)
}

fn tcp_headers(table: &mut Table) {
    for words in (0..5u8).chain(7..16) {
        table.must(
            "RFC 9293 §3.1",
            format!("a data offset of {words} words in a segment of 24 bytes is dropped"),
            move |peer| {
                segment_changed(peer, |segment| segment[12] = words << 4)?;
                peer.expect_nothing()
            },
        );
    }
    for len in 0..20usize {
        table.must(
            "RFC 9293 §3.1",
            format!("a segment of {len} bytes is dropped"),
            move |peer| {
                segment_changed(peer, |segment| segment.truncate(len))?;
                peer.expect_nothing()
            },
        );
    }
    for bit in 0..16u8 {
        table.must(
            "RFC 9293 §3.1, MUST-3",
            format!("a SYN whose checksum has bit {bit} wrong is dropped"),
            move |peer| {
                changed(peer, false, |packet| {
                    packet[36 + usize::from(bit / 8)] ^= 1 << (bit % 8)
                })?;
                peer.expect_nothing()
            },
        );
    }
    for byte in (0..24usize).filter(|byte| ![16, 17].contains(byte)) {
        table.must(
            "RFC 9293 §3.1, MUST-3",
            format!("a SYN whose byte {byte} was damaged on its way is dropped"),
            move |peer| {
                changed(peer, false, |packet| packet[IP_HEADER + byte] ^= 0x80)?;
                peer.expect_nothing()
            },
        );
    }
    for bit in [0x08u8, 0x04, 0x02] {
        table.must(
            "RFC 9293 §3.1",
            format!("reserved bit {bit:#x} on a segment is ignored"),
            move |peer| {
                segment_changed(peer, |segment| segment[12] |= bit)?;
                expect_syn_ack(peer)
            },
        );
    }
    table.must(
        "RFC 9293 §3.1, MUST-3",
        "text whose checksum is wrong is not delivered, nor acknowledged",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO))?;
            let text = connection.segment(ACK).text(b"damaged".to_vec());
            let from = connection.peer.address;
            let mut bytes = text.bytes(from, SERVER);
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            let header = connection.peer.ip(6);
            connection.peer.send(&packet::packet(header, &bytes))?;
            connection.expect_silence()?;
            connection.echo(b"honest!")
        },
    );
}
