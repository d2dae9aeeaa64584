//! Fragments (RFC 791 §3.2, RFC 815, RFC 1122 §3.3.2, RFC 5722): put together whatever their order, given up where they contradict each other.

use std::time::Duration;

use crate::case::Table;
use crate::packet::{self, SYN, Segment, option};
use crate::peer::{ECHO, Failure, Outcome, PATIENCE, Peer, SERVER, ensure};
use crate::seen::{Body, Seen};
use crate::side::Side;

/// A piece of a payload: from, to, and whether more follow.
type Piece = (usize, usize, bool);

/// Octets of the payload that is cut, an echo request and its header.
const LEN: usize = 64;

/// Orders and cuts that make a whole.
const WHOLE: &[(&str, &[Piece])] = &[
    ("two in order", &[(0, 32, true), (32, 64, false)]),
    ("two, the last first", &[(32, 64, false), (0, 32, true)]),
    (
        "three in order",
        &[(0, 16, true), (16, 40, true), (40, 64, false)],
    ),
    (
        "three, the first last",
        &[(16, 40, true), (40, 64, false), (0, 16, true)],
    ),
    (
        "three, backwards",
        &[(40, 64, false), (16, 40, true), (0, 16, true)],
    ),
    (
        "three, the middle last",
        &[(0, 16, true), (40, 64, false), (16, 40, true)],
    ),
    (
        "three, the middle first",
        &[(16, 40, true), (0, 16, true), (40, 64, false)],
    ),
    (
        "three, the last first",
        &[(40, 64, false), (0, 16, true), (16, 40, true)],
    ),
    (
        "eight octets each",
        &[
            (0, 8, true),
            (8, 16, true),
            (16, 24, true),
            (24, 32, true),
            (32, 40, true),
            (40, 48, true),
            (48, 56, true),
            (56, 64, false),
        ],
    ),
    (
        "eight octets each, backwards",
        &[
            (56, 64, false),
            (48, 56, true),
            (40, 48, true),
            (32, 40, true),
            (24, 32, true),
            (16, 24, true),
            (8, 16, true),
            (0, 8, true),
        ],
    ),
    (
        "the same one twice",
        &[(0, 32, true), (0, 32, true), (32, 64, false)],
    ),
    (
        "the last twice, then the first",
        &[(32, 64, false), (32, 64, false), (0, 32, true)],
    ),
    (
        "one inside another that says the same",
        &[(0, 40, true), (16, 32, true), (40, 64, false)],
    ),
];

/// Those that make none.
const HOLES: &[(&str, &[Piece])] = &[
    ("the first alone", &[(0, 32, true)]),
    ("the last alone", &[(32, 64, false)]),
    ("a hole in the middle", &[(0, 16, true), (40, 64, false)]),
    ("no first", &[(16, 40, true), (40, 64, false)]),
    ("no last", &[(0, 16, true), (16, 40, true)]),
    (
        "the last says that more follow",
        &[(0, 32, true), (32, 64, true)],
    ),
];

/// Those that contradict each other: whoever takes any octets of these gets past who looks at others.
const OVERLAPS: &[(&str, &[Piece])] = &[
    (
        "the second begins inside the first",
        &[(0, 32, true), (24, 64, false)],
    ),
    (
        "the second covers the first",
        &[(16, 24, true), (0, 40, true), (40, 64, false)],
    ),
    (
        "the second ends inside the first",
        &[(24, 64, false), (0, 32, true)],
    ),
    (
        "one bridges two",
        &[(0, 16, true), (32, 64, false), (8, 40, true)],
    ),
    (
        "another last, longer",
        &[(0, 32, true), (40, 48, false), (32, 64, false)],
    ),
    (
        "another last, shorter",
        &[
            (48, 64, false),
            (32, 40, false),
            (0, 32, true),
            (40, 48, true),
        ],
    ),
    (
        "more behind the last",
        &[(32, 48, false), (48, 64, true), (0, 32, true)],
    ),
];

