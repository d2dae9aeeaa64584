//! Windows (RFC 9293 §3.8.6): what a peer has room for, and what it hears of ours.

use std::time::Duration;

use super::NUMBERS;
use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{ACK, FIN, RST, option};
use crate::peer::{CHARGEN, DISCARD, ECHO, Failure, Outcome, PATIENCE, ensure};

pub fn add(table: &mut Table) {
    table.class("window");
    for window in [
        1u16, 2, 10, 100, 535, 536, 1000, 1459, 1460, 1461, 2919, 5000, 10_000,
    ] {
        for iss in [7u32, 0xffff_fff0] {
            let name =
                format!("no more than a window of {window} octets is sent, peer at {iss:#x}");
            table.must("RFC 9293 §3.8.6", name, move |peer| {
                let mut connection =
                    Connection::open(peer, &Open::to(CHARGEN).iss(iss).window(window))?;
                for _ in 0..3 {
                    take_inside(&mut connection, window.into())?;
                    connection.acknowledge()?;
                }
                Ok(())
            });
        }
    }
    for shift in [0u8, 1, 2, 7, 14] {
        let name = format!("a window of 100 octets by 2^{shift} is one of as many");
        table.must("RFC 7323 §2.3", name, move |peer| {
            let mut open = Open::to(CHARGEN).window(100);
            open.options.extend(option::window_scale(shift));
            let mut connection = Connection::open(peer, &open)?;
            let came = take_inside(&mut connection, 100 << shift)?;
            let least = if shift == 0 { 1 } else { 101 };
            ensure(
                came >= least,
                format!("{least} octets or more"),
                came.to_string(),
            )
        });
    }
    for (source, what, ack) in [
        (
            "RFC 9293 §3.10.7.4, fifth",
            "an acknowledgment of less than was acknowledged",
            -1i32,
        ),
        (
            "RFC 9293 §3.10.7.4, fifth",
            "an acknowledgment of more than was sent",
            1000,
        ),
    ] {
        table.must(
            source,
            format!("the window of {what} is not taken"),
            move |peer| {
                let mut connection = closed_window(peer)?;
                let odd = connection
                    .segment(ACK)
                    .ack(connection.acked.wrapping_add_signed(ack))
                    .window(5000);
                connection.send(&odd)?;
                connection.peer.settle()?;
                while let Some((_, seen)) = connection.peer.next(Duration::ZERO) {
                    let new = |s: &crate::seen::Arrived| {
                        s.end().wrapping_sub(connection.rcv_nxt) as i32 > 1
                    };
                    ensure(
                        !seen.tcp().is_some_and(new),
                        "no new text",
                        seen.to_string(),
                    )?;
                }
                Ok(())
            },
        );
    }
    table.must(
        "RFC 9293 §3.8.6.1",
        "a window that opens lets text go",
        |peer| {
            let mut connection = closed_window(peer)?;
            connection.window = 3000;
            connection.acknowledge()?;
            connection.take_octets(2920).map(drop)
        },
    );
    table.must(
        "RFC 9293 §3.8.6, MUST-34",
        "a window that shrinks ends nothing",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(5840))?;
            connection.take_octets(5840)?;
            // Of what was sent only the first is taken, and there is no room for the rest, for a while.
            let first = connection.acked.wrapping_add(1460);
            let shrunk = connection.segment(ACK).ack(first).window(100);
            connection.send(&shrunk)?;
            connection.peer.settle()?;
            connection.window = 8000;
            connection.acknowledge()?;
            connection.take_octets(2920).map(drop)
        },
    );
    table
        .must(
            "RFC 9293 §3.8.6.1, MUST-35, MUST-37",
            "a closed window is probed, seldomer and seldomer, as long as it is closed",
            |peer| {
                let mut connection = closed_window(peer)?;
                let mut times = Vec::new();
                for _ in 0..5 {
                    let (at, seen) = connection
                        .peer
                        .next(Duration::from_secs(20))
                        .ok_or_else(|| Failure::new("a probe", "nothing"))?;
                    ensure(
                        seen.tcp().is_some_and(|s| s.text.len() <= 1),
                        "at most one octet",
                        seen.to_string(),
                    )?;
                    times.push(at);
                    let refused = connection.segment(ACK);
                    connection.send(&refused)?;
                }
                let gaps: Vec<u128> = times
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0]).as_millis())
                    .collect();
                let grows = gaps.windows(2).all(|pair| pair[1] * 2 > pair[0] * 3);
                ensure(grows, "probes ever farther apart", format!("{gaps:?} ms"))?;
                connection.window = 3000;
                connection.acknowledge()?;
                connection.take_octets(1460).map(drop)
            },
        )
        .slow();
    table.class("receive");
    for iss in NUMBERS {
        let name =
            format!("the right edge of the window on offer never goes back, peer at {iss:#x}");
        table.should("RFC 9293 §3.8.6, SHLD-14", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(DISCARD).iss(iss))?;
            let mut edge = connection
                .snd_nxt
                .wrapping_add(connection.offered_window.into());
            for octets in [1usize, 1460, 100, 1460, 1460, 536, 1, 1460] {
                connection.send_text(&vec![b'w'; octets])?;
                let ack = connection.expect_ack()?;
                let next = ack.ack.wrapping_add(ack.window.into());
                ensure(
                    next.wrapping_sub(edge) as i32 >= 0,
                    format!("{edge} or more"),
                    next.to_string(),
                )?;
                edge = next;
            }
            Ok(())
        });
    }
    full(table);
}

