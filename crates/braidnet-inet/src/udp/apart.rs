//! Trains of datagrams, taken apart: each gets what they have in common.

use super::{Counted, Sealing, put_header};
use crate::notes::UdpFlow;
use crate::room;
use braidnet_message::Message;
use braidnet_stream::{Context, Trace};

/// Hands up the datagrams of a train whose header was taken off, in order.
///
/// The first stays where it is. The others lie in one buffer, and each is copied out of it: it may wait at its port, and would keep all of it; and whoever answers
/// finds room for headers in front.
pub(super) fn hand_up(mut train: Message, cx: &mut Context<'_>) {
    let each = train.segment_bytes() as usize;
    let (flow, bucket) = (train.note::<UdpFlow>(), train.bucket());
    cx.count(Counted::ReceivedInTrains.counter(), train.segments() as u64);
    let rest = train.take_continuation();
    train.clear_segmentation();
    cx.up(train);
    let Some(mut rest) = rest else { return };
    while rest.total_len() > 0 {
        let len = each.min(rest.total_len());
        let Some(mut datagram) = room::copy_off(&mut rest, len, cx.pool()) else {
            return lose(&rest, rest.total_len().div_ceil(each), cx);
        };
        datagram.set_bucket(bucket);
        datagram.set_note(flow);
        cx.up(datagram);
    }
}

/// Hands down the datagrams of a train, each of which lies in a block of its own ([`UdpFlow`]), in order, each with a header and a checksum of its own.
pub(super) fn hand_down(train: Message, cx: &mut Context<'_>) {
    hand_down_with(train, |datagram| Sealing::Here(datagram.total_sum()), cx);
}

/// The same where nobody makes checksums.
pub(super) fn hand_down_unsealed(train: Message, cx: &mut Context<'_>) {
    hand_down_with(train, |_| Sealing::Nobody, cx);
}

fn hand_down_with(train: Message, sealing: fn(&Message) -> Sealing, cx: &mut Context<'_>) {
    debug_assert_eq!(train.blocks().count(), train.segments(), "a block for each");
    let (flow, bucket) = (train.note::<UdpFlow>(), train.bucket());
    let mut left = Some(train);
    while let Some(mut datagram) = left {
        left = datagram.take_continuation();
        datagram.clear_segmentation();
        datagram.set_bucket(bucket);
        let sealing = sealing(&datagram);
        if put_header(&mut datagram, &flow, sealing, cx.pool()) {
            cx.down(datagram);
        } else {
            cx.drop(datagram, Counted::NoBuffer.counter());
        }
    }
}

/// There are no buffers for the last datagrams of a train.
#[cold]
fn lose(train: &Message, datagrams: usize, cx: &mut Context<'_>) {
    let reason = Counted::NoBuffer.counter();
    cx.count_dropped(Trace::of(train), reason, datagrams as u64);
}

#[cfg(test)]
mod tests;
