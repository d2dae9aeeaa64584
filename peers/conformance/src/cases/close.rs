//! Closing (RFC 9293 §3.6, §3.10.7.4): FINs wherever they come, half closed connections, both sides at once, and what TIME-WAIT is for.

use std::time::Duration;

use super::NUMBERS;
use crate::case::Table;
use crate::connection::{Connection, Open, State};
use crate::packet::{ACK, FIN, SYN, option};
use crate::peer::{DAYTIME, ECHO, Failure, Outcome};

pub fn add(table: &mut Table) {
    table.class("close");
    for iss in NUMBERS {
        for octets in [0u32, 1, 100, 1460] {
            let name =
                format!("a FIN with {octets} octets: they come back, then a FIN, peer at {iss:#x}");
            table.must("RFC 9293 §3.10.7.4, eighth", name, move |peer| {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                let last = connection
                    .segment(ACK | FIN)
                    .text(vec![b'f'; octets as usize]);
                connection.send(&last)?;
                connection.snd_nxt = connection.snd_nxt.wrapping_add(octets + 1);
                let came = connection.take_to_fin()?;
                if came != vec![b'f'; octets as usize] {
                    return Err(Failure::new(
                        "the octets that were sent",
                        format!("{} octets", came.len()),
                    ));
                }
                connection.acknowledge()?;
                connection.expect_gone()
            });
        }
        let name = format!("a FIN behind a gap is taken when that is filled, peer at {iss:#x}");
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
            let fin = connection
                .segment(ACK | FIN)
                .seq(connection.snd_nxt.wrapping_add(50));
            connection.send(&fin)?;
            connection.expect_ack()?;
            let gap = connection.segment(ACK).text(vec![b'g'; 50]);
            connection.send(&gap)?;
            connection.snd_nxt = connection.snd_nxt.wrapping_add(51);
            let came = connection.take_to_fin()?;
            if came.len() != 50 {
                return Err(Failure::new("50 octets", format!("{}", came.len())));
            }
            Ok(())
        });
        let name = format!(
            "a connection that both have closed is over with the last ACK, peer at {iss:#x}"
        );
        table.must("RFC 9293 §3.10.7.4, fifth", name, move |peer| {
            let mut connection = Connection::in_state(peer, State::LastAck, iss)?;
            connection.acknowledge()?;
            connection.expect_gone()
        });
        let name = format!("both sides close at once, peer at {iss:#x}");
        table.must("RFC 9293 §3.6, case 3", name, move |peer| {
            let mut connection = Connection::in_state(peer, State::Closing, iss)?;
            connection.acknowledge()?;
            connection.expect_silence()?;
            connection.expect_alive()
        });
    }
    for state in [
        State::Closing,
        State::TimeWait,
        State::CloseWait,
        State::LastAck,
    ] {
        let name = format!(
            "a FIN that comes again in {} is acknowledged again",
            state.name()
        );
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::in_state(peer, state, 0xffff_fffa)?;
            let again = connection
                .segment(ACK | FIN)
                .seq(connection.snd_nxt.wrapping_sub(1));
            connection.send(&again)?;
            connection.expect_ack().map(drop)
        });
        for octets in [1usize, 1000] {
            let name = format!(
                "{octets} octets behind a FIN are not taken in {}",
                state.name()
            );
            table.must("RFC 9293 §3.10.7.4, seventh", name, move |peer| {
                let mut connection = Connection::in_state(peer, state, 0xffff_fffa)?;
                let behind = connection.segment(ACK).text(vec![b'!'; octets]);
                connection.send(&behind)?;
                none_acknowledged(&mut connection)
            });
        }
    }
    half_closed(table);
    time_wait(table);
}

/// Nothing that comes acknowledges more than our FIN.
fn none_acknowledged(connection: &mut Connection<'_>) -> Outcome {
    connection.peer.settle()?;
    while let Some((_, seen)) = connection.peer.next(Duration::ZERO) {
        let beyond = |ack: u32| ack.wrapping_sub(connection.snd_nxt) as i32 > 0;
        if seen
            .tcp()
            .is_some_and(|s| s.flags & ACK != 0 && beyond(s.ack))
        {
            return Err(Failure::new("no acknowledgment of it", seen.to_string()));
        }
    }
    Ok(())
}

