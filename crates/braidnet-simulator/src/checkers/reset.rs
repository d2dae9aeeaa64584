//! A connection that has been reset is gone: nothing is sent on it any more (RFC 9293 §3.5.2, §3.10.7.4).

use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Seen, Visit};
use braidnet::wire::tcp::TcpFlags;

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let is_gone = visit.before.is_some() && visit.after.is_none();
    let peer = life.peer.map(|(peer, _)| peer);
    let ends = |seen: &Seen| seen.has(TcpFlags::RST) && Some(seen.birth) == peer;
    for seen in visit.sent.iter().filter(|seen| seen.birth == life.id) {
        let is_reset = seen.has(TcpFlags::RST);
        demand(!life.is_reset || is_reset, Law::Reset, || {
            format!("{}: {:?} after a RST", visit.describe(), seen.header)
        })?;
        life.is_reset |= is_reset && is_gone;
    }
    // What a timer has sent may have left before it came.
    life.is_reset |= is_gone && visit.fed.iter().any(ends);
    Ok(())
}
