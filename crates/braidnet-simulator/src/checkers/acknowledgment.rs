//! ACKs never go back and acknowledge nothing that was not sent (RFC 9293 §3.4); they come at the latest with every second full-sized
//! segment and within half a second (§3.8.6.3, MUST-58 and SHLD-18, RFC 5681 §4.2), as far as `docs/rfc-departures.md` does not say
//! otherwise.

use crate::case::{HostCase, MILLISECOND, nanos};
use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Visit};
use braidnet::tcp::State;
use braidnet::wire::address::Tuple;
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{TcpFlags, TcpHeader};

/// The latest ACK, and since when more could have been acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Account {
    acked: Option<SeqNumber>,
    waits_since: Option<u64>,
}

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    for seen in visit.sent.iter().filter(|seen| seen.birth == life.id) {
        if !seen.has(TcpFlags::ACK) || seen.has(TcpFlags::RST) {
            continue;
        }
        let ack = seen.header.ack;
        let last = life.acknowledgment.acked.replace(ack);
        if last != Some(ack) {
            // What came beside what is acknowledged here begins to wait now.
            let since = life.acknowledgment.waits_since.take();
            in_time(since, visit.now, visit.host, || visit.describe())?;
        }
        demand(
            last.is_none_or(|last| ack.is_at_or_after(last)),
            Law::Acknowledgment,
            || format!("{}: ACK {ack:?} after {last:?}", visit.describe()),
        )?;
        let Some((peer, _)) = life.peer else { continue };
        let end = visit.ends.get(peer as usize);
        demand(
            peer == 0 || end.is_none_or(|end| ack.is_at_or_before(*end)),
            Law::Acknowledgment,
            || format!("{}: ACK {ack:?} of what ends at {end:?}", visit.describe()),
        )?;
    }
    waits(life, visit)
}

fn waits(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let account = &mut life.acknowledgment;
    let (Some(after), Some(acked)) = (visit.after, account.acked) else {
        account.waits_since = None;
        return Ok(());
    };
    let waiting = after.rcv_nxt - acked;
    if !after.state.is_synchronized() || after.state == State::Closed || waiting == 0 {
        let since = account.waits_since.take();
        return in_time(since, visit.now, visit.host, || visit.describe());
    }
    let since = *life.acknowledgment.waits_since.get_or_insert(visit.now);
    // What has come together is acknowledged together, and what is not read waits for who reads (docs/rfc-departures.md).
    let scales = life.agreed(TcpHeader::HAS_WINDOW_SCALE);
    let buffer = visit.host.engine.receive_buffer_bytes;
    let buffer = if scales { buffer } else { buffer.min(65_535) };
    let is_much_unread = after.unread_bytes > buffer / 4;
    let options = match life.agreed(TcpHeader::HAS_TIMESTAMPS) {
        true => 12,
        false => 0,
    };
    let account = &life.acknowledgment;
    let full = u32::from(life.syn_sent.mss).saturating_sub(options).max(1);
    demand(
        waiting < 2 * full || is_much_unread,
        Law::Acknowledgment,
        || {
            format!(
                "{}: {waiting} bytes wait for an ACK, a segment has {full}; {after:?}, {account:?}",
                visit.describe()
            )
        },
    )?;
    in_time(Some(since), visit.now, visit.host, || visit.describe())
}

fn in_time(since: Option<u64>, now: u64, host: &HostCase, who: impl FnOnce() -> String) -> Verdict {
    let most = nanos(host.engine.delayed_ack) + host.tardiness();
    let waited = since.map_or(0, |since| now - since);
    demand(
        waited <= most.min(500 * MILLISECOND),
        Law::Acknowledgment,
        || format!("{}: an ACK has waited for {waited} of {most} ns", who()),
    )
}

/// The same where nothing happens any more.
pub(crate) fn inspect(life: &Life, tuple: &Tuple, now: u64, host: &HostCase) -> Verdict {
    in_time(life.acknowledgment.waits_since, now, host, || {
        format!("{tuple:?} at {now} ns")
    })
}
