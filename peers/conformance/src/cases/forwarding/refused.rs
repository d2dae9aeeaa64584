//! What does not go on, and what its sender is told of that.

use super::*;

pub fn reports(table: &mut Table) {
    for ttl in [0u8, 1] {
        for protocol in [6u8, 17, 47] {
            let name =
                format!("what comes with a time to live of {ttl} is reported, protocol {protocol}");
            table.must("RFC 1812 §5.3.1, §4.3.2.3", name, move |peer| {
                let packet = with(across(peer, 100), PROTOCOL, &[protocol]);
                let packet = with(packet, TTL, &[ttl]);
                peer.send(&packet)?;
                expect_report(peer, (11, 0), &packet)?;
                expect_dropped(peer)
            });
        }
    }
    table.must(
        "RFC 1812 §4.3.2.4",
        "a report comes from the address on the network where it is sent",
        |peer| {
            let to = peer.address;
            for (from_far, address) in [(false, SERVER), (true, FAR_SERVER)] {
                let far = peer.far().address;
                let (end, to) = if from_far {
                    (peer.far(), to)
                } else {
                    (&mut *peer, far)
                };
                let packet = with(datagram(end, to, 8), TTL, &[1]);
                end.send(&packet)?;
                let seen = end.expect("time exceeded", |seen| seen.icmp() == Some((11, 0)))?;
                let source = Ipv4Addr::from(seen.ip.source);
                ensure(source == address, address.to_string(), source.to_string())?;
            }
            Ok(())
        },
    );
    table.must(
        "RFC 1812 §4.3.3.1",
        "what nobody knows a way to is reported",
        |peer| {
            let packet = datagram(peer, NOWHERE, 30);
            peer.send(&packet)?;
            expect_report(peer, (3, 0), &packet)?;
            expect_dropped(peer)
        },
    );
    let case = table.must(
        "RFC 1812 §4.3.3.1, RFC 6164 §5.1",
        "what is for another address of the network that it comes from, which has no other host, is reported",
        |peer| {
            let packet = datagram(peer, Ipv4Addr::new(10, 77, 200, 7), 30);
            peer.send(&packet)?;
            expect_report(peer, (3, 1), &packet)?;
            expect_dropped(peer)
        },
    );
    case.departs(Side::Linux, "it goes back to where it came from");
    // What makes a report necessary, and what it would be.
    let causes: [(&str, Change); 3] = [
        ("no hop left", |packet| with(packet, TTL, &[1])),
        ("no way", |packet| {
            with(packet, DESTINATION, &NOWHERE.octets())
        }),
        ("too long", |mut packet| {
            packet.resize(800, 7);
            let packet = with(packet, 2, &800u16.to_be_bytes());
            let flags = packet[6] | DONT_FRAGMENT;
            with(packet, 6, &[flags])
        }),
    ];
    for (what, change) in causes {
        let name = format!("of fragments other than the first nothing is reported: {what}");
        table.must("RFC 1812 §4.3.2.7", name, move |peer| {
            let packet = with(across(peer, 40), 6, &[0, 5]);
            peer.send(&change(packet))?;
            expect_dropped(peer)
        });
        for (kind, code) in [(3u8, 1u8), (11, 0), (12, 0), (5, 1)] {
            let name = format!("of ICMP type {kind} code {code} nothing is reported: {what}");
            table.must("RFC 1812 §4.3.2.7", name, move |peer| {
                let about = across(peer, 8);
                let message = packet::icmp(kind, code, [0; 4], &about[..28]);
                let header = packet::ip(peer.address, peer.far().address, 1, 5);
                peer.send(&change(packet::packet(header, &message)))?;
                expect_dropped(peer)
            });
        }
        let name = format!("of an echo request it is reported: {what}");
        table.must("RFC 1812 §4.3.2.7, §4.3.3", name, move |peer| {
            let header = packet::ip(peer.address, peer.far().address, 1, 5);
            let message = packet::icmp(8, 0, [0; 4], &[7; 20]);
            peer.send(&change(packet::packet(header, &message)))?;
            let report = peer.next(PATIENCE).and_then(|(_, seen)| seen.icmp());
            ensure(
                matches!(report, Some((3 | 11, _))),
                "a report",
                format!("{report:?}"),
            )
        });
    }
}

