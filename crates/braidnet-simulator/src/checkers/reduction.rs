//! What the network loses, or marks, cuts the window (RFC 5681 §3.1, §3.2, RFC 6675 §5, RFC 9438 §4.6, RFC 3168 §6.1.2, RFC 9768 §3.3).
//!
//! A model of the path takes what is lost for news of it, and cuts nothing at once but for a timeout; to it applies that alone.

use super::ecn;
use crate::law::{Law, Verdict, Violation, demand};
use crate::ledger::{Life, Seen, Visit};
use braidnet::tcp::{CongestionControl, State, TcpInfo};
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::TcpFlags;

/// What was cut last.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// SND.NXT then: until more is acknowledged, what is lost or marked is of the same congestion (RFC 3168 §6.1.2).
    until: Option<SeqNumber>,
    /// A mark has cut: when so much is acknowledged, the window is no larger than that.
    marked: Option<(SeqNumber, u32)>,
    /// The end of what was sent in segments longer than full ones: if only such a probe of the path is lost, nothing is cut (RFC 4821 §7.5).
    probed: Option<SeqNumber>,
}

/// Whether a mark was told of that had to cut the window.
pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Result<bool, Violation> {
    let (Some(before), Some(after)) = (visit.before, visit.after) else {
        return Ok(false);
    };
    let hears = ecn::hears(life, visit, (&before, &after));
    note_probes(life, visit, &after);
    if !before.state.is_synchronized()
        || !after.state.is_synchronized()
        || after.state == State::TimeWait
    {
        return Ok(false);
    }
    // Segments that become shorter are sent again, and nothing is lost (RFC 1191 §6.5).
    let must_cut = match before.smss == after.smss {
        true => cuts(life, visit, (&before, &after), hears)?,
        false => false,
    };
    let account = &mut life.reduction;
    if before.smss != after.smss || after.is_recovering() {
        account.marked = None;
    }
    let is_cut = after.cwnd < before.cwnd || after.ssthresh < before.ssthresh.min(before.cwnd);
    if is_cut || after.is_recovering() {
        account.until = Some(after.snd_nxt);
    }
    Ok(must_cut)
}

fn cuts(
    life: &mut Life,
    visit: &Visit<'_>,
    (before, after): (&TcpInfo, &TcpInfo),
    hears: bool,
) -> Result<bool, Violation> {
    times_out(visit, (before, after))?;
    if visit.host.engine.congestion == CongestionControl::Bbr {
        return Ok(false);
    }
    loses(life, visit, (before, after))?;
    heeds(life, visit, (before, after), hears)
}

fn note_probes(life: &mut Life, visit: &Visit<'_>, after: &TcpInfo) {
    let is_longer = |seen: &&Seen| seen.birth == life.id && seen.len > after.smss;
    let longest = visit.sent.iter().rfind(is_longer);
    let end = longest.map(|seen| seen.header.seq + seen.len);
    life.reduction.probed = end.or(life.reduction.probed);
}

/// A timeout leaves one segment (RFC 5681 §3.1).
fn times_out(visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> Verdict {
    let expired = after.rto > before.rto && visit.fed.is_empty() && after.snd_una == before.snd_una;
    let is_probe = before.snd_nxt == before.snd_una || after.snd_wnd == 0;
    demand(
        !expired || is_probe || after.cwnd <= after.smss,
        Law::Congestion,
        || {
            format!(
                "{}: cwnd is {} after a timeout; {after:?}",
                visit.describe(),
                after.cwnd
            )
        },
    )
}

/// The threshold that congestion leads to at most.
fn reduced(visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> u32 {
    // What left in the same turn may have left before.
    let flight = u64::from(after.snd_nxt - before.snd_una);
    let window = u64::from(before.cwnd) + u64::from(after.snd_una - before.snd_una);
    let tenths = match visit.host.engine.congestion {
        CongestionControl::Cubic => 7,
        _ => 5,
    };
    let part = flight.min(window) * tenths / 10;
    (part as u32).max(2 * after.smss)
}

/// Where something lost is to be repaired, the window is cut first.
fn loses(life: &mut Life, visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> Verdict {
    let account = &mut life.reduction;
    // What left into a window that has closed over it was thrown away, and is sent again (RFC 9293 §3.8.6.1).
    let is_shut = before.snd_wnd == 0 || after.snd_wnd == 0;
    let begins = !before.is_recovering() && after.is_recovering() && !is_shut;
    let is_probe = account
        .probed
        .is_some_and(|end| before.snd_una.is_before(end));
    // Marks and losses of one window are one sign.
    let is_cut = account
        .until
        .is_some_and(|until| after.snd_una.is_at_or_before(until));
    let most = reduced(visit, (before, after));
    let most = if is_cut {
        most.max(before.ssthresh)
    } else {
        most
    };
    demand(
        !begins || is_probe || after.ssthresh <= most,
        Law::Congestion,
        || {
            format!(
                "{}: something is lost, and ssthresh {} became {}, {most} at most; {after:?}",
                visit.describe(),
                before.ssthresh,
                after.ssthresh
            )
        },
    )
}

/// Who is told of a mark cuts its window, unless it has in this round trip, and when that is over the window is no larger.
fn heeds(
    life: &mut Life,
    visit: &Visit<'_>,
    (before, after): (&TcpInfo, &TcpInfo),
    hears: bool,
) -> Result<bool, Violation> {
    let is_tainted = life.is_tainted;
    let account = &mut life.reduction;
    account.until = account
        .until
        .filter(|until| after.snd_una.is_at_or_before(*until));
    let is_cut = account.until.is_some() || before.is_recovering() || after.is_recovering();
    let most = reduced(visit, (before, after));
    let must_cut = hears && !is_cut && !is_tainted;
    if must_cut {
        demand(after.ssthresh <= most, Law::Congestion, || {
            format!(
                "{}: it was told of a mark, and ssthresh {} became {}, {most} at most; {after:?}",
                visit.describe(),
                before.ssthresh,
                after.ssthresh
            )
        })?;
        account.marked = (!visit.is_prompted).then_some((before.snd_nxt, most));
    }
    let fins = visit.sent.iter().any(|seen| seen.has(TcpFlags::FIN));
    if let Some((end, most)) = account.marked.filter(|_| !after.is_recovering())
        && after.snd_una.is_at_or_after(end)
    {
        account.marked = None;
        let grown = after.snd_una - before.snd_una + after.smss + u32::from(fins);
        demand(
            after.cwnd <= most.saturating_add(grown),
            Law::Congestion,
            || {
                format!(
                    "{}: cwnd is {} a round trip after a mark that cut to {most}; {after:?}",
                    visit.describe(),
                    after.cwnd
                )
            },
        )?;
    }
    Ok(must_cut)
}
