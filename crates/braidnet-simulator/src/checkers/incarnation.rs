//! What was sent in an earlier incarnation, or was forged by somebody who does not see the numbers, changes nothing where it lies
//! outside the window (RFC 9293 §3.4.1, §3.10.7.4 first check; RFC 5961 §3 to §5): it is answered, at most.

use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Seen, Visit};
use braidnet::tcp::{State, TcpInfo};
use braidnet::wire::tcp::TcpFlags;

/// How many segments lay in the window by chance.
pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Result<u64, crate::law::Violation> {
    let (Some(before), Some((peer, _))) = (visit.before, life.peer) else {
        return Ok(0);
    };
    let mut chances = 0;
    for seen in visit.fed.iter().filter(|seen| seen.birth != peer) {
        if !before.state.is_synchronized() {
            continue;
        }
        if could_pass(seen, &before) {
            life.is_tainted = true;
            chances += 1;
        } else if visit.causes == 1 {
            outside(visit, seen, &before)?;
        }
    }
    Ok(chances)
}

/// By its numbers it could belong to this incarnation.
fn could_pass(seen: &Seen, before: &TcpInfo) -> bool {
    let offset = seen.header.seq - before.rcv_nxt;
    let behind = before.rcv_nxt - seen.header.seq;
    let in_window = offset <= before.rcv_wnd || behind <= seen.octets();
    // In TIME-WAIT a SYN that looks new begins anew (RFC 9293 §3.6.1).
    let renews = seen.has(TcpFlags::SYN);
    in_window || renews
}

fn outside(visit: &Visit<'_>, seen: &Seen, before: &TcpInfo) -> Verdict {
    // TIME-WAIT ends by itself; that it does so in time is another law's.
    if before.state == State::TimeWait && visit.after.is_none() {
        return Ok(());
    }
    let same = visit.after.is_some_and(|after| {
        let position = |status: &TcpInfo| {
            (
                status.state,
                status.rcv_nxt,
                status.snd_una,
                status.out_of_order_bytes,
            )
        };
        position(&after) == position(before)
    });
    demand(same, Law::Incarnation, || {
        format!(
            "{}: {:?} of life {} has changed {before:?} to {:?}",
            visit.describe(),
            seen.header,
            seen.birth,
            visit.after
        )
    })
}
