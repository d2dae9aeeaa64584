//! A sequence diagram: a column for each host, an arrow for each packet, a note for what happens on a host.
//!
//! Numbers are counted from each side's first SYN, as tcpdump does; an arrow stands where the packet left, and says when it arrived.

use crate::network::{Fate, Packet};
use crate::trace::{self, Entry, Happened};
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{TcpFlags, TcpHeader};
use std::collections::HashMap;
use std::fmt::Write;

/// Characters between two columns.
const WIDTH: usize = 46;
/// Characters in front of the first.
const MARGIN: usize = 14;

/// What became of packets, by number: when they arrived, and why they did not.
#[derive(Default)]
struct Fates {
    arrived: HashMap<u64, Vec<u64>>,
    lost: HashMap<u64, Fate>,
}

impl Fates {
    fn of(entries: &[Entry]) -> Fates {
        let mut fates = Fates::default();
        for entry in entries {
            match &entry.what {
                Happened::Arrived { packet, .. } => {
                    let times = fates.arrived.entry(packet.number).or_default();
                    times.push(entry.at);
                }
                Happened::Lost { packet, fate } => {
                    fates.lost.insert(packet.number, *fate);
                }
                _ => {}
            }
        }
        fates
    }

    /// What became of a packet that left then.
    fn tell(&self, packet: &Packet, left: u64) -> String {
        let millis = |at: &u64| {
            let micros = (at - left) / 1000;
            format!("+{}.{:03} ms", micros / 1000, micros % 1000)
        };
        match (
            self.arrived.get(&packet.number),
            self.lost.get(&packet.number),
        ) {
            (Some(times), _) => {
                let times: Vec<String> = times.iter().map(millis).collect();
                times.join(", again ")
            }
            (None, Some(fate)) => match fate {
                Fate::Dropped(dropped) => format!("{dropped:?}"),
                other => format!("{other:?}"),
            },
            (None, None) => "under way".to_owned(),
        }
    }

    fn arrives(&self, packet: &Packet) -> bool {
        self.arrived.contains_key(&packet.number)
    }
}

/// The entries as text, one column per host; only what is between `hosts` if there are any given.
pub(crate) fn text(entries: &[Entry], hosts: usize) -> String {
    let fates = Fates::of(entries);
    let mut origins = Origins::default();
    let mut out = String::new();
    let mut head = " ".repeat(MARGIN - 4);
    for host in 0..hosts {
        write!(head, "{:<WIDTH$}", format!("host {host}")).ok();
    }
    writeln!(out, "{}", head.trim_end()).ok();
    for entry in entries {
        let time = format!("{:>12}", trace::seconds(entry.at));
        match &entry.what {
            Happened::Sent { host, packet } => {
                let Some((to, label)) = origins.label(&packet.bytes) else {
                    let line = trace::line(&packet.bytes);
                    writeln!(out, "{time}  {}{line}", columns(*host, *host)).ok();
                    continue;
                };
                let fate = fates.tell(packet, entry.at);
                let arrow = arrow((*host, to, hosts), &label, fates.arrives(packet));
                writeln!(out, "{time}  {arrow}  {fate}").ok();
            }
            Happened::Note { host, text } => {
                writeln!(out, "{time}  {}* {text}", columns(*host, *host)).ok();
            }
            Happened::Headline(text) => {
                writeln!(out, "{time}  ==== {text}").ok();
            }
            Happened::Arrived { host, packet } if packet.birth == u32::MAX => {
                let label = origins.label(&packet.bytes).map(|(_, label)| label);
                let label = label.unwrap_or_default();
                writeln!(out, "{time}  {}<~ forged {label}", columns(*host, *host)).ok();
            }
            Happened::Arrived { .. } | Happened::Lost { .. } => {}
        }
    }
    out
}

/// The bars of the columns before one.
fn columns(before: usize, _: usize) -> String {
    let mut bars = String::new();
    for _ in 0..before {
        write!(bars, "{:<WIDTH$}", "|").ok();
    }
    bars
}