/// Text comes, and none beyond the window; how much.
fn take_inside(connection: &mut Connection<'_>, window: u32) -> Outcome<u32> {
    let begin = connection.rcv_nxt;
    let what = format!("text from {begin} on, no more than {window} octets");
    let mut within = PATIENCE;
    let mut came = 0;
    while let Some((_, seen)) = connection.peer.next(within) {
        // What comes first may have waited for a timer: the window is small.
        within = Duration::from_millis(100);
        let segment = seen
            .tcp()
            .ok_or_else(|| Failure::new(&*what, seen.to_string()))?;
        let octets = segment.end().wrapping_sub(begin);
        if octets as i32 > 0 {
            ensure(octets <= window, &*what, format!("{octets}"))?;
            came = came.max(octets);
        }
    }
    ensure(came > 0, what, "none")?;
    connection.rcv_nxt = begin.wrapping_add(came);
    Ok(came)
}

/// The character generator has filled a window, which is acknowledged, and closed.
fn closed_window(peer: &mut crate::peer::Peer) -> Outcome<Connection<'_>> {
    let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(2920))?;
    connection.take_octets(2920)?;
    connection.window = 0;
    connection.acknowledge()?;
    Ok(connection)
}

/// The echo service cannot send, and so takes nothing more.
fn full(table: &mut Table) {
    table.must(
        "RFC 9293 §3.8.6.1, §3.10.7.4",
        "text at a closed window is refused with an ACK",
        |peer| {
            let (mut connection, _) = filled(peer)?;
            let probe = connection.segment(ACK).text(b"?");
            connection.send(&probe)?;
            let ack = connection.expect_ack()?;
            ensure(ack.window == 0, "no window", ack.window.to_string())
        },
    );
    table.must(
        "RFC 9293 §3.10.7.4, MUST-66",
        "a RST is heeded at a closed window",
        |peer| {
            let (mut connection, _) = filled(peer)?;
            let rst = connection.segment(RST);
            connection.send(&rst)?;
            connection.expect_gone()
        },
    );
    table.must(
        "RFC 9293 §3.10.7.4, MUST-66",
        "an acknowledgment is heeded at a closed window, and all that was taken comes back",
        |peer| {
            let (mut connection, sent) = filled(peer)?;
            connection.window = 60_000;
            connection.acknowledge()?;
            let mut came = 0usize;
            while came < sent {
                let seq = connection.rcv_nxt;
                let (_, segment) = connection.next("text")?;
                if segment.text.is_empty() {
                    continue;
                }
                ensure(
                    segment.seq == seq,
                    format!("text at {seq}"),
                    segment.seq.to_string(),
                )?;
                let is_right = segment
                    .text
                    .iter()
                    .enumerate()
                    .all(|(at, octet)| *octet == octet_at(came + at));
                ensure(
                    is_right,
                    "the octets that were sent",
                    format!("others from {came} on"),
                )?;
                came += segment.text.len();
                connection.rcv_nxt = segment.end();
                connection.acknowledge()?;
            }
            ensure(came == sent, format!("{sent} octets"), came.to_string())
        },
    );
    table.must(
        "RFC 9293 §3.8.6.2.2",
        "a closed window opens again when there is room, and is said to",
        |peer| {
            let (mut connection, _) = filled(peer)?;
            connection.window = 60_000;
            connection.acknowledge()?;
            loop {
                let (_, segment) = connection.next("a window")?;
                if segment.window >= 536 {
                    return Ok(());
                }
                if !segment.text.is_empty() {
                    connection.rcv_nxt = segment.end();
                    connection.acknowledge()?;
                }
            }
        },
    );
    table.must(
        "RFC 9293 §3.10.7.4",
        "a FIN at a closed window is not lost for good",
        |peer| {
            let (mut connection, _) = filled(peer)?;
            connection.send(&connection.segment(ACK | FIN))?;
            connection.peer.settle()?;
            connection.peer.clear();
            connection.window = 60_000;
            // It is sent until it is taken, as any sender would.
            let mut is_taken = false;
            for _ in 0..10_000 {
                connection.acked = connection.rcv_nxt;
                let flags = if is_taken { ACK } else { ACK | FIN };
                connection.send(&connection.segment(flags))?;
                let (_, segment) = connection.next("text, and a FIN in the end")?;
                if segment.seq == connection.rcv_nxt {
                    connection.rcv_nxt = segment.end();
                }
                if segment.control() & FIN != 0 {
                    return Ok(());
                }
                if !is_taken && segment.ack == connection.snd_nxt.wrapping_add(1) {
                    connection.snd_nxt = segment.ack;
                    is_taken = true;
                }
            }
            Err(Failure::new("a FIN in the end", "none"))
        },
    );
}

