//! Forwarding (RFC 1812 §5): what goes on from one network to another and what of it changes, what does not, and what its sender is told.

mod changed;
mod refused;

use std::net::Ipv4Addr;

use crate::case::Table;
use crate::cases::icmp::expect_report;
use crate::packet::{self, IP_HEADER, resummed};
use crate::peer::{CLOSED, FAR_MTU, FAR_SERVER, Outcome, PATIENCE, Peer, SERVER, ensure};
use crate::seen::{Body, Seen};
use crate::side::Side;

/// Reached by the far network's gateway.
const BEYOND: Ipv4Addr = Ipv4Addr::new(172, 20, 1, 1);
/// Of a network that nobody knows.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

const TTL: usize = 8;
const PROTOCOL: usize = 9;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const MORE_FRAGMENTS: u8 = 0x20;
const DONT_FRAGMENT: u8 = 0x40;

pub fn add(table: &mut Table) {
    table.class_between("forwarding");
    goes_on(table);
    changed::with_options(table);
    changed::too_long(table);
    refused::reports(table);
    refused::stays(table);
    for_the_router(table);
}

/// A UDP datagram from this peer to another address, with so many octets.
fn datagram(peer: &mut Peer, to: Ipv4Addr, octets: usize) -> Vec<u8> {
    let text: Vec<u8> = (0..octets).map(|i| (i * 7 / 3) as u8).collect();
    let id = peer.id();
    let bytes = packet::udp((5000, CLOSED), peer.address, to, &text);
    packet::packet(packet::ip(peer.address, to, 17, id), &bytes)
}

/// The same, to the peer on the far network.
fn across(peer: &mut Peer, octets: usize) -> Vec<u8> {
    let to = peer.far().address;
    datagram(peer, to, octets)
}

/// The packet with some of its octets changed, and a header checksum that fits.
fn with(mut packet: Vec<u8>, at: usize, octets: &[u8]) -> Vec<u8> {
    packet[at..at + octets.len()].copy_from_slice(octets);
    resummed(packet)
}

/// The packet with these options behind its header, a multiple of four octets.
fn with_header_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let mut whole = [&packet[..IP_HEADER], options, &packet[IP_HEADER..]].concat();
    whole[0] += (options.len() / 4) as u8;
    let len = whole.len() as u16;
    whole[2..4].copy_from_slice(&len.to_be_bytes());
    resummed(whole)
}

/// The packet a hop later.
fn a_hop_later(packet: &[u8]) -> Vec<u8> {
    let ttl = packet[TTL] - 1;
    with(packet.to_vec(), TTL, &[ttl])
}

fn bytes_of(seen: &Seen) -> Vec<u8> {
    [seen.ip.to_bytes().as_slice(), &seen.payload].concat()
}

/// The far network gets this next, to the octet.
fn expect_there(peer: &mut Peer, expected: &[u8]) -> Outcome {
    let seen = peer.far().expect("the packet a hop later", |_| true)?;
    let came = bytes_of(&seen);
    ensure(
        came == expected,
        format!("{expected:02x?}"),
        format!("{came:02x?}"),
    )
}

/// Sends it; the far network gets it, and nothing of it but its time to live and checksum has changed.
fn expect_across(peer: &mut Peer, packet: &[u8]) -> Outcome {
    peer.send(packet)?;
    expect_there(peer, &a_hop_later(packet))?;
    peer.expect_nothing()
}

/// Of all that was sent nothing has gone on: what is sent now is the first that comes.
fn expect_nothing_there(peer: &mut Peer) -> Outcome {
    let marker = across(peer, 3);
    peer.send(&marker)?;
    expect_there(peer, &a_hop_later(&marker))
}

/// Of all that was sent nothing has gone on, and nobody was told.
fn expect_dropped(peer: &mut Peer) -> Outcome {
    expect_nothing_there(peer)?;
    peer.expect_nothing()
}

