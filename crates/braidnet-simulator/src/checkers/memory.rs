//! What a connection keeps stays within what was set: buffers, segments out of order, pieces in flight.

use crate::case::{largest_receive_buffer, largest_send_buffer};
use crate::law::{Law, Verdict, demand};
use crate::ledger::Visit;
use braidnet::tcp::State;

pub(crate) fn check(visit: &Visit<'_>) -> Verdict {
    let Some(after) = visit.after else {
        return Ok(());
    };
    if after.state == State::Closed {
        return Ok(());
    }
    let engine = &visit.host.engine;
    let room = largest_receive_buffer(engine);
    let within = |what: &str, is: u64, most: u64| {
        demand(is <= most, Law::Memory, || {
            format!(
                "{}: {is} {what}, at most {most}; {after:?}",
                visit.describe()
            )
        })
    };
    let held = match after.out_of_order_bytes {
        0 => 0,
        bytes => u64::from(bytes) + u64::from(after.unread_bytes),
    };
    within("bytes received", held, u64::from(room))?;
    within(
        "segments out of order",
        after.out_of_order_segments.into(),
        engine.reassembly_segments.into(),
    )?;
    within(
        "pieces in flight",
        after.flight_pieces.into(),
        u64::from(engine.flight_pieces.max(8)),
    )?;
    // SYN and FIN take sequence numbers and no room.
    let queued = u64::from(after.snd_nxt - after.snd_una) + u64::from(after.unsent_bytes);
    let most = u64::from(largest_send_buffer(engine)) + 2;
    within("bytes to send", queued, most)
}
