//! ICMP (RFC 792, RFC 1122 §3.2.2): what is answered, what is reported, and what reports do to connections (§4.2.3.9, RFC 5927).

use std::net::Ipv4Addr;

use crate::case::Table;
use crate::connection::{Connection, Open, State};
use crate::packet::{self, ACK, SYN, Segment};
use crate::peer::{CHARGEN, CLOSED, ECHO, Failure, Outcome, Peer, SERVER, ensure};
use crate::seen::Body;
use crate::side::Side;

pub fn add(table: &mut Table) {
    table.class("icmp");
    for octets in [0usize, 1, 2, 7, 56, 57, 1000, 1471, 1472] {
        let name = format!("an echo request of {octets} octets comes back as it was");
        table.must("RFC 1122 §3.2.2.6", name, move |peer| {
            let text: Vec<u8> = (0..octets).map(|i| i as u8).collect();
            peer.send_icmp(8, 0, [1, 2, 3, 4], &text)?;
            expect_reply(peer, [1, 2, 3, 4], &text)
        });
    }
    for rest in [
        [0, 0, 0, 0],
        [0xff, 0xff, 0xff, 0xff],
        [0, 0, 0, 1],
        [0x80, 0, 0, 0],
    ] {
        table.must(
            "RFC 792",
            format!("identifier and number {rest:?} come back"),
            move |peer| {
                peer.send_icmp(8, 0, rest, b"x")?;
                expect_reply(peer, rest, b"x")
            },
        );
    }
    table.must(
        "RFC 1122 §3.2.2",
        "an echo request of a wrong checksum is dropped",
        |peer| {
            let mut message = packet::icmp(8, 0, [9, 9, 9, 9], b"damaged");
            message[2] ^= 1;
            let packet = packet::packet(peer.ip(1), &message);
            peer.send(&packet)?;
            peer.expect_nothing()
        },
    );
    for kind in [1u8, 2, 6, 7, 19, 41, 100, 255] {
        table.must(
            "RFC 1122 §3.2.2",
            format!("ICMP type {kind}, which nobody knows, is dropped"),
            move |peer| {
                peer.send_icmp(kind, 0, [0; 4], &[0; 28])?;
                peer.expect_nothing()
            },
        );
    }
    for len in 0..8usize {
        table.must(
            "RFC 792",
            format!("an ICMP message of {len} bytes is dropped"),
            move |peer| {
                let mut message = packet::icmp(8, 0, [0; 4], &[]);
                message.truncate(len);
                if len >= 4 {
                    message[2..4].fill(0);
                    let sum = packet::checksum(&message);
                    message[2..4].copy_from_slice(&sum);
                }
                let packet = packet::packet(peer.ip(1), &message);
                peer.send(&packet)?;
                peer.expect_nothing()
            },
        );
    }
    for tos in [0x10u8, 0x08, 0xb8] {
        table.should(
            "RFC 1349 §5.1, RFC 1812 §4.3.2.5",
            format!("the reply to an echo request has its type of service: {tos:#x}"),
            move |peer| {
                let mut packet = packet::packet(peer.ip(1), &packet::icmp(8, 0, [0, 0, 0, 7], &[]));
                packet[1] = tos;
                peer.send(&packet::resummed(packet))?;
                let seen = peer.expect("an echo reply", |seen| seen.icmp() == Some((0, 0)))?;
                ensure(
                    seen.ip.dscp.value() == tos >> 2,
                    "the same service",
                    format!("{}", seen.ip.dscp.value()),
                )
            },
        );
    }
    refusals(table);
    reports(table);
}

fn expect_reply(peer: &mut Peer, rest: [u8; 4], text: &[u8]) -> Outcome {
    let seen = peer.expect("an echo reply", |seen| seen.icmp() == Some((0, 0)))?;
    match &seen.body {
        Body::Icmp {
            rest: came,
            text: back,
            ..
        } if *came == rest && back == text => Ok(()),
        _ => Err(Failure::new(
            format!("{rest:?} and the same octets"),
            seen.to_string(),
        )),
    }
}

