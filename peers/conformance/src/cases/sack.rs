//! Selective acknowledgments: what is said of what has come (RFC 2018, RFC 2883), and what is sent again (RFC 6675).

use super::NUMBERS;
use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{ACK, option};
use crate::peer::{CHARGEN, ECHO, Failure, Outcome, PATIENCE, ensure};

/// Octets of a piece.
const PIECE: u32 = 100;

pub fn add(table: &mut Table) {
    table.class("sack");
    for order in orders(4) {
        let name = format!(
            "four pieces in the order {order:?}: blocks say what has come, the latest first"
        );
        table.must("RFC 2018 §4", name, move |peer| {
            let open = Open::to(ECHO).iss(0xffff_ff00).sack();
            pieces_in_order(&mut Connection::open(peer, &open)?, &order, true)
        });
    }
    for order in orders(3) {
        let name =
            format!("three pieces in the order {order:?}: no blocks where SACK was not permitted");
        table.must("RFC 2018 §2", name, move |peer| {
            let open = Open::to(ECHO).iss(0xffff_ff00);
            pieces_in_order(&mut Connection::open(peer, &open)?, &order, false)
        });
    }
    for stamps in [false, true] {
        let most = if stamps { 3 } else { 4 };
        let name = format!("of five holes the latest {most} blocks are said, timestamps: {stamps}");
        table.must("RFC 2018 §3, §4", name, move |peer| {
            let mut open = Open::to(ECHO).sack();
            if stamps {
                open = open.timestamps(9);
            }
            let mut connection = Connection::open(peer, &open)?;
            let first = connection.snd_nxt;
            let mut blocks = Vec::new();
            for number in 0..5 {
                let left = first.wrapping_add(PIECE * (2 * number + 1));
                let piece = connection
                    .segment(ACK)
                    .seq(left)
                    .text(vec![b's'; PIECE as usize]);
                connection.send(&piece)?;
                blocks.insert(0, (left, left.wrapping_add(PIECE)));
                blocks.truncate(most);
                let ack = connection.expect_ack()?;
                let said = &ack.options.sack;
                ensure(*said == blocks, format!("{blocks:?}"), format!("{said:?}"))?;
            }
            Ok(())
        });
    }
    duplicates(table);
    retransmissions(table);
}

/// All orders of so many.
fn orders(count: u32) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for number in 0..count {
        let longer = |order: Vec<u32>| {
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, number);
                longer
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all.sort();
    all
}

/// Sends pieces in this order; each that leaves a hole is answered with what RFC 2018 §4 says of it; in the end all comes back.
fn pieces_in_order(connection: &mut Connection<'_>, order: &[u32], blocks: bool) -> Outcome {
    let first = connection.snd_nxt;
    let count = order.len() as u32;
    let mut came: Vec<u32> = Vec::new();
    let mut text = Vec::new();
    for number in order {
        let seq = first.wrapping_add(number * PIECE);
        let piece = connection
            .segment(ACK)
            .seq(seq)
            .text(vec![*number as u8; PIECE as usize]);
        connection.send(&piece)?;
        came.push(*number);
        let in_order = (0..count)
            .take_while(|number| came.contains(number))
            .count() as u32;
        connection.snd_nxt = first.wrapping_add(in_order * PIECE);
        let delivered = text.len() as u32 / PIECE;
        if in_order > delivered {
            let more = connection.take_octets(((in_order - delivered) * PIECE) as usize)?;
            text.extend(more);
            connection.acknowledge()?;
            continue;
        }
        let ack = connection.expect_ack()?;
        let said = &ack.options.sack;
        if !blocks {
            ensure(said.is_empty(), "no blocks", format!("{said:?}"))?;
            continue;
        }
        let mut left = *number;
        while left > in_order && came.contains(&(left - 1)) {
            left -= 1;
        }
        let mut right = number + 1;
        while came.contains(&right) {
            right += 1;
        }
        let block = (
            first.wrapping_add(left * PIECE),
            first.wrapping_add(right * PIECE),
        );
        ensure(
            said.first() == Some(&block),
            format!("{block:?} first"),
            format!("{said:?}"),
        )?;
    }
    let whole: Vec<u8> = (0..count)
        .flat_map(|number| vec![number as u8; PIECE as usize])
        .collect();
    ensure(text == whole, "the octets in order", "others")
}

