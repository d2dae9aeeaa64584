//! What is sent again, when, and how much of it at first (RFC 6298, RFC 5681, RFC 6928, RFC 3042), and how long acknowledgments may wait.

use std::time::{Duration, Instant};

use crate::case::Table;
use crate::connection::{Connection, Open, State};
use crate::packet::{ACK, RST, SYN};
use crate::peer::{CHARGEN, DISCARD, ECHO, Failure, Outcome, Peer, ensure};
use crate::seen::Arrived;
use crate::side::Side;

/// A round trip here is below this; a timer is not.
const AT_ONCE: Duration = Duration::from_millis(150);

pub fn add(table: &mut Table) {
    table.class("timeout");
    table
        .must(
            "RFC 6298 §2.1, §5.5",
            "a SYN-ACK is sent again after a second, then after twice as long",
            |peer| {
                let open = Open::to(ECHO);
                let sent = Instant::now();
                let mut connection = Connection::half_open(peer, &open)?;
                let times = again(&mut connection, 3, |s| s.control() == SYN | ACK)?;
                let first = times[0] - sent;
                let is_right =
                    first >= Duration::from_millis(900) && first < Duration::from_millis(2500);
                ensure(is_right, "a second", format!("{first:?}"))?;
                doubles(sent, &times)
            },
        )
        .slow();
    table
        .must(
            "RFC 6298 §5.5",
            "text is sent again, after twice as long each time",
            |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                connection.send_text(b"comes back")?;
                let seq = connection.rcv_nxt;
                connection.take_octets(10)?;
                let sent = Instant::now();
                let times = again(&mut connection, 4, move |s| {
                    s.seq == seq && s.text == b"comes back"
                })?;
                doubles(sent, &times)
            },
        )
        .slow();
    table
        .must(
            "RFC 6298 §5.5",
            "a FIN is sent again, after twice as long each time",
            |peer| {
                let mut connection = Connection::in_state(peer, State::LastAck, 5)?;
                let sent = Instant::now();
                let seq = connection.rcv_nxt.wrapping_sub(1);
                let times = again(&mut connection, 4, move |s| s.end() == seq.wrapping_add(1))?;
                doubles(sent, &times)
            },
        )
        .slow();
    let case = table.should(
        "RFC 6298 §2.4",
        "text is not sent again before a second is over",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO))?;
            connection.send_text(b"comes back")?;
            connection.take_octets(10)?;
            let sent = Instant::now();
            let times = again(&mut connection, 1, |_| true)?;
            let first = times[0] - sent;
            ensure(
                first > Duration::from_millis(950),
                "a second",
                format!("{first:?}"),
            )
        },
    );
    case.departs(Side::Braidnet, "200 ms at least, as systems in use");
    case.departs(Side::Linux, "200 ms at least");
    table
        .must(
            "RFC 5681 §3.1, RFC 6298 §5.4",
            "after a timeout the first segment goes again, and no other before it is acknowledged",
            |peer| {
                let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(5 * 1460))?;
                let first = connection.rcv_nxt;
                connection.take_octets(5 * 1460)?;
                let times = again(&mut connection, 3, move |s| s.seq == first)?;
                ensure(
                    times.len() == 3,
                    "the first, three times",
                    times.len().to_string(),
                )
            },
        )
        .slow();
    table
        .must(
            "RFC 6298 §5.2",
            "what is acknowledged is not sent again",
            |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO))?;
                connection.echo(b"acknowledged")?;
                nothing_for_a_while(connection)
            },
        )
        .slow();
    table
        .must(
            "RFC 9293 §3.10.7.4",
            "after a RST nothing is sent again",
            |peer| {
                let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(5 * 1460))?;
                connection.take_octets(5 * 1460)?;
                let rst = connection.segment(RST);
                connection.send(&rst)?;
                nothing_for_a_while(connection)
            },
        )
        .slow();
    acknowledgments(table);
    flights(table);
}

/// When the next segments come that have been before; each must be as is said.
fn again(
    connection: &mut Connection<'_>,
    count: usize,
    is: impl Fn(&Arrived) -> bool,
) -> Outcome<Vec<Instant>> {
    let mut times = Vec::new();
    while times.len() < count {
        let next = connection.peer.next(Duration::from_secs(20));
        let (at, seen) = next.ok_or_else(|| Failure::new("a segment again", "nothing"))?;
        ensure(
            seen.tcp().is_some_and(&is),
            "the same segment again",
            seen.to_string(),
        )?;
        times.push(at);
    }
    Ok(times)
}

