//! What of a packet changes on its way besides the time to live: options, and packets that are cut.

use super::*;

pub fn with_options(table: &mut Table) {
    let rows: [(&str, &[u8]); 4] = [
        ("no-operations", &[1, 1, 1, 1]),
        ("one that nobody knows, for each fragment", &[0x9e, 4, 1, 2]),
        (
            "one that nobody knows, for the first fragment",
            &[0x1e, 4, 1, 2],
        ),
        ("a router alert", &[0x94, 4, 0, 0]),
    ];
    for (what, options) in rows {
        table.must(
            "RFC 1812 §5.3.13.1",
            format!("options ride along: {what}"),
            |peer| {
                let packet = across(peer, 16);
                expect_across(peer, &with_header_options(&packet, options))
            },
        );
    }
    let case = table.must(
        "RFC 1812 §5.3.13.5",
        "a record of the route gets the address by which the packet leaves",
        |peer| {
            let packet = with_header_options(&across(peer, 16), &[7, 7, 4, 0, 0, 0, 0, 0]);
            let mut expected = a_hop_later(&packet);
            expected[IP_HEADER + 2] = 8;
            expected[IP_HEADER + 3..IP_HEADER + 7].copy_from_slice(&FAR_SERVER.octets());
            peer.send(&packet)?;
            expect_there(peer, &resummed(expected))
        },
    );
    case.departs(
        Side::Braidnet,
        "options ride along as they are (RFC 7126 §4.5)",
    );
    let case = table.must(
        "RFC 1812 §5.3.13.4, RFC 791 §3.1",
        "a source route leads on from here",
        |peer| {
            let there = peer.far().address.octets();
            let route = [&[1, 131, 7, 4], &there[..]].concat();
            let packet = with_header_options(&datagram(peer, SERVER, 16), &route);
            let mut expected = with(a_hop_later(&packet), DESTINATION, &there);
            expected[IP_HEADER + 3] = 8;
            expected[IP_HEADER + 4..IP_HEADER + 8].copy_from_slice(&FAR_SERVER.octets());
            peer.send(&packet)?;
            let marker = across(peer, 3);
            peer.send(&marker)?;
            expect_there(peer, &resummed(expected))
        },
    );
    case.departs(
        Side::Braidnet,
        "no source route is followed (RFC 7126 §4.3)",
    );
    case.departs(
        Side::Linux,
        "what has a source route is dropped (accept_source_route)",
    );
}

pub fn too_long(table: &mut Table) {
    let fits = usize::from(FAR_MTU) - IP_HEADER;
    for over in [1usize, 8, 100, 580, 900] {
        let name = format!(
            "what is {over} octets too long and may not be cut is reported, with what would fit"
        );
        table.must("RFC 1812 §5.2.7.1, RFC 1191 §4", name, move |peer| {
            let whole = across(peer, fits - 8 + over);
            let packet = with(whole, 6, &[DONT_FRAGMENT, 0]);
            peer.send(&packet)?;
            let rest = expect_report(peer, (3, 4), &packet)?;
            let mtu = u16::from_be_bytes([rest[2], rest[3]]);
            ensure(mtu == FAR_MTU, format!("{FAR_MTU}"), format!("{mtu}"))?;
            expect_dropped(peer)
        });
        let name = format!("what is {over} octets too long goes on in fragments");
        table.must("RFC 1812 §4.2.2.7, RFC 791 §3.2", name, move |peer| {
            let packet = across(peer, fits - 8 + over);
            peer.send(&packet)?;
            expect_fragments(peer, &packet, &[])
        });
    }
    table.must(
        "RFC 791 §3.1, §3.2",
        "each fragment has the options that are copied, and the first the others as well",
        |peer| {
            let alert = [0x94, 4, 0, 0];
            let once = [0x1e, 4, 1, 2];
            let packet = across(peer, 1200);
            let packet = with_header_options(&packet, &[alert, once].concat());
            peer.send(&packet)?;
            expect_fragments(peer, &packet, &alert)
        },
    );
    for (what, place) in [("more follow", [MORE_FRAGMENTS, 90]), ("the last", [0, 90])] {
        let name = format!("a fragment that is too long is cut again: {what}");
        table.must("RFC 791 §3.2", name, move |peer| {
            let packet = with(across(peer, 1200), 6, &place);
            peer.send(&packet)?;
            expect_fragments(peer, &packet, &[])
        });
    }
}

/// The far network gets this packet in fragments that fit, those behind the first with these options: together they are all of it.
fn expect_fragments(peer: &mut Peer, packet: &[u8], copied: &[u8]) -> Outcome {
    let original = Seen::read(packet).map(|seen| seen.ip);
    let original = original.expect("a case sends an IPv4 header");
    let begin = usize::from(original.fragment_offset.value()) * 8;
    let payload = &packet[original.header_len()..];
    let mut at = 0;
    while at < payload.len() {
        let seen = peer
            .far()
            .expect("a fragment", |seen| matches!(seen.body, Body::Fragment))?;
        let is_last = at + seen.payload.len() == payload.len();
        let options = if at == 0 {
            &packet[IP_HEADER..original.header_len()]
        } else if without_fillers(&seen.ip.options) == copied {
            &seen.ip.options[..]
        } else {
            copied
        };
        let mut expected = original.clone();
        expected.time_to_live -= 1;
        expected.options = options
            .try_into()
            .expect("a case gives at most 40 octets of options");
        expected.more_fragments = !is_last || original.more_fragments;
        let expected = packet::fragment(
            expected.clone(),
            begin + at,
            payload.get(at..at + seen.payload.len()).unwrap_or_default(),
            expected.more_fragments,
        );
        let came = bytes_of(&seen);
        let is_right = came == expected
            && came.len() <= usize::from(FAR_MTU)
            && (is_last || seen.payload.len().is_multiple_of(8));
        ensure(
            is_right,
            format!("octets from {at} on: {expected:02x?}"),
            format!("{came:02x?}"),
        )?;
        at += seen.payload.len();
    }
    expect_dropped(peer)
}

/// Options without the no-operations by which some fill the places of others.
fn without_fillers(options: &[u8]) -> Vec<u8> {
    let mut rest = options;
    let mut without = Vec::new();
    while let [kind, behind @ ..] = rest {
        let len = match (kind, behind) {
            (0 | 1, _) | (_, []) => 1,
            (_, [len, ..]) => usize::from(*len).clamp(2, rest.len()),
        };
        let (option, behind) = rest.split_at(len);
        if *kind > 1 {
            without.extend(option);
        }
        rest = behind;
    }
    without
}
