//! Urgent data (RFC 9293 §3.8.5, RFC 6093): octets like others, whatever the pointer says of them.

use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{ACK, URG};
use crate::peer::ECHO;

pub fn add(table: &mut Table) {
    table.class("urgent");
    for octets in [1u32, 10, 1000] {
        for pointer in [0u16, 1, 5, 10, 1000, 1001, 0xffff] {
            let name = format!("{octets} octets, urgent up to {pointer}, come back whole");
            table.must(
                "RFC 9293 §3.8.5, MUST-31, RFC 6093 §6",
                name,
                move |peer| {
                    let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                    let text: Vec<u8> = (0..octets).map(|i| i as u8).collect();
                    let urgent = connection
                        .segment(ACK | URG)
                        .urgent(pointer)
                        .text(text.clone());
                    connection.send(&urgent)?;
                    connection.snd_nxt = connection.snd_nxt.wrapping_add(octets);
                    connection.expect_echo(&text)?;
                    connection.echo(b"and on it goes")
                },
            );
        }
    }
    for pointer in [1u16, 1000, 0xffff] {
        table.must(
            "RFC 9293 §3.1",
            format!("a pointer of {pointer} without URG says nothing"),
            move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                let text = connection
                    .segment(ACK)
                    .urgent(pointer)
                    .text(b"ordinary".to_vec());
                connection.send(&text)?;
                connection.snd_nxt = connection.snd_nxt.wrapping_add(8);
                connection.expect_echo(b"ordinary")
            },
        );
        table.must(
            "RFC 9293 §3.8.5",
            format!("URG without text, a pointer of {pointer}, costs no octet that follows"),
            move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                let urgent = connection.segment(ACK | URG).urgent(pointer);
                connection.send(&urgent)?;
                connection.echo(b"all of this")
            },
        );
    }
}