/// What is done to a packet.
type Change = fn(Vec<u8>) -> Vec<u8>;

/// What goes nowhere, without a word.
pub fn stays(table: &mut Table) {
    for bit in 0..16 {
        let name = format!("a packet whose header checksum is wrong in bit {bit} does not go on");
        table.must("RFC 1812 §5.2.2, §4.2.2.5", name, move |peer| {
            let mut packet = across(peer, 8);
            packet[10 + bit / 8] ^= 1 << (bit % 8);
            peer.send(&packet)?;
            expect_dropped(peer)
        });
    }
    let headers: [(&str, Change); 4] = [
        ("of version 5", |packet| with(packet, 0, &[0x55])),
        ("whose header has 16 octets", |packet| {
            with(packet, 0, &[0x44])
        }),
        ("that is shorter than it says", |packet| {
            with(packet, 2, &[0, 200])
        }),
        ("that says it is shorter than its header", |packet| {
            with(packet, 2, &[0, 19])
        }),
    ];
    for (what, change) in headers {
        let name = format!("a packet {what} does not go on");
        table.must("RFC 1812 §5.2.2", name, move |peer| {
            let packet = across(peer, 8);
            peer.send(&change(packet))?;
            expect_dropped(peer)
        });
    }
    for (address, source, why) in MARTIANS {
        let octets = octets_of(address);
        let name = format!("what comes from {address} does not go on, and nobody is told");
        let from = table.should(source, name, move |peer| {
            let packet = across(peer, 8);
            peer.send(&with(packet, SOURCE, &octets))?;
            expect_dropped(peer)
        });
        from.departures.extend(why.map(|why| (Side::Linux, why)));
        let name = format!("what is for {address} does not go on");
        let to = table.should(source, name, move |peer| stays_here(peer, octets));
        to.departures.extend(why.map(|why| (Side::Linux, why)));
    }
    for (address, source) in [
        ("255.255.255.255", "RFC 1812 §5.3.5.1"),
        ("10.78.255.255", "RFC 2644 §2"),
        ("10.77.255.255", "RFC 2644 §2"),
    ] {
        let octets = octets_of(address);
        let name = format!("a broadcast to {address} does not go on, and nobody is told");
        table.must(source, name, move |peer| {
            stays_here(peer, octets)?;
            peer.expect_nothing()
        });
    }
}

/// Addresses that are not of one host anywhere, and why Linux takes them for such.
const MARTIANS: [(&str, &str, Option<&str>); 7] = [
    ("0.0.0.0", "RFC 1812 §5.3.7", None),
    (
        "0.1.2.3",
        "RFC 1812 §5.3.7",
        Some("0.0.0.0/8 is a network of hosts to it"),
    ),
    ("127.0.0.1", "RFC 1812 §5.3.7", None),
    ("224.0.0.5", "RFC 1812 §5.3.7", None),
    ("239.1.1.1", "RFC 1812 §5.3.7", None),
    (
        "240.0.0.1",
        "RFC 1812 §5.3.7",
        Some("240.0.0.0/4 is a network of hosts to it"),
    ),
    (
        "169.254.1.1",
        "RFC 3927 §7",
        Some("addresses of a link are as any to it"),
    ),
];

fn octets_of(address: &str) -> [u8; 4] {
    let address: Result<Ipv4Addr, _> = address.parse();
    address.expect("the table has addresses").octets()
}

/// What is for this address does not go on.
fn stays_here(peer: &mut Peer, destination: [u8; 4]) -> Outcome {
    let packet = across(peer, 8);
    peer.send(&with(packet, DESTINATION, &destination))?;
    expect_nothing_there(peer)
}
