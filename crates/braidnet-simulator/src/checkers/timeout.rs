//! The retransmission timeout (RFC 6298): its value from the round trip (§2), its doubling (§5.5), that it does not come before its
//! time (§5.1 to §5.3), and what it sends (§5.4); for SYNs as seen on the wire.

use crate::case::nanos;
use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Visit};
use braidnet::Instant;
use braidnet::tcp::{Config, TcpInfo};
use braidnet::wire::tcp::TcpFlags;

/// From when on a timeout counts, and the SYNs.
#[derive(Debug, Default)]
pub(crate) struct Account {
    since: Option<Instant>,
    syns: u32,
    last_syn: Option<Instant>,
    /// SYNs that the timer has sent again.
    expiries: u32,
    /// One of them was perhaps sent for another reason.
    is_unsure: bool,
}

/// A life that has not been seen before may have data on its way already, which it was opened with (RFC 7413 §4.2.2).
pub(crate) fn begin(life: &mut Life, visit: &Visit<'_>) {
    life.timeout.since = Some(visit.clock);
}

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let (Some(before), Some(after)) = (visit.before, visit.after) else {
        return Ok(());
    };
    value(visit, &after)?;
    let is_synchronized = before.state.is_synchronized() && after.state.is_synchronized();
    if !is_synchronized {
        life.timeout.since = Some(visit.clock);
        return Ok(());
    }
    let flight = |status: &TcpInfo| status.snd_nxt - status.snd_una;
    let expired = after.rto > before.rto && visit.fed.is_empty() && after.snd_una == before.snd_una;
    if expired {
        doubles(visit, (&before, &after))?;
        let since = life.timeout.since.unwrap_or(visit.clock);
        let waited = visit.clock.since(since);
        demand(
            flight(&before) == 0 || waited >= before.rto,
            Law::Timeout,
            || {
                format!(
                    "{}: a timeout after {waited:?}, RTO {:?}",
                    visit.describe(),
                    before.rto
                )
            },
        )?;
        repeats_the_oldest(life, visit, (&before, &after))?;
    }
    let restarts = after.snd_una != before.snd_una || flight(&before) == 0;
    if expired || restarts {
        life.timeout.since = Some(visit.clock);
    }
    Ok(())
}

/// RTO <- SRTT + max (G, 4 RTTVAR) (§2.2, §2.3), in its bounds (§2.4, §2.5), doubled some times.
fn value(visit: &Visit<'_>, after: &TcpInfo) -> Verdict {
    let engine = &visit.host.engine;
    let (least, most) = bounds(engine);
    let rto = nanos(after.rto);
    let holds = match nanos(after.srtt) {
        // Before the first measurement: what it begins with (§2.1), or three seconds after a lost SYN (§5.7).
        0 => [nanos(engine.initial_rto), 3_000_000_000]
            .into_iter()
            .any(|start| is_doubled(start.clamp(least, most), rto, most)),
        srtt => {
            let variance = (4 * nanos(after.rttvar)).max(nanos(engine.clock_granularity));
            is_doubled((srtt + variance).clamp(least, most), rto, most)
        }
    };
    demand(holds, Law::Timeout, || {
        format!(
            "{}: RTO {:?} with SRTT {:?}, RTTVAR {:?}",
            visit.describe(),
            after.rto,
            after.srtt,
            after.rttvar
        )
    })
}

fn bounds(engine: &Config) -> (u64, u64) {
    let least = nanos(engine.min_rto).max(1_000_000);
    (least, nanos(engine.max_rto).max(least))
}

fn is_doubled(start: u64, rto: u64, most: u64) -> bool {
    let mut value = start;
    while value < rto && value < most {
        value = (2 * value).min(most);
    }
    value == rto
}

fn doubles(visit: &Visit<'_>, (before, after): (&TcpInfo, &TcpInfo)) -> Verdict {
    let (_, most) = bounds(&visit.host.engine);
    let expected = (2 * nanos(before.rto)).min(most);
    demand(nanos(after.rto) == expected, Law::Timeout, || {
        format!(
            "{}: RTO {:?} became {:?}",
            visit.describe(),
            before.rto,
            after.rto
        )
    })
}

/// §5.4: the earliest segment that has not been acknowledged.
fn repeats_the_oldest(
    life: &Life,
    visit: &Visit<'_>,
    (before, after): (&TcpInfo, &TcpInfo),
) -> Verdict {
    let mut sent = visit.sent.iter().filter(|seen| seen.birth == life.id);
    let is_oldest = |seq| seq == before.snd_una;
    let repeats = sent.any(|seen| is_oldest(seen.header.seq) && seen.octets() > 0);
    // What is held back by a window that the peer has closed is probed for instead.
    let may = before.snd_nxt != before.snd_una && after.snd_wnd > 0;
    demand(repeats || !may, Law::Timeout, || {
        format!(
            "{}: a timeout that repeats nothing; {after:?}",
            visit.describe()
        )
    })
}

/// SYNs and SYN-ACKs are sent again by the same rule (§2.1, §5.5).
pub(crate) fn handshake(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let mut syns = visit.sent.iter().filter(|seen| seen.birth == life.id);
    if !syns.any(|seen| seen.has(TcpFlags::SYN)) {
        return Ok(());
    }
    let account = &mut life.timeout;
    account.syns += 1;
    let last = account.last_syn.replace(visit.clock);
    // It may answer the other side's SYN, which came once more.
    account.is_unsure |= account.syns > 1 && !visit.fed.is_empty();
    if account.syns == 1 || account.is_unsure {
        return Ok(());
    }
    let (least, most) = bounds(&visit.host.engine);
    let start = nanos(visit.host.engine.initial_rto).clamp(least, most);
    let expected = start
        .saturating_mul(1 << account.expiries.min(30))
        .min(most);
    account.expiries += 1;
    let waited = last.map_or(0, |last| nanos(visit.clock.since(last)));
    demand(waited >= expected, Law::Timeout, || {
        format!(
            "{}: a SYN again after {waited} ns, RTO {expected} ns",
            visit.describe()
        )
    })?;
    let late = visit.host.tardiness();
    demand(waited <= expected + late, Law::Timeout, || {
        format!(
            "{}: a SYN again only after {waited} ns, RTO {expected} ns",
            visit.describe()
        )
    })
}
