//! TCP options that are wrong, unknown or at their bounds (RFC 9293 §3.1, MUST-4 to MUST-7, §3.7.1).

use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::option;
use crate::peer::{CHARGEN, ECHO, Outcome, Peer, ensure};

/// A segment size of a peer that has named none (RFC 9293 §3.7.1, MUST-15).
const DEFAULT_MSS: usize = 536;

pub fn add(table: &mut Table) {
    table.class("options");
    for kind in [6u8, 7, 9, 15, 27, 31, 77, 200, 253, 255] {
        for len in [2u8, 3, 8, 20] {
            let name = format!("option {kind} of {len} bytes, which nobody knows, is passed over");
            table.must("RFC 9293 §3.1, MUST-6", name, move |peer| {
                let mut options = vec![kind, len];
                options.resize(len.into(), 0x5a);
                options.extend(option::mss(700));
                expect_segments(peer, options, 700)
            });
        }
    }
    // The kind, the right length of it, and what tells whether it was heeded nevertheless.
    for (kind, right, what) in [
        (2u8, 4u8, "segment size"),
        (3, 3, "window scale"),
        (4, 2, "SACK-permitted"),
        (8, 10, "timestamps"),
    ] {
        for len in (0..=12u8).filter(|len| *len != right) {
            let name = format!("a {what} option that says {len} bytes is not heeded");
            table.must("RFC 9293 §3.1, MUST-7", name, move |peer| {
                let mut options = vec![kind, len];
                options.resize(usize::from(len.max(2)), 3);
                expect_none(peer, options)
            });
        }
        for cut in 1..right.min(4) {
            let name = format!(
                "a {what} option that ends behind the header, {cut} bytes of it there, is not heeded"
            );
            table.must("RFC 9293 §3.1, MUST-7", name, move |peer| {
                let mut options = vec![1; 40 - usize::from(cut)];
                options.extend(&[kind, right, 3][..usize::from(cut)]);
                expect_none(peer, options)
            });
        }
    }
    for (what, options) in [
        (
            "behind the end of the list",
            [vec![0], option::mss(700)].concat(),
        ),
        (
            "behind one without a length",
            [vec![77, 0], option::mss(700)].concat(),
        ),
        (
            "behind one of a single byte's length",
            [vec![77, 1], option::mss(700)].concat(),
        ),
        (
            "behind one that is longer than the header",
            [vec![77, 60], option::mss(700)].concat(),
        ),
    ] {
        table.must(
            "RFC 9293 §3.1",
            format!("a segment size {what} is not heeded"),
            move |peer| expect_none(peer, options.clone()),
        );
    }
    for (what, options) in [
        ("behind padding", [vec![1; 36], option::mss(700)].concat()),
        ("across words", [vec![1; 3], option::mss(700)].concat()),
        ("first", [option::mss(700), vec![0; 4]].concat()),
    ] {
        table.must(
            "RFC 9293 §3.1, MUST-4",
            format!("a segment size is heeded: {what}"),
            move |peer| expect_segments(peer, options.clone(), 700),
        );
    }
    table.must(
        "RFC 9293 §3.7.1, MUST-15",
        "to who names no segment size segments of 536 octets are sent",
        |peer| expect_segments(peer, Vec::new(), DEFAULT_MSS),
    );
    for mss in [536u16, 537, 1000, 1459, 1460] {
        table.must(
            "RFC 9293 §3.7.1, MUST-16",
            format!("segments are no longer than {mss} octets where the peer says so"),
            move |peer| expect_segments(peer, option::mss(mss), mss.into()),
        );
    }
    for mss in [1461u16, 9000, 65_535] {
        table.must(
            "RFC 9293 §3.7.1",
            format!("a peer that takes {mss} octets is sent what the link carries"),
            move |peer| expect_segments(peer, option::mss(mss), 1460),
        );
    }
    for mss in [0u16, 1, 48, 64] {
        table.must(
            "RFC 9293 §3.7.1",
            format!("a peer that says {mss} octets is served"),
            move |peer| {
                let mut connection =
                    Connection::open(peer, &Open::to(ECHO).options(option::mss(mss)))?;
                connection.echo(&[b'm'; 300])
            },
        );
    }
    table.must(
        "RFC 7323 §4.1",
        "timestamps go with what a segment carries: it is shorter by them",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN).timestamps(5))?;
            let (_, segment) = connection.next("text")?;
            let len = segment.text.len();
            ensure(len <= 1448, "at most 1448 octets", len.to_string())
        },
    );
}

/// The peer is sent segments of at most this length, and one of just this.
fn expect_segments(peer: &mut Peer, options: Vec<u8>, mss: usize) -> Outcome {
    let open = Open::to(CHARGEN).options(options).window(10_000);
    segments_of(&mut Connection::open(peer, &open)?, mss)
}

fn segments_of(connection: &mut Connection<'_>, mss: usize) -> Outcome {
    let mut longest = 0;
    let mut left = 4 * mss;
    while left > 0 {
        let (_, segment) = connection.next("text")?;
        connection.rcv_nxt = segment.end();
        let len = segment.text.len();
        ensure(
            len <= mss,
            format!("at most {mss} octets"),
            format!("{len} octets"),
        )?;
        longest = longest.max(len);
        left = left.saturating_sub(len.max(1));
    }
    ensure(
        longest == mss,
        format!("a segment of {mss} octets"),
        format!("{longest} at most"),
    )
}

/// A SYN with these options is dropped, or refused, or answered as one that has none: all of that is handling them (RFC 9293 §3.1, MUST-7).
fn expect_none(peer: &mut Peer, options: Vec<u8>) -> Outcome {
    let open = Open::to(CHARGEN).options(options).window(10_000);
    let Some(mut connection) = Connection::open_if_answered(peer, &open)? else {
        return Connection::open(peer, &Open::to(ECHO))?.echo(b"others are served");
    };
    let offered = &connection.offered;
    let is_none =
        offered.window_scale.is_none() && !offered.sack_permitted && offered.timestamps.is_none();
    ensure(
        is_none,
        "none of window scale, SACK and timestamps",
        format!("{offered:?}"),
    )?;
    segments_of(&mut connection, DEFAULT_MSS)
}
