//! Opening: RFC 9293 §3.5, §3.10.7.1 to §3.10.7.4, and what may be agreed on (§3.7.1, RFC 7323, RFC 2018).

use super::NUMBERS;
use crate::case::Table;
use crate::connection::{Connection, Open};
use crate::packet::{ACK, FIN, RST, SYN, Segment, bits, option};
use crate::peer::{CLOSED, DISCARD, ECHO, Outcome, Peer, ensure};
use crate::side::Side;

pub fn add(table: &mut Table) {
    table.class("handshake");
    for iss in NUMBERS {
        table.must(
            "RFC 9293 §3.5",
            format!("a connection whose peer begins at {iss:#x} opens and carries text"),
            move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                connection.echo(b"one")?;
                connection.echo(b"two")
            },
        );
    }
    table.must(
        "RFC 9293 §3.10.7.4",
        "text may come with the ACK that opens",
        |peer| {
            let mut connection = Connection::half_open(peer, &Open::to(ECHO))?;
            connection.echo(b"with the ACK")
        },
    );
    table.must(
        "RFC 9293 §3.10.7.4",
        "a FIN may come with the ACK that opens",
        |peer| {
            let mut connection = Connection::half_open(peer, &Open::to(ECHO))?;
            connection.send_fin()?;
            connection.take_to_fin().map(drop)
        },
    );
    table.must(
        "RFC 9293 §3.8.1",
        "a SYN that comes again is answered with the same numbers",
        |peer| {
            let mut connection = Connection::half_open(peer, &Open::to(ECHO))?;
            let syn = connection
                .segment(SYN)
                .seq(connection.snd_nxt.wrapping_sub(1));
            connection.send(&syn.options(option::mss(1460)))?;
            connection.peer.settle()?;
            let (irs, ack) = (connection.irs, connection.snd_nxt);
            let again = connection
                .peer
                .expect(&format!("a SYN-ACK at {irs}, or an ACK"), |seen| {
                    seen.tcp().is_some_and(|s| {
                        let is_syn_ack = s.control() == SYN | ACK && s.seq == irs;
                        let is_ack = s.control() == ACK && s.seq == irs.wrapping_add(1);
                        (is_syn_ack || is_ack) && s.ack == ack
                    })
                });
            again.map(drop)
        },
    );
    table.must(
        "RFC 9293 §3.4.1",
        "two connections in a row begin at different numbers",
        |peer| {
            let first = Connection::open(peer, &Open::to(ECHO))?.irs;
            let second = Connection::open(peer, &Open::to(ECHO))?.irs;
            ensure(first != second, "another number", format!("{first} twice"))
        },
    );
    table.must(
        "RFC 9293 §3.10.7.4",
        "text before the handshake is over is not delivered",
        |peer| {
            let mut connection = Connection::half_open(peer, &Open::to(ECHO))?;
            let early = connection.segment(0).text(b"early".to_vec());
            connection.send(&early)?;
            connection.expect_silence()?;
            connection.echo(b"later")
        },
    );
    for (number, iss) in NUMBERS.into_iter().enumerate() {
        for off in [-1i32, 1, 1000, i32::MAX] {
            let name = format!(
                "an ACK {off} beside what answers the SYN-ACK is refused with a RST, peer at {iss:#x}"
            );
            if off != -1 && number % 2 == 1 {
                continue;
            }
            table.must("RFC 9293 §3.10.7.4", name, move |peer| {
                let mut connection = Connection::half_open(peer, &Open::to(ECHO).iss(iss))?;
                let ack = connection.rcv_nxt.wrapping_add_signed(off);
                let wrong = connection.segment(ACK).ack(ack);
                connection.send(&wrong)?;
                connection.expect_rst(ack, None)?;
                connection.echo(b"opens all the same")
            });
        }
    }
    offers(table);
    listening(table);
    closed(table);
}

