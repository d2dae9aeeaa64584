//! Timestamps and the protection against wrapped sequence numbers (RFC 7323 §3 to §5).

use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{ACK, FIN, RST, option};
use crate::peer::{ECHO, Outcome, ensure};
use crate::seen::Arrived;
use crate::side::Side;

/// Values of our clock at which comparison modulo 2^32 may go wrong.
const VALUES: [u32; 5] = [1, 0x7fff_fffe, 0x8000_0000, 0xffff_fff0, 0xffff_fffe];

pub fn add(table: &mut Table) {
    table.class("timestamps");
    for value in VALUES {
        table.must(
            "RFC 7323 §3.2, §4.3",
            format!("every segment has timestamps, and echoes ours, from {value:#x} on"),
            move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(value))?;
                for _ in 0..4 {
                    tick(&mut connection, 3);
                    let ours = now(&connection);
                    connection.send_text(b"stamped")?;
                    let seen = answer(&mut connection, 7)?;
                    let stamps = seen.options.timestamps;
                    let is_right = stamps.is_some_and(|(_, echo)| echo == ours);
                    ensure(
                        is_right,
                        format!("an echo of {ours}"),
                        format!("{stamps:?}"),
                    )?;
                }
                Ok(())
            },
        );
        for back in [1u32, 1000, 0x7fff_0000] {
            let name = format!(
                "text whose timestamp is {back} behind {value:#x} is answered with an ACK, and dropped"
            );
            let case = table.must("RFC 7323 §5.3, R1", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(value))?;
                let last = now(&connection);
                connection.echo(b"first")?;
                let (_, echo) = connection.timestamps.unwrap_or_default();
                let old = with_stamp(&connection, ACK, last.wrapping_sub(back), echo).text(b"old");
                connection.send(&old)?;
                connection.expect_ack()?;
                connection.expect_silence()?;
                tick(&mut connection, 1);
                connection.echo(b"new")
            });
            if back == 1 {
                case.departs(Side::Linux, "a timestamp one step old is let through");
            }
        }
        for ahead in [0u32, 1, 1000, 0x7fff_0000] {
            let name = format!("text whose timestamp is {ahead} past {value:#x} is taken");
            table.must("RFC 7323 §5.3", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(value))?;
                connection.echo(b"first")?;
                tick(&mut connection, ahead);
                connection.echo(b"second")
            });
        }
    }
    table.must(
        "RFC 7323 §5.3, R1",
        "a RST with an old timestamp is heeded",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(5000))?;
            connection.echo(b"first")?;
            let rst = with_stamp(&connection, RST, 1, 0);
            connection.send(&rst)?;
            gone(&mut connection)
        },
    );
    table.must(
        "RFC 7323 §3.2",
        "a RST without timestamps is heeded",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(5000))?;
            connection.echo(b"first")?;
            let rst = connection.segment(RST).options([]);
            connection.send(&rst)?;
            gone(&mut connection)
        },
    );
    table.must(
        "RFC 7323 §5.3, R1",
        "a FIN with an old timestamp is not taken",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(5000))?;
            connection.echo(b"first")?;
            let (_, echo) = connection.timestamps.unwrap_or_default();
            let fin = with_stamp(&connection, ACK | FIN, 1, echo);
            connection.send(&fin)?;
            connection.expect_ack()?;
            connection.echo(b"second")
        },
    );
    table.must(
        "RFC 7323 §4.3",
        "what leaves a gap does not change what is echoed",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(100))?;
            connection.echo(b"first")?;
            let kept = now(&connection);
            tick(&mut connection, 50);
            let seq = connection.snd_nxt.wrapping_add(10);
            let later = connection.segment(ACK).seq(seq).text(b"later");
            connection.send(&later)?;
            let ack = connection.expect_ack()?;
            let is_kept = ack.options.timestamps.is_some_and(|(_, echo)| echo == kept);
            ensure(
                is_kept,
                format!("an echo of {kept}"),
                format!("{:?}", ack.options.timestamps),
            )
        },
    );
    table.must(
        "RFC 7323 §4.1",
        "our side's clock does not run backwards",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(100))?;
            let mut last = connection
                .offered
                .timestamps
                .map(|(value, _)| value)
                .unwrap_or_default();
            for _ in 0..5 {
                tick(&mut connection, 1);
                connection.send_text(b"tick")?;
                let seen = answer(&mut connection, 4)?;
                let value = seen.options.timestamps.map_or(0, |(value, _)| value);
                ensure(
                    value.wrapping_sub(last) as i32 >= 0,
                    format!("{last} or later"),
                    value.to_string(),
                )?;
                last = value;
            }
            Ok(())
        },
    );
    let case = table.should(
        "RFC 7323 §3.2",
        "text without timestamps is dropped where they were agreed on",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).timestamps(100))?;
            let bare = connection.segment(ACK).options([]).text(b"bare");
            connection.send(&bare)?;
            connection.expect_silence()?;
            connection.echo(b"full")
        },
    );
    case.departs(Side::Linux, "it is let through");
    table.must(
        "RFC 7323 §3.2",
        "timestamps on a segment where none were agreed on are ignored",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO))?;
            let stamped = with_stamp(&connection, ACK, 9, 9).text(b"stamped");
            connection.snd_nxt = connection.snd_nxt.wrapping_add(7);
            connection.send(&stamped)?;
            connection.expect_echo(b"stamped")
        },
    );
}

/// The value of our next segment.
fn now(connection: &Connection<'_>) -> u32 {
    connection.timestamps.map_or(0, |(value, _)| value)
}

fn tick(connection: &mut Connection<'_>, by: u32) {
    if let Some((value, _)) = &mut connection.timestamps {
        *value = value.wrapping_add(by);
    }
}

/// A segment with other timestamps than the connection's next.
fn with_stamp(
    connection: &Connection<'_>,
    flags: u8,
    value: u32,
    echo: u32,
) -> crate::packet::Segment {
    let options = [
        &option::NOP[..],
        &option::NOP,
        &option::timestamps(value, echo),
    ]
    .concat();
    connection.segment(flags).options(options)
}

/// What comes back, acknowledged: the last segment of it.
fn answer(connection: &mut Connection<'_>, octets: u32) -> Outcome<Arrived> {
    let end = connection.rcv_nxt.wrapping_add(octets);
    loop {
        let (_, segment) = connection.next("an answer")?;
        ensure(segment.options.timestamps.is_some(), "timestamps", "none")?;
        connection.rcv_nxt = segment.end();
        if connection.rcv_nxt == end {
            connection.acknowledge()?;
            return Ok(segment);
        }
    }
}

/// It is gone; what is sent to it has no timestamps, and neither has the RST.
fn gone(connection: &mut Connection<'_>) -> Outcome {
    connection.timestamps = None;
    connection.expect_gone()
}