/// What the stack reports to who has sent what it cannot take.
fn refusals(table: &mut Table) {
    for octets in [0usize, 1, 8, 100, 1400] {
        let name = format!(
            "UDP of {octets} octets where nobody listens: port unreachable, with what it is about"
        );
        table.must("RFC 1122 §4.1.3.1, §3.2.2", name, move |peer| {
            let datagram = packet::udp((5000, CLOSED), peer.address, SERVER, &vec![b'u'; octets]);
            let packet = packet::packet(peer.ip(17), &datagram);
            peer.send(&packet)?;
            expect_report(peer, (3, 3), &packet).map(drop)
        });
    }
    for protocol in [0u8, 3, 41, 50, 99, 132, 255] {
        let name = format!("protocol {protocol}, which nobody has: protocol unreachable");
        table.should("RFC 1122 §3.2.2.1", name, move |peer| {
            let packet = packet::packet(peer.ip(protocol), b"what nobody has");
            peer.send(&packet)?;
            expect_report(peer, (3, 2), &packet).map(drop)
        });
    }
    for (kind, code) in [(3u8, 1u8), (3, 3), (11, 0), (12, 0), (0, 0), (5, 1)] {
        let name =
            format!("nothing is reported of ICMP type {kind} code {code}, whatever it is about");
        table.must("RFC 1122 §3.2.2", name, move |peer| {
            let about = packet::udp((9, 5000), SERVER, peer.address, &[0; 8]);
            let id = peer.id();
            let about = packet::packet(packet::ip(SERVER, peer.address, 17, id), &about);
            peer.send_icmp(kind, code, [0; 4], &about)?;
            peer.expect_nothing()
        });
    }
    let sources = [
        ("a multicast address", Ipv4Addr::new(224, 0, 0, 1)),
        ("the broadcast address", Ipv4Addr::BROADCAST),
        ("a loopback address", Ipv4Addr::LOCALHOST),
        ("this host's own address", SERVER),
    ];
    for (what, source) in sources {
        table.must(
            "RFC 1122 §3.2.1.3",
            format!("what comes from {what} is answered to nobody"),
            move |peer| {
                let ports = (5000, CLOSED);
                let datagram = packet::udp(ports, source, SERVER, b"from nobody");
                let packet = packet::packet(packet::ip(source, SERVER, 17, 1), &datagram);
                peer.send(&packet)?;
                let syn = Segment {
                    source: 5000,
                    destination: ECHO,
                    flags: SYN,
                    window: 100,
                    ..Segment::default()
                };
                let packet =
                    packet::packet(packet::ip(source, SERVER, 6, 2), &syn.bytes(source, SERVER));
                peer.send(&packet)?;
                peer.expect_nothing()
            },
        );
    }
    let destinations = [
        (
            "the network's broadcast address",
            Ipv4Addr::new(10, 77, 255, 255),
        ),
        ("the broadcast address", Ipv4Addr::BROADCAST),
        ("all hosts", Ipv4Addr::new(224, 0, 0, 1)),
    ];
    for (what, destination) in destinations {
        table.must(
            "RFC 1122 §3.2.2",
            format!("nothing is reported of UDP to {what}"),
            move |peer| {
                let datagram = packet::udp((5000, CLOSED), peer.address, destination, b"to many");
                let packet =
                    packet::packet(packet::ip(peer.address, destination, 17, 1), &datagram);
                peer.send(&packet)?;
                peer.expect_nothing()
            },
        );
        table.must(
            "RFC 9293 §3.9.2.3, MUST-57",
            format!("a SYN to {what} is not answered"),
            move |peer| {
                let syn = Segment {
                    source: 5000,
                    destination: ECHO,
                    flags: SYN,
                    window: 100,
                    ..Segment::default()
                };
                let bytes = syn.bytes(peer.address, destination);
                let packet = packet::packet(packet::ip(peer.address, destination, 6, 1), &bytes);
                peer.send(&packet)?;
                peer.expect_nothing()
            },
        );
    }
    table.must(
        "RFC 1122 §3.3.1.1",
        "what is for another host is not answered",
        |peer| {
            let other = Ipv4Addr::new(10, 77, 0, 2);
            let syn = Segment {
                source: 5000,
                destination: ECHO,
                flags: SYN,
                window: 100,
                ..Segment::default()
            };
            let packet = packet::packet(
                packet::ip(peer.address, other, 6, 1),
                &syn.bytes(peer.address, other),
            );
            peer.send(&packet)?;
            peer.expect_nothing()
        },
    );
}

/// A report of this type and code about this packet: its header and at least eight octets (RFC 1122 §3.2.2). What stands behind its checksum.
pub fn expect_report(peer: &mut Peer, what: (u8, u8), about: &[u8]) -> Outcome<[u8; 4]> {
    let seen = peer.expect(&format!("ICMP type {} code {}", what.0, what.1), |seen| {
        seen.icmp() == Some(what)
    })?;
    let Body::Icmp { text, rest, .. } = &seen.body else {
        return Err(Failure::new("a report", seen.to_string()));
    };
    let least = about.len().min(28);
    let is_about =
        text.len() >= least && about.get(..text.len()).is_some_and(|begin| begin == text);
    ensure(
        is_about,
        "the header and eight octets of what it is about",
        format!("{text:02x?}"),
    )?;
    Ok(*rest)
}

