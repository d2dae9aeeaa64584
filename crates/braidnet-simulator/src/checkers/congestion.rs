//! No more is on the way than the congestion window allows, and that grows only by what is acknowledged.
//!
//! What is on the way is RFC 6675's pipe (§2, §4), what may be sent by it §5 rule C; how the window begins is RFC 6928 §2, how it
//! grows RFC 5681 §3.1 (with RFC 3465's count of bytes), what it may become again after a needless cut RFC 4015 §3.2.

use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Visit};
use braidnet::tcp::{CongestionControl, State, TcpInfo};
use braidnet::wire::tcp::TcpFlags;

/// How large the window ever was.
#[derive(Debug, Default)]
pub(crate) struct Account {
    largest: u32,
    /// One new segment has probed the tail beyond the window (RFC 8985 §7.3).
    probed: bool,
}

/// What begins a connection (RFC 6928 §2).
fn initial(smss: u32) -> u32 {
    (10 * smss).min((2 * smss).max(14_600))
}

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let (Some(before), Some(after)) = (visit.before, visit.after) else {
        return Ok(());
    };
    if !after.state.is_synchronized() || after.state == State::TimeWait {
        return Ok(());
    }
    grows(life, visit, (&before, &after))?;
    flies(life, visit, (&before, &after))
}

fn grows(life: &mut Life, visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> Verdict {
    // What leaves before the handshake is over is acknowledged with its end (RFC 7413 §4.2.2).
    let acked = match before.state.is_synchronized() || before.state == State::SynReceived {
        true => after.snd_una - before.snd_una,
        false => 0,
    };
    // An ACK may let it grow, then tell of a loss, and what was cut may come back.
    // RFC 4015 §3.2: after a timeout that came too early, what is outstanding counts, and what was acknowledged.
    let outstanding = before.snd_nxt - before.snd_una;
    let grown = before.cwnd.max(outstanding).saturating_add(acked);
    let known = life.congestion.largest.max(grown);
    let largest = known.max(initial(after.smss) + after.smss);
    // Only a model of the path may find at once that there is room for more.
    let follows_acks = visit.host.engine.congestion != CongestionControl::Bbr;
    let most = u64::from(largest) + u64::from(acked) + u64::from(after.smss);
    // RFC 5682 §2.1 step 2b: the first ACK after a timeout lets two new segments leave, beside all that was on its way then.
    let asks = if before.is_recovering() {
        2 * after.smss
    } else {
        0
    };
    let most = most.max(u64::from(outstanding) + u64::from(asks));
    demand(
        !follows_acks || u64::from(after.cwnd) <= most,
        Law::Congestion,
        || {
            format!(
                "{}: cwnd {} became {}, {acked} bytes were acknowledged and it was never above {largest}",
                visit.describe(),
                before.cwnd,
                after.cwnd
            )
        },
    )?;
    // Where the cut turns out to have been needless, the window is as if what was acknowledged meanwhile had let it grow.
    let meanwhile = if before.is_recovering() { acked } else { 0 };
    let known = life.congestion.largest.saturating_add(meanwhile).max(known);
    life.congestion.largest = known.max(after.cwnd);
    Ok(())
}

fn flies(life: &mut Life, visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> Verdict {
    let first_new = before.snd_nxt;
    let new = visit
        .sent
        .iter()
        .filter(|seen| seen.birth == life.id && seen.len > 1)
        .any(|seen| (seen.header.seq + seen.len).is_after(first_new));
    let fin = u32::from(visit.sent.iter().any(|seen| seen.has(TcpFlags::FIN)));
    // What an application asked for, or a timer, may have left before a segment that came in the same turn cut the window.
    let left_before = u64::from(before.pipe) + u64::from(after.snd_nxt - first_new);
    let was_free = visit.is_prompted && left_before <= u64::from(before.cwnd + fin);
    let within = after.pipe <= after.cwnd + fin || was_free;
    let probes = new && !within && after.probing_tail && !life.congestion.probed;
    life.congestion.probed = after.probing_tail && (life.congestion.probed || probes);
    demand(!new || within || probes, Law::Congestion, || {
        format!(
            "{}: {} octets are on their way, cwnd {}; {after:?}",
            visit.describe(),
            after.pipe,
            after.cwnd
        )
    })
}
