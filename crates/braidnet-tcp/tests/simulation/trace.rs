//! What happened, for a person who replays one seed.

use braidnet_tcp::{Events, TcpInfo, Transmit};
use braidnet_wire::tcp::TcpFlags;

/// Prints to standard output, or nothing.
pub struct Trace {
    pub on: bool,
}

impl Trace {
    pub fn segment(&mut self, now: u64, from: usize, transmit: &Transmit, status: &TcpInfo) {
        if !self.on {
            return;
        }
        let header = &transmit.header;
        let letters: String = [
            (TcpFlags::SYN, 'S'),
            (TcpFlags::FIN, 'F'),
            (TcpFlags::RST, 'R'),
            (TcpFlags::PSH, 'P'),
            (TcpFlags::ACK, '.'),
        ]
        .into_iter()
        .filter_map(|(flag, letter)| header.flags.contains(flag).then_some(letter))
        .collect();
        let sack: Vec<_> = header
            .sack_blocks()
            .iter()
            .map(|block| (block.left.value(), block.right.value()))
            .collect();
        println!(
            "{} host {from} {letters:5} seq {} len {} ack {} wnd {}{}{} | {} cwnd {} pipe {} snd_wnd {}",
            seconds(now),
            header.seq.value(),
            transmit.len,
            header.ack.value(),
            header.window,
            if sack.is_empty() {
                String::new()
            } else {
                format!(" sack {sack:?}")
            },
            if transmit.retransmission {
                " again"
            } else {
                ""
            },
            status.state,
            status.cwnd,
            status.pipe,
            status.snd_wnd,
        );
    }

    pub fn timer(&mut self, now: u64, at: usize, events: Events) {
        if self.on {
            println!("{} host {at} timer {events:?}", seconds(now));
        }
    }

    pub fn call(&mut self, now: u64, at: usize, call: &str, bytes: u64) {
        if self.on {
            println!("{} host {at} {call} {bytes}", seconds(now));
        }
    }

    pub fn arrival(&mut self, now: u64, to: usize, bytes: usize) {
        if self.on {
            println!("{} host {to} gets {bytes} bytes", seconds(now));
        }
    }
}

fn seconds(now: u64) -> String {
    format!("{:>5}.{:09}", now / 1_000_000_000, now % 1_000_000_000)
}