/// What others report of what the stack has sent.
fn reports(table: &mut Table) {
    table.class("icmp-tcp");
    let kinds = (0..16u8).filter(|code| *code != 4).map(|code| (3u8, code));
    let kinds: Vec<_> = kinds
        .chain([(4, 0), (11, 0), (11, 1), (12, 0), (12, 1)])
        .collect();
    for (kind, code) in kinds {
        for off in [0i32, -1000, 1_000_000] {
            let whose = if off == 0 {
                "what is on its way"
            } else {
                "what is not"
            };
            let name = format!(
                "ICMP type {kind} code {code} about {whose} ({off}) does not end an open connection"
            );
            let source = "RFC 1122 §4.2.3.9, RFC 5927 §5.2";
            table.must(source, name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                connection.send_text(b"on its way back")?;
                let seq = connection.rcv_nxt.wrapping_add_signed(off);
                connection.take_octets(15)?;
                let about = quoted(&connection, seq);
                connection.peer.send_icmp(kind, code, [0; 4], &about)?;
                connection.expect_silence()?;
                connection.acknowledge()?;
                connection.echo(b"all the same")
            });
        }
        let name =
            format!("ICMP type {kind} code {code} does not end a connection in SYN-RECEIVED");
        if kind != 3 || ![2, 3].contains(&code) {
            let case = table.must("RFC 1122 §4.2.3.9", name, move |peer| {
                let mut connection = Connection::in_state(peer, State::SynReceived, 5)?;
                let about = quoted(&connection, connection.irs);
                connection.peer.send_icmp(kind, code, [0; 4], &about)?;
                connection.expect_silence()?;
                connection.echo(b"opens")
            });
            if matches!((kind, code), (3, 0 | 1) | (11, 0) | (12, _)) {
                case.departs(
                    Side::Linux,
                    "what is half open is given up at the first report",
                );
            }
        }
    }
    for mtu in [576u16, 1000, 1280, 1400] {
        let name =
            format!("a report that a segment is too long for {mtu} bytes has shorter ones sent");
        table.must("RFC 1191 §3, RFC 1122 §3.3.3", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(20_000))?;
            let (seq, len) = first_segment(&mut connection)?;
            ensure(
                len == 1460,
                "full segments at first",
                format!("{len} octets"),
            )?;
            let about = quoted(&connection, seq);
            let [high, low] = mtu.to_be_bytes();
            connection.peer.send_icmp(3, 4, [0, 0, high, low], &about)?;
            // What was too long goes again, and fits.
            loop {
                let (_, seen) = connection
                    .peer
                    .next(crate::peer::PATIENCE)
                    .ok_or_else(|| Failure::new("shorter segments", "nothing"))?;
                let Some(segment) = seen.tcp() else { continue };
                if segment.seq == seq && seen.ip.total_len <= mtu {
                    return Ok(());
                }
            }
        });
    }
    for (what, off) in [
        ("what was never sent", 1_000_000u32),
        ("what is long acknowledged", 0x8000_0000),
    ] {
        let name = format!("a report that a segment is too long, about {what}, changes nothing");
        table.must("RFC 5927 §4.1, RFC 9293 §3.9.2.2", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(3000))?;
            let (seq, _) = first_segment(&mut connection)?;
            let about = quoted(&connection, seq.wrapping_add(off));
            connection.peer.send_icmp(3, 4, [0, 0, 2, 64], &about)?;
            connection.peer.settle()?;
            connection.peer.clear();
            // Room for more: full segments still.
            connection.acked = seq.wrapping_add(2920);
            connection.rcv_nxt = connection.acked;
            let ack = connection.segment(ACK);
            connection.send(&ack)?;
            let what = "a full segment";
            let (_, segment) = connection.next(what)?;
            ensure(
                segment.text.len() == 1460,
                what,
                format!("{} octets", segment.text.len()),
            )
        });
    }
}

/// The number and the length of the first segment with text.
fn first_segment(connection: &mut Connection<'_>) -> Outcome<(u32, usize)> {
    let (_, segment) = connection.next("text")?;
    Ok((segment.seq, segment.text.len()))
}

/// What a router quotes of a segment of the stack's: the header, ports and number.
fn quoted(connection: &Connection<'_>, seq: u32) -> Vec<u8> {
    let segment = Segment {
        source: connection.port,
        destination: connection.local,
        seq,
        ack: connection.snd_nxt,
        flags: ACK,
        text: vec![0; 1460],
        ..Segment::default()
    };
    let to = connection.peer.address;
    let mut header = packet::ip(SERVER, to, 6, 77);
    header.dont_fragment = true;
    let whole = packet::packet(header, &segment.bytes(SERVER, to));
    whole[..28].to_vec()
}