pub fn add(table: &mut Table) {
    table.class("fragments");
    for (what, pieces) in WHOLE {
        table.must(
            "RFC 1122 §3.3.2",
            format!("an echo request in fragments is answered: {what}"),
            |peer| {
                send_pieces(peer, pieces)?;
                expect_reply(peer, &request()[8..])
            },
        );
    }
    for (what, pieces) in HOLES {
        table.must(
            "RFC 791 §3.2",
            format!("fragments that are not all are no datagram: {what}"),
            |peer| {
                send_pieces(peer, pieces)?;
                peer.expect_nothing()
            },
        );
    }
    for (what, pieces) in OVERLAPS {
        table.should(
            "RFC 1858 §4, RFC 5722 §3",
            format!("fragments that overlap are no datagram: {what}"),
            |peer| {
                send_pieces(peer, pieces)?;
                peer.expect_nothing()
            },
        );
    }
    let name = "fragments that overlap are no datagram: one inside another says otherwise";
    let case = table.should("RFC 1858 §4, RFC 5722 §3", name, |peer| {
        let header = peer.ip(1);
        let whole = request();
        peer.send(&packet::fragment(header.clone(), 0, &whole[..40], true))?;
        peer.send(&packet::fragment(header.clone(), 16, &[0xee; 16], true))?;
        peer.send(&packet::fragment(header, 40, &whole[40..], false))?;
        peer.expect_nothing()
    });
    case.departs(Side::Linux, "what lies inside another is dropped unread");
    apart(table);
    lengths(table);
    table
        .must(
            "RFC 1122 §3.3.2",
            "what waits for the rest too long is reported by who has the first fragment",
            |peer| {
                let header = peer.ip(1);
                let first = packet::fragment(header, 0, &request()[..32], true);
                peer.send(&first)?;
                std::thread::sleep(Duration::from_secs(29));
                expect_report_late(peer, &first)
            },
        )
        .slow();
    table
        .must(
            "RFC 1122 §3.3.2",
            "what waits too long without its first fragment is given up without a word",
            |peer| {
                let header = peer.ip(1);
                peer.send(&packet::fragment(
                    header.clone(),
                    32,
                    &request()[32..],
                    false,
                ))?;
                std::thread::sleep(Duration::from_secs(35));
                peer.send(&packet::fragment(header, 0, &request()[..32], true))?;
                peer.expect_nothing()
            },
        )
        .slow();
}

/// What makes fragments parts of one datagram, and what does not.
fn apart(table: &mut Table) {
    for what in ["identification", "protocol", "source"] {
        table.must(
            "RFC 791 §3.2",
            format!("fragments of another {what} do not belong together"),
            move |peer| {
                let header = peer.ip(1);
                let mut other = header.clone();
                match what {
                    "identification" => other.identification ^= 0x100,
                    "protocol" => other.protocol = etherparse::IpNumber::UDP,
                    _ => other.source[2] |= 0x80,
                }
                peer.send(&packet::fragment(other, 0, &request()[..32], true))?;
                peer.send(&packet::fragment(
                    header.clone(),
                    32,
                    &request()[32..],
                    false,
                ))?;
                peer.expect_nothing()?;
                peer.send(&packet::fragment(header, 0, &request()[..32], true))?;
                expect_reply(peer, &request()[8..])
            },
        );
    }
    table.must(
        "RFC 1122 §3.3.2",
        "two datagrams, their fragments mixed, are both answered",
        |peer| {
            let (a, b) = (peer.ip(1), peer.ip(1));
            peer.send(&packet::fragment(a.clone(), 0, &request()[..32], true))?;
            peer.send(&packet::fragment(b.clone(), 32, &request()[32..], false))?;
            peer.send(&packet::fragment(b, 0, &request()[..32], true))?;
            expect_reply(peer, &request()[8..])?;
            peer.send(&packet::fragment(a, 32, &request()[32..], false))?;
            expect_reply(peer, &request()[8..])
        },
    );
    for cut in [24usize, 32, 40] {
        table.must(
            "RFC 9293 §3.10.7.2, RFC 1122 §3.3.2",
            format!("a SYN with text, cut behind {cut} octets, is answered"),
            move |peer| {
                let syn = Segment {
                    source: 5000,
                    destination: ECHO,
                    flags: SYN,
                    window: 100,
                    ..Segment::default()
                };
                let syn = syn.options(option::mss(1460)).text(vec![0; 40]);
                let bytes = syn.bytes(peer.address, SERVER);
                let header = peer.ip(6);
                peer.send(&packet::fragment(header.clone(), cut, &bytes[cut..], false))?;
                peer.send(&packet::fragment(header, 0, &bytes[..cut], true))?;
                let is = |seen: &Seen| seen.tcp().is_some_and(|s| s.flags & SYN != 0);
                peer.expect("a SYN-ACK", is).map(drop)
            },
        );
    }
    for octets in [1472usize, 1480, 3000, 9000] {
        table.must(
            "RFC 1122 §4.1.3.4, §3.3.2",
            format!("UDP of {octets} octets in fragments comes back"),
            move |peer| {
                let text: Vec<u8> = (0..octets).map(|i| (i / 7) as u8).collect();
                let datagram = packet::udp((5000, ECHO), peer.address, SERVER, &text);
                send_cut(peer, 17, &datagram)?;
                let seen = whole(peer)?;
                match seen.body {
                    Body::Udp { text: back, .. } if back == text => Ok(()),
                    _ => Err(Failure::new("the same octets", seen.to_string())),
                }
            },
        );
    }
    for octets in [1473usize, 2000, 8000, 30_000, 65_507] {
        table.must(
            "RFC 1122 §3.2.2.6, §3.3.3",
            format!("an echo request of {octets} octets comes back in fragments"),
            move |peer| {
                let text: Vec<u8> = (0..octets).map(|i| (i / 5) as u8).collect();
                send_cut(peer, 1, &packet::icmp(8, 0, [4, 3, 2, 1], &text))?;
                let seen = whole(peer)?;
                match seen.body {
                    Body::Icmp {
                        kind: 0,
                        text: back,
                        ..
                    } if back == text => Ok(()),
                    _ => Err(Failure::new("the same octets", seen.to_string())),
                }
            },
        );
    }
}

