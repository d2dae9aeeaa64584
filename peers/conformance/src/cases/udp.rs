//! UDP (RFC 768, RFC 1122 §4.1).

use crate::case::Table;
use crate::packet;
use crate::peer::{DISCARD, ECHO, Failure, Outcome, Peer, SERVER};
use crate::seen::Body;

pub fn add(table: &mut Table) {
    table.class("udp");
    for octets in [0usize, 1, 2, 3, 100, 511, 512, 1471, 1472] {
        table.must(
            "RFC 768",
            format!("{octets} octets come back"),
            move |peer| {
                let text = vec![b'd'; octets];
                peer.send_udp(5000, ECHO, &text)?;
                expect_echo(peer, 5000, &text)
            },
        );
    }
    for port in [1u16, 1023, 1024, 0x8000, 0xffff] {
        table.must(
            "RFC 768",
            format!("what comes from port {port} is answered there"),
            move |peer| {
                peer.send_udp(port, ECHO, b"from there")?;
                expect_echo(peer, port, b"from there")
            },
        );
    }
    table.must("RFC 863", "what is discarded is not answered", |peer| {
        peer.send_udp(5000, DISCARD, b"gone")?;
        peer.expect_nothing()
    });
    table.must(
        "RFC 1122 §4.1.3.4",
        "a datagram without a checksum is taken",
        |peer| {
            changed(peer, |datagram| datagram[6..8].fill(0))?;
            expect_echo(peer, 5000, b"datagram")
        },
    );
    for bit in 0..16u8 {
        table.must(
            "RFC 1122 §4.1.3.4",
            format!("a datagram whose checksum has bit {bit} wrong is dropped"),
            move |peer| {
                changed(peer, |datagram| {
                    datagram[6 + usize::from(bit / 8)] ^= 1 << (bit % 8)
                })?;
                peer.expect_nothing()
            },
        );
    }
    for len in [0u16, 1, 7, 17, 18, 1000, 65_535] {
        table.must(
            "RFC 768",
            format!("a datagram of 16 bytes that says {len} is dropped"),
            move |peer| {
                changed(peer, |datagram| {
                    datagram[4..6].copy_from_slice(&len.to_be_bytes());
                    // Nothing but the length is wrong.
                    datagram[6..8].fill(0);
                })?;
                peer.expect_nothing()
            },
        );
    }
    for len in [0usize, 1, 4, 7] {
        table.must(
            "RFC 768",
            format!("{len} bytes of a header are dropped"),
            move |peer| {
                let datagram = packet::udp((5000, ECHO), peer.address, SERVER, b"");
                let packet = packet::packet(peer.ip(17), &datagram[..len]);
                peer.send(&packet)?;
                peer.expect_nothing()
            },
        );
    }
}

/// Sends a datagram to the echo service, with something changed.
fn changed(peer: &mut Peer, change: impl Fn(&mut Vec<u8>)) -> Outcome {
    let mut datagram = packet::udp((5000, ECHO), peer.address, SERVER, b"datagram");
    change(&mut datagram);
    let packet = packet::packet(peer.ip(17), &datagram);
    peer.send(&packet)
}

fn expect_echo(peer: &mut Peer, port: u16, octets: &[u8]) -> Outcome {
    let seen = peer.expect("a datagram", |seen| matches!(seen.body, Body::Udp { .. }))?;
    match &seen.body {
        Body::Udp { ports, text } if *ports == (ECHO, port) && text == octets => Ok(()),
        _ => Err(Failure::new(
            "the same octets from the port that they went to",
            seen.to_string(),
        )),
    }
}