/// What has come twice is said so in the first block (RFC 2883 §4).
fn duplicates(table: &mut Table) {
    // What comes again, as octets from the beginning of 200 that have been delivered, and what is said.
    for iss in NUMBERS {
        for (from, to) in [(0u32, 200u32), (0, 100), (100, 200), (50, 150), (199, 200)] {
            let name = format!(
                "octets {from} to {to} of 200, come again, are said to be twice there, peer at {iss:#x}"
            );
            table.should("RFC 2883 §4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss).sack())?;
                let first = connection.snd_nxt;
                connection.echo(&[b'd'; 200])?;
                let block = (first.wrapping_add(from), first.wrapping_add(to));
                let again = connection
                    .segment(ACK)
                    .seq(block.0)
                    .text(vec![b'd'; (to - from) as usize]);
                connection.send(&again)?;
                let ack = connection.expect_ack()?;
                let said = &ack.options.sack;
                ensure(
                    said.first() == Some(&block),
                    format!("{block:?} first"),
                    format!("{said:?}"),
                )
            });
        }
    }
    table.should(
        "RFC 2883 §4.2",
        "what comes twice beyond a hole is said before the block that holds it",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).sack())?;
            let left = connection.snd_nxt.wrapping_add(500);
            let piece = connection.segment(ACK).seq(left).text(vec![b'd'; 300]);
            connection.send(&piece)?;
            connection.expect_ack()?;
            let again = connection
                .segment(ACK)
                .seq(left.wrapping_add(100))
                .text(vec![b'd'; 100]);
            connection.send(&again)?;
            let ack = connection.expect_ack()?;
            let blocks = vec![
                (left.wrapping_add(100), left.wrapping_add(200)),
                (left, left.wrapping_add(300)),
            ];
            ensure(
                ack.options.sack == blocks,
                format!("{blocks:?}"),
                format!("{:?}", ack.options.sack),
            )
        },
    );
}

/// Who is told what has come sends what has not.
fn retransmissions(table: &mut Table) {
    for hole in 0..4usize {
        let name =
            format!("of eight segments only that which is missing is sent again: number {hole}");
        table.must("RFC 6675 §5, RFC 2018 §5", name, move |peer| {
            let (mut connection, starts) = eight_segments(peer)?;
            for came in (hole + 1)..8 {
                let block = (starts[hole + 1], starts[came + 1]);
                let mut options = vec![1, 1];
                options.extend(option::sack(&[block]));
                let ack = connection
                    .segment(ACK)
                    .ack(starts[hole])
                    .window(0)
                    .options(options);
                connection.send(&ack)?;
            }
            let again = next_again(&mut connection)?;
            ensure(
                again.0 == starts[hole] && again.1 == starts[hole + 1],
                format!("{} to {} again", starts[hole], starts[hole + 1]),
                format!("{again:?}"),
            )
        });
    }
}

/// Eight full segments of the character generator are on their way; where each begins, and where the last ends.
fn eight_segments<'a>(peer: &'a mut crate::peer::Peer) -> Outcome<(Connection<'a>, Vec<u32>)> {
    let open = Open::to(CHARGEN).window(8 * 1460).sack();
    let mut connection = Connection::open(peer, &open)?;
    let mut starts = vec![connection.rcv_nxt];
    while starts.len() < 9 {
        let (_, segment) = connection.next("text")?;
        ensure(
            segment.seq == connection.rcv_nxt && segment.text.len() == 1460,
            "a full segment in order",
            format!("{} octets at {}", segment.text.len(), segment.seq),
        )?;
        connection.rcv_nxt = segment.end();
        starts.push(connection.rcv_nxt);
    }
    Ok((connection, starts))
}

/// Where the next segment that is sent again begins and ends. The last of all may be, before: it is a probe (RFC 8985 §7).
fn next_again(connection: &mut Connection<'_>) -> Outcome<(u32, u32)> {
    let what = "a segment sent again";
    loop {
        let next = connection.peer.next(PATIENCE);
        let (_, seen) = next.ok_or_else(|| Failure::new(what, "nothing"))?;
        let segment = seen
            .tcp()
            .ok_or_else(|| Failure::new(what, seen.to_string()))?;
        if segment.end() != connection.rcv_nxt {
            return Ok((segment.seq, segment.end()));
        }
    }
}
