//! RSTs and SYNs on connections (RFC 9293 §3.5.3, §3.10.7.4, RFC 5961).

use crate::case::{Level, Table};
use crate::connection::{Connection, State};
use crate::packet::{ACK, FIN, RST, SYN, URG, bits};
use crate::side::Side;

/// Where our numbers begin: they come round within a window.
const ISS: u32 = 0xffff_fff0;

/// Places beside RCV.NXT, and whether they are in the window.
const PLACES: [(i64, bool); 8] = [
    (-0x4000_0000, false),
    (-1000, false),
    (-1, false),
    (1, true),
    (100, true),
    (1000, true),
    (0x2000_0000, false),
    (0x4000_0000, false),
];

/// What a RST in TIME-WAIT does not do.
const KEPT: &str = "a RST is ignored in TIME-WAIT (RFC 1337 §3)";

pub fn add(table: &mut Table) {
    table.class("reset");
    for state in State::ALL {
        for with_ack in [false, true] {
            let flags = if with_ack { RST | ACK } else { RST };
            let name = format!("{} at RCV.NXT in {}", bits(flags), state.name());
            let case = table.must("RFC 5961 §3.2", name, move |peer| {
                let mut connection = Connection::in_state(peer, state, ISS)?;
                let rst = connection.segment(flags);
                connection.send(&rst)?;
                connection.expect_gone()
            });
            if state == State::TimeWait {
                case.departs(Side::Braidnet, KEPT);
            }
        }
        for (off, is_inside) in PLACES {
            let place = if is_inside { "inside" } else { "outside" };
            let name = format!(
                "a RST {off} beside RCV.NXT, {place} the window, in {}",
                state.name()
            );
            let case = table.must("RFC 5961 §3.2", name, move |peer| {
                let mut connection = Connection::in_state(peer, state, ISS)?;
                let seq = connection.snd_nxt.wrapping_add(off as u32);
                let rst = connection.segment(RST).seq(seq);
                connection.send(&rst)?;
                if is_inside {
                    connection.expect_ack()?;
                }
                connection.expect_silence()?;
                still_there(&mut connection, state)
            });
            if off == -1 && matches!(state, State::Closing | State::CloseWait | State::LastAck) {
                case.departs(
                    Side::Linux,
                    "behind a FIN, a RST with the FIN's number is taken: some peers send it",
                );
            }
            if is_inside && state == State::TimeWait {
                case.departs(Side::Braidnet, KEPT);
                case.departs(
                    Side::Linux,
                    "a RST that is not exact is not answered in TIME-WAIT",
                );
            }
        }
    }
    table.class("challenge");
    for state in State::ALL
        .into_iter()
        .filter(|state| *state != State::TimeWait)
    {
        for off in [-1000, 0, 1, 100, 0x2000_0000] {
            let name = format!("a SYN {off} beside RCV.NXT in {}", state.name());
            let case = table.must("RFC 5961 §4.2", name, move |peer| {
                let mut connection = Connection::in_state(peer, state, ISS)?;
                let seq = connection.snd_nxt.wrapping_add_signed(off);
                let syn = connection.segment(SYN).seq(seq);
                connection.send(&syn)?;
                connection.expect_ack()?;
                connection.expect_silence()?;
                still_there(&mut connection, state)
            });
            if state == State::SynReceived && (0..1000).contains(&off) {
                case.level = Level::May;
                case.departs(
                    Side::Linux,
                    "a SYN in the window ends SYN-RECEIVED (RFC 9293 §3.10.7.4, fourth check)",
                );
            }
        }
    }
    established(table);
}

/// It is where it was.
fn still_there(connection: &mut Connection<'_>, state: State) -> crate::peer::Outcome {
    match state {
        State::SynReceived | State::Established => connection.echo(b"still there"),
        _ => connection.expect_alive(),
    }
}

/// Every combination of control bits on an open connection, at RCV.NXT and with an ACK of all.
fn established(table: &mut Table) {
    table.class("established");
    for flags in 0..64u8 {
        let name = format!("{} in ESTABLISHED", bits(flags));
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::in_state(peer, State::Established, ISS)?;
            let segment = connection
                .segment(flags)
                .urgent(u16::from(flags & URG != 0));
            connection.send(&segment)?;
            if flags & RST != 0 {
                connection.expect_gone()
            } else if flags & SYN != 0 {
                connection.expect_ack()?;
                connection.echo(b"still there")
            } else if flags & ACK == 0 {
                connection.expect_silence()?;
                connection.echo(b"still there")
            } else if flags & FIN != 0 {
                connection.snd_nxt = connection.snd_nxt.wrapping_add(1);
                connection.take_to_fin()?;
                connection.acknowledge()?;
                connection.expect_gone()
            } else {
                connection.expect_silence()?;
                connection.echo(b"still there")
            }
        });
    }
}
