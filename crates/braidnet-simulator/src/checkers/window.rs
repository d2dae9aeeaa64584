//! Nothing is sent outside the peer's window (RFC 9293 §3.8.6, §3.8.6.1).

use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Visit};
use braidnet::wire::tcp::{TcpFlags, TcpHeader};

/// The furthest right edge that the peer has announced, in places.
#[derive(Debug, Default)]
pub(crate) struct Account {
    edge: u32,
}

impl Account {
    pub(crate) fn edge(&self) -> u32 {
        self.edge
    }
}

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let Some((peer, syn)) = life.peer else {
        return Ok(());
    };
    for seen in visit.fed.iter().filter(|seen| seen.birth == peer) {
        if seen.has(TcpFlags::RST) {
            continue;
        }
        if !seen.has(TcpFlags::ACK) {
            // A SYN's window holds for what is answered before the handshake is over (RFC 7413 §4.2.2).
            let edge = 1 + u32::from(seen.header.window);
            let from_syn = seen.has(TcpFlags::SYN);
            life.window.edge = life.window.edge.max(if from_syn { edge } else { 0 });
            continue;
        }
        // RFC 7323 §2.2: the window of a SYN is never scaled.
        let scaled = life.agreed(TcpHeader::HAS_WINDOW_SCALE) && !seen.has(TcpFlags::SYN);
        let shift = if scaled { syn.window_scale.min(14) } else { 0 };
        let edge =
            (seen.header.ack - life.iss).wrapping_add(u32::from(seen.header.window) << shift);
        if seen.header.ack - life.iss < 1 << 30 {
            life.window.edge = life.window.edge.max(edge);
        }
    }
    for seen in visit.sent.iter().filter(|seen| seen.birth == life.id) {
        if seen.has(TcpFlags::SYN) || seen.has(TcpFlags::RST) || seen.octets() == 0 {
            continue;
        }
        let end = (seen.header.seq - life.iss) + seen.octets();
        let edge = life.window.edge;
        demand(end <= edge || seen.octets() == 1, Law::Window, || {
            format!(
                "{}: {} octets up to place {end}, the window ends at {edge}",
                visit.describe(),
                seen.octets()
            )
        })?;
    }
    Ok(())
}