fn octet_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// Sends to the echo service, and takes nothing back, until it has no room; how much it has taken.
fn filled(peer: &mut crate::peer::Peer) -> Outcome<(Connection<'_>, usize)> {
    /// Systems in use hold no more for a connection.
    const MOST: usize = 24 << 20;
    let open = Open::to(ECHO).window(0);
    let mut connection = Connection::open(peer, &open)?;
    let mut sent = 0;
    let mut room = usize::from(connection.offered_window);
    while sent < MOST {
        let len = room.min(1460);
        if len == 0 {
            // What waits for its reader may be read yet.
            std::thread::sleep(Duration::from_millis(300));
            connection.peer.settle()?;
            match latest_window(&mut connection) {
                None | Some(0) => return Ok((connection, sent)),
                Some(more) => room = more,
            }
            continue;
        }
        let text: Vec<u8> = (sent..sent + len).map(octet_at).collect();
        connection.send_text(&text)?;
        sent += len;
        connection.peer.settle()?;
        room = match latest_window(&mut connection) {
            Some(window) => window,
            None => room - len,
        };
    }
    Err(Failure::new(
        "a window that closes",
        format!("{sent} octets taken"),
    ))
}

/// The window that the last acknowledgment of all has said; probes of ours are no text.
fn latest_window(connection: &mut Connection<'_>) -> Option<usize> {
    let mut window = None;
    while let Some((_, seen)) = connection.peer.next(Duration::ZERO) {
        if let Some(segment) = seen.tcp() {
            let behind = connection.snd_nxt.wrapping_sub(segment.ack);
            window = Some(usize::from(segment.window).saturating_sub(behind as usize));
        }
    }
    window
}