/// Each wait is twice the one before, or nearly.
fn doubles(sent: Instant, times: &[Instant]) -> Outcome {
    let mut last = sent;
    let mut gaps = Vec::new();
    for at in times {
        gaps.push(at.duration_since(last).as_millis());
        last = *at;
    }
    // A busy machine may delay one: each may be off by 150 ms, so the last is held against the first as well.
    let is_near =
        |pair: &[u128]| pair[1] * 10 + 1500 >= pair[0] * 16 && pair[1] * 10 <= pair[0] * 26 + 1500;
    let doublings = gaps.len() as u32 - 1;
    let (first, last) = (gaps[0], gaps[gaps.len() - 1]);
    let is_far = last * 10u128.pow(doublings) >= first * 16u128.pow(doublings);
    let is_right = is_far && gaps.windows(2).all(is_near);
    ensure(
        is_right,
        "each wait twice the one before",
        format!("{gaps:?} ms"),
    )
}

fn nothing_for_a_while(connection: Connection<'_>) -> Outcome {
    match connection.peer.next(Duration::from_millis(1500)) {
        None => Ok(()),
        Some((_, seen)) => Err(Failure::new("nothing", seen.to_string())),
    }
}

/// What has to come before a timer does, on a machine that may be busy: once in three times is enough.
fn promptly(peer: &mut Peer, body: impl Fn(&mut Peer) -> Outcome) -> Outcome {
    for _ in 0..2 {
        if body(peer).is_ok() {
            return Ok(());
        }
        peer.settle()?;
        peer.clear();
    }
    body(peer)
}

fn acknowledgments(table: &mut Table) {
    table.class("ack");
    for octets in [1usize, 100, 536, 1460] {
        table.must(
            "RFC 5681 §4.2, RFC 9293 §3.8.6.3, MUST-40",
            format!("{octets} octets are acknowledged within half a second"),
            move |peer| {
                promptly(peer, |peer| {
                    let mut connection = Connection::open(peer, &Open::to(DISCARD))?;
                    for _ in 0..3 {
                        let sent = Instant::now();
                        connection.send_text(&vec![b'a'; octets])?;
                        let (at, segment) = connection.next("an ACK")?;
                        ensure(
                            segment.ack == connection.snd_nxt,
                            format!("ACK {}", connection.snd_nxt),
                            segment.ack.to_string(),
                        )?;
                        let waited = at.duration_since(sent);
                        ensure(
                            waited <= Duration::from_millis(500),
                            "half a second at most",
                            format!("{waited:?}"),
                        )?;
                    }
                    Ok(())
                })
            },
        );
    }
    table.should(
        "RFC 5681 §4.2, RFC 9293 §3.8.6.3, SHLD-19",
        "two full segments are acknowledged at once",
        |peer| {
            promptly(peer, |peer| {
                let mut connection = Connection::open(peer, &Open::to(DISCARD))?;
                // Past what some acknowledge at once in any case.
                for _ in 0..40 {
                    connection.send_text(&[b'a'; 1460])?;
                    let sent = Instant::now();
                    connection.send_text(&[b'b'; 1460])?;
                    loop {
                        let (at, segment) = connection.next("an ACK")?;
                        if segment.ack == connection.snd_nxt {
                            let waited = at.duration_since(sent);
                            ensure(
                                waited < Duration::from_millis(35),
                                "at once",
                                format!("{waited:?}"),
                            )?;
                            break;
                        }
                    }
                }
                Ok(())
            })
        },
    );
    table.must(
        "RFC 5681 §4.2",
        "what fills a gap is acknowledged at once",
        |peer| {
            promptly(peer, |peer| {
                let mut connection = Connection::open(peer, &Open::to(DISCARD))?;
                for _ in 0..20 {
                    let later = connection
                        .segment(ACK)
                        .seq(connection.snd_nxt.wrapping_add(100))
                        .text(vec![b'l'; 100]);
                    connection.send(&later)?;
                    connection.expect_ack()?;
                    let sent = Instant::now();
                    let gap = connection.segment(ACK).text(vec![b'g'; 100]);
                    connection.send(&gap)?;
                    connection.snd_nxt = connection.snd_nxt.wrapping_add(200);
                    let (at, segment) = connection.next("an ACK")?;
                    ensure(
                        segment.ack == connection.snd_nxt,
                        "an ACK of all",
                        segment.ack.to_string(),
                    )?;
                    let waited = at.duration_since(sent);
                    ensure(
                        waited < Duration::from_millis(35),
                        "at once",
                        format!("{waited:?}"),
                    )?;
                }
                Ok(())
            })
        },
    );
}

