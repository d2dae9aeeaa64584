//! Which segments are acceptable, and what of them (RFC 9293 §3.4, §3.10.7.4, first check): text left of the window, at its edges, inside and beyond.

use super::NUMBERS;
use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::ACK;
use crate::peer::{ECHO, ensure};
use crate::side::Side;

/// Octets that have been delivered before.
const BEFORE: usize = 20;

pub fn add(table: &mut Table) {
    table.class("acceptance");
    for iss in NUMBERS {
        // All of it old, and what comes behind: the numbers come round in each of these.
        for (back, octets) in [(20usize, 20usize), (20, 1), (1, 1), (20, 19)] {
            let name =
                format!("{octets} octets from {back} before RCV.NXT are old, peer at {iss:#x}");
            table.must("RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                connection.echo(&[b'a'; BEFORE])?;
                let seq = connection.snd_nxt.wrapping_sub(back as u32);
                let old = connection.segment(ACK).seq(seq).text(vec![b'!'; octets]);
                connection.send(&old)?;
                connection.expect_ack()?;
                connection.echo(b"new")
            });
        }
        for (back, octets) in [(1usize, 2usize), (20, 25), (5, 100)] {
            let name = format!(
                "of {octets} octets from {back} before RCV.NXT, those behind it are taken, peer at {iss:#x}"
            );
            table.must("RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                connection.echo(&[b'a'; BEFORE])?;
                let seq = connection.snd_nxt.wrapping_sub(back as u32);
                let mut text = vec![b'!'; back];
                text.resize(octets, b'b');
                let part = connection.segment(ACK).seq(seq).text(text);
                connection.send(&part)?;
                connection.snd_nxt = connection.snd_nxt.wrapping_add((octets - back) as u32);
                connection.expect_echo(&vec![b'b'; octets - back])
            });
        }
        for ahead in [1u32, 10, 1000] {
            let name = format!(
                "text {ahead} behind RCV.NXT is answered at once, and delivered when the gap is filled, peer at {iss:#x}"
            );
            table.must("RFC 5681 §4.2, RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                let seq = connection.snd_nxt.wrapping_add(ahead);
                let later = connection.segment(ACK).seq(seq).text(b"later".to_vec());
                connection.send(&later)?;
                connection.expect_ack()?;
                let gap = connection.segment(ACK).text(vec![b'g'; ahead as usize]);
                connection.send(&gap)?;
                connection.snd_nxt = connection.snd_nxt.wrapping_add(ahead + 5);
                let whole = [vec![b'g'; ahead as usize], b"later".to_vec()].concat();
                connection.expect_echo(&whole)
            });
        }
        let name = format!("text beyond the window is refused with an ACK, peer at {iss:#x}");
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
            let seq = connection.snd_nxt.wrapping_add(0x0010_0000);
            let beyond = connection.segment(ACK).seq(seq).text(b"beyond".to_vec());
            connection.send(&beyond)?;
            connection.expect_ack()?;
            connection.echo(b"inside")
        });
        for octets in [1usize, 5] {
            let name = format!(
                "of text that ends beyond the window no more than {octets} octets inside are taken, peer at {iss:#x}"
            );
            let case = table.must("RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss).sack())?;
                // Without a window scale the window is what the last segment said: the edge is a hole away.
                let edge = connection
                    .snd_nxt
                    .wrapping_add(connection.offered_window.into());
                let seq = edge.wrapping_sub(octets as u32);
                let over = connection.segment(ACK).seq(seq).text(vec![b'o'; 1000]);
                connection.send(&over)?;
                let ack = connection.expect_ack()?;
                ensure(ack.window > 0, "a window", "none")?;
                // What was kept it tells of.
                for (_, right) in &ack.options.sack {
                    let beyond = right.wrapping_sub(edge) as i32;
                    let what = format!("nothing kept beyond {edge}");
                    ensure(beyond <= 0, &what, format!("{beyond} octets"))?;
                }
                connection.echo(b"at its left")
            });
            case.departs(Side::Linux, "what is beyond the window is kept, too");
        }
        for off in [1u32, 1000, 0x7000_0000] {
            let name = format!(
                "an ACK of {off} more than was sent is answered with an ACK, and its text dropped, peer at {iss:#x}"
            );
            table.must("RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                let ack = connection.rcv_nxt.wrapping_add(off);
                let wrong = connection.segment(ACK).ack(ack).text(b"dropped".to_vec());
                connection.send(&wrong)?;
                connection.expect_ack()?;
                connection.expect_silence()?;
                connection.echo(b"taken")
            });
        }
    }
}