fn goes_on(table: &mut Table) {
    for ttl in [2u8, 3, 64, 128, 255] {
        let name = format!("a packet goes on with a hop less than {ttl}, and else as it was");
        table.must("RFC 1812 §5.3.1, §4.2.2.5", name, move |peer| {
            let packet = with(across(peer, 32), TTL, &[ttl]);
            expect_across(peer, &packet)
        });
    }
    for id in [0u16, 1, 0x00ff, 0x0100, 0xfeff, 0xffff] {
        let name = format!("the header checksum is right a hop later: identification {id:#06x}");
        table.must("RFC 1812 §4.2.2.5, RFC 1624 §3", name, move |peer| {
            let packet = with(across(peer, 8), 4, &id.to_be_bytes());
            expect_across(peer, &packet)
        });
    }
    for octets in [0usize, 1, 571, usize::from(FAR_MTU) - 28] {
        let name = format!(
            "a datagram of {octets} octets, which are as many as fit or fewer, goes on whole"
        );
        table.must("RFC 1812 §5.2.1.2", name, move |peer| {
            let packet = across(peer, octets);
            expect_across(peer, &packet)
        });
    }
    for protocol in [0u8, 1, 2, 6, 47, 50, 132, 255] {
        let name = format!("protocol {protocol} goes on, whatever it carries");
        table.must("RFC 1812 §5.2.1.2", name, move |peer| {
            let packet = with(across(peer, 32), PROTOCOL, &[protocol]);
            expect_across(peer, &packet)
        });
    }
    for tos in [0x03u8, 0x10, 0xb8, 0xff] {
        let name = format!("the type of service {tos:#04x} goes on as it is");
        table.must("RFC 1812 §5.2.1.2, RFC 3168 §5.3", name, move |peer| {
            let packet = with(across(peer, 8), 1, &[tos]);
            expect_across(peer, &packet)
        });
    }
    for (what, place) in [
        ("first", [MORE_FRAGMENTS, 0]),
        ("middle", [MORE_FRAGMENTS, 50]),
        ("last", [0, 50]),
    ] {
        let name = format!("a fragment goes on by itself: the {what} one");
        table.must("RFC 1812 §4.2.2.8", name, move |peer| {
            let packet = with(across(peer, 40), 6, &place);
            expect_across(peer, &packet)
        });
    }
    table.must(
        "RFC 1812 §5.2.4.3",
        "what is for beyond goes to the gateway",
        |peer| {
            let packet = datagram(peer, BEYOND, 9);
            expect_across(peer, &packet)
        },
    );
    table.must(
        "RFC 1812 §5.2.1.2",
        "what comes from the far network goes on to this one",
        |peer| {
            let to = peer.address;
            let packet = datagram(peer.far(), to, 9);
            peer.far().send(&packet)?;
            let seen = peer.expect("the packet a hop later", |_| true)?;
            let came = bytes_of(&seen);
            ensure(
                came == a_hop_later(&packet),
                "nothing but a hop has changed",
                format!("{came:02x?}"),
            )
        },
    );
    table.must(
        "RFC 1812 §5.2.1.2",
        "a report of another's goes on",
        |peer| {
            let about = across(peer, 8);
            let message = packet::icmp(3, 1, [0; 4], &about[..28]);
            let header = packet::ip(peer.address, peer.far().address, 1, 5);
            expect_across(peer, &packet::packet(header, &message))
        },
    );
}

/// What is for the router itself.
fn for_the_router(table: &mut Table) {
    for ttl in [0u8, 1] {
        let name = format!("what is for the router is taken with a time to live of {ttl}");
        table.must("RFC 1812 §4.2.2.9", name, move |peer| {
            expect_echo(peer, SERVER, ttl)
        });
    }
    table.must(
        "RFC 1812 §5.2.3",
        "what is for the router's address on another network is taken",
        |peer| expect_echo(peer, FAR_SERVER, 64),
    );
}

/// An echo request to this address is answered from there.
fn expect_echo(peer: &mut Peer, to: Ipv4Addr, ttl: u8) -> Outcome {
    let message = packet::icmp(8, 0, [1, 2, 3, 4], b"router");
    let packet = packet::packet(packet::ip(peer.address, to, 1, 5), &message);
    peer.send(&with(packet, TTL, &[ttl]))?;
    let seen = peer.expect("an echo reply", |seen| seen.icmp() == Some((0, 0)))?;
    let source = Ipv4Addr::from(seen.ip.source);
    ensure(source == to, to.to_string(), source.to_string())
}