/// How much is sent before much is known of the path.
fn flights(table: &mut Table) {
    table.class("congestion");
    for mss in [536u16, 1000, 1460] {
        let name = format!(
            "of segments of {mss} octets no more than ten, and 14,600 octets, are sent at first"
        );
        table.must("RFC 6928 §2, RFC 5681 §3.1", name, move |peer| {
            let open = Open::to(CHARGEN).options(crate::packet::option::mss(mss));
            let mut connection = Connection::open(peer, &open)?;
            let most = (10 * u32::from(mss)).min(14_600);
            flight(&mut connection, most)
        });
    }
    for acknowledged in [1u32, 2, 5, 10] {
        let name =
            format!("{acknowledged} segments acknowledged let no more than twice as many go");
        table.must("RFC 5681 §3.1", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN))?;
            let start = connection.rcv_nxt;
            flight(&mut connection, 14_600)?;
            connection.acked = start.wrapping_add(1460 * acknowledged);
            let ack = connection.segment(ACK);
            connection.send(&ack)?;
            flight(&mut connection, 2 * 1460 * acknowledged)
        });
    }
    table.should(
        "RFC 3042 §2",
        "the first two duplicate ACKs let a new segment go each",
        |peer| {
            let mut connection = Connection::open(peer, &Open::to(CHARGEN))?;
            let first = connection.rcv_nxt;
            connection.take_octets(14_600)?;
            // Its application has written more than that by then.
            std::thread::sleep(Duration::from_millis(30));
            for _ in 0..2 {
                let duplicate = connection.segment(ACK).ack(first);
                connection.send(&duplicate)?;
                connection.take_octets(1)?;
            }
            Ok(())
        },
    );
    for segments in [4u32, 5, 8] {
        let name = format!(
            "three duplicate ACKs have the first of {segments} segments sent again at once"
        );
        table.must("RFC 5681 §3.2", name, move |peer| {
            promptly(peer, |peer| {
                let open = Open::to(CHARGEN).window((segments * 1460) as u16);
                let mut connection = Connection::open(peer, &open)?;
                let first = connection.rcv_nxt;
                connection.take_octets(segments as usize * 1460)?;
                let sent = Instant::now();
                for _ in 0..3 {
                    let duplicate = connection.segment(ACK).ack(first);
                    connection.send(&duplicate)?;
                }
                let rst = connection.segment(RST);
                let times = again(&mut connection, 1, move |s| s.seq == first)?;
                // What follows, should this come too late, is not to be disturbed by it.
                connection.send(&rst)?;
                let waited = times[0].duration_since(sent);
                ensure(waited < AT_ONCE, "at once", format!("{waited:?}"))
            })
        });
    }
    for duplicates in [1u32, 2] {
        let name =
            format!("{duplicates} duplicate ACKs of a full window have nothing sent again at once");
        table.must("RFC 5681 §3.2", name, move |peer| {
            promptly(peer, |peer| {
                let mut connection = Connection::open(peer, &Open::to(CHARGEN).window(8 * 1460))?;
                let first = connection.rcv_nxt;
                connection.take_octets(8 * 1460)?;
                for _ in 0..duplicates {
                    let duplicate = connection.segment(ACK).ack(first);
                    connection.send(&duplicate)?;
                }
                connection.peer.expect_nothing()
            })
        });
    }
}

/// Takes what comes of new text: no more octets than that, and not nothing.
fn flight(connection: &mut Connection<'_>, most: u32) -> Outcome {
    let start = connection.rcv_nxt;
    while let Some((_, seen)) = connection.peer.next(Duration::from_millis(120)) {
        let Some(segment) = seen.tcp() else { continue };
        if segment.end().wrapping_sub(connection.rcv_nxt) as i32 > 0 {
            connection.rcv_nxt = segment.end();
        }
        let octets = connection.rcv_nxt.wrapping_sub(start);
        ensure(
            octets <= most,
            format!("at most {most} octets"),
            format!("{octets}"),
        )?;
    }
    ensure(connection.rcv_nxt != start, "new text", "none")
}