fn arrow((from, to, hosts): (usize, usize, usize), label: &str, arrives: bool) -> String {
    let (left, right) = (from.min(to), from.max(to));
    if left == right || right >= hosts {
        return format!("{}-> {label}", columns(from, from));
    }
    let width = (right - left) * WIDTH - 1;
    let body = format!(" {label} ");
    let dashes = width.saturating_sub(body.chars().count());
    let (before, after) = (dashes / 2, dashes - dashes / 2);
    let mut line = format!("{}{body}{}", "-".repeat(before), "-".repeat(after));
    let tip = match (arrives, from < to) {
        (true, true) => ">",
        (true, false) => "<",
        (false, _) => "x",
    };
    match from < to {
        true => {
            line.pop();
            line.push_str(tip);
        }
        false => line.replace_range(..1, tip),
    }
    let mut rest = String::new();
    for column in right..hosts {
        match column + 1 < hosts {
            true => write!(rest, "{:<WIDTH$}", "|").ok(),
            false => write!(rest, "|").ok(),
        };
    }
    format!("{}|{line}{rest}", columns(left, left))
}

/// The same for Mermaid, which draws it.
pub(crate) fn mermaid(entries: &[Entry], hosts: usize) -> String {
    let fates = Fates::of(entries);
    let mut origins = Origins::default();
    let mut out = String::from("sequenceDiagram\n");
    for host in 0..hosts {
        writeln!(out, "    participant h{host} as host {host}").ok();
    }
    for entry in entries {
        let time = trace::seconds(entry.at);
        match &entry.what {
            Happened::Sent { host, packet } => {
                let Some((to, label)) = origins.label(&packet.bytes) else {
                    continue;
                };
                let to = if to < hosts { to } else { *host };
                let tip = if fates.arrives(packet) { "->>" } else { "-x" };
                let fate = fates.tell(packet, entry.at);
                writeln!(out, "    h{host}{tip}h{to}: {time} {label} ({fate})").ok();
            }
            Happened::Note { host, text } => {
                writeln!(out, "    Note over h{host}: {time} {}", plain(text)).ok();
            }
            Happened::Headline(text) => {
                let last = hosts.saturating_sub(1);
                writeln!(out, "    Note over h0,h{last}: {time} {}", plain(text)).ok();
            }
            _ => {}
        }
    }
    out
}

/// Without what means something to Mermaid.
fn plain(text: &str) -> String {
    text.replace([';', '#', '\n'], " ")
}

/// Where each side's numbers begin.
#[derive(Default)]
struct Origins(HashMap<([u8; 4], u16, [u8; 4], u16), SeqNumber>);

impl Origins {
    /// Which host a segment is for, and what it says.
    fn label(&mut self, bytes: &[u8]) -> Option<(usize, String)> {
        let (tuple, header, len) = trace::parse(bytes)?;
        let (from, to) = (tuple.local.as_v4()?, tuple.remote.as_v4()?);
        let key = (from, tuple.local_port, to, tuple.remote_port);
        let back = (to, tuple.remote_port, from, tuple.local_port);
        if header.flags.contains(TcpFlags::SYN) {
            self.0.insert(key, header.seq);
        }
        let seq = header.seq - *self.0.entry(key).or_insert(header.seq);
        let ack = header.ack - *self.0.entry(back).or_insert(header.ack);
        let port = match tuple.local_port {
            crate::station::PORT => tuple.remote_port,
            port => port,
        };
        let host = match to {
            [10, 0, host, _] => usize::from(host),
            _ => usize::MAX,
        };
        Some((
            host,
            format!("{port}: {}", say(&header, (seq, ack), len as u32)),
        ))
    }
}

fn say(header: &TcpHeader, (seq, ack): (u32, u32), len: u32) -> String {
    let mut text = format!("[{}] {seq}", trace::flags(header));
    if len > 0 {
        write!(text, ":{}", seq.wrapping_add(len)).ok();
    }
    if header.flags.contains(TcpFlags::ACK) {
        write!(text, " ack {ack}").ok();
    }
    if !header.flags.contains(TcpFlags::RST) {
        write!(text, " win {}", header.window).ok();
    }
    for block in header.sack_blocks() {
        let place = |edge: SeqNumber| ack.wrapping_add(edge - header.ack);
        write!(text, " <{}:{}>", place(block.left), place(block.right)).ok();
    }
    text
}