/// Lengths that no honest fragment has.
fn lengths(table: &mut Table) {
    for len in [1usize, 7, 9, 31] {
        table.must(
            "RFC 791 §3.1",
            format!("a fragment of {len} octets that more follow is dropped"),
            move |peer| {
                let header = peer.ip(1);
                peer.send(&packet::fragment(
                    header.clone(),
                    0,
                    &request()[..len],
                    true,
                ))?;
                let next = len.next_multiple_of(8);
                peer.send(&packet::fragment(header, next, &request()[next..], false))?;
                peer.expect_nothing()
            },
        );
    }
    for (offset, len) in [
        (65_528usize, 8usize),
        (65_528, 100),
        (65_520, 1400),
        (64_800, 1400),
    ] {
        table.must(
            "RFC 791 §3.1",
            format!(
                "{len} octets at {offset} would make more than a datagram holds, and are dropped"
            ),
            move |peer| {
                let header = peer.ip(1);
                peer.send(&packet::fragment(
                    header.clone(),
                    offset,
                    &vec![0; len],
                    false,
                ))?;
                peer.send(&packet::fragment(header, 0, &request(), true))?;
                peer.expect_nothing()
            },
        );
    }
    table.must(
        "RFC 791 §3.2",
        "a fragment without octets changes nothing",
        |peer| {
            let header = peer.ip(1);
            peer.send(&packet::fragment(header.clone(), 0, &request()[..32], true))?;
            peer.send(&packet::fragment(header, 32, &[], true))?;
            peer.expect_nothing()
        },
    );
}

/// An echo request of [`LEN`] octets.
fn request() -> Vec<u8> {
    let text: Vec<u8> = (8..LEN as u8).collect();
    packet::icmp(8, 0, [5, 6, 7, 8], &text)
}

fn send_pieces(peer: &mut Peer, pieces: &[Piece]) -> Outcome {
    let (header, whole) = (peer.ip(1), request());
    for (from, to, more) in pieces {
        peer.send(&packet::fragment(
            header.clone(),
            *from,
            &whole[*from..*to],
            *more,
        ))?;
    }
    Ok(())
}

/// Sends a payload in as many fragments as the link asks for.
fn send_cut(peer: &mut Peer, protocol: u8, payload: &[u8]) -> Outcome {
    let header = peer.ip(protocol);
    let pieces = payload.chunks(1480);
    let last = pieces.len() - 1;
    for (number, piece) in pieces.enumerate() {
        peer.send(&packet::fragment(
            header.clone(),
            number * 1480,
            piece,
            number < last,
        ))?;
    }
    Ok(())
}

fn expect_reply(peer: &mut Peer, text: &[u8]) -> Outcome {
    let seen = peer.expect("an echo reply", |seen| seen.icmp() == Some((0, 0)))?;
    match &seen.body {
        Body::Icmp { text: back, .. } if back == text => Ok(()),
        _ => Err(Failure::new("the same octets", seen.to_string())),
    }
}

/// A report of the reassembly time, half a minute after the first fragment in systems in use (RFC 1122 §3.3.2 would have one to two).
fn expect_report_late(peer: &mut Peer, about: &[u8]) -> Outcome {
    let Some((_, seen)) = peer.next(Duration::from_secs(20)) else {
        return Err(Failure::new("ICMP type 11 code 1", "nothing"));
    };
    match &seen.body {
        Body::Icmp {
            kind: 11,
            code: 1,
            text,
            ..
        } => {
            let is_about = text.len() >= 28 && about.starts_with(text);
            ensure(
                is_about,
                "the header and eight octets of what it is about",
                format!("{text:02x?}"),
            )
        }
        _ => Err(Failure::new("ICMP type 11 code 1", seen.to_string())),
    }
}

/// The next datagram, put together from what fragments it comes in: each must begin where the last one has ended.
fn whole(peer: &mut Peer) -> Outcome<Seen> {
    let mut payload = Vec::new();
    loop {
        let Some((_, seen)) = peer.next(PATIENCE) else {
            return Err(Failure::new(
                "a datagram",
                format!("{} octets of it", payload.len()),
            ));
        };
        let offset = usize::from(seen.ip.fragment_offset.value()) * 8;
        ensure(
            offset == payload.len(),
            format!("a fragment at {}", payload.len()),
            seen.to_string(),
        )?;
        payload.extend(&seen.payload);
        if !seen.ip.more_fragments {
            return seen
                .whole(payload)
                .ok_or_else(|| Failure::new("a datagram", seen.to_string()));
        }
    }
}