/// One direction is closed, the other goes on.
fn half_closed(table: &mut Table) {
    for state in [State::FinWait1, State::FinWait2] {
        for octets in [1usize, 536, 1460] {
            let name = format!("{octets} octets are still taken in {}", state.name());
            table.must("RFC 9293 §3.6, §3.10.7.4, seventh", name, move |peer| {
                let mut connection = Connection::in_state(peer, state, 0xffff_fff0)?;
                for _ in 0..3 {
                    connection.send_text(&vec![b'h'; octets])?;
                    connection.expect_ack()?;
                }
                Ok(())
            });
        }
        let name = format!("a FIN with text in {} is acknowledged whole", state.name());
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::in_state(peer, state, 0xffff_fff0)?;
            let last = connection.segment(ACK | FIN).text(b"the last".to_vec());
            connection.send(&last)?;
            connection.snd_nxt = connection.snd_nxt.wrapping_add(9);
            connection.expect_ack().map(drop)
        });
        let name = format!(
            "a FIN behind a gap in {} is taken when that is filled",
            state.name()
        );
        table.must("RFC 9293 §3.10.7.4", name, move |peer| {
            let mut connection = Connection::in_state(peer, state, 0xffff_fff0)?;
            let fin = connection
                .segment(ACK | FIN)
                .seq(connection.snd_nxt.wrapping_add(5));
            connection.send(&fin)?;
            connection.expect_ack()?;
            let gap = connection.segment(ACK).text(b"a gap".to_vec());
            connection.send(&gap)?;
            connection.snd_nxt = connection.snd_nxt.wrapping_add(6);
            connection.expect_ack().map(drop)
        });
    }
    table.must(
        "RFC 9293 §3.10.7.4, fifth",
        "one segment acknowledges a FIN and has the other",
        |peer| {
            let mut connection = Connection::in_state(peer, State::FinWait1, 9)?;
            connection.acked = connection.rcv_nxt;
            connection.send_fin()?;
            connection.expect_ack()?;
            connection.expect_alive()
        },
    );
    table.must(
        "RFC 9293 §3.6",
        "who has closed is sent all that was waiting, and more",
        |peer| {
            let mut connection = Connection::in_state(peer, State::CloseWait, 9)?;
            connection.acknowledge()?;
            connection.take_octets(1000).map(drop)
        },
    );
}

/// A connection that was, and one that begins with the same addresses and ports.
fn time_wait(table: &mut Table) {
    for (above, opens) in [
        (1u32, true),
        (1000, true),
        (0x1000_0000, true),
        (0u32.wrapping_sub(1000), false),
        (0x9000_0000, false),
    ] {
        let name = format!(
            "a SYN {} RCV.NXT in TIME-WAIT {}",
            if opens { "above" } else { "below" },
            if opens {
                format!("opens: {above}")
            } else {
                format!("does not open: {above:#x}")
            }
        );
        table.should("RFC 9293 §3.6.1, MAY-2", name, move |peer| {
            let mut connection = Connection::in_state(peer, State::TimeWait, 0xffff_ff00)?;
            let old = connection.rcv_nxt;
            let seq = connection.snd_nxt.wrapping_add(above);
            let syn = connection.segment(SYN).seq(seq).options(option::mss(1460));
            connection.send(&syn)?;
            if !opens {
                return connection.expect_ack().map(drop);
            }
            let ack = seq.wrapping_add(1);
            let what = format!("a SYN-ACK that acknowledges {ack}, its number above {old}");
            let is_above = |seq: u32| seq.wrapping_sub(old) as i32 > 0;
            connection
                .expect(&what, SYN | ACK, |s| s.ack == ack && is_above(s.seq))
                .map(drop)
        });
    }
    for (what, value, opens) in [("later", 5000u32, true), ("earlier", 100, false)] {
        let name =
            format!("a SYN with the old number and a timestamp that is {what}, in TIME-WAIT");
        table.should("RFC 6191 §2", name, move |peer| {
            let mut connection = Connection::open(peer, &Open::to(DAYTIME).timestamps(2000))?;
            connection.take_to_fin()?;
            connection.acknowledge()?;
            connection.send_fin()?;
            connection.expect_ack()?;
            let seq = connection.snd_nxt.wrapping_sub(10);
            let options = [option::mss(1460), option::timestamps(value, 0)].concat();
            let syn = connection.segment(SYN).seq(seq).options(options);
            connection.send(&syn)?;
            if !opens {
                return connection.expect_ack().map(drop);
            }
            let ack = seq.wrapping_add(1);
            let what = format!("a SYN-ACK that acknowledges {ack}");
            connection
                .expect(&what, SYN | ACK, |s| s.ack == ack)
                .map(drop)
        });
    }
}