/// What a SYN-ACK offers is what the SYN has offered, and a segment size.
fn offers(table: &mut Table) {
    table.class("options");
    for set in 0..8u8 {
        let (scale, sack, stamps) = (set & 1 != 0, set & 2 != 0, set & 4 != 0);
        let name = format!(
            "a SYN that offers window scale: {scale}, SACK: {sack}, timestamps: {stamps} is offered no more"
        );
        table.must("RFC 7323 §1.3, RFC 2018 §2", name, move |peer| {
            let mut open = Open::to(DISCARD);
            if scale {
                open.options.extend(option::window_scale(7));
            }
            if sack {
                open = open.sack();
            }
            if stamps {
                open = open.timestamps(77);
            }
            let connection = Connection::open(peer, &open)?;
            let offered = &connection.offered;
            let is_right = (scale || offered.window_scale.is_none())
                && (sack || !offered.sack_permitted)
                && (stamps || offered.timestamps.is_none())
                && offered.timestamps.is_none_or(|(_, echo)| echo == 77);
            ensure(
                is_right,
                "no option that the SYN has not",
                format!("{offered:?}"),
            )
        });
    }
    table.must(
        "RFC 9293 §3.7.1, MUST-14",
        "a SYN-ACK has a segment size, that of the link",
        |peer| {
            let offered = Connection::open(peer, &Open::to(ECHO))?.offered;
            ensure(
                offered.mss == Some(1460),
                "a segment size of 1460",
                format!("{:?}", offered.mss),
            )
        },
    );
    table.must(
        "RFC 7323 §2.2",
        "the window of a SYN-ACK is not scaled",
        |peer| {
            let mut open = Open::to(DISCARD);
            open.options.extend(option::window_scale(7));
            let connection = Connection::open(peer, &open)?;
            ensure(
                connection.offered_window > 1460,
                "more than a segment",
                connection.offered_window.to_string(),
            )
        },
    );
    table.must(
        "RFC 7323 §2.3",
        "a window scale above 14 counts as 14",
        |peer| {
            let mut open = Open::to(ECHO).window(4);
            open.options.extend(option::window_scale(200));
            let mut connection = Connection::open(peer, &open)?;
            connection.echo(&[b'x'; 1000])
        },
    );
}

/// Every combination of control bits at a port where somebody listens.
fn listening(table: &mut Table) {
    table.class("listen");
    for flags in 0..64u8 {
        let name = format!("{} in LISTEN", bits(flags));
        let case = table.must("RFC 9293 §3.10.7.2", name, move |peer| {
            let segment = alone(peer, ECHO, flags);
            peer.send_segment(&segment)?;
            if flags & RST != 0 {
                peer.expect_nothing()
            } else if flags & ACK != 0 {
                expect_rst(peer, segment.ack, None)
            } else if flags & SYN != 0 {
                // A FIN on it may be kept for later, or not (§3.10.7.2, fourth).
                let ack = segment.seq.wrapping_add(1);
                let what = format!("a SYN-ACK that acknowledges {ack}");
                let seen = peer.expect(&what, |seen| {
                    seen.tcp()
                        .is_some_and(|s| s.control() == SYN | ACK && s.ack == ack)
                });
                seen.map(drop)
            } else {
                peer.expect_nothing()
            }
        });
        if flags & (SYN | FIN | ACK | RST) == SYN | FIN {
            case.departs(
                Side::Linux,
                "a SYN with a FIN is dropped where somebody listens",
            );
        }
    }
}

/// Every combination of control bits at a port where nobody does.
fn closed(table: &mut Table) {
    table.class("closed");
    for flags in [SYN, ACK, FIN | ACK, 0] {
        let name = format!(
            "{} with a timestamp is answered by an echo of it",
            bits(flags)
        );
        let case = table.should("RFC 7323 §5.2", name, move |peer| {
            let segment = alone(peer, CLOSED, flags).options(option::timestamps(5000, 77));
            peer.send_segment(&segment)?;
            let stamps = |seen: &crate::seen::Arrived| seen.options.timestamps;
            let seen = peer.expect("a RST with timestamps 0 and 5000", |seen| {
                seen.tcp()
                    .is_some_and(|s| s.control() & RST != 0 && stamps(s) == Some((0, 5000)))
            });
            seen.map(drop)
        });
        case.departs(Side::Linux, "a RST of no connection has no options");
    }
    for flags in 0..64u8 {
        for octets in [0, 5] {
            let name = format!("{} and {octets} octets where nobody listens", bits(flags));
            table.must("RFC 9293 §3.10.7.1", name, move |peer| {
                let segment = alone(peer, CLOSED, flags).text(vec![b'x'; octets]);
                peer.send_segment(&segment)?;
                if flags & RST != 0 {
                    peer.expect_nothing()
                } else if flags & ACK != 0 {
                    expect_rst(peer, segment.ack, None)
                } else {
                    expect_rst(peer, 0, Some(segment.seq.wrapping_add(segment.len())))
                }
            });
        }
    }
}

/// A segment that belongs to no connection.
fn alone(peer: &mut Peer, port: u16, flags: u8) -> Segment {
    Segment {
        source: peer.port(),
        destination: port,
        seq: 0xffff_fffd,
        ack: if flags & ACK != 0 { 4_000_000_000 } else { 0 },
        window: 1000,
        flags,
        ..Segment::default()
    }
}

/// The next packet must be a RST with this number and, where there is one, this acknowledgment.
fn expect_rst(peer: &mut Peer, seq: u32, ack: Option<u32>) -> Outcome {
    let control = if ack.is_some() { RST | ACK } else { RST };
    let what = format!("{} seq {seq} {ack:?}", bits(control));
    let seen = peer.expect(&what, |seen| {
        let is = |s: &crate::seen::Arrived| {
            s.control() == control && s.seq == seq && ack.is_none_or(|ack| s.ack == ack)
        };
        seen.tcp().is_some_and(is)
    });
    seen.map(drop)
}
